/* The log and the members of a group in a real database; test/lib/databases.py says in
 * which. First what every engine owes, then what only tables and files can show. */
#include "database.h"
#include "io/sql/sql.h"
#include "sync_checks.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_WRITERS = 8, N_WRITES = 40 };

static bool is_sqlite(void)
{
    return strncmp(sync_checks.url, "sqlite:", 7) == 0;
}

static struct rota_sql *open_admin(void)
{
    struct rota_sql_url url = database_url(true);
    struct rota_sql_options options = {.statement_timeout = 20 * ROTA_SEC};
    struct rota_sql *sql = NULL;
    struct rota_error error;
    if (rota_sql_open(&url, &options, &sql, &error))
        fail_msg("%s", error.text);
    return sql;
}

/* Run a statement about our group, whose name is the only argument if there is one. */
static int64_t run(struct rota_sql *sql, const char *text)
{
    struct rota_sql_value name = rota_sql_bytes(rota_str(sync_group));
    struct rota_sql_result result = {0};
    struct rota_error error;
    if (rota_sql_run(sql, text, &name, strchr(text, '?') != NULL, &result, &error))
        fail_msg("%s: %s", text, error.text);
    int64_t number =
        result.n_rows > 0 ? rota_sql_int_at(&result, 0, 0) : (int64_t)result.n_affected;
    rota_sql_result_deinit(&result);
    return number;
}

static void run_once(const char *text)
{
    struct rota_sql *sql = open_admin();
    run(sql, text);
    rota_sql_close(sql);
}

/* --- options --- */

static enum rota_code try_open(const char *url, const char *name, rota_time session,
                               rota_time ok_every, char *text)
{
    struct rota_error error = {0};
    struct rota_sync *sync = NULL;
    struct rota_sync_options options = {.url = url,
                                        .name = name,
                                        .session = session,
                                        .ok_every = ok_every,
                                        .on_event = peer_on_event};
    enum rota_code code = rota_sync_open(&sync_loop, &options, &sync, &error);
    assert_null(sync);
    strcpy(text, error.text);
    return code;
}

static void invalid_url_is_refused_with_a_reason(void **state)
{
    char text[ROTA_ERROR_TEXT_MAX];
    (void)state;
    assert_int_equal(try_open(NULL, "g", 0, 0, text), ROTA_ERR_INVALID);
    assert_int_equal(try_open("", "g", 0, 0, text), ROTA_ERR_INVALID);
    assert_int_equal(try_open("mysql://u:pw-1234@h/d", "g", 0, 0, text), ROTA_ERR_INVALID);
    assert_non_null(strstr(text, "MariaDB"));
    assert_null(strstr(text, "pw-1234"));
    assert_int_equal(try_open("redis://u:pw-1234@h/d", "g", 0, 0, text), ROTA_ERR_INVALID);
    assert_non_null(strstr(text, "must start with"));
    assert_null(strstr(text, "pw-1234"));
    assert_int_equal(try_open("postgres://u:pw-1234@h:99999/d", "g", 0, 0, text), ROTA_ERR_INVALID);
    assert_null(strstr(text, "pw-1234"));
}

