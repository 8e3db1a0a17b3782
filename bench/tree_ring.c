#include "tree_ring.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *child[2], *parent;
    uint32_t hash, host;
    bool is_red;
};

struct tree_ring {
    struct node *root;
    uint32_t points, n_hosts;
};

/* Points of equal hash are ordered by host; the benchmark numbers hosts in the
 * order of their addresses. */
static bool is_before(const struct node *a, const struct node *b)
{
    return a->hash != b->hash ? a->hash < b->hash : a->host < b->host;
}

static int side_of(const struct node *node)
{
    return node->parent->child[1] == node;
}

/* Lift the child on `side` of `node` into its place. */
static void rotate(struct tree_ring *ring, struct node *node, int side)
{
    struct node *up = node->child[side];
    node->child[side] = up->child[!side];
    if (up->child[!side])
        up->child[!side]->parent = node;
    up->parent = node->parent;
    if (!node->parent)
        ring->root = up;
    else
        node->parent->child[side_of(node)] = up;
    up->child[!side] = node;
    node->parent = up;
}

static void repair(struct tree_ring *ring, struct node *node)
{
    while (node->parent && node->parent->is_red) {
        struct node *grand = node->parent->parent;
        int side = side_of(node->parent);
        struct node *uncle = grand->child[!side];
        if (uncle && uncle->is_red) {
            node->parent->is_red = uncle->is_red = false;
            grand->is_red = true;
            node = grand;
            continue;
        }
        if (side_of(node) != side) {
            node = node->parent;
            rotate(ring, node, !side);
        }
        node->parent->is_red = false;
        grand->is_red = true;
        rotate(ring, grand, side);
    }
    ring->root->is_red = false;
}

static void insert(struct tree_ring *ring, struct node *node)
{
    struct node **place = &ring->root, *parent = NULL;
    while (*place) {
        parent = *place;
        place = &parent->child[is_before(parent, node)];
    }
    node->parent = parent;
    node->is_red = true;
    *place = node;
    repair(ring, node);
}

void tree_ring_add(struct tree_ring *ring, const struct rota_ring_host *host, uint32_t number)
{
    char text[ROTA_ADDRESS_MAX + 16];
    ring->n_hosts++;
    for (uint32_t i = 0; i < ring->points; i++) {
        int size = snprintf(text, sizeof text, "%.*s%u", ROTA_STR_ARGS(host->address), i);
        struct node *node = calloc(1, sizeof *node);
        if (!node)
            abort();
        node->hash = rota_hash_farm32(rota_str_of(text, (size_t)size));
        node->host = number;
        insert(ring, node);
    }
}

struct tree_ring *tree_ring_new(const struct rota_ring_host *hosts, size_t n_hosts, uint32_t points)
{
    struct tree_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        abort();
    ring->points = points;
    for (uint32_t i = 0; i < n_hosts; i++)
        tree_ring_add(ring, &hosts[i], i);
    return ring;
}

void tree_ring_free(struct tree_ring *ring)
{
    struct node *node = ring->root;
    while (node) { /* down to a leaf, free it, back up */
        struct node *next = node->child[0] ? node->child[0] : node->child[1];
        if (!next) {
            next = node->parent;
            if (next)
                next->child[side_of(node)] = NULL;
            free(node);
        }
        node = next;
    }
    free(ring);
}

static const struct node *first_of(const struct node *node)
{
    while (node && node->child[0])
        node = node->child[0];
    return node;
}

static const struct node *seek(const struct tree_ring *ring, uint32_t hash)
{
    const struct node *found = NULL;
    for (const struct node *node = ring->root; node; node = node->child[node->hash < hash])
        if (node->hash >= hash)
            found = node;
    return found ? found : first_of(ring->root);
}

static const struct node *next_of(const struct tree_ring *ring, const struct node *node)
{
    if (node->child[1])
        return first_of(node->child[1]);
    while (node->parent && side_of(node))
        node = node->parent;
    return node->parent ? node->parent : first_of(ring->root);
}

uint32_t tree_ring_lookup(const struct tree_ring *ring, struct rota_str key)
{
    return seek(ring, rota_hash_farm32(key))->host;
}

size_t tree_ring_lookup_n(const struct tree_ring *ring, struct rota_str key, size_t n,
                          uint32_t *hosts)
{
    const struct node *node = seek(ring, rota_hash_farm32(key));
    size_t found = 0;
    n = n < ring->n_hosts ? n : ring->n_hosts;
    while (found < n) {
        size_t i = 0;
        while (i < found && hosts[i] != node->host)
            i++;
        if (i == found)
            hosts[found++] = node->host;
        node = next_of(ring, node);
    }
    return found;
}
