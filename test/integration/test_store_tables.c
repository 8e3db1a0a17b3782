/* Members, spaces, foreign tables and the schema in a real database;
 * test/lib/databases.py says in which. */
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rota_store_session *session;
static struct rota_store_answer answer;

static int set_up(void **state)
{
    (void)state;
    store_clear();
    session = store_open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_store_session_answer_deinit(&answer);
    rota_store_session_close(session);
    return 0;
}

static bool is(struct rota_str str, const char *text)
{
    return rota_str_is_equal(str, rota_str(text));
}

/* --- members --- */

static void beat_of(const char *address, const char *zone, uint32_t weight)
{
    struct rota_store_request beat = store_request(ROTA_STORE_BEAT);
    beat.member = (struct rota_store_member){
        .address = rota_str(address),
        .roles = rota_str("cache broker"),
        .zone = rota_str(zone),
        .weight = weight,
        .start_at = 1700000000 * ROTA_SEC,
        .ttl = TTL,
    };
    store_must(session, &beat, &answer);
}

static void heartbeat_keeps_the_operators_setting(void **state)
{
    struct rota_store_request list = store_request(ROTA_STORE_MEMBERS),
                              drain = store_request(ROTA_STORE_MEMBER_STATE);
    (void)state;
    beat_of("b:1", "", 0);
    beat_of("a:1", "east", 2500);
    drain.member.address = rota_str("b:1");
    drain.member.state = ROTA_STORE_MEMBER_DRAINING;
    store_must(session, &drain, &answer);
    assert_true(answer.is_done);
    store_must(session, &drain, &answer);
    assert_true(answer.is_done); /* the same again is no other thing */

    store_must(session, &list, &answer);
    rota_time first = answer.members[1].heartbeat;
    beat_of("b:1", "west", 0);
    store_must(session, &list, &answer);
    assert_int_equal(answer.n_members, 2);
    assert_true(is(answer.members[0].address, "a:1"));
    assert_int_equal(answer.members[0].weight, 2500);
    assert_int_equal(answer.members[0].state, ROTA_STORE_MEMBER_IN);
    assert_true(is(answer.members[1].address, "b:1"));
    assert_true(is(answer.members[1].zone, "west"));
    assert_true(is(answer.members[1].roles, "cache broker"));
    assert_int_equal(answer.members[1].weight, 1000);
    assert_int_equal(answer.members[1].state, ROTA_STORE_MEMBER_DRAINING);
    assert_int_equal(answer.members[1].start_at, 1700000000 * ROTA_SEC);
    assert_int_equal(answer.members[1].stop_at, 0);
    assert_int_equal(answer.members[1].ttl, TTL);
    assert_true(answer.members[1].heartbeat >= first);
    assert_true(answer.members[1].heartbeat <= answer.db_now);
}

static void name_of_a_member_is_kept(void **state)
{
    struct rota_store_request list = store_request(ROTA_STORE_MEMBERS),
                              beat = store_request(ROTA_STORE_BEAT);
    (void)state;
    beat.member = (struct rota_store_member){
        .address = rota_str("a:1"), .name = rota_str("box.1_a-B"), .ttl = TTL};
    store_must(session, &beat, &answer);
    store_must(session, &list, &answer);
    assert_true(is(answer.members[0].name, "box.1_a-B"));
    beat.member.name = rota_str("other");
    store_must(session, &beat, &answer);
    store_must(session, &list, &answer);
    assert_true(is(answer.members[0].name, "other"));

    /* An older program writes none, and another may write anything. */
    store_sql(session->sql, "INSERT INTO rota_members (address, roles, zone, weight, state, "
                            "start_at, stop_at, ttl_ms, heartbeat) "
                            "VALUES ('b:1', '', '', 1000, 0, 0, 0, 1000, 1)");
    store_must(session, &list, &answer);
    assert_true(is(answer.members[1].name, ""));
    store_sql(session->sql, "UPDATE rota_members SET name = 'a b' WHERE address = 'b:1'");
    store_must(session, &list, &answer);
    assert_true(is(answer.members[1].name, ""));
    assert_true(is(answer.members[0].name, "other"));
}

