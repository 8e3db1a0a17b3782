#include "core/work/cluster/layout_file.h"

#include "core/work/job/job.h"

struct rota_layout_file rota_layout_file_of(const struct rota_config *config, struct rota_str queue)
{
    const struct rota_partition root = rota_layout_partition(queue, 0);
    struct rota_config_origin origins[ROTA_SETTINGS];
    if (!config)
        return (struct rota_layout_file){0};
    rota_config_explain(config, root.namespace_id, queue, root.type, origins);
    return (struct rota_layout_file){
        .values = {.write = origins[ROTA_SETTING_WRITE_PARTITIONS].value.new_value,
                   .batch = origins[ROTA_SETTING_SPREAD_BATCH].value,
                   .mode = origins[ROTA_SETTING_SPREAD_MODE].value},
        .partitions_line = origins[ROTA_SETTING_WRITE_PARTITIONS].line,
        .batch_line = origins[ROTA_SETTING_SPREAD_BATCH].line,
        .mode_line = origins[ROTA_SETTING_SPREAD_MODE].line,
    };
}

/* The spread that `batch` and `mode` give, as far as the file names them. */
static struct rota_spread spread_of(const struct rota_layout_file *file, int64_t batch,
                                    int64_t mode, struct rota_spread otherwise)
{
    return (struct rota_spread){
        .batch = file->batch_line ? (uint32_t)batch : otherwise.batch,
        .mode = file->mode_line ? (enum rota_spread_mode)mode : otherwise.mode,
    };
}

struct rota_work_layout rota_layout_file_usual(const struct rota_layout_file *file,
                                               const struct rota_work_layout *usual)
{
    struct rota_work_layout made = *usual;
    if (file->partitions_line && file->values.write <= ROTA_JOB_PARTITIONS_MAX)
        made.wanted = made.write = made.read = (uint32_t)file->values.write;
    made.spread =
        spread_of(file, file->values.batch.new_value, file->values.mode.new_value, made.spread);
    return rota_layout_check(&made, NULL) ? *usual : made;
}

/* The window of a gradual change that is not over at `now`; none if both are 0. A layout has one
 * for both settings. */
static enum rota_code find_window(const struct rota_layout_file *file, rota_time now,
                                  struct rota_layout_change *change, struct rota_error *error)
{
    const struct rota_gradual *batch = &file->values.batch, *mode = &file->values.mode;
    bool has_batch = file->batch_line && batch->end > now;
    bool has_mode = file->mode_line && mode->end > now;
    if (has_batch && has_mode && (batch->start != mode->start || batch->end != mode->end))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the batch in line %u and the mode in line %u change at different "
                              "times: give both the same start and end",
                              file->batch_line, file->mode_line);
    change->start = has_batch ? batch->start : has_mode ? mode->start : 0;
    change->end = has_batch ? batch->end : has_mode ? mode->end : 0;
    return ROTA_OK;
}

enum rota_code rota_layout_file_want(const struct rota_layout_file *file,
                                     const struct rota_work_layout *layout, rota_time now,
                                     struct rota_work_layout *next, struct rota_error *error)
{
    const struct rota_queue_config *values = &file->values;
    struct rota_layout_wish wish = {0};
    if (file->partitions_line && values->write > ROTA_JOB_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "line %u: a queue has at most %d partitions",
                              file->partitions_line, ROTA_JOB_PARTITIONS_MAX);
    if (file->partitions_line)
        wish.wanted = (uint32_t)values->write;
    enum rota_code code = find_window(file, now, &wish.change, error);
    if (code)
        return code;
    wish.spread = spread_of(file, values->batch.new_value, values->mode.new_value, layout->spread);
    if (wish.change.end)
        wish.change.from =
            spread_of(file, values->batch.old_value, values->mode.old_value, layout->spread);
    /* Without a change of its own the file leaves one alone that leads to the same spread. */
    wish.has_spread = wish.change.end || wish.spread.batch != layout->spread.batch ||
                      wish.spread.mode != layout->spread.mode;
    return rota_layout_want(layout, &wish, now, next, error);
}

bool rota_layout_file_decides(const struct rota_layout_file *file,
                              const struct rota_layout_wish *wish, uint32_t *line)
{
    *line = wish->wanted ? file->partitions_line : 0;
    if (*line == 0 && wish->has_spread)
        *line = file->batch_line ? file->batch_line : file->mode_line;
    return *line > 0;
}
