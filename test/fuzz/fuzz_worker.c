/* Frames between a broker and its workers: whatever is read is within its bounds, can be
 * written, and reads back the same. */
#include "wire/message/worker_frame.h"
#include "wire/text/keys_file.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rota_str written(const struct rota_buffer *buffer)
{
    assert(!buffer->failed);
    return rota_buffer_str(buffer);
}

static void check_session(struct rota_str body, struct rota_buffer *buffer)
{
    struct rota_worker_hello hello, same_hello;
    struct rota_worker_welcome welcome, same_welcome;
    struct rota_worker_bye bye, same_bye;
    struct rota_error error;
    if (!rota_worker_frame_hello_read(body, &hello, &error)) {
        rota_buffer_clear(buffer);
        rota_worker_frame_hello_write(&hello, buffer);
        assert(!rota_worker_frame_hello_read(written(buffer), &same_hello, NULL));
        assert(rota_str_is_equal(hello.name, same_hello.name) && hello.epoch == same_hello.epoch);
    }
    if (!rota_worker_frame_welcome_read(body, &welcome, &error)) {
        rota_buffer_clear(buffer);
        rota_worker_frame_welcome_write(&welcome, buffer);
        assert(!rota_worker_frame_welcome_read(written(buffer), &same_welcome, NULL));
        assert(welcome.session == same_welcome.session);
        assert(welcome.beat.interval == same_welcome.beat.interval);
    }
    if (!rota_worker_frame_bye_read(body, &bye, &error)) {
        rota_buffer_clear(buffer);
        rota_worker_frame_bye_write(&bye, buffer);
        assert(!rota_worker_frame_bye_read(written(buffer), &same_bye, NULL));
        assert(bye.reason == same_bye.reason && rota_str_is_equal(bye.text, same_bye.text));
    }
}

static void check_jobs(struct rota_str body, struct rota_buffer *buffer)
{
    struct rota_worker_batch batch = rota_worker_batch(body), again;
    struct rota_worker_job job, same;
    enum rota_code code = ROTA_ERR_IO;
    struct rota_error error;
    while (rota_worker_batch_job_next(&batch, &job, &code, &error)) {
        assert(job.attempt && job.queue.size && job.queue.size <= ROTA_JOB_QUEUE_NAME_MAX);
        assert(job.timeout >= 0 && job.payload.size <= ROTA_JOB_PAYLOAD_MAX);
        rota_buffer_clear(buffer);
        rota_worker_batch_job_write(&job, buffer);
        again = rota_worker_batch(written(buffer));
        assert(rota_worker_batch_job_next(&again, &same, &code, NULL));
        assert(job.id.high == same.id.high && job.id.low == same.id.low);
        assert(job.priority == same.priority && job.n_attempts == same.n_attempts);
        assert(rota_str_is_equal(job.payload, same.payload));
        assert(rota_str_is_equal(job.trace, same.trace));
    }
    assert(code == ROTA_OK || code == ROTA_ERR_INVALID);
    assert(batch.n <= ROTA_WORKER_BATCH_MAX + 1);
}

static void check_ends(struct rota_str body, struct rota_buffer *buffer)
{
    struct rota_worker_batch batch = rota_worker_batch(body), again;
    struct rota_attempt_end end, same;
    enum rota_code code = ROTA_ERR_IO;
    while (rota_worker_batch_end_next(&batch, &end, &code, NULL)) {
        assert(end.cause <= ROTA_JOB_CAUSE_HANDED_OVER &&
               end.retry_after >= 0); /* NONE: not known */
        rota_buffer_clear(buffer);
        rota_worker_batch_end_write(&end, buffer);
        again = rota_worker_batch(written(buffer));
        assert(rota_worker_batch_end_next(&again, &same, &code, NULL));
        assert(end.cause == same.cause && rota_str_is_equal(end.bytes, same.bytes));
    }
    assert(code == ROTA_OK || code == ROTA_ERR_INVALID);
}

