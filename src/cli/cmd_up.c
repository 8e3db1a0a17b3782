/* rota up: a cluster on this machine. */
#include "cli/cli.h"
#include "cli/terminal.h"
#include "cli/up_show.h"
#include "io/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KILL_AFTER (2 * ROTA_SEC) /* for processes that were asked to stop */
#define LOGS_EVERY (10 * ROTA_SEC)
#define TICK       ROTA_SEC /* progress, and the ledger for the page */

struct options {
    int64_t nodes;
    const char *data, *example;
    rota_time span;
    bool no_load, chaos, json;
};

static const struct rota_option OPTIONS[] = {
    {.name = "nodes",
     ROTA_OPTION_INTO(INT, struct options, nodes),
     .value_name = "N",
     .default_text = "3",
     .min = 1,
     .max = ROTA_UP_NODES_MAX,
     .help = "number of nodes"},
    {.name = "data",
     ROTA_OPTION_INTO(TEXT, struct options, data),
     .value_name = "DIR",
     .min = 1,
     .max = 2000,
     .help = "directory for all data, created if missing [default: a temporary directory, removed "
             "at the end]"},
    {.name = "no-load",
     ROTA_OPTION_INTO(FLAG, struct options, no_load),
     .help = "start only the nodes: no workers, jobs, cache reads or tasks"},
    {.name = "chaos",
     ROTA_OPTION_INTO(FLAG, struct options, chaos),
     .help = "kill and pause random nodes, one at a time, and verify jobs, reads, group rows and "
             "shard owners"},
    {.name = "example",
     ROTA_OPTION_INTO(TEXT, struct options, example),
     .value_name = "NAME",
     .min = 1,
     .max = 100,
     .help =
         "also run an example service: `counter`, three servers that own 32 shards of counters"},
    {.name = "for",
     ROTA_OPTION_INTO(SPAN, struct options, span),
     .value_name = "DURATION",
     .min = ROTA_MSEC,
     .max = 365 * ROTA_DAY,
     .help = "how long to run [default: until interrupted]"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct options, json), .help = "print JSON"},
};

/* The workers of the sample: a capability, and a shell command. */
static const struct {
    const char *name, *words;
} WORKERS[] = {
    {"worker-upper", "upper sleep 0.2; tr a-z A-Z"},
    {"worker-count", "count sleep 0.3; wc -c"},
};
enum { N_WORKERS = sizeof WORKERS / sizeof WORKERS[0], N_TASKS = 3, N_SERVERS = 3 };

static const char *const ZONES[ROTA_UP_ZONES] = {"a", "b"};

enum phase { STARTING, RUNNING, CHECKING, STOPPING };

struct up {
    struct rota_watch watch; /* prints */
    struct options options;
    struct rota_child_guard guard;
    uv_loop_t loop;
    struct rota_signals signals;
    uv_timer_t kill_timer, chaos_timer, span_timer, logs_timer, tick_timer;
    enum phase phase;
    int exit_code;
    char data[PATH_MAX], rota[PATH_MAX], rotad[PATH_MAX], counter[PATH_MAX];
    char nodes[ROTA_UP_NODES_MAX * ROTA_CHANNEL_TARGET_MAX];                   /* with commas */
    struct rota_up_process processes[ROTA_UP_NODES_MAX + ROTA_UP_WORKERS_MAX]; /* nodes first */
    size_t n_nodes, n_processes;
    struct rota_up_ledger ledger;
    const char *names[ROTA_UP_NODES_MAX]; /* of nodes, for its sentences */
    struct rota_random random;
    struct rota_node_chaos chaos;
    uint64_t n_kills, n_pauses; /* of nodes */
    rota_time since, ended;     /* wall clock: when all nodes served first, and chaos was over */
    struct rota_progress progress;
};

/* --- output --- */

static void add_text(struct up *up, const char *key, const char *text)
{
    if (up->watch.is_json) {
        rota_json_add_text(&up->watch.json, key, text);
    } else {
        rota_buffer_append_char(&up->watch.line, '\t');
        rota_terminal_append(&up->watch.line, rota_str(text));
    }
}

