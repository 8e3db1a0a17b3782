/* What becomes of a Get when memory runs out: it is refused, or finishes once with the keys that
 * are missing named; no try is left, and the next Get with the same machine goes well. */
#include "no_memory.h"

#include "core/call/get/get_fsm.h"

#define rota_get_fsm_step(...) NO_MEMORY_DURING(rota_get_fsm_step(__VA_ARGS__))
#include "get_world.c" /* compiled here for the call above */

enum { KEYS = 12 };

/* Starts may fail; true when one has begun. */
static bool begin(enum rota_get_mode mode, rota_time deadline)
{
    for (size_t i = 0; i < KEYS; i++) {
        world.ids[i] = 100 + i;
        world.keys[i] = i;
    }
    struct rota_get_fsm_options options = {.ids = world.ids,
                                           .keys = world.keys,
                                           .n_keys = KEYS,
                                           .deadline = deadline,
                                           .mode = mode,
                                           .host_timeout = 100 * ROTA_MSEC};
    world.n_sent = world.n_finished = 0;
    enum rota_code code = NO_MEMORY_IN(rota_get_fsm_start(&world.fsm, world.now, &options, NULL));
    world.counted.n_gets += !code;
    world.counted.n_keys += code ? 0 : KEYS;
    drain();
    if (!code)
        return true;
    assert_true(code == ROTA_ERR_NO_MEMORY && no_memory_has_failed());
    assert_int_equal(world.n_sent, 0);
    return false;
}

/* Host 0 fails whatever is sent to it, the others answer, until the Get is done. */
static void serve(void)
{
    for (size_t i = 0; !world.n_finished;) {
        if (i == world.n_sent) {
            tick_at(rota_get_fsm_deadline(&world.fsm));
            continue;
        }
        const struct sent *sent = &world.sent[i++];
        if (sent->index == 0)
            fail_try(sent, ROTA_FAILURE_BROKEN);
        else if (!sent->is_cancelled)
            answer(sent);
    }
}

static void get_with(enum rota_get_mode mode)
{
    void *state = NULL;
    setup(&state);
    if (begin(mode, ROTA_SEC)) {
        serve();
        size_t n_found = 0;
        for (size_t i = 0; i < KEYS; i++)
            n_found += state_of(i) == ROTA_GET_FOUND;
        assert_int_equal(n_found + world.n_missing, KEYS);
        if (world.n_missing > 0) { /* and it does not wait for its deadline */
            assert_true(no_memory_has_failed());
            assert_int_equal(world.failure, ROTA_FAILURE_LOCAL);
        }
    }
    assert_int_equal(world.stats.n_running, 0);

    no_memory_end();
    assert_true(begin(mode, world.now + ROTA_SEC));
    serve();
    assert_well();
    teardown(&state);
}

static void get_from_one(void)
{
    get_with(ROTA_GET_MODE_HEDGE);
}

static void get_from_all(void)
{
    get_with(ROTA_GET_MODE_BROADCAST);
}

static void a_get_finishes_and_the_next_succeeds(void **state)
{
    (void)state;
    no_memory_everywhere(get_from_one);
    no_memory_everywhere(get_from_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_finishes_and_the_next_succeeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
