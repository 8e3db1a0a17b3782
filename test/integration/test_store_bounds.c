/* Requests to a store that are checked without a database: values out of bounds are refused at
 * once, with the field, and values at the bounds are not. */
#include "await.h"
#include "core/place/node_name.h"

#include <rota/experimental/lease.h>
#include <rota/experimental/store_ask.h>
#include <rota/ring.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uv_loop_t loop;
static struct rota_store *store;
static size_t n_asked, n_answered;
static char many[ROTA_STORE_TEXT_MAX + 2]; /* letters */

static struct rota_str letters(size_t n)
{
    assert_true(n < sizeof many);
    return rota_str_of(many, n);
}

static void on_answer(void *data, const struct rota_store_answer *answer)
{
    (void)data;
    assert_int_equal(answer->code, ROTA_ERR_UNAVAILABLE); /* there is no such file */
    n_answered++;
}

static int set_up(void **state)
{
    const struct rota_store_options options = {.url = "sqlite:/nowhere/at/all.db"};
    (void)state;
    memset(many, 'x', sizeof many);
    n_asked = n_answered = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    return (int)rota_store_open(&loop, &options, &store, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    await(&loop, &n_answered, n_asked);
    rota_store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    await_end(&loop);
    return 0;
}

static void check_fine(const struct rota_store_request *request, int line)
{
    struct rota_error error;
    if (rota_store_ask(store, request, on_answer, NULL, &error))
        fail_msg("line %d: %s", line, error.text);
    n_asked++;
}

static void check_refused(const struct rota_store_request *request, const char *phrase, int line)
{
    struct rota_error error = {.text = "nothing"};
    enum rota_code code = rota_store_ask(store, request, on_answer, NULL, &error);
    if ((code != ROTA_ERR_INVALID && code != ROTA_ERR_LIMIT) || !strstr(error.text, phrase))
        fail_msg("line %d: not refused for \"%s\": %s", line, phrase, error.text);
}

/* The request with one field changed. */
#define FINE(request, field, value)                                                                \
    do {                                                                                           \
        struct rota_store_request changed_ = request;                                              \
        changed_.field = value;                                                                    \
        check_fine(&changed_, __LINE__);                                                           \
    } while (0)
#define REFUSED(request, field, value, phrase)                                                     \
    do {                                                                                           \
        struct rota_store_request changed_ = request;                                              \
        changed_.field = value;                                                                    \
        check_refused(&changed_, phrase, __LINE__);                                                \
    } while (0)

/* A name: 1 to 255 bytes of printable UTF-8, without a space at its ends. */
#define CHECK_NAME(request, field, what)                                                           \
    do {                                                                                           \
        FINE(request, field, letters(1));                                                          \
        FINE(request, field, letters(ROTA_STORE_NAME_MAX));                                        \
        FINE(request, field, rota_str("two words \xc3\xb6"));                                      \
        REFUSED(request, field, rota_str(""), what " has no name");                                \
        REFUSED(request, field, letters(ROTA_STORE_NAME_MAX + 1), what " has 256 bytes");          \
        REFUSED(request, field, rota_str(" x"), "begins or ends with a space");                    \
        REFUSED(request, field, rota_str("x "), "begins or ends with a space");                    \
        REFUSED(request, field, rota_str("a\tb"), what " ");                                       \
        REFUSED(request, field, rota_str("a\nb"), "invisible character");                          \
        REFUSED(request, field, rota_str("a\x7f"), "invisible character");                         \
        REFUSED(request, field, rota_str("a\x1f"), "invisible character");                         \
        REFUSED(request, field, rota_str("a\xe2\x80\xae"), "invisible character");                 \
        REFUSED(request, field, rota_str("a\xff"), "not UTF-8");                                   \
    } while (0)

#define CHECK_LEASE_TTL(request, field)                                                            \
    do {                                                                                           \
        FINE(request, field, ROTA_LEASE_TTL_MIN);                                                  \
        FINE(request, field, ROTA_LEASE_TTL_MAX);                                                  \
        REFUSED(request, field, ROTA_LEASE_TTL_MIN - 1, "the ttl of a lease");                     \
        REFUSED(request, field, ROTA_LEASE_TTL_MAX + 1, "the ttl of a lease");                     \
    } while (0)

#define CHECK_WEIGHT(request, field)                                                               \
    do {                                                                                           \
        FINE(request, field, 0);                                                                   \
        FINE(request, field, ROTA_WEIGHT_MIN);                                                     \
        FINE(request, field, ROTA_WEIGHT_MAX);                                                     \
        REFUSED(request, field, ROTA_WEIGHT_MAX + 1, "the weight");                                \
        REFUSED(request, field, ROTA_WEIGHT_MIN - 1, "the weight");                                \
    } while (0)

static struct rota_store_request lease_of(enum rota_store_verb verb)
{
    return (struct rota_store_request){.verb = verb,
                                       .space = rota_str("s"),
                                       .dc = rota_str("d"),
                                       .host = rota_str("h"),
                                       .instance = 1,
                                       .shards = 1,
                                       .epoch = 1,
                                       .ttl = ROTA_SEC};
}

static const uint64_t EPOCH_MAX = ((uint64_t)1 << 62) - 1;

static void leases(void **state)
{
    static const enum rota_store_verb verbs[] = {ROTA_STORE_PING, ROTA_STORE_RELEASE};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct rota_store_request request = lease_of(verbs[i]);
        CHECK_NAME(request, space, "the space");
        CHECK_NAME(request, dc, "the dc");
        REFUSED(request, instance, 0, "an instance must not be 0");
        FINE(request, shard, ROTA_STORE_SHARDS_MAX - 1);
        REFUSED(request, shard, ROTA_STORE_SHARDS_MAX, "the shard");
        FINE(request, epoch, EPOCH_MAX);
        REFUSED(request, epoch, EPOCH_MAX + 1, "the epoch");
        REFUSED(request, epoch, 0, "the epoch");
    }
    CHECK_LEASE_TTL(lease_of(ROTA_STORE_PING), ttl);
    FINE(lease_of(ROTA_STORE_RELEASE), ttl, 0); /* has none */
}

