#include "wire/http2/hpack.h"

#include <assert.h>
#include <stdlib.h>

enum { ENTRY_COST = 32, FIRST_DYNAMIC = ROTA_HPACK_STATICS + 1 };

static const struct static_field {
    const char *name, *value;
} statics[ROTA_HPACK_STATICS + 1] = {
    {"", ""},
    {":authority", ""},
    {":method", "GET"},
    {":method", "POST"},
    {":path", "/"},
    {":path", "/index.html"},
    {":scheme", "http"},
    {":scheme", "https"},
    {":status", "200"},
    {":status", "204"},
    {":status", "206"},
    {":status", "304"},
    {":status", "400"},
    {":status", "404"},
    {":status", "500"},
    {"accept-charset", ""},
    {"accept-encoding", "gzip, deflate"},
    {"accept-language", ""},
    {"accept-ranges", ""},
    {"accept", ""},
    {"access-control-allow-origin", ""},
    {"age", ""},
    {"allow", ""},
    {"authorization", ""},
    {"cache-control", ""},
    {"content-disposition", ""},
    {"content-encoding", ""},
    {"content-language", ""},
    {"content-length", ""},
    {"content-location", ""},
    {"content-range", ""},
    {"content-type", ""},
    {"cookie", ""},
    {"date", ""},
    {"etag", ""},
    {"expect", ""},
    {"expires", ""},
    {"from", ""},
    {"host", ""},
    {"if-match", ""},
    {"if-modified-since", ""},
    {"if-none-match", ""},
    {"if-range", ""},
    {"if-unmodified-since", ""},
    {"last-modified", ""},
    {"link", ""},
    {"location", ""},
    {"max-forwards", ""},
    {"proxy-authenticate", ""},
    {"proxy-authorization", ""},
    {"range", ""},
    {"referer", ""},
    {"refresh", ""},
    {"retry-after", ""},
    {"server", ""},
    {"set-cookie", ""},
    {"strict-transport-security", ""},
    {"transfer-encoding", ""},
    {"user-agent", ""},
    {"vary", ""},
    {"via", ""},
    {"www-authenticate", ""},
};

/* --- the table --- */

static void table_deinit(struct rota_hpack_table *table)
{
    rota_buffer_deinit(&table->text);
    free(table->entries);
}

static struct rota_hpack_entry *entry_at(const struct rota_hpack_table *table, uint32_t count)
{
    return &table->entries[count & (table->capacity - 1)];
}

static struct rota_str entry_name(const struct rota_hpack_table *table,
                                  const struct rota_hpack_entry *entry)
{
    return rota_str_of(table->text.data + entry->at, entry->name_size);
}

static struct rota_str entry_value(const struct rota_hpack_table *table,
                                   const struct rota_hpack_entry *entry)
{
    return rota_str_of(table->text.data + entry->at + entry->name_size, entry->value_size);
}

/* Drop the oldest until no more than `size` is left. */
static void shrink_to(struct rota_hpack_table *table, uint32_t size)
{
    while (table->size > size) {
        const struct rota_hpack_entry *oldest = entry_at(table, table->n_added - table->n);
        table->size -= (uint32_t)oldest->name_size + oldest->value_size + ENTRY_COST;
        table->n--;
    }
}

static void resize_table(struct rota_hpack_table *table, uint32_t size_max)
{
    table->size_max = size_max;
    shrink_to(table, size_max);
}

static bool has_ring_room(struct rota_hpack_table *table)
{
    if (table->n < table->capacity)
        return true;
    uint32_t capacity = table->capacity ? table->capacity * 2 : 16;
    struct rota_hpack_entry *entries = malloc(capacity * sizeof *entries);
    if (!entries)
        return false;
    for (uint32_t i = table->n_added - table->n; i != table->n_added; i++)
        entries[i & (capacity - 1)] = *entry_at(table, i);
    free(table->entries);
    table->entries = entries;
    table->capacity = capacity;
    return true;
}

