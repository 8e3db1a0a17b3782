#include "core/call/get/get_trial.h"

static const double SAVES = 0.2; /* of the time, to be worth it */
static const double SURE = 3;    /* standard errors */

void rota_get_trial_init(struct rota_get_trial *trial)
{
    *trial = (struct rota_get_trial){
        .is_worth = true,
        .n_left = ROTA_GET_TRIAL_FIRST,
        .rest = ROTA_GET_TRIAL_REST,
    };
}

static double mean_us(const struct rota_get_trial_kind *kind)
{
    return kind->n > 0 ? kind->sum_us / kind->n : 0;
}

/* The square of the mean's standard error. */
static double error_of(const struct rota_get_trial_kind *kind)
{
    double variance = kind->squares / kind->n - mean_us(kind) * mean_us(kind);
    return variance > 0 ? variance / kind->n : 0;
}

/* How much faster a broadcast is than required, in us; negative: slower. */
static double gain_of_broadcast(const struct rota_get_trial *trial)
{
    return (1 - SAVES) * mean_us(&trial->one) - mean_us(&trial->all);
}

static bool is_clear(const struct rota_get_trial *trial)
{
    uint32_t least = trial->one.n < trial->all.n ? trial->one.n : trial->all.n;
    if (least < ROTA_GET_TRIAL_ENOUGH)
        return false;
    double error = (1 - SAVES) * (1 - SAVES) * error_of(&trial->one) + error_of(&trial->all);
    return gain_of_broadcast(trial) * gain_of_broadcast(trial) > SURE * SURE * error;
}

static bool is_over(const struct rota_get_trial *trial)
{
    return is_clear(trial) || trial->n_begun >= ROTA_GET_TRIAL_MAX ||
           (trial->one.n >= ROTA_GET_TRIAL_MANY && trial->all.n >= ROTA_GET_TRIAL_MANY);
}

static void begin_trial(struct rota_get_trial *trial, rota_time now)
{
    trial->is_running = true;
    trial->is_all = trial->is_worth; /* the next block is the other kind */
    trial->n_begun = 0;
    trial->began_at = now;
    trial->one = trial->all = (struct rota_get_trial_kind){0};
}

static void end_trial(struct rota_get_trial *trial)
{
    bool is_worth = is_clear(trial) && gain_of_broadcast(trial) > 0;
    if (is_worth != trial->is_worth)
        trial->rest = ROTA_GET_TRIAL_REST;
    trial->is_worth = is_worth;
    trial->is_running = false;
    trial->n_left = trial->rest * trial->n_begun;
    if (trial->rest < ROTA_GET_TRIAL_REST_MAX)
        trial->rest *= 2;
}

/* Gets still in flight from the previous block must be a small part of this one. */
static uint32_t block_size(size_t in_flight)
{
    if (in_flight < ROTA_GET_TRIAL_BLOCK)
        return ROTA_GET_TRIAL_BLOCK;
    return in_flight < ROTA_GET_TRIAL_BLOCK_MAX ? (uint32_t)in_flight : ROTA_GET_TRIAL_BLOCK_MAX;
}

bool rota_get_trial_choose(struct rota_get_trial *trial, rota_time now, size_t in_flight)
{
    if (trial->n_left == 0 && trial->is_running && is_over(trial))
        end_trial(trial);
    if (trial->n_left == 0) {
        if (!trial->is_running)
            begin_trial(trial, now);
        trial->is_all = !trial->is_all;
        trial->n_left = block_size(in_flight);
    }
    trial->n_left--;
    trial->n_begun += trial->is_running;
    return trial->is_running ? trial->is_all : trial->is_worth;
}

void rota_get_trial_ended(struct rota_get_trial *trial, rota_time now, rota_time started_at,
                          bool is_all)
{
    struct rota_get_trial_kind *kind = is_all ? &trial->all : &trial->one;
    if (!trial->is_running || started_at < trial->began_at || now < started_at)
        return;
    double us = (double)(now - started_at) / (double)ROTA_USEC;
    kind->sum_us += us;
    kind->squares += us * us;
    kind->n++;
}

void rota_get_trial_abandon(struct rota_get_trial *trial)
{
    if (!trial->is_running)
        return;
    trial->is_running = false;
    trial->n_left = ROTA_GET_TRIAL_FIRST;
}
