#include "get_hosts.h"

#include <stdio.h>

static void get_host_answer(struct get_host *host, struct rota_get_batch *batch)
{
    static const char large = 0; /* as if 1 GiB followed: it must not be read */
    for (size_t i = 0; i < rota_get_batch_n_keys(batch); i++) {
        struct rota_str key = *(const struct rota_str *)rota_get_batch_key(batch, i);
        char text[256];
        if (key.size > 0 && key.data[0] == '-')
            continue;
        int size = snprintf(text, sizeof text, "%.*s@%s", ROTA_STR_ARGS(key), host->name);
        struct rota_str value = rota_get_batch_copy(batch, rota_str_of(text, (size_t)size));
        rota_get_batch_put(batch, i, host->is_large ? rota_str_of(&large, (size_t)1 << 30) : value);
    }
    rota_get_batch_finish(batch);
}

static void get_host_on_batch(void *data, struct rota_get_batch *batch)
{
    struct get_host *host = data;
    host->n_batches++;
    host->n_keys += rota_get_batch_n_keys(batch);
    if (host->is_failing) {
        rota_get_batch_fail(batch, ROTA_STATUS_INTERNAL, "the disk is on fire");
    } else if (host->is_keeping) {
        assert_true(host->n_kept < GET_KEPT_MAX);
        rota_get_batch_set_data(batch, host);
        host->kept[host->n_kept++] = batch;
    } else {
        get_host_answer(host, batch);
    }
}

static void get_host_on_cancel(void *data, struct rota_get_batch *batch)
{
    struct get_host *host = data;
    assert_ptr_equal(rota_get_batch_data(batch), host);
    assert_true(rota_get_batch_is_cancelled(batch));
    host->n_cancelled++;
}

static bool get_host_is_held(void *data, const struct rota_interval *shard, uint64_t epoch)
{
    (void)shard;
    (void)epoch;
    return !((struct get_host *)data)->has_lost;
}

void get_host_release(struct get_host *host)
{
    for (size_t i = 0; i < host->n_kept; i++)
        get_host_answer(host, host->kept[i]);
    host->n_kept = 0;
}

void get_host_hold(struct get_host *host, uint64_t shard, uint64_t of, uint64_t epoch)
{
    struct rota_interval interval = rota_interval_of(shard, of);
    struct rota_error error;
    rota_get_server_drop(host->gets, NULL);
    if (of > 0 && rota_get_server_hold(host->gets, &interval, epoch, &error))
        fail_msg("%s", error.text);
}

void get_host_open_with(struct get_host *host, uv_loop_t *loop, const char *name,
                        const char *address, struct rota_server_options options)
{
    struct rota_get_server_options gets = {
        .on_batch = get_host_on_batch,
        .on_cancel = get_host_on_cancel,
        .is_held = get_host_is_held,
        .metrics = options.metrics,
        .data = host,
    };
    struct rota_error error;
    *host = (struct get_host){.name = name, .loop = loop};
    if (rota_server_open(loop, &options, &host->server, &error) ||
        rota_get_server_open(host->server, &gets, &host->gets, &error) ||
        rota_server_listen(host->server, address, &error))
        fail_msg("%s", error.text);
    snprintf(host->address, sizeof host->address, "%s", rota_server_address(host->server, 0));
}

void get_host_open(struct get_host *host, uv_loop_t *loop, const char *name)
{
    get_host_open_with(host, loop, name, "127.0.0.1:0", (struct rota_server_options){0});
}

void get_host_close(struct get_host *host)
{
    rota_server_close(host->server);
    get_host_release(host);
    rota_get_server_close(host->gets);
    host->server = NULL;
}

void get_hosts_close(struct get_host *hosts, size_t n, uv_loop_t *loop)
{
    for (size_t i = 0; i < n; i++)
        if (hosts[i].server)
            get_host_close(&hosts[i]);
    uv_run(loop, UV_RUN_DEFAULT); /* until nothing is open */
    assert_int_equal(uv_loop_close(loop), 0);
}
