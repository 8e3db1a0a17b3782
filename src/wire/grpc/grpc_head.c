#include "wire/grpc/grpc_head.h"

/* --- pairs of text --- */

void rota_grpc_head_fields_deinit(struct rota_grpc_fields *fields)
{
    rota_buffer_deinit(&fields->text);
    rota_vector_deinit(&fields->places);
    rota_vector_deinit(&fields->pairs);
}

void rota_grpc_head_fields_clear(struct rota_grpc_fields *fields)
{
    rota_buffer_clear(&fields->text);
    fields->places.size = 0;
}

bool rota_grpc_head_fields_add(struct rota_grpc_fields *fields, struct rota_str name,
                               struct rota_str value)
{
    struct rota_grpc_field place = {fields->text.size, name.size, value.size};
    rota_buffer_append_str(&fields->text, name);
    rota_buffer_append_str(&fields->text, value);
    return !fields->text.failed && rota_vector_push(&fields->places, place);
}

static enum rota_code add_one(struct rota_grpc_fields *fields, const struct rota_metadata *pair)
{
    struct rota_grpc_field place = {fields->text.size, pair->name.size, 0};
    rota_buffer_append_str(&fields->text, pair->name);
    size_t before = fields->text.size;
    if (rota_grpc_name_is_binary(pair->name))
        rota_grpc_base64_encode(&fields->text, pair->value);
    else
        rota_buffer_append_str(&fields->text, pair->value);
    place.value_size = fields->text.size - before;
    bool fits = !fields->text.failed && rota_vector_push(&fields->places, place);
    return fits ? ROTA_OK : ROTA_ERR_NO_MEMORY;
}

enum rota_code rota_grpc_head_fields_add_metadata(struct rota_grpc_fields *fields,
                                                  const struct rota_metadata *pairs, size_t n,
                                                  struct rota_error *error)
{
    /* Room is left for the fields that gRPC itself needs. */
    enum {
        SIZE_MAX_OURS = ROTA_GRPC_HEAD_SIZE_MAX / 2,
        N_MAX_OURS = ROTA_GRPC_HEAD_FIELDS_MAX / 2
    };
    if (n > N_MAX_OURS)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the metadata has %zu pairs; at most %d can be sent", n, N_MAX_OURS);
    for (size_t i = 0; i < n; i++) {
        if (!rota_grpc_metadata_is_valid(&pairs[i]))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "metadata pair %zu: invalid name or value", i);
        if (pairs[i].value.size > SIZE_MAX_OURS || add_one(fields, &pairs[i]) ||
            fields->text.size + 32 * fields->places.size > SIZE_MAX_OURS)
            return rota_error_set(error, ROTA_ERR_LIMIT,
                                  "metadata of more than %d bytes cannot be sent", SIZE_MAX_OURS);
    }
    return ROTA_OK;
}

const struct rota_metadata *rota_grpc_head_fields_pairs(struct rota_grpc_fields *fields, size_t *n)
{
    *n = 0;
    if (!rota_vector_reserve(&fields->pairs, fields->places.size))
        return NULL;
    for (size_t i = 0; i < fields->places.size; i++) {
        const struct rota_grpc_field *place = &fields->places.items[i];
        const char *name = fields->text.data + place->at;
        fields->pairs.items[i] = (struct rota_metadata){
            {name, place->name_size}, {name + place->name_size, place->value_size}};
    }
    *n = fields->places.size;
    return fields->pairs.items;
}

/* --- a head --- */

void rota_grpc_head_deinit(struct rota_grpc_head *head)
{
    rota_grpc_head_fields_deinit(&head->metadata);
    rota_buffer_deinit(&head->path);
    rota_buffer_deinit(&head->text);
}

void rota_grpc_head_clear(struct rota_grpc_head *head)
{
    memset(&head->timeout, 0, sizeof *head - offsetof(struct rota_grpc_head, timeout));
    head->timeout = ROTA_TIME_NEVER;
    head->status = ROTA_STATUS_UNKNOWN;
    head->content_length = -1;
    rota_grpc_head_fields_clear(&head->metadata);
    rota_buffer_clear(&head->path);
    rota_buffer_clear(&head->text);
}

