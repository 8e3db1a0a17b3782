#include "cache_oracle.h"
#include "wire/lean.h"

#include <rota/random.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N_MESSAGES = 3000 };

/* --- messages by chance, over all sizes of numbers and bytes --- */

static char bytes[70000];

static uint64_t any_number(struct rota_random *random)
{
    return rota_random_next(random) >> rota_random_below(random, 64) >>
           rota_random_below(random, 2);
}

static struct rota_str any_bytes(struct rota_random *random)
{
    size_t size = rota_random_below(random, 20);
    if (rota_random_chance(random, 0.1))
        size = 100 + rota_random_below(random, 100);
    if (rota_random_chance(random, 0.002))
        size = rota_random_below(random, sizeof bytes);
    return rota_str_of(bytes + rota_random_below(random, sizeof bytes - size), size);
}

static void fill(struct rota_random *random)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)rota_random_next(random);
}

static void any_request(struct rota_random *random, struct rota_cache_request *request)
{
    request->keys.size = 0;
    for (size_t n = rota_random_below(random, 8); n > 0; n--)
        assert_true(rota_vector_push(&request->keys, any_bytes(random)));
    request->epoch = any_number(random);
    request->is_partial = rota_random_chance(random, 0.5);
}

static void any_response(struct rota_random *random, struct rota_cache_response *response)
{
    response->entries.size = 0;
    for (size_t n = rota_random_below(random, 8); n > 0; n--) {
        struct rota_get_entry entry = {any_number(random), any_bytes(random)};
        assert_true(rota_vector_push(&response->entries, entry));
    }
    response->problems.size = 0;
    for (size_t n = rota_random_below(random, 4); n > 0; n--) {
        struct rota_get_problem problem = {any_number(random), any_bytes(random)};
        assert_true(rota_vector_push(&response->problems, problem));
    }
    response->has_shard = rota_random_chance(random, 0.8);
    response->shard = (struct rota_interval){any_number(random), any_number(random), 0};
    if (rota_random_chance(random, 0.5))
        response->shard.of = any_number(random);
    response->epoch = any_number(random);
    response->all_matched = rota_random_chance(random, 0.5);
}

static void requests_are_as_protobuf_c_writes_and_reads_them(void **state)
{
    struct rota_random random;
    struct rota_cache_request request = {0}, read = {0};
    (void)state;
    rota_random_init(&random, 1);
    fill(&random);
    for (int i = 0; i < N_MESSAGES; i++) {
        struct rota_buffer ours = {0};
        any_request(&random, &request);
        assert_int_equal(rota_cache_request_encode(&request, &ours), ROTA_OK);
        Rota__V1__GetRequest *theirs =
            rota__v1__get_request__unpack(NULL, ours.size, (uint8_t *)ours.data);
        assert_non_null(theirs);
        assert_true(oracle_request_equal(theirs, &request));

        struct rota_buffer packed = oracle_pack(&theirs->base);
        assert_true(rota_str_is_equal(rota_buffer_str(&packed), rota_buffer_str(&ours)));
        assert_int_equal(rota_cache_request_decode(&read, rota_buffer_str(&packed), NULL), ROTA_OK);
        assert_true(oracle_request_equal(theirs, &read));
        rota__v1__get_request__free_unpacked(theirs, NULL);
        rota_buffer_deinit(&packed);
        rota_buffer_deinit(&ours);
    }
    rota_cache_request_deinit(&request);
    rota_cache_request_deinit(&read);
}

static void responses_are_as_protobuf_c_writes_and_reads_them(void **state)
{
    struct rota_random random;
    struct rota_cache_response response = {0}, read = {0};
    (void)state;
    rota_random_init(&random, 2);
    fill(&random);
    for (int i = 0; i < N_MESSAGES; i++) {
        struct rota_buffer ours = {0};
        any_response(&random, &response);
        assert_int_equal(rota_cache_response_encode(&response, &ours), ROTA_OK);
        Rota__V1__GetResponse *theirs =
            rota__v1__get_response__unpack(NULL, ours.size, (uint8_t *)ours.data);
        assert_non_null(theirs);
        assert_true(oracle_response_equal(theirs, &response));

        struct rota_buffer packed = oracle_pack(&theirs->base);
        assert_true(rota_str_is_equal(rota_buffer_str(&packed), rota_buffer_str(&ours)));
        assert_int_equal(rota_cache_response_decode(&read, rota_buffer_str(&packed), NULL),
                         ROTA_OK);
        assert_true(oracle_response_equal(theirs, &read));
        rota__v1__get_response__free_unpacked(theirs, NULL);
        rota_buffer_deinit(&packed);
        rota_buffer_deinit(&ours);
    }
    rota_cache_response_deinit(&response);
    rota_cache_response_deinit(&read);
}

/* --- what is not canonical --- */

#define BYTES(text) ((struct rota_str){text, sizeof(text) - 1})

