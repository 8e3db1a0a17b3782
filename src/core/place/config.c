#include "core/place/config.h"

#include "base/error_at.h"
#include "base/map.h"
#include "base/quote.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* What a scope names, as bits. Their order makes the number of a mask its
 * strength: queue before namespace before type. */
enum {
    NAMES_TYPE = 1,
    NAMES_NAMESPACE = 2,
    NAMES_QUEUE = 4,
    MASKS = 8,
    TYPES = ROTA_TASK_NEXUS + 1,
    SCOPE_KEY_MAX = 4 + 2 * ROTA_QUEUE_NAME_MAX,
};

struct rota_config {
    atomic_size_t n_refs;
    struct rota_config_layer *layers; /* the first is the file's top and sets everything */
    size_t n_layers;
    struct rota_map by_scope; /* overrides */
    bool has_mask[MASKS];     /* whether any override has such a scope */
    char *text;               /* the keys of the map, with the names in them */
};

/* The layers that match a queue, the strongest first. */
struct matches {
    const struct rota_config_layer *layers[MASKS];
    int n;
};

/* --- scopes --- */

static unsigned mask_of(const struct rota_config_scope *scope)
{
    return (scope->has_queue ? NAMES_QUEUE : 0) | (scope->has_namespace ? NAMES_NAMESPACE : 0) |
           (scope->has_type ? NAMES_TYPE : 0);
}

/* The part of `scope` that `mask` names, as bytes; both names fit. */
static size_t make_scope_key(const struct rota_config_scope *scope, unsigned mask, char *key)
{
    struct rota_str none = {"", 0};
    struct rota_str space = mask & NAMES_NAMESPACE ? scope->namespace_id : none;
    struct rota_str queue = mask & NAMES_QUEUE ? scope->queue : none;

    key[0] = (char)mask;
    key[1] = mask & NAMES_TYPE ? (char)scope->type : 0;
    key[2] = (char)(space.size >> 8);
    key[3] = (char)(space.size & 0xff);
    if (space.size > 0)
        memcpy(key + 4, space.data, space.size);
    if (queue.size > 0)
        memcpy(key + 4 + space.size, queue.data, queue.size);
    return 4 + space.size + queue.size;
}

/* The layers whose scope is a subset of `scope`. A queue is the scope that names all three; one
 * that names less stands for the queues whose other names no override mentions. */
static struct matches match_layers(const struct rota_config *config, struct rota_config_scope scope)
{
    struct matches matches = {.n = 0};
    char key[SCOPE_KEY_MAX];

    /* No override has a name that long, so it matches none. */
    scope.has_namespace &= scope.namespace_id.size <= ROTA_QUEUE_NAME_MAX;
    scope.has_queue &= scope.queue.size <= ROTA_QUEUE_NAME_MAX;
    unsigned named = mask_of(&scope);
    for (unsigned mask = MASKS - 1; mask > 0; mask--) {
        if (!config->has_mask[mask] || (mask & named) != mask)
            continue;
        size_t size = make_scope_key(&scope, mask, key);
        const struct rota_config_layer *layer =
            rota_map_get(&config->by_scope, rota_str_of(key, size));
        if (layer)
            matches.layers[matches.n++] = layer;
    }
    matches.layers[matches.n++] = &config->layers[0];
    return matches;
}

/* The strongest match that has a value for `setting`. */
static const struct rota_config_layer *pick_layer(const struct matches *matches,
                                                  enum rota_setting setting)
{
    int i = 0;
    while (!matches->layers[i]->values[setting].is_set)
        i++;
    return matches->layers[i];
}

static const struct rota_gradual *pick_value(const struct matches *matches,
                                             enum rota_setting setting)
{
    return &pick_layer(matches, setting)->values[setting].value;
}

/* --- building --- */

