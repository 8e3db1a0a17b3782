#include "wire/grpc_head.h"

/* --- pairs of text --- */

void rota_grpc_fields_deinit(struct rota_grpc_fields *fields)
{
    rota_buffer_deinit(&fields->text);
    rota_vector_deinit(&fields->places);
    rota_vector_deinit(&fields->pairs);
}

void rota_grpc_fields_clear(struct rota_grpc_fields *fields)
{
    rota_buffer_clear(&fields->text);
    fields->places.size = 0;
}

bool rota_grpc_fields_add(struct rota_grpc_fields *fields, struct rota_str name,
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

enum rota_code rota_grpc_fields_add_metadata(struct rota_grpc_fields *fields,
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
                              "metadata of %zu pairs, at most %d can be sent", n, N_MAX_OURS);
    for (size_t i = 0; i < n; i++) {
        if (!rota_grpc_metadata_is_valid(&pairs[i]))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "metadata %zu: its name or its value can't be sent", i);
        if (pairs[i].value.size > SIZE_MAX_OURS || add_one(fields, &pairs[i]) ||
            fields->text.size + 32 * fields->places.size > SIZE_MAX_OURS)
            return rota_error_set(error, ROTA_ERR_LIMIT,
                                  "metadata of more than %d bytes can't be sent", SIZE_MAX_OURS);
    }
    return ROTA_OK;
}

const struct rota_metadata *rota_grpc_fields_pairs(struct rota_grpc_fields *fields, size_t *n)
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
    rota_grpc_fields_deinit(&head->metadata);
    rota_buffer_deinit(&head->path);
    rota_buffer_deinit(&head->text);
}

void rota_grpc_head_clear(struct rota_grpc_head *head)
{
    memset(&head->timeout, 0, sizeof *head - offsetof(struct rota_grpc_head, timeout));
    head->timeout = ROTA_TIME_NEVER;
    head->status = ROTA_STATUS_UNKNOWN;
    rota_grpc_fields_clear(&head->metadata);
    rota_buffer_clear(&head->path);
    rota_buffer_clear(&head->text);
}

/* "application/grpc", alone or with a subtype or parameters behind it. */
static bool is_grpc(struct rota_str type)
{
    static const char name[] = "application/grpc";
    enum { SIZE = sizeof name - 1 };
    if (type.size < SIZE || memcmp(type.data, name, SIZE) != 0)
        return false;
    return type.size == SIZE || type.data[SIZE] == '+' || type.data[SIZE] == ';';
}

static int http_status(struct rota_str text)
{
    int n = 0;
    for (size_t i = 0; i < text.size && i < 3; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        n = n * 10 + (text.data[i] - '0');
    }
    return n;
}

/* Values of one name may have been joined by commas on the way. */
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
        value.size -= part.size + 1;
        value.data += part.size + 1;
    }
}

enum field {
    FIELD_METHOD,
    FIELD_PATH,
    FIELD_STATUS,
    FIELD_TE,
    FIELD_CONTENT_TYPE,
    FIELD_TIMEOUT,
    FIELD_ENCODING,
    FIELD_GRPC_STATUS,
    FIELD_GRPC_MESSAGE,
    FIELD_IGNORED,
    FIELD_METADATA,
};

static enum field field_of(struct rota_str name)
{
    static const struct {
        struct rota_str name;
        enum field field;
    } known[] = {
        {{":path", 5}, FIELD_PATH},
        {{":method", 7}, FIELD_METHOD},
        {{":status", 7}, FIELD_STATUS},
        {{"te", 2}, FIELD_TE},
        {{"content-type", 12}, FIELD_CONTENT_TYPE},
        {{"grpc-timeout", 12}, FIELD_TIMEOUT},
        {{"grpc-status", 11}, FIELD_GRPC_STATUS},
        {{"grpc-message", 12}, FIELD_GRPC_MESSAGE},
        {{"grpc-encoding", 13}, FIELD_ENCODING},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (name.size == known[i].name.size && name.data[1] == known[i].name.data[1] &&
            memcmp(name.data, known[i].name.data, name.size) == 0)
            return known[i].field;
    bool is_ours = name.size == 0 || name.data[0] == ':' ||
                   (name.size >= 5 && memcmp(name.data, "grpc-", 5) == 0);
    return is_ours ? FIELD_IGNORED : FIELD_METADATA;
}

static void sort_in(struct rota_grpc_head *head, struct rota_str name, struct rota_str value)
{
    switch (field_of(name)) {
    case FIELD_METHOD:
        head->is_post = rota_str_is_equal(value, rota_str("POST"));
        break;
    case FIELD_PATH:
        rota_buffer_append_str(&head->path, value);
        break;
    case FIELD_STATUS:
        head->http_status = http_status(value);
        break;
    case FIELD_TE:
        head->has_te = rota_str_is_equal(value, rota_str("trailers"));
        break;
    case FIELD_CONTENT_TYPE:
        head->is_grpc = is_grpc(value);
        break;
    case FIELD_TIMEOUT:
        head->is_bad_timeout = rota_grpc_timeout_parse(value, &head->timeout) != ROTA_OK;
        break;
    case FIELD_ENCODING:
        head->has_encoding = !rota_str_is_equal(value, rota_str("identity"));
        break;
    case FIELD_GRPC_STATUS:
        head->has_status = true;
        head->status = rota_grpc_status_parse(value);
        break;
    case FIELD_GRPC_MESSAGE:
        rota_buffer_clear(&head->text);
        rota_grpc_percent_decode(&head->text, value);
        break;
    case FIELD_IGNORED:
        break;
    case FIELD_METADATA:
        if (rota_grpc_name_is_binary(name))
            add_binary(head, name, value);
        else if (!rota_grpc_fields_add(&head->metadata, name, value))
            head->is_too_large = true;
        break;
    }
}

void rota_grpc_head_add(struct rota_grpc_head *head, struct rota_str name, struct rota_str value)
{
    size_t size = head->size + name.size + value.size + 32;
    head->size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
    head->n_fields += head->n_fields < UINT32_MAX;
    if (head->size > ROTA_GRPC_HEAD_SIZE_MAX || head->n_fields > ROTA_GRPC_HEAD_FIELDS_MAX)
        head->is_too_large = true;
    if (!head->is_too_large)
        sort_in(head, name, value);
}