static void missing_member_is_not_an_error(void **state)
{
    struct rota_store_request request = store_request(ROTA_STORE_MEMBER_REMOVE);
    (void)state;
    beat_of("a:1", "", 0);
    request.member.address = rota_str("A:1"); /* names differ by their bytes */
    store_must(session, &request, &answer);
    assert_false(answer.is_done);
    request.verb = ROTA_STORE_MEMBER_STATE;
    store_must(session, &request, &answer);
    assert_false(answer.is_done);
    request.verb = ROTA_STORE_MEMBER_REMOVE;
    request.member.address = rota_str("a:1");
    store_must(session, &request, &answer);
    assert_true(answer.is_done);
    request.verb = ROTA_STORE_MEMBERS;
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_members, 0);
}

/* As many as one request may have, so that no database's own bound is met. */
static void many_addresses_share_one_heartbeat(void **state)
{
    static char texts[ROTA_STORE_KEYS_MAX][16];
    struct rota_str more[ROTA_STORE_KEYS_MAX];
    struct rota_store_request request = store_request(ROTA_STORE_BEAT),
                              list = store_request(ROTA_STORE_MEMBERS);
    (void)state;
    for (size_t i = 0; i < ROTA_STORE_KEYS_MAX; i++) {
        snprintf(texts[i], sizeof texts[i], "b:%04zu", i + 1);
        more[i] = rota_str(texts[i]);
    }
    beat_of("c:1", "", 0);
    beat_of("b:0002", "", 0);
    request.member = (struct rota_store_member){
        .address = rota_str("a:1"), .zone = rota_str("east"), .ttl = TTL};
    request.keys = more;
    request.n_keys = ROTA_STORE_KEYS_MAX;
    store_must(session, &request, &answer);
    store_must(session, &request, &answer); /* they are there now */
    store_must(session, &list, &answer);
    assert_int_equal(answer.n_members, ROTA_STORE_KEYS_MAX + 2);
    for (size_t i = 0; i <= ROTA_STORE_KEYS_MAX; i++) {
        assert_true(is(answer.members[i].address, i ? texts[i - 1] : "a:1"));
        assert_true(is(answer.members[i].zone, "east"));
        assert_true(is(answer.members[i].roles, ""));
        assert_int_equal(answer.members[i].ttl, TTL);
    }

    request.verb = ROTA_STORE_MEMBER_REMOVE;
    store_must(session, &request, &answer);
    assert_true(answer.is_done);
    store_must(session, &list, &answer);
    assert_int_equal(answer.n_members, 1);
    assert_true(is(answer.members[0].address, "c:1"));
    request.n_keys++;
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_LIMIT);
}

/* --- spaces --- */

static void space_is_replaced_only_after_reading_it(void **state)
{
    struct rota_store_request put = store_request(ROTA_STORE_SPACE_PUT),
                              list = store_request(ROTA_STORE_SPACES);
    (void)state;
    put.config = (struct rota_store_space){rota_str("cache"), rota_str("lease"),
                                           rota_str("ttl = 10 # gr\xc3\xbc\xc3\x9f\n"), 0};
    store_must(session, &put, &answer);
    assert_true(answer.is_done);
    assert_int_equal(answer.n_spaces, 1);
    assert_int_equal(answer.spaces[0].version, 1);
    store_must(session, &put, &answer); /* there is one now */
    assert_false(answer.is_done);

    put.config.text = rota_str("ttl = 20\n");
    put.config.version = 1;
    store_must(session, &put, &answer);
    assert_true(answer.is_done);
    assert_int_equal(answer.spaces[0].version, 2);
    put.config.text = rota_str("ttl = 30\n");
    store_must(session, &put, &answer);
    assert_false(answer.is_done);
    assert_int_equal(answer.spaces[0].version, 2);
    assert_true(is(answer.spaces[0].text, "ttl = 20\n"));
    assert_true(is(answer.spaces[0].engine, "lease"));

    put.config.name = rota_str("another");
    put.config.version = 0;
    store_must(session, &put, &answer);
    list.space = rota_str("");
    store_must(session, &list, &answer);
    assert_int_equal(answer.n_spaces, 2);
    assert_true(is(answer.spaces[0].name, "another"));
    list.space = rota_str("nowhere");
    store_must(session, &list, &answer);
    assert_int_equal(answer.n_spaces, 0);
}

