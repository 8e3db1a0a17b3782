#include "cli/place/plan_view.h"

#include "cli/terminal.h"

#include <stdlib.h>

enum {
    HOSTS_SHOWN = 16, /* rows of the table of hosts; the rest is summarized */
    BAR_MIN = 10,     /* columns */
    BAR_MAX = 40,
    NAME_MIN = 8,
    INDENT = 2,
};

/* The layout of a table on the terminal: names, numbers, and a bar if there is room. */
struct layout {
    int name_width;
    int bar_width; /* 0: none */
};

/* --- text --- */

static int between(int value, int min, int max)
{
    return value < min ? min : value > max ? max : value;
}

/* The bar is left out first, then longer names are cut. */
static struct layout lay_out(const struct rota_terminal *terminal, int longest_name,
                             int numbers_width)
{
    struct layout layout = {.name_width = longest_name < 14 ? 14 : longest_name};
    if (!terminal->is_terminal)
        return layout;
    int room = terminal->width - INDENT - numbers_width;
    if (layout.name_width > room)
        layout.name_width = room < NAME_MIN ? NAME_MIN : room;
    int rest = room - layout.name_width - 2;
    if (rest >= BAR_MIN)
        layout.bar_width = rest < BAR_MAX ? rest : BAR_MAX;
    return layout;
}

/* "72 -> 96", or "72" if it stays the same. */
static void append_change(struct rota_buffer *buffer, uint64_t before, uint64_t after)
{
    rota_buffer_print(buffer, "%llu", (unsigned long long)before);
    if (before != after)
        rota_buffer_print(buffer, " -> %llu", (unsigned long long)after);
}

static void append_spread_mode(struct rota_buffer *buffer, const struct rota_plan_side *side)
{
    rota_buffer_print(buffer, "batch %u", side->spread.batch);
    if (side->spread.batch > 0)
        rota_buffer_print(buffer, " %s", rota_spread_mode_name(side->spread.mode));
}

static bool changes_spread(const struct rota_plan_side *before, const struct rota_plan_side *after)
{
    return before->spread.batch != after->spread.batch ||
           (before->spread.mode != after->spread.mode && after->spread.batch > 0);
}

/* Wrap to the terminal's width; the caller has begun the first line. */
static void print_wrapped(const struct rota_terminal *terminal, const char *text, int indent)
{
    struct rota_buffer lines = {0};
    rota_terminal_wrap(&lines, text, indent, between(terminal->width, 0, 100));
    fwrite(rota_buffer_str(&lines).data, 1, lines.size, stdout);
    rota_buffer_deinit(&lines);
}

static void print_title(const struct rota_terminal *terminal, const struct rota_plan_view *view,
                        const struct rota_plan_result *result)
{
    struct rota_buffer title = {0};
    rota_buffer_print(&title, "%lld %s x ", (long long)view->queues,
                      view->queues == 1 ? "queue" : "queues");
    append_change(&title, view->before.n_partitions, view->after.n_partitions);
    rota_buffer_append_text(&title, " partitions, ");
    append_change(&title, result->hosts_before.n, result->hosts_after.n);
    rota_buffer_append_text(&title, " hosts, ");
    append_spread_mode(&title, &view->before);
    if (changes_spread(&view->before, &view->after)) {
        rota_buffer_append_text(&title, " -> ");
        append_spread_mode(&title, &view->after);
    }
    if (view->points_before != view->points_after)
        rota_buffer_print(&title, ", %u -> %u points", view->points_before, view->points_after);
    printf("%sPlan%s  ", rota_terminal_color(terminal, ROTA_COLOR_BOLD),
           rota_terminal_color(terminal, ROTA_COLOR_NONE));
    print_wrapped(terminal, rota_buffer_str(&title).data, (int)strlen("Plan  "));
    rota_buffer_deinit(&title);
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

    uint64_t all = result->moved + result->stays + result->lost;
    double moved = percent(result->moved, all);

    printf("\n  %-12s %s%llu%s of %llu (%.*f %%)\n", "moved", rota_terminal_color(terminal, mood),
           (unsigned long long)result->moved, rota_terminal_color(terminal, ROTA_COLOR_NONE),
           (unsigned long long)all, moved < 1 ? 2 : 1, moved);
    printf("  %-12s %.*f, lower bound for an even placement\n", "minimum",
           result->minimum < 100 ? 1 : 0, result->minimum);
    if (ratio < 0)
        printf("  %-12s -\n", "ratio");
    else
        printf("  %-12s %s%.2f%s x the minimum\n", "ratio", rota_terminal_color(terminal, mood),
               ratio, rota_terminal_color(terminal, ROTA_COLOR_NONE));
    if (result->added > 0)
        printf("  %-12s %llu\n", "new", (unsigned long long)result->added);
    if (result->gone > 0)
        printf("  %-12s %llu\n", "gone", (unsigned long long)result->gone);
    if (result->lost > 0)
        printf("  %-12s %s%llu%s: no host is left to own them\n", "lost",
               rota_terminal_color(terminal, ROTA_COLOR_RED), (unsigned long long)result->lost,
               rota_terminal_color(terminal, ROTA_COLOR_NONE));
}

