/* Leases in a real database; test/lib/databases.py says in which. */
#include "store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CLAIMERS = 50 };

static struct rota_store_session *session;

static int set_up(void **state)
{
    (void)state;
    store_clear();
    session = store_open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_store_session_close(session);
    return 0;
}

/* --- many at once --- */

struct claimer {
    pthread_t thread;
    pthread_barrier_t *start;
    unsigned number;
    struct rota_store_claimed claimed;
    struct rota_error error;
    enum rota_code code;
};

/* Not an assertion inside: those are for the main thread. */
static void *run_claimer(void *data)
{
    struct claimer *claimer = data;
    struct rota_sql_url url;
    struct rota_sql_options options = {.connect_timeout = ROTA_MIN, .statement_timeout = ROTA_MIN};
    struct rota_store_session *own = NULL;
    struct rota_store_answer answer = {0};
    char host[16];
    snprintf(host, sizeof host, "h%u", claimer->number);
    struct rota_store_request request = store_claim_of(host, claimer->number + 1, N_CLAIMERS);

    rota_sql_url_parse(rota_str(getenv("ROTA_TEST_URL")), &url, NULL);
    claimer->code = rota_store_session_open(&url, &options, &own, &claimer->error);
    pthread_barrier_wait(claimer->start);
    if (!claimer->code) {
        rota_store_session_do(own, &request, &answer);
        claimer->code = answer.code;
        claimer->error = answer.error;
        claimer->claimed = answer.claimed;
        rota_store_session_answer_deinit(&answer);
    }
    rota_store_session_close(own);
    return NULL;
}

static void drop_tables(void)
{
    static const char *const tables[] = {"rota_leases",  "rota_dcs",     "rota_holds",
                                         "rota_history", "rota_members", "rota_spaces",
                                         "rota_schema"};
    char text[64];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(text, sizeof text, "DROP TABLE %s", tables[i]);
        store_sql(session->sql, text);
    }
}

/* Of an empty database: they also make the tables and the rows, all at the same time. */
static void as_many_claimers_as_shards_get_a_shard_each(void **state)
{
    struct claimer claimers[N_CLAIMERS] = {0};
    bool is_taken[N_CLAIMERS] = {false};
    pthread_barrier_t start;
    (void)state;
    drop_tables();
    rota_store_session_close(session);
    session = NULL;
    pthread_barrier_init(&start, NULL, N_CLAIMERS);

    for (unsigned i = 0; i < N_CLAIMERS; i++) {
        claimers[i].number = i;
        claimers[i].start = &start;
        assert_int_equal(pthread_create(&claimers[i].thread, NULL, run_claimer, &claimers[i]), 0);
    }
    for (unsigned i = 0; i < N_CLAIMERS; i++)
        pthread_join(claimers[i].thread, NULL);
    pthread_barrier_destroy(&start);

    for (unsigned i = 0; i < N_CLAIMERS; i++) {
        if (claimers[i].code)
            fail_msg("claimer %u: %s", i, claimers[i].error.text);
        assert_int_equal(claimers[i].claimed.result, ROTA_STORE_CLAIM_GRANTED);
        assert_in_range(claimers[i].claimed.shard, 0, N_CLAIMERS - 1);
        assert_false(is_taken[claimers[i].claimed.shard]);
        is_taken[claimers[i].claimed.shard] = true;
    }
    session = store_open();
    struct rota_store_request late = store_claim_of("late", 99, N_CLAIMERS);
    assert_int_equal(store_claim(session, &late).result, ROTA_STORE_CLAIM_NONE);
}

/* Begin a claim and stop before its commit, as a client might that hangs there. */
static struct rota_store_claimed begin_claim(struct rota_store_session *open,
                                             const struct rota_store_request *request)
{
    struct rota_store_answer answer = {0};
    bool is_granted = false;
    char text[8192];
    snprintf(text, sizeof text, "%s", rota_store_claim_texts[open->kind]);
    char *commit = strstr(text, "; COMMIT");
    if (commit)
        *commit = '\0';
    else
        assert_int_equal(rota_sql_begin(open->sql, NULL), ROTA_OK);
    if (rota_store_lease_run_claim(open, request, text, &answer, &is_granted))
        fail_msg("%s", answer.error.text);
    assert_true(is_granted);
    return answer.claimed;
}

