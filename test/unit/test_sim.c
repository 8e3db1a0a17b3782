#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- a world whose nodes do nothing but write down what comes --- */

enum { LOG_MAX = 4096 };

struct heard {
    rota_time at; /* true time */
    enum rota_sim_kind kind;
    uint32_t node, number; /* the timer, or the sender */
    rota_time mono, wall;
    char first; /* byte of a message */
};

struct world {
    struct rota_sim *sim;
    struct heard log[LOG_MAX];
    size_t n;
};

static void hear(struct world *world, enum rota_sim_kind kind, uint32_t node, uint32_t number,
                 char first)
{
    if (world->n == LOG_MAX)
        return;
    world->log[world->n++] = (struct heard){
        .at = rota_sim_now(world->sim),
        .kind = kind,
        .node = node,
        .number = number,
        .mono = rota_sim_mono(world->sim, node),
        .wall = rota_sim_wall(world->sim, node),
        .first = first,
    };
}

static void on_start(void *data, uint32_t node)
{
    hear(data, ROTA_SIM_STARTED, node, 0, 0);
}

static void on_crash(void *data, uint32_t node)
{
    hear(data, ROTA_SIM_CRASHED, node, 0, 0);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str message)
{
    hear(data, ROTA_SIM_MESSAGE, node, from, message.size ? message.data[0] : 0);
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    hear(data, ROTA_SIM_TIMER, node, timer, 0);
}

/* Begin with all nodes started and nothing written down. */
static void begin(struct world *world, struct rota_sim_options options)
{
    options.on_start = on_start;
    options.on_crash = on_crash;
    options.on_message = on_message;
    options.on_timer = on_timer;
    options.data = world;
    assert_int_equal(rota_sim_new(&options, &world->sim, NULL), ROTA_OK);
    world->n = 0;
    assert_true(rota_sim_run(world->sim, 0));
    assert_int_equal(world->n, options.n_nodes);
    world->n = 0;
}

static void send(struct world *world, uint32_t from, uint32_t to, const char *text)
{
    rota_sim_send(world->sim, from, to, rota_str(text));
}

/* --- clocks --- */

static void drift_is_exact(void **state)
{
    struct rota_sim_clock fast = {.drift_ppm = 100}, slow = {.drift_ppm = -100};
    (void)state;
    assert_int_equal(rota_sim_clock_ticks(&fast, ROTA_SEC), ROTA_SEC + 100 * ROTA_USEC);
    assert_int_equal(rota_sim_clock_ticks(&slow, ROTA_SEC), ROTA_SEC - 100 * ROTA_USEC);
    assert_int_equal(rota_sim_clock_ticks(&fast, 9999), 9999);
    assert_int_equal(rota_sim_clock_ticks(&fast, 10000), 10001);
    assert_int_equal(rota_sim_clock_ticks(&slow, 1), 0);
    assert_int_equal(rota_sim_clock_ticks(&slow, 10000), 9999);
    assert_int_equal(rota_sim_clock_ticks(&fast, 10000 * ROTA_DAY), 10001 * ROTA_DAY);
}

static void a_timer_is_due_as_soon_as_its_clock_shows_the_time(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 20000; i++) {
        struct rota_sim_clock clock = {.since = rota_random_range(&random, 0, ROTA_DAY),
                                       .base = rota_random_range(&random, -ROTA_DAY, ROTA_DAY),
                                       .drift_ppm = (int32_t)rota_random_range(
                                           &random, -ROTA_SIM_DRIFT_MAX, ROTA_SIM_DRIFT_MAX)};
        rota_time ticks = clock.base + (rota_time)(rota_random_next(&random) >>
                                                   rota_random_range(&random, 2, 63));
        rota_time when = rota_sim_clock_when(&clock, ticks);
        assert_true(rota_sim_clock_ticks(&clock, when) >= ticks);
        if (when > clock.since)
            assert_true(rota_sim_clock_ticks(&clock, when - 1) < ticks);
    }
    struct rota_sim_clock clock = {.since = 5, .base = 7};
    assert_int_equal(rota_sim_clock_when(&clock, INT64_MIN), 5);
    assert_int_equal(rota_sim_clock_when(&clock, INT64_MAX), ROTA_TIME_NEVER);
}

