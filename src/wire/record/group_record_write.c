#include "base/json.h"
#include "base/utf8.h"
#include "wire/record/group_record.h"

static void put_uint(struct rota_json *json, const char *key, uint64_t value)
{
    rota_json_add_uint(json, key, value);
}

static void put_string(struct rota_json *json, const char *key, struct rota_str value)
{
    rota_json_add_string(json, key, value);
}

static void put_time(struct rota_json *json, const char *key, rota_time time)
{
    char text[ROTA_TIME_TEXT_MAX];
    put_string(json, key, rota_str(rota_time_format(time, text)));
}

static void put_place(struct rota_json *json, const char *key, uint32_t place)
{
    if (place != ROTA_GROUP_NOBODY)
        put_uint(json, key, place);
}

/* Fields that another version wrote, unchanged. They are never first. */
static void put_extra(struct rota_json *json, struct rota_str extra)
{
    if (extra.size == 0)
        return;
    rota_buffer_append_char(json->buffer, ',');
    rota_buffer_append_str(json->buffer, extra);
}

static void put_member(struct rota_json *json, struct rota_group_member member)
{
    put_string(json, "taskID", member.task);
    put_uint(json, "incarnation", member.incarnation);
}

static bool is_text(struct rota_str bytes)
{
    for (size_t size; bytes.size > 0; bytes = rota_str_of(bytes.data + size, bytes.size - size))
        if (rota_utf8_decode(bytes, &size) == ROTA_UTF8_NONE)
            return false;
    return true;
}

/* As text if it is text, else in hexadecimal digits. */
static void put_position(struct rota_json *json, int64_t mark, const struct rota_blob *position)
{
    static const char digits[] = "0123456789abcdef";
    struct rota_str bytes = rota_blob_str(position);
    rota_json_add_int(json, "mark", mark);
    if (bytes.size == 0)
        return;
    if (is_text(bytes)) {
        put_string(json, "position", bytes);
        return;
    }
    char hex[2 * ROTA_GROUP_POSITION_MAX];
    for (size_t i = 0; i < bytes.size && i < ROTA_GROUP_POSITION_MAX; i++) {
        hex[2 * i] = digits[(unsigned char)bytes.data[i] >> 4];
        hex[2 * i + 1] = digits[(unsigned char)bytes.data[i] & 15];
    }
    put_string(json, "positionHex", rota_str_of(hex, 2 * bytes.size));
}

static void put_parents(struct rota_json *json, const struct rota_group_def *def)
{
    if (def->n_parents == 0)
        return;
    rota_json_add_array(json, "parents");
    for (uint32_t i = 0; i < def->n_parents; i++)
        rota_json_string(json, def->parents[i].text);
    rota_json_end_array(json);
}

static void put_change(struct rota_json *json, const struct rota_group_change *change)
{
    bool is_new = change->type == ROTA_GROUP_OWN || change->type == ROTA_GROUP_SHARE;
    bool has_target = change->type == ROTA_GROUP_SHARE || change->type == ROTA_GROUP_WITHDRAW ||
                      change->type == ROTA_GROUP_MOVE;
    bool has_token = change->type == ROTA_GROUP_PROGRESS || change->type == ROTA_GROUP_FINISH ||
                     change->type == ROTA_GROUP_REMOVE || change->type == ROTA_GROUP_MOVE;
    rota_json_begin_object(json);
    put_string(json, "partition", change->def->name.text);
    put_string(json, "change", rota_str(rota_group_change_name(change->type)));
    if (is_new)
        put_parents(json, change->def);
    if (has_token)
        put_uint(json, "token", change->token);
    if (has_target) {
        put_string(json, "target", change->target.task);
        put_uint(json, "targetIncarnation", change->target.incarnation);
    }
    if (change->has_position)
        put_position(json, change->mark, change->position);
    if (change->is_end) {
        rota_json_add_bool(json, "end", true);
    }
    if (is_new)
        put_extra(json, change->def->extra);
    rota_json_end_object(json);
}

static void put_section(struct rota_json *json, const struct rota_group_record *record,
                        bool is_share)
{
    size_t n = 0;
    for (size_t i = 0; i < record->n_changes; i++)
        n += rota_group_is_share(record->changes[i].type) == is_share;
    if (n == 0)
        return;
    rota_json_key(json, is_share ? "share" : "data");
    rota_json_begin_object(json);
    rota_json_add_array(json, "partitions");
    for (size_t i = 0; i < record->n_changes; i++)
        if (rota_group_is_share(record->changes[i].type) == is_share)
            put_change(json, &record->changes[i]);
    rota_json_end_array(json);
    rota_json_end_object(json);
}

