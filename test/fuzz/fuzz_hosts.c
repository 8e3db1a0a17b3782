/* Hosts files: what is read is within bounds and can be shown, errors name their line. */
#include "base/utf8.h"
#include "wire/text/hosts_file.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is shown to people is text, without surprises in it. */
static void assert_plain(struct rota_str name)
{
    assert(name.size <= ROTA_ADDRESS_MAX && !memchr(name.data, '#', name.size));
    while (name.size > 0) {
        size_t size;
        uint32_t character = rota_utf8_decode(name, &size);
        assert(character != ROTA_UTF8_NONE && !rota_utf8_is_hidden(character));
        name = rota_str_of(name.data + size, name.size - size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_hosts hosts;
    struct rota_error error;

    if (rota_hosts_file_parse(rota_str_of(data, size), "f", &hosts, &error)) {
        assert(error.code == ROTA_ERR_INVALID || error.code == ROTA_ERR_LIMIT);
        assert(strncmp(error.text, "f:", 2) == 0);
        return 0;
    }
    for (size_t i = 0; i < hosts.n_hosts; i++) {
        assert_plain(hosts.hosts[i].address);
        assert_plain(hosts.hosts[i].zone);
        assert(hosts.hosts[i].weight > 0);
        assert(!memchr(hosts.hosts[i].address.data, ',', hosts.hosts[i].address.size));
    }
    rota_hosts_file_deinit(&hosts);
    return 0;
}
