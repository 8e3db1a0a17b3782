/* Multi-get: the values of many keys, from a service whose shards are in several data centers.
 *
 * Describe a service once, by struct rota_get_service: what a key is, which shard it belongs to,
 * and how keys and values map to the messages of its own .proto. The client asks every shard that
 * has some of the keys, in one or all data centers, and takes the first answer for each key. The
 * server side answers only for keys of the shards that it holds now. rota_get_cache() is a ready
 * description of rota.v1.Cache, for keys and values that are plain bytes. docs/get.md has the
 * details and the guarantees under each fault.
 *
 * A key without a value is answered too, as absent. A key that no host answered is missing, and a
 * Get with a missing key fails.
 *
 * Use all of this only on the loop's thread. The callbacks of client and server come from the loop,
 * never from inside a function of this header, and may call any function here except
 * rota_get_wait(). The callbacks of a service may be called at any time, and may call only the
 * functions for them. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/balancer.h>
#include <rota/experimental/interval.h>
#include <rota/rpc.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_get;
struct rota_get_batch;
struct rota_get_reader;
struct rota_get_run;
struct rota_get_server;
struct rota_get_writer;
struct rota_members;
struct rota_metrics;
struct rota_server;
struct rota_tls;
struct uv_loop_s; /* a uv_loop_t */

enum {
    ROTA_GET_KEYS_MAX = 65536,    /* of one Get, and of one batch */
    ROTA_GET_RUNS_MAX = 65536,    /* Gets in progress */
    ROTA_GET_HOSTS_MAX = 4096,    /* of one service; further hosts are ignored */
    ROTA_GET_SHARDS_MAX = 1024,   /* that one server holds */
    ROTA_GET_NAME_MAX = 255,      /* bytes of a data center's name */
    ROTA_GET_KEY_SIZE_MAX = 1024, /* bytes of a key's struct */
};

/* --- a service --- */

/* A key of the shard that the response does not answer. */
struct rota_get_problem {
    uint64_t id;
    struct rota_str text; /* why not; empty: no room, the client asks again */
};

/* What a response contains besides values. */
struct rota_get_head {
    bool all_matched; /* false: a key is not of the server's shards; there are no values */

    /* Only when a response is written. */
    const struct rota_interval_claim *shards; /* that the server holds now, with their epochs */
    size_t n_shards;
    const struct rota_get_problem *problems;
    size_t n_problems;
};

struct rota_get_entry {
    uint64_t id;
    struct rota_str value;
};

/* Keys are structs of the program, `key_size` bytes each, in an array. A program that is only a
 * client may leave out the functions of the server, and vice versa. Functions that return a code
 * explain a failure in `error`; their input is untrusted. */
struct rota_get_service {
    const char *method; /* "/package.Service/Method"; kept */
    size_t key_size;    /* bytes; 1 to ROTA_GET_KEY_SIZE_MAX */
    void *data;         /* kept; passed to the functions below */

    /* Maps a key to a number that determines its shard; the same on client and server. */
    uint64_t (*sharding_key)(void *data, const void *key);

    /* The id under which the key's value comes back, unique among the keys of a request. NULL means
     * the key's index in its request: 0, 1, 2. */
    uint64_t (*entry_id)(void *data, const void *key);

    /* Writes the key as errors show it, with a final NUL. NULL means its index in the Get. */
    void (*name_key)(void *data, const void *key, char *text, size_t size);

    /* Client: writes a request for these keys, in this order. `epoch` is the highest of the
     * server's claims as the client knows them, 0 if unknown. Without keys the request asks only
     * for the shards. */
    enum rota_code (*write_request)(void *data, const void *const *keys, size_t n_keys,
                                    uint64_t epoch, struct rota_get_writer *writer,
                                    struct rota_error *error);

    /* Client: reads a response. Set `all_matched` of `head`, which is zeroed, and call
     * rota_get_read_shard() for each shard of the server, rota_get_read() for each entry, and
     * rota_get_read_problem() for each problem, if the service has them. If all matched, a key
     * with neither entry nor problem has no value. */
    enum rota_code (*read_response)(void *data, struct rota_str response,
                                    struct rota_get_head *head, struct rota_get_reader *reader,
                                    struct rota_error *error);

    /* Server: reads a request. Call rota_get_batch_add() for each key, in order, and
     * rota_get_batch_allow_problems() if the client accepts problems. The request is valid as long
     * as the batch. Set `*epoch` to 0 if the request has none. */
    enum rota_code (*read_request)(void *data, struct rota_str request,
                                   struct rota_get_batch *batch, uint64_t *epoch,
                                   struct rota_error *error);

    /* Server: writes a response: the shards of the head, and an entry for each key that has a
     * value; there are no entries if not all matched. The head has problems only if they are
     * allowed. */
    enum rota_code (*write_response)(void *data, const struct rota_get_head *head,
                                     const struct rota_get_entry *entries, size_t n_entries,
                                     struct rota_get_writer *writer, struct rota_error *error);
};

