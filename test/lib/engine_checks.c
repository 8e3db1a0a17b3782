#include "engine_checks.h"

#include <poll.h>
#include <rota/experimental/claims.h>
#include <stdio.h>
#include <string.h>

#define METHOD_WORK "/test.Space/Work"

struct node nodes[NODES];

struct truth truth[SHARDS];

const struct kind *kind;
static rota_time ttl;

/* --- the loops --- */

static void on_ticking(uv_timer_t *timer)
{
    (void)timer;
}

void run_some(void)
{
    struct pollfd fds[NODES];
    nfds_t n = 0;
    for (size_t i = 0; i < NODES; i++)
        if (nodes[i].is_open && !nodes[i].is_frozen)
            fds[n++] = (struct pollfd){.fd = uv_backend_fd(&nodes[i].loop), .events = POLLIN};
    poll(fds, n, 5);
    for (size_t i = 0; i < NODES; i++)
        if (nodes[i].is_open && !nodes[i].is_frozen)
            uv_run(&nodes[i].loop, UV_RUN_NOWAIT);
}

/* --- what callbacks say --- */

static enum rota_claims_answer claim_at(const struct node *node, uint32_t shard, uint64_t epoch)
{
    char text[16];
    snprintf(text, sizeof text, "%u", shard);
    return rota_claims_check(node->claims, rota_clock_boot(), rota_str("tests"), rota_str(text),
                             epoch);
}

static void node_on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct node *node = data;
    struct truth *known = &truth[shard];
    for (size_t i = 0; i < NODES; i++)
        if (nodes[i].is_open && &nodes[i] != node && nodes[i].started[shard] &&
            rota_space_is_current(nodes[i].space, shard, nodes[i].started[shard]))
            fail_msg("broken promise: engine %s: shard %u is at %s and at %s", kind->engine, shard,
                     nodes[i].address, node->address);
    /* The same process may start again under the same epoch: docs/spaces.md. */
    if (epoch < known->epoch || (epoch == known->epoch && known->owner != node))
        fail_msg("broken promise: engine %s: epoch %llu of shard %u at %s comes after %llu at %s",
                 kind->engine, (unsigned long long)epoch, shard, node->address,
                 (unsigned long long)known->epoch, known->owner->address);
    /* Servers serve it already, unless its time is over before we could look. */
    enum rota_claims_answer claim = claim_at(node, shard, epoch);
    if (rota_space_is_current(node->space, shard, epoch))
        assert_int_equal(claim, ROTA_CLAIMS_HELD);
    assert_int_equal(node->started[shard], 0);
    *known = (struct truth){epoch, node};
    node->started[shard] = epoch;
    node->n_held++;
    node->n_starts++;
}

static void node_answer(struct node *node, uint32_t shard)
{
    uint64_t epoch = node->stops[shard];
    node->stops[shard] = node->started[shard] = 0;
    rota_space_stopped(node->space, shard, epoch);
}

static void node_on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    struct node *node = data;
    assert_true(node->started[shard] == epoch);
    if (until == 0)
        assert_false(rota_space_is_current(node->space, shard, epoch));
    node->stops[shard] = epoch;
    node->n_held--;
    node->n_stops++;
    if (!node->is_slow)
        node_answer(node, shard);
}

static void node_on_change(void *data)
{
    ((struct node *)data)->n_changes++;
}

static void node_on_drained(void *data)
{
    ((struct node *)data)->n_drained++;
}

static void node_on_closed(void *data)
{
    ((struct node *)data)->n_closed++;
}

void node_on_outcome(void *data, const struct rota_space_outcome *outcome)
{
    struct node *node = data;
    node->outcome = *outcome;
    snprintf(node->text, sizeof node->text, "%s", outcome->text);
    node->n_outcomes++;
}

/* --- nodes --- */

static const char *log_url(void)
{
    static char url[512];
    const char *store = database_text("ROTA_TEST_URL");
    if (strncmp(store, "sqlite:", 7) == 0) {
        snprintf(url, sizeof url, "%s.log", store);
        return url;
    }
    return store;
}