static void name_and_times_are_checked(void **state)
{
    static const char *const names[] = {NULL, "", "a b", "a/b", "a'; --", "\xc3\xa9", "a\n"};
    char text[ROTA_ERROR_TEXT_MAX], longest[ROTA_SYNC_NAME_MAX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(try_open(sync_checks.url, names[i], 0, 0, text), ROTA_ERR_INVALID);
    memset(longest, 'x', sizeof longest);
    longest[ROTA_SYNC_NAME_MAX + 1] = '\0';
    assert_int_equal(try_open(sync_checks.url, longest, 0, 0, text), ROTA_ERR_INVALID);
    assert_int_equal(try_open(sync_checks.url, "g", -1, 0, text), ROTA_ERR_INVALID);
    assert_int_equal(try_open(sync_checks.url, "g", 1, 0, text), ROTA_ERR_INVALID);
    assert_int_equal(try_open(sync_checks.url, "g", INT64_MAX, 0, text), ROTA_ERR_INVALID);
    assert_int_equal(try_open(sync_checks.url, "g", ROTA_SEC, ROTA_SEC, text), ROTA_ERR_INVALID);

    longest[ROTA_SYNC_NAME_MAX] = '\0';
    peer_open(&sync_a, &sync_loop, sync_checks.url, longest, 0);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    assert_null(strstr(rota_sync_name(sync_a.sync), "s3cret"));
}

/* --- the log --- */

static uint64_t writer_next;

static void writer_append(struct peer *peer)
{
    char text[32];
    snprintf(text, sizeof text, "%d %llu", (int)getpid(), (unsigned long long)writer_next);
    peer_append(peer, writer_next, text, strlen(text));
}

/* What was surely not appended is appended again, under another number. */
static void writer_on_event(struct peer *peer, const struct rota_sync_event *event)
{
    if (event->type == ROTA_SYNC_APPENDED && peer->n_appended == N_WRITES)
        _exit(0);
    if (event->type == ROTA_SYNC_OPENED || event->type == ROTA_SYNC_APPENDED ||
        event->type == ROTA_SYNC_NOT_APPENDED) {
        writer_next++;
        writer_append(peer);
    }
}

/* PROGRAM writer URL GROUP */
static int writer_main(char **argv)
{
    static struct peer peer;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uv_loop_init(&sync_loop);
    peer.on_event = writer_on_event;
    peer.is_deaf = true;
    peer_start(&peer, &sync_loop, argv[2], argv[3], ROTA_SYNC_SESSION_MAX, false);
    return uv_run(&sync_loop, UV_RUN_DEFAULT);
}

static void offsets_of_many_writers_have_no_gaps(void **state)
{
    char program[] = "/proc/self/exe", word[] = "writer";
    char *arguments[] = {program, word, (char *)sync_checks.url, sync_group, NULL};
    pid_t pids[N_WRITERS];
    uint64_t lasts[N_WRITERS] = {0};
    int status;
    (void)state;
    sync_open(&sync_a);
    for (size_t i = 0; i < N_WRITERS; i++)
        assert_int_equal(posix_spawn(&pids[i], program, NULL, NULL, arguments, environ), 0);
    peer_await_end(&sync_a, (uint64_t)N_WRITERS * N_WRITES); /* while they write */
    for (size_t i = 0; i < N_WRITERS; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(sync_a.n_records, N_WRITERS * N_WRITES);
    for (size_t i = 0; i < sync_a.n_records; i++) {
        int pid;
        unsigned long long number;
        assert_int_equal(sync_a.records.items[i].offset, i);
        assert_int_equal(sscanf(sync_a.records.items[i].bytes, "%d %llu", &pid, &number), 2);
        for (size_t w = 0; w < N_WRITERS; w++)
            if (pids[w] == pid) {
                assert_true(number > lasts[w]); /* each in its own order */
                lasts[w] = number;
            }
    }
}

static void long_log_is_read_in_parts(void **state)
{
    static char bytes[100000];
    (void)state;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 1500; i++) {
        peer_append(&sync_a, i, bytes, i % 50 == 0 ? sizeof bytes : i % 50);
        if (i % 16 == 15 || i == 1499)
            await(&sync_loop, &sync_a.n_answered, i + 1);
    }
    assert_int_equal(sync_a.n_appended, 1500);
    sync_open(&sync_b);
    peer_await_end(&sync_b, 1500);
    assert_int_equal(sync_b.n_records, 1500);
    for (size_t i = 0; i < 1500; i++)
        assert_int_equal(sync_b.records.items[i].size, i % 50 == 0 ? sizeof bytes : i % 50);
}

/* Somebody else has written it. */
static void oversized_record_is_reported_by_its_size(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_write(&sync_a, 0, "before");
    struct rota_sql *sql = open_admin();
    run(sql, is_sqlite() ? "INSERT INTO rota_group_record (name, place, bytes) VALUES (?, 1, "
                           "zeroblob(2000000))"
                         : "INSERT INTO rota_group_record (name, place, bytes) VALUES (?, 1, "
                           "convert_to(repeat('x', 2000000), 'UTF8'))");
    run(sql, "UPDATE rota_group_head SET next_offset = 2 WHERE name = ?");
    rota_sql_close(sql);
    assert_int_equal(peer_write(&sync_a, 1, "after"), 2);
    peer_await_end(&sync_a, 3);
    assert_int_equal(sync_a.n_records, 3);
    assert_int_equal(sync_a.records.items[1].size, 2000000);
    assert_false(sync_a.records.items[1].is_whole);
    sync_assert_text(&sync_a, 2, "after");
}

/* Somebody else has put it where the next one goes, and has not moved the head. */
static void row_after_the_end_does_not_belong_to_the_log(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_write(&sync_a, 0, "before");
    run_once(is_sqlite() ? "INSERT INTO rota_group_record (name, place, bytes) VALUES (?, 1, 'x')"
                         : "INSERT INTO rota_group_record (name, place, bytes) VALUES (?, 1, "
                           "convert_to('x', 'UTF8'))");
    assert_int_equal(peer_write(&sync_a, 1, "after"), 1);
    peer_await_end(&sync_a, 2);
    sync_assert_text(&sync_a, 1, "after");
    assert_int_equal(sync_a.n_failed, 0);
}

/* SQLite takes anything for bytes, and counts a text up to its first NUL. */
static void value_of_another_type_is_read_as_bytes(void **state)
{
    (void)state;
    sync_open(&sync_a);
    struct rota_sql *sql = open_admin();
    run(sql, "INSERT INTO rota_group_record (name, place, bytes) VALUES (?, 0, 'text'), "
             "('odd', 1, ''), ('odd', 2, '')");
    run(sql,
        "UPDATE rota_group_record SET name = ?, bytes = 12345 WHERE place = 1 AND name = 'odd'");
    run(sql, "UPDATE rota_group_record SET name = ?, bytes = CAST(zeroblob(2000000) AS TEXT) "
             "WHERE place = 2 AND name = 'odd'");
    run(sql, "UPDATE rota_group_head SET next_offset = 3 WHERE name = ?");
    rota_sql_close(sql);
    peer_await_end(&sync_a, 3);
    sync_assert_text(&sync_a, 0, "text");
    sync_assert_text(&sync_a, 1, "12345");
    assert_int_equal(sync_a.records.items[2].size, 2000000);
    assert_false(sync_a.records.items[2].is_whole);
}

static void trimmed_records_are_gone(void **state)
{
    (void)state;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 10; i++)
        peer_write(&sync_a, i, "x");
    peer_await_end(&sync_a, 10);
    rota_sync_trim(sync_a.sync, 6);
    peer_write(&sync_a, 10, "y"); /* the trim was before it, or with it */
    sync_open(&sync_b);
    assert_int_equal(sync_b.first, 6);
    assert_int_equal(sync_b.end, 11);
    peer_await_end(&sync_b, 11);
    assert_int_equal(sync_b.records.items[0].offset, 6);

    rota_sync_trim(sync_a.sync, 1000000); /* never beyond the end */
    rota_time asked_at = rota_clock_boot();
    while (sync_a.ok_sent_at < asked_at) /* else it may come after the next record, and trim it */
        await(&sync_loop, &sync_a.n_ok, sync_a.n_ok + 1);
    peer_write(&sync_a, 11, "z");
    peer_await_end(&sync_b, 12);
    assert_int_equal(sync_b.n_lost, 0);
    peer_read(&sync_b, 0); /* a record that was removed is not reported */
    await(&sync_loop, &sync_b.n_opened, 2);
    assert_int_equal(sync_b.n_lost, 1);
    assert_non_null(strstr(sync_b.error, "trimmed"));
    assert_true(sync_b.first >= 11);
    assert_int_equal(sync_b.end, 12);
}

