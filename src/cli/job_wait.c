#include "cli/job_wait.h"

#include "cli/terminal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TICK_MS = 200,
    ASK_TICKS = 5, /* what a job waits for changes without news of the job */
};

struct waiter {
    struct rota_queue_client *client;
    const struct rota_queue_about *about;
    struct rota_call *call;  /* the watch, while there is one */
    struct rota_buffer last; /* what was heard last */
    enum rota_status status;
    char why[ROTA_ERROR_TEXT_MAX]; /* what came with it */
    uint64_t pause_ms;
    bool has_heard, is_told;

    /* On a terminal. */
    bool is_shown, is_new, is_interrupted;
    uv_timer_t tick;
    uv_signal_t interrupt;
    int n_open; /* of the two */
    unsigned n_ticks;
    struct rota_call *asking; /* how it stands */
    struct rota_buffer text;  /* the answer */
    struct rota_arena arena;
    struct rota_progress progress;
};

/* --- how it stands --- */

static void on_described(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct waiter *waiter = data;
    struct rota_queue_description description;
    (void)call;
    waiter->asking = NULL;
    rota_arena_clear(&waiter->arena);
    if (result->status != ROTA_STATUS_OK ||
        rota_message_decode(&ROTA_QUEUE_DESCRIPTION, result->message, &description, &waiter->arena,
                            NULL) ||
        !description.job)
        return;
    const struct rota_queue_job_info *info = description.job;
    rota_buffer_clear(&waiter->text);
    rota_buffer_append_str(&waiter->text, description.explain);
    if (info->state == ROTA_JOB_RUNNING && info->progress.size > 0) {
        rota_buffer_append_text(&waiter->text, ": ");
        rota_buffer_append_str(&waiter->text, info->progress);
    }
}

static void ask_how_it_stands(struct waiter *waiter)
{
    struct rota_buffer request = {0};
    struct rota_queue_about about = *waiter->about;
    about.asks_nodes = true;
    rota_message_encode(&ROTA_QUEUE_DESCRIBE, &about, &request);
    struct rota_call_options call = {.method = rota_str("/rota.v1.Queue/Describe"),
                                     .request = rota_buffer_str(&request),
                                     .timeout = waiter->client->options->timeout,
                                     .on_end = on_described,
                                     .data = waiter};
    if (request.failed || rota_channel_call(waiter->client->channel, &call, &waiter->asking, NULL))
        waiter->asking = NULL; /* there will be another time */
    rota_buffer_deinit(&request);
}

static void on_tick(uv_timer_t *tick)
{
    struct waiter *waiter = tick->data;
    if (!waiter->asking && (waiter->is_new || waiter->n_ticks % ASK_TICKS == 0)) {
        waiter->is_new = false;
        ask_how_it_stands(waiter);
    }
    waiter->n_ticks++;
    rota_progress_say(&waiter->progress, rota_buffer_str(&waiter->text));
}

static void on_interrupt(uv_signal_t *interrupt, int number)
{
    struct waiter *waiter = interrupt->data;
    (void)number;
    waiter->is_interrupted = true;
    uv_stop(interrupt->loop); /* a pause */
}

static void on_closed(uv_handle_t *handle)
{
    struct waiter *waiter = handle->data;
    waiter->n_open--;
}

static void start_showing(struct waiter *waiter)
{
    struct sigaction before;
    uv_loop_t *loop = &waiter->client->loop;
    waiter->is_shown = isatty(STDERR_FILENO);
    if (!waiter->is_shown)
        return;
    uv_timer_init(loop, &waiter->tick);
    uv_signal_init(loop, &waiter->interrupt);
    waiter->tick.data = waiter->interrupt.data = waiter;
    waiter->n_open = 2;
    uv_timer_start(&waiter->tick, on_tick, 0, TICK_MS);
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        uv_signal_start(&waiter->interrupt, on_interrupt, SIGINT);
}

static void stop_showing(struct waiter *waiter)
{
    if (!waiter->is_shown)
        return;
    if (waiter->asking)
        rota_call_cancel(waiter->asking);
    uv_close((uv_handle_t *)&waiter->tick, on_closed);
    uv_close((uv_handle_t *)&waiter->interrupt, on_closed);
    while (waiter->n_open > 0)
        uv_run(&waiter->client->loop, UV_RUN_ONCE);
    rota_progress_end(&waiter->progress);
    rota_buffer_deinit(&waiter->text);
    rota_arena_deinit(&waiter->arena);
}

static int end_interrupted(const struct waiter *waiter)
{
    struct rota_buffer name = {0};
    const char *node = waiter->client->options->node;
    rota_queue_client_append_name(&name, waiter->about->queue, waiter->about->id);
    const char *job = rota_buffer_str(&name).data;
    fprintf(stderr, "rota: job %s goes on without us; to look at it: rota job show%s%s %s\n", job,
            node ? " --node " : "", node ? node : "", job);
    rota_buffer_deinit(&name);
    return rota_cli_end_interrupted();
}

/* --- its end --- */

static void on_news(void *data, struct rota_call *call, struct rota_str message)
{
    struct waiter *waiter = data;
    (void)call;
    waiter->has_heard = waiter->is_new = true;
    rota_buffer_clear(&waiter->last);
    rota_buffer_append_str(&waiter->last, message);
}

