/* Get: the values of many keys, from a service whose shards stand in several data
 * centres.
 *
 * A service is described once, by struct rota_get_service: what a key is, which shard
 * it belongs to, and how keys and values become the messages of its own .proto. The
 * client asks every shard that has some of the keys, in one or all data centres, and
 * takes for each key the answer that comes first; the server's frame sees to it that
 * only keys of the shard which is held now are answered. rota_get_cache() is a ready
 * description, of rota.v1.Cache, for keys and values that are plain bytes.
 * docs/get.md tells the whole, and what is promised under which faults.
 *
 * A key that has no value is answered too: its absence is the answer. What nobody
 * has answered is missing, and a Get with a missing key has failed.
 *
 * All of it lives on the loop's thread. The callbacks of client and server come from
 * the loop, never from inside a function of this header, and may use any function
 * here but the one that waits; those of a service are called at any time, and may use
 * only what is for them. */
#pragma once

#include <rota/balancer.h>
#include <rota/error.h>
#include <rota/interval.h>
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
    ROTA_GET_RUNS_MAX = 65536,    /* Gets that have not ended */
    ROTA_GET_HOSTS_MAX = 4096,    /* of one service; more are left out */
    ROTA_GET_NAME_MAX = 255,      /* bytes of a data centre's name */
    ROTA_GET_KEY_SIZE_MAX = 1024, /* bytes of a key's struct */
};

/* --- a service --- */

/* A key of the shard that a response does not answer. */
struct rota_get_problem {
    uint64_t id;
    struct rota_str text; /* why it can't be; empty: there was no room, it is asked for again */
};

/* What a response says beside its values. */
struct rota_get_head {
    struct rota_interval shard; /* the answerer's */
    uint64_t epoch;             /* of its claim; 0: it has none */
    bool has_shard;             /* false: it holds nothing now */
    bool all_matched;           /* false: a key is not of this shard; there are no values */
    const struct rota_get_problem *problems; /* of a response that is written */
    size_t n_problems;
};

struct rota_get_entry {
    uint64_t id;
    struct rota_str value;
};

/* Keys are structs of the program's, `key_size` bytes each, one after the other. A
 * program that only asks leaves out what only a server needs, and the other way round.
 * Those that return a code say why in `error`; they are given bytes of strangers. */
struct rota_get_service {
    const char *method; /* "/package.Service/Method"; kept */
    size_t key_size;
    void *data; /* kept; of the functions below */

    /* Which shard a key belongs to: any number, the same on both sides. */
    uint64_t (*sharding_key)(void *data, const void *key);

    /* The number under which the key's value comes back, different for different keys
     * of one request. NULL means the key's place in its request: 0, 1, 2. */
    uint64_t (*entry_id)(void *data, const void *key);

    /* Write how the key is shown in errors, with a final NUL. NULL means its place in
     * the Get. */
    void (*name_key)(void *data, const void *key, char *text, size_t size);

    /* Client: write a request for these keys, in this order; `epoch` is that of the
     * claim it was routed by, 0 when it is not known. There may be no key: such a
     * request asks for the shard alone. */
    enum rota_code (*write_request)(void *data, const void *const *keys, size_t n_keys,
                                    uint64_t epoch, struct rota_get_writer *writer,
                                    struct rota_error *error);

    /* Client: read a response: fill in `head`, which is zeroed, and call
     * rota_get_read() for each entry and rota_get_read_problem() for each problem, if the
     * service has them. When all matched, a key with neither has no value. */
    enum rota_code (*read_response)(void *data, struct rota_str response,
                                    struct rota_get_head *head, struct rota_get_reader *reader,
                                    struct rota_error *error);

    /* Server: read a request: call rota_get_batch_add() for each key, in order, and
     * rota_get_batch_allow_problems() if the client minds them. The request is valid as
     * long as the batch. `*epoch` is 0 when it says none. */
    enum rota_code (*read_request)(void *data, struct rota_str request,
                                   struct rota_get_batch *batch, uint64_t *epoch,
                                   struct rota_error *error);

    /* Server: write a response: an entry for each key that has a value, none at all
     * when not all matched. The head has the problems: none, unless they are allowed. */
    enum rota_code (*write_response)(void *data, const struct rota_get_head *head,
                                     const struct rota_get_entry *entries, size_t n_entries,
                                     struct rota_get_writer *writer, struct rota_error *error);
};

/* rota.v1.Cache/Get: a key is a struct rota_str, a value is bytes. Any thread. */
const struct rota_get_service *rota_get_cache(void);

