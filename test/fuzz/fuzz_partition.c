/* Partition names: whatever parses, formats to a name that parses to the same. */
#include <rota/experimental/partition.h>

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_partition_name name, again;
    struct rota_error error;
    char text[ROTA_ROUTE_KEY_MAX];

    if (rota_partition_parse(rota_str_of(data, size), &name, &error)) {
        assert(error.code == ROTA_ERR_INVALID && error.text[0] != '\0');
        return 0;
    }
    struct rota_partition partition = {.queue = name.queue, .id = name.id};
    if (rota_partition_check(&partition, &error))
        return 0;
    size_t length = rota_partition_format(&partition, text);
    assert(rota_partition_parse(rota_str_of(text, length), &again, &error) == ROTA_OK);
    assert(again.id == name.id && rota_str_is_equal(again.queue, name.queue));

    struct rota_route_key key;
    rota_partition_route_key(&partition, 8, &key);
    assert(key.size < sizeof key.text && key.index < 8);
    return 0;
}