static void claims(void **state)
{
    const struct rota_store_request request = lease_of(ROTA_STORE_CLAIM);
    static struct rota_lease_dead dead[ROTA_LEASE_DEAD_MAX + 1];
    (void)state;
    CHECK_NAME(request, host, "the host");
    CHECK_LEASE_TTL(request, ttl);
    FINE(request, shards, ROTA_STORE_SHARDS_MAX);
    REFUSED(request, shards, 0, "the number of shards");
    REFUSED(request, shards, ROTA_STORE_SHARDS_MAX + 1, "the number of shards");
    FINE(request, claim.floor, EPOCH_MAX);
    REFUSED(request, claim.floor, EPOCH_MAX + 1, "the floor");
    struct rota_store_request with = request;
    with.claim.dead = dead;
    FINE(with, claim.n_dead, ROTA_LEASE_DEAD_MAX);
    REFUSED(with, claim.n_dead, ROTA_LEASE_DEAD_MAX + 1, "listed as dead");
    with.claim.n_dead = 2;
    dead[1].shard = ROTA_STORE_SHARDS_MAX - 1;
    dead[1].epoch = dead[1].pings = INT64_MAX;
    check_fine(&with, __LINE__);
    dead[1].shard++;
    check_refused(&with, "the shard", __LINE__);
    dead[1].shard = 0;
    dead[1].epoch++;
    check_refused(&with, "the epoch", __LINE__);
    dead[1].epoch = 0;
    dead[1].pings++;
    check_refused(&with, "the number of pings", __LINE__);
}

static void pings(void **state)
{
    static struct rota_store_ping all[ROTA_STORE_PINGS_MAX + 1];
    struct rota_store_request request = lease_of(ROTA_STORE_PINGS);
    (void)state;
    for (uint32_t i = 0; i <= ROTA_STORE_PINGS_MAX; i++)
        all[i] = (struct rota_store_ping){i, 1};
    request.pings = all;
    request.n_pings = 2;
    CHECK_LEASE_TTL(request, ttl);
    FINE(request, n_pings, 1);
    FINE(request, n_pings, ROTA_STORE_PINGS_MAX);
    REFUSED(request, n_pings, 0, "the number of pings");
    REFUSED(request, n_pings, ROTA_STORE_PINGS_MAX + 1, "the number of pings");
    all[1].shard = 0;
    check_refused(&request, "ascending order", __LINE__);
    all[1].shard = ROTA_STORE_SHARDS_MAX - 1;
    check_fine(&request, __LINE__);
    all[1].shard = ROTA_STORE_SHARDS_MAX;
    check_refused(&request, "the shard", __LINE__);
    all[1] = (struct rota_store_ping){1, EPOCH_MAX};
    check_fine(&request, __LINE__);
    all[1].epoch++;
    check_refused(&request, "the epoch", __LINE__);
    all[1].epoch = 0;
    check_refused(&request, "the epoch", __LINE__);
}