static void log_that_was_deleted_is_lost(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    for (uint64_t i = 0; i < 5; i++)
        peer_write(&sync_a, i, "x");
    run_once("DELETE FROM rota_group_head WHERE name = ?");
    peer_append(&sync_a, 9, "for the old one", 15);
    await(&sync_loop, &sync_a.n_opened, 2);
    assert_int_equal(sync_a.n_lost, 1);
    assert_int_equal(sync_a.n_group_lost, 1);
    assert_int_equal(sync_a.end, 0);
    assert_int_equal(sync_a.n_not_appended, 1);
    assert_int_equal(peer_write(&sync_a, 10, "new"), 0);
    peer_await_end(&sync_a, 1);
    sync_assert_text(&sync_a, 0, "new");
}

/* Nobody knows who was a member; so those who have not heard of it yet have a session to
 * stop before others begin. */
static void round_after_a_loss_waits_for_a_session(void **state)
{
    (void)state;
    sync_open_short(&sync_a);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    rota_time lost_at = rota_clock_boot();
    run_once("DELETE FROM rota_group_head WHERE name = ?");
    await(&sync_loop, &sync_a.n_opened, 2);
    size_t n_rounds = sync_a.n_rounds;
    peer_join(&sync_a, "2/a");
    await(&sync_loop, &sync_a.n_rounds, n_rounds + 1);
    assert_true(rota_clock_boot() - lost_at >= sync_session());
    assert_true(peer_has_member(&sync_a, "2/a"));
    await(&sync_loop, &sync_a.n_group_ok_since, 1);
}

