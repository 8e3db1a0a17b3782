/* Where a call of a space goes and when it waits (follow), which directory is watched (watch_fsm),
 * and that a call continues after rejections (call_fsm). */
#include "core/call/call_fsm.h"
#include "core/call/service/follow.h"
#include "core/call/service/watch_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static struct rota_space_table table;
static struct rota_follow follow;
static struct rota_random any;
static struct rota_space_table_shard found;
static rota_time until;

static int64_t node_of(struct rota_str address)
{
    return address.data[0];
}

/* The directory has nodes a to d, and this claim on shard 0; owner 0: none. */
static void tell(uint64_t version, uint32_t owner, uint64_t epoch, bool is_moving)
{
    static const char *const addresses[] = {"a:1", "b:1", "c:1", "d:1"};
    const struct rota_space_table_head head = {.history = 1,
                                               .version = version,
                                               .is_snapshot = version == 1,
                                               .is_whole = true,
                                               .engine = rota_str("ring"),
                                               .n_shards = 1};
    const struct rota_space_table_claim claim = {epoch, owner, is_moving};
    size_t zone;
    assert_int_equal(rota_space_table_begin(&table, &head, NULL), ROTA_OK);
    for (size_t i = 0; i < 4; i++)
        rota_space_table_node(&table, i, rota_str(addresses[i]), NULL);
    rota_space_table_zone(&table, rota_str(""), &zone, NULL);
    assert_int_equal(rota_space_table_claim(&table, zone, 0, &claim, NULL), ROTA_OK);
    assert_int_equal(rota_space_table_end(&table, &head, NULL), ROTA_OK);
}

static int set_up(void **state)
{
    (void)state;
    rota_random_init(&any, 1);
    rota_space_table_init(&table, 1);
    rota_follow_init(&follow);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_space_table_deinit(&table);
    return 0;
}

/* The node that it goes to, as a letter; 0: it waits. */
static int look(rota_time now)
{
    rota_follow_look(&follow, &table, now, 0, node_of, &found, &until);
    return found.n_replicas > 0 ? found.replicas[0].address.data[0] : 0;
}

static bool looks_served(rota_time now)
{
    return rota_follow_look(&follow, &table, now, 0, node_of, &found, &until);
}

static void fail_at(rota_time now, char node, uint64_t epoch, enum rota_failure failure)
{
    rota_follow_failed(&follow, now, node, epoch, failure, &any);
}

static void learn(rota_time now, const char *address, uint64_t epoch)
{
    const struct rota_replica claim = {.address = rota_str(address), .epoch = epoch};
    assert_true(rota_space_table_learn(&table, now, 0, &claim));
}

static void a_call_waits_for_a_map_and_for_an_owner(void **state)
{
    (void)state;
    assert_int_equal(look(1), 0);
    assert_int_equal(follow.reason, ROTA_FOLLOW_NO_MAP);
    assert_true(until == ROTA_TIME_NEVER && follow.waits_since == 1);
    tell(1, 0, 0, false);
    assert_int_equal(look(2), 0);
    assert_int_equal(follow.reason, ROTA_FOLLOW_NO_OWNER);
    assert_true(follow.waits_since == 1);
    tell(2, 1, 1, true);
    assert_int_equal(look(3), 0);
    assert_int_equal(follow.reason, ROTA_FOLLOW_MOVING);
    tell(3, 1, 1, false);
    assert_int_equal(look(4), 'a');
    assert_int_equal(follow.reason, ROTA_FOLLOW_NONE);
    assert_true(follow.waits_since == ROTA_TIME_NEVER);
    rota_follow_look(&follow, &table, 5, 1, node_of, &found, &until);
    assert_int_equal(follow.reason, ROTA_FOLLOW_NO_SHARD);
}

