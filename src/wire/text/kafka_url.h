/* kafka_url: where a Kafka cluster is, as one line of text.
 *
 *     kafka://HOST[:PORT][,HOST[:PORT]...][?PROPERTY=VALUE[&PROPERTY=VALUE...]]
 *
 * The hosts are the bootstrap servers; the default port is 9092, an IPv6 address is in brackets.
 * The properties are those of librdkafka (security.protocol, sasl.*, ssl.*, ...) and are passed to
 * it unchanged, except the few that a group owns because its promises depend on them, which are
 * rejected by name. Our own: rota.rebalance.topic=NAME. VALUE may hold any character but NUL as
 * %XX.
 *
 * Invariant: a formatted URL never contains a property of librdkafka, since any of them may be a
 * secret, and an error at most a property's name. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <stddef.h>

enum {
    ROTA_KAFKA_URL_MAX = 32768,       /* bytes of a URL */
    ROTA_KAFKA_URL_PROPERTY_MAX = 64, /* properties */
    ROTA_KAFKA_URL_NAME_MAX = 64,     /* room for a property's name, with its NUL */
    ROTA_KAFKA_TOPIC_MAX = 249,       /* bytes of a topic's name; as Kafka has it */
};

struct rota_kafka_property {
    char name[ROTA_KAFKA_URL_NAME_MAX];
    const char *value; /* in `text` */
};

struct rota_kafka_url {
    char *text;        /* the memory of all texts */
    const char *hosts; /* "HOST:PORT,HOST:PORT", as librdkafka expects them */
    char rebalance_topic[ROTA_KAFKA_TOPIC_MAX + 1]; /* "": not given */
    struct rota_kafka_property *properties;
    size_t n_properties;
};

/* Parse a URL. Gives the contents of `*url`; rota_kafka_url_deinit() ends it. */
enum rota_code rota_kafka_url_parse(struct rota_str text, struct rota_kafka_url *url,
                                    struct rota_error *error);
void rota_kafka_url_deinit(struct rota_kafka_url *url);

/* Write where it is, and nothing that could be a secret, the way
 * rota_kafka_url_parse() reads it. Gives the text, which free() ends; NULL without
 * memory. */
char *rota_kafka_url_format(const struct rota_kafka_url *url);
