/* The bytes of Protocol Buffers, including non-canonical ones: by the messages of the cache.
 */
#include "wire/message/cache_message.h"
#include "wire/message/lean.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define BYTES(text) ((struct rota_str){text, sizeof(text) - 1})

static struct rota_arena arena;
static struct rota_cache_request request;
static struct rota_cache_response response;

static enum rota_code read_request(struct rota_str bytes, struct rota_error *error)
{
    return rota_message_decode(&ROTA_CACHE_REQUEST, bytes, &request, &arena, error);
}

static enum rota_code read_response(struct rota_str bytes)
{
    return rota_message_decode(&ROTA_CACHE_RESPONSE, bytes, &response, &arena, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    rota_arena_deinit(&arena);
    return 0;
}

static void fields_in_any_order_and_unknown_ones_do_no_harm(void **state)
{
    (void)state;
    /* epoch 1, an unknown number, key "a", 8 and 4 unknown bytes, epoch 300 */
    struct rota_str mixed = BYTES("\x10\x01\x78\x05\x0a\x01\x61\x79\x31\x32\x33\x34\x35\x36\x37\x38"
                                  "\x7d\x31\x32\x33\x34\x10\xac\x02");
    assert_int_equal(read_request(mixed, NULL), ROTA_OK);
    assert_int_equal(request.key.n, 1);
    assert_true(rota_str_is_equal(request.key.items[0], rota_str("a")));
    assert_int_equal(request.epoch, 300);

    /* Lists that are not in one piece: entry, problem, an unknown number, entry, problem. */
    struct rota_str pieces =
        BYTES("\x0a\x02\x08\x01\x2a\x02\x08\x02\x18\x05\x0a\x02\x08\x03\x2a\x00");
    assert_int_equal(read_response(pieces), ROTA_OK);
    assert_int_equal(response.entry.n, 2);
    assert_int_equal(((const struct rota_get_entry *)response.entry.items)[1].id, 3);
    assert_int_equal(response.problem.n, 2);
    assert_int_equal(response.shard.n, 0);

    assert_int_equal(read_request(rota_str(""), NULL), ROTA_OK);
    assert_int_equal(request.key.n, 0);
    assert_int_equal(request.epoch, 0);
}

static void malformed_bytes_are_refused_and_leave_nothing(void **state)
{
    const struct {
        const char *what;
        struct rota_str bytes;
    } rows[] = {
        {"a tag alone", BYTES("\x0a")},
        {"a size beyond the end", BYTES("\x0a\x02\x61")},
        {"a size that does not end", BYTES("\x0a\x80\x80\x80\x80\x80\x01")},
        {"a huge size", BYTES("\x0a\xff\xff\xff\xff\x0f")},
        {"field 0", BYTES("\x02\x01\x61")},
        {"a group", BYTES("\x7b\x7c")},
        {"an end of no group", BYTES("\x7c")},
        {"type 6", BYTES("\x7e")},
        {"type 7", BYTES("\x7f")},
        {"a number that does not end", BYTES("\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")},
        {"65 bits", BYTES("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")},
        {"a tag of 36 bits", BYTES("\xfa\xff\xff\xff\x7f\x00")},
        {"a tag of six bytes", BYTES("\x8a\x80\x80\x80\x80\x00\x00")},
        {"four of eight bytes", BYTES("\x79\x31\x32\x33\x34")},
        {"three of four bytes", BYTES("\x7d\x31\x32\x33")},
        {"a key that is a number", BYTES("\x08\x01")},
        {"an epoch that is bytes", BYTES("\x12\x01\x61")},
    };
    struct rota_buffer message = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rota_error error;
        rota_buffer_clear(&message);
        rota_buffer_append_str(&message, BYTES("\x0a\x03key\x10\x07")); /* all is well so far */
        rota_buffer_append_str(&message, rows[i].bytes);
        if (read_request(rota_buffer_str(&message), &error) != ROTA_ERR_INVALID)
            fail_msg("%s was taken", rows[i].what);
        assert_non_null(strstr(error.text, "the request"));
        assert_int_equal(request.key.n, 0);
        assert_int_equal(request.epoch, 0);
    }
    rota_buffer_deinit(&message);
}