static enum rota_code check_layer(const struct rota_config_layer *layer, bool is_override,
                                  const char *file, struct rota_error *error)
{
    const struct rota_config_scope *scope = &layer->scope;
    struct rota_partition names = {.namespace_id = scope->namespace_id, .queue = scope->queue};
    struct rota_error why;

    if (is_override && mask_of(scope) == 0)
        return rota_error_set_at(error, ROTA_ERR_INVALID, file, layer->line,
                                 "the override names no namespace, queue or type; settings for all "
                                 "belong at the top of the file");
    if (is_override && rota_partition_check(&names, &why))
        return rota_error_set_at(error, ROTA_ERR_INVALID, file, layer->line, "override: %s",
                                 why.text);
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        const struct rota_config_value *value = &layer->values[i];
        const struct rota_setting_info *info = rota_setting_info((enum rota_setting)i);
        if (!value->is_set)
            continue;
        if (is_override && info->is_file_wide)
            return rota_error_set_at(
                error, ROTA_ERR_INVALID, file, value->line,
                "%s applies to all and cannot be overridden; set it at the top of the file",
                info->name);
        if (rota_setting_check((enum rota_setting)i, &value->value, &why))
            return rota_error_set_at(error, ROTA_ERR_INVALID, file, value->line, "%s", why.text);
    }
    return ROTA_OK;
}

/* Copy the layers; the first one gets the defaults for what it does not set. */
static enum rota_code take_layers(struct rota_config *config,
                                  const struct rota_config_layer *layers, size_t n_layers)
{
    size_t text_size = 0;
    for (size_t i = 0; i < n_layers; i++)
        text_size += 4 + layers[i].scope.namespace_id.size + layers[i].scope.queue.size;
    config->layers = malloc(n_layers * sizeof *layers);
    config->text = malloc(text_size);
    if (!config->layers || !config->text)
        return ROTA_ERR_NO_MEMORY;

    memcpy(config->layers, layers, n_layers * sizeof *layers);
    config->n_layers = n_layers;
    config->layers[0].scope = (struct rota_config_scope){0};
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        struct rota_config_value *value = &config->layers[0].values[i];
        int64_t fallback = rota_setting_info((enum rota_setting)i)->fallback;
        if (!value->is_set)
            *value = (struct rota_config_value){true, 0, rota_gradual_static(fallback)};
    }
    return ROTA_OK;
}

/* Put every override under its scope; its names now point into our text. */
static enum rota_code index_layers(struct rota_config *config, const char *file,
                                   struct rota_error *error)
{
    char *end = config->text;
    for (size_t i = 1; i < config->n_layers; i++) {
        struct rota_config_layer *layer = &config->layers[i];
        struct rota_config_scope *scope = &layer->scope;
        unsigned mask = mask_of(scope);
        struct rota_str key = rota_str_of(end, make_scope_key(scope, mask, end));
        const struct rota_config_layer *other = rota_map_get(&config->by_scope, key);
        if (other)
            return rota_error_set_at(error, ROTA_ERR_INVALID, file, layer->line,
                                     "the override on line %u has the same scope", other->line);
        if (!rota_map_put(&config->by_scope, key, layer))
            return ROTA_ERR_NO_MEMORY;
        scope->namespace_id =
            rota_str_of(end + 4, scope->has_namespace ? scope->namespace_id.size : 0);
        scope->queue = rota_str_of(end + 4 + scope->namespace_id.size,
                                   scope->has_queue ? scope->queue.size : 0);
        config->has_mask[mask] = true;
        end += key.size;
    }
    return ROTA_OK;
}

/* --- read partitions are never fewer than write partitions --- */

/* The count that a layer sets. */
static int64_t count_of(const struct rota_config_layer *layer, enum rota_setting setting)
{
    return layer->values[setting].value.new_value;
}

/* The scope of the queues that both match, but for the type; false when no
 * queue does. */
static bool merge_scopes(const struct rota_config_scope *a, const struct rota_config_scope *b,
                         struct rota_config_scope *both)
{
    if ((a->has_queue && b->has_queue && !rota_str_is_equal(a->queue, b->queue)) ||
        (a->has_namespace && b->has_namespace &&
         !rota_str_is_equal(a->namespace_id, b->namespace_id)))
        return false;
    *both = (struct rota_config_scope){
        .namespace_id = a->has_namespace ? a->namespace_id : b->namespace_id,
        .queue = a->has_queue ? a->queue : b->queue,
        .has_namespace = a->has_namespace || b->has_namespace,
        .has_queue = a->has_queue || b->has_queue,
    };
    return true;
}