/* rota.v1.Cache/Get: a key is a struct rota_str, a value is bytes. Any thread. */
const struct rota_get_service *rota_get_cache(void);

/* The sharding key of rota_get_cache(), FarmHash Fingerprint32, which never changes: spreads keys
 * of text or bytes evenly. Any thread. */
uint64_t rota_get_hash(struct rota_str key);

/* Returns room for `size` more bytes of the message; fill it in at once. NULL if out of memory; the
 * caller of the service's function detects this itself. */
void *rota_get_write(struct rota_get_writer *writer, size_t size);

/* Append one field of a protobuf message: a number (uint64, uint32, bool, enum), or bytes (bytes,
 * string, an embedded message that was packed before). Call it once for each element of a repeated
 * field, so you need no array of all elements. `field` is its number in the .proto file. */
void rota_get_write_number(struct rota_get_writer *writer, uint32_t field, uint64_t value);
void rota_get_write_bytes(struct rota_get_writer *writer, uint32_t field, struct rota_str value);

/* Reports a shard that the server holds. */
void rota_get_read_shard(struct rota_get_reader *reader, const struct rota_interval_claim *shard);

/* Reports the answer for the key with this id. A value inside the response is kept by reference,
 * any other is copied. Unknown ids are ignored. */
void rota_get_read(struct rota_get_reader *reader, const struct rota_get_entry *entry);

/* Reports why the key with this id is not answered; the text is handled like a value. */
void rota_get_read_problem(struct rota_get_reader *reader, const struct rota_get_problem *problem);

/* --- the client --- */

/* The metadata by which a call names its collection, for servers with several. */
#define ROTA_GET_COLLECTION "rota-collection"

/* How many replicas of a shard to ask. */
enum rota_get_mode {
    ROTA_GET_MODE_ADAPTIVE,  /* all if that is faster and there is capacity, else like hedge */
    ROTA_GET_MODE_BROADCAST, /* all at once */
    ROTA_GET_MODE_HEDGE,     /* one, and another if it takes longer than usual */
};
enum { ROTA_GET_MODES = 3 };

/* "adaptive", "broadcast", "hedge". Parsing rejects other names. Any thread. */
const char *rota_get_mode_name(enum rota_get_mode mode);
enum rota_code rota_get_mode_parse(struct rota_str name, enum rota_get_mode *mode,
                                   struct rota_error *error);

struct rota_get_host {
    struct rota_str address; /* "host:port" */
    struct rota_str dc;      /* its data center; empty: "default" */
};

/* Zero means the default. */
struct rota_get_options {
    const struct rota_get_service *service; /* copied; NULL means rota_get_cache() */

    /* Where the hosts come from: set one of these. */
    const char *hosts_file;            /* as for `rota hosts`; a host's zone is its data center */
    struct rota_members *members;      /* a membership of the program; kept, must be closed later */
    const struct rota_get_host *hosts; /* copied; fixed until rota_get_set_hosts() */
    size_t n_hosts;
    /* Called every ping period; answer with rota_get_set_hosts(), at once or later. */
    void (*ask_hosts)(void *data, struct rota_get *get);
    void *data; /* kept */

    /* Kept; sent with each call; NULL: servers have only one, or know which. */
    const char *collection;
    enum rota_get_mode mode;
    rota_time timeout;      /* of Gets that don't set it; 5 s */
    rota_time host_timeout; /* of one try; 1 s */
    int32_t retries;        /* on one host after a failure; 1, negative: none */
    rota_time ping_period;  /* how often hosts are asked for their shards; 1 s */
    size_t message_max;     /* bytes of a response; 4 MiB */

