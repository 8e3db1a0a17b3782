/* keys_file: public keys by name, as text; and a key pair, which is the same.
 *
 *     # workers of the tournament
 *     alpha  rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7
 *
 * One key per line: a name, blanks, and the key in Z85, 40 characters for 32 bytes. A line that is
 * empty or begins with '#' is ignored. A name may have several keys, so that one can take over from
 * another; a key has one name. */
#pragma once

#include "base/vector.h"

#include <rota/error.h>
#include <rota/str.h>
#include <stdint.h>

enum {
    ROTA_KEY_SIZE = 32,
    ROTA_KEY_TEXT_SIZE = 40,
    ROTA_KEYS_MAX = 65536,
    ROTA_KEYS_FILE_MAX = 16 << 20,
};

struct rota_key {
    uint8_t bytes[ROTA_KEY_SIZE];
};

struct rota_key_entry {
    struct rota_str name; /* points into the text */
    struct rota_key key;
};

/* Starts zeroed. */
struct rota_keys {
    ROTA_VECTOR(struct rota_key_entry) entries; /* by key */
};

/* False when it is not a key. */
bool rota_keys_file_parse_key(struct rota_str text, struct rota_key *key);

/* Returns `text`. */
char *rota_keys_file_format_key(const struct rota_key *key, char text[ROTA_KEY_TEXT_SIZE + 1]);

/* Read a list into `keys`, which is empty; the text is kept. `file` is for messages. */
enum rota_code rota_keys_file_parse(struct rota_str text, const char *file, struct rota_keys *keys,
                                    struct rota_error *error);
void rota_keys_file_deinit(struct rota_keys *keys);

/* The name of a key; empty when it is unknown. And the first key of a name, or NULL. */
struct rota_str rota_keys_file_find_name(const struct rota_keys *keys, const struct rota_key *key);
const struct rota_key *rota_keys_file_find_key(const struct rota_keys *keys, struct rota_str name);