static void add_number(struct up *up, const char *key, int64_t number)
{
    if (up->watch.is_json) {
        rota_json_add_int(&up->watch.json, key, number);
    } else {
        rota_buffer_print(&up->watch.line, "\t%s=%lld", key, (long long)number);
    }
}

static void stop(struct up *up);

static void end_line(struct up *up)
{
    rota_terminal_progress_end(&up->progress);
    rota_watch_end(&up->watch);
    if (up->watch.is_failed)
        stop(up);
}

static void report_event(struct up *up, const char *event, const struct rota_up_process *process)
{
    rota_watch_begin(&up->watch, event);
    add_text(up, "name", process->name);
    if (process->child)
        add_number(up, "pid", process->pid);
    end_line(up);
}

/* --- the end --- */

static void on_kill(uv_timer_t *timer)
{
    struct up *up = timer->data;
    for (size_t i = 0; i < up->n_processes; i++)
        if (up->processes[i].child)
            rota_child_signal(up->processes[i].child, SIGKILL);
}

static bool is_running(const struct up *up)
{
    for (size_t i = 0; i < up->n_processes; i++)
        if (up->processes[i].child)
            return true;
    return false;
}

/* When all processes have ended, there is nothing left to wait for. */
static void leave_if_over(struct up *up)
{
    if (!is_running(up))
        uv_stop(&up->loop);
}

static void stop(struct up *up)
{
    if (up->phase == STOPPING)
        return;
    up->phase = STOPPING;
    rota_terminal_progress_end(&up->progress);
    uv_timer_stop(&up->chaos_timer);
    uv_timer_stop(&up->span_timer);
    uv_timer_stop(&up->logs_timer);
    uv_timer_stop(&up->tick_timer);
    rota_up_ledger_close(&up->ledger);
    for (size_t i = 0; i < up->n_processes; i++) {
        struct rota_up_process *process = &up->processes[i];
        process->is_held = true;
        uv_timer_stop(&process->timer);
        rota_up_process_thaw(process);
        if (process->child)
            rota_child_signal(process->child, SIGTERM);
    }
    uv_timer_start(&up->kill_timer, on_kill, (uint64_t)(KILL_AFTER / ROTA_MSEC), 0);
    leave_if_over(up);
}

static void fail(struct up *up, int exit_code)
{
    up->exit_code = exit_code;
    stop(up);
}

static void save_ledger(struct up *up)
{
    const struct rota_up_progress progress = {.since = up->since,
                                              .is_over = up->phase != RUNNING,
                                              .n_strikes = up->n_kills + up->n_pauses,
                                              .nodes = up->processes,
                                              .n_nodes = up->n_nodes};
    rota_up_ledger_save(&up->ledger, &progress, up->data);
}

/* What the command is waiting for, if anything. */
static void say_progress(struct up *up)
{
    size_t n_ready = 0;
    const char *first = NULL;
    for (size_t i = 0; i < up->n_nodes; i++) {
        n_ready += up->processes[i].is_ready;
        if (!up->processes[i].is_ready && !first)
            first = up->processes[i].name;
    }
    if ((up->phase == STARTING || up->phase == CHECKING) && first)
        rota_terminal_progress_print(&up->progress, "waiting for %s to serve: %zu of %zu nodes do",
                                     first, n_ready, up->n_nodes);
    else if (up->phase == CHECKING)
        rota_terminal_progress_print(
            &up->progress, "checking all keys; left: %zu jobs, %zu partitions, %zu shards",
            rota_up_load_n_pending(up->ledger.load), up->ledger.rows.n_awaited,
            up->ledger.claims.n_awaited);
}

static void on_tick(uv_timer_t *timer)
{
    struct up *up = timer->data;
    say_progress(up);
    if (up->options.chaos && !up->options.no_load && up->phase != STARTING)
        save_ledger(up);
}

/* --- the verdict --- */

