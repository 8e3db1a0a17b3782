#include "core/own/group.h"

#include "base/hash.h"
#include "base/text.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>

struct rota_blob *rota_group_blob_new(struct rota_str bytes)
{
    struct rota_blob *blob =
        bytes.size <= UINT32_MAX - sizeof *blob ? malloc(sizeof *blob + bytes.size) : NULL;
    if (!blob)
        return NULL;
    *blob = (struct rota_blob){.n_refs = 1, .size = (uint32_t)bytes.size};
    if (bytes.size > 0)
        memcpy(blob->data, bytes.data, bytes.size);
    return blob;
}

struct rota_blob *rota_group_blob_ref(struct rota_blob *blob)
{
    if (blob)
        blob->n_refs++;
    return blob;
}

void rota_group_blob_unref(struct rota_blob *blob)
{
    if (blob && --blob->n_refs == 0)
        free(blob);
}

uint64_t rota_group_hash(struct rota_str name)
{
    return rota_hash_sip64(0, name);
}

struct rota_group_def *rota_group_def_new(struct rota_str name, const struct rota_str *parents,
                                          size_t n_parents, struct rota_str extra)
{
    assert(n_parents <= ROTA_GROUP_PARENTS_MAX);
    size_t head = sizeof(struct rota_group_def) + n_parents * sizeof(struct rota_group_name);
    size_t size = head + name.size + extra.size;
    for (size_t i = 0; i < n_parents; i++)
        size += parents[i].size;
    struct rota_group_def *def = malloc(size);
    if (!def)
        return NULL;
    char *end = (char *)def + head;
    *def = (struct rota_group_def){.n_refs = 1, .n_parents = (uint32_t)n_parents};
    def->name.text = rota_text_put(&end, name);
    def->name.hash = rota_group_hash(name);
    def->extra = rota_text_put(&end, extra);
    for (size_t i = 0; i < n_parents; i++) {
        def->parents[i].text = rota_text_put(&end, parents[i]);
        def->parents[i].hash = rota_group_hash(parents[i]);
    }
    return def;
}

struct rota_group_def *rota_group_def_ref(struct rota_group_def *def)
{
    if (def)
        def->n_refs++;
    return def;
}

void rota_group_def_unref(struct rota_group_def *def)
{
    if (def && --def->n_refs == 0)
        free(def);
}

struct rota_group_record *rota_group_record_new(enum rota_group_kind kind)
{
    struct rota_group_record *record = calloc(1, sizeof *record);
    if (!record)
        return NULL;
    record->n_refs = 1;
    record->kind = kind;
    record->author.task = record->extra = rota_str("");
    record->leader = ROTA_GROUP_NOBODY;
    return record;
}

struct rota_group_record *rota_group_record_ref(struct rota_group_record *record)
{
    if (record)
        record->n_refs++;
    return record;
}

void rota_group_record_unref(struct rota_group_record *record)
{
    if (!record || --record->n_refs > 0)
        return;
    for (size_t i = 0; i < record->n_changes; i++) {
        rota_group_def_unref(record->changes[i].def);
        rota_group_blob_unref(record->changes[i].position);
    }
    for (size_t i = 0; i < record->n_partitions; i++) {
        rota_group_def_unref(record->partitions[i].def);
        rota_group_blob_unref(record->partitions[i].position);
    }
    for (size_t i = 0; i < record->n_removed; i++)
        rota_group_def_unref(record->removed[i]);
    free(record->tasks);
    free(record->changes);
    free(record->partitions);
    free(record->removed);
    free(record->text);
    rota_group_blob_unref(record->name);
    rota_group_blob_unref(record->extra_text);
    free(record);
}

const char *rota_group_kind_name(enum rota_group_kind kind)
{
    static const char *const names[] = {"epoch", "state", "snapshot"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

const char *rota_group_change_name(enum rota_group_change_type type)
{
    static const char *const names[ROTA_GROUP_CHANGES] = {
        "own", "share", "take", "progress", "finish", "remove", "clear", "withdraw", "move"};
    return (unsigned)type < ROTA_GROUP_CHANGES ? names[type] : "unknown";
}

bool rota_group_is_task_name(struct rota_str text)
{
    if (text.size == 0 || text.size > ROTA_GROUP_TASK_NAME_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c <= ' ' || c > '~' || c == '"' || c == '\\')
            return false;
    }
    return true;
}

bool rota_group_is_name(struct rota_str text)
{
    if (text.size == 0 || text.size > ROTA_GROUP_NAME_MAX)
        return false;
    for (size_t size; text.size > 0; text = rota_str_of(text.data + size, text.size - size))
        if (rota_utf8_decode(text, &size) == ROTA_UTF8_NONE)
            return false;
    return true;
}

/* --- sizes as JSON --- */

/* Of a string with its quotes; whatever may become an escape counts as one. */
static size_t string_size(struct rota_str text)
{
    size_t size = 2;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        size += c >= ' ' && c <= '~' && c != '"' && c != '\\' ? 1 : 6;
    }
    return size;
}

/* A key, a comma and a number each. */
enum { FIELDS_MAX = 320 };

static size_t def_size(const struct rota_group_def *def)
{
    size_t size = string_size(def->name.text) + def->extra.size + 1;
    for (uint32_t i = 0; i < def->n_parents; i++)
        size += string_size(def->parents[i].text) + 1;
    return size;
}

/* As text or as hexadecimal digits. */
static size_t position_size(const struct rota_blob *position)
{
    struct rota_str bytes = rota_blob_str(position);
    size_t as_text = string_size(bytes);
    return as_text > 2 * bytes.size + 2 ? as_text : 2 * bytes.size + 2;
}

size_t rota_group_change_size_max(const struct rota_group_change *change)
{
    return FIELDS_MAX + def_size(change->def) + change->target.task.size +
           position_size(change->position);
}

size_t rota_group_partition_size_max(const struct rota_group_partition_state *partition)
{
    return FIELDS_MAX + def_size(partition->def) + position_size(partition->position);
}
