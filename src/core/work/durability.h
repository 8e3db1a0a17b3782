/* durability: where a broker keeps jobs, in the words that all programs have for it. */
#pragma once

enum rota_durability {
    ROTA_DURABILITY_JOURNAL, /* on its own disk */
    ROTA_DURABILITY_STORE,   /* as rows of a database that all brokers share */
    ROTA_DURABILITY_MEMORY,  /* nowhere: they are gone with the process */
};

extern const char *const rota_durability_names[]; /* by their number, with a NULL behind them */