/* --- tables of others --- */

static void make_table(const char *columns)
{
    char text[512];
    store_sql(session->sql, "DROP TABLE IF EXISTS goods");
    snprintf(text, sizeof text, "CREATE TABLE goods (%s)", columns);
    store_sql(session->sql, text);
}

/* The columns as their database quotes them; KEY is a word of MariaDB. */
static void make_text_table(void)
{
    make_table(session->kind == ROTA_SQL_MYSQL
                   ? "`key` VARCHAR(100) PRIMARY KEY, `value` LONGTEXT"
                   : "\"key\" VARCHAR(100) PRIMARY KEY, \"value\" TEXT");
    store_sql(session->sql, "INSERT INTO goods VALUES ('a', 'apple'), ('b', 'bread'), ('c', NULL), "
                            "('', 'nothing'), ('quote''s', 'semi;colon')");
}

static struct rota_store_request select_of(const struct rota_str *keys, size_t n_keys)
{
    struct rota_store_request request = store_request(ROTA_STORE_SELECT);
    request.table = rota_str("goods");
    request.keys = keys;
    request.n_keys = n_keys;
    return request;
}

static const struct rota_store_value *value_of(const char *key)
{
    for (size_t i = 0; i < answer.n_values; i++)
        if (is(answer.values[i].key, key))
            return &answer.values[i];
    return NULL;
}

static void keys_that_are_there_have_values(void **state)
{
    const struct rota_str keys[] = {rota_str("a"),  rota_str("b"),       rota_str("missing"),
                                    rota_str("c"),  rota_str("a"),       rota_str(""),
                                    rota_str("?"),  rota_str("quote's"), rota_str("' OR '1'='1"),
                                    rota_str("A\\")};
    struct rota_store_request request = select_of(keys, sizeof keys / sizeof *keys);
    (void)state;
    make_text_table();
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_values, 4);
    assert_true(is(value_of("a")->value, "apple"));
    assert_true(is(value_of("b")->value, "bread"));
    assert_true(is(value_of("")->value, "nothing"));
    assert_true(is(value_of("quote's")->value, "semi;colon"));
    assert_null(value_of("c")); /* no value is no row */
    request.n_keys = 0;
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_values, 0);
}

static void columns_may_have_other_names(void **state)
{
    const struct rota_str keys[] = {rota_str("12"), rota_str("13")};
    struct rota_store_request request = select_of(keys, 2);
    (void)state;
    make_table("id BIGINT PRIMARY KEY, amount INTEGER");
    store_sql(session->sql, "INSERT INTO goods VALUES (12, 5), (13, -6), (14, 7)");
    request.key_column = rota_str("id");
    request.value_column = rota_str("amount");
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_values, 2);
    assert_true(is(value_of("12")->value, "5"));
    assert_true(is(value_of("13")->value, "-6"));
}

static void bytes_are_found_too(void **state)
{
    const struct rota_str keys[] = {rota_str_of("\0\xff", 2), rota_str("plain")};
    struct rota_store_request request = select_of(keys, 2);
    static const char *const types[] = {"BLOB", "VARBINARY(100)", "BYTEA"};
    char columns[100];
    (void)state;
    snprintf(columns, sizeof columns, "k %s PRIMARY KEY, v %s", types[session->kind],
             types[session->kind]);
    make_table(columns);
    const struct rota_sql_value row[] = {rota_sql_bytes(keys[0]),
                                         rota_sql_bytes(rota_str_of("v\0\xfe", 3))};
    const char *insert = session->kind == ROTA_SQL_SQLITE
                             ? "INSERT INTO goods VALUES (CAST(? AS BLOB), CAST(? AS BLOB))"
                             : "INSERT INTO goods VALUES (?, ?)";
    assert_int_equal(rota_sql_run(session->sql, insert, row, 2, NULL, NULL), ROTA_OK);
    request.key_column = rota_str("k");
    request.value_column = rota_str("v");
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_values, 1);
    assert_true(rota_str_is_equal(answer.values[0].key, keys[0]));
    assert_true(rota_str_is_equal(answer.values[0].value, rota_str_of("v\0\xfe", 3)));
}

