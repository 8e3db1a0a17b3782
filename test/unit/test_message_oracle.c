/* Every message that has a table: the table says what the .proto says, and protobuf-c, which is
 * generated from it, reads and writes the same bytes. */
#include "oracle.h"
#include "wire/message/cache_message.h"
#include "wire/message/directory_message.h"
#include "wire/message/nodes_message.h"
#include "wire/message/queue_message.h"
#include "wire/message/space_message.h"
#include "wire/message/standard_message.h"
#include "wire/message/worker_frame.h"

#include "cache.pb-c.h"
#include "directory.pb-c.h"
#include "health.pb-c.h"
#include "node_peer.pb-c.h"
#include "nodes.pb-c.h"
#include "queue.pb-c.h"
#include "queue_peer.pb-c.h"
#include "reflection.pb-c.h"
#include "space.pb-c.h"
#include "worker.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { N_MESSAGES = 2000 };

struct pair {
    const struct rota_message_type *ours;
    const ProtobufCMessageDescriptor *theirs;
};

static const struct pair pairs[] = {
    {&ROTA_CACHE_REQUEST, &rota__v1__get_request__descriptor},
    {&ROTA_CACHE_RESPONSE, &rota__v1__get_response__descriptor},
    {&ROTA_CACHE_ENTRY, &rota__v1__entry__descriptor},

    {&ROTA_DIRECTORY_SPACE_REQUEST, &rota__v1__get_space_request__descriptor},
    {&ROTA_DIRECTORY_SPACE_REQUEST, &rota__v1__watch_space_request__descriptor},
    {&ROTA_DIRECTORY_SPACE_REPLY, &rota__v1__get_space_reply__descriptor},
    {&ROTA_DIRECTORY_SPACE_REPLY, &rota__v1__watch_space_reply__descriptor},

    {&ROTA_STANDARD_HEALTH_REQUEST, &grpc__health__v1__health_check_request__descriptor},
    {&ROTA_STANDARD_HEALTH_RESPONSE, &grpc__health__v1__health_check_response__descriptor},
    {&ROTA_STANDARD_REFLECTION_REQUEST,
     &grpc__reflection__v1__server_reflection_request__descriptor},
    {&ROTA_STANDARD_REFLECTION_RESPONSE,
     &grpc__reflection__v1__server_reflection_response__descriptor},

    {&ROTA_NODES_SHOW, &rota__v1__show_request__descriptor},
    {&ROTA_NODES_SHOWN, &rota__v1__show_reply__descriptor},
    {&ROTA_NODES_DOCUMENTS, &rota__v1__documents_request__descriptor},
    {&ROTA_NODES_DOCUMENTS_REPLY, &rota__v1__documents_reply__descriptor},
    {&ROTA_NODES_EVENTS, &rota__v1__events_request__descriptor},
    {&ROTA_NODES_EVENT, &rota__v1__event__descriptor},
    {&ROTA_NODES_CHANGE, &rota__v1__change_request__descriptor},
    {&ROTA_NODES_WEIGH, &rota__v1__weigh_request__descriptor},
    {&ROTA_NODES_CHANGED, &rota__v1__change_reply__descriptor},
    {&ROTA_NODES_ASK, &rota__peer__v1__report_request__descriptor},
    {&ROTA_NODES_REPORT, &rota__peer__v1__report_reply__descriptor},

    {&ROTA_SPACE_LIST_REPLY, &rota__v1__list_spaces_reply__descriptor},
    {&ROTA_SPACE_SHOW, &rota__v1__show_space_request__descriptor},
    {&ROTA_SPACE_SHOW_REPLY, &rota__v1__show_space_reply__descriptor},
    {&ROTA_SPACE_EXPLAIN, &rota__v1__explain_shard_request__descriptor},
    {&ROTA_SPACE_EXPLAIN_REPLY, &rota__v1__explain_shard_reply__descriptor},
    {&ROTA_SPACE_PIN, &rota__v1__pin_shard_request__descriptor},
    {&ROTA_SPACE_MIGRATE, &rota__v1__migrate_space_request__descriptor},
    {&ROTA_SPACE_PLAN_REPLY, &rota__v1__space_plan_reply__descriptor},

    {&ROTA_WORKER_HELLO_TYPE, &rota__v1__hello__descriptor},
    {&ROTA_WORKER_WELCOME_TYPE, &rota__v1__welcome__descriptor},
    {&ROTA_WORKER_BYE_TYPE, &rota__v1__bye__descriptor},
    {&ROTA_WORKER_READY_TYPE, &rota__v1__ready__descriptor},
    {&ROTA_WORKER_ATTEMPT_TYPE, &rota__v1__attempt__descriptor},
    {&ROTA_WORKER_JOB_TYPE, &rota__v1__job__descriptor},
    {&ROTA_WORKER_CANCEL_TYPE, &rota__v1__cancel__descriptor},
    {&ROTA_WORKER_END_TYPE, &rota__v1__end__descriptor},
    {&ROTA_WORKER_VERDICT_TYPE, &rota__v1__verdict__descriptor},
    {&ROTA_WORKER_STEP_TYPE, &rota__v1__step__descriptor},
    {&ROTA_WORKER_SLOTS_TYPE, &rota__v1__slots__descriptor},
    {&ROTA_WORKER_CHECK_TYPE, &rota__v1__check__descriptor},
    {&ROTA_WORKER_HOLDS_TYPE, &rota__v1__holds__descriptor},
};