static void put_state(struct rota_json *json, const struct rota_group_record *record)
{
    rota_json_add_array(json, "connectorState");
    rota_json_begin_object(json);
    put_member(json, record->author);
    put_time(json, "stateTimestamp", record->timestamp);
    put_section(json, record, false);
    put_section(json, record, true);
    rota_json_end_object(json);
    rota_json_end_array(json);
    if (record->is_seed_end) {
        rota_json_add_bool(json, "seeded", true);
    }
}

static void put_tasks(struct rota_json *json, const struct rota_group_record *record)
{
    rota_json_add_array(json, "connectorState");
    for (size_t i = 0; i < record->n_tasks; i++) {
        rota_json_begin_object(json);
        put_member(json, record->tasks[i].member);
        if (record->kind == ROTA_GROUP_SNAPSHOT)
            put_uint(json, "sequence", record->tasks[i].sequence);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
}

static void put_words(struct rota_json *json, const struct rota_group_record *record)
{
    rota_json_add_object(json, "state");
    put_uint(json, "epoch", record->state_epoch);
    put_uint(json, "epochOffset", record->state_epoch_offset);
    put_string(json, "syncEpoch", rota_str(record->state_sync_epoch));
    put_uint(json, "generation", record->state_generation);
    put_uint(json, "replayFrom", record->state_replay_from);
    put_uint(json, "incarnationFloor", record->incarnation_floor);
    put_place(json, "leader", record->leader);
    rota_json_add_bool(json, "seeded", record->is_seeded);
    rota_json_end_object(json);
}

static void put_partition(struct rota_json *json, const struct rota_group_partition_state *state)
{
    rota_json_begin_object(json);
    put_string(json, "partition", state->def->name.text);
    put_parents(json, state->def);
    put_uint(json, "token", state->token);
    put_place(json, "owner", state->owner);
    put_place(json, "target", state->target);
    put_place(json, "sharer", state->sharer);
    put_position(json, state->mark, state->position);
    if (state->is_finished) {
        rota_json_add_bool(json, "finished", true);
    }
    put_extra(json, state->def->extra);
    rota_json_end_object(json);
}

static void put_piece(struct rota_json *json, const struct rota_group_record *record)
{
    put_uint(json, "index", record->index);
    put_uint(json, "count", record->count);
    if (record->index == 0) {
        put_words(json, record);
        put_tasks(json, record);
    }
    if (record->n_removed > 0) {
        rota_json_add_array(json, "removed");
        for (size_t i = 0; i < record->n_removed; i++)
            rota_json_string(json, record->removed[i]->name.text);
        rota_json_end_array(json);
    }
    rota_json_add_array(json, "partitions");
    for (size_t i = 0; i < record->n_partitions; i++)
        put_partition(json, &record->partitions[i]);
    rota_json_end_array(json);
}

static void put_record(struct rota_json *json, const struct rota_group_record *record)
{
    rota_json_begin_object(json);
    put_uint(json, "version", ROTA_GROUP_RECORD_VERSION);
    put_string(json, "kind", rota_str(rota_group_kind_name(record->kind)));
    put_string(json, "syncEpoch", rota_str(record->sync_epoch));
    put_uint(json, "epoch", record->epoch);
    put_member(json, record->author);
    put_uint(json, "sequence", record->sequence);
    put_time(json, "messageTimestamp", record->timestamp);
    put_uint(json, "replayFrom", record->replay_from);
    put_uint(json, "next", record->next);
    switch (record->kind) {
    case ROTA_GROUP_EPOCH:
        put_uint(json, "prevEpoch", record->prev_epoch);
        put_uint(json, "generation", record->generation);
        put_tasks(json, record);
        break;
    case ROTA_GROUP_STATE:
        put_state(json, record);
        break;
    case ROTA_GROUP_SNAPSHOT:
        put_piece(json, record);
        break;
    }
    put_extra(json, record->extra);
    rota_json_end_object(json);
}

enum rota_code rota_group_record_format(struct rota_group_record *record,
                                        struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_buffer own = {0};
    struct rota_json json = {.buffer = &own};
    enum rota_code code = ROTA_OK;
    put_record(&json, record);
    if (own.failed)
        code = rota_error_no_memory(error, "for a record");
    else if (own.size > ROTA_GROUP_RECORD_MAX)
        code = rota_error_set(error, ROTA_ERR_LIMIT,
                              "the record has %zu bytes; at most %d are allowed", own.size,
                              ROTA_GROUP_RECORD_MAX);
    if (!code) {
        record->size = own.size;
        rota_buffer_append_str(buffer, rota_buffer_str(&own));
        if (buffer->failed)
            code = rota_error_no_memory(error, "for a record of %zu bytes", own.size);
    }
    rota_buffer_deinit(&own);
    return code;
}
