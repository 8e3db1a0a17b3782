/* Blocks of header fields from a hostile peer: what we can read, nghttp2 reads
 * the same way, and the table keeps its bounds. A block ends where the input has
 * the two bytes "%%". */
#include "wire/http2/hpack.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void see(struct rota_buffer *text, struct rota_str name, struct rota_str value)
{
    rota_buffer_append_str(text, name);
    rota_buffer_append_char(text, '\0');
    rota_buffer_append_str(text, value);
    rota_buffer_append_char(text, '\0');
}

static void on_field(void *data, struct rota_str name, struct rota_str value, uint8_t *note)
{
    if (note)
        *note = (uint8_t)(*note + 1);
    see(data, name, value);
}

static bool read_with_nghttp2(nghttp2_hd_inflater *inflater, struct rota_str block,
                              struct rota_buffer *text)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, (const uint8_t *)block.data,
                                           block.size, 1);
        if (n < 0)
            return false;
        block.data += n;
        block.size -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            see(text, rota_str_of(nv.name, nv.namelen), rota_str_of(nv.value, nv.valuelen));
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_end_headers(inflater);
    return true;
}

static struct rota_str next_block(struct rota_str *input)
{
    const char *end = input->size ? memmem(input->data, input->size, "%%", 2) : NULL;
    struct rota_str block = {input->data, end ? (size_t)(end - input->data) : input->size};
    size_t used = end ? block.size + 2 : block.size;
    input->data += used;
    input->size -= used;
    return block;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str input = rota_str_of(data, size);
    struct rota_hpack_decoder decoder;
    nghttp2_hd_inflater *inflater;
    if (size > 4096 || nghttp2_hd_inflate_new(&inflater))
        return 0;
    rota_hpack_decoder_init(&decoder);
    bool is_good = true;
    while (is_good && input.size > 0) {
        struct rota_buffer ours = {0}, theirs = {0};
        struct rota_str block = next_block(&input);
        is_good = rota_hpack_decode(&decoder, block, on_field, &ours) == ROTA_OK;
        assert(decoder.table.size <= decoder.table.size_max);
        if (is_good) {
            bool can_read = read_with_nghttp2(inflater, block, &theirs);
            assert(can_read);
            assert(rota_str_is_equal(rota_buffer_str(&ours), rota_buffer_str(&theirs)));
        }
        rota_buffer_deinit(&ours);
        rota_buffer_deinit(&theirs);
    }
    nghttp2_hd_inflate_del(inflater);
    rota_hpack_decoder_deinit(&decoder);
    return 0;
}
