/* Reports of a group: to its user, to the log, and as metrics. */
#include "io/clock.h"
#include "run/own/group_inside.h"

#include <rota/group.h>
#include <stdio.h>

/* --- numbers --- */

static struct rota_counter *group_counter(struct rota_group *group, const char *name,
                                          const char *help, const char *why)
{
    const struct rota_label labels[] = {{"group", rota_str(group->options.name)},
                                        {"why", rota_str(why ? why : "")}};
    return rota_metrics_counter(group->options.metrics, name, help, labels, why ? 2 : 1);
}

static struct rota_gauge *group_gauge(struct rota_group *group, const char *name, const char *help)
{
    const struct rota_label label = {"group", rota_str(group->options.name)};
    return rota_metrics_gauge(group->options.metrics, name, help, &label, 1);
}

bool rota_group_news_make_series(struct rota_group *group)
{
    struct rota_group_series *series = &group->series;
    if (!group->options.metrics)
        group->options.metrics = group->metrics = rota_metrics_new(1);
    if (!group->options.metrics)
        return false;
    series->running = group_gauge(group, "rota_group_running", "Partitions read by this task.");
    series->epoch = group_gauge(group, "rota_group_epoch", "Current epoch.");
    series->lag = group_gauge(group, "rota_group_log_lag", "Records of the log not read yet.");
    series->watermark = group_gauge(group, "rota_group_watermark",
                                    "Lowest watermark of all unfinished partitions.");
    series->started =
        group_counter(group, "rota_group_started_total", "Partitions started by this task.", NULL);
    series->stopped =
        group_counter(group, "rota_group_stopped_total", "Partitions stopped by this task.", NULL);
    series->written = group_counter(group, "rota_group_written_total", "Records written.", NULL);
    series->unwritten = group_counter(group, "rota_group_unwritten_total",
                                      "Records with an unknown write outcome.", NULL);
    for (int loss = ROTA_GROUP_NO_LOSS + 1; loss < ROTA_GROUP_LOSSES; loss++)
        series->lost[loss] = group_counter(group, "rota_group_lost_total",
                                           "Times the task released all its partitions, by reason.",
                                           rota_group_fsm_loss_name((enum rota_group_loss)loss));
    for (int why = ROTA_GROUP_FOREIGN; why < ROTA_GROUP_WHYS; why++)
        series->skipped[why] =
            group_counter(group, "rota_group_skipped_total", "Rejected records, by reason.",
                          rota_group_fold_verdict_name((enum rota_group_verdict)why));
    return true;
}

/* --- news --- */

const char *rota_group_news_name(enum rota_group_news_type type)
{
    static const char *const names[] = {"ready",   "joined",    "epoch",  "own",     "share",
                                        "take",    "progress",  "finish", "remove",  "move",
                                        "refused", "watermark", "lost",   "skipped", "unreachable"};
    return (unsigned)type < sizeof names / sizeof *names ? names[type] : "unknown";
}

static void report_news(struct rota_group *group, struct rota_group_news news)
{
    if (!group->options.on_news)
        return;
    news.at = rota_clock_boot();
    if (news.incarnation == 0)
        news.incarnation = group->incarnation;
    group->options.on_news(group->options.data, &news);
}

static void log_event(const struct rota_group *group, enum rota_log_level level, const char *phrase,
                      struct rota_log_fact one, struct rota_log_fact two)
{
    rota_log(group->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("group", group->options.name),
             ROTA_LOG_FACT("task", group->options.task ? group->options.task : ""), one, two);
}

void rota_group_news_tell_ready(struct rota_group *group)
{
    log_event(group, ROTA_LOG_INFO, "group log read", ROTA_LOG_FACT("next", group->fsm.fold.next),
              ROTA_LOG_NO_FACTS);
    report_news(group,
                (struct rota_group_news){.type = ROTA_GROUP_NEWS_READY, .offset = group->end});
}