    struct rota_tls *tls;         /* kept; NULL means plaintext */
    bool insecure;                /* allow plaintext to remote hosts */
    struct rota_metrics *metrics; /* kept; NULL means a registry of its own */
    uint64_t seed;                /* for random choices; 0 means from the clock */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens a client. Gives `*get`; close it with rota_get_close(). The client starts to ask the hosts
 * for their shards; Gets wait for the answers. */
enum rota_code rota_get_open(struct uv_loop_s *loop, const struct rota_get_options *options,
                             struct rota_get **get, struct rota_error *error);

/* Takes `get`, which may be NULL. Gets in progress are dropped, and no callback is called
 * afterwards. Run the loop once more to free everything. */
void rota_get_close(struct rota_get *get);

/* Replaces the list of hosts; copied. A bad or repeated address is rejected, without change. */
enum rota_code rota_get_set_hosts(struct rota_get *get, const struct rota_get_host *hosts,
                                  size_t n_hosts, struct rota_error *error);

enum rota_get_state {
    ROTA_GET_KEY_MISSING, /* no host has answered; `reason` says why */
    ROTA_GET_KEY_FOUND,
    ROTA_GET_KEY_ABSENT, /* answered: it has no value */
};

/* The result of one key. */
struct rota_get_item {
    enum rota_get_state state;
    struct rota_str value;
    struct rota_str host;       /* that answered; empty if missing */
    struct rota_interval shard; /* of the key, which the host held under this epoch */
    uint64_t epoch;
    rota_time elapsed;  /* from the start of the Get to this answer */
    const char *reason; /* NULL unless missing */
};

/* The outcome of one request to one host. */
enum rota_get_outcome {
    ROTA_GET_TRY_WON,       /* some of its values came first */
    ROTA_GET_TRY_LATE,      /* answered after others had */
    ROTA_GET_TRY_CANCELLED, /* no longer needed, not yet answered */
    ROTA_GET_TRY_FAILED,    /* `text` says how */
    ROTA_GET_TRY_TIMED_OUT,
    ROTA_GET_TRY_WRONG_SHARD, /* the host does not hold the expected shard */
    ROTA_GET_TRY_STALE,       /* the answer was for a claim that is over */
};

struct rota_get_try {
    struct rota_str host, dc;
    size_t n_keys;
    rota_time started, elapsed; /* since the start of the Get; duration of the try so far */
    enum rota_get_outcome outcome;
    struct rota_str text;
};

/* "timed out" for ROTA_GET_TRY_TIMED_OUT. Any thread. */
const char *rota_get_outcome_name(enum rota_get_outcome outcome);

/* The result of a Get. Borrowed during on_done. */
struct rota_get_result {
    enum rota_code code; /* ROTA_OK: no key is missing; else UNAVAILABLE or NO_MEMORY */
    const char *text;    /* which keys are missing and why; "" if none */
    const struct rota_get_item *items; /* one per key, in the order of the request */
    size_t n_items, n_missing;
    /* In the order of their start; only the first ones of very many. */
    const struct rota_get_try *tries;
    size_t n_tries;
    rota_time elapsed;
};

struct rota_get_request {
    const void *keys;  /* kept until on_done, with everything they point to */
    size_t n_keys;     /* 0 succeeds; a key may occur more than once */
    rota_time timeout; /* 0 means as in the options */
    /* The only callback; required. */
    void (*on_done)(void *data, const struct rota_get_result *result);
    void *data; /* kept */
};

/* Starts a Get. It ends with on_done as soon as each key has an answer, at the latest after
 * `timeout`. Gives `*run`, unless `run` is NULL; it is valid until on_done or rota_get_cancel(). */
enum rota_code rota_get_start(struct rota_get *get, const struct rota_get_request *request,
                              struct rota_get_run **run, struct rota_error *error);

/* Cancels a Get, on the hosts too. Takes `run`; no callback is called afterwards. */
void rota_get_cancel(struct rota_get_run *run);

/* A host as this client sees it. */
struct rota_get_view {
    struct rota_str address, dc;
    const struct rota_interval_claim *shards; /* that it holds, as its last answer says */
    size_t n_shards;
    bool is_connected;

    /* This client's requests to the host, without pings. Cancelled requests count neither as failed
     * nor in the latencies. A hedge was sent because another host was slow, and won if its answer
     * was the first. */
    uint64_t n_calls, n_failed, n_cancelled, n_hedges, n_hedges_won;
    size_t n_running;
    uint64_t latencies[ROTA_BALANCER_LATENCIES]; /* of answers; buckets as in
                                                    <rota/experimental/balancer.h> */
    int64_t score;                               /* as the balancer sees it; 0: none yet */
    enum rota_circuit circuit;
};

/* Iterates over the hosts, unordered: start with *place = 0; false after the last. The hosts must
 * not change meanwhile. */
bool rota_get_next_host(const struct rota_get *get, size_t *place, struct rota_get_view *view);

/* All metrics, of its own registry or the given one, in Prometheus text format. Gives a string;
 * free it with free(). NULL if out of memory. */
char *rota_get_metrics(struct rota_get *get);

/* For simple programs: a Get that runs the loop until it is done. The callback of `request` is not
 * used. Gives `*result`, even if its code, which is also returned, is not ROTA_OK; free it with
 * rota_get_result_free(). `*result` is NULL if there is no result. ROTA_ERR_INVALID from inside a
 * callback. */
enum rota_code rota_get_wait(struct rota_get *get, const struct rota_get_request *request,
                             struct rota_get_result **result, struct rota_error *error);
void rota_get_result_free(struct rota_get_result *result);

/* --- the server --- */

struct rota_get_server_options {
    const struct rota_get_service *service; /* copied; NULL means rota_get_cache() */