static void print_spread(const char *what, const struct rota_plan_spread *spread)
{
    printf("  %-12s %6u %9llu %9.1f %8.1f", what, spread->n, (unsigned long long)spread->max,
           spread->mean, spread->stddev);
    if (spread->max_to_fair > 0)
        printf(" %8.2f\n", spread->max_to_fair);
    else
        printf(" %8s\n", "-");
}

static void print_spreads(const struct rota_terminal *terminal,
                          const struct rota_plan_result *result)
{
    printf("\n%s  %-12s %6s %9s %9s %8s %8s%s\n", rota_terminal_color(terminal, ROTA_COLOR_BOLD),
           "Load", "count", "max", "mean", "stddev", "max/fair",
           rota_terminal_color(terminal, ROTA_COLOR_NONE));
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

/* A bar in three parts: what stays, what arrives, what leaves. */
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
            to = drawn + 1; /* show a small value as more than nothing */
        if (to <= drawn)
            continue;
        fputs(rota_terminal_color(terminal, COLORS[i]), stdout);
        for (; drawn < to; drawn++)
            fputs((terminal->is_utf8 ? UTF8 : ASCII)[i], stdout);
        fputs(rota_terminal_color(terminal, ROTA_COLOR_NONE), stdout);
    }
}

/* In `width` columns: padded, or cut. */
static void print_name(const struct rota_terminal *terminal, struct rota_str name, int width)
{
    struct rota_buffer shown = {0};
    int columns = rota_terminal_append_cut(&shown, terminal, name, width);
    printf("%.*s%*s", ROTA_STR_ARGS(rota_buffer_str(&shown)), columns < width ? width - columns : 0,
           "");
    rota_buffer_deinit(&shown);
}

static void print_host(const struct rota_terminal *terminal, const struct rota_plan_host *host,
                       uint64_t full, const struct layout *layout)
{
    bool is_bad = host->is_before && !host->is_after;
    bool is_new = host->is_after && !host->is_before;
    fputs(rota_terminal_color(terminal, is_new   ? ROTA_COLOR_GREEN
                                        : is_bad ? ROTA_COLOR_RED
                                                 : ROTA_COLOR_NONE),
          stdout);
    printf("%*s", INDENT, "");
    print_name(terminal, host->address, layout->name_width);
    fputs(rota_terminal_color(terminal, ROTA_COLOR_NONE), stdout);
    printf(" %8llu %8llu %8llu %8llu", (unsigned long long)host->before,
           (unsigned long long)host->after, (unsigned long long)host->arriving,
           (unsigned long long)host->leaving);
    if (layout->bar_width > 0) {
        printf("  ");
        print_parts(terminal, host, full, layout->bar_width);
    }
    printf("\n");
}

