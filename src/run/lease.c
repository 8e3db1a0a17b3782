/* A lease: the machine of core/own/lease_fsm.h, fed by a store and a timer. */
#include "base/metrics.h"
#include "base/vector.h"
#include "core/own/lease_fsm.h"
#include "io/clock.h"
#include "io/store.h"

#include <assert.h>
#include <rota/lease.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { WHYS = ROTA_LEASE_WHY_SHUTDOWN + 1, SHARD_TEXT_MAX = 16 };

/* A question that the store has not answered yet. */
struct ask {
    struct rota_lease *lease;
    struct ask *next, *previous;
    uint64_t number;
    enum rota_lease_action_type type;
};

struct series {
    struct rota_gauge *held;
    struct rota_counter *gained, *unknown;
    struct rota_counter *stopped[WHYS];
};

struct rota_lease {
    struct rota_lease_options options; /* its texts are in `texts` */
    struct rota_metrics *metrics;      /* our own, when none was given */
    struct series series;
    struct rota_store *store;
    struct rota_lease_fsm fsm;
    uv_timer_t timer;
    struct ask *asks;

    /* What has come while actions were being carried out: asks that could not be made, and
     * what callbacks wanted. */
    ROTA_VECTOR(uint64_t) failed;
    ROTA_VECTOR(struct rota_lease_event) seen;
    bool is_close_wanted;
    bool is_driving;

    ROTA_VECTOR(struct rota_lease_action) lost; /* in this step */
    ROTA_VECTOR(struct rota_lease_row) rows;    /* of a list */
    char refusal[ROTA_ERROR_TEXT_MAX];          /* the last one; empty: the store takes claims */

    void (*on_closed)(void *data);
    void *closed_data;
    char texts[];
};

/* --- the log --- */

static void log_shard(const struct rota_lease *lease, enum rota_log_level level, const char *phrase,
                      const struct rota_lease_action *action, struct rota_log_fact more)
{
    rota_log(lease->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("space", lease->options.space), ROTA_LOG_FACT("dc", lease->options.dc),
             ROTA_LOG_FACT("shard", action->shard), ROTA_LOG_FACT("epoch", action->epoch), more);
}

static void log_stop(const struct rota_lease *lease, const struct rota_lease_action *action)
{
    bool is_wanted = action->why == ROTA_LEASE_WHY_SHUTDOWN;
    log_shard(lease, is_wanted ? ROTA_LOG_INFO : ROTA_LOG_ERROR,
              is_wanted ? "lease stopped" : "lease lost", action,
              ROTA_LOG_FACT("why", rota_lease_why_text(action->why)));
}

/* --- what is held, for others --- */

static struct rota_str write_shard(uint32_t shard, char text[SHARD_TEXT_MAX])
{
    snprintf(text, SHARD_TEXT_MAX, "%u", (unsigned)shard);
    return rota_str(text);
}

static void set_claim(struct rota_lease *lease, const struct rota_lease_action *action)
{
    const struct rota_lease_options *o = &lease->options;
    char shard[SHARD_TEXT_MAX];
    struct rota_error error;
    if (!o->claims)
        return;
    const struct rota_claim claim = {
        .space = rota_str(o->space),
        .shard = write_shard(action->shard, shard),
        .node = o->node,
        .epoch = action->epoch,
        .address = rota_str(o->address ? o->address : ""),
        .is_held = true,
        .until = action->until,
    };
    if (rota_claims_set(o->claims, &claim, &error)) /* and so it is served nowhere */
        log_shard(lease, ROTA_LOG_ERROR, "lease not served", action,
                  ROTA_LOG_FACT("error", error.text));
}

static void drop_claim(struct rota_lease *lease, const struct rota_lease_action *action)
{
    char shard[SHARD_TEXT_MAX];
    if (lease->options.claims)
        rota_claims_drop(lease->options.claims, rota_str(lease->options.space),
                         write_shard(action->shard, shard), action->epoch);
}

static void start(struct rota_lease *lease, const struct rota_lease_action *action)
{
    log_shard(lease, ROTA_LOG_INFO, "lease gained", action, ROTA_LOG_NO_FACTS);
    rota_counter_add(lease->series.gained, 1);
    rota_gauge_add(lease->series.held, 1);
    set_claim(lease, action);
    if (lease->options.on_start)
        lease->options.on_start(lease->options.data, action->shard, action->epoch);
}