static void print_count(struct rota_buffer *text, const char *what,
                        const struct rota_config_layer *layer, enum rota_setting setting)
{
    uint32_t line = layer->values[setting].line;
    rota_buffer_print(text, "%lld %s partitions ", (long long)count_of(layer, setting), what);
    if (line)
        rota_buffer_print(text, "(line %u)", line);
    else
        rota_buffer_append_text(text, "(the default)");
}

static enum rota_code refuse_counts(const struct rota_config_layer *write,
                                    const struct rota_config_layer *read,
                                    const struct rota_config_scope *scope, const char *file,
                                    struct rota_error *error)
{
    struct rota_buffer text = {0};
    char name[ROTA_QUOTE_MAX];
    uint32_t write_line = write->values[ROTA_SETTING_WRITE_PARTITIONS].line;
    uint32_t read_line = read->values[ROTA_SETTING_READ_PARTITIONS].line;

    if (scope->has_type)
        rota_buffer_print(&text, "%s ", rota_task_type_name(scope->type));
    rota_buffer_append_text(&text, "queues");
    if (scope->has_queue)
        rota_buffer_print(&text, " named %s", rota_quote(scope->queue, name));
    if (scope->has_namespace)
        rota_buffer_print(&text, " of namespace %s", rota_quote(scope->namespace_id, name));
    rota_buffer_append_text(&text, " would have ");
    print_count(&text, "read", read, ROTA_SETTING_READ_PARTITIONS);
    rota_buffer_append_text(&text, " but ");
    print_count(&text, "write", write, ROTA_SETTING_WRITE_PARTITIONS);
    rota_buffer_append_text(&text, "; jobs in the excess partitions would never be read");
    rota_error_set_at(error, ROTA_ERR_INVALID, file,
                      write_line > read_line ? write_line : read_line, "%s",
                      rota_buffer_str(&text).data);
    rota_buffer_deinit(&text);
    return ROTA_ERR_INVALID;
}

/* Whether some queue gets its write count from `write` and its read count from `read`; `*both`
 * is then the scope of such queues. If any does, then so do those of the merged scope and of the
 * same type whose other names no override mentions, since these match nothing else. */
static bool can_meet(const struct rota_config *config, const struct rota_config_layer *write,
                     const struct rota_config_layer *read, struct rota_config_scope *both)
{
    int n_types = 0;
    if (!merge_scopes(&write->scope, &read->scope, both))
        return false;
    for (int type = 0; type < TYPES; type++) {
        struct rota_config_scope scope = *both;
        scope.has_type = true;
        scope.type = (enum rota_task_type)type;
        struct matches matches = match_layers(config, scope);
        if (pick_layer(&matches, ROTA_SETTING_WRITE_PARTITIONS) == write &&
            pick_layer(&matches, ROTA_SETTING_READ_PARTITIONS) == read) {
            both->type = scope.type;
            n_types++;
        }
    }
    both->has_type = n_types < TYPES;
    return n_types > 0;
}

/* For which types a layer's counts apply, as bits: to queues of its scope that no other override
 * mentions. Where they do not apply to these, they apply to no queue of that type. */
struct voice {
    const struct rota_config_layer *layer;
    unsigned writes, reads;

    /* Of these, the ones for which no override of the queue's name sets the
     * other count. */
    unsigned lone_writes, lone_reads;
};

/* Check one layer alone. All counts that are combined here are those of real queues, so that
 * they can be judged at once. */
