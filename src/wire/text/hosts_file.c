#include "wire/text/hosts_file.h"

#include "base/error_at.h"
#include "base/quote.h"
#include "base/spell.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/vector.h"

#include <stdio.h>
#include <stdlib.h>

/* Some editors put it first in a file; anywhere else it is invisible dirt. */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* Where the reader is, for its messages. */
struct reader {
    const char *file;
    size_t line; /* from 1 */
    struct rota_error *error;
};

#define refuse(reader, code, ...)                                                                  \
    rota_error_set_at((reader)->error, (code), (reader)->file, (reader)->line, __VA_ARGS__)

/* --- characters --- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Only a line of well-formed text without control characters gets any further. */
static enum rota_code check_line(const struct reader *reader, struct rota_str line)
{
    if (line.size > ROTA_HOSTS_LINE_MAX)
        return refuse(reader, ROTA_ERR_LIMIT, "the line has %zu bytes; at most %d are allowed",
                      line.size, ROTA_HOSTS_LINE_MAX);
    for (size_t at = 0, size; at < line.size; at += size) {
        unsigned char c = (unsigned char)line.data[at];
        if (rota_utf8_decode(rota_str_of(line.data + at, line.size - at), &size) == ROTA_UTF8_NONE)
            return refuse(reader, ROTA_ERR_INVALID, "byte %zu (0x%02x) is not valid UTF-8", at + 1,
                          c);
        if (rota_str_has_prefix(rota_str_of(line.data + at, size), rota_str(BYTE_ORDER_MARK)))
            return refuse(reader, ROTA_ERR_INVALID,
                          "byte %zu is a byte order mark; it is allowed only at the start", at + 1);
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return refuse(reader, ROTA_ERR_INVALID, "byte %zu is a control character (0x%02x)",
                          at + 1, c);
    }
    return ROTA_OK;
}

/* An address or a zone is shown to people, put into lists and compared byte by byte: invisible
 * characters, and those that look like a comment, are not allowed. */
static enum rota_code check_name(const struct reader *reader, const char *what,
                                 struct rota_str name)
{
    char quoted[ROTA_QUOTE_MAX];
    if (name.size > ROTA_ADDRESS_MAX)
        return refuse(reader, ROTA_ERR_INVALID, "%s has %zu bytes; at most %d are allowed", what,
                      name.size, ROTA_ADDRESS_MAX);
    if (memchr(name.data, '#', name.size))
        return refuse(reader, ROTA_ERR_INVALID, "# in %s, %s: a comment needs a space before it",
                      what, rota_quote(name, quoted));
    for (struct rota_str rest = name; rest.size > 0;) {
        size_t size;
        uint32_t character = rota_utf8_decode(rest, &size);
        if (rota_utf8_is_hidden(character))
            return refuse(reader, ROTA_ERR_INVALID, "%s with the invisible character U+%04X: %s",
                          what, character, rota_quote(name, quoted));
        rest = rota_str_of(rest.data + size, rest.size - size);
    }
    return ROTA_OK;
}

/* --- attributes --- */

typedef enum rota_code attribute_reader(const struct reader *reader, struct rota_str value,
                                        struct rota_host *host);

static bool parse_weight(struct rota_str text, uint32_t *weight)
{
    uint64_t thousandths = 0;
    size_t n_digits = 0, n_fraction = 0;
    bool has_point = false;

    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '.' && !has_point && n_digits > 0) {
            has_point = true;
            continue;
        }
        n_fraction += has_point;
        if (c < '0' || c > '9' || n_fraction > 3 || thousandths > ROTA_WEIGHT_MAX)
            return false;
        thousandths = thousandths * 10 + (uint64_t)(c - '0');
        n_digits++;
    }
    if (n_digits == 0 || (has_point && n_fraction == 0))
        return false;
    for (size_t i = n_fraction; i < 3; i++)
        thousandths *= 10;
    if (thousandths < ROTA_WEIGHT_MIN || thousandths > ROTA_WEIGHT_MAX)
        return false;
    *weight = (uint32_t)thousandths;
    return true;
}

static enum rota_code read_weight(const struct reader *reader, struct rota_str value,
                                  struct rota_host *host)
{
    char quoted[ROTA_QUOTE_MAX];
    if (parse_weight(value, &host->weight))
        return ROTA_OK;
    return refuse(
        reader, ROTA_ERR_INVALID,
        "weight %s is not a decimal number from 0.01 to 1000 with at most three decimal places",
        rota_quote(value, quoted));
}

static enum rota_code read_zone(const struct reader *reader, struct rota_str value,
                                struct rota_host *host)
{
    if (value.size == 0)
        return refuse(reader, ROTA_ERR_INVALID, "the zone is empty");
    enum rota_code code = check_name(reader, "a zone", value);
    if (!code)
        host->zone = value;
    return code;
}

