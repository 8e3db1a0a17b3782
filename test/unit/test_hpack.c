#include "base/vector.h"
#include "wire/http2/hpack.h"

#include <nghttp2/nghttp2.h>
#include <rota/experimental/random.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- what was read --- */

struct seen {
    struct rota_buffer text; /* "name: value\n" for each field */
    size_t n;
};

static void see(struct seen *seen, struct rota_str name, struct rota_str value)
{
    seen->n++;
    rota_buffer_append_str(&seen->text, name);
    rota_buffer_append_text(&seen->text, ": ");
    rota_buffer_append_str(&seen->text, value);
    rota_buffer_append_char(&seen->text, '\n');
}

static void on_field(void *data, struct rota_str name, struct rota_str value, uint8_t *note)
{
    (void)note;
    see(data, name, value);
}

static void forget(struct seen *seen)
{
    rota_buffer_deinit(&seen->text);
    seen->n = 0;
}

static void check_same(const struct seen *a, const struct seen *b)
{
    assert_int_equal(a->n, b->n);
    assert_true(rota_str_is_equal(rota_buffer_str(&a->text), rota_buffer_str(&b->text)));
}

static void nghttp2_read(nghttp2_hd_inflater *inflater, struct rota_str block, struct seen *seen)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, (const uint8_t *)block.data,
                                           block.size, 1);
        assert_true(n >= 0);
        block.data += n;
        block.size -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            see(seen, rota_str_of(nv.name, nv.namelen), rota_str_of(nv.value, nv.valuelen));
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_end_headers(inflater);
}

/* --- fields by chance --- */

struct field {
    char name[40], value[1500];
    size_t name_size, value_size;
};

/* Few names and values, so that many come again, and now and then a large one or
 * one of any bytes. */
static struct field make_field(struct rota_random *random)
{
    struct field f = {0};
    f.name_size = 1 + rota_random_below(random, 12);
    memset(f.name, 'a' + (int)rota_random_below(random, 6), f.name_size);
    unsigned kind = (unsigned)rota_random_below(random, 20);
    f.value_size = rota_random_below(random, kind == 0 ? sizeof f.value : 30);
    for (size_t i = 0; i < f.value_size; i++)
        f.value[i] =
            kind == 1 ? (char)rota_random_below(random, 256) : (char)('a' + (i + f.value_size) % 4);
    return f;
}

enum { ROUNDS = 3000, FIELDS = 10 };

static void other_decoders_read_our_blocks(void **state)
{
    struct rota_hpack_encoder encoder;
    struct rota_random random;
    nghttp2_hd_inflater *inflater;
    struct rota_buffer block = {0};
    (void)state;
    rota_random_init(&random, 7);
    rota_hpack_encoder_init(&encoder);
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct seen ours = {0}, theirs = {0};
        if (round % 50 == 49) { /* the reader changes its mind */
            static const uint32_t sizes[] = {0, 100, 4096, 60, 1000, 65536};
            uint32_t size = sizes[rota_random_below(&random, 6)];
            assert_int_equal(nghttp2_hd_inflate_change_table_size(inflater, size), 0);
            rota_hpack_encoder_limit(&encoder, size);
        }
        rota_buffer_clear(&block);
        rota_hpack_begin(&encoder, &block);
        rota_hpack_put_static(&block, ROTA_HPACK_METHOD_POST);
        see(&ours, rota_str(":method"), rota_str("POST"));
        for (size_t i = rota_random_below(&random, FIELDS); i > 0; i--) {
            struct field f = make_field(&random);
            struct rota_str name = rota_str_of(f.name, f.name_size);
            struct rota_str value = rota_str_of(f.value, f.value_size);
            bool has_path = rota_random_below(&random, 5) == 0;
            if (has_path)
                name = rota_str(":path");
            rota_hpack_put(&encoder, &block, has_path ? ROTA_HPACK_PATH : ROTA_HPACK_NONE, name,
                           value, rota_random_below(&random, 8) > 0);
            see(&ours, name, value);
        }
        nghttp2_read(inflater, rota_buffer_str(&block), &theirs);
        check_same(&ours, &theirs);
        forget(&ours);
        forget(&theirs);
    }
    nghttp2_hd_inflate_del(inflater);
    rota_hpack_encoder_deinit(&encoder);
    rota_buffer_deinit(&block);
}

