#include "core/work/broker/elsewhere.h"

#include <stdarg.h>
#include <stdio.h>

void rota_elsewhere_init(struct rota_elsewhere *elsewhere, uint64_t seed, struct rota_str queue,
                         const struct rota_str *can, size_t n_can)
{
    *elsewhere = (struct rota_elsewhere){.queue = queue, .can = can, .n_can = n_can};
    rota_tally_init(&elsewhere->tally, seed);
}

void rota_elsewhere_deinit(struct rota_elsewhere *elsewhere)
{
    rota_tally_deinit(&elsewhere->tally);
}

static void note_node(struct rota_elsewhere_nodes *nodes, struct rota_str address)
{
    if (nodes->n < ROTA_ELSEWHERE_NODES_SHOWN)
        nodes->shown[nodes->n] = address;
    nodes->n++;
}

static bool has_name(const struct rota_str *names, size_t n, struct rota_str name)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(names[i], name))
            return true;
    return false;
}

static bool has_all(const struct rota_elsewhere *elsewhere,
                    const struct rota_elsewhere_worker *worker)
{
    for (size_t i = 0; i < elsewhere->n_can; i++)
        if (!has_name(worker->can, worker->n_can, elsewhere->can[i]))
            return false;
    return true;
}

bool rota_elsewhere_add(struct rota_elsewhere *elsewhere, size_t node, struct rota_str address,
                        const struct rota_elsewhere_worker *workers, size_t n)
{
    bool is_able = false;
    for (size_t i = 0; i < n; i++) {
        const struct rota_elsewhere_worker *worker = &workers[i];
        if (!has_name(worker->queues, worker->n_queues, elsewhere->queue))
            continue;
        elsewhere->is_served = true;
        if (!has_all(elsewhere, worker))
            continue;
        is_able = true;
        if (!rota_tally_add(&elsewhere->tally, node, elsewhere->queue, worker->name, worker->slots,
                            worker->n_running))
            return false;
    }
    if (is_able)
        note_node(&elsewhere->able, address);
    return true;
}

void rota_elsewhere_add_silent(struct rota_elsewhere *elsewhere, struct rota_str address)
{
    note_node(&elsewhere->silent, address);
}

bool rota_elsewhere_is_able(const struct rota_elsewhere *elsewhere)
{
    return elsewhere->able.n > 0;
}

/* --- words --- */

struct words {
    char *text;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void append_words(struct words *words,
                                                               const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (words->used < words->size)
        words->used += (size_t)vsnprintf(words->text + words->used, words->size - words->used,
                                         format, arguments);
    va_end(arguments);
}

static void say_nodes(struct words *words, const struct rota_elsewhere_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n && i < ROTA_ELSEWHERE_NODES_SHOWN; i++)
        append_words(words, "%s%.*s", i > 0 ? ", " : "", ROTA_STR_ARGS(nodes->shown[i]));
    if (nodes->n > ROTA_ELSEWHERE_NODES_SHOWN)
        append_words(words, " and %zu more", nodes->n - ROTA_ELSEWHERE_NODES_SHOWN);
}

static void say_able(struct words *words, const struct rota_elsewhere *elsewhere)
{
    struct rota_tally_sum sum = rota_tally_of(&elsewhere->tally, elsewhere->queue);
    append_words(words, "%llu capable worker%s on ", (unsigned long long)sum.n_workers,
                 sum.n_workers == 1 ? "" : "s");
    say_nodes(words, &elsewhere->able);
    if (sum.n_free > 0)
        append_words(words, ", %llu slot%s free", (unsigned long long)sum.n_free,
                     sum.n_free == 1 ? " is" : "s are");
    else
        append_words(words, ", no free slot");
}

/* Several workers may have all capabilities between them, but none alone. */
static void say_unable(struct words *words, const struct rota_elsewhere *elsewhere)
{
    if (!elsewhere->is_served) {
        append_words(words, "no worker on any other node serves it");
        return;
    }
    append_words(words, "no %sworker on any other node has %s",
                 elsewhere->n_can > 1 ? "single " : "", elsewhere->n_can > 1 ? "all of " : "");
    for (size_t i = 0; i < elsewhere->n_can; i++)
        append_words(words, "%s%.*s", i > 0 ? ", " : "", ROTA_STR_ARGS(elsewhere->can[i]));
}

char *rota_elsewhere_explain(const struct rota_elsewhere *elsewhere, char *text, size_t size)
{
    struct words words = {text, size, 0};
    if (rota_elsewhere_is_able(elsewhere))
        say_able(&words, elsewhere);
    else
        say_unable(&words, elsewhere);
    if (elsewhere->silent.n > 0) {
        append_words(&words, "; ");
        say_nodes(&words, &elsewhere->silent);
        append_words(&words, " did not report workers");
    }
    return text;
}
