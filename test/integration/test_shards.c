#include "core/call/balancer_rule.h"
#include "metric.h"
#include "run/call/shards_inside.h"
#include "shards_world.h"

#include <stdio.h>
#include <stdlib.h>

/* --- which shards --- */

static void all_shards_answer_and_then_it_is_done(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    for (int i = 0; i < 3; i++) {
        execute(&world, request(&world, ROTA_SHARDS_ALL));
        assert_int_equal(world.n_replies, 2);
        assert_int_equal(world.n_done, 1);
        assert_int_equal(world.result.status, ROTA_STATUS_OK);
        assert_int_equal(world.result.n_ok, 2);
        assert_string_equal(world.messages[0], "hello");
    }
    assert_int_equal(world.n_asked, 1);
    world_close(&world);
}

static void one_and_a_named_one_ask_one_shard(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    execute(&world, request(&world, ROTA_SHARDS_ONE));
    assert_int_equal(world.n_replies, 1);
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(world.n_replies, 1);
    assert_true(world.by[0] == 1 || world.by[0] == 2);
    world_close(&world);
}

static struct rota_str write_request(void *data, struct rota_str channel)
{
    static char text[16];
    (void)data;
    snprintf(text, sizeof text, "for %.*s", ROTA_STR_ARGS(channel));
    return rota_str(text);
}

static void each_shard_gets_a_request_of_its_own(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    struct rota_shards_request what = request(&world, ROTA_SHARDS_ALL);
    what.on_request = write_request;
    execute(&world, what);
    bool is_a_first = strcmp(world.messages[0], "for a") == 0;
    assert_string_equal(world.messages[is_a_first ? 1 : 0], "for b");
    assert_string_equal(world.messages[is_a_first ? 0 : 1], "for a");
    world_close(&world);
}

static void unserved_and_unknown_shards_are_distinguished(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    struct rota_shards_request what = request(&world, ROTA_SHARDS_NAMED);
    what.channel = rota_str("z");
    execute(&world, what);
    assert_int_equal(world.result.status, ROTA_STATUS_UNAVAILABLE);
    assert_string_equal(world.result.failure, "no_replica");
    world.is_unknown = true;
    what.name.collection = rota_str("papers");
    execute(&world, what);
    assert_int_equal(world.result.status, ROTA_STATUS_NOT_FOUND);
    assert_string_equal(world.text, "never heard of it");
    world_close(&world);
}

static void bad_request_is_refused_at_once(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    struct rota_shards_request what = request(&world, ROTA_SHARDS_ALL);
    what.method = rota_str("Work");
    assert_int_equal(rota_shards_execute(world.shards, &what, NULL, NULL), ROTA_ERR_INVALID);
    what = request(&world, ROTA_SHARDS_ALL);
    what.name.collection = rota_str("");
    assert_int_equal(rota_shards_execute(world.shards, &what, NULL, NULL), ROTA_ERR_INVALID);
    what = request(&world, ROTA_SHARDS_NAMED);
    what.channel = rota_str("");
    assert_int_equal(rota_shards_execute(world.shards, &what, NULL, NULL), ROTA_ERR_INVALID);
    what = request(&world, ROTA_SHARDS_ALL);
    what.timeout = -1;
    assert_int_equal(rota_shards_execute(world.shards, &what, NULL, NULL), ROTA_ERR_INVALID);
    what = request(&world, ROTA_SHARDS_ALL);
    what.on_done = NULL;
    assert_int_equal(rota_shards_execute(world.shards, &what, NULL, NULL), ROTA_ERR_INVALID);
    what = request(&world, (enum rota_shards_mode)9);
    assert_int_equal(rota_shards_execute(world.shards, &what, NULL, NULL), ROTA_ERR_INVALID);
    struct rota_shards_query query = {.name = what.name};
    assert_int_equal(rota_shards_look(world.shards, &query, NULL), ROTA_ERR_INVALID);
    world_close(&world);
}

static void bad_options_are_refused(void **state)
{
    struct rota_shards_source source = {.ask = ask};
    const struct rota_shards_options bad[] = {
        {.source = &source, .policy = (enum rota_balancer_policy)9},
        {.source = &source, .purge_age = -1},
        {.source = &source, .health_timeout = -ROTA_SEC},
        {.source = &source, .cost_expiry = 2 * ROTA_DAY},
        {.source = &source, .budget_max = -1},
    };
    struct rota_shards *shards;
    (void)state;
    loop_open();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(rota_shards_open(&loop, &bad[i], &shards, NULL), ROTA_ERR_INVALID);
    loop_close();
}

