/* Files of pairs: however the bytes are cut into pieces, what is read is the same, each
 * line is where the reader says, and what is written of it reads the same again. */
#include "wire/text/pairs_file.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum rota_code read_all(struct rota_str text, size_t piece, struct rota_pairs *pairs,
                               struct rota_error *error)
{
    struct rota_pairs_reader reader;
    enum rota_code code = ROTA_OK;
    rota_pairs_file_reader_init(&reader, "f", pairs);
    for (size_t at = 0; !code && at < text.size; at += piece) {
        size_t left = text.size - at;
        code = rota_pairs_file_reader_feed(
            &reader, rota_str_of(text.data + at, left < piece ? left : piece), error);
    }
    if (!code)
        code = rota_pairs_file_reader_finish(&reader, error);
    rota_pairs_file_reader_deinit(&reader);
    return code;
}

static void check_place(struct rota_str text, const struct rota_pairs *pairs,
                        const struct rota_pair_place *place)
{
    struct rota_buffer scratch = {0}, again = {0}, line = {0};
    struct rota_pair pair, same;
    size_t n;
    assert(place->offset <= text.size && place->size <= text.size - place->offset);
    struct rota_str bytes = rota_str_of(text.data + place->offset, place->size);
    assert(rota_pairs_file_parse_pair(bytes, "f", place->line, &scratch, &pair, NULL) == ROTA_OK);
    assert(pair.key.size > 0 && rota_pairs_file_find(pairs, pair.key, &n) && n > 0);
    rota_pairs_file_escape(pair.key, &line);
    rota_buffer_append_char(&line, '\t');
    rota_pairs_file_escape(pair.value, &line);
    assert(rota_pairs_file_parse_pair(rota_buffer_str(&line), "f", 1, &again, &same, NULL) ==
           ROTA_OK);
    assert(rota_str_is_equal(pair.key, same.key) && rota_str_is_equal(pair.value, same.value));
    rota_buffer_deinit(&scratch);
    rota_buffer_deinit(&again);
    rota_buffer_deinit(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str text = rota_str_of(data, size);
    struct rota_pairs whole = {.seed = 5}, pieces = {.seed = 5};
    struct rota_error error, other;
    enum rota_code code = read_all(text, size + 1, &whole, &error);
    assert(read_all(text, 3, &pieces, &other) == code);
    if (code) {
        assert(code == ROTA_ERR_INVALID || code == ROTA_ERR_LIMIT);
        assert(strncmp(error.text, "f:", 2) == 0 && strcmp(error.text, other.text) == 0);
    } else {
        assert(whole.places.size == pieces.places.size);
        for (size_t i = 0; i < whole.places.size; i++) {
            assert(whole.places.items[i].offset == pieces.places.items[i].offset);
            check_place(text, &whole, &whole.places.items[i]);
        }
    }
    rota_pairs_file_deinit(&whole);
    rota_pairs_file_deinit(&pieces);
    return 0;
}