static void a_change_of_drift_is_not_a_jump(void **state)
{
    struct rota_sim_clock clock = {.drift_ppm = 500};
    (void)state;
    rota_time before = rota_sim_clock_ticks(&clock, ROTA_HOUR);
    rota_sim_clock_set_drift(&clock, ROTA_HOUR, -500);
    assert_int_equal(rota_sim_clock_ticks(&clock, ROTA_HOUR), before);
    assert_int_equal(rota_sim_clock_ticks(&clock, ROTA_HOUR + ROTA_SEC),
                     before + ROTA_SEC - 500 * ROTA_USEC);
}

static void skew_and_drift_stay_in_their_bounds(void **state)
{
    static struct world world;
    rota_time lowest = ROTA_TIME_NEVER, highest = ROTA_TIME_MIN;
    (void)state;
    begin(&world, (struct rota_sim_options){
                      .n_nodes = 200, .seed = 3, .skew_max = ROTA_SEC, .drift_max_ppm = 1000});
    rota_time mono[200], wall[200];
    for (uint32_t i = 0; i < 200; i++) {
        mono[i] = rota_sim_mono(world.sim, i);
        wall[i] = rota_sim_wall(world.sim, i);
        rota_time skew = wall[i] - ROTA_SIM_WALL_START;
        assert_true(skew >= -ROTA_SEC && skew <= ROTA_SEC);
        lowest = rota_time_min(lowest, skew);
        highest = skew > highest ? skew : highest;
    }
    assert_true(lowest < -ROTA_SEC / 2 && highest > ROTA_SEC / 2);

    rota_sim_run(world.sim, 1000 * ROTA_SEC);
    assert_int_equal(rota_sim_true_wall(world.sim), ROTA_SIM_WALL_START + 1000 * ROTA_SEC);
    for (uint32_t i = 0; i < 200; i++) {
        rota_time passed = rota_sim_mono(world.sim, i) - mono[i];
        assert_true(passed >= 999 * ROTA_SEC && passed <= 1001 * ROTA_SEC);
        assert_int_equal(rota_sim_wall(world.sim, i) - wall[i], passed);
    }
    rota_sim_free(world.sim);
}

static void a_jump_shows_on_the_wall_clock_only(void **state)
{
    static struct world world;
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 2, .seed = 1});
    rota_time mono = rota_sim_mono(world.sim, 0);
    rota_sim_jump_wall(world.sim, 0, -ROTA_HOUR);
    assert_int_equal(rota_sim_wall(world.sim, 0), ROTA_SIM_WALL_START - ROTA_HOUR);
    assert_int_equal(rota_sim_wall(world.sim, 1), ROTA_SIM_WALL_START);
    assert_int_equal(rota_sim_mono(world.sim, 0), mono);
    rota_sim_set_wall(world.sim, 0, 12345);
    assert_int_equal(rota_sim_wall(world.sim, 0), 12345);
    rota_sim_sync_wall(world.sim, 0);
    assert_int_equal(rota_sim_wall(world.sim, 0), ROTA_SIM_WALL_START);
    for (int i = 0; i < 9; i++)
        rota_sim_jump_wall(world.sim, 0, i % 2 ? INT64_MIN : INT64_MAX);
    assert_true(rota_sim_run(world.sim, ROTA_SIM_TIME_MAX));
    rota_sim_free(world.sim);
}

static void each_life_has_its_own_monotonic_clock(void **state)
{
    static struct world world;
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 2, .seed = 1});
    rota_time mono = rota_sim_mono(world.sim, 0);
    assert_int_not_equal(mono, rota_sim_mono(world.sim, 1));
    rota_sim_crash(world.sim, 0);
    rota_sim_start(world.sim, 0);
    assert_int_not_equal(mono, rota_sim_mono(world.sim, 0));
    assert_int_equal(rota_sim_life(world.sim, 0), 2);
    assert_int_equal(rota_sim_life(world.sim, 1), 1);
    rota_sim_free(world.sim);
}

/* --- timers --- */