static void tell_verdict_json(struct up *up, bool is_kept)
{
    const struct rota_check *check = &up->ledger.check;
    const char *name;
    uint64_t sum;
    rota_watch_begin(&up->watch, is_kept ? "nothing lost" : "violated");
    add_number(up, "strikes", (int64_t)(up->n_kills + up->n_pauses));
    for (size_t i = 0; (name = rota_up_ledger_sum(&up->ledger, i, &sum)); i++)
        add_number(up, name, (int64_t)sum);
    rota_json_add_object(&up->watch.json, "faults");
    for (int i = 0; i < ROTA_CHECK_FAULTS; i++)
        add_number(up, rota_check_fault_name((enum rota_check_fault)i), (int64_t)check->n[i]);
    rota_json_end_object(&up->watch.json);
    end_line(up);
}

static void tell_verdict(struct up *up, bool is_kept)
{
    rota_terminal_progress_end(&up->progress);
    rota_up_show_verdict(&up->watch, &up->ledger,
                         &(struct rota_up_run){.n_nodes = up->n_nodes,
                                               .n_kills = up->n_kills,
                                               .n_pauses = up->n_pauses,
                                               .duration = up->ended - up->since,
                                               .is_kept = is_kept});
    if (up->watch.is_failed)
        stop(up);
}

static void on_checked(void *data)
{
    struct up *up = data;
    const struct rota_check *check = &up->ledger.check;
    uint64_t n_faults = rota_check_n_faults(check);
    if (up->watch.is_json)
        tell_verdict_json(up, n_faults == 0);
    else
        tell_verdict(up, n_faults == 0);
    for (size_t i = 0; i < check->n_told; i++)
        rota_cli_fail(ROTA_CLI_NO, "%s: %s", rota_check_fault_name(check->told[i].fault),
                      check->told[i].text);
    if (n_faults > check->n_told)
        rota_cli_fail(ROTA_CLI_NO, "%llu faults in total", (unsigned long long)n_faults);
    fail(up, n_faults == 0 ? up->exit_code : ROTA_CLI_NO);
}

static void step_chaos(struct up *up);

/* Time to stop: at once, or when every acknowledged job is done. */
static void end(struct up *up)
{
    if (up->phase != RUNNING || !up->options.chaos || !up->ledger.load) {
        rota_terminal_progress_end(&up->progress);
        if (up->phase == CHECKING)
            rota_cli_fail(up->exit_code = ROTA_CLI_NO, "interrupted: the results were not checked");
        stop(up);
        return;
    }
    up->phase = CHECKING;
    up->ended = rota_clock_wall();
    rota_watch_begin(&up->watch, "checking");
    add_number(up, "unfinished", (int64_t)rota_up_load_n_pending(up->ledger.load));
    end_line(up);
    if (up->phase != CHECKING)
        return;
    rota_node_chaos_end(&up->chaos);
    step_chaos(up);
    rota_up_ledger_finish(&up->ledger, on_checked, up);
}

static void on_signal(void *data)
{
    struct up *up = data;
    if (up->phase == STOPPING)
        on_kill(&up->kill_timer);
    else
        end(up);
}

static void on_span(uv_timer_t *timer)
{
    end(timer->data);
}

/* --- chaos --- */

static uint32_t count_well(const struct up *up)
{
    uint32_t n = 0;
    for (size_t i = 0; i < up->n_nodes; i++)
        n += up->processes[i].is_ready && !up->processes[i].is_stopped;
    return n;
}

/* Every other fault also hits a task of the group, or a server of the example. */
static void strike_task(struct up *up, enum rota_node_chaos_act todo)
{
    size_t first = up->n_nodes + N_WORKERS;
    if (up->options.no_load || rota_random_below(&up->random, 2) == 0)
        return;
    struct rota_up_process *task =
        &up->processes[first + rota_random_below(&up->random, up->n_processes - first)];
    if (!task->child)
        return; /* it died on its own */
    if (todo == ROTA_NODE_CHAOS_KILL)
        rota_child_signal(task->child, SIGKILL);
    else
        rota_up_process_freeze(task);
    report_event(up, todo == ROTA_NODE_CHAOS_KILL ? "killed" : "stopped", task);
}

/* Processes that were paused together resume together. */
static void go_on(struct up *up)
{
    for (size_t i = 0; i < up->n_processes; i++) {
        if (!up->processes[i].is_stopped)
            continue;
        rota_up_process_thaw(&up->processes[i]);
        report_event(up, "continued", &up->processes[i]);
    }
}

