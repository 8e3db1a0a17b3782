/* Tables that an older program has made, in a real database; test/lib/databases.py says in
 * which. */
#include "store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROGRAMS = 8, STATEMENT_MAX = 1024 };

static struct rota_sql *sql;

/* The tables of version 1, as they were made by what was released with it. NAME, LONG, ID
 * and END are what the dialects have for them. */
static const char *const version_1[] = {
    "CREATE TABLE rota_leases (space NAME, dc NAME, shard INT8, shards INT8, host NAME, "
    "instance INT8, epoch INT8, locked_at INT8, last_ping INT8, ttl_ms INT8, pings INT8, "
    "PRIMARY KEY (space, dc, shard))END",
    "CREATE TABLE rota_dcs (space NAME, dc NAME, shards INT8, PRIMARY KEY (space, dc))END",
    "CREATE TABLE rota_holds (space NAME, hold_until INT8, PRIMARY KEY (space))END",
    "CREATE TABLE rota_history (id ID, space NAME, dc NAME, shard INT8, host NAME, epoch INT8, "
    "is_release INT8, at INT8)END",
    "CREATE INDEX rota_history_order ON rota_history (space, id)",
    "CREATE TABLE rota_members (address NAME, roles LONG, zone NAME, weight INT8, state INT8, "
    "start_at INT8, stop_at INT8, ttl_ms INT8, heartbeat INT8, PRIMARY KEY (address))END",
    "CREATE TABLE rota_spaces (name NAME, engine NAME, config LONG, version INT8, "
    "PRIMARY KEY (name))END",
    "CREATE TABLE rota_schema (id BIGINT NOT NULL PRIMARY KEY, version BIGINT NOT NULL)END",
    "INSERT INTO rota_schema (id, version) VALUES (1, 1)",

    "INSERT INTO rota_leases VALUES ('cache', 'east', 0, 2, 'a', 7, 1800000000000, 1, "
    "1800000000000000, 10000, 5), ('cache', 'east', 1, 2, 'b', 0, 1800000000001, 1, "
    "1800000000000000, 10000, 6)",
    "INSERT INTO rota_dcs VALUES ('cache', 'east', 2)",
    "INSERT INTO rota_holds VALUES ('other', 12345)",
    "INSERT INTO rota_history (space, dc, shard, host, epoch, is_release, at) VALUES "
    "('cache', 'east', 0, 'a', 1800000000000, 0, 1800000000000000)",
    "INSERT INTO rota_members VALUES ('a:1', 'cache', 'east', 2500, 1, 0, 0, 10000, 77)",
    "INSERT INTO rota_spaces VALUES ('cache', 'lease', 'ttl = 10', 3)",
};

static const struct word {
    const char *name, *texts[3]; /* in the order of enum rota_sql_kind */
} words[] = {
    {"NAME",
     {"TEXT NOT NULL", "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
      "TEXT COLLATE \"C\" NOT NULL"}},
    {"LONG",
     {"TEXT NOT NULL", "MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
      "TEXT NOT NULL"}},
    {"INT8", {"BIGINT NOT NULL", "BIGINT NOT NULL", "BIGINT NOT NULL"}},
    {"ID",
     {"INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
      "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"}},
    {"END", {"", " ENGINE = InnoDB", ""}},
};

/* Copy `text` for this database. */
static void translate(const char *text, char made[STATEMENT_MAX])
{
    struct rota_buffer buffer = {0};
    enum rota_sql_kind kind = rota_sql_kind(sql);
    while (*text) {
        const struct word *found = NULL;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strncmp(text, words[i].name, strlen(words[i].name)) == 0)
                found = &words[i];
        if (found)
            rota_buffer_append_text(&buffer, found->texts[kind]);
        else
            rota_buffer_append_char(&buffer, *text);
        text += found ? strlen(found->name) : 1;
    }
    assert_in_range(buffer.size, 1, STATEMENT_MAX - 1);
    memcpy(made, buffer.data, buffer.size + 1);
    rota_buffer_deinit(&buffer);
}

static int set_up(void **state)
{
    static const char *const tables[] = {
        "rota_leases",  "rota_dcs",     "rota_holds",       "rota_history",
        "rota_members", "rota_spaces",  "rota_jobs",        "rota_partitions",
        "rota_queues",  "rota_weights", "rota_space_nodes", "rota_lives",
        "rota_layouts", "rota_secrets", "rota_schema",      "rota_queue_settings"};
    struct rota_sql_url url = database_url(false);
    char text[STATEMENT_MAX];
    (void)state;
    assert_int_equal(rota_sql_open(&url, NULL, &sql, NULL), ROTA_OK);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(text, sizeof text, "DROP TABLE IF EXISTS %s", tables[i]);
        store_sql(sql, text);
    }
    for (size_t i = 0; i < sizeof version_1 / sizeof *version_1; i++) {
        translate(version_1[i], text);
        store_sql(sql, text);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_sql_close(sql);
    return 0;
}

