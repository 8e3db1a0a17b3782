#include "core/work/broker/broker_inside.h"

#include "base/hash.h"
#include "base/quote.h"

#include <rota/ring.h>
#include <string.h>

#define AHEAD_MAX (24 * ROTA_HOUR) /* of a statement's time: a clock is wrong */

static struct rota_str address_of(const struct rota_work_node *node)
{
    return rota_str_of(node->address, node->size);
}

static struct rota_work_node *find_node(const struct rota_broker *broker, struct rota_str address)
{
    for (size_t i = 0; i < broker->nodes.size; i++)
        if (rota_str_is_equal(address_of(broker->nodes.items[i]), address))
            return broker->nodes.items[i];
    return NULL;
}

static void drop_node(struct rota_broker *broker, size_t index)
{
    free(broker->nodes.items[index]);
    broker->nodes.items[index] = broker->nodes.items[--broker->nodes.size];
}

/* If there are too many, the one that has been empty longest makes room. */
static bool make_room_for_node(struct rota_broker *broker)
{
    size_t oldest = broker->nodes.size;
    if (broker->nodes.size < ROTA_BROKER_NODES_MAX)
        return true;
    for (size_t i = 0; i < broker->nodes.size; i++) {
        const struct rota_work_node *node = broker->nodes.items[i];
        if (node->state == ROTA_BROKER_NODE_EMPTY && !node->is_listed &&
            (oldest == broker->nodes.size || node->at < broker->nodes.items[oldest]->at))
            oldest = i;
    }
    if (oldest == broker->nodes.size)
        return false;
    drop_node(broker, oldest);
    return true;
}

static enum rota_code find_or_add_node(struct rota_broker *broker, struct rota_str address,
                                       struct rota_work_node **node, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if ((*node = find_node(broker, address)))
        return ROTA_OK;
    if (address.size == 0 || address.size > ROTA_ADDRESS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s is not the address of a node",
                              rota_quote(address, quoted));
    if (!make_room_for_node(broker))
        return rota_error_set(
            error, ROTA_ERR_LIMIT,
            "%d nodes may hold jobs already; forget the nodes that are permanently lost",
            ROTA_BROKER_NODES_MAX);
    struct rota_work_node *made = calloc(1, sizeof *made + address.size);
    if (!made || !rota_vector_push(&broker->nodes, made)) {
        free(made);
        return rota_error_no_memory(error, "to remember a node");
    }
    made->size = address.size;
    memcpy(made->address, address.data, address.size);
    *node = made;
    return ROTA_OK;
}

/* False when there is no memory. */
static bool write_node(struct rota_broker *broker, const struct rota_work_node *node)
{
    struct rota_str address = rota_arena_copy(&broker->output.arena, address_of(node));
    if (!address.data || !rota_broker_ready(broker, NULL))
        return false;
    struct rota_work_record *record = rota_broker_write(broker, ROTA_WORK_NODE, NULL);
    record->key = address;
    record->weight = node->state;
    record->at = node->at;
    return true;
}

/* Without memory nothing has changed. */
static enum rota_code set_node_state(struct rota_broker *broker, struct rota_work_node *node,
                                     enum rota_broker_node_state state, rota_time at,
                                     struct rota_error *error)
{
    struct rota_work_node before = *node;
    node->state = state;
    node->at = at;
    if (write_node(broker, node))
        return ROTA_OK;
    node->state = before.state;
    node->at = before.at;
    return rota_error_no_memory(error, "to remember a node");
}

/* The time of a statement that replaces what is known. */
static rota_time time_after(const struct rota_broker *broker, const struct rota_work_node *node)
{
    return broker->stamp > node->at ? broker->stamp : rota_time_add(node->at, 1);
}

/* --- local knowledge --- */

enum rota_code rota_broker_node_self(struct rota_broker *broker, struct rota_work_now now,
                                     struct rota_str address, struct rota_error *error)
{
    struct rota_work_node *self;
    rota_broker_at(broker, now);
    enum rota_code code = find_or_add_node(broker, address, &self, error);
    for (size_t i = 0; !code && i < broker->nodes.size; i++) {
        struct rota_work_node *node = broker->nodes.items[i];
        if (node == self || node->state != ROTA_BROKER_NODE_SELF)
            continue;
        /* Its row may stay listed for a while. That does not make it another node. */
        node->is_placed = true;
        code =
            set_node_state(broker, node, ROTA_BROKER_NODE_EMPTY, time_after(broker, node), error);
    }
    if (!code) /* later than our statement in a former life */
        code = set_node_state(broker, self, ROTA_BROKER_NODE_SELF, time_after(broker, self), error);
    return code;
}

