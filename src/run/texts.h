/* texts: the texts of a user's options, copied behind the object that keeps them.
 *
 *     size_t size = rota_text_size(options->name) + rota_text_size(options->task);
 *     struct thing *thing = calloc(1, sizeof *thing + size);
 *     char *to = thing->texts;
 *     thing->options.name = rota_text_keep(&to, options->name); */
#pragma once

#include <stddef.h>
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