/* The same, told to who has never known the former log: what is left of it shows that
 * there was one. */
static void newcomer_to_a_deleted_log_waits_for_a_session(void **state)
{
    (void)state;
    sync_open_short(&sync_a);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    peer_close(&sync_a);
    sync_open_short(&sync_b);
    peer_write(&sync_b, 0, "of the former");
    peer_close(&sync_b);
    run_once("DELETE FROM rota_group_head WHERE name = ?");
    rota_time made_at = rota_clock_boot();
    sync_open_short(&sync_c);
    peer_join(&sync_c, "2/c");
    await(&sync_loop, &sync_c.n_rounds, 1);
    assert_true(rota_clock_boot() - made_at >= sync_session());
}

static void log_that_is_shorter_is_lost(void **state)
{
    (void)state;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 5; i++)
        peer_write(&sync_a, i, "x");
    peer_await_end(&sync_a, 5);
    run_once("UPDATE rota_group_head SET next_offset = 4 WHERE name = ?");
    await(&sync_loop, &sync_a.n_opened, 2);
    assert_non_null(strstr(sync_a.error, "shorter"));
    assert_int_equal(sync_a.end, 4);
}

/* A hole in it: no record may be skipped in silence. */
static void missing_record_is_a_loss(void **state)
{
    (void)state;
    sync_a.is_deaf = true;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 5; i++)
        peer_write(&sync_a, i, "x");
    run_once("DELETE FROM rota_group_record WHERE place = 2 AND name = ?");
    peer_read(&sync_a, 0);
    await(&sync_loop, &sync_a.n_lost, 1);
    assert_true(sync_a.n_records <= 2);
    assert_non_null(strstr(sync_a.error, "missing"));
}

/* As nobody of us would write it: it is told as it stands, and goes as others do. */
static void invalid_member_row_does_no_harm(void **state)
{
    (void)state;
    sync_open_short(&sync_a);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    struct rota_sql *sql = open_admin();
    run(sql, is_sqlite() ? "INSERT INTO rota_group_member (name, id, place, pings, session_ms, "
                           "held, line) VALUES (?, -7, -9000000000000000000, -1, 0, -1, "
                           "zeroblob(100000))"
                         : "INSERT INTO rota_group_member (name, id, place, pings, session_ms, "
                           "held, line) VALUES (?, -7, -9000000000000000000, -1, 0, -1, "
                           "decode(repeat('00', 100000), 'hex'))");
    run(sql, "UPDATE rota_group_head SET generation = generation + 1 WHERE name = ?");
    rota_sql_close(sql);
    peer_await_members(&sync_a, 2);
    assert_false(sync_a.is_leader); /* it came first, by its own word */
    peer_await_members(&sync_a, 1);
    assert_true(sync_a.is_leader);
    assert_int_equal(sync_a.n_group_lost, 0);
}

/* --- a database that is unreachable, locked, or not for us --- */

static void kill_connections(struct rota_sql *sql)
{
    run(sql, "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity "
             "WHERE usename = 'rota' AND pid <> pg_backend_pid()");
}

