/* lookup: what to answer about a job, given the answers of several nodes.
 *
 * Where each node has a journal of its own, a job may be at any of them: it does not exist only
 * when every node says so. Where nodes share a store, the owner of the job's partition speaks
 * for all: its answer is final, and the others say nothing about the job. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum rota_lookup_word {
    ROTA_LOOKUP_UNASKED,
    ROTA_LOOKUP_FOUND,   /* it has the job, and carried out the request */
    ROTA_LOOKUP_REFUSED, /* it has the job, and rejects the request */
    ROTA_LOOKUP_NONE,    /* it has no such job */
    ROTA_LOOKUP_UNSURE,  /* it has no such job, but knows nodes that may, or not those we know */
    ROTA_LOOKUP_UNOWNED, /* with a store: it does not have the partition */
    ROTA_LOOKUP_SILENT,  /* it did not answer, or can't right now */
};

/* The index of the node whose answer is forwarded; SIZE_MAX: it is unknown whether there is such
 * a job, and the caller should try again. */
size_t rota_lookup_choose(const enum rota_lookup_word *words, size_t n, bool is_shared);