static void a_rejected_claim_is_tried_again_after_a_pause_or_another_at_once(void **state)
{
    (void)state;
    tell(1, 1, 5, false);
    assert_int_equal(look(0), 'a');
    fail_at(0, 'a', 5, ROTA_FAILURE_STALE);
    assert_int_equal(look(0), 0);
    assert_int_equal(follow.reason, ROTA_FOLLOW_REJECTED);
    assert_true(until >= ROTA_FOLLOW_PAUSE * 8 / 10 && until <= ROTA_FOLLOW_PAUSE * 12 / 10);
    rota_time first = until;
    assert_int_equal(look(until - 1), 0);
    assert_int_equal(look(until), 'a'); /* that server may have been behind */
    fail_at(first, 'a', 5, ROTA_FAILURE_STALE);
    assert_int_equal(look(first), 0);
    assert_true(until - first > first); /* it grows */
    tell(2, 2, 6, false);
    assert_int_equal(look(first), 'b');
}

static void an_unreachable_owner_is_waited_for_other_failures_are_not(void **state)
{
    (void)state;
    tell(1, 1, 5, false);
    fail_at(0, 'a', 5, ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(look(0), 0);
    assert_int_equal(follow.reason, ROTA_FOLLOW_UNREACHABLE);
    rota_follow_init(&follow);
    fail_at(0, 'a', 5, ROTA_FAILURE_BROKEN);
    assert_int_equal(look(0), 'a');
}

static void redirects_are_followed_three_times_then_the_directory_counts(void **state)
{
    (void)state;
    tell(1, 1, 5, false);
    assert_int_equal(look(0), 'a');
    fail_at(0, 'a', 5, ROTA_FAILURE_STALE);
    learn(0, "b:1", 6);
    assert_int_equal(look(0), 'b');
    fail_at(0, 'b', 6, ROTA_FAILURE_STALE);
    learn(0, "c:1", 7);
    assert_int_equal(look(0), 'c');
    fail_at(0, 'c', 7, ROTA_FAILURE_STALE);
    learn(0, "b:1", 8);
    assert_int_equal(look(0), 'b');
    fail_at(0, 'b', 8, ROTA_FAILURE_STALE);
    learn(0, "c:1", 9);
    assert_int_equal(look(0), 0);
    assert_int_equal(follow.reason, ROTA_FOLLOW_CIRCLE);
    rota_time pause = until;
    tell(2, 4, 6, false); /* the directory has news, though a learned epoch is higher */
    assert_int_equal(look(0), 'd');
    fail_at(0, 'd', 6, ROTA_FAILURE_STALE);
    assert_int_equal(look(0), 'c'); /* now they count again */
    assert_true(pause > 0);
}

static void only_a_call_that_waited_and_found_another_claim_was_served(void **state)
{
    (void)state;
    tell(1, 1, 5, false);
    assert_false(looks_served(0)); /* it has not waited */
    fail_at(0, 'a', 5, ROTA_FAILURE_NOT_LOADED);
    assert_false(looks_served(0));
    assert_false(looks_served(ROTA_SEC)); /* the same claim */
    fail_at(ROTA_SEC, 'a', 5, ROTA_FAILURE_STALE);
    assert_false(looks_served(ROTA_SEC));
    tell(2, 1, 6, false);
    assert_true(looks_served(ROTA_SEC));
    fail_at(ROTA_SEC, 'a', 6, ROTA_FAILURE_STALE);
    assert_false(looks_served(ROTA_SEC));
    tell(3, 2, 6, false);
    assert_true(looks_served(ROTA_SEC));
}

static void the_pause_after_another_claim_is_a_short_one(void **state)
{
    const rota_time longest = ROTA_FOLLOW_PAUSE * 12 / 10;
    (void)state;
    tell(1, 1, 5, false);
    for (int i = 0; i < 5; i++)
        fail_at(0, 'a', 5, ROTA_FAILURE_STALE);
    look(0);
    assert_true(until > longest);
    fail_at(0, 'a', 6, ROTA_FAILURE_STALE);
    tell(2, 1, 6, false);
    look(0);
    assert_true(until <= longest);
    for (int i = 0; i < 5; i++)
        fail_at(0, 'a', 6, ROTA_FAILURE_STALE);
    fail_at(0, 'b', 6, ROTA_FAILURE_STALE);
    tell(3, 2, 6, false);
    look(0);
    assert_true(until <= longest);
}

static void redirects_count_again_after_the_pause_of_a_circle(void **state)
{
    (void)state;
    tell(1, 1, 5, false);
    look(0);
    for (uint64_t epoch = 6; epoch <= 9; epoch++) { /* each names the other */
        fail_at(0, epoch % 2 ? 'c' : 'b', epoch - 1, ROTA_FAILURE_STALE);
        learn(0, epoch % 2 ? "c:1" : "b:1", epoch);
        look(0);
    }
    assert_int_equal(follow.reason, ROTA_FOLLOW_CIRCLE);
    rota_time end = until;
    assert_int_equal(look(end - 1), 0);
    assert_int_equal(look(end), 'a'); /* as the directory says */
    assert_int_equal(look(end), 'c');
}

/* --- watches --- */

static struct rota_watch_fsm watch;

static struct rota_watch_actions step(rota_time now, enum rota_watch_event_type type)
{
    const struct rota_watch_event event = {
        .type = type, .number = watch.number, .is_whole = true, .status = ROTA_STATUS_UNAVAILABLE};
    return rota_watch_fsm_step(&watch, now, &event, &any);
}

static void a_redirect_that_expires_does_not_start_the_count_again(void **state)
{
    static const rota_time LATER = ROTA_SPACE_TABLE_LEARNED_FOR;
    (void)state;
    tell(1, 1, 5, false);
    assert_int_equal(look(0), 'a');
    fail_at(0, 'a', 5, ROTA_FAILURE_STALE);
    learn(0, "b:1", 6);
    assert_int_equal(look(0), 'b');
    fail_at(LATER, 'b', 6, ROTA_FAILURE_STALE);
    assert_int_equal(look(LATER), 'a'); /* the directory has nothing newer */
    fail_at(LATER, 'a', 5, ROTA_FAILURE_STALE);
    learn(LATER, "c:1", 7);
    assert_int_equal(look(LATER), 'c');
    fail_at(LATER, 'c', 7, ROTA_FAILURE_STALE);
    learn(LATER, "d:1", 8);
    assert_int_equal(look(LATER), 'd');
    fail_at(LATER, 'd', 8, ROTA_FAILURE_STALE);
    learn(LATER, "b:1", 9);
    assert_int_equal(look(LATER), 0);
    assert_int_equal(follow.reason, ROTA_FOLLOW_CIRCLE);
}

static void the_next_node_is_watched_when_one_fails_and_all_after_a_pause(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 2, 1);
    struct rota_watch_actions actions = step(0, ROTA_WATCH_START);
    assert_true(actions.start && actions.node == 1);
    assert_false(step(0, ROTA_WATCH_START).start);
    actions = step(1, ROTA_WATCH_ENDED);
    assert_true(actions.start && actions.node == 0);
    actions = step(2, ROTA_WATCH_ENDED);
    assert_false(actions.start);
    rota_time at = rota_watch_fsm_deadline(&watch);
    assert_true(at > 2 && at <= 2 + ROTA_WATCH_PAUSE * 12 / 10);
    assert_false(step(at - 1, ROTA_WATCH_TICK).start);
    actions = step(at, ROTA_WATCH_TICK);
    assert_true(actions.start && actions.node == 1);
}

