#include "core/call/get/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static enum rota_place refused;

static enum rota_place take(struct rota_places *places, const char *peer)
{
    return rota_places_take(places, rota_str(peer), &refused);
}

static void a_peer_gets_at_most_its_share(void **state)
{
    struct rota_places places;
    (void)state;
    rota_places_init(&places, 10, 3, 0, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(take(&places, "a"), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_PEER_FULL);
    assert_int_equal(take(&places, "b"), ROTA_PLACE_GIVEN);
    rota_places_give_back(&places, rota_str("a"), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_PEER_FULL);
    assert_int_equal(places.n, 4);
    rota_places_deinit(&places);
}

static void half_of_all_is_the_default_share(void **state)
{
    struct rota_places places;
    (void)state;
    rota_places_init(&places, 1, 0, 0, 1);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "b"), ROTA_PLACE_ALL_FULL);
    rota_places_deinit(&places);
    rota_places_init(&places, 4, 0, 0, 1);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_PEER_FULL);
    rota_places_deinit(&places);
}

static void the_reserve_takes_connections_without_a_place(void **state)
{
    struct rota_places places;
    (void)state;
    rota_places_init(&places, 2, 1, 2, 1);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "a"), ROTA_PLACE_RESERVED);
    assert_int_equal(refused, ROTA_PLACE_PEER_FULL);
    assert_int_equal(take(&places, "b"), ROTA_PLACE_GIVEN);
    assert_int_equal(refused, ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "c"), ROTA_PLACE_RESERVED);
    assert_int_equal(refused, ROTA_PLACE_ALL_FULL);
    assert_false(rota_places_is_over_reserve(&places));
    assert_int_equal(take(&places, "d"), ROTA_PLACE_RESERVED); /* the oldest has to go */
    assert_true(rota_places_is_over_reserve(&places));
    rota_places_give_back(&places, rota_str("a"), ROTA_PLACE_RESERVED);
    assert_false(rota_places_is_over_reserve(&places));
    assert_int_equal(places.n, 2);
    rota_places_deinit(&places);
}

static void peers_that_have_left_are_forgotten(void **state)
{
    struct rota_places places;
    char peer[2] = {'a', 0};
    (void)state;
    rota_places_init(&places, 1000, 1, 0, 1);
    for (int i = 0; i < 1000; i++) {
        peer[0] = (char)('a' + i % 26);
        assert_int_equal(take(&places, peer), ROTA_PLACE_GIVEN);
        rota_places_give_back(&places, rota_str(peer), ROTA_PLACE_GIVEN);
    }
    assert_int_equal(places.peers.size, 0);
    assert_int_equal(places.n, 0);
    rota_places_deinit(&places);
}

static void keys_of_any_length_are_one_peer_each(void **state)
{
    struct rota_places places;
    (void)state;
    rota_places_init(&places, 10, 1, 0, 1);
    assert_int_equal(take(&places, ""), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, ""), ROTA_PLACE_PEER_FULL);
    assert_int_equal(take(&places, "12345678"), ROTA_PLACE_GIVEN);
    assert_int_equal(take(&places, "123456789"), ROTA_PLACE_PEER_FULL); /* the same network */
    rota_places_give_back(&places, rota_str("123456789"), ROTA_PLACE_GIVEN);
    rota_places_give_back(&places, rota_str(""), ROTA_PLACE_GIVEN);
    assert_int_equal(places.n, 0);
    rota_places_deinit(&places);
}

static void many_refusals_are_one_line(void **state)
{
    struct rota_refusals refusals = {0};
    uint64_t n = 0;
    rota_time now = 5;
    (void)state;
    assert_true(rota_places_note_refusal(&refusals, now, &n));
    assert_int_equal(n, 1);
    for (int i = 0; i < 99; i++)
        assert_false(rota_places_note_refusal(&refusals, ++now, &n));
    now = 5 + ROTA_REFUSALS_EVERY;
    assert_true(rota_places_note_refusal(&refusals, now, &n));
    assert_int_equal(n, 100);
    assert_false(rota_places_note_refusal(&refusals, now, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_gets_at_most_its_share),
        cmocka_unit_test(half_of_all_is_the_default_share),
        cmocka_unit_test(the_reserve_takes_connections_without_a_place),
        cmocka_unit_test(peers_that_have_left_are_forgotten),
        cmocka_unit_test(keys_of_any_length_are_one_peer_each),
        cmocka_unit_test(many_refusals_are_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
