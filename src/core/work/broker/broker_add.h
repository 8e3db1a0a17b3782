/* broker_add: adds jobs. */
#pragma once

#include "core/work/broker/broker.h"

enum { ROTA_BROKER_REFUSAL_MAX = 256 };

struct rota_broker_adding {
    uint64_t chance; /* random part of the next id */
    char refusal[ROTA_BROKER_REFUSAL_MAX];
    uint64_t room;   /* bytes of new jobs that may still be accepted ... */
    bool is_bounded; /* ... if that is bounded */
    bool is_short;   /* one was rejected for it */
};

/* Whether a job of this spec may be written, and `more` bytes with it. Count it with
 * rota_broker_add_take_room() once it is accepted. */
enum rota_code rota_broker_add_check_disk(struct rota_broker *broker,
                                          const struct rota_job_spec *spec, size_t more,
                                          struct rota_error *error);
void rota_broker_add_take_room(struct rota_broker *broker, const struct rota_job_spec *spec,
                               size_t more);

/* Bytes of a job in a journal, an upper bound. */
size_t rota_broker_add_spec_size(const struct rota_job_spec *spec);
