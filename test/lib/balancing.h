/* What the tests of the balancer and its policies share. */
#pragma once

#include "core/call/balancer_rule.h"
#include "vectors.h"

struct bench {
    struct rota_balancer *balancer;
    struct rota_random random;
    rota_time now;
    uint64_t replicas[64];
    size_t n;
};

/* A balancer and replicas 1 .. n. */
struct bench bench_new(struct rota_balancer_options options, size_t n);

void bench_free(struct bench *bench);

/* Choose among all replicas of the bench. */
struct rota_try bench_select(struct bench *bench);

/* Try on this replica, whatever the policy thinks of it. */
struct rota_try bench_try(struct bench *bench, uint64_t replica, int64_t work);

void bench_end(struct bench *bench, struct rota_try ended, enum rota_outcome outcome);

/* A try on this replica that ends `after`. */
void bench_run(struct bench *bench, uint64_t replica, rota_time after, enum rota_outcome outcome);

/* The replica tells this along with a success. */
void bench_tell(struct bench *bench, uint64_t replica, int64_t response_us, int64_t service_us,
                int64_t waiting);

struct rota_balancer_view bench_look(const struct bench *bench, uint64_t replica);

/* Whom `n` choices in a row fall on, with nothing ending; by replica. */
void bench_count(struct bench *bench, size_t n, size_t counts[65]);

/* The same with each choice over at once, and well. */
void bench_count_ended(struct bench *bench, size_t n, size_t counts[65]);
