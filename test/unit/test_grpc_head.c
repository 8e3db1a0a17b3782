#include "wire/grpc/grpc_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void add(struct rota_grpc_head *head, const char *name, const char *value)
{
    rota_grpc_head_add(head, rota_grpc_field_kind(rota_str(name), rota_str(value)), rota_str(name),
                       rota_str(value));
}

static struct rota_grpc_head make(void)
{
    struct rota_grpc_head head = {0};
    rota_grpc_head_clear(&head);
    return head;
}

static void check_pair(struct rota_grpc_head *head, size_t i, const char *name,
                       struct rota_str value)
{
    size_t n;
    const struct rota_metadata *pairs = rota_grpc_head_fields_pairs(&head->metadata, &n);
    assert_true(i < n);
    assert_true(rota_str_is_equal(pairs[i].name, rota_str(name)));
    assert_true(rota_str_is_equal(pairs[i].value, value));
}

static void a_request_is_sorted(void **state)
{
    struct rota_grpc_head head = make();
    (void)state;
    assert_true(head.timeout == ROTA_TIME_NEVER);
    add(&head, ":method", "POST");
    add(&head, ":scheme", "http");
    add(&head, ":path", "/a.B/C");
    add(&head, ":authority", "localhost:1234");
    add(&head, "te", "trailers");
    add(&head, "content-type", "application/grpc+proto");
    add(&head, "grpc-timeout", "5S");
    add(&head, "grpc-encoding", "identity");
    add(&head, "grpc-accept-encoding", "gzip");
    add(&head, "rota-epoch", "7");
    add(&head, "x", "");
    assert_true(rota_grpc_head_end(&head));
    assert_true(head.is_post && head.has_te && head.is_grpc);
    assert_false(head.encoding != ROTA_GRPC_IDENTITY || head.is_too_large || head.is_bad_timeout);
    assert_true(head.timeout == 5 * ROTA_SEC);
    assert_string_equal(head.path.data, "/a.B/C");
    assert_int_equal(head.metadata.places.size, 2);
    check_pair(&head, 0, "rota-epoch", rota_str("7"));
    check_pair(&head, 1, "x", rota_str(""));

    rota_grpc_head_clear(&head);
    assert_int_equal(head.metadata.places.size, 0);
    assert_int_equal(head.path.size, 0);
    assert_false(head.is_grpc || head.is_post || head.has_te);
    assert_true(head.timeout == ROTA_TIME_NEVER);
    rota_grpc_head_deinit(&head);
}

static void other_content_types_are_recognized(void **state)
{
    static const char *const types[] = {"", "application/grpcx", "application/json",
                                        "application/grp", "APPLICATION/GRPC"};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct rota_grpc_head head = make();
        add(&head, "content-type", types[i]);
        add(&head, "grpc-timeout", "soon");
        add(&head, "grpc-encoding", "gzip");
        assert_false(head.is_grpc);
        assert_true(head.is_bad_timeout && head.encoding == ROTA_GRPC_GZIP);
        rota_grpc_head_deinit(&head);
    }
}

static void a_reply_is_sorted(void **state)
{
    struct rota_grpc_head head = make();
    (void)state;
    assert_false(head.has_status);
    rota_grpc_head_begin(&head, ROTA_GRPC_REPLY);
    add(&head, ":status", "200");
    assert_true(rota_grpc_head_end(&head));
    rota_grpc_head_begin(&head, ROTA_GRPC_TRAILERS);
    add(&head, "grpc-status", "5");
    add(&head, "grpc-message", "no%20%C3%BC");
    assert_true(rota_grpc_head_end(&head));
    assert_int_equal(head.http_status, 200);
    assert_true(head.has_status);
    assert_int_equal(head.status, ROTA_STATUS_NOT_FOUND);
    assert_string_equal(head.text.data, "no \xc3\xbc");
    rota_grpc_head_deinit(&head);
}