/* Not of SQLite: there a claim is one statement and whoever writes is alone, so there is
 * no such moment. */
static void open_claim_blocks_neither_a_ping_nor_another_claim(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 4), b = store_claim_of("b", 2, 4),
                              c = store_claim_of("c", 3, 4), d = store_claim_of("d", 4, 4),
                              e = store_claim_of("e", 5, 4);
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a);
    struct rota_store_session *open = store_open(), *quick = store_open_with(2 * ROTA_SEC);
    struct rota_lease_dead dead;
    store_name_dead(session, held.shard, &dead, &b); /* which it is not */
    struct rota_store_claimed taken = begin_claim(open, &b);

    assert_true(store_ping(quick, 1, held));
    struct rota_store_claimed third = store_claim(quick, &c), fourth = store_claim(quick, &d);
    assert_int_equal(third.result, ROTA_STORE_CLAIM_GRANTED);
    assert_int_equal(fourth.result, ROTA_STORE_CLAIM_GRANTED);
    assert_int_equal(held.shard + taken.shard + third.shard + fourth.shard, 0 + 1 + 2 + 3);
    assert_true(store_ping(quick, 3, third));
    assert_int_equal(store_claim(quick, &e).result, ROTA_STORE_CLAIM_NONE);

    assert_int_equal(rota_sql_commit(open->sql, NULL), ROTA_OK);
    assert_true(store_ping(quick, 2, taken));
    rota_store_session_close(quick);
    rota_store_session_close(open);
}

/* --- which row --- */

/* Make the row look as if it was pinged so long ago; negative: in the future. */
static void set_ping_age(uint32_t shard, rota_time age)
{
    char text[256];
    rota_time now = 0;
    assert_int_equal(rota_store_text_now(session, &now, NULL), ROTA_OK);
    snprintf(text, sizeof text, "UPDATE rota_leases SET last_ping = %lld WHERE shard = %u",
             (long long)((now - age) / ROTA_USEC), (unsigned)shard);
    assert_int_equal(store_sql(session->sql, text), 1);
}

static void shard_held_before_is_preferred(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 4), b = store_claim_of("b", 2, 4);
    (void)state;
    store_claim(session, &a);
    struct rota_store_claimed second = store_claim(session, &b);
    assert_int_equal(second.shard, 1);
    assert_true(store_release(session, 2, second));
    b.instance = 3; /* a new process of the same host */
    struct rota_store_claimed again = store_claim(session, &b);
    assert_int_equal(again.shard, 1);
    assert_true(again.epoch > second.epoch);
}

/* After a crash nothing was released: the row of the former life counts before all that are
 * not its own, be they free or dead. */
static void own_dead_shard_comes_before_those_of_others(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 3), b = store_claim_of("b", 2, 3);
    struct rota_lease_dead dead[2];
    (void)state;
    struct rota_store_claimed of_a = store_claim(session, &a), of_b = store_claim(session, &b);
    set_ping_age(of_a.shard, 3 * TTL);
    set_ping_age(of_b.shard, 2 * TTL);
    b.instance = 3;
    store_name_dead(session, of_a.shard, &dead[0], &b);
    store_name_dead(session, of_b.shard, &dead[1], &b);
    b.claim.dead = dead;
    b.claim.n_dead = 2;
    assert_int_equal(store_claim(session, &b).shard, of_b.shard);

    struct rota_store_claimed free_one = store_claim(session, &b);
    assert_int_equal(free_one.shard, 2);
    assert_int_equal(store_claim(session, &b).shard, of_a.shard);
}

static void free_row_that_was_left_longest_ago_comes_first(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 2), b = store_claim_of("b", 2, 2),
                              c = store_claim_of("c", 3, 2);
    (void)state;
    struct rota_store_claimed first = store_claim(session, &a), second = store_claim(session, &b);
    assert_true(store_release(session, 2, second));
    assert_true(store_release(session, 1, first));
    assert_int_equal(store_claim(session, &c).shard, second.shard);
}

