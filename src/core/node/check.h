/* check: what a history of a cluster shows to be wrong, each by its name.
 *
 * Whoever has watched a cluster tells the checkers what was seen: jobs (check_jobs.h), answers of
 * Gets, rows that the tasks of a group have read (check_rows.h) and claims of shards
 * (check_claims.h). They know what must not be, count it here, and keep the first sentences of
 * it. What a checker has no room for is a fault, too: a history that was not looked at proves
 * nothing. */
#pragma once

#include <rota/get.h>
#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rota_check_fault {
    ROTA_CHECK_JOB_LOST,            /* was acknowledged, and is nowhere, or has no end */
    ROTA_CHECK_JOB_DEAD,            /* was acknowledged, and given up */
    ROTA_CHECK_JOB_TWICE,           /* more than one completion counted */
    ROTA_CHECK_JOB_WRONG,           /* its result is not of its payload */
    ROTA_CHECK_GET_WRONG,           /* another value than there is, or one where there is none */
    ROTA_CHECK_GET_UNANSWERED,      /* a key without an answer in time */
    ROTA_CHECK_ROW_LOST,            /* passed over */
    ROTA_CHECK_ROW_TWICE,           /* read again though that had counted */
    ROTA_CHECK_ROW_LATE,            /* read by an earlier owner after a later one had begun */
    ROTA_CHECK_TWO_READERS,         /* a token that two have */
    ROTA_CHECK_PARTITION_EARLY,     /* begun before its parents had ended */
    ROTA_CHECK_PARTITION_FORGOTTEN, /* nobody reads it */
    ROTA_CHECK_TWO_OWNERS,          /* of a shard under one epoch */
    ROTA_CHECK_OLD_OWNER,           /* of a shard, after a later one was known */
    ROTA_CHECK_EPOCH_FELL,          /* of a shard, as one node tells it */
    ROTA_CHECK_SHARD_UNOWNED,       /* in the end, when all are well */
    ROTA_CHECK_UNCHECKED,           /* there was no room to look at it */
};

enum {
    ROTA_CHECK_FAULTS = ROTA_CHECK_UNCHECKED + 1,
    ROTA_CHECK_TOLD_MAX = 20, /* sentences that are kept; more faults are counted alone */
    ROTA_CHECK_TEXT_MAX = 256,
};

struct rota_check {
    uint64_t n[ROTA_CHECK_FAULTS];
    struct {
        enum rota_check_fault fault;
        char text[ROTA_CHECK_TEXT_MAX];
    } told[ROTA_CHECK_TOLD_MAX];
    size_t n_told;
};

/* "job_lost" for ROTA_CHECK_JOB_LOST. */
const char *rota_check_fault_name(enum rota_check_fault fault);

/* One more, with a sentence. A check starts zeroed. */
__attribute__((format(printf, 3, 4))) void rota_check_tell(struct rota_check *check,
                                                           enum rota_check_fault fault,
                                                           const char *format, ...);

/* All faults together; 0: nothing was seen that must not be. */
uint64_t rota_check_n_faults(const struct rota_check *check);

/* What a Get has answered for a key, whose value is known; NULL: it has none. */
void rota_check_get(struct rota_check *check, const char *key, const struct rota_get_item *item,
                    const char *expected);
