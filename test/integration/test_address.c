#include "io/net/address.h"
#include "vectors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rota/error.h>
#include <string.h>
#include <uv.h>

static struct sockaddr_storage resolved(const char *text)
{
    struct rota_address address;
    struct sockaddr_storage made;
    assert_int_equal(rota_address_parse(text, &address, NULL), ROTA_OK);
    assert_true(rota_address_resolve(&address, &made));
    return made;
}

static void a_host_and_a_port_are_read(void **state)
{
    static const struct {
        const char *text, *host, *port_text;
        uint16_t port;
    } cases[] = {
        {"db.example.org:5432", "db.example.org", "5432", 5432},
        {"10.0.0.7:0", "10.0.0.7", "0", 0},
        {"[::1]:65535", "::1", "65535", 65535},
        {"[]x:80", "[]x", "80", 80},
        {"[:80", "[", "80", 80},
        {"a:00090", "a", "90", 90},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rota_address address;
        assert_int_equal(rota_address_parse(cases[i].text, &address, NULL), ROTA_OK);
        assert_string_equal(address.host, cases[i].host);
        assert_string_equal(address.port_text, cases[i].port_text);
        assert_int_equal(address.port, cases[i].port);
    }
}

static void invalid_address_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"http://a:80", "is a URL"},
        {"a", "has no port"},
        {":80", "has no host"},
        {"[]:80", "has no host"},
        {"::1:80", "needs brackets"},
        {"[::1:80", "needs brackets"},
        {"::1]:80", "needs brackets"},
        {"a:", "has a port that is not a number"},
        {"a:65536", "has a port that is not a number"},
        {"a:000080", "has a port that is not a number"},
        {"a:/0", "has a port that is not a number"},
        {"a:8:", "needs brackets"},
        {"a::", "needs brackets"},
        {"[::1]::", "needs brackets"},
        {"a:1;", "has a port that is not a number"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rota_address address = {.port = 7};
        struct rota_error error;
        assert_int_equal(rota_address_parse(cases[i].text, &address, &error), ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, cases[i].why));
        assert_non_null(strstr(error.text, cases[i].text));
        assert_int_equal(address.port, 7); /* left alone */
    }
}

static void a_host_has_at_most_255_bytes(void **state)
{
    char text[ROTA_ADDRESS_HOST_MAX + 4];
    struct rota_address address;
    struct rota_error error;
    (void)state;
    memset(text, 'a', sizeof text);
    strcpy(text + ROTA_ADDRESS_HOST_MAX - 1, ":1");
    assert_int_equal(rota_address_parse(text, &address, NULL), ROTA_OK);
    assert_int_equal(strlen(address.host), ROTA_ADDRESS_HOST_MAX - 1);
    text[ROTA_ADDRESS_HOST_MAX - 1] = 'a';
    strcpy(text + ROTA_ADDRESS_HOST_MAX, ":1");
    assert_int_equal(rota_address_parse(text, &address, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "too long"));
}

static void parsed_address_is_formatted_again(void **state)
{
    static const char *const texts[] = {"10.0.0.7:80", "[::1]:443", "[2001:db8::5]:0"};
    char text[ROTA_ADDRESS_TEXT_MAX];
    const struct sockaddr local = {.sa_family = AF_UNIX};
    struct rota_address address;
    struct sockaddr_storage made;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        made = resolved(texts[i]);
        assert_string_equal(rota_address_format((struct sockaddr *)&made, text), texts[i]);
    }
    assert_string_equal(rota_address_format(&local, text), "?");
    assert_int_equal(rota_address_parse("localhost:80", &address, NULL), ROTA_OK);
    assert_false(rota_address_resolve(&address, &made)); /* a name */
}

