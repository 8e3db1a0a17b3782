/* The Kafka engine: what connects its two parts, the log and the membership. */
#include "io/clock.h"
#include "io/log/sync_kafka_inside.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 64, NOTES_MAX = 256 };

void rota_sync_kafka_report_event(struct rota_kafka *kafka, const struct rota_sync_event *event)
{
    if (!kafka->is_failed && !kafka->is_closing)
        kafka->on_event(kafka->data, event);
}

/* --- the membership --- */

static void release_kafka(struct rota_kafka *kafka);

static void on_member_closed(void *data)
{
    struct rota_kafka *kafka = data;
    kafka->n_members--;
    if (kafka->is_closing)
        release_kafka(kafka);
}

static void end_member(struct rota_kafka *kafka)
{
    if (kafka->member)
        rota_sync_kafka_member_close(kafka->member, on_member_closed, kafka);
    kafka->member = NULL;
}

void rota_sync_kafka_fail(struct rota_kafka *kafka, const struct rota_error *error)
{
    if (kafka->is_failed || kafka->is_closing)
        return;
    kafka->phase = ROTA_KAFKA_OVER;
    end_member(kafka);
    kafka->is_failed = true;
    rota_sync_kafka_log_refuse(kafka);
    if (!kafka->is_closing)
        kafka->on_event(kafka->data,
                        &(struct rota_sync_event){.type = ROTA_SYNC_FAILED, .error = error});
}

static void on_note(void *owner, const struct rota_kafka_note *note)
{
    struct rota_kafka *kafka = owner;
    if (!kafka->member || note->member != kafka->member_number || kafka->is_closing)
        return; /* of a membership that has ended */
    atomic_store(&kafka->taken, note->number);
    if (note->type == ROTA_SYNC_FAILED) {
        rota_sync_kafka_fail(kafka, &note->error);
        return;
    }
    if (note->type == ROTA_SYNC_GROUP_LOST) {
        rota_log(kafka->setup.log, rota_clock_wall(), ROTA_LOG_WARN, "group lost",
                 ROTA_LOG_FACT("log", kafka->sync.name), ROTA_LOG_FACT("reason", note->error.text));
        end_member(kafka);
    }
    if (note->n_slots < note->n_members)
        rota_log(kafka->setup.log, rota_clock_wall(), ROTA_LOG_WARN,
                 "rebalance topic too small: the death of a task without a partition may stop all "
                 "tasks for a session",
                 ROTA_LOG_FACT("topic", kafka->setup.rebalance_topic),
                 ROTA_LOG_FACT("partitions", note->n_slots),
                 ROTA_LOG_FACT("members", note->n_members));
    rota_sync_kafka_report_event(
        kafka, &(struct rota_sync_event){
                   .type = note->type,
                   .generation = note->generation,
                   .sent_at = note->sent_at,
                   .members = note->members,
                   .n_members = note->n_members,
                   .is_leader = note->is_leader,
                   .error = note->type == ROTA_SYNC_GROUP_LOST ? &note->error : NULL,
               });
}

static void kafka_leave(struct rota_sync *sync)
{
    end_member((struct rota_kafka *)sync);
}

static void kafka_join(struct rota_sync *sync, struct rota_str line)
{
    struct rota_kafka *kafka = (struct rota_kafka *)sync;
    struct rota_error error;
    if (kafka->setup.is_observer || kafka->is_failed)
        return;
    end_member(kafka);
    const struct rota_kafka_member_options options = {
        .setup = &kafka->setup,
        .loop = kafka->loop,
        .notes = kafka->notes,
        .number = ++kafka->member_number,
        .line = line,
        .on_note = on_note,
        .owner = kafka,
        .taken = &kafka->taken,
    };
    atomic_store(&kafka->taken, 0);
    if (rota_sync_kafka_member_open(&options, &kafka->member, &error))
        rota_sync_kafka_fail(kafka, &error);
    else
        kafka->n_members++;
}

/* --- the beginning and the end --- */

static void free_all(struct rota_kafka *kafka)
{
    rota_kafka_url_deinit(&kafka->setup.url);
    free(kafka->setup.group);
    free(kafka->setup.sync_topic);
    free(kafka->setup.rebalance_topic);
    rota_vector_deinit(&kafka->refused);
    free(kafka->sync.name);
    free(kafka);
}

