/* A worker over <rota/queue.h>, for test_queue_hang.py:
 *
 *     queue_worker NODE[,NODE...] QUEUE SLOTS
 *
 * Each slot polls, completes its job, and adds another one. Prints a line for every hundredth job.
 * A call may take an hour: only a node that is detected as silent is left sooner. */
#include <rota/queue.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { BACKLOG = 600, LINE_EVERY = 100 };

static struct rota_queue *client;
static struct rota_str queue;
static size_t n_done;

static void require(enum rota_code code, const struct rota_error *error)
{
    if (!code)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void on_added(void *data, const struct rota_queue_result *result)
{
    (void)data;
    (void)result;
}

static void add(void)
{
    struct rota_queue_job job = {.queue = queue, .payload = rota_str("x")};
    struct rota_error error;
    require(rota_queue_add(client, &job, on_added, NULL, &error), &error);
}

static void poll_again(void);

static void on_completed(void *data, const struct rota_queue_result *result)
{
    (void)data;
    if (!result->code && ++n_done % LINE_EVERY == 0) {
        printf("%zu\n", n_done);
        fflush(stdout);
    }
    add();
    poll_again();
}

static void on_work(void *data, const struct rota_queue_result *result,
                    const struct rota_queue_work *works, size_t n)
{
    struct rota_error error;
    (void)data;
    if (result->code || n == 0)
        poll_again();
    else
        require(rota_queue_complete(client, works->job, works->attempt, rota_str("y"), on_completed,
                                    NULL, &error),
                &error);
}

static void poll_again(void)
{
    struct rota_queue_wanted wanted = {.queue = queue, .max_jobs = 1};
    struct rota_error error;
    require(rota_queue_poll(client, &wanted, on_work, NULL, &error), &error);
}

int main(int argc, char **argv)
{
    struct rota_error error;
    if (argc != 4)
        return 2;
    struct rota_queue_options options = {
        .nodes = argv[1], .timeout = ROTA_HOUR, .patience = ROTA_HOUR};
    queue = rota_str(argv[2]);
    require(rota_queue_open(uv_default_loop(), &options, &client, &error), &error);
    for (int i = 0; i < BACKLOG; i++)
        add();
    for (int i = 0; i < atoi(argv[3]); i++)
        poll_again();
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
