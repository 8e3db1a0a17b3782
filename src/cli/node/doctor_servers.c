/* Checks of servers: a database, a log, a node, certificates, and a port to listen on. */
#include "cli/node/doctor.h"

#include "io/clock.h"
#include "io/log/sync.h"
#include "io/net/listener.h"
#include "io/sql/store_session.h"

#include <errno.h>
#include <libgen.h>
#include <rota/experimental/channel.h>
#include <rota/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

/* --- a database --- */

/* The queries for each database; NULL: not needed. */
struct dialect {
    const char *version, *isolation, *now_ms;
    int oldest_major, oldest_minor; /* the first version with SKIP LOCKED */
};

static const struct dialect DIALECTS[] = {
    [ROTA_SQL_SQLITE] = {"SELECT sqlite_version() FROM (SELECT count(*) FROM sqlite_master)", NULL,
                         NULL, 3, 24},
    [ROTA_SQL_MYSQL] = {"SELECT VERSION()", "SELECT @@tx_isolation",
                        "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)", 10, 6},
    [ROTA_SQL_POSTGRES] = {"SHOW server_version", "SHOW transaction_isolation",
                           "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", 9, 5},
};

/* Query one value as text. On failure adds a finding and returns false. */
static bool ask(struct rota_doctor *doctor, struct rota_sql *sql, const char *text, char *into,
                size_t size, int64_t *number)
{
    struct rota_sql_result result = {0};
    struct rota_error error;
    enum rota_code code = rota_sql_run(sql, text, NULL, 0, &result, &error);
    if (!code && result.n_rows > 0) {
        struct rota_str bytes = rota_sql_bytes_at(&result, 0, 0);
        snprintf(into, size, "%.*s", ROTA_STR_ARGS(bytes));
        *number = rota_sql_int_at(&result, 0, 0);
    } else if (code) {
        rota_cmd_doctor_find(
            doctor, "store", ROTA_VERDICT_FAIL,
            "Check that the user may read, and that the server is healthy; restore a "
            "damaged SQLite file from a backup (docs/operations.md).",
            "%s", error.text);
    }
    rota_sql_result_deinit(&result);
    return !code;
}

/* Returns false if the database does not even answer this. */
static bool look_at_version(struct rota_doctor *doctor, struct rota_sql *sql,
                            const struct dialect *dialect)
{
    char text[100] = "";
    int major = 0, minor = 0;
    int64_t number;
    if (!ask(doctor, sql, dialect->version, text, sizeof text, &number))
        return false;
    char *end;
    major = (int)strtol(text, &end, 10);
    if (*end == '.')
        minor = (int)strtol(end + 1, NULL, 10);
    bool is_old = major < dialect->oldest_major ||
                  (major == dialect->oldest_major && minor < dialect->oldest_minor);
    rota_cmd_doctor_find(doctor, "store version", is_old ? ROTA_VERDICT_FAIL : ROTA_VERDICT_OK,
                         is_old ? "Upgrade the database: claims need SKIP LOCKED." : NULL,
                         "the database is version %s%s", text,
                         is_old ? "" : ", claims can skip locked rows");
    return true;
}

static void look_at_isolation(struct rota_doctor *doctor, struct rota_sql *sql,
                              const struct dialect *dialect)
{
    char text[100] = "";
    int64_t number;
    if (!dialect->isolation || !ask(doctor, sql, dialect->isolation, text, sizeof text, &number))
        return;
    bool is_right =
        strcasecmp(text, "read-committed") == 0 || strcasecmp(text, "read committed") == 0;
    rota_cmd_doctor_find(doctor, "store isolation", is_right ? ROTA_VERDICT_OK : ROTA_VERDICT_FAIL,
                         is_right
                             ? NULL
                             : "Something between Rota and the database changes the isolation of "
                               "its sessions: connect without a pooler that does.",
                         "sessions are %s", text);
}

