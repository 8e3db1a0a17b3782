#include "cli/plan_view.h"

#include "cli/terminal.h"

#include <stdlib.h>

enum {
    HOSTS_SHOWN = 16, /* rows of the table of hosts; the rest is summed up */
    BAR_MIN = 10,     /* columns */
    BAR_MAX = 40,
    NUMBERS_WIDTH = 4 * 9,
};

/* --- text --- */

static const char *color(const struct rota_terminal *terminal, enum rota_color which)
{
    return rota_terminal_color(terminal, which);
}

static void print_heading(const struct rota_terminal *terminal, const char *text)
{
    printf("\n%s%s%s\n", color(terminal, ROTA_COLOR_BOLD), text, color(terminal, ROTA_COLOR_NONE));
}

/* "72 -> 96", or "72" when that stays. */
static void print_change(uint64_t before, uint64_t after)
{
    if (before == after)
        printf("%llu", (unsigned long long)before);
    else
        printf("%llu -> %llu", (unsigned long long)before, (unsigned long long)after);
}

static void print_spread_mode(const struct rota_plan_side *side)
{
    if (side->spread.batch == 0)
        printf("batch 0");
    else
        printf("batch %u %s", side->spread.batch, rota_spread_mode_name(side->spread.mode));
}

static bool changes_spread(const struct rota_plan_side *before, const struct rota_plan_side *after)
{
    return before->spread.batch != after->spread.batch ||
           (before->spread.mode != after->spread.mode && after->spread.batch > 0);
}