static void fields_in_any_order_and_unknown_ones_do_no_harm(void **state)
{
    struct rota_cache_request request = {0};
    struct rota_cache_response response = {0};
    (void)state;
    /* epoch 1, an unknown number, key "a", 8 and 4 unknown bytes, epoch 300 */
    struct rota_str mixed = BYTES("\x10\x01\x78\x05\x0a\x01\x61\x79\x31\x32\x33\x34\x35\x36\x37\x38"
                                  "\x7d\x31\x32\x33\x34\x10\xac\x02");
    assert_int_equal(rota_cache_request_decode(&request, mixed, NULL), ROTA_OK);
    assert_int_equal(request.keys.size, 1);
    assert_true(rota_str_is_equal(request.keys.items[0], rota_str("a")));
    assert_int_equal(request.epoch, 300);

    /* A shard in two pieces is one: from 1, to 2, then to 3. */
    struct rota_str twice = BYTES("\x12\x04\x08\x01\x10\x02\x12\x02\x10\x03");
    assert_int_equal(rota_cache_response_decode(&response, twice, NULL), ROTA_OK);
    assert_true(response.has_shard);
    assert_int_equal(response.shard.from, 1);
    assert_int_equal(response.shard.to, 3);

    assert_int_equal(rota_cache_request_decode(&request, rota_str(""), NULL), ROTA_OK);
    assert_int_equal(request.keys.size, 0);
    assert_int_equal(request.epoch, 0);
    rota_cache_request_deinit(&request);
    rota_cache_response_deinit(&response);
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
    struct rota_cache_request request = {0};
    struct rota_buffer message = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rota_error error;
        rota_buffer_clear(&message);
        rota_buffer_append_str(&message, BYTES("\x0a\x03key\x10\x07")); /* all is well so far */
        rota_buffer_append_str(&message, rows[i].bytes);
        if (rota_cache_request_decode(&request, rota_buffer_str(&message), &error) !=
            ROTA_ERR_INVALID)
            fail_msg("%s was taken", rows[i].what);
        assert_string_equal(error.text, "the request has fields that are malformed");
        assert_int_equal(request.keys.size, 0);
        assert_int_equal(request.epoch, 0);
    }
    rota_cache_request_deinit(&request);
    rota_buffer_deinit(&message);
}

static void a_fault_inside_an_entry_or_a_shard_is_found(void **state)
{
    struct rota_cache_response response = {0};
    (void)state;
    assert_int_equal(rota_cache_response_decode(&response, BYTES("\x0a\x02\x08\x01"), NULL),
                     ROTA_OK);
    assert_int_equal(response.entries.size, 1);
    const struct rota_str rows[] = {
        BYTES("\x0a\x02\x08\x81"),     /* an id that ends behind its entry */
        BYTES("\x0a\x02\x10\x01"),     /* a value that is a number */
        BYTES("\x0a\x02\x0a\x00"),     /* an id that is bytes */
        BYTES("\x12\x02\x08\x81\x01"), /* the same in a shard */
        BYTES("\x12\x02\x1a\x00"),     /* bytes in a shard */
        BYTES("\x08\x01"),             /* an entry that is a number */
        BYTES("\x10\x01"),             /* a shard that is */
        BYTES("\x1a\x00"),             /* an epoch that is bytes */
        BYTES("\x22\x00"),             /* and a truth */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(rota_cache_response_decode(&response, rows[i], NULL), ROTA_ERR_INVALID);
        assert_false(response.has_shard);
        assert_int_equal(response.entries.size, 0);
    }
    rota_cache_response_deinit(&response);
}

static void more_keys_than_the_bound_are_refused(void **state)
{
    struct rota_cache_request request = {0};
    struct rota_cache_response response = {0};
    struct rota_buffer message = {0};
    (void)state;
    for (int i = 0; i < ROTA_CACHE_KEYS_MAX; i++)
        rota_buffer_append_str(&message, BYTES("\x0a\x00"));
    assert_int_equal(rota_cache_request_decode(&request, rota_buffer_str(&message), NULL), ROTA_OK);
    assert_int_equal(rota_cache_response_decode(&response, rota_buffer_str(&message), NULL),
                     ROTA_OK);
    assert_int_equal(request.keys.size, ROTA_CACHE_KEYS_MAX);
    assert_true(rota_vector_push(&request.keys, rota_str("x")));

    struct rota_buffer encoded = {0};
    assert_int_equal(rota_cache_request_encode(&request, &encoded), ROTA_ERR_LIMIT);
    assert_int_equal(encoded.size, 0);
    rota_buffer_append_str(&message, BYTES("\x0a\x00"));
    assert_int_equal(rota_cache_request_decode(&request, rota_buffer_str(&message), NULL),
                     ROTA_ERR_LIMIT);
    assert_int_equal(rota_cache_response_decode(&response, rota_buffer_str(&message), NULL),
                     ROTA_ERR_LIMIT);
    rota_cache_request_deinit(&request);
    rota_cache_response_deinit(&response);
    rota_buffer_deinit(&message);
}

static void sizes_are_those_of_what_is_written(void **state)
{
    uint8_t room[ROTA_LEAN_VARINT_MAX * 2];
    (void)state;
    for (int bits = 0; bits <= 64; bits++) {
        uint64_t value = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
        assert_int_equal(rota_lean_put_varint(room, value) - room, rota_lean_varint_size(value));
        assert_int_equal(rota_lean_put_number(room, 15, value) - room,
                         rota_lean_number_size(15, value));
        assert_int_equal(rota_lean_put_number(room, 16, value) - room,
                         rota_lean_number_size(16, value));
    }
}

/* Wherever a number ends, and whatever is behind it. */
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
        cmocka_unit_test(requests_are_as_protobuf_c_writes_and_reads_them),
        cmocka_unit_test(responses_are_as_protobuf_c_writes_and_reads_them),
        cmocka_unit_test(fields_in_any_order_and_unknown_ones_do_no_harm),
        cmocka_unit_test(malformed_bytes_are_refused_and_leave_nothing),
        cmocka_unit_test(a_fault_inside_an_entry_or_a_shard_is_found),
        cmocka_unit_test(more_keys_than_the_bound_are_refused),
        cmocka_unit_test(sizes_are_those_of_what_is_written),
        cmocka_unit_test(numbers_of_any_size_are_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
