#include "demo/up.h"

#include "base/json.h"
#include "io/clock.h"

#include <assert.h>
#include <stdio.h>

#define STUCK_AFTER (120 * ROTA_SEC) /* rows and shards that were not read or held again */
#define TICK        (100 * ROTA_MSEC)

/* --- life --- */

void rota_up_ledger_init(struct rota_up_ledger *ledger, bool is_new_group)
{
    *ledger = (struct rota_up_ledger){.n_gets = 0};
    rota_check_jobs_init(&ledger->jobs, &ledger->check);
    rota_check_rows_init(&ledger->rows, &ledger->check);
    if (is_new_group)
        rota_up_group_begin(&ledger->rows);
}

void rota_up_ledger_deinit(struct rota_up_ledger *ledger)
{
    rota_check_jobs_deinit(&ledger->jobs);
    rota_check_rows_deinit(&ledger->rows);
    rota_check_claims_deinit(&ledger->claims);
}

enum rota_code rota_up_ledger_open(struct rota_up_ledger *ledger, uv_loop_t *loop,
                                   const char *const *names, const char *const *addresses, size_t n,
                                   bool has_claims, bool has_counts, struct rota_error *error)
{
    if (!rota_check_claims_init(&ledger->claims, &ledger->check, rota_up_space, names, n,
                                ROTA_UP_SHARDS))
        return rota_error_no_memory(error, "for the owners of shards");
    uv_timer_init(loop, &ledger->timer);
    ledger->timer.data = ledger;
    ledger->has_timer = true;
    enum rota_code code =
        rota_up_load_open(loop, addresses, n, &ledger->jobs, &ledger->load, error);
    if (!code)
        code = rota_up_gets_open(loop, addresses, n, &ledger->check, &ledger->gets, error);
    if (!code && has_counts)
        code = rota_up_counts_open(loop, addresses, n, &ledger->check, &ledger->counts, error);
    ledger->has_counts = ledger->counts != NULL;
    if (!code && has_claims)
        code = rota_up_claims_open(loop, addresses, n, &ledger->claims, &ledger->watch, error);
    return code;
}

static void note_sums(struct rota_up_ledger *ledger)
{
    if (ledger->load)
        ledger->n_unfinished = rota_up_load_n_pending(ledger->load);
    if (ledger->gets)
        ledger->n_gets = rota_up_gets_n(ledger->gets);
    if (ledger->counts)
        ledger->n_counts = rota_up_counts_n(ledger->counts);
}

void rota_up_ledger_close(struct rota_up_ledger *ledger)
{
    note_sums(ledger);
    rota_up_load_close(ledger->load);
    rota_up_gets_close(ledger->gets);
    rota_up_counts_close(ledger->counts);
    rota_up_claims_close(ledger->watch);
    ledger->load = NULL;
    ledger->gets = NULL;
    ledger->counts = NULL;
    ledger->watch = NULL;
    if (ledger->has_timer)
        uv_close((uv_handle_t *)&ledger->timer, NULL);
    ledger->has_timer = false;
}

/* --- the end: jobs, then Gets, then counters, then what has to go on --- */

static void on_tick(uv_timer_t *timer)
{
    struct rota_up_ledger *ledger = timer->data;
    bool is_stuck = rota_clock_boot() - ledger->finishing_since > STUCK_AFTER;
    if (!is_stuck && (ledger->rows.n_awaited > 0 || ledger->claims.n_awaited > 0))
        return;
    uv_timer_stop(timer);
    rota_check_jobs_judge(&ledger->jobs);
    rota_check_rows_judge(&ledger->rows);
    rota_check_claims_judge(&ledger->claims);
    ledger->on_checked(ledger->data);
}

static void on_counts_checked(void *data)
{
    struct rota_up_ledger *ledger = data;
    ledger->finishing_since = rota_clock_boot();
    uv_timer_start(&ledger->timer, on_tick, 0, (uint64_t)(TICK / ROTA_MSEC));
}

static void on_gets_checked(void *data)
{
    struct rota_up_ledger *ledger = data;
    if (ledger->counts)
        rota_up_counts_finish(ledger->counts, on_counts_checked, ledger);
    else
        on_counts_checked(ledger);
}

