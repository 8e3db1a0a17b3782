#include "sim/sim_chaos.h"

#include "base/vector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Nodes that send each other random bytes all the time, under every fault. */

enum { N_NODES = 8, KINDS = ROTA_SIM_NOTE + 1 };

#define QUIET_AT (200 * ROTA_SEC)
#define END_AT   (300 * ROTA_SEC)

struct line {
    struct rota_sim_event event;
    uint64_t hash; /* of the world, once it had happened */
};

struct world {
    struct rota_sim *sim;
    struct rota_sim_chaos chaos;
    bool is_noted, is_cut;
    size_t n_kinds[KINDS], n_late_faults;
    ROTA_VECTOR(struct line) lines;
};

static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    rota_sim_set_timer(world->sim, node, 0, ROTA_SIM_MONO, rota_sim_mono(world->sim, node));
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint64_t bytes = rota_random_next(random);
    rota_sim_send(world->sim, node, (uint32_t)(bytes % N_NODES),
                  rota_str_of(&bytes, bytes % sizeof bytes));
    if (world->is_noted)
        rota_sim_note(world->sim, node, "sends to %u", (unsigned)(bytes % N_NODES));
    rota_sim_set_timer(world->sim, node, timer, timer ? ROTA_SIM_WALL : ROTA_SIM_MONO,
                       timer ? rota_sim_wall(world->sim, node) + ROTA_SEC
                             : rota_sim_mono(world->sim, node) +
                                   rota_sim_exponential(random, 300 * ROTA_MSEC));
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str message)
{
    struct world *world = data;
    if (message.size == 7)
        rota_sim_send(world->sim, node, from, rota_str("got it"));
    rota_sim_set_timer(world->sim, node, 1, ROTA_SIM_WALL,
                       rota_sim_wall(world->sim, node) + (rota_time)message.size * ROTA_MSEC);
}

static void on_trace(void *data, const struct rota_sim_event *event)
{
    struct world *world = data;
    struct line line = {.event = *event, .hash = rota_sim_trace_hash(world->sim)};
    line.event.bytes.data = NULL; /* was borrowed; its bytes are in the hash */
    world->n_kinds[event->kind]++;
    if (event->kind == ROTA_SIM_SPLIT || event->kind == ROTA_SIM_BLOCKED)
        world->is_cut = true;
    if (event->kind == ROTA_SIM_HEALED)
        world->is_cut = false;
    world->n_late_faults += event->at > QUIET_AT && event->kind < ROTA_SIM_LOST;
    assert_true(rota_vector_push(&world->lines, line));
}

static void begin(struct world *world, uint64_t seed, bool is_traced)
{
    struct rota_sim_options options = {
        .seed = seed,
        .n_nodes = N_NODES,
        .link = {.loss = 0.1, .duplication = 0.1},
        .skew_max = ROTA_SEC,
        .drift_max_ppm = 200,
        .on_start = on_start,
        .on_message = on_message,
        .on_timer = on_timer,
        .data = world,
        .on_trace = is_traced ? on_trace : NULL,
        .trace_data = world,
    };
    memset(world, 0, sizeof *world);
    assert_int_equal(rota_sim_new(&options, &world->sim, NULL), ROTA_OK);
    rota_sim_chaos_start(&world->chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = 1,
                             .quiet_at = QUIET_AT,
                             .crash_every = 5 * ROTA_SEC,
                             .crash_for = 2 * ROTA_SEC,
                             .pause_every = 5 * ROTA_SEC,
                             .pause_for = 2 * ROTA_SEC,
                             .split_every = 10 * ROTA_SEC,
                             .split_for = 2 * ROTA_SEC,
                             .jump_every = 5 * ROTA_SEC,
                             .jump_max = ROTA_MIN,
                         });
}

static void end(struct world *world)
{
    rota_sim_free(world->sim);
    rota_vector_deinit(&world->lines);
}

static bool is_same(const struct line *a, const struct line *b)
{
    const struct rota_sim_event *x = &a->event, *y = &b->event;
    return a->hash == b->hash && x->at == y->at && x->kind == y->kind && x->node == y->node &&
           x->peer == y->peer && x->number == y->number && x->bytes.size == y->bytes.size;
}