static void short_restart_of_the_server_is_not_reported(void **state)
{
    (void)state;
    sync_open_two();
    peer_write(&sync_a, 0, "before");
    size_t n_rounds = sync_a.n_rounds;
    database_do("restart");
    uint64_t number = 1;
    while (sync_a.n_appended < 2) { /* the first ones meet the old connection */
        peer_append(&sync_a, number++, "after", 5);
        await(&sync_loop, &sync_a.n_answered, number);
    }
    peer_await_end(&sync_b, sync_a.offsets[number - 1] + 1);
    await(&sync_loop, &sync_b.n_group_ok, sync_b.n_group_ok + 2);
    assert_int_equal(sync_a.n_lost + sync_b.n_lost, 0);
    assert_int_equal(sync_a.n_group_lost + sync_b.n_group_lost, 0);
    assert_int_equal(sync_a.n_rounds, n_rounds);
    uint64_t last = peer_write(&sync_a, number, "heard at once again");
    await(&sync_loop, &sync_b.n_records, (size_t)last + 1);
}

static void unreachable_server_is_waited_for(void **state)
{
    (void)state;
    database_do("stop");
    peer_start(&sync_a, &sync_loop, sync_checks.url, sync_group, ROTA_SYNC_SESSION_MAX, false);
    peer_append(&sync_a, 0, "x", 1);
    peer_join(&sync_a, "1/a");
    for (int i = 0; i < 5; i++)
        uv_run(&sync_loop, UV_RUN_ONCE);
    assert_int_equal(sync_a.n_opened + sync_a.n_failed + sync_a.n_lost, 0);
    database_do("start");
    await(&sync_loop, &sync_a.n_opened, 1);
    await(&sync_loop, &sync_a.n_answered, 1);
    peer_await_members(&sync_a, 1);
}

/* Whoever holds the head holds up all that write. These are told, and read on. */
static void locked_append_fails_and_reading_continues(void **state)
{
    struct rota_error error;
    (void)state;
    sync_open_short(&sync_a);
    peer_write(&sync_a, 0, "x");
    struct rota_sql *sql = open_admin();
    assert_int_equal(rota_sql_begin(sql, &error), ROTA_OK);
    run(sql, "UPDATE rota_group_head SET joins = joins WHERE name = ?");
    peer_append(&sync_a, 1, "locked out", 10);
    await(&sync_loop, &sync_a.n_not_appended, 1);
    await(&sync_loop, &sync_a.n_ok, sync_a.n_ok + 2);
    rota_sql_rollback(sql);
    rota_sql_close(sql);
    assert_int_equal(peer_write(&sync_a, 2, "in"), 1);
    assert_int_equal(sync_a.n_lost, 0);
}

/* The connection goes while the append is in flight: it is not known, and said so. */
static void append_on_a_lost_connection_has_an_unknown_outcome(void **state)
{
    struct rota_error error;
    (void)state;
    sync_open(&sync_a);
    peer_write(&sync_a, 0, "x");
    peer_await_end(&sync_a, 1);
    struct rota_sql *sql = open_admin();
    assert_int_equal(rota_sql_begin(sql, &error), ROTA_OK);
    run(sql, "UPDATE rota_group_head SET joins = joins WHERE name = ?");
    peer_append(&sync_a, 1, "in doubt", 8);
    while (run(sql, "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = 'rota' "
                    "AND wait_event_type = 'Lock'") == 0)
        uv_run(&sync_loop, UV_RUN_NOWAIT);
    kill_connections(sql);
    await(&sync_loop, &sync_a.n_not_appended, 1);
    rota_sql_rollback(sql);
    rota_sql_close(sql);
    uint64_t last = peer_write(&sync_a, 2, "after");
    peer_await_end(&sync_a, last + 1);
    assert_int_equal(sync_a.n_records, last + 1); /* no gap, whatever became of it */
    assert_int_equal(sync_a.n_lost, 0);
}

/* It was put back to an earlier state and has grown again: only its content shows it. A
 * file is not put back under an open connection. */
