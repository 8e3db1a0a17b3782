// The public headers as C++ meets them: without a warning, inline functions and
// macros included.
#include <rota/experimental/rota.h>

static void write_line(void *data, struct rota_str line)
{
    *static_cast<size_t *>(data) = line.size;
}

int main()
{
    struct rota_error error;
    struct rota_ring *ring = nullptr;
    struct rota_host host = {rota_str("a:1"), rota_str(""), 0, false, 0, 0};
    struct rota_ring_host on_ring = rota_host_to_ring(&host);
    struct rota_gradual fixed = rota_gradual_static(8);
    struct rota_random random;
    size_t size = 0;
    struct rota_log log = {ROTA_LOG_INFO, write_line, &size};
    struct rota_log_fact fact = rota_log_fact_span("for", 5 * ROTA_SEC);

    rota_random_init(&random, 1);
    rota_log_write(&log, 0, ROTA_LOG_INFO, "all is well", &fact, 1);
    if (size == 0 || !rota_host_is_placed(&host, 0) || !rota_gradual_is_static(&fixed))
        return 1;
    if (rota_error_set(&error, ROTA_ERR_LIMIT, "%d", 1) != ROTA_ERR_LIMIT)
        return 1;
    if (rota_ring_new(&on_ring, 1, 0, &ring, &error) != ROTA_OK)
        return 1;
    uint32_t owner = rota_ring_lookup(ring, rota_str("key"));
    rota_ring_unref(ring);
    return owner != 0;
}
