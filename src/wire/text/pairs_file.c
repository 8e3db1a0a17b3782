#include "wire/text/pairs_file.h"

#include "base/error_at.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/quote.h"
#include "base/search.h"
#include "base/utf8.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* --- a line --- */

/* The byte of an escape, after its backslash, and how many characters it has; -1 when it is
 * invalid. */
static int unescape_one(struct rota_str rest, size_t *size)
{
    *size = 1;
    switch (rest.size > 0 ? rest.data[0] : 0) {
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case '\\':
        return '\\';
    case 'x':
        *size = 3;
        if (rest.size < 3 || rota_hex_digit(rest.data[1]) < 0 || rota_hex_digit(rest.data[2]) < 0)
            return -1;
        return rota_hex_digit(rest.data[1]) * 16 + rota_hex_digit(rest.data[2]);
    }
    return -1;
}

/* Append the unescaped `text`. False, with `*at` at the error. */
static bool unescape_text(struct rota_str text, struct rota_buffer *buffer, size_t *at)
{
    for (size_t i = 0; i < text.size;) {
        const char *slash = memchr(text.data + i, '\\', text.size - i);
        size_t end = slash ? (size_t)(slash - text.data) : text.size, size;
        rota_buffer_append(buffer, text.data + i, end - i);
        if (!slash)
            break;
        int byte = unescape_one(rota_str_of(slash + 1, text.size - end - 1), &size);
        if (byte < 0) {
            *at = end;
            return false;
        }
        rota_buffer_append_char(buffer, (char)byte);
        i = end + 1 + size;
    }
    return true;
}

static enum rota_code check_pair(const struct rota_pair *pair, const char *file, size_t number,
                                 struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (pair->key.size == 0)
        return rota_error_set_at(error, ROTA_ERR_INVALID, file, number, "no key before the tab");
    if (pair->key.size > ROTA_PAIRS_KEY_MAX)
        return rota_error_set_at(error, ROTA_ERR_LIMIT, file, number,
                                 "the key has %zu bytes; at most %d are allowed", pair->key.size,
                                 ROTA_PAIRS_KEY_MAX);
    if (pair->value.size > ROTA_PAIRS_VALUE_MAX)
        return rota_error_set_at(error, ROTA_ERR_LIMIT, file, number,
                                 "the value of %s has %zu bytes; at most %d are allowed",
                                 rota_quote(pair->key, quoted), pair->value.size,
                                 ROTA_PAIRS_VALUE_MAX);
    return ROTA_OK;
}

/* Unescaped text goes into `scratch`; a line without escapes is not copied. */
static enum rota_code unescape_line(struct rota_str line, size_t key_size, const char *file,
                                    size_t number, struct rota_buffer *scratch,
                                    struct rota_pair *pair, struct rota_error *error)
{
    struct rota_str value = rota_str_of(line.data + key_size + 1, line.size - key_size - 1);
    size_t at = 0;
    *pair = (struct rota_pair){rota_str_of(line.data, key_size), value};
    if (!memchr(line.data, '\\', line.size))
        return ROTA_OK;
    bool is_key_fine = unescape_text(pair->key, scratch, &at);
    size_t size = scratch->size;
    if (!is_key_fine || !unescape_text(value, scratch, &at))
        return rota_error_set_at(error, ROTA_ERR_INVALID, file, number,
                                 "byte %zu: invalid escape; use \\t \\n \\r \\\\ \\xHH",
                                 (is_key_fine ? key_size + 1 : 0) + at + 1);
    if (scratch->failed)
        return rota_error_set_at(error, ROTA_ERR_NO_MEMORY, file, number,
                                 "not enough memory to read the line");
    struct rota_str all = rota_buffer_str(scratch);
    *pair = (struct rota_pair){rota_str_of(all.data, size),
                               rota_str_of(all.data + size, all.size - size)};
    return ROTA_OK;
}