static void print_hosts(const struct rota_terminal *terminal, const struct rota_plan_result *result)
{
    const struct rota_plan_host **rows = calloc(result->n_hosts + 1, sizeof *rows);
    size_t n = result->n_hosts < HOSTS_SHOWN ? result->n_hosts : HOSTS_SHOWN;
    uint64_t full = 0;
    int longest = 0;
    if (!rows)
        return; /* the totals, which matter most, are printed */

    for (size_t i = 0; i < result->n_hosts; i++)
        rows[i] = &result->hosts[i];
    if (result->n_hosts > HOSTS_SHOWN)
        qsort(rows, result->n_hosts, sizeof *rows, by_unrest);
    for (size_t i = 0; i < n; i++) {
        full = larger(full, rows[i]->before + rows[i]->arriving);
        int columns = rota_terminal_columns(rows[i]->address);
        if (columns > longest)
            longest = columns;
    }
    struct layout layout = lay_out(terminal, longest, 4 * 9);

    printf("\n%s  %-*s %8s %8s %8s %8s%s\n", rota_terminal_color(terminal, ROTA_COLOR_BOLD),
           layout.name_width, "Host", "before", "after", "arrive", "leave",
           rota_terminal_color(terminal, ROTA_COLOR_NONE));
    for (size_t i = 0; i < n; i++)
        print_host(terminal, rows[i], full, &layout);
    if (result->n_hosts > n) {
        uint64_t rest = 0;
        for (size_t i = n; i < result->n_hosts; i++)
            rest += unrest(rows[i]) > 0;
        printf("  ... and %zu more, of which %llu change\n", result->n_hosts - n,
               (unsigned long long)rest);
    }
    if (layout.bar_width > 0)
        printf(terminal->is_utf8 ? "%s  █ stay  ▓ arrive  ░ leave%s\n"
                                 : "%s  # stay  + arrive  - leave%s\n",
               rota_terminal_color(terminal, ROTA_COLOR_DIM),
               rota_terminal_color(terminal, ROTA_COLOR_NONE));
    free(rows);
}

static struct rota_str zone_name(const struct rota_plan_zone *zone)
{
    return zone->name.size ? zone->name : rota_str("(none)");
}

static void print_zone(const struct rota_terminal *terminal, const struct rota_plan_zone *zone,
                       uint64_t full, const struct layout *layout)
{
    char hosts[32];
    if (zone->n_hosts_before == zone->n_hosts_after)
        snprintf(hosts, sizeof hosts, "%u", zone->n_hosts_after);
    else
        snprintf(hosts, sizeof hosts, "%u -> %u", zone->n_hosts_before, zone->n_hosts_after);
    printf("%*s", INDENT, "");
    print_name(terminal, zone_name(zone), layout->name_width);
    printf(" %8llu %8llu %17s", (unsigned long long)zone->before, (unsigned long long)zone->after,
           hosts);
    if (layout->bar_width > 0) {
        printf("  ");
        rota_terminal_bar(terminal, ROTA_COLOR_BLUE, (double)zone->after, (double)full,
                          layout->bar_width);
    }
    printf("\n");
}

static void print_zones(const struct rota_terminal *terminal, const struct rota_plan_result *result)
{
    uint64_t full = 0;
    int longest = 0;
    if (result->n_zones <= 1)
        return;
    for (size_t i = 0; i < result->n_zones; i++) {
        int columns = rota_terminal_columns(zone_name(&result->zones[i]));
        full = larger(full, result->zones[i].after);
        if (columns > longest)
            longest = columns;
    }
    struct layout layout = lay_out(terminal, longest, 4 * 9);
    printf("\n%s  %-*s %8s %8s %17s%s\n", rota_terminal_color(terminal, ROTA_COLOR_BOLD),
           layout.name_width, "Zone", "before", "after", "hosts",
           rota_terminal_color(terminal, ROTA_COLOR_NONE));
    for (size_t i = 0; i < result->n_zones; i++)
        print_zone(terminal, &result->zones[i], full, &layout);
}

/* The start of bucket `i`; the last one ends when the change does. */
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
    struct layout layout = lay_out(terminal, 30, 9);
    printf("\n%s  %-*s %8s%s\n", rota_terminal_color(terminal, ROTA_COLOR_BOLD), layout.name_width,
           "Gradually, from", "moves", rota_terminal_color(terminal, ROTA_COLOR_NONE));
    for (size_t i = 0; i < result->n_buckets; i++) {
        printf("  %-*s %8llu", layout.name_width,
               rota_time_format(bucket_start(view, i, result->n_buckets), text),
               (unsigned long long)result->buckets[i]);
        if (layout.bar_width > 0) {
            printf("  ");
            rota_terminal_bar(terminal, ROTA_COLOR_GREEN, (double)result->buckets[i], (double)full,
                              layout.bar_width);
        }
        printf("\n");
    }
    printf("  %-*s %8s\n", layout.name_width, rota_time_format(view->end, text), "done");
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
    if (view->advice) {
        printf("\n%*s", INDENT, "");
        print_wrapped(&terminal, view->advice, INDENT);
    }
}

