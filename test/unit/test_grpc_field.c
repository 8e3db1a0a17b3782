#include "wire/grpc/grpc_field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void check(const char *name, const char *value, enum rota_grpc_kind kind)
{
    if (rota_grpc_field_kind(rota_str(name), rota_str(value)) != kind)
        fail_msg("%s: %s is of another kind", name, value);
}

static void fields_of_grpc_are_known(void **state)
{
    (void)state;
    check(":method", "POST", ROTA_GRPC_FIELD_METHOD);
    check(":scheme", "https", ROTA_GRPC_FIELD_SCHEME);
    check(":path", "/a.B/C?d=\xc3\xbc", ROTA_GRPC_FIELD_PATH);
    check(":authority", "[::1]:80", ROTA_GRPC_FIELD_AUTHORITY);
    check(":status", "503", ROTA_GRPC_FIELD_STATUS);
    check("host", "a.example:1", ROTA_GRPC_FIELD_HOST);
    check("te", "Trailers", ROTA_GRPC_FIELD_TE);
    check("content-type", "application/grpc", ROTA_GRPC_FIELD_CONTENT_TYPE);
    check("content-length", "0", ROTA_GRPC_FIELD_CONTENT_LENGTH);
    check("grpc-timeout", "soon", ROTA_GRPC_FIELD_TIMEOUT);
    check("grpc-encoding", "gzip", ROTA_GRPC_FIELD_ENCODING);
    check("grpc-status", "0", ROTA_GRPC_FIELD_GRPC_STATUS);
    check("grpc-message", "", ROTA_GRPC_FIELD_GRPC_MESSAGE);
    check("grpc-accept-encoding", "gzip", ROTA_GRPC_FIELD_IGNORED);
    check("x-y_z.1", "a\tb \xff", ROTA_GRPC_FIELD_METADATA);
    check("x", "", ROTA_GRPC_FIELD_METADATA);
    check("x-bin", "AA", ROTA_GRPC_FIELD_BINARY);
}

static void pseudo_fields_are_known_and_well_formed(void **state)
{
    static const char *const pairs[][2] = {
        {":", "x"},
        {":foo", "x"},
        {":Path", "/"},
        {":protocol", "websocket"},
        {":method", ""},
        {":method", "PO ST"},
        {":method", "P\x80"},
        {":scheme", ""},
        {":scheme", "1http"},
        {":scheme", "ht tp"},
        {":path", ""},
        {":path", "/a b"},
        {":path", "/\x7f"},
        {":path", "/\n"},
        {":authority", ""},
        {":authority", "a/b"},
        {":authority", "a b"},
        {":authority", "\xc3\xbc"},
        {":status", ""},
        {":status", "20"},
        {":status", "2000"},
        {":status", "2x0"},
        {":status", "099"},
        {":status", "101"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check(pairs[i][0], pairs[i][1], ROTA_GRPC_FIELD_MALFORMED);
}

static void connection_fields_are_malformed(void **state)
{
    (void)state;
    check("connection", "close", ROTA_GRPC_FIELD_MALFORMED);
    check("keep-alive", "5", ROTA_GRPC_FIELD_MALFORMED);
    check("proxy-connection", "x", ROTA_GRPC_FIELD_MALFORMED);
    check("transfer-encoding", "chunked", ROTA_GRPC_FIELD_MALFORMED);
    check("upgrade", "h2c", ROTA_GRPC_FIELD_MALFORMED);
    check("te", "gzip", ROTA_GRPC_FIELD_MALFORMED);
    check("te", "", ROTA_GRPC_FIELD_MALFORMED);
    check("te", "trailers, deflate", ROTA_GRPC_FIELD_MALFORMED);
}

static void a_length_is_a_number(void **state)
{
    (void)state;
    check("content-length", "", ROTA_GRPC_FIELD_MALFORMED);
    check("content-length", "-1", ROTA_GRPC_FIELD_MALFORMED);
    check("content-length", "1a", ROTA_GRPC_FIELD_MALFORMED);
    check("content-length", "99999999999999999999", ROTA_GRPC_FIELD_MALFORMED);
}

static void upper_case_is_malformed_and_other_invalid_fields_are_dropped(void **state)
{
    (void)state;
    check("X", "y", ROTA_GRPC_FIELD_MALFORMED);
    check("a b-C", "y", ROTA_GRPC_FIELD_MALFORMED);
    check("Content-Type", "application/grpc", ROTA_GRPC_FIELD_MALFORMED);
    check("", "y", ROTA_GRPC_FIELD_DROPPED);
    check("a b", "y", ROTA_GRPC_FIELD_DROPPED);
    check("a:b", "y", ROTA_GRPC_FIELD_DROPPED);
    check("\xc3\xbc", "y", ROTA_GRPC_FIELD_DROPPED);
    check("x", "a\nb", ROTA_GRPC_FIELD_DROPPED);
    check("x", "\x7f", ROTA_GRPC_FIELD_DROPPED);
    check("x", " y", ROTA_GRPC_FIELD_DROPPED);
    check("x", "y\t", ROTA_GRPC_FIELD_DROPPED);
    check("x-bin", "A\rA", ROTA_GRPC_FIELD_DROPPED);
    check("grpc-message", "a\nb", ROTA_GRPC_FIELD_DROPPED);
    check("host", "a b", ROTA_GRPC_FIELD_DROPPED);
    assert_int_equal(rota_grpc_field_kind(rota_str("x"), rota_str_of("a\0b", 3)),
                     ROTA_GRPC_FIELD_DROPPED);
    assert_int_equal(rota_grpc_field_kind(rota_str_of("a\0b", 3), rota_str("y")),
                     ROTA_GRPC_FIELD_DROPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_grpc_are_known),
        cmocka_unit_test(pseudo_fields_are_known_and_well_formed),
        cmocka_unit_test(connection_fields_are_malformed),
        cmocka_unit_test(a_length_is_a_number),
        cmocka_unit_test(upper_case_is_malformed_and_other_invalid_fields_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
