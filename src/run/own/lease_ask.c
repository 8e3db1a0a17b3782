/* What a lease asks its store, and how the answers are read. */
#include "io/clock.h"
#include "run/own/lease_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the machine's asks that a request to the store contains. */
struct item {
    uint64_t number;
    uint32_t shard;
    uint64_t epoch;
};

/* A question that the store has not answered yet. */
struct rota_lease_ask {
    struct rota_driver_ask base;
    struct rota_lease *lease;
    enum rota_lease_action_type type;
    size_t n_items; /* more than one: of pings */
    struct item items[];
};

/* --- answers --- */

/* A rejection lasts until the configuration changes, so it is reported once. */
static void hear_refusal(struct rota_lease *lease, const struct rota_store_answer *answer)
{
    const char *text = answer->code ? answer->error.text : "";
    bool is_news = strcmp(text, lease->refusal) != 0;
    snprintf(lease->refusal, sizeof lease->refusal, "%s", text);
    if (!answer->code || !is_news)
        return;
    if (lease->options.on_refused)
        lease->options.on_refused(lease->options.data, &answer->error);
    else
        rota_log(lease->options.log, rota_clock_wall(), ROTA_LOG_ERROR, "lease rejected",
                 ROTA_LOG_FACT("space", lease->options.space),
                 ROTA_LOG_FACT("dc", lease->options.dc), ROTA_LOG_FACT("error", text));
}

/* Holders of a shard of the old number keep it: an operator has to check that. */
static void hear_reshard(const struct rota_lease *lease, const struct rota_store_claimed *claimed)
{
    if (claimed->shards_before)
        rota_log(
            lease->options.log, rota_clock_wall(), claimed->n_held ? ROTA_LOG_WARN : ROTA_LOG_INFO,
            "lease resharded", ROTA_LOG_FACT("space", lease->options.space),
            ROTA_LOG_FACT("dc", lease->options.dc), ROTA_LOG_FACT("from", claimed->shards_before),
            ROTA_LOG_FACT("to", lease->options.shards), ROTA_LOG_FACT("held", claimed->n_held));
}

static bool may_be_done(enum rota_code code)
{
    return code == ROTA_ERR_UNKNOWN || code == ROTA_ERR_UNAVAILABLE || code == ROTA_ERR_NO_MEMORY;
}

static struct rota_lease_event hear_claim(struct rota_lease *lease,
                                          const struct rota_store_answer *answer)
{
    const struct rota_store_claimed *claimed = &answer->claimed;
    hear_reshard(lease, claimed);
    if (may_be_done(answer->code))
        return (struct rota_lease_event){.type = ROTA_LEASE_UNKNOWN};
    hear_refusal(lease, answer);
    if (answer->code || claimed->result != ROTA_STORE_CLAIM_GRANTED)
        return (struct rota_lease_event){.type = ROTA_LEASE_NONE};
    return (struct rota_lease_event){
        .type = ROTA_LEASE_CLAIMED, .shard = claimed->shard, .epoch = claimed->epoch};
}

static rota_time bounded_ttl(rota_time ttl)
{
    if (ttl < ROTA_LEASE_TTL_MIN)
        return ROTA_LEASE_TTL_MIN;
    return rota_time_min(ttl, ROTA_LEASE_TTL_MAX);
}

static struct rota_lease_event hear_list(struct rota_lease *lease,
                                         const struct rota_store_answer *answer)
{
    if (answer->code || !rota_vector_reserve(&lease->rows, answer->n_leases))
        return (struct rota_lease_event){.type = ROTA_LEASE_UNKNOWN};
    for (size_t i = 0; i < answer->n_leases; i++) {
        const struct rota_store_lease *row = &answer->leases[i];
        lease->rows.items[i] = (struct rota_lease_row){
            .shard = row->shard,
            .is_ours = rota_str_is_equal(row->host, rota_str(lease->options.host)),
            .instance = row->instance,
            .epoch = row->epoch,
            .pings = row->pings,
            .ttl = bounded_ttl(row->ttl),
        };
    }
    return (struct rota_lease_event){
        .type = ROTA_LEASE_LISTED, .rows = lease->rows.items, .n_rows = answer->n_leases};
}

static struct rota_lease_event hear_ping(const struct rota_store_holder *holder)
{
    if (holder->is_ours)
        return (struct rota_lease_event){.type = ROTA_LEASE_PINGED};
    return (struct rota_lease_event){.type = ROTA_LEASE_TAKEN, .epoch = holder->epoch};
}

/* The event for the ask with this index. */
static struct rota_lease_event handle_answer(struct rota_lease *lease,
                                             const struct rota_lease_ask *ask, size_t index,
                                             const struct rota_store_answer *answer)
{
    if (ask->type == ROTA_LEASE_CLAIM)
        return hear_claim(lease, answer);
    if (ask->type == ROTA_LEASE_LIST)
        return hear_list(lease, answer);
    if (answer->code)
        return (struct rota_lease_event){.type = ROTA_LEASE_UNKNOWN};
    if (ask->type == ROTA_LEASE_RELEASE)
        return (struct rota_lease_event){.type = ROTA_LEASE_RELEASED};
    return hear_ping(ask->n_items > 1 ? &answer->holders[index] : &answer->holder);
}

