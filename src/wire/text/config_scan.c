#include "wire/text/config_scan.h"

#include "base/utf8.h"

enum { SHOWN_MAX = 60 }; /* bytes of the user's text in a message */

#define fail(...) rota_config_scan_fail(scan, ROTA_ERR_INVALID, __VA_ARGS__)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_bare(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

static bool is_line_end(const char *at)
{
    return *at == '\0' || *at == '\n' || (at[0] == '\r' && at[1] == '\n');
}

enum rota_code rota_config_scan_init(struct rota_config_scan *scan, char *text, size_t size,
                                     const char *file, struct rota_error *error)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + size;
    *scan = (struct rota_config_scan){
        .at = text, .line = text, .n_lines = 1, .file = file, .error = error};

    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return fail("the file begins with a byte order mark; save it as UTF-8 without one");
    while (at < end) {
        size_t n;
        if (rota_utf8_decode(rota_str_of(at, (size_t)(end - at)), &n) == ROTA_UTF8_NONE)
            return fail("byte 0x%02x is not valid UTF-8", *at);
        if (*at == '\0')
            return fail("a NUL byte is not allowed");
        if (*at == '\r' && at[1] != '\n')
            return fail("a carriage return is only allowed at the end of a line");
        if ((*at < 0x20 && *at != '\t' && *at != '\n' && *at != '\r') || *at == 0x7f)
            return fail("control character 0x%02x is not allowed", *at);
        scan->n_lines += *at == '\n';
        at += n;
    }
    scan->n_lines = 1;
    return ROTA_OK;
}

enum rota_code rota_config_scan_expected(struct rota_config_scan *scan, const char *wanted)
{
    const char *at = scan->at;
    size_t size;
    rota_utf8_decode(rota_str_of(at, strnlen(at, ROTA_UTF8_MAX) + 1), &size); /* with its NUL */
    if (*at == '\0')
        return fail("expected %s before the end of the file", wanted);
    if (is_line_end(at))
        return fail("expected %s before the end of the line", wanted);
    return fail("expected %s, found '%.*s'", wanted, (int)size, at);
}

void rota_config_scan_spaces(struct rota_config_scan *scan)
{
    while (*scan->at == ' ' || *scan->at == '\t')
        scan->at++;
}

enum rota_code rota_config_scan_line_end(struct rota_config_scan *scan)
{
    rota_config_scan_spaces(scan);
    if (*scan->at == '#') {
        while (!is_line_end(scan->at))
            scan->at++;
    }
    if (!is_line_end(scan->at))
        return rota_config_scan_expected(scan, "the end of the line or a # comment");
    if (*scan->at == '\0')
        return ROTA_OK;
    scan->at += *scan->at == '\r' ? 2 : 1;
    scan->line = scan->at;
    scan->n_lines++;
    return ROTA_OK;
}

/* --- keys --- */

enum rota_code rota_config_scan_key(struct rota_config_scan *scan, struct rota_str *key)
{
    char *start = scan->at, *out = start;
    int depth = 1;

    for (;; depth++) {
        char *part = scan->at;
        if (*part == '"' || *part == '\'')
            return fail("quoted keys are not supported");
        while (is_bare(*scan->at))
            *out++ = *scan->at++;
        if (scan->at == part)
            return rota_config_scan_expected(scan, "a key of letters, digits, _ and -");
        char *behind = scan->at;
        rota_config_scan_spaces(scan);
        if (*scan->at != '.') {
            scan->at = behind;
            break;
        }
        *out++ = *scan->at++;
        rota_config_scan_spaces(scan);
    }
    *key = rota_str_of(start, (size_t)(out - start));
    if (key->size > ROTA_CONFIG_TEXT_KEY_MAX)
        return rota_config_scan_fail(scan, ROTA_ERR_LIMIT,
                                     "a key has %zu bytes; at most %d are allowed", key->size,
                                     ROTA_CONFIG_TEXT_KEY_MAX);
    if (depth > ROTA_CONFIG_TEXT_DEPTH_MAX)
        return rota_config_scan_fail(scan, ROTA_ERR_LIMIT,
                                     "a key has %d parts; at most %d are allowed", depth,
                                     ROTA_CONFIG_TEXT_DEPTH_MAX);
    return ROTA_OK;
}

