/* How idle workers of one node find the jobs of another. */
#include "core/work/cluster/tree_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define QUEUE rota_str("mail")

/* Partition p belongs to the node of this letter. */
struct route {
    const char *owners;
};

static char letters[256][2];

static struct rota_str owner(void *data, struct rota_str queue, uint32_t partition)
{
    char letter = ((const struct route *)data)->owners[partition];
    (void)queue;
    letters[(unsigned char)letter][0] = letter;
    return rota_str(letters[(unsigned char)letter]);
}

static struct rota_str node(void *data, size_t index)
{
    static const char *const nodes[] = {"a", "b", "c", "d", "e"};
    (void)data;
    return rota_str(index < 5 ? nodes[index] : "");
}

static struct rota_tree_fsm *make(const char *self, struct route *route, uint32_t degree)
{
    return rota_tree_fsm_new(
        &(struct rota_tree_options){.self = rota_str(self),
                                    .stamp = 1000,
                                    .partitions = (uint32_t)strlen(route->owners),
                                    .degree = degree,
                                    .owner = owner,
                                    .node = node,
                                    .data = route},
        0);
}

static void have(struct rota_tree_fsm *fsm, rota_time now, uint32_t n_idle, const char *idle,
                 uint32_t n_waiting, const char *waiting)
{
    rota_tree_fsm_begin(fsm, now);
    rota_tree_fsm_have(fsm, ROTA_TREE_WANT, QUEUE, rota_str(idle), n_idle, now);
    rota_tree_fsm_have(fsm, ROTA_TREE_OFFER, QUEUE, rota_str(waiting), n_waiting, now);
    rota_tree_fsm_end(fsm);
}

static void hear(struct rota_tree_fsm *fsm, rota_time now, enum rota_tree_kind kind,
                 const char *from, const char *can, uint32_t n, uint64_t stamp)
{
    rota_tree_fsm_hear(fsm, now,
                       &(struct rota_tree_word){.kind = kind,
                                                .node = rota_str(from),
                                                .queue = QUEUE,
                                                .can = rota_str(can),
                                                .stamp = stamp,
                                                .n = n,
                                                .hops = 1});
}

/* "tell b want a 2, visit b c 1": what there is to do, in short. */
static const char *todo(struct rota_tree_fsm *fsm)
{
    static char text[512];
    size_t n, used = 0;
    const struct rota_tree_action *actions = rota_tree_fsm_actions(fsm, &n);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const struct rota_tree_action *action = &actions[i];
        const char *what = action->type == ROTA_TREE_DO_VISIT    ? "visit"
                           : action->word.kind == ROTA_TREE_WANT ? "want"
                                                                 : "offer";
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s: %s %.*s %u",
                                 i ? ", " : "", ROTA_STR_ARGS(action->to), what,
                                 ROTA_STR_ARGS(action->word.node), action->word.n);
    }
    rota_tree_fsm_clear(fsm);
    return text;
}

/* The number of the only visit. */
static uint64_t visit_of(struct rota_tree_fsm *fsm)
{
    size_t n;
    const struct rota_tree_action *actions = rota_tree_fsm_actions(fsm, &n);
    for (size_t i = 0; i < n; i++)
        if (actions[i].type == ROTA_TREE_DO_VISIT)
            return actions[i].visit;
    return 0;
}

static void all_required_capabilities_must_be_offered(void **state)
{
    (void)state;
    assert_true(rota_tree_words_can(rota_str("a b c "), rota_str("a c ")));
    assert_true(rota_tree_words_can(rota_str("a "), rota_str("")));
    assert_true(rota_tree_words_can(rota_str(""), rota_str("")));
    assert_false(rota_tree_words_can(rota_str("a c "), rota_str("b ")));
    assert_false(rota_tree_words_can(rota_str("ab "), rota_str("a ")));
    assert_false(rota_tree_words_can(rota_str(""), rota_str("a ")));
    assert_false(
        rota_tree_words_can(rota_str("a b "), rota_str("b a "))); /* not in order: refused */
}