static enum rota_code check_layer_queues(const struct rota_config *config,
                                         const struct rota_config_layer *layer, struct voice *voice,
                                         const char *file, struct rota_error *error)
{
    *voice = (struct voice){.layer = layer};
    for (int type = 0; type < TYPES; type++) {
        struct rota_config_scope scope = layer->scope, both;
        unsigned bit = 1u << type;
        if (scope.has_type && scope.type != (enum rota_task_type)type)
            continue;
        scope.has_type = true;
        scope.type = (enum rota_task_type)type;
        struct matches matches = match_layers(config, scope);
        const struct rota_config_layer *write = pick_layer(&matches, ROTA_SETTING_WRITE_PARTITIONS);
        const struct rota_config_layer *read = pick_layer(&matches, ROTA_SETTING_READ_PARTITIONS);
        if (count_of(read, ROTA_SETTING_READ_PARTITIONS) <
                count_of(write, ROTA_SETTING_WRITE_PARTITIONS) &&
            can_meet(config, write, read, &both))
            return refuse_counts(write, read, &both, file, error);
        voice->writes |= write == layer ? bit : 0;
        voice->reads |= read == layer ? bit : 0;
        voice->lone_writes |= write == layer && !read->scope.has_queue ? bit : 0;
        voice->lone_reads |= read == layer && !write->scope.has_queue ? bit : 0;
    }
    return ROTA_OK;
}

static bool is_fewer(const struct voice *read, const struct voice *write)
{
    return count_of(read->layer, ROTA_SETTING_READ_PARTITIONS) <
           count_of(write->layer, ROTA_SETTING_WRITE_PARTITIONS);
}

/* Two layers can meet in a queue that neither of them alone shows only when one names the queue,
 * the other the namespace. The first must leave a count to the second; then nothing but an override
 * that names both can keep them apart, so the number of useless lookups is at most that of such
 * overrides. */
static enum rota_code check_pair(const struct rota_config *config, const struct voice *queue,
                                 const struct voice *space, const char *file,
                                 struct rota_error *error)
{
    struct rota_config_scope both;
    if (queue->lone_writes & space->reads && is_fewer(space, queue) &&
        can_meet(config, queue->layer, space->layer, &both))
        return refuse_counts(queue->layer, space->layer, &both, file, error);
    if (queue->lone_reads & space->writes && is_fewer(queue, space) &&
        can_meet(config, space->layer, queue->layer, &both))
        return refuse_counts(space->layer, queue->layer, &both, file, error);
    return ROTA_OK;
}

static enum rota_code check_counts(const struct rota_config *config, const char *file,
                                   struct rota_error *error)
{
    struct voice *voices = malloc(2 * config->n_layers * sizeof *voices);
    struct voice *queues = voices, *spaces = voices + config->n_layers;
    size_t n_queues = 0, n_spaces = 0;
    enum rota_code code = ROTA_OK;
    if (!voices)
        return ROTA_ERR_NO_MEMORY;

    for (size_t i = 0; !code && i < config->n_layers; i++) {
        const struct rota_config_scope *scope = &config->layers[i].scope;
        struct voice voice;
        code = check_layer_queues(config, &config->layers[i], &voice, file, error);
        if (!code && scope->has_queue && !scope->has_namespace &&
            (voice.lone_writes || voice.lone_reads))
            queues[n_queues++] = voice;
        if (!code && scope->has_namespace && !scope->has_queue && (voice.writes || voice.reads))
            spaces[n_spaces++] = voice;
    }
    for (size_t q = 0; !code && q < n_queues; q++) {
        for (size_t s = 0; !code && s < n_spaces; s++)
            code = check_pair(config, &queues[q], &spaces[s], file, error);
    }
    free(voices);
    return code;
}

static enum rota_code no_memory(size_t n_layers, const char *file, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_NO_MEMORY, "%.200s: not enough memory for %zu overrides",
                          file, n_layers - 1);
}

enum rota_code rota_config_new(const struct rota_config_layer *layers, size_t n_layers,
                               const char *file, struct rota_config **config,
                               struct rota_error *error)
{
    enum rota_code code;
    assert(n_layers > 0);