/* Nothing is served any more when this returns; what follows from it comes later. */
static void stop(struct rota_lease *lease, const struct rota_lease_action *action)
{
    drop_claim(lease, action);
    log_stop(lease, action);
    rota_counter_add(lease->series.stopped[action->why], 1);
    rota_gauge_add(lease->series.held, -1);
    if (lease->options.on_stop)
        lease->options.on_stop(lease->options.data, action->shard, action->epoch, action->why);
    if (action->why == ROTA_LEASE_WHY_SHUTDOWN)
        return;
    assert(lease->lost.size < lease->lost.capacity); /* as many as can be held */
    lease->lost.items[lease->lost.size++] = *action;
}

static void tell_lost(struct rota_lease *lease)
{
    const struct rota_lease_options *o = &lease->options;
    if (lease->lost.size == 0)
        return;
    for (size_t i = 0; o->on_lost && i < lease->lost.size; i++) {
        const struct rota_lease_action *lost = &lease->lost.items[i];
        o->on_lost(o->data, lost->shard, lost->epoch, lost->why);
    }
    lease->lost.size = 0;
    switch (o->loss) {
    case ROTA_LEASE_LOSS_ABORT:
        abort();
    case ROTA_LEASE_LOSS_EXIT:
        exit(EXIT_FAILURE);
    case ROTA_LEASE_LOSS_STANDBY:
        break;
    }
}

/* --- asking the store --- */

static void drive(struct rota_lease *lease, struct rota_lease_event event);

static void ask_free(struct ask *ask)
{
    struct rota_lease *lease = ask->lease;
    if (ask->next)
        ask->next->previous = ask->previous;
    *(ask->previous ? &ask->previous->next : &lease->asks) = ask->next;
    free(ask);
}

/* A refusal stays until somebody changes something, so it is told once. */
static void hear_refusal(struct rota_lease *lease, const struct rota_store_answer *answer)
{
    const char *text = answer->code ? answer->error.text : "";
    bool is_news = strcmp(text, lease->refusal) != 0;
    snprintf(lease->refusal, sizeof lease->refusal, "%s", text);
    if (!answer->code || !is_news)
        return;
    rota_log(lease->options.log, rota_clock_wall(), ROTA_LOG_ERROR, "lease refused",
             ROTA_LOG_FACT("space", lease->options.space), ROTA_LOG_FACT("dc", lease->options.dc),
             ROTA_LOG_FACT("error", text));
    if (lease->options.on_refused)
        lease->options.on_refused(lease->options.data, &answer->error);
}

static bool may_be_done(enum rota_code code)
{
    return code == ROTA_ERR_UNKNOWN || code == ROTA_ERR_UNAVAILABLE || code == ROTA_ERR_NO_MEMORY;
}

