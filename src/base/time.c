#include <rota/time.h>

#include <stdbool.h>
#include <stdio.h>

enum { FRACTION_DIGITS = 9, SECONDS_PER_DAY = 86400 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool starts_with_digit(struct rota_str rest)
{
    return rest.size > 0 && is_digit(rest.data[0]);
}

static void skip_bytes(struct rota_str *rest, size_t size)
{
    rest->data += size;
    rest->size -= size;
}

/* Take one of the characters of `allowed`. */
static bool take_char_of(struct rota_str *rest, const char *allowed, char *taken)
{
    if (rest->size == 0 || rest->data[0] == '\0' || !strchr(allowed, rest->data[0]))
        return false;
    *taken = rest->data[0];
    skip_bytes(rest, 1);
    return true;
}

/* Take exactly `n_digits` digits. */
static bool take_digits(struct rota_str *rest, int n_digits, int *number)
{
    *number = 0;
    for (int i = 0; i < n_digits; i++) {
        if (!starts_with_digit(*rest))
            return false;
        *number = *number * 10 + (rest->data[0] - '0');
        skip_bytes(rest, 1);
    }
    return true;
}

/* Take a whole number of any length that fits. */
static bool take_number(struct rota_str *rest, int64_t *number)
{
    if (!starts_with_digit(*rest))
        return false;
    for (*number = 0; starts_with_digit(*rest); skip_bytes(rest, 1))
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, rest->data[0] - '0', number))
            return false;
    return true;
}

/* Take a fraction in billionths when there is one: 0 and true when not. More digits are
 * rejected, not rounded. */
static bool take_fraction(struct rota_str *rest, int64_t *billionths)
{
    char dot;
    int n_digits = 0;

    *billionths = 0;
    if (!take_char_of(rest, ".", &dot))
        return true;
    for (; starts_with_digit(*rest); skip_bytes(rest, 1), n_digits++) {
        if (n_digits == FRACTION_DIGITS)
            return false;
        *billionths = *billionths * 10 + (rest->data[0] - '0');
    }
    for (int i = n_digits; i < FRACTION_DIGITS; i++)
        *billionths *= 10;
    return n_digits > 0;
}

/* `count * unit + billionths * unit / 10^9`, when it is exact and fits. */
static bool scale_to_unit(int64_t count, int64_t billionths, rota_time unit, rota_time *time)
{
    __extension__ __int128 part = (__int128)billionths * unit;
    __extension__ __int128 sum = (__int128)count * unit + part / ROTA_SEC;
    if (part % ROTA_SEC != 0 || sum < INT64_MIN || sum > INT64_MAX)
        return false;
    *time = (rota_time)sum;
    return true;
}

/* --- the calendar: Gregorian, also before its introduction --- */

struct date {
    int year, month, day; /* month and day count from 1 */
};

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* The first of January, in days from 1970; for years from 1 on. */
static int64_t day_of_year(int year)
{
    int64_t past = year - 1;
    return 365 * past + past / 4 - past / 100 + past / 400 - 719162;
}

static int64_t day_of_date(struct date date)
{
    int64_t day = day_of_year(date.year) + date.day - 1;
    for (int month = 1; month < date.month; month++)
        day += days_of_month(date.year, month);
    return day;
}

static struct date date_of_day(int64_t day)
{
    struct date date = {.year = (int)(1970 + day / 366), .month = 1};
    while (day < day_of_year(date.year))
        date.year--;
    while (day >= day_of_year(date.year + 1))
        date.year++;
    day -= day_of_year(date.year);
    for (; day >= days_of_month(date.year, date.month); date.month++)
        day -= days_of_month(date.year, date.month);
    date.day = (int)day + 1;
    return date;
}

/* --- timestamps --- */

static bool take_date(struct rota_str *rest, int64_t *day)
{
    struct date date;
    char dash;
    if (!take_digits(rest, 4, &date.year) || !take_char_of(rest, "-", &dash) ||
        !take_digits(rest, 2, &date.month) || !take_char_of(rest, "-", &dash) ||
        !take_digits(rest, 2, &date.day))
        return false;
    if (date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1 ||
        date.day > days_of_month(date.year, date.month))
        return false;
    *day = day_of_date(date);
    return true;
}

/* No leap second: unix time can't express it. */
static bool take_clock(struct rota_str *rest, int *seconds)
{
    int hour, minute, second;
    char colon;
    if (!take_digits(rest, 2, &hour) || !take_char_of(rest, ":", &colon) ||
        !take_digits(rest, 2, &minute) || !take_char_of(rest, ":", &colon) ||
        !take_digits(rest, 2, &second))
        return false;
    *seconds = (hour * 60 + minute) * 60 + second;
    return hour < 24 && minute < 60 && second < 60;
}

static bool take_offset(struct rota_str *rest, int *seconds)
{
    int hour, minute;
    char sign, colon;
    *seconds = 0;
    if (!take_char_of(rest, "Zz+-", &sign))
        return false;
    if (sign == 'Z' || sign == 'z')
        return true;
    if (!take_digits(rest, 2, &hour) || !take_char_of(rest, ":", &colon) ||
        !take_digits(rest, 2, &minute))
        return false;
    *seconds = (hour * 60 + minute) * 60 * (sign == '-' ? -1 : 1);
    return hour < 24 && minute < 60;
}

