#include "wire/text/json_scan.h"

#include "base/utf8.h"

void rota_json_scan_init(struct rota_scan *scan, struct rota_str text, char *room)
{
    const char *data = text.size ? text.data : "";
    *scan = (struct rota_scan){.at = data, .end = data + text.size, .room = room};
}

/* The scan is at its end from now on. */
static void fail_scan(struct rota_scan *scan)
{
    scan->failed = true;
    scan->at = scan->end;
}

static void skip_blanks(struct rota_scan *scan)
{
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
        scan->at++;
}

static bool take_char(struct rota_scan *scan, char c)
{
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

static void expect_char(struct rota_scan *scan, char c)
{
    if (!take_char(scan, c))
        fail_scan(scan);
}

void rota_json_scan_object(struct rota_scan *scan)
{
    expect_char(scan, '{');
    scan->is_first = true;
}

void rota_json_scan_array(struct rota_scan *scan)
{
    expect_char(scan, '[');
    scan->is_first = true;
}

/* Whether another one follows, after its comma. */
static bool has_next(struct rota_scan *scan, char close)
{
    bool is_first = scan->is_first;
    scan->is_first = false;
    if (scan->failed || take_char(scan, close))
        return false;
    if (!is_first)
        expect_char(scan, ',');
    return !scan->failed;
}

bool rota_json_scan_item(struct rota_scan *scan)
{
    return has_next(scan, ']');
}

bool rota_json_scan_key(struct rota_scan *scan, struct rota_str *key)
{
    if (!has_next(scan, '}'))
        return false;
    *key = rota_json_scan_string(scan);
    expect_char(scan, ':');
    return !scan->failed;
}

/* --- strings --- */

static bool take_hex(struct rota_scan *scan, uint32_t *value)
{
    *value = 0;
    if (scan->end - scan->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = *scan->at++;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return false;
        *value = *value << 4 | digit;
    }
    return true;
}

/* The character after a backslash; ROTA_UTF8_NONE when it is invalid. */
static uint32_t take_escape(struct rota_scan *scan)
{
    static const char codes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    uint32_t high, low;
    if (scan->at == scan->end)
        return ROTA_UTF8_NONE;
    char c = *scan->at++;
    if (c != 'u') {
        const char *code = c ? strchr(codes, c) : NULL;
        return code ? (uint32_t)meant[code - codes] : ROTA_UTF8_NONE;
    }
    if (!take_hex(scan, &high) || (high >= 0xdc00 && high <= 0xdfff))
        return ROTA_UTF8_NONE;
    if (high < 0xd800 || high > 0xdfff)
        return high;
    if (scan->end - scan->at < 6 || scan->at[0] != '\\' || scan->at[1] != 'u')
        return ROTA_UTF8_NONE;
    scan->at += 2;
    if (!take_hex(scan, &low) || low < 0xdc00 || low > 0xdfff)
        return ROTA_UTF8_NONE;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

struct rota_str rota_json_scan_string(struct rota_scan *scan)
{
    char *start = scan->room, *to = start, unwanted[ROTA_UTF8_MAX];
    expect_char(scan, '"');
    while (scan->at < scan->end && *scan->at != '"') {
        size_t size = 1;
        uint32_t character = (unsigned char)*scan->at;
        if (character == '\\') {
            scan->at++;
            character = take_escape(scan);
        } else {
            if (character >= 0x80)
                character =
                    rota_utf8_decode(rota_str_of(scan->at, (size_t)(scan->end - scan->at)), &size);
            if (character < ' ')
                character = ROTA_UTF8_NONE;
            scan->at += size;
        }
        if (character == ROTA_UTF8_NONE) {
            fail_scan(scan);
            break;
        }
        size = rota_utf8_encode(character, to ? to : unwanted);
        to = to ? to + size : NULL;
    }
    expect_char(scan, '"');
    if (scan->failed || !start)
        return rota_str("");
    scan->room = to;
    return rota_str_of(start, (size_t)(to - start));
}

/* --- numbers and words --- */

static bool take_word(struct rota_scan *scan, const char *word)
{
    size_t size = strlen(word);
    skip_blanks(scan);
    if ((size_t)(scan->end - scan->at) < size || memcmp(scan->at, word, size) != 0)
        return false;
    scan->at += size;
    return true;
}

bool rota_json_scan_bool(struct rota_scan *scan)
{
    bool value = take_word(scan, "true");
    if (!value && !take_word(scan, "false"))
        fail_scan(scan);
    return value && !scan->failed;
}

static bool is_digit(const struct rota_scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

uint64_t rota_json_scan_uint(struct rota_scan *scan, uint64_t max)
{
    uint64_t value = 0;
    skip_blanks(scan);
    const char *start = scan->at;
    for (; is_digit(scan); scan->at++) {
        uint64_t digit = (uint64_t)(*scan->at - '0');
        if (digit > max || value > (max - digit) / 10) {
            fail_scan(scan);
            return 0;
        }
        value = value * 10 + digit;
    }
    bool is_bad =
        scan->at == start || (*start == '0' && scan->at - start > 1) ||
        (scan->at < scan->end && (*scan->at == '.' || *scan->at == 'e' || *scan->at == 'E'));
    if (is_bad)
        fail_scan(scan);
    return is_bad ? 0 : value;
}

int64_t rota_json_scan_int(struct rota_scan *scan)
{
    bool is_negative = take_char(scan, '-');
    if (is_negative && !is_digit(scan))
        fail_scan(scan);
    uint64_t value = rota_json_scan_uint(scan, (uint64_t)INT64_MAX + is_negative);
    return is_negative ? (int64_t)(0 - value) : (int64_t)value;
}

/* --- anything --- */

static void skip_digits(struct rota_scan *scan)
{
    if (!is_digit(scan))
        fail_scan(scan);
    while (is_digit(scan))
        scan->at++;
}

static void skip_number(struct rota_scan *scan)
{
    take_char(scan, '-');
    if (scan->at < scan->end && *scan->at == '0')
        scan->at++;
    else
        skip_digits(scan);
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        skip_digits(scan);
    }
    if (scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        scan->at++;
        if (scan->at < scan->end && (*scan->at == '+' || *scan->at == '-'))
            scan->at++;
        skip_digits(scan);
    }
}

/* A value that holds no other. */
static void skip_plain(struct rota_scan *scan)
{
    if (scan->at < scan->end && *scan->at == '"')
        rota_json_scan_string(scan);
    else if (!take_word(scan, "true") && !take_word(scan, "false") && !take_word(scan, "null"))
        skip_number(scan);
}

struct rota_str rota_json_scan_skip(struct rota_scan *scan)
{
    uint64_t is_object = 0; /* bit by depth */
    unsigned depth = 0;
    char *room = scan->room;
    struct rota_str key;
    skip_blanks(scan);
    const char *start = scan->at;
    scan->room = NULL;
    do {
        skip_blanks(scan);
        bool opens_object = take_char(scan, '{');
        if (opens_object || take_char(scan, '[')) {
            if (++depth > ROTA_SCAN_DEPTH_MAX)
                fail_scan(scan);
            else
                is_object = opens_object ? is_object | 1ULL << depth : is_object & ~(1ULL << depth);
            scan->is_first = true;
        } else {
            skip_plain(scan);
            scan->is_first = false;
        }
        while (depth > 0 && !scan->failed &&
               !(is_object & 1ULL << depth ? rota_json_scan_key(scan, &key)
                                           : rota_json_scan_item(scan)))
            depth--;
    } while (depth > 0 && !scan->failed);
    scan->room = room;
    scan->is_first = false;
    return scan->failed ? rota_str("") : rota_str_of(start, (size_t)(scan->at - start));
}

void rota_json_scan_end(struct rota_scan *scan)
{
    skip_blanks(scan);
    if (scan->at < scan->end)
        fail_scan(scan);
}