static void an_unresponsive_node_is_left(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 2, 0);
    step(0, ROTA_WATCH_START);
    assert_true(rota_watch_fsm_deadline(&watch) == ROTA_WATCH_FIRST_WITHIN);
    struct rota_watch_actions actions = step(ROTA_WATCH_FIRST_WITHIN, ROTA_WATCH_TICK);
    assert_true(actions.cancel && actions.start && actions.node == 1);
    step(ROTA_WATCH_FIRST_WITHIN, ROTA_WATCH_UPDATE);
    assert_true(rota_watch_fsm_deadline(&watch) == ROTA_TIME_NEVER);
}

static void a_node_without_news_is_doubted_while_a_call_waits(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 2, 0);
    step(0, ROTA_WATCH_START);
    step(0, ROTA_WATCH_UPDATE);
    step(0, ROTA_WATCH_WAITED);
    assert_true(rota_watch_fsm_deadline(&watch) == ROTA_WATCH_DOUBT);
    step(1, ROTA_WATCH_UPDATE); /* it has some */
    assert_true(rota_watch_fsm_deadline(&watch) == ROTA_TIME_NEVER);
    step(1, ROTA_WATCH_WAITED);
    step(1, ROTA_WATCH_SERVED); /* by a redirect */
    assert_true(rota_watch_fsm_deadline(&watch) == ROTA_TIME_NEVER);
    step(2, ROTA_WATCH_WAITED);
    const struct rota_watch_event one_of_two = {.type = ROTA_WATCH_SERVED, .is_waited = true};
    rota_watch_fsm_step(&watch, 3, &one_of_two, &any);
    struct rota_watch_actions actions = step(2 + ROTA_WATCH_DOUBT, ROTA_WATCH_TICK);
    assert_true(actions.cancel && actions.start && actions.node == 1);

    rota_watch_fsm_init(&watch, 1, 0); /* there is no other */
    step(0, ROTA_WATCH_START);
    step(0, ROTA_WATCH_UPDATE);
    step(0, ROTA_WATCH_WAITED);
    assert_true(rota_watch_fsm_deadline(&watch) == ROTA_TIME_NEVER);
}