static void act(struct up *up, enum rota_node_chaos_act todo, struct rota_up_process *process)
{
    up->n_kills += todo == ROTA_NODE_CHAOS_KILL;
    up->n_pauses += todo == ROTA_NODE_CHAOS_STOP;
    if (todo == ROTA_NODE_CHAOS_KILL || todo == ROTA_NODE_CHAOS_STOP)
        process->struck_at = rota_clock_wall();
    switch (todo) {
    case ROTA_NODE_CHAOS_NOTHING:
        break;
    case ROTA_NODE_CHAOS_KILL:
        process->is_held = true;
        report_event(up, "killed", process);
        if (process->child)
            rota_child_signal(process->child, SIGKILL);
        strike_task(up, todo);
        break;
    case ROTA_NODE_CHAOS_START:
        process->is_held = false;
        rota_up_process_restart(process);
        break;
    case ROTA_NODE_CHAOS_STOP:
        rota_up_process_freeze(process);
        report_event(up, "stopped", process);
        strike_task(up, todo);
        break;
    case ROTA_NODE_CHAOS_CONTINUE:
        go_on(up);
        break;
    }
}

static void on_chaos(uv_timer_t *timer)
{
    step_chaos(timer->data);
}

static void step_chaos(struct up *up)
{
    struct rota_node_chaos_todo todo;
    do {
        todo = rota_node_chaos_step(&up->chaos, rota_clock_boot(), count_well(up));
        act(up, todo.act, &up->processes[todo.node]);
    } while (todo.act != ROTA_NODE_CHAOS_NOTHING && up->phase != STOPPING);
    if (!up->options.no_load)
        save_ledger(up);
    rota_time now = rota_clock_boot(), at = rota_node_chaos_deadline(&up->chaos);
    if (at == ROTA_TIME_NEVER || up->phase == STOPPING)
        uv_timer_stop(&up->chaos_timer);
    else
        uv_timer_start(&up->chaos_timer, on_chaos,
                       at > now ? (uint64_t)((at - now) / ROTA_MSEC) + 1 : 0, 0);
}

/* --- processes --- */

static void on_ended(void *data, struct rota_up_process *process, int exit_code, int signal,
                     rota_time pause)
{
    struct up *up = data;
    char line[ROTA_UP_LINE_MAX];
    if (up->phase == STOPPING) {
        leave_if_over(up);
        return;
    }
    if (up->phase == STARTING) {
        rota_terminal_progress_end(&up->progress);
        rota_cli_fail(ROTA_CLI_NO, "%s did not start: %s", process->name,
                      rota_up_process_last_line(process, line));
        process->is_held = true;
        fail(up, ROTA_CLI_NO);
        return;
    }
    if (process->is_held)
        return; /* chaos has reported it, and will start it */
    rota_watch_begin(&up->watch, "died");
    add_text(up, "name", process->name);
    add_number(up, signal ? "signal" : "exit_code", signal ? signal : exit_code);
    add_number(up, "restart_ms", pause / ROTA_MSEC);
    end_line(up);
}

static void begin(struct up *up);

static void on_ready(void *data, struct rota_up_process *process)
{
    struct up *up = data;
    if (up->phase == STARTING && count_well(up) == up->n_nodes)
        begin(up);
    else if (up->phase == RUNNING || up->phase == CHECKING)
        report_event(up, "serving", process);
    if (up->options.chaos && (up->phase == RUNNING || up->phase == CHECKING))
        step_chaos(up);
}

static struct rota_up_process *add_process(struct up *up, const char *zone, const char *program)
{
    struct rota_up_process *process = &up->processes[up->n_processes++];
    *process = (struct rota_up_process){.zone = zone,
                                        .program = program,
                                        .guard = &up->guard,
                                        .loop = &up->loop,
                                        .data = up->data,
                                        .nodes = up->nodes,
                                        .on_ready = on_ready,
                                        .on_ended = on_ended,
                                        .callback_data = up};
    rota_random_init(&process->random, uv_hrtime());
    uv_timer_init(&up->loop, &process->timer);
    process->timer.data = process;
    return process;
}