/* --- strings --- */

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* \uXXXX or \UXXXXXXXX, with the cursor after the letter. The output is shorter than the input. */
static enum rota_code scan_code_point(struct rota_config_scan *scan, int n_digits, char **out)
{
    uint32_t c = 0;
    for (int i = 0; i < n_digits; i++) {
        int digit = hex_digit(scan->at[i]);
        if (digit < 0)
            return fail("\\%c needs %d hexadecimal digits", n_digits == 4 ? 'u' : 'U', n_digits);
        c = c << 4 | (uint32_t)digit;
    }
    if (c == 0)
        return fail("a NUL character is not allowed in a string");
    if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        return fail("U+%04X is not a character", c);
    scan->at += n_digits;
    *out += rota_utf8_encode(c, *out);
    return ROTA_OK;
}

static enum rota_code scan_escape(struct rota_config_scan *scan, char **out)
{
    static const char LETTERS[] = "btnfr\"\\";
    static const char MEANINGS[] = "\b\t\n\f\r\"\\";
    char letter = *++scan->at;

    if (letter == 'u' || letter == 'U') {
        scan->at++;
        return scan_code_point(scan, letter == 'u' ? 4 : 8, out);
    }
    const char *found = letter ? strchr(LETTERS, letter) : NULL;
    if (!found)
        return rota_config_scan_expected(scan, "one of b t n f r u U \" \\ after a backslash");
    *(*out)++ = MEANINGS[found - LETTERS];
    scan->at++;
    return ROTA_OK;
}

static enum rota_code scan_string(struct rota_config_scan *scan, struct rota_str *string)
{
    char quote = *scan->at;
    char *start = scan->at + 1, *out = start;
    enum rota_code code;

    if (start[0] == quote && start[1] == quote)
        return fail("multi-line strings are not supported");
    scan->at++;
    while (*scan->at != quote) {
        if (is_line_end(scan->at))
            return fail("a string is not closed: expected %c before the end of the line", quote);
        if (*scan->at != '\\' || quote == '\'')
            *out++ = *scan->at++;
        else if ((code = scan_escape(scan, &out)))
            return code;
    }
    scan->at++;
    *string = rota_str_of(start, (size_t)(out - start));
    return ROTA_OK;
}

/* --- words: all unquoted values --- */

static bool is_word(char c)
{
    return is_bare(c) || c == '+' || c == '.' || c == ':';
}

/* Whether `word` begins like `pattern`, in which 0 matches any digit. */
static bool looks_like(struct rota_str word, const char *pattern)
{
    size_t n = strlen(pattern);
    if (word.size < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (pattern[i] == '0' ? !is_digit(word.data[i]) : word.data[i] != pattern[i])
            return false;
    }
    return true;
}

static struct rota_str last_bytes(struct rota_str word, size_t n)
{
    return word.size < n ? rota_str("") : rota_str_of(word.data + word.size - n, n);
}

/* Move the cursor over a word. A date and a time may have a space in between. */
static struct rota_str scan_word(struct rota_config_scan *scan)
{
    char *start = scan->at;
    while (is_word(*scan->at))
        scan->at++;
    struct rota_str word = rota_str_of(start, (size_t)(scan->at - start));
    if (word.size == 10 && looks_like(word, "0000-00-00") && scan->at[0] == ' ' &&
        is_digit(scan->at[1])) {
        scan->at++;
        while (is_word(*scan->at))
            scan->at++;
    }
    return rota_str_of(start, (size_t)(scan->at - start));
}

static enum rota_code scan_time(struct rota_config_scan *scan, struct rota_str word,
                                rota_time *time)
{
    char text[64];
    int shown = word.size > SHOWN_MAX ? SHOWN_MAX : (int)word.size;

    if (word.size == 10)
        return fail("local dates are not supported: write a time and an offset too, like "
                    "%.*sT00:00:00Z",
                    shown, word.data);
    if (last_bytes(word, 1).data[0] != 'Z' && last_bytes(word, 1).data[0] != 'z' &&
        !looks_like(last_bytes(word, 6), "+00:00") && !looks_like(last_bytes(word, 6), "-00:00"))
        return fail("local date-times are not supported: add an offset, like %.*sZ", shown,
                    word.data);
    if (word.size < sizeof text) {
        for (size_t i = 0; i < word.size; i++) {
            char c = word.data[i];
            text[i] = c == ' ' || c == 't' ? 'T' : c == 'z' ? 'Z' : c;
        }
        if (!rota_time_parse(rota_str_of(text, word.size), time))
            return ROTA_OK;
    }
    return fail("\"%.*s\" is not a time between the years 1678 and 2262", shown, word.data);
}

