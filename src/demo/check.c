#include "demo/check.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

const char *rota_check_fault_name(enum rota_check_fault fault)
{
    static const char *const NAMES[ROTA_CHECK_FAULTS] = {
        [ROTA_CHECK_JOB_LOST] = "job_lost",
        [ROTA_CHECK_JOB_DEAD] = "job_dead",
        [ROTA_CHECK_JOB_TWICE] = "job_twice",
        [ROTA_CHECK_JOB_WRONG] = "job_wrong",
        [ROTA_CHECK_GET_WRONG] = "get_wrong",
        [ROTA_CHECK_GET_UNANSWERED] = "get_unanswered",
        [ROTA_CHECK_ROW_LOST] = "row_lost",
        [ROTA_CHECK_ROW_TWICE] = "row_twice",
        [ROTA_CHECK_ROW_LATE] = "row_late",
        [ROTA_CHECK_TWO_READERS] = "two_readers",
        [ROTA_CHECK_PARTITION_EARLY] = "partition_early",
        [ROTA_CHECK_PARTITION_FORGOTTEN] = "partition_forgotten",
        [ROTA_CHECK_TWO_OWNERS] = "two_owners",
        [ROTA_CHECK_OLD_OWNER] = "old_owner",
        [ROTA_CHECK_EPOCH_FELL] = "epoch_fell",
        [ROTA_CHECK_SHARD_UNOWNED] = "shard_unowned",
        [ROTA_CHECK_COUNT_WRONG] = "count_wrong",
        [ROTA_CHECK_COUNT_UNANSWERED] = "count_unanswered",
        [ROTA_CHECK_UNCHECKED] = "unchecked",
    };
    assert((size_t)fault < ROTA_CHECK_FAULTS);
    return NAMES[fault];
}

void rota_check_report_fault(struct rota_check *check, enum rota_check_fault fault,
                             const char *format, ...)
{
    va_list arguments;
    check->n[fault]++;
    if (check->n[fault] > ROTA_CHECK_TOLD_EACH)
        return;
    check->told[check->n_told].fault = fault;
    va_start(arguments, format);
    vsnprintf(check->told[check->n_told++].text, ROTA_CHECK_TEXT_MAX, format, arguments);
    va_end(arguments);
}

uint64_t rota_check_n_faults(const struct rota_check *check)
{
    uint64_t n = 0;
    for (size_t i = 0; i < ROTA_CHECK_FAULTS; i++)
        n += check->n[i];
    return n;
}

uint64_t rota_check_count(struct rota_check *check, const char *name, uint64_t value,
                          struct rota_str reply)
{
    uint64_t now = 0;
    for (size_t i = 0; i < reply.size && reply.data[i] >= '0' && reply.data[i] <= '9'; i++)
        now = 10 * now + (uint64_t)(reply.data[i] - '0');
    if (now == 0 || (value > 0 && now != value + 1))
        rota_check_report_fault(check, ROTA_CHECK_COUNT_WRONG,
                                "counter %.80s went from %llu to %llu", name,
                                (unsigned long long)value, (unsigned long long)now);
    return now;
}

void rota_check_get(struct rota_check *check, const char *key, const struct rota_get_item *item,
                    const char *expected)
{
    switch (item->state) {
    case ROTA_GET_KEY_MISSING:
        rota_check_report_fault(check, ROTA_CHECK_GET_UNANSWERED, "multi-get of %.80s failed: %s",
                                key, item->reason ? item->reason : "no reason given");
        break;
    case ROTA_GET_KEY_ABSENT:
        if (expected)
            rota_check_report_fault(check, ROTA_CHECK_GET_WRONG,
                                    "multi-get of %.80s returned no value", key);
        break;
    case ROTA_GET_KEY_FOUND:
        if (!expected)
            rota_check_report_fault(check, ROTA_CHECK_GET_WRONG,
                                    "multi-get of %.80s returned a value for a key without one",
                                    key);
        else if (!rota_str_is_equal(item->value, rota_str(expected)))
            rota_check_report_fault(check, ROTA_CHECK_GET_WRONG,
                                    "multi-get of %.80s returned a wrong value", key);
        break;
    }
}