/* What nobody could have stored is missing, or refused by a server with all that was asked
 * for together with it: never is another key taken for missing. */
static void assert_missing_or_refused(struct rota_store_request *request, const char *there)
{
    enum rota_code code = store_do(session, request, &answer);
    assert_true(code == ROTA_OK || code == ROTA_ERR_INVALID);
    assert_true(code == ROTA_OK || session->kind != ROTA_SQL_SQLITE);
    if (code) {
        request->keys += request->n_keys - 1;
        request->n_keys = 1;
        store_must(session, request, &answer);
    }
    assert_int_equal(answer.n_values, 1);
    assert_non_null(value_of(there));
}

static void invalid_key_is_missing_or_refused(void **state)
{
    const struct rota_str keys[] = {rota_str_of("a\0b", 3), rota_str("\xff\xfe"), rota_str("a")};
    const struct rota_str numbers[] = {rota_str("x"), rota_str("99999999999999999999999"),
                                       rota_str("12")};
    struct rota_store_request request = select_of(keys, 3);
    (void)state;
    make_text_table();
    assert_missing_or_refused(&request, "a");

    make_table("id BIGINT PRIMARY KEY, v VARCHAR(10)");
    store_sql(session->sql, "INSERT INTO goods VALUES (12, 'dozen')");
    request = select_of(numbers, 3);
    request.key_column = rota_str("id");
    request.value_column = rota_str("v");
    assert_missing_or_refused(&request, "12");
}

static void oversized_value_is_reported(void **state)
{
    const struct rota_str keys[] = {rota_str("big"), rota_str("most"), rota_str("a")};
    struct rota_store_request request = select_of(keys, 3);
    char *bytes = malloc(ROTA_STORE_VALUE_MAX + 1);
    (void)state;
    memset(bytes, 'x', ROTA_STORE_VALUE_MAX + 1);
    make_text_table();
    store_sql(session->sql, "INSERT INTO goods VALUES ('big', 'x'), ('most', 'x')");
    /* In two steps: servers take no statement of any length. */
    static const char *const doubled[] = {
        [ROTA_SQL_SQLITE] = "UPDATE goods SET \"value\" = \"value\" || \"value\" WHERE \"key\" IN "
                            "('big', 'most')",
        [ROTA_SQL_MYSQL] = "UPDATE goods SET `value` = CONCAT(`value`, `value`) WHERE `key` IN "
                           "('big', 'most')",
        [ROTA_SQL_POSTGRES] =
            "UPDATE goods SET \"value\" = \"value\" || \"value\" WHERE \"key\" IN "
            "('big', 'most')",
    };
    if (session->kind == ROTA_SQL_MYSQL) { /* whose packets end at 16 MB, results too */
        struct rota_sql *admin = store_admin();
        store_sql(admin, "SET GLOBAL max_allowed_packet = 134217728");
        rota_sql_close(admin);
        rota_store_session_close(session);
        session = store_open();
    }
    for (size_t size = 1; size < ROTA_STORE_VALUE_MAX; size *= 2)
        store_sql(session->sql, doubled[session->kind]);
    store_sql(session->sql,
              session->kind == ROTA_SQL_MYSQL
                  ? "UPDATE goods SET `value` = CONCAT(`value`, 'x') WHERE `key` = 'big'"
                  : "UPDATE goods SET \"value\" = \"value\" || 'x' WHERE \"key\" = 'big'");
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_values, 3);
    assert_true(value_of("big")->is_too_large);
    assert_int_equal(value_of("big")->value.size, 0);
    assert_false(value_of("most")->is_too_large);
    assert_true(
        rota_str_is_equal(value_of("most")->value, rota_str_of(bytes, ROTA_STORE_VALUE_MAX)));
    assert_true(is(value_of("a")->value, "apple"));
    store_sql(session->sql, "DROP TABLE goods");
    free(bytes);
}