static void on_jobs_checked(void *data)
{
    struct rota_up_ledger *ledger = data;
    rota_up_gets_finish(ledger->gets, on_gets_checked, ledger);
}

void rota_up_ledger_finish(struct rota_up_ledger *ledger, void (*on_checked)(void *data),
                           void *data)
{
    assert(ledger->load && ledger->gets);
    ledger->on_checked = on_checked;
    ledger->data = data;
    rota_check_rows_await(&ledger->rows);
    if (ledger->watch)
        rota_check_claims_await(&ledger->claims);
    rota_up_load_finish(ledger->load, on_jobs_checked, ledger);
}

/* --- observations --- */

const char *rota_up_ledger_sum(const struct rota_up_ledger *ledger, size_t i, uint64_t *sum)
{
    const struct {
        const char *name;
        uint64_t sum;
    } sums[] = {
        {"acknowledged", ledger->jobs.n_acknowledged},
        {"done", ledger->jobs.n_done},
        {"cancelled", ledger->jobs.n_cancelled},
        {"unfinished", ledger->load ? rota_up_load_n_pending(ledger->load) : ledger->n_unfinished},
        {"gets", ledger->gets ? rota_up_gets_n(ledger->gets) : ledger->n_gets},
        {"counts", ledger->counts ? rota_up_counts_n(ledger->counts) : ledger->n_counts},
        {"rows", ledger->rows.n_rows},
        {"partitions", ledger->rows.partitions.size},
        {"looks", ledger->claims.n_answers},
        {"moves", ledger->claims.n_moves},
    };
    if (i >= sizeof sums / sizeof *sums)
        return NULL;
    *sum = sums[i].sum;
    return sums[i].name;
}

static void write_faults(const struct rota_check *check, struct rota_json *json)
{
    rota_json_add_object(json, "faults");
    for (int i = 0; i < ROTA_CHECK_FAULTS; i++)
        rota_json_add_uint(json, rota_check_fault_name((enum rota_check_fault)i), check->n[i]);
    rota_json_end_object(json);
    rota_json_add_array(json, "told");
    for (size_t i = 0; i < check->n_told; i++) {
        rota_json_begin_object(json);
        rota_json_add_text(json, "fault", rota_check_fault_name(check->told[i].fault));
        rota_json_add_text(json, "text", check->told[i].text);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

static void write_sums(const struct rota_up_ledger *ledger, struct rota_json *json)
{
    const char *name;
    uint64_t sum;
    for (size_t i = 0; (name = rota_up_ledger_sum(ledger, i, &sum)); i++)
        rota_json_add_uint(json, name, sum);
}

static void write_down(const struct rota_up_progress *progress, struct rota_json *json)
{
    rota_json_add_array(json, "down");
    for (size_t i = 0; i < progress->n_nodes; i++) {
        const struct rota_up_process *node = &progress->nodes[i];
        if (node->is_ready && !node->is_stopped)
            continue;
        rota_json_begin_object(json);
        rota_json_add_text(json, "name", node->name);
        rota_json_add_text(json, "node", node->grpc);
        rota_json_add_text(json, "how",
                           node->is_stopped ? "stopped"
                           : node->child    ? "starting"
                                            : "killed");
        rota_json_add_int(json, "since_ms", node->struck_at / ROTA_MSEC);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

void rota_up_ledger_save(const struct rota_up_ledger *ledger,
                         const struct rota_up_progress *progress, const char *data)
{
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    char path[PATH_MAX];
    rota_json_begin_object(&json);
    rota_json_add_int(&json, "at_ms", rota_clock_wall() / ROTA_MSEC);
    rota_json_add_int(&json, "since_ms", progress->since / ROTA_MSEC);
    rota_json_add_text(&json, "phase", progress->is_over ? "checking" : "running");
    rota_json_add_uint(&json, "strikes", progress->n_strikes);
    write_down(progress, &json);
    write_sums(ledger, &json);
    write_faults(&ledger->check, &json);
    rota_json_end_object(&json);
    snprintf(path, sizeof path, "%.4000s/ledger.json", data);
    rota_up_write_file(path, &buffer, NULL);
    rota_buffer_deinit(&buffer);
}
