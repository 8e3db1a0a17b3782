/* text: pieces of a text that are cut off in front, and copies at the end of the object that keeps
 * them:
 *
 *     size_t size = rota_text_size(options->name) + zone.size;
 *     struct thing *thing = calloc(1, sizeof *thing + size);
 *     char *to = thing->texts;
 *     thing->options.name = rota_text_keep(&to, options->name);
 *     thing->zone = rota_text_put(&to, zone); */
#pragma once

#include <rota/str.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that a copy takes; none for NULL. */
static inline size_t rota_text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* Copy `text` to `*to`, which moves on; NULL stays NULL. */
static inline const char *rota_text_keep(char **to, const char *text)
{
    char *copy = text ? (char *)memcpy(*to, text, rota_text_size(text)) : NULL;
    *to += rota_text_size(text);
    return copy;
}

static inline struct rota_str rota_text_put(char **to, struct rota_str text)
{
    if (text.size == 0)
        return rota_str_of("", 0);
    memcpy(*to, text.data, text.size);
    *to += text.size;
    return rota_str_of(*to - text.size, text.size);
}

/* A copy on the heap, NUL-terminated; NULL if out of memory. */
static inline char *rota_text_copy(struct rota_str text)
{
    char *copy = malloc(text.size + 1);
    if (!copy)
        return NULL;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

/* Cut off the first bytes, `size` of them or all. */
static inline struct rota_str rota_text_cut(struct rota_str *rest, size_t size)
{
    struct rota_str cut = {rest->data, size < rest->size ? size : rest->size};
    rest->data += cut.size;
    rest->size -= cut.size;
    return cut;
}

/* Cut off and return what is before the first `c`, and drop the `c`; everything, if there is
 * none. */
static inline struct rota_str rota_text_cut_at(struct rota_str *rest, char c)
{
    const char *found = rest->size ? memchr(rest->data, c, rest->size) : NULL;
    struct rota_str cut = rota_text_cut(rest, found ? (size_t)(found - rest->data) : rest->size);
    if (found)
        rota_text_cut(rest, 1);
    return cut;
}

/* Cut off a line; "\n" and "\r\n" end it. */
static inline struct rota_str rota_text_cut_line(struct rota_str *rest)
{
    struct rota_str line = rota_text_cut_at(rest, '\n');
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    return line;
}