/* --- settings --- */

static size_t n_calls(const struct world *world)
{
    return world->nodes[1].n_calls + world->nodes[2].n_calls;
}

static void retries_and_their_budget_are_as_set(void **state)
{
    struct world world;
    struct rota_shards_options options = {
        .retries = 1, .budget_ppm = -1, .budget_per_second = -1, .has_no_hedges = true};
    (void)state;
    world_open_with(&world, options);
    world.nodes[1].status = world.nodes[2].status = ROTA_STATUS_ABORTED;
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(n_calls(&world), 2); /* each replica once, which costs nothing */
    assert_int_equal(world.result.status, ROTA_STATUS_ABORTED);
    assert_string_equal(world.text,
                        "as told; each replica was tried, and the retry budget is exhausted");
    char *text = rota_shards_metrics(world.shards);
    assert_int_equal(metric_in(text, "rota_call_unbudgeted_total"), 1);
    assert_int_equal(metric_in(text, "rota_call_tries_total{kind=\"first\"}"), 1);
    assert_int_equal(metric_in(text, "rota_call_tries_total{kind=\"retry\"}"), 1);
    free(text);
    world.nodes[2].status = ROTA_STATUS_OK;
    for (int i = 0; i < 20; i++) {
        execute(&world, request(&world, ROTA_SHARDS_NAMED));
        assert_int_equal(world.result.status, ROTA_STATUS_OK);
    }
    text = rota_shards_metrics(world.shards);
    assert_int_equal(metric_in(text, "rota_node_tries_total{node=\"2\",outcome=\"ok\"}"),
                     world.nodes[2].n_calls - 1); /* after the one that failed */
    assert_int_equal(metric_in(text, "rota_balancer_available{node=\"2\"}"), 1);
    free(text);
    world_close(&world);

    options.budget_ppm = 1000000;
    world_open_with(&world, options);
    world.nodes[1].status = world.nodes[2].status = ROTA_STATUS_ABORTED;
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(n_calls(&world), 3); /* and one retry */
    assert_string_equal(world.text, "as told");
    world_close(&world);
}

static void one_replica_that_always_fails_costs_no_call(void **state)
{
    (void)state;
    for (int policy = ROTA_BALANCER_ROTA; policy <= ROTA_BALANCER_RANDOM; policy++) {
        struct world world;
        world_open_with(&world,
                        (struct rota_shards_options){.policy = (enum rota_balancer_policy)policy});
        world.nodes[1].status = ROTA_STATUS_ABORTED;
        for (int i = 0; i < 200; i++) {
            execute(&world, request(&world, ROTA_SHARDS_NAMED));
            assert_int_equal(world.result.status, ROTA_STATUS_OK);
        }
        world_close(&world);
    }
}

static void unused_connections_are_purged_as_set(void **state)
{
    struct world world;
    (void)state;
    world_open_with(&world, (struct rota_shards_options){.purge_interval = 20 * ROTA_MSEC,
                                                         .purge_age = ROTA_MSEC});
    execute(&world, request(&world, ROTA_SHARDS_ALL));
    assert_true(rota_shards_nodes(world.shards, NULL, 0) > 0);
    rota_shards_invalidate(world.shards, &(int64_t){1}, 1); /* nobody is known to serve */
    RUN_UNTIL(rota_shards_nodes(world.shards, NULL, 0) == 0);
    world_close(&world);
}

static void look_aside_is_as_set(void **state)
{
    struct world world;
    (void)state;
    world_open_with(&world, (struct rota_shards_options){.policy = ROTA_BALANCER_LOOK_ASIDE,
                                                         .cost_expiry = 7 * ROTA_SEC,
                                                         .check_every = 3,
                                                         .tolerance_ppm = 5});
    const struct rota_balancer_options *set = &world.shards->balancer->options;
    assert_int_equal(set->expires, 7 * ROTA_SEC);
    assert_int_equal(set->check_every, 3);
    assert_int_equal(set->tolerance_ppm, 5);
    world_close(&world);
}

/* --- failures --- */

