/* The lease table in a database does what the one does that the simulation grants by
 * (lease_table.h): the same operations, by chance, on both, and all rows compared after
 * each. */
#include "lease_table.h"
#include "store.h"

#include <rota/experimental/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SHARDS = 6, HOSTS = 3, LIVES = 2, STEPS = 500, ACTORS = HOSTS * LIVES };

static struct rota_store_session *session;
static struct lease_table model;
static struct rota_random rng;
static uint64_t seed;
static int n_step;
static const char *done; /* the operation */

static const char *const hosts[HOSTS + 1] = {"", "alpha", "beta", "gamma"};

#define CHECK(fact)                                                                                \
    do {                                                                                           \
        if (!(fact))                                                                               \
            fail_msg("seed %llu, step %d, %s: not so: %s", (unsigned long long)seed, n_step, done, \
                     #fact);                                                                       \
    } while (0)

/* One of the processes: which host's, and its instance. */
static uint32_t host_of(uint32_t actor)
{
    return 1 + actor / LIVES;
}

static uint64_t instance_of(uint32_t actor)
{
    return 0x9000000000000000U + actor; /* a negative number, for a database */
}

static uint32_t choose(uint32_t n)
{
    return (uint32_t)rota_random_below(&rng, n);
}

static rota_time ttl_of(uint32_t actor)
{
    return (60 + (rota_time)actor) * ROTA_SEC;
}

/* --- the operations --- */

static void name_dead(struct lease_table_claim *claim)
{
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        const struct lease_table_row *row = &model.rows[shard];
        struct rota_lease_dead dead = {.shard = shard, .epoch = row->epoch, .pings = row->pings};
        uint32_t chance = choose(8);
        if (chance < 2)
            continue;
        if (chance == 2 && dead.epoch > 0)
            dead.epoch--;
        if (chance == 3)
            dead.pings++;
        claim->dead[claim->n_dead++] = dead;
    }
}

static void claim(void)
{
    uint32_t actor = choose(ACTORS);
    struct lease_table_claim ours = {.host = host_of(actor),
                                     .instance = instance_of(actor),
                                     .ttl = ttl_of(actor),
                                     .is_alone = choose(4) == 0};
    if (choose(8) == 0)
        ours.floor = model.rows[choose(SHARDS)].epoch + choose(100000);
    name_dead(&ours);
    struct rota_store_request request =
        store_claim_of(hosts[ours.host], ours.instance, model.n_shards);
    request.ttl = ours.ttl;
    request.claim = (struct rota_store_claim){
        .floor = ours.floor, .is_alone = ours.is_alone, .dead = ours.dead, .n_dead = ours.n_dead};
    struct rota_store_answer answer = {0};
    store_must(session, &request, &answer);

    uint32_t shard = 0;
    uint64_t epoch = 0;
    bool is_granted = lease_table_claim(&model, answer.db_now, &ours, &shard, &epoch);
    CHECK(is_granted == (answer.claimed.result == ROTA_STORE_CLAIM_GRANTED));
    CHECK((answer.claimed.result == ROTA_STORE_CLAIM_ON_HOLD) ==
          (answer.db_now < model.hold_until));
    if (is_granted) {
        CHECK(answer.claimed.shard == shard);
        /* The statement reads the clock more than once. */
        uint64_t ms = (uint64_t)(answer.db_now / ROTA_MSEC);
        bool is_of_clock =
            epoch == ms && answer.claimed.epoch + 1000 > ms && answer.claimed.epoch < ms + 1000;
        CHECK(answer.claimed.epoch == epoch || is_of_clock);
        model.rows[shard].epoch = answer.claimed.epoch;
    }
    rota_store_session_answer_deinit(&answer);
}

/* Mostly by the one who holds it, or who held it before. */
static struct rota_store_request of_row(enum rota_store_verb verb)
{
    uint32_t shard = choose(SHARDS);
    const struct lease_table_row *row = &model.rows[shard];
    struct rota_store_claimed lease = {.shard = shard, .epoch = row->epoch};
    uint64_t instance = row->instance;
    if (choose(6) == 0)
        lease.epoch++;
    if (lease.epoch == 0)
        lease.epoch = 1;
    if (choose(6) == 0 || instance == 0)
        instance = instance_of(choose(ACTORS));
    struct rota_store_request request = store_of_lease(verb, instance, lease);
    request.ttl = ttl_of((uint32_t)(instance - instance_of(0)));
    return request;
}

static void check_holder(const struct rota_store_answer *answer, bool is_ours, uint32_t shard)
{
    const struct lease_table_row *row = &model.rows[shard];
    CHECK(answer->holder.is_ours == is_ours);
    if (is_ours)
        return;
    CHECK(answer->holder.epoch == row->epoch);
    CHECK(answer->holder.instance == row->instance);
    CHECK(rota_str_is_equal(answer->holder.host, rota_str(hosts[row->host])));
}

static void ping(void)
{
    struct rota_store_request request = of_row(ROTA_STORE_PING);
    struct rota_store_answer answer = {0};
    store_must(session, &request, &answer);
    bool is_ours =
        lease_table_ping(&model, answer.db_now, request.shard, request.instance, request.epoch);
    check_holder(&answer, is_ours, request.shard);
    rota_store_session_answer_deinit(&answer);
}

