/* bench_codec [--json]: the cache's messages for 100 keys, read and written by
 * our message tables and by protobuf-c, which makes the same bytes. */
#include "measure.h"
#include "wire/message/cache_message.h"

#include "cache.pb-c.h"

#include <rota/error.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 100, KEY_SIZE = 16, VALUE_SIZE = 12, N = 2000, ROUNDS = 31 };

static char keys[KEYS][KEY_SIZE], values[KEYS][VALUE_SIZE];
static struct rota_str key_strs[KEYS];
static struct rota_get_entry entries[KEYS];
static const struct rota_interval_claim shard = {{128, 192, 1024}, 123456};
static const struct rota_cache_request request = {.key = {key_strs, KEYS}, .epoch = 123456};
static const struct rota_cache_response response = {
    .entry = {entries, KEYS}, .shard = {&shard, 1}, .all_matched = true};
static struct rota_arena arena;
static struct rota_buffer request_bytes, response_bytes, out;
static Rota__V1__GetRequest *request_theirs;
static Rota__V1__GetResponse *response_theirs;

static void must(bool is_well)
{
    if (!is_well) {
        fprintf(stderr, "bench_codec: a message was not taken\n");
        exit(1);
    }
}

static void make_messages(void)
{
    for (unsigned i = 0; i < KEYS; i++) {
        memset(keys[i], (int)('a' + i % 26), KEY_SIZE);
        memset(values[i], (int)('A' + i % 26), VALUE_SIZE);
        key_strs[i] = rota_str_of(keys[i], KEY_SIZE);
        entries[i] = (struct rota_get_entry){i, rota_str_of(values[i], VALUE_SIZE)};
    }
    rota_message_encode(&ROTA_CACHE_REQUEST, &request, &request_bytes);
    rota_message_encode(&ROTA_CACHE_RESPONSE, &response, &response_bytes);
    must(!request_bytes.failed && !response_bytes.failed);
    request_theirs =
        rota__v1__get_request__unpack(NULL, request_bytes.size, (uint8_t *)request_bytes.data);
    response_theirs =
        rota__v1__get_response__unpack(NULL, response_bytes.size, (uint8_t *)response_bytes.data);
    must(request_theirs && request_theirs->n_key == KEYS);
    must(response_theirs && response_theirs->n_entry == KEYS);
}

/* --- the work --- */

static void write_ours(const struct rota_message_type *type, const void *message)
{
    for (int i = 0; i < N; i++) {
        rota_buffer_clear(&out);
        rota_message_encode(type, message, &out);
        must(!out.failed);
    }
}

static void read_ours(const struct rota_message_type *type, const struct rota_buffer *bytes,
                      void *message)
{
    for (int i = 0; i < N; i++) {
        rota_arena_clear(&arena);
        must(!rota_message_decode(type, rota_buffer_str(bytes), message, &arena, NULL));
    }
}

static void table_write_request(void *data)
{
    (void)data;
    write_ours(&ROTA_CACHE_REQUEST, &request);
}

static void table_read_request(void *data)
{
    struct rota_cache_request message;
    (void)data;
    read_ours(&ROTA_CACHE_REQUEST, &request_bytes, &message);
}

static void table_write_response(void *data)
{
    (void)data;
    write_ours(&ROTA_CACHE_RESPONSE, &response);
}

static void table_read_response(void *data)
{
    struct rota_cache_response message;
    (void)data;
    read_ours(&ROTA_CACHE_RESPONSE, &response_bytes, &message);
}

static void write_theirs(const ProtobufCMessage *message)
{
    for (int i = 0; i < N; i++) {
        rota_buffer_clear(&out);
        size_t size = protobuf_c_message_get_packed_size(message);
        protobuf_c_message_pack(message, (uint8_t *)rota_buffer_extend(&out, size));
    }
}

static void protobuf_write_request(void *data)
{
    (void)data;
    write_theirs(&request_theirs->base);
}

static void protobuf_write_response(void *data)
{
    (void)data;
    write_theirs(&response_theirs->base);
}

static void protobuf_read_request(void *data)
{
    (void)data;
    for (int i = 0; i < N; i++) {
        Rota__V1__GetRequest *read =
            rota__v1__get_request__unpack(NULL, request_bytes.size, (uint8_t *)request_bytes.data);
        must(read != NULL);
        rota__v1__get_request__free_unpacked(read, NULL);
    }
}

static void protobuf_read_response(void *data)
{
    (void)data;
    for (int i = 0; i < N; i++) {
        Rota__V1__GetResponse *read = rota__v1__get_response__unpack(
            NULL, response_bytes.size, (uint8_t *)response_bytes.data);
        must(read != NULL);
        rota__v1__get_response__free_unpacked(read, NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*table)(void *data), (*protobuf)(void *data);
    } rows[] = {
        {"write a request", table_write_request, protobuf_write_request},
        {"read a request", table_read_request, protobuf_read_request},
        {"write a response", table_write_response, protobuf_write_response},
        {"read a response", table_read_response, protobuf_read_response},
    };
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_codec [--json]\n");
        return 2;
    }
    make_messages();
    if (json)
        printf("{\"bench\":\"codec\",\"keys\":%d,\"rows\":[", KEYS);
    else
        printf("%-20s %10s %18s %12s %18s %8s\n", "100 keys", "tables", "10 % .. 90 %",
               "protobuf-c", "10 % .. 90 %", "ratio");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct measure ours = measure_run(rows[i].table, NULL, N, ROUNDS);
        struct measure theirs = measure_run(rows[i].protobuf, NULL, N, ROUNDS);
        if (json)
            printf("%s{\"name\":\"%s\",\"tables_ns\":%.0f,\"protobuf_c_ns\":%.0f,\"ratio\":%.1f}",
                   i ? "," : "", rows[i].name, ours.median, theirs.median,
                   theirs.median / ours.median);
        else
            printf("%-20s %7.0f ns %7.0f .. %4.0f ns %9.0f ns %7.0f .. %4.0f ns %7.1fx\n",
                   rows[i].name, ours.median, ours.low, ours.high, theirs.median, theirs.low,
                   theirs.high, theirs.median / ours.median);
    }
    if (json)
        printf("]}\n");
    return 0;
}
