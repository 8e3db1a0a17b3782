#include "base/spell.h"

#include <stdio.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row by row: rows[i % 3][j] counts the slips between the first i letters of
 * `a` and the first j of `b`; a swap looks back two rows. */
static size_t count_slips(struct rota_str a, struct rota_str b)
{
    size_t rows[3][ROTA_SPELL_WORD_MAX + 1];

    for (size_t i = 0; i <= a.size; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            if (i == 0) {
                now[j] = j;
                continue;
            }
            bool differ = a.data[i - 1] != b.data[j - 1];
            now[j] = smaller(before[j - 1] + differ, smaller(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1])
                now[j] = smaller(now[j], earlier[j - 2] + 1);
        }
    }
    return rows[a.size % 3][b.size];
}

void rota_spell_offer(struct rota_spell *spell, const char *name)
{
    struct rota_str offered = rota_str(name);
    if (spell->word.size > ROTA_SPELL_WORD_MAX || offered.size > ROTA_SPELL_WORD_MAX)
        return;
    size_t slips = count_slips(spell->word, offered);
    if (slips > ROTA_SPELL_SLIPS_MAX || 2 * slips >= offered.size)
        return;
    if (!spell->best || slips < spell->slips) {
        spell->best = name;
        spell->slips = slips;
    }
}

const char *rota_spell_hint(const struct rota_spell *spell, char text[ROTA_SPELL_HINT_MAX])
{
    text[0] = '\0';
    if (spell->best)
        snprintf(text, ROTA_SPELL_HINT_MAX, "; did you mean %s?", spell->best);
    return text;
}