static void print_title(const struct rota_terminal *terminal, const struct rota_plan_view *view,
                        const struct rota_plan_result *result)
{
    bool has_points = view->points_before != view->points_after;

    printf("%sPlan%s  %lld %s x ", color(terminal, ROTA_COLOR_BOLD),
           color(terminal, ROTA_COLOR_NONE), (long long)view->queues,
           view->queues == 1 ? "queue" : "queues");
    print_change(view->before.n_partitions, view->after.n_partitions);
    printf(" partitions, ");
    print_change(result->hosts_before.n, result->hosts_after.n);
    printf(" hosts,%s",
           changes_spread(&view->before, &view->after) || has_points ? "\n      " : " ");
    print_spread_mode(&view->before);
    if (changes_spread(&view->before, &view->after)) {
        printf(" -> ");
        print_spread_mode(&view->after);
    }
    if (has_points)
        printf(", %u -> %u points", view->points_before, view->points_after);
    printf("\n");
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_totals(const struct rota_terminal *terminal,
                         const struct rota_plan_result *result)
{
    double ratio = rota_plan_ratio(result);
    enum rota_color mood = ratio < 0      ? ROTA_COLOR_BOLD
                           : ratio < 1.25 ? ROTA_COLOR_GREEN
                           : ratio < 2    ? ROTA_COLOR_YELLOW
                                          : ROTA_COLOR_RED;

    double moved = percent(result->moved, result->moved + result->stays);

    printf("\n  %-12s %s%llu%s of %llu (%.*f %%)\n", "moved", color(terminal, mood),
           (unsigned long long)result->moved, color(terminal, ROTA_COLOR_NONE),
           (unsigned long long)(result->moved + result->stays), moved < 1 ? 2 : 1, moved);
    printf("  %-12s %.*f\n", "minimum", result->minimum < 100 ? 1 : 0, result->minimum);
    if (ratio < 0)
        printf("  %-12s -\n", "ratio");
    else
        printf("  %-12s %s%.2f%s x the minimum\n", "ratio", color(terminal, mood), ratio,
               color(terminal, ROTA_COLOR_NONE));
    if (result->added > 0)
        printf("  %-12s %llu\n", "new", (unsigned long long)result->added);
    if (result->gone > 0)
        printf("  %-12s %llu\n", "gone", (unsigned long long)result->gone);
}

static void print_spread(const char *what, const struct rota_plan_spread *spread)
{
    printf("  %-14s %8u %10llu %10.1f %10.1f", what, spread->n, (unsigned long long)spread->max,
           spread->mean, spread->stddev);
    if (spread->mean > 0)
        printf(" %9.2f\n", (double)spread->max / spread->mean);
    else
        printf(" %9s\n", "-");
}

static void print_spreads(const struct rota_terminal *terminal,
                          const struct rota_plan_result *result)
{
    print_heading(terminal, "Spread              count        max       mean     stddev  max/mean");
    print_spread("hosts before", &result->hosts_before);
    print_spread("hosts after", &result->hosts_after);
    if (result->n_zones > 1) {
        print_spread("zones before", &result->zones_before);
        print_spread("zones after", &result->zones_after);
    }
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t unrest(const struct rota_plan_host *host)
{
    return host->arriving + host->leaving;
}

static int by_unrest(const void *a, const void *b)
{
    const struct rota_plan_host *x = *(const struct rota_plan_host *const *)a;
    const struct rota_plan_host *y = *(const struct rota_plan_host *const *)b;
    if (unrest(x) != unrest(y))
        return unrest(x) > unrest(y) ? -1 : 1;
    return rota_str_compare(x->address, y->address);
}

/* A bar in three parts: what stays, what comes, what goes. */
static void print_parts(const struct rota_terminal *terminal, const struct rota_plan_host *host,
                        uint64_t full, int width)
{
    static const char *const UTF8[] = {"█", "▓", "░"}, *const ASCII[] = {"#", "+", "-"};
    static const enum rota_color COLORS[] = {ROTA_COLOR_BLUE, ROTA_COLOR_GREEN, ROTA_COLOR_RED};
    uint64_t parts[] = {host->before - host->leaving, host->arriving, host->leaving};
    uint64_t sum = 0;
    int drawn = 0;

    for (int i = 0; i < 3; i++) {
        sum += parts[i];
        int to = full ? (int)((double)sum / (double)full * width + 0.5) : 0;
        if (parts[i] > 0 && to <= drawn && drawn < width)
            to = drawn + 1; /* little is not nothing */
        if (to <= drawn)
            continue;
        fputs(color(terminal, COLORS[i]), stdout);
        for (; drawn < to; drawn++)
            fputs((terminal->is_utf8 ? UTF8 : ASCII)[i], stdout);
        fputs(color(terminal, ROTA_COLOR_NONE), stdout);
    }
}

/* A name in `width` columns; one that is too long is cut on a terminal only. */
static void print_name(const struct rota_terminal *terminal, struct rota_str name, int width)
{
    if (name.size > (size_t)width && terminal->is_terminal)
        printf("  %.*s~", width - 1, name.data);
    else
        printf("  %-*.*s", width, ROTA_STR_ARGS(name));
}

static void print_host(const struct rota_terminal *terminal, const struct rota_plan_host *host,
                       uint64_t full, int name_width, int bar_width)
{
    bool is_bad = host->is_before && !host->is_after;
    bool is_new = host->is_after && !host->is_before;
    fputs(color(terminal, is_new   ? ROTA_COLOR_GREEN
                          : is_bad ? ROTA_COLOR_RED
                                   : ROTA_COLOR_NONE),
          stdout);
    print_name(terminal, host->address, name_width);
    fputs(color(terminal, ROTA_COLOR_NONE), stdout);
    printf(" %8llu %8llu %8llu %8llu", (unsigned long long)host->before,
           (unsigned long long)host->after, (unsigned long long)host->arriving,
           (unsigned long long)host->leaving);
    if (terminal->is_terminal) {
        printf("  ");
        print_parts(terminal, host, full, bar_width);
    }
    printf("\n");
}

static int between(int value, int min, int max)
{
    return value < min ? min : value > max ? max : value;
}

static void print_hosts(const struct rota_terminal *terminal, const struct rota_plan_result *result)
{
    const struct rota_plan_host **rows = calloc(result->n_hosts + 1, sizeof *rows);
    size_t n = result->n_hosts < HOSTS_SHOWN ? result->n_hosts : HOSTS_SHOWN;
    uint64_t full = 0;
    int longest = 14;
    if (!rows)
        return; /* the totals are out, which is what matters most */

    for (size_t i = 0; i < result->n_hosts; i++)
        rows[i] = &result->hosts[i];
    if (result->n_hosts > HOSTS_SHOWN)
        qsort(rows, result->n_hosts, sizeof *rows, by_unrest);
    for (size_t i = 0; i < n; i++) {
        full = larger(full, rows[i]->before + rows[i]->arriving);
        if (rows[i]->address.size > (size_t)longest)
            longest = (int)rows[i]->address.size;
    }
    int name_width = terminal->is_terminal
                         ? between(longest, 14, terminal->width - NUMBERS_WIDTH - BAR_MIN - 5)
                         : longest;
    int bar_width = between(terminal->width - name_width - NUMBERS_WIDTH - 5, BAR_MIN, BAR_MAX);

    printf("\n%s  %-*s %8s %8s %8s %8s%s", color(terminal, ROTA_COLOR_BOLD), name_width, "Host",
           "before", "after", "arrive", "leave", color(terminal, ROTA_COLOR_NONE));
    printf("\n");
    for (size_t i = 0; i < n; i++)
        print_host(terminal, rows[i], full, name_width, bar_width);
    if (result->n_hosts > n) {
        uint64_t rest = 0;
        for (size_t i = n; i < result->n_hosts; i++)
            rest += unrest(rows[i]) > 0;
        printf("  ... and %zu more, of which %llu change\n", result->n_hosts - n,
               (unsigned long long)rest);
    }
    if (terminal->is_terminal)
        printf(terminal->is_utf8 ? "%s  █ stay  ▓ arrive  ░ leave%s\n"
                                 : "%s  # stay  + arrive  - leave%s\n",
               color(terminal, ROTA_COLOR_DIM), color(terminal, ROTA_COLOR_NONE));
    free(rows);
}

static void print_zone(const struct rota_terminal *terminal, const struct rota_plan_zone *zone,
                       uint64_t full)
{
    char hosts[32];
    if (zone->n_hosts_before == zone->n_hosts_after)
        snprintf(hosts, sizeof hosts, "%u", zone->n_hosts_after);
    else
        snprintf(hosts, sizeof hosts, "%u -> %u", zone->n_hosts_before, zone->n_hosts_after);
    print_name(terminal, zone->name.size ? zone->name : rota_str("(none)"), 14);
    printf(" %8llu %8llu %17s", (unsigned long long)zone->before, (unsigned long long)zone->after,
           hosts);
    if (terminal->is_terminal) {
        printf("  ");
        rota_terminal_bar(terminal, ROTA_COLOR_BLUE, (double)zone->after, (double)full,
                          between(terminal->width - 14 - NUMBERS_WIDTH - 5, BAR_MIN, BAR_MAX));
    }
    printf("\n");
}

static void print_zones(const struct rota_terminal *terminal, const struct rota_plan_result *result)
{
    uint64_t full = 0;
    if (result->n_zones <= 1)
        return;
    for (size_t i = 0; i < result->n_zones; i++)
        full = larger(full, result->zones[i].after);
    printf("\n%s  %-14s %8s %8s %17s%s\n", color(terminal, ROTA_COLOR_BOLD), "Zone", "before",
           "after", "hosts", color(terminal, ROTA_COLOR_NONE));
    for (size_t i = 0; i < result->n_zones; i++)
        print_zone(terminal, &result->zones[i], full);
}

/* The beginning of bucket `i`; the last one ends where the change does. */
static rota_time bucket_start(const struct rota_plan_view *view, size_t i, size_t n)
{
    rota_time length = view->end - view->start;
    rota_time part = length / (rota_time)n, rest = length % (rota_time)n;
    return view->start + part * (rota_time)i + rest * (rota_time)i / (rota_time)n;
}

static void print_timeline(const struct rota_terminal *terminal, const struct rota_plan_view *view,
                           const struct rota_plan_result *result)
{
    char text[ROTA_TIME_TEXT_MAX];
    uint64_t full = 0;
    if (result->n_buckets == 0)
        return;
    for (size_t i = 0; i < result->n_buckets; i++)
        full = larger(full, result->buckets[i]);
    printf("\n%s  %-32s %8s%s\n", color(terminal, ROTA_COLOR_BOLD), "Gradually, from", "moves",
           color(terminal, ROTA_COLOR_NONE));
    for (size_t i = 0; i < result->n_buckets; i++) {
        printf("  %-32s %8llu", rota_time_format(bucket_start(view, i, result->n_buckets), text),
               (unsigned long long)result->buckets[i]);
        if (terminal->is_terminal) {
            printf("  ");
            rota_terminal_bar(terminal, ROTA_COLOR_GREEN, (double)result->buckets[i], (double)full,
                              between(terminal->width - 46, BAR_MIN, BAR_MAX));
        }
        printf("\n");
    }
    printf("  %-32s %8s\n", rota_time_format(view->end, text), "done");
}

/* In lines of at most the terminal's width. */
static void print_advice(const struct rota_terminal *terminal, const char *text)
{
    int column = 0, width = terminal->width < 100 ? terminal->width : 100;
    printf("\n");
    while (*text) {
        size_t size = strcspn(text, " ");
        if (column > 0 && column + 1 + (int)size > width - 2) {
            printf("\n");
            column = 0;
        }
        column += printf("%s%.*s", column ? " " : "  ", (int)size, text);
        text += size;
        text += *text == ' ';
    }
    printf("\n");
}

void rota_plan_view_print(const struct rota_plan_view *view, const struct rota_plan_result *result)
{
    struct rota_terminal terminal = rota_terminal_look();
    print_title(&terminal, view, result);
    print_totals(&terminal, result);
    print_spreads(&terminal, result);
    print_hosts(&terminal, result);
    print_zones(&terminal, result);
    print_timeline(&terminal, view, result);
    if (view->advice)
        print_advice(&terminal, view->advice);
}

/* --- JSON --- */

static void add_uint(struct rota_json *json, const char *key, uint64_t value)
{
    rota_json_key(json, key);
    rota_json_uint(json, value);
}

static void add_double(struct rota_json *json, const char *key, double value)
{
    rota_json_key(json, key);
    rota_json_double(json, value);
}

static void add_spread(struct rota_json *json, const char *key,
                       const struct rota_plan_spread *spread)
{
    rota_json_key(json, key);
    rota_json_begin_object(json);
    add_uint(json, "count", spread->n);
    add_uint(json, "max", spread->max);
    add_double(json, "mean", spread->mean);
    add_double(json, "stddev", spread->stddev);
    rota_json_end_object(json);
}

static void add_totals(struct rota_json *json, const struct rota_plan_result *result)
{
    double ratio = rota_plan_ratio(result);
    add_uint(json, "queues", result->n_spaces);
    rota_json_key(json, "partitions");
    rota_json_begin_object(json);
    add_uint(json, "before", result->before);
    add_uint(json, "after", result->after);
    rota_json_end_object(json);
    add_uint(json, "moved", result->moved);
    add_uint(json, "stays", result->stays);
    add_uint(json, "new", result->added);
    add_uint(json, "gone", result->gone);
    add_double(json, "minimum", result->minimum);
    rota_json_key(json, "ratio");
    if (ratio < 0)
        rota_json_null(json);
    else
        rota_json_double(json, ratio);
    rota_json_key(json, "spread");
    rota_json_begin_object(json);
    add_spread(json, "hosts_before", &result->hosts_before);
    add_spread(json, "hosts_after", &result->hosts_after);
    add_spread(json, "zones_before", &result->zones_before);
    add_spread(json, "zones_after", &result->zones_after);
    rota_json_end_object(json);
}

static void add_hosts(struct rota_json *json, const struct rota_plan_result *result)
{
    rota_json_key(json, "per_host");
    rota_json_begin_array(json);
    for (size_t i = 0; i < result->n_hosts; i++) {
        const struct rota_plan_host *host = &result->hosts[i];
        rota_json_begin_object(json);
        rota_json_key(json, "host");
        rota_json_string(json, host->address);
        rota_json_key(json, "zone");
        rota_json_string(json, host->zone);
        rota_json_key(json, "on_ring_before");
        rota_json_bool(json, host->is_before);
        rota_json_key(json, "on_ring_after");
        rota_json_bool(json, host->is_after);
        add_uint(json, "before", host->before);
        add_uint(json, "after", host->after);
        add_uint(json, "arriving", host->arriving);
        add_uint(json, "leaving", host->leaving);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

static void add_zones(struct rota_json *json, const struct rota_plan_result *result)
{
    rota_json_key(json, "per_zone");
    rota_json_begin_array(json);
    for (size_t i = 0; i < result->n_zones; i++) {
        rota_json_begin_object(json);
        rota_json_key(json, "zone");
        rota_json_string(json, result->zones[i].name);
        add_uint(json, "hosts_before", result->zones[i].n_hosts_before);
        add_uint(json, "hosts_after", result->zones[i].n_hosts_after);
        add_uint(json, "before", result->zones[i].before);
        add_uint(json, "after", result->zones[i].after);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

static void add_timeline(struct rota_json *json, const struct rota_plan_view *view,
                         const struct rota_plan_result *result)
{
    char text[ROTA_TIME_TEXT_MAX];
    size_t n = result->n_buckets;
    rota_json_key(json, "timeline");
    rota_json_begin_array(json);
    for (size_t i = 0; i < n; i++) {
        rota_json_begin_object(json);
        rota_json_key(json, "start");
        rota_json_text(json, rota_time_format(bucket_start(view, i, n), text));
        rota_json_key(json, "end");
        rota_json_text(json, rota_time_format(bucket_start(view, i + 1, n), text));
        add_uint(json, "moves", result->buckets[i]);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

void rota_plan_view_format_json(const struct rota_plan_view *view,
                                const struct rota_plan_result *result, struct rota_json *json)
{
    add_totals(json, result);
    add_hosts(json, result);
    add_zones(json, result);
    add_timeline(json, view, result);
    rota_json_key(json, "advice");
    rota_json_text(json, view->advice);
}
