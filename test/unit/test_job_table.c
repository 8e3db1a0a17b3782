#include "core/work/job/job_table.h"
#include "vectors.h"

#include <rota/experimental/random.h>
#include <stdio.h>

enum { N = 20000 };

static void numbers_are_reused_and_chunks_are_freed(void **state)
{
    struct rota_slab slab;
    static uint32_t numbers[N];
    (void)state;
    rota_slab_init(&slab, 24);
    for (int i = 0; i < N; i++) {
        uint64_t *item = rota_slab_take(&slab, &numbers[i]);
        assert_non_null(item);
        assert_true(numbers[i] != 0);
        assert_ptr_equal(rota_slab_at(&slab, numbers[i]), item);
        *item = (uint64_t)i;
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(*(uint64_t *)rota_slab_at(&slab, numbers[i]), i);
    size_t full = rota_slab_bytes(&slab);
    for (int i = 0; i < N; i += 2)
        rota_slab_give(&slab, numbers[i]);
    assert_int_equal(slab.n_used, N / 2);
    for (int i = 0; i < N; i += 2)
        assert_non_null(rota_slab_take(&slab, &numbers[i]));
    assert_int_equal(rota_slab_bytes(&slab), full);
    for (int i = 0; i < N; i++)
        rota_slab_give(&slab, numbers[i]);
    assert_int_equal(slab.n_used, 0);
    assert_in_range(slab.n_chunks, 1, 2); /* number 0, and a spare */
    for (int i = 0; i < N; i++)           /* the room is found again */
        assert_non_null(rota_slab_take(&slab, &numbers[i]));
    assert_int_equal(rota_slab_bytes(&slab), full);
    rota_slab_deinit(&slab);
}

static struct rota_job_id id_of(size_t i)
{
    return (struct rota_job_id){1 + i / 3, i % 3}; /* such ids as nobody mixed */
}

/* All that is fetched beforehand; ids that were told of long ago are checked as well. */
static void fetch(struct rota_job_table *table, struct rota_job_id id)
{
    rota_job_table_foresee(table, id);
    rota_job_table_fetch_place(table, rota_job_table_hash(table, id));
    rota_job_table_fetch_others(table, rota_job_table_hash(table, id));
}

static void jobs_are_found_while_the_index_grows_and_shrinks(void **state)
{
    struct rota_job_table table;
    struct rota_random chance;
    static uint32_t numbers[N];
    size_t n_pieces = 0;
    (void)state;
    rota_random_init(&chance, 5);
    rota_job_table_init(&table, 5);
    fetch(&table, id_of(0)); /* there is no index yet */
    assert_int_equal(rota_job_table_find(&table, id_of(0)), 0);
    memset(numbers, 0, sizeof numbers);
    for (int step = 0; step < 10 * N; step++) {
        size_t i = rota_random_below(&chance, N);
        bool is_filling = step < 5 * N;
        if (!numbers[i] && rota_random_chance(&chance, is_filling ? 0.9 : 0.1)) {
            numbers[i] = rota_job_table_add(&table, id_of(i));
            assert_true(numbers[i] != 0);
            if (i % 2 == 0)
                assert_non_null(rota_job_table_need_extra(&table, numbers[i]));
        } else if (numbers[i] && rota_random_chance(&chance, is_filling ? 0.1 : 0.9)) {
            rota_job_table_remove(&table, numbers[i]);
            numbers[i] = 0;
        }
        i = rota_random_below(&chance, N);
        fetch(&table, id_of(i));
        assert_int_equal(rota_job_table_find(&table, id_of(i)), numbers[i]);
        n_pieces = table.buckets.size > n_pieces ? table.buckets.size : n_pieces;
    }
    size_t n = 0, expected = 0;
    for (uint32_t i = 0; (i = rota_job_table_next(&table, i));)
        n++;
    for (size_t i = 0; i < N; i++)
        expected += numbers[i] != 0;
    assert_int_equal(n, expected);
    for (size_t i = 0; i < N; i++) {
        if (numbers[i])
            rota_job_table_remove(&table, numbers[i]);
        fetch(&table, id_of(rota_random_below(&chance, N)));
    }
    assert_in_range(table.n_buckets + table.n_split, 1, 128);
    assert_true(n_pieces > 2 && table.buckets.size == 1); /* others were freed meanwhile */
    assert_int_equal(rota_job_table_next(&table, 0), 0);
    rota_job_table_deinit(&table);
}

static void jobs_of_one_id_are_all_found(void **state)
{
    struct rota_job_table table;
    struct rota_job_id id = {7, 7};
    (void)state;
    rota_job_table_init(&table, 1);
    uint32_t a = rota_job_table_add(&table, id), b = rota_job_table_add(&table, id);
    uint32_t first = rota_job_table_find(&table, id);
    uint32_t second = rota_job_table_find_next(&table, first);
    assert_true((first == a && second == b) || (first == b && second == a));
    assert_int_equal(rota_job_table_find_next(&table, second), 0);
    rota_job_table_deinit(&table);
}

static void the_list_is_in_the_order_of_whole_records(void **state)
{
    struct rota_job_table table;
    uint32_t numbers[4];
    (void)state;
    rota_job_table_init(&table, 1);
    for (uint64_t i = 0; i < 4; i++) {
        numbers[i] = rota_job_table_add(&table, id_of(i));
        rota_job_table_put_newest(&table, numbers[i], i + 1);
    }
    rota_job_table_put_newest(&table, numbers[0], 5);
    rota_job_table_remove(&table, numbers[2]);
    static const uint64_t records[] = {2, 4, 5};
    uint32_t number = table.oldest;
    for (int i = 0; i < 3; i++, number = rota_job_at(&table, number)->newer)
        assert_int_equal(rota_job_at(&table, number)->record, records[i]);
    assert_int_equal(number, 0);
    assert_int_equal(table.newest, numbers[0]);
    rota_job_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_reused_and_chunks_are_freed),
        cmocka_unit_test(jobs_are_found_while_the_index_grows_and_shrinks),
        cmocka_unit_test(jobs_of_one_id_are_all_found),
        cmocka_unit_test(the_list_is_in_the_order_of_whole_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
