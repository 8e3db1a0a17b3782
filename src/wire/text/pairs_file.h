/* pairs_file: keys and values as text, one pair per line.
 *
 *     KEY<TAB>VALUE
 *     greeting<TAB>two\nlines
 *
 * Keys and values are any bytes. A tab, a newline, a carriage return and a backslash are written \t
 * \n \r \\ and any byte can be written \xHH; all other characters are literal. Lines end with LF or
 * CRLF; an empty line is ignored; there are no comments. A key is not empty, and is unique.
 *
 * A file may be larger than the memory, so it is not kept: the reader is fed with the file piece
 * by piece and remembers where each line is. To get a value, read that line again and check that
 * its key is still the right one. */
#pragma once

#include "base/buffer.h"
#include "base/vector.h"

#include <rota/error.h>
#include <stdint.h>

enum {
    ROTA_PAIRS_KEY_MAX = 4096,       /* bytes */
    ROTA_PAIRS_VALUE_MAX = 16 << 20, /* bytes */
    ROTA_PAIRS_LINE_MAX = 64 << 20,  /* bytes as they are written, without the end */
    ROTA_PAIRS_MAX = 1 << 26,        /* lines of a file; each takes 24 bytes of memory */
};

struct rota_pair {
    struct rota_str key, value;
};

/* Read a line without its end; `file` and `number` are for the message, which begins
 * with "FILE:LINE: ". The pair points into the line or into `scratch`, which is cleared
 * first. An empty line has an empty key. */
enum rota_code rota_pairs_file_parse_pair(struct rota_str line, const char *file, size_t number,
                                          struct rota_buffer *scratch, struct rota_pair *pair,
                                          struct rota_error *error);

/* Append a text as it is in a line: rota_pairs_file_parse_pair() can read it, and people, too,
 * since invisible characters are escaped. */
void rota_pairs_file_escape(struct rota_str text, struct rota_buffer *buffer);

/* --- a file --- */

struct rota_pair_place {
    uint64_t hash;   /* of the key */
    uint64_t offset; /* of the line's first byte */
    uint32_t size;   /* of the line, without its end */
    uint32_t line;   /* from 1 */
};

/* Where the keys of a file are. Starts zeroed, with a seed. */
struct rota_pairs {
    ROTA_VECTOR(struct rota_pair_place) places; /* by hash, then by line */
    uint64_t seed;
};

void rota_pairs_file_deinit(struct rota_pairs *pairs);

/* The places that may have the key, a few at most; NULL when there is none. */
const struct rota_pair_place *rota_pairs_file_find(const struct rota_pairs *pairs,
                                                   struct rota_str key, size_t *n);

/* Neighbours with the same hash, which probably have the same key: start with *index =
 * 0; false ends it. */
bool rota_pairs_file_next_twins(const struct rota_pairs *pairs, size_t *index,
                                struct rota_pair_place *first, struct rota_pair_place *second);

struct rota_pairs_reader {
    const char *file; /* for messages; kept */
    struct rota_pairs *pairs;
    struct rota_buffer line; /* the beginning of an incomplete line */
    struct rota_buffer scratch;
    uint64_t offset; /* of the line */
    size_t number;
};

/* Begin to read a file into `pairs`; both are kept. */
void rota_pairs_file_reader_init(struct rota_pairs_reader *reader, const char *file,
                                 struct rota_pairs *pairs);
void rota_pairs_file_reader_deinit(struct rota_pairs_reader *reader);

/* The next bytes of the file, any number of them; and its end. After a failure only end the
 * reader. */
enum rota_code rota_pairs_file_reader_feed(struct rota_pairs_reader *reader, struct rota_str bytes,
                                           struct rota_error *error);
enum rota_code rota_pairs_file_reader_finish(struct rota_pairs_reader *reader,
                                             struct rota_error *error);
