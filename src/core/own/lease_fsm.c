#include "core/own/lease_fsm.h"

#include <assert.h>
#include <stdlib.h>

enum { NO_SLOT = ROTA_LEASE_SHARDS_MAX };

/* --- making one --- */

static enum rota_code check_options(const struct rota_lease_fsm_options *options,
                                    struct rota_error *error)
{
    char ttl[ROTA_TIME_TEXT_MAX];
    if (options->n_shards < 1 || options->n_shards > ROTA_LEASE_SHARDS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "lease: %u shards; a space has 1 to %d",
                              options->n_shards, ROTA_LEASE_SHARDS_MAX);
    if (options->n_wanted > ROTA_LEASE_WANTED_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "lease: %u shards wanted; one process can hold at most %d",
                              options->n_wanted, ROTA_LEASE_WANTED_MAX);
    if (options->ttl < ROTA_LEASE_TTL_MIN || options->ttl > ROTA_LEASE_TTL_MAX)
        return rota_error_set(
            error, ROTA_ERR_INVALID, "lease: a ttl of %s is not within 100ms to 1h",
            options->ttl < 0 ? "a negative duration" : rota_span_format(options->ttl, ttl));
    if (options->instance == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "lease: the instance must not be 0, which marks a free shard");
    return ROTA_OK;
}

/* The most that one step can do: stop and release all, release as many that were ours without
 * our knowledge, ping all, and a few more. */
static size_t actions_max(const struct rota_lease_fsm *fsm)
{
    return 4 * (size_t)fsm->options.n_wanted + 8;
}

enum rota_code rota_lease_fsm_init(struct rota_lease_fsm *fsm, rota_time now,
                                   const struct rota_lease_fsm_options *options,
                                   struct rota_error *error)
{
    *fsm = (struct rota_lease_fsm){.options = *options};
    struct rota_lease_fsm_options *o = &fsm->options;
    if (o->ttl == 0)
        o->ttl = 10 * ROTA_SEC;
    if (o->n_wanted == 0)
        o->n_wanted = 1;
    enum rota_code code = check_options(o, error);
    if (code)
        return code;
    if (o->n_wanted > o->n_shards)
        o->n_wanted = o->n_shards;
    fsm->n_share = fsm->n_most = o->n_wanted;

    code = rota_lease_watch_init(&fsm->watch, o->n_shards, error);
    if (code)
        return code;
    fsm->slots = calloc(o->n_wanted, sizeof *fsm->slots);
    fsm->slot_of = calloc(o->n_shards, sizeof *fsm->slot_of);
    fsm->actions = calloc(actions_max(fsm), sizeof *fsm->actions);
    if (!fsm->slots || !fsm->slot_of || !fsm->actions) {
        rota_lease_fsm_deinit(fsm);
        return rota_error_no_memory(error, "for the leases of %u shards", o->n_shards);
    }
    for (uint32_t shard = 0; shard < o->n_shards; shard++)
        fsm->slot_of[shard] = NO_SLOT;
    rota_random_init(&fsm->random, o->seed);
    fsm->guard = o->ttl / 8;
    fsm->has_hope = true;
    fsm->list_at = fsm->claim_after = now;
    fsm->dead_at = fsm->excess_at = ROTA_TIME_NEVER;
    return ROTA_OK;
}

void rota_lease_fsm_deinit(struct rota_lease_fsm *fsm)
{
    rota_lease_watch_deinit(&fsm->watch);
    free(fsm->slots);
    free(fsm->slot_of);
    free(fsm->actions);
    *fsm = (struct rota_lease_fsm){0};
}

/* --- durations: never exact, so that processes started together do not ask together --- */

static rota_time some_of(struct rota_lease_fsm *fsm, rota_time most)
{
    return rota_random_range(&fsm->random, most - most / 4, most);
}

static rota_time ping_interval(struct rota_lease_fsm *fsm)
{
    return some_of(fsm, fsm->options.ttl / 3);
}

/* A row is counted from when we see its last ping, so the interval between two reads delays the
 * takeover. Reading many rows costs the database more. */
static rota_time look_interval(struct rota_lease_fsm *fsm)
{
    rota_time most = fsm->options.ttl / 20;
    rota_time cost = fsm->options.n_shards * ROTA_LEASE_LOOK_PER_SHARD;
    return some_of(fsm, most > cost ? most : cost);
}

/* How much later processes that have their share claim a dead row than those below it. */
static rota_time yield_of(const struct rota_lease_fsm *fsm)
{
    return fsm->options.ttl / 40;
}

