#include "core/work/job/lookup.h"

#include <stdint.h>

static size_t find_word(const enum rota_lookup_word *words, size_t n, enum rota_lookup_word word)
{
    for (size_t i = 0; i < n; i++)
        if (words[i] == word)
            return i;
    return SIZE_MAX;
}

size_t rota_lookup_choose(const enum rota_lookup_word *words, size_t n, bool is_shared)
{
    static const enum rota_lookup_word EACH[] = {ROTA_LOOKUP_FOUND,  ROTA_LOOKUP_REFUSED,
                                                 ROTA_LOOKUP_SILENT, ROTA_LOOKUP_UNOWNED,
                                                 ROTA_LOOKUP_UNSURE, ROTA_LOOKUP_NONE};
    static const enum rota_lookup_word SHARED[] = {ROTA_LOOKUP_FOUND,   ROTA_LOOKUP_REFUSED,
                                                   ROTA_LOOKUP_NONE,    ROTA_LOOKUP_SILENT,
                                                   ROTA_LOOKUP_UNOWNED, ROTA_LOOKUP_UNSURE};
    size_t chosen = SIZE_MAX;
    for (size_t i = 0; chosen == SIZE_MAX && i < sizeof EACH / sizeof *EACH; i++)
        chosen = find_word(words, n, is_shared ? SHARED[i] : EACH[i]);
    return chosen;
}
