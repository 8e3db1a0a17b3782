/* descriptor: .proto files as bytes, found by name or by what they define.
 *
 * Protobuf's compiler describes files in protobuf itself: a FileDescriptorSet (`protoc
 * --descriptor_set_out`). We read of it the names of files, messages, enums, services and methods,
 * and return each file unchanged. Extensions are ignored.
 *
 * Invariant: repeated names point to the first file that defined them, so files that are in
 * several sets do no harm. */
#pragma once

#include "base/map.h"
#include "base/vector.h"

#include <rota/error.h>

enum {
    ROTA_DESCRIPTOR_FILES_MAX = 1024,
    ROTA_DESCRIPTOR_SYMBOLS_MAX = 65536,
    ROTA_DESCRIPTOR_NAME_MAX = 1024, /* bytes of a full name */
    ROTA_DESCRIPTOR_DEPTH_MAX = 32,  /* messages in messages */
};

struct rota_descriptor_file {
    struct rota_str name;
    struct rota_str bytes; /* a FileDescriptorProto */
};

struct rota_descriptor_symbol {
    uint32_t file; /* number in `files` */
    bool is_service;
    char name[]; /* in full, "package.Service.Method" */
};

/* Starts with rota_descriptors_init(). */
struct rota_descriptors {
    ROTA_VECTOR(struct rota_descriptor_file) files;
    ROTA_VECTOR(struct rota_descriptor_symbol *) symbols;
    struct rota_map by_name;
};

void rota_descriptors_init(struct rota_descriptors *descriptors);
void rota_descriptors_deinit(struct rota_descriptors *descriptors);

/* Read a FileDescriptorSet, whose bytes are kept. ROTA_ERR_INVALID when it is malformed,
 * ROTA_ERR_LIMIT when it has too much; what was read before the error stays. */
enum rota_code rota_descriptors_add(struct rota_descriptors *descriptors, struct rota_str set);

/* The file with this name, or that defines this symbol; NULL when there is none. */
const struct rota_descriptor_file *rota_descriptors_file(const struct rota_descriptors *descriptors,
                                                         struct rota_str name);
const struct rota_descriptor_file *rota_descriptors_file_of(
    const struct rota_descriptors *descriptors, struct rota_str symbol);