/* After an unknown outcome, or when others were faster. */
static rota_time pause_of(struct rota_lease_fsm *fsm)
{
    rota_time most = fsm->options.ttl / 16;
    return rota_random_range(&fsm->random, most / 2, most);
}

static rota_time end_of_grant(const struct rota_lease_fsm *fsm, rota_time sent_at)
{
    return sent_at + fsm->options.ttl - fsm->guard;
}

/* --- actions --- */

static struct rota_lease_action *push_action(struct rota_lease_fsm *fsm,
                                             struct rota_lease_action action)
{
    assert(fsm->n_actions < actions_max(fsm));
    fsm->actions[fsm->n_actions] = action;
    return &fsm->actions[fsm->n_actions++];
}

static uint64_t push_ask(struct rota_lease_fsm *fsm, enum rota_lease_action_type type,
                         uint32_t shard, uint64_t epoch)
{
    push_action(fsm, (struct rota_lease_action){
                         .type = type, .ask = ++fsm->n_asks, .shard = shard, .epoch = epoch});
    return fsm->n_asks;
}

static void push_serve(struct rota_lease_fsm *fsm, enum rota_lease_action_type type,
                       const struct rota_lease_slot *slot)
{
    push_action(fsm, (struct rota_lease_action){.type = type,
                                                .shard = slot->shard,
                                                .epoch = slot->epoch,
                                                .until = slot->expires_at});
}

static void push_stop(struct rota_lease_fsm *fsm, const struct rota_lease_slot *slot,
                      enum rota_lease_why why)
{
    push_action(
        fsm, (struct rota_lease_action){
                 .type = ROTA_LEASE_STOP, .shard = slot->shard, .epoch = slot->epoch, .why = why});
}

/* --- slots --- */

static struct rota_lease_slot *find_slot(const struct rota_lease_fsm *fsm, uint32_t shard)
{
    if (shard >= fsm->options.n_shards || fsm->slot_of[shard] == NO_SLOT)
        return NULL;
    return &fsm->slots[fsm->slot_of[shard]];
}

static struct rota_lease_slot *find_ask(const struct rota_lease_fsm *fsm, uint64_t number)
{
    for (uint32_t i = 0; i < fsm->n_held && number != 0; i++)
        if (fsm->slots[i].ask == number)
            return &fsm->slots[i];
    return NULL;
}

static struct rota_lease_slot *slot_add(struct rota_lease_fsm *fsm, uint32_t shard, uint64_t epoch)
{
    assert(fsm->n_held < fsm->options.n_wanted);
    fsm->slot_of[shard] = fsm->n_held;
    struct rota_lease_slot *slot = &fsm->slots[fsm->n_held++];
    *slot = (struct rota_lease_slot){.shard = shard, .epoch = epoch};
    return slot;
}

/* The last one moves into the gap. */
static void slot_remove(struct rota_lease_fsm *fsm, struct rota_lease_slot *slot)
{
    fsm->slot_of[slot->shard] = NO_SLOT;
    const struct rota_lease_slot *last = &fsm->slots[--fsm->n_held];
    if (slot == last)
        return;
    *slot = *last;
    fsm->slot_of[slot->shard] = (uint32_t)(slot - fsm->slots);
}

/* A shard is no longer ours; release it in the table, unless the table reported the loss. */
static void lose_shard(struct rota_lease_fsm *fsm, struct rota_lease_slot *slot,
                       enum rota_lease_why why, bool is_released)
{
    push_stop(fsm, slot, why);
    if (is_released)
        push_ask(fsm, ROTA_LEASE_RELEASE, slot->shard, slot->epoch);
    slot_remove(fsm, slot);
    fsm->has_hope = true;
}

static void expire_slots(struct rota_lease_fsm *fsm, rota_time now)
{
    for (uint32_t i = 0; i < fsm->n_held;)
        if (now >= fsm->slots[i].expires_at)
            lose_shard(fsm, &fsm->slots[i], ROTA_LEASE_WHY_EXPIRED, true);
        else
            i++;
}

/* --- seeking --- */

/* The database shows an earlier state: there may be holders that it does not know of. They stop
 * no later than their grants end. */