static struct rota_work_node *find_self(const struct rota_broker *broker)
{
    for (size_t i = 0; i < broker->nodes.size; i++)
        if (broker->nodes.items[i]->state == ROTA_BROKER_NODE_SELF)
            return broker->nodes.items[i];
    return NULL;
}

enum rota_code rota_broker_node_speak(struct rota_broker *broker, struct rota_work_now now,
                                      bool may_hold, struct rota_broker_node_view *said,
                                      struct rota_error *error)
{
    struct rota_work_node *self = find_self(broker);
    enum rota_code code = ROTA_OK;
    rota_broker_at(broker, now);
    if (!self)
        return rota_error_set(error, ROTA_ERR_INVALID, "this node has no address");
    if (self->is_left == may_hold)
        code = set_node_state(broker, self, ROTA_BROKER_NODE_SELF, time_after(broker, self), error);
    if (code)
        return code;
    self->is_left = !may_hold;
    *said = (struct rota_broker_node_view){address_of(self), may_hold, self->at};
    return ROTA_OK;
}

bool rota_broker_node_note_coming_back(struct rota_broker *broker)
{
    struct rota_work_node *self = find_self(broker);
    if (!self || !self->is_left)
        return true;
    if (set_node_state(broker, self, ROTA_BROKER_NODE_SELF, time_after(broker, self), NULL))
        return false;
    self->is_left = false;
    return true;
}

void rota_broker_nodes_begin(struct rota_broker *broker, struct rota_work_now now)
{
    rota_broker_at(broker, now);
    for (size_t i = 0; i < broker->nodes.size; i++)
        broker->nodes.items[i]->is_seen = false;
}

enum rota_code rota_broker_node_listed(struct rota_broker *broker, struct rota_str address,
                                       bool is_placed, struct rota_error *error)
{
    struct rota_work_node *node;
    enum rota_code code = find_or_add_node(broker, address, &node, error);
    if (code)
        return code;
    node->is_seen = node->is_listed = true;
    /* Repeated each time, with a later date than any statement that it is empty. */
    if (is_placed && !node->is_placed && node->state != ROTA_BROKER_NODE_SELF)
        code =
            set_node_state(broker, node, ROTA_BROKER_NODE_HOLDS, time_after(broker, node), error);
    if (!code)
        node->is_placed = is_placed;
    return code;
}

enum rota_code rota_broker_node_was_alive(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str address, rota_time at,
                                          struct rota_error *error)
{
    struct rota_work_node *node = find_node(broker, address);
    rota_broker_at(broker, now);
    if (!node || node->at == 0 || node->state != ROTA_BROKER_NODE_EMPTY || at <= node->at)
        return ROTA_OK;
    return set_node_state(broker, node, ROTA_BROKER_NODE_HOLDS, at, error);
}

void rota_broker_nodes_end(struct rota_broker *broker)
{
    for (size_t i = 0; i < broker->nodes.size; i++) {
        struct rota_work_node *node = broker->nodes.items[i];
        if (node->is_seen)
            continue;
        if (node->is_listed)
            node->left_at = broker->now.boot;
        node->is_listed = node->is_placed = false;
    }
}

enum rota_code rota_broker_node_note_receiver(struct rota_broker *broker, struct rota_str address,
                                              struct rota_error *error)
{
    struct rota_work_node *node;
    enum rota_code code = find_or_add_node(broker, address, &node, error);
    if (!code && node->state == ROTA_BROKER_NODE_EMPTY)
        code =
            set_node_state(broker, node, ROTA_BROKER_NODE_HOLDS, time_after(broker, node), error);
    return code;
}

bool rota_broker_node_is_known(const struct rota_broker *broker, struct rota_str address)
{
    return find_node(broker, address) != NULL;
}

enum rota_code rota_broker_node_forget(struct rota_broker *broker, struct rota_work_now now,
                                       struct rota_str address, uint64_t *number,
                                       struct rota_error *error)
{
    struct rota_work_node *node = find_node(broker, address);
    enum rota_code code = ROTA_OK;
    rota_broker_at(broker, now);
    if (node && node->state == ROTA_BROKER_NODE_HOLDS)
        code =
            set_node_state(broker, node, ROTA_BROKER_NODE_EMPTY, time_after(broker, node), error);
    if (!code)
        *number = broker->journal.last_number;
    return code;
}

static bool may_hold(const struct rota_work_node *node)
{
    return node->state == ROTA_BROKER_NODE_HOLDS ||
           (node->state == ROTA_BROKER_NODE_SELF && !node->is_left);
}