static void node_open(size_t index)
{
    static const char *const addresses[NODES] = {"127.0.0.1:7001", "127.0.0.1:7002",
                                                 "127.0.0.1:7003"};
    struct node *node = &nodes[index];
    struct rota_error error;
    *node = (struct node){.address = addresses[index], .is_open = true};
    assert_int_equal(uv_loop_init(&node->loop), 0);
    uv_timer_init(&node->loop, &node->ticking);
    uv_timer_start(&node->ticking, on_ticking, 5, 5);
    const struct rota_store_options store = {.url = database_text("ROTA_TEST_URL"),
                                             .statement_timeout = 60 * ROTA_SEC};
    const struct rota_space_options options = {
        .name = "tests",
        .member = node->address,
        .engine = kind->engine,
        .n_shards = SHARDS,
        .seats = "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003",
        .ttl = ttl,
        .wanted = SHARDS / 2,
        .log_url = log_url(),
        .on_start = node_on_start,
        .on_stop = node_on_stop,
        .on_change = node_on_change,
        .data = node,
    };
    if (rota_claims_new(1, &node->claims, &error) ||
        rota_store_open(&node->loop, &store, &node->store, &error))
        fail_msg("%s", error.text);
    struct rota_space_options with_claims = options;
    with_claims.claims = node->claims;
    if (rota_space_open(&node->loop, node->store, &with_claims, &node->space, &error))
        fail_msg("%s", error.text);
}

static void node_close(struct node *node)
{
    node->is_slow = false;
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        if (node->stops[shard])
            node_answer(node, shard);
    rota_space_close(node->space, node_on_closed, node);
    AWAIT(node->n_closed == 1);
    assert_int_equal(node->n_held, 0);
    rota_store_close(node->store);
    uv_close((uv_handle_t *)&node->ticking, NULL);
    while (uv_run(&node->loop, UV_RUN_ONCE))
        ;
    assert_int_equal(uv_loop_close(&node->loop), 0);
    rota_claims_free(node->claims);
    node->is_open = false;
}

size_t n_held(void)
{
    size_t n = 0;
    for (size_t i = 0; i < NODES; i++)
        n += nodes[i].is_open ? nodes[i].n_held : 0;
    return n;
}

/* Whether the node's map says of all shards what is so. */
static bool knows_all(const struct node *node)
{
    const struct rota_space_map *map = rota_space_map(node->space);
    if (map->n_owned != SHARDS)
        return false;
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        const struct rota_space_shard *known = &map->shards[shard];
        if (known->epoch != truth[shard].epoch ||
            !rota_str_is_equal(map->nodes[known->owner], rota_str(truth[shard].owner->address)))
            return false;
    }
    return true;
}

bool all_know_all(void)
{
    bool is_so = n_held() == SHARDS;
    for (size_t i = 0; i < NODES; i++)
        is_so = is_so && (!nodes[i].is_open || nodes[i].is_frozen || knows_all(&nodes[i]));
    return is_so;
}

static void clear_store(void)
{
    static const char *const tables[] = {"rota_leases", "rota_dcs", "rota_history", "rota_spaces",
                                         "rota_space_nodes"};
    struct rota_sql_url url = database_url(true);
    struct rota_sql *sql = NULL;
    struct rota_error error;
    char text[64];
    if (rota_sql_open(&url, NULL, &sql, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(text, sizeof text, "DELETE FROM %s", tables[i]);
        (void)rota_sql_run(sql, text, NULL, 0, NULL, NULL); /* the first time there are none */
    }
    rota_sql_close(sql);
}

void world_open(const struct kind *of, rota_time with_ttl)
{
    kind = of;
    ttl = with_ttl;
    clear_store();
    memset(truth, 0, sizeof truth);
    for (size_t i = 0; i < NODES; i++)
        node_open(i);
}

void world_close(void)
{
    for (size_t i = 0; i < NODES; i++)
        if (nodes[i].is_open)
            node_close(&nodes[i]);
}

/* --- the checks --- */

/* A node that owns something. */
static struct node *an_owner(void)
{
    for (size_t i = 0; i < NODES; i++)
        if (nodes[i].is_open && nodes[i].n_held > 0)
            return &nodes[i];
    fail_msg("engine %s: nobody owns anything", kind->engine);
    return NULL;
}

static uint32_t shard_of(const struct node *node)
{
    uint32_t shard = 0;
    while (shard < SHARDS && !node->started[shard])
        shard++;
    assert_true(shard < SHARDS);
    return shard;
}

static struct node *other_than(const struct node *node)
{
    return node == &nodes[0] ? &nodes[1] : &nodes[0];
}

/* Of engines that spread: all have come. */
static bool all_own(void)
{
    bool is_so = true;
    for (size_t i = 0; i < NODES; i++)
        is_so = is_so && nodes[i].n_held > 0;
    return is_so;
}

/* Never more than one; fewer while a machine with much else to do lets their time pass. */
static bool each_has_one_owner(void)
{
    size_t n_owned = 0;
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        size_t n = 0;
        for (size_t i = 0; i < NODES; i++) {
            uint64_t epoch = rota_space_epoch(nodes[i].space, shard);
            n += epoch != 0;
            assert_true(epoch == 0 || epoch == truth[shard].epoch);
        }
        assert_true(n <= 1);
        n_owned += n;
    }
    return n_owned == SHARDS;
}