static void hold_off(struct rota_lease_fsm *fsm, rota_time now, uint32_t shard, uint64_t epoch)
{
    rota_time ttl = rota_lease_watch_ttl_max(&fsm->watch, fsm->options.ttl);
    push_action(fsm, (struct rota_lease_action){
                         .type = ROTA_LEASE_WENT_BACK, .shard = shard, .epoch = epoch});
    rota_lease_watch_forget(&fsm->watch);
    fsm->claim_after = rota_time_add(now, ttl);
    fsm->dead_at = ROTA_TIME_NEVER;
}

static void look_again_at(struct rota_lease_fsm *fsm, rota_time at)
{
    fsm->list_at = rota_time_min(fsm->list_at, at);
}

static void start_shard(struct rota_lease_fsm *fsm, uint32_t shard, uint64_t epoch, rota_time until)
{
    struct rota_lease_slot *slot = slot_add(fsm, shard, epoch);
    slot->expires_at = until;
    slot->ping_at = fsm->seek_sent_at + ping_interval(fsm);
    push_serve(fsm, ROTA_LEASE_START, slot);
    if (fsm->n_held > fsm->n_share)
        fsm->excess_at = rota_time_add(fsm->seek_sent_at, fsm->options.ttl);
    fsm->dead_at = rota_lease_watch_dead_at(&fsm->watch);
    if (fsm->n_held < fsm->options.n_wanted)
        return;
    /* We stop watching: what is seen now would be outdated when it is needed. */
    rota_lease_watch_forget(&fsm->watch);
    fsm->dead_at = ROTA_TIME_NEVER;
}

/* A grant that arrives too late, or with an epoch that is not new, is not used. */
static void hear_claimed(struct rota_lease_fsm *fsm, rota_time now,
                         const struct rota_lease_event *event)
{
    struct rota_lease_slot *slot = find_slot(fsm, event->shard);
    rota_time until = end_of_grant(fsm, fsm->seek_sent_at);
    bool is_new = event->shard < fsm->options.n_shards && event->epoch <= ROTA_LEASE_EPOCH_MAX &&
                  event->epoch > rota_lease_watch_newest(&fsm->watch, event->shard);

    /* Only in a shutdown, when a release is overtaken; else the table breaks its rules. */
    if (slot && fsm->is_closing)
        slot_remove(fsm, slot);
    else if (slot)
        lose_shard(fsm, slot, ROTA_LEASE_WHY_TAKEN, false);

    rota_lease_watch_note_grant(&fsm->watch, now, event->shard, event->epoch,
                                fsm->options.instance);
    uint32_t limit = fsm->is_extra ? fsm->n_most : fsm->n_share;
    if (is_new && now < until && !fsm->is_closing && fsm->n_held < limit) {
        start_shard(fsm, event->shard, event->epoch, until);
    } else if (is_new && fsm->is_closing) {
        slot_add(fsm, event->shard, event->epoch)->ping_at = now;
    } else {
        push_ask(fsm, ROTA_LEASE_RELEASE, event->shard, event->epoch);
        fsm->has_hope = false;
        look_again_at(fsm, now + pause_of(fsm));
    }
}

/* The table says that a row is ours and we do not know it: the answer to a claim was lost. */
static bool is_stray(const struct rota_lease_fsm *fsm, const struct rota_lease_row *row)
{
    return row->instance == fsm->options.instance && row->shard < fsm->options.n_shards &&
           !find_slot(fsm, row->shard);
}

static bool is_takeable(const struct rota_lease_fsm *fsm, const struct rota_lease_row *row)
{
    if (row->shard >= fsm->options.n_shards || row->instance == fsm->options.instance)
        return false;
    return row->instance == 0 || (fsm->options.is_alone && row->is_ours);
}

static void hear_listed(struct rota_lease_fsm *fsm, rota_time now,
                        const struct rota_lease_event *event)
{
    static const struct rota_lease_row nothing;
    const struct rota_lease_row *earlier = NULL;
    uint32_t n_strays = 0;
    size_t n_listed = 0;

    fsm->has_hope = false;
    for (size_t i = 0; i < event->n_rows; i++) {
        const struct rota_lease_row *row = &event->rows[i];
        n_listed += row->shard < fsm->options.n_shards;
        if (!rota_lease_watch_see_row(&fsm->watch, now, fsm->options.instance, row))
            earlier = row;
        fsm->has_hope |= is_takeable(fsm, row);
        if (is_stray(fsm, row) && n_strays < fsm->options.n_wanted) {
            push_ask(fsm, ROTA_LEASE_RELEASE, row->shard, row->epoch);
            n_strays++;
        }
    }
    if (n_strays > 0) {
        fsm->has_answer = true;
        look_again_at(fsm, now + pause_of(fsm));
    }
    if (n_listed < fsm->n_listed) /* rows have disappeared */
        earlier = &nothing;
    if (n_listed < fsm->n_listed || n_listed == 0) /* a claim creates missing ones */
        fsm->has_answer = false;
    fsm->has_hope |= !fsm->has_answer;
    fsm->n_listed = n_listed;
    if (earlier)
        hold_off(fsm, now, earlier->shard, earlier->epoch);
    fsm->dead_at = rota_lease_watch_dead_at(&fsm->watch);
}

