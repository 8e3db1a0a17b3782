#include "wire/text/kafka_url.h"

#include "base/buffer.h"
#include "base/percent.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* No message shows a part of the text except the name of a known property: in a malformed URL a
 * password may be anywhere. */

#define SCHEME       "kafka://"
#define DEFAULT_PORT "9092"

/* Properties that the promises of a group depend on, so that users may not change them; and
 * those that would load code. */
static const char *const owned[] = {
    "acks",
    "auto.commit.enable",
    "auto.offset.reset",
    "bootstrap.servers",
    "check.crcs",
    "client.id",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "isolation.level",
    "log.queue",
    "max.poll.interval.ms",
    "message.max.bytes",
    "message.timeout.ms",
    "metadata.broker.list",
    "partition.assignment.strategy",
    "plugin.library.paths",
    "request.required.acks",
    "session.timeout.ms",
    "test.mock.num.brokers",
    "transactional.id",
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* --- hosts --- */

static bool is_host(struct rota_str host, bool is_ip6)
{
    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];
        if (!is_letter(c) && c != '.' && c != '-' && c != '_' && !(is_ip6 && c == ':'))
            return false;
    }
    return host.size > 0;
}

static bool is_port(struct rota_str port)
{
    uint32_t number = 0;
    for (size_t i = 0; i < port.size && number <= UINT16_MAX; i++) {
        if (port.data[i] < '0' || port.data[i] > '9')
            return false;
        number = number * 10 + (uint32_t)(port.data[i] - '0');
    }
    return number > 0 && number <= UINT16_MAX;
}

/* HOST[:PORT], or [IPV6][:PORT] */
static enum rota_code parse_host(struct rota_str text, struct rota_buffer *hosts,
                                 struct rota_error *error)
{
    bool is_ip6 = text.size > 0 && text.data[0] == '[';
    struct rota_str rest = text;
    if (is_ip6)
        rota_text_cut_at(&rest, '[');
    bool has_end = !is_ip6 || (rest.size > 0 && memchr(rest.data, ']', rest.size));
    struct rota_str host = rota_text_cut_at(&rest, is_ip6 ? ']' : ':');
    bool has_port = is_ip6 ? rest.size > 0 : text.size > host.size;
    if (is_ip6 && has_port && rota_text_cut_at(&rest, ':').size > 0)
        has_end = false;
    if (!has_end || !is_host(host, is_ip6))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "invalid host in the log's URL: write "
                              "kafka://HOST:PORT[,HOST:PORT...][?PROPERTY=VALUE...], and set the "
                              "user with properties such as sasl.username");
    if (has_port && !is_port(rest))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a port of the log's URL is not a number from 1 to 65535");
    if (hosts->size > 0)
        rota_buffer_append_char(hosts, ',');
    rota_buffer_append_text(hosts, is_ip6 ? "[" : "");
    rota_buffer_append_str(hosts, host);
    rota_buffer_append_text(hosts, is_ip6 ? "]:" : ":");
    rota_buffer_append_str(hosts, has_port ? rest : rota_str(DEFAULT_PORT));
    return ROTA_OK;
}

/* --- properties --- */

/* Append with %XX decoded, and a NUL; `name` is the property of the value. */
static enum rota_code decode_escapes(struct rota_str text, const char *name,
                                     struct rota_buffer *value, struct rota_error *error)
{
    for (size_t i = 0; i < text.size; i++) {
        int c = rota_percent_decode(text, &i);
        if (c < 0)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "%s in the log's URL has a %% without two hex digits after it "
                                  "(write %%25 for a literal %%)",
                                  name);
        if (c == '\0')
            return rota_error_set(error, ROTA_ERR_INVALID, "%s in the log's URL has a NUL byte",
                                  name);
        rota_buffer_append_char(value, (char)c);
    }
    rota_buffer_append_char(value, '\0');
    return ROTA_OK;
}

static bool is_property_name(struct rota_str name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!is_letter(name.data[i]) && !strchr("._-", name.data[i]))
            return false;
    return name.size > 0 && name.size < ROTA_KAFKA_URL_NAME_MAX &&
           !memchr(name.data, '\0', name.size);
}

static enum rota_code check_topic(const char *name, struct rota_error *error)
{
    size_t size = strlen(name);
    bool is_good = size > 0 && size <= ROTA_KAFKA_TOPIC_MAX && strcmp(name, ".") != 0 &&
                   strcmp(name, "..") != 0;
    for (size_t i = 0; i < size; i++)
        if (!is_letter(name[i]) && !strchr("._-", name[i]))
            is_good = false;
    if (is_good)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "rota.rebalance.topic in the log's URL is not a topic name: use up to %d "
                          "letters, digits, '.', '_', '-'",
                          ROTA_KAFKA_TOPIC_MAX);
}