/* Compare both clocks at the middle of the round trip. */
static void look_at_clock(struct rota_doctor *doctor, struct rota_sql *sql,
                          const struct dialect *dialect)
{
    char text[100], shown[ROTA_TIME_TEXT_MAX];
    int64_t theirs = 0;
    rota_time before = rota_clock_wall();
    if (!dialect->now_ms || !ask(doctor, sql, dialect->now_ms, text, sizeof text, &theirs))
        return;
    rota_time after = rota_clock_wall();
    rota_time ours = before + (after - before) / 2;
    rota_time apart = theirs * ROTA_MSEC - ours;
    bool is_off = apart > ROTA_SEC || apart < -ROTA_SEC;
    rota_cmd_doctor_find(
        doctor, "store clock", is_off ? ROTA_VERDICT_WARN : ROTA_VERDICT_OK,
        is_off ? "Synchronize both clocks with NTP: times that you set are off by that much."
               : NULL,
        "the database's clock is %s %s this machine's",
        rota_cmd_doctor_span(apart < 0 ? -apart : apart, shown), apart < 0 ? "behind" : "ahead of");
}

/* A store that was never used has no tables. */
static void look_at_tables(struct rota_doctor *doctor, struct rota_sql *sql)
{
    struct rota_sql_result result = {0};
    struct rota_error error;
    int64_t version = 0;
    if (!rota_sql_run(sql, "SELECT version FROM rota_schema WHERE id = 1", NULL, 0, &result,
                      &error) &&
        result.n_rows > 0)
        version = rota_sql_int_at(&result, 0, 0);
    rota_sql_result_deinit(&result);
    if (version > ROTA_STORE_SCHEMA_VERSION)
        rota_cmd_doctor_find(doctor, "store tables", ROTA_VERDICT_FAIL,
                             "A newer Rota has upgraded them: install that version here.",
                             "the store's tables have version %lld, but this program supports "
                             "version %d",
                             (long long)version, ROTA_STORE_SCHEMA_VERSION);
}

/* The session settings, as the store itself sets them. */
static void look_at_durability(struct rota_doctor *doctor, const struct rota_sql_url *url)
{
    struct rota_store_session *session;
    struct rota_error error;
    enum rota_code code = rota_store_session_open(
        url, &(struct rota_sql_options){.is_reader = true}, &session, &error);
    if (code) {
        rota_cmd_doctor_find(doctor, "store durability", ROTA_VERDICT_FAIL,
                             "Check that the server is healthy.", "%s", error.text);
        return;
    }
    const char *warning = rota_store_session_warning(session);
    rota_cmd_doctor_find(
        doctor, "store durability", warning ? ROTA_VERDICT_WARN : ROTA_VERDICT_OK,
        warning ? "Change the setting as described: a lost grant could be given twice." : NULL,
        "%s", warning ? warning : "what is committed is on disk");
    rota_store_session_close(session);
}

/* A missing file would be created, but not its directory. */
static void look_at_missing(struct rota_doctor *doctor, const struct rota_sql_url *url,
                            const char *text)
{
    char path[sizeof url->path];
    snprintf(path, sizeof path, "%s", url->path);
    const char *directory = dirname(path);
    if (access(directory, F_OK) == 0)
        rota_cmd_doctor_find(doctor, "store", ROTA_VERDICT_OK, NULL, "%s: created at first use",
                             text);
    else
        rota_cmd_doctor_find(
            doctor, "store", ROTA_VERDICT_FAIL,
            "Create the directory of the file, writable for the user that Rota runs "
            "as.",
            "%.1000s: %s", directory, strerror(errno));
}

void rota_doctor_store(struct rota_doctor *doctor, const char *text)
{
    struct rota_sql_url url;
    struct rota_sql *sql;
    struct rota_error error;
    char shown[ROTA_TIME_TEXT_MAX], name[ROTA_SQL_URL_TEXT_MAX];
    if (rota_sql_url_parse(rota_str(text), &url, &error)) {
        rota_cmd_doctor_find(doctor, "store", ROTA_VERDICT_FAIL,
                             "Write the URL as in docs/store.md.", "%s", error.text);
        return;
    }
    rota_time before = rota_clock_boot();
    enum rota_code code =
        rota_sql_open(&url, &(struct rota_sql_options){.is_reader = true}, &sql, &error);
    if (code == ROTA_ERR_NOT_FOUND) {
        look_at_missing(doctor, &url, error.text);
        return;
    }
    if (code) {
        rota_cmd_doctor_find(
            doctor, "store", ROTA_VERDICT_FAIL,
            "Check that the server runs, is reachable from here, and knows the user.", "%s",
            error.text);
        return;
    }
    rota_cmd_doctor_find(doctor, "store", ROTA_VERDICT_OK, NULL, "%s answers; connecting takes %s",
                         rota_sql_url_format(&url, name),
                         rota_cmd_doctor_span(rota_clock_boot() - before, shown));
    const struct dialect *dialect = &DIALECTS[rota_sql_kind(sql)];
    bool is_healthy = look_at_version(doctor, sql, dialect);
    if (is_healthy) {
        look_at_isolation(doctor, sql, dialect);
        look_at_clock(doctor, sql, dialect);
        look_at_tables(doctor, sql);
    }
    rota_sql_close(sql);
    if (is_healthy)
        look_at_durability(doctor, &url);
}

