/* The messages of rota.v1.Nodes: the tables say what the .proto says, and documents that are
 * appended one by one are read as one reply. */
#include "wire/nodes_message.h"

#include "nodes.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void check_table(const struct rota_message_type *type,
                        const ProtobufCMessageDescriptor *descriptor)
{
    assert_int_equal(type->n_fields, descriptor->n_fields);
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct rota_message_field *field = &type->fields[i];
        const ProtobufCFieldDescriptor *other =
            protobuf_c_message_descriptor_get_field(descriptor, field->number);
        assert_non_null(other);
        assert_string_equal(field->name, other->name);
        bool is_list = field->kind == ROTA_MESSAGE_STRS || field->kind == ROTA_MESSAGE_INNERS;
        assert_int_equal(is_list, other->label == PROTOBUF_C_LABEL_REPEATED);
        if (field->type)
            check_table(field->type, other->descriptor);
    }
}

static void tables_are_as_the_proto_has_them(void **state)
{
    (void)state;
    check_table(&ROTA_NODES_SHOW, &rota__v1__show_request__descriptor);
    check_table(&ROTA_NODES_SHOWN, &rota__v1__show_reply__descriptor);
    check_table(&ROTA_NODES_DOCUMENTS, &rota__v1__documents_request__descriptor);
    check_table(&ROTA_NODES_DOCUMENTS_REPLY, &rota__v1__documents_reply__descriptor);
    check_table(&ROTA_NODES_EVENTS, &rota__v1__events_request__descriptor);
    check_table(&ROTA_NODES_EVENT, &rota__v1__event__descriptor);
    check_table(&ROTA_NODES_CHANGE, &rota__v1__change_request__descriptor);
    check_table(&ROTA_NODES_WEIGH, &rota__v1__weigh_request__descriptor);
    check_table(&ROTA_NODES_CHANGED, &rota__v1__change_reply__descriptor);
}

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
    const struct rota_nodes_event event = {.number = 7, .kind = rota_str("node")};
    (void)state;
    append(&buffer, "cluster", "{}");
    append(&buffer, "queues", "{\"items\":[]}");
    rota_message_encode(&ROTA_NODES_DOCUMENTS_REPLY,
                        &(struct rota_nodes_documents_reply){.life = 5}, &buffer);
    rota_message_encode_entry(&ROTA_NODES_EVENT, 3, &event, &buffer);
    assert_int_equal(rota_message_decode(&ROTA_NODES_DOCUMENTS_REPLY, rota_buffer_str(&buffer),
                                         &reply, &arena, NULL),
                     ROTA_OK);
    assert_int_equal(reply.documents.n, 2);
    const struct rota_nodes_document *documents = reply.documents.items;
    assert_true(rota_str_is_equal(documents[1].topic, rota_str("queues")));
    assert_true(rota_str_is_equal(documents[1].json, rota_str("{\"items\":[]}")));
    assert_int_equal(reply.life, 5);
    assert_int_equal(reply.events.n, 1);
    assert_int_equal(((const struct rota_nodes_event *)reply.events.items)->number, 7);
    rota_arena_deinit(&arena);
    rota_buffer_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_as_the_proto_has_them),
        cmocka_unit_test(documents_are_appended_one_by_one),
    };
    return cmocka_run_group_tests_name("nodes_message", tests, NULL, NULL);
}