static void check_version(void)
{
    assert_int_equal(store_sql(sql, "SELECT version FROM rota_schema"), ROTA_STORE_SCHEMA_VERSION);
    assert_int_equal(store_sql(sql, "SELECT COUNT(*) FROM rota_schema"), 1);
}

static void check_rows(struct rota_store_session *session)
{
    struct rota_store_answer answer = {0};
    struct rota_store_request request = store_request(ROTA_STORE_LEASES);
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_leases, 2);
    assert_int_equal(answer.leases[0].epoch, 1800000000000);
    assert_int_equal(answer.leases[0].instance, 7);
    assert_int_equal(answer.leases[1].pings, 6);
    request.verb = ROTA_STORE_DCS;
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_dcs, 1);
    assert_int_equal(answer.dcs[0].shards, 2);
    request.verb = ROTA_STORE_HISTORY;
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_history, 1);
    assert_int_equal(answer.history[0].epoch, 1800000000000);
    assert_int_equal(answer.history[0].shards, 0); /* nobody wrote that down */
    request.verb = ROTA_STORE_MEMBERS;
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_members, 1);
    assert_int_equal(answer.members[0].state, ROTA_STORE_MEMBER_DRAINING);
    assert_int_equal(answer.members[0].name.size, 0); /* its address is its name */
    request.verb = ROTA_STORE_SPACES;
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_spaces, 1);
    assert_int_equal(answer.spaces[0].version, 3);
    assert_int_equal(store_sql(sql, "SELECT hold_until FROM rota_holds"), 12345);
    rota_store_session_answer_deinit(&answer);
}

static void older_tables_are_brought_up_to_date_and_keep_their_rows(void **state)
{
    struct rota_store_answer answer = {0};
    (void)state;
    struct rota_store_session *session = store_open();
    check_version();
    check_rows(session);
    assert_int_equal(rota_store_session_upgraded_from(session), 1);

    /* Whoever held something continues, and what is new is used. */
    assert_true(store_ping(session, 7, (struct rota_store_claimed){.epoch = 1800000000000}));
    struct rota_store_request claim = store_claim_of("c", 9, 2);
    assert_int_equal(store_claim(session, &claim).shard, 1);
    struct rota_store_request history = store_request(ROTA_STORE_HISTORY);
    store_must(session, &history, &answer);
    assert_int_equal(answer.n_history, 2);
    assert_int_equal(answer.history[0].shards, 2);
    rota_store_session_answer_deinit(&answer);
    rota_store_session_close(session);
}

struct program {
    pthread_t thread;
    pthread_barrier_t *start;
    enum rota_code code;
    struct rota_error error;
};

/* No assertions here: those are for the main thread. */
static void *run_program(void *data)
{
    struct program *program = data;
    struct rota_sql_url url;
    struct rota_sql_options options = {.connect_timeout = ROTA_MIN, .statement_timeout = ROTA_MIN};
    struct rota_store_session *session = NULL;
    rota_sql_url_parse(rota_str(getenv("ROTA_TEST_URL")), &url, NULL);
    pthread_barrier_wait(program->start);
    program->code = rota_store_session_open(&url, &options, &session, &program->error);
    rota_store_session_close(session);
    return NULL;
}

static void many_that_start_at_once_change_the_tables_once(void **state)
{
    struct program programs[N_PROGRAMS] = {0};
    pthread_barrier_t start;
    (void)state;
    pthread_barrier_init(&start, NULL, N_PROGRAMS);
    for (size_t i = 0; i < N_PROGRAMS; i++) {
        programs[i].start = &start;
        assert_int_equal(pthread_create(&programs[i].thread, NULL, run_program, &programs[i]), 0);
    }
    for (size_t i = 0; i < N_PROGRAMS; i++)
        pthread_join(programs[i].thread, NULL);
    pthread_barrier_destroy(&start);
    for (size_t i = 0; i < N_PROGRAMS; i++)
        if (programs[i].code)
            fail_msg("program %zu: %s", i, programs[i].error.text);
    check_version();
    struct rota_store_session *session = store_open();
    check_rows(session);
    assert_int_equal(rota_store_session_upgraded_from(session), 0);
    rota_store_session_close(session);
}

/* What docs/store.md has for those who may not let Rota do it. */
static void upgrade_as_text_does_the_same(void **state)
{
    struct rota_buffer text = {0};
    (void)state;
    rota_store_schema_format_upgrade(rota_sql_kind(sql), 1, &text);
    assert_false(text.failed);
    for (char *rest = text.data, *statement; (statement = strsep(&rest, ";"));)
        if (statement[strspn(statement, " \n")] != '\0')
            store_sql(sql, statement);
    rota_buffer_deinit(&text);
    check_version();
    struct rota_store_session *session = store_open();
    check_rows(session);
    rota_store_session_close(session);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(older_tables_are_brought_up_to_date_and_keep_their_rows),
        TEST(many_that_start_at_once_change_the_tables_once),
        TEST(upgrade_as_text_does_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
