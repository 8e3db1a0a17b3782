/* lookup: what to answer about a job, from what several nodes have said of it.
 *
 * Where each node has a journal of its own, a job may be at any of them: there is none only when
 * every node has said so. Where nodes share a store, the one that has the job's partition speaks
 * for all: what it says is final, and a node that does not have it says nothing about the job. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum rota_lookup_word {
    ROTA_LOOKUP_UNASKED,
    ROTA_LOOKUP_FOUND,   /* it has the job, and did what was asked */
    ROTA_LOOKUP_REFUSED, /* it has the job, and refuses */
    ROTA_LOOKUP_NONE,    /* it has no such job */
    ROTA_LOOKUP_UNSURE,  /* it has no such job, but knows nodes that may, or not those we know */
    ROTA_LOOKUP_UNOWNED, /* with a store: it does not have the partition */
    ROTA_LOOKUP_SILENT,  /* it did not answer, or can't at the moment */
};

/* The place of the node whose answer is passed on; SIZE_MAX: nobody can say whether there is such
 * a job, and the caller is to try again. */
size_t rota_lookup_choose(const enum rota_lookup_word *words, size_t n, bool is_shared);
