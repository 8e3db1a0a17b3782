#include "core/call/get_load.h"

/* Waiting for each moment of not waiting. */
static const double LOW = 0.3, HIGH = 1.0, TOP = 3.0;

enum {
    SAMPLES = 32,        /* of the average; and before the share may change again */
    IN_FLIGHT_MANY = 64, /* enough for silence to mean something */
};

#define SETTLE       (100 * ROTA_MSEC) /* until a change shows in the answers */
#define SILENCE      (500 * ROTA_MSEC)
#define HOLD         (500 * ROTA_MSEC)
#define HOLD_MAX     (32 * ROTA_SEC)
#define FORGET_AFTER (10 * ROTA_SEC) /* without an answer nothing is known */

/* Every how many Gets one is broadcast, by the step. */
static const uint32_t every[ROTA_GET_LOAD_STEPS + 1] = {0, 8, 4, 2, 1};

void rota_get_load_init(struct rota_get_load *load, rota_time now)
{
    *load = (struct rota_get_load){
        .step = ROTA_GET_LOAD_STEPS,
        .ceiling = ROTA_GET_LOAD_STEPS + 1,
        .hold = HOLD,
        .step_at = now,
        .sample_at = now,
    };
}

double rota_get_load_pressure(const struct rota_get_load *load)
{
    return load->busy_us > 0 ? load->wait_us / load->busy_us : 0;
}

static void sample(struct rota_get_load *load, rota_time now, double wait_us, double busy_us)
{
    if (now - load->sample_at > FORGET_AFTER)
        load->wait_us = 0;
    load->sample_at = now;
    load->n_samples++;
    double part = load->busy_us > 0 ? 1.0 / SAMPLES : 1;
    load->wait_us += (wait_us - load->wait_us) * part;
    load->busy_us += (busy_us - load->busy_us) * part;
}

void rota_get_load_answered(struct rota_get_load *load, rota_time now, rota_time latency,
                            const struct rota_cost *cost)
{
    load->sample_at = cost ? load->sample_at : now;
    if (!cost || cost->service_us < 0 || cost->response_us < cost->service_us)
        return;
    double latency_us = (double)latency / (double)ROTA_USEC;
    double wait_us = (double)cost->response_us - (double)cost->service_us;
    double busy_us = latency_us - wait_us;
    if (busy_us < (double)cost->service_us) /* their clock and ours need not agree */
        busy_us = (double)cost->service_us;
    sample(load, now, wait_us, busy_us > 1 ? busy_us : 1);
}

void rota_get_load_refused(struct rota_get_load *load, rota_time now)
{
    double busy_us = load->busy_us > 0 ? load->busy_us : 1;
    sample(load, now, 2 * TOP * busy_us, busy_us);
}

static void set_step(struct rota_get_load *load, rota_time now, uint32_t step)
{
    load->step = step;
    load->step_at = now;
    load->n_samples = 0;
}

/* Fewer copies; and this many are not tried again for a while. */
static void cut(struct rota_get_load *load, rota_time now, double pressure,
                struct rota_random *random)
{
    rota_time hold = load->hold + (rota_time)rota_random_below(random, (uint64_t)load->hold / 4);
    load->ceiling = load->step;
    load->ceiling_until = rota_time_add(now, hold);
    load->hold = 2 * load->hold < HOLD_MAX ? 2 * load->hold : HOLD_MAX;
    load->n_cuts++;
    set_step(load, now, pressure >= TOP ? 0 : load->step - 1);
}

static void raise_step(struct rota_get_load *load, rota_time now)
{
    rota_time age = now - load->step_at;
    if (load->step == ROTA_GET_LOAD_STEPS || age < HOLD)
        return;
    if (load->step + 1 >= load->ceiling && now < load->ceiling_until)
        return;
    load->n_raises++;
    set_step(load, now, load->step + 1);
}

enum rota_get_copies rota_get_load_choose(struct rota_get_load *load, rota_time now,
                                          size_t in_flight, struct rota_random *random)
{
    if (in_flight >= IN_FLIGHT_MANY && now - load->sample_at > SILENCE)
        rota_get_load_refused(load, now);
    double pressure = rota_get_load_pressure(load);
    rota_time age = now - load->step_at;
    if (age >= SETTLE && load->n_samples >= SAMPLES) {
        if (pressure > HIGH && load->step > 0)
            cut(load, now, pressure, random);
        else if (pressure < LOW)
            raise_step(load, now);
        if (load->step >= load->ceiling && pressure <= HIGH && age > 2 * load->hold)
            load->hold = HOLD; /* going up was right this time */
    }
    load->is_top = load->step == 0 && pressure > (load->is_top ? HIGH : TOP);
    if (load->is_top)
        return ROTA_GET_ONE;
    if (load->step > 0 && load->turn++ % every[load->step] == 0)
        return ROTA_GET_ALL;
    return ROTA_GET_HEDGE;
}

uint32_t rota_get_load_share_ppm(const struct rota_get_load *load)
{
    return load->step > 0 ? 1000000 / every[load->step] : 0;
}