static bool start(struct up *up, struct rota_up_process *process)
{
    struct rota_error error;
    if (!rota_up_process_start(process, &error))
        return true;
    fail(up, rota_cli_fail_error(&error));
    return false;
}

static void list_nodes(struct up *up)
{
    size_t size = 0;
    for (size_t i = 0; i < up->n_nodes; i++)
        size += (size_t)snprintf(up->nodes + size, sizeof up->nodes - size, "%s%s", i ? "," : "",
                                 up->processes[i].grpc);
}

static void on_line(void *data, struct rota_up_process *process, const char *line)
{
    (void)process;
    rota_up_group_read_line(&((struct up *)data)->ledger.rows, line);
}

static bool start_workers(struct up *up)
{
    for (size_t i = 0; i < N_WORKERS; i++) {
        struct rota_up_process *worker = add_process(up, NULL, up->rota);
        snprintf(worker->name, sizeof worker->name, "%s", WORKERS[i].name);
        worker->words = WORKERS[i].words;
        if (!start(up, worker))
            return false;
    }
    for (size_t i = 0; i < N_TASKS; i++) {
        struct rota_up_process *task = add_process(up, NULL, up->rota);
        snprintf(task->name, sizeof task->name, "task-%zu", i + 1);
        task->on_line = on_line;
        if (!start(up, task))
            return false;
    }
    return true;
}

static void on_server_line(void *data, struct rota_up_process *process, const char *line)
{
    (void)data;
    (void)process;
    (void)line;
}

static bool start_servers(struct up *up)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/counts", up->data);
    if (up->options.example && mkdir(path, 0700) && errno != EEXIST) {
        fail(up, rota_cli_fail(ROTA_CLI_NO, "cannot create %s: %s", path, strerror(errno)));
        return false;
    }
    for (size_t i = 0; i < N_SERVERS && up->options.example; i++) {
        struct rota_up_process *server = add_process(up, NULL, up->counter);
        snprintf(server->name, sizeof server->name, "%s-%zu", up->options.example, i + 1);
        server->is_server = true;
        server->on_line = on_server_line;
        if (!start(up, server))
            return false;
    }
    return true;
}

static bool start_load(struct up *up)
{
    const char *addresses[ROTA_UP_NODES_MAX];
    struct rota_error error;
    for (size_t i = 0; i < up->n_nodes; i++) {
        addresses[i] = up->processes[i].grpc;
        up->names[i] = up->processes[i].name;
    }
    if (!start_workers(up) || !start_servers(up))
        return false;
    enum rota_code code =
        rota_up_ledger_open(&up->ledger, &up->loop, up->names, addresses, up->n_nodes,
                            up->options.chaos, up->options.example != NULL, &error);
    if (code)
        fail(up, rota_cli_fail_error(&error));
    return code == ROTA_OK;
}

/* All nodes serve for the first time. */
static void begin(struct up *up)
{
    uint64_t seed = uv_hrtime();
    up->phase = RUNNING;
    up->since = rota_clock_wall();
    rota_terminal_progress_end(&up->progress);
    list_nodes(up);
    if (!up->options.no_load && !start_load(up))
        return;
    rota_up_show(&up->watch, up->processes, up->n_nodes, up->data, up->rota, up->options.no_load);
    if (up->watch.is_failed)
        stop(up);
    if (up->phase == STOPPING)
        return;
    uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL);
    rota_random_init(&up->random, seed);
    rota_node_chaos_init(&up->chaos, (uint32_t)up->n_nodes, seed, rota_clock_boot());
    if (up->options.chaos)
        step_chaos(up);
    if (up->options.span)
        uv_timer_start(&up->span_timer, on_span, (uint64_t)(up->options.span / ROTA_MSEC), 0);
}