static void instance_is_never_given_what_it_holds(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 2);
    struct rota_lease_dead dead;
    (void)state;
    struct rota_store_claimed first = store_claim(session, &a);
    a.claim.is_alone = true;
    assert_int_equal(store_claim(session, &a).shard, 1 - first.shard);
    assert_int_equal(store_claim(session, &a).result, ROTA_STORE_CLAIM_NONE);
    set_ping_age(first.shard, 2 * TTL);
    store_name_dead(session, first.shard, &dead, &a);
    assert_int_equal(store_claim(session, &a).result, ROTA_STORE_CLAIM_NONE);
    assert_true(store_ping(session, 1, first));
}

static void own_shard_is_taken_at_once_only_when_alone(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1);
    (void)state;
    struct rota_store_claimed before = store_claim(session, &a);
    a.instance = 2;
    assert_int_equal(store_claim(session, &a).result, ROTA_STORE_CLAIM_NONE);
    a.claim.is_alone = true;
    struct rota_store_claimed after = store_claim(session, &a);
    assert_int_equal(after.result, ROTA_STORE_CLAIM_GRANTED);
    assert_false(store_ping(session, 1, before));

    struct rota_store_request other = store_claim_of("b", 3, 1);
    other.claim.is_alone = true;
    assert_int_equal(store_claim(session, &other).result, ROTA_STORE_CLAIM_NONE);
}

/* --- rows that seem dead --- */

static void expired_row_is_taken_when_it_is_named(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1), b = store_claim_of("b", 2, 1);
    struct rota_lease_dead dead;
    (void)state;
    struct rota_store_claimed old = store_claim(session, &a);
    set_ping_age(0, TTL + ROTA_SEC);
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
    store_name_dead(session, 0, &dead, &b);
    struct rota_store_claimed taken = store_claim(session, &b);
    assert_int_equal(taken.result, ROTA_STORE_CLAIM_GRANTED);
    assert_true(taken.epoch > old.epoch);
    assert_false(store_ping(session, 1, old));
    assert_true(store_ping(session, 2, taken));
}

/* What the claimer saw is no longer so: somebody lives. */
static void row_that_changed_since_it_was_named_is_not_taken(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1), b = store_claim_of("b", 2, 1);
    struct rota_lease_dead dead;
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a);
    store_name_dead(session, 0, &dead, &b);
    assert_true(store_ping(session, 1, held));
    set_ping_age(0, 2 * TTL); /* whatever the clock says */
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
    store_name_dead(session, 0, &dead, &b);
    dead.epoch--;
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
    dead.epoch++;
    dead.pings++;
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
    dead.pings--;
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_GRANTED);
}

static void row_that_is_not_expired_is_not_taken(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1), b = store_claim_of("b", 2, 1);
    struct rota_lease_dead dead;
    (void)state;
    a.ttl = ROTA_HOUR;
    store_claim(session, &a);
    set_ping_age(0, ROTA_HOUR - ROTA_MIN); /* by its holder's ttl, not by the claimer's */
    store_name_dead(session, 0, &dead, &b);
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
}

static void ping_far_in_the_future_is_a_holder_from_before_a_jump_back(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1), b = store_claim_of("b", 2, 1);
    struct rota_lease_dead dead;
    (void)state;
    store_claim(session, &a);
    set_ping_age(0, -TTL / 2);
    store_name_dead(session, 0, &dead, &b);
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
    set_ping_age(0, -TTL - ROTA_MIN);
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_GRANTED);
}

static void last_of_many_dead_ones_is_found(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, ROTA_LEASE_DEAD_MAX),
                              b = store_claim_of("b", 2, ROTA_LEASE_DEAD_MAX);
    struct rota_lease_dead dead[ROTA_LEASE_DEAD_MAX];
    (void)state;
    for (uint32_t i = 0; i < ROTA_LEASE_DEAD_MAX; i++)
        store_claim(session, &a);
    set_ping_age(ROTA_LEASE_DEAD_MAX - 1, 2 * TTL);
    for (uint32_t i = 0; i < ROTA_LEASE_DEAD_MAX; i++)
        store_name_dead(session, i, &dead[i], &b);
    b.claim.dead = dead;
    b.claim.n_dead = ROTA_LEASE_DEAD_MAX;
    assert_int_equal(store_claim(session, &b).shard, ROTA_LEASE_DEAD_MAX - 1);
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
}

