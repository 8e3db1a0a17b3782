/* list: a doubly linked list.
 *
 * Intrusive and circular: the list is a link of its own, an item holds a link and is found from
 * it with ROTA_LIST_ITEM. Nothing here allocates memory. */
#pragma once

#include "base/container.h"

#include <stdbool.h>

struct rota_list_node {
    struct rota_list_node *previous, *next; /* NULL: in no list */
};

#define ROTA_LIST_ITEM(link, type, member) ROTA_CONTAINER(link, type, member)

/* The first item, or NULL. */
#define ROTA_LIST_FIRST(list, type, member)                                                        \
    (rota_list_is_empty(list) ? NULL : ROTA_LIST_ITEM((list)->next, type, member))

/* What these two declare cannot be in parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */

/* Each item in turn; the body may remove it, but not the one after it. */
#define ROTA_LIST_EACH(item, list, type, member)                                                   \
    for (type *item = ROTA_LIST_ITEM((list)->next, type, member),                                  \
              *item##_next = ROTA_LIST_ITEM((item)->member.next, type, member);                    \
         &(item)->member != (list); item = item##_next,                                            \
              item##_next = ROTA_LIST_ITEM((item##_next)->member.next, type, member))

/* The first item, repeatedly until there is none: the body removes it. */
#define ROTA_LIST_DRAIN(item, list, type, member)                                                  \
    for (type * item; ((item) = ROTA_LIST_FIRST(list, type, member));)

/* NOLINTEND(bugprone-macro-parentheses) */

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

/* Put `link`, which is in no list, last. Given a link of a list, put it before that one. */
static inline void rota_list_push(struct rota_list_node *list, struct rota_list_node *link)
{
    link->previous = list->previous;
    link->next = list;
    list->previous->next = link;
    list->previous = link;
}

/* Move all of `from` into `list`, which need not be initialized: what the body of a loop puts into
 * `from` again is not met twice. */
static inline void rota_list_take(struct rota_list_node *list, struct rota_list_node *from)
{
    rota_list_init(list);
    if (rota_list_is_empty(from))
        return;
    *list = *from;
    list->next->previous = list->previous->next = list;
    rota_list_init(from);
}

/* Remove `link`; no-op when it is in no list. */
static inline void rota_list_remove(struct rota_list_node *link)
{
    if (!link->next)
        return;
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->previous = link->next = NULL;
}
