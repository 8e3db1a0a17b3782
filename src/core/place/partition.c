#include <rota/experimental/partition.h>

#include "base/decimal.h"
#include "base/quote.h"
#include "core/place/names.h"

#include <assert.h>
#include <stdio.h>

static const char PREFIX[] = "/_sys/";

static struct rota_str key_prefix(void)
{
    return rota_str_of(PREFIX, sizeof PREFIX - 1);
}

/* A decimal number above 0 with an optional plus sign, as strconv reads it. */
static bool parse_id(struct rota_str text, int64_t *id)
{
    int64_t value = 0;
    if (text.size > 0 && text.data[0] == '+')
        text = rota_str_of(text.data + 1, text.size - 1);
    if (text.size == 0)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text.data[i] - '0', &value))
            return false;
    }
    *id = value;
    return value > 0;
}

enum rota_code rota_partition_parse(struct rota_str text, struct rota_partition_name *name,
                                    struct rota_error *error)
{
    if (!rota_str_has_prefix(text, key_prefix())) {
        *name = (struct rota_partition_name){.queue = text};
        return ROTA_OK;
    }

    struct rota_str rest =
        rota_str_of(text.data + key_prefix().size, text.size - key_prefix().size);
    const char *slash = rest.size ? memrchr(rest.data, '/', rest.size) : NULL;
    char shown[ROTA_QUOTE_MAX];
    if (!slash || slash == rest.data)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "partition name %s: expected /_sys/QUEUE/NUMBER",
                              rota_quote(text, shown));

    struct rota_str queue = rota_str_of(rest.data, (size_t)(slash - rest.data));
    struct rota_str number = rota_str_of(slash + 1, rest.size - queue.size - 1);
    int64_t id;
    if (rota_str_has_prefix(queue, key_prefix()))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "partition name %s: the queue name itself starts with /_sys/",
                              rota_quote(text, shown));
    if (!parse_id(number, &id))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "partition name %s: the part after the last / is not a number from 1 "
                              "to 9223372036854775807",
                              rota_quote(text, shown));
    *name = (struct rota_partition_name){.queue = queue, .id = id};
    return ROTA_OK;
}

static enum rota_code check_name(const char *what, struct rota_str name, struct rota_error *error)
{
    if (name.size > ROTA_QUEUE_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the %s has %zu bytes; at most %d are allowed", what, name.size,
                              ROTA_QUEUE_NAME_MAX);
    char shown[ROTA_QUOTE_MAX];
    if (rota_str_has_prefix(name, key_prefix()))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s %s starts with /_sys/, which is reserved", what,
                              rota_quote(name, shown));
    return ROTA_OK;
}

enum rota_code rota_partition_check(const struct rota_partition *partition,
                                    struct rota_error *error)
{
    enum rota_code code;
    bool is_normal = partition->kind == ROTA_PARTITION_NORMAL;

    if ((code = check_name("namespace", partition->namespace_id, error)) ||
        (code = check_name("queue name", partition->queue, error)) ||
        (code = check_name("sticky name", partition->sticky_name, error)))
        return code;
    if ((unsigned)partition->kind > ROTA_PARTITION_WORKER_COMMANDS)
        return rota_error_set(error, ROTA_ERR_INVALID, "partition kind %d is unknown",
                              (int)partition->kind);
    if ((unsigned)partition->type > ROTA_TASK_NEXUS)
        return rota_error_set(error, ROTA_ERR_INVALID, "task type %d is unknown",
                              (int)partition->type);
    if (partition->id < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "partition %lld is negative",
                              (long long)partition->id);
    if (partition->id >= ROTA_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "partition %lld: a queue has at most %d partitions",
                              (long long)partition->id, ROTA_PARTITIONS_MAX);
    if (!is_normal && partition->id != 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "partition %lld: this kind of queue has partition 0 only",
                              (long long)partition->id);
    if (partition->kind != ROTA_PARTITION_STICKY && partition->sticky_name.size > 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "only the sticky kind has a sticky name");
    if (partition->kind == ROTA_PARTITION_WORKER_COMMANDS && partition->type != ROTA_TASK_NEXUS)
        return rota_error_set(error, ROTA_ERR_INVALID, "worker commands must have the type nexus");
    return ROTA_OK;
}

static char *put_text(char *end, struct rota_str str)
{
    if (str.size == 0)
        return end;
    memcpy(end, str.data, str.size);
    return end + str.size;
}

/* Names that were never checked must not overflow the caller's memory. */
static void assert_fits(const struct rota_partition *partition)
{
    assert(partition->id >= 0 && partition->namespace_id.size <= ROTA_QUEUE_NAME_MAX &&
           partition->queue.size <= ROTA_QUEUE_NAME_MAX &&
           partition->sticky_name.size <= ROTA_QUEUE_NAME_MAX);
}

static char *put_name(char *end, const struct rota_partition *partition)
{
    if (partition->kind == ROTA_PARTITION_STICKY)
        return put_text(end, partition->sticky_name);
    if (partition->id == 0)
        return put_text(end, partition->queue);
    end = put_text(end, key_prefix());
    end = put_text(end, partition->queue);
    *end++ = '/';
    return rota_decimal_put(end, (uint64_t)partition->id);
}

size_t rota_partition_format(const struct rota_partition *partition, char text[ROTA_ROUTE_KEY_MAX])
{
    assert_fits(partition);
    char *end = put_name(text, partition);
    *end = '\0';
    return (size_t)(end - text);
}

enum rota_code rota_partition_parent(int64_t id, int64_t degree, int64_t *parent,
                                     struct rota_error *error)
{
    if (id <= 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "partition %lld has no parent",
                              (long long)id);
    if (degree < 1)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "degree %lld of the forwarding tree: at least 1 is needed",
                              (long long)degree);
    *parent = (id - 1) / degree; /* = ceil(id / degree) - 1, without overflow */
    return ROTA_OK;
}

void rota_partition_route_key(const struct rota_partition *partition, uint32_t batch,
                              struct rota_route_key *key)
{
    bool is_spread = batch > 0 && partition->kind == ROTA_PARTITION_NORMAL;
    int64_t number = is_spread ? partition->id / batch : 0;
    assert_fits(partition);

    char *end = put_text(key->text, partition->namespace_id);
    *end++ = ':';
    end = is_spread ? put_text(end, partition->queue) : put_name(end, partition);
    *end++ = ':';
    if (number > 0) {
        end = rota_decimal_put(end, (uint64_t)number);
        *end++ = ':';
    }
    *end++ = (char)('0' + partition->type);
    *end = '\0';
    key->size = (size_t)(end - key->text);
    key->index = is_spread ? (uint32_t)(partition->id % batch) : 0;
}

const char *const rota_task_type_names[] = {
    [ROTA_TASK_UNSPECIFIED] = "unspecified",
    [ROTA_TASK_WORKFLOW] = "workflow",
    [ROTA_TASK_ACTIVITY] = "activity",
    [ROTA_TASK_NEXUS] = "nexus",
    [ROTA_TASK_NEXUS + 1] = NULL,
};

const char *rota_task_type_name(enum rota_task_type type)
{
    return rota_task_type_names[type];
}

enum rota_code rota_task_type_parse(struct rota_str text, enum rota_task_type *type)
{
    for (int i = 0; i <= ROTA_TASK_NEXUS; i++) {
        if (rota_str_is_equal(text, rota_str(rota_task_type_names[i]))) {
            *type = (enum rota_task_type)i;
            return ROTA_OK;
        }
    }
    return ROTA_ERR_INVALID;
}