static void a_wall_timer_follows_the_jumps_of_its_clock(void **state)
{
    static struct world world;
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 3, .seed = 1});
    rota_time at = ROTA_SIM_WALL_START + 10 * ROTA_SEC;
    for (uint32_t i = 0; i < 3; i++)
        rota_sim_set_timer(world.sim, i, 0, ROTA_SIM_WALL, at);
    rota_sim_set_timer(world.sim, 0, 1, ROTA_SIM_MONO, rota_sim_mono(world.sim, 0) + 5 * ROTA_SEC);
    rota_sim_run(world.sim, ROTA_SEC);
    rota_sim_jump_wall(world.sim, 0, ROTA_MIN);     /* past it: due at once */
    rota_sim_jump_wall(world.sim, 1, -ROTA_MIN);    /* a minute more to wait */
    rota_sim_jump_wall(world.sim, 2, 2 * ROTA_SEC); /* two seconds less */
    rota_sim_run(world.sim, ROTA_HOUR);

    const struct heard *log = world.log;
    assert_int_equal(world.n, 4);
    assert_true(log[0].node == 0 && log[0].number == 0 && log[0].at == ROTA_SEC);
    assert_true(log[1].node == 0 && log[1].number == 1 && log[1].at == 5 * ROTA_SEC);
    assert_true(log[2].node == 2 && log[2].at == 8 * ROTA_SEC && log[2].wall == at);
    assert_true(log[3].node == 1 && log[3].at == 70 * ROTA_SEC && log[3].wall == at);
    rota_sim_free(world.sim);
}

static void a_timer_follows_the_drift_of_its_clock(void **state)
{
    static struct world world;
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 1, .seed = 1});
    rota_time start = rota_sim_mono(world.sim, 0);
    rota_sim_set_timer(world.sim, 0, 0, ROTA_SIM_MONO, start + 10 * ROTA_SEC);
    rota_sim_set_drift(world.sim, 0, -100000);
    rota_sim_run(world.sim, 5 * ROTA_SEC);
    rota_sim_set_drift(world.sim, 0, 100000);
    rota_sim_run(world.sim, ROTA_MIN);
    assert_int_equal(world.n, 1); /* 4.5 s shown after 5 s; 5.5 s more take 5 s */
    assert_int_equal(world.log[0].at, 10 * ROTA_SEC);
    assert_int_equal(world.log[0].mono, start + 10 * ROTA_SEC);
    rota_sim_free(world.sim);
}

static void a_timer_set_again_is_due_once(void **state)
{
    static struct world world;
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 1, .seed = 1});
    rota_time start = rota_sim_mono(world.sim, 0);
    rota_sim_set_timer(world.sim, 0, 7, ROTA_SIM_MONO, start + 1 * ROTA_SEC);
    rota_sim_set_timer(world.sim, 0, 7, ROTA_SIM_MONO, start + 3 * ROTA_SEC);
    rota_sim_set_timer(world.sim, 0, 8, ROTA_SIM_MONO, start + 2 * ROTA_SEC);
    rota_sim_set_timer(world.sim, 0, 8, ROTA_SIM_MONO, ROTA_TIME_NEVER);
    rota_sim_set_timer(world.sim, 0, 9, ROTA_SIM_MONO, ROTA_TIME_MIN);
    rota_sim_set_timer(world.sim, 0, 10, ROTA_SIM_WALL, ROTA_TIME_NEVER - 1);
    assert_true(rota_sim_run(world.sim, ROTA_TIME_NEVER));
    assert_int_equal(world.n, 2);
    assert_true(world.log[0].number == 9 && world.log[0].at == 0);
    assert_true(world.log[1].number == 7 && world.log[1].at == 3 * ROTA_SEC);
    assert_int_equal(rota_sim_now(world.sim), 3 * ROTA_SEC);
    rota_sim_free(world.sim);
}

/* --- lives --- */