static void unclaimed_expired_lease_is_renewed_by_a_ping(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1), b = store_claim_of("b", 2, 1);
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a);
    struct rota_lease_dead dead;
    set_ping_age(0, 2 * TTL);
    assert_true(store_ping(session, 1, held));
    store_name_dead(session, 0, &dead, &b);
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
}

/* --- epochs --- */

static void epoch_grows_with_every_grant(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1);
    uint64_t last = 0;
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct rota_store_claimed claimed = store_claim(session, &a);
        assert_true(claimed.epoch > last);
        last = claimed.epoch;
        assert_true(store_release(session, 1, claimed));
    }
}

static void epoch_grows_also_when_the_database_went_back(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1);
    rota_time now = 0;
    (void)state;
    uint64_t last = store_claim(session, &a).epoch;
    while (now <= (rota_time)last * ROTA_MSEC + ROTA_MSEC) /* let a millisecond pass */
        assert_int_equal(rota_store_text_now(session, &now, NULL), ROTA_OK);

    /* Restored from an older dump, and nobody has seen a later epoch: the clock has. */
    store_sql(session->sql, "UPDATE rota_leases SET epoch = 3, instance = 0");
    struct rota_store_claimed claimed = store_claim(session, &a);
    assert_true(claimed.epoch > last);
    assert_true(store_release(session, 1, claimed));

    /* The same with a clock that is behind: the asker remembers. */
    a.claim.floor = claimed.epoch + 1000000000;
    assert_int_equal(store_claim(session, &a).epoch, a.claim.floor + 1);
}

static void epoch_grows_even_if_the_clock_is_behind_the_row(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1);
    (void)state;
    assert_true(store_release(session, 1, store_claim(session, &a)));
    store_sql(session->sql, "UPDATE rota_leases SET epoch = 4000000000000000000");
    assert_int_equal(store_claim(session, &a).epoch, 4000000000000000001);
}

static void ping_is_for_this_instance_and_this_epoch(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 2);
    struct rota_store_answer answer = {0};
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a), wrong = held;
    assert_true(store_ping(session, 1, held));
    assert_true(store_ping(session, 1, held)); /* as often as one likes */
    assert_false(store_ping(session, 2, held));
    wrong.epoch++;
    assert_false(store_ping(session, 1, wrong));
    wrong = held;
    wrong.shard = 1;
    assert_false(store_ping(session, 1, wrong));

    struct rota_store_request ping = store_of_lease(ROTA_STORE_PING, 2, held);
    store_must(session, &ping, &answer);
    assert_false(answer.holder.is_ours);
    assert_int_equal(answer.holder.instance, 1);
    assert_int_equal(answer.holder.epoch, held.epoch);
    assert_true(rota_str_is_equal(answer.holder.host, rota_str("a")));
    ping.space = rota_str("nowhere");
    store_must(session, &ping, &answer);
    assert_false(answer.holder.is_ours);
    assert_int_equal(answer.holder.epoch, 0);
    rota_store_session_answer_deinit(&answer);
}

static bool is_holder(const struct rota_store_holder *holder, bool is_ours, uint64_t instance,
                      uint64_t epoch)
{
    return holder->is_ours == is_ours && holder->instance == instance && holder->epoch == epoch;
}

