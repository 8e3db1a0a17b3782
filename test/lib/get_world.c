#include "get_world.h"

#include <stdio.h>
#include <string.h>

struct world world; /* large */

void list_hosts(size_t n)
{
    static char names[HOSTS_MAX][8];
    struct rota_interval_member members[HOSTS_MAX];
    for (size_t i = 0; i < n; i++) {
        int size = snprintf(names[i], sizeof names[i], "h%zu", i);
        members[i] = (struct rota_interval_member){{names[i], (size_t)size},
                                                   {i < 2 || i >= 4 ? "a" : "b", 1}};
    }
    assert_int_equal(rota_interval_map_set_hosts(world.map, members, n, NULL), ROTA_OK);
}

uint64_t id_at(size_t index)
{
    return rota_interval_map_host(world.map, index)->id;
}

void teach(size_t index, struct rota_interval shard, uint64_t epoch)
{
    struct rota_interval_claim claim = {shard, epoch};
    struct rota_interval_lesson lesson = {rota_interval_map_number(world.map), &claim, 1};
    rota_interval_map_learn(world.map, id_at(index), &lesson);
}

int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    assert_int_equal(rota_interval_map_new(1, &world.map, NULL), ROTA_OK);
    assert_int_equal(rota_balancer_new(&(struct rota_balancer_options){0}, &world.balancer, NULL),
                     ROTA_OK);
    rota_random_init(&world.random, 1);
    rota_budget_init(&world.budget, 0, &ROTA_BUDGET_RETRIES);
    rota_hedge_init(&world.hedge, 0, &(struct rota_hedge_options){0});
    rota_get_load_init(&world.load, 0);
    world.shared = (struct rota_get_shared){
        .map = world.map,
        .balancer = world.balancer,
        .random = &world.random,
        .budget = &world.budget,
        .hedge = &world.hedge,
        .load = &world.load,
        .stats = &world.stats,
    };
    rota_get_fsm_init(&world.fsm, &world.shared);
    list_hosts(4);
    for (size_t i = 0; i < 4; i++)
        teach(i, rota_interval_of(i % N_SHARDS, N_SHARDS), 10 + i);
    return 0;
}

int teardown(void **state)
{
    (void)state;
    rota_get_fsm_deinit(&world.fsm, world.now);
    assert_int_equal(world.stats.n_running, 0);
    assert_int_equal(rota_balancer_n_tries(world.balancer), 0);
    rota_balancer_free(world.balancer);
    rota_interval_map_free(world.map);
    return 0;
}

/* --- stepping --- */

static void note_send(const struct rota_get_fsm_action *action)
{
    struct sent *sent = &world.sent[world.n_sent++];
    assert_non_null(action->host);
    *sent = (struct sent){
        .number = action->number,
        .host = action->host->id,
        .n_keys = action->n_keys,
        .at = world.now,
        .deadline = action->deadline,
        .epoch = action->epoch,
        .is_hedge = action->is_hedge,
    };
    memcpy(sent->keys, action->keys, action->n_keys * sizeof *action->keys);
    const struct rota_get_fsm_options *options = &world.fsm.options;
    assert_int_equal(
        action->deadline,
        rota_time_min(options->deadline, rota_time_add(world.now, options->host_timeout)));
    world.counted.n_tries++;
    world.counted.n_hedges += action->is_hedge;
    for (size_t i = 0; i < rota_interval_map_n_hosts(world.map); i++)
        if (id_at(i) == action->host->id)
            sent->index = i;
}

static struct sent *find_sent(uint64_t number)
{
    for (size_t i = 0; i < world.n_sent; i++)
        if (world.sent[i].number == number)
            return &world.sent[i];
    fail_msg("nothing was sent under this number");
    return NULL;
}

/* Nothing runs and nothing comes any more, and all that was done is counted. */
static void check_finish(size_t n_missing)
{
    world.counted.n_failed += n_missing > 0;
    assert_int_equal(world.stats.n_gets, world.counted.n_gets);
    assert_int_equal(world.stats.n_keys, world.counted.n_keys);
    assert_int_equal(world.stats.n_copies[0] + world.stats.n_copies[1] + world.stats.n_copies[2],
                     world.counted.n_gets);
    assert_int_equal(world.stats.n_tries, world.counted.n_tries);
    assert_int_equal(world.stats.n_hedges, world.counted.n_hedges);
    assert_int_equal(world.stats.n_failed, world.counted.n_failed);
    assert_int_equal(world.stats.n_running, 0);
    assert_true(rota_get_fsm_is_done(&world.fsm));
    assert_false(rota_get_fsm_wants_news(&world.fsm));
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
}