static void on_watch_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct waiter *waiter = data;
    (void)call;
    waiter->status = result->status;
    snprintf(waiter->why, sizeof waiter->why, "%.*s", ROTA_STR_ARGS(result->text));
    waiter->call = NULL;
}

/* How a job ended that was not done: a sentence, and below it the lines of the log that came along
 * with the reason. */
static int fail_end(const struct rota_queue_job_info *info)
{
    struct rota_str reason = info->reason;
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
    int code = rota_cli_fail(ROTA_CLI_NO, "the job is %s%s%.*s",
                             info->state < ROTA_JOB_STATES
                                 ? rota_job_state_name((enum rota_job_state)info->state)
                                 : "in an unknown state",
                             first.size > 0 ? ": " : "", ROTA_STR_ARGS(rota_buffer_str(&first)));
    if (rest.size > 0)
        fwrite(rest.data, 1, rest.size, stderr);
    rota_buffer_deinit(&first);
    rota_buffer_deinit(&rest);
    return code;
}

static int print_end(struct rota_queue_client *client, const struct rota_queue_job_info *info)
{
    struct rota_buffer buffer = {0};
    if (client->options->json) {
        struct rota_json json = {.buffer = &buffer};
        rota_queue_client_add_job(&json, info);
        rota_buffer_append_char(&buffer, '\n');
    } else if (info->state == ROTA_JOB_DONE) {
        rota_buffer_append_str(&buffer, info->result);
    } else {
        return fail_end(info);
    }
    int code = rota_cli_print(&buffer);
    return info->state == ROTA_JOB_DONE ? code : ROTA_CLI_NO;
}

static int tell_end(struct waiter *waiter)
{
    struct rota_queue_client *client = waiter->client;
    struct rota_queue_news news;
    struct rota_error error;
    rota_arena_clear(&client->arena);
    if (waiter->status != ROTA_STATUS_OK || waiter->last.failed)
        return rota_cli_fail(ROTA_CLI_NO, "the outcome of the job is unknown: %s%s%s",
                             rota_status_name(waiter->status), waiter->why[0] ? ": " : "",
                             waiter->why);
    if (rota_message_decode(&ROTA_QUEUE_NEWS, rota_buffer_str(&waiter->last), &news, &client->arena,
                            &error) ||
        !news.job)
        return rota_cli_fail(ROTA_CLI_NO, "malformed reply: expected a job");
    return print_end(client, news.job);
}

/* The node is away, or the one that has the job is: the next one is asked after a pause, which
 * grows while nothing is heard. */
static void ask_elsewhere(struct waiter *waiter)
{
    struct rota_queue_client *client = waiter->client;
    if (waiter->has_heard || waiter->pause_ms == 0)
        waiter->pause_ms = 50;
    rota_progress_end(&waiter->progress);
    rota_buffer_clear(&waiter->text);
    if (!waiter->is_told)
        fprintf(stderr, "rota: %s: %s%s%s; asking again until the job has ended\n",
                rota_channel_target(client->channel), rota_status_name(waiter->status),
                waiter->why[0] ? ": " : "", waiter->why);
    waiter->is_told = true;
    rota_queue_client_next(client);
    rota_queue_client_pause(client, waiter->pause_ms);
    waiter->pause_ms = waiter->pause_ms < 1600 ? 2 * waiter->pause_ms : waiter->pause_ms;
}

/* Watch the job until it has ended, an interrupt came, or it can't be. */
static enum rota_code watch(struct waiter *waiter, struct rota_error *error)
{
    struct rota_queue_client *client = waiter->client;
    struct rota_buffer request = {0};
    enum rota_code refused = ROTA_OK;
    rota_message_encode(&ROTA_QUEUE_NAME, waiter->about, &request);
    struct rota_call_options call = {.method = rota_str("/rota.v1.Queue/Watch"),
                                     .request = rota_buffer_str(&request),
                                     .on_message = on_news,
                                     .on_end = on_watch_end,
                                     .data = waiter};
    for (;;) {
        waiter->has_heard = false;
        waiter->status = ROTA_STATUS_UNAVAILABLE;
        waiter->why[0] = '\0';
        refused = rota_channel_call(client->channel, &call, &waiter->call, error);
        if (refused)
            waiter->call = NULL;
        if (refused && refused != ROTA_ERR_UNAVAILABLE)
            break;
        while (waiter->call && !waiter->is_interrupted)
            uv_run(&client->loop, UV_RUN_ONCE);
        refused = ROTA_OK;
        if (waiter->status != ROTA_STATUS_UNAVAILABLE || waiter->is_interrupted)
            break;
        ask_elsewhere(waiter);
        if (waiter->is_interrupted)
            break;
    }
    if (waiter->call)
        rota_call_cancel(waiter->call);
    rota_buffer_deinit(&request);
    return refused;
}

int rota_job_wait(struct rota_queue_client *client, const struct rota_queue_about *about)
{
    struct waiter waiter = {.client = client, .about = about};
    struct rota_error error;
    int code;
    start_showing(&waiter);
    enum rota_code refused = watch(&waiter, &error);
    stop_showing(&waiter);
    if (waiter.is_interrupted)
        code = end_interrupted(&waiter);
    else
        code = refused ? rota_cli_fail_error(&error) : tell_end(&waiter);
    rota_buffer_deinit(&waiter.last);
    return code;
}