/* --- JSON --- */

static void add_spread(struct rota_json *json, const char *key,
                       const struct rota_plan_spread *spread)
{
    rota_json_add_object(json, key);
    rota_json_add_uint(json, "count", spread->n);
    rota_json_add_uint(json, "max", spread->max);
    rota_json_add_double(json, "mean", spread->mean);
    rota_json_add_double(json, "stddev", spread->stddev);
    rota_json_add_double(json, "max_to_fair", spread->max_to_fair);
    rota_json_end_object(json);
}

static void add_totals(struct rota_json *json, const struct rota_plan_result *result)
{
    double ratio = rota_plan_ratio(result);
    rota_json_add_uint(json, "queues", result->n_spaces);
    rota_json_add_object(json, "partitions");
    rota_json_add_uint(json, "before", result->before);
    rota_json_add_uint(json, "after", result->after);
    rota_json_end_object(json);
    rota_json_add_uint(json, "moved", result->moved);
    rota_json_add_uint(json, "stays", result->stays);
    rota_json_add_uint(json, "new", result->added);
    rota_json_add_uint(json, "gone", result->gone);
    rota_json_add_uint(json, "lost", result->lost);
    rota_json_add_double(json, "minimum", result->minimum);
    rota_json_key(json, "ratio");
    if (ratio < 0)
        rota_json_null(json);
    else
        rota_json_double(json, ratio);
    rota_json_add_object(json, "spread");
    add_spread(json, "hosts_before", &result->hosts_before);
    add_spread(json, "hosts_after", &result->hosts_after);
    add_spread(json, "zones_before", &result->zones_before);
    add_spread(json, "zones_after", &result->zones_after);
    rota_json_end_object(json);
}

static void add_hosts(struct rota_json *json, const struct rota_plan_result *result)
{
    rota_json_add_array(json, "per_host");
    for (size_t i = 0; i < result->n_hosts; i++) {
        const struct rota_plan_host *host = &result->hosts[i];
        rota_json_begin_object(json);
        rota_json_add_string(json, "host", host->address);
        rota_json_add_string(json, "zone", host->zone);
        rota_json_add_bool(json, "on_ring_before", host->is_before);
        rota_json_add_bool(json, "on_ring_after", host->is_after);
        rota_json_add_uint(json, "before", host->before);
        rota_json_add_uint(json, "after", host->after);
        rota_json_add_uint(json, "arriving", host->arriving);
        rota_json_add_uint(json, "leaving", host->leaving);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

static void add_zones(struct rota_json *json, const struct rota_plan_result *result)
{
    rota_json_add_array(json, "per_zone");
    for (size_t i = 0; i < result->n_zones; i++) {
        rota_json_begin_object(json);
        rota_json_add_string(json, "zone", result->zones[i].name);
        rota_json_add_uint(json, "hosts_before", result->zones[i].n_hosts_before);
        rota_json_add_uint(json, "hosts_after", result->zones[i].n_hosts_after);
        rota_json_add_uint(json, "before", result->zones[i].before);
        rota_json_add_uint(json, "after", result->zones[i].after);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

static void add_timeline(struct rota_json *json, const struct rota_plan_view *view,
                         const struct rota_plan_result *result)
{
    char text[ROTA_TIME_TEXT_MAX];
    size_t n = result->n_buckets;
    rota_json_add_array(json, "timeline");
    for (size_t i = 0; i < n; i++) {
        rota_json_begin_object(json);
        rota_json_add_text(json, "start", rota_time_format(bucket_start(view, i, n), text));
        rota_json_add_text(json, "end", rota_time_format(bucket_start(view, i + 1, n), text));
        rota_json_add_uint(json, "moves", result->buckets[i]);
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
    rota_json_add_text(json, "advice", view->advice);
}