static void other_record_in_the_place_of_one_that_was_read_is_a_loss(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_write(&sync_a, 0, "x");
    peer_write(&sync_a, 1, "y");
    peer_await_end(&sync_a, 2);
    struct rota_sql *sql = open_admin();
    run(sql, "UPDATE rota_group_record SET bytes = 'z' WHERE place = 1 AND name = ?");
    kill_connections(sql);
    rota_sql_close(sql);
    await(&sync_loop, &sync_a.n_lost, 1);
    assert_non_null(strstr(sync_a.error, "a different record"));
    await(&sync_loop, &sync_a.n_opened, 2);
}

static void tables_of_a_newer_version_are_refused(void **state)
{
    (void)state;
    sync_open(&sync_a);
    run_once("UPDATE rota_group_schema SET version = 99");
    peer_start(&sync_b, &sync_loop, sync_checks.url, sync_group, 0, false);
    peer_append(&sync_b, 0, "x", 1);
    await(&sync_loop, &sync_b.n_failed, 1);
    run_once("UPDATE rota_group_schema SET version = 1");
    assert_int_equal(sync_b.n_not_appended, 1); /* before it */
    assert_non_null(strstr(sync_b.error, "version 99"));
    assert_int_equal(rota_sync_append(sync_b.sync, 1, rota_str("y"), NULL), ROTA_ERR_UNAVAILABLE);
}

static void missing_permissions_are_reported(void **state)
{
    struct rota_sql_url url = database_url(true);
    char text[ROTA_SQL_URL_TEXT_MAX + 64];
    (void)state;
    sync_open(&sync_a);
    if (is_sqlite()) {
        snprintf(text, sizeof text, "sqlite:/proc/%d/none/x.db", (int)getpid());
    } else {
        struct rota_sql *sql = open_admin();
        run(sql, "CREATE ROLE guest LOGIN PASSWORD 'gu3st-word'");
        rota_sql_close(sql);
        snprintf(text, sizeof text, "postgres://guest:gu3st-word@%s:%d/%s", url.host, (int)url.port,
                 url.database);
    }
    peer_start(&sync_b, &sync_loop, text, sync_group, 0, false);
    await(&sync_loop, &sync_b.n_failed, 1);
    assert_non_null(strstr(sync_b.error, is_sqlite() ? "cannot be created" : "permission denied"));
    assert_null(strstr(sync_b.error, "gu3st-word"));
}

static void observer_of_a_missing_log_gets_an_error_and_creates_nothing(void **state)
{
    struct stat status;
    (void)state;
    sync_open(&sync_a);
    peer_start(&sync_b, &sync_loop, sync_checks.url, "nobody-made-this", 0, true);
    await(&sync_loop, &sync_b.n_failed, 1);
    assert_non_null(strstr(sync_b.error, "there is no group \"nobody-made-this\""));
    peer_close(&sync_b);
    run_once("SELECT 1 FROM rota_group_head WHERE name = ?");
    if (!is_sqlite())
        return;
    char url[ROTA_SQL_URL_TEXT_MAX];
    snprintf(url, sizeof url, "%s.none", sync_checks.url);
    peer_start(&sync_b, &sync_loop, url, sync_group, 0, true);
    await(&sync_loop, &sync_b.n_failed, 1);
    assert_int_not_equal(stat(url + 7, &status), 0);
}

/* Nothing is left of the former log but a process that has it open. */
static void new_member_of_dropped_tables_waits_for_the_former_members(void **state)
{
    (void)state;
    struct sync_member former = sync_member_start("1/a", sync_session());
    sync_open(&sync_b);
    peer_join(&sync_b, "2/b");
    peer_await_members(&sync_b, 2);
    assert_int_equal(kill(former.pid, SIGSTOP), 0);
    peer_close(&sync_b);
    run_once("DROP TABLE rota_group_head, rota_group_record, rota_group_member, rota_group_schema");
    rota_time made_at = rota_clock_boot();
    peer_open(&sync_a, &sync_loop, sync_checks.url, "never-there", ROTA_SYNC_SESSION_MAX);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    sync_open_short(&sync_c);
    peer_join(&sync_c, "3/c");
    await(&sync_loop, &sync_c.n_rounds, 1);
    assert_true(rota_clock_boot() - made_at >= sync_session());
    assert_int_equal(sync_c.members.size, 1);
    sync_member_end(&former);
}