/* nghttp2 packs, with Huffman codes where they are shorter. */
static void check_packed(nghttp2_hd_deflater *deflater, struct rota_hpack_decoder *decoder,
                         struct field *fields, size_t n)
{
    nghttp2_nv nvs[FIELDS];
    uint8_t packed[1 << 15];
    struct seen ours = {0}, theirs = {0};
    for (size_t i = 0; i < n; i++) {
        nvs[i] = (nghttp2_nv){(uint8_t *)fields[i].name, (uint8_t *)fields[i].value,
                              fields[i].name_size, fields[i].value_size, 0};
        see(&theirs, rota_str_of(fields[i].name, fields[i].name_size),
            rota_str_of(fields[i].value, fields[i].value_size));
    }
    ssize_t size = nghttp2_hd_deflate_hd(deflater, packed, sizeof packed, nvs, n);
    assert_true(size >= 0);
    assert_int_equal(rota_hpack_decode(decoder, rota_str_of(packed, (size_t)size), on_field, &ours),
                     ROTA_OK);
    check_same(&ours, &theirs);
    forget(&ours);
    forget(&theirs);
}

static void we_read_blocks_of_other_encoders(void **state)
{
    struct rota_hpack_decoder decoder;
    struct rota_random random;
    nghttp2_hd_deflater *deflater;
    struct field fields[FIELDS];
    (void)state;
    rota_random_init(&random, 11);
    rota_hpack_decoder_init(&decoder);
    assert_int_equal(nghttp2_hd_deflate_new(&deflater, 4096), 0);
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = rota_random_below(&random, FIELDS);
        for (size_t i = 0; i < n; i++)
            fields[i] = make_field(&random);
        if (round % 100 == 99) {
            size_t size = rota_random_below(&random, 4097);
            assert_int_equal(nghttp2_hd_deflate_change_table_size(deflater, size), 0);
        }
        check_packed(deflater, &decoder, fields, n);
    }
    nghttp2_hd_deflate_del(deflater);
    rota_hpack_decoder_deinit(&decoder);
}

static void every_byte_has_its_huffman_code(void **state)
{
    struct rota_hpack_decoder decoder;
    nghttp2_hd_deflater *deflater;
    (void)state;
    rota_hpack_decoder_init(&decoder);
    assert_int_equal(nghttp2_hd_deflate_new(&deflater, 4096), 0);
    for (int byte = 0; byte < 256; byte++) {
        for (size_t before = 20; before < 28; before++) { /* at each place in a byte */
            struct field f = {.name = "x", .name_size = 1, .value_size = before + 12};
            memset(f.value, 'a', f.value_size);
            f.value[before] = (char)byte;
            check_packed(deflater, &decoder, &f, 1);
        }
    }
    nghttp2_hd_deflate_del(deflater);
    rota_hpack_decoder_deinit(&decoder);
}

static void a_field_that_comes_again_is_one_byte(void **state)
{
    struct rota_hpack_encoder encoder;
    struct rota_buffer block = {0};
    (void)state;
    rota_hpack_encoder_init(&encoder);
    for (int i = 0; i < 3; i++) {
        rota_buffer_clear(&block);
        rota_hpack_begin(&encoder, &block);
        rota_hpack_put(&encoder, &block, ROTA_HPACK_PATH, rota_str(":path"), rota_str("/a/b"),
                       true);
        assert_int_equal(block.size, i == 0 ? 6 : 1);
    }
    rota_buffer_clear(&block);
    rota_hpack_put(&encoder, &block, ROTA_HPACK_NONE, rota_str("id"), rota_str("17"), false);
    assert_int_equal(encoder.table.n, 1); /* what is not kept pushes nothing out */
    rota_hpack_encoder_deinit(&encoder);
    rota_buffer_deinit(&block);
}

/* The table has room for the old entry or the new one, whose name is the old's. */
static void the_name_of_an_entry_outlives_it(void **state)
{
    struct rota_hpack_decoder decoder;
    struct rota_buffer block = {0};
    struct seen seen = {0};
    (void)state;
    rota_hpack_decoder_init(&decoder);
    rota_buffer_append(&block, "\x3f\x09", 2); /* a table of 40 bytes */
    rota_buffer_append(&block,
                       "\x40\x04name\x04"
                       "old.",
                       11);
    rota_buffer_append(&block, "\x7e\x04new.", 6);
    rota_buffer_append(&block,
                       "\x7e\x05"
                       "large",
                       7);
    assert_int_equal(rota_hpack_decode(&decoder, rota_buffer_str(&block), on_field, &seen),
                     ROTA_OK);
    assert_string_equal(seen.text.data, "name: old.\nname: new.\nname: large\n");
    assert_int_equal(decoder.table.n, 0);
    forget(&seen);
    rota_hpack_decoder_deinit(&decoder);
    rota_buffer_deinit(&block);
}

