/* A node for tests: `shard_server NODE DELAY_MS SLOTS [ADDRESS]`. A call takes
 * DELAY_MS in one of SLOTS slots and waits for one in a queue; the answer is
 * "NODE ADDRESS REQUEST", and the server reports its cost. SIGUSR1 makes it fail all calls at once,
 * with INTERNAL, SIGUSR2 has it serve again; SIGHUP makes it print `served N` calls. Prints `ready
 * grpc=ADDRESS`. */
#include <rota/experimental/health.h>

#include <rota/experimental/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct job {
    struct rota_server_call *call;
    uv_timer_t timer;
};

static struct {
    uv_loop_t loop;
    struct rota_server *server;
    struct rota_health *health;
    uv_signal_t signals[4];
    const char *node;
    uint64_t delay_ms;
    unsigned long n_served;
    int status; /* what calls are refused with at once; 0: none are */
} node;

static void on_job_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_served(uv_timer_t *timer)
{
    struct job *job = timer->data;
    struct rota_str request = rota_server_call_request(job->call);
    char reply[300];
    int size =
        snprintf(reply, sizeof reply, "%s %s %.*s", node.node, rota_server_address(node.server, 0),
                 (int)(request.size < 200 ? request.size : 200), request.data);
    rota_server_call_reply(job->call, rota_str_of(reply, (size_t)size));
    node.n_served++;
    uv_close((uv_handle_t *)&job->timer, on_job_closed);
}

static void on_work(void *data, struct rota_server_call *call)
{
    (void)data;
    if (node.status) {
        rota_server_call_finish(call, (enum rota_status)node.status, "refused", NULL, 0);
        return;
    }
    struct job *job = calloc(1, sizeof *job);
    job->call = call;
    rota_server_call_set_data(call, job);
    uv_timer_init(&node.loop, &job->timer);
    job->timer.data = job;
    uv_timer_start(&job->timer, on_served, node.delay_ms, 0);
}

static void on_cancel(void *data, struct rota_server_call *call)
{
    struct job *job = rota_server_call_data(call);
    (void)data;
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, NULL, NULL, 0);
    uv_close((uv_handle_t *)&job->timer, on_job_closed);
}

static void on_signal(uv_signal_t *signal, int number)
{
    if (number == SIGHUP) {
        printf("served %lu\n", node.n_served);
        fflush(stdout);
        return;
    }
    if (number == SIGTERM)
        uv_stop(signal->loop);
    node.status = number == SIGUSR1 ? ROTA_STATUS_INTERNAL : 0;
}

int main(int argc, char **argv)
{
    const struct rota_server_method work = {
        .path = "/test.Node/Work", .on_call = on_work, .on_cancel = on_cancel};
    struct rota_server_options options = {.waiting_max = 1000};
    const int signals[4] = {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};
    struct rota_error error;
    if (argc < 4) {
        fprintf(stderr, "usage: shard_server NODE DELAY_MS SLOTS [ADDRESS]\n");
        return 2;
    }
    node.node = argv[1];
    node.delay_ms = (uint64_t)atol(argv[2]);
    options.handlers_max = (uint32_t)atoi(argv[3]);
    uv_loop_init(&node.loop);
    if (rota_server_open(&node.loop, &options, &node.server, &error) ||
        rota_health_open(node.server, &node.health, &error) ||
        rota_server_add(node.server, &work, &error) ||
        rota_server_listen(node.server, argc > 4 ? argv[4] : "127.0.0.1:0", &error)) {
        fprintf(stderr, "shard_server: %s\n", error.text);
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        uv_signal_init(&node.loop, &node.signals[i]);
        uv_signal_start(&node.signals[i], on_signal, signals[i]);
    }
    printf("ready grpc=%s\n", rota_server_address(node.server, 0));
    fflush(stdout);
    uv_run(&node.loop, UV_RUN_DEFAULT);
    rota_server_close(node.server);
    rota_health_close(node.health);
    for (int i = 0; i < 4; i++)
        uv_close((uv_handle_t *)&node.signals[i], NULL);
    uv_run(&node.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&node.loop) != 0;
}
