/* For tests on a real Kafka: another client, which creates and deletes topics and writes to
 * them, with librdkafka itself. */
#pragma once

#include "await.h"

#include <librdkafka/rdkafka.h>

/* `url` is "kafka://HOSTS". */
void kafka_admin_open(const char *url);

void kafka_admin_close(void);

/* `settings`: names and values in turn, up to a NULL. False when there is one of that name. */
bool kafka_admin_create_new(const char *topic, int n_partitions, const char *const *settings);

void kafka_admin_create(const char *topic, int n_partitions, const char *const *settings);
void kafka_admin_delete(const char *topic);

/* Records below `offset` go. */
void kafka_admin_cut(const char *topic, int64_t offset);

/* Write a record of `size` bytes 'f', of none if it is negative, and wait until it is there. */
void kafka_admin_write(const char *topic, int size);

/* Wait until all replicas of all topics have all records; `n` brokers are there. */
void kafka_admin_await_in_sync(int n);