static void table_that_is_missing_is_named(void **state)
{
    const struct rota_str key = rota_str("a");
    struct rota_store_request request = select_of(&key, 1);
    (void)state;
    request.table = rota_str("not_there");
    assert_int_equal(store_do(session, &request, &answer), ROTA_ERR_NOT_FOUND);
    assert_non_null(strstr(answer.error.text, "not_there"));
    make_text_table();
    request.table = rota_str("goods");
    request.value_column = rota_str("not_that");
    assert_int_equal(store_do(session, &request, &answer), ROTA_ERR_NOT_FOUND);
    assert_non_null(strstr(answer.error.text, "not_that"));
    request.value_column = rota_str("");
    store_must(session, &request, &answer);
    store_sql(session->sql, "DROP TABLE goods"); /* after it was prepared */
    assert_int_equal(store_do(session, &request, &answer), ROTA_ERR_NOT_FOUND);
}

static void table_that_was_changed_is_read_again(void **state)
{
    const struct rota_str key = rota_str("a");
    struct rota_store_request request = select_of(&key, 1);
    (void)state;
    make_text_table();
    store_must(session, &request, &answer);
    make_table(session->kind == ROTA_SQL_MYSQL ? "`value` BIGINT, `key` VARCHAR(50)"
                                               : "\"value\" BIGINT, \"key\" VARCHAR(50)");
    store_sql(session->sql, "INSERT INTO goods VALUES (7, 'a')");
    enum rota_code code = store_do(session, &request, &answer);
    if (code) { /* PostgreSQL wants a new connection for it */
        assert_int_equal(code, ROTA_ERR_UNAVAILABLE);
        assert_false(rota_store_session_is_alive(session));
        rota_store_session_close(session);
        session = store_open();
        store_must(session, &request, &answer);
    }
    assert_true(is(value_of("a")->value, "7"));
}

/* --- the schema --- */

static enum rota_code reopen(const struct rota_sql_url *url, struct rota_error *error)
{
    struct rota_store_session *another = NULL;
    enum rota_code code = rota_store_session_open(url, NULL, &another, error);
    rota_store_session_close(another);
    return code;
}

static void newer_schema_is_refused(void **state)
{
    struct rota_sql_url url = database_url(false);
    struct rota_error error;
    (void)state;
    store_sql(session->sql, "UPDATE rota_schema SET version = 99");
    assert_int_equal(reopen(&url, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "version 99"));
    assert_non_null(strstr(error.text, "install that version"));
    assert_int_equal(store_sql(session->sql, "SELECT version FROM rota_schema"), 99);
    char text[64];
    snprintf(text, sizeof text, "UPDATE rota_schema SET version = %d", ROTA_STORE_SCHEMA_VERSION);
    store_sql(session->sql, text);
    assert_int_equal(reopen(&url, &error), ROTA_OK);
}

/* The program died between two tables: the rest is made, what is there is kept. */
static void tables_that_are_half_made_are_completed(void **state)
{
    struct rota_sql_url url = database_url(false);
    struct rota_error error;
    (void)state;
    beat_of("a:1", "", 0);
    store_sql(session->sql, "DROP TABLE rota_spaces");
    store_sql(session->sql, "DELETE FROM rota_schema");
    assert_int_equal(reopen(&url, &error), ROTA_OK);
    assert_int_equal(store_sql(session->sql, "SELECT COUNT(*) FROM rota_spaces"), 0);
    assert_int_equal(store_sql(session->sql, "SELECT COUNT(*) FROM rota_members"), 1);
    assert_int_equal(store_sql(session->sql, "SELECT version FROM rota_schema"),
                     ROTA_STORE_SCHEMA_VERSION);
}

/* What a DBA runs by hand is what the program would have made. */
static void schema_as_text_makes_the_tables(void **state)
{
    struct rota_sql_url url = database_url(false);
    struct rota_buffer text = {0};
    struct rota_error error;
    (void)state;
    static const char *const tables[] = {"rota_leases",  "rota_dcs",     "rota_holds",
                                         "rota_history", "rota_members", "rota_spaces",
                                         "rota_schema"};
    char drop[64];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(drop, sizeof drop, "DROP TABLE %s", tables[i]);
        store_sql(session->sql, drop);
    }
    rota_store_schema_format(session->kind, &text);
    for (char *rest = text.data, *statement; (statement = strsep(&rest, ";"));)
        if (statement[strspn(statement, " \n")] != '\0')
            store_sql(session->sql, statement);
    rota_buffer_deinit(&text);
    assert_int_equal(reopen(&url, &error), ROTA_OK);
    struct rota_store_request claim = store_claim_of("a", 1, 1);
    assert_int_equal(store_claim(session, &claim).result, ROTA_STORE_CLAIM_GRANTED);
}