static void a_missing_space_is_reported_once(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 2, 0);
    step(0, ROTA_WATCH_START);
    const struct rota_watch_event missing = {
        .type = ROTA_WATCH_ENDED, .number = watch.number, .status = ROTA_STATUS_NOT_FOUND};
    struct rota_watch_actions actions = rota_watch_fsm_step(&watch, 0, &missing, &any);
    assert_true(actions.tell_missing && !actions.start);
    assert_true(rota_watch_fsm_deadline(&watch) == ROTA_TIME_NEVER);
    assert_false(rota_watch_fsm_step(&watch, 0, &missing, &any).tell_missing);
    assert_true(step(1, ROTA_WATCH_START).start); /* the next call asks again */
}

static void a_deleted_space_is_reported_and_the_next_node_is_asked(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 2, 0);
    step(0, ROTA_WATCH_START);
    step(0, ROTA_WATCH_UPDATE);
    const struct rota_watch_event missing = {
        .type = ROTA_WATCH_ENDED, .number = watch.number, .status = ROTA_STATUS_NOT_FOUND};
    struct rota_watch_actions actions = rota_watch_fsm_step(&watch, 0, &missing, &any);
    assert_true(actions.tell_missing && actions.start && actions.node == 1);
    assert_false(step(0, ROTA_WATCH_ENDED).tell_missing); /* this one was only unreachable */
}

static void a_part_of_the_map_buys_time_and_no_trust(void **state)
{
    const rota_time at = ROTA_WATCH_FIRST_WITHIN - 1;
    (void)state;
    rota_watch_fsm_init(&watch, 2, 0);
    step(0, ROTA_WATCH_START);
    assert_true(step(0, ROTA_WATCH_ENDED).start);
    const struct rota_watch_event part = {.type = ROTA_WATCH_UPDATE, .number = watch.number};
    rota_watch_fsm_step(&watch, at, &part, &any);
    assert_true(rota_watch_fsm_deadline(&watch) == at + ROTA_WATCH_FIRST_WITHIN);
    assert_false(step(at + ROTA_WATCH_FIRST_WITHIN - 1, ROTA_WATCH_TICK).cancel);
    struct rota_watch_actions actions = step(at + ROTA_WATCH_FIRST_WITHIN, ROTA_WATCH_TICK);
    assert_true(actions.cancel && !actions.start); /* both nodes have failed in a row */
}

static void a_whole_map_ends_the_row_of_failures(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 2, 0);
    step(0, ROTA_WATCH_START);
    for (int i = 0; i < 9; i++) { /* pauses grow */
        step(0, ROTA_WATCH_ENDED);
        step(0, ROTA_WATCH_ENDED);
        assert_true(step(ROTA_MIN, ROTA_WATCH_TICK).start);
    }
    step(0, ROTA_WATCH_ENDED);
    step(0, ROTA_WATCH_UPDATE);
    assert_true(step(0, ROTA_WATCH_ENDED).start); /* the other may be well */
    assert_false(step(0, ROTA_WATCH_ENDED).start);
    assert_true(rota_watch_fsm_deadline(&watch) <= ROTA_WATCH_PAUSE * 12 / 10);
}