/* The answer to the claim or list that is out. */
static void hear_seek(struct rota_lease_fsm *fsm, rota_time now,
                      const struct rota_lease_event *event)
{
    fsm->seek_ask = 0;
    fsm->has_answer |= event->type == ROTA_LEASE_CLAIMED || event->type == ROTA_LEASE_NONE;
    if (event->type == ROTA_LEASE_CLAIMED) {
        hear_claimed(fsm, now, event);
    } else if (event->type == ROTA_LEASE_LISTED) {
        hear_listed(fsm, now, event);
    } else {
        fsm->has_hope = false;
        look_again_at(fsm, now + pause_of(fsm));
    }
}

static void claim_shard(struct rota_lease_fsm *fsm, rota_time now)
{
    size_t n_dead = rota_lease_watch_dead(&fsm->watch, now, &fsm->random, fsm->dead);
    push_action(fsm, (struct rota_lease_action){.type = ROTA_LEASE_CLAIM,
                                                .ask = fsm->seek_ask = ++fsm->n_asks,
                                                .floor = fsm->watch.floor,
                                                .dead = fsm->dead,
                                                .n_dead = n_dead});
    fsm->seek_sent_at = now;
    fsm->is_extra = fsm->n_held >= fsm->n_share;
    fsm->dead_at = ROTA_TIME_NEVER; /* until we have looked again */
}

/* When the first dead row may be claimed. Above our share we let others go first. */
static rota_time claim_dead_at(const struct rota_lease_fsm *fsm)
{
    return fsm->n_held < fsm->n_share ? fsm->dead_at : rota_time_add(fsm->dead_at, yield_of(fsm));
}

/* The maximum number that we hold now. The orphaned of the `n` shards were the share of a dead
 * process; without it each share grows accordingly. */
static uint32_t limit_of(const struct rota_lease_fsm *fsm, rota_time now)
{
    if (fsm->n_held < fsm->n_share || fsm->n_held >= fsm->n_most)
        return fsm->n_share;
    uint64_t n = fsm->options.n_shards, n_lost = rota_lease_watch_orphans(&fsm->watch, now);
    uint64_t more = n_lost < n ? (fsm->n_share * n_lost + n - n_lost - 1) / (n - n_lost) : n;
    return more < fsm->n_most - fsm->n_share ? fsm->n_share + (uint32_t)more : fsm->n_most;
}

static bool may_claim(struct rota_lease_fsm *fsm, rota_time now)
{
    if (now < fsm->claim_after)
        return false;
    if (fsm->n_held < fsm->n_share && fsm->has_hope)
        return true;
    if (now < claim_dead_at(fsm))
        return false;
    if (fsm->n_held < limit_of(fsm, now))
        return true;
    fsm->dead_at = ROTA_TIME_NEVER; /* it is for others; the next read shows what is left */
    return false;
}

static void seek_shards(struct rota_lease_fsm *fsm, rota_time now)
{
    if (fsm->seek_ask != 0 || fsm->n_held >= fsm->options.n_wanted)
        return;
    if (may_claim(fsm, now)) {
        claim_shard(fsm, now);
    } else if (now >= fsm->list_at) {
        fsm->seek_ask = push_ask(fsm, ROTA_LEASE_LIST, 0, 0);
        fsm->seek_sent_at = now;
        fsm->list_at = now + look_interval(fsm);
    }
}

/* --- holding --- */

/* The table has another holder. If that is an earlier one, the store has lost data, perhaps of
 * other holders too. */
static void handle_taken(struct rota_lease_fsm *fsm, rota_time now, struct rota_lease_slot *slot,
                         uint64_t epoch)
{
    bool went_back = epoch < slot->epoch;
    uint32_t shard = slot->shard;
    rota_lease_watch_learn(&fsm->watch, shard, epoch);
    lose_shard(fsm, slot, went_back ? ROTA_LEASE_WHY_WENT_BACK : ROTA_LEASE_WHY_TAKEN, false);
    if (went_back)
        hold_off(fsm, now, shard, epoch);
}

