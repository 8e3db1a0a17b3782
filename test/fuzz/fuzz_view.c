/* Views: what is read is a view, its text is the one that was read, and its shards can be
 * placed. */
#include "wire/text/view_text.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A ring of many points takes long, which is no news. */
static bool is_small(const struct rota_view *view)
{
    uint64_t weight = 0;
    for (size_t i = 0; i < view->members.size; i++)
        weight += view->members.items[i].weight;
    return weight < 50 * ROTA_WEIGHT_ONE && view->n_shards <= 256;
}

static void place(const struct rota_view *view)
{
    uint64_t numbers[ROTA_VIEW_STATES_MAX + 1];
    uint32_t hashes[256], owners[256];
    size_t n = rota_view_states(view, numbers);
    assert(n >= 1 && n <= ROTA_VIEW_STATES_MAX + 1 && numbers[0] == view->base);
    for (uint32_t shard = 0; shard < view->n_shards; shard++)
        hashes[shard] = rota_view_hash(rota_str("space"), shard);
    for (size_t i = 0; i < n; i++) {
        assert(rota_view_place(view, numbers[i], view->engine, hashes, owners, NULL) == ROTA_OK);
        for (uint32_t shard = 0; shard < view->n_shards; shard++)
            assert(owners[shard] == ROTA_VIEW_NOBODY ||
                   rota_view_span_has(view->members.items[owners[shard]].span, numbers[i]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_view view = {0}, copy = {0};
    struct rota_buffer text = {0};
    struct rota_error error;
    if (rota_view_text_parse(rota_str_of(data, size), &view, &error)) {
        assert(strncmp(error.text, "view", 4) == 0 && view.number == 0);
        return 0;
    }
    rota_view_text_format(&view, &text);
    assert(text.size == size && memcmp(text.data, data, size) == 0);
    assert(rota_view_copy(&view, &copy, NULL) == ROTA_OK);
    assert(rota_view_is_before(&view, &copy));
    if (is_small(&view))
        place(&view);
    rota_view_rebase(&copy, copy.number);
    assert(rota_view_check(&copy, &error) == ROTA_OK);
    rota_view_deinit(&view);
    rota_view_deinit(&copy);
    rota_buffer_deinit(&text);
    return 0;
}
