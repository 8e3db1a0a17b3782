/* Unary gRPC calls over one connection on this machine: a server in a process of
 * its own, a client with a fixed number of calls in flight, 100 bytes each way,
 * a deadline on each. Prints calls per second and the CPU time of both sides,
 * which is the steadier figure on a shared machine. `bench_call [SECONDS]`. */
#include <rota/channel.h>
#include <rota/server.h>

#include "io/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

struct load {
    struct rota_channel *channel;
    rota_time until;
    uint64_t n_ok, n_failed, n_under_way;
};

static void on_call(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_server_call_request(call));
}

/* Serves until it is killed; writes its address into the pipe. */
static void serve(int pipe_end)
{
    const struct rota_server_method echo = {.path = "/bench.Echo/Echo", .on_call = on_call};
    struct rota_server *server;
    uv_loop_t loop;
    uv_loop_init(&loop);
    if (rota_server_open(&loop, NULL, &server, NULL) || rota_server_add(server, &echo, NULL) ||
        rota_server_listen(server, "127.0.0.1:0", NULL))
        _exit(1);
    const char *address = rota_server_address(server, 0);
    if (write(pipe_end, address, strlen(address) + 1) < 0)
        _exit(1);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
}

static void start(struct load *load);

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct load *load = data;
    (void)call;
    load->n_under_way--;
    *(result->status == ROTA_STATUS_OK ? &load->n_ok : &load->n_failed) += 1;
    start(load);
}

static void start(struct load *load)
{
    static const char payload[100] = "x";
    struct rota_call_options options = {
        .method = rota_str("/bench.Echo/Echo"),
        .request = rota_str_of(payload, sizeof payload),
        .timeout = 10 * ROTA_SEC,
        .on_end = on_end,
        .data = load,
    };
    if (rota_clock_mono() < load->until && !rota_channel_call(load->channel, &options, NULL, NULL))
        load->n_under_way++;
}

static double cpu_of(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int run(unsigned n_in_flight, double seconds)
{
    int ends[2];
    char address[64] = "";
    if (pipe(ends))
        return 1;
    pid_t server = fork();
    if (server == 0)
        serve(ends[1]);
    if (server < 0 || read(ends[0], address, sizeof address - 1) <= 0)
        return 1;

    struct load load = {0};
    uv_loop_t loop;
    uv_loop_init(&loop);
    if (rota_channel_open(&loop, address, NULL, &load.channel, NULL))
        return 1;
    double cpu = cpu_of(RUSAGE_SELF), served = cpu_of(RUSAGE_CHILDREN);
    rota_time began = rota_clock_mono();
    load.until = began + (rota_time)(seconds * (double)ROTA_SEC);
    for (unsigned i = 0; i < n_in_flight; i++)
        start(&load);
    while (load.n_under_way > 0)
        uv_run(&loop, UV_RUN_ONCE);
    double passed = (double)(rota_clock_mono() - began) / (double)ROTA_SEC;
    cpu = cpu_of(RUSAGE_SELF) - cpu;
    rota_channel_close(load.channel);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    served = cpu_of(RUSAGE_CHILDREN) - served;
    double n = (double)load.n_ok;
    printf("%5u in flight  %9.0f calls/s  client %5.2f us  server %5.2f us  failed %llu\n",
           n_in_flight, n / passed, cpu / n * 1e6, served / n * 1e6,
           (unsigned long long)load.n_failed);
    return load.n_failed > 0;
}

int main(int argc, char **argv)
{
    static const unsigned in_flight[] = {1, 16, 128, 1024};
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    int failed = 0;
    for (size_t i = 0; i < sizeof in_flight / sizeof *in_flight; i++)
        failed |= run(in_flight[i], seconds);
    return failed;
}