/* --- a log --- */

struct log_look {
    struct rota_doctor *doctor;
    struct rota_sync *sync;
    uv_timer_t timer;
    bool is_done;
};

static void end_log_look(struct log_look *look)
{
    look->is_done = true;
    uv_timer_stop(&look->timer);
}

static void on_log_event(void *data, const struct rota_sync_event *event)
{
    struct log_look *look = data;
    if (look->is_done)
        return;
    if (event->type == ROTA_SYNC_OPENED) {
        rota_cmd_doctor_find(look->doctor, "log", ROTA_VERDICT_OK, NULL,
                             "%.200s answers; it has records up to %llu",
                             rota_sync_name(look->sync), (unsigned long long)event->end);
        end_log_look(look);
    } else if (event->type == ROTA_SYNC_FAILED && event->error->code == ROTA_ERR_NOT_FOUND) {
        rota_cmd_doctor_find(
            look->doctor, "log", ROTA_VERDICT_OK, NULL,
            "%.200s has no log of this group yet; the first task that joins creates it",
            rota_sync_name(look->sync));
        end_log_look(look);
    } else if (event->type == ROTA_SYNC_FAILED || event->type == ROTA_SYNC_LOST) {
        rota_cmd_doctor_find(
            look->doctor, "log", ROTA_VERDICT_FAIL,
            "Change the settings as described; see docs/kafka.md and docs/groups.md.", "%s",
            event->error->text);
        end_log_look(look);
    }
}

static void on_log_late(uv_timer_t *timer)
{
    struct log_look *look = timer->data;
    const char *trouble = rota_sync_trouble(look->sync);
    rota_cmd_doctor_find(
        look->doctor, "log", ROTA_VERDICT_FAIL,
        "Start the server, or name one that is reachable from here. For Kafka one "
        "broker is enough, with the address and the security of one of its listeners "
        "(docs/kafka.md).",
        "%.200s did not answer in time%s%.250s", rota_sync_name(look->sync), trouble ? ": " : "",
        trouble ? trouble : "");
    end_log_look(look);
}

