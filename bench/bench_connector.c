/* bench_connector [--json]: jobs of 100 bytes to a worker and their results back, over
 * ZeroMQ on the loopback device, 1000 in flight: bare sockets with a message each, and
 * our connectors with batches. Both sides are in this process. */
#include "wire/message/worker_frame.h"

#include <rota/experimental/connector.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <uv.h>
#include <zmq.h>

enum { JOBS = 500000, WINDOW = 1000, PAYLOAD = 100 };

static char payload[PAYLOAD];

struct result {
    double seconds, cpu; /* of both sides */
};

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void must(bool is_well, const char *what)
{
    if (is_well)
        return;
    fprintf(stderr, "bench_connector: %s\n", what);
    exit(1);
}

/* --- bare sockets --- */

/* No bound, for beyond it a ROUTER drops messages. */
static void unbound(void *socket)
{
    int none = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none);
}

static void echo(void *data)
{
    void *dealer = zmq_socket(((void **)data)[0], ZMQ_DEALER);
    char bytes[256];
    unbound(dealer);
    must(zmq_connect(dealer, ((void **)data)[1]) == 0, "connect");
    zmq_send(dealer, "hello", 5, 0);
    for (;;) {
        int size = zmq_recv(dealer, bytes, sizeof bytes, 0);
        if (size < 1)
            break;
        zmq_send(dealer, bytes, (size_t)size, 0);
    }
    zmq_close(dealer);
}

static struct result run_bare(void)
{
    void *context = zmq_ctx_new(), *router = zmq_socket(context, ZMQ_ROUTER);
    char endpoint[100], id[256], bytes[256];
    size_t size = sizeof endpoint;
    uv_thread_t thread;
    unbound(router);
    must(zmq_bind(router, "tcp://127.0.0.1:*") == 0, "bind");
    zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size);
    void *arguments[] = {context, endpoint};
    uv_thread_create(&thread, echo, arguments);
    int id_size = zmq_recv(router, id, sizeof id, 0);
    zmq_recv(router, bytes, sizeof bytes, 0);
    double begin = now_seconds(), cpu = cpu_seconds();
    for (int n_sent = 0, n_done = 0; n_done < JOBS;) {
        while (n_sent < JOBS && n_sent - n_done < WINDOW) {
            zmq_send(router, id, (size_t)id_size, ZMQ_SNDMORE);
            zmq_send(router, payload, sizeof payload, 0);
            n_sent++;
        }
        zmq_recv(router, bytes, sizeof bytes, 0);
        zmq_recv(router, bytes, sizeof bytes, 0);
        n_done++;
    }
    struct result result = {now_seconds() - begin, cpu_seconds() - cpu};
    zmq_send(router, id, (size_t)id_size, ZMQ_SNDMORE);
    zmq_send(router, "", 0, 0);
    uv_thread_join(&thread);
    zmq_close(router);
    zmq_ctx_term(context);
    return result;
}

/* --- connectors --- */

struct broker {
    struct rota_connector *connector;
    struct rota_connector_peer *peer;
    uint32_t jobs;
    int batch, n_sent, n_done;
    struct rota_buffer body;
    bool is_up;
};

struct worker {
    struct rota_connector *connector;
    uint32_t ends;
    struct rota_buffer body;
};

static void send_batch(struct broker *broker)
{
    rota_buffer_clear(&broker->body);
    for (int i = 0; i < broker->batch && broker->n_sent < JOBS; i++) {
        struct rota_worker_job job = {
            .queue = rota_str("bench"),
            .id = {1, (uint64_t)broker->n_sent + 1},
            .attempt = (uint64_t)1 << 32 | (uint64_t)broker->n_sent,
            .n_attempts = 1,
            .payload = rota_str_of(payload, sizeof payload),
        };
        rota_worker_batch_job_write(&job, &broker->body);
        broker->n_sent++;
    }
    must(!rota_connector_send(broker->connector, broker->peer, broker->jobs,
                              rota_buffer_str(&broker->body), NULL),
         "send");
}

static void fill(struct broker *broker)
{
    while (broker->n_sent < JOBS && broker->n_sent - broker->n_done + broker->batch <= WINDOW)
        send_batch(broker);
}

static void on_up(void *data, struct rota_connector_peer *peer)
{
    struct broker *broker = data;
    broker->peer = peer;
    broker->is_up = true;
}

