#include "wire/text/kafka_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rota_kafka_url good(const char *text)
{
    struct rota_kafka_url url;
    struct rota_error error;
    if (rota_kafka_url_parse(rota_str(text), &url, &error))
        fail_msg("%s: %s", text, error.text);
    return url;
}

static void check_name(const char *text, const char *name)
{
    struct rota_kafka_url url = good(text);
    char *formatted = rota_kafka_url_format(&url);
    assert_string_equal(formatted, name);
    free(formatted);
    rota_kafka_url_deinit(&url);
}

static struct rota_error bad_of(struct rota_str text)
{
    struct rota_kafka_url url = {.n_properties = 77};
    struct rota_error error = {0};
    assert_int_not_equal(rota_kafka_url_parse(text, &url, &error), ROTA_OK);
    assert_int_equal(url.n_properties, 77); /* left alone */
    return error;
}

static void check_bad(const char *text, const char *sentence)
{
    struct rota_error error = bad_of(rota_str(text));
    if (!strstr(error.text, sentence))
        fail_msg("%s: %s", text, error.text);
}

static void hosts_have_ports(void **state)
{
    (void)state;
    check_name("kafka://a", "kafka://a:9092");
    check_name("kafka://a:1,b-2.example,[::1],[fe80::2]:65535",
               "kafka://a:1,b-2.example:9092,[::1]:9092,[fe80::2]:65535");
    check_name("kafka://a/", "kafka://a:9092");
}

static void invalid_host_is_refused(void **state)
{
    (void)state;
    check_bad("kafka://", "invalid host");
    check_bad("kafka://,a", "invalid host");
    check_bad("kafka://a,,b", "invalid host");
    check_bad("kafka://me:secret@a", "port");
    check_bad("kafka://me@a", "sasl.username");
    check_bad("kafka://[::1", "invalid host");
    check_bad("kafka://[::1]x:1", "invalid host");
    check_bad("kafka://a:", "port");
    check_bad("kafka://a:0", "port");
    check_bad("kafka://a:65536", "port");
    check_bad("kafka://a:99999999999999999999", "port");
    check_bad("kafka:a", "must start with kafka://");
    check_bad("kafka://a\n", "control character");
    assert_int_equal(bad_of(rota_str_of("kafka://a?x.y=\0", 15)).code, ROTA_ERR_INVALID);
}

static void properties_are_given_on(void **state)
{
    (void)state;
    struct rota_kafka_url url =
        good("kafka://a?security.protocol=SASL_SSL&sasl.password=p%26%25%3d%20x&ssl.ca.location=");
    assert_int_equal(url.n_properties, 3);
    assert_string_equal(url.hosts, "a:9092");
    assert_string_equal(url.properties[0].name, "security.protocol");
    assert_string_equal(url.properties[0].value, "SASL_SSL");
    assert_string_equal(url.properties[1].name, "sasl.password");
    assert_string_equal(url.properties[1].value, "p&%= x");
    assert_string_equal(url.properties[2].value, "");
    rota_kafka_url_deinit(&url);
}

static void names_have_no_secrets(void **state)
{
    (void)state;
    check_name("kafka://a?sasl.password=geheim&rota.rebalance.topic=r&ssl.key.pem=geheim",
               "kafka://a:9092?rota.rebalance.topic=r");
    static const char *const texts[] = {
        "kafka://a?sasl.password=geheim%",
        "kafka://a?sasl.password=geheim%00",
        "kafka://user:geheim@a",
        "kafka://geheim@a",
        "kafka://a:geheim",
        "kafka://a?geheim",
        "kafka://a?=geheim",
        "kafka://a?a b=geheim",
        "kafka://a?group.id=geheim",
        "kafka://a?rota.geheim=geheim",
        "kafka://a?rota.rebalance.topic=/geheim",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct rota_error error = bad_of(rota_str(texts[i]));
        assert_null(strstr(error.text, "geheim"));
    }
}

static void properties_owned_by_the_group_are_refused_by_name(void **state)
{
    (void)state;
    check_bad("kafka://a?group.id=x", "group.id");
    check_bad("kafka://a?ssl.x=1&acks=0", "acks");
    check_bad("kafka://a?enable.idempotence=false", "enable.idempotence");
    check_bad("kafka://a?plugin.library.paths=/tmp/x.so", "plugin.library.paths");
}

static void the_rebalance_topic_has_a_name(void **state)
{
    (void)state;
    struct rota_kafka_url url = good("kafka://a?rota.rebalance.topic=beat_1.x-y");
    assert_string_equal(url.rebalance_topic, "beat_1.x-y");
    assert_int_equal(url.n_properties, 0);
    rota_kafka_url_deinit(&url);
    check_bad("kafka://a?rota.rebalance.topic=", "not a topic name");
    check_bad("kafka://a?rota.rebalance.topic=..", "not a topic name");
    check_bad("kafka://a?rota.rebalance.topic=a/b", "not a topic name");
    check_bad("kafka://a?rota.what=1", "rota.rebalance.topic");
}

static void there_are_bounds(void **state)
{
    (void)state;
    static char text[ROTA_KAFKA_URL_MAX + 2];
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "kafka://", 8);
    assert_int_equal(bad_of(rota_str(text)).code, ROTA_ERR_LIMIT);

    int size = snprintf(text, sizeof text, "kafka://a?");
    for (int i = 0; i <= ROTA_KAFKA_URL_PROPERTY_MAX; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "ssl.p%d=1&", i);
    assert_int_equal(bad_of(rota_str(text)).code, ROTA_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_have_ports),
        cmocka_unit_test(invalid_host_is_refused),
        cmocka_unit_test(properties_are_given_on),
        cmocka_unit_test(names_have_no_secrets),
        cmocka_unit_test(properties_owned_by_the_group_are_refused_by_name),
        cmocka_unit_test(the_rebalance_topic_has_a_name),
        cmocka_unit_test(there_are_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