/* --- reports of others --- */

/* Another broker believes the opposite of our report about ourselves, and would forever: repeat
 * the report, with a later date than its own. */
static enum rota_code contradict(struct rota_broker *broker, struct rota_work_node *self,
                                 const struct rota_broker_node_view *said, struct rota_error *error)
{
    if (said->may_hold == may_hold(self) || said->at < self->at)
        return ROTA_OK;
    rota_time at = broker->stamp > said->at ? broker->stamp : rota_time_add(said->at, 1);
    return set_node_state(broker, self, ROTA_BROKER_NODE_SELF, at, error);
}

enum rota_code rota_broker_take_node(struct rota_broker *broker, struct rota_work_now now,
                                     const struct rota_broker_node_view *said,
                                     struct rota_error *error)
{
    struct rota_work_node *node;
    char quoted[ROTA_QUOTE_MAX];
    rota_broker_at(broker, now);
    if (said->at <= 0 || said->at > rota_time_add(broker->stamp, AHEAD_MAX))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a report about node %s has a time in the future: check the clocks of the nodes",
            rota_quote(said->address, quoted));
    enum rota_code code = find_or_add_node(broker, said->address, &node, error);
    if (code)
        return code;
    if (node->state == ROTA_BROKER_NODE_SELF)
        return contradict(broker, node, said, error);
    enum rota_broker_node_state state =
        said->may_hold ? ROTA_BROKER_NODE_HOLDS : ROTA_BROKER_NODE_EMPTY;
    if (said->at < node->at || (said->at == node->at && state <= node->state))
        return ROTA_OK;
    return set_node_state(broker, node, state, said->at, error);
}

/* --- questions --- */

bool rota_broker_next_node(const struct rota_broker *broker, size_t *place,
                           struct rota_broker_node_view *view)
{
    for (; *place < broker->nodes.size; ++*place) {
        const struct rota_work_node *node = broker->nodes.items[*place];
        if (node->at == 0)
            continue; /* listed, but never placed */
        *view = (struct rota_broker_node_view){
            .address = address_of(node), .may_hold = may_hold(node), .at = node->at};
        ++*place;
        return true;
    }
    return false;
}

bool rota_broker_next_absent(const struct rota_broker *broker, rota_time now, bool for_add,
                             size_t *place, struct rota_str *address)
{
    while (*place < broker->nodes.size) {
        const struct rota_work_node *node = broker->nodes.items[(*place)++];
        bool is_gone = broker->options.is_volatile &&
                       (!for_add || now - node->left_at >= ROTA_BROKER_NODE_VOLATILE);
        if (node->state != ROTA_BROKER_NODE_HOLDS || node->is_listed || is_gone)
            continue;
        *address = address_of(node);
        return true;
    }
    return false;
}

uint64_t rota_broker_nodes_hash(const struct rota_broker *broker)
{
    enum { SEED = 1 }; /* the same everywhere */
    uint64_t hash = 0;
    for (size_t i = 0; i < broker->nodes.size; i++)
        if (may_hold(broker->nodes.items[i]))
            hash += rota_hash_sip64(SEED, address_of(broker->nodes.items[i]));
    return hash;
}

bool rota_broker_is_empty(const struct rota_broker *broker)
{
    return broker->n_live == 0 && broker->ended.n == 0 && broker->chunks.sent.size == 0 &&
           rota_job_id_is_none(broker->chunks.coming.name);
}

/* --- the journal --- */

enum rota_code rota_broker_node_read(struct rota_broker *broker,
                                     const struct rota_work_record *record,
                                     struct rota_error *error)
{
    struct rota_work_node *node;
    if (record->weight > ROTA_BROKER_NODE_SELF)
        return rota_error_set(error, ROTA_ERR_INVALID, "record %llu (node) has an unknown state",
                              (unsigned long long)record->number);
    enum rota_code code = find_or_add_node(broker, record->key, &node, error);
    if (code)
        return code;
    node->state = (enum rota_broker_node_state)record->weight;
    node->at = record->at > 0 ? record->at : 1;
    return ROTA_OK;
}

bool rota_broker_node_rewrite_all(struct rota_broker *broker)
{
    for (size_t i = 0; i < broker->nodes.size; i++)
        if (broker->nodes.items[i]->at > 0 && !write_node(broker, broker->nodes.items[i]))
            return false;
    return true;
}

void rota_broker_node_free_all(struct rota_broker *broker)
{
    while (broker->nodes.size > 0)
        drop_node(broker, broker->nodes.size - 1);
    rota_vector_deinit(&broker->nodes);
}
