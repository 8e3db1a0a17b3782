/* A lease: the machine of core/own/lease_fsm.h, fed by a store and a timer. */
#include "base/text.h"
#include "io/clock.h"
#include "io/sql/store_session.h"
#include "run/own/lease_inside.h"

#include <stdlib.h>
#include <string.h>

/* --- the machine --- */

static void execute_action(struct rota_lease *lease, const struct rota_lease_action *action)
{
    if (action->type != ROTA_LEASE_PING)
        rota_lease_ask_pings(lease); /* they come first, and can't wait */
    switch (action->type) {
    case ROTA_LEASE_CLAIM:
    case ROTA_LEASE_LIST:
    case ROTA_LEASE_PING:
    case ROTA_LEASE_RELEASE:
        rota_lease_ask(lease, action);
        break;
    case ROTA_LEASE_START:
        rota_lease_serve_start(lease, action);
        break;
    case ROTA_LEASE_EXTEND:
        rota_lease_serve_extend(lease, action);
        break;
    case ROTA_LEASE_STOP:
        rota_lease_serve_stop(lease, action);
        break;
    case ROTA_LEASE_WENT_BACK:
        rota_lease_serve_log_shard(lease, ROTA_LOG_ERROR, "lease table went backwards", action,
                                   ROTA_LOG_NO_FACTS);
        break;
    case ROTA_LEASE_DONE:
        break;
    }
}

static void step(struct rota_lease *lease, const struct rota_lease_event *event)
{
    struct rota_lease_actions todo = rota_lease_fsm_step(&lease->fsm, rota_clock_boot(), event);
    for (size_t i = 0; i < todo.n; i++)
        execute_action(lease, &todo.list[i]);
    rota_lease_ask_pings(lease);
}

/* Events that arrived during a step, if any. */
static bool next_event(struct rota_lease *lease, struct rota_lease_event *event)
{
    if (lease->is_close_wanted) {
        lease->is_close_wanted = false;
        *event = (struct rota_lease_event){.type = ROTA_LEASE_SHUTDOWN};
    } else if (lease->share > 0) {
        *event = (struct rota_lease_event){
            .type = ROTA_LEASE_SHARE, .n_share = lease->share, .n_most = lease->share_most};
        lease->share = 0;
    } else if (lease->late.size > 0) {
        *event = lease->late.items[--lease->late.size];
    } else {
        return false;
    }
    return true;
}

static void lease_free(struct rota_lease *lease)
{
    rota_lease_fsm_deinit(&lease->fsm);
    rota_metrics_free(lease->metrics);
    rota_vector_deinit(&lease->late);
    rota_vector_deinit(&lease->pings);
    rota_vector_deinit(&lease->lost);
    rota_vector_deinit(&lease->heard);
    rota_vector_deinit(&lease->rows);
    free(lease);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct rota_lease *lease = handle->data;
    void (*on_closed)(void *data) = lease->on_closed;
    void *data = lease->closed_data;
    lease_free(lease);
    if (on_closed)
        on_closed(data);
}

static void finish_close(struct rota_lease *lease)
{
    rota_driver_forget(&lease->driver, lease->store);
    uv_close((uv_handle_t *)&lease->driver.timer, on_timer_closed);
}

static void drive(struct rota_lease *lease, struct rota_lease_event event)
{
    rota_lease_drive(lease, &event, 1);
}

static void on_timer(uv_timer_t *timer)
{
    drive(timer->data, (struct rota_lease_event){.type = ROTA_LEASE_TICK});
}

/* Everything lost is stopped before the first loss is reported, since that may be the end of the
 * process. Events from callbacks and failed asks are handled after the event that caused them. */
void rota_lease_drive(struct rota_lease *lease, const struct rota_lease_event *events, size_t n)
{
    struct rota_lease_event event;
    lease->driver.is_driving = true;
    for (size_t i = 0; i < n; i++)
        step(lease, &events[i]);
    rota_lease_serve_tell_lost(lease);
    while (next_event(lease, &event)) {
        step(lease, &event);
        rota_lease_serve_tell_lost(lease);
    }
    lease->driver.is_driving = false;
    if (lease->fsm.is_done)
        finish_close(lease);
    else
        rota_driver_arm(&lease->driver, on_timer, rota_lease_fsm_deadline(&lease->fsm));
}

/* --- the life of a lease --- */

static bool reserve_lost(struct rota_lease *lease)
{
    size_t n_wanted = lease->fsm.options.n_wanted;
    return rota_vector_reserve(&lease->lost, 2 * n_wanted + 2) &&
           rota_vector_reserve(&lease->pings, n_wanted) &&
           rota_vector_reserve(&lease->heard, n_wanted) &&
           rota_vector_reserve(&lease->late, 4 * n_wanted + 8);
}

static enum rota_code init_fsm(struct rota_lease *lease, struct rota_error *error)
{
    const struct rota_lease_options *o = &lease->options;
    uint64_t chance[2];
    int failed = uv_random(NULL, NULL, chance, sizeof chance, 0, NULL);
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "lease: no random number: %s",
                              uv_strerror(failed));
    const struct rota_lease_fsm_options options = {
        .n_shards = o->shards,
        .n_wanted = o->wanted,
        .ttl = o->ttl,
        .is_alone = o->is_alone,
        .instance = lease->former ? lease->former
                    : chance[0]   ? chance[0]
                                  : 1,
        .seed = chance[1],
    };
    return rota_lease_fsm_init(&lease->fsm, rota_clock_boot(), &options, error);
}

