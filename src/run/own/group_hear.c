/* Events of the log and the engine of a group, as events of its machine. */
#include "run/own/group_inside.h"
#include "wire/record/group_record.h"

#include <stdio.h>

static void hear_record(struct rota_group *group, const struct rota_sync_event *event)
{
    struct rota_group_event heard = {.type = ROTA_GROUP_RECORD,
                                     .offset = event->offset,
                                     .size = event->size ? event->size : event->bytes.size,
                                     .why = ROTA_GROUP_OVERSIZED};
    struct rota_error error;
    bool is_tail = group->fsm.replay == ROTA_GROUP_REPLAY_TAIL; /* will be read again */
    rota_error_set(&error, ROTA_ERR_LIMIT, "the record has %zu bytes; at most %d are allowed",
                   heard.size, ROTA_GROUP_RECORD_MAX);
    if (event->offset >= group->end)
        group->end = event->offset + 1;
    bool is_given = event->bytes.size == heard.size; /* else it exceeds the bound */
    struct rota_str bytes = event->bytes.size > 0 ? event->bytes : rota_str("");
    if (is_given && rota_group_record_parse(bytes, &heard.record, &heard.why, &error)) {
        rota_group_driver_starve(group);
        return;
    }
    if (!heard.record && !is_tail && event->offset >= group->skipped_next) {
        group->skipped_next = event->offset + 1;
        rota_group_news_tell_skipped(group, event->offset, heard.why, error.text);
    }
    bool is_folded = group->fsm.replay == ROTA_GROUP_REPLAY_FOLD &&
                     group->fsm.fold.next <= event->offset; /* else it was before */
    rota_group_driver_drive(group, &heard);
    if (group->options.on_partition && heard.record && is_folded && !group->is_failed &&
        group->fsm.fold.next == event->offset + 1)
        rota_group_view_tell_touched(group, heard.record->timestamp);
    rota_group_record_unref(heard.record);
}

static void hear_round(struct rota_group *group, const struct rota_sync_event *event)
{
    size_t n = 0;
    if (!rota_vector_reserve(&group->members, event->n_members + 1)) {
        rota_group_driver_starve(group);
        return;
    }
    for (size_t i = 0; i < event->n_members; i++)
        if (!rota_group_record_metadata_parse(event->members[i], &group->members.items[n]))
            n++; /* otherwise it belongs to another program, which should not use this log */
    rota_group_driver_drive(group, &(struct rota_group_event){.type = ROTA_GROUP_REBALANCED,
                                                              .generation = event->generation,
                                                              .members = group->members.items,
                                                              .n_members = n,
                                                              .is_leader = event->is_leader,
                                                              .sent_at = event->sent_at});
}

static void hear_end(struct rota_group *group, const struct rota_sync_event *event)
{
    bool was_starting = group->fsm.state == ROTA_GROUP_AT_START;
    if (event->end > group->end)
        group->end = event->end;
    rota_group_driver_drive(group, &(struct rota_group_event){.type = ROTA_GROUP_LOG_OK,
                                                              .end = event->end,
                                                              .sent_at = event->sent_at});
    bool is_known = group->fsm.replay == ROTA_GROUP_REPLAY_FOLD && !group->is_ended;
    if (is_known)
        rota_group_news_tell_whole(group);
    if (is_known && was_starting && group->fsm.state != ROTA_GROUP_AT_START && !group->is_closing)
        rota_group_news_tell_ready(group);
}

static void hear_append(struct rota_group *group, const struct rota_sync_event *event)
{
    bool is_done = event->type == ROTA_SYNC_APPENDED;
    rota_counter_add(is_done ? group->series.written : group->series.unwritten, 1);
    rota_group_driver_drive(
        group,
        &(struct rota_group_event){.type = is_done ? ROTA_GROUP_APPENDED : ROTA_GROUP_NOT_APPENDED,
                                   .number = event->number,
                                   .offset = event->offset});
}

static void hear_loss(struct rota_group *group, const struct rota_sync_event *event,
                      enum rota_group_event_type type)
{
    snprintf(group->loss, sizeof group->loss, "%s", event->error ? event->error->text : "");
    rota_group_driver_drive(group, &(struct rota_group_event){.type = type});
}

static void hear_failure(struct rota_group *group, const struct rota_sync_event *event)
{
    struct rota_error error = {0};
    if (event->error)
        error = *event->error;
    rota_group_driver_fail(group, &error); /* first: then the loss is not reported as well */
    rota_group_driver_drive(group, &(struct rota_group_event){.type = ROTA_GROUP_LOG_LOST});
}

void rota_group_hear_event(void *data, const struct rota_sync_event *event)
{
    struct rota_group *group = data;
    if (group->is_failed)
        return;
    switch (event->type) {
    case ROTA_SYNC_OPENED:
        group->end = event->end;
        rota_group_driver_drive(group, &(struct rota_group_event){.type = ROTA_GROUP_OPENED,
                                                                  .first = event->first,
                                                                  .end = event->end});
        break;
    case ROTA_SYNC_RECORD:
        hear_record(group, event);
        break;
    case ROTA_SYNC_OK:
        hear_end(group, event);
        break;
    case ROTA_SYNC_LOST:
        hear_loss(group, event, ROTA_GROUP_LOG_LOST);
        break;
    case ROTA_SYNC_APPENDED:
    case ROTA_SYNC_NOT_APPENDED:
        hear_append(group, event);
        break;
    case ROTA_SYNC_ROUND:
        hear_round(group, event);
        break;
    case ROTA_SYNC_GROUP_OK:
        rota_group_driver_drive(group, &(struct rota_group_event){.type = ROTA_GROUP_GROUP_OK,
                                                                  .sent_at = event->sent_at});
        break;
    case ROTA_SYNC_GROUP_LOST:
        hear_loss(group, event, ROTA_GROUP_GROUP_LOST);
        break;
    case ROTA_SYNC_UNREACHABLE:
        rota_group_news_tell_unreachable(group, event->error);
        break;
    case ROTA_SYNC_FAILED:
        hear_failure(group, event);
        break;
    }
}
