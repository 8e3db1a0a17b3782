/* list: what stands in a row, where anything can leave from the middle.
 *
 * Intrusive and circular: the list is a link of its own, an item holds a link
 * and is found from it with ROTA_LIST_ITEM. Nothing here needs memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rota_list_node {
    struct rota_list_node *previous, *next; /* NULL: in no list */
};

#define ROTA_LIST_ITEM(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void rota_list_init(struct rota_list_node *list)
{
    list->previous = list->next = list;
}

static inline bool rota_list_is_empty(const struct rota_list_node *list)
{
    return list->next == list;
}

/* The first link, or NULL. */
static inline struct rota_list_node *rota_list_first(const struct rota_list_node *list)
{
    return list->next == list ? NULL : list->next;
}

/* Put `link`, which is in no list, last. */
static inline void rota_list_push(struct rota_list_node *list, struct rota_list_node *link)
{
    link->previous = list->previous;
    link->next = list;
    list->previous->next = link;
    list->previous = link;
}

/* Take `link` out; no-op when it is in no list. */
static inline void rota_list_remove(struct rota_list_node *link)
{
    if (!link->next)
        return;
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->previous = link->next = NULL;
}
