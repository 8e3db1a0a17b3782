/* A steady load of Gets, for test_get_processes.py.
 *
 *     get_load STORE SPACE KEYS PER_SECOND PER_GET TIMEOUT_MS HOST_TIMEOUT_MS [HOST DC]
 *
 * Asks the servers of a cache for the keys of the file KEYS, PER_GET at a time, over and over,
 * PER_SECOND times a second whatever their outcome; or HOST alone. When one ends it writes a line
 * of JSON, which test/lib/get_history.py reads:
 *
 *     {"id", "sent", "ended", "text",
 *      "keys": [{"key", "hash", "state", "value", "host", "shard": [FROM, TO, OF], "epoch"}],
 *      "tries": [{"host", "dc", "outcome", "text"}]}
 *
 * with times in nanoseconds since 1970, `sent` read before and `ended` after, and `text`
 * what is missing and why. SIGTERM ends it when all that were sent have ended. */
#include "base/buffer.h"
#include "base/json.h"
#include "io/clock.h"

#include <rota/experimental/rota.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum { KEYS_MAX = 4096, KEY_MAX = 64, PER_GET_MAX = 256 };

struct sent {
    uint64_t id;
    rota_time at;
    size_t n_keys;
    struct rota_str keys[PER_GET_MAX];
};

static uv_loop_t loop;
static uv_timer_t timer;
static uv_signal_t terminate;
static struct rota_store *store;
static struct rota_members *members;
static struct rota_get *get;
static char keys[KEYS_MAX][KEY_MAX];
static size_t n_keys, per_get, next_key;
static uint64_t n_sent, n_ended, began_at, period;
static bool is_ending;

static int give_up(const char *what, const struct rota_error *error)
{
    fprintf(stderr, "get_load: %s: %s\n", what, error->text);
    return 1;
}

static void end_if_done(void)
{
    if (!is_ending || n_ended < n_sent)
        return;
    rota_get_close(get);
    rota_members_close(members);
    rota_store_close(store);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_close((uv_handle_t *)&terminate, NULL);
}

/* --- a line for each --- */

static void add_text(struct rota_json *json, const char *name, struct rota_str value)
{
    rota_json_key(json, name);
    rota_json_string(json, value);
}

static void add_uint(struct rota_json *json, const char *name, uint64_t value)
{
    rota_json_key(json, name);
    rota_json_uint(json, value);
}

static void add_key(struct rota_json *json, struct rota_str key, const struct rota_get_item *item)
{
    static const char *const states[] = {[ROTA_GET_KEY_MISSING] = "missing",
                                         [ROTA_GET_KEY_FOUND] = "found",
                                         [ROTA_GET_KEY_ABSENT] = "absent"};
    rota_json_begin_object(json);
    add_text(json, "key", key);
    add_uint(json, "hash", rota_get_hash(key));
    add_text(json, "state", rota_str(states[item->state]));
    add_text(json, "value", item->value);
    add_text(json, "host", item->host);
    rota_json_add_array(json, "shard");
    rota_json_uint(json, item->shard.from);
    rota_json_uint(json, item->shard.to);
    rota_json_uint(json, item->shard.of);
    rota_json_end_array(json);
    add_uint(json, "epoch", item->epoch);
    rota_json_end_object(json);
}

static void add_try(struct rota_json *json, const struct rota_get_try *try)
{
    rota_json_begin_object(json);
    add_text(json, "host", try->host);
    add_text(json, "dc", try->dc);
    add_text(json, "outcome", rota_str(rota_get_outcome_name(try->outcome)));
    add_text(json, "text", try->text);
    rota_json_end_object(json);
}