/* The sharding key of rota_get_cache(), FarmHash's Fingerprint32, fixed for ever: for
 * services that want keys of text or bytes spread evenly. Any thread. */
uint64_t rota_get_hash(struct rota_str key);

/* Room for `size` more bytes of the message, to be filled in at once; NULL when there
 * is no memory, which the caller of the service's function sees by itself. */
void *rota_get_write(struct rota_get_writer *writer, size_t size);

/* Append one field of a protobuf message: a number (uint64, uint32, bool, enum), or bytes (bytes,
 * string, an embedded message that was packed before). Call it once for each element of a repeated
 * field; so no array of all elements is needed. `field` is its number in the .proto file. */
void rota_get_write_number(struct rota_get_writer *writer, uint32_t field, uint64_t value);
void rota_get_write_bytes(struct rota_get_writer *writer, uint32_t field, struct rota_str value);

/* Somebody's answer for the key with this id. A value inside the response is kept by
 * reference, any other is copied. An id that was not asked for is left aside. */
void rota_get_read(struct rota_get_reader *reader, const struct rota_get_entry *entry);

/* The key with this id is not answered, and why; the text is treated as a value is. */
void rota_get_read_problem(struct rota_get_reader *reader, const struct rota_get_problem *problem);

/* --- the client --- */

/* The metadata by which a call names its collection, where a server has several. */
#define ROTA_GET_COLLECTION "rota-collection"

/* How many replicas of a shard are asked. */
enum rota_get_mode {
    ROTA_GET_MODE_ADAPTIVE,  /* all where that is quicker and there is room, else as hedge */
    ROTA_GET_MODE_BROADCAST, /* all at once */
    ROTA_GET_MODE_HEDGE,     /* one, and another when it takes longer than usual */
};
enum { ROTA_GET_MODES = 3 };

/* "adaptive", "broadcast", "hedge". Parsing refuses other names. Any thread. */
const char *rota_get_mode_name(enum rota_get_mode mode);
enum rota_code rota_get_mode_parse(struct rota_str name, enum rota_get_mode *mode,
                                   struct rota_error *error);

struct rota_get_host {
    struct rota_str address; /* "host:port" */
    struct rota_str dc;      /* its data centre; empty: "default" */
};

/* Zero means the default. */
struct rota_get_options {
    const struct rota_get_service *service; /* copied; NULL means rota_get_cache() */

    /* Where the hosts come from; one of these. */
    const char *hosts_file;            /* as of `rota hosts`; a host's zone is its data centre */
    struct rota_members *members;      /* kept, and closed later; as the program knows it */
    const struct rota_get_host *hosts; /* copied; these, until rota_get_set_hosts() */
    size_t n_hosts;
    /* Asked every ping period; answers with rota_get_set_hosts(), at once or later. */
    void (*ask_hosts)(void *data, struct rota_get *get);
    void *data; /* kept */

    const char *collection; /* kept; said with each call; NULL: servers have one, or know which */
    enum rota_get_mode mode;
    rota_time timeout;      /* of a Get that does not say; 5 s */
    rota_time host_timeout; /* of one try; 1 s */
    int32_t retries;        /* on one host after a failure; 1, negative: none */
    rota_time ping_period;  /* 1 s */
    size_t message_max;     /* bytes of a response; 4 MiB */

    struct rota_tls *tls;         /* kept; NULL means plain text */
    bool insecure;                /* plain text to other machines too */
    struct rota_metrics *metrics; /* kept; NULL means its own */
    uint64_t seed;                /* of chance; 0 means from the clock */
};

/* Gives `*get`; rota_get_close() ends it. The hosts are asked for their shards from
 * now on; a Get that comes before the answers waits for them. */
enum rota_code rota_get_open(struct uv_loop_s *loop, const struct rota_get_options *options,
                             struct rota_get **get, struct rota_error *error);

/* Takes `get`, which may be NULL. What runs is dropped; no callback comes after. The
 * loop has to run once more to free everything. */
void rota_get_close(struct rota_get *get);

/* These are the hosts now; copied. A bad address or a repeated one is refused, and
 * all stays as it was. */
enum rota_code rota_get_set_hosts(struct rota_get *get, const struct rota_get_host *hosts,
                                  size_t n_hosts, struct rota_error *error);

enum rota_get_state {
    ROTA_GET_KEY_MISSING, /* nobody has answered; `reason` tells why */
    ROTA_GET_KEY_FOUND,
    ROTA_GET_KEY_ABSENT, /* answered: there is no value */
};

