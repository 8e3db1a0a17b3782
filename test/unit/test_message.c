/* Messages by tables of fields: messages read back as written, and invalid ones are refused. */
#include "wire/message/cache_message.h"
#include "wire/message/lean.h"
#include "wire/message/queue_message.h"
#include "wire/message/worker_frame.h"

#include <rota/experimental/random.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rota_buffer buffer;
static struct rota_arena arena;

static int tear_down(void **state)
{
    (void)state;
    rota_buffer_deinit(&buffer);
    rota_arena_deinit(&arena);
    return 0;
}

static enum rota_code read_bytes(const struct rota_message_type *type, struct rota_str bytes,
                                 void *message)
{
    return rota_message_decode(type, bytes, message, &arena, NULL);
}

static void what_is_written_is_read_again(void **state)
{
    struct rota_str names[] = {rota_str("a"), rota_str(""), rota_str("c")};
    struct rota_queue_job_spec spec = {.queue = rota_str("q"),
                                       .payload = rota_str_of("\0\xff", 2),
                                       .can = {names, 3},
                                       .priority = -300,
                                       .deadline_ms = UINT64_MAX};
    struct rota_queue_event events[] = {{.at_ms = 1}, {0}, {.reason = rota_str("why")}};
    struct rota_queue_job_info info = {.spec = &spec, .state = 3, .events = {events, 3}};
    struct rota_queue_description description = {.job = &info, .explain = rota_str("so")}, read;
    (void)state;
    rota_message_encode(&ROTA_QUEUE_DESCRIPTION, &description, &buffer);
    assert_int_equal(read_bytes(&ROTA_QUEUE_DESCRIPTION, rota_buffer_str(&buffer), &read), ROTA_OK);
    const struct rota_queue_job_info *info_read = read.job;
    const struct rota_queue_job_spec *spec_read = info_read->spec;
    const struct rota_queue_event *events_read = info_read->events.items;
    assert_true(rota_str_is_equal(read.explain, description.explain));
    assert_true(rota_str_is_equal(spec_read->payload, spec.payload));
    assert_int_equal(spec_read->priority, -300);
    assert_true(spec_read->deadline_ms == UINT64_MAX);
    assert_int_equal(spec_read->can.n, 3);
    assert_int_equal(spec_read->can.items[1].size, 0);
    assert_int_equal(info_read->events.n, 3);
    assert_int_equal(events_read[0].at_ms, 1);
    assert_int_equal(events_read[1].at_ms, 0);
    assert_true(rota_str_is_equal(events_read[2].reason, rota_str("why")));
}

/* The size of an entry stands before it and takes one byte, two or three. */
static void entries_of_any_size_stand_side_by_side(void **state)
{
    static char payload[70000];
    const size_t sizes[] = {0, 1, 100, 121, 122, 123, 124, 125, 126, 16378, 16379, 16380, 70000, 7};
    enum { N = sizeof sizes / sizeof *sizes };
    struct rota_queue_list list;
    (void)state;
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (char)(i * 7 + i / 256);
    rota_buffer_clear(&buffer);
    for (size_t i = 0; i < N; i++) {
        struct rota_queue_handed handed = {.queue = rota_str("q"),
                                           .payload = rota_str_of(payload, sizes[i])};
        rota_message_encode_entry(&ROTA_QUEUE_HANDED, 1, &handed, &buffer);
        assert_int_equal(buffer.data[buffer.size], 0);
    }
    assert_int_equal(read_bytes(&ROTA_QUEUE_POLL_REPLY, rota_buffer_str(&buffer), &list), ROTA_OK);
    assert_int_equal(list.items.n, N);
    const struct rota_queue_handed *read = list.items.items;
    struct rota_buffer again = {0};
    for (size_t i = 0; i < N; i++) {
        assert_true(rota_str_is_equal(read[i].queue, rota_str("q")));
        assert_true(rota_str_is_equal(read[i].payload, rota_str_of(payload, sizes[i])));
    }
    rota_message_encode(&ROTA_QUEUE_POLL_REPLY, &list, &again);
    assert_true(rota_str_is_equal(rota_buffer_str(&again), rota_buffer_str(&buffer)));
    rota_buffer_deinit(&again);
}