static void on_done(void *data, const struct rota_get_result *result)
{
    struct sent *sent = data;
    struct rota_buffer buffer = {0};
    struct rota_json json = {.buffer = &buffer};
    rota_json_begin_object(&json);
    add_uint(&json, "id", sent->id);
    add_uint(&json, "sent", (uint64_t)sent->at);
    add_uint(&json, "ended", (uint64_t)rota_clock_wall());
    add_text(&json, "text", rota_str(result->text));
    rota_json_add_array(&json, "keys");
    for (size_t i = 0; i < result->n_items; i++)
        add_key(&json, sent->keys[i], &result->items[i]);
    rota_json_end_array(&json);
    rota_json_add_array(&json, "tries");
    for (size_t i = 0; i < result->n_tries; i++)
        add_try(&json, &result->tries[i]);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(&buffer, '\n');
    /* Whole lines only: others read along. */
    if (buffer.failed || write(1, buffer.data, buffer.size) != (ssize_t)buffer.size)
        abort();
    rota_buffer_deinit(&buffer);
    free(sent);
    n_ended++;
    end_if_done();
}

/* --- sending --- */

static void start(void)
{
    struct rota_error error;
    struct sent *sent = calloc(1, sizeof *sent);
    sent->id = ++n_sent;
    sent->n_keys = per_get;
    for (size_t i = 0; i < per_get; i++, next_key = (next_key + 1) % n_keys)
        sent->keys[i] = rota_str(keys[next_key]);
    struct rota_get_request request = {
        .keys = sent->keys, .n_keys = per_get, .on_done = on_done, .data = sent};
    sent->at = rota_clock_wall();
    if (rota_get_start(get, &request, NULL, &error))
        exit(give_up("can't get", &error));
}

/* An open loop: a Get is started when its time has come. */
static void on_timer(uv_timer_t *handle)
{
    (void)handle;
    while (!is_ending && uv_hrtime() - began_at >= n_sent * period)
        start();
}

static void on_terminate(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    uv_signal_stop(&terminate);
    uv_timer_stop(&timer);
    is_ending = true;
    end_if_done();
}

/* --- opening --- */

static enum rota_code read_keys(const char *path, struct rota_error *error)
{
    FILE *file = fopen(path, "r");
    while (file && n_keys < KEYS_MAX && fgets(keys[n_keys], KEY_MAX, file)) {
        keys[n_keys][strcspn(keys[n_keys], "\n")] = '\0';
        n_keys++;
    }
    if (file)
        fclose(file);
    return n_keys > 0 ? ROTA_OK : rota_error_set(error, ROTA_ERR_IO, "%s has no keys", path);
}

static enum rota_code open_members(const char *url, const char *space, struct rota_error *error)
{
    struct rota_store_options options = {.url = url};
    struct rota_members_source *source;
    char role[ROTA_STORE_ROLES_MAX];
    snprintf(role, sizeof role, "cache/%s", space);
    enum rota_code code = rota_store_open(&loop, &options, &store, error);
    if (!code)
        code = rota_store_members_new(store, role, 200 * ROTA_MSEC, &source, error);
    return code ? code : rota_members_open(&loop, source, NULL, &members, error);
}

static enum rota_code open_get(int argc, char **argv, struct rota_error *error)
{
    struct rota_get_host host;
    struct rota_get_options options = {
        .timeout = atol(argv[6]) * ROTA_MSEC,
        .host_timeout = atol(argv[7]) * ROTA_MSEC,
    };
    if (argc > 9) {
        host = (struct rota_get_host){rota_str(argv[8]), rota_str(argv[9])};
        options.hosts = &host;
        options.n_hosts = 1;
        return rota_get_open(&loop, &options, &get, error);
    }
    enum rota_code code = open_members(argv[1], argv[2], error);
    options.members = members;
    return code ? code : rota_get_open(&loop, &options, &get, error);
}

int main(int argc, char **argv)
{
    struct rota_error error;
    if (argc < 8) {
        fprintf(stderr, "usage: see get_load.c\n");
        return 2;
    }
    uv_loop_init(&loop);
    period = 1000000000u / (uint64_t)atol(argv[4]);
    per_get = (size_t)atol(argv[5]);
    if (per_get > PER_GET_MAX || read_keys(argv[3], &error) || open_get(argc, argv, &error))
        return give_up("can't start", &error);
    began_at = uv_hrtime();
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_timer, 0, 1);
    uv_signal_init(&loop, &terminate);
    uv_signal_start(&terminate, on_terminate, SIGTERM);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}
