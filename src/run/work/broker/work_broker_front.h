/* broker_front: the front door of a broker: each call of rota.v1.Queue is decoded once, front_fsm
 * says which node answers it, and it is handled here, carried to other nodes, or kept until it can
 * be.
 *
 * A request is in the memory of the call and in the arena of the front door, which is cleared with
 * the next one. One that has to wait is *kept*: it takes the arena with it. */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/list.h"
#include "base/map.h"
#include "core/work/cluster/front_fsm.h"
#include "wire/message/queue_message.h"

#include <rota/server.h>

struct rota_broker_method;
struct rota_work_broker;

struct rota_broker_request {
    struct rota_work_broker *broker;
    const struct rota_broker_method *method;
    struct rota_server_call *call;
    struct rota_front_call front;
    struct rota_arena arena; /* of a kept one: its messages */

    /* Jobs to be added: the messages, and what is decided about each. */
    struct rota_queue_job_spec *specs;
    struct rota_front_new *jobs;
    size_t n_jobs;

    union { /* by the type of its method; those of operators begin with a name */
        struct rota_queue_add add;
        struct rota_queue_list list;
        struct rota_queue_about about;
        struct rota_queue_list_request jobs_of;
        struct rota_queue_page page;
        struct rota_queue_setting setting;
        struct rota_queue_poll poll;
        struct rota_queue_word word;
        struct rota_queue_adopt adopt;
        struct rota_queue_forget forget;
        struct rota_queue_delete delete;
        struct rota_queue_holders holders;
        struct rota_queue_lay_out lay_out;
        struct rota_queue_changed changed;
    } as;
};

/* A method: answers the call, which it takes. The request is borrowed. */
typedef void rota_broker_handler(struct rota_broker_request *request);

/* The data of a method's callbacks. */
struct rota_broker_service {
    struct rota_work_broker *broker;
    const struct rota_broker_method *method;
};

enum { ROTA_BROKER_METHODS = 29 };

struct rota_broker_front {
    struct rota_front_fsm fsm;
    struct rota_broker_service services[ROTA_BROKER_METHODS];
    struct rota_map errands; /* by call: those that other nodes answer */
    struct rota_refresh refresh;
    struct rota_list_node parked; /* errands: calls that wait for a later view */
    uint64_t call_first;          /* the first record that the current call may have to wait for */
    struct rota_arena arena;      /* of one request */
    struct rota_buffer buffer;    /* of one reply */
};

/* --- work_broker_front.c --- */

/* The broker has its core, its cluster and, if jobs are there, its store. */
enum rota_code rota_work_broker_front_open(struct rota_work_broker *broker,
                                           struct rota_server *server, struct rota_error *error);
void rota_work_broker_front_deinit(struct rota_broker_front *front);

/* Keep a request beyond its handler; NULL without memory. Its call is not answered yet: either the
 * request begins again, or it is dropped and the call answered by other means. Both take it. */
struct rota_broker_request *rota_work_broker_front_keep(struct rota_broker_request *request);
void rota_work_broker_front_resume(struct rota_broker_request *kept);
void rota_work_broker_front_drop(struct rota_broker_request *kept); /* may be NULL */

/* Begin with a call, as if it had just arrived; or once more, in another state. Takes the call. */
void rota_work_broker_front_begin(struct rota_work_broker *broker,
                                  const struct rota_broker_method *method,
                                  struct rota_server_call *call,
                                  const struct rota_front_call *front);

/* Decide where job `index` goes. An error: it is refused for that. */
enum rota_code rota_work_broker_front_route(struct rota_broker_request *request, size_t index,
                                            struct rota_front_action *action,
                                            struct rota_error *error);

/* --- work_broker_route.c: other nodes answer, as `action` says. All take the call --- */

void rota_work_broker_route_job(struct rota_broker_request *request,
                                const struct rota_front_action *action);
void rota_work_broker_route_add(struct rota_broker_request *request, struct rota_str owner);

/* A batch, one part for each owner. `actions` has one for each job; a job that can't be placed has
 * REFUSE. */
void rota_work_broker_route_batch(struct rota_broker_request *request,
                                  const struct rota_front_action *actions);

/* --- work_broker_again.c --- */

/* Some of the jobs may have been added before: ask all nodes, then begin again. Takes the call. */
void rota_work_broker_again_search(struct rota_broker_request *request);

/* Answer which of the jobs are here. */
rota_broker_handler rota_work_broker_again_find;