static void message_that_may_come_once_does_not_come_twice(void **state)
{
    struct rota_queue_job_spec spec = {.queue = rota_str("q")};
    struct rota_queue_add add = {.job = &spec}, read;
    (void)state;
    rota_buffer_clear(&buffer);
    rota_message_encode(&ROTA_QUEUE_ADD, &add, &buffer);
    assert_int_equal(read_bytes(&ROTA_QUEUE_ADD, rota_buffer_str(&buffer), &read), ROTA_OK);
    rota_message_encode(&ROTA_QUEUE_ADD, &add, &buffer);
    assert_int_equal(read_bytes(&ROTA_QUEUE_ADD, rota_buffer_str(&buffer), &read),
                     ROTA_ERR_INVALID);
    assert_null(read.job);
}

static void a_failed_buffer_stays_unchanged(void **state)
{
    struct rota_queue_handed handed = {.queue = rota_str("q")}, none = {0};
    (void)state;
    rota_buffer_clear(&buffer);
    rota_message_encode(&ROTA_QUEUE_HANDED, &handed, &buffer);
    size_t size = buffer.size;
    buffer.failed = true;
    rota_message_encode(&ROTA_QUEUE_HANDED, &handed, &buffer);
    rota_message_encode(&ROTA_QUEUE_HANDED, &none, &buffer);
    rota_message_encode_entry(&ROTA_QUEUE_HANDED, 1, &handed, &buffer);
    assert_true(buffer.failed);
    assert_int_equal(buffer.size, size);
}

static void every_prefix_and_every_changed_byte_is_read_or_refused(void **state)
{
    struct rota_str names[] = {rota_str("go"), rota_str("chess")};
    struct rota_queue_job_spec jobs[] = {
        {.queue = rota_str("q"), .payload = rota_str("payload"), .can = {names, 2}},
        {.queue = rota_str("r"), .priority = 5}};
    struct rota_queue_list list = {.items = {jobs, 2}}, read;
    (void)state;
    rota_message_encode(&ROTA_QUEUE_ADD_BATCH, &list, &buffer);
    for (size_t i = 0; i < buffer.size; i++) {
        rota_arena_clear(&arena);
        read_bytes(&ROTA_QUEUE_ADD_BATCH, rota_str_of(buffer.data, i), &read);
        for (int bit = 0; bit < 8; bit++) {
            rota_arena_clear(&arena);
            buffer.data[i] = (char)(buffer.data[i] ^ (1 << bit));
            if (read_bytes(&ROTA_QUEUE_ADD_BATCH, rota_buffer_str(&buffer), &read))
                assert_null(read.items.items);
            buffer.data[i] = (char)(buffer.data[i] ^ (1 << bit));
        }
    }
    assert_int_equal(read_bytes(&ROTA_QUEUE_ADD_BATCH, rota_buffer_str(&buffer), &read), ROTA_OK);
    assert_int_equal(read.items.n, 2);
}

static void oversized_or_mistyped_fields_are_refused(void **state)
{
    struct rota_queue_poll poll;
    struct rota_queue_add add;
    (void)state;
    /* A number where a list of texts is, and a text where a number is. */
    assert_int_equal(read_bytes(&ROTA_QUEUE_POLL, rota_str("\x08\x01"), &poll), ROTA_ERR_INVALID);
    assert_int_equal(read_bytes(&ROTA_QUEUE_POLL, rota_str("\x1a\x01x"), &poll), ROTA_ERR_INVALID);
    /* More jobs than a poll may ask for. */
    assert_int_equal(read_bytes(&ROTA_QUEUE_POLL, rota_str("\x18\xe9\x07"), &poll),
                     ROTA_ERR_INVALID);
    assert_int_equal(read_bytes(&ROTA_QUEUE_POLL, rota_str("\x18\xe8\x07"), &poll), ROTA_OK);
    /* A message that can be there once, twice. */
    assert_int_equal(read_bytes(&ROTA_QUEUE_ADD, rota_str_of("\x0a\0\x0a\0", 4), &add),
                     ROTA_ERR_INVALID);
    for (int i = 0; i <= ROTA_WORKER_QUEUES_MAX; i++)
        rota_buffer_append_text(&buffer, "\x0a\x01q");
    assert_int_equal(read_bytes(&ROTA_QUEUE_POLL, rota_buffer_str(&buffer), &poll), ROTA_ERR_LIMIT);
    buffer.size -= 3;
    assert_int_equal(read_bytes(&ROTA_QUEUE_POLL, rota_buffer_str(&buffer), &poll), ROTA_OK);
    assert_int_equal(poll.queues.n, ROTA_WORKER_QUEUES_MAX);
}