static void timers_die_with_their_node(void **state)
{
    static struct world world;
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 2, .seed = 1});
    for (uint32_t i = 0; i < 2; i++) {
        rota_sim_set_timer(world.sim, i, 0, ROTA_SIM_WALL, ROTA_SIM_WALL_START + ROTA_SEC);
        rota_sim_set_timer(world.sim, i, 1, ROTA_SIM_MONO, rota_sim_mono(world.sim, i) + ROTA_SEC);
    }
    rota_sim_crash(world.sim, 0);
    rota_sim_start(world.sim, 0);
    rota_sim_pause(world.sim, 1);
    rota_sim_run(world.sim, 2 * ROTA_SEC); /* now both timers of node 1 wait for it */
    rota_sim_crash(world.sim, 1);
    assert_false(rota_sim_is_paused(world.sim, 1));
    rota_sim_start(world.sim, 1);
    rota_sim_run(world.sim, ROTA_MIN);
    assert_int_equal(world.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(world.log[i].kind, i % 2 ? ROTA_SIM_STARTED : ROTA_SIM_CRASHED);
    rota_sim_free(world.sim);
}

static void mail_arrives_at_the_next_life_but_not_at_a_node_that_is_down(void **state)
{
    static struct world world;
    struct rota_sim_link second = {ROTA_SEC, ROTA_SEC, ROTA_SEC, 0, 0};
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 3, .seed = 1, .link = second});
    send(&world, 0, 1, "next life");
    send(&world, 0, 2, "nobody");
    rota_sim_crash(world.sim, 1);
    rota_sim_crash(world.sim, 2);
    rota_sim_start(world.sim, 1);
    rota_sim_run(world.sim, 2 * ROTA_SEC);
    rota_sim_start(world.sim, 2);
    rota_sim_run(world.sim, ROTA_MIN);
    assert_int_equal(world.n, 5); /* two crashes, two starts, one message */
    assert_true(world.log[3].kind == ROTA_SIM_MESSAGE && world.log[3].first == 'n');
    assert_int_equal(world.log[4].kind, ROTA_SIM_STARTED);

    send(&world, 0, 1, "received but not handled");
    rota_sim_pause(world.sim, 1);
    rota_sim_run(world.sim, 2 * ROTA_MIN);
    rota_sim_crash(world.sim, 1);
    rota_sim_start(world.sim, 1);
    rota_sim_run(world.sim, 3 * ROTA_MIN);
    assert_int_equal(world.n, 7);
    rota_sim_free(world.sim);
}

static void a_resumed_node_gets_all_messages_in_order(void **state)
{
    static struct world world;
    struct rota_sim_link second = {ROTA_SEC, ROTA_SEC, ROTA_SEC, 0, 0};
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 2, .seed = 1, .link = second});
    rota_time start = rota_sim_mono(world.sim, 1);
    rota_sim_pause(world.sim, 1);
    rota_sim_pause(world.sim, 1);
    rota_sim_set_timer(world.sim, 1, 3, ROTA_SIM_MONO, start + 3 * ROTA_SEC);
    rota_sim_set_timer(world.sim, 1, 2, ROTA_SIM_MONO, start + 2 * ROTA_SEC);
    rota_sim_set_timer(world.sim, 1, 9, ROTA_SIM_MONO, start + 9 * ROTA_SEC);
    rota_sim_set_timer(world.sim, 1, 4, ROTA_SIM_MONO, start + 4 * ROTA_SEC);
    send(&world, 0, 1, "a");
    rota_sim_run(world.sim, 3 * ROTA_SEC / 2);
    send(&world, 0, 1, "b"); /* at 2.5 s */
    rota_sim_run(world.sim, 5 * ROTA_SEC);
    assert_int_equal(world.n, 0);
    rota_sim_set_timer(world.sim, 1, 4, ROTA_SIM_MONO, ROTA_TIME_NEVER); /* though it was due */
    rota_sim_resume(world.sim, 1);
    rota_sim_run(world.sim, ROTA_MIN);

    const struct heard *log = world.log;
    assert_int_equal(world.n, 5);
    assert_true(log[0].first == 'a' && log[1].number == 2 && log[2].first == 'b');
    assert_true(log[3].number == 3 && log[4].number == 9);
    for (int i = 0; i < 4; i++)
        assert_true(log[i].at == 5 * ROTA_SEC && log[i].mono == start + 5 * ROTA_SEC);
    assert_int_equal(log[4].at, 9 * ROTA_SEC);
    rota_sim_free(world.sim);
}

