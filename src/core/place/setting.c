#include "core/place/config.h"
#include "core/place/names.h"

#include <stdio.h>

static const struct rota_setting_info SETTINGS[ROTA_SETTINGS] = {
    [ROTA_SETTING_WRITE_PARTITIONS] =
        {
            .name = "matching.numTaskqueueWritePartitions",
            .type = ROTA_SETTING_INTEGER,
            .fallback = 4,
            .min = 1,
            .max = ROTA_PARTITIONS_MAX,
            .help = "partitions that new jobs go to",
        },
    [ROTA_SETTING_READ_PARTITIONS] =
        {
            .name = "matching.numTaskqueueReadPartitions",
            .type = ROTA_SETTING_INTEGER,
            .fallback = 4,
            .min = 1,
            .max = ROTA_PARTITIONS_MAX,
            .help = "partitions that workers poll; at least as many as new jobs go to",
        },
    [ROTA_SETTING_SPREAD_BATCH] =
        {
            .name = "matching.spreadRoutingBatchSize",
            .type = ROTA_SETTING_INTEGER,
            .is_gradual = true,
            .fallback = 0,
            .min = 0,
            .max = ROTA_BATCH_MAX,
            .help =
                "partitions that are placed on distinct hosts; 0 places each partition on its own",
        },
    [ROTA_SETTING_SPREAD_MODE] =
        {
            .name = "matching.spreadRoutingMode",
            .type = ROTA_SETTING_CHOICE,
            .is_gradual = true,
            .fallback = ROTA_SPREAD_LOOKUP,
            .min = ROTA_SPREAD_LOOKUP,
            .max = ROTA_SPREAD_SLOTS,
            .choices = rota_spread_mode_names,
            .help = "how to spread a batch: as Temporal does, or with minimal movement",
        },
    [ROTA_SETTING_TREE_DEGREE] =
        {
            .name = "matching.forwarderMaxChildrenPerNode",
            .type = ROTA_SETTING_INTEGER,
            .fallback = 20,
            .min = 1,
            .max = ROTA_PARTITIONS_MAX,
            .help = "children of a partition in the forwarding tree",
        },
    [ROTA_SETTING_RING_POINTS] =
        {
            .name = "system.ringpopReplicaPoints",
            .type = ROTA_SETTING_INTEGER,
            .is_file_wide = true,
            .fallback = ROTA_RING_POINTS_DEFAULT,
            .min = 1,
            .max = ROTA_RING_POINTS_MAX,
            .help = "points on the ring of a host of weight 1",
        },
    [ROTA_SETTING_ALIGN] =
        {
            .name = "matching.alignMembershipChange",
            .type = ROTA_SETTING_SPAN,
            .is_file_wide = true,
            .fallback = 0,
            .min = 0,
            .max = ROTA_HOUR,
            .help = "hosts join and leave at multiples of this duration; 0: immediately",
        },
};

const struct rota_setting_info *rota_setting_info(enum rota_setting setting)
{
    return &SETTINGS[setting];
}

/* One value, or its bounds, without regard to change. */
static char *format_plain(const struct rota_setting_info *info, int64_t value,
                          char text[ROTA_TIME_TEXT_MAX + 2])
{
    char span[ROTA_TIME_TEXT_MAX];
    switch (info->type) {
    case ROTA_SETTING_INTEGER:
        snprintf(text, ROTA_TIME_TEXT_MAX + 2, "%lld", (long long)value);
        break;
    case ROTA_SETTING_CHOICE:
        snprintf(text, ROTA_TIME_TEXT_MAX + 2, "\"%s\"", info->choices[value]);
        break;
    case ROTA_SETTING_SPAN:
        snprintf(text, ROTA_TIME_TEXT_MAX + 2, "\"%s\"", rota_span_format(value, span));
        break;
    }
    return text;
}

char *rota_setting_format(enum rota_setting setting, const struct rota_gradual *value,
                          char text[ROTA_SETTING_TEXT_MAX])
{
    const struct rota_setting_info *info = &SETTINGS[setting];
    char from[ROTA_TIME_TEXT_MAX + 2], to[ROTA_TIME_TEXT_MAX + 2];
    char start[ROTA_TIME_TEXT_MAX], end[ROTA_TIME_TEXT_MAX];

    format_plain(info, value->new_value, to);
    if (rota_gradual_is_static(value))
        snprintf(text, ROTA_SETTING_TEXT_MAX, "%s", to);
    else
        snprintf(text, ROTA_SETTING_TEXT_MAX, "{ old = %s, new = %s, start = %s, end = %s }",
                 format_plain(info, value->old_value, from), to,
                 rota_time_format(value->start, start), rota_time_format(value->end, end));
    return text;
}

void rota_setting_print_allowed(enum rota_setting setting, struct rota_buffer *buffer)
{
    const struct rota_setting_info *info = &SETTINGS[setting];
    char min[ROTA_TIME_TEXT_MAX + 2], max[ROTA_TIME_TEXT_MAX + 2];

    switch (info->type) {
    case ROTA_SETTING_INTEGER:
        rota_buffer_print(buffer, "an integer from %lld to %lld", (long long)info->min,
                          (long long)info->max);
        break;
    case ROTA_SETTING_CHOICE:
        for (int64_t i = info->min; i <= info->max; i++)
            rota_buffer_print(buffer, "%s\"%s\"", i > info->min ? " or " : "", info->choices[i]);
        break;
    case ROTA_SETTING_SPAN:
        rota_buffer_print(buffer, "a duration from %s to %s", format_plain(info, info->min, min),
                          format_plain(info, info->max, max));
        break;
    }
}

enum rota_code rota_setting_check(enum rota_setting setting, const struct rota_gradual *value,
                                  struct rota_error *error)
{
    const struct rota_setting_info *info = &SETTINGS[setting];
    bool is_outside = value->new_value < info->min || value->new_value > info->max ||
                      value->old_value < info->min || value->old_value > info->max;
    struct rota_error why;

    if (is_outside) {
        struct rota_buffer allowed = {0};
        rota_setting_print_allowed(setting, &allowed);
        rota_error_set(error, ROTA_ERR_INVALID, "%s is out of range: it takes %s", info->name,
                       rota_buffer_str(&allowed).data);
        rota_buffer_deinit(&allowed);
        return ROTA_ERR_INVALID;
    }
    if (!rota_gradual_is_static(value) && !info->is_gradual)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s cannot change gradually", info->name);
    if (rota_gradual_check(value, &why))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s: %s", info->name, why.text);
    return ROTA_OK;
}

void rota_setting_print_table(struct rota_buffer *buffer)
{
    rota_buffer_append_text(buffer, "| key | value | default | override | gradual | meaning |\n"
                                    "|---|---|---|---|---|---|\n");
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        const struct rota_setting_info *info = &SETTINGS[i];
        char fallback[ROTA_TIME_TEXT_MAX + 2];
        rota_buffer_print(buffer, "| `%s` | ", info->name);
        rota_setting_print_allowed((enum rota_setting)i, buffer);
        rota_buffer_print(
            buffer, " | %s | %s | %s | %s |\n", format_plain(info, info->fallback, fallback),
            info->is_file_wide ? "no" : "yes", info->is_gradual ? "yes" : "no", info->help);
    }
}
