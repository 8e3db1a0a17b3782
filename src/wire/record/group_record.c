#include "wire/record/group_record.h"

#include "base/quote.h"
#include "base/vector.h"
#include "wire/text/json_scan.h"

#include <stdio.h>
#include <stdlib.h>

/* --- a reader, and its error --- */

struct reader {
    struct rota_scan scan;
    struct rota_group_record *record;
    enum rota_group_verdict verdict;
    struct rota_error *error;
    bool is_out_of_memory;
    struct rota_buffer extra; /* of the record itself */
};

/* The first error is kept. */
__attribute__((format(printf, 3, 4))) static void refuse_record(struct reader *reader,
                                                                enum rota_group_verdict verdict,
                                                                const char *format, ...)
{
    char text[ROTA_ERROR_TEXT_MAX];
    va_list arguments;
    reader->scan.failed = true;
    reader->scan.at = reader->scan.end;
    if (reader->verdict != ROTA_GROUP_ACCEPTED)
        return;
    reader->verdict = verdict;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rota_error_set(reader->error,
                   verdict == ROTA_GROUP_OVERSIZED ? ROTA_ERR_LIMIT : ROTA_ERR_INVALID, "%s", text);
}

static void lack_memory(struct reader *reader)
{
    reader->is_out_of_memory = true;
    refuse_record(reader, ROTA_GROUP_OVERSIZED, "not enough memory for a record");
}

/* Its index in `keys`, n for none of them; a duplicate is rejected. */
static size_t know_key(struct reader *reader, struct rota_str key, const char *const *keys,
                       size_t n, uint32_t *seen)
{
    char quoted[ROTA_QUOTE_MAX];
    size_t i = 0;
    while (i < n && !rota_str_is_equal(key, rota_str(keys[i])))
        i++;
    if (i < n && *seen & 1U << i)
        refuse_record(reader, ROTA_GROUP_MALFORMED, "%s is given twice", rota_quote(key, quoted));
    *seen |= i < n ? 1U << i : 0;
    return i;
}

/* Keep an unknown field as it is. */
static void keep_extra(struct reader *reader, struct rota_str key, struct rota_buffer *extra)
{
    struct rota_str value = rota_json_scan_skip(&reader->scan);
    if (reader->scan.failed)
        return;
    if (extra->size > 0)
        rota_buffer_append_char(extra, ',');
    rota_buffer_append_char(extra, '"');
    for (char piece[ROTA_QUOTE_PIECE_MAX]; key.size > 0;)
        rota_buffer_append(extra, piece, rota_quote_next(&key, piece));
    rota_buffer_append_text(extra, "\":");
    rota_buffer_append_str(extra, value);
    if (extra->failed)
        lack_memory(reader);
    else if (extra->size > ROTA_GROUP_EXTRA_MAX)
        refuse_record(reader, ROTA_GROUP_OVERSIZED, "more than %d bytes of unknown fields",
                      ROTA_GROUP_EXTRA_MAX);
}

/* --- pieces --- */

static uint64_t read_number(struct reader *reader)
{
    return rota_json_scan_uint(&reader->scan, ROTA_GROUP_NUMBER_MAX);
}

static struct rota_str read_task(struct reader *reader)
{
    char quoted[ROTA_QUOTE_MAX];
    struct rota_str name = rota_json_scan_string(&reader->scan);
    if (!reader->scan.failed && !rota_group_is_task_name(name))
        refuse_record(reader,
                      name.size > ROTA_GROUP_TASK_NAME_MAX ? ROTA_GROUP_OVERSIZED
                                                           : ROTA_GROUP_MALFORMED,
                      "%s is not the name of a task", rota_quote(name, quoted));
    return name;
}

