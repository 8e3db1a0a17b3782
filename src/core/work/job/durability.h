/* durability: where a broker keeps jobs, with the names that all programs use for it. */
#pragma once

enum rota_durability {
    ROTA_DURABILITY_JOURNAL, /* on its own disk */
    ROTA_DURABILITY_STORE,   /* as rows of a database that all brokers share */
    ROTA_DURABILITY_MEMORY,  /* in memory: they are lost with the process */
};

extern const char *const rota_durability_names[]; /* by number, terminated by NULL */