void check_one_owner_each(void)
{
    AWAIT(all_know_all() && (all_own() || !kind->can_pin) && each_has_one_owner());
}

void check_explain(void)
{
    const struct node *node = an_owner();
    uint32_t shard = shard_of(node);
    char text[ROTA_SPACE_TEXT_MAX];
    struct rota_space_event events[4];
    for (size_t i = 0; i < NODES; i++) {
        rota_space_explain(nodes[i].space, shard, text, sizeof text);
        if (!strstr(text, node->address))
            fail_msg("engine %s: %s has nothing of %s", kind->engine, text, node->address);
        assert_non_null(
            strstr(rota_space_explain(nodes[i].space, SHARDS, text, sizeof text), "no shard 12"));
        assert_true(rota_space_history(nodes[i].space, shard, events, 4) > 0);
        assert_true(events[0].epoch == truth[shard].epoch);
        assert_true(rota_str_is_equal(events[0].owner, rota_str(node->address)));
    }
}

/* --- fencing --- */

struct answer {
    size_t n;
    enum rota_status status;
    char claim[ROTA_NOTE_CLAIM_MAX];
};

static void on_work(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_str("done"));
}

static void on_work_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct answer *answer = data;
    struct rota_str claim;
    (void)call;
    answer->status = result->status;
    if (rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_CLAIM, &claim))
        snprintf(answer->claim, sizeof answer->claim, "%.*s", ROTA_STR_ARGS(claim));
    answer->n++;
}

/* Call a server that fences by the node's claims. */
static struct answer call_with(struct node *node, uint32_t shard, uint64_t epoch)
{
    const struct rota_server_method work = {
        .path = METHOD_WORK, .on_call = on_work, .is_fenced = true};
    const struct rota_server_options options = {.claims = node->claims};
    struct rota_server *server = NULL;
    struct rota_channel *channel = NULL;
    struct rota_error error;
    struct answer answer = {0};
    char shard_text[32], epoch_text[32];
    if (rota_server_open(&node->loop, &options, &server, &error) ||
        rota_server_add(server, &work, &error) ||
        rota_server_listen(server, "127.0.0.1:0", &error) ||
        rota_channel_open(&node->loop, rota_server_address(server, 0), NULL, &channel, &error))
        fail_msg("%s", error.text);
    snprintf(shard_text, sizeof shard_text, "tests/%u", shard);
    snprintf(epoch_text, sizeof epoch_text, "%llu", (unsigned long long)epoch);
    const struct rota_metadata notes[] = {{rota_str(ROTA_NOTE_SHARD), rota_str(shard_text)},
                                          {rota_str(ROTA_NOTE_EPOCH), rota_str(epoch_text)}};
    const struct rota_call_options call = {.method = rota_str(METHOD_WORK),
                                           .metadata = notes,
                                           .n_metadata = 2,
                                           .on_end = on_work_end,
                                           .data = &answer};
    if (rota_channel_call(channel, &call, NULL, &error))
        fail_msg("%s", error.text);
    AWAIT(answer.n == 1);
    rota_channel_close(channel);
    rota_server_close(server);
    return answer;
}

void check_stale_epoch_is_refused(void)
{
    struct node *node = an_owner();
    struct node *other = other_than(node);
    uint32_t shard = shard_of(node);
    uint64_t epoch = truth[shard].epoch;
    AWAIT(all_know_all());
    assert_int_equal(claim_at(node, shard, epoch), ROTA_CLAIMS_HELD);
    assert_int_equal(claim_at(node, shard, epoch - 1), ROTA_CLAIMS_STALE);
    assert_int_equal(claim_at(other, shard, epoch), ROTA_CLAIMS_NOT_HELD);
    assert_int_equal(claim_at(other, shard, epoch - 1), ROTA_CLAIMS_STALE);
    assert_int_equal(call_with(node, shard, epoch).status, ROTA_STATUS_OK);
    struct answer answer = call_with(other, shard, epoch - 1);
    assert_true(answer.status != ROTA_STATUS_OK);
    struct rota_replica claim;
    assert_true(rota_call_notes_parse_claim(rota_str(answer.claim), &claim));
    assert_true(claim.epoch == epoch);
    assert_true(rota_str_is_equal(claim.address, rota_str(node->address)));
    assert_true(claim.node == rota_space_node(claim.address));
}

