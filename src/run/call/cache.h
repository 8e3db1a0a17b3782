/* cache: the values of a source, kept in memory for a while.
 *
 * Answers the batches of a server (<rota/experimental/get.h>). Missing keys are read from the
 * source, once for all batches that need them, many keys in one read. The absence of a value is
 * cached, too, for a shorter time. A failed read fails the batches that wait for it, so that their
 * clients ask another replica; a key that the source rejects fails alone. A full answer leaves out
 * the rest, which the client requests again.
 *
 * When the source reports a change, nothing that was read before is returned; a read in
 * flight answers its waiting batches and is not cached. */
#pragma once

#include "core/call/get/loads.h"
#include "core/call/get/lru.h"

#include <rota/experimental/get.h>
#include <rota/log.h>

struct rota_cache;
struct rota_store;

enum {
    ROTA_CACHE_KEY_MAX = 4096,        /* bytes */
    ROTA_CACHE_ANSWER_MAX = 16 << 20, /* bytes of the values of one batch, if they are several */
    ROTA_CACHE_READ_MAX = 60 << 20,   /* bytes of the values of one read */
    ROTA_CACHE_WAITS_MAX = 1 << 20,   /* keys that batches wait for */
    ROTA_CACHE_READ_KEYS_MAX = 500,   /* keys of one read */
    ROTA_CACHE_READS_MAX = 4,         /* at a time */
};

/* How long the absence of a key is cached, as a part of the time for a value. */
enum { ROTA_CACHE_ABSENT_PART = 10 };

/* --- sources --- */

/* One read of a source. */
struct rota_cache_read {
    struct rota_list_node link;
    struct rota_cache *cache;
    struct rota_load_read *read;
    uint32_t generation;
    void *data; /* the source's */
};

static inline const struct rota_str *rota_cache_read_keys(const struct rota_cache_read *read,
                                                          size_t *n)
{
    *n = read->read->keys.size;
    return read->read->keys.items;
}

/* The value of one of the keys; or why it can't be returned. */
void rota_cache_read_value(struct rota_cache_read *read, struct rota_str key,
                           struct rota_str value);
void rota_cache_read_refuse(struct rota_cache_read *read, struct rota_str key, const char *text);

/* The read is over: keys without a value are absent, or `error` says why this is unknown. Takes
 * `read`. */
void rota_cache_read_done(struct rota_cache_read *read, const struct rota_error *error);

struct rota_cache_source_events {
    void (*on_ready)(void *data); /* it can be read; called once, from the loop */

    /* It can't be used as configured, and retrying won't help: no such table, no permission. */
    void (*on_refused)(void *data, const struct rota_error *error);

    void (*on_changed)(void *data); /* values that were read before may be outdated */
    void *data;                     /* kept */
};

/* A source: a few functions at the head of the struct that implements them. */
struct rota_cache_source {
    /* Read; rota_cache_read_done() is called from inside or later, from the loop. */
    void (*read)(struct rota_cache_source *source, struct rota_cache_read *read);

    /* Takes `source`. No callback is called after this, also not for reads in flight. */
    void (*close)(struct rota_cache_source *source);

    bool is_ready;
    bool is_static; /* reports each change: values are valid until then */
};

struct rota_cache_source_options {
    const struct rota_log *log; /* kept; NULL: none */
    struct rota_cache_source_events events;
};

/* A file of pairs, read and watched. If it becomes unreadable, that is logged and the old values
 * stay. Gives `*source`. */
enum rota_code rota_cache_file_open(struct uv_loop_s *loop, const char *path,
                                    const struct rota_cache_source_options *options,
                                    struct rota_cache_source **source, struct rota_error *error);

/* A table of the database at `url`: "TABLE" with the columns "key" and "value", or
 * "TABLE:KEY:VALUE" with the names of the columns. Gives `*source`. */
enum rota_code rota_cache_sql_open(struct uv_loop_s *loop, const char *url, const char *table,
                                   const struct rota_cache_source_options *options,
                                   struct rota_cache_source **source, struct rota_error *error);

/* --- the cache --- */

struct rota_cache_options {
    struct rota_cache_source *source; /* kept */
    size_t memory;                    /* bytes, at least ROTA_LRU_BYTES_MIN */
    rota_time keep;                   /* how long a value is cached; 0: not at all */
    uint64_t seed;
};

/* Gives `*cache`; rota_cache_close() ends it, after all batches are finished and the source is
 * closed. */
enum rota_code rota_cache_open(const struct rota_cache_options *options, struct rota_cache **cache,
                               struct rota_error *error);
void rota_cache_close(struct rota_cache *cache);

/* Answer a batch of keys that are struct rota_str. Takes `batch`; it is finished now or
 * later, or by rota_cache_cancel(). */
void rota_cache_answer(struct rota_cache *cache, struct rota_get_batch *batch);
void rota_cache_cancel(struct rota_cache *cache, struct rota_get_batch *batch);

/* The source has changed. */
void rota_cache_outdate(struct rota_cache *cache);

struct rota_cache_counts {
    struct rota_lru_stats memory;
    size_t n_entries, n_bytes;
    uint64_t n_asked, n_loaded; /* keys that batches waited for, and keys that were read */
    uint64_t n_failed;          /* reads */
};
struct rota_cache_counts rota_cache_counts(const struct rota_cache *cache);