static void failing_shard_has_its_siblings_cancelled_on_their_nodes(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    place(&world, 0, 1, 2, 5);
    place(&world, 1, 3, 2, 6);
    world.nodes[1].status = world.nodes[2].status = ROTA_STATUS_INVALID_ARGUMENT;
    world.nodes[3].is_keeping = true;
    struct rota_shards_request what = request(&world, ROTA_SHARDS_ALL);
    what.has_preferred = true;
    what.preferred = 3;
    start(&world, what);
    RUN_UNTIL(world.n_done);
    assert_int_equal(world.result.status, ROTA_STATUS_INVALID_ARGUMENT);
    assert_string_equal(world.text, "as told");
    assert_int_equal(world.result.n_ok, 0);
    assert_int_equal(world.result.n_failed, 2);
    RUN_UNTIL(world.nodes[3].n_cancelled == world.nodes[3].n_calls);
    world_close(&world);
}

static void partial_run_lets_the_others_end(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    world.nodes[1].status = world.nodes[2].status = ROTA_STATUS_INVALID_ARGUMENT;
    struct rota_shards_request what = request(&world, ROTA_SHARDS_ALL);
    what.is_partial = what.has_preferred = true;
    what.preferred = 3;
    execute(&world, what);
    assert_int_equal(world.n_replies, 2);
    assert_int_equal(world.result.n_ok, 1);
    assert_int_equal(world.result.n_failed, 1);
    assert_int_equal(world.result.status, ROTA_STATUS_INVALID_ARGUMENT);
    world_close(&world);
}

static void the_other_replica_takes_over_from_a_failing_one(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    world.nodes[1].status = ROTA_STATUS_INTERNAL;
    for (int i = 0; i < 4; i++) {
        execute(&world, request(&world, ROTA_SHARDS_NAMED));
        assert_int_equal(world.result.status, ROTA_STATUS_OK);
        assert_int_equal(world.by[0], 2);
    }
    assert_true(world.nodes[1].n_calls <= 1); /* then it is on the blacklist */
    world_close(&world);
}

static void call_that_must_not_run_twice_is_not_sent_twice(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    world.nodes[1].status = world.nodes[2].status = ROTA_STATUS_INTERNAL;
    struct rota_shards_request what = request(&world, ROTA_SHARDS_NAMED);
    what.repeat = ROTA_REPEAT_UNSENT;
    execute(&world, what);
    assert_int_equal(world.result.status, ROTA_STATUS_INTERNAL);
    assert_int_equal(world.nodes[1].n_calls + world.nodes[2].n_calls, 1);
    world_close(&world);
}

static void calls_that_must_not_run_twice_leave_a_removed_node_too(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    node_close(&world.nodes[1]);
    struct rota_shards_request what = request(&world, ROTA_SHARDS_NAMED);
    what.repeat = ROTA_REPEAT_UNSENT;
    for (int i = 0; i < 4; i++) {
        execute(&world, what);
        assert_int_equal(world.result.status, ROTA_STATUS_OK);
        assert_int_equal(world.by[0], 2);
    }
    world_close(&world);
}

static void deadline_ends_it_here_and_there(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    world.nodes[1].is_keeping = world.nodes[2].is_keeping = true;
    struct rota_shards_request what = request(&world, ROTA_SHARDS_NAMED);
    what.timeout = 30 * ROTA_MSEC;
    execute(&world, what);
    assert_int_equal(world.result.status, ROTA_STATUS_DEADLINE_EXCEEDED);
    assert_string_equal(world.result.failure, "deadline");
    RUN_UNTIL(world.nodes[1].n_cancelled + world.nodes[2].n_cancelled ==
              world.nodes[1].n_calls + world.nodes[2].n_calls);
    world_close(&world);
}

static void unresponsive_directory_does_not_outlast_the_deadline(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    world.is_holding = true;
    struct rota_shards_request what = request(&world, ROTA_SHARDS_ALL);
    what.timeout = 20 * ROTA_MSEC;
    execute(&world, what);
    assert_int_equal(world.result.status, ROTA_STATUS_DEADLINE_EXCEEDED);
    world_close(&world);
}

/* --- what a node tells --- */