static void an_earlier_watch_changes_nothing(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 3, 0);
    struct rota_watch_event old = {.type = ROTA_WATCH_UPDATE, .is_whole = true};
    old.number = step(0, ROTA_WATCH_START).number;
    assert_true(step(0, ROTA_WATCH_ENDED).number != old.number);
    rota_watch_fsm_step(&watch, 0, &old, &any);
    assert_true(rota_watch_fsm_deadline(&watch) == ROTA_WATCH_FIRST_WITHIN);
    old.type = ROTA_WATCH_ENDED;
    assert_false(rota_watch_fsm_step(&watch, 0, &old, &any).start);
    step(0, ROTA_WATCH_ENDED);
    step(0, ROTA_WATCH_ENDED); /* the last: it pauses */
    rota_time paused_until = rota_watch_fsm_deadline(&watch);
    assert_false(step(0, ROTA_WATCH_ENDED).start);
    step(0, ROTA_WATCH_UPDATE);
    assert_true(rota_watch_fsm_deadline(&watch) == paused_until);
}

/* Doubt the node at the time at which that is due. */
static rota_time doubt(rota_time now)
{
    step(now, ROTA_WATCH_UPDATE);
    step(now, ROTA_WATCH_WAITED);
    step(now + 1, ROTA_WATCH_WAITED); /* the first counts */
    rota_time at = rota_watch_fsm_deadline(&watch);
    assert_false(step(at - 1, ROTA_WATCH_TICK).start);
    assert_true(step(at, ROTA_WATCH_TICK).start);
    return at - now;
}

static void doubts_take_longer_after_all_nodes_were_doubted_without_success(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 2, 0);
    step(0, ROTA_WATCH_START);
    assert_true(doubt(0) == ROTA_WATCH_DOUBT && doubt(0) == ROTA_WATCH_DOUBT);
    assert_true(doubt(0) == 2 * ROTA_WATCH_DOUBT && doubt(0) == 2 * ROTA_WATCH_DOUBT);
    for (int i = 0; i < 4; i++)
        doubt(0);
    assert_true(doubt(0) == ROTA_WATCH_DOUBT_MAX);
    step(0, ROTA_WATCH_SERVED); /* it helped */
    assert_true(doubt(0) == ROTA_WATCH_DOUBT && doubt(0) == ROTA_WATCH_DOUBT);
    assert_true(doubt(0) == 2 * ROTA_WATCH_DOUBT);
}

static void a_call_that_waits_does_not_end_a_pause(void **state)
{
    (void)state;
    rota_watch_fsm_init(&watch, 2, 0);
    step(0, ROTA_WATCH_START);
    step(0, ROTA_WATCH_ENDED);
    step(ROTA_DAY, ROTA_WATCH_ENDED);
    step(0, ROTA_WATCH_WAITED);
    assert_true(rota_watch_fsm_deadline(&watch) > ROTA_DAY);
    assert_false(step(ROTA_DAY, ROTA_WATCH_TICK).start);
}

/* --- calls --- */

