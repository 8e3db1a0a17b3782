/* In place of sync_kafka.c where librdkafka is not installed. */
#include "io/log/sync_inside.h"

static enum rota_code absent_open(struct uv_loop_s *loop, const struct rota_sync_options *options,
                                  struct rota_sync **sync, struct rota_error *error)
{
    (void)loop, (void)options, (void)sync;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "this Rota was built without librdkafka, so it cannot use Kafka");
}

const struct rota_sync_engine rota_sync_kafka = {.open = absent_open};