static void stale_refusal_corrects_the_map_without_a_question(void **state)
{
    struct world world;
    char claim[128];
    (void)state;
    world_open(&world);
    snprintf(claim, sizeof claim, "3 9 %.*s", ROTA_STR_ARGS(node_address(&world.nodes[3])));
    struct rota_metadata pairs[] = {{rota_str("rota-failure"), rota_str("stale")},
                                    {rota_str("rota-claim"), rota_str(claim)}};
    for (int i = 1; i <= 2; i++) {
        world.nodes[i].status = ROTA_STATUS_FAILED_PRECONDITION;
        world.nodes[i].metadata = pairs;
        world.nodes[i].n_metadata = 2;
    }
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(world.result.status, ROTA_STATUS_OK);
    assert_int_equal(world.by[0], 3);
    assert_string_equal(world.nodes[3].epoch, "9");
    assert_int_equal(world.n_asked, 1);
    char *text = rota_shards_metrics(world.shards);
    assert_true(metric_in(text, "rota_shard_cache_claims_total") > 0);
    assert_true(metric_in(text, "rota_call_tries_total{kind=\"retry\"}") > 0);
    free(text);
    world_close(&world);
}

static void call_carries_the_epoch_of_the_claim(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_string_equal(world.nodes[world.by[0]].epoch, "5");
    world_close(&world);
}

static void cost_reaches_the_balancer(void **state)
{
    struct world world;
    struct rota_cost cost = {700000, 600000, 4};
    struct rota_shards_view view;
    (void)state;
    world_open(&world);
    for (int i = 1; i <= 2; i++) {
        world.nodes[i].costs = &cost;
        world.nodes[i].n_costs = 1;
    }
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_true(rota_shards_look_at(world.shards, world.by[0], &view));
    assert_true(view.has_balance && view.balance.reported_at != ROTA_TIME_MIN);
    assert_int_equal(view.balance.n_tries, 0);
    assert_int_equal(view.balance.outcomes[ROTA_OUTCOME_OK], 1);
    world_close(&world);
}

/* --- looking inside --- */

static struct rota_shards_request pinned(struct world *world, int64_t node)
{
    struct rota_shards_request what = request(world, ROTA_SHARDS_NAMED);
    what.is_pinned = true;
    what.preferred = node;
    return what;
}

static void pinned_request_goes_to_its_node_and_nowhere_else(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    for (int64_t node = 2; node >= 1; node--) {
        execute(&world, pinned(&world, node));
        assert_int_equal(world.result.status, ROTA_STATUS_OK);
        assert_int_equal(world.by[0], node);
    }
    world.nodes[1].status = ROTA_STATUS_INTERNAL;
    execute(&world, pinned(&world, 1));
    assert_int_equal(world.result.status, ROTA_STATUS_INTERNAL);
    assert_int_equal(world.nodes[1].n_calls, 2);
    assert_int_equal(world.nodes[2].n_calls, 1);
    execute(&world, pinned(&world, 3)); /* it does not serve this shard */
    assert_string_equal(world.result.failure, "no_replica");
    world_close(&world);
}

static void nodes_are_shown_with_their_counts(void **state)
{
    struct world world;
    struct rota_shards_view view;
    int64_t nodes[2];
    char address[64];
    (void)state;
    world_open(&world);
    assert_int_equal(rota_shards_nodes(world.shards, NULL, 0), 0);
    assert_false(rota_shards_look_at(world.shards, 1, &view));
    execute(&world, pinned(&world, 1));
    assert_int_equal(rota_shards_nodes(world.shards, nodes, 2), 1);
    assert_int_equal(nodes[0], 1);
    assert_true(rota_shards_look_at(world.shards, 1, &view));
    snprintf(address, sizeof address, "%s", rota_server_address(world.nodes[1].server, 0));
    assert_string_equal(view.address, address);
    assert_string_equal(view.problem, "");
    assert_true(view.failed_at == ROTA_TIME_MIN);
    assert_int_equal(view.n_connections, 2);
    assert_int_equal(view.health, ROTA_HEALTH_WELL);

    world.nodes[1].status = ROTA_STATUS_INTERNAL;
    for (int i = 0; i < 3; i++)
        execute(&world, pinned(&world, 1));
    assert_true(rota_shards_look_at(world.shards, 1, &view));
    assert_string_equal(view.problem, "as told");
    assert_true(view.failed_at != ROTA_TIME_MIN);
    assert_int_equal(view.balance.circuit, ROTA_CIRCUIT_OPEN);

    node_close(&world.nodes[2]);
    world.nodes[2].server = NULL;
    execute(&world, pinned(&world, 2));
    assert_true(rota_shards_look_at(world.shards, 2, &view));
    assert_non_null(strstr(view.problem, view.address));
    world_close(&world);
}