    /* Answers a batch: call rota_get_batch_put() for each key that has a value, then
     * rota_get_batch_finish(), now or later. There is at least one key, and all are of shards that
     * are held. */
    void (*on_batch)(void *data, struct rota_get_batch *batch);

    /* The client no longer wants the answer: it cancelled, or its deadline passed. You must still
     * finish the batch. May be NULL. */
    void (*on_cancel)(void *data, struct rota_get_batch *batch);

    /* Whether this process still holds the shard under `epoch`. Called for each shard before a
     * batch starts and again before its answer is sent, so that a process that was paused does not
     * answer for a shard that it has lost: check the lease or the claims here. NULL: it is held
     * until rota_get_server_drop(). */
    bool (*is_held)(void *data, const struct rota_interval *shard, uint64_t epoch);
    void *data; /* kept */

    size_t message_max;           /* bytes of a response; 0 means 4 MiB */
    struct rota_metrics *metrics; /* kept; NULL means none */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Serves the method of a service on `server`, which is kept. The limits are those of the server
 * (<rota/server.h>): handlers_max bounds concurrent batches, waiting_max those that wait. No shard
 * is held yet. Gives `*get_server`; close it with rota_get_server_close(), after the server. You
 * must still finish open batches then. */
enum rota_code rota_get_server_open(struct rota_server *server,
                                    const struct rota_get_server_options *options,
                                    struct rota_get_server **get_server, struct rota_error *error);
void rota_get_server_close(struct rota_get_server *get_server);

/* Answers for this shard, too, from now on; or under another epoch, if it is held already: then
 * open batches of the former epoch are answered as not matched. ROTA_ERR_INVALID for an empty
 * interval (such as one with shards = 0) and for an epoch below the one that the same shard had
 * here; ROTA_ERR_LIMIT above ROTA_GET_SHARDS_MAX. */
enum rota_code rota_get_server_hold(struct rota_get_server *get_server,
                                    const struct rota_interval *shard, uint64_t epoch,
                                    struct rota_error *error);

/* Holds this shard no longer, or no shard at all if it is NULL. Open batches with a key of it are
 * answered as not matched. */
void rota_get_server_drop(struct rota_get_server *get_server, const struct rota_interval *shard);

/* --- a batch, for read_request and on_batch --- */

/* For read_request: adds a key. Returns `key_size` zeroed bytes to fill in; NULL if there are too
 * many keys or memory is out, which the server detects itself. */
void *rota_get_batch_add(struct rota_get_batch *batch);

/* For read_request: the client accepts problems, so that one key that cannot be answered does not
 * affect the others. Without it such a key fails the whole batch. */
void rota_get_batch_allow_problems(struct rota_get_batch *batch);

/* Copies what a key or a value points to; the copy lives as long as the batch. Empty if out of
 * memory; the batch is then answered with an error. */
struct rota_str rota_get_batch_copy(struct rota_get_batch *batch, struct rota_str bytes);

size_t rota_get_batch_n_keys(const struct rota_get_batch *batch);
/* The keys are an array, like those of a Get. */
const void *rota_get_batch_key(const struct rota_get_batch *batch, size_t index);

/* The client's metadata under this name; false: none. */
bool rota_get_batch_metadata(const struct rota_get_batch *batch, const char *name,
                             struct rota_str *value);

/* Sets the value of a key, kept until the batch is finished. A key without a value is absent. The
 * last value set counts. */
void rota_get_batch_put(struct rota_get_batch *batch, size_t index, struct rota_str value);

/* The key cannot be answered by any host, for example because its value is too large. The client
 * gets `text`, which is copied, and does not ask again. */
void rota_get_batch_refuse(struct rota_get_batch *batch, size_t index, const char *text);

/* The answer is full: the client asks again for keys that have neither a value nor a refusal by
 * now. At least one key must have one. The server does the same with values that do not fit into a
 * response. */
void rota_get_batch_leave_rest(struct rota_get_batch *batch);

/* The shard of a key of the batch, with the epoch under which it is held. */
const struct rota_interval_claim *rota_get_batch_shard(const struct rota_get_batch *batch,
                                                       size_t index);

/* How long the client still waits; ROTA_TIME_NEVER if it has no deadline. */
rota_time rota_get_batch_time_left(const struct rota_get_batch *batch);

/* Whether the answer is no longer wanted, or one of its shards no longer held. */
bool rota_get_batch_is_cancelled(const struct rota_get_batch *batch);

void rota_get_batch_set_data(struct rota_get_batch *batch, void *data);
void *rota_get_batch_data(const struct rota_get_batch *batch);

/* Sends the answer. Takes `batch`. */
void rota_get_batch_finish(struct rota_get_batch *batch);

/* Fails the batch: the client asks another host. Takes `batch`. */
void rota_get_batch_fail(struct rota_get_batch *batch, enum rota_status status, const char *text);

#ifdef __cplusplus
}
#endif