/* Texts of dropped entries are at the front; when there are many, the rest moves there. */
static void compact_table(struct rota_hpack_table *table)
{
    uint32_t oldest = table->n_added - table->n, gone = entry_at(table, oldest)->at;
    if (gone <= ROTA_HPACK_TABLE_MAX)
        return;
    table->text.size -= gone;
    memmove(table->text.data, table->text.data + gone, table->text.size);
    for (uint32_t i = oldest; i != table->n_added; i++)
        entry_at(table, i)->at -= gone;
}

/* Append the text of a new entry. The name may be that of an older entry, even of one that was
 * just dropped. */
static bool append_text(struct rota_buffer *text, struct rota_str name, struct rota_str value)
{
    uintptr_t begin = (uintptr_t)text->data, at = (uintptr_t)name.data;
    bool is_own = text->data && at >= begin && at < begin + text->size;
    char *to = rota_buffer_extend(text, name.size + value.size);
    if (!to)
        return false;
    if (is_own)
        name.data = text->data + (at - begin);
    if (name.size > 0)
        memcpy(to, name.data, name.size);
    if (value.size > 0)
        memcpy(to + name.size, value.data, value.size);
    return true;
}

/* Gives the new entry; NULL when it does not fit into the table, which is empty then. False when
 * there is no memory. */
static bool table_add(struct rota_hpack_table *table, struct rota_str name, struct rota_str value,
                      struct rota_hpack_entry **result)
{
    size_t cost = name.size + value.size + ENTRY_COST;
    *result = NULL;
    if (cost > table->size_max) {
        shrink_to(table, 0);
        return true;
    }
    shrink_to(table, table->size_max - (uint32_t)cost);
    uint32_t at = (uint32_t)table->text.size;
    if (!has_ring_room(table) || !append_text(&table->text, name, value))
        return false;
    struct rota_hpack_entry *entry = entry_at(table, table->n_added);
    *entry = (struct rota_hpack_entry){
        .at = at, .name_size = (uint16_t)name.size, .value_size = (uint16_t)value.size};
    table->n_added++;
    table->n++;
    table->size += (uint32_t)cost;
    compact_table(table);
    *result = entry;
    return true;
}

/* --- reading --- */

void rota_hpack_decoder_init(struct rota_hpack_decoder *decoder)
{
    memset(decoder, 0, sizeof *decoder);
    decoder->table.size_max = ROTA_HPACK_TABLE_MAX;
}

void rota_hpack_decoder_deinit(struct rota_hpack_decoder *decoder)
{
    table_deinit(&decoder->table);
    rota_buffer_deinit(&decoder->name);
    rota_buffer_deinit(&decoder->value);
}

/* An integer whose first bits are the lower `n_bits` of the first byte. More than 28 bits are
 * rejected: nothing here is that large. */
static bool take_number(struct rota_str *bytes, unsigned n_bits, uint32_t *number)
{
    uint32_t mask = (1U << n_bits) - 1, n = (unsigned char)bytes->data[0] & mask;
    size_t at = 1;
    if (n == mask) {
        for (unsigned shift = 0;; shift += 7) {
            if (at >= bytes->size || shift > 21)
                return false;
            unsigned char byte = (unsigned char)bytes->data[at++];
            n += (uint32_t)(byte & 127) << shift;
            if (byte < 128)
                break;
        }
    }
    bytes->data += at;
    bytes->size -= at;
    *number = n;
    return true;
}

/* A string, in place when it is plain, else unpacked into `unpacked`. */
static enum rota_code take_string(struct rota_str *bytes, struct rota_buffer *unpacked,
                                  struct rota_str *string)
{
    uint32_t size;
    if (bytes->size == 0)
        return ROTA_ERR_INVALID;
    bool is_huffman = bytes->data[0] & 0x80;
    if (!take_number(bytes, 7, &size) || size > bytes->size)
        return ROTA_ERR_INVALID;
    *string = (struct rota_str){bytes->data, size};
    bytes->data += size;
    bytes->size -= size;
    if (!is_huffman)
        return ROTA_OK;
    rota_buffer_clear(unpacked);
    enum rota_code code = rota_hpack_huffman_decode(unpacked, *string);
    *string = rota_buffer_str(unpacked);
    return code;
}

