/* Did you mean ...? The name nearest to an unknown word.
 *
 *     struct rota_spell spell = {.word = word};
 *     for (each name) rota_spell_offer(&spell, name);
 *     if (spell.best) ... did you mean spell.best? ..., or rota_spell_hint(&spell, text)
 *
 * A slip is an extra, missing or wrong letter, or one swapped with its neighbor; a name is near
 * when less than half of its letters would be slips, and there are no more than
 * ROTA_SPELL_SLIPS_MAX. */
#pragma once

#include <rota/str.h>

enum { ROTA_SPELL_SLIPS_MAX = 3, ROTA_SPELL_WORD_MAX = 40, ROTA_SPELL_HINT_MAX = 60 };

struct rota_spell {
    struct rota_str word;
    const char *best; /* NULL: none is near; else one of those offered */
    size_t slips;     /* between the word and `best` */
};

/* Offer one more name; the first of the nearest stays. Kept. */
void rota_spell_offer(struct rota_spell *spell, const char *name);

/* Write "; did you mean NAME?", or nothing, and return `text`. */
const char *rota_spell_hint(const struct rota_spell *spell, char text[ROTA_SPELL_HINT_MAX]);