static void words_go_to_the_owner_of_the_parent_partition(void **state)
{
    struct route route = {"abcab"};
    struct rota_tree_fsm *fsm = make("c", &route, 2); /* 2 has parent 0 */
    (void)state;
    have(fsm, 0, 2, "x ", 1, "y ");
    assert_string_equal(todo(fsm), "a: want c 2, a: offer c 1");
    rota_tree_fsm_free(fsm);

    struct route deep = {"abbdc"};
    fsm = make("c", &deep, 2); /* 4 has parent 1 */
    have(fsm, 0, 1, "x ", 0, "");
    assert_string_equal(todo(fsm), "b: want c 1");
    rota_tree_fsm_free(fsm);
}

static void a_word_is_sent_once_until_it_is_used_up(void **state)
{
    struct route route = {"ab"};
    struct rota_tree_fsm *fsm = make("b", &route, 20);
    (void)state;
    have(fsm, 0, 1, "x ", 0, "");
    assert_string_equal(todo(fsm), "a: want b 1");
    have(fsm, 1, 0, "x ", 0, ""); /* busy, and idle again: still believed */
    have(fsm, 2, 3, "x ", 0, "");
    assert_string_equal(todo(fsm), "");
    rota_tree_fsm_sent(fsm, 3, QUEUE, 1);
    have(fsm, 3, 2, "x ", 0, "");
    assert_string_equal(todo(fsm), "a: want b 2");
    rota_tree_fsm_free(fsm);
}

static void a_useless_visit_is_followed_by_a_pause(void **state)
{
    struct route route = {"ab"};
    struct rota_tree_fsm *fsm = make("b", &route, 20);
    (void)state;
    have(fsm, 0, 0, "", 1, "x ");
    todo(fsm);
    have(fsm, 1, 0, "", 0, "x ");
    rota_tree_fsm_visited(fsm, 2, QUEUE, 0);
    assert_string_equal(todo(fsm), "a: offer b 0"); /* it is taken back */
    have(fsm, 3, 0, "", 1, "x ");
    assert_string_equal(todo(fsm), "");
    assert_int_equal(rota_tree_fsm_deadline(fsm), 2 + ROTA_TREE_PAUSE);
    rota_tree_fsm_tick(fsm, 2 + ROTA_TREE_PAUSE);
    assert_string_equal(todo(fsm), "a: offer b 1");
    rota_tree_fsm_free(fsm);
}

/* The node that sends visitors offers again what nobody went for, so it may still believe it. */
static void an_offer_that_is_over_is_revoked_before_it_is_forgotten(void **state)
{
    struct route route = {"ab"};
    struct rota_tree_fsm *fsm = make("b", &route, 20);
    (void)state;
    have(fsm, 0, 1, "y ", 1, "x ");
    todo(fsm);
    rota_tree_fsm_visited(fsm, 1, QUEUE, 1);
    rota_tree_fsm_sent(fsm, 1, QUEUE, 1);
    have(fsm, 2, 0, "", 0, "");
    rota_tree_fsm_tick(fsm, ROTA_TREE_REFRESH);
    assert_string_equal(todo(fsm), "a: offer b 0"); /* a want is used up permanently */
    rota_tree_fsm_tick(fsm, 2 * ROTA_TREE_REFRESH);
    assert_string_equal(todo(fsm), "");
    assert_int_equal(rota_tree_fsm_counts(fsm).words, 0);
    rota_tree_fsm_free(fsm);
}