static void start_nodes(struct up *up)
{
    static char addresses[ROTA_UP_NODES_MAX][ROTA_CHANNEL_TARGET_MAX];
    struct rota_error error;
    if (rota_up_reserve(addresses, (size_t)up->options.nodes, &error)) {
        fail(up, rota_cli_fail_error(&error));
        return;
    }
    for (size_t i = 0; i < (size_t)up->options.nodes; i++) {
        struct rota_up_process *node = add_process(up, ZONES[i % ROTA_UP_ZONES], up->rotad);
        snprintf(node->name, sizeof node->name, "node-%zu", i + 1);
        memcpy(node->grpc, addresses[i], sizeof node->grpc);
    }
    up->n_nodes = up->n_processes;
    for (size_t i = 0; i < up->n_nodes; i++)
        if (!start(up, &up->processes[i]))
            return;
}

/* --- the frame --- */

static void on_logs(uv_timer_t *timer)
{
    const struct up *up = timer->data;
    for (size_t i = 0; i < up->n_processes; i++)
        rota_up_process_trim_log(&up->processes[i]);
}

static void open_handles(struct up *up)
{
    uv_timer_t *const timers[] = {&up->kill_timer, &up->chaos_timer, &up->span_timer,
                                  &up->logs_timer, &up->tick_timer};
    rota_signals_open(&up->signals, &up->loop, (const int[]){SIGINT, SIGTERM, SIGHUP, 0}, on_signal,
                      up);
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++) {
        uv_timer_init(&up->loop, timers[i]);
        timers[i]->data = up;
    }
    uv_timer_start(&up->logs_timer, on_logs, LOGS_EVERY / ROTA_MSEC, LOGS_EVERY / ROTA_MSEC);
    uv_timer_start(&up->tick_timer, on_tick, 0, TICK / ROTA_MSEC);
}

static void close_handles(struct up *up)
{
    rota_signals_close(&up->signals);
    uv_close((uv_handle_t *)&up->kill_timer, NULL);
    uv_close((uv_handle_t *)&up->chaos_timer, NULL);
    uv_close((uv_handle_t *)&up->span_timer, NULL);
    uv_close((uv_handle_t *)&up->logs_timer, NULL);
    uv_close((uv_handle_t *)&up->tick_timer, NULL);
    for (size_t i = 0; i < up->n_processes; i++)
        uv_close((uv_handle_t *)&up->processes[i].timer, NULL);
    uv_run(&up->loop, UV_RUN_NOWAIT); /* a uv_stop() from before would end this early */
}

static void run_cluster(struct up *up)
{
    open_handles(up);
    start_nodes(up);
    while (is_running(up)) /* also if nothing can be printed, which stops the loop */
        uv_run(&up->loop, UV_RUN_DEFAULT);
    close_handles(up);
    uv_run(&up->loop, UV_RUN_DEFAULT);
    uv_loop_close(&up->loop);
    rota_buffer_deinit(&up->watch.line);
}

/* Whether the example can run. Nothing has been made or started yet. */
static enum rota_code check_example(struct up *up, struct rota_error *error)
{
    if (!up->options.example)
        return ROTA_OK;
    if (strcmp(up->options.example, "counter") != 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "there is no example `%s`; use `counter`",
                              up->options.example);
    if (up->options.no_load)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "--example is a load: it cannot be used with --no-load");
    return rota_up_find_counter(up->rota, up->counter, error);
}

static int run_up(int argc, char *const *argv)
{
    static struct up up;
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_up, argc, argv, &up.options, NULL, &exit_code))
        return exit_code;
    rota_up_find_programs(up.rota, up.rotad);
    if (check_example(&up, &error))
        return rota_cli_fail(ROTA_CLI_BAD, "%s", error.text);
    if (rota_up_directory_make(up.options.data, up.data, &error) ||
        rota_up_sample_write(up.data, up.options.chaos && !up.options.no_load, &error) ||
        rota_child_guard_open(&up.guard, &error))
        return rota_cli_fail_error(&error);
    rota_up_ledger_init(&up.ledger, !rota_up_has_group(up.data));
    if (uv_loop_init(&up.loop)) {
        up.exit_code = rota_cli_fail(ROTA_CLI_NO, "no event loop");
    } else {
        signal(SIGPIPE, SIG_IGN);
        up.watch.loop = &up.loop;
        up.watch.is_json = up.options.json;
        run_cluster(&up);
    }
    rota_up_ledger_deinit(&up.ledger);
    rota_child_guard_close(&up.guard);
    if (!up.options.data)
        rota_up_directory_remove(up.data);
    return up.exit_code;
}

