#include "core/work/job/capability.h"

#include <assert.h>
#include <string.h>

bool rota_capabilities_init(struct rota_capabilities *capabilities, size_t sets_max, uint64_t seed)
{
    struct rota_capability_set *empty;
    *capabilities = (struct rota_capabilities){.sets_max = sets_max};
    rota_map_init(&capabilities->by_name, seed);
    rota_map_init(&capabilities->by_text, seed);
    return rota_capabilities_set(capabilities, NULL, 0, &empty, NULL) == ROTA_OK;
}

static void free_set(struct rota_capability_set *set)
{
    if (!set)
        return;
    free(set->list.items);
    free(set->text);
    free(set);
}

void rota_capabilities_deinit(struct rota_capabilities *capabilities)
{
    for (size_t i = 0; i < capabilities->sets.size; i++)
        free_set(capabilities->sets.items[i]);
    for (size_t i = 0; i < capabilities->names.size; i++)
        free(capabilities->names.items[i]);
    rota_vector_deinit(&capabilities->sets);
    rota_vector_deinit(&capabilities->names);
    rota_vector_deinit(&capabilities->free_names);
    rota_map_deinit(&capabilities->by_name);
    rota_map_deinit(&capabilities->by_text);
}

static struct rota_str name_of(const struct rota_capability *capability)
{
    return rota_str_of(capability->name, capability->size);
}

/* --- names --- */

static struct rota_capability *new_name(struct rota_capabilities *capabilities,
                                        struct rota_str name)
{
    struct rota_capability *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->size = (uint32_t)name.size;
    memcpy(made->name, name.data, name.size);
    made->number = capabilities->free_names.size
                       ? capabilities->free_names.items[capabilities->free_names.size - 1]
                       : (uint32_t)capabilities->names.size;
    bool is_fresh = made->number == capabilities->names.size;
    if ((is_fresh && (!rota_vector_push(&capabilities->names, NULL) ||
                      !rota_vector_reserve(&capabilities->free_names, capabilities->names.size))) ||
        !rota_map_put(&capabilities->by_name, name_of(made), made)) {
        if (is_fresh && capabilities->names.size > made->number)
            capabilities->names.size--;
        free(made);
        return NULL;
    }
    if (!is_fresh)
        capabilities->free_names.size--;
    capabilities->names.items[made->number] = made;
    return made;
}

static enum rota_code intern_name(struct rota_capabilities *capabilities, struct rota_str name,
                                  uint32_t *number, struct rota_error *error)
{
    struct rota_capability *known = rota_map_get(&capabilities->by_name, name);
    if (!known && capabilities->by_name.size >= ROTA_CAPABILITIES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the node already has %d capabilities, the maximum",
                              ROTA_CAPABILITIES_MAX);
    if (!known)
        known = new_name(capabilities, name);
    if (!known)
        return rota_error_no_memory(error, "for a capability");
    known->n_refs++;
    *number = known->number;
    return ROTA_OK;
}

static void release_name(struct rota_capabilities *capabilities, uint32_t number)
{
    struct rota_capability *capability = capabilities->names.items[number];
    if (--capability->n_refs > 0)
        return;
    rota_map_remove(&capabilities->by_name, name_of(capability));
    free(capability);
    capabilities->names.items[number] = NULL;
    capabilities->free_names.items[capabilities->free_names.size++] = number; /* reserved */
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

enum rota_code rota_capabilities_make_list(struct rota_capabilities *capabilities,
                                           const struct rota_str *names, size_t n,
                                           struct rota_capability_list *list,
                                           struct rota_error *error)
{
    struct rota_capability_list made = {.items = malloc((n + 1) * sizeof *made.items)};
    if (!made.items)
        return rota_error_no_memory(error, "for capabilities");
    for (size_t i = 0; i < n; i++) {
        enum rota_code code = intern_name(capabilities, names[i], &made.items[made.size], error);
        if (code) {
            rota_capabilities_drop_list(capabilities, &made);
            return code;
        }
        made.size++;
    }
    if (made.size > 1)
        qsort(made.items, made.size, sizeof *made.items, compare_numbers);
    size_t kept = 0;
    for (size_t i = 0; i < made.size; i++)
        if (kept > 0 && made.items[kept - 1] == made.items[i])
            release_name(capabilities, made.items[i]); /* a duplicate */
        else
            made.items[kept++] = made.items[i];
    made.size = kept;
    *list = made;
    return ROTA_OK;
}

void rota_capabilities_drop_list(struct rota_capabilities *capabilities,
                                 struct rota_capability_list *list)
{
    for (size_t i = 0; i < list->size; i++)
        release_name(capabilities, list->items[i]);
    free(list->items);
    *list = (struct rota_capability_list){0};
}

/* --- sets --- */

enum { TEXT_MAX = ROTA_JOB_CAPABILITIES_MAX * (ROTA_CAPABILITY_NAME_MAX + 1) };

static int compare_names(const void *a, const void *b)
{
    return rota_str_compare(*(const struct rota_str *)a, *(const struct rota_str *)b);
}

size_t rota_capabilities_sort(const struct rota_str *names, size_t n, struct rota_str *sorted)
{
    size_t n_sorted = 0;
    if (n > 0)
        memcpy(sorted, names, n * sizeof *names);
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t i = 0; i < n; i++)
        if (n_sorted == 0 || !rota_str_is_equal(sorted[n_sorted - 1], sorted[i]))
            sorted[n_sorted++] = sorted[i];
    return n_sorted;
}

