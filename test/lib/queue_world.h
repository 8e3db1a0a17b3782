/* A broker and its clients, on one loop, over real gRPC. */
#pragma once

#include "await.h"

#include "base/arena.h"
#include "wire/message/queue_message.h"

#include <rota/experimental/broker.h>
#include <rota/experimental/channel.h>
#include <rota/server.h>
#include <rota/store.h>

struct world {
    uv_loop_t loop;
    struct rota_server *server;
    struct rota_work_broker *broker;
    struct rota_channel *channel;
    struct rota_arena arena;
    const char *settings_url; /* of the store of settings, set before; NULL: none */
    struct rota_store *settings;
};

/* How a call went. */
struct told {
    size_t n_ends, n_messages;
    enum rota_status status;
    char text[256], failure[32];
    char message[1 << 16];
    size_t size;
};

/* A broker that serves at a port of its own, and a channel to it. */
void world_open(struct world *world, const struct rota_work_broker_options *options);

void world_close(struct world *world);
struct rota_call *start_raw(struct world *world, const char *method, struct rota_str request,
                            bool is_stream, struct told *told);
struct rota_call *start(struct world *world, const char *method,
                        const struct rota_message_type *type, const void *message,
                        struct told *told);
enum rota_status ask(struct world *world, const char *method, const struct rota_message_type *type,
                     const void *message, struct told *told);
void read_reply(struct world *world, const struct rota_message_type *type, const struct told *told,
                void *message);

struct name {
    char bytes[ROTA_QUEUE_ID_SIZE];
};

struct rota_str id_of(const struct name *name);
enum rota_status add(struct world *world, struct rota_queue_job_spec spec, struct name *name,
                     bool *is_new, struct told *told);
struct name must_add(struct world *world, const char *queue, const char *payload);

extern const struct rota_str JOBS;

struct rota_queue_poll a_poll(uint64_t max_jobs, uint64_t wait_ms);

/* Poll; returns how many jobs came, the first of them in `*first`. */
size_t poll_jobs(struct world *world, uint64_t max_jobs, uint64_t wait_ms, struct told *told,
                 struct rota_queue_handed *first);

enum rota_status complete(struct world *world, const struct rota_queue_handed *job,
                          const char *result, struct told *told);
struct rota_queue_job_info describe(struct world *world, const struct name *name,
                                    struct told *told);