static void a_fault_inside_an_entry_or_a_shard_is_found(void **state)
{
    (void)state;
    assert_int_equal(read_response(BYTES("\x0a\x02\x08\x01")), ROTA_OK);
    assert_int_equal(response.entry.n, 1);
    const struct rota_str rows[] = {
        BYTES("\x0a\x02\x08\x81"),     /* an id that ends behind its entry */
        BYTES("\x0a\x02\x10\x01"),     /* a value that is a number */
        BYTES("\x0a\x02\x0a\x00"),     /* an id that is bytes */
        BYTES("\x12\x02\x08\x81\x01"), /* the same in a shard */
        BYTES("\x12\x02\x1a\x00"),     /* bytes in a shard */
        BYTES("\x08\x01"),             /* an entry that is a number */
        BYTES("\x10\x01"),             /* a shard that is */
        BYTES("\x12\x02\x22\x00"),     /* an epoch that is bytes */
        BYTES("\x22\x00"),             /* and a truth */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(read_response(rows[i]), ROTA_ERR_INVALID);
        assert_int_equal(response.shard.n, 0);
        assert_int_equal(response.entry.n, 0);
    }
}

static void more_keys_than_the_bound_are_refused(void **state)
{
    struct rota_buffer message = {0};
    (void)state;
    for (int i = 0; i < ROTA_GET_KEYS_MAX; i++)
        rota_buffer_append_str(&message, BYTES("\x0a\x00"));
    assert_int_equal(read_request(rota_buffer_str(&message), NULL), ROTA_OK);
    assert_int_equal(read_response(rota_buffer_str(&message)), ROTA_OK);
    assert_int_equal(request.key.n, ROTA_GET_KEYS_MAX);
    assert_int_equal(response.entry.n, ROTA_GET_KEYS_MAX);
    rota_buffer_append_str(&message, BYTES("\x0a\x00"));
    assert_int_equal(read_request(rota_buffer_str(&message), NULL), ROTA_ERR_LIMIT);
    assert_int_equal(read_response(rota_buffer_str(&message)), ROTA_ERR_LIMIT);
    rota_buffer_deinit(&message);
}

static void sizes_are_those_of_what_is_written(void **state)
{
    uint8_t room[ROTA_LEAN_VARINT_MAX * 2];
    (void)state;
    for (int bits = 0; bits <= 64; bits++) {
        uint64_t value = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
        assert_int_equal(rota_lean_put_varint(room, value) - room, rota_lean_varint_size(value));
    }
}

/* Wherever a number ends, and whatever is after it. */
static void numbers_of_any_size_are_read_again(void **state)
{
    uint8_t room[ROTA_LEAN_VARINT_MAX * 2];
    struct rota_lean_number number;
    (void)state;
    for (int bits = 0; bits <= 64; bits++)
        for (uint64_t less = 0; less < 2; less++) {
            uint64_t value = (bits == 64 ? 0 : (uint64_t)1 << bits) - less;
            memset(room, less ? 0xff : 0, sizeof room);
            uint8_t *end = rota_lean_put_varint(room, value);
            for (uint8_t *stop = room; stop <= room + sizeof room; stop++) {
                number = rota_lean_get_varint(room, stop);
                assert_ptr_equal(number.end, stop < end ? NULL : end);
                assert_true(stop < end || number.value == value);
            }
        }
    memset(room, 0x80, sizeof room);
    room[9] = 1; /* the 64th bit, and then one too many, and one byte too many */
    assert_ptr_equal(rota_lean_get_varint(room, room + 10).end, room + 10);
    room[9] = 2;
    assert_null(rota_lean_get_varint(room, room + 10).end);
    room[9] = 0x80;
    room[10] = 0;
    assert_null(rota_lean_get_varint(room, room + sizeof room).end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_in_any_order_and_unknown_ones_do_no_harm),
        cmocka_unit_test(malformed_bytes_are_refused_and_leave_nothing),
        cmocka_unit_test(a_fault_inside_an_entry_or_a_shard_is_found),
        cmocka_unit_test(more_keys_than_the_bound_are_refused),
        cmocka_unit_test(sizes_are_those_of_what_is_written),
        cmocka_unit_test(numbers_of_any_size_are_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