static void unresponsive_node_is_shown_as_such(void **state)
{
    struct world world;
    struct rota_shards_view view;
    (void)state;
    world_open(&world);
    execute(&world, pinned(&world, 1));
    world.nodes[1].is_keeping = true;
    struct rota_shards_request what = pinned(&world, 1);
    what.try_timeout = 50 * ROTA_MSEC;
    start(&world, what);
    RUN_UNTIL(world.nodes[1].n_kept == 1);
    assert_true(rota_shards_look_at(world.shards, 1, &view));
    assert_int_equal(view.balance.n_tries, 1);
    RUN_UNTIL(world.n_done);
    assert_int_equal(world.result.status, ROTA_STATUS_DEADLINE_EXCEEDED);
    assert_true(rota_shards_look_at(world.shards, 1, &view));
    assert_string_equal(view.problem, "no reply in time");
    world_close(&world);
}

/* A node that has others work for it tells what each part cost, in any order; what it
 * did itself says little. */
static void longest_part_of_a_call_is_its_cost(void **state)
{
    struct rota_cost costs[] = {{200, 100, 0}, {700000, 600000, 4}, {300, 100, 1}};
    (void)state;
    for (size_t n = 1; n <= 3; n++) {
        struct world world;
        struct rota_shards_view view;
        world_open_with(&world, (struct rota_shards_options){.policy = ROTA_BALANCER_LOOK_ASIDE});
        for (int i = 1; i <= 2; i++) {
            world.nodes[i].costs = costs;
            world.nodes[i].n_costs = n;
        }
        execute(&world, request(&world, ROTA_SHARDS_NAMED));
        assert_true(rota_shards_look_at(world.shards, world.by[0], &view));
        assert_int_equal(view.balance.score, n == 1 ? 200 : 100000 + 125 * 600000);
        world_close(&world);
    }
}

/* --- the program changes its mind --- */

static void cancelled_run_reports_nothing_and_leaves_its_node(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    world.nodes[1].is_keeping = world.nodes[2].is_keeping = true;
    struct rota_shards_run *run = start(&world, request(&world, ROTA_SHARDS_NAMED));
    RUN_UNTIL(world.nodes[1].n_kept + world.nodes[2].n_kept == 1);
    rota_shards_cancel(run);
    RUN_UNTIL(world.nodes[1].n_cancelled + world.nodes[2].n_cancelled == 1);
    assert_int_equal(world.n_done + world.n_replies, 0);
    world_close(&world);
}

static void run_can_be_cancelled_before_anything_is_known(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    world.is_holding = true;
    rota_shards_cancel(start(&world, request(&world, ROTA_SHARDS_ALL)));
    rota_shards_tell(
        world.shards, world.held,
        &(struct rota_shards_map){.id = 1, .channels = world.channels, .n_channels = 2}, NULL);
    execute(&world, request(&world, ROTA_SHARDS_ALL));
    assert_int_equal(world.n_done, 1);
    assert_int_equal(world.result.status, ROTA_STATUS_OK);
    assert_int_equal(world.n_asked, 1); /* what the other one asked is of use */
    world_close(&world);
}

static void shards_can_be_closed_in_a_callback_and_with_calls_in_flight(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    world.closes = true;
    start(&world, request(&world, ROTA_SHARDS_ALL));
    RUN_UNTIL(world.n_replies);
    assert_int_equal(world.n_replies, 1);
    world_close(&world);
    assert_int_equal(world.n_replies, 1);
    assert_int_equal(world.n_done, 0);

    world_open(&world);
    world.nodes[1].is_keeping = world.nodes[2].is_keeping = true;
    start(&world, request(&world, ROTA_SHARDS_ALL));
    start(&world, request(&world, ROTA_SHARDS_ALL));
    RUN_UNTIL(world.nodes[1].n_kept + world.nodes[2].n_kept > 0);
    world_close(&world);
    assert_int_equal(world.n_done, 0);
}

/* --- the map --- */

struct seen {
    size_t n, n_channels;
    int64_t firsts[2]; /* of each channel */
    char text[64];
};

