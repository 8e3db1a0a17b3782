/* node_book: the names of nodes by their addresses, as read from the members of the store.
 *
 * Names of nodes that are gone stay known, since events and histories mention them; when the book
 * is full, new ones are not added. */
#pragma once

#include "base/buffer.h"
#include "base/map.h"

#include <rota/time.h>

enum { ROTA_NODE_BOOK_MAX = 4096 }; /* addresses */

struct rota_node_book {
    struct rota_map by_address; /* of entries, see node_book.c */
};

void rota_node_book_init(struct rota_node_book *book, uint64_t seed);
void rota_node_book_deinit(struct rota_node_book *book);

/* The member at `address` had `name`, which is valid or empty, at its last heartbeat. Without
 * memory nothing changes. */
void rota_node_book_note(struct rota_node_book *book, struct rota_str address, struct rota_str name,
                         rota_time heartbeat);

/* The name of the node at `address`; `address` itself if it is not known or has none. Borrowed
 * from the book or from the argument, as the next. */
struct rota_str rota_node_book_name(const struct rota_node_book *book, struct rota_str address);

/* The address of the node with this name, of several the one with the latest heartbeat; `name`
 * itself if there is none. */
struct rota_str rota_node_book_address(const struct rota_node_book *book, struct rota_str name);

/* Append a sentence with names in place of the addresses in it. */
void rota_node_book_rewrite(const struct rota_node_book *book, struct rota_str text,
                            struct rota_buffer *buffer);

/* Append a list with commas, with addresses in place of the names in it. Entries beyond the first
 * `max` are left out. */
void rota_node_book_resolve(const struct rota_node_book *book, struct rota_str list, size_t max,
                            struct rota_buffer *buffer);
