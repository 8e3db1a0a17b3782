/* A broker on a bench: time by hand, a journal in memory, and a note of all that it did. */
#pragma once

#include "base/arena.h"
#include "base/vector.h"
#include "core/work/broker/broker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BENCH_WALL (1700000000 * ROTA_SEC)

struct bench {
    struct rota_broker *broker;
    struct rota_broker_options options;
    struct rota_work_now now;
    bool is_slow; /* the disk does nothing by itself */

    struct rota_arena memory;
    ROTA_VECTOR(struct rota_work_record) journal;
    ROTA_VECTOR(struct rota_work_effect) done; /* but records */
    struct rota_error error;
    uint64_t number; /* of the record of the last call */
    bool is_new;
};

/* Write down what the broker did. Its bytes are read only now, as late as a driver may. */
void bench_take(struct bench *bench);

void bench_sync(struct bench *bench);

/* After each call: effects are taken, the disk is quick unless it is slow. */
void bench_settle(struct bench *bench);

void bench_new(struct bench *bench);
void bench_own(struct bench *bench, const char *queue);

/* A broker without a past that owns partition 0 of queue "q". */
void bench_init(struct bench *bench);

void bench_deinit(struct bench *bench);

/* The process dies with all but the first `n_kept` records, and another one reads these. */
void bench_crash(struct bench *bench, size_t n_kept);

void bench_restart(struct bench *bench);

/* The process is paused for a while: its tick comes late. */
void bench_stall(struct bench *bench, rota_time span);

/* Time passes, with a tick whenever one is due. */
void bench_tick(struct bench *bench, rota_time span);

enum rota_code bench_try_add(struct bench *bench, const struct rota_job_spec *spec,
                             struct rota_job_id *id);
struct rota_job_id bench_add_spec(struct bench *bench, struct rota_job_spec spec);

/* A job of queue "q" that needs nothing. */
struct rota_job_id bench_add(struct bench *bench, const char *payload);

/* ... that needs one capability. */
struct rota_job_id bench_add_for(struct bench *bench, const char *capability);

enum rota_code bench_try_open(struct bench *bench, const struct rota_worker_spec *spec,
                              uint64_t *session);
uint64_t bench_open_spec(struct bench *bench, struct rota_worker_spec spec);

/* A worker of queue "q" with `slots`. */
uint64_t bench_open(struct bench *bench, const char *name, uint32_t slots);

uint64_t bench_open_for(struct bench *bench, const char *name, uint32_t slots,
                        const char *capability);

/* ... that says it still runs an attempt. */
uint64_t bench_open_running(struct bench *bench, const char *name, struct rota_job_id id,
                            uint64_t attempt, uint64_t epoch);

struct rota_job_view bench_view(struct bench *bench, struct rota_job_id id);
enum rota_job_state bench_state(struct bench *bench, struct rota_job_id id);
enum rota_code bench_end(struct bench *bench, struct rota_job_id id, uint64_t attempt,
                         enum rota_job_cause cause, const char *text);

/* The attempt that runs ends. */
void bench_end_now(struct bench *bench, struct rota_job_id id, enum rota_job_cause cause,
                   const char *text);

void bench_done(struct bench *bench, struct rota_job_id id);
bool bench_id_is(struct rota_job_id a, struct rota_job_id b);

/* How often something was done since the last look; about `id` unless that is none. */
size_t bench_count(const struct bench *bench, enum rota_work_effect_type type,
                   struct rota_job_id id);

/* The last of them. */
struct rota_work_effect bench_last(const struct bench *bench, enum rota_work_effect_type type);

void bench_look(struct bench *bench);

/* The session that a job was handed to last; 0: to nobody since the last look. */
uint64_t bench_session_of(const struct bench *bench, struct rota_job_id id);

#define BENCH_NONE ((struct rota_job_id){0})
