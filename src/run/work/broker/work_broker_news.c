/* Events about a broker for people, from the records that it writes. */
#include "run/work/broker/work_broker_inside.h"

#include <stdarg.h>
#include <stdio.h>

enum { ID_BYTES = 16 }; /* of a job in a chunk */

static void report_news(struct rota_work_broker *broker, struct rota_str queue,
                        const struct rota_job_id *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* About a job, or with no id about a queue. */
static void report_news(struct rota_work_broker *broker, struct rota_str queue,
                        const struct rota_job_id *id, const char *format, ...)
{
    char about[512], number[ROTA_JOB_ID_TEXT], what[256];
    va_list arguments;
    snprintf(about, sizeof about, "%.*s%s%s", ROTA_STR_ARGS(queue), id ? "/" : "",
             id ? rota_job_id_format(*id, number) : "");
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    broker->options.on_news(broker->options.data, id != NULL, about, what);
}

/* All nodes pause a queue; one of them reports it. */
static bool is_ours_to_tell(struct rota_work_broker *broker, struct rota_str queue)
{
    return !broker->cluster || rota_work_broker_cluster_is_ours(broker->cluster, queue, 0);
}

void rota_work_broker_news_report(struct rota_work_broker *broker,
                                  const struct rota_work_effect *effect)
{
    const struct rota_work_record *record = &effect->record;
    struct rota_str queue = effect->queue.size > 0 ? effect->queue : record->queue;
    if (!broker->options.on_news)
        return;
    switch (record->type) {
    case ROTA_WORK_END:
        if (record->state == ROTA_JOB_DEAD)
            report_news(broker, queue, &record->id, "is dead after %u attempts: %s%s%.*s",
                        record->n_attempts, rota_job_cause_text(record->cause),
                        record->reason.size > 0 ? ": " : "",
                        (int)(record->reason.size < 100 ? record->reason.size : 100),
                        record->reason.data);
        break;
    case ROTA_WORK_REVIVE:
        report_news(broker, queue, &record->id, "is retried");
        break;
    case ROTA_WORK_PAUSE:
        if (is_ours_to_tell(broker, queue) && record->weight)
            report_news(broker, queue, NULL, "is %s; a job is dead after killing %u workers",
                        record->is_paused ? "paused" : "open", record->weight);
        else if (is_ours_to_tell(broker, queue))
            report_news(broker, queue, NULL, record->is_paused ? "is paused" : "is resumed");
        break;
    case ROTA_WORK_CHUNK:
        if (record->key.size > 0 && record->bytes.size > 0)
            report_news(broker, queue, NULL, "has %zu job%s of partition %u moving to %.*s",
                        record->bytes.size / ID_BYTES,
                        record->bytes.size / ID_BYTES == 1 ? "" : "s", record->partition,
                        ROTA_STR_ARGS(record->key));
        break;
    case ROTA_WORK_LAYOUT:
        if (is_ours_to_tell(broker, queue))
            report_news(
                broker, queue, NULL,
                "changes to %u partitions: new jobs go to the first %u, workers read the first %u",
                record->layout->wanted, record->layout->write, record->layout->read);
        break;
    case ROTA_WORK_ADD:
    case ROTA_WORK_JOB:
    case ROTA_WORK_START:
    case ROTA_WORK_RETRY:
    case ROTA_WORK_PRIORITY:
    case ROTA_WORK_WEIGHT:
    case ROTA_WORK_FORGET:
    case ROTA_WORK_LIFE:
    case ROTA_WORK_OWN:
    case ROTA_WORK_TAKEN:
    case ROTA_WORK_NODE:
        break;
    }
}