static void each_of_many_pings_is_answered_for_itself(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 5), b = store_claim_of("b", 2, 5);
    struct rota_store_request request = store_request(ROTA_STORE_PINGS);
    struct rota_store_request list = store_request(ROTA_STORE_LEASES);
    struct rota_store_answer answer = {0};
    uint64_t epochs[5];
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct rota_store_claimed claimed = store_claim(session, i == 2 ? &b : &a);
        assert_int_equal(claimed.shard, i);
        epochs[i] = claimed.epoch;
    }
    const struct rota_store_ping pings[] = {
        {0, epochs[0]}, {1, epochs[1] + 1}, {2, epochs[2]}, {4, epochs[4]}, {77, 5}};
    request.instance = 1;
    request.pings = pings;
    request.n_pings = 5;
    request.ttl = 3 * TTL;
    store_must(session, &request, &answer);
    assert_int_equal(answer.n_holders, 5);
    assert_true(is_holder(&answer.holders[0], true, 1, epochs[0]));
    assert_true(is_holder(&answer.holders[1], false, 1, epochs[1]));
    assert_true(is_holder(&answer.holders[2], false, 2, epochs[2]));
    assert_true(rota_str_is_equal(answer.holders[2].host, rota_str("b")));
    assert_true(is_holder(&answer.holders[3], true, 1, epochs[4]));
    assert_true(is_holder(&answer.holders[4], false, 0, 0)); /* there is no such row */

    store_must(session, &list, &answer);
    static const uint64_t expected[] = {2, 1, 1, 1, 2};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(answer.leases[i].pings, expected[i]);
        assert_int_equal(answer.leases[i].ttl, expected[i] == 2 ? 3 * TTL : TTL);
    }
    request.instance = 9; /* nobody */
    store_must(session, &request, &answer);
    for (int i = 0; i < 5; i++)
        assert_false(answer.holders[i].is_ours);
    rota_store_session_answer_deinit(&answer);
}

/* Of any number up to the most, and of none beyond. */
static void as_many_are_pinged_at_once_as_are_allowed(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, ROTA_STORE_PINGS_MAX);
    struct rota_store_request request = store_request(ROTA_STORE_PINGS);
    struct rota_store_ping pings[ROTA_STORE_PINGS_MAX + 1];
    struct rota_store_answer answer = {0};
    (void)state;
    store_claim(session, &a);
    store_sql(session->sql, "UPDATE rota_leases SET instance = 1, epoch = 1000 + shard, pings = 0");
    for (uint32_t i = 0; i <= ROTA_STORE_PINGS_MAX; i++)
        pings[i] = (struct rota_store_ping){i, 1000 + i};
    request.instance = 1;
    request.pings = pings;
    for (request.n_pings = 1; request.n_pings <= ROTA_STORE_PINGS_MAX; request.n_pings += 15) {
        store_must(session, &request, &answer);
        assert_int_equal(answer.n_holders, request.n_pings);
        for (size_t i = 0; i < request.n_pings; i++)
            assert_true(is_holder(&answer.holders[i], true, 1, 1000 + i));
    }
    rota_store_session_answer_deinit(&answer);
    assert_int_equal(store_sql(session->sql, "SELECT MIN(pings) FROM rota_leases"), 1);
    assert_int_equal(store_sql(session->sql, "SELECT MAX(pings) FROM rota_leases"), 18);

    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_INVALID); /* 271 */
    request.n_pings = 0;
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_INVALID);
    request.n_pings = 2;
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_OK);
    pings[1].shard = 0; /* the same twice */
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_INVALID);
    pings[1] = (struct rota_store_ping){1, 0};
    assert_int_equal(rota_store_check_request(&request, NULL), ROTA_ERR_INVALID);
}

static void released_lease_is_free_and_remembers_its_host(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 2),
                              list = store_request(ROTA_STORE_LEASES);
    struct rota_store_answer answer = {0};
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a);
    assert_false(store_release(session, 2, held));
    assert_true(store_release(session, 1, held));
    assert_false(store_release(session, 1, held));
    assert_false(store_ping(session, 1, held));

    store_must(session, &list, &answer);
    assert_int_equal(answer.n_leases, 2);
    assert_int_equal(answer.leases[0].instance, 0);
    assert_int_equal(answer.leases[0].epoch, held.epoch);
    assert_int_equal(answer.leases[0].shards, 2);
    assert_int_equal(answer.leases[0].ttl, TTL);
    assert_true(rota_str_is_equal(answer.leases[0].host, rota_str("a")));
    assert_true(rota_str_is_equal(answer.leases[0].dc, rota_str("east")));
    assert_true(answer.leases[0].locked_at <= answer.leases[0].last_ping);
    assert_true(answer.leases[0].last_ping <= answer.db_now);
    assert_int_equal(answer.leases[1].epoch, 0);
    rota_store_session_answer_deinit(&answer);
}