/* --- the end of owning --- */

/* Where what a node had goes: to the others, or to nobody until it is back. */
static size_t n_without(size_t n_lost)
{
    return kind->is_replaced ? SHARDS : SHARDS - n_lost;
}

void check_drain_owns_nothing(void)
{
    struct node *node = an_owner();
    uint64_t before[SHARDS];
    size_t n_lost = node->n_held;
    memcpy(before, node->started, sizeof before);
    rota_space_drain(node->space, node_on_drained, node);
    AWAIT(node->n_drained == 1);
    assert_int_equal(node->n_held, 0);
    AWAIT(n_held() == n_without(n_lost));
    for (uint32_t shard = 0; kind->is_replaced && shard < SHARDS; shard++)
        assert_true(truth[shard].owner != node && truth[shard].epoch > before[shard]);
    assert_int_equal(node->n_held, 0);
    rota_space_undrain(node->space);
    AWAIT(all_know_all());
}

void check_stop_is_waited_for(void)
{
    struct node *node = an_owner();
    size_t n = node->n_held, n_stops = node->n_stops, n_drained = node->n_drained;
    uint32_t shard = shard_of(node);
    uint64_t epoch = node->started[shard];
    node->is_slow = true;
    rota_space_drain(node->space, node_on_drained, node);
    AWAIT(node->n_stops == n_stops + n);
    if (node->stops[shard] != epoch)
        fail_msg("engine %s: shard %u was lost instead of drained", kind->engine, shard);
    rota_time until = rota_clock_boot() + ttl / 4;
    size_t n_looks = other_than(node)->n_changes;
    AWAIT(other_than(node)->n_changes > n_looks || rota_clock_boot() > until);
    assert_int_equal(n_held(), SHARDS - n);
    assert_int_equal(node->n_drained, n_drained);
    node->is_slow = false;
    for (uint32_t i = 0; i < SHARDS; i++)
        if (node->stops[i])
            node_answer(node, i);
    assert_false(rota_space_is_current(node->space, shard, epoch));
    AWAIT(node->n_drained == n_drained + 1);
    AWAIT(n_held() == n_without(n));
    rota_space_undrain(node->space);
    AWAIT(all_know_all());
}

/* --- the store --- */

static struct rota_sql *locked; /* of SQLite, which can't be away */

static void store_lose(void)
{
    struct rota_sql_url url = database_url(true);
    struct rota_error error;
    if (url.kind != ROTA_SQL_SQLITE) {
        database_do("stop");
        return;
    }
    if (rota_sql_open(&url, NULL, &locked, &error) ||
        rota_sql_run(locked, "BEGIN IMMEDIATE", NULL, 0, NULL, &error))
        fail_msg("%s", error.text);
}

static void store_find(void)
{
    if (!locked) {
        database_do("start");
        return;
    }
    (void)rota_sql_run(locked, "ROLLBACK", NULL, 0, NULL, NULL);
    rota_sql_close(locked);
    locked = NULL;
}

