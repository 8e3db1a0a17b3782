/* What the user of a group reports, as events of its machine. */
#include "run/own/group_inside.h"

#include <rota/group.h>

void rota_group_stopped(struct rota_group *group, struct rota_str partition, uint64_t token)
{
    struct rota_group_reader *reader = rota_group_driver_reader_find(group, partition, token);
    if (!reader || !reader->is_stopping)
        return;
    const struct rota_group_event event = {
        .type = ROTA_GROUP_STOPPED, .partition = partition, .token = token};
    rota_group_driver_reader_end(group, reader);
    rota_group_driver_drive(group, &event);
}

static enum rota_code report_event(struct rota_group *group, const struct rota_group_event *event,
                                   struct rota_error *error)
{
    enum rota_code code = rota_group_driver_try(group, event, error);
    rota_group_driver_work(group);
    return code;
}

static enum rota_code report_child(struct rota_group *group, struct rota_str partition,
                                   uint64_t token, const struct rota_group_child *child,
                                   struct rota_error *error)
{
    if (child->n_parents > ROTA_GROUP_PARENTS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a partition has %zu parents; at most %d are allowed",
                              child->n_parents, ROTA_GROUP_PARENTS_MAX);
    if (!rota_group_is_name(child->name))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a partition's name must be UTF-8 of 1 to %d bytes",
                              ROTA_GROUP_NAME_MAX);
    struct rota_group_def *def =
        rota_group_def_new(child->name, child->parents, child->n_parents, rota_str(""));
    if (!def)
        return rota_error_no_memory(error, "for a new partition");
    enum rota_code code = report_event(group,
                                       &(struct rota_group_event){.type = ROTA_GROUP_CHILD,
                                                                  .partition = partition,
                                                                  .token = token,
                                                                  .child = def,
                                                                  .mark = child->mark,
                                                                  .position = child->position},
                                       error);
    rota_group_def_unref(def);
    return code;
}

enum rota_code rota_group_child(struct rota_group *group, struct rota_str partition, uint64_t token,
                                const struct rota_group_child *child, struct rota_error *error)
{
    if (partition.size == 0 || token == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a child must be reported by a partition under its fencing token");
    return report_child(group, partition, token, child, error);
}

enum rota_code rota_group_add(struct rota_group *group, const struct rota_group_seed *seed,
                              struct rota_error *error)
{
    const struct rota_group_child root = {
        .name = seed->name, .mark = seed->mark, .position = seed->position};
    return report_child(group, rota_str(""), 0, &root, error);
}

/* Token 0 is never valid; to the machine it would mean any. */
enum rota_code rota_group_progress(struct rota_group *group, struct rota_str partition,
                                   uint64_t token, int64_t mark, struct rota_str position,
                                   struct rota_error *error)
{
    if (token == 0)
        return ROTA_OK;
    return report_event(group,
                        &(struct rota_group_event){.type = ROTA_GROUP_PROGRESS_MADE,
                                                   .partition = partition,
                                                   .token = token,
                                                   .mark = mark,
                                                   .position = position},
                        error);
}

enum rota_code rota_group_finish(struct rota_group *group, struct rota_str partition,
                                 uint64_t token, bool is_end, struct rota_error *error)
{
    if (token == 0)
        return ROTA_OK;
    enum rota_code code =
        rota_group_driver_try(group,
                              &(struct rota_group_event){.type = ROTA_GROUP_FINISHED_READING,
                                                         .partition = partition,
                                                         .token = token,
                                                         .mark = INT64_MIN,
                                                         .is_end = is_end},
                              error);
    struct rota_group_reader *reader = rota_group_driver_reader_find(group, partition, token);
    if (!code && reader) {
        bool was_stopping = reader->is_stopping;
        rota_group_driver_reader_end(group, reader);
        if (was_stopping)
            rota_group_driver_step(group, &(struct rota_group_event){.type = ROTA_GROUP_STOPPED,
                                                                     .partition = partition,
                                                                     .token = token});
    }
    rota_group_driver_work(group);
    return code;
}
