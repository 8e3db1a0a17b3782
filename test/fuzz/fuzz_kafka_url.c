/* URLs of Kafka: whatever is read is written so that it reads as the same place without
 * its properties, and no message shows a part of it but the name of a property. */
#include "wire/text/kafka_url.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_kafka_url url, again;
    struct rota_error error = {0};

    if (rota_kafka_url_parse(rota_str_of(data, size), &url, &error)) {
        assert(error.code == ROTA_ERR_INVALID || error.code == ROTA_ERR_LIMIT);
        for (const char *c = error.text; *c; c++)
            assert(*c >= ' ' && *c <= '~');
        return 0;
    }
    for (size_t i = 0; i < url.n_properties; i++) {
        assert(url.properties[i].name[0]);
        assert(strlen(url.properties[i].value) <= size);
    }
    char *text = rota_kafka_url_format(&url);
    assert(text);
    assert(rota_kafka_url_parse(rota_str(text), &again, &error) == ROTA_OK);
    assert(again.n_properties == 0);
    assert(strcmp(again.hosts, url.hosts) == 0);
    assert(strcmp(again.rebalance_topic, url.rebalance_topic) == 0);
    free(text);
    rota_kafka_url_deinit(&again);
    rota_kafka_url_deinit(&url);
    return 0;
}
