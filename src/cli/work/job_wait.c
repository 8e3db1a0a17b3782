#include "cli/work/job_wait.h"

#include "cli/signals.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TICK_MS = 200,
    ASK_TICKS = 5, /* the reason why a job waits changes without an event of the job */
};

struct waiter {
    struct rota_client *client;
    struct rota_queue *queue;
    const char *job;
    bool is_over;  /* the wait has ended, */
    bool is_lost;  /* ... because no node answers */
    int exit_code; /* ... or with this code */

    /* On a terminal. */
    bool is_shown, is_interrupted, is_asking; /* the state of the job */
    uv_timer_t tick;
    struct rota_signals signals;
    unsigned n_ticks;
    struct rota_buffer text; /* the answer */
    struct rota_progress progress;
};

/* --- how it stands --- */

static void on_described(void *data, const struct rota_queue_result *result)
{
    struct waiter *waiter = data;
    waiter->is_asking = false;
    if (result->code)
        return;
    rota_buffer_clear(&waiter->text);
    rota_buffer_append_str(&waiter->text, result->details->explain);
    if (result->state == ROTA_QUEUE_RUNNING && result->progress.size > 0) {
        rota_buffer_append_text(&waiter->text, ": ");
        rota_buffer_append_str(&waiter->text, result->progress);
    }
}

static void on_tick(uv_timer_t *tick)
{
    struct waiter *waiter = tick->data;
    if (waiter->is_over)
        return;
    if (!waiter->is_asking && waiter->n_ticks % ASK_TICKS == 0)
        waiter->is_asking =
            !rota_queue_describe(waiter->queue, waiter->job, false, on_described, waiter, NULL);
    waiter->n_ticks++;
    rota_terminal_progress_show_text(&waiter->progress, rota_buffer_str(&waiter->text));
}

static void on_interrupt(void *data)
{
    struct waiter *waiter = data;
    waiter->is_interrupted = true;
    uv_stop(&waiter->client->loop);
}

static void start_showing(struct waiter *waiter)
{
    uv_loop_t *loop = &waiter->client->loop;
    waiter->is_shown = isatty(STDERR_FILENO);
    if (!waiter->is_shown)
        return;
    uv_timer_init(loop, &waiter->tick);
    waiter->tick.data = waiter;
    uv_timer_start(&waiter->tick, on_tick, 0, TICK_MS);
    if (!rota_signals_is_ignored(SIGINT))
        rota_signals_open(&waiter->signals, loop, (const int[]){SIGINT, 0}, on_interrupt, waiter);
}

static void stop_showing(struct waiter *waiter)
{
    if (!waiter->is_shown)
        return;
    uv_close((uv_handle_t *)&waiter->tick, NULL);
    rota_signals_close(&waiter->signals);
    uv_run(&waiter->client->loop, UV_RUN_NOWAIT);
    rota_terminal_progress_end(&waiter->progress);
    rota_buffer_deinit(&waiter->text);
}

static int end_interrupted(const struct waiter *waiter)
{
    const char *node = waiter->client->options->node;
    fprintf(stderr, "rota: job %s continues; see rota job show%s%s %s\n", waiter->job,
            node ? " --node " : "", node ? node : "", waiter->job);
    return rota_cli_end_interrupted();
}

/* --- its end --- */

/* How a job ended that was not completed: a sentence, and below it the lines of the log that came
 * with the reason. */
static int fail_end(const struct rota_queue_result *ended)
{
    struct rota_str reason = ended->reason;
    const char *end = reason.size > 0 ? memchr(reason.data, '\n', reason.size) : NULL;
    size_t size = end ? (size_t)(end - reason.data) : reason.size;
    struct rota_buffer first = {0}, rest = {0};
    rota_terminal_append(&first, rota_str_of(reason.data, size));
    while (end) {
        reason = rota_str_of(end + 1, reason.size - size - 1);
        end = memchr(reason.data, '\n', reason.size);
        size = end ? (size_t)(end - reason.data) : reason.size;
        rota_terminal_append(&rest, rota_str_of(reason.data, size));
        rota_buffer_append_char(&rest, '\n');
    }
    int code =
        rota_cli_fail(ROTA_CLI_NO, "the job is %s%s%.*s", rota_queue_view_state(ended->state),
                      first.size > 0 ? ": " : "", ROTA_STR_ARGS(rota_buffer_str(&first)));
    if (rest.size > 0)
        fwrite(rest.data, 1, rest.size, stderr);
    rota_buffer_deinit(&first);
    rota_buffer_deinit(&rest);
    return code;
}

static int print_end(const struct rota_client *client, const struct rota_queue_result *ended)
{
    struct rota_buffer buffer = {0};
    if (client->options->json) {
        rota_queue_view_append_job(&buffer, ended);
    } else if (ended->state == ROTA_QUEUE_DONE) {
        rota_buffer_append_str(&buffer, ended->result);
        rota_terminal_end_line(&buffer);
    } else {
        return fail_end(ended);
    }
    int code = rota_cli_print(&buffer);
    return ended->state == ROTA_QUEUE_DONE ? code : ROTA_CLI_NO;
}

static void on_ended(void *data, const struct rota_queue_result *result)
{
    struct waiter *waiter = data;
    if (waiter->is_interrupted)
        return;
    waiter->is_over = true;
    waiter->is_lost = result->code == ROTA_ERR_UNAVAILABLE || result->code == ROTA_ERR_UNKNOWN;
    if (waiter->is_lost)
        return;
    rota_terminal_progress_end(&waiter->progress);
    if (result->code)
        waiter->exit_code =
            rota_cli_fail(ROTA_CLI_NO, "the outcome of the job is unknown: %s", result->text);
    else
        waiter->exit_code = print_end(waiter->client, result);
}

/* Watch the job until it ends or an interrupt arrives, no matter how long no node answers. */
static void wait_for_end(struct waiter *waiter)
{
    do {
        struct rota_error error;
        waiter->is_over = waiter->is_lost = false;
        if (rota_queue_wait(waiter->queue, waiter->job, on_ended, waiter, &error)) {
            waiter->exit_code = rota_cli_fail_error(&error);
            return;
        }
        rota_queue_await(waiter->queue);
    } while (waiter->is_lost && !waiter->is_interrupted);
}

int rota_job_wait(struct rota_client *client, struct rota_queue *queue, const char *job)
{
    static struct waiter waiter; /* static: a second signal delays the end of its handle */
    waiter = (struct waiter){.client = client, .queue = queue, .job = job};
    client->until_text = " until the job has ended";
    client->has_told_waiting = false;
    client->progress = &waiter.progress;
    start_showing(&waiter);
    wait_for_end(&waiter);
    stop_showing(&waiter);
    client->progress = NULL;
    return waiter.is_interrupted ? end_interrupted(&waiter) : waiter.exit_code;
}
