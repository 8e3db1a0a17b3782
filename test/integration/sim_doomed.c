/* A simulation whose seeds fail on purpose: those that end in 3 break a rule, those that end in 7
 * crash, and 40 hangs. It shows that runs of simulations report failures. */
#include "sim_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void run(struct sim_case *run)
{
    run->hash = run->seed;
    if (run->seed % 10 == 3)
        snprintf(run->violation, sizeof run->violation, "the seed ends in 3");
    if (run->seed % 10 == 7)
        abort();
    if (run->seed == 40) {
        printf("# hangs\n");
        fflush(stdout);
    }
    while (run->seed == 40)
        pause();
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_doomed",
                        .n_seeds = 2,
                        .kept = {11, 13, 15, 23},
                        .run = run,
                    });
}