static void check_others(struct rota_str body)
{
    struct rota_worker_batch batch = rota_worker_batch(body);
    struct rota_worker_cancel cancel;
    struct rota_worker_verdict verdict;
    struct rota_worker_step step;
    enum rota_code code = ROTA_ERR_IO;
    uint32_t slots;
    while (rota_worker_batch_cancel_next(&batch, &cancel, &code, NULL))
        assert(cancel.cause <= ROTA_JOB_CAUSE_HANDED_OVER);
    batch = rota_worker_batch(body);
    while (rota_worker_batch_verdict_next(&batch, &verdict, &code, NULL))
        assert(rota_code_name(verdict.code));
    batch = rota_worker_ended_batch(body);
    while (rota_worker_batch_verdict_next(&batch, &verdict, &code, NULL))
        assert(rota_code_name(verdict.code));
    batch = rota_worker_batch(body);
    while (rota_worker_batch_step_next(&batch, &step, &code, NULL))
        assert(step.text.size <= ROTA_JOB_REASON_MAX);
    if (!rota_worker_batch_slots_read(body, &slots, NULL))
        assert(slots <= ROTA_WORKER_SLOTS_MAX);
}

static void check_ready(struct rota_str body, struct rota_buffer *buffer)
{
    static struct rota_str names[2][ROTA_WORKER_CAPABILITIES_MAX + ROTA_WORKER_QUEUES_MAX];
    static struct rota_worker_running running[2][ROTA_WORKER_SLOTS_MAX];
    struct rota_worker_ready ready = {
        names[0], names[0] + ROTA_WORKER_CAPABILITIES_MAX, running[0], 0, 0, 0, 0, false};
    struct rota_worker_ready same = {
        names[1], names[1] + ROTA_WORKER_CAPABILITIES_MAX, running[1], 0, 0, 0, 0, false};
    struct rota_error error;
    if (rota_worker_batch_ready_read(body, &ready, &error))
        return;
    rota_buffer_clear(buffer);
    rota_worker_batch_ready_write(&ready, buffer);
    assert(!rota_worker_batch_ready_read(written(buffer), &same, &error));
    assert(ready.n_capabilities == same.n_capabilities && ready.n_queues == same.n_queues);
    assert(ready.n_running == same.n_running && ready.slots == same.slots);
}

static void check_holds(struct rota_str body, struct rota_buffer *buffer)
{
    static struct rota_worker_running held[2][ROTA_WORKER_HELD_MAX];
    struct rota_worker_holds holds = {.held = held[0]}, same = {.held = held[1]};
    struct rota_worker_check check;
    struct rota_error error;
    if (rota_worker_batch_holds_read(body, &holds, &error))
        return;
    assert(holds.n_held <= ROTA_WORKER_HELD_MAX);
    assert(!rota_worker_batch_check_read(body, &check, NULL) && check.up_to == holds.up_to);
    rota_buffer_clear(buffer);
    rota_worker_batch_holds_write(&holds, buffer);
    assert(!rota_worker_batch_holds_read(written(buffer), &same, &error));
    assert(holds.n_held == same.n_held && holds.up_to == same.up_to && holds.round == same.round);
    assert(holds.has_slots == same.has_slots && holds.slots == same.slots &&
           holds.slots <= ROTA_WORKER_SLOTS_MAX);
}

static void check_keys(struct rota_str text)
{
    struct rota_keys keys = {0};
    char written_key[ROTA_KEY_TEXT_SIZE + 1];
    struct rota_key same;
    struct rota_error error;
    if (rota_keys_file_parse(text, "keys", &keys, &error))
        return;
    for (size_t i = 0; i < keys.entries.size; i++) {
        const struct rota_key_entry *entry = &keys.entries.items[i];
        assert(rota_str_is_equal(rota_keys_file_find_name(&keys, &entry->key), entry->name));
        assert(rota_keys_file_parse_key(
            rota_str(rota_keys_file_format_key(&entry->key, written_key)), &same));
        assert(memcmp(&same, &entry->key, sizeof same) == 0);
    }
    rota_keys_file_deinit(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str frame = rota_str_of(data, size), type, body = frame;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    if (!rota_worker_frame_parse(frame, &type, &body, &error))
        assert(type.size + body.size + 1 == size);
    check_session(body, &buffer);
    check_jobs(body, &buffer);
    check_ends(body, &buffer);
    check_ready(body, &buffer);
    check_holds(body, &buffer);
    check_others(body);
    check_keys(frame);
    rota_buffer_deinit(&buffer);
    return 0;
}