/* --- the network --- */

static size_t count(const struct world *world, uint32_t node)
{
    size_t n = 0;
    for (size_t i = 0; i < world->n; i++)
        n += world->log[i].kind == ROTA_SIM_MESSAGE && world->log[i].node == node;
    return n;
}

static void exponential_durations_have_their_mean_and_tail(void **state)
{
    enum { N = 100000 };
    struct rota_random random;
    double sum = 0;
    size_t above_6_10 = 0, above_median = 0, above_4 = 0;
    (void)state;
    rota_random_init(&random, 5);
    for (int i = 0; i < N; i++) {
        rota_time span = rota_sim_exponential(&random, 1000000);
        sum += (double)span;
        above_6_10 += span > 600000;
        above_median += span > 693147;
        above_4 += span > 4000000;
    }
    assert_true(sum / N > 990000 && sum / N < 1010000);
    assert_true(above_6_10 > N * 0.543 && above_6_10 < N * 0.555); /* e^-0.6 = 0.5488 */
    assert_true(above_median > N * 0.493 && above_median < N * 0.507);
    assert_true(above_4 > N * 0.0170 && above_4 < N * 0.0197); /* e^-4 = 0.0183 */
    assert_int_equal(rota_sim_exponential(&random, 0), 0);
}

static void delays_are_in_their_bounds_and_reorder(void **state)
{
    static struct world world;
    double sum = 0;
    size_t n_overtakes = 0;
    (void)state;
    begin(&world,
          (struct rota_sim_options){
              .n_nodes = 2, .seed = 1, .link = {ROTA_MSEC, 11 * ROTA_MSEC, 40 * ROTA_MSEC, 0, 0}});
    for (int i = 0; i < 4000; i++)
        rota_sim_send(world.sim, 0, 1, rota_str_of(&(char){(char)(i % 100)}, 1));
    rota_sim_run(world.sim, ROTA_SEC);
    assert_int_equal(world.n, 4000);
    for (size_t i = 0; i < world.n; i++) {
        assert_true(world.log[i].at >= ROTA_MSEC && world.log[i].at <= 40 * ROTA_MSEC);
        sum += (double)world.log[i].at;
        n_overtakes += i > 0 && world.log[i].first < world.log[i - 1].first;
    }
    assert_true(sum / 4000 > 10e6 && sum / 4000 < 11.5e6);
    assert_true(n_overtakes > 1000);
    rota_sim_free(world.sim);
}

static void loss_and_duplication_have_their_rates(void **state)
{
    static struct world world;
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        begin(&world, (struct rota_sim_options){.n_nodes = 2, .seed = seed, .link.loss = 0.2});
        for (int i = 0; i < 2000; i++)
            send(&world, 0, 1, "x");
        rota_sim_run(world.sim, ROTA_SEC);
        assert_in_range(world.n, 1600 - 90, 1600 + 90); /* five standard deviations */
        rota_sim_free(world.sim);

        begin(&world,
              (struct rota_sim_options){.n_nodes = 2, .seed = seed, .link.duplication = 0.2});
        for (int i = 0; i < 2000; i++)
            send(&world, 0, 1, "x");
        rota_sim_run(world.sim, ROTA_SEC);
        assert_in_range(world.n, 2400 - 90, 2400 + 90);
        rota_sim_free(world.sim);
    }
}

static void a_node_always_gets_its_own_message_once(void **state)
{
    static struct world world;
    (void)state;
    begin(&world, (struct rota_sim_options){
                      .n_nodes = 1, .seed = 1, .link = {.loss = 1, .duplication = 1}});
    send(&world, 0, 0, "x");
    rota_sim_run(world.sim, ROTA_SEC);
    assert_int_equal(world.n, 1);
    rota_sim_free(world.sim);
}

static void a_message_is_a_copy(void **state)
{
    static struct world world;
    char text[] = "before";
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 2, .seed = 1});
    send(&world, 0, 1, text);
    text[0] = 'x';
    rota_sim_send(world.sim, 0, 1, (struct rota_str){NULL, 0});
    rota_sim_run(world.sim, ROTA_SEC);
    assert_int_equal(world.n, 2);
    assert_int_equal(world.log[0].first + world.log[1].first, 'b');
    rota_sim_free(world.sim);
}