static void binary_values_are_bytes_again(void **state)
{
    struct rota_grpc_head head = make();
    (void)state;
    add(&head, "a-bin", "AP8");
    add(&head, "b-bin", "Zm8=,Zg,");
    add(&head, "c-bin", "*not base64*");
    assert_int_equal(head.metadata.places.size, 4);
    check_pair(&head, 0, "a-bin", rota_str_of("\0\xff", 2));
    check_pair(&head, 1, "b-bin", rota_str("fo"));
    check_pair(&head, 2, "b-bin", rota_str("f"));
    check_pair(&head, 3, "b-bin", rota_str(""));
    rota_grpc_head_deinit(&head);
}

static void kept_metadata_is_bounded(void **state)
{
    struct rota_grpc_head head = make();
    static char large[ROTA_GRPC_HEAD_SIZE_MAX];
    (void)state;
    for (int i = 0; i < ROTA_GRPC_HEAD_FIELDS_MAX; i++)
        add(&head, "x", "y");
    assert_false(head.is_too_large);
    add(&head, "x", "y");
    assert_true(head.is_too_large);
    assert_int_equal(head.metadata.places.size, ROTA_GRPC_HEAD_FIELDS_MAX);

    rota_grpc_head_clear(&head);
    rota_grpc_head_add(&head, ROTA_GRPC_FIELD_METADATA, rota_str("x"),
                       rota_str_of(large, sizeof large - 33));
    assert_false(head.is_too_large);
    for (int i = 0; i < 1000; i++)
        rota_grpc_head_add(&head, ROTA_GRPC_FIELD_METADATA, rota_str("x"),
                           rota_str_of(large, sizeof large));
    assert_true(head.is_too_large);
    assert_int_equal(head.metadata.places.size, 1);
    assert_in_range(head.metadata.text.capacity, 1, 2 * ROTA_GRPC_HEAD_SIZE_MAX + 64);
    rota_grpc_head_deinit(&head);

    /* Each value between commas has the name for itself, and is counted so. */
    char name[2000], commas[2000];
    memset(name, 'x', sizeof name);
    memset(commas, ',', sizeof commas);
    head = make();
    rota_grpc_head_add(&head, ROTA_GRPC_FIELD_BINARY, rota_str_of(name, sizeof name),
                       rota_str_of(commas, sizeof commas));
    assert_true(head.is_too_large);
    assert_in_range(head.metadata.text.capacity, 1, 2 * ROTA_GRPC_HEAD_SIZE_MAX + 64);
    rota_grpc_head_deinit(&head);
}

static void sent_metadata_is_checked_and_encoded(void **state)
{
    struct rota_grpc_fields fields = {0};
    struct rota_error error;
    static char large[ROTA_GRPC_HEAD_SIZE_MAX];
    struct rota_metadata good[] = {{rota_str("a"), rota_str("b")},
                                   {rota_str("c-bin"), rota_str_of("\0\xff", 2)}};
    struct rota_metadata bad = {rota_str("grpc-x"), rota_str("")};
    struct rota_metadata huge = {rota_str("h-bin"), rota_str_of(large, sizeof large)};
    size_t n;
    (void)state;
    assert_int_equal(rota_grpc_head_fields_add_metadata(&fields, good, 2, &error), ROTA_OK);
    const struct rota_metadata *pairs = rota_grpc_head_fields_pairs(&fields, &n);
    assert_int_equal(n, 2);
    assert_true(rota_str_is_equal(pairs[1].value, rota_str("AP8")));
    assert_int_equal(rota_grpc_head_fields_add_metadata(&fields, &bad, 1, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_grpc_head_fields_add_metadata(&fields, &huge, 1, &error), ROTA_ERR_LIMIT);
    assert_int_equal(rota_grpc_head_fields_add_metadata(&fields, good, 1000, &error),
                     ROTA_ERR_LIMIT);
    rota_grpc_head_fields_deinit(&fields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_sorted),
        cmocka_unit_test(other_content_types_are_recognized),
        cmocka_unit_test(a_reply_is_sorted),
        cmocka_unit_test(binary_values_are_bytes_again),
        cmocka_unit_test(kept_metadata_is_bounded),
        cmocka_unit_test(sent_metadata_is_checked_and_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