static enum rota_code scan_integer(struct rota_config_scan *scan, struct rota_str word,
                                   int64_t *integer)
{
    int shown = word.size > SHOWN_MAX ? SHOWN_MAX : (int)word.size;
    bool is_negative = word.data[0] == '-';
    size_t first = is_negative || word.data[0] == '+';
    int64_t value = 0;

    if (word.size > first + 1 && word.data[first] == '0')
        return fail("integer %.*s begins with a zero", shown, word.data);
    for (size_t i = first; i < word.size; i++) {
        char c = word.data[i];
        if (c == '_' && is_digit(word.data[i - 1]) && i + 1 < word.size &&
            is_digit(word.data[i + 1]))
            continue;
        if (!is_digit(c))
            return fail("\"%.*s\" is not an integer", shown, word.data);
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, is_negative ? '0' - c : c - '0', &value))
            return fail("integer %.*s does not fit 64 bits", shown, word.data);
    }
    *integer = value;
    return ROTA_OK;
}

/* Whether `word` consists only of bytes of `set`. */
static bool is_made_of(struct rota_str word, const char *set)
{
    for (size_t i = 0; i < word.size; i++) {
        if (!strchr(set, word.data[i]))
            return false;
    }
    return true;
}

static enum rota_code scan_number(struct rota_config_scan *scan, struct rota_str word,
                                  int64_t *integer)
{
    int shown = word.size > SHOWN_MAX ? SHOWN_MAX : (int)word.size;
    size_t sign = word.data[0] == '-' || word.data[0] == '+';
    struct rota_str digits = rota_str_of(word.data + sign, word.size - sign);

    if (digits.size > 0 && is_digit(digits.data[0]) && is_made_of(digits, "0123456789_"))
        return scan_integer(scan, word, integer);
    if (rota_str_is_equal(digits, rota_str("inf")) || rota_str_is_equal(digits, rota_str("nan")) ||
        (looks_like(digits, "0") && is_made_of(digits, "0123456789_+-.eE")))
        return fail("floats are not supported: %.*s", shown, word.data);
    if (rota_str_has_prefix(digits, rota_str("0x")) ||
        rota_str_has_prefix(digits, rota_str("0o")) || rota_str_has_prefix(digits, rota_str("0b")))
        return fail("hexadecimal, octal and binary integers are not supported: %.*s", shown,
                    word.data);
    return fail("%.*s is not a value; text needs \"quotes\"", shown, word.data);
}

enum rota_code rota_config_scan_value(struct rota_config_scan *scan,
                                      struct rota_config_text_entry *entry)
{
    if (*scan->at == '"' || *scan->at == '\'') {
        entry->type = ROTA_CONFIG_TEXT_STRING;
        return scan_string(scan, &entry->string);
    }
    if (*scan->at == '[')
        return fail("arrays are not supported; write a list as one string: \"a,b\"");
    if (!is_word(*scan->at))
        return rota_config_scan_expected(scan, "a value");

    struct rota_str word = scan_word(scan);
    bool is_true = rota_str_is_equal(word, rota_str("true"));
    if (is_true || rota_str_is_equal(word, rota_str("false"))) {
        entry->type = ROTA_CONFIG_TEXT_BOOLEAN;
        entry->boolean = is_true;
        return ROTA_OK;
    }
    if (looks_like(word, "0000-00-00")) {
        entry->type = ROTA_CONFIG_TEXT_TIME;
        return scan_time(scan, word, &entry->time);
    }
    if (looks_like(word, "00:00"))
        return fail("local times are not supported");
    entry->type = ROTA_CONFIG_TEXT_INTEGER;
    return scan_number(scan, word, &entry->integer);
}