static void on_map(void *data, const struct rota_shards_map *map, struct rota_str text)
{
    struct seen *seen = data;
    seen->n++;
    seen->n_channels = map ? map->n_channels : 0;
    for (size_t i = 0; i < seen->n_channels; i++)
        seen->firsts[i] = map->channels[i].replicas[0].node;
    copy_str(seen->text, sizeof seen->text, text);
}

static void look_shows_the_map_and_opens_connections(void **state)
{
    struct world world;
    struct seen seen = {0};
    (void)state;
    world_open(&world);
    struct rota_shards_query query = {.name = {.collection = rota_str("books")},
                                      .is_warmed = true,
                                      .on_map = on_map,
                                      .data = &seen};
    assert_int_equal(rota_shards_look(world.shards, &query, NULL), ROTA_OK);
    assert_int_equal(seen.n, 0);
    RUN_UNTIL(seen.n);
    assert_int_equal(seen.n_channels, 2);
    for (int id = 1; id <= NODES; id++)
        RUN_UNTIL(rota_server_counts(world.nodes[id].server).connections >= 2);
    world.is_unknown = true;
    query.is_fresh = true;
    assert_int_equal(rota_shards_look(world.shards, &query, NULL), ROTA_OK);
    RUN_UNTIL(seen.n == 2);
    assert_string_equal(seen.text, "never heard of it");
    world_close(&world);
}

static void c21_shuffled_looks_go_round_the_replicas(void **state)
{
    struct world world;
    struct seen seen = {0};
    int64_t expected[2][2] = {{1, 2}, {2, 3}};
    (void)state;
    world_open(&world);
    struct rota_shards_query query = {.name = {.collection = rota_str("books")},
                                      .is_shuffled = true,
                                      .on_map = on_map,
                                      .data = &seen};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(rota_shards_look(world.shards, &query, NULL), ROTA_OK);
        RUN_UNTIL(seen.n == i + 1);
        assert_int_equal(seen.firsts[0], expected[0][i % 2]);
        assert_int_equal(seen.firsts[1], expected[1][i % 2]);
    }
    query.is_shuffled = false;
    for (size_t i = 6; i < 8; i++) {
        assert_int_equal(rota_shards_look(world.shards, &query, NULL), ROTA_OK);
        RUN_UNTIL(seen.n == i + 1);
        assert_int_equal(seen.firsts[0], 1); /* as the source has it */
    }
    assert_int_equal(world.n_asked, 1);
    world_close(&world);
}

static void map_that_is_replaced_or_dropped_is_not_used_again(void **state)
{
    struct world world;
    int64_t id = 1;
    (void)state;
    world_open(&world);
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    place(&world, 0, 3, 3, 7);
    world.channels[0].n_replicas = 1;
    rota_shards_replace(world.shards, &(struct rota_shards_map){
                                          .id = 1, .channels = world.channels, .n_channels = 2});
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(world.by[0], 3);
    assert_int_equal(world.n_asked, 1);
    rota_shards_invalidate(world.shards, &id, 1);
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(world.n_asked, 2);
    rota_shards_deprecate(world.shards, rota_str("db"), rota_str("books"));
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(world.n_asked, 3);
    rota_shards_remove_database(world.shards, rota_str("db"));
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(world.n_asked, 4);
    world_close(&world);
}

static void map_that_is_dropped_under_a_call_serves_it_to_its_end(void **state)
{
    struct world world;
    int64_t id = 1;
    (void)state;
    world_open(&world);
    world.nodes[1].is_keeping = world.nodes[2].is_keeping = true;
    start(&world, request(&world, ROTA_SHARDS_NAMED));
    RUN_UNTIL(world.nodes[1].n_kept + world.nodes[2].n_kept == 1);
    rota_shards_invalidate(world.shards, &id, 1);
    place(&world, 0, 3, 1, 7);
    rota_shards_replace(world.shards, &(struct rota_shards_map){
                                          .id = 1, .channels = world.channels, .n_channels = 2});
    rota_shards_remove_database(world.shards, rota_str("db"));
    struct node *node = &world.nodes[world.nodes[1].n_kept ? 1 : 2];
    rota_server_call_reply(node->kept[--node->n_kept], rota_str("done"));
    RUN_UNTIL(world.n_done);
    assert_int_equal(world.result.status, ROTA_STATUS_OK);
    assert_string_equal(world.messages[0], "done");
    world_close(&world);
}