/* --- fencing: what docs/store.md shows --- */

/* Write under a lease; returns how many rows were written. */
static int64_t write_fenced(struct rota_sql *sql, uint64_t instance,
                            struct rota_store_claimed claimed)
{
    static const char *const locks[] = {"", "LOCK IN SHARE MODE", "FOR KEY SHARE"};
    char text[512];
    snprintf(text, sizeof text,
             "UPDATE accounts SET balance = balance - 10 WHERE id = 7 AND EXISTS (SELECT 1 FROM "
             "rota_leases WHERE space = 'cache' AND dc = 'east' AND shard = %u AND instance = %llu "
             "AND epoch = %llu %s)",
             (unsigned)claimed.shard, (unsigned long long)instance,
             (unsigned long long)claimed.epoch, locks[session->kind]);
    return store_sql(sql, text);
}

static void make_account(void)
{
    store_sql(session->sql, "DROP TABLE IF EXISTS accounts");
    store_sql(session->sql, "CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT)");
    store_sql(session->sql, "INSERT INTO accounts VALUES (7, 100)");
}

static void fenced_write_succeeds_only_while_the_epoch_is_current(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1), b = store_claim_of("b", 2, 1);
    struct rota_lease_dead dead;
    (void)state;
    make_account();
    struct rota_store_claimed old = store_claim(session, &a);
    assert_int_equal(write_fenced(session->sql, 1, old), 1);
    set_ping_age(0, 2 * TTL);
    assert_int_equal(write_fenced(session->sql, 1, old), 1); /* nobody else can have written */
    store_name_dead(session, 0, &dead, &b);
    struct rota_store_claimed taken = store_claim(session, &b);
    assert_int_equal(write_fenced(session->sql, 1, old), 0);
    assert_int_equal(write_fenced(session->sql, 2, taken), 1);
    assert_int_equal(store_sql(session->sql, "SELECT balance FROM accounts"), 70);
}

/* Not of SQLite, whose writers are alone. */
static void lease_stays_where_it_is_while_a_fenced_write_is_open(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1), b = store_claim_of("b", 2, 1);
    struct rota_lease_dead dead;
    (void)state;
    make_account();
    struct rota_store_claimed old = store_claim(session, &a);
    set_ping_age(0, 2 * TTL);
    struct rota_sql *writer = store_admin();
    assert_int_equal(rota_sql_begin(writer, NULL), ROTA_OK);
    assert_int_equal(write_fenced(writer, 1, old), 1);
    store_name_dead(session, 0, &dead, &b);
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_NONE);
    assert_int_equal(rota_sql_commit(writer, NULL), ROTA_OK);
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_GRANTED);
    assert_int_equal(write_fenced(writer, 1, old), 0);
    rota_sql_close(writer);
}

/* --- spaces, dcs, holds, history --- */

static void another_number_of_shards_is_refused_until_asked_for(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 4), dcs = store_request(ROTA_STORE_DCS);
    struct rota_store_answer answer = {0};
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a);
    assert_int_equal(held.shards_before, 0);
    a.shards = 8;
    a.instance = 2;
    assert_int_equal(store_do(session, &a, &answer), ROTA_ERR_INVALID);
    assert_non_null(strstr(answer.error.text, "has 4 shards in the store, not 8"));

    a.claim.is_reshard = true;
    struct rota_store_claimed later = store_claim(session, &a);
    assert_int_equal(later.shards, 8);
    assert_int_equal(later.shards_before, 4);
    assert_int_equal(later.n_held, 1);
    assert_true(store_ping(session, 1, held)); /* who holds one of four keeps it */
    store_must(session, &dcs, &answer);
    assert_int_equal(answer.n_dcs, 1);
    assert_int_equal(answer.dcs[0].shards, 8);
    assert_true(rota_str_is_equal(answer.dcs[0].name, rota_str("east")));

    a = store_claim_of("b", 3, 2);
    a.claim.is_reshard = true;
    for (unsigned i = 0; i < 8; i++) { /* rows beyond the number are not claimed */
        struct rota_store_claimed claimed = store_claim(session, &a);
        a.instance++;
        if (claimed.result == ROTA_STORE_CLAIM_GRANTED)
            assert_in_range(claimed.shard, 0, 1);
    }
    rota_store_session_answer_deinit(&answer);
}

