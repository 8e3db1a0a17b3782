#include "base/heap.h"

#include "vectors.h"
#include <rota/experimental/random.h>

enum { NODES = 100 };

static struct rota_heap_node *first_of_model(struct rota_heap_node nodes[NODES],
                                             const bool is_in[NODES])
{
    struct rota_heap_node *first = NULL;
    for (size_t i = 0; i < NODES; i++) {
        struct rota_heap_node *node = &nodes[i];
        if (is_in[i] && (!first || node->at < first->at ||
                         (node->at == first->at && node->order < first->order)))
            first = node;
    }
    return first;
}

/* Against looking through all nodes for the least. */
static void it_is_the_model(void **state)
{
    struct rota_heap heap = {0};
    struct rota_heap_node nodes[NODES] = {0};
    struct rota_random random;
    bool is_in[NODES] = {false};
    size_t n = 0;
    (void)state;
    rota_random_init(&random, 1);
    for (uint64_t step = 0; step < 20000; step++) {
        size_t i = rota_random_below(&random, NODES);
        if (step % 3 == 0 && n > 0) /* take the first, as a timer would */
            i = (size_t)(rota_heap_first(&heap) - nodes);
        if (is_in[i]) {
            rota_heap_remove(&heap, &nodes[i]);
            n--;
        } else {
            nodes[i].at = rota_random_range(&random, -10, 10);
            nodes[i].order = step;
            assert_true(rota_heap_push(&heap, &nodes[i]));
            n++;
        }
        is_in[i] = !is_in[i];
        assert_int_equal(nodes[i].place != 0, is_in[i]);
        assert_int_equal(heap.size, n);
        assert_ptr_equal(rota_heap_first(&heap), first_of_model(nodes, is_in));
    }
    rota_heap_deinit(&heap);
}

static void equal_times_come_out_by_order(void **state)
{
    struct rota_heap heap = {0};
    struct rota_heap_node nodes[NODES] = {0};
    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].order = i * 37 % NODES;
        assert_true(rota_heap_push(&heap, &nodes[i]));
    }
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(rota_heap_first(&heap)->order, i);
        rota_heap_remove(&heap, rota_heap_first(&heap));
    }
    assert_null(rota_heap_first(&heap));
    rota_heap_deinit(&heap);
}

static void a_node_outside_can_be_removed(void **state)
{
    struct rota_heap heap = {0};
    struct rota_heap_node inside = {.at = 1}, outside = {.at = 0};
    (void)state;
    assert_null(rota_heap_first(&heap));
    assert_true(rota_heap_push(&heap, &inside));
    rota_heap_remove(&heap, &outside);
    assert_ptr_equal(rota_heap_first(&heap), &inside);
    rota_heap_remove(&heap, &inside);
    rota_heap_remove(&heap, &inside);
    assert_int_equal(heap.size, 0);
    rota_heap_deinit(&heap);
}

static void the_ends_of_time_are_times(void **state)
{
    struct rota_heap heap = {0};
    struct rota_heap_node never = {.at = ROTA_TIME_NEVER}, least = {.at = ROTA_TIME_MIN},
                          zero = {0};
    (void)state;
    assert_true(rota_heap_push(&heap, &never));
    assert_true(rota_heap_push(&heap, &zero));
    assert_true(rota_heap_push(&heap, &least));
    assert_ptr_equal(rota_heap_first(&heap), &least);
    rota_heap_remove(&heap, &least);
    assert_ptr_equal(rota_heap_first(&heap), &zero);
    rota_heap_remove(&heap, &zero);
    assert_ptr_equal(rota_heap_first(&heap), &never);
    rota_heap_deinit(&heap);
}

/* Any order becomes a heap from below, where the items above are not in order yet. */
#define IS_LESS(heap, a, b)      ((a) < (b))
#define PUT(heap, index, number) ((heap)[index] = (number))
static void a_heap_is_built_from_below(void **state)
{
    uint32_t numbers[NODES];
    (void)state;
    for (size_t i = 0; i < NODES; i++)
        numbers[i] = (uint32_t)((NODES - i) * 37 % 101);
    for (size_t i = NODES / 2; i-- > 0;) {
        uint32_t number = numbers[i];
        ROTA_HEAP_SIFT_DOWN(numbers, numbers, NODES, i, number, IS_LESS, PUT);
    }
    for (size_t i = 1; i < NODES; i++)
        assert_true(numbers[(i - 1) / 2] <= numbers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_model),
        cmocka_unit_test(equal_times_come_out_by_order),
        cmocka_unit_test(a_node_outside_can_be_removed),
        cmocka_unit_test(the_ends_of_time_are_times),
        cmocka_unit_test(a_heap_is_built_from_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