void rota_doctor_log(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *url,
                     const char *group, rota_time timeout)
{
    struct log_look look = {.doctor = doctor};
    struct rota_error error;
    uv_timer_init(loop, &look.timer);
    look.timer.data = &look;
    enum rota_code code = rota_sync_open(loop,
                                         &(struct rota_sync_options){.url = url,
                                                                     .name = group,
                                                                     .is_observer = true,
                                                                     .on_event = on_log_event,
                                                                     .data = &look},
                                         &look.sync, &error);
    if (code) {
        rota_cmd_doctor_find(doctor, "log", ROTA_VERDICT_FAIL,
                             "Write the URL as in docs/groups.md.", "%s", error.text);
    } else {
        uv_timer_start(&look.timer, on_log_late, (uint64_t)(timeout / ROTA_MSEC), 0);
        while (!look.is_done)
            uv_run(loop, UV_RUN_ONCE);
        rota_sync_close(look.sync, NULL, NULL);
    }
    uv_close((uv_handle_t *)&look.timer, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
}

/* --- to be talked to --- */

void rota_doctor_tls(struct rota_doctor *doctor, const char *certificate, const char *key,
                     const char *ca)
{
    struct rota_tls *tls;
    struct rota_error error;
    char text[ROTA_TIME_TEXT_MAX];
    if (rota_tls_server_new(&(struct rota_tls_options){.certificate_file = certificate,
                                                       .key_file = key,
                                                       .ca_file = ca},
                            &tls, &error)) {
        rota_cmd_doctor_find(doctor, "certificate", ROTA_VERDICT_FAIL,
                             "Give a certificate and the key that belongs to it, in PEM.", "%s",
                             error.text);
        return;
    }
    rota_time now = rota_clock_wall();
    if (rota_tls_has_warning(tls, now, &error))
        rota_cmd_doctor_find(doctor, "certificate",
                             rota_tls_expires_at(tls) < now ? ROTA_VERDICT_FAIL : ROTA_VERDICT_WARN,
                             "Renew it; servers read it again on SIGHUP.", "%s", error.text);
    else
        rota_cmd_doctor_find(doctor, "certificate", ROTA_VERDICT_OK, NULL,
                             "%.200s matches its key and is valid until %s", certificate,
                             rota_time_format(rota_tls_expires_at(tls), text));
    rota_tls_free(tls);
}

void rota_doctor_port(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *address)
{
    char bound[ROTA_ADDRESS_TEXT_MAX];
    struct rota_error error;
    int fd;
    if (rota_listener_bind(loop, address, &(struct rota_listener_options){.insecure = true}, &fd,
                           bound, &error)) {
        rota_cmd_doctor_find(
            doctor, "port", ROTA_VERDICT_FAIL,
            "Listen on a free port of an address of this machine, as HOST:PORT; port 0 picks a "
            "free port.",
            "%s", error.text);
        return;
    }
    close(fd);
    rota_cmd_doctor_find(doctor, "port", ROTA_VERDICT_OK, NULL, "%.200s is free to listen on",
                         address);
}

void rota_doctor_node(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *address,
                      const struct rota_doctor_asking *how)
{
    static const char *const FIX =
        "Check that it runs, is reachable from here, and that this is its gRPC address (listen). "
        "With TLS, give --tls-ca, and --tls-cert and --tls-key if it asks for a certificate; "
        "plaintext to another machine needs --insecure.";
    struct rota_channel *channel;
    struct rota_error error;
    struct rota_reply reply = {0};
    char text[ROTA_TIME_TEXT_MAX];
    struct rota_tls *tls = NULL;
    struct rota_channel_options with = {.insecure = how->is_insecure,
                                        .connect_timeout = how->timeout};
    enum rota_code code = rota_tls_options_open(how->tls, &tls, &error);
    with.tls = tls;
    if (!code)
        code = rota_channel_open(loop, address, &with, &channel, &error);
    if (code) {
        rota_cmd_doctor_find(doctor, "node", ROTA_VERDICT_FAIL, FIX, "%s", error.text);
        rota_tls_free(tls);
        return;
    }
    struct rota_call_options call = {.method = rota_str("/grpc.health.v1.Health/Check"),
                                     .timeout = how->timeout};
    rota_time before = rota_clock_boot();
    code = rota_channel_wait(channel, &call, &reply, &error);
    rota_time took = rota_clock_boot() - before;
    static const char SERVING[] = {8, 1}; /* HealthCheckResponse { status: SERVING } */
    if (code || reply.status != ROTA_STATUS_OK)
        rota_cmd_doctor_find(doctor, "node", ROTA_VERDICT_FAIL, FIX, "%.200s: %s", address,
                             code ? error.text : reply.text);
    else if (reply.size != sizeof SERVING || memcmp(reply.message, SERVING, sizeof SERVING) != 0)
        rota_cmd_doctor_find(doctor, "node", ROTA_VERDICT_WARN,
                             "The node is starting or draining: see `rota top` and its log.",
                             "%.200s answers, but reports that it is not serving", address);
    else
        rota_cmd_doctor_find(doctor, "node", ROTA_VERDICT_OK, NULL,
                             "%.200s is serving; connecting and asking took %s", address,
                             rota_cmd_doctor_span(took, text));
    rota_reply_deinit(&reply);
    rota_channel_close(channel);
    uv_run(loop, UV_RUN_DEFAULT);
    rota_tls_free(tls);
}