static void dcs_and_spaces_are_apart(void **state)
{
    static const char *const listed[][2] = {
        {"Cache", "west"}, {"cache", "east"}, {"cache", "west"}};
    struct rota_store_request a = store_claim_of("a", 1, 1), dcs = {.verb = ROTA_STORE_DCS};
    struct rota_store_answer answer = {0};
    (void)state;
    assert_int_equal(store_claim(session, &a).result, ROTA_STORE_CLAIM_GRANTED);
    a.dc = rota_str("west");
    a.shards = 2;
    assert_int_equal(store_claim(session, &a).shard, 0);
    a.space = rota_str("Cache"); /* names differ by their bytes */
    a.shards = 3;
    assert_int_equal(store_claim(session, &a).shard, 0);
    store_must(session, &dcs, &answer); /* of all spaces */
    assert_int_equal(answer.n_dcs, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(rota_str_is_equal(answer.dcs[i].space, rota_str(listed[i][0])));
        assert_true(rota_str_is_equal(answer.dcs[i].name, rota_str(listed[i][1])));
        assert_int_equal(answer.dcs[i].shards, i == 0 ? 3 : i);
    }
    rota_store_session_answer_deinit(&answer);
}

static void many_shards_have_a_row_each(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 12345);
    (void)state;
    assert_int_equal(store_claim(session, &a).result, ROTA_STORE_CLAIM_GRANTED);
    assert_int_equal(store_sql(session->sql, "SELECT COUNT(*) FROM rota_leases"), 12345);
    assert_int_equal(store_sql(session->sql, "SELECT MAX(shard) FROM rota_leases"), 12344);
}

static void nothing_is_claimed_during_a_hold(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 2), b = store_claim_of("b", 2, 2),
                              hold = store_request(ROTA_STORE_HOLD);
    struct rota_store_answer answer = {0};
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a);
    for (int i = 0; i < 2; i++) {
        hold.space = rota_str(i == 0 ? "cache" : ""); /* this space, and all of them */
        hold.span = ROTA_HOUR;
        store_must(session, &hold, &answer);
        rota_time until = answer.hold_until;
        assert_true(until > answer.db_now);
        store_must(session, &b, &answer);
        assert_int_equal(answer.claimed.result, ROTA_STORE_CLAIM_ON_HOLD);
        assert_int_equal(answer.hold_until, until);
        assert_true(store_ping(session, 1, held));
        hold.span = 0;
        store_must(session, &hold, &answer);
        assert_int_equal(answer.hold_until, 0);
    }
    assert_int_equal(store_claim(session, &b).result, ROTA_STORE_CLAIM_GRANTED);
    rota_store_session_answer_deinit(&answer);
}

static void history_has_grants_and_releases_and_a_bound(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1),
                              history = store_request(ROTA_STORE_HISTORY);
    struct rota_store_answer answer = {0};
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a);
    assert_true(store_release(session, 1, held));
    store_must(session, &history, &answer);
    assert_int_equal(answer.n_history, 2);
    assert_true(answer.history[0].is_release);
    assert_false(answer.history[1].is_release);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(answer.history[i].epoch, held.epoch);
        assert_true(rota_str_is_equal(answer.history[i].host, rota_str("a")));
    }
    for (int i = 0; i < 13; i++) /* 2 * 2^12 rows */
        store_sql(session->sql, "INSERT INTO rota_history (space, dc, shard, host, epoch, "
                                "is_release, at) SELECT space, dc, shard, host, epoch, is_release, "
                                "at FROM rota_history LIMIT 4096");
    session->n_events = 0; /* the time to look has come */
    store_claim(session, &a);
    assert_int_equal(store_sql(session->sql, "SELECT COUNT(*) FROM rota_history"),
                     ROTA_STORE_HISTORY_MAX);
    store_must(session, &history, &answer);
    assert_int_equal(answer.n_history, ROTA_STORE_HISTORY_MAX);
    assert_false(answer.history[0].is_release);
    rota_store_session_answer_deinit(&answer);
}

