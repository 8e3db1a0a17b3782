/* bench_codec [--json]: the cache's messages for 100 keys, read and written by
 * the lean codec and by protobuf-c, which makes the same bytes. */
#include "cache_oracle.h"
#include "measure.h"

#include <rota/error.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 100, KEY_SIZE = 16, VALUE_SIZE = 12, N = 2000, ROUNDS = 31 };

static char keys[KEYS][KEY_SIZE], values[KEYS][VALUE_SIZE];
static struct rota_cache_request request, request_read;
static struct rota_cache_response response, response_read;
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
        must(rota_vector_push(&request.keys, rota_str_of(keys[i], KEY_SIZE)));
        struct rota_get_entry entry = {i, rota_str_of(values[i], VALUE_SIZE)};
        must(rota_vector_push(&response.entries, entry));
    }
    request.epoch = response.epoch = 123456;
    response.has_shard = response.all_matched = true;
    response.shard = (struct rota_interval){128, 192, 1024};
    must(!rota_cache_request_encode(&request, &request_bytes));
    must(!rota_cache_response_encode(&response, &response_bytes));
    request_theirs =
        rota__v1__get_request__unpack(NULL, request_bytes.size, (uint8_t *)request_bytes.data);
    response_theirs =
        rota__v1__get_response__unpack(NULL, response_bytes.size, (uint8_t *)response_bytes.data);
    must(request_theirs && oracle_request_equal(request_theirs, &request));
    must(response_theirs && oracle_response_equal(response_theirs, &response));
}

/* --- the work --- */

static void lean_write_request(void *data)
{
    (void)data;
    for (int i = 0; i < N; i++) {
        rota_buffer_clear(&out);
        must(!rota_cache_request_encode(&request, &out));
    }
}

static void lean_read_request(void *data)
{
    (void)data;
    for (int i = 0; i < N; i++)
        must(!rota_cache_request_decode(&request_read, rota_buffer_str(&request_bytes), NULL));
}

static void lean_write_response(void *data)
{
    (void)data;
    for (int i = 0; i < N; i++) {
        rota_buffer_clear(&out);
        must(!rota_cache_response_encode(&response, &out));
    }
}

static void lean_read_response(void *data)
{
    (void)data;
    for (int i = 0; i < N; i++)
        must(!rota_cache_response_decode(&response_read, rota_buffer_str(&response_bytes), NULL));
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
        void (*lean)(void *data), (*protobuf)(void *data);
    } rows[] = {
        {"write a request", lean_write_request, protobuf_write_request},
        {"read a request", lean_read_request, protobuf_read_request},
        {"write a response", lean_write_response, protobuf_write_response},
        {"read a response", lean_read_response, protobuf_read_response},
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
        printf("%-20s %10s %18s %12s %18s %8s\n", "100 keys", "lean", "10 % .. 90 %", "protobuf-c",
               "10 % .. 90 %", "ratio");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct measure lean = measure_run(rows[i].lean, NULL, N, ROUNDS);
        struct measure theirs = measure_run(rows[i].protobuf, NULL, N, ROUNDS);
        if (json)
            printf("%s{\"name\":\"%s\",\"lean_ns\":%.0f,\"protobuf_c_ns\":%.0f,\"ratio\":%.1f}",
                   i ? "," : "", rows[i].name, lean.median, theirs.median,
                   theirs.median / lean.median);
        else
            printf("%-20s %7.0f ns %7.0f .. %4.0f ns %9.0f ns %7.0f .. %4.0f ns %7.1fx\n",
                   rows[i].name, lean.median, lean.low, lean.high, theirs.median, theirs.low,
                   theirs.high, theirs.median / lean.median);
    }
    if (json)
        printf("]}\n");
    return 0;
}
