/* Descriptor sets: every symbol is found again, in a file that is there. */
#include "wire/grpc/descriptor.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_descriptors descriptors;
    rota_descriptors_init(&descriptors);
    rota_descriptors_add(&descriptors, rota_str_of(data, size));
    for (size_t i = 0; i < descriptors.symbols.size; i++) {
        const struct rota_descriptor_symbol *symbol = descriptors.symbols.items[i];
        assert(symbol->file < descriptors.files.size);
        assert(rota_descriptors_file_of(&descriptors, rota_str(symbol->name)) ==
               &descriptors.files.items[symbol->file]);
    }
    for (size_t i = 0; i < descriptors.files.size; i++) {
        struct rota_str bytes = descriptors.files.items[i].bytes;
        assert(bytes.size <= size);
        assert(rota_descriptors_file(&descriptors, descriptors.files.items[i].name) ==
               &descriptors.files.items[i]);
    }
    rota_descriptors_deinit(&descriptors);
    return 0;
}
