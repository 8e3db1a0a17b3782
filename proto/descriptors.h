/* What the .proto files say, as protobuf's compiler wrote it: FileDescriptorSets
 * for server reflection. */
#pragma once

#include <rota/str.h>

extern const struct rota_str rota_proto_descriptors; /* of all services of Rota's own */
extern const struct rota_str rota_test_descriptors;  /* in tests only */