static void on_ends(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct broker *broker = data;
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_attempt_end end;
    enum rota_code code;
    (void)from;
    while (rota_worker_batch_end_next(&batch, &end, &code, NULL))
        broker->n_done++;
    fill(broker);
}

static void on_jobs(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct worker *worker = data;
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_job job;
    enum rota_code code;
    rota_buffer_clear(&worker->body);
    while (rota_worker_batch_job_next(&batch, &job, &code, NULL)) {
        struct rota_attempt_end end = {
            .queue = job.queue,
            .id = job.id,
            .attempt = job.attempt,
            .cause = ROTA_JOB_CAUSE_DONE,
            .bytes = job.payload,
        };
        rota_worker_batch_end_write(&end, &worker->body);
    }
    must(!rota_connector_send(worker->connector, from, worker->ends, rota_buffer_str(&worker->body),
                              NULL),
         "send back");
}

static struct rota_connector *open_end(const struct rota_connector_options *options,
                                       const char *to_send, uint32_t *type, const char *to_hear,
                                       rota_connector_on_message *on_message, void *data)
{
    struct rota_connector *connector;
    struct rota_error error = {0};
    uint32_t heard;
    must(!(options->name ? rota_connector_open_worker
                         : rota_connector_open_broker)(options, &connector, &error),
         error.text);
    must(!rota_connector_register(connector, to_send, type, &error), error.text);
    must(!rota_connector_register(connector, to_hear, &heard, &error), error.text);
    must(!rota_connector_register_handler_async(connector, heard, on_message, data, &error),
         error.text);
    return connector;
}

static struct result run_connectors(int batch)
{
    uv_loop_t loop;
    struct rota_error error = {0};
    struct broker broker = {.batch = batch};
    struct worker worker = {0};
    uv_loop_init(&loop);
    struct rota_connector_options options = {
        .address = "127.0.0.1:0", .loop = &loop, .on_connected = on_up, .data = &broker};
    broker.connector =
        open_end(&options, ROTA_WORKER_JOBS, &broker.jobs, ROTA_WORKER_ENDS, on_ends, &broker);
    must(!rota_connector_start(broker.connector, &error), error.text);
    struct rota_connector_options others = {.address = rota_connector_address(broker.connector),
                                            .name = "bench"};
    worker.connector =
        open_end(&others, ROTA_WORKER_ENDS, &worker.ends, ROTA_WORKER_JOBS, on_jobs, &worker);
    must(!rota_connector_start(worker.connector, &error), error.text);
    while (!broker.is_up)
        uv_run(&loop, UV_RUN_ONCE);
    double begin = now_seconds(), cpu = cpu_seconds();
    fill(&broker);
    while (broker.n_done < JOBS)
        uv_run(&loop, UV_RUN_ONCE);
    struct result result = {now_seconds() - begin, cpu_seconds() - cpu};
    rota_connector_close(worker.connector, NULL, NULL);
    rota_connector_close(broker.connector, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    rota_buffer_deinit(&broker.body);
    rota_buffer_deinit(&worker.body);
    return result;
}

int main(int argc, char **argv)
{
    static const int batches[] = {0, 1, 4, 16, 64}; /* 0: bare sockets */
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_connector [--json]\n");
        return 2;
    }
    if (json)
        printf("{\"bench\":\"connector\",\"jobs\":%d,\"window\":%d,\"rows\":[", JOBS, WINDOW);
    else
        printf("%-24s %12s %14s\n", "jobs there and back", "jobs/s", "CPU per job");
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        char name[32] = "bare sockets";
        if (batches[i])
            snprintf(name, sizeof name, "connectors, %d a message", batches[i]);
        struct result result = batches[i] ? run_connectors(batches[i]) : run_bare();
        if (json)
            printf("%s{\"name\":\"%s\",\"jobs_per_s\":%.0f,\"cpu_us\":%.3f}", i ? "," : "", name,
                   JOBS / result.seconds, result.cpu / JOBS * 1e6);
        else
            printf("%-24s %12.0f %11.2f us\n", name, JOBS / result.seconds,
                   result.cpu / JOBS * 1e6);
        fflush(stdout);
    }
    if (json)
        printf("]}\n");
    return 0;
}