static void lists_and_freezes(void **state)
{
    struct rota_store_request request = {.verb = ROTA_STORE_LEASES, .space = rota_str("s")};
    (void)state;
    CHECK_NAME(request, space, "the space");
    FINE(request, dc, rota_str(""));
    REFUSED(request, dc, rota_str(" x"), "the dc");
    request.verb = ROTA_STORE_HISTORY;
    REFUSED(request, space, rota_str(""), "the space");
    static const enum rota_store_verb LISTS[] = {ROTA_STORE_DCS, ROTA_STORE_SPACES};
    for (size_t i = 0; i < 2; i++) {
        request.verb = LISTS[i];
        FINE(request, space, rota_str(""));
        REFUSED(request, space, rota_str("x "), "the space");
    }
    request.verb = ROTA_STORE_HOLD;
    FINE(request, space, rota_str(""));
    REFUSED(request, space, rota_str("x "), "the space");
    FINE(request, span, 365 * ROTA_DAY);
    REFUSED(request, span, 365 * ROTA_DAY + 1, "at most a year");
    REFUSED(request, span, -1, "at most a year");
    request.verb = (enum rota_store_verb)1000;
    check_refused(&request, "unknown request", __LINE__);
}

static void members(void **state)
{
    static struct rota_str keys[ROTA_STORE_KEYS_MAX + 1];
    struct rota_store_request request = {.verb = ROTA_STORE_BEAT,
                                         .member = {.address = rota_str("h:1"), .ttl = ROTA_SEC},
                                         .keys = keys};
    (void)state;
    for (size_t i = 0; i <= ROTA_STORE_KEYS_MAX; i++)
        keys[i] = rota_str("h:2");
    FINE(request, member.address, letters(ROTA_STORE_NAME_MAX));
    REFUSED(request, member.address, letters(ROTA_STORE_NAME_MAX + 1), "the address");
    REFUSED(request, member.address, rota_str("a b"), "a space, a comma or a #");
    REFUSED(request, member.address, rota_str("a,b"), "a space, a comma or a #");
    REFUSED(request, member.address, rota_str("a#"), "a space, a comma or a #");
    FINE(request, n_keys, ROTA_STORE_KEYS_MAX);
    REFUSED(request, n_keys, ROTA_STORE_KEYS_MAX + 1, "1024 addresses");
    keys[2] = rota_str("a,b");
    FINE(request, n_keys, 2);
    REFUSED(request, n_keys, 3, "a space, a comma or a #");
    FINE(request, member.roles, letters(ROTA_STORE_ROLES_MAX));
    REFUSED(request, member.roles, letters(ROTA_STORE_ROLES_MAX + 1), "the list of roles");
    REFUSED(request, member.roles, rota_str("a\nb"), "the list of roles");
    FINE(request, member.zone, rota_str("z"));
    REFUSED(request, member.zone, rota_str(" z"), "the zone");
    FINE(request, member.name, letters(ROTA_NODE_NAME_MAX));
    REFUSED(request, member.name, letters(ROTA_NODE_NAME_MAX + 1), "not the name of a node");
    REFUSED(request, member.name, rota_str("a:1"), "not the name of a node");
    request.member.name = rota_str("a");
    REFUSED(request, n_keys, 1, "several addresses");
    request.member.name = rota_str("");
    CHECK_WEIGHT(request, member.weight);
    REFUSED(request, member.start_at, -1, "before 1970");
    REFUSED(request, member.stop_at, -1, "before 1970");
    FINE(request, member.ttl, ROTA_MSEC);
    FINE(request, member.ttl, 365 * ROTA_DAY);
    REFUSED(request, member.ttl, ROTA_MSEC - 1, "a ttl must be");
    REFUSED(request, member.ttl, 365 * ROTA_DAY + 1, "a ttl must be");
    request.member.ttl = 0;
    request.verb = ROTA_STORE_MEMBER_STATE;
    FINE(request, member.state, ROTA_STORE_MEMBER_EVICTED);
    REFUSED(request, member.state, ROTA_STORE_MEMBER_EVICTED + 1, "the state");
    FINE(request, member.drain_in, 365 * ROTA_DAY);
    REFUSED(request, member.drain_in, 365 * ROTA_DAY + 1, "within a year");
    REFUSED(request, member.drain_in, -1, "within a year");
    request.member.drain_in = ROTA_SEC;
    REFUSED(request, member.state, ROTA_STORE_MEMBER_DRAINING, "only an active member");
    request.member.drain_in = 0;
    FINE(request, member.address, rota_str("a,b")); /* so that one that is there can be named */
    request.verb = ROTA_STORE_MEMBER_REMOVE;
    FINE(request, member.address, rota_str("a,b"));
    REFUSED(request, member.address, rota_str(""), "the address");
}