/* The answer to a ping, or in a shutdown to a release. */
static void hear_slot(struct rota_lease_fsm *fsm, rota_time now, struct rota_lease_slot *slot,
                      const struct rota_lease_event *event)
{
    slot->ask = 0;
    if (fsm->is_closing && event->type == ROTA_LEASE_RELEASED) {
        slot_remove(fsm, slot);
    } else if (!fsm->is_closing && event->type == ROTA_LEASE_PINGED) {
        slot->expires_at = end_of_grant(fsm, slot->sent_at);
        slot->ping_at = slot->sent_at + ping_interval(fsm);
        slot->is_single = false;
        push_serve(fsm, ROTA_LEASE_EXTEND, slot);
    } else if (!fsm->is_closing && event->type == ROTA_LEASE_TAKEN) {
        handle_taken(fsm, now, slot, event->epoch);
    } else {
        slot->ping_at = now + pause_of(fsm);
        slot->is_single = true;
    }
}

/* Pings that are due before this are sent together with one that is due now: by as much as two
 * intervals differ, so that pings sent together stay together. */
static rota_time due_until(const struct rota_lease_fsm *fsm, rota_time now)
{
    for (uint32_t i = 0; i < fsm->n_held; i++) {
        const struct rota_lease_slot *slot = &fsm->slots[i];
        if (slot->ask == 0 && now >= slot->ping_at && !slot->is_single)
            return now + fsm->options.ttl / 12;
    }
    return now;
}

/* Pings; or releases, in a shutdown. */
static void ask_for_slots(struct rota_lease_fsm *fsm, rota_time now)
{
    rota_time until = due_until(fsm, now);
    for (uint32_t i = 0; i < fsm->n_held; i++) {
        struct rota_lease_slot *slot = &fsm->slots[i];
        if (slot->ask != 0 || slot->ping_at > (slot->is_single ? now : until))
            continue;
        slot->sent_at = now;
        slot->ask = push_ask(fsm, fsm->is_closing ? ROTA_LEASE_RELEASE : ROTA_LEASE_PING,
                             slot->shard, slot->epoch);
        fsm->actions[fsm->n_actions - 1].is_single = slot->is_single;
    }
}

static void hear_seen(struct rota_lease_fsm *fsm, const struct rota_lease_event *event)
{
    struct rota_lease_slot *slot = find_slot(fsm, event->shard);
    if (event->epoch > ROTA_LEASE_EPOCH_MAX)
        return;
    rota_lease_watch_learn(&fsm->watch, event->shard, event->epoch);
    if (slot && slot->epoch < event->epoch && !fsm->is_closing)
        lose_shard(fsm, slot, ROTA_LEASE_WHY_BEHIND, true);
}

static void give_back_excess(struct rota_lease_fsm *fsm)
{
    while (fsm->n_held > fsm->n_share)
        lose_shard(fsm, &fsm->slots[fsm->n_held - 1], ROTA_LEASE_WHY_SHUTDOWN, true);
    fsm->excess_at = ROTA_TIME_NEVER;
}

static uint32_t clamp(uint32_t n, uint32_t least, uint32_t most)
{
    return n < least ? least : n > most ? most : n;
}

/* A process that may hold more reads the table at once, for rows that are already free. */
static void hear_share(struct rota_lease_fsm *fsm, rota_time now,
                       const struct rota_lease_event *event)
{
    uint32_t n_share = clamp(event->n_share, 1, fsm->options.n_wanted);
    if (fsm->is_closing)
        return;
    fsm->n_most = clamp(event->n_most, n_share, fsm->options.n_wanted);
    if (n_share == fsm->n_share)
        return;
    fsm->n_share = n_share;
    give_back_excess(fsm);
    fsm->has_hope = true;
    look_again_at(fsm, now);
}

static void shut_down(struct rota_lease_fsm *fsm, rota_time now)
{
    if (fsm->is_closing)
        return;
    for (uint32_t i = 0; i < fsm->n_held; i++) {
        push_stop(fsm, &fsm->slots[i], ROTA_LEASE_WHY_SHUTDOWN);
        fsm->slots[i].ask = 0; /* a ping's answer no longer matters */
        fsm->slots[i].ping_at = now;
    }
    fsm->is_closing = true;
    fsm->give_up_at = rota_time_add(now, fsm->options.ttl);
}

/* --- the machine --- */

