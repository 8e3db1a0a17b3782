#include "base/vector.h"

#include "vectors.h"

struct item {
    uint64_t number;
    char name[3];
};

static void items_stay_in_order_while_it_grows(void **state)
{
    ROTA_VECTOR(struct item) vector = {0};
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        struct item item = {.number = i * i, .name = "ab"};
        assert_true(rota_vector_push(&vector, item));
        assert_int_equal(vector.size, i + 1);
        assert_true(vector.capacity >= vector.size);
    }
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(vector.items[i].number, i * i);
    rota_vector_deinit(&vector);
    assert_null(vector.items);
    assert_int_equal(vector.size + vector.capacity, 0);
    assert_true(rota_vector_push(&vector, (struct item){.number = 5}));
    assert_int_equal(vector.items[0].number, 5);
    rota_vector_deinit(&vector);
}

static void reserved_room_does_not_move(void **state)
{
    ROTA_VECTOR(int) vector = {0};
    (void)state;
    assert_true(rota_vector_reserve(&vector, 100));
    const int *items = vector.items;
    for (int i = 0; i < 100; i++)
        assert_true(rota_vector_push(&vector, i));
    assert_ptr_equal(vector.items, items);
    assert_true(rota_vector_reserve(&vector, 1));
    assert_ptr_equal(vector.items, items);
    rota_vector_deinit(&vector);
}

static void more_than_memory_is_refused_and_nothing_lost(void **state)
{
    ROTA_VECTOR(uint64_t) vector = {0};
    (void)state;
    assert_true(rota_vector_push(&vector, 7));
    assert_false(rota_vector_reserve(&vector, SIZE_MAX));
    assert_false(rota_vector_reserve(&vector, SIZE_MAX / sizeof(uint64_t) + 1));
    assert_int_equal(vector.size, 1);
    assert_int_equal(vector.items[0], 7);
    rota_vector_deinit(&vector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stay_in_order_while_it_grows),
        cmocka_unit_test(reserved_room_does_not_move),
        cmocka_unit_test(more_than_memory_is_refused_and_nothing_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
