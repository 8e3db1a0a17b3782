/* Files of shards: whatever is read keeps the promises of the reader, and its strings
 * lie in what was given. */
#include "wire/text/shards_file.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_collection(const struct rota_shards_collection *collection)
{
    assert(collection->id > 0 && collection->n_channels > 0 &&
           collection->n_channels <= ROTA_SHARD_CHANNELS_MAX);
    for (size_t i = 0; i < collection->n_channels; i++) {
        const struct rota_shard_channel *channel = &collection->channels[i];
        assert(channel->n_replicas > 0 && channel->n_replicas <= ROTA_SHARD_REPLICAS_MAX);
        assert(i == 0 || rota_str_compare(channel[-1].name, channel->name) < 0);
        for (size_t j = 0; j < channel->n_replicas; j++)
            assert(channel->replicas[j].node >= 0 && channel->replicas[j].address.size > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str text = rota_str_of(data, size);
    struct rota_shards_file file;
    struct rota_error error;
    if (rota_shards_file_parse(text, "f", &file, &error)) {
        assert(error.code == ROTA_ERR_INVALID || error.code == ROTA_ERR_LIMIT);
        assert(strncmp(error.text, "f:", 2) == 0);
        return 0;
    }
    for (size_t i = 0; i < file.n_collections; i++) {
        check_collection(&file.collections[i]);
        assert(i == 0 || file.collections[i - 1].id < file.collections[i].id);
    }
    rota_shards_file_deinit(&file);
    return 0;
}
