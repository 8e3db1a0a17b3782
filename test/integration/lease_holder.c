/* A process with leases, for test_lease.py.
 *
 *     lease_holder URL HOST SHARDS WANTED TTL_MS LOSS LEDGER [alone] [reshard]
 *
 * Holds shards of the space "cache" in dc "east" and serves them with a fenced method. Reports
 * events on standard output. Every few milliseconds it does something under each of its leases that
 * checks out: a line in the ledger with the moment (boot clock, read before the check), shard,
 * epoch and host. SIGTERM closes it.
 *
 *     lease_holder call ADDRESS SHARD EPOCH
 *
 * Calls that method and prints the status. */
#include "core/own/shard_note.h"
#include "io/clock.h"
#include "wire/grpc/call_notes.h"

#include <fcntl.h>
#include <rota/experimental/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum { EFFECT_MS = 3, BELIEVED_MAX = 64 };

static uv_loop_t loop;
static struct rota_store *store;
static struct rota_lease *lease;
static struct rota_server *server;
static struct rota_claims *claims;
static uv_timer_t effects;
static uv_signal_t terminate, woken;
static const char *host;
static int ledger = -1;

/* What on_start and on_stop have said. */
static struct {
    uint32_t shard;
    uint64_t epoch;
} believed[BELIEVED_MAX];
static size_t n_believed;

static int give_up(const char *what, const struct rota_error *error)
{
    fprintf(stderr, "lease_holder: %s: %s\n", what, error->text);
    return 1;
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    (void)data;
    if (n_believed == BELIEVED_MAX)
        abort();
    believed[n_believed].shard = shard;
    believed[n_believed++].epoch = epoch;
    printf("start %u %llu\n", shard, (unsigned long long)epoch);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why)
{
    (void)data;
    for (size_t i = 0; i < n_believed; i++)
        if (believed[i].shard == shard && believed[i].epoch == epoch)
            believed[i--] = believed[--n_believed];
    printf("stop %u %llu %s\n", shard, (unsigned long long)epoch, rota_lease_why_text(why));
}

static void on_lost(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why)
{
    (void)data;
    printf("lost %u %llu %s\n", shard, (unsigned long long)epoch, rota_lease_why_text(why));
}

static void on_refused(void *data, const struct rota_error *error)
{
    (void)data;
    printf("refused %s\n", error->text);
}

static void on_effects(uv_timer_t *timer)
{
    (void)timer;
    for (size_t i = 0; i < n_believed; i++) {
        char line[128];
        rota_time at = rota_clock_boot();
        if (!rota_lease_check(lease, believed[i].shard, believed[i].epoch))
            continue;
        int size = snprintf(line, sizeof line, "%lld %u %llu %s\n", (long long)at,
                            believed[i].shard, (unsigned long long)believed[i].epoch, host);
        if (write(ledger, line, (size_t)size) != size)
            abort();
    }
}

/* How many of those that we still believe in check out right after a stop. */
static void on_woken(uv_signal_t *signal, int number)
{
    size_t n = 0;
    (void)signal;
    (void)number;
    for (size_t i = 0; i < n_believed; i++)
        n += rota_lease_check(lease, believed[i].shard, believed[i].epoch);
    printf("woken %zu\n", n);
}

static void on_closed(void *data)
{
    (void)data;
    printf("closed\n");
    rota_server_close(server);
    rota_store_close(store);
    uv_close((uv_handle_t *)&effects, NULL);
    uv_close((uv_handle_t *)&terminate, NULL);
    uv_close((uv_handle_t *)&woken, NULL);
}

static void on_terminate(uv_signal_t *signal, int number)
{
    (void)number;
    uv_signal_stop(signal);
    rota_lease_close(lease, on_closed, NULL);
}

static void on_call(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_str(host));
}

