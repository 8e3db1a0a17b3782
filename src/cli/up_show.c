#include "cli/up_show.h"

#include "cli/table.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void show_json(struct rota_watch *watch, const struct rota_up_process *nodes, size_t n_nodes,
                      const char *data)
{
    struct rota_json *json = &watch->json;
    char text[PATH_MAX + 32];
    rota_watch_begin(watch, "ready");
    snprintf(text, sizeof text, "http://%s/", nodes[0].http);
    rota_json_add_text(json, "dashboard", text);
    rota_json_add_text(json, "data", data);
    snprintf(text, sizeof text, "sqlite:%s/store.db", data);
    rota_json_add_text(json, "store", text);
    rota_json_add_array(json, "nodes");
    for (size_t i = 0; i < n_nodes; i++) {
        rota_json_begin_object(json);
        rota_json_add_text(json, "name", nodes[i].name);
        rota_json_add_text(json, "zone", nodes[i].zone);
        rota_json_add_text(json, "grpc", nodes[i].grpc);
        rota_json_add_text(json, "zmq", nodes[i].zmq);
        rota_json_add_text(json, "http", nodes[i].http);
        rota_json_add_int(json, "pid", nodes[i].pid);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
    rota_watch_end(watch);
}

/* How to call this program: by its name if the shell finds it, otherwise by its path. */
static const char *command_of(const char *rota)
{
    const char *at = getenv("PATH");
    struct stat self, found;
    char path[PATH_MAX];
    if (stat(rota, &self) != 0)
        return rota;
    while (at && *at) {
        size_t size = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/rota", (int)size, at);
        if (access(path, X_OK) == 0 && stat(path, &found) == 0) /* the first one counts */
            return found.st_ino == self.st_ino && found.st_dev == self.st_dev ? "rota" : rota;
        at += size;
        at += *at == ':';
    }
    return rota;
}

static void append_commands(struct rota_buffer *line, const struct rota_up_process *nodes,
                            size_t n_nodes, const char *data, const char *rota, bool has_no_load)
{
    rota_buffer_print(line, "  export ROTA_NODE=%s\n", nodes[0].grpc);
    if (has_no_load) {
        rota_buffer_print(line, "  %s job add --queue mail hello\n", rota);
        rota_buffer_print(line, "  %s queue list\n", rota);
        rota_buffer_print(line, "  %s work --node %s --queue mail -- tr a-z A-Z\n", rota,
                          nodes[0].nodes);
    } else {
        rota_buffer_print(line, "  %s queue show %s\n", rota, rota_up_queue);
        rota_buffer_print(line, "  %s job add --queue %s --can upper --wait hello\n", rota,
                          rota_up_queue);
        rota_buffer_print(line, "  %s group status --log sqlite:%s/groups.db --name %s\n", rota,
                          data, rota_up_queue);
    }
    rota_buffer_print(line, "  %s get sample-1 sample-2 sample-3\n", rota);
    rota_buffer_print(line, "  kill -9 %ld  # the others take over; it restarts after 15 seconds\n",
                      nodes[n_nodes - 1].pid);
}

void rota_up_show(struct rota_watch *watch, const struct rota_up_process *nodes, size_t n_nodes,
                  const char *data, const char *rota, bool has_no_load)
{
    struct rota_buffer *line = &watch->line;
    if (watch->is_json) {
        show_json(watch, nodes, n_nodes, data);
        return;
    }
    rota_buffer_print(line, "%zu node%s, data in %s:\n", n_nodes, n_nodes == 1 ? "" : "s", data);
    for (size_t i = 0; i < n_nodes; i++)
        rota_buffer_print(line, "  %s  zone=%s  grpc=%s  zmq=%s  http=%s  pid=%ld\n", nodes[i].name,
                          nodes[i].zone, nodes[i].grpc, nodes[i].zmq, nodes[i].http, nodes[i].pid);
    rota_buffer_print(line, "\nDashboard: http://%s/\n\nTry, in another terminal:\n",
                      nodes[0].http);
    append_commands(line, nodes, n_nodes, data, command_of(rota), has_no_load);
    rota_buffer_append_text(line, "\nCtrl-C stops it.\n\n");
    rota_watch_print(watch);
}

/* --- the verdict --- */

enum checked { JOBS, GETS, COUNTS, ROWS, PARTITIONS, REPORTS, SHARDS };
static const char *const UNITS[] = {"jobs",       "Gets",    "additions", "rows",
                                    "partitions", "reports", "shards"};

#define FAULT(name) (1u << ROTA_CHECK_##name)

static const struct {
    const char *text;
    enum checked checked;
    uint32_t faults; /* that violate it */
} PROMISES[] = {
    {"every acknowledged job completed", JOBS, FAULT(JOB_LOST) | FAULT(JOB_DEAD)},
    {"no job completed twice", JOBS, FAULT(JOB_TWICE)},
    {"every result was right", JOBS, FAULT(JOB_WRONG)},
    {"every Get was answered", GETS, FAULT(GET_UNANSWERED)},
    {"every value was right", GETS, FAULT(GET_WRONG)},
    {"every addition was counted exactly once", COUNTS, FAULT(COUNT_WRONG)},
    {"every addition was answered", COUNTS, FAULT(COUNT_UNANSWERED)},
    {"no row was skipped", ROWS, FAULT(ROW_LOST)},
    {"no committed row was read again", ROWS, FAULT(ROW_TWICE)},
    {"one reader per partition", ROWS, FAULT(ROW_LATE) | FAULT(TWO_READERS)},
    {"children started after their parents", PARTITIONS, FAULT(PARTITION_EARLY)},
    {"no partition was left unread", PARTITIONS, FAULT(PARTITION_FORGOTTEN)},
    {"one owner per shard", REPORTS, FAULT(TWO_OWNERS) | FAULT(OLD_OWNER)},
    {"epochs never fell", REPORTS, FAULT(EPOCH_FELL)},
    {"every shard has an owner at the end", SHARDS, FAULT(SHARD_UNOWNED)},
};
enum { N_PROMISES = sizeof PROMISES / sizeof *PROMISES };

static const struct rota_table_column PROMISE_COLUMNS[] = {
    {"PROMISE", "promise", ROTA_TABLE_NAME, false},
    {"CHECKED", "checked", ROTA_TABLE_NUMBER, false},
    {"", "unit", ROTA_TABLE_NAME, false},
    {"RESULT", "result", ROTA_TABLE_STATE, false},
};
static const struct rota_table_column VERDICT_COLUMNS[] = {
    {"VERDICT", "verdict", ROTA_TABLE_STATE, false},
    {"DURATION", "duration_ms", ROTA_TABLE_DURATION, false},
    {"NODES", "nodes", ROTA_TABLE_NUMBER, false},
    {"FAULTS INJECTED", "faults", ROTA_TABLE_NAME, false},
    {"SHARD MOVES", "moves", ROTA_TABLE_NUMBER, false},
    {"NOT CHECKED", "unchecked", ROTA_TABLE_NUMBER, false},
};
static const struct rota_table PROMISE_TABLE =
    ROTA_TABLE_PART("promises", "promise", PROMISE_COLUMNS);
static const struct rota_table VERDICT = ROTA_TABLE_SHEET(VERDICT_COLUMNS, &PROMISE_TABLE, 1);

static void add_promises(struct rota_json *json, const struct rota_up_ledger *ledger)
{
    const uint64_t checked[] = {
        [JOBS] = ledger->jobs.n_acknowledged,
        [GETS] = ledger->gets ? rota_up_gets_n(ledger->gets) : ledger->n_gets,
        [COUNTS] = ledger->counts ? rota_up_counts_n(ledger->counts) : ledger->n_counts,
        [ROWS] = ledger->rows.n_rows,
        [PARTITIONS] = ledger->rows.partitions.size,
        [REPORTS] = ledger->claims.n_answers,
        [SHARDS] = ROTA_UP_SHARDS,
    };
    for (size_t i = 0; i < N_PROMISES; i++) {
        uint64_t n = 0;
        if (PROMISES[i].checked == COUNTS && !ledger->has_counts)
            continue;
        for (int fault = 0; fault < ROTA_CHECK_FAULTS; fault++)
            n += PROMISES[i].faults & 1u << fault ? ledger->check.n[fault] : 0;
        rota_json_begin_object(json);
        rota_json_add_text(json, "promise", PROMISES[i].text);
        rota_json_add_uint(json, "checked", checked[PROMISES[i].checked]);
        rota_json_add_text(json, "unit", UNITS[PROMISES[i].checked]);
        rota_json_add_text(json, "result", n == 0 ? "ok" : "FAILED");
        rota_json_end_object(json);
    }
}

void rota_up_show_verdict(struct rota_watch *watch, const struct rota_up_ledger *ledger,
                          const struct rota_up_run *run)
{
    const struct rota_terminal terminal = rota_terminal_look();
    struct rota_buffer document = {0};
    struct rota_json json = {.buffer = &document};
    char faults[100];
    snprintf(faults, sizeof faults, "%llu (kills: %llu, pauses: %llu)",
             (unsigned long long)(run->n_kills + run->n_pauses), (unsigned long long)run->n_kills,
             (unsigned long long)run->n_pauses);
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "verdict", run->is_kept ? "nothing lost" : "violated");
    rota_json_add_int(&json, "duration_ms", run->duration / ROTA_SEC * (ROTA_SEC / ROTA_MSEC));
    rota_json_add_uint(&json, "nodes", run->n_nodes);
    rota_json_add_text(&json, "faults", faults);
    rota_json_add_uint(&json, "moves", ledger->claims.n_moves);
    if (ledger->check.n[ROTA_CHECK_UNCHECKED] > 0)
        rota_json_add_uint(&json, "unchecked", ledger->check.n[ROTA_CHECK_UNCHECKED]);
    rota_json_add_array(&json, "promises");
    add_promises(&json, ledger);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(&watch->line, '\n');
    if (document.failed || rota_table_append(&watch->line, &VERDICT, ROTA_TABLE_PLAIN, &terminal,
                                             rota_buffer_str(&document), 0, NULL))
        watch->line.failed = true;
    rota_buffer_deinit(&document);
    rota_watch_print(watch);
}
