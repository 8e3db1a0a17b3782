/* The messages of rota.v1.Nodes: documents that are appended one by one are read as one reply. */
#include "wire/message/nodes_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void append(struct rota_buffer *buffer, const char *topic, const char *json)
{
    const struct rota_nodes_document document = {rota_str(topic), rota_str(json)};
    const struct rota_nodes_documents_reply one = {.documents = {&document, 1}};
    rota_message_encode(&ROTA_NODES_DOCUMENTS_REPLY, &one, buffer);
}

static void documents_are_appended_one_by_one(void **state)
{
    struct rota_buffer buffer = {0};
    struct rota_arena arena = {0};
    struct rota_nodes_documents_reply reply;
    (void)state;
    append(&buffer, "cluster", "{}");
    append(&buffer, "queues", "{\"items\":[]}");
    assert_int_equal(rota_message_decode(&ROTA_NODES_DOCUMENTS_REPLY, rota_buffer_str(&buffer),
                                         &reply, &arena, NULL),
                     ROTA_OK);
    assert_int_equal(reply.documents.n, 2);
    const struct rota_nodes_document *documents = reply.documents.items;
    assert_true(rota_str_is_equal(documents[1].topic, rota_str("queues")));
    assert_true(rota_str_is_equal(documents[1].json, rota_str("{\"items\":[]}")));
    rota_arena_deinit(&arena);
    rota_buffer_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_appended_one_by_one),
    };
    return cmocka_run_group_tests_name("nodes_message", tests, NULL, NULL);
}
