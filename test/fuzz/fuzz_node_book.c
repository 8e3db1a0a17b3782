/* Names of nodes: any bytes are a valid name or not; a sentence keeps every byte that is not of an
 * address in the book, and a name is found under the address that it belongs to. */
#include "base/text.h"
#include "core/place/node_book.h"
#include "core/place/node_name.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(struct rota_str name)
{
    assert(name.size > 0 && name.size <= ROTA_NODE_NAME_MAX);
    for (size_t i = 0; i < name.size; i++)
        assert(name.data[i] > ' ' && name.data[i] < 0x7f && name.data[i] != ':');
}

/* The first line is an address, the second a name; the rest is a sentence, and a list. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str rest = rota_str_of(data, size);
    struct rota_str address = rota_text_cut_at(&rest, '\n'), name = rota_text_cut_at(&rest, '\n');
    struct rota_buffer buffer = {0}, same = {0};
    struct rota_node_book book;
    rota_node_book_init(&book, 1);
    rota_node_book_rewrite(&book, rest, &same);
    assert(rota_str_is_equal(rota_buffer_str(&same), rest));
    if (rota_node_name_is_valid(name)) {
        check_name(name);
        rota_node_book_note(&book, address, name, 1);
        if (address.size > 0) {
            assert(rota_str_is_equal(rota_node_book_name(&book, address), name));
            assert(rota_str_is_equal(rota_node_book_address(&book, name), address));
        }
    }
    rota_node_book_rewrite(&book, rest, &buffer);
    rota_node_book_resolve(&book, rest, rest.size, &buffer);
    assert(!buffer.failed);
    rota_buffer_deinit(&buffer);
    rota_buffer_deinit(&same);
    rota_node_book_deinit(&book);
    return 0;
}