static void matching_demand_and_supply_cause_a_steal(void **state)
{
    struct route route = {"abc"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    hear(fsm, 0, ROTA_TREE_WANT, "b", "x y ", 2, 1);
    hear(fsm, 1, ROTA_TREE_OFFER, "c", "z ", 1, 1); /* nobody can */
    assert_string_equal(todo(fsm), "");
    hear(fsm, 2, ROTA_TREE_OFFER, "c", "y ", 3, 2);
    assert_string_equal(todo(fsm), "b: visit c 2");
    hear(fsm, 3, ROTA_TREE_WANT, "b", "x y ", 2, 2); /* idle again; one job is left */
    assert_string_equal(todo(fsm), "b: visit c 1");
    hear(fsm, 4, ROTA_TREE_OFFER, "b", "x ", 1, 3); /* never to itself */
    assert_string_equal(todo(fsm), "");
    rota_tree_fsm_free(fsm);
}

static void a_word_that_is_used_up_here_is_not_sent_to_others(void **state)
{
    struct route route = {"abc"};
    struct rota_tree_fsm *fsm = make("b", &route, 20);
    (void)state;
    hear(fsm, 0, ROTA_TREE_OFFER, "c", "x ", 5, 1);
    todo(fsm);
    have(fsm, 1, 2, "x ", 0, "");
    assert_string_equal(todo(fsm), "b: visit c 2");
    rota_tree_fsm_free(fsm);
}

static void our_own_slots_go_first(void **state)
{
    struct route route = {"abc"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    hear(fsm, 0, ROTA_TREE_WANT, "b", "x ", 1, 1);
    have(fsm, 1, 1, "x ", 0, "");
    hear(fsm, 2, ROTA_TREE_OFFER, "c", "x ", 2, 1);
    assert_string_equal(todo(fsm), "a: visit c 1, b: visit c 1");
    rota_tree_fsm_free(fsm);
}

static void the_oldest_job_goes_first(void **state)
{
    struct route route = {"abc"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    struct rota_tree_word old = {.kind = ROTA_TREE_OFFER, .queue = QUEUE, .n = 1, .stamp = 1};
    old.node = rota_str("b");
    old.age = ROTA_SEC;
    rota_tree_fsm_hear(fsm, ROTA_MIN, &old);
    old.node = rota_str("c");
    old.age = 2 * ROTA_SEC;
    rota_tree_fsm_hear(fsm, ROTA_MIN, &old);
    hear(fsm, ROTA_MIN, ROTA_TREE_WANT, "d", "", 1, 1);
    assert_string_equal(todo(fsm), "d: visit c 1");
    rota_tree_fsm_free(fsm);
}

static void unfetched_jobs_are_offered_to_others(void **state)
{
    struct route route = {"abcd"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    hear(fsm, 0, ROTA_TREE_WANT, "b", "", 1, 1);
    hear(fsm, 1, ROTA_TREE_OFFER, "c", "", 1, 1);
    uint64_t visit = visit_of(fsm);
    assert_string_equal(todo(fsm), "b: visit c 1");
    hear(fsm, 2, ROTA_TREE_WANT, "d", "", 1, 1);
    hear(fsm, 2, ROTA_TREE_WANT, "e", "", 1, 1);
    assert_string_equal(todo(fsm), "");
    rota_tree_fsm_answered(fsm, 3, visit, 0, false); /* twice as many are asked */
    assert_string_equal(todo(fsm), "d: visit c 1, e: visit c 1");
    rota_tree_fsm_answered(fsm, 4, visit, 0, false); /* again: nothing */
    assert_string_equal(todo(fsm), "");
    rota_tree_fsm_free(fsm);
}

static void no_visitor_is_sent_after_a_useless_visit(void **state)
{
    struct route route = {"abcd"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    hear(fsm, 0, ROTA_TREE_OFFER, "c", "", 5, 1);
    hear(fsm, 0, ROTA_TREE_OFFER, "c", "x ", 5, 2);
    hear(fsm, 1, ROTA_TREE_WANT, "b", "x ", 1, 1);
    uint64_t visit = visit_of(fsm);
    todo(fsm);
    rota_tree_fsm_answered(fsm, 2, visit, 1, true);
    hear(fsm, 3, ROTA_TREE_WANT, "b", "x ", 1, 2);
    assert_string_equal(todo(fsm), "");
    rota_tree_fsm_free(fsm);
}

static void late_and_repeated_words_change_nothing(void **state)
{
    struct route route = {"abc"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    hear(fsm, 0, ROTA_TREE_OFFER, "c", "", 0, 9); /* nothing to take back */
    hear(fsm, 0, ROTA_TREE_OFFER, "c", "", 1, 5);
    hear(fsm, 0, ROTA_TREE_OFFER, "c", "", 1, 5);
    hear(fsm, 1, ROTA_TREE_OFFER, "c", "", 7, 4); /* older */
    hear(fsm, 2, ROTA_TREE_WANT, "b", "", 9, 1);
    assert_string_equal(todo(fsm), "b: visit c 1");
    rota_tree_fsm_free(fsm);
}

static void a_word_is_passed_on_as_far_as_it_is_not_used(void **state)
{
    struct route route = {"abcc"};
    struct rota_tree_fsm *fsm = make("b", &route, 2); /* 1 has parent 0, 3 has parent 1 */
    (void)state;
    hear(fsm, 0, ROTA_TREE_OFFER, "c", "", 3, 1);
    assert_string_equal(todo(fsm), "a: offer c 3");
    hear(fsm, 1, ROTA_TREE_WANT, "d", "", 5, 1);
    assert_string_equal(todo(fsm), "d: visit c 3, a: want d 2");
    hear(fsm, 2, ROTA_TREE_WANT, "d", "", 0, 2);
    assert_string_equal(todo(fsm), "a: want d 0");
    rota_tree_fsm_hear(fsm, 3,
                       &(struct rota_tree_word){.kind = ROTA_TREE_OFFER,
                                                .node = rota_str("e"),
                                                .queue = QUEUE,
                                                .n = 1,
                                                .hops = ROTA_TREE_HOPS});
    assert_string_equal(todo(fsm), ""); /* it has come far enough */
    rota_tree_fsm_free(fsm);
}

/* A skipped parent gets words too, so one word may come by many ways: each node that passed on
 * every copy would multiply them from hop to hop. */
static void a_copy_that_took_another_way_is_not_passed_on(void **state)
{
    struct route route = {"abcc"};
    struct rota_tree_fsm *fsm = make("b", &route, 2);
    struct rota_tree_word word = {.kind = ROTA_TREE_OFFER,
                                  .node = rota_str("c"),
                                  .queue = QUEUE,
                                  .stamp = 1,
                                  .n = 3,
                                  .hops = ROTA_TREE_HOPS};
    (void)state;
    rota_tree_fsm_hear(fsm, 0, &word);
    assert_string_equal(todo(fsm), "");
    word.hops = 2; /* a shorter way: this one can go on */
    rota_tree_fsm_hear(fsm, 1, &word);
    assert_string_equal(todo(fsm), "a: offer c 3");
    rota_tree_fsm_hear(fsm, 2, &word);
    word.hops = 5;
    rota_tree_fsm_hear(fsm, 3, &word);
    assert_string_equal(todo(fsm), "");
    rota_tree_fsm_free(fsm);
}

static void an_unreachable_parent_is_skipped_and_notified_again(void **state)
{
    struct route route = {"abcd"};
    struct rota_tree_fsm *fsm = make("d", &route, 20);
    (void)state;
    have(fsm, 0, 1, "", 0, "");
    assert_string_equal(todo(fsm), "a: want d 1");
    rota_tree_fsm_failed(fsm, 1, rota_str("a"));
    assert_string_equal(todo(fsm), "b: want d 1");
    assert_true(rota_str_is_equal(rota_tree_parents_one(fsm, QUEUE), rota_str("b")));
    rota_tree_fsm_tick(fsm, ROTA_TREE_REFRESH);
    assert_string_equal(todo(fsm), "a: want d 1, b: want d 1");
    rota_tree_fsm_reached(fsm, ROTA_TREE_REFRESH, rota_str("a"));
    rota_tree_fsm_tick(fsm, 2 * ROTA_TREE_REFRESH);
    assert_string_equal(todo(fsm), "a: want d 1");
    rota_tree_fsm_free(fsm);
}

static void without_partitions_nodes_meet_by_address(void **state)
{
    struct route route = {"ee"};
    struct rota_tree_fsm *fsm = make("c", &route, 20);
    (void)state;
    have(fsm, 0, 1, "", 0, "");
    assert_string_equal(todo(fsm), "e: want c 1");
    rota_tree_fsm_failed(fsm, 1, rota_str("e"));
    assert_string_equal(todo(fsm), "a: want c 1");
    rota_tree_fsm_failed(fsm, 2, rota_str("a"));
    rota_tree_fsm_clear(fsm);
    rota_tree_fsm_failed(fsm, 3, rota_str("b"));
    assert_string_equal(todo(fsm), ""); /* it is the first of those that are there */
    assert_int_equal(rota_tree_parents_one(fsm, QUEUE).size, 0);
    rota_tree_fsm_free(fsm);
}

static void after_a_route_change_words_go_to_another_parent(void **state)
{
    struct route route = {"abcd"};
    struct rota_tree_fsm *fsm = make("d", &route, 20);
    (void)state;
    have(fsm, 0, 0, "", 4, "x ");
    assert_string_equal(todo(fsm), "a: offer d 4");
    route.owners = "cbad";
    rota_tree_fsm_routed(fsm, 1);
    assert_string_equal(todo(fsm), "c: offer d 4");
    rota_tree_fsm_free(fsm);
}

static void words_are_refreshed_and_expire(void **state)
{
    struct route route = {"ab"};
    struct rota_tree_fsm *a = make("a", &route, 20), *b = make("b", &route, 20);
    (void)state;
    have(b, 0, 0, "", 1, "x ");
    todo(b);
    rota_tree_fsm_tick(b, ROTA_TREE_REFRESH);
    assert_string_equal(todo(b), "a: offer b 1");
    have(b, ROTA_TREE_REFRESH, 0, "", 0, "x ");
    rota_tree_fsm_tick(b, 2 * ROTA_TREE_REFRESH);
    assert_string_equal(todo(b), "a: offer b 0");
    rota_tree_fsm_tick(b, 3 * ROTA_TREE_REFRESH);
    assert_string_equal(todo(b), "");
    assert_int_equal(rota_tree_fsm_counts(b).words, 0);

    hear(a, 0, ROTA_TREE_OFFER, "b", "x ", 1, 1);
    rota_tree_fsm_tick(a, 4 * ROTA_TREE_REFRESH);
    assert_int_equal(rota_tree_fsm_counts(a).words, 0);
    rota_tree_fsm_free(a);
    rota_tree_fsm_free(b);
}

static void words_of_other_nodes_are_bounded(void **state)
{
    struct route route = {"a"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    for (unsigned i = 0; i < ROTA_TREE_WORDS_MAX + 10; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i);
        hear(fsm, 0, ROTA_TREE_OFFER, name, "x ", 1, 1);
    }
    assert_int_equal(rota_tree_fsm_counts(fsm).words, ROTA_TREE_WORDS_MAX);
    assert_int_equal(rota_tree_fsm_counts(fsm).dropped_total, 10);
    have(fsm, 1, 1, "x ", 0, "");
    assert_true(visit_of(fsm) > 0);
    rota_tree_fsm_free(fsm);
}

static void invalid_words_are_dropped(void **state)
{
    struct route route = {"a"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    static char large[ROTA_TREE_CAN_MAX + 2];
    (void)state;
    memset(large, 'x', sizeof large - 1);
    hear(fsm, 0, ROTA_TREE_OFFER, "", "", 1, 1);
    hear(fsm, 0, ROTA_TREE_OFFER, "a", "", 1, 1); /* our own word, come back */
    hear(fsm, 0, ROTA_TREE_OFFER, "b\nc", "", 1, 1);
    hear(fsm, 0, ROTA_TREE_OFFER, "b", large, 1, 1);
    rota_tree_fsm_hear(fsm, 0, &(struct rota_tree_word){.node = rota_str("b"), .n = 1});
    rota_tree_fsm_hear(
        fsm, 0, &(struct rota_tree_word){.node = rota_str("b"), .queue = QUEUE, .n = 1, .age = -1});
    assert_int_equal(rota_tree_fsm_counts(fsm).words, 0);
    assert_int_equal(rota_tree_fsm_counts(fsm).dropped_total, 6);
    rota_tree_fsm_free(fsm);
}

/* Whatever queues there were, what is kept is bounded by the words that are believed. */
static void queue_without_words_is_forgotten(void **state)
{
    enum { QUEUES = 20 };
    struct route route = {"ab"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    for (uint64_t stamp = 1; stamp <= 2; stamp++) {
        for (int i = 0; i < QUEUES; i++) {
            char name[8];
            snprintf(name, sizeof name, "q%d", i);
            rota_tree_fsm_hear(fsm, 0,
                               &(struct rota_tree_word){.kind = ROTA_TREE_OFFER,
                                                        .node = rota_str("b"),
                                                        .queue = rota_str(name),
                                                        .can = rota_str(""),
                                                        .stamp = stamp * QUEUES + (uint64_t)i,
                                                        .n = stamp == 1 || i == 7,
                                                        .hops = 1});
        }
        if (stamp == 1)
            assert_int_equal(fsm->queues.size, QUEUES);
    }
    rota_tree_fsm_tick(fsm, ROTA_TREE_REFRESH);
    assert_int_equal(fsm->queues.size, 1);
    rota_tree_fsm_free(fsm);
}

static void every_call_brings_the_time(void **state)
{
    struct route route = {"abc"};
    struct rota_tree_fsm *fsm = make("a", &route, 2);
    (void)state;
    rota_tree_fsm_begin(fsm, 1);
    rota_tree_fsm_end(fsm);
    assert_int_equal(fsm->now, 1);
    rota_tree_fsm_sent(fsm, 2, QUEUE, 1);
    assert_int_equal(fsm->now, 2);
    rota_tree_fsm_visited(fsm, 3, QUEUE, 1);
    assert_int_equal(fsm->now, 3);
    rota_tree_fsm_routed(fsm, 4);
    assert_int_equal(fsm->now, 4);
    hear(fsm, 5, ROTA_TREE_WANT, "b", "", 1, 1);
    assert_int_equal(fsm->now, 5);
    rota_tree_fsm_answered(fsm, 6, 1, 0, false);
    assert_int_equal(fsm->now, 6);
    rota_tree_fsm_failed(fsm, 7, rota_str("b"));
    assert_int_equal(fsm->now, 7);
    rota_tree_fsm_reached(fsm, 8, rota_str("b"));
    assert_int_equal(fsm->now, 8);
    rota_tree_fsm_tick(fsm, 9);
    assert_int_equal(fsm->now, 9);
    rota_tree_fsm_free(fsm);
}

static struct rota_tree_word want_of(const char *from, uint32_t hops, rota_time age)
{
    return (struct rota_tree_word){.kind = ROTA_TREE_WANT,
                                   .node = rota_str(from),
                                   .queue = QUEUE,
                                   .can = rota_str("x "),
                                   .stamp = 1,
                                   .n = 1,
                                   .hops = hops,
                                   .age = age};
}

static void word_that_is_passed_on_is_one_hop_further_and_older(void **state)
{
    struct route route = {"ab"};
    struct rota_tree_fsm *fsm = make("b", &route, 20);
    struct rota_tree_word word = want_of("c", 3, ROTA_SEC);
    size_t n;
    (void)state;
    rota_tree_fsm_hear(fsm, ROTA_MIN, &word);
    const struct rota_tree_action *actions = rota_tree_fsm_actions(fsm, &n);
    assert_int_equal(n, 1);
    assert_int_equal(actions[0].word.hops, 4);
    assert_int_equal(actions[0].word.age, ROTA_SEC);
    rota_tree_fsm_clear(fsm);
    word = want_of("d", ROTA_TREE_HOPS - 1, 0);
    rota_tree_fsm_hear(fsm, ROTA_MIN, &word);
    assert_string_equal(todo(fsm), "a: want d 1");
    word = want_of("e", ROTA_TREE_HOPS, 0); /* nodes do not agree on the route */
    rota_tree_fsm_hear(fsm, ROTA_MIN, &word);
    assert_string_equal(todo(fsm), "");
    rota_tree_fsm_free(fsm);
}

static void words_of_every_kind_of_worker_are_used_up_together(void **state)
{
    struct route route = {"ab"};
    struct rota_tree_fsm *fsm = make("b", &route, 20);
    (void)state;
    for (int i = 0; i < 2; i++) {
        rota_tree_fsm_begin(fsm, i);
        rota_tree_fsm_have(fsm, ROTA_TREE_WANT, QUEUE, rota_str("x "), 1, 0);
        rota_tree_fsm_have(fsm, ROTA_TREE_WANT, QUEUE, rota_str("y "), 1, 0);
        rota_tree_fsm_end(fsm);
        assert_string_equal(todo(fsm), "a: want b 1, a: want b 1");
        rota_tree_fsm_sent(fsm, i, QUEUE, 1); /* each is said again */
    }
    rota_tree_fsm_free(fsm);
}

static void counts_show_known_words_and_visits_in_progress(void **state)
{
    struct route route = {"ab"};
    struct rota_tree_fsm *fsm = make("a", &route, 20);
    (void)state;
    hear(fsm, 0, ROTA_TREE_WANT, "b", "x ", 1, 1);
    assert_int_equal(rota_tree_fsm_counts(fsm).words, 1);
    hear(fsm, 0, ROTA_TREE_OFFER, "c", "x ", 1, 1);
    assert_int_equal(rota_tree_fsm_counts(fsm).words, 2);
    assert_int_equal(rota_tree_fsm_counts(fsm).visits, 1);
    assert_int_equal(rota_tree_fsm_counts(fsm).visits_total, 1);
    assert_int_equal(rota_tree_fsm_counts(fsm).down, 0);
    rota_tree_fsm_failed(fsm, 0, rota_str("b"));
    assert_int_equal(rota_tree_fsm_counts(fsm).down, 1);
    rota_tree_fsm_reached(fsm, 0, rota_str("b"));
    assert_int_equal(rota_tree_fsm_counts(fsm).down, 0);
    rota_tree_fsm_free(fsm);
}

static void own_word_is_as_old_as_the_oldest_waiting_job(void **state)
{
    struct route route = {"ab"};
    struct rota_tree_fsm *fsm = make("b", &route, 20);
    size_t n;
    (void)state;
    for (int round = 0; round < 2; round++) {
        rota_time now = (10 + round) * ROTA_SEC;
        rota_tree_fsm_begin(fsm, now);
        rota_tree_fsm_have(fsm, ROTA_TREE_OFFER, QUEUE, rota_str("x "), 1,
                           round ? 8 * ROTA_SEC : 3 * ROTA_SEC);
        rota_tree_fsm_end(fsm);
        const struct rota_tree_action *actions = rota_tree_fsm_actions(fsm, &n);
        assert_int_equal(n, 1);
        assert_int_equal(actions[0].word.age, round ? 3 * ROTA_SEC : 7 * ROTA_SEC);
        rota_tree_fsm_clear(fsm);
        rota_tree_fsm_visited(fsm, now, QUEUE, 1);
    }
    rota_tree_fsm_free(fsm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_required_capabilities_must_be_offered),
        cmocka_unit_test(words_go_to_the_owner_of_the_parent_partition),
        cmocka_unit_test(a_word_is_sent_once_until_it_is_used_up),
        cmocka_unit_test(a_useless_visit_is_followed_by_a_pause),
        cmocka_unit_test(an_offer_that_is_over_is_revoked_before_it_is_forgotten),
        cmocka_unit_test(matching_demand_and_supply_cause_a_steal),
        cmocka_unit_test(a_word_that_is_used_up_here_is_not_sent_to_others),
        cmocka_unit_test(our_own_slots_go_first),
        cmocka_unit_test(the_oldest_job_goes_first),
        cmocka_unit_test(unfetched_jobs_are_offered_to_others),
        cmocka_unit_test(no_visitor_is_sent_after_a_useless_visit),
        cmocka_unit_test(late_and_repeated_words_change_nothing),
        cmocka_unit_test(a_word_is_passed_on_as_far_as_it_is_not_used),
        cmocka_unit_test(a_copy_that_took_another_way_is_not_passed_on),
        cmocka_unit_test(an_unreachable_parent_is_skipped_and_notified_again),
        cmocka_unit_test(without_partitions_nodes_meet_by_address),
        cmocka_unit_test(after_a_route_change_words_go_to_another_parent),
        cmocka_unit_test(words_are_refreshed_and_expire),
        cmocka_unit_test(words_of_other_nodes_are_bounded),
        cmocka_unit_test(invalid_words_are_dropped),
        cmocka_unit_test(queue_without_words_is_forgotten),
        cmocka_unit_test(every_call_brings_the_time),
        cmocka_unit_test(word_that_is_passed_on_is_one_hop_further_and_older),
        cmocka_unit_test(words_of_every_kind_of_worker_are_used_up_together),
        cmocka_unit_test(counts_show_known_words_and_visits_in_progress),
        cmocka_unit_test(own_word_is_as_old_as_the_oldest_waiting_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