static void rejections_cost_a_call_neither_attempts_nor_tokens(void **state)
{
    struct rota_call_stats stats = {0};
    struct rota_balancer *balancer = NULL;
    struct rota_budget budget;
    const struct rota_budget_options none = {.ppm = 0, .per_second = 0, .most = 0};
    const struct rota_replica replica = {
        .node = 1, .address = rota_str("a:1"), .epoch = 1, .is_serviceable = true};
    const struct rota_shard_channel channel = {rota_str("0"), &replica, 1};
    struct rota_shard_map *map = NULL;
    struct rota_call_fsm fsm;
    (void)state;
    rota_budget_init(&budget, 0, &none);
    assert_int_equal(rota_balancer_new(&(struct rota_balancer_options){.seed = 1}, &balancer, NULL),
                     ROTA_OK);
    assert_int_equal(rota_shard_map_new(1, rota_str(""), &channel, 1, &map, NULL), ROTA_OK);
    const struct rota_call_shared shared = {
        .balancer = balancer, .random = &any, .budget = &budget, .stats = &stats};
    const struct rota_call_fsm_options options = {.collection = 1,
                                                  .channel = rota_str("0"),
                                                  .deadline = ROTA_SEC,
                                                  .retries = -1,
                                                  .repeat = ROTA_REPEAT_UNSENT,
                                                  .is_followed = true};
    rota_call_fsm_init(&fsm, &shared, &options);
    struct rota_call_fsm_actions todo =
        rota_call_fsm_step(&fsm, 0, &(struct rota_call_fsm_event){.type = ROTA_CALL_START});
    for (int i = 0; i < 2 * ROTA_CALL_TRIES_MAX; i++) {
        const struct rota_call_fsm_action *last = &todo.items[todo.n - 1];
        assert_int_equal(last->type, ROTA_CALL_ASK_LEADERS);
        todo =
            rota_call_fsm_step(&fsm, 0,
                               &(struct rota_call_fsm_event){
                                   .type = ROTA_CALL_LEADERS, .number = last->number, .map = map});
        assert_int_equal(todo.items[0].type, ROTA_CALL_START_TRY);
        todo = rota_call_fsm_step(
            &fsm, 0,
            &(struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED,
                                          .number = todo.items[0].number,
                                          .is_sent = i % 2 == 0,
                                          .failure = i % 2 == 0 ? ROTA_FAILURE_STALE
                                                                : ROTA_FAILURE_UNREACHABLE});
        assert_int_equal(todo.items[0].type, ROTA_CALL_REPORT);
        assert_int_equal(todo.items[0].epoch, 1);
    }
    todo = rota_call_fsm_step(&fsm, 0,
                              &(struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS,
                                                            .number = todo.items[todo.n - 1].number,
                                                            .map = map});
    todo = rota_call_fsm_step(&fsm, 0,
                              &(struct rota_call_fsm_event){.type = ROTA_CALL_TRY_ENDED,
                                                            .number = todo.items[0].number,
                                                            .is_sent = true,
                                                            .failure = ROTA_FAILURE_BROKEN});
    assert_int_equal(todo.items[todo.n - 1].type, ROTA_CALL_FINISH); /* it may have run */
    assert_int_equal(todo.items[todo.n - 1].failure, ROTA_FAILURE_BROKEN);
    rota_call_fsm_deinit(&fsm, 0);
    rota_shard_map_drop(map);
    rota_balancer_free(balancer);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_call_waits_for_a_map_and_for_an_owner),
        RULE(a_rejected_claim_is_tried_again_after_a_pause_or_another_at_once),
        RULE(an_unreachable_owner_is_waited_for_other_failures_are_not),
        RULE(redirects_are_followed_three_times_then_the_directory_counts),
        RULE(a_redirect_that_expires_does_not_start_the_count_again),
        RULE(only_a_call_that_waited_and_found_another_claim_was_served),
        RULE(the_pause_after_another_claim_is_a_short_one),
        RULE(redirects_count_again_after_the_pause_of_a_circle),
        cmocka_unit_test(the_next_node_is_watched_when_one_fails_and_all_after_a_pause),
        cmocka_unit_test(an_unresponsive_node_is_left),
        cmocka_unit_test(a_node_without_news_is_doubted_while_a_call_waits),
        cmocka_unit_test(a_missing_space_is_reported_once),
        cmocka_unit_test(a_deleted_space_is_reported_and_the_next_node_is_asked),
        cmocka_unit_test(a_part_of_the_map_buys_time_and_no_trust),
        cmocka_unit_test(a_whole_map_ends_the_row_of_failures),
        cmocka_unit_test(an_earlier_watch_changes_nothing),
        cmocka_unit_test(doubts_take_longer_after_all_nodes_were_doubted_without_success),
        cmocka_unit_test(a_call_that_waits_does_not_end_a_pause),
        RULE(rejections_cost_a_call_neither_attempts_nor_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