static struct rota_hpack_entry *entry_of(const struct rota_hpack_table *table, uint32_t number)
{
    uint32_t age = number - FIRST_DYNAMIC;
    return age < table->n ? entry_at(table, table->n_added - 1 - age) : NULL;
}

static bool name_of(const struct rota_hpack_table *table, uint32_t number, struct rota_str *name)
{
    if (number <= ROTA_HPACK_STATICS) {
        *name = rota_str(statics[number].name);
        return true;
    }
    const struct rota_hpack_entry *entry = entry_of(table, number);
    if (entry)
        *name = entry_name(table, entry);
    return entry;
}

static enum rota_code take_literal(struct rota_hpack_decoder *decoder, struct rota_str *bytes,
                                   unsigned n_bits, rota_hpack_on_field *on_field, void *data)
{
    struct rota_hpack_table *table = &decoder->table;
    struct rota_hpack_entry *entry = NULL;
    struct rota_str name, value;
    uint32_t number;
    bool is_kept = n_bits == 6;
    if (!take_number(bytes, n_bits, &number))
        return ROTA_ERR_INVALID;
    enum rota_code code = ROTA_OK;
    if (number == 0)
        code = take_string(bytes, &decoder->name, &name);
    else if (!name_of(table, number, &name))
        code = ROTA_ERR_INVALID;
    if (code || (code = take_string(bytes, &decoder->value, &value)))
        return code;
    if (is_kept && !table_add(table, name, value, &entry))
        return ROTA_ERR_NO_MEMORY;
    if (entry) {
        on_field(data, entry_name(table, entry), entry_value(table, entry), &entry->note);
        return ROTA_OK;
    }
    on_field(data, name, value, NULL);
    return ROTA_OK;
}

static void free_large(struct rota_buffer *buffer)
{
    if (buffer->capacity > ROTA_HPACK_TABLE_MAX)
        rota_buffer_deinit(buffer);
}

enum rota_code rota_hpack_decode(struct rota_hpack_decoder *decoder, struct rota_str block,
                                 rota_hpack_on_field *on_field, void *data)
{
    struct rota_hpack_table *table = &decoder->table;
    bool is_begun = false;
    while (block.size > 0) {
        unsigned char first = (unsigned char)block.data[0];
        uint32_t number;
        enum rota_code code = ROTA_OK;
        if (first & 0x80) {
            if (!take_number(&block, 7, &number) || number == 0)
                return ROTA_ERR_INVALID;
            if (number <= ROTA_HPACK_STATICS) {
                on_field(data, rota_str(statics[number].name), rota_str(statics[number].value),
                         &decoder->static_notes[number]);
            } else {
                struct rota_hpack_entry *entry = entry_of(table, number);
                if (!entry)
                    return ROTA_ERR_INVALID;
                on_field(data, entry_name(table, entry), entry_value(table, entry), &entry->note);
            }
        } else if (first & 0x40) {
            code = take_literal(decoder, &block, 6, on_field, data);
        } else if (first & 0x20) { /* a new size for the table, before all fields */
            if (is_begun || !take_number(&block, 5, &number) || number > ROTA_HPACK_TABLE_MAX)
                return ROTA_ERR_INVALID;
            resize_table(table, number);
            continue;
        } else {
            code = take_literal(decoder, &block, 4, on_field, data);
        }
        if (code)
            return code;
        is_begun = true;
    }
    free_large(&decoder->name);
    free_large(&decoder->value);
    return ROTA_OK;
}

/* --- writing --- */

void rota_hpack_encoder_init(struct rota_hpack_encoder *encoder)
{
    memset(encoder, 0, sizeof *encoder);
    encoder->table.size_max = encoder->told_max = encoder->lowest_max = ROTA_HPACK_TABLE_MAX;
}

void rota_hpack_encoder_deinit(struct rota_hpack_encoder *encoder)
{
    table_deinit(&encoder->table);
}

void rota_hpack_encoder_limit(struct rota_hpack_encoder *encoder, uint32_t size_max)
{
    if (size_max > ROTA_HPACK_TABLE_MAX)
        size_max = ROTA_HPACK_TABLE_MAX;
    resize_table(&encoder->table, size_max);
    if (size_max < encoder->lowest_max)
        encoder->lowest_max = size_max;
}

