#include "wire/text/keys_file.h"

#include "base/error_at.h"
#include "base/quote.h"

#include <stdlib.h>

static const char z85[] =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/* Five characters are four bytes; the last few combinations of five are beyond them. */
bool rota_keys_file_parse_key(struct rota_str text, struct rota_key *key)
{
    struct rota_key read;
    if (text.size != ROTA_KEY_TEXT_SIZE)
        return false;
    for (size_t i = 0; i < text.size; i += 5) {
        uint64_t value = 0;
        for (size_t k = 0; k < 5; k++) {
            const char *found = memchr(z85, text.data[i + k], sizeof z85 - 1);
            if (!found)
                return false;
            value = value * 85 + (uint64_t)(found - z85);
        }
        if (value > UINT32_MAX)
            return false;
        for (size_t k = 0; k < 4; k++)
            read.bytes[i / 5 * 4 + k] = (uint8_t)(value >> (24 - 8 * k));
    }
    *key = read;
    return true;
}

char *rota_keys_file_format_key(const struct rota_key *key, char text[ROTA_KEY_TEXT_SIZE + 1])
{
    for (size_t i = 0; i < ROTA_KEY_SIZE; i += 4) {
        uint32_t value = (uint32_t)key->bytes[i] << 24 | (uint32_t)key->bytes[i + 1] << 16 |
                         (uint32_t)key->bytes[i + 2] << 8 | key->bytes[i + 3];
        for (size_t k = 5; k-- > 0; value /= 85)
            text[i / 4 * 5 + k] = z85[value % 85];
    }
    text[ROTA_KEY_TEXT_SIZE] = '\0';
    return text;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct rota_str trim_blanks(struct rota_str text)
{
    while (text.size && is_blank(text.data[0]))
        text = rota_str_of(text.data + 1, text.size - 1);
    while (text.size && is_blank(text.data[text.size - 1]))
        text.size--;
    return text;
}

static enum rota_code parse_line(struct rota_str line, const char *file, size_t number,
                                 struct rota_keys *keys, struct rota_error *error)
{
    struct rota_key_entry entry;
    char quoted[ROTA_QUOTE_MAX];
    size_t size = 0;
    while (size < line.size && !is_blank(line.data[size]))
        size++;
    entry.name = rota_str_of(line.data, size);
    if (!rota_keys_file_parse_key(trim_blanks(rota_str_of(line.data + size, line.size - size)),
                                  &entry.key))
        return rota_error_set_at(error, ROTA_ERR_INVALID, file, number,
                                 "no key follows the name %s: a key has %d characters of Z85",
                                 rota_quote(entry.name, quoted), ROTA_KEY_TEXT_SIZE);
    if (keys->entries.size == ROTA_KEYS_MAX)
        return rota_error_set_at(error, ROTA_ERR_LIMIT, file, number, "more than %d keys",
                                 ROTA_KEYS_MAX);
    if (!rota_vector_push(&keys->entries, entry))
        return rota_error_no_memory(error, "for the keys of %s", file);
    return ROTA_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const struct rota_key_entry *left = a, *right = b;
    return memcmp(left->key.bytes, right->key.bytes, ROTA_KEY_SIZE);
}

static enum rota_code check_twins(const struct rota_keys *keys, const char *file,
                                  struct rota_error *error)
{
    char first[ROTA_QUOTE_MAX], second[ROTA_QUOTE_MAX];
    const struct rota_key_entry *entries = keys->entries.items;
    for (size_t i = 1; i < keys->entries.size; i++)
        if (compare_entries(&entries[i - 1], &entries[i]) == 0)
            return rota_error_set(error, ROTA_ERR_INVALID, "%s: %s and %s have the same key", file,
                                  rota_quote(entries[i - 1].name, first),
                                  rota_quote(entries[i].name, second));
    return ROTA_OK;
}

enum rota_code rota_keys_file_parse(struct rota_str text, const char *file, struct rota_keys *keys,
                                    struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t number = 1; !code && text.size; number++) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end ? (size_t)(end - text.data) : text.size;
        struct rota_str line = trim_blanks(rota_str_of(text.data, size));
        size_t used = end ? size + 1 : size;
        text = rota_str_of(text.data + used, text.size - used);
        if (line.size && line.data[0] != '#')
            code = parse_line(line, file, number, keys, error);
    }
    if (!code && keys->entries.size)
        qsort(keys->entries.items, keys->entries.size, sizeof *keys->entries.items,
              compare_entries);
    if (!code)
        code = check_twins(keys, file, error);
    if (code)
        rota_keys_file_deinit(keys);
    return code;
}

void rota_keys_file_deinit(struct rota_keys *keys)
{
    rota_vector_deinit(&keys->entries);
}

struct rota_str rota_keys_file_find_name(const struct rota_keys *keys, const struct rota_key *key)
{
    struct rota_key_entry wanted = {.key = *key};
    const struct rota_key_entry *found =
        keys->entries.size ? bsearch(&wanted, keys->entries.items, keys->entries.size,
                                     sizeof *keys->entries.items, compare_entries)
                           : NULL;
    return found ? found->name : rota_str("");
}

const struct rota_key *rota_keys_file_find_key(const struct rota_keys *keys, struct rota_str name)
{
    for (size_t i = 0; i < keys->entries.size; i++)
        if (rota_str_is_equal(keys->entries.items[i].name, name))
            return &keys->entries.items[i].key;
    return NULL;
}
