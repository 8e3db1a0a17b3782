#include "sim/splits.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

/* A name taken apart: "p0.01@2" is root "p0", path "01", turn 2; "p0.01+2" was two. */
struct place {
    struct rota_str root;
    char path[ROTA_SPLITS_DEPTH + 1];
    size_t depth;
    uint64_t turn;
    bool was_two;
};

static uint64_t parse_turn(const char *text, size_t size)
{
    uint64_t turn = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || turn > UINT32_MAX)
            return 0;
        turn = turn * 10 + (uint64_t)(text[i] - '0');
    }
    return turn;
}

static struct place parse_place(struct rota_str name)
{
    struct place place = {.root = name};
    const char *at = memchr(name.data, '@', name.size);
    bool was_two = !at;
    if (was_two)
        at = memchr(name.data, '+', name.size);
    uint64_t turn = at ? parse_turn(at + 1, name.size - (size_t)(at - name.data) - 1) : 0;
    if (turn == 0)
        return place;
    struct rota_str rest = rota_str_of(name.data, (size_t)(at - name.data));
    const char *dot = memchr(rest.data, '.', rest.size);
    size_t depth = dot ? rest.size - (size_t)(dot - rest.data) - 1 : 0;
    if (depth > ROTA_SPLITS_DEPTH)
        return place;
    place.root = dot ? rota_str_of(rest.data, (size_t)(dot - rest.data)) : rest;
    place.turn = turn;
    place.depth = depth;
    place.was_two = was_two;
    if (dot)
        memcpy(place.path, dot + 1, depth);
    return place;
}

static void write_name(char text[ROTA_SPLITS_NAME_MAX], const struct place *place, uint64_t turn,
                       size_t depth, const char *more, char kind)
{
    size_t root = place->root.size < 32 ? place->root.size : 32;
    bool is_path = depth > 0 || *more;
    if (turn == 0)
        snprintf(text, ROTA_SPLITS_NAME_MAX, "%.*s", (int)root, place->root.data);
    else
        snprintf(text, ROTA_SPLITS_NAME_MAX, "%.*s%s%.*s%s%c%llu", (int)root, place->root.data,
                 is_path ? "." : "", (int)depth, place->path, more, kind, (unsigned long long)turn);
}

/* Siblings of one split get the same answer: it depends on their parent's place. One that was
 * merged has no sibling of its age. */
static bool is_merge(const struct place *place)
{
    char text[ROTA_SPLITS_NAME_MAX];
    if (place->depth == 0 || place->was_two)
        return false;
    if (place->depth == ROTA_SPLITS_DEPTH)
        return true;
    write_name(text, place, place->turn, place->depth - 1, "", '@');
    return rota_hash_finish32(rota_hash_farm32(rota_str(text))) & 1;
}

int64_t rota_splits_end(struct rota_str name, int64_t from, int64_t to, uint64_t rows_mean)
{
    uint32_t of_name = rota_hash_farm32(name);
    for (int64_t row = from + 1; rows_mean > 0 && row <= to; row++)
        if (rota_hash_finish32(of_name ^ rota_hash_finish32((uint32_t)row)) % rows_mean == 0)
            return row;
    return 0;
}

size_t rota_splits_children(struct rota_str name, struct rota_splits_child children[2])
{
    struct place place = parse_place(name);
    uint64_t turn = place.turn + 1;
    memset(children, 0, 2 * sizeof *children);
    if (is_merge(&place)) {
        write_name(children[0].name, &place, turn, place.depth - 1, "", '+');
        write_name(children[0].parents[0], &place, place.turn, place.depth - 1, "0", '@');
        write_name(children[0].parents[1], &place, place.turn, place.depth - 1, "1", '@');
        children[0].n_parents = 2;
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        write_name(children[i].name, &place, turn, place.depth, i ? "1" : "0", '@');
        snprintf(children[i].parents[0], ROTA_SPLITS_NAME_MAX, "%.*s",
                 (int)(name.size < ROTA_SPLITS_NAME_MAX ? name.size : ROTA_SPLITS_NAME_MAX - 1),
                 name.data);
        children[i].n_parents = 1;
    }
    return 2;
}