static enum rota_code check_owner(const char *name, struct rota_error *error)
{
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        if (strcmp(name, owned[i]) == 0)
            return rota_error_set(
                error, ROTA_ERR_INVALID,
                "the property %s cannot be set in the log's URL: the group sets it", name);
    if (strncmp(name, "rota.", 5) == 0 && strcmp(name, "rota.rebalance.topic") != 0)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "unknown property rota.* in the log's URL; the only one is rota.rebalance.topic");
    return ROTA_OK;
}

/* One PROPERTY=VALUE. Values are stored as offsets until the text no longer moves. */
static enum rota_code parse_property(struct rota_str text, struct rota_buffer *values,
                                     struct rota_kafka_url *url, struct rota_error *error)
{
    struct rota_str value = text;
    struct rota_str name = rota_text_cut_at(&value, '=');
    if (!is_property_name(name) || name.size == text.size)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "after the ? of the log's URL, write PROPERTY=VALUE[&PROPERTY=VALUE...]");
    if (url->n_properties == ROTA_KAFKA_URL_PROPERTY_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "the log's URL has more than %d properties",
                              ROTA_KAFKA_URL_PROPERTY_MAX);

    struct rota_kafka_property *property = &url->properties[url->n_properties];
    *property = (struct rota_kafka_property){0};
    memcpy(property->name, name.data, name.size);
    enum rota_code code = check_owner(property->name, error);
    size_t begin = values->size;
    if (!code)
        code = decode_escapes(value, property->name, values, error);
    if (code || values->failed)
        return code;
    if (strncmp(property->name, "rota.", 5) != 0) {
        url->n_properties++;
        return ROTA_OK;
    }
    code = check_topic(values->data + begin, error);
    if (!code)
        memcpy(url->rebalance_topic, values->data + begin, values->size - begin);
    values->size = begin;
    return code;
}

static enum rota_code parse_url(struct rota_str rest, struct rota_buffer *text,
                                struct rota_kafka_url *url, struct rota_error *error)
{
    struct rota_str properties = rest;
    struct rota_str hosts = rota_text_cut_at(&properties, '?');
    enum rota_code code = ROTA_OK;

    if (hosts.size > 0 && hosts.data[hosts.size - 1] == '/')
        hosts.size--;
    do {
        struct rota_str host = rota_text_cut_at(&hosts, ',');
        code = parse_host(host, text, error);
    } while (!code && hosts.size > 0);
    rota_buffer_append_char(text, '\0');
    while (!code && properties.size > 0) {
        struct rota_str property = rota_text_cut_at(&properties, '&');
        code = parse_property(property, text, url, error);
    }
    return code;
}

enum rota_code rota_kafka_url_parse(struct rota_str text, struct rota_kafka_url *url,
                                    struct rota_error *error)
{
    if (!rota_str_has_prefix(text, rota_str(SCHEME)))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the URL of a log in Kafka must start with %s", SCHEME);
    if (text.size > ROTA_KAFKA_URL_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the log's URL has %zu bytes; at most %d are allowed", text.size,
                              ROTA_KAFKA_URL_MAX);
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "byte %zu of the log's URL is a control character", i + 1);
    struct rota_str rest = rota_str_of(text.data + strlen(SCHEME), text.size - strlen(SCHEME));

    struct rota_kafka_url parsed = {0};
    struct rota_buffer buffer = {0};
    parsed.properties = calloc(ROTA_KAFKA_URL_PROPERTY_MAX, sizeof *parsed.properties);
    if (!parsed.properties)
        return rota_error_no_memory(error, "for the log's URL");
    enum rota_code code = parse_url(rest, &buffer, &parsed, error);
    if (!code && buffer.failed)
        code = rota_error_no_memory(error, "for the log's URL");
    if (code) {
        rota_buffer_deinit(&buffer);
        rota_kafka_url_deinit(&parsed);
        return code;
    }
    parsed.text = buffer.data;
    parsed.hosts = buffer.data;
    const char *value = buffer.data;
    for (size_t i = 0; i < parsed.n_properties; i++) {
        value += strlen(value) + 1;
        parsed.properties[i].value = value;
    }
    *url = parsed;
    return ROTA_OK;
}

void rota_kafka_url_deinit(struct rota_kafka_url *url)
{
    free(url->text);
    free(url->properties);
    *url = (struct rota_kafka_url){0};
}

char *rota_kafka_url_format(const struct rota_kafka_url *url)
{
    struct rota_buffer text = {0};
    rota_buffer_append_text(&text, SCHEME);
    rota_buffer_append_text(&text, url->hosts);
    if (url->rebalance_topic[0]) {
        rota_buffer_append_text(&text, "?rota.rebalance.topic=");
        rota_buffer_append_text(&text, url->rebalance_topic);
    }
    if (text.failed)
        rota_buffer_deinit(&text);
    return text.data;
}