bool rota_grpc_head_copy(struct rota_grpc_head *head, const struct rota_grpc_head *from)
{
    const struct rota_grpc_fields *fields = &from->metadata;
    size_t n = fields->places.size;
    if (!rota_vector_reserve(&head->metadata.places, n))
        return false;
    if (n > 0)
        memcpy(head->metadata.places.items, fields->places.items, n * sizeof *fields->places.items);
    head->metadata.places.size = n;
    rota_buffer_append_str(&head->metadata.text, rota_buffer_str(&fields->text));
    rota_buffer_append_str(&head->path, rota_buffer_str(&from->path));
    rota_buffer_append_str(&head->text, rota_buffer_str(&from->text));
    memcpy(&head->timeout, &from->timeout, sizeof *head - offsetof(struct rota_grpc_head, timeout));
    return !head->metadata.text.failed && !head->path.failed && !head->text.failed;
}

/* "application/grpc", alone or followed by a subtype or parameters. */
static bool is_grpc(struct rota_str type)
{
    static const char name[] = "application/grpc";
    enum { SIZE = sizeof name - 1 };
    if (type.size < SIZE || memcmp(type.data, name, SIZE) != 0)
        return false;
    return type.size == SIZE || type.data[SIZE] == '+' || type.data[SIZE] == ';';
}

/* Only digits, and no more than fit. */
static int64_t parse_number(struct rota_str text)
{
    int64_t n = 0;
    for (size_t i = 0; i < text.size; i++)
        n = n * 10 + (text.data[i] - '0');
    return n;
}

/* Count a field as HTTP/2 does. */
static void count_field(struct rota_grpc_head *head, size_t name_size, size_t value_size)
{
    size_t size = head->size + name_size + value_size + 32;
    head->size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
    head->n_fields += head->n_fields < UINT32_MAX;
    if (head->size > ROTA_GRPC_HEAD_SIZE_MAX || head->n_fields > ROTA_GRPC_HEAD_FIELDS_MAX)
        head->is_too_large = true;
}

/* Values of one name may have been joined by commas on the way. Each is a field of
 * its own here, so each is counted as one: the name is kept with all of them. */
static void add_binary(struct rota_grpc_head *head, struct rota_str name, struct rota_str value)
{
    for (;;) {
        const char *comma = value.size ? memchr(value.data, ',', value.size) : NULL;
        struct rota_str part = {value.data, comma ? (size_t)(comma - value.data) : value.size};
        struct rota_buffer *text = &head->metadata.text;
        struct rota_grpc_field place = {text->size, name.size, 0};
        rota_buffer_append_str(text, name);
        if (rota_grpc_base64_decode(text, part)) {
            text->size = place.at; /* not base64: as good as not there */
        } else {
            place.value_size = text->size - place.at - name.size;
            if (text->failed || !rota_vector_push(&head->metadata.places, place))
                head->is_too_large = true;
        }
        if (!comma)
            return;
        count_field(head, name.size, 0);
        if (head->is_too_large)
            return;
        value.size -= part.size + 1;
        value.data += part.size + 1;
    }
}

void rota_grpc_head_begin(struct rota_grpc_head *head, enum rota_grpc_part part)
{
    head->part = part;
    head->has_plain = false;
}

enum {
    REQUEST_KINDS =
        1 << ROTA_GRPC_FIELD_METHOD | 1 << ROTA_GRPC_FIELD_SCHEME | 1 << ROTA_GRPC_FIELD_PATH,
    AUTHORITY_KINDS = 1 << ROTA_GRPC_FIELD_AUTHORITY | 1 << ROTA_GRPC_FIELD_HOST,
    REPLY_KINDS = 1 << ROTA_GRPC_FIELD_STATUS,
    ONCE_KINDS =
        REQUEST_KINDS | AUTHORITY_KINDS | REPLY_KINDS | 1 << ROTA_GRPC_FIELD_CONTENT_LENGTH,
};