static void selects(void **state)
{
    static struct rota_str keys[ROTA_STORE_KEYS_MAX + 1];
    struct rota_store_request request = {
        .verb = ROTA_STORE_SELECT, .table = rota_str("t"), .keys = keys};
    static const char *const good[] = {"T_1", "_", "a.b", "zZ9"};
    static const char *const bad[] = {"",    "1t",  "a b", "a.", ".b", "a.b.c", "a;b",
                                      "a.1", "a@b", "a[b", "`b", "{b", "a/b",   "a:b"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        FINE(request, table, rota_str(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(request, table, rota_str(bad[i]), "the table");
    FINE(request, table, letters(63));
    REFUSED(request, table, letters(64), "the table");
    FINE(request, key_column, rota_str("k9"));
    REFUSED(request, key_column, rota_str("9k"), "the column");
    REFUSED(request, value_column, rota_str("a.b"), "the column");
    FINE(request, n_keys, ROTA_STORE_KEYS_MAX);
    REFUSED(request, n_keys, ROTA_STORE_KEYS_MAX + 1, "1024 keys");
    request.n_keys = 2;
    keys[1] = letters(ROTA_STORE_KEY_MAX);
    check_fine(&request, __LINE__);
    keys[1] = letters(ROTA_STORE_KEY_MAX + 1);
    check_refused(&request, "a key has 4097 bytes", __LINE__);
}

static void nodes_of_spaces(void **state)
{
    static const enum rota_store_verb verbs[] = {ROTA_STORE_SPACE_JOIN, ROTA_STORE_SPACE_BEAT,
                                                 ROTA_STORE_SPACE_LEAVE, ROTA_STORE_SPACE_EVICT};
    const uint64_t too_much = (uint64_t)INT64_MAX + 1;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const struct rota_store_request request = {
            .verb = verbs[i],
            .space = rota_str("s"),
            .node = {.name = rota_str("n"), .instance = 1, .ttl = ROTA_SEC}};
        REFUSED(request, space, rota_str(""), "the space");
        REFUSED(request, node.name, rota_str(""), "the node");
        REFUSED(request, node.instance, 0, "an instance must not be 0");
        FINE(request, node.pings, INT64_MAX);
        REFUSED(request, node.pings, too_much, "the number of pings");
        if (i > 1) { /* leaves: the rest is not looked at */
            FINE(request, node.ttl, 0);
            continue;
        }
        CHECK_LEASE_TTL(request, node.ttl);
        FINE(request, node.acked, INT64_MAX);
        REFUSED(request, node.acked, too_much, "the view");
        FINE(request, node.highest, INT64_MAX);
        REFUSED(request, node.highest, too_much, "the epoch");
        CHECK_WEIGHT(request, node.weight);
    }
}

static void configurations(void **state)
{
    struct rota_store_request request = {
        .verb = ROTA_STORE_SPACE_PUT,
        .space = rota_str("s"),
        .config = {.name = rota_str("s"), .engine = rota_str("e"), .version = 1}};
    (void)state;
    REFUSED(request, config.name, rota_str(""), "the space");
    REFUSED(request, config.engine, rota_str(""), "the engine");
    FINE(request, config.version, INT64_MAX - 1);
    REFUSED(request, config.version, INT64_MAX, "the version");
    FINE(request, config.text, letters(ROTA_STORE_TEXT_MAX));
    REFUSED(request, config.text, letters(ROTA_STORE_TEXT_MAX + 1), "the configuration");
    FINE(request, config.text, rota_str("lines\n\tand tabs\r\n"));
    REFUSED(request, config.text, rota_str("a\x01"), "the configuration");
    request.verb = ROTA_STORE_SPACE_PROPOSE;
    FINE(request, config.version, INT64_MAX - 1);
    REFUSED(request, config.version, 0, "the version");
    FINE(request, known_text, rota_str("x"));
    REFUSED(request, known_text, rota_str("\x01"), "the known configuration");
    REFUSED(request, known, 1, "the version"); /* not the next one */
    request.verb = ROTA_STORE_SPACE_READ;
    FINE(request, known, INT64_MAX);
    REFUSED(request, known, (uint64_t)INT64_MAX + 1, "the version");
    REFUSED(request, known_text, letters(ROTA_STORE_TEXT_MAX + 1), "the known configuration");
    REFUSED(request, space, rota_str(""), "the space");
    request.verb = ROTA_STORE_SECRET;
    request.config.text = rota_str("secret");
    check_fine(&request, __LINE__);
    REFUSED(request, config.name, rota_str(""), "the secret's name");
    REFUSED(request, config.text, rota_str(""), "the secret");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(leases),  TEST(claims),  TEST(pings),           TEST(lists_and_freezes),
        TEST(members), TEST(selects), TEST(nodes_of_spaces), TEST(configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