/* The statement reads the clock for each row: it counts what the row has, if that is about
 * now. */
static void adopt_ping(uint32_t shard, rota_time now)
{
    char text[128];
    snprintf(text, sizeof text, "SELECT last_ping FROM rota_leases WHERE shard = %u", shard);
    rota_time last_ping = store_sql(session->sql, text) * ROTA_USEC;
    CHECK(last_ping > now - ROTA_SEC && last_ping < now + ROTA_SEC);
    model.rows[shard].last_ping = last_ping;
}

/* All shards of one instance, some with another's epoch, and some that it does not hold. */
static void ping_many(void)
{
    struct rota_store_request request = of_row(ROTA_STORE_PINGS);
    struct rota_store_ping pings[SHARDS];
    struct rota_store_answer answer = {0};
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        uint64_t epoch = model.rows[shard].epoch + (choose(6) == 0);
        if (epoch > 0 && choose(4) != 0)
            pings[request.n_pings++] = (struct rota_store_ping){shard, epoch};
    }
    if (request.n_pings == 0)
        return;
    request.pings = pings;
    store_must(session, &request, &answer);
    CHECK(answer.n_holders == request.n_pings);
    for (size_t i = 0; i < request.n_pings; i++) {
        uint32_t shard = pings[i].shard;
        struct rota_store_answer one = {.holder = answer.holders[i]};
        bool is_ours =
            lease_table_ping(&model, answer.db_now, shard, request.instance, pings[i].epoch);
        check_holder(&one, is_ours, shard);
        if (is_ours)
            adopt_ping(shard, answer.db_now);
    }
    rota_store_session_answer_deinit(&answer);
}

static void release(void)
{
    struct rota_store_request request = of_row(ROTA_STORE_RELEASE);
    struct rota_store_answer answer = {0};
    store_must(session, &request, &answer);
    uint64_t pings = model.rows[request.shard].pings;
    lease_table_release(&model, answer.db_now, request.shard, request.instance, request.epoch);
    check_holder(&answer, model.rows[request.shard].pings != pings, request.shard);
    rota_store_session_answer_deinit(&answer);
}

/* Time passes, or the database's clock is set back, for one row. */
static void age(void)
{
    uint32_t shard = choose(SHARDS);
    rota_time by = choose(2) ? ROTA_HOUR : -ROTA_HOUR;
    char text[128];
    snprintf(text, sizeof text,
             "UPDATE rota_leases SET last_ping = last_ping + (%lld) WHERE shard = %u",
             (long long)(by / ROTA_USEC), shard);
    assert_int_equal(store_sql(session->sql, text), 1);
    model.rows[shard].last_ping += by;
}

static void hold(void)
{
    struct rota_store_request request = store_request(ROTA_STORE_HOLD);
    struct rota_store_answer answer = {0};
    request.span = choose(3) == 0 ? ROTA_HOUR : 0;
    store_must(session, &request, &answer);
    model.hold_until = answer.hold_until;
    rota_store_session_answer_deinit(&answer);
}

/* --- the comparison --- */

static void compare(void)
{
    struct rota_store_request request = store_request(ROTA_STORE_LEASES);
    struct rota_store_answer answer = {0};
    store_must(session, &request, &answer);
    CHECK(answer.n_leases == SHARDS);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        const struct rota_store_lease *lease = &answer.leases[shard];
        const struct lease_table_row *row = &model.rows[shard];
        CHECK(lease->shard == shard);
        CHECK(rota_str_is_equal(lease->host, rota_str(hosts[row->host])));
        CHECK(lease->instance == row->instance);
        CHECK(lease->epoch == row->epoch);
        CHECK(lease->pings == row->pings);
        CHECK(lease->last_ping == row->last_ping);
        CHECK(lease->ttl == row->ttl);
    }
    rota_store_session_answer_deinit(&answer);
}

static void step(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
        uint32_t chance;
    } operations[] = {
        {"claim", claim, 40},     {"ping", ping, 15}, {"ping_many", ping_many, 15},
        {"release", release, 12}, {"age", age, 16},   {"hold", hold, 2},
    };
    uint32_t chance = choose(100);
    size_t i = 0;
    for (; chance >= operations[i].chance; i++)
        chance -= operations[i].chance;
    done = operations[i].name;
    operations[i].run();
    compare();
}

static void table_behaves_like_the_simulated_one(void **state)
{
    (void)state;
    store_clear();
    const char *chosen = getenv("ROTA_TEST_SEED");
    seed = chosen ? strtoull(chosen, NULL, 10) : (uint64_t)getpid();
    print_message("# ROTA_TEST_SEED=%llu\n", (unsigned long long)seed);
    rota_random_init(&rng, seed);
    session = store_open();
    model = (struct lease_table){.n_shards = SHARDS};
    done = "claim";
    claim(); /* makes the rows */
    for (n_step = 0; n_step < STEPS; n_step++)
        step();
    rota_store_session_close(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_behaves_like_the_simulated_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
