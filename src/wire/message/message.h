/* message: structs and the bytes of Protocol Buffers, by tables of fields.
 *
 * A type says which member of a struct is which field; one reader and one writer serve all types.
 * Reading copies nothing: texts are borrowed from the bytes, lists and nested messages are in an
 * arena. A reader is strict: it rejects what is malformed, has a wrong type, is above its bound or
 * exceeds its number of entries; it skips unknown fields.
 *
 * Values that are 0 or empty are not written, except for entries of lists. */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"

#include <rota/error.h>
#include <rota/str.h>
#include <stdbool.h>
#include <stdint.h>

enum { ROTA_MESSAGE_DEPTH_MAX = 4 }; /* messages within messages */

enum rota_message_kind {
    ROTA_MESSAGE_UINT,  /* uint64_t */
    ROTA_MESSAGE_INT,   /* int64_t; "int" in a .proto: a negative one takes ten bytes */
    ROTA_MESSAGE_SINT,  /* int64_t; "sint" in a .proto */
    ROTA_MESSAGE_BOOL,  /* bool */
    ROTA_MESSAGE_STR,   /* struct rota_str */
    ROTA_MESSAGE_STRS,  /* struct rota_message_strs */
    ROTA_MESSAGE_INNER, /* const void *, a struct of `type`; NULL: not there */
    ROTA_MESSAGE_INNERS /* struct rota_message_list of such structs */
};

struct rota_message_strs {
    const struct rota_str *items;
    size_t n;
};

struct rota_message_list {
    const void *items; /* an array of the type's structs */
    size_t n;
};

struct rota_message_type;

/* How a value is shown in JSON, see message_json.h. */
enum rota_message_form {
    ROTA_MESSAGE_PLAIN,  /* a number; a text */
    ROTA_MESSAGE_BYTES,  /* a STR that may be any bytes */
    ROTA_MESSAGE_HEX,    /* a STR of few bytes */
    ROTA_MESSAGE_PACKED, /* a STR that is a packed list of numbers, never in JSON */
};

struct rota_message_field {
    const char *name; /* as the .proto has it */
    uint8_t number;
    enum rota_message_kind kind;
    size_t offset;
    enum rota_message_form form;
    const char *(*name_of)(uint64_t value); /* of a UINT with named values; NULL for others */
    uint64_t max; /* of a number, or entries of a list; 0: any number, 4096 entries */
    const struct rota_message_type *type; /* of INNER and INNERS */
};

struct rota_message_reader;

struct rota_message_type {
    const char *name; /* for errors: "request" */
    size_t size;      /* of the struct */
    const struct rota_message_field *fields;
    size_t n_fields;

    /* Writers and a reader for it alone, see message_code.h; NULL for most. */
    uint8_t *(*put)(struct rota_buffer *buffer, uint8_t *at, const void *message);
    uint8_t *(*put_list)(struct rota_buffer *buffer, uint8_t *at, uint32_t number,
                         const void *messages, size_t n);
    enum rota_code (*get)(struct rota_message_reader *reader, struct rota_str bytes, void *message);
};

/* Name kind and member together, so that the compiler refuses another type:
 *
 *     {.number = 1, ROTA_MESSAGE_INTO(UINT, struct poll, lease_ms)} */
#define ROTA_MESSAGE_INTO(the_kind, result, member)                                                \
    .kind = ROTA_MESSAGE_##the_kind,                                                               \
    .offset = offsetof(result, member) +                                                           \
              0 * sizeof(_Generic(((result *)0)->member, ROTA_MESSAGE_C_##the_kind : 0))
#define ROTA_MESSAGE_C_UINT   uint64_t
#define ROTA_MESSAGE_C_INT    int64_t
#define ROTA_MESSAGE_C_SINT   int64_t
#define ROTA_MESSAGE_C_BOOL   bool
#define ROTA_MESSAGE_C_STR    struct rota_str
#define ROTA_MESSAGE_C_STRS   struct rota_message_strs
#define ROTA_MESSAGE_C_INNER  const void *
#define ROTA_MESSAGE_C_INNERS struct rota_message_list

/* Append a message; whether memory sufficed is asked of the buffer. The second as entry of
 * the list that is field `number` of the message that the buffer holds. */
void rota_message_encode(const struct rota_message_type *type, const void *message,
                         struct rota_buffer *buffer);
void rota_message_encode_entry(const struct rota_message_type *type, uint32_t number,
                               const void *message, struct rota_buffer *buffer);

/* Decode one into the struct `message`, all of it. `bytes` are kept by reference. On failure it
 * is all zero: ROTA_ERR_INVALID for malformed bytes, ROTA_ERR_LIMIT for too much. */
enum rota_code rota_message_decode(const struct rota_message_type *type, struct rota_str bytes,
                                   void *message, struct rota_arena *arena,
                                   struct rota_error *error);
