/* check: faults that the history of a cluster shows, each by its name.
 *
 * An observer of a cluster reports to the checkers what it saw: jobs (check_jobs.h), answers of
 * Gets, rows that the tasks of a group have read (check_rows.h) and claims of shards
 * (check_claims.h). They know what must not happen, count it here, and keep the first sentences
 * about it. What a checker has no room for is a fault, too: an unchecked history proves nothing. */
#pragma once

#include <rota/experimental/get.h>
#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rota_check_fault {
    ROTA_CHECK_JOB_LOST,            /* acknowledged, and not found, or has no end */
    ROTA_CHECK_JOB_DEAD,            /* acknowledged, and given up */
    ROTA_CHECK_JOB_TWICE,           /* more than one completion counted */
    ROTA_CHECK_JOB_WRONG,           /* its result does not match its payload */
    ROTA_CHECK_GET_WRONG,           /* another value than expected, or one where there is none */
    ROTA_CHECK_GET_UNANSWERED,      /* a key without an answer in time */
    ROTA_CHECK_ROW_LOST,            /* skipped */
    ROTA_CHECK_ROW_TWICE,           /* read again although it was committed */
    ROTA_CHECK_ROW_LATE,            /* read by an earlier owner after a later one had begun */
    ROTA_CHECK_TWO_READERS,         /* two readers with the same token */
    ROTA_CHECK_PARTITION_EARLY,     /* begun before its parents had ended */
    ROTA_CHECK_PARTITION_FORGOTTEN, /* no task reads it */
    ROTA_CHECK_TWO_OWNERS,          /* of a shard under one epoch */
    ROTA_CHECK_OLD_OWNER,           /* of a shard, after a later one was known */
    ROTA_CHECK_EPOCH_FELL,          /* of a shard, as one node reports it */
    ROTA_CHECK_SHARD_UNOWNED,       /* at the end, when all nodes are well */
    ROTA_CHECK_COUNT_WRONG,         /* an addition was lost, or counted twice */
    ROTA_CHECK_COUNT_UNANSWERED,    /* an addition without a reply in time */
    ROTA_CHECK_UNCHECKED,           /* there was no room to check it */
};

enum {
    ROTA_CHECK_FAULTS = ROTA_CHECK_UNCHECKED + 1,
    ROTA_CHECK_TOLD_EACH = 5, /* sentences of a kind that are kept; further faults are counted */
    ROTA_CHECK_TOLD_MAX = ROTA_CHECK_FAULTS * ROTA_CHECK_TOLD_EACH,
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

/* Count one more, with a sentence. A check starts zeroed. */
__attribute__((format(printf, 3, 4))) void rota_check_report_fault(struct rota_check *check,
                                                                   enum rota_check_fault fault,
                                                                   const char *format, ...);

/* All faults together; 0: none were seen. */
uint64_t rota_check_n_faults(const struct rota_check *check);

/* A counter that was at `value` has replied to the addition of 1; 0: any reply will do. Gives its
 * value now. */
uint64_t rota_check_count(struct rota_check *check, const char *name, uint64_t value,
                          struct rota_str reply);

/* What a Get has answered for a key, whose value is known; NULL: the key has none. */
void rota_check_get(struct rota_check *check, const char *key, const struct rota_get_item *item,
                    const char *expected);