static struct rota_lease_event hear_claim(struct rota_lease *lease,
                                          const struct rota_store_answer *answer)
{
    const struct rota_store_claimed *claimed = &answer->claimed;
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

static struct rota_lease_event hear(struct rota_lease *lease, enum rota_lease_action_type type,
                                    const struct rota_store_answer *answer)
{
    if (type == ROTA_LEASE_CLAIM)
        return hear_claim(lease, answer);
    if (type == ROTA_LEASE_LIST)
        return hear_list(lease, answer);
    if (answer->code)
        return (struct rota_lease_event){.type = ROTA_LEASE_UNKNOWN};
    if (type == ROTA_LEASE_RELEASE)
        return (struct rota_lease_event){.type = ROTA_LEASE_RELEASED};
    if (answer->holder.is_ours)
        return (struct rota_lease_event){.type = ROTA_LEASE_PINGED};
    return (struct rota_lease_event){.type = ROTA_LEASE_TAKEN, .epoch = answer->holder.epoch};
}

static void on_answer(void *data, const struct rota_store_answer *answer)
{
    struct ask *ask = data;
    struct rota_lease *lease = ask->lease;
    uint64_t number = ask->number;
    enum rota_lease_action_type type = ask->type;
    ask_free(ask);
    lease->is_driving = true; /* a refusal is told before its step */
    struct rota_lease_event event = hear(lease, type, answer);
    lease->is_driving = false;
    event.ask = number;
    if (event.type == ROTA_LEASE_UNKNOWN)
        rota_counter_add(lease->series.unknown, 1);
    drive(lease, event);
}

static enum rota_store_verb verb_of(enum rota_lease_action_type type)
{
    if (type == ROTA_LEASE_CLAIM)
        return ROTA_STORE_CLAIM;
    if (type == ROTA_LEASE_LIST)
        return ROTA_STORE_LEASES;
    return type == ROTA_LEASE_PING ? ROTA_STORE_PING : ROTA_STORE_RELEASE;
}

static struct rota_store_request request_of(const struct rota_lease *lease,
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

/* What can't be asked was answered with UNKNOWN. */
static void ask_store(struct rota_lease *lease, const struct rota_lease_action *action)
{
    const struct rota_store_request request = request_of(lease, action);
    struct ask *ask = calloc(1, sizeof *ask);
    if (ask) {
        *ask = (struct ask){
            .lease = lease, .next = lease->asks, .number = action->ask, .type = action->type};
        if (lease->asks)
            lease->asks->previous = ask;
        lease->asks = ask;
        if (!rota_store_ask(lease->store, &request, on_answer, ask, NULL))
            return;
        ask_free(ask);
    }
    /* Without memory even for that the shard just runs out of time. */
    (void)rota_vector_push(&lease->failed, action->ask);
}

/* --- the machine --- */

static void carry_out(struct rota_lease *lease, const struct rota_lease_action *action)
{
    switch (action->type) {
    case ROTA_LEASE_CLAIM:
    case ROTA_LEASE_LIST:
    case ROTA_LEASE_PING:
    case ROTA_LEASE_RELEASE:
        ask_store(lease, action);
        break;
    case ROTA_LEASE_START:
        start(lease, action);
        break;
    case ROTA_LEASE_EXTEND:
        set_claim(lease, action);
        break;
    case ROTA_LEASE_STOP:
        stop(lease, action);
        break;
    case ROTA_LEASE_WENT_BACK:
        log_shard(lease, ROTA_LOG_ERROR, "lease table went back", action, ROTA_LOG_NO_FACTS);
        break;
    case ROTA_LEASE_DONE:
        break;
    }
}

static void step(struct rota_lease *lease, const struct rota_lease_event *event)
{
    struct rota_lease_actions todo = rota_lease_fsm_step(&lease->fsm, rota_clock_boot(), event);
    for (size_t i = 0; i < todo.n; i++)
        carry_out(lease, &todo.list[i]);
    tell_lost(lease);
}

/* What has come during a step, if anything. */
static bool next_event(struct rota_lease *lease, struct rota_lease_event *event)
{
    if (lease->is_close_wanted) {
        lease->is_close_wanted = false;
        *event = (struct rota_lease_event){.type = ROTA_LEASE_SHUTDOWN};
    } else if (lease->seen.size > 0) {
        *event = lease->seen.items[--lease->seen.size];
    } else if (lease->failed.size > 0) {
        *event = (struct rota_lease_event){.type = ROTA_LEASE_UNKNOWN,
                                           .ask = lease->failed.items[--lease->failed.size]};
    } else {
        return false;
    }
    return true;
}

static void lease_free(struct rota_lease *lease)
{
    rota_lease_fsm_deinit(&lease->fsm);
    rota_metrics_free(lease->metrics);
    rota_vector_deinit(&lease->failed);
    rota_vector_deinit(&lease->seen);
    rota_vector_deinit(&lease->lost);
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

static void finish(struct rota_lease *lease)
{
    while (lease->asks) {
        rota_store_forget(lease->store, lease->asks);
        ask_free(lease->asks);
    }
    uv_close((uv_handle_t *)&lease->timer, on_timer_closed);
}

static void on_timer(uv_timer_t *timer)
{
    drive(timer->data, (struct rota_lease_event){.type = ROTA_LEASE_TICK});
}

static void arm(struct rota_lease *lease)
{
    rota_time now = rota_clock_boot(), at = rota_lease_fsm_deadline(&lease->fsm);
    if (at == ROTA_TIME_NEVER)
        uv_timer_stop(&lease->timer);
    else
        uv_timer_start(&lease->timer, on_timer,
                       at > now ? (uint64_t)((at - now) / ROTA_MSEC + 1) : 0, 0);
}

/* The one caller of the machine. What callbacks and failed asks bring is put in after
 * the actions of the step that brought it. */
static void drive(struct rota_lease *lease, struct rota_lease_event event)
{
    lease->is_driving = true;
    do
        step(lease, &event);
    while (next_event(lease, &event));
    lease->is_driving = false;
    if (lease->fsm.is_done)
        finish(lease);
    else
        arm(lease);
}

/* --- the life of a lease --- */

static struct rota_counter *counter(struct rota_lease *lease, const char *name, const char *help,
                                    const char *why)
{
    const struct rota_label labels[] = {{"space", rota_str(lease->options.space)},
                                        {"dc", rota_str(lease->options.dc)},
                                        {"why", rota_str(why ? why : "")}};
    return rota_metrics_counter(lease->options.metrics, name, help, labels, why ? 3 : 2);
}

static bool make_series(struct rota_lease *lease)
{
    if (!lease->options.metrics)
        lease->options.metrics = lease->metrics = rota_metrics_new(1);
    if (!lease->options.metrics)
        return false;
    const struct rota_label labels[] = {{"space", rota_str(lease->options.space)},
                                        {"dc", rota_str(lease->options.dc)}};
    lease->series.held = rota_metrics_gauge(lease->options.metrics, "rota_lease_held",
                                            "Shards held now.", labels, 2);
    lease->series.gained = counter(lease, "rota_lease_gained_total", "Grants.", NULL);
    lease->series.unknown =
        counter(lease, "rota_lease_unknown_total", "Asks without a certain answer.", NULL);
    for (int why = 0; why < WHYS; why++)
        lease->series.stopped[why] =
            counter(lease, "rota_lease_stopped_total", "Shards no longer served, by reason.",
                    rota_lease_why_text((enum rota_lease_why)why));
    return true;
}

static bool make_room(struct rota_lease *lease)
{
    size_t n_wanted = lease->fsm.options.n_wanted;
    return rota_vector_reserve(&lease->lost, 2 * n_wanted + 2) &&
           rota_vector_reserve(&lease->failed, 4 * n_wanted + 8);
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
        .instance = chance[0] ? chance[0] : 1,
        .seed = chance[1],
    };
    return rota_lease_fsm_init(&lease->fsm, rota_clock_boot(), &options, error);
}

/* The store would refuse the first claim; better to know now. */
static enum rota_code check(const struct rota_lease *lease, struct rota_error *error)
{
    const struct rota_lease_options *o = &lease->options;
    const struct rota_store_request request =
        request_of(lease, &(struct rota_lease_action){.type = ROTA_LEASE_CLAIM});
    if (o->claims && strlen(o->space) > ROTA_SHARD_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "lease: a space with claims has a name of at most %d bytes",
                              ROTA_SHARD_NAME_MAX);
    if (o->claims && o->node < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "lease: node %lld is negative",
                              (long long)o->node);
    return rota_store_request_check(&request, error);
}

/* Copy `text` to `*to`, which moves on. */
static const char *keep(char **to, const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*to, text, size);
    *to += size;
    return copy;
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static struct rota_lease *lease_new(const struct rota_lease_options *options)
{
    size_t size = size_of(options->space) + size_of(options->dc) + size_of(options->host) +
                  size_of(options->address);
    struct rota_lease *lease = calloc(1, sizeof *lease + size + 1);
    if (!lease)
        return NULL;
    char *to = lease->texts;
    lease->options = *options;
    lease->options.space = keep(&to, options->space);
    lease->options.dc = keep(&to, options->dc);
    lease->options.host = keep(&to, options->host);
    lease->options.address = keep(&to, options->address);
    return lease;
}

enum rota_code rota_lease_open(struct uv_loop_s *loop, struct rota_store *store,
                               const struct rota_lease_options *options, struct rota_lease **result,
                               struct rota_error *error)
{
    if (!options->space || !options->dc || !options->host)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "lease: a space, a dc and a host have to be named");
    struct rota_lease *lease = lease_new(options);
    if (!lease)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "lease: no memory");
    enum rota_code code = init_fsm(lease, error);
    if (!code)
        code = check(lease, error);
    if (!code && (!make_series(lease) || !make_room(lease)))
        code = rota_error_set(error, ROTA_ERR_NO_MEMORY, "lease: no memory");
    if (code) {
        lease_free(lease);
        return code;
    }
    lease->store = store;
    uv_timer_init(loop, &lease->timer);
    lease->timer.data = lease;
    arm(lease);
    *result = lease;
    return ROTA_OK;
}

void rota_lease_close(struct rota_lease *lease, void (*on_closed)(void *data), void *data)
{
    if (!lease)
        return;
    lease->on_closed = on_closed;
    lease->closed_data = data;
    if (lease->is_driving)
        lease->is_close_wanted = true;
    else
        drive(lease, (struct rota_lease_event){.type = ROTA_LEASE_SHUTDOWN});
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
    if (!lease->is_driving)
        drive(lease, event);
    else if (!rota_vector_push(&lease->seen, event))
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "lease: no memory for an epoch");
    return ROTA_OK;
}