void drain(void)
{
    struct rota_get_fsm_action action;
    while (rota_get_fsm_next(&world.fsm, &action)) {
        assert_int_equal(world.n_finished, 0); /* a finish is the last */
        switch (action.type) {
        case ROTA_GET_SEND:
            note_send(&action);
            break;
        case ROTA_GET_KEEP:
            find_sent(action.number)->is_kept = true;
            break;
        case ROTA_GET_CANCEL_TRY:
            assert_false(find_sent(action.number)->is_cancelled);
            find_sent(action.number)->is_cancelled = true;
            break;
        case ROTA_GET_FINISH:
            world.n_finished++;
            world.failure = action.failure;
            world.n_missing = action.n_missing;
            check_finish(action.n_missing);
            break;
        }
    }
}

void start(enum rota_get_mode mode, rota_time deadline, size_t n, const uint64_t *keys)
{
    struct rota_get_fsm_options options = {
        .ids = world.ids,
        .keys = world.keys,
        .n_keys = n,
        .deadline = deadline,
        .mode = mode,
        .host_timeout = 100 * ROTA_MSEC,
        .ping_time = 500 * ROTA_MSEC,
    };
    for (size_t i = 0; i < n; i++) {
        world.ids[i] = world.ids[i] ? world.ids[i] : 100 + i;
        world.keys[i] = keys[i];
    }
    world.n_finished = 0;
    world.counted.n_gets++;
    world.counted.n_keys += n;
    assert_int_equal(rota_get_fsm_start(&world.fsm, world.now, &options, NULL), ROTA_OK);
    drain();
}

void step(struct rota_get_fsm_event event)
{
    rota_get_fsm_step(&world.fsm, world.now, &event);
    drain();
}

void tick_at(rota_time now)
{
    world.now = now;
    step((struct rota_get_fsm_event){.type = ROTA_GET_TICK});
}

struct rota_get_fsm_event answer_of(const struct sent *sent)
{
    static uint64_t ids[KEYS_MAX];
    const struct rota_interval_host *host = rota_interval_map_find(world.map, sent->host);
    assert_true(host->n_claims <= CLAIMS_MAX);
    memcpy(world.claims, host->claims, host->n_claims * sizeof *host->claims);
    for (size_t i = 0; i < sent->n_keys; i++)
        ids[i] = world.ids[sent->keys[i]];
    return (struct rota_get_fsm_event){
        .type = ROTA_GET_ANSWER,
        .number = sent->number,
        .host = sent->host,
        .all_matched = true,
        .claims = world.claims,
        .n_claims = host->n_claims,
        .ids = ids,
        .n_ids = sent->n_keys,
    };
}

void answer(const struct sent *sent)
{
    step(answer_of(sent));
}

void mismatch(const struct sent *sent, struct rota_interval shard, uint64_t epoch)
{
    struct rota_interval_claim claim = {shard, epoch};
    step((struct rota_get_fsm_event){
        .type = ROTA_GET_ANSWER,
        .number = sent->number,
        .host = sent->host,
        .claims = &claim,
        .n_claims = 1,
    });
}

void fail_try(const struct sent *sent, enum rota_failure failure)
{
    step((struct rota_get_fsm_event){
        .type = ROTA_GET_FAILED, .number = sent->number, .failure = failure});
}

struct sent *sent_to(size_t index)
{
    for (size_t i = world.n_sent; i-- > 0;)
        if (world.sent[i].index == index)
            return &world.sent[i];
    return NULL;
}

enum rota_get_key_state state_of(size_t key)
{
    return rota_get_fsm_result(&world.fsm, key).state;
}

void assert_well(void)
{
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.failure, ROTA_FAILURE_NONE);
    assert_int_equal(world.n_missing, 0);
}

void assert_missing(size_t n, enum rota_failure failure)
{
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.n_missing, n);
    assert_int_equal(world.failure, failure);
}