static enum rota_code serve(struct rota_error *error)
{
    const struct rota_server_method method = {
        .path = "/test.Owner/Do", .on_call = on_call, .is_fenced = true};
    enum rota_code code = rota_claims_new(1, &claims, error);
    struct rota_server_options options = {.claims = claims};
    if (!code)
        code = rota_server_open(&loop, &options, &server, error);
    if (!code)
        code = rota_server_add(server, &method, error);
    return code ? code : rota_server_listen(server, "127.0.0.1:0", error);
}

static void write_log(void *data, struct rota_str line)
{
    (void)data;
    fwrite(line.data, 1, line.size, stderr);
}

static enum rota_lease_loss loss_of(const char *word)
{
    if (strcmp(word, "exit") == 0)
        return ROTA_LEASE_LOSS_EXIT;
    return strcmp(word, "abort") == 0 ? ROTA_LEASE_LOSS_ABORT : ROTA_LEASE_LOSS_STANDBY;
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 8; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

static int run_holder(int argc, char **argv)
{
    static const struct rota_log log = {.level = ROTA_LOG_INFO, .write = write_log};
    struct rota_error error;
    host = argv[2];
    ledger = open(argv[7], O_WRONLY | O_APPEND | O_CREAT, 0666);
    struct rota_store_options of_store = {.url = argv[1],
                                          .statement_timeout = 2 * ROTA_SEC,
                                          .connect_timeout = 2 * ROTA_SEC,
                                          .log = &log};
    if (serve(&error) || rota_store_open(&loop, &of_store, &store, &error))
        return give_up("can't start", &error);
    struct rota_lease_options of_lease = {
        .space = "cache",
        .dc = "east",
        .host = host,
        .shards = (uint32_t)atoi(argv[3]),
        .wanted = (uint32_t)atoi(argv[4]),
        .ttl = atoi(argv[5]) * ROTA_MSEC,
        .loss = loss_of(argv[6]),
        .is_alone = has_word(argc, argv, "alone"),
        .is_reshard = has_word(argc, argv, "reshard"),
        .on_start = on_start,
        .on_stop = on_stop,
        .on_lost = on_lost,
        .on_refused = on_refused,
        .claims = claims,
        .address = rota_server_address(server, 0),
        .log = &log,
    };
    if (rota_lease_open(&loop, store, &of_lease, &lease, &error))
        return give_up("can't seek", &error);
    uv_timer_init(&loop, &effects);
    uv_timer_start(&effects, on_effects, 0, EFFECT_MS);
    uv_signal_init(&loop, &terminate);
    uv_signal_start(&terminate, on_terminate, SIGTERM);
    uv_signal_init(&loop, &woken);
    uv_signal_start(&woken, on_woken, SIGCONT);
    printf("ready %s\n", rota_server_address(server, 0));
    uv_run(&loop, UV_RUN_DEFAULT);
    rota_claims_free(claims);
    return uv_loop_close(&loop) != 0;
}

static int run_call(char **argv)
{
    char note[ROTA_SHARD_NOTE_MAX];
    struct rota_error error;
    struct rota_channel *channel;
    struct rota_reply reply;
    const struct rota_metadata notes[] = {
        {rota_str(ROTA_NOTE_SHARD),
         rota_shard_note_format(rota_str("cache"), rota_str(argv[3]), note)},
        {rota_str(ROTA_NOTE_EPOCH), rota_str(argv[4])},
    };
    struct rota_call_options options = {
        .method = rota_str("/test.Owner/Do"), .metadata = notes, .n_metadata = 2};
    if (rota_channel_open(&loop, argv[2], NULL, &channel, &error))
        return give_up("can't call", &error);
    printf("calling\n");
    if (rota_channel_wait(channel, &options, &reply, &error))
        return give_up("can't call", &error);
    printf("%s\n", rota_status_name(reply.status));
    rota_reply_deinit(&reply);
    rota_channel_close(channel);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    uv_loop_init(&loop);
    if (argc == 5 && strcmp(argv[1], "call") == 0)
        return run_call(argv);
    if (argc >= 8)
        return run_holder(argc, argv);
    fprintf(stderr, "usage: see lease_holder.c\n");
    return 2;
}