static void node_that_returns_at_another_address_starts_over(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    place(&world, 0, 1, 1, 5);
    world.channels[0].n_replicas = 1;
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    node_close(&world.nodes[1]);
    node_open(&world.nodes[1], 1);
    place(&world, 0, 1, 1, 6);
    world.channels[0].n_replicas = 1;
    rota_shards_replace(world.shards, &(struct rota_shards_map){
                                          .id = 1, .channels = world.channels, .n_channels = 2});
    execute(&world, request(&world, ROTA_SHARDS_NAMED));
    assert_int_equal(world.result.status, ROTA_STATUS_OK);
    assert_int_equal(world.nodes[1].n_calls, 1);
    assert_string_equal(world.nodes[1].epoch, "6");
    world_close(&world);
}

static void failures_of_the_old_process_do_not_count_against_the_new(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    struct rota_shards_request what = request(&world, ROTA_SHARDS_NAMED);
    what.has_preferred = true;
    what.preferred = 1;
    world.nodes[1].status = ROTA_STATUS_INTERNAL;
    execute(&world, what);
    assert_int_equal(world.by[0], 2);
    world.nodes[1].status = ROTA_STATUS_OK;
    execute(&world, what);
    assert_int_equal(world.by[0], 2); /* node 1 is on the blacklist */
    node_close(&world.nodes[1]);
    node_open(&world.nodes[1], 1);
    place(&world, 0, 1, 2, 6);
    rota_shards_replace(world.shards, &(struct rota_shards_map){
                                          .id = 1, .channels = world.channels, .n_channels = 2});
    execute(&world, what);
    assert_int_equal(world.by[0], 1);
    world_close(&world);
}

static void contradictory_map_is_the_sources_fault(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    place(&world, 0, 1, 1, 5); /* the node is there twice */
    struct rota_shards_request what = request(&world, ROTA_SHARDS_ALL);
    what.timeout = 200 * ROTA_MSEC;
    execute(&world, what);
    assert_int_equal(world.result.status, ROTA_STATUS_UNAVAILABLE);
    assert_true(strlen(world.text) > 10);
    world_close(&world);
}

/* --- the rest --- */

static void simple_program_waits(void **state)
{
    struct world world;
    struct rota_shards_answers answers;
    (void)state;
    world_open(&world);
    struct rota_shards_request what = request(&world, ROTA_SHARDS_ALL);
    what.on_request = write_request;
    assert_int_equal(rota_shards_wait(world.shards, &what, &answers, NULL), ROTA_OK);
    assert_int_equal(answers.status, ROTA_STATUS_OK);
    assert_int_equal(answers.n_items, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(answers.items[i].size, 5);
        assert_string_equal(answers.items[i].message + 4, answers.items[i].channel);
    }
    rota_shards_answers_deinit(&answers);
    world.is_unknown = true;
    what.name.collection = rota_str("papers");
    assert_int_equal(rota_shards_wait(world.shards, &what, &answers, NULL), ROTA_OK);
    assert_int_equal(answers.status, ROTA_STATUS_NOT_FOUND);
    assert_int_equal(answers.n_items, 0);
    rota_shards_answers_deinit(&answers);
    world_close(&world);
}

static void waits_in_its_callback(void *data, const struct rota_shards_result *result)
{
    struct world *world = data;
    struct rota_shards_answers answers;
    struct rota_shards_request what = request(world, ROTA_SHARDS_ALL);
    (void)result;
    assert_int_equal(rota_shards_wait(world->shards, &what, &answers, NULL), ROTA_ERR_INVALID);
    world->n_done++;
}

static void callback_cannot_wait(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    struct rota_shards_request what = request(&world, ROTA_SHARDS_ALL);
    what.on_done = waits_in_its_callback;
    execute(&world, what);
    world_close(&world);
}

