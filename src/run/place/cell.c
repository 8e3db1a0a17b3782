/* Why no reader takes a reference to an object that was freed.
 *
 * A reader does, in this order:  I  add one to inside[s]
 *                                L  load the object
 *                                R  take a reference to it
 *                                D  take one from inside[s]
 * and the writer, for both s:    X  put the new object in the old one's place
 *                                Z  see inside[s] at zero
 *                                U  drop its reference to the old object
 *
 * All of I, L, D, X and Z are sequentially consistent, so all threads agree on one order of them.
 * For a reader that used s, either I comes before Z or after it.
 *
 * Before: the counter is zero at Z, so the 1 that I added was subtracted again: D, and with it R,
 * came before Z and so before U. The reader has its reference already, and U can't drop the last.
 *
 * After: X, Z, I, L come in this order, so L finds the new object and U is of no concern to the
 * reader.
 *
 * This holds for any s a reader may use, however late. There are two, and the writer directs
 * readers to the other one, for progress only: a single counter might never be zero while
 * readers keep coming. */
#include "run/place/cell.h"

#include <sched.h>

void rota_cell_init(struct rota_cell *cell, const struct rota_cell_type *type, void *object)
{
    cell->type = type;
    atomic_init(&cell->object, object);
    atomic_init(&cell->side, 0);
    atomic_init(&cell->inside[0], 0);
    atomic_init(&cell->inside[1], 0);
}

void rota_cell_deinit(struct rota_cell *cell)
{
    cell->type->unref(atomic_load(&cell->object));
    atomic_init(&cell->object, NULL);
}

void *rota_cell_get(struct rota_cell *cell)
{
    size_t side = atomic_load(&cell->side);
    atomic_fetch_add(&cell->inside[side], 1);
    void *object = atomic_load(&cell->object);
    cell->type->ref(object);
    atomic_fetch_sub(&cell->inside[side], 1);
    return object;
}

/* A reader inside is running, or waits for a processor: lend it ours. */
static void wait_empty(atomic_size_t *inside)
{
    while (atomic_load(inside) > 0)
        sched_yield();
}

void rota_cell_swap(struct rota_cell *cell, void *object)
{
    void *old = atomic_exchange(&cell->object, object);
    size_t side = atomic_load(&cell->side);

    /* Only stragglers use the other side now, so both waits come to an end. */
    wait_empty(&cell->inside[!side]);
    atomic_store(&cell->side, !side);
    wait_empty(&cell->inside[side]);
    cell->type->unref(old);
}