/* Neither is there without the other. */
static void grant_and_its_entry_in_the_history_are_one(void **state)
{
    struct rota_store_request a = store_claim_of("a", 1, 1);
    struct rota_store_answer answer = {0};
    (void)state;
    struct rota_store_claimed held = store_claim(session, &a);
    struct rota_store_request release = store_of_lease(ROTA_STORE_RELEASE, 1, held);
    store_sql(session->sql, "ALTER TABLE rota_history RENAME TO rota_history_away");
    assert_int_equal(store_do(session, &release, &answer), ROTA_ERR_NOT_FOUND);
    assert_int_equal(store_sql(session->sql, "SELECT COUNT(*) FROM rota_leases WHERE instance = 1"),
                     1);
    store_sql(session->sql, "UPDATE rota_leases SET instance = 0");
    assert_int_equal(store_do(session, &a, &answer), ROTA_ERR_NOT_FOUND);
    assert_int_equal(store_sql(session->sql, "SELECT COUNT(*) FROM rota_leases WHERE instance = 0"),
                     1);
    store_sql(session->sql, "ALTER TABLE rota_history_away RENAME TO rota_history");
    held = store_claim(session, &a);
    assert_true(store_release(session, 1, held));
    assert_int_equal(store_sql(session->sql, "SELECT COUNT(*) FROM rota_history"), 3);
    rota_store_session_answer_deinit(&answer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(as_many_claimers_as_shards_get_a_shard_each),
        TEST(shard_held_before_is_preferred),
        TEST(own_dead_shard_comes_before_those_of_others),
        TEST(free_row_that_was_left_longest_ago_comes_first),
        TEST(instance_is_never_given_what_it_holds),
        TEST(own_shard_is_taken_at_once_only_when_alone),
        TEST(expired_row_is_taken_when_it_is_named),
        TEST(row_that_changed_since_it_was_named_is_not_taken),
        TEST(row_that_is_not_expired_is_not_taken),
        TEST(ping_far_in_the_future_is_a_holder_from_before_a_jump_back),
        TEST(last_of_many_dead_ones_is_found),
        TEST(unclaimed_expired_lease_is_renewed_by_a_ping),
        TEST(epoch_grows_with_every_grant),
        TEST(epoch_grows_also_when_the_database_went_back),
        TEST(epoch_grows_even_if_the_clock_is_behind_the_row),
        TEST(ping_is_for_this_instance_and_this_epoch),
        TEST(each_of_many_pings_is_answered_for_itself),
        TEST(as_many_are_pinged_at_once_as_are_allowed),
        TEST(released_lease_is_free_and_remembers_its_host),
        TEST(another_number_of_shards_is_refused_until_asked_for),
        TEST(dcs_and_spaces_are_apart),
        TEST(many_shards_have_a_row_each),
        TEST(nothing_is_claimed_during_a_hold),
        TEST(history_has_grants_and_releases_and_a_bound),
        TEST(grant_and_its_entry_in_the_history_are_one),
        TEST(fenced_write_succeeds_only_while_the_epoch_is_current),
        /* Of servers only. */
        TEST(open_claim_blocks_neither_a_ping_nor_another_claim),
        TEST(lease_stays_where_it_is_while_a_fenced_write_is_open),
    };
    size_t n_tests = sizeof tests / sizeof *tests;
    if (database_url(false).kind == ROTA_SQL_SQLITE)
        n_tests -= 2;
    return _cmocka_run_group_tests("store_lease", tests, n_tests, NULL, NULL);
}
