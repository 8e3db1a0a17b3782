#include "core/place/node_book.h"

#include "base/text.h"
#include "core/place/node_name.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    rota_time heartbeat;
    size_t name_size, address_size;
    char name[ROTA_NODE_NAME_MAX];
    char address[];
};

void rota_node_book_init(struct rota_node_book *book, uint64_t seed)
{
    rota_map_init(&book->by_address, seed);
}

void rota_node_book_deinit(struct rota_node_book *book)
{
    rota_map_deinit_values(&book->by_address);
}

static struct entry *add_entry(struct rota_node_book *book, struct rota_str address)
{
    struct entry *entry =
        book->by_address.size < ROTA_NODE_BOOK_MAX ? calloc(1, sizeof *entry + address.size) : NULL;
    if (!entry)
        return NULL;
    memcpy(entry->address, address.data, address.size);
    entry->address_size = address.size;
    if (rota_map_put(&book->by_address, rota_str_of(entry->address, address.size), entry))
        return entry;
    free(entry);
    return NULL;
}

void rota_node_book_note(struct rota_node_book *book, struct rota_str address, struct rota_str name,
                         rota_time heartbeat)
{
    struct entry *entry = rota_map_get(&book->by_address, address);
    if (!entry && address.size > 0)
        entry = add_entry(book, address);
    if (!entry || name.size > sizeof entry->name)
        return;
    if (name.size > 0)
        memcpy(entry->name, name.data, name.size);
    entry->name_size = name.size;
    entry->heartbeat = heartbeat;
}

struct rota_str rota_node_book_name(const struct rota_node_book *book, struct rota_str address)
{
    const struct entry *entry = rota_map_get(&book->by_address, address);
    return entry && entry->name_size > 0 ? rota_str_of(entry->name, entry->name_size) : address;
}

struct rota_str rota_node_book_address(const struct rota_node_book *book, struct rota_str name)
{
    const struct entry *latest = NULL;
    size_t place = 0;
    for (const struct rota_map_entry *at;
         name.size > 0 && (at = rota_map_next(&book->by_address, &place));) {
        const struct entry *entry = at->value;
        if (rota_str_is_equal(rota_str_of(entry->name, entry->name_size), name) &&
            (!latest || entry->heartbeat > latest->heartbeat))
            latest = entry;
    }
    return latest ? rota_str_of(latest->address, latest->address_size) : name;
}

/* Whether `c` may be in an address. */
static bool is_of_address(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-:[]%", c));
}

/* A full stop or a colon after an address ends it. */
static size_t word_size(struct rota_str text)
{
    size_t size = 0;
    while (size < text.size && is_of_address(text.data[size]))
        size++;
    while (size > 1 && (text.data[size - 1] == '.' || text.data[size - 1] == ':'))
        size--;
    return size;
}

void rota_node_book_rewrite(const struct rota_node_book *book, struct rota_str text,
                            struct rota_buffer *buffer)
{
    while (text.size > 0) {
        size_t size = word_size(text);
        struct rota_str word = rota_text_cut(&text, size > 0 ? size : 1);
        rota_buffer_append_str(buffer, rota_node_book_name(book, word));
    }
}

void rota_node_book_resolve(const struct rota_node_book *book, struct rota_str list, size_t max,
                            struct rota_buffer *buffer)
{
    for (size_t i = 0; i < max && list.size > 0; i++) {
        struct rota_str name = rota_text_cut_at(&list, ',');
        rota_buffer_append_text(buffer, i == 0 ? "" : ",");
        rota_buffer_append_str(buffer, rota_node_book_address(book, name));
    }
}
