/* broker_errand: a call that this node answers with the help of other nodes.
 *
 * An errand has a part for each node that is asked. When all parts have ended, on_done combines
 * them into one answer. If the caller disconnects before that, the parts are dropped.
 *
 * An errand for a stream forwards each message as it arrives, from any part. */
#pragma once

#include "base/buffer.h"
#include "base/list.h"
#include "core/work/cluster/front_fsm.h"

#include <rota/experimental/channel.h>
#include <rota/ring.h>
#include <rota/server.h>

enum { ROTA_BROKER_ERRAND_TEXT_MAX = ROTA_ERROR_TEXT_MAX };

struct rota_broker_errand;
struct rota_broker_method;
struct rota_broker_request;
struct rota_work_broker;

struct rota_broker_part {
    struct rota_broker_errand *errand;
    struct rota_call *call; /* NULL: not asked, or it has ended */
    enum rota_status status;
    bool is_stale;              /* the node reports that it does not have the partition */
    bool is_undone;             /* certainly nothing was done there */
    bool has_nodes;             /* it has reported ... */
    uint64_t nodes;             /* ... the hash of the nodes that it knows to hold jobs */
    uint64_t view;              /* of a rejection: the number of the view there; 0: not known */
    bool has_sent;              /* it sent a message of a stream */
    struct rota_buffer message; /* the reply; of a stream: bytes for which there was no room */
    char text[ROTA_BROKER_ERRAND_TEXT_MAX];
    char address[ROTA_ADDRESS_MAX + 1];
    char owner[ROTA_ADDRESS_MAX + 1]; /* that a rejection names, or empty */
};

struct rota_broker_errand {
    struct rota_work_broker *broker;
    struct rota_server_call *call; /* the key in `errands` */
    const char *method;            /* kept */
    void (*on_done)(struct rota_broker_errand *errand);
    bool is_stream, ends_with_first;     /* done when one part has ended */
    rota_time timeout_max;               /* of a part; 0: ROTA_BROKER_CLUSTER_TIMEOUT */
    uint32_t *parts_of;                  /* of a batch: which part has which job; freed */
    struct rota_broker_request *request; /* kept, when on_done needs it; freed */
    struct rota_front_search search;     /* of an add whose job is searched */
    uint64_t rank, max; /* of a list: the node that is asked, and how many jobs are still wanted */
    bool has_answer;    /* ... and whether any node has answered */
    bool is_dry_run;    /* of a deletion */
    struct rota_buffer reply;
    const struct rota_broker_method *of; /* of a call that may begin again ... */
    struct rota_front_call front;        /* ... in this state */
    struct rota_list_node link;          /* in `parked` */
    size_t n_parts, n_left;
    struct rota_broker_part parts[];
};

/* Takes `call`, unless it returns NULL for lack of memory. It has `n_parts`, none of them asked. */
struct rota_broker_errand *rota_work_broker_errand_new(
    struct rota_work_broker *broker, struct rota_server_call *call, const char *method,
    size_t n_parts, void (*on_done)(struct rota_broker_errand *errand));

/* Ask a node. A part that can't be sent has ended with UNAVAILABLE. */
void rota_work_broker_errand_ask(struct rota_broker_errand *errand, size_t index,
                                 struct rota_str address, struct rota_str request);

/* All are asked. on_done may be called from inside. */
void rota_work_broker_errand_begin(struct rota_broker_errand *errand);

/* Answer and free it: with a reply, with the result of one part, or with a rejection. */
void rota_work_broker_errand_reply(struct rota_broker_errand *errand, struct rota_str message);
void rota_work_broker_errand_pass(struct rota_broker_errand *errand,
                                  const struct rota_broker_part *part);
void rota_work_broker_errand_refuse(struct rota_broker_errand *errand, enum rota_status status,
                                    const char *text, bool is_stale, bool is_undone);

/* ... for a reason of front_fsm; `text` replaces that of the reason, unless it is NULL. */
void rota_work_broker_errand_refuse_for(struct rota_broker_errand *errand,
                                        enum rota_front_reason reason, const char *text);

/* Free it without answering its call: gives the call. */
struct rota_server_call *rota_work_broker_errand_end(struct rota_broker_errand *errand);

/* The caller has disconnected, or has room again; false when the call is not an errand. */
bool rota_work_broker_errand_cancel(struct rota_work_broker *broker, struct rota_server_call *call);
bool rota_work_broker_errand_room(struct rota_work_broker *broker, struct rota_server_call *call);

/* The broker stops: all are rejected. */
void rota_work_broker_errand_end_all(struct rota_work_broker *broker);
