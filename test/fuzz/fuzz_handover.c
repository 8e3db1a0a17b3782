/* What another node says of jobs that it hands over: any bytes are such a word or none, and the
 * machine that steers partitions stays sound, whatever queue and partition they name. */
#include "core/work/cluster/handover_fsm.h"
#include "wire/message/queue_message.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum rota_handover_whose whose(void *data, struct rota_str queue, uint32_t partition,
                                      struct rota_str *owner)
{
    (void)data;
    *owner = rota_str("another:1");
    return (queue.size + partition) % 2 ? ROTA_HANDOVER_OURS : ROTA_HANDOVER_ANOTHERS;
}

static void step(struct rota_handover_fsm *fsm, struct rota_work_now now,
                 struct rota_handover_event event)
{
    size_t n_sends;
    rota_handover_fsm_step(fsm, now, &event, &n_sends);
    assert(fsm->holds.size <= ROTA_HANDOVER_HOLDS_MAX);
    for (size_t i = 0; i < fsm->holds.size; i++)
        assert(!rota_job_queue_check(rota_str(fsm->holds.items[i].queue), NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_work_now now = {1000 * ROTA_SEC, 2000 * ROTA_SEC};
    struct rota_arena arena = {0};
    struct rota_queue_adopt request;
    struct rota_broker_options options = {.seed = 1};
    struct rota_broker *broker = NULL;
    struct rota_handover_fsm fsm;
    if (rota_message_decode(&ROTA_QUEUE_ADOPT, rota_str_of(data, size), &request, &arena, NULL)) {
        rota_arena_deinit(&arena);
        return 0;
    }
    if (rota_broker_new(&options, &broker, NULL))
        abort();
    rota_broker_begin(broker, now);
    rota_handover_fsm_init(&fsm, &(struct rota_handover_options){.broker = broker, .whose = whose});
    step(&fsm, now,
         (struct rota_handover_event){.type = ROTA_HANDOVER_CAME,
                                      .queue = request.queue,
                                      .partition = (uint32_t)request.partition});
    step(&fsm, now, (struct rota_handover_event){.type = ROTA_HANDOVER_LOOK});
    assert(rota_broker_is_sound(broker));
    rota_handover_fsm_deinit(&fsm);
    rota_broker_free(broker);
    rota_arena_deinit(&arena);
    return 0;
}