static void file_that_is_not_a_database_is_refused(void **state)
{
    struct rota_sql_url url = database_url(false);
    struct rota_error error;
    FILE *file;
    (void)state;
    strcat(url.path, ".text");
    file = fopen(url.path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        fputs("this is no database\n", file);
    fclose(file);
    assert_int_equal(reopen(&url, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "not a database"));
    unlink(url.path);
}

/* Nothing is sent to a file that has lost its name; whoever opens the name finds another. */
static void file_that_was_moved_is_a_lost_connection(void **state)
{
    struct rota_sql_url url = database_url(false), moved = url;
    struct rota_store_request claim = store_claim_of("a", 1, 1);
    struct rota_error error;
    struct rota_sql *sql = NULL;
    (void)state;
    struct rota_store_claimed held = store_claim(session, &claim);
    strcat(moved.path, ".moved");
    assert_int_equal(rename(url.path, moved.path), 0);
    struct rota_store_request ping = store_of_lease(ROTA_STORE_PING, 1, held);
    assert_int_equal(store_do(session, &ping, &answer), ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(answer.error.text, "moved, removed or replaced"));
    assert_false(rota_store_session_is_alive(session));
    assert_int_equal(access(url.path, F_OK), -1); /* nor was one made */
    assert_int_equal(rename(moved.path, url.path), 0);

    assert_int_equal(store_do(session, &ping, &answer), ROTA_ERR_UNAVAILABLE); /* permanently */
    assert_int_equal(rota_sql_open(&url, NULL, &sql, &error), ROTA_OK);
    assert_int_equal(store_sql(sql, "SELECT pings FROM rota_leases"), 1);
    rota_sql_close(sql);
}

/* A user who may read and write the tables, and one who may not. */
static void user_without_rights_gets_a_sentence(void **state)
{
    struct rota_sql *admin = store_admin();
    struct rota_sql_url url = database_url(false);
    struct rota_error error;
    bool is_mysql = session->kind == ROTA_SQL_MYSQL;
    (void)state;
    store_sql(admin, is_mysql ? "CREATE USER 'guest'@'%' IDENTIFIED BY 'guest-pass'"
                              : "CREATE ROLE guest LOGIN PASSWORD 'guest-pass'");
    if (is_mysql)
        store_sql(admin, "GRANT SELECT ON rota_test.rota_schema TO 'guest'@'%'");
    strcpy(url.user, "guest");
    strcpy(url.password, "guest-pass");

    struct rota_store_session *guest = NULL;
    struct rota_store_request claim = store_claim_of("a", 1, 1);
    if (!is_mysql) {
        assert_int_equal(reopen(&url, &error), ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "permission denied"));
        store_sql(admin, "GRANT SELECT ON rota_schema TO guest");
    }
    if (rota_store_session_open(&url, NULL, &guest, &error))
        fail_msg("%s", error.text);
    assert_int_equal(store_do(guest, &claim, &answer), ROTA_ERR_INVALID);
    assert_non_null(strstr(answer.error.text, "denied"));
    rota_store_session_close(guest);

    /* What docs/store.md says is enough. */
    static const char *const tables[] = {"rota_leases",  "rota_dcs",     "rota_holds",
                                         "rota_history", "rota_members", "rota_spaces"};
    char text[160];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(text, sizeof text, "GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s", tables[i],
                 is_mysql ? "'guest'@'%'" : "guest");
        store_sql(admin, text);
    }
    if (rota_store_session_open(&url, NULL, &guest, &error))
        fail_msg("%s", error.text);
    assert_int_equal(store_claim(guest, &claim).result, ROTA_STORE_CLAIM_GRANTED);
    struct rota_store_request history = store_request(ROTA_STORE_HISTORY);
    store_must(guest, &history, &answer);
    assert_int_equal(answer.n_history, 1);
    rota_store_session_close(guest);
    rota_sql_close(admin);
}