/* Sorted, each once, followed by a blank, which is in no name. */
static struct rota_str write_names(const struct rota_str *names, size_t n, char text[TEXT_MAX])
{
    struct rota_str sorted[ROTA_JOB_CAPABILITIES_MAX];
    size_t size = 0;
    assert(n <= ROTA_JOB_CAPABILITIES_MAX);
    n = rota_capabilities_sort(names, n, sorted);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + size, sorted[i].data, sorted[i].size);
        size += sorted[i].size;
        text[size++] = ' ';
    }
    return rota_str_of(text, size);
}

static size_t split_names(struct rota_capability_set *set)
{
    size_t n = 0, from = 0;
    for (size_t i = 0; i < set->text_size; i++)
        if (set->text[i] == ' ') {
            set->names[n++] = rota_str_of(set->text + from, i - from);
            from = i + 1;
        }
    return n;
}

/* A free number for a set, with room for it; UINT32_MAX when there is no memory. */
static uint32_t set_number(struct rota_capabilities *capabilities)
{
    for (size_t i = 0; i < capabilities->sets.size; i++)
        if (!capabilities->sets.items[i])
            return (uint32_t)i;
    if (!rota_vector_push(&capabilities->sets, NULL))
        return UINT32_MAX;
    return (uint32_t)(capabilities->sets.size - 1);
}

static enum rota_code make_set(struct rota_capabilities *capabilities, struct rota_str text,
                               struct rota_capability_set **set, struct rota_error *error)
{
    struct rota_capability_set *made = calloc(1, sizeof *made);
    uint32_t number = made ? set_number(capabilities) : UINT32_MAX;
    if (number == UINT32_MAX || !(made->text = malloc(text.size + 1)))
        goto no_memory;
    made->number = number;
    made->text_size = text.size;
    memcpy(made->text, text.data, text.size);
    size_t n = split_names(made);
    enum rota_code code =
        rota_capabilities_make_list(capabilities, made->names, n, &made->list, error);
    if (code) {
        free_set(made);
        return code;
    }
    if (!rota_map_put(&capabilities->by_text, rota_str_of(made->text, made->text_size), made)) {
        rota_capabilities_drop_list(capabilities, &made->list);
        goto no_memory;
    }
    capabilities->sets.items[number] = made;
    capabilities->n_sets++;
    *set = made;
    return ROTA_OK;

no_memory:
    free_set(made);
    return rota_error_no_memory(error, "for a set of capabilities");
}

enum rota_code rota_capabilities_set(struct rota_capabilities *capabilities,
                                     const struct rota_str *names, size_t n,
                                     struct rota_capability_set **set, struct rota_error *error)
{
    char bytes[TEXT_MAX];
    if (n == 0 && capabilities->n_sets > 0) { /* what most jobs need */
        *set = capabilities->sets.items[0];
        return ROTA_OK;
    }
    struct rota_str text = write_names(names, n, bytes);
    struct rota_capability_set *known = rota_map_get(&capabilities->by_text, text);
    if (known) {
        *set = known;
        return ROTA_OK;
    }
    if (capabilities->n_sets >= capabilities->sets_max)
        rota_capabilities_sweep(capabilities);
    if (capabilities->n_sets >= capabilities->sets_max)
        return rota_error_set(
            error, ROTA_ERR_LIMIT,
            "jobs already require %zu different sets of capabilities, the maximum",
            capabilities->n_sets);
    return make_set(capabilities, text, set, error);
}

void rota_capabilities_sweep(struct rota_capabilities *capabilities)
{
    for (size_t i = 1; i < capabilities->sets.size; i++) {
        struct rota_capability_set *set = capabilities->sets.items[i];
        if (!set || set->n_refs > 0)
            continue;
        rota_map_remove(&capabilities->by_text, rota_str_of(set->text, set->text_size));
        rota_capabilities_drop_list(capabilities, &set->list);
        free_set(set);
        capabilities->sets.items[i] = NULL;
        capabilities->n_sets--;
    }
}

bool rota_capability_list_has(const struct rota_capability_list *offered,
                              const struct rota_capability_list *needed)
{
    size_t at = 0;
    for (size_t i = 0; i < needed->size; i++, at++) {
        while (at < offered->size && offered->items[at] < needed->items[i])
            at++;
        if (at == offered->size || offered->items[at] != needed->items[i])
            return false;
    }
    return true;
}