static void on_part_closed(void *data)
{
    struct rota_kafka *kafka = data;
    if (--kafka->n_open > 0)
        return;
    void (*on_closed)(void *data) = kafka->on_closed;
    void *closed_data = kafka->closed_data;
    free_all(kafka);
    if (on_closed)
        on_closed(closed_data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

/* Release mail and handles when no thread is left that could use them. */
static void release_kafka(struct rota_kafka *kafka)
{
    if (kafka->n_members > 0 || kafka->thread)
        return;
    kafka->n_open = 4;
    uv_close((uv_handle_t *)&kafka->wake, on_handle_closed);
    uv_close((uv_handle_t *)&kafka->timer, on_handle_closed);
    rota_mailbox_close(kafka->notes, on_part_closed, kafka);
    rota_mailbox_close(kafka->setup.lines, on_part_closed, kafka);
}

static void on_thread_closed(void *data)
{
    struct rota_kafka *kafka = data;
    kafka->thread = NULL;
    release_kafka(kafka);
}

void rota_sync_kafka_log_ended(struct rota_kafka *kafka)
{
    rota_mailbox_thread_close(kafka->thread, on_thread_closed, kafka);
}

static void kafka_close(struct rota_sync *sync, void (*on_closed)(void *data), void *data)
{
    struct rota_kafka *kafka = (struct rota_kafka *)sync;
    kafka->on_closed = on_closed;
    kafka->closed_data = data;
    kafka->is_closing = true;
    uv_timer_stop(&kafka->timer);
    end_member(kafka);
    rota_sync_kafka_log_end(kafka);
}

static char *join_texts(const char *a, const char *b)
{
    size_t size = strlen(a) + strlen(b) + 1;
    char *text = malloc(size);
    if (text) {
        strcpy(text, a);
        strcat(text, b);
    }
    return text;
}

static enum rota_code set_up_kafka(struct rota_kafka *kafka,
                                   const struct rota_sync_options *options,
                                   struct rota_error *error)
{
    struct rota_kafka_setup *setup = &kafka->setup;
    enum rota_code code = rota_kafka_url_parse(rota_str(options->url), &setup->url, error);
    if (code)
        return code;
    setup->session = options->session;
    setup->ok_every = options->ok_every;
    setup->is_observer = options->is_observer;
    setup->log = options->log;
    setup->words = kafka->words;
    setup->group = join_texts(options->name, "");
    setup->sync_topic = join_texts(options->name, "_connector_sync");
    setup->rebalance_topic = setup->url.rebalance_topic[0]
                                 ? join_texts(setup->url.rebalance_topic, "")
                                 : join_texts(options->name, "_rebalance");
    kafka->sync.name = rota_kafka_url_format(&setup->url);
    if (!setup->group || !setup->sync_topic || !setup->rebalance_topic || !kafka->sync.name)
        return rota_error_no_memory(error, "for the log of group %s", options->name);
    return ROTA_OK;
}

static enum rota_code kafka_open(struct uv_loop_s *loop, const struct rota_sync_options *options,
                                 struct rota_sync **sync, struct rota_error *error)
{
    struct rota_kafka *kafka = calloc(1, sizeof *kafka);
    if (!kafka)
        return rota_error_no_memory(error, "for the log of group %s", options->name);
    kafka->sync.engine = &rota_sync_kafka;
    kafka->loop = loop;
    kafka->on_event = options->on_event;
    kafka->data = options->data;
    rota_random_init(&kafka->random, (uint64_t)rota_clock_boot() ^ (uint64_t)(uintptr_t)kafka);

    enum rota_code code = set_up_kafka(kafka, options, error);
    if (!code)
        code = rota_sync_kafka_topic_client_check(&kafka->setup, error);
    if (!code)
        code = rota_mailbox_open(loop, LINES_MAX, &kafka->setup.lines, error);
    if (!code)
        code = rota_mailbox_open(loop, NOTES_MAX, &kafka->notes, error);
    if (!code)
        code = rota_sync_kafka_log_open(kafka, error);
    if (code) {
        rota_mailbox_close(kafka->setup.lines, NULL, NULL);
        rota_mailbox_close(kafka->notes, NULL, NULL);
        free_all(kafka);
        return code;
    }
    *sync = &kafka->sync;
    return ROTA_OK;
}

static void kafka_read(struct rota_sync *sync, uint64_t offset)
{
    rota_sync_kafka_log_read((struct rota_kafka *)sync, offset);
}

static enum rota_code kafka_append(struct rota_sync *sync, uint64_t number, struct rota_str bytes,
                                   struct rota_error *error)
{
    return rota_sync_kafka_log_append((struct rota_kafka *)sync, number, bytes, error);
}

static void kafka_trim(struct rota_sync *sync, uint64_t offset)
{
    rota_sync_kafka_log_trim((struct rota_kafka *)sync, offset);
}

const struct rota_sync_engine rota_sync_kafka = {
    .open = kafka_open,
    .close = kafka_close,
    .read = kafka_read,
    .append = kafka_append,
    .join = kafka_join,
    .leave = kafka_leave,
    .trim = kafka_trim,
};
