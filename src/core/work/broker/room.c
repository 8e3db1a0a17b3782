#include "core/work/broker/room.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t subtract_known(uint64_t a, uint64_t b)
{
    if (a == ROTA_ROOM_UNKNOWN)
        return a;
    return a > b ? a - b : 0;
}

/* Free space on the disk, without the reserve that still has to be restored. */
static uint64_t spare_free(const struct rota_room_look *look)
{
    return look->has_reserve ? look->free : subtract_known(look->free, look->reserve);
}

uint64_t rota_room_all(const struct rota_room_look *look)
{
    return subtract_known(add_saturating(look->left, look->free), look->waiting);
}

uint64_t rota_room_spare(const struct rota_room_look *look)
{
    uint64_t missing = look->has_reserve ? 0 : look->reserve;
    return subtract_known(rota_room_all(look), missing);
}

uint64_t rota_room_for_adds(const struct rota_room_look *look)
{
    uint64_t beyond = spare_free(look);
    uint64_t piece = subtract_known(look->left > beyond ? look->left : beyond, look->waiting);
    uint64_t ends = (uint64_t)look->n_jobs * ROTA_ROOM_END;
    uint64_t spare = subtract_known(rota_room_spare(look), ends);
    return subtract_known(piece < spare ? piece : spare, ROTA_ROOM_MARGIN);
}

bool rota_room_step(struct rota_room *room, const struct rota_room_look *look, bool was_refused)
{
    room->is_short =
        (room->is_short || was_refused) && rota_room_for_adds(look) < look->reserve / 2;
    return room->is_short;
}