/* 0 would mean "no bound", so 1970 itself and earlier times are rejected. */
static enum rota_code read_moment(const struct reader *reader, const char *name,
                                  struct rota_str value, rota_time *moment)
{
    char quoted[ROTA_QUOTE_MAX];
    rota_time parsed;
    if (rota_time_parse(value, &parsed))
        return refuse(reader, ROTA_ERR_INVALID,
                      "%s %s is not a time like 2026-01-31T12:00:00Z or Unix seconds", name,
                      rota_quote(value, quoted));
    if (parsed <= 0)
        return refuse(reader, ROTA_ERR_INVALID, "%s %s is not after 1970", name,
                      rota_quote(value, quoted));
    *moment = parsed;
    return ROTA_OK;
}

static enum rota_code read_start_at(const struct reader *reader, struct rota_str value,
                                    struct rota_host *host)
{
    return read_moment(reader, "start_at", value, &host->start_at);
}

static enum rota_code read_stop_at(const struct reader *reader, struct rota_str value,
                                   struct rota_host *host)
{
    return read_moment(reader, "stop_at", value, &host->stop_at);
}

static enum rota_code read_draining(const struct reader *reader, struct rota_str value,
                                    struct rota_host *host)
{
    char quoted[ROTA_QUOTE_MAX];
    host->is_draining = rota_str_is_equal(value, rota_str("true"));
    if (host->is_draining || rota_str_is_equal(value, rota_str("false")))
        return ROTA_OK;
    return refuse(reader, ROTA_ERR_INVALID, "draining %s is neither true nor false",
                  rota_quote(value, quoted));
}

static const struct attribute {
    const char *name;
    attribute_reader *read;
    const char *alone; /* the value when there is none, or NULL */
} attributes[] = {
    {"draining", read_draining, "true"}, {"start_at", read_start_at, NULL},
    {"stop_at", read_stop_at, NULL},     {"weight", read_weight, NULL},
    {"zone", read_zone, NULL},
};

enum { ATTRIBUTES = sizeof attributes / sizeof attributes[0] };

/* The index of an attribute by its name, or ATTRIBUTES. */
static size_t find_attribute(struct rota_str name)
{
    size_t i = 0;
    while (i < ATTRIBUTES && !rota_str_is_equal(name, rota_str(attributes[i].name)))
        i++;
    return i;
}

static enum rota_code refuse_attribute(const struct reader *reader, struct rota_str name)
{
    struct rota_spell spell = {.word = name};
    char quoted[ROTA_QUOTE_MAX];
    for (size_t i = 0; i < ATTRIBUTES; i++)
        rota_spell_offer(&spell, attributes[i].name);
    rota_quote(name, quoted);
    if (spell.best)
        return refuse(reader, ROTA_ERR_INVALID, "unknown attribute %s, did you mean %s?", quoted,
                      spell.best);
    return refuse(reader, ROTA_ERR_INVALID, "unknown attribute %s", quoted);
}

/* "name=value" or "name"; `given` has a bit for each attribute read before. */
static enum rota_code read_attribute(const struct reader *reader, struct rota_str word,
                                     unsigned *given, struct rota_host *host)
{
    const char *equals = memchr(word.data, '=', word.size);
    size_t name_size = equals ? (size_t)(equals - word.data) : word.size;
    struct rota_str name = rota_str_of(word.data, name_size), value = {0};
    size_t found = find_attribute(name);

    if (found == ATTRIBUTES)
        return refuse_attribute(reader, name);
    const struct attribute *attribute = &attributes[found];
    if (*given & 1u << found)
        return refuse(reader, ROTA_ERR_INVALID, "%s is given twice", attribute->name);
    *given |= 1u << found;
    if (equals)
        value = rota_str_of(equals + 1, word.size - name_size - 1);
    else if (attribute->alone)
        value = rota_str(attribute->alone);
    else
        return refuse(reader, ROTA_ERR_INVALID, "%s needs a value: %s=...", attribute->name,
                      attribute->name);
    return attribute->read(reader, value, host);
}

/* --- lines --- */

/* Take the next word off `line`; empty at its end or where a comment starts. */
static struct rota_str take_word(struct rota_str *line)
{
    size_t from = 0, to;
    while (from < line->size && is_blank(line->data[from]))
        from++;
    to = from;
    if (from < line->size && line->data[from] != '#')
        while (to < line->size && !is_blank(line->data[to]))
            to++;
    struct rota_str word = rota_str_of(line->data + from, to - from);
    *line = rota_str_of(line->data + to, line->size - to);
    return word;
}

static enum rota_code check_address(const struct reader *reader, struct rota_str address)
{
    char quoted[ROTA_QUOTE_MAX];
    const char *equals = memchr(address.data, '=', address.size);
    size_t name_size = equals ? (size_t)(equals - address.data) : 0;
    if (equals && find_attribute(rota_str_of(address.data, name_size)) < ATTRIBUTES)
        return refuse(reader, ROTA_ERR_INVALID, "no address before %s",
                      rota_quote(address, quoted));
    if (memchr(address.data, ',', address.size))
        return refuse(reader, ROTA_ERR_INVALID,
                      "address %s contains a comma; write one host per line",
                      rota_quote(address, quoted));
    return check_name(reader, "an address", address);
}