/* --- what no database is asked about --- */

static void assert_refused(const struct rota_store_request *request, const char *reason)
{
    struct rota_error error = {0};
    enum rota_code code = rota_store_check_request(request, &error);
    assert_true(code == ROTA_ERR_INVALID || code == ROTA_ERR_LIMIT);
    if (!strstr(error.text, reason))
        fail_msg("%s, not %s", error.text, reason);
}

static void nonsense_is_refused_with_a_sentence(void **state)
{
    static const char *const tables[] = {"",      "a b", "a;b", "a\"b", "1a",
                                         "a.b.c", ".a",  "a.",  "a`",   "gr\xc3\xbcn"};
    struct rota_store_request claim = store_claim_of("a", 1, 1), bad = claim;
    struct rota_store_request select = select_of(NULL, 0);
    char name[ROTA_STORE_NAME_MAX + 2];
    (void)state;
    memset(name, 'n', sizeof name);
    bad.space = rota_str("");
    assert_refused(&bad, "the space has no name");
    bad.space = rota_str_of(name, sizeof name);
    assert_refused(&bad, "at most 255 are allowed");
    bad.space = rota_str_of("a\0b", 3);
    assert_refused(&bad, "invisible character");
    bad.space = rota_str("\xff");
    assert_refused(&bad, "not UTF-8");
    bad.space = rota_str("a ");
    assert_refused(&bad, "begins or ends with a space");
    bad = claim;
    bad.shards = 0;
    assert_refused(&bad, "the number of shards 0 is not from 1 to 65536");
    bad.shards = ROTA_STORE_SHARDS_MAX + 1;
    assert_refused(&bad, "the number of shards 65537");
    bad = claim;
    bad.instance = 0;
    assert_refused(&bad, "an instance must not be 0");
    bad = claim;
    bad.ttl = -1;
    assert_refused(&bad, "the ttl");
    bad = claim;
    bad.claim.floor = UINT64_MAX;
    assert_refused(&bad, "the floor");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        select.table = rota_str(tables[i]);
        assert_refused(&select, "is not a name of letters");
    }
    select.table = rota_str("good.table_2");
    assert_int_equal(rota_store_check_request(&select, NULL), ROTA_OK);
    select.key_column = rota_str("a.b");
    assert_refused(&select, "the column");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(heartbeat_keeps_the_operators_setting),
        TEST(name_of_a_member_is_kept),
        TEST(missing_member_is_not_an_error),
        TEST(many_addresses_share_one_heartbeat),
        TEST(space_is_replaced_only_after_reading_it),
        TEST(keys_that_are_there_have_values),
        TEST(columns_may_have_other_names),
        TEST(bytes_are_found_too),
        TEST(invalid_key_is_missing_or_refused),
        TEST(oversized_value_is_reported),
        TEST(table_that_is_missing_is_named),
        TEST(table_that_was_changed_is_read_again),
        TEST(newer_schema_is_refused),
        TEST(tables_that_are_half_made_are_completed),
        TEST(schema_as_text_makes_the_tables),
        TEST(nonsense_is_refused_with_a_sentence),
    };
    const struct CMUnitTest of_files[] = {
        TEST(file_that_is_not_a_database_is_refused),
        TEST(file_that_was_moved_is_a_lost_connection),
    };
    const struct CMUnitTest of_servers[] = {TEST(user_without_rights_gets_a_sentence)};
    bool is_file = database_url(false).kind == ROTA_SQL_SQLITE;
    size_t n = sizeof tests / sizeof *tests, n_more = is_file ? 2 : 1;
    struct CMUnitTest all[sizeof tests / sizeof *tests + 2];
    memcpy(all, tests, sizeof tests);
    memcpy(all + n, is_file ? of_files : of_servers, n_more * sizeof *all);
    return _cmocka_run_group_tests("store_tables", all, n + n_more, NULL, NULL);
}