/* --- files --- */

static void file_path(char *path, size_t size, const char *end)
{
    snprintf(path, size, "%s%s", sync_checks.url + 7, end);
}

/* With a session of minutes, and nobody who looks by itself, only the lock can tell, and
 * what the kernel says of a file that is closed. */
static void killed_member_is_detected_before_its_session_ends(void **state)
{
    (void)state;
    sync_a.ok_every = sync_b.ok_every = ROTA_SYNC_SESSION_MAX / 2;
    sync_open(&sync_a);
    sync_open(&sync_b);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    struct sync_member first = sync_member_start("2/x", ROTA_SYNC_SESSION_MAX);
    struct sync_member second = sync_member_start("3/y", ROTA_SYNC_SESSION_MAX);
    peer_await_members(&sync_a, 3);
    peer_join(&sync_b, "4/b");
    peer_await_members(&sync_b, 4);
    peer_await_members(&sync_a, 4);
    sync_member_end(&first);
    peer_await_members(&sync_a, 3);
    assert_false(peer_has_member(&sync_a, "2/x"));
    sync_member_end(&second);
    peer_await_members(&sync_a, 2);
    peer_await_members(&sync_b, 2);
    assert_true(peer_has_member(&sync_b, "1/a"));
    assert_true(peer_has_member(&sync_b, "4/b"));
}

static void replaced_file_is_a_loss(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[2048], aside[2056];
    (void)state;
    sync_open(&sync_a);
    peer_write(&sync_a, 0, "old");
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    peer_await_end(&sync_a, 1);
    for (size_t i = 0; i < 3; i++) {
        file_path(path, sizeof path, ends[i]);
        snprintf(aside, sizeof aside, "%s.aside", path);
        rename(path, aside);
    }
    await(&sync_loop, &sync_a.n_opened, 2);
    assert_int_equal(sync_a.n_lost, 1);
    assert_int_equal(sync_a.n_group_lost, 1);
    assert_int_equal(sync_a.end, 0);
    assert_int_equal(peer_write(&sync_a, 1, "new"), 0);
    sync_open(&sync_b);
    peer_await_end(&sync_b, 1);
    sync_assert_text(&sync_b, 0, "new");
}

/* A process holds its lock and knows the former file; one that finds no file makes
 * another, and leaves it a session. */
static void new_member_of_a_removed_file_waits_for_the_former_members(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[2048], aside[2056];
    (void)state;
    struct sync_member former = sync_member_start("1/a", sync_session());
    sync_open(&sync_b);
    peer_join(&sync_b, "2/b");
    peer_await_members(&sync_b, 2);
    assert_int_equal(kill(former.pid, SIGSTOP), 0);
    peer_close(&sync_b);
    for (size_t i = 0; i < 3; i++) {
        file_path(path, sizeof path, ends[i]);
        snprintf(aside, sizeof aside, "%s.former", path);
        rename(path, aside);
    }
    rota_time made_at = rota_clock_boot();
    sync_open_short(&sync_c);
    peer_join(&sync_c, "3/c");
    await(&sync_loop, &sync_c.n_rounds, 1);
    assert_true(rota_clock_boot() - made_at >= sync_session());
    assert_int_equal(sync_c.members.size, 1);
    sync_member_end(&former);
}

/* It will not get better by itself. */
static void file_that_is_broken_fails(void **state)
{
    char path[2048];
    (void)state;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 200; i++)
        peer_write(&sync_a, i, "a record that takes some place, so that there are some pages");
    struct rota_sql *sql = open_admin();
    run(sql, "PRAGMA wal_checkpoint(TRUNCATE)");
    rota_sql_close(sql);
    file_path(path, sizeof path, "");
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 4096, SEEK_SET), 0);
    for (int i = 0; i < 64 * 1024; i++)
        fputc(0x5a, file);
    assert_int_equal(fclose(file), 0);
    peer_start(&sync_b, &sync_loop, sync_checks.url, sync_group, ROTA_SYNC_SESSION_MAX, false);
    await(&sync_loop, &sync_b.n_failed, 1);
    assert_non_null(strstr(sync_b.error, "malformed"));
}