static void unknown_fields_are_skipped(void **state)
{
    struct rota_queue_add add;
    (void)state;
    assert_int_equal(read_bytes(&ROTA_QUEUE_ADD, rota_str("\xf8\x07\x05\x7a\x01x"), &add), ROTA_OK);
    assert_null(add.job);
}

/* An estimate that is too low, entries that come in pieces, and both. */
static void lists_of_any_shape_are_read_whole(void **state)
{
    static const char large[4000];
    (void)state;
    for (unsigned shape = 0; shape < 16; shape++) {
        const unsigned n_first = shape & 1 ? 3000 : 1, n_pieces = shape & 2   ? 500
                                                                  : shape & 4 ? 1
                                                                              : 0;
        struct rota_str key = rota_str_of(large, shape & 8 ? sizeof large : 0);
        struct rota_cache_request read, request = {.key = {&key, 1}};
        rota_buffer_clear(&buffer);
        rota_message_encode(&ROTA_CACHE_REQUEST, &request, &buffer);
        for (unsigned i = 1; i < n_first + n_pieces; i++) {
            char text[16];
            struct rota_str name = rota_str_of(text, (size_t)snprintf(text, sizeof text, "%u", i));
            request = (struct rota_cache_request){.key = {&name, 1}, .epoch = i >= n_first ? i : 0};
            rota_message_encode(&ROTA_CACHE_REQUEST, &request, &buffer);
        }
        assert_int_equal(read_bytes(&ROTA_CACHE_REQUEST, rota_buffer_str(&buffer), &read), ROTA_OK);
        assert_int_equal(read.key.n, n_first + n_pieces);
        assert_int_equal(read.key.items[0].size, key.size);
        for (unsigned i = 1; i < read.key.n; i++) {
            char text[16];
            snprintf(text, sizeof text, "%u", i);
            assert_true(rota_str_is_equal(read.key.items[i], rota_str(text)));
        }
        rota_arena_clear(&arena);
    }
}

/* Both read the same, or refuse it with the same words, and write the same of it. */
static void assert_same(const struct rota_message_type *hot, const struct rota_message_type *plain,
                        struct rota_str bytes)
{
    static _Alignas(max_align_t) char hot_read[512], plain_read[512];
    struct rota_error hot_error = {0}, plain_error = {0};
    assert_true(hot->size <= sizeof hot_read);
    enum rota_code code = rota_message_decode(plain, bytes, plain_read, &arena, &plain_error);
    assert_int_equal(rota_message_decode(hot, bytes, hot_read, &arena, &hot_error), code);
    assert_string_equal(hot_error.text, plain_error.text);
    for (size_t i = 0; i < hot->n_fields; i++) {
        const struct rota_message_field *field = &hot->fields[i];
        if (field->kind == ROTA_MESSAGE_STRS) { /* of an array of its own */
            struct rota_message_strs *mine = (void *)(hot_read + field->offset);
            struct rota_message_strs *theirs = (void *)(plain_read + field->offset);
            assert_int_equal(mine->n, theirs->n);
            if (mine->n > 0)
                assert_memory_equal(mine->items, theirs->items, mine->n * sizeof *mine->items);
            mine->items = theirs->items;
        }
    }
    assert_memory_equal(hot_read, plain_read, hot->size);
    if (code)
        return;
    struct rota_buffer hot_bytes = {0}, plain_bytes = {0};
    rota_message_encode(hot, hot_read, &hot_bytes);
    rota_message_encode(plain, plain_read, &plain_bytes);
    for (uint32_t number = 15; number <= 16; number++) {
        rota_message_encode_entry(hot, number, hot_read, &hot_bytes);
        rota_message_encode_entry(plain, number, plain_read, &plain_bytes);
    }
    assert_true(rota_str_is_equal(rota_buffer_str(&hot_bytes), rota_buffer_str(&plain_bytes)));
    rota_buffer_deinit(&hot_bytes);
    rota_buffer_deinit(&plain_bytes);
}

