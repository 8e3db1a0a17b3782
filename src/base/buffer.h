/* Bytes that grow at the end.
 *
 * The caller need not check each append: when memory runs out the buffer turns `failed`, ignores
 * what follows, and the caller checks that once at the end. A buffer starts zeroed. */
#pragma once

#include <rota/str.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct rota_buffer {
    char *data; /* always followed by a NUL when not NULL */
    size_t size, capacity;
    bool failed;
};

void rota_buffer_deinit(struct rota_buffer *buffer);

/* Forget the content and the failure, keep the memory. */
void rota_buffer_clear(struct rota_buffer *buffer);

void rota_buffer_append(struct rota_buffer *buffer, const void *data, size_t size);
void rota_buffer_append_str(struct rota_buffer *buffer, struct rota_str str);
void rota_buffer_append_text(struct rota_buffer *buffer, const char *text);
void rota_buffer_append_char(struct rota_buffer *buffer, char c);
void rota_buffer_print(struct rota_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Grow by `size` bytes that the caller fills at once; NULL when
 * the buffer has failed. */
char *rota_buffer_extend(struct rota_buffer *buffer, size_t size);

/* The content so far, borrowed until the next append. */
static inline struct rota_str rota_buffer_str(const struct rota_buffer *buffer)
{
    return (struct rota_str){buffer->data ? buffer->data : "", buffer->size};
}