static void on_answer(void *data, const struct rota_store_answer *answer)
{
    struct rota_lease_ask *ask = data;
    struct rota_lease *lease = ask->lease;
    rota_list_remove(&ask->base.link);
    lease->driver.is_driving = true; /* a rejection is reported before its step */
    for (size_t i = 0; i < ask->n_items; i++) {
        struct rota_lease_event event = handle_answer(lease, ask, i, answer);
        event.ask = ask->items[i].number;
        lease->heard.items[i] = event;
    }
    lease->driver.is_driving = false;
    if (lease->heard.items[0].type == ROTA_LEASE_UNKNOWN)
        rota_counter_add(lease->series.unknown, ask->n_items);
    size_t n = ask->n_items;
    free(ask);
    rota_lease_drive(lease, lease->heard.items, n);
}

/* --- questions --- */

static enum rota_store_verb verb_of(enum rota_lease_action_type type)
{
    if (type == ROTA_LEASE_CLAIM)
        return ROTA_STORE_CLAIM;
    if (type == ROTA_LEASE_LIST)
        return ROTA_STORE_LEASES;
    return type == ROTA_LEASE_PING ? ROTA_STORE_PING : ROTA_STORE_RELEASE;
}

struct rota_store_request rota_lease_ask_request_of(const struct rota_lease *lease,
                                                    const struct rota_lease_action *action)
{
    const struct rota_lease_options *o = &lease->options;
    return (struct rota_store_request){
        .verb = verb_of(action->type),
        .space = rota_str(o->space),
        .dc = rota_str(o->dc),
        .host = rota_str(o->host),
        .shard = action->shard,
        .shards = o->shards,
        .instance = lease->fsm.options.instance,
        .epoch = action->epoch,
        .ttl = lease->fsm.options.ttl,
        .claim = {.floor = action->floor,
                  .is_alone = o->is_alone,
                  .is_reshard = o->is_reshard,
                  .dead = action->dead,
                  .n_dead = action->n_dead},
    };
}

/* Without memory even for that the shard just runs out of time. */
static void fail_items(struct rota_lease *lease, const struct item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)rota_vector_push(&lease->late, ((struct rota_lease_event){.type = ROTA_LEASE_UNKNOWN,
                                                                        .ask = items[i].number}));
}

static void ask_store(struct rota_lease *lease, enum rota_lease_action_type type,
                      const struct rota_store_request *request, const struct item *items, size_t n)
{
    struct rota_lease_ask *ask = calloc(1, sizeof *ask + n * sizeof *items);
    if (!ask) {
        fail_items(lease, items, n);
        return;
    }
    ask->lease = lease;
    ask->type = type;
    ask->n_items = n;
    memcpy(ask->items, items, n * sizeof *items);
    if (rota_driver_ask(&lease->driver, lease->store, request, on_answer, &ask->base, NULL))
        fail_items(lease, items, n);
}

static struct item item_of(const struct rota_lease_action *action)
{
    return (struct item){.number = action->ask, .shard = action->shard, .epoch = action->epoch};
}

static void ask_one(struct rota_lease *lease, const struct rota_lease_action *action)
{
    const struct rota_store_request request = rota_lease_ask_request_of(lease, action);
    const struct item item = item_of(action);
    ask_store(lease, action->type, &request, &item, 1);
}

static int compare_items(const void *a, const void *b)
{
    uint32_t left = ((const struct item *)a)->shard, right = ((const struct item *)b)->shard;
    return (left > right) - (left < right);
}

/* As many as one request takes, in the order of their shards. */
static void ask_many(struct rota_lease *lease, const struct rota_lease_action *actions, size_t n)
{
    struct item items[ROTA_STORE_PINGS_MAX];
    struct rota_store_ping pings[ROTA_STORE_PINGS_MAX];
    for (size_t i = 0; i < n; i++)
        items[i] = item_of(&actions[i]);
    qsort(items, n, sizeof *items, compare_items);
    for (size_t i = 0; i < n; i++)
        pings[i] = (struct rota_store_ping){.shard = items[i].shard, .epoch = items[i].epoch};
    struct rota_store_request request = rota_lease_ask_request_of(lease, &actions[0]);
    request.verb = ROTA_STORE_PINGS;
    request.pings = pings;
    request.n_pings = n;
    ask_store(lease, ROTA_LEASE_PING, &request, items, n);
}

void rota_lease_ask_pings(struct rota_lease *lease)
{
    size_t n_left = lease->pings.size;
    for (const struct rota_lease_action *at = lease->pings.items; n_left > 0;) {
        size_t n = n_left < ROTA_STORE_PINGS_MAX ? n_left : ROTA_STORE_PINGS_MAX;
        if (n == 1)
            ask_one(lease, at);
        else
            ask_many(lease, at, n);
        at += n;
        n_left -= n;
    }
    lease->pings.size = 0;
}

void rota_lease_ask(struct rota_lease *lease, const struct rota_lease_action *action)
{
    if (action->type == ROTA_LEASE_PING && !action->is_single &&
        rota_vector_push(&lease->pings, *action))
        return;
    ask_one(lease, action);
}