static void a_replay_is_the_same_event_by_event(void **state)
{
    static struct world first, again;
    (void)state;
    begin(&first, 11, true);
    begin(&again, 11, true);
    assert_true(rota_sim_run(first.sim, END_AT));
    assert_true(rota_sim_run(again.sim, END_AT));
    assert_true(first.lines.size > 10000);
    assert_int_equal(first.lines.size, again.lines.size);
    for (size_t i = 0; i < first.lines.size; i++)
        assert_true(is_same(&first.lines.items[i], &again.lines.items[i]));
    end(&first);
    end(&again);
}

static void another_seed_is_another_trace(void **state)
{
    static struct world worlds[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&worlds[i], 11 + (uint64_t)i, false);
        assert_true(rota_sim_run(worlds[i].sim, END_AT));
    }
    assert_true(rota_sim_trace_hash(worlds[0].sim) != rota_sim_trace_hash(worlds[1].sim));
    end(&worlds[0]);
    end(&worlds[1]);
}

static void watching_changes_nothing(void **state)
{
    static struct world plain, watched;
    (void)state;
    begin(&plain, 12, false);
    begin(&watched, 12, true);
    watched.is_noted = true;
    rota_sim_run(plain.sim, END_AT);
    while (rota_sim_step(watched.sim) && rota_sim_n_events(watched.sim) < 5000)
        ;
    rota_sim_run(watched.sim, END_AT);
    assert_true(watched.n_kinds[ROTA_SIM_NOTE] > 1000);
    assert_true(rota_sim_trace_hash(plain.sim) == rota_sim_trace_hash(watched.sim));
    assert_int_equal(rota_sim_n_events(plain.sim), rota_sim_n_events(watched.sim));
    end(&plain);
    end(&watched);
}

static void every_fault_strikes_and_then_all_is_quiet(void **state)
{
    static struct world world;
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        begin(&world, seed, true);
        assert_true(rota_sim_run(world.sim, QUIET_AT));
        for (int kind = 0; kind < KINDS; kind++)
            if (kind != ROTA_SIM_DRIFTED && kind != ROTA_SIM_NOTE)
                assert_true(world.n_kinds[kind] > 0);
        assert_in_range(world.n_kinds[ROTA_SIM_CRASHED], 15, 70); /* about 40, less those down */
        for (uint32_t i = 0; i < N_NODES; i++) {
            rota_time wrong = rota_sim_wall(world.sim, i) - rota_sim_true_wall(world.sim);
            assert_true(rota_sim_is_up(world.sim, i) && !rota_sim_is_paused(world.sim, i));
            assert_true(wrong > -11 * ROTA_SEC / 10 && wrong < 11 * ROTA_SEC / 10);
        }
        assert_false(world.is_cut);
        assert_int_equal(rota_sim_life(world.sim, 0), 1); /* not in the range */
        assert_true(rota_sim_run(world.sim, END_AT));
        assert_int_equal(world.n_late_faults, 0);
        end(&world);
    }
}

static void trace_lines_are_readable(void **state)
{
    char text[ROTA_SIM_TEXT_MAX];
    struct rota_sim_event event = {.at = 1500 * ROTA_MSEC,
                                   .kind = ROTA_SIM_TIMER,
                                   .node = 3,
                                   .peer = ROTA_SIM_NO_NODE,
                                   .number = 7};
    (void)state;
    assert_string_equal(rota_sim_event_format(&event, text), "1.500000000 node 3 timer 7");
    event = (struct rota_sim_event){.kind = ROTA_SIM_HEALED, .node = ROTA_SIM_NO_NODE};
    assert_string_equal(rota_sim_event_format(&event, text),
                        "0.000000000 world the network is whole");
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text);
    event = (struct rota_sim_event){.kind = ROTA_SIM_NOTE,
                                    .bytes = rota_str_of(long_text, sizeof long_text)};
    assert_int_equal(strlen(rota_sim_event_format(&event, text)), ROTA_SIM_TEXT_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_is_the_same_event_by_event),
        cmocka_unit_test(another_seed_is_another_trace),
        cmocka_unit_test(watching_changes_nothing),
        cmocka_unit_test(every_fault_strikes_and_then_all_is_quiet),
        cmocka_unit_test(trace_lines_are_readable),
    };
    return cmocka_run_group_tests_name("chaos", tests, NULL, NULL);
}
