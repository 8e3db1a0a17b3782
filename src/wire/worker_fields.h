/* worker_fields: the fields of the messages between brokers and workers; shared by
 * worker_frame.c and worker_batch.c alone. */
#pragma once

#include "base/buffer.h"
#include "wire/lean.h"

#include <rota/time.h>

enum { ROTA_WORKER_FIELD_MAX = 9 }; /* the highest number of a field that we know */

#define ROTA_WORKER_N(fields)   (sizeof(fields) / sizeof *(fields))
#define ROTA_WORKER_BIT(number) (1u << (number))

/* One field to be written: a number or bytes, and not at all when it is 0 or empty. */
struct rota_worker_field {
    uint32_t number;
    uint64_t value;
    struct rota_str bytes;
};

/* Append a message; or a message that is field `number` of what the buffer holds. */
void rota_worker_fields_write(struct rota_buffer *body, const struct rota_worker_field *fields,
                              size_t n);
void rota_worker_entry_write(struct rota_buffer *body, uint32_t number,
                             const struct rota_worker_field *fields, size_t n);

/* What a message holds: of a field that came twice the last one, as everywhere. */
struct rota_worker_fields {
    uint64_t values[ROTA_WORKER_FIELD_MAX + 1];
    struct rota_str bytes[ROTA_WORKER_FIELD_MAX + 1];
};

/* Read the fields with a bit in `are_bytes` or `are_numbers`, and pass over all others.
 * False when one of them is of another kind, or when it is no message at all. */
bool rota_worker_fields_read(struct rota_str message, unsigned are_bytes, unsigned are_numbers,
                             struct rota_worker_fields *fields);

/* Spans travel in milliseconds: rounded up, so that a short one does not become none. */
static inline uint64_t rota_worker_to_ms(rota_time span)
{
    return span > 0 ? (uint64_t)(span / ROTA_MSEC) + (span % ROTA_MSEC != 0) : 0;
}

/* Longer than a process can live is as good as for ever. */
static inline rota_time rota_worker_from_ms(uint64_t ms)
{
    return ms > (uint64_t)(INT64_MAX / ROTA_MSEC) ? INT64_MAX : (rota_time)ms * ROTA_MSEC;
}