static uint8_t *last_note;

static void on_noted(void *data, struct rota_str name, struct rota_str value, uint8_t *note)
{
    (void)data;
    (void)name;
    (void)value;
    last_note = note;
}

static void a_note_stays_with_its_field(void **state)
{
    struct rota_hpack_decoder decoder;
    (void)state;
    rota_hpack_decoder_init(&decoder);
    assert_int_equal(rota_hpack_decode(&decoder, rota_str("\x40\1a\1b"), on_noted, NULL), ROTA_OK);
    assert_int_equal(*last_note, 0);
    *last_note = 7;
    assert_int_equal(rota_hpack_decode(&decoder, rota_str("\x40\1c\1d"), on_noted, NULL), ROTA_OK);
    assert_int_equal(*last_note, 0);
    assert_int_equal(rota_hpack_decode(&decoder, rota_str("\xbf"), on_noted, NULL), ROTA_OK);
    assert_int_equal(*last_note, 7);
    assert_int_equal(rota_hpack_decode(&decoder, rota_str_of("\0\1a\1b", 5), on_noted, NULL),
                     ROTA_OK);
    assert_null(last_note); /* in no table, so nobody can know it again */
    rota_hpack_decoder_deinit(&decoder);
}

static void malformed_block_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
    } blocks[] = {
        {"\x80", 1},                         /* number 0 */
        {"\xbe", 1},                         /* beyond the tables */
        {"\x7e\1a", 3},                      /* its name is */
        {"\xff", 1},                         /* a number that ends too soon */
        {"\xff\xff\xff\xff\xff\xff\x01", 7}, /* or is too large */
        {"\x40", 1},                         /* no name */
        {"\x40\1", 2},                       /* half a name */
        {"\x40\1a", 3},                      /* no value */
        {"\x40\1a\5abc", 7},                 /* a part of a value */
        {"\x40\1a\x7f\xff\xff\xff\x7f", 8},  /* of one that never ends */
        {"\x82\x20", 2},                     /* a new size too late */
        {"\x3f\xe2\x1f", 3},                 /* and too large: 4097 */
        {"\x40\1a\x81\x1e", 5},              /* Huffman: padding of zeros */
        {"\x40\1a\x82\x1f\xff", 6},          /* of more than 7 bits */
        {"\x40\1a\x84\xff\xff\xff\xff", 8},  /* the code that ends all */
    };
    (void)state;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        struct rota_hpack_decoder decoder;
        struct seen seen = {0};
        rota_hpack_decoder_init(&decoder);
        assert_int_equal(rota_hpack_decode(&decoder, rota_str_of(blocks[i].bytes, blocks[i].size),
                                           on_field, &seen),
                         ROTA_ERR_INVALID);
        forget(&seen);
        rota_hpack_decoder_deinit(&decoder);
    }
}

static void a_table_stays_within_its_bounds(void **state)
{
    struct rota_hpack_decoder decoder;
    char block[64];
    struct seen seen = {0};
    (void)state;
    rota_hpack_decoder_init(&decoder);
    for (int i = 0; i < 20000; i++) {
        int size = snprintf(block, sizeof block, "\x40\2ab%c%0*d", i % 40 + 1, i % 40 + 1, i % 10);
        assert_int_equal(
            rota_hpack_decode(&decoder, rota_str_of(block, (size_t)size), on_field, &seen),
            ROTA_OK);
        assert_true(decoder.table.size <= ROTA_HPACK_TABLE_MAX);
    }
    assert_true(decoder.table.text.capacity <= 4 * ROTA_HPACK_TABLE_MAX);
    assert_true(decoder.table.capacity <= ROTA_HPACK_TABLE_MAX / 32);
    forget(&seen);
    rota_hpack_decoder_deinit(&decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_decoders_read_our_blocks),
        cmocka_unit_test(we_read_blocks_of_other_encoders),
        cmocka_unit_test(every_byte_has_its_huffman_code),
        cmocka_unit_test(a_field_that_comes_again_is_one_byte),
        cmocka_unit_test(the_name_of_an_entry_outlives_it),
        cmocka_unit_test(a_note_stays_with_its_field),
        cmocka_unit_test(malformed_block_is_refused),
        cmocka_unit_test(a_table_stays_within_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
