#include "run/place/cell.h"

#include <pthread.h>
#include <rota/ring.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { READERS = 4, SWAPS = 5000, HOSTS = 8 };

static struct rota_cell cell;
static void ref_ring(void *ring)
{
    rota_ring_ref(ring);
}

static void unref_ring(void *ring)
{
    rota_ring_unref(ring);
}

static const struct rota_cell_type ring_type = {ref_ring, unref_ring};

static atomic_bool is_over;
static atomic_size_t n_started;

static struct rota_ring *make_ring(size_t n_hosts)
{
    static const char *const names[HOSTS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct rota_ring_host hosts[HOSTS] = {0};
    struct rota_ring *ring;
    for (size_t i = 0; i < n_hosts; i++)
        hosts[i].address = rota_str(names[i]);
    return rota_ring_new(hosts, n_hosts, 4, &ring, NULL) ? NULL : ring;
}

static void reader_holds_what_it_got(void **state)
{
    struct rota_ring *first = make_ring(1), *second = make_ring(2);
    (void)state;
    rota_cell_init(&cell, &ring_type, first);
    struct rota_ring *held = rota_cell_get(&cell);
    assert_ptr_equal(held, first);
    rota_cell_swap(&cell, second);
    assert_int_equal(rota_ring_lookup(held, rota_str("key")), 0); /* it lives on */
    rota_ring_unref(held);

    held = rota_cell_get(&cell);
    assert_ptr_equal(held, second);
    rota_ring_unref(held);
    rota_cell_deinit(&cell);
}

/* Use every ring fully while it is held; returns how many were unlike the last. */
static void *read_rings(void *data)
{
    size_t *n_seen = data;
    size_t last = 0;
    atomic_fetch_add(&n_started, 1);
    while (!atomic_load(&is_over)) {
        struct rota_ring *ring = rota_cell_get(&cell);
        size_t n = rota_ring_size(ring);
        uint32_t owner = rota_ring_lookup(ring, rota_str("some key"));
        if (n == 0 || n > HOSTS || owner >= n || rota_ring_n_points(ring) != 4 * n) {
            *n_seen = SIZE_MAX;
            rota_ring_unref(ring);
            return NULL;
        }
        *n_seen += n != last;
        last = n;
        rota_ring_unref(ring);
    }
    return NULL;
}

static void readers_always_find_a_living_ring(void **state)
{
    pthread_t threads[READERS];
    size_t n_seen[READERS] = {0};
    (void)state;
    rota_cell_init(&cell, &ring_type, make_ring(HOSTS));
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_rings, &n_seen[i]), 0);
    while (atomic_load(&n_started) < READERS)
        sched_yield();
    for (size_t i = 0; i < SWAPS; i++)
        rota_cell_swap(&cell, make_ring(1 + i % HOSTS));
    atomic_store(&is_over, true);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(n_seen[i] > 0 && n_seen[i] < SIZE_MAX);
    }
    rota_cell_deinit(&cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_holds_what_it_got),
        cmocka_unit_test(readers_always_find_a_living_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