/* By node: the instance in its rows of leases; 0 when it has none. */
static void read_instances(int64_t instances[NODES])
{
    struct rota_sql_url url = database_url(false);
    struct rota_sql *sql = NULL;
    struct rota_error error;
    if (rota_sql_open(&url, NULL, &sql, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < NODES; i++) {
        struct rota_sql_result result = {0};
        char text[160];
        snprintf(text, sizeof text,
                 "SELECT instance FROM rota_leases WHERE host = '%s' AND instance <> 0",
                 nodes[i].address);
        if (rota_sql_run(sql, text, NULL, 0, &result, &error))
            fail_msg("%s", error.text);
        instances[i] = result.n_rows > 0 ? rota_sql_int_at(&result, 0, 0) : 0;
        rota_sql_result_deinit(&result);
    }
    rota_sql_close(sql);
}

void check_loss_of_the_store_stops_everything(void)
{
    uint64_t before[NODES][SHARDS];
    int64_t instances[NODES], after[NODES];
    read_instances(instances);
    for (size_t i = 0; i < NODES; i++)
        memcpy(before[i], nodes[i].started, sizeof before[i]);
    store_lose();
    AWAIT(n_held() == 0);
    for (size_t i = 0; i < NODES; i++)
        for (uint32_t shard = 0; shard < SHARDS; shard++)
            if (before[i][shard]) {
                assert_false(rota_space_is_current(nodes[i].space, shard, before[i][shard]));
                assert_true(claim_at(&nodes[i], shard, before[i][shard]) != ROTA_CLAIMS_HELD);
            }
    store_find();
    AWAIT(all_know_all());
    /* A node releases the rows of its own instance; those of another it has to outlive. */
    read_instances(after);
    for (size_t i = 0; i < NODES; i++)
        if (instances[i] && after[i])
            assert_int_equal(after[i], instances[i]);
}

/* --- death --- */

void check_dead_node_is_replaced_and_refused(void)
{
    struct node *node = an_owner();
    uint64_t before[SHARDS];
    size_t n = node->n_held;
    memcpy(before, node->started, sizeof before);
    node->is_frozen = true;
    AWAIT(n_held() - n == n_without(n) && !all_know_all());
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        if (!before[shard])
            continue;
        /* It has not run since, and no timer has fired. */
        if (kind->is_replaced) {
            assert_false(rota_space_is_current(node->space, shard, before[shard]));
            assert_true(claim_at(node, shard, before[shard]) != ROTA_CLAIMS_HELD);
            assert_true(truth[shard].epoch > before[shard]);
        }
        AWAIT(claim_at(other_than(node), shard, before[shard]) != ROTA_CLAIMS_HELD);
    }
    node->is_frozen = false;
    AWAIT(all_know_all());
}

/* --- people --- */

void check_pin_moves_one_shard_only(void)
{
    struct node *node = an_owner();
    struct node *other = other_than(node);
    uint32_t shard = shard_of(node);
    struct rota_error error;
    struct truth before[SHARDS];
    char why[ROTA_SPACE_TEXT_MAX];
    AWAIT(all_know_all());
    memcpy(before, truth, sizeof before);
    enum rota_code code = rota_space_pin(node->space, shard, rota_str(other->address), false,
                                         node_on_outcome, node, &error);
    if (!kind->can_pin) {
        assert_int_equal(code, ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, kind->engine));
        return;
    }
    assert_int_equal(code, ROTA_OK);
    AWAIT(node->n_outcomes == 1);
    assert_int_equal(node->outcome.code, ROTA_OK);
    AWAIT(truth[shard].owner == other && all_know_all());
    assert_true(truth[shard].epoch > before[shard].epoch);
    for (uint32_t i = 0; i < SHARDS; i++)
        if (i != shard)
            assert_true(truth[i].owner == before[i].owner && truth[i].epoch == before[i].epoch);
    assert_non_null(strstr(rota_space_explain(node->space, shard, why, sizeof why), "pinned"));
    assert_true(rota_space_map(node->space)->shards[shard].is_pinned);
    assert_int_equal(
        rota_space_pin(node->space, shard, rota_str(""), false, node_on_outcome, node, &error),
        ROTA_OK);
    AWAIT(truth[shard].owner == node && all_know_all());
    assert_int_equal(rota_space_pin(node->space, shard, rota_str("nobody:1"), false,
                                    node_on_outcome, node, &error),
                     ROTA_ERR_INVALID);
}

void check_dry_run_changes_nothing(void)
{
    struct node *node = an_owner();
    uint64_t version = rota_space_map(node->space)->version;
    const char *to = strcmp(kind->engine, "ring") == 0 ? "lease" : "ring";
    struct rota_error error;
    size_t n = node->n_outcomes;
    assert_int_equal(
        rota_space_migrate(node->space, rota_str(to), 0, true, node_on_outcome, node, &error),
        ROTA_OK);
    AWAIT(node->n_outcomes == n + 1);
    assert_int_equal(node->outcome.code, ROTA_OK);
    assert_non_null(strstr(node->text, to));
    assert_int_equal(rota_space_map(node->space)->phase, ROTA_SPACE_STABLE);
    assert_true(rota_space_map(node->space)->version >= version);
    assert_int_equal(rota_space_migrate(node->space, rota_str(kind->engine), 0, false,
                                        node_on_outcome, node, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(
        rota_space_migrate(node->space, rota_str("magic"), 0, false, node_on_outcome, node, &error),
        ROTA_ERR_INVALID);
}
