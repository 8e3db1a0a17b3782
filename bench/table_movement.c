/* Prints the table of docs/placement.md: what spread routing moves when one
 * host joins, and how even the load is, in both modes. */
#include "movement.h"

int main(void)
{
    static const uint32_t CASES[][2] = {
        {3, 8},  {4, 8},   {5, 8},   {6, 8},   {7, 8},   {8, 8},   {10, 8},  {20, 8},
        {30, 8}, {100, 8}, {16, 32}, {31, 32}, {32, 32}, {40, 32}, {80, 32}, {100, 32},
    };
    enum { QUEUES = 2000 };

    printf("| hosts | batch | least | lookup moves | slots moves | lookup: load deviates | "
           "slots: load deviates |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint32_t hosts = CASES[i][0], batch = CASES[i][1];
        struct rota_spread lookup = {ROTA_SPREAD_LOOKUP, batch};
        struct rota_spread slots = {ROTA_SPREAD_SLOTS, batch};
        struct movement a = movement_measure(lookup, hosts, QUEUES);
        struct movement b = movement_measure(slots, hosts, QUEUES);
        printf(
            "| %u -> %u | %u | %.1f %% | %.1f %% (%.1fx) | %.1f %% (%.2fx) | %.1f %% | %.1f %% |\n",
            hosts, hosts + 1, batch, 100.0 / (hosts + 1), 100 * a.moved, a.ratio, 100 * b.moved,
            b.ratio, 100 * a.unevenness, 100 * b.unevenness);
    }
    return 0;
}