const struct rota_cli_command rota_cmd_up = {
    .command =
        {
            .name = "up",
            .summary = "Run a sample cluster on this machine",
            .description =
                "Starts nodes in two zones on free ports, with one SQLite store and a light load: "
                "two kinds of workers with jobs on the queue `sample`, reads of the keys sample-0 "
                "to sample-999 from a cache with 2 shards in each zone, and a group of three tasks "
                "whose partitions split and merge. Prints the address of each node and of the "
                "dashboard, and commands to try. Finds `rotad` next to this program, on PATH, "
                "or at ROTA_ROTAD. Restarts a process that exits, with growing delays if it keeps "
                "exiting. When this command ends, for "
                "any reason, everything it started ends too, within 3 seconds. Logs are files in "
                "the data directory, at most 8 MiB each.\n\nWith --chaos, random nodes are killed "
                "(SIGKILL) and restarted, or paused (SIGSTOP) and resumed, never two at a time; "
                "about half of the faults also hit a task of the group, or a server of the "
                "example. "
                "Meanwhile the command checks the promises below, and the dashboard shows the "
                "state. At the end (Ctrl-C or --for) all "
                "nodes come back, all work finishes, and the verdict is printed. If any promise "
                "below is broken, the exit code is 1 and standard error says which. A second "
                "Ctrl-C "
                "skips the verdict. With --no-load there is nothing to check.\n\nJobs: every "
                "acknowledged job is completed exactly once, on one node, with the right "
                "result.\n\nCache: every key is answered within a minute with the right value, and "
                "all of them once more at the end.\n\nGroup: every row is read, from the beginning "
                "of its partition to its end, and read again only if its position was not "
                "committed. No task reads under a token after another task started under a later "
                "one, and each token has one reader. Children start after their parents, and no "
                "partition is left unread.\n\nOwners: nodes report four times per second which "
                "shards of `sample-shards` they own. No shard has two owners under one epoch, or "
                "an owner under an epoch older than one already seen; epochs never fall; at the "
                "end every shard has an owner.\n\nExample: with --example counter, three servers "
                "own counters in 32 shards of the space `counters`, and each addition, repeated "
                "until it is answered, counts exactly once.\n\nAt most 1,000,000 jobs, 100,000 "
                "partitions and "
                "2,097,152 epochs can be checked; more are reported as unchecked.\n\nEach event is "
                "a line of tab-separated values: the time; `died`, `serving`, `killed`, `stopped`, "
                "`continued` or `checking`; the process, or a number. The verdict is a table: how "
                "long chaos lasted, the faults injected, and for each promise what was checked, "
                "how many of them, and `ok` or `FAILED`.\n\nWith --json: one object per line, each "
                "with \"time\" and \"event\". The event `ready` comes first, with \"dashboard\", "
                "\"data\", \"store\" and \"nodes\": [{\"name\", \"zone\", \"grpc\", \"zmq\", "
                "\"http\", \"pid\"}]; `serving`, `killed`, `stopped` and `continued` have "
                "\"name\", and \"pid\" if the process runs; `died` has \"name\", \"signal\" or "
                "\"exit_code\", and \"restart_ms\"; `checking` has \"unfinished\". The last event "
                "is `nothing lost` or `violated`, with \"strikes\" (faults injected into nodes); "
                "\"acknowledged\", \"done\", \"cancelled\" and \"unfinished\" (jobs); \"gets\"; "
                "\"counts\" (additions of the example); "
                "\"rows\" and \"partitions\"; \"looks\" (reports of what nodes own) and \"moves\" "
                "(of shards); and \"faults\", an object with how often each kind of violation was "
                "seen.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota up\n"
                        "rota up --chaos --for 10m\n"
                        "rota up --example counter --chaos\n"
                        "rota up --nodes 5 --data ./cluster --no-load --json\n",
        },
    .run = run_up,
};
