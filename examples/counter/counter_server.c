/* A service that owns shards: counters by name. `counter_server STORE FOLDER`
 *
 * Each shard is a file in FOLDER: the epoch (fencing token) of its owner, then a line "NAME COUNT
 * ID" for each addition. A new owner writes its epoch first; from then on an owner of before, which
 * may have been paused, cannot write. The request is "NAME ID"; one that repeats the last ID of its
 * name, because its client did not get the reply, is answered again and not counted twice. */
#include <fcntl.h>
#include <inttypes.h>
#include <rota/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include <uv.h>

enum { SHARDS = 32 };

static struct rota_service_server *server;
static struct rota_store *store;
static uv_signal_t signals[2];
static const char *folder;
static FILE *files[SHARDS];

static uint64_t read_epoch(FILE *file)
{
    uint64_t epoch = 0;
    rewind(file);
    return fscanf(file, "%" SCNu64, &epoch) == 1 ? epoch : 0;
}

/* Opens the file of the shard, unless a later owner has done so. A line that a crash left without
 * its end was never acknowledged. */
static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    char path[4096], line[128];
    (void)data;
    snprintf(path, sizeof path, "%s/%" PRIu32, folder, shard);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!file || flock(fd, LOCK_EX | LOCK_NB) || read_epoch(file) > epoch) {
        if (file)
            fclose(file);
        rota_service_server_started(server, shard, epoch,
                                    "its file is locked, or cannot be opened");
        return;
    }
    rewind(file);
    long end = fprintf(file, "%020" PRIu64 "\n", epoch);
    fseek(file, end, SEEK_SET);
    while (fgets(line, sizeof line, file) && strchr(line, '\n'))
        end = ftell(file);
    if (ftruncate(fd, end) == 0)
        fseek(file, 0, SEEK_END);
    fflush(file);
    flock(fd, LOCK_UN);
    files[shard] = file;
    printf("start shard=%" PRIu32 " epoch=%" PRIu64 "\n", shard, epoch);
    rota_service_server_started(server, shard, epoch, NULL);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    (void)data, (void)until;
    fclose(files[shard]);
    printf("stop shard=%" PRIu32 " epoch=%" PRIu64 "\n", shard, epoch);
    rota_service_server_stopped(server, shard,
                                epoch); /* no call is in progress between callbacks */
}

/* Adds 1; false if the file has another owner, or cannot be written. */
static bool add_one(FILE *file, uint64_t epoch, const char *name, const char *id, uint64_t *count)
{
    char known[64 + 1], last[64 + 1] = "", by[64 + 1];
    uint64_t number;
    *count = 0;
    bool is_ours = flock(fileno(file), LOCK_EX | LOCK_NB) == 0 && read_epoch(file) == epoch;
    while (fscanf(file, "%64s %" SCNu64 " %64s", known, &number, by) == 3)
        if (strcmp(known, name) == 0)
            *count = number, strcpy(last, by);
    fseek(file, 0, SEEK_END);
    if (is_ours && strcmp(last, id) != 0)
        is_ours = fprintf(file, "%s %" PRIu64 " %s\n", name, ++*count, id) > 0;
    is_ours &= fflush(file) == 0 && fdatasync(fileno(file)) == 0;
    flock(fileno(file), LOCK_UN);
    return is_ours;
}

/* The server has already rejected the call if this process does not own the shard by its epoch. */
static void on_add(void *data, struct rota_server_call *call)
{
    char request[160], name[64 + 1], id[64 + 1], reply[32];
    uint32_t shard;
    uint64_t epoch, count;
    (void)data;
    snprintf(request, sizeof request, "%.*s", ROTA_STR_ARGS(rota_server_call_request(call)));
    if (sscanf(request, "%64[a-z0-9] %64[a-z0-9]", name, id) != 2)
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, "expected NAME ID", NULL, 0);
    else if (!rota_service_server_shard(server, call, &shard, &epoch) ||
             !add_one(files[shard], epoch, name, id, &count))
        rota_server_call_refuse(call);
    else
        rota_server_call_reply(
            call, rota_str_of(reply, (size_t)snprintf(reply, sizeof reply, "%" PRIu64, count)));
}

static void on_closed(void *data)
{
    (void)data;
    rota_store_close(store);
}

/* Hands the shards over, so that the others need not wait for the end of the ttl. */
static void on_signal(uv_signal_t *signal, int number)
{
    (void)signal, (void)number;
    rota_service_server_close(server, on_closed, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    struct rota_error error;
    const int numbers[2] = {SIGTERM, SIGINT};
    const struct rota_server_method add = {.path = "/example.Counter/Add", .on_call = on_add};
    if (argc != 3) {
        fprintf(stderr, "usage: counter_server STORE FOLDER\n");
        return 2;
    }
    folder = argv[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    uv_loop_init(&loop);
    enum rota_code code =
        rota_store_open(&loop, &(struct rota_store_options){.url = argv[1]}, &store, &error);
    struct rota_service_server_options options = {
        .space = "counters",
        .n_shards = SHARDS,
        .listen = "127.0.0.1:0",
        .store = store,
        .ttl = 2 * ROTA_SEC,
        .methods = &add,
        .n_methods = 1,
        .on_start = on_start,
        .on_stop = on_stop,
    };
    if (!code)
        code = rota_service_server_open(&loop, &options, &server, &error);
    if (code) {
        fprintf(stderr, "counter_server: %s\n", error.text);
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        uv_signal_init(&loop, &signals[i]);
        uv_signal_start(&signals[i], on_signal, numbers[i]);
    }
    printf("ready grpc=%s\n", rota_service_server_address(server));
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}