static void send_to_all(struct world *world)
{
    for (uint32_t from = 0; from < 4; from++)
        for (uint32_t to = 0; to < 4; to++)
            send(world, from, to, "x");
}

static void cuts_lose_messages_sent_during_them(void **state)
{
    static struct world world;
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 4, .seed = 1});

    send(&world, 0, 1, "on its way"); /* before the cut: arrives */
    rota_sim_block(world.sim, 0, 1, true);
    send_to_all(&world);
    rota_sim_run(world.sim, ROTA_SEC);
    assert_int_equal(count(&world, 0), 4); /* one direction only */
    assert_int_equal(count(&world, 1), 3 + 1);
    assert_int_equal(count(&world, 2) + count(&world, 3), 8);
    rota_sim_block(world.sim, 0, 1, false);

    rota_sim_split(world.sim, (const uint8_t[]){0, 1, 1, 0});
    world.n = 0;
    send_to_all(&world);
    rota_sim_run(world.sim, 2 * ROTA_SEC);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(count(&world, i), 2);

    rota_sim_block(world.sim, 3, 2, true);
    rota_sim_heal(world.sim);
    world.n = 0;
    send_to_all(&world);
    rota_sim_run(world.sim, 3 * ROTA_SEC);
    assert_int_equal(world.n, 16);
    rota_sim_free(world.sim);
}

static void a_link_of_its_own_may_be_slow(void **state)
{
    static struct world world;
    struct rota_sim_link slow = {ROTA_MIN, ROTA_MIN, ROTA_MIN, 0, 0};
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 4, .seed = 1});
    rota_sim_set_link(world.sim, 2, 3, &slow);
    send_to_all(&world);
    rota_sim_run(world.sim, ROTA_SEC);
    assert_int_equal(world.n, 15);
    rota_sim_run(world.sim, ROTA_HOUR);
    assert_int_equal(world.n, 16);
    assert_true(world.log[15].node == 3 && world.log[15].at == ROTA_MIN);
    rota_sim_set_link(world.sim, 2, 3, NULL);
    send_to_all(&world);
    rota_sim_run(world.sim, ROTA_HOUR + ROTA_SEC);
    assert_int_equal(world.n, 32);
    rota_sim_free(world.sim);
}

/* --- runs that end --- */

static const char *nobody_hears_b(void *data)
{
    const struct world *world = data;
    return world->n && world->log[world->n - 1].first == 'b' ? "somebody heard b" : NULL;
}

static void a_check_ends_the_run(void **state)
{
    static struct world world;
    struct rota_sim_link second = {ROTA_SEC, ROTA_SEC, ROTA_SEC, 0, 0};
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 2, .seed = 1, .link = second});
    rota_sim_add_check(world.sim, nobody_hears_b, &world);
    uint64_t n_before = rota_sim_n_events(world.sim);
    send(&world, 0, 1, "a");
    send(&world, 0, 1, "b");
    send(&world, 0, 1, "c");
    assert_null(rota_sim_violation(world.sim));
    assert_false(rota_sim_run(world.sim, ROTA_MIN));
    assert_string_equal(rota_sim_violation(world.sim), "somebody heard b");
    assert_int_equal(rota_sim_n_events(world.sim), n_before + 2);
    assert_int_equal(rota_sim_now(world.sim), ROTA_SEC);

    rota_sim_fail(world.sim, "a later sentence");
    assert_string_equal(rota_sim_violation(world.sim), "somebody heard b");
    assert_false(rota_sim_step(world.sim));
    assert_false(rota_sim_run(world.sim, ROTA_HOUR));
    assert_int_equal(rota_sim_now(world.sim), ROTA_SEC);
    rota_sim_free(world.sim);
}

static void call_again(void *data, uint64_t number)
{
    struct world *world = data;
    rota_sim_call(world->sim, 0, call_again, world, number + 1);
}