/* What became of one key. */
struct rota_get_item {
    enum rota_get_state state;
    struct rota_str value;
    struct rota_str host;       /* who answered; empty when it is missing */
    struct rota_interval shard; /* that it held, under this epoch */
    uint64_t epoch;
    rota_time elapsed;  /* from the start of the Get to this answer */
    const char *reason; /* NULL when it is not missing */
};

/* What became of one request to one host. */
enum rota_get_outcome {
    ROTA_GET_TRY_WON,       /* some of its values were the first */
    ROTA_GET_TRY_LATE,      /* it has answered, after others had */
    ROTA_GET_TRY_CANCELLED, /* it had not answered when it was no longer needed */
    ROTA_GET_TRY_FAILED,    /* `text` tells how */
    ROTA_GET_TRY_TIMED_OUT,
    ROTA_GET_TRY_WRONG_SHARD, /* it does not have the shard that it was thought to have */
    ROTA_GET_TRY_STALE,       /* it answered for a claim that is over */
};

struct rota_get_try {
    struct rota_str host, dc;
    size_t n_keys;
    rota_time started, elapsed; /* since the start of the Get; what the try took so far */
    enum rota_get_outcome outcome;
    struct rota_str text;
};

/* "timed out" for ROTA_GET_TRY_TIMED_OUT. Any thread. */
const char *rota_get_outcome_name(enum rota_get_outcome outcome);

/* How a Get ended. Borrowed during on_done. */
struct rota_get_result {
    enum rota_code code; /* ROTA_OK: no key is missing; else UNAVAILABLE, or NO_MEMORY */
    const char *text;    /* which keys are missing and why; "" when none is */
    const struct rota_get_item *items; /* one of each key, as they were asked for */
    size_t n_items, n_missing;
    const struct rota_get_try *tries; /* as they were begun; the first ones of very many */
    size_t n_tries;
    rota_time elapsed;
};

struct rota_get_request {
    const void *keys;  /* kept until on_done, and with them what they point to */
    size_t n_keys;     /* may be 0: that succeeds; a key may come more than once */
    rota_time timeout; /* 0 means that of the options */
    void (*on_done)(void *data, const struct rota_get_result *result); /* the only one; needed */
    void *data;                                                        /* kept */
};

/* Start a Get; it ends with on_done as soon as each key has its answer, and at the
 * latest after `timeout`. Gives `*run`, which may be NULL if it is not wanted; it is
 * gone after on_done or rota_get_cancel(). */
enum rota_code rota_get_start(struct rota_get *get, const struct rota_get_request *request,
                              struct rota_get_run **run, struct rota_error *error);

/* Drop it, on the hosts too. Takes `run`; no callback comes after. */
void rota_get_cancel(struct rota_get_run *run);

/* What is known of a host. */
struct rota_get_view {
    struct rota_str address, dc;
    bool has_shard; /* has answered, and holds one */
    struct rota_interval shard;
    uint64_t epoch;
    bool is_connected;

    /* Our requests to it, pings apart. Those that were cancelled have neither failed nor a
     * latency; hedges were sent because another host was slow, and have won when theirs was
     * the first answer. */
    uint64_t n_calls, n_failed, n_cancelled, n_hedges, n_hedges_won;
    size_t n_running;
    uint64_t latencies[ROTA_BALANCER_LATENCIES]; /* of answers; buckets as of <rota/balancer.h> */
    int64_t score;                               /* what the balancer sees; 0: nothing yet */
    enum rota_circuit circuit;
};

/* The hosts, in no useful order: start with *place = 0; false ends it. They must not
 * change meanwhile. */
bool rota_get_next_host(const struct rota_get *get, size_t *place, struct rota_get_view *view);

/* All metrics, those of its own registry or of the one given, as Prometheus' text.
 * Gives a text that free() ends; NULL when there is no memory. */
char *rota_get_metrics(struct rota_get *get);

/* For simple programs: a Get that runs the loop until it is done; the callback of
 * `request` is not used. Gives `*result`, also when its code is not ROTA_OK, which is
 * then returned too; rota_get_result_free() ends it. Without a result, `*result` is
 * NULL. ROTA_ERR_INVALID from inside a callback. */
enum rota_code rota_get_wait(struct rota_get *get, const struct rota_get_request *request,
                             struct rota_get_result **result, struct rota_error *error);
void rota_get_result_free(struct rota_get_result *result);

/* --- the server --- */

struct rota_get_server_options {
    const struct rota_get_service *service; /* copied; NULL means rota_get_cache() */

    /* Answer a batch: rota_get_batch_put() for each key that has a value, then
     * rota_get_batch_finish(), now or later. All keys are of the shard that is held,
     * and there is at least one. */
    void (*on_batch)(void *data, struct rota_get_batch *batch);

