/* shards_file: the replicas of shards, as text, one replica per line.
 *
 *     # DATABASE COLLECTION ID CHANNEL NODE ADDRESS [serviceable=false] [epoch=N]
 *     default books 1 books-0 101 10.0.0.1:7000
 *     default books 1 books-0 102 10.0.0.2:7000 serviceable=false
 *     default books 1 books-1 102 10.0.0.2:7000 epoch=7
 *
 * Words are of printable ASCII with blanks between them; a comment is a whole line or starts after
 * a blank; lines end with LF or CRLF. ID is 1 or more and the same in all lines of the collection;
 * NODE is not negative; the default epoch is 1. A shard has its replicas in the order of the lines.
 *
 * The reader is strict: it rejects what it does not understand, with the line's number. */
#pragma once

#include "run/call/directory.h"

enum {
    ROTA_SHARDS_TEXT_MAX = 16 << 20, /* bytes of a file */
    ROTA_SHARDS_LINE_MAX = 8192,     /* bytes of a line, without its end */
};

struct rota_shards_file {
    struct rota_shards_collection *collections; /* by their ids */
    size_t n_collections;
    struct rota_shard_channel *channels;
    struct rota_replica *replicas;
    char *text; /* what the strings point into */
};

/* Read a file's text; `file` is its name in messages, which begin with "FILE:LINE: ". A file
 * without collections is not an error. Fills `*shards`; rota_shards_file_deinit() ends it. Any
 * thread. */
enum rota_code rota_shards_file_parse(struct rota_str text, const char *file,
                                      struct rota_shards_file *shards, struct rota_error *error);
void rota_shards_file_deinit(struct rota_shards_file *shards);