/* Read one line; `host->address` stays empty when it names none. */
static enum rota_code read_line(const struct reader *reader, struct rota_str line,
                                struct rota_host *host)
{
    char quoted[ROTA_QUOTE_MAX];
    enum rota_code code;
    unsigned given = 0;

    *host = (struct rota_host){.zone = rota_str(""), .weight = ROTA_WEIGHT_ONE};
    if ((code = check_line(reader, line)))
        return code;
    host->address = take_word(&line);
    if (host->address.size == 0)
        return ROTA_OK;
    if ((code = check_address(reader, host->address)))
        return code;
    for (struct rota_str word; (word = take_word(&line)).size > 0;)
        if ((code = read_attribute(reader, word, &given, host)))
            return code;
    if (host->stop_at != 0 && host->stop_at <= host->start_at)
        return refuse(reader, ROTA_ERR_INVALID, "stop_at of %s is not after its start_at",
                      rota_quote(host->address, quoted));
    return ROTA_OK;
}

/* --- the whole --- */

struct place {
    struct rota_str address;
    size_t line;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = rota_str_compare(x->address, y->address);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Refuse a host that is listed twice, and name the first such line. */
static enum rota_code check_distinct(struct reader *reader, struct place *places, size_t n)
{
    const struct place *first = NULL, *second = NULL;
    char quoted[ROTA_QUOTE_MAX];
    if (n > 0)
        qsort(places, n, sizeof *places, compare_places);
    for (size_t i = 1; i < n; i++) {
        if (rota_str_is_equal(places[i - 1].address, places[i].address) &&
            (!second || places[i].line < second->line)) {
            first = &places[i - 1];
            second = &places[i];
        }
    }
    if (!second)
        return ROTA_OK;
    reader->line = second->line;
    return refuse(reader, ROTA_ERR_INVALID, "host %s is already listed in line %zu",
                  rota_quote(second->address, quoted), first->line);
}

static enum rota_code read_hosts(struct reader *reader, struct rota_str text,
                                 struct rota_hosts *hosts)
{
    ROTA_VECTOR(struct rota_host) list = {0};
    ROTA_VECTOR(struct place) places = {0};
    enum rota_code code = ROTA_OK;

    for (reader->line = 1; text.size > 0; reader->line++) {
        struct rota_host host;
        if ((code = read_line(reader, rota_text_cut_line(&text), &host)))
            goto end;
        if (host.address.size == 0)
            continue;
        if (list.size == ROTA_HOSTS_MAX) {
            code = refuse(reader, ROTA_ERR_LIMIT, "more than %d hosts", ROTA_HOSTS_MAX);
            goto end;
        }
        struct place place = {host.address, reader->line};
        if (!rota_vector_push(&list, host) || !rota_vector_push(&places, place)) {
            code = refuse(reader, ROTA_ERR_NO_MEMORY, "not enough memory for the hosts");
            goto end;
        }
    }
    code = check_distinct(reader, places.items, places.size);
end:
    rota_vector_deinit(&places);
    hosts->hosts = list.items;
    hosts->n_hosts = list.size;
    return code;
}

enum rota_code rota_hosts_file_parse(struct rota_str text, const char *file,
                                     struct rota_hosts *hosts, struct rota_error *error)
{
    struct reader reader = {.file = file, .error = error};
    struct rota_hosts made = {0};

    if (text.size > ROTA_HOSTS_TEXT_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%s: the file has %zu bytes; at most %d are allowed", file, text.size,
                              ROTA_HOSTS_TEXT_MAX);
    if (rota_str_has_prefix(text, rota_str(BYTE_ORDER_MARK)))
        text = rota_str_of(text.data + 3, text.size - 3);
    made.text = malloc(text.size + 1);
    if (!made.text)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "%s: not enough memory for %zu bytes",
                              file, text.size);
    if (text.size > 0)
        memcpy(made.text, text.data, text.size);

    enum rota_code code = read_hosts(&reader, rota_str_of(made.text, text.size), &made);
    if (code)
        rota_hosts_file_deinit(&made);
    else
        *hosts = made;
    return code;
}

void rota_hosts_file_deinit(struct rota_hosts *hosts)
{
    free(hosts->hosts);
    free(hosts->text);
    *hosts = (struct rota_hosts){0};
}

/* Read as a line of a file, so that all agree. */
bool rota_hosts_file_parse_weight(const char *text, uint32_t *weight)
{
    char line[64];
    struct rota_hosts source;
    if (text[strspn(text, "0123456789.")] != '\0' || strlen(text) > 20)
        return false;
    snprintf(line, sizeof line, "host weight=%s", text);
    if (rota_hosts_file_parse(rota_str(line), "weight", &source, NULL))
        return false;
    *weight = source.hosts[0].weight;
    rota_hosts_file_deinit(&source);
    return true;
}