static struct rota_str read_name(struct reader *reader)
{
    char quoted[ROTA_QUOTE_MAX];
    struct rota_str name = rota_json_scan_string(&reader->scan);
    if (!reader->scan.failed && !rota_group_is_name(name))
        refuse_record(reader,
                      name.size > ROTA_GROUP_NAME_MAX ? ROTA_GROUP_OVERSIZED : ROTA_GROUP_MALFORMED,
                      "%s is not the name of a partition", rota_quote(name, quoted));
    return name;
}

static void read_label(struct reader *reader, char label[ROTA_GROUP_SYNC_EPOCH_MAX + 1])
{
    struct rota_str text = rota_json_scan_string(&reader->scan);
    if (text.size > ROTA_GROUP_SYNC_EPOCH_MAX) {
        refuse_record(reader, ROTA_GROUP_OVERSIZED, "a syncEpoch of %zu bytes", text.size);
    } else if (text.size > 0 && memchr(text.data, '\0', text.size)) {
        refuse_record(reader, ROTA_GROUP_MALFORMED, "a syncEpoch with a NUL");
    } else {
        if (text.size > 0)
            memcpy(label, text.data, text.size);
        label[text.size] = '\0';
    }
}

static rota_time read_time(struct reader *reader)
{
    rota_time time = 0;
    char quoted[ROTA_QUOTE_MAX];
    struct rota_str text = rota_json_scan_string(&reader->scan);
    if (!reader->scan.failed && rota_time_parse(text, &time))
        refuse_record(reader, ROTA_GROUP_MALFORMED, "%s is not a time", rota_quote(text, quoted));
    return time;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Gives the bytes of a position, NULL if they are not available. */
static struct rota_blob *read_position(struct reader *reader, bool is_hex)
{
    struct rota_str text = rota_json_scan_string(&reader->scan);
    char *bytes = (char *)text.data; /* in our own copy: decoded in place */
    size_t size = is_hex ? text.size / 2 : text.size;
    if (reader->scan.failed)
        return NULL;
    if (size > ROTA_GROUP_POSITION_MAX) {
        refuse_record(reader, ROTA_GROUP_OVERSIZED, "a position of %zu bytes", size);
        return NULL;
    }
    for (size_t i = 0; is_hex && 2 * i < text.size; i++) {
        bool is_odd = 2 * i + 1 == text.size;
        int high = hex_digit(text.data[2 * i]);
        int low = is_odd ? -1 : hex_digit(text.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            refuse_record(reader, ROTA_GROUP_MALFORMED, "a position that is not hexadecimal");
            return NULL;
        }
        bytes[i] = (char)(high << 4 | low);
    }
    struct rota_blob *blob = rota_group_blob_new(rota_str_of(bytes, size));
    if (!blob)
        lack_memory(reader);
    return blob;
}

/* --- partitions --- */

/* One entry of a list of partitions, of a state or of a snapshot. */
struct entry {
    struct rota_str name, parents[ROTA_GROUP_PARENTS_MAX];
    size_t n_parents;
    struct rota_group_change change;
    struct rota_group_partition_state state;
    bool has_change;
    struct rota_buffer extra;
};

static void read_parents(struct reader *reader, struct entry *entry)
{
    rota_json_scan_array(&reader->scan);
    while (rota_json_scan_item(&reader->scan)) {
        struct rota_str parent = read_name(reader);
        if (entry->n_parents == ROTA_GROUP_PARENTS_MAX) {
            refuse_record(reader, ROTA_GROUP_OVERSIZED, "a partition with more than %d parents",
                          ROTA_GROUP_PARENTS_MAX);
            return;
        }
        for (size_t i = 0; i < entry->n_parents; i++)
            if (rota_str_is_equal(entry->parents[i], parent))
                refuse_record(reader, ROTA_GROUP_MALFORMED, "a partition with a duplicate parent");
        entry->parents[entry->n_parents++] = parent;
    }
}

static void read_change_name(struct reader *reader, struct entry *entry)
{
    char quoted[ROTA_QUOTE_MAX];
    struct rota_str text = rota_json_scan_string(&reader->scan);
    for (int i = 0; i < ROTA_GROUP_CHANGES; i++)
        if (rota_str_is_equal(text,
                              rota_str(rota_group_change_name((enum rota_group_change_type)i)))) {
            entry->change.type = (enum rota_group_change_type)i;
            entry->has_change = true;
        }
    if (!entry->has_change)
        refuse_record(reader, ROTA_GROUP_MALFORMED, "%s is not a change", rota_quote(text, quoted));
}

static uint32_t read_place(struct reader *reader)
{
    return (uint32_t)rota_json_scan_uint(&reader->scan, ROTA_GROUP_TASKS_MAX - 1);
}

/* In a state `target` is a name, in a snapshot a place. */
static void read_entry_field(struct reader *reader, struct entry *entry, size_t key,
                             struct rota_str name, bool is_state)
{
    struct rota_group_change *change = &entry->change;
    switch (key) {
    case 0:
        entry->name = read_name(reader);
        return;
    case 1:
        read_change_name(reader, entry);
        return;
    case 2:
        read_parents(reader, entry);
        return;
    case 3:
        change->has_position = true;
        change->mark = rota_json_scan_int(&reader->scan);
        return;
    case 4:
    case 5:
        if (change->position)
            refuse_record(reader, ROTA_GROUP_MALFORMED, "a partition with two positions");
        else
            change->position = read_position(reader, key == 5);
        return;
    case 6:
        change->token = read_number(reader);
        return;
    case 7:
        change->is_end = rota_json_scan_bool(&reader->scan);
        return;
    case 8:
        if (is_state)
            change->target.task = read_task(reader);
        else
            entry->state.target = read_place(reader);
        return;
    case 9:
        change->target.incarnation = read_number(reader);
        return;
    case 10:
        entry->state.owner = read_place(reader);
        return;
    case 11:
        entry->state.sharer = read_place(reader);
        return;
    case 12:
        entry->state.is_finished = rota_json_scan_bool(&reader->scan);
        return;
    default:
        keep_extra(reader, name, &entry->extra);
    }
}

static bool lacks_target(const struct rota_group_change *change)
{
    return rota_group_is_share(change->type) && change->type != ROTA_GROUP_CLEAR &&
           (change->target.task.size == 0 || change->target.incarnation == 0);
}

static void read_entry(struct reader *reader, struct entry *entry, bool is_state)
{
    static const char *const keys[] = {
        "partition", "change", "parents",           "mark",  "position", "positionHex", "token",
        "end",       "target", "targetIncarnation", "owner", "sharer",   "finished"};
    struct rota_str key;
    uint32_t seen = 0;
    *entry = (struct entry){.state = {.owner = ROTA_GROUP_NOBODY,
                                      .target = ROTA_GROUP_NOBODY,
                                      .sharer = ROTA_GROUP_NOBODY}};
    entry->change.target.task = rota_str("");
    rota_json_scan_object(&reader->scan);
    while (rota_json_scan_key(&reader->scan, &key))
        read_entry_field(reader, entry,
                         know_key(reader, key, keys, sizeof keys / sizeof *keys, &seen), key,
                         is_state);
    if (reader->scan.failed)
        return;
    for (size_t i = 0; i < entry->n_parents; i++)
        if (rota_str_is_equal(entry->parents[i], entry->name))
            refuse_record(reader, ROTA_GROUP_MALFORMED, "a partition that is its own parent");
    if (entry->name.size == 0)
        refuse_record(reader, ROTA_GROUP_MALFORMED, "a partition without a name");
    else if (is_state && !entry->has_change)
        refuse_record(reader, ROTA_GROUP_MALFORMED, "a partition without a change");
    else if (entry->change.position && !entry->change.has_position)
        refuse_record(reader, ROTA_GROUP_MALFORMED, "a position without a mark");
    else if (is_state && lacks_target(&entry->change))
        refuse_record(reader, ROTA_GROUP_MALFORMED, "an offer without a target");
    if (reader->scan.failed)
        return;
    entry->change.def = entry->state.def = rota_group_def_new(
        entry->name, entry->parents, entry->n_parents, rota_buffer_str(&entry->extra));
    if (!entry->change.def)
        lack_memory(reader);
    entry->state.position = entry->change.position;
    entry->state.mark = entry->change.mark;
    entry->state.token = entry->change.token;
}

/* Read a list of partitions into the record's, which takes the contents of an entry. */
static void read_partitions(struct reader *reader, bool is_state, bool is_share)
{
    struct rota_group_record *record = reader->record;
    size_t n_changes_room = record->n_changes, n_partitions_room = record->n_partitions;
    rota_json_scan_array(&reader->scan);
    while (rota_json_scan_item(&reader->scan)) {
        struct entry entry;
        read_entry(reader, &entry, is_state);
        rota_buffer_deinit(&entry.extra);
        if (is_state && !reader->scan.failed && rota_group_is_share(entry.change.type) != is_share)
            refuse_record(reader, ROTA_GROUP_MALFORMED, "a change in the wrong section");
        bool is_kept =
            !reader->scan.failed &&
            (is_state ? rota_vector_grow((void **)&record->changes, &n_changes_room,
                                         record->n_changes + 1, sizeof *record->changes)
                      : rota_vector_grow((void **)&record->partitions, &n_partitions_room,
                                         record->n_partitions + 1, sizeof *record->partitions));
        if (!is_kept) {
            rota_group_def_unref(entry.change.def);
            rota_group_blob_unref(entry.change.position);
            if (!reader->scan.failed)
                lack_memory(reader);
        } else if (is_state) {
            record->changes[record->n_changes++] = entry.change;
        } else {
            record->partitions[record->n_partitions++] = entry.state;
        }
    }
}

static void read_removed(struct reader *reader)
{
    struct rota_group_record *record = reader->record;
    size_t room = record->n_removed;
    rota_json_scan_array(&reader->scan);
    while (rota_json_scan_item(&reader->scan)) {
        struct rota_str name = read_name(reader);
        if (reader->scan.failed)
            return;
        struct rota_group_def *def = rota_group_def_new(name, NULL, 0, rota_str(""));
        if (!def || !rota_vector_grow((void **)&record->removed, &room, record->n_removed + 1,
                                      sizeof *record->removed)) {
            rota_group_def_unref(def);
            lack_memory(reader);
            return;
        }
        record->removed[record->n_removed++] = def;
    }
}

/* --- tasks --- */

/* {"partitions": [...]}, the data or the share of a task. */
static void read_section(struct reader *reader, bool is_share)
{
    static const char *const keys[] = {"partitions"};
    struct rota_str key;
    uint32_t seen = 0;
    rota_json_scan_object(&reader->scan);
    while (rota_json_scan_key(&reader->scan, &key)) {
        if (know_key(reader, key, keys, 1, &seen) == 0)
            read_partitions(reader, true, is_share);
        else
            rota_json_scan_skip(&reader->scan);
    }
}

static void read_task_field(struct reader *reader, struct rota_group_task_state *task, size_t key)
{
    bool is_state = reader->record->kind == ROTA_GROUP_STATE;
    switch (key) {
    case 0:
        task->member.task = read_task(reader);
        return;
    case 1:
        task->member.incarnation = read_number(reader);
        return;
    case 2:
        task->sequence = read_number(reader);
        return;
    case 3:
        read_time(reader);
        return;
    case 4:
    case 5:
        if (is_state)
            read_section(reader, key == 5);
        else
            rota_json_scan_skip(&reader->scan);
        return;
    default:
        rota_json_scan_skip(&reader->scan);
    }
}

static void read_tasks(struct reader *reader)
{
    static const char *const keys[] = {"taskID",         "incarnation", "sequence",
                                       "stateTimestamp", "data",        "share"};
    struct rota_group_record *record = reader->record;
    size_t room = record->n_tasks;
    rota_json_scan_array(&reader->scan);
    while (rota_json_scan_item(&reader->scan)) {
        struct rota_group_task_state task = {.member.task = rota_str("")};
        struct rota_str key;
        uint32_t seen = 0;
        rota_json_scan_object(&reader->scan);
        while (rota_json_scan_key(&reader->scan, &key))
            read_task_field(reader, &task,
                            know_key(reader, key, keys, sizeof keys / sizeof *keys, &seen));
        if (reader->scan.failed)
            return;
        if (task.member.task.size == 0 || task.member.incarnation == 0)
            refuse_record(reader, ROTA_GROUP_MALFORMED, "a task without a name or an incarnation");
        else if (record->n_tasks == ROTA_GROUP_TASKS_MAX)
            refuse_record(reader, ROTA_GROUP_OVERSIZED, "more than %d tasks", ROTA_GROUP_TASKS_MAX);
        else if (!rota_vector_grow((void **)&record->tasks, &room, record->n_tasks + 1,
                                   sizeof *record->tasks))
            lack_memory(reader);
        else
            record->tasks[record->n_tasks++] = task;
    }
}

/* --- the record --- */

static void read_state_words(struct reader *reader)
{
    static const char *const keys[] = {"epoch",      "epochOffset",      "syncEpoch", "generation",
                                       "replayFrom", "incarnationFloor", "leader",    "seeded"};
    struct rota_group_record *record = reader->record;
    uint64_t *const numbers[] = {
        &record->state_epoch,      &record->state_epoch_offset, NULL,
        &record->state_generation, &record->state_replay_from,  &record->incarnation_floor};
    struct rota_str key;
    uint32_t seen = 0;
    rota_json_scan_object(&reader->scan);
    while (rota_json_scan_key(&reader->scan, &key)) {
        size_t i = know_key(reader, key, keys, sizeof keys / sizeof *keys, &seen);
        if (i == 2)
            read_label(reader, record->state_sync_epoch);
        else if (i < 6)
            *numbers[i] = read_number(reader);
        else if (i == 6)
            record->leader = read_place(reader);
        else if (i == 7)
            record->is_seeded = rota_json_scan_bool(&reader->scan);
        else
            rota_json_scan_skip(&reader->scan);
    }
}

static const char *const record_keys[] = {
    "version",    "kind",      "taskID",         "incarnation", "sequence",
    "epoch",      "prevEpoch", "generation",     "syncEpoch",   "messageTimestamp",
    "replayFrom", "next",      "connectorState", "seeded",      "index",
    "count",      "state",     "partitions",     "removed"};

static void read_record_field(struct reader *reader, size_t i, struct rota_str key)
{
    struct rota_group_record *record = reader->record;
    uint64_t *const numbers[] = {&record->author.incarnation, &record->sequence, &record->epoch,
                                 &record->prev_epoch, &record->generation};
    switch (i) {
    case 0:
    case 1:
        rota_json_scan_skip(&reader->scan); /* known by now */
        return;
    case 2:
        record->author.task = read_task(reader);
        return;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        *numbers[i - 3] = read_number(reader);
        return;
    case 8:
        read_label(reader, record->sync_epoch);
        return;
    case 9:
        record->timestamp = read_time(reader);
        return;
    case 10:
        record->replay_from = read_number(reader);
        return;
    case 11:
        record->next = read_number(reader);
        return;
    case 12:
        read_tasks(reader);
        return;
    case 13:
        record->is_seed_end = rota_json_scan_bool(&reader->scan);
        return;
    case 14:
        record->index = (uint32_t)rota_json_scan_uint(&reader->scan, ROTA_GROUP_CHUNKS_MAX - 1);
        return;
    case 15:
        record->count = (uint32_t)rota_json_scan_uint(&reader->scan, ROTA_GROUP_CHUNKS_MAX);
        return;
    case 16:
        read_state_words(reader);
        return;
    case 17:
        read_partitions(reader, false, false);
        return;
    case 18:
        read_removed(reader);
        return;
    default:
        keep_extra(reader, key, &reader->extra);
    }
}

static void check_record(struct reader *reader)
{
    const struct rota_group_record *record = reader->record;
    if (reader->scan.failed)
        return;
    if (record->author.task.size == 0 || record->author.incarnation == 0 || record->sequence == 0)
        refuse_record(reader, ROTA_GROUP_MALFORMED,
                      "a record without taskID, incarnation or sequence");
    else if (record->epoch == 0)
        refuse_record(reader, ROTA_GROUP_MALFORMED, "a record without an epoch");
    else if (record->kind == ROTA_GROUP_SNAPSHOT && record->index >= record->count)
        refuse_record(reader, ROTA_GROUP_MALFORMED, "piece %u of %u", record->index, record->count);
    else if (record->kind != ROTA_GROUP_SNAPSHOT &&
             (record->n_partitions > 0 || record->n_removed > 0))
        refuse_record(reader, ROTA_GROUP_MALFORMED,
                      "partitions in a record that is not a snapshot");
    else if (record->kind == ROTA_GROUP_STATE &&
             (record->n_tasks != 1 ||
              !rota_str_is_equal(record->tasks[0].member.task, record->author.task) ||
              record->tasks[0].member.incarnation != record->author.incarnation))
        refuse_record(reader, ROTA_GROUP_MALFORMED, "a state written by another task");
}

static void read_record(struct reader *reader)
{
    struct rota_str key;
    uint32_t seen = 0;
    rota_json_scan_object(&reader->scan);
    while (rota_json_scan_key(&reader->scan, &key))
        read_record_field(
            reader,
            know_key(reader, key, record_keys, sizeof record_keys / sizeof *record_keys, &seen),
            key);
    rota_json_scan_end(&reader->scan);
    check_record(reader);
    if (reader->scan.failed && reader->verdict == ROTA_GROUP_ACCEPTED)
        refuse_record(reader, ROTA_GROUP_MALFORMED, "a malformed record");
}

/* What does not fit into the strings. */
static void finish_record(struct reader *reader)
{
    struct rota_group_record *record = reader->record;
    if (record->kind == ROTA_GROUP_STATE)
        record->n_tasks = 0; /* the author, repeated */
    if (reader->scan.failed || reader->extra.size == 0)
        return;
    record->extra_text = rota_group_blob_new(rota_buffer_str(&reader->extra));
    if (!record->extra_text)
        lack_memory(reader);
    record->extra = rota_blob_str(record->extra_text);
}

/* --- version and kind --- */

/* Look for version and kind; skip everything else. */
static enum rota_group_verdict peek_kind(struct rota_str text, char *room,
                                         enum rota_group_kind *kind, struct rota_error *error)
{
    static const char begin[] = "{\"version\":";
    struct rota_scan scan;
    struct rota_str key;
    uint64_t version = 0;
    int found = -1;
    rota_json_scan_init(&scan, text, room);
    rota_json_scan_object(&scan);
    while (rota_json_scan_key(&scan, &key)) {
        struct rota_str value = rota_json_scan_skip(&scan);
        struct rota_scan inner;
        rota_json_scan_init(&inner, value, room);
        if (rota_str_is_equal(key, rota_str("version")) && version == 0)
            version = rota_json_scan_uint(&inner, ROTA_GROUP_NUMBER_MAX);
        if (rota_str_is_equal(key, rota_str("kind")) && value.size > 0 && value.data[0] == '"') {
            struct rota_str name = rota_json_scan_string(&inner);
            for (int i = 0; i < 3; i++)
                if (rota_str_is_equal(name,
                                      rota_str(rota_group_kind_name((enum rota_group_kind)i))))
                    found = i;
        }
    }
    rota_json_scan_end(&scan);
    bool is_ours = rota_str_has_prefix(text, rota_str(begin));
    if (version > ROTA_GROUP_RECORD_VERSION) {
        rota_error_set(error, ROTA_ERR_INVALID, "a record of version %llu",
                       (unsigned long long)version);
        return ROTA_GROUP_FUTURE;
    }
    if (scan.failed || version == 0 || found < 0) {
        rota_error_set(error, ROTA_ERR_INVALID, "%s",
                       is_ours ? "a truncated or damaged record" : "not a record of a group");
        return is_ours ? ROTA_GROUP_MALFORMED : ROTA_GROUP_FOREIGN;
    }
    *kind = (enum rota_group_kind)found;
    return ROTA_GROUP_ACCEPTED;
}

enum rota_code rota_group_record_parse(struct rota_str text, struct rota_group_record **record,
                                       enum rota_group_verdict *verdict, struct rota_error *error)
{
    enum rota_group_kind kind;
    if (text.size > ROTA_GROUP_RECORD_MAX) {
        rota_error_set(error, ROTA_ERR_LIMIT, "the record has %zu bytes; at most %d are allowed",
                       text.size, ROTA_GROUP_RECORD_MAX);
        *verdict = ROTA_GROUP_OVERSIZED;
        return ROTA_OK;
    }
    char *room = malloc(text.size + 1);
    if (!room)
        return rota_error_no_memory(error, "for a record of %zu bytes", text.size);
    *verdict = peek_kind(text, room, &kind, error);
    struct reader reader = {.error = error};
    if (*verdict == ROTA_GROUP_ACCEPTED && (reader.record = rota_group_record_new(kind))) {
        reader.record->text = room;
        reader.record->size = text.size;
        rota_json_scan_init(&reader.scan, text, room);
        read_record(&reader);
        finish_record(&reader);
        *verdict = reader.verdict;
        rota_buffer_deinit(&reader.extra);
    } else {
        reader.is_out_of_memory = *verdict == ROTA_GROUP_ACCEPTED;
        free(room);
    }
    if (reader.is_out_of_memory || *verdict != ROTA_GROUP_ACCEPTED) {
        rota_group_record_unref(reader.record);
        return reader.is_out_of_memory
                   ? rota_error_no_memory(error, "for a record of %zu bytes", text.size)
                   : ROTA_OK;
    }
    *record = reader.record;
    return ROTA_OK;
}

/* --- metadata --- */

char *rota_group_record_metadata_format(struct rota_group_member member,
                                        char text[ROTA_GROUP_METADATA_MAX])
{
    snprintf(text, ROTA_GROUP_METADATA_MAX, "%llu/%.*s", (unsigned long long)member.incarnation,
             ROTA_STR_ARGS(member.task));
    return text;
}

enum rota_code rota_group_record_metadata_parse(struct rota_str text,
                                                struct rota_group_member *member)
{
    const char *slash = text.size ? memchr(text.data, '/', text.size) : NULL;
    struct rota_scan scan;
    if (!slash)
        return ROTA_ERR_INVALID;
    size_t size = (size_t)(slash - text.data);
    rota_json_scan_init(&scan, rota_str_of(text.data, size), NULL);
    bool is_number = size > 0 && text.data[0] >= '1' && text.data[0] <= '9';
    uint64_t incarnation = rota_json_scan_uint(&scan, ROTA_GROUP_NUMBER_MAX);
    struct rota_str task = rota_str_of(slash + 1, text.size - size - 1);
    if (!is_number || scan.failed || scan.at != scan.end || !rota_group_is_task_name(task))
        return ROTA_ERR_INVALID;
    *member = (struct rota_group_member){task, incarnation};
    return ROTA_OK;
}