/* Fields by chance: mostly in their order and as they should be, then here and there not. */
static void write_by_chance(struct rota_random *random, const struct rota_message_type *type)
{
    static const char text[300];
    bool is_wild = rota_random_chance(random, 0.3);
    rota_buffer_clear(&buffer);
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct rota_message_field *field = &type->fields[i];
        uint8_t room[64 + sizeof text], *to = room;
        if (rota_random_chance(random, 0.5))
            continue;
        if (is_wild && rota_random_chance(random, 0.2))
            field = &type->fields[rota_random_below(random, type->n_fields)];
        if ((field->kind <= ROTA_MESSAGE_BOOL) ^ (is_wild && rota_random_chance(random, 0.05)))
            to = rota_lean_put_number(to, field->number,
                                      rota_random_next(random) >> rota_random_below(random, 64));
        else
            to = rota_lean_put_bytes(to, field->number,
                                     rota_str_of(text, rota_random_below(random, sizeof text)));
        rota_buffer_append(&buffer, room, (size_t)(to - room));
    }
    if (is_wild && buffer.size > 0)
        buffer.data[rota_random_below(random, buffer.size)] ^= (char)rota_random_next(random);
    if (is_wild && rota_random_chance(random, 0.3))
        buffer.size = rota_random_below(random, buffer.size + 1);
}

static void a_type_with_its_own_code_is_read_and_written_as_any_other(void **state)
{
    const struct rota_message_type *const hot[] = {
        &ROTA_QUEUE_JOB_SPEC,      &ROTA_QUEUE_ADDED,     &ROTA_QUEUE_HANDED,
        &ROTA_QUEUE_COMPLETE,      &ROTA_QUEUE_COMPLETED, &ROTA_CACHE_ENTRY,
        &ROTA_CACHE_REQUEST,       &ROTA_WORKER_JOB_TYPE, &ROTA_WORKER_END_TYPE,
        &ROTA_WORKER_VERDICT_TYPE,
    };
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (int i = 0; i < 20000; i++) {
        const struct rota_message_type *type = hot[i % (sizeof hot / sizeof *hot)];
        struct rota_message_type plain = *type;
        assert_non_null(plain.put);
        assert_non_null(plain.get);
        plain.put = NULL;
        plain.put_list = NULL;
        plain.get = NULL;
        write_by_chance(&random, type);
        /* Memory of just this size, so that a sanitizer sees a look after it. */
        char *bytes = malloc(buffer.size + !buffer.size);
        if (buffer.size > 0)
            memcpy(bytes, buffer.data, buffer.size);
        assert_same(type, &plain, rota_str_of(bytes, buffer.size));
        free(bytes);
        rota_arena_clear(&arena);
    }
}

static void ids_are_sixteen_bytes_or_none(void **state)
{
    struct rota_job_id id = {1, 2}, made = rota_job_id_make(ROTA_SEC, 3, 4);
    char bytes[ROTA_QUEUE_ID_SIZE];
    (void)state;
    assert_int_equal(rota_queue_message_id_read(rota_str("short"), &id, NULL), ROTA_ERR_INVALID);
    assert_true(id.high == 1 && id.low == 2);
    assert_int_equal(
        rota_queue_message_id_read(rota_queue_message_id_write(made, bytes), &id, NULL), ROTA_OK);
    assert_true(id.high == made.high && id.low == made.low);
    assert_int_equal(rota_queue_message_id_read(rota_str(""), &id, NULL), ROTA_OK);
    assert_true(rota_job_id_is_none(id));
}

static void an_invalid_job_is_refused(void **state)
{
    struct rota_queue_job_spec message = {.queue = rota_str("q"), .priority = INT16_MAX + 1};
    struct rota_job_spec spec;
    (void)state;
    assert_int_equal(rota_queue_message_spec_read(&message, 0, &spec, NULL), ROTA_ERR_INVALID);
    message.priority = INT16_MIN;
    message.delay_ms = UINT64_MAX;
    assert_int_equal(rota_queue_message_spec_read(&message, ROTA_SEC, &spec, NULL), ROTA_OK);
    assert_true(spec.not_before == INT64_MAX && spec.priority == INT16_MIN);
    message.not_before_ms = 1;
    assert_int_equal(rota_queue_message_spec_read(&message, ROTA_SEC, &spec, NULL),
                     ROTA_ERR_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read_again),
        TEST(entries_of_any_size_stand_side_by_side),
        TEST(message_that_may_come_once_does_not_come_twice),
        TEST(a_failed_buffer_stays_unchanged),
        TEST(every_prefix_and_every_changed_byte_is_read_or_refused),
        TEST(oversized_or_mistyped_fields_are_refused),
        TEST(unknown_fields_are_skipped),
        TEST(lists_of_any_shape_are_read_whole),
        TEST(a_type_with_its_own_code_is_read_and_written_as_any_other),
        TEST(ids_are_sixteen_bytes_or_none),
        TEST(an_invalid_job_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
