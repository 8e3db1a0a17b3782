#include "core/call/get/held.h"

bool rota_held_fits(const struct rota_held *held, size_t own)
{
    size_t half = held->max / 2;
    return held->size <= half || own <= half / (held->n > 0 ? held->n : 1);
}
