/* bench_balance [--json]: how long one choice among 16 replicas and its report
 * take, under equal and unequal load (row L14). The original of look_aside takes about
 * 500 ns for the choice alone, by its authors' figures. */
#include "measure.h"

#include <rota/experimental/balancer.h>
#include <rota/experimental/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_REPLICAS = 16, N_OUT = 64, N_CHOICES = 200000, ROUNDS = 11 };

struct subject {
    enum rota_balancer_policy policy;
    bool is_unequal;
    struct rota_balancer *balancer;
    struct rota_random random;
    rota_time now;
    struct rota_try out[N_OUT]; /* in flight */
};

static uint64_t replicas[N_REPLICAS];

static void end_one(struct subject *subject, struct rota_try ended)
{
    int64_t unit = subject->is_unequal ? 1 + (int64_t)ended.replica : 1;
    struct rota_cost cost = {.response_us = 1200 * unit, .service_us = 1000 * unit, .waiting = 2};
    rota_balancer_report(subject->balancer, subject->now, ended, ROTA_OUTCOME_OK, &cost);
}

static void choose_many(void *data)
{
    struct subject *subject = data;
    struct rota_choice choice = {.replicas = replicas, .n_replicas = N_REPLICAS};
    for (int i = 0; i < N_CHOICES; i++) {
        struct rota_try *place = &subject->out[i % N_OUT];
        subject->now += 20 * ROTA_USEC;
        end_one(subject, *place);
        if (rota_balancer_select(subject->balancer, subject->now, &choice, &subject->random, place,
                                 NULL))
            abort();
    }
}

int main(int argc, char **argv)
{
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_balance [--json]\n");
        return 2;
    }
    for (uint64_t i = 0; i < N_REPLICAS; i++)
        replicas[i] = i;
    if (json)
        printf("{\"bench\":\"balance\",\"replicas\":%d,\"rows\":[", N_REPLICAS);
    else
        printf("%-24s %10s %18s\n", "a choice and its report", "median", "10 % .. 90 %");
    for (int i = 0; i < 2 * (ROTA_BALANCER_RANDOM + 1); i++) {
        struct subject subject = {.policy = (enum rota_balancer_policy)(i / 2),
                                  .is_unequal = i % 2};
        struct rota_balancer_options options = {.policy = subject.policy, .seed = 1};
        const char *name = rota_balancer_policy_name(subject.policy);
        const char *load = subject.is_unequal ? "unequal" : "equal";
        if (rota_balancer_new(&options, &subject.balancer, NULL))
            return 1;
        rota_random_init(&subject.random, 1);
        struct measure took = measure_run(choose_many, &subject, N_CHOICES, ROUNDS);
        if (json)
            printf("%s{\"policy\":\"%s\",\"load\":\"%s\",\"median_ns\":%.0f,\"low_ns\":%.0f,"
                   "\"high_ns\":%.0f}",
                   i ? "," : "", name, load, took.median, took.low, took.high);
        else
            printf("%-16s%-8s %7.0f ns %7.0f .. %4.0f ns\n", name, load, took.median, took.low,
                   took.high);
        rota_balancer_free(subject.balancer);
    }
    if (json)
        printf("]}\n");
    return 0;
}