void rota_group_news_tell_start(struct rota_group *group, const struct rota_group_action *action)
{
    struct rota_str parents[ROTA_GROUP_PARENTS_MAX];
    struct rota_group_def *def = action->def;
    for (uint32_t i = 0; i < def->n_parents; i++)
        parents[i] = def->parents[i].text;
    const struct rota_group_grant grant = {
        .partition = def->name.text,
        .token = action->token,
        .mark = action->mark,
        .position = rota_blob_str(action->position),
        .parents = parents,
        .n_parents = def->n_parents,
    };
    rota_counter_add(group->series.started, 1);
    log_event(group, ROTA_LOG_DEBUG, "group partition started",
              ROTA_LOG_FACT("partition", grant.partition), ROTA_LOG_FACT("token", grant.token));
    group->options.on_start(group->options.data, &grant);
}

void rota_group_news_tell_stop(struct rota_group *group, struct rota_str partition, uint64_t token)
{
    rota_counter_add(group->series.stopped, 1);
    log_event(group, ROTA_LOG_DEBUG, "group partition stops", ROTA_LOG_FACT("partition", partition),
              ROTA_LOG_FACT("token", token));
    group->options.on_stop(group->options.data, partition, token);
}

void rota_group_news_tell_round(struct rota_group *group)
{
    log_event(group, ROTA_LOG_INFO, "group joined",
              ROTA_LOG_FACT("generation", group->fsm.generation),
              ROTA_LOG_FACT("incarnation", group->incarnation));
    report_news(group, (struct rota_group_news){.type = ROTA_GROUP_NEWS_JOINED,
                                                .generation = group->fsm.generation,
                                                .is_leader = group->fsm.is_leader});
}

void rota_group_news_tell_epoch(struct rota_group *group)
{
    const struct rota_group_fold *fold = &group->fsm.fold;
    size_t n = 0;
    if (!rota_vector_reserve(&group->tasks, fold->tasks.size))
        return; /* without memory for a list the epoch goes unreported */
    for (size_t i = 0; i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial)
            group->tasks.items[n++] = fold->tasks.items[i].member.task;
    rota_gauge_set(group->series.epoch, (int64_t)fold->epoch);
    log_event(group, ROTA_LOG_INFO, "group epoch", ROTA_LOG_FACT("epoch", fold->epoch),
              ROTA_LOG_FACT("tasks", n));
    report_news(group, (struct rota_group_news){.type = ROTA_GROUP_NEWS_EPOCH,
                                                .epoch = fold->epoch,
                                                .offset = fold->epoch_offset,
                                                .generation = fold->generation,
                                                .is_leader = fold->leader == group->fsm.me,
                                                .tasks = group->tasks.items,
                                                .n_tasks = n});
}

/* The news of a change of ours that counted; false: there are none. */
static bool news_of(enum rota_group_change_type change, enum rota_group_news_type *type)
{
    switch (change) {
    case ROTA_GROUP_OWN:
        *type = ROTA_GROUP_NEWS_OWN;
        return true;
    case ROTA_GROUP_SHARE:
        *type = ROTA_GROUP_NEWS_SHARE;
        return true;
    case ROTA_GROUP_TAKE:
        *type = ROTA_GROUP_NEWS_TAKE;
        return true;
    case ROTA_GROUP_PROGRESS:
        *type = ROTA_GROUP_NEWS_PROGRESS;
        return true;
    case ROTA_GROUP_FINISH:
        *type = ROTA_GROUP_NEWS_FINISH;
        return true;
    case ROTA_GROUP_REMOVE:
        *type = ROTA_GROUP_NEWS_REMOVE;
        return true;
    case ROTA_GROUP_MOVE:
        *type = ROTA_GROUP_NEWS_MOVE;
        return true;
    case ROTA_GROUP_CLEAR:
    case ROTA_GROUP_WITHDRAW:
        return false;
    }
    return false;
}

static void tell_change(struct rota_group *group, const struct rota_group_action *action,
                        const struct rota_group_change *change)
{
    struct rota_str parents[ROTA_GROUP_PARENTS_MAX];
    bool is_new = change->type == ROTA_GROUP_OWN || change->type == ROTA_GROUP_SHARE;
    struct rota_group_news news = {
        .incarnation = action->record->author.incarnation,
        .epoch = action->record->epoch,
        .offset = action->offset,
        .token = change->token,
        .partition = change->def->name.text,
        .target = change->target.task,
        .mark = change->mark,
        .parents = parents,
    };
    if (!news_of(change->type, &news.type))
        return;
    for (uint32_t i = 0; is_new && i < change->def->n_parents; i++)
        parents[news.n_parents++] = change->def->parents[i].text;
    report_news(group, news);
}