static bool parse_calendar(struct rota_str text, rota_time *time)
{
    int64_t day, fraction;
    int clock, offset;
    char between;
    if (!take_date(&text, &day) || !take_char_of(&text, "Tt ", &between) ||
        !take_clock(&text, &clock) || !take_fraction(&text, &fraction) ||
        !take_offset(&text, &offset) || text.size > 0)
        return false;
    return scale_to_unit(day * SECONDS_PER_DAY + clock - offset, fraction, ROTA_SEC, time);
}

static bool parse_unix(struct rota_str text, rota_time *time)
{
    int64_t seconds, fraction;
    char minus;
    bool is_negative = take_char_of(&text, "-", &minus);
    if (!take_number(&text, &seconds) || !take_fraction(&text, &fraction) || text.size > 0)
        return false;
    if (is_negative)
        return scale_to_unit(-seconds, -fraction, ROTA_SEC, time);
    return scale_to_unit(seconds, fraction, ROTA_SEC, time);
}

enum rota_code rota_time_parse(struct rota_str text, rota_time *time)
{
    rota_time parsed;
    bool has_year = text.size > 4 && text.data[4] == '-';
    if (has_year ? !parse_calendar(text, &parsed) : !parse_unix(text, &parsed))
        return ROTA_ERR_INVALID;
    *time = parsed;
    return ROTA_OK;
}

/* Write ".25" for a quarter: `part / unit`; nothing if it is 0. */
static void format_fraction(char text[FRACTION_DIGITS + 2], uint64_t part, uint64_t unit)
{
    if (part > 0)
        *text++ = '.';
    for (; part > 0; part %= unit) {
        unit /= 10;
        *text++ = (char)('0' + part / unit);
    }
    *text = '\0';
}

char *rota_time_format(rota_time time, char text[ROTA_TIME_TEXT_MAX])
{
    char fraction[FRACTION_DIGITS + 2];
    int64_t nanoseconds = time % ROTA_SEC, seconds = time / ROTA_SEC;
    if (nanoseconds < 0) {
        nanoseconds += ROTA_SEC;
        seconds--;
    }
    int64_t clock = seconds % SECONDS_PER_DAY, day = seconds / SECONDS_PER_DAY;
    if (clock < 0) {
        clock += SECONDS_PER_DAY;
        day--;
    }
    struct date date = date_of_day(day);
    format_fraction(fraction, (uint64_t)nanoseconds, ROTA_SEC);
    snprintf(text, ROTA_TIME_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", date.year, date.month,
             date.day, (int)clock / 3600, (int)clock / 60 % 60, (int)clock % 60, fraction);
    return text;
}

/* --- durations --- */

struct unit {
    const char *name;
    rota_time span;
};

/* From large to small, save that "ms" must be tried before its beginning "m". */
static const struct unit units[] = {
    {"d", ROTA_DAY}, {"h", ROTA_HOUR},  {"ms", ROTA_MSEC}, {"m", ROTA_MIN},
    {"s", ROTA_SEC}, {"us", ROTA_USEC}, {"ns", ROTA_NSEC},
};

static bool take_unit(struct rota_str *rest, rota_time *span)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        struct rota_str name = rota_str(units[i].name);
        if (rota_str_has_prefix(*rest, name)) {
            skip_bytes(rest, name.size);
            *span = units[i].span;
            return true;
        }
    }
    return false;
}

enum rota_code rota_span_parse(struct rota_str text, rota_time *span)
{
    rota_time sum = 0;
    if (text.size == 0)
        return ROTA_ERR_INVALID;
    if (rota_str_is_equal(text, rota_str("0")))
        text.size = 0;
    while (text.size > 0) {
        int64_t number, fraction;
        rota_time unit, part;
        if (!take_number(&text, &number) || !take_fraction(&text, &fraction) ||
            !take_unit(&text, &unit) || !scale_to_unit(number, fraction, unit, &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return ROTA_ERR_INVALID;
    }
    *span = sum;
    return ROTA_OK;
}

/* Append one number with its unit to a text of `size` bytes; returns its new size. */
static size_t format_part(char text[ROTA_TIME_TEXT_MAX], size_t size, uint64_t part, uint64_t unit,
                          const char *name)
{
    char fraction[FRACTION_DIGITS + 2];
    format_fraction(fraction, part % unit, unit);
    return size + (size_t)snprintf(text + size, ROTA_TIME_TEXT_MAX - size, "%llu%s%s",
                                   (unsigned long long)(part / unit), fraction, name);
}

/* Days to seconds one after the other, with the fraction at the seconds; a duration below a
 * second in the largest unit that fits. */
char *rota_span_format(rota_time span, char text[ROTA_TIME_TEXT_MAX])
{
    static const struct unit whole[] = {{"d", ROTA_DAY}, {"h", ROTA_HOUR}, {"m", ROTA_MIN}};
    uint64_t left = span < 0 ? -(uint64_t)span : (uint64_t)span;
    bool is_short = left > 0 && left < ROTA_SEC;
    size_t size = 0;

    if (span < 0)
        text[size++] = '-';
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        uint64_t unit = (uint64_t)whole[i].span;
        if (left >= unit)
            size = format_part(text, size, left - left % unit, unit, whole[i].name);
        left %= unit;
    }
    if (is_short && left < ROTA_USEC)
        format_part(text, size, left, ROTA_NSEC, "ns");
    else if (is_short && left < ROTA_MSEC)
        format_part(text, size, left, ROTA_USEC, "us");
    else if (is_short)
        format_part(text, size, left, ROTA_MSEC, "ms");
    else if (left > 0 || span == 0)
        format_part(text, size, left, ROTA_SEC, "s");
    return text;
}