static void put_number(struct rota_buffer *out, unsigned first, unsigned n_bits, size_t number)
{
    size_t mask = (1U << n_bits) - 1;
    if (number < mask) {
        rota_buffer_append_char(out, (char)(first | number));
        return;
    }
    rota_buffer_append_char(out, (char)(first | mask));
    for (number -= mask; number >= 128; number >>= 7)
        rota_buffer_append_char(out, (char)(number | 128));
    rota_buffer_append_char(out, (char)number);
}

static void put_string(struct rota_buffer *out, struct rota_str string)
{
    put_number(out, 0, 7, string.size);
    rota_buffer_append_str(out, string);
}

void rota_hpack_begin(struct rota_hpack_encoder *encoder, struct rota_buffer *out)
{
    uint32_t size_max = encoder->table.size_max;
    if (encoder->lowest_max < encoder->told_max && encoder->lowest_max < size_max)
        put_number(out, 0x20, 5, encoder->lowest_max);
    if (size_max != encoder->told_max || encoder->lowest_max < encoder->told_max)
        put_number(out, 0x20, 5, size_max);
    encoder->told_max = encoder->lowest_max = size_max;
}

void rota_hpack_put_static(struct rota_buffer *out, enum rota_hpack_static field)
{
    rota_buffer_append_char(out, (char)(0x80 | (unsigned)field));
}

static uint64_t mix(uint64_t hash, struct rota_str text)
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t word;
    for (; text.size >= sizeof word; text.data += sizeof word, text.size -= sizeof word) {
        memcpy(&word, text.data, sizeof word);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
    }
    word = text.size;
    for (size_t i = 0; i < text.size; i++)
        word = word << 8 | (unsigned char)text.data[i];
    hash = (hash ^ word) * factor;
    return hash ^ hash >> 32;
}

/* The number of a field in the table, or 0. A bucket leads from newer to older entries, and ends
 * at one that was dropped. */
static uint32_t find_field(const struct rota_hpack_encoder *encoder, uint32_t hash,
                           struct rota_str name, struct rota_str value)
{
    const struct rota_hpack_table *table = &encoder->table;
    uint32_t age = table->n_added - 1 - encoder->buckets[hash % ROTA_HPACK_BUCKETS];
    while (age < table->n) {
        const struct rota_hpack_entry *entry = entry_at(table, table->n_added - 1 - age);
        if (entry->hash == hash && rota_str_is_equal(entry_name(table, entry), name) &&
            rota_str_is_equal(entry_value(table, entry), value))
            return FIRST_DYNAMIC + age;
        uint32_t older = table->n_added - 1 - entry->below;
        if (older <= age) /* the bucket's first entry names none below it */
            break;
        age = older;
    }
    return 0;
}

static void put_literal(struct rota_buffer *out, unsigned first, unsigned n_bits,
                        enum rota_hpack_static known, struct rota_str name, struct rota_str value)
{
    put_number(out, first, n_bits, (size_t)known);
    if (known == ROTA_HPACK_NONE)
        put_string(out, name);
    put_string(out, value);
}

void rota_hpack_put(struct rota_hpack_encoder *encoder, struct rota_buffer *out,
                    enum rota_hpack_static known, struct rota_str name, struct rota_str value,
                    bool is_kept)
{
    struct rota_hpack_table *table = &encoder->table;
    if (!is_kept || name.size + value.size + ENTRY_COST > table->size_max / 2) {
        put_literal(out, 0, 4, known, name, value);
        return;
    }
    uint32_t hash = (uint32_t)mix(mix(0, name), value);
    uint32_t number = find_field(encoder, hash, name, value);
    if (number > 0) {
        put_number(out, 0x80, 7, number);
        return;
    }
    struct rota_hpack_entry *entry;
    if (!table_add(table, name, value, &entry) || !entry) {
        put_literal(out, 0, 4, known, name, value);
        return;
    }
    uint32_t *bucket = &encoder->buckets[hash % ROTA_HPACK_BUCKETS];
    entry->hash = hash;
    entry->below = *bucket;
    *bucket = table->n_added - 1;
    put_literal(out, 0x40, 6, known, name, value);
}