/* Their structs are shared by several messages, so fields have names of their own. */
static const struct pair queue_pairs[] = {
    {&ROTA_QUEUE_ADD, &rota__v1__add_request__descriptor},
    {&ROTA_QUEUE_ADD_BATCH, &rota__v1__add_batch_request__descriptor},
    {&ROTA_QUEUE_ADD_BATCH_REPLY, &rota__v1__add_batch_reply__descriptor},
    {&ROTA_QUEUE_NAME, &rota__v1__cancel_request__descriptor},
    {&ROTA_QUEUE_NAME, &rota__v1__retry_request__descriptor},
    {&ROTA_QUEUE_NAME, &rota__v1__watch_request__descriptor},
    {&ROTA_QUEUE_PRIORITY, &rota__v1__set_priority_request__descriptor},
    {&ROTA_QUEUE_DESCRIBE, &rota__v1__describe_request__descriptor},
    {&ROTA_QUEUE_DESCRIPTION, &rota__v1__describe_reply__descriptor},
    {&ROTA_QUEUE_NEWS, &rota__v1__watch_reply__descriptor},
    {&ROTA_QUEUE_POLL, &rota__v1__poll_request__descriptor},
    {&ROTA_QUEUE_POLL_REPLY, &rota__v1__poll_reply__descriptor},
    {&ROTA_QUEUE_COMPLETE, &rota__v1__complete_request__descriptor},
    {&ROTA_QUEUE_COMPLETE_BATCH, &rota__v1__complete_batch_request__descriptor},
    {&ROTA_QUEUE_COMPLETE_BATCH_REPLY, &rota__v1__complete_batch_reply__descriptor},
    {&ROTA_QUEUE_COMPLETED, &rota__v1__completed__descriptor},
    {&ROTA_QUEUE_EXTEND, &rota__v1__extend_request__descriptor},
    {&ROTA_QUEUE_FAIL, &rota__v1__fail_request__descriptor},
    {&ROTA_QUEUE_LIST, &rota__v1__list_request__descriptor},
    {&ROTA_QUEUE_LIST_REPLY, &rota__v1__list_reply__descriptor},
    {&ROTA_QUEUE_PAGE, &rota__v1__queues_request__descriptor},
    {&ROTA_QUEUE_PAUSE, &rota__v1__pause_request__descriptor},
    {&ROTA_QUEUE_WEIGHT, &rota__v1__set_weight_request__descriptor},
    {&ROTA_QUEUE_QUARANTINE, &rota__v1__set_quarantine_request__descriptor},
    {&ROTA_QUEUE_QUEUES_REPLY, &rota__v1__queues_reply__descriptor},
    {&ROTA_QUEUE_WORKERS_REPLY, &rota__v1__workers_reply__descriptor},
    {&ROTA_QUEUE_SET_LAYOUT, &rota__v1__set_layout_request__descriptor},
    {&ROTA_QUEUE_LAID_OUT, &rota__v1__set_layout_reply__descriptor},
    {&ROTA_QUEUE_DELETE, &rota__v1__delete_queue_request__descriptor},
    {&ROTA_QUEUE_DELETED, &rota__v1__delete_queue_reply__descriptor},
    {&ROTA_QUEUE_FORGET, &rota__v1__forget_request__descriptor},
    {&ROTA_QUEUE_NODES, &rota__v1__nodes_reply__descriptor},
    {&ROTA_QUEUE_FIND, &rota__peer__v1__find_request__descriptor},
    {&ROTA_QUEUE_FOUND, &rota__peer__v1__find_reply__descriptor},
    {&ROTA_QUEUE_TELL, &rota__peer__v1__tell_request__descriptor},
    {&ROTA_QUEUE_VISIT, &rota__peer__v1__visit_request__descriptor},
    {&ROTA_QUEUE_VISITED, &rota__peer__v1__visit_reply__descriptor},
    {&ROTA_QUEUE_ADOPT, &rota__peer__v1__adopt_request__descriptor},
    {&ROTA_QUEUE_HOLDERS, &rota__peer__v1__holders_reply__descriptor},
    {&ROTA_QUEUE_HOLDERS_REQUEST, &rota__peer__v1__holders_request__descriptor},
    {&ROTA_QUEUE_CHANGED, &rota__peer__v1__changed_request__descriptor},
    {&ROTA_QUEUE_CHANGED_REPLY, &rota__peer__v1__changed_reply__descriptor},
};

