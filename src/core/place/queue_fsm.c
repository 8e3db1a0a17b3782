#include "core/place/queue_fsm.h"

#include <stdlib.h>

/* Copy the queue with its names. */
static enum rota_code take_queue(struct rota_queue_fsm *fsm, const struct rota_partition *queue,
                                 struct rota_error *error)
{
    struct rota_partition root = *queue;
    enum rota_code code;
    root.id = 0;
    if (queue->kind != ROTA_PARTITION_NORMAL)
        return rota_error_set(error, ROTA_ERR_INVALID, "only a normal queue has partitions");
    if ((code = rota_partition_check(&root, error)))
        return code;
    size_t space_size = root.namespace_id.size, queue_size = root.queue.size;
    fsm->names = malloc(space_size + queue_size + 1);
    if (!fsm->names)
        return rota_error_no_memory(error, "for a queue");
    if (space_size > 0)
        memcpy(fsm->names, root.namespace_id.data, space_size);
    if (queue_size > 0)
        memcpy(fsm->names + space_size, root.queue.data, queue_size);
    root.namespace_id = rota_str_of(fsm->names, space_size);
    root.queue = rota_str_of(fsm->names + space_size, queue_size);
    fsm->queue = root;
    return ROTA_OK;
}

enum rota_code rota_queue_fsm_init(struct rota_queue_fsm *fsm, rota_time now,
                                   const struct rota_partition *queue,
                                   const struct rota_queue_config *config, struct rota_error *error)
{
    struct rota_queue_fsm made = {0};
    enum rota_code code = take_queue(&made, queue, error);
    if (code)
        return code;
    rota_flips_fsm_init(&made.flips, &made.queue);
    if ((code = rota_queue_fsm_want(&made, now, config, error))) {
        rota_queue_fsm_deinit(&made);
        return code;
    }
    made.told_write = made.counts.write;
    made.told_read = made.counts.read;
    *fsm = made;
    return ROTA_OK;
}

void rota_queue_fsm_deinit(struct rota_queue_fsm *fsm)
{
    rota_flips_fsm_deinit(&fsm->flips);
    rota_counts_deinit(&fsm->counts);
    free(fsm->names);
    *fsm = (struct rota_queue_fsm){0};
}

/* Room first: then the counts are the last that can be refused. */
enum rota_code rota_queue_fsm_want(struct rota_queue_fsm *fsm, rota_time now,
                                   const struct rota_queue_config *config, struct rota_error *error)
{
    enum rota_code code = rota_counts_check(config->write, config->read, error);
    if (!code)
        code = rota_flips_fsm_reserve(&fsm->flips, config->read, error);
    if (!code)
        code = rota_counts_want(&fsm->counts, config->write, config->read, error);
    if (code)
        return code;
    fsm->config = *config;
    rota_flips_fsm_set(&fsm->flips, now, config, fsm->counts.read);
    return ROTA_OK;
}

void rota_queue_fsm_report_empty(struct rota_queue_fsm *fsm, rota_time now, int64_t partition,
                                 bool is_empty)
{
    rota_counts_report_empty(&fsm->counts, partition, is_empty);
    rota_flips_fsm_set(&fsm->flips, now, &fsm->config, fsm->counts.read);
}

bool rota_queue_fsm_step(struct rota_queue_fsm *fsm, rota_time now, struct rota_queue_news *news)
{
    int64_t write = fsm->counts.write, read = fsm->counts.read;
    struct rota_flip flip = {0};

    if (write != fsm->told_write || read != fsm->told_read) {
        *news = (struct rota_queue_news){ROTA_QUEUE_COUNTS, write, read, flip};
        fsm->told_write = write;
        fsm->told_read = read;
        return true;
    }
    if (!rota_flips_fsm_step(&fsm->flips, now, &flip))
        return false;
    *news = (struct rota_queue_news){ROTA_QUEUE_FLIP, write, read, flip};
    return true;
}

rota_time rota_queue_fsm_deadline(const struct rota_queue_fsm *fsm)
{
    bool has_news = fsm->counts.write != fsm->told_write || fsm->counts.read != fsm->told_read;
    return has_news ? ROTA_TIME_MIN : rota_flips_fsm_deadline(&fsm->flips);
}

struct rota_queue_config rota_queue_fsm_config(const struct rota_queue_fsm *fsm)
{
    struct rota_queue_config config = fsm->config;
    config.write = fsm->counts.write;
    config.read = fsm->counts.read;
    return config;
}