enum rota_code rota_pairs_file_parse_pair(struct rota_str line, const char *file, size_t number,
                                          struct rota_buffer *scratch, struct rota_pair *pair,
                                          struct rota_error *error)
{
    struct rota_pair made;
    rota_buffer_clear(scratch);
    if (line.size == 0) {
        *pair = (struct rota_pair){rota_str(""), rota_str("")};
        return ROTA_OK;
    }
    const char *tab = memchr(line.data, '\t', line.size);
    if (!tab)
        return rota_error_set_at(error, ROTA_ERR_INVALID, file, number,
                                 "no tab between a key and a value");
    size_t key_size = (size_t)(tab - line.data);
    tab = memchr(tab + 1, '\t', line.size - key_size - 1);
    if (tab)
        return rota_error_set_at(error, ROTA_ERR_INVALID, file, number,
                                 "byte %zu is a second tab; write a tab in a value as \\t",
                                 (size_t)(tab - line.data) + 1);
    enum rota_code code = unescape_line(line, key_size, file, number, scratch, &made, error);
    if (!code)
        code = check_pair(&made, file, number, error);
    if (!code)
        *pair = made;
    return code;
}

static bool is_plain(uint32_t character)
{
    return character != ROTA_UTF8_NONE && character != '\\' && !rota_utf8_is_hidden(character);
}

static void escape_byte(unsigned char byte, struct rota_buffer *buffer)
{
    static const char NAMES[] = {['\t'] = 't', ['\n'] = 'n', ['\r'] = 'r', ['\\'] = '\\'};
    if (byte < sizeof NAMES && NAMES[byte])
        rota_buffer_print(buffer, "\\%c", NAMES[byte]);
    else
        rota_buffer_print(buffer, "\\x%02x", byte);
}

void rota_pairs_file_escape(struct rota_str text, struct rota_buffer *buffer)
{
    size_t from = 0, size;
    for (size_t at = 0; at < text.size; at += size) {
        uint32_t character = rota_utf8_decode(rota_str_of(text.data + at, text.size - at), &size);
        if (is_plain(character))
            continue;
        rota_buffer_append(buffer, text.data + from, at - from);
        for (size_t i = 0; i < size; i++)
            escape_byte((unsigned char)text.data[at + i], buffer);
        from = at + size;
    }
    rota_buffer_append(buffer, text.data + from, text.size - from);
}

/* --- where the keys are --- */

void rota_pairs_file_deinit(struct rota_pairs *pairs)
{
    rota_vector_deinit(&pairs->places);
}