/* The store would refuse the first claim; better to know now. */
static enum rota_code check_space(const struct rota_lease *lease, struct rota_error *error)
{
    const struct rota_lease_options *o = &lease->options;
    const struct rota_store_request request =
        rota_lease_ask_request_of(lease, &(struct rota_lease_action){.type = ROTA_LEASE_CLAIM});
    if (o->claims && strlen(o->space) > ROTA_SHARD_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "lease: a space with claims has a name of at most %d bytes",
                              ROTA_SHARD_NAME_MAX);
    if (o->claims && o->node < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "lease: node %lld is negative",
                              (long long)o->node);
    return rota_store_check_request(&request, error);
}

static struct rota_lease *lease_new(const struct rota_lease_options *options)
{
    size_t size = rota_text_size(options->space) + rota_text_size(options->dc) +
                  rota_text_size(options->host) + rota_text_size(options->address);
    struct rota_lease *lease = calloc(1, sizeof *lease + size + 1);
    if (!lease)
        return NULL;
    char *to = lease->texts;
    lease->options = *options;
    lease->options.space = rota_text_keep(&to, options->space);
    lease->options.dc = rota_text_keep(&to, options->dc);
    lease->options.host = rota_text_keep(&to, options->host);
    lease->options.address = rota_text_keep(&to, options->address);
    return lease;
}

enum rota_code rota_lease_open(struct uv_loop_s *loop, struct rota_store *store,
                               const struct rota_lease_options *options, struct rota_lease **result,
                               struct rota_error *error)
{
    return rota_lease_open_again(loop, store, options, 0, result, error);
}

enum rota_code rota_lease_open_again(struct uv_loop_s *loop, struct rota_store *store,
                                     const struct rota_lease_options *options, uint64_t former,
                                     struct rota_lease **result, struct rota_error *error)
{
    if (!options->space || !options->dc || !options->host)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "lease: the space, the dc and the host are required");
    struct rota_lease *lease = lease_new(options);
    if (!lease)
        return rota_error_no_memory(error, "for a lease");
    lease->former = former;
    enum rota_code code = init_fsm(lease, error);
    if (!code)
        code = check_space(lease, error);
    if (!code && (!rota_lease_serve_make_series(lease) || !reserve_lost(lease)))
        code = rota_error_no_memory(error, "for a lease");
    if (code) {
        lease_free(lease);
        return code;
    }
    lease->store = store;
    rota_driver_init(&lease->driver, loop, lease);
    rota_driver_arm(&lease->driver, on_timer, rota_lease_fsm_deadline(&lease->fsm));
    *result = lease;
    return ROTA_OK;
}

void rota_lease_close(struct rota_lease *lease, void (*on_closed)(void *data), void *data)
{
    if (!lease)
        return;
    lease->on_closed = on_closed;
    lease->closed_data = data;
    if (lease->driver.is_driving)
        lease->is_close_wanted = true;
    else
        drive(lease, (struct rota_lease_event){.type = ROTA_LEASE_SHUTDOWN});
}

static void set_share(struct rota_lease *lease, uint32_t share, uint32_t most)
{
    lease->share = share < 1 ? 1 : share;
    lease->share_most = most;
    if (!lease->driver.is_driving)
        rota_lease_drive(lease, NULL, 0);
}

void rota_lease_set_wanted(struct rota_lease *lease, uint32_t wanted)
{
    set_share(lease, wanted, wanted);
}

void rota_lease_set_share(struct rota_lease *lease, uint32_t share)
{
    set_share(lease, share, lease->fsm.options.n_wanted);
}

/* --- questions --- */

bool rota_lease_check(const struct rota_lease *lease, uint32_t shard, uint64_t epoch)
{
    return !lease->is_close_wanted &&
           rota_lease_fsm_check(&lease->fsm, rota_clock_boot(), shard, epoch);
}

uint64_t rota_lease_epoch(const struct rota_lease *lease, uint32_t shard)
{
    return lease->is_close_wanted ? 0 : rota_lease_fsm_epoch(&lease->fsm, rota_clock_boot(), shard);
}

size_t rota_lease_shards(const struct rota_lease *lease, struct rota_lease_shard *shards,
                         size_t n_max)
{
    rota_time now = rota_clock_boot();
    size_t n_slots, n = 0;
    const struct rota_lease_slot *slots = rota_lease_fsm_held(&lease->fsm, &n_slots);
    for (size_t i = 0; i < n_slots && !lease->is_close_wanted; i++) {
        if (now >= slots[i].expires_at)
            continue;
        if (n < n_max)
            shards[n] = (struct rota_lease_shard){.shard = slots[i].shard,
                                                  .epoch = slots[i].epoch,
                                                  .left = slots[i].expires_at - now};
        n++;
    }
    return n;
}

enum rota_code rota_lease_seen(struct rota_lease *lease, uint32_t shard, uint64_t epoch,
                               struct rota_error *error)
{
    const struct rota_lease_event event = {.type = ROTA_LEASE_SEEN, .shard = shard, .epoch = epoch};
    if (shard >= lease->options.shards || epoch > ROTA_LEASE_EPOCH_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "lease: epoch %llu of shard %u is out of bounds",
                              (unsigned long long)epoch, (unsigned)shard);
    if (!lease->driver.is_driving)
        drive(lease, event);
    else if (!rota_vector_push(&lease->late, event))
        return rota_error_no_memory(error, "for the epoch of a lease");
    return ROTA_OK;
}