/* May a field of this kind appear here, after the previous ones? */
static bool is_in_place(struct rota_grpc_head *head, enum rota_grpc_kind kind)
{
    uint32_t bit = UINT32_C(1) << kind;
    if (kind > ROTA_GRPC_FIELD_STATUS)
        head->has_plain = true;
    else if (head->has_plain || head->part == ROTA_GRPC_TRAILERS ||
             (kind == ROTA_GRPC_FIELD_STATUS) != (head->part == ROTA_GRPC_REPLY))
        return false;
    if (!(bit & ONCE_KINDS))
        return true;
    bool is_first = !(head->seen & bit);
    head->seen |= bit;
    return is_first;
}

static void sort_in(struct rota_grpc_head *head, enum rota_grpc_kind kind, struct rota_str name,
                    struct rota_str value)
{
    switch (kind) {
    case ROTA_GRPC_FIELD_METHOD:
        head->is_post = rota_str_is_equal(value, rota_str("POST"));
        break;
    case ROTA_GRPC_FIELD_PATH:
        rota_buffer_append_str(&head->path, value);
        break;
    case ROTA_GRPC_FIELD_STATUS:
        head->http_status = (int)parse_number(value);
        break;
    case ROTA_GRPC_FIELD_TE:
        head->has_te = true;
        break;
    case ROTA_GRPC_FIELD_CONTENT_TYPE:
        head->is_grpc = is_grpc(value);
        break;
    case ROTA_GRPC_FIELD_CONTENT_LENGTH:
        head->content_length = parse_number(value);
        break;
    case ROTA_GRPC_FIELD_TIMEOUT:
        head->is_bad_timeout = rota_grpc_timeout_parse(value, &head->timeout) != ROTA_OK;
        break;
    case ROTA_GRPC_FIELD_ENCODING:
        head->encoding = rota_grpc_encoding_parse(value);
        break;
    case ROTA_GRPC_FIELD_GRPC_STATUS:
        head->has_status = true;
        head->status = rota_grpc_status_parse(value);
        break;
    case ROTA_GRPC_FIELD_GRPC_MESSAGE:
        rota_buffer_clear(&head->text);
        rota_grpc_percent_decode(&head->text, value);
        break;
    case ROTA_GRPC_FIELD_BINARY:
        add_binary(head, name, value);
        break;
    case ROTA_GRPC_FIELD_HOST:
    case ROTA_GRPC_FIELD_METADATA:
        if (!rota_grpc_head_fields_add(&head->metadata, name, value))
            head->is_too_large = true;
        break;
    case ROTA_GRPC_FIELD_SCHEME:
    case ROTA_GRPC_FIELD_AUTHORITY:
    case ROTA_GRPC_FIELD_IGNORED:
    case ROTA_GRPC_FIELD_DROPPED:
    case ROTA_GRPC_FIELD_MALFORMED:
        break;
    }
}

void rota_grpc_head_add(struct rota_grpc_head *head, enum rota_grpc_kind kind, struct rota_str name,
                        struct rota_str value)
{
    count_field(head, name.size, value.size);
    if (kind == ROTA_GRPC_FIELD_MALFORMED || !is_in_place(head, kind))
        head->is_malformed = true;
    if (!head->is_too_large && !head->is_malformed)
        sort_in(head, kind, name, value);
}

bool rota_grpc_head_end(struct rota_grpc_head *head)
{
    switch (head->part) {
    case ROTA_GRPC_REQUEST:
        if ((head->seen & REQUEST_KINDS) != REQUEST_KINDS || !(head->seen & AUTHORITY_KINDS))
            head->is_malformed = true;
        else if (head->path.size > 0 && head->path.data[0] != '/')
            head->is_malformed = head->is_malformed || head->is_post;
        break;
    case ROTA_GRPC_REPLY:
        head->is_malformed = head->is_malformed || !(head->seen & REPLY_KINDS);
        break;
    case ROTA_GRPC_TRAILERS:
        break;
    }
    return !head->is_malformed;
}
