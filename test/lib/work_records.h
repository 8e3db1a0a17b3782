/* Records by chance: every type, every field now and then, small and large; and whether two
 * are the same. */
#pragma once

#include "core/work/job/job.h"

#include <rota/experimental/random.h>

/* What made records point to; each call of work_record_make() takes it again. */
struct work_room {
    struct rota_random random;
    struct rota_job_spec spec;
    struct rota_work_layout layout;
    struct rota_str capabilities[ROTA_JOB_CAPABILITIES_MAX];
    char text[1 << 16];
    size_t used;
};

/* Mostly near to a moment of 2026, now and then anything at all. */
rota_time work_time(struct work_room *room);

uint64_t work_number(struct work_room *room, uint64_t max);
struct rota_work_record work_record_make(struct work_room *room, enum rota_work_record_type type,
                                         uint64_t number);
bool work_record_is_equal(const struct rota_work_record *a, const struct rota_work_record *b);