static void all_addresses_are_not_one(void **state)
{
    (void)state;
    assert_true(rota_address_is_any("0.0.0.0:80"));
    assert_true(rota_address_is_any("[::]:80"));
    assert_true(rota_address_is_any("[0:0::0]:80"));
    assert_false(rota_address_is_any("[::1]:80"));
    assert_false(rota_address_is_any("0.0.0.1:80"));
    assert_false(rota_address_is_any("127.0.0.1:80"));
    assert_false(rota_address_is_any("example.org:80"));
    assert_false(rota_address_is_any("0.0.0.0"));
}

static void a_loopback_address_leads_to_this_machine(void **state)
{
    static const struct {
        const char *text;
        bool is_loopback;
    } cases[] = {
        {"127.0.0.1:1", true},
        {"127.255.0.9:1", true},
        {"128.0.0.1:1", false},
        {"126.0.0.1:1", false},
        {"0.0.0.127:1", false},
        {"[::1]:1", true},
        {"[::2]:1", false},
        {"[::ffff:127.0.0.1]:1", true},
        {"[::ffff:10.0.0.127]:1", false},
        {"[2001:db8::7f00:1]:1", false},
    };
    const struct sockaddr local = {.sa_family = AF_UNIX};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage made = resolved(cases[i].text);
        assert_int_equal(rota_address_is_loopback((struct sockaddr *)&made), cases[i].is_loopback);
    }
    assert_false(rota_address_is_loopback(&local));
}

/* The second half of an IPv6 address is at the choice of whoever has the first. */
static void a_peer_is_an_address_or_half_of_one(void **state)
{
    static const struct {
        const char *text, *same, *other;
        uint8_t size;
    } cases[] = {
        {"10.0.0.7:80", "10.0.0.7:81", "10.0.0.8:80", 4},
        {"[2001:db8::1]:80", "[2001:db8::ffff:1]:81", "[2001:db8:0:1::1]:80", 8},
        {"[::ffff:10.0.0.7]:80", "10.0.0.7:80", "[::ffff:10.0.0.8]:80", 4},
    };
    const struct sockaddr local = {.sa_family = AF_UNIX};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage made[3] = {resolved(cases[i].text), resolved(cases[i].same),
                                           resolved(cases[i].other)};
        struct rota_peer_key keys[3];
        for (int k = 0; k < 3; k++) {
            keys[k] = rota_address_peer((struct sockaddr *)&made[k]);
            assert_int_equal(keys[k].size, cases[i].size);
        }
        assert_true(rota_str_is_equal(rota_peer_key_str(&keys[0]), rota_peer_key_str(&keys[1])));
        assert_false(rota_str_is_equal(rota_peer_key_str(&keys[0]), rota_peer_key_str(&keys[2])));
    }
    assert_int_equal(rota_address_peer(&local).size, 0);
}

static void an_error_of_an_address_has_advice(void **state)
{
    (void)state;
    assert_non_null(strstr(rota_address_help(EADDRINUSE), "ss -ltnp"));
    assert_non_null(strstr(rota_address_help(EADDRNOTAVAIL), "ip address"));
    assert_non_null(strstr(rota_address_help(EACCES), "below 1024"));
    assert_string_equal(rota_address_help(EIO), "");
    assert_string_equal(rota_address_lookup_error(UV_EAI_NONAME), "there is no such host name");
    assert_string_equal(rota_address_lookup_error(UV_EAI_NODATA), "there is no such host name");
    assert_string_equal(rota_address_lookup_error(UV_EAI_AGAIN), uv_strerror(UV_EAI_AGAIN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_and_a_port_are_read),
        cmocka_unit_test(invalid_address_is_refused_with_the_reason),
        cmocka_unit_test(a_host_has_at_most_255_bytes),
        cmocka_unit_test(parsed_address_is_formatted_again),
        cmocka_unit_test(all_addresses_are_not_one),
        cmocka_unit_test(a_loopback_address_leads_to_this_machine),
        cmocka_unit_test(a_peer_is_an_address_or_half_of_one),
        cmocka_unit_test(an_error_of_an_address_has_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