static int compare_places(const void *a, const void *b)
{
    const struct rota_pair_place *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

const struct rota_pair_place *rota_pairs_file_find(const struct rota_pairs *pairs,
                                                   struct rota_str key, size_t *n)
{
    const struct rota_pair_place *places = pairs->places.items;
    uint64_t hash = rota_hash_sip64(pairs->seed, key);
    size_t from;
    ROTA_SEARCH(from, pairs->places.size, middle, places[middle].hash < hash);
    for (*n = 0; from + *n < pairs->places.size && places[from + *n].hash == hash;)
        ++*n;
    return *n ? &places[from] : NULL;
}

bool rota_pairs_file_next_twins(const struct rota_pairs *pairs, size_t *index,
                                struct rota_pair_place *first, struct rota_pair_place *second)
{
    while (*index + 1 < pairs->places.size) {
        const struct rota_pair_place *place = &pairs->places.items[(*index)++];
        if (place[0].hash == place[1].hash) {
            *first = place[0];
            *second = place[1];
            return true;
        }
    }
    return false;
}

/* --- reading a file --- */

void rota_pairs_file_reader_init(struct rota_pairs_reader *reader, const char *file,
                                 struct rota_pairs *pairs)
{
    *reader = (struct rota_pairs_reader){.file = file, .pairs = pairs, .number = 1};
}

void rota_pairs_file_reader_deinit(struct rota_pairs_reader *reader)
{
    rota_buffer_deinit(&reader->line);
    rota_buffer_deinit(&reader->scratch);
}

static enum rota_code add_line(struct rota_pairs_reader *reader, struct rota_str line,
                               struct rota_error *error)
{
    struct rota_pair pair;
    size_t mark = reader->offset == 0 && rota_str_has_prefix(line, rota_str(BYTE_ORDER_MARK))
                      ? strlen(BYTE_ORDER_MARK)
                      : 0;
    line = rota_str_of(line.data + mark, line.size - mark);
    enum rota_code code = rota_pairs_file_parse_pair(line, reader->file, reader->number,
                                                     &reader->scratch, &pair, error);
    if (code || pair.key.size == 0)
        return code;
    if (reader->pairs->places.size == ROTA_PAIRS_MAX)
        return rota_error_set_at(error, ROTA_ERR_LIMIT, reader->file, reader->number,
                                 "more than %d pairs", ROTA_PAIRS_MAX);
    struct rota_pair_place place = {.hash = rota_hash_sip64(reader->pairs->seed, pair.key),
                                    .offset = reader->offset + mark,
                                    .size = (uint32_t)line.size,
                                    .line = (uint32_t)reader->number};
    if (!rota_vector_push(&reader->pairs->places, place))
        return rota_error_set_at(error, ROTA_ERR_NO_MEMORY, reader->file, reader->number,
                                 "not enough memory for more pairs");
    return ROTA_OK;
}

/* A whole line; `size` counts its end, too. */
static enum rota_code take_line(struct rota_pairs_reader *reader, struct rota_str line, size_t size,
                                struct rota_error *error)
{
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    if (line.size > ROTA_PAIRS_LINE_MAX)
        return rota_error_set_at(error, ROTA_ERR_LIMIT, reader->file, reader->number,
                                 "a line of more than %d bytes", ROTA_PAIRS_LINE_MAX);
    enum rota_code code = add_line(reader, line, error);
    reader->offset += size;
    reader->number++;
    if (!code && reader->number == UINT32_MAX)
        code = rota_error_set_at(error, ROTA_ERR_LIMIT, reader->file, reader->number,
                                 "too many lines");
    return code;
}

/* The beginning of a line is kept, up to one byte more than the limit. */
static enum rota_code keep_rest(struct rota_pairs_reader *reader, struct rota_str rest,
                                struct rota_error *error)
{
    if (rest.size > ROTA_PAIRS_LINE_MAX + 1 - reader->line.size)
        return rota_error_set_at(error, ROTA_ERR_LIMIT, reader->file, reader->number,
                                 "a line of more than %d bytes", ROTA_PAIRS_LINE_MAX);
    rota_buffer_append_str(&reader->line, rest);
    if (reader->line.failed)
        return rota_error_set_at(error, ROTA_ERR_NO_MEMORY, reader->file, reader->number,
                                 "not enough memory for a line");
    return ROTA_OK;
}

enum rota_code rota_pairs_file_reader_feed(struct rota_pairs_reader *reader, struct rota_str bytes,
                                           struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (const char *end;
         !code && bytes.size > 0 && (end = memchr(bytes.data, '\n', bytes.size));) {
        size_t size = (size_t)(end - bytes.data);
        struct rota_str line = rota_str_of(bytes.data, size);
        if (reader->line.size > 0) {
            code = keep_rest(reader, line, error);
            line = rota_buffer_str(&reader->line);
        }
        if (!code)
            code = take_line(reader, line, line.size + 1, error);
        rota_buffer_clear(&reader->line);
        bytes = rota_str_of(end + 1, bytes.size - size - 1);
    }
    return code || bytes.size == 0 ? code : keep_rest(reader, bytes, error);
}

enum rota_code rota_pairs_file_reader_finish(struct rota_pairs_reader *reader,
                                             struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    struct rota_str rest = rota_buffer_str(&reader->line);
    if (rest.size > 0)
        code = take_line(reader, rest, rest.size, error);
    if (!code && reader->pairs->places.size > 0)
        qsort(reader->pairs->places.items, reader->pairs->places.size,
              sizeof *reader->pairs->places.items, compare_places);
    return code;
}