static void mistakes_of_the_simulation_end_it(void **state)
{
    static struct world world;
    static char large[ROTA_SIM_MESSAGE_MAX + 1];
    (void)state;
    begin(&world, (struct rota_sim_options){.n_nodes = 2, .seed = 1});
    rota_sim_send(world.sim, 0, 1, rota_str_of(large, ROTA_SIM_MESSAGE_MAX));
    assert_true(rota_sim_run(world.sim, ROTA_SEC));
    assert_int_equal(world.n, 1);
    rota_sim_send(world.sim, 0, 1, rota_str_of(large, sizeof large));
    assert_false(rota_sim_run(world.sim, ROTA_MIN));
    assert_string_equal(rota_sim_violation(world.sim),
                        "a message of 1048577 bytes to node 1 exceeds the limit of 1048576");
    rota_sim_free(world.sim);

    begin(&world, (struct rota_sim_options){.n_nodes = 1, .seed = 1});
    rota_sim_call(world.sim, ROTA_SEC, call_again, &world, 0);
    assert_false(rota_sim_run(world.sim, ROTA_MIN));
    assert_string_equal(rota_sim_violation(world.sim),
                        "time does not advance: 200000 events at one time");
    rota_sim_free(world.sim);

    begin(&world, (struct rota_sim_options){.n_nodes = 1, .seed = 1});
    for (int i = 0; i <= ROTA_SIM_PENDING_MAX; i++)
        rota_sim_call(world.sim, ROTA_SEC, call_again, &world, 0);
    assert_string_equal(rota_sim_violation(world.sim),
                        "1048576 events are already pending, the maximum");
    rota_sim_free(world.sim);
}

static void impossible_worlds_are_refused(void **state)
{
    struct rota_sim *sim = NULL;
    struct rota_error error;
    (void)state;
    const struct rota_sim_options bad[] = {
        {.n_nodes = 0},
        {.n_nodes = ROTA_SIM_NODES_MAX + 1},
        {.n_nodes = 1, .link = {.delay_min = 2, .delay_mean = 1, .delay_max = 3}},
        {.n_nodes = 1, .link = {.delay_min = -1, .delay_max = 3}},
        {.n_nodes = 1, .link.loss = 1.5},
        {.n_nodes = 1, .skew_max = -1},
        {.n_nodes = 1, .drift_max_ppm = ROTA_SIM_DRIFT_MAX + 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error.text[0] = 0;
        assert_int_equal(rota_sim_new(&bad[i], &sim, &error),
                         i < 2 ? ROTA_ERR_LIMIT : ROTA_ERR_INVALID);
        assert_null(sim);
        assert_true(error.text[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drift_is_exact),
        cmocka_unit_test(a_timer_is_due_as_soon_as_its_clock_shows_the_time),
        cmocka_unit_test(a_change_of_drift_is_not_a_jump),
        cmocka_unit_test(skew_and_drift_stay_in_their_bounds),
        cmocka_unit_test(a_jump_shows_on_the_wall_clock_only),
        cmocka_unit_test(each_life_has_its_own_monotonic_clock),
        cmocka_unit_test(a_wall_timer_follows_the_jumps_of_its_clock),
        cmocka_unit_test(a_timer_follows_the_drift_of_its_clock),
        cmocka_unit_test(a_timer_set_again_is_due_once),
        cmocka_unit_test(timers_die_with_their_node),
        cmocka_unit_test(mail_arrives_at_the_next_life_but_not_at_a_node_that_is_down),
        cmocka_unit_test(a_resumed_node_gets_all_messages_in_order),
        cmocka_unit_test(exponential_durations_have_their_mean_and_tail),
        cmocka_unit_test(delays_are_in_their_bounds_and_reorder),
        cmocka_unit_test(loss_and_duplication_have_their_rates),
        cmocka_unit_test(a_node_always_gets_its_own_message_once),
        cmocka_unit_test(a_message_is_a_copy),
        cmocka_unit_test(cuts_lose_messages_sent_during_them),
        cmocka_unit_test(a_link_of_its_own_may_be_slow),
        cmocka_unit_test(a_check_ends_the_run),
        cmocka_unit_test(mistakes_of_the_simulation_end_it),
        cmocka_unit_test(impossible_worlds_are_refused),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
