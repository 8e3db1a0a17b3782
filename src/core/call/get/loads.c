#include "core/call/get/loads.h"

#include <assert.h>

struct rota_load_key {
    struct rota_list_node link;  /* among the waiting ones; in no list while it is read */
    struct rota_list_node waits; /* its askers */
    const struct rota_load_read *read;
    bool is_alone; /* shares no read */
    size_t size;
    char bytes[];
};

/* One asker and one key. */
struct wait {
    struct rota_list_node of_key, of_asker;
    struct rota_load_key *key;
    struct rota_load_asker *asker;
    uint32_t index;
};

static struct rota_str name_of(const struct rota_load_key *key)
{
    return rota_str_of(key->bytes, key->size);
}

void rota_loads_init(struct rota_loads *loads, const struct rota_loads_options *options,
                     uint64_t seed)
{
    assert(options->keys_max > 0 && options->reads_max > 0);
    *loads = (struct rota_loads){.options = *options};
    rota_map_init(&loads->keys, seed);
    rota_list_init(&loads->waiting);
}

static void remove_key(struct rota_loads *loads, struct rota_load_key *key)
{
    rota_map_remove(&loads->keys, name_of(key));
    rota_list_remove(&key->link);
    free(key);
}

/* One that is being read stays: the read has it. */
static void remove_key_if_idle(struct rota_loads *loads, struct rota_load_key *key)
{
    if (key->link.next && rota_list_is_empty(&key->waits))
        remove_key(loads, key);
}

static struct rota_load_asker *remove_wait(struct rota_loads *loads, struct wait *wait)
{
    struct rota_load_asker *asker = wait->asker;
    rota_list_remove(&wait->of_key);
    rota_list_remove(&wait->of_asker);
    asker->n_waiting--;
    loads->n_waits--;
    free(wait);
    return asker;
}

void rota_loads_deinit(struct rota_loads *loads)
{
    assert(loads->n_reads == 0);
    ROTA_LIST_DRAIN (key, &loads->waiting, struct rota_load_key, link) {
        ROTA_LIST_DRAIN (wait, &key->waits, struct wait, of_key)
            remove_wait(loads, wait);
        remove_key(loads, key);
    }
    assert(loads->n_waits == 0 && loads->keys.size == 0);
    rota_map_deinit(&loads->keys);
}

/* --- askers --- */

static struct rota_load_key *add_key(struct rota_loads *loads, struct rota_str name)
{
    struct rota_load_key *key = malloc(sizeof *key + name.size);
    if (!key)
        return NULL;
    *key = (struct rota_load_key){.size = name.size};
    if (name.size > 0)
        memcpy(key->bytes, name.data, name.size);
    rota_list_init(&key->waits);
    if (!rota_map_put(&loads->keys, name_of(key), key)) {
        free(key);
        return NULL;
    }
    rota_list_push(&loads->waiting, &key->link);
    return key;
}

enum rota_code rota_loads_ask(struct rota_loads *loads, struct rota_str name,
                              struct rota_load_asker *asker, uint32_t index)
{
    if (loads->n_waits >= loads->options.waits_max)
        return ROTA_ERR_LIMIT;
    struct wait *wait = malloc(sizeof *wait);
    struct rota_load_key *key = rota_map_get(&loads->keys, name);
    if (wait && !key)
        key = add_key(loads, name);
    if (!wait || !key) {
        free(wait);
        return ROTA_ERR_NO_MEMORY;
    }
    *wait = (struct wait){.key = key, .asker = asker, .index = index};
    if (!asker->waits.next)
        rota_list_init(&asker->waits);
    rota_list_push(&key->waits, &wait->of_key);
    rota_list_push(&asker->waits, &wait->of_asker);
    asker->n_waiting++;
    loads->n_waits++;
    loads->n_asked++;
    return ROTA_OK;
}

void rota_loads_forget(struct rota_loads *loads, struct rota_load_asker *asker)
{
    if (!asker->waits.next)
        return;
    ROTA_LIST_DRAIN (wait, &asker->waits, struct wait, of_asker) {
        struct rota_load_key *key = wait->key;
        remove_wait(loads, wait);
        remove_key_if_idle(loads, key);
    }
}

/* --- reads --- */

static void free_read(struct rota_load_read *read)
{
    rota_vector_deinit(&read->keys);
    rota_vector_deinit(&read->loads);
    free(read);
}

static bool take_key(struct rota_load_read *read, struct rota_load_key *key)
{
    if (!rota_vector_push(&read->keys, name_of(key)))
        return false;
    if (!rota_vector_push(&read->loads, key)) {
        read->keys.size--;
        return false;
    }
    rota_list_remove(&key->link);
    key->read = read;
    return true;
}

/* Without memory for more keys the read has fewer. */
struct rota_load_read *rota_loads_begin(struct rota_loads *loads)
{
    struct rota_list_node *link = rota_list_first(&loads->waiting);
    if (!link || loads->n_reads == loads->options.reads_max)
        return NULL;
    struct rota_load_read *read = calloc(1, sizeof *read);
    if (!read)
        return NULL;
    while (link && read->keys.size < loads->options.keys_max) {
        struct rota_load_key *key = ROTA_LIST_ITEM(link, struct rota_load_key, link);
        if ((key->is_alone && read->keys.size > 0) || !take_key(read, key))
            break;
        link = key->is_alone ? NULL : rota_list_first(&loads->waiting);
    }
    if (read->keys.size == 0) {
        free_read(read);
        return NULL;
    }
    loads->n_reads++;
    loads->n_loaded += read->keys.size;
    return read;
}

static struct rota_load_asker *settle_next_wait(struct rota_loads *loads, struct rota_load_key *key,
                                                uint32_t *index)
{
    struct wait *wait = ROTA_LIST_FIRST(&key->waits, struct wait, of_key);
    if (!wait)
        return NULL;
    *index = wait->index;
    return remove_wait(loads, wait);
}

/* A source may answer with a key that was not asked for, or that another read has. */
struct rota_load_asker *rota_loads_next_asker(struct rota_loads *loads, struct rota_load_read *read,
                                              struct rota_str name, uint32_t *index)
{
    struct rota_load_key *key = rota_map_get(&loads->keys, name);
    return key && key->read == read ? settle_next_wait(loads, key, index) : NULL;
}

struct rota_load_asker *rota_loads_next_asker_left(struct rota_loads *loads,
                                                   struct rota_load_read *read,
                                                   struct rota_str *name, uint32_t *index)
{
    for (; read->n_settled < read->loads.size; read->n_settled++) {
        struct rota_load_asker *asker =
            settle_next_wait(loads, read->loads.items[read->n_settled], index);
        if (asker) {
            *name = read->keys.items[read->n_settled];
            return asker;
        }
    }
    return NULL;
}

void rota_loads_end(struct rota_loads *loads, struct rota_load_read *read)
{
    for (size_t i = 0; i < read->loads.size; i++) {
        assert(rota_list_is_empty(&read->loads.items[i]->waits));
        remove_key(loads, read->loads.items[i]);
    }
    loads->n_reads--;
    free_read(read);
}

void rota_loads_split(struct rota_loads *loads, struct rota_load_read *read)
{
    assert(read->keys.size > 1);
    for (size_t i = 0; i < read->loads.size; i++) {
        struct rota_load_key *key = read->loads.items[i];
        key->is_alone = true;
        key->read = NULL;
        rota_list_push(&loads->waiting, &key->link);
        remove_key_if_idle(loads, key);
    }
    loads->n_reads--;
    free_read(read);
}