    if (n_layers - 1 > ROTA_CONFIG_OVERRIDES_MAX)
        return rota_error_set_at(error, ROTA_ERR_LIMIT, file,
                                 layers[ROTA_CONFIG_OVERRIDES_MAX + 1].line,
                                 "more than %d overrides", ROTA_CONFIG_OVERRIDES_MAX);
    for (size_t i = 0; i < n_layers; i++) {
        if ((code = check_layer(&layers[i], i > 0, file, error)))
            return code;
    }

    struct rota_config *made = calloc(1, sizeof *made);
    if (!made)
        return no_memory(n_layers, file, error);
    made->n_refs = 1;
    rota_map_init(&made->by_scope, 0); /* only the author of the file chooses its keys */
    if ((code = take_layers(made, layers, n_layers)) || (code = index_layers(made, file, error)) ||
        (code = check_counts(made, file, error))) {
        rota_config_unref(made);
        return code == ROTA_ERR_NO_MEMORY ? no_memory(n_layers, file, error) : code;
    }
    *config = made;
    return ROTA_OK;
}

struct rota_config *rota_config_ref(struct rota_config *config)
{
    atomic_fetch_add_explicit(&config->n_refs, 1, memory_order_relaxed);
    return config;
}

void rota_config_unref(struct rota_config *config)
{
    if (!config || atomic_fetch_sub_explicit(&config->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    rota_map_deinit(&config->by_scope);
    free(config->layers);
    free(config->text);
    free(config);
}

/* --- questions --- */

static int64_t file_wide(const struct rota_config *config, enum rota_setting setting)
{
    return config->layers[0].values[setting].value.new_value;
}

uint32_t rota_config_ring_points(const struct rota_config *config)
{
    return (uint32_t)file_wide(config, ROTA_SETTING_RING_POINTS);
}

rota_time rota_config_align(const struct rota_config *config)
{
    return file_wide(config, ROTA_SETTING_ALIGN);
}

static struct matches match_queue(const struct rota_config *config, struct rota_str namespace_id,
                                  struct rota_str queue, enum rota_task_type type)
{
    return match_layers(config, (struct rota_config_scope){.namespace_id = namespace_id,
                                                           .queue = queue,
                                                           .type = type,
                                                           .has_namespace = true,
                                                           .has_queue = true,
                                                           .has_type = true});
}

struct rota_queue_config rota_config_queue(const struct rota_config *config,
                                           struct rota_str namespace_id, struct rota_str queue,
                                           enum rota_task_type type)
{
    struct matches matches = match_queue(config, namespace_id, queue, type);
    return (struct rota_queue_config){
        .write = pick_value(&matches, ROTA_SETTING_WRITE_PARTITIONS)->new_value,
        .read = pick_value(&matches, ROTA_SETTING_READ_PARTITIONS)->new_value,
        .batch = *pick_value(&matches, ROTA_SETTING_SPREAD_BATCH),
        .mode = *pick_value(&matches, ROTA_SETTING_SPREAD_MODE),
        .degree = pick_value(&matches, ROTA_SETTING_TREE_DEGREE)->new_value,
    };
}

struct rota_spread rota_queue_config_spread(const struct rota_queue_config *queue,
                                            struct rota_str gradual_key, rota_time now)
{
    return (struct rota_spread){
        .mode = (enum rota_spread_mode)rota_gradual_value(&queue->mode, gradual_key, now),
        .batch = (uint32_t)rota_gradual_value(&queue->batch, gradual_key, now),
    };
}

void rota_config_explain(const struct rota_config *config, struct rota_str namespace_id,
                         struct rota_str queue, enum rota_task_type type,
                         struct rota_config_origin origins[ROTA_SETTINGS])
{
    struct matches matches = match_queue(config, namespace_id, queue, type);
    for (int i = 0; i < ROTA_SETTINGS; i++) {
        const struct rota_config_layer *layer = pick_layer(&matches, (enum rota_setting)i);
        origins[i] = (struct rota_config_origin){
            .value = layer->values[i].value, .line = layer->values[i].line, .scope = layer->scope};
    }
}