void rota_group_news_tell_counted(struct rota_group *group, const struct rota_group_action *action)
{
    const struct rota_group_record *record = action->record;
    if (record->kind != ROTA_GROUP_STATE || !group->options.on_news)
        return;
    /* The fold is right after this record: records come one by one. */
    for (size_t i = 0; i < record->n_changes; i++)
        if (i >= group->fsm.fold.refusals.size || !group->fsm.fold.refusals.items[i])
            tell_change(group, action, &record->changes[i]);
}

void rota_group_news_tell_refused(struct rota_group *group, const struct rota_group_action *action)
{
    const char *reason = rota_group_fold_refusal_name(action->refusal);
    log_event(group, ROTA_LOG_WARN, "group report rejected",
              ROTA_LOG_FACT("partition", action->def->name.text), ROTA_LOG_FACT("reason", reason));
    report_news(group, (struct rota_group_news){.type = ROTA_GROUP_NEWS_REFUSED,
                                                .partition = action->def->name.text,
                                                .reason = reason});
}

void rota_group_news_tell_lost(struct rota_group *group, enum rota_group_loss loss)
{
    char reason[ROTA_ERROR_TEXT_MAX + 32];
    bool is_said = group->loss[0] && (loss == ROTA_GROUP_EXPELLED || loss == ROTA_GROUP_LOGLESS);
    snprintf(reason, sizeof reason, "%s%s%s", rota_group_fsm_loss_name(loss), is_said ? ": " : "",
             is_said ? group->loss : "");
    rota_counter_add(group->series.lost[loss], 1);
    log_event(group, ROTA_LOG_WARN, "group lost", ROTA_LOG_FACT("reason", reason),
              ROTA_LOG_NO_FACTS);
    report_news(group, (struct rota_group_news){.type = ROTA_GROUP_NEWS_LOST, .reason = reason});
}

void rota_group_news_tell_skipped(struct rota_group *group, uint64_t offset,
                                  enum rota_group_verdict why, const char *reason)
{
    const char *name = rota_group_fold_verdict_name(why);
    rota_counter_add(group->series.skipped[why], 1);
    rota_log(group->options.log, rota_clock_wall(), ROTA_LOG_WARN, "group record skipped",
             ROTA_LOG_FACT("group", group->options.name), ROTA_LOG_FACT("offset", offset),
             ROTA_LOG_FACT("reason", name), ROTA_LOG_FACT("error", reason));
    report_news(group, (struct rota_group_news){
                           .type = ROTA_GROUP_NEWS_SKIPPED, .offset = offset, .reason = name});
}

void rota_group_news_tell_unreachable(struct rota_group *group, const struct rota_error *error)
{
    report_news(group, (struct rota_group_news){.type = ROTA_GROUP_NEWS_UNREACHABLE,
                                                .reason = error ? error->text : ""});
}

void rota_group_news_tell_failed(struct rota_group *group, const struct rota_error *error)
{
    log_event(group, ROTA_LOG_ERROR, "group failed", ROTA_LOG_FACT("error", error->text),
              ROTA_LOG_NO_FACTS);
    if (group->options.on_failed)
        group->options.on_failed(group->options.data, error);
}

/* A partition that is added later may have a lower mark; what was reported stays. */
void rota_group_news_tell_whole(struct rota_group *group)
{
    struct rota_group_fold *fold = &group->fsm.fold;
    int64_t mark = 0;
    rota_gauge_set(group->series.lag, (int64_t)(group->end - fold->next));
    group->has_watermark = rota_group_fold_watermark(fold, &mark);
    if (!group->has_watermark)
        return;
    group->watermark = mark;
    rota_gauge_set(group->series.watermark, mark);
    if (group->has_mark && mark <= group->told_mark)
        return;
    group->has_mark = true;
    group->told_mark = mark;
    report_news(group, (struct rota_group_news){.type = ROTA_GROUP_NEWS_WATERMARK, .mark = mark});
}