static void handle_event(struct rota_lease_fsm *fsm, rota_time now,
                         const struct rota_lease_event *event)
{
    switch (event->type) {
    case ROTA_LEASE_TICK:
        return;
    case ROTA_LEASE_SEEN:
        hear_seen(fsm, event);
        return;
    case ROTA_LEASE_SHARE:
        hear_share(fsm, now, event);
        return;
    case ROTA_LEASE_SHUTDOWN:
        shut_down(fsm, now);
        return;
    case ROTA_LEASE_CLAIMED:
    case ROTA_LEASE_NONE:
    case ROTA_LEASE_LISTED:
    case ROTA_LEASE_PINGED:
    case ROTA_LEASE_TAKEN:
    case ROTA_LEASE_RELEASED:
    case ROTA_LEASE_UNKNOWN:
        break;
    }
    struct rota_lease_slot *slot = find_ask(fsm, event->ask);
    if (event->ask != 0 && event->ask == fsm->seek_ask)
        hear_seek(fsm, now, event);
    else if (slot)
        hear_slot(fsm, now, slot, event);
}

struct rota_lease_actions rota_lease_fsm_step(struct rota_lease_fsm *fsm, rota_time now,
                                              const struct rota_lease_event *event)
{
    fsm->n_actions = 0;
    if (fsm->is_done)
        return (struct rota_lease_actions){0};
    if (!fsm->is_closing)
        expire_slots(fsm, now);
    handle_event(fsm, now, event);
    if (!fsm->is_closing && now >= fsm->excess_at)
        give_back_excess(fsm);
    ask_for_slots(fsm, now);
    if (!fsm->is_closing) {
        seek_shards(fsm, now);
    } else if ((fsm->n_held == 0 && fsm->seek_ask == 0) || now >= fsm->give_up_at) {
        fsm->is_done = true;
        push_action(fsm, (struct rota_lease_action){.type = ROTA_LEASE_DONE});
    }
    return (struct rota_lease_actions){.list = fsm->actions, .n = fsm->n_actions};
}

static rota_time seek_deadline(const struct rota_lease_fsm *fsm)
{
    if (fsm->seek_ask != 0 || fsm->n_held >= fsm->options.n_wanted)
        return ROTA_TIME_NEVER;
    bool has_hope = fsm->has_hope && fsm->n_held < fsm->n_share;
    rota_time claim_at = has_hope ? fsm->claim_after : claim_dead_at(fsm);
    if (claim_at < fsm->claim_after)
        claim_at = fsm->claim_after;
    return rota_time_min(claim_at, fsm->list_at);
}

rota_time rota_lease_fsm_deadline(const struct rota_lease_fsm *fsm)
{
    if (fsm->is_done)
        return ROTA_TIME_NEVER;
    rota_time at =
        fsm->is_closing ? fsm->give_up_at : rota_time_min(seek_deadline(fsm), fsm->excess_at);
    for (uint32_t i = 0; i < fsm->n_held; i++) {
        const struct rota_lease_slot *slot = &fsm->slots[i];
        if (!fsm->is_closing)
            at = rota_time_min(at, slot->expires_at);
        if (slot->ask == 0)
            at = rota_time_min(at, slot->ping_at);
    }
    return at;
}

bool rota_lease_fsm_check(const struct rota_lease_fsm *fsm, rota_time now, uint32_t shard,
                          uint64_t epoch)
{
    return epoch != 0 && rota_lease_fsm_epoch(fsm, now, shard) == epoch;
}

uint64_t rota_lease_fsm_epoch(const struct rota_lease_fsm *fsm, rota_time now, uint32_t shard)
{
    const struct rota_lease_slot *slot = fsm->is_closing ? NULL : find_slot(fsm, shard);
    return slot && now < slot->expires_at ? slot->epoch : 0;
}

const struct rota_lease_slot *rota_lease_fsm_held(const struct rota_lease_fsm *fsm, size_t *n)
{
    *n = fsm->is_closing ? 0 : fsm->n_held;
    return fsm->slots;
}

const char *rota_lease_why_text(enum rota_lease_why why)
{
    switch (why) {
    case ROTA_LEASE_WHY_EXPIRED:
        return "expired";
    case ROTA_LEASE_WHY_TAKEN:
        return "taken";
    case ROTA_LEASE_WHY_WENT_BACK:
        return "went back";
    case ROTA_LEASE_WHY_BEHIND:
        return "behind";
    case ROTA_LEASE_WHY_SHUTDOWN:
        return "shutdown";
    }
    return "?";
}
