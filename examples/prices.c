/* A sharded service with its own keys, values and .proto, server and client: `prices serve
 * SHARD SHARDS` and `prices get ARTICLE HOSTS-FILE`. The last three digits of an article
 * number it within a shop; all articles of a shop are in one shard, and any number of hosts may
 * hold that shard. */
#include "prices.pb-c.h"

#include <rota/experimental/get.h>
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

/* The description of the service, the same for both sides. */
static uint64_t sharding_key(void *data, const void *article)
{
    (void)data;
    return *(const uint64_t *)article / 1000;
}

static enum rota_code write_request(void *data, const void *const *keys, size_t n, uint64_t epoch,
                                    struct rota_get_writer *writer, struct rota_error *error)
{
    (void)data, (void)epoch, (void)error;
    for (size_t i = 0; i < n; i++)
        rota_get_write_number(writer, 1, *(const uint64_t *)keys[i]);
    return ROTA_OK;
}

static enum rota_code read_request(void *data, struct rota_str bytes, struct rota_get_batch *batch,
                                   uint64_t *epoch, struct rota_error *error)
{
    Example__Articles *articles = example__articles__unpack(NULL, bytes.size, (void *)bytes.data);
    uint64_t *key;
    (void)data, (void)epoch;
    if (!articles)
        return rota_error_set(error, ROTA_ERR_INVALID, "not a list of articles");
    for (size_t i = 0; i < articles->n_number && (key = rota_get_batch_add(batch)); i++)
        *key = articles->number[i];
    example__articles__free_unpacked(articles, NULL);
    return ROTA_OK;
}

static enum rota_code write_response(void *data, const struct rota_get_head *head,
                                     const struct rota_get_entry *entries, size_t n,
                                     struct rota_get_writer *writer, struct rota_error *error)
{
    (void)data, (void)error;
    for (size_t i = 0; i < n; i++) {
        rota_get_write_number(writer, 1, entries[i].id);
        rota_get_write_bytes(writer, 2, entries[i].value);
    }
    for (size_t i = 0; i < head->n_shards; i++) {
        rota_get_write_number(writer, 3, head->shards[i].interval.from);
        rota_get_write_number(writer, 4, head->shards[i].interval.of);
    }
    rota_get_write_number(writer, 5, head->all_matched);
    return ROTA_OK;
}

static enum rota_code read_response(void *data, struct rota_str bytes, struct rota_get_head *head,
                                    struct rota_get_reader *reader, struct rota_error *error)
{
    Example__Costs *costs = example__costs__unpack(NULL, bytes.size, (void *)bytes.data);
    (void)data;
    if (!costs)
        return rota_error_set(error, ROTA_ERR_INVALID, "not a list of costs");
    head->all_matched = costs->all_matched;
    for (size_t i = 0; i < costs->n_shard && i < costs->n_shards; i++) {
        struct rota_interval shard = rota_interval_of(costs->shard[i], costs->shards[i]);
        rota_get_read_shard(reader, &(struct rota_interval_claim){shard, 0});
    }
    for (size_t i = 0; i < costs->n_place && i < costs->n_price; i++) {
        struct rota_str price = rota_str_of(costs->price[i].data, costs->price[i].len);
        rota_get_read(reader, &(struct rota_get_entry){costs->place[i], price});
    }
    example__costs__free_unpacked(costs, NULL);
    return ROTA_OK;
}

static const struct rota_get_service prices = {
    .method = "/example.Prices/Get",
    .key_size = sizeof(uint64_t),
    .sharding_key = sharding_key,
    .write_request = write_request,
    .read_response = read_response,
    .read_request = read_request,
    .write_response = write_response,
};

static void on_batch(void *data, struct rota_get_batch *batch)
{
    (void)data;
    for (size_t i = 0; i < rota_get_batch_n_keys(batch); i++) {
        uint64_t article = *(const uint64_t *)rota_get_batch_key(batch, i);
        if (article % 1000 > 0) /* a real service would ask its database */
            rota_get_batch_put(batch, i, rota_str(article % 2 ? "9.99 EUR" : "12.50 EUR"));
    }
    rota_get_batch_finish(batch);
}

static void serve(struct rota_interval shard, struct rota_error *error)
{
    struct rota_get_server_options options = {.service = &prices, .on_batch = on_batch};
    struct rota_server *server;
    struct rota_get_server *gets;
    if (rota_server_open(uv_default_loop(), NULL, &server, error) ||
        rota_get_server_open(server, &options, &gets, error) ||
        rota_get_server_hold(gets, &shard, 0, error) || /* in production, by a lease */
        rota_server_listen(server, "127.0.0.1:0", error))
        return;
    dprintf(1, "ready grpc=%s\n", rota_server_address(server, 0));
    uv_run(uv_default_loop(), UV_RUN_DEFAULT); /* until it is killed */
}

static void get(uint64_t article, const char *hosts, struct rota_error *error)
{
    struct rota_get_options options = {.service = &prices, .hosts_file = hosts};
    struct rota_get_request request = {.keys = &article, .n_keys = 1};
    struct rota_get_result *result;
    struct rota_get *client;
    if (rota_get_open(uv_default_loop(), &options, &client, error) ||
        rota_get_wait(client, &request, &result, error))
        return;
    printf("%.*s\n", ROTA_STR_ARGS(result->items[0].value)); /* empty: it is not sold */
    rota_get_result_free(result);
    rota_get_close(client);
}

int main(int argc, char **argv)
{
    struct rota_error error = {.code = ROTA_OK};
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        serve(rota_interval_of(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10)), &error);
    else if (argc == 4 && strcmp(argv[1], "get") == 0)
        get(strtoull(argv[2], NULL, 10), argv[3], &error);
    else
        rota_error_set(&error, ROTA_ERR_INVALID, "serve SHARD SHARDS, or get ARTICLE HOSTS");
    if (error.code)
        fprintf(stderr, "prices: %s\n", error.text);
    return error.code != ROTA_OK;
}
