#include "core/call/get/get_load.h"

/* Ratio of waiting to other time. */
static const double LOW = 0.2, HIGH = 0.6, TOP = 3.0;

enum {
    SAMPLES = 64,        /* before a window can end */
    IN_FLIGHT_MANY = 64, /* enough for silence to mean something */
};

#define SETTLE  (100 * ROTA_MSEC) /* until a change shows in the answers */
#define WINDOW  (500 * ROTA_MSEC)
#define SILENCE (500 * ROTA_MSEC)
#define HOLD    ROTA_SEC
#define STALE   (10 * ROTA_SEC) /* older samples are outdated */

#define HOLD_MAX (32 * ROTA_SEC)

/* Every how many Gets one is broadcast, by the step. */
static const uint32_t every[ROTA_GET_LOAD_STEPS + 1] = {0, 8, 4, 2, 1};

void rota_get_load_init(struct rota_get_load *load, rota_time now)
{
    *load = (struct rota_get_load){
        .step = ROTA_GET_LOAD_STEPS,
        .ceiling = ROTA_GET_LOAD_STEPS + 1,
        .hold = HOLD,
        .window_at = now,
        .heard_at = now,
    };
    rota_get_trial_init(&load->trial);
}

static void begin_window(struct rota_get_load *load, rota_time at)
{
    load->window_at = at;
    load->wait_us = load->busy_us = 0;
    load->n_samples = 0;
}

static void add_sample(struct rota_get_load *load, rota_time now, double wait_us, double busy_us)
{
    if (now - load->window_at > STALE)
        begin_window(load, now);
    if (now < load->window_at)
        return;
    load->wait_us += wait_us;
    load->busy_us += busy_us;
    load->n_samples++;
}

void rota_get_load_answered(struct rota_get_load *load, rota_time now, rota_time latency,
                            const struct rota_cost *cost)
{
    load->heard_at = now;
    if (!cost || cost->service_us < 0 || cost->response_us < cost->service_us)
        return;
    double latency_us = (double)latency / (double)ROTA_USEC;
    double wait_us = (double)cost->response_us - (double)cost->service_us;
    double busy_us = latency_us - wait_us;
    if (busy_us < (double)cost->service_us) /* their clock and ours need not agree */
        busy_us = (double)cost->service_us;
    add_sample(load, now, wait_us, busy_us > 1 ? busy_us : 1);
}

void rota_get_load_refused(struct rota_get_load *load, rota_time now)
{
    double busy_us = load->n_samples > 0 ? load->busy_us / load->n_samples : 1;
    load->heard_at = now;
    add_sample(load, now, 2 * TOP * busy_us, busy_us);
}

static void set_step(struct rota_get_load *load, rota_time now, uint32_t step)
{
    load->step = step;
    begin_window(load, rota_time_add(now, SETTLE));
}

/* Fewer copies; and this many are not tried again for a while. */
static void cut_copies(struct rota_get_load *load, rota_time now, struct rota_random *random)
{
    rota_time hold = load->hold + (rota_time)rota_random_below(random, (uint64_t)load->hold / 4);
    load->ceiling = load->step;
    load->ceiling_until = rota_time_add(now, hold);
    load->hold = rota_time_min(2 * load->hold, HOLD_MAX);
    load->n_cuts++;
    set_step(load, now, load->pressure >= TOP ? 0 : load->step - 1);
}

static void raise_step(struct rota_get_load *load, rota_time now)
{
    if (load->step == ROTA_GET_LOAD_STEPS ||
        (load->step + 1 >= load->ceiling && now < load->ceiling_until))
        return;
    load->n_raises++;
    set_step(load, now, load->step + 1);
}

/* A window has ended with this pressure. */
static void end_window(struct rota_get_load *load, rota_time now, double pressure,
                       struct rota_random *random)
{
    bool is_held =
        load->step >= load->ceiling && now > rota_time_add(load->ceiling_until, HOLD_MAX);
    load->pressure = pressure;
    begin_window(load, now);
    if (pressure > HIGH && load->step > 0)
        cut_copies(load, now, random);
    else if (pressure < LOW)
        raise_step(load, now);
    if (pressure <= HIGH && is_held)
        load->hold = HOLD; /* going up was right this time */
    load->is_top = load->step == 0 && pressure > (load->is_top ? HIGH : TOP);
}

/* If copies would be too much load, they are not tried out either. */
static bool is_broadcast(struct rota_get_load *load, rota_time now, size_t in_flight)
{
    if (load->step == ROTA_GET_LOAD_STEPS)
        return rota_get_trial_choose(&load->trial, now, in_flight);
    rota_get_trial_abandon(&load->trial);
    return load->trial.is_worth && load->step > 0 && load->turn++ % every[load->step] == 0;
}

enum rota_get_copies rota_get_load_choose(struct rota_get_load *load, rota_time now,
                                          size_t in_flight, struct rota_random *random)
{
    rota_time age = now - load->window_at;
    double pressure = load->busy_us > 0 ? load->wait_us / load->busy_us : 0;
    if (load->n_samples >= SAMPLES && (age >= WINDOW || (age >= SETTLE && pressure >= TOP)))
        end_window(load, now, pressure, random);
    if (in_flight >= IN_FLIGHT_MANY && now - load->heard_at > SILENCE) {
        load->heard_at = now;
        end_window(load, now, 2 * TOP, random);
    }
    if (load->is_top)
        return ROTA_GET_ONE;
    return is_broadcast(load, now, in_flight) ? ROTA_GET_ALL : ROTA_GET_HEDGE;
}

void rota_get_load_ended(struct rota_get_load *load, rota_time now, rota_time started_at,
                         enum rota_get_copies copies)
{
    rota_get_trial_ended(&load->trial, now, started_at, copies == ROTA_GET_ALL);
}

uint32_t rota_get_load_share_ppm(const struct rota_get_load *load)
{
    return load->trial.is_worth && load->step > 0 ? 1000000 / every[load->step] : 0;
}