/* The file beside the database is deleted: nobody dies of it, and others are still
 * woken. */
static void deleted_lock_file_removes_no_member(void **state)
{
    char path[2048];
    (void)state;
    sync_open_two();
    file_path(path, sizeof path, "-group");
    assert_int_equal(unlink(path), 0);
    sync_open(&sync_c); /* makes it again */
    peer_join(&sync_c, "3/c");
    peer_await_members(&sync_a, 3);
    peer_await_members(&sync_b, 3);
    peer_await_members(&sync_c, 3);
    struct peer *peers[] = {&sync_a, &sync_b, &sync_c};
    for (size_t i = 0; i < 3; i++)
        await(&sync_loop, &peers[i]->n_group_ok, peers[i]->n_group_ok + 3);
    assert_int_equal(sync_a.n_group_lost + sync_b.n_group_lost + sync_c.n_group_lost, 0);
    assert_int_equal(sync_c.members.size, 3);
}

/* clang-format off */
#define SQL_CHECKS                                                                                 \
    SYNC_CHECKS,                                                                                   \
    SYNC_CHECK(invalid_url_is_refused_with_a_reason),                                         \
    SYNC_CHECK(name_and_times_are_checked),                                                        \
    SYNC_CHECK(offsets_of_many_writers_have_no_gaps),                                              \
    SYNC_CHECK(long_log_is_read_in_parts),                                                         \
    SYNC_CHECK(oversized_record_is_reported_by_its_size),                                        \
    SYNC_CHECK(row_after_the_end_does_not_belong_to_the_log),                                            \
    SYNC_CHECK(trimmed_records_are_gone),                                                          \
    SYNC_CHECK(log_that_was_deleted_is_lost),                                                      \
    SYNC_CHECK(round_after_a_loss_waits_for_a_session),                                            \
    SYNC_CHECK(newcomer_to_a_deleted_log_waits_for_a_session),                                     \
    SYNC_CHECK(log_that_is_shorter_is_lost),                                                       \
    SYNC_CHECK(missing_record_is_a_loss),                                                          \
    SYNC_CHECK(invalid_member_row_does_no_harm),                                            \
    SYNC_CHECK(short_restart_of_the_server_is_not_reported),                                   \
    SYNC_CHECK(locked_append_fails_and_reading_continues),                     \
    SYNC_CHECK(tables_of_a_newer_version_are_refused),                                             \
    SYNC_CHECK(missing_permissions_are_reported),                                                  \
    SYNC_CHECK(observer_of_a_missing_log_gets_an_error_and_creates_nothing)
/* clang-format on */

int main(int argc, char **argv)
{
    const struct CMUnitTest sqlite_tests[] = {
        SQL_CHECKS,
        SYNC_CHECK(killed_member_is_detected_before_its_session_ends),
        SYNC_CHECK(value_of_another_type_is_read_as_bytes),
        SYNC_CHECK(new_member_of_a_removed_file_waits_for_the_former_members),
        SYNC_CHECK(replaced_file_is_a_loss),
        SYNC_CHECK(deleted_lock_file_removes_no_member),
        SYNC_CHECK(file_that_is_broken_fails), /* the last: there is no file after it */
    };
    const struct CMUnitTest postgres_tests[] = {
        SQL_CHECKS,
        SYNC_CHECK(unreachable_server_is_waited_for),
        SYNC_CHECK(append_on_a_lost_connection_has_an_unknown_outcome),
        SYNC_CHECK(other_record_in_the_place_of_one_that_was_read_is_a_loss),
        SYNC_CHECK(new_member_of_dropped_tables_waits_for_the_former_members),
    };
    if (argc == 4 && strcmp(argv[1], "writer") == 0)
        return writer_main(argv);
    if (argc > 1)
        return sync_member_main(argc, argv);
    sync_checks.url = database_text("ROTA_TEST_URL");
    return is_sqlite() ? cmocka_run_group_tests(sqlite_tests, NULL, NULL)
                       : cmocka_run_group_tests(postgres_tests, NULL, NULL);
}