enum {
    N_PAIRS = sizeof pairs / sizeof *pairs,
    N_ALL = N_PAIRS + sizeof queue_pairs / sizeof *queue_pairs
};

static const struct pair *pair_at(size_t i)
{
    return i < N_PAIRS ? &pairs[i] : &queue_pairs[i - N_PAIRS];
}

static void tables_are_as_the_proto_has_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ALL; i++) {
        const struct pair *pair = pair_at(i);
        const char *where = NULL;
        if (!oracle_has_table(pair->ours, pair->theirs, i < N_PAIRS, &where))
            fail_msg("%s: %s differs", pair->theirs->name, where);
    }
}

static void messages_are_read_and_written_as_protobuf_c_does(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 1);
    for (size_t i = 0; i < N_ALL; i++)
        for (int n = 0; n < N_MESSAGES; n++)
            if (!oracle_agrees(pair_at(i)->ours, pair_at(i)->theirs, &random))
                fail_msg("%s: message %d differs", pair_at(i)->theirs->name, n);
}

/* Claims as lists: protobuf-c reads what our writer wrote, and our reader the same. */
static void claims_are_packed_lists(void **state)
{
    static const struct rota_directory_claim claims[] = {{7, 1, 1000, false},
                                                         {9, 300, UINT64_MAX, true},
                                                         {8, 0, 5, false},
                                                         {UINT32_MAX, 2, 6, true}};
    enum { N = sizeof claims / sizeof *claims };
    struct rota_directory_claims_writer writer = {.claims = {.base_epoch = 5}};
    struct rota_directory_update update;
    struct rota_directory_claim claim;
    struct rota_buffer bytes = {0};
    struct rota_arena arena = {0};
    (void)state;
    for (size_t i = 0; i < N; i++)
        rota_directory_message_claims_add(&writer, &claims[i], true);
    rota_directory_message_claims_end(&writer, &bytes);
    rota_directory_message_claims_deinit(&writer);

    Rota__V1__SpaceUpdate *theirs =
        rota__v1__space_update__unpack(NULL, bytes.size, (const uint8_t *)bytes.data);
    assert_true(theirs && theirs->n_claims == 1);
    const Rota__V1__SpaceClaims *lists = theirs->claims[0];
    assert_true(lists->n_shards == N && lists->n_owners == N && lists->n_epochs == N);
    assert_int_equal(lists->n_moving, 2);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(lists->shards[i], claims[i].shard);
        assert_int_equal(lists->owners[i], claims[i].owner);
        assert_true(lists->epochs[i] + lists->base_epoch == claims[i].epoch);
    }
    assert_true(lists->moving[0] == 1 && lists->moving[1] == 3);
    rota__v1__space_update__free_unpacked(theirs, NULL);

    assert_int_equal(
        rota_message_decode(&ROTA_DIRECTORY_UPDATE, rota_buffer_str(&bytes), &update, &arena, NULL),
        ROTA_OK);
    struct rota_directory_claims_reader reader = {.claims = update.claims.items};
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(rota_directory_message_claims_next(&reader, &claim), ROTA_OK);
        assert_true(claim.shard == claims[i].shard && claim.owner == claims[i].owner &&
                    claim.epoch == claims[i].epoch && claim.is_moving == claims[i].is_moving);
    }
    assert_int_equal(rota_directory_message_claims_next(&reader, &claim), ROTA_ERR_NOT_FOUND);
    rota_arena_deinit(&arena);
    rota_buffer_deinit(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_as_the_proto_has_them),
        cmocka_unit_test(messages_are_read_and_written_as_protobuf_c_does),
        cmocka_unit_test(claims_are_packed_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