static void metrics_count_completed_calls(void **state)
{
    static const char *const parts[] = {
        "rota_shard_cache_reads_total{method=\"get_leaders\",served=\"miss\"} 1\n",
        "rota_shard_cache_reads_total{method=\"get_leaders\",served=\"hit\"} 1\n",
        "rota_shard_cache_update_seconds_count 1\n",
        "rota_call_tries_total{kind=\"first\"} 2\n",
        "rota_call_ended_total{failure=\"none\"} 2\n",
        "rota_shard_cache_questions_total 1\n",
        "rota_shard_cache_maps 1\n",
        "rota_shards_runs 0\n",
        "rota_call_tries_total{kind=\"retry\"} 0\n",
        "rota_call_tries_total{kind=\"hedge\"} 0\n",
        "rota_call_hedges_won_total 0\n",
        "rota_call_refreshes_total 0\n",
        "rota_call_preferred_total{status=\"hit\"} 2\n",
        "rota_call_preferred_total{status=\"miss\"} 0\n",
        "rota_node_latency_seconds_count{node=\"2\"} 2\n",
        "rota_balancer_in_flight{node=\"2\"} 0\n",
        "rota_balancer_score{node=\"2\"} ",
        "rota_balancer_circuit{node=\"2\"} 0\n",
        "rota_balancer_ejections_total{node=\"2\"} 0\n",
        "rota_health_dropped_total{node=\"2\"} 0\n",
        "rota_pool_connections{node=\"2\"} 2\n",
    };
    struct world world;
    (void)state;
    world_open(&world);
    struct rota_shards_request what = request(&world, ROTA_SHARDS_NAMED);
    what.has_preferred = true;
    what.preferred = 2;
    what.hedge_after = -1;
    execute(&world, what);
    free(rota_shards_metrics(world.shards)); /* who asks twice does not count twice */
    execute(&world, what);
    char *text = rota_shards_metrics(world.shards);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("%s is not in\n%s", parts[i], text);
    free(text);

    world.nodes[2].is_keeping = true;
    start(&world, what);
    RUN_UNTIL(world.nodes[2].n_kept == 1);
    text = rota_shards_metrics(world.shards);
    assert_int_equal(metric_in(text, "rota_shards_runs"), 1);
    free(text);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shards_answer_and_then_it_is_done),
        cmocka_unit_test(one_and_a_named_one_ask_one_shard),
        cmocka_unit_test(each_shard_gets_a_request_of_its_own),
        cmocka_unit_test(unserved_and_unknown_shards_are_distinguished),
        cmocka_unit_test(bad_request_is_refused_at_once),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(retries_and_their_budget_are_as_set),
        cmocka_unit_test(one_replica_that_always_fails_costs_no_call),
        cmocka_unit_test(unused_connections_are_purged_as_set),
        cmocka_unit_test(look_aside_is_as_set),
        cmocka_unit_test(failing_shard_has_its_siblings_cancelled_on_their_nodes),
        cmocka_unit_test(partial_run_lets_the_others_end),
        cmocka_unit_test(the_other_replica_takes_over_from_a_failing_one),
        cmocka_unit_test(call_that_must_not_run_twice_is_not_sent_twice),
        cmocka_unit_test(calls_that_must_not_run_twice_leave_a_removed_node_too),
        cmocka_unit_test(deadline_ends_it_here_and_there),
        cmocka_unit_test(unresponsive_directory_does_not_outlast_the_deadline),
        cmocka_unit_test(stale_refusal_corrects_the_map_without_a_question),
        cmocka_unit_test(call_carries_the_epoch_of_the_claim),
        cmocka_unit_test(cost_reaches_the_balancer),
        cmocka_unit_test(longest_part_of_a_call_is_its_cost),
        cmocka_unit_test(pinned_request_goes_to_its_node_and_nowhere_else),
        cmocka_unit_test(nodes_are_shown_with_their_counts),
        cmocka_unit_test(unresponsive_node_is_shown_as_such),
        cmocka_unit_test(cancelled_run_reports_nothing_and_leaves_its_node),
        cmocka_unit_test(run_can_be_cancelled_before_anything_is_known),
        cmocka_unit_test(shards_can_be_closed_in_a_callback_and_with_calls_in_flight),
        cmocka_unit_test(look_shows_the_map_and_opens_connections),
        cmocka_unit_test(c21_shuffled_looks_go_round_the_replicas),
        cmocka_unit_test(map_that_is_replaced_or_dropped_is_not_used_again),
        cmocka_unit_test(map_that_is_dropped_under_a_call_serves_it_to_its_end),
        cmocka_unit_test(node_that_returns_at_another_address_starts_over),
        cmocka_unit_test(failures_of_the_old_process_do_not_count_against_the_new),
        cmocka_unit_test(contradictory_map_is_the_sources_fault),
        cmocka_unit_test(simple_program_waits),
        cmocka_unit_test(callback_cannot_wait),
        cmocka_unit_test(metrics_count_completed_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