    /* The answer is not wanted any more: dropped by the client, or too late. The batch
     * is still to be finished. May be NULL. */
    void (*on_cancel)(void *data, struct rota_get_batch *batch);

    /* Is the shard, held since `epoch`, still ours? Asked before a batch is begun and
     * again before its answer leaves, so that a process which was stopped does not
     * answer for what it has lost meanwhile: ask the lease or the claims here. May be
     * NULL: it is ours until rota_get_server_drop(). */
    bool (*is_held)(void *data, const struct rota_interval *shard, uint64_t epoch);
    void *data; /* kept */

    size_t message_max;           /* bytes of a response; 0 means 4 MiB */
    struct rota_metrics *metrics; /* kept; NULL means none */
};

/* Serve the method of a service on `server`, which is kept and has its own options
 * for what clients can take (<rota/server.h>): handlers_max bounds the batches that
 * are answered at one time, waiting_max those that wait. Nothing is held yet. Gives
 * `*get_server`; rota_get_server_close() ends it, after the server was closed.
 * Batches that are not finished then still have to be. */
enum rota_code rota_get_server_open(struct rota_server *server,
                                    const struct rota_get_server_options *options,
                                    struct rota_get_server **get_server, struct rota_error *error);
void rota_get_server_close(struct rota_get_server *get_server);

/* Answer for this shard from now on, in place of the one before, if any: one server
 * holds one shard, so a process with more of them opens a server for each, with its
 * own address. Batches that were begun for another shard or epoch will be answered as
 * not matched. ROTA_ERR_INVALID for an empty interval (of shards = 0, say) and for an
 * epoch below the one that the same shard had here. */
enum rota_code rota_get_server_hold(struct rota_get_server *get_server,
                                    const struct rota_interval *shard, uint64_t epoch,
                                    struct rota_error *error);

/* Hold nothing: every Get is answered with all_matched = false and no shard. */
void rota_get_server_drop(struct rota_get_server *get_server);

/* --- a batch, for read_request and on_batch --- */

/* For read_request: one more key; NULL for one too many or when there is no memory,
 * which the frame sees by itself. Returns `key_size` zeroed bytes to be filled in. */
void *rota_get_batch_add(struct rota_get_batch *batch);

/* For read_request: the client minds problems, so that one key which can't be answered
 * does no harm to the others. Without it the whole batch fails for it. */
void rota_get_batch_allow_problems(struct rota_get_batch *batch);

/* A copy that lives as long as the batch: of what a key or a value points to. Empty
 * when there is no memory, and the batch is then answered with an error. */
struct rota_str rota_get_batch_copy(struct rota_get_batch *batch, struct rota_str bytes);

size_t rota_get_batch_n_keys(const struct rota_get_batch *batch);
/* One after the other, like those of a Get. */
const void *rota_get_batch_key(const struct rota_get_batch *batch, size_t index);

/* What the client has sent along under this name; false: nothing. */
bool rota_get_batch_metadata(const struct rota_get_batch *batch, const char *name,
                             struct rota_str *value);

/* The value of a key, kept until the batch is finished. A key without one is absent.
 * A later value of the same key counts. */
void rota_get_batch_put(struct rota_get_batch *batch, size_t index, struct rota_str value);

/* The key can't be answered, whoever is asked: its value is too large, say. The client
 * is told `text`, which is copied, and does not ask again. */
void rota_get_batch_refuse(struct rota_get_batch *batch, size_t index, const char *text);

/* No more fits into the answer: what has got neither value nor refusal by now is asked
 * for again when this is sent. There is at least one key that has. The frame does the
 * same with values for which a response has no room. */
void rota_get_batch_leave_rest(struct rota_get_batch *batch);

/* The shard that the batch is for, and how long the client still waits
 * (ROTA_TIME_NEVER when it does not say). */
const struct rota_interval *rota_get_batch_shard(const struct rota_get_batch *batch,
                                                 uint64_t *epoch);
rota_time rota_get_batch_time_left(const struct rota_get_batch *batch);

/* Its answer is not wanted any more, or the shard is no longer held. */
bool rota_get_batch_is_cancelled(const struct rota_get_batch *batch);

void rota_get_batch_set_data(struct rota_get_batch *batch, void *data);
void *rota_get_batch_data(const struct rota_get_batch *batch);

/* Send the answer. Takes `batch`. */
void rota_get_batch_finish(struct rota_get_batch *batch);

/* Give up on it: the client asks another host. Takes `batch`. */
void rota_get_batch_fail(struct rota_get_batch *batch, enum rota_status status, const char *text);

#ifdef __cplusplus
}
#endif
