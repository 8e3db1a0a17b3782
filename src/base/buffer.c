#include "base/buffer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void rota_buffer_deinit(struct rota_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct rota_buffer){0};
}

void rota_buffer_clear(struct rota_buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
    if (buffer->data)
        buffer->data[0] = '\0';
}

/* Room for `size` more bytes and the NUL after them. */
static bool reserve_room(struct rota_buffer *buffer, size_t size)
{
    if (buffer->failed)
        return false;
    if (size < buffer->capacity - buffer->size)
        return true;
    if (size > SIZE_MAX / 4 || buffer->size > SIZE_MAX / 4)
        goto fail;

    size_t grown = buffer->capacity * 2;
    if (grown < 64)
        grown = 64;
    if (grown < buffer->size + size + 1)
        grown = buffer->size + size + 1;
    char *moved = realloc(buffer->data, grown);
    if (!moved)
        goto fail;
    buffer->data = moved;
    buffer->capacity = grown;
    return true;

fail:
    buffer->failed = true;
    return false;
}

void rota_buffer_append(struct rota_buffer *buffer, const void *data, size_t size)
{
    if (size == 0 || !reserve_room(buffer, size))
        return;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
}

void rota_buffer_append_str(struct rota_buffer *buffer, struct rota_str str)
{
    rota_buffer_append(buffer, str.data, str.size);
}

void rota_buffer_append_text(struct rota_buffer *buffer, const char *text)
{
    rota_buffer_append(buffer, text, strlen(text));
}

void rota_buffer_append_char(struct rota_buffer *buffer, char c)
{
    rota_buffer_append(buffer, &c, 1);
}

void rota_buffer_print(struct rota_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size < 0) {
        buffer->failed = true;
        return;
    }
    if (!reserve_room(buffer, (size_t)size))
        return;
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)size;
}

char *rota_buffer_extend(struct rota_buffer *buffer, size_t size)
{
    if (!reserve_room(buffer, size))
        return NULL;
    char *added = buffer->data + buffer->size;
    buffer->size += size;
    buffer->data[buffer->size] = '\0';
    return added;
}
