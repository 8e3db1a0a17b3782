/* The methods of a broker. */
#include "run/work/broker/work_broker_method.h"

#include "run/work/broker/work_broker_poll.h"
#include "run/work/broker/work_broker_watch.h"
#include "run/work/cluster/work_broker_forward.h"
#include "run/work/cluster/work_broker_handover.h"
#include "run/work/cluster/work_broker_layout.h"
#include "run/work/cluster/work_broker_refresh.h"
#include "run/work/cluster/work_broker_rows.h"
#include "run/work/cluster/work_broker_settings.h"

#define METHOD(name, by_whom, of_type, handler)                                                    \
    .path = "/rota.v1.Queue/" name, .by = ROTA_BROKER_BY_##by_whom, .type = (of_type),             \
    .handle = (handler)
#define GATHERED(function, which, needs)                                                           \
    .gather = (function), .others = ROTA_FRONT_##which, .needs_jobs = (needs)

/* These change how the cluster works; a node passes them on to others. */
#define FOR_OPERATORS .roles = (ROTA_ROLE_OPERATOR | ROTA_ROLE_NODE)

/* Only nodes call these. */
#define PEER(name, of_type, handler)                                                               \
    .path = "/rota.peer.v1.QueuePeer/" name, .by = ROTA_BROKER_BY_THIS, .type = (of_type),         \
    .handle = (handler), .roles = ROTA_ROLE_NODE

/* Jobs that are not loaded yet would not be seen. */
enum { LOADED = true, ANY = false };

const struct rota_broker_method rota_broker_method_all[] = {
    {METHOD("Add", OWNER_OF_NEW, &ROTA_QUEUE_ADD, rota_work_broker_submit_add)},
    {METHOD("AddBatch", OWNER_OF_NEW, &ROTA_QUEUE_ADD_BATCH, rota_work_broker_submit_add_batch)},
    {PEER("Adopt", &ROTA_QUEUE_ADOPT, rota_work_broker_handover_adopt)},
    {METHOD("Cancel", OWNER, &ROTA_QUEUE_NAME, rota_work_broker_submit_cancel)},
    {PEER("Changed", &ROTA_QUEUE_CHANGED, rota_work_broker_rows_hint_changed)},
    {METHOD("Complete", OWNER, &ROTA_QUEUE_COMPLETE, rota_work_broker_attempt_complete)},
    {METHOD("CompleteBatch", THIS, &ROTA_QUEUE_COMPLETE_BATCH,
            rota_work_broker_attempt_complete_batch)},
    {METHOD("DeleteQueue", ALL, &ROTA_QUEUE_DELETE, rota_work_broker_operate_delete),
     GATHERED(rota_work_broker_gather_delete, HOLDERS, LOADED), FOR_OPERATORS},
    {METHOD("Describe", OWNER, &ROTA_QUEUE_DESCRIBE, rota_work_broker_describe_job)},
    {METHOD("Extend", OWNER, &ROTA_QUEUE_EXTEND, rota_work_broker_attempt_extend)},
    {METHOD("Fail", OWNER, &ROTA_QUEUE_FAIL, rota_work_broker_attempt_fail)},
    {PEER("Find", &ROTA_QUEUE_FIND, rota_work_broker_again_find)},
    {METHOD("Forget", ALL, &ROTA_QUEUE_FORGET, rota_work_broker_handover_forget_node),
     GATHERED(rota_work_broker_gather_forget, LISTED, ANY), FOR_OPERATORS},
    {PEER("Holders", &ROTA_QUEUE_HOLDERS_REQUEST, rota_work_broker_settings_exchange)},
    {METHOD("List", ALL, &ROTA_QUEUE_LIST, rota_work_broker_operate_list),
     GATHERED(rota_work_broker_gather_list, HOLDERS, LOADED)},
    {PEER("Look", NULL, rota_work_broker_refresh_look)},
    {METHOD("Nodes", THIS, &ROTA_QUEUE_PAUSE, rota_work_broker_gather_nodes)},
    {METHOD("Pause", THIS, &ROTA_QUEUE_PAUSE, rota_work_broker_operate_pause), FOR_OPERATORS},
    {METHOD("Poll", THIS, &ROTA_QUEUE_POLL, rota_work_broker_poll_open),
     .cancel = rota_work_broker_poll_cancel},
    {METHOD("Queues", ALL, &ROTA_QUEUE_PAGE, rota_work_broker_operate_queues),
     GATHERED(rota_work_broker_gather_queues, HOLDERS, LOADED)},
    {METHOD("Retry", OWNER, &ROTA_QUEUE_NAME, rota_work_broker_submit_retry)},
    {METHOD("SetLayout", THIS, &ROTA_QUEUE_SET_LAYOUT, rota_work_broker_layout_set), FOR_OPERATORS},
    {METHOD("SetPriority", OWNER, &ROTA_QUEUE_PRIORITY, rota_work_broker_submit_priority)},
    {METHOD("SetQuarantine", THIS, &ROTA_QUEUE_QUARANTINE, rota_work_broker_operate_quarantine),
     FOR_OPERATORS},
    {METHOD("SetWeight", THIS, &ROTA_QUEUE_WEIGHT, rota_work_broker_operate_weight), FOR_OPERATORS},
    {PEER("Tell", &ROTA_QUEUE_TELL, rota_work_broker_forward_hear)},
    {PEER("Visit", &ROTA_QUEUE_VISIT, rota_work_broker_forward_visit)},
    {METHOD("Watch", OWNER, &ROTA_QUEUE_NAME, rota_work_broker_watch_open),
     GATHERED(rota_work_broker_gather_watch, LISTED, ANY), .cancel = rota_work_broker_watch_cancel,
     .room = rota_work_broker_watch_room},
    {METHOD("Workers", ALL, NULL, rota_work_broker_operate_workers),
     GATHERED(rota_work_broker_gather_workers, LISTED, ANY)},
};
_Static_assert(sizeof rota_broker_method_all / sizeof *rota_broker_method_all ==
                   ROTA_BROKER_METHODS,
               "one service for each");
