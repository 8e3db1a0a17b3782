#include "core/own/lease_fsm.h"
#include "vectors.h"

enum { US = 7, THEM = 8, SHARDS = 4 };

#define TTL   (24 * ROTA_SEC)
#define GUARD (TTL / 8)
#define EPOCH 1000

static struct rota_lease_fsm fsm;
static struct rota_lease_actions todo; /* of the last step */
static rota_time now;

static void init(uint32_t n_wanted, bool is_alone)
{
    now = 500 * ROTA_SEC;
    assert_int_equal(rota_lease_fsm_init(&fsm, now,
                                         &(struct rota_lease_fsm_options){.n_shards = SHARDS,
                                                                          .n_wanted = n_wanted,
                                                                          .ttl = TTL,
                                                                          .is_alone = is_alone,
                                                                          .instance = US,
                                                                          .seed = 5},
                                         NULL),
                     ROTA_OK);
    todo = (struct rota_lease_actions){0};
}

static int teardown(void **state)
{
    (void)state;
    rota_lease_fsm_deinit(&fsm);
    return 0;
}

static void step(struct rota_lease_event event)
{
    todo = rota_lease_fsm_step(&fsm, now, &event);
}

static void tick(void)
{
    step((struct rota_lease_event){.type = ROTA_LEASE_TICK});
}

/* The nth action, of the only kind that is expected there. */
static const struct rota_lease_action *action(size_t n, enum rota_lease_action_type type)
{
    assert_true(n < todo.n);
    assert_int_equal(todo.list[n].type, type);
    return &todo.list[n];
}

static void answer(enum rota_lease_event_type type, uint64_t ask, uint32_t shard, uint64_t epoch)
{
    step((struct rota_lease_event){.type = type, .ask = ask, .shard = shard, .epoch = epoch});
}

static void listed(uint64_t ask, const struct rota_lease_row *rows, size_t n)
{
    step((struct rota_lease_event){
        .type = ROTA_LEASE_LISTED, .ask = ask, .rows = rows, .n_rows = n});
}

/* A row of theirs. */
static struct rota_lease_row row_of(uint32_t shard, uint64_t instance, uint64_t epoch,
                                    uint64_t pings)
{
    return (struct rota_lease_row){
        .shard = shard, .instance = instance, .epoch = epoch, .pings = pings, .ttl = TTL};
}

/* Go on to the next deadline. */
static void wait_on(void)
{
    assert_true(rota_lease_fsm_deadline(&fsm) > now);
    assert_true(rota_lease_fsm_deadline(&fsm) != ROTA_TIME_NEVER);
    now = rota_lease_fsm_deadline(&fsm);
    tick();
}

/* Claim, and be given shard 2 after a second. */
static void hold(void)
{
    tick();
    uint64_t ask = action(0, ROTA_LEASE_CLAIM)->ask;
    now += ROTA_SEC;
    answer(ROTA_LEASE_CLAIMED, ask, 2, EPOCH);
    action(0, ROTA_LEASE_START);
}

/* Find nothing to claim, and look at the table. Returns the list's number. */
static uint64_t stand_by(void)
{
    tick();
    answer(ROTA_LEASE_NONE, action(0, ROTA_LEASE_CLAIM)->ask, 0, 0);
    if (todo.n == 0)
        wait_on();
    return action(0, ROTA_LEASE_LIST)->ask;
}

static void a_new_process_claims_at_once(void **state)
{
    (void)state;
    init(1, false);
    assert_int_equal(rota_lease_fsm_deadline(&fsm), now);
    tick();
    assert_int_equal(todo.n, 1);
    assert_int_equal(action(0, ROTA_LEASE_CLAIM)->n_dead, 0);
    assert_int_equal(rota_lease_fsm_deadline(&fsm), ROTA_TIME_NEVER);
}

static void a_grant_is_counted_from_its_ask(void **state)
{
    (void)state;
    init(1, false);
    rota_time asked_at = now;
    hold();
    assert_int_equal(todo.n, 1);
    assert_int_equal(action(0, ROTA_LEASE_START)->until, asked_at + TTL - GUARD);
    assert_int_equal(action(0, ROTA_LEASE_START)->shard, 2);
    assert_int_equal(action(0, ROTA_LEASE_START)->epoch, EPOCH);
}

static void a_late_grant_is_not_a_lease(void **state)
{
    (void)state;
    init(1, false);
    tick();
    uint64_t ask = action(0, ROTA_LEASE_CLAIM)->ask;
    now += TTL - GUARD;
    answer(ROTA_LEASE_CLAIMED, ask, 2, EPOCH);
    assert_int_equal(todo.n, 2);
    assert_int_equal(action(0, ROTA_LEASE_RELEASE)->shard, 2);
    assert_int_equal(action(0, ROTA_LEASE_RELEASE)->epoch, EPOCH);
    action(1, ROTA_LEASE_LIST);
    assert_false(rota_lease_fsm_check(&fsm, now, 2, EPOCH));
}

static void a_grant_that_is_not_new_is_released(void **state)
{
    (void)state;
    init(1, false);
    tick();
    uint64_t ask = action(0, ROTA_LEASE_CLAIM)->ask;
    step((struct rota_lease_event){.type = ROTA_LEASE_SEEN, .shard = 2, .epoch = EPOCH});
    answer(ROTA_LEASE_CLAIMED, ask, 2, EPOCH);
    action(0, ROTA_LEASE_RELEASE);
    assert_false(rota_lease_fsm_check(&fsm, now, 2, EPOCH));

    struct rota_lease_row row = row_of(2, 0, EPOCH, 1);
    listed(action(1, ROTA_LEASE_LIST)->ask, &row, 1);
    assert_int_equal(action(0, ROTA_LEASE_CLAIM)->floor, EPOCH);
}

static void a_grant_of_an_unknown_shard_is_released(void **state)
{
    (void)state;
    init(1, false);
    tick();
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_CLAIM)->ask, SHARDS, EPOCH);
    assert_int_equal(action(0, ROTA_LEASE_RELEASE)->shard, SHARDS);
}

static void a_ping_extends_from_when_it_was_sent(void **state)
{
    (void)state;
    init(1, false);
    rota_time asked_at = now;
    hold();
    wait_on();
    assert_in_range(now - asked_at, TTL / 4, TTL / 3);
    assert_int_equal(todo.n, 1);
    uint64_t ask = action(0, ROTA_LEASE_PING)->ask;
    assert_int_equal(action(0, ROTA_LEASE_PING)->epoch, EPOCH);
    rota_time sent_at = now;
    now += ROTA_SEC;
    answer(ROTA_LEASE_PINGED, ask, 0, 0);
    assert_int_equal(todo.n, 1);
    assert_int_equal(action(0, ROTA_LEASE_EXTEND)->until, sent_at + TTL - GUARD);
    assert_true(rota_lease_fsm_check(&fsm, sent_at + TTL - GUARD - 1, 2, EPOCH));
}

static void belief_ends_with_the_grant_whether_or_not_a_tick_comes(void **state)
{
    (void)state;
    init(1, false);
    rota_time end = now + TTL - GUARD;
    hold();
    assert_true(rota_lease_fsm_check(&fsm, end - 1, 2, EPOCH));
    assert_false(rota_lease_fsm_check(&fsm, end, 2, EPOCH));
    assert_false(rota_lease_fsm_check(&fsm, end - 1, 2, EPOCH - 1));
    assert_false(rota_lease_fsm_check(&fsm, end - 1, 2, EPOCH + 1));
    assert_false(rota_lease_fsm_check(&fsm, end - 1, 1, EPOCH));
    assert_false(rota_lease_fsm_check(&fsm, end - 1, UINT32_MAX, EPOCH));
}

static void out_of_time_is_stopped_first_then_released(void **state)
{
    (void)state;
    init(1, false);
    rota_time end = now + TTL - GUARD;
    hold();
    wait_on();
    action(0, ROTA_LEASE_PING); /* and no answer */
    wait_on();
    assert_int_equal(now, end);
    assert_int_equal(todo.n, 3);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_EXPIRED);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->shard, 2);
    assert_int_equal(action(1, ROTA_LEASE_RELEASE)->epoch, EPOCH);
    assert_int_equal(action(2, ROTA_LEASE_CLAIM)->floor, EPOCH);
}

static void the_answer_that_comes_after_the_end_does_not_help(void **state)
{
    (void)state;
    init(1, false);
    hold();
    wait_on();
    uint64_t ask = action(0, ROTA_LEASE_PING)->ask;
    now += TTL - GUARD - 1; /* in time for the ping, but not for what was believed */
    answer(ROTA_LEASE_PINGED, ask, 0, 0);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_EXPIRED);
}

static void a_taken_shard_is_stopped_and_not_released(void **state)
{
    (void)state;
    init(1, false);
    hold();
    wait_on();
    answer(ROTA_LEASE_TAKEN, action(0, ROTA_LEASE_PING)->ask, 0, EPOCH + 5);
    assert_int_equal(todo.n, 2);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_TAKEN);
    assert_int_equal(action(1, ROTA_LEASE_CLAIM)->floor, EPOCH + 5);
}

static void after_a_database_went_back_unknown_holders_get_time_to_expire(void **state)
{
    (void)state;
    init(1, false);
    hold();
    wait_on();
    rota_time noticed_at = now;
    answer(ROTA_LEASE_TAKEN, action(0, ROTA_LEASE_PING)->ask, 0, EPOCH - 1);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_WENT_BACK);
    assert_int_equal(action(1, ROTA_LEASE_WENT_BACK)->epoch, EPOCH - 1);
    struct rota_lease_row row = row_of(2, 0, EPOCH - 1, 1);
    uint64_t ask = action(2, ROTA_LEASE_LIST)->ask;
    while (now < noticed_at + TTL) {
        listed(ask, &row, 1);
        assert_int_equal(todo.n, 0);
        wait_on();
        if (now < noticed_at + TTL)
            ask = action(0, ROTA_LEASE_LIST)->ask;
    }
    assert_int_equal(now, noticed_at + TTL);
    assert_int_equal(action(0, ROTA_LEASE_CLAIM)->floor, EPOCH);
}

static void a_standby_that_sees_the_database_go_back_waits_too(void **state)
{
    (void)state;
    init(1, false);
    struct rota_lease_row row = row_of(2, THEM, EPOCH, 7);
    listed(stand_by(), &row, 1);
    wait_on();
    row = row_of(2, 0, EPOCH, 6);
    rota_time noticed_at = now;
    listed(action(0, ROTA_LEASE_LIST)->ask, &row, 1);
    assert_int_equal(todo.n, 1);
    assert_int_equal(action(0, ROTA_LEASE_WENT_BACK)->shard, 2);
    assert_true(fsm.claim_after == noticed_at + TTL);
    wait_on();
    action(0, ROTA_LEASE_LIST);
}

static void a_row_that_is_gone_means_that_the_database_went_back(void **state)
{
    (void)state;
    init(1, false);
    hold();
    wait_on();
    answer(ROTA_LEASE_TAKEN, action(0, ROTA_LEASE_PING)->ask, 0, 0);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_WENT_BACK);
    rota_lease_fsm_deinit(&fsm);

    init(1, false); /* the same for a spare */
    const struct rota_lease_row rows[] = {row_of(0, THEM, EPOCH, 7), row_of(1, THEM, EPOCH, 7)};
    listed(stand_by(), rows, 2);
    wait_on();
    rota_time noticed_at = now;
    listed(action(0, ROTA_LEASE_LIST)->ask, NULL, 0);
    action(0, ROTA_LEASE_WENT_BACK);
    assert_int_equal(todo.n, 1);
    uint64_t ask = 0;
    while (now < noticed_at + TTL) {
        wait_on();
        if (now < noticed_at + TTL) {
            ask = action(0, ROTA_LEASE_LIST)->ask;
            listed(ask, NULL, 0);
            assert_int_equal(todo.n, 0);
        }
    }
    action(0, ROTA_LEASE_CLAIM); /* which makes them again */
}

static void claims_until_a_claim_was_answered(void **state)
{
    (void)state;
    init(1, false);
    const struct rota_lease_row row = row_of(0, THEM, EPOCH, 7);
    tick();
    for (int i = 0; i < 3; i++) {
        answer(ROTA_LEASE_UNKNOWN, action(0, ROTA_LEASE_CLAIM)->ask, 0, 0);
        if (todo.n == 0)
            wait_on();
        listed(action(0, ROTA_LEASE_LIST)->ask, &row, i > 0); /* there may be no table yet */
    }
    answer(ROTA_LEASE_NONE, action(0, ROTA_LEASE_CLAIM)->ask, 0, 0);
    wait_on();
    listed(action(0, ROTA_LEASE_LIST)->ask, &row, 1);
    assert_int_equal(todo.n, 0);
}

static void an_unknown_ping_is_asked_again_and_extends_nothing(void **state)
{
    (void)state;
    init(1, false);
    rota_time end = now + TTL - GUARD;
    hold();
    wait_on();
    uint64_t first = action(0, ROTA_LEASE_PING)->ask;
    rota_time asked_at = now;
    answer(ROTA_LEASE_UNKNOWN, first, 0, 0);
    assert_int_equal(todo.n, 0);
    wait_on();
    assert_in_range(now - asked_at, TTL / 32, TTL / 16);
    assert_true(action(0, ROTA_LEASE_PING)->ask != first);
    assert_false(rota_lease_fsm_check(&fsm, end, 2, EPOCH));
}

/* Hold all shards. */
static void hold_all(void)
{
    init(SHARDS, false);
    tick();
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        uint64_t ask = action(todo.n - 1, ROTA_LEASE_CLAIM)->ask;
        answer(ROTA_LEASE_CLAIMED, ask, shard, EPOCH + shard);
    }
}

/* Let all be pinged; fills `asks`. */
static void ping_all(uint64_t asks[SHARDS])
{
    wait_on();
    assert_int_equal(todo.n, SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++) {
        asks[i] = action(i, ROTA_LEASE_PING)->ask;
        assert_false(action(i, ROTA_LEASE_PING)->is_single);
    }
}

static void pings_that_are_due_soon_go_together(void **state)
{
    uint64_t asks[SHARDS];
    (void)state;
    hold_all();
    for (int round = 0; round < 100; round++) {
        rota_time before = now;
        ping_all(asks);
        assert_true(round == 0 || now - before >= TTL / 4);
        for (uint32_t i = 0; i < SHARDS; i++) {
            answer(ROTA_LEASE_PINGED, asks[i], 0, 0);
            assert_int_equal(todo.n, 1);
            action(0, ROTA_LEASE_EXTEND);
        }
    }
}

static void each_of_many_pings_has_its_own_outcome(void **state)
{
    uint64_t asks[SHARDS];
    (void)state;
    hold_all();
    ping_all(asks);
    rota_time sent_at = now;
    answer(ROTA_LEASE_PINGED, asks[0], 0, 0);
    answer(ROTA_LEASE_TAKEN, asks[1], 0, EPOCH + 100);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_TAKEN);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->shard, 1);
    answer(ROTA_LEASE_PINGED, asks[2], 0, 0);
    now = sent_at + TTL - GUARD - 1;
    assert_true(rota_lease_fsm_check(&fsm, now, 0, EPOCH));
    assert_false(rota_lease_fsm_check(&fsm, now, 1, EPOCH + 1));
    assert_true(rota_lease_fsm_check(&fsm, now, 2, EPOCH + 2));
    assert_false(rota_lease_fsm_check(&fsm, now, 3, EPOCH + 3)); /* no answer, no more time */
}

static void a_ping_without_an_answer_is_repeated_alone(void **state)
{
    uint64_t asks[SHARDS];
    (void)state;
    hold_all();
    ping_all(asks);
    for (uint32_t i = 0; i < SHARDS; i++)
        answer(ROTA_LEASE_UNKNOWN, asks[i], 0, 0);
    for (uint32_t n = 0; n < SHARDS;) {
        wait_on();
        for (size_t i = 0; i < todo.n; i++, n++)
            assert_true(action(i, ROTA_LEASE_PING)->is_single);
        struct rota_lease_actions sent = todo;
        uint64_t again[SHARDS];
        for (size_t i = 0; i < sent.n; i++)
            again[i] = sent.list[i].ask;
        for (size_t i = 0; i < sent.n; i++)
            answer(ROTA_LEASE_PINGED, again[i], 0, 0);
    }
    wait_on(); /* and then with others again */
    for (size_t i = 0; i < todo.n; i++)
        assert_false(action(i, ROTA_LEASE_PING)->is_single);
}

static void late_and_repeated_answers_change_nothing(void **state)
{
    (void)state;
    init(1, false);
    hold();
    uint64_t claim = fsm.n_asks;
    answer(ROTA_LEASE_CLAIMED, claim, 3, EPOCH + 1);
    assert_int_equal(todo.n, 0);
    wait_on();
    uint64_t ping = action(0, ROTA_LEASE_PING)->ask;
    answer(ROTA_LEASE_PINGED, ping, 0, 0);
    rota_time until = action(0, ROTA_LEASE_EXTEND)->until;
    const enum rota_lease_event_type all[] = {
        ROTA_LEASE_CLAIMED, ROTA_LEASE_NONE,    ROTA_LEASE_LISTED,   ROTA_LEASE_PINGED,
        ROTA_LEASE_TAKEN,   ROTA_LEASE_UNKNOWN, ROTA_LEASE_RELEASED, ROTA_LEASE_TICK};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (uint64_t ask = 0; ask < ping + 3; ask++) {
            answer(all[i], ask, 2, EPOCH + 1);
            assert_int_equal(todo.n, 0);
        }
    assert_true(rota_lease_fsm_check(&fsm, until - 1, 2, EPOCH));
    assert_false(rota_lease_fsm_check(&fsm, until, 2, EPOCH));
}

static void an_answer_of_another_kind_counts_as_unknown(void **state)
{
    (void)state;
    init(1, false);
    hold();
    wait_on();
    answer(ROTA_LEASE_RELEASED, action(0, ROTA_LEASE_PING)->ask, 0, 0);
    assert_int_equal(todo.n, 0);
    assert_true(rota_lease_fsm_check(&fsm, now, 2, EPOCH));
    wait_on();
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_PING)->ask, 3, EPOCH + 9);
    assert_int_equal(todo.n, 0);
    wait_on();
    action(0, ROTA_LEASE_PING);
}

static void a_standby_polls_and_claims_free_shards(void **state)
{
    (void)state;
    init(1, false);
    struct rota_lease_row rows[] = {row_of(0, THEM, 5, 1), row_of(1, THEM, 6, 1)};
    listed(stand_by(), rows, 2);
    assert_int_equal(todo.n, 0);
    rota_time looked_at = now;
    wait_on();
    assert_in_range(now - looked_at, TTL / 20 * 3 / 4, TTL / 20);
    rows[0].instance = 0;
    rows[0].pings++;
    listed(action(0, ROTA_LEASE_LIST)->ask, rows, 2);
    assert_int_equal(action(0, ROTA_LEASE_CLAIM)->floor, 6);
    assert_int_equal(action(0, ROTA_LEASE_CLAIM)->n_dead, 0);
}

static void a_standby_does_not_poll_faster_when_it_gets_nothing(void **state)
{
    int n_asks = 0;
    (void)state;
    init(1, false);
    tick();
    struct rota_lease_row row = row_of(0, 0, 5, 1); /* free, and yet never given */
    for (rota_time until = now + TTL; now < until; n_asks++) {
        const struct rota_lease_action *asked = todo.list;
        if (asked->type == ROTA_LEASE_CLAIM)
            answer(ROTA_LEASE_NONE, asked->ask, 0, 0);
        else
            listed(action(0, ROTA_LEASE_LIST)->ask, &row, 1);
        if (todo.n == 0)
            wait_on();
    }
    assert_in_range(n_asks, 16, 70);
}

static void an_unchanged_row_is_claimed_by_its_version(void **state)
{
    (void)state;
    init(1, false);
    struct rota_lease_row rows[] = {row_of(0, THEM, 5, 1), row_of(1, THEM, 6, 40)};
    uint64_t ask = stand_by();
    now += ROTA_SEC;
    rota_time heard_at = now;
    listed(ask, rows, 2);
    while (now < heard_at + TTL) {
        wait_on();
        if (action(0, todo.list[0].type)->type != ROTA_LEASE_LIST)
            break;
        rows[0].pings++;
        listed(action(0, ROTA_LEASE_LIST)->ask, rows, 2);
    }
    assert_int_equal(now, heard_at + TTL);
    const struct rota_lease_action *claim = action(0, ROTA_LEASE_CLAIM);
    assert_int_equal(claim->n_dead, 1);
    assert_int_equal(claim->dead[0].shard, 1);
    assert_int_equal(claim->dead[0].epoch, 6);
    assert_int_equal(claim->dead[0].pings, 40);
}

static void rows_of_our_name_are_claimed_only_when_alone(void **state)
{
    (void)state;
    struct rota_lease_row row = row_of(1, THEM, 6, 40);
    row.is_ours = true;
    init(1, false);
    listed(stand_by(), &row, 1);
    assert_int_equal(todo.n, 0);
    rota_lease_fsm_deinit(&fsm);
    init(1, true);
    listed(stand_by(), &row, 1);
    action(0, ROTA_LEASE_CLAIM);
}

static void a_grant_in_a_lost_answer_is_released(void **state)
{
    (void)state;
    init(1, false);
    tick();
    answer(ROTA_LEASE_UNKNOWN, action(0, ROTA_LEASE_CLAIM)->ask, 0, 0);
    struct rota_lease_row rows[] = {row_of(0, US, 5, 1), row_of(1, THEM, 6, 1)};
    listed(action(0, ROTA_LEASE_LIST)->ask, rows, 2);
    assert_int_equal(todo.n, 1);
    assert_int_equal(action(0, ROTA_LEASE_RELEASE)->shard, 0);
    assert_int_equal(action(0, ROTA_LEASE_RELEASE)->epoch, 5);
    rota_time released_at = now;
    wait_on();
    assert_in_range(now - released_at, TTL / 32, TTL / 16);
    rows[0] = row_of(0, 0, 5, 2);
    listed(action(0, ROTA_LEASE_LIST)->ask, rows, 2);
    action(0, ROTA_LEASE_CLAIM);
}

static void as_many_are_sought_as_are_wanted(void **state)
{
    size_t n;
    (void)state;
    init(3, false);
    tick();
    for (uint32_t shard = 0; shard < 3; shard++) {
        answer(ROTA_LEASE_CLAIMED, action(shard > 0, ROTA_LEASE_CLAIM)->ask, shard, EPOCH + shard);
        assert_int_equal(action(0, ROTA_LEASE_START)->shard, shard);
    }
    assert_int_equal(todo.n, 1);
    rota_lease_fsm_held(&fsm, &n);
    assert_int_equal(n, 3);

    /* One of them is lost, and one is sought again. */
    wait_on();
    uint32_t shard = action(0, ROTA_LEASE_PING)->shard;
    answer(ROTA_LEASE_TAKEN, action(0, ROTA_LEASE_PING)->ask, 0, EPOCH + 9);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->shard, shard);
    action(1, ROTA_LEASE_CLAIM);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(rota_lease_fsm_check(&fsm, now, i, EPOCH + i), i != shard);
}

static void shards_above_the_share_are_released(void **state)
{
    size_t n;
    (void)state;
    init(3, false);
    tick();
    for (uint32_t shard = 0; shard < 2; shard++)
        answer(ROTA_LEASE_CLAIMED, action(shard > 0, ROTA_LEASE_CLAIM)->ask, shard, EPOCH + shard);
    uint64_t late = action(1, ROTA_LEASE_CLAIM)->ask;
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 1, .n_most = 3});
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_SHUTDOWN);
    assert_int_equal(action(1, ROTA_LEASE_RELEASE)->shard, 1);
    assert_int_equal(todo.n, 2);
    assert_true(rota_lease_fsm_check(&fsm, now, 0, EPOCH));
    assert_false(rota_lease_fsm_check(&fsm, now, 1, EPOCH + 1));

    /* What a claim of before still brings is not wanted any more. */
    answer(ROTA_LEASE_CLAIMED, late, 2, EPOCH + 2);
    assert_int_equal(action(0, ROTA_LEASE_RELEASE)->shard, 2);
    uint64_t look = action(1, ROTA_LEASE_LIST)->ask;
    assert_int_equal(todo.n, 2);
    rota_lease_fsm_held(&fsm, &n);
    assert_int_equal(n, 1);

    /* And more is sought at once when there may be more. */
    answer(ROTA_LEASE_UNKNOWN, look, 0, 0);
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 9});
    action(0, ROTA_LEASE_CLAIM);
}

/* Hold shard 0, which is our share of 4, next to two others, who hold 1 and 2 to 3. */
static void share(struct rota_lease_row rows[SHARDS])
{
    init(SHARDS, false);
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 1, .n_most = SHARDS});
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_CLAIM)->ask, 0, EPOCH);
    action(0, ROTA_LEASE_START);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows[i] = row_of(i, i == 0 ? US : i == 1 ? THEM : THEM + 1, EPOCH, 1);
}

/* Answer what was asked; false when it is a claim, which is left. */
static bool answer_all(struct rota_lease_row rows[SHARDS], const bool is_alive[SHARDS])
{
    struct rota_lease_action asked[2 * SHARDS];
    size_t n = todo.n;
    assert_true(n <= 2 * SHARDS);
    memcpy(asked, todo.list, n * sizeof *asked);
    for (size_t i = 0; i < n; i++) {
        if (asked[i].type == ROTA_LEASE_CLAIM)
            return false;
        for (uint32_t j = 0; j < SHARDS; j++)
            rows[j].pings += asked[i].type == ROTA_LEASE_LIST && is_alive[j];
        if (asked[i].type == ROTA_LEASE_LIST)
            listed(asked[i].ask, rows, SHARDS);
        else if (asked[i].type == ROTA_LEASE_PING)
            answer(ROTA_LEASE_PINGED, asked[i].ask, asked[i].shard, asked[i].epoch);
        for (size_t j = 0; j < todo.n; j++)
            if (todo.list[j].type == ROTA_LEASE_CLAIM)
                return false;
    }
    return true;
}

/* Go on, with pings confirmed and looks answered, until there is a claim or `until` is over. */
static bool claims_until(rota_time until, struct rota_lease_row rows[SHARDS],
                         const bool is_alive[SHARDS])
{
    while (answer_all(rows, is_alive)) {
        if (rota_lease_fsm_deadline(&fsm) >= until)
            return false;
        wait_on();
    }
    return true;
}

static void a_holder_with_its_share_takes_shards_of_a_dead_holder(void **state)
{
    struct rota_lease_row rows[SHARDS];
    bool is_alive[SHARDS] = {true, true, false, false};
    (void)state;
    share(rows);
    rota_time died_at = now;
    assert_true(claims_until(ROTA_TIME_NEVER, rows, is_alive));
    assert_in_range(now, died_at + TTL, died_at + TTL * 11 / 10);
    const struct rota_lease_action *claim = action(todo.n - 1, ROTA_LEASE_CLAIM);
    assert_int_equal(claim->n_dead, 2);

    /* Two are left for two of us: half of the dead one's is ours. */
    answer(ROTA_LEASE_CLAIMED, claim->ask, 2, EPOCH + 1);
    rota_time taken_at = now;
    assert_int_equal(action(0, ROTA_LEASE_START)->shard, 2);
    rows[2] = row_of(2, US, EPOCH + 1, 2);
    rows[3] = row_of(3, THEM, EPOCH + 1, 2);
    is_alive[2] = is_alive[3] = true;
    assert_false(claims_until(taken_at + TTL / 2, rows, is_alive));

    /* The others agree that it is our share. */
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 2, .n_most = SHARDS});
    answer(ROTA_LEASE_NONE, action(todo.n - 1, ROTA_LEASE_LIST)->ask, 0, 0);
    assert_false(claims_until(taken_at + 2 * TTL, rows, is_alive));
    assert_true(rota_lease_fsm_check(&fsm, now, 2, EPOCH + 1));
}

static void rows_of_a_dead_holder_that_die_one_after_the_other_are_all_taken(void **state)
{
    struct rota_lease_row rows[SHARDS];
    bool is_alive[SHARDS] = {true, true, false, true};
    (void)state;
    init(SHARDS, false);
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 2, .n_most = SHARDS});
    for (uint32_t shard = 0; shard < 2; shard++)
        answer(ROTA_LEASE_CLAIMED, action(shard > 0, ROTA_LEASE_CLAIM)->ask, shard, EPOCH);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows[i] = row_of(i, i < 2 ? US : THEM, EPOCH, 1);

    /* The holder of the other two pings one of them, and dies. */
    assert_false(claims_until(now + TTL / 3, rows, is_alive));
    is_alive[3] = false;
    assert_true(claims_until(ROTA_TIME_NEVER, rows, is_alive));
    const struct rota_lease_action *claim = action(todo.n - 1, ROTA_LEASE_CLAIM);
    assert_int_equal(claim->n_dead, 1);
    answer(ROTA_LEASE_CLAIMED, claim->ask, 2, EPOCH + 1);
    rows[2] = row_of(2, US, EPOCH + 1, 2);
    is_alive[2] = true;

    /* What we took has been seen and pinged when the second one is dead. */
    assert_true(claims_until(now + TTL / 2, rows, is_alive));
    claim = action(todo.n - 1, ROTA_LEASE_CLAIM);
    assert_int_equal(claim->n_dead, 1);
    assert_int_equal(claim->dead[0].shard, 3);
    answer(ROTA_LEASE_CLAIMED, claim->ask, 3, EPOCH + 1);
    assert_int_equal(action(0, ROTA_LEASE_START)->shard, 3);
}

static void shards_taken_above_the_share_are_released_unless_it_grows(void **state)
{
    struct rota_lease_row rows[SHARDS];
    bool is_alive[SHARDS] = {true, true, false, true};
    (void)state;
    share(rows);
    assert_true(claims_until(ROTA_TIME_NEVER, rows, is_alive));
    rota_time asked_at = now;
    answer(ROTA_LEASE_CLAIMED, action(todo.n - 1, ROTA_LEASE_CLAIM)->ask, 2, EPOCH + 1);
    rows[2] = row_of(2, US, EPOCH + 1, 2);
    is_alive[2] = true;
    assert_false(claims_until(asked_at + TTL, rows, is_alive));
    assert_true(rota_lease_fsm_check(&fsm, now, 2, EPOCH + 1));
    now = asked_at + TTL;
    tick();
    assert_int_equal(action(0, ROTA_LEASE_STOP)->shard, 2);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_SHUTDOWN);
    assert_int_equal(action(1, ROTA_LEASE_RELEASE)->shard, 2);
    assert_true(rota_lease_fsm_check(&fsm, now, 0, EPOCH));
}

static void free_shards_go_to_holders_below_their_share(void **state)
{
    struct rota_lease_row rows[SHARDS];
    bool is_alive[SHARDS] = {true, true, true, false};
    (void)state;
    share(rows);
    rows[3].instance = 0;
    assert_false(claims_until(now + 2 * TTL, rows, is_alive));
}

static void a_limit_is_not_exceeded_for_the_dead(void **state)
{
    struct rota_lease_row rows[SHARDS];
    bool is_alive[SHARDS] = {true, true, false, false};
    (void)state;
    share(rows);
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 1, .n_most = 1});
    assert_false(claims_until(now + 3 * TTL, rows, is_alive));
}

static void a_holder_that_lost_an_orphaned_shard_claims_again_at_once(void **state)
{
    struct rota_lease_row rows[SHARDS];
    const bool is_alive[SHARDS] = {true, true, true, false};
    (void)state;
    init(1, false);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows[i] = row_of(i, THEM, EPOCH, 1);
    listed(stand_by(), rows, SHARDS);
    assert_true(claims_until(ROTA_TIME_NEVER, rows, is_alive));
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_CLAIM)->ask, 3, EPOCH + 1);
    action(0, ROTA_LEASE_START);
    wait_on();
    answer(ROTA_LEASE_TAKEN, action(0, ROTA_LEASE_PING)->ask, 0, EPOCH + 2);
    action(0, ROTA_LEASE_STOP);
    action(1, ROTA_LEASE_CLAIM);
}

/* What was hoped for before a look is forgotten when the look shows nothing. */
static void a_read_without_orphaned_rows_ends_the_search(void **state)
{
    struct rota_lease_row rows[SHARDS];
    bool is_alive[SHARDS] = {true, true, true, true};
    (void)state;
    init(1, false);
    hold();
    wait_on();
    answer(ROTA_LEASE_TAKEN, action(0, ROTA_LEASE_PING)->ask, 0, EPOCH - 1);
    action(1, ROTA_LEASE_WENT_BACK);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows[i] = row_of(i, THEM, EPOCH, 1);
    while (todo.n > 0 && todo.list[todo.n - 1].type != ROTA_LEASE_LIST)
        wait_on();
    assert_false(claims_until(now + 3 * TTL, rows, is_alive));
}

static void more_than_there_are_is_not_sought(void **state)
{
    (void)state;
    init(SHARDS + 5, false);
    assert_int_equal(fsm.options.n_wanted, SHARDS);
    rota_lease_fsm_deinit(&fsm);
    init(0, false);
    assert_int_equal(fsm.options.n_wanted, 1);
}

static void an_outdated_holder_stops(void **state)
{
    (void)state;
    init(1, false);
    hold();
    step((struct rota_lease_event){.type = ROTA_LEASE_SEEN, .shard = 2, .epoch = EPOCH});
    step((struct rota_lease_event){.type = ROTA_LEASE_SEEN, .shard = 3, .epoch = EPOCH + 50});
    step((struct rota_lease_event){.type = ROTA_LEASE_SEEN, .shard = 2, .epoch = UINT64_MAX});
    step((struct rota_lease_event){.type = ROTA_LEASE_SEEN, .shard = UINT32_MAX, .epoch = 1});
    assert_true(rota_lease_fsm_check(&fsm, now, 2, EPOCH));
    step((struct rota_lease_event){.type = ROTA_LEASE_SEEN, .shard = 2, .epoch = EPOCH + 1});
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_BEHIND);
    action(1, ROTA_LEASE_RELEASE);
    assert_int_equal(action(2, ROTA_LEASE_CLAIM)->floor, EPOCH + 50);
}

static void a_table_that_grants_a_shard_twice_ends_the_first_grant(void **state)
{
    (void)state;
    init(2, false);
    tick();
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_CLAIM)->ask, 2, EPOCH);
    answer(ROTA_LEASE_CLAIMED, action(1, ROTA_LEASE_CLAIM)->ask, 2, EPOCH + 1);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->epoch, EPOCH);
    assert_int_equal(action(1, ROTA_LEASE_START)->epoch, EPOCH + 1);
    assert_false(rota_lease_fsm_check(&fsm, now, 2, EPOCH));
    assert_true(rota_lease_fsm_check(&fsm, now, 2, EPOCH + 1));
}

static void shut_down(void)
{
    step((struct rota_lease_event){.type = ROTA_LEASE_SHUTDOWN});
}

static void a_shutdown_stops_then_releases(void **state)
{
    size_t n;
    (void)state;
    init(1, false);
    hold();
    shut_down();
    assert_int_equal(todo.n, 2);
    assert_int_equal(action(0, ROTA_LEASE_STOP)->why, ROTA_LEASE_WHY_SHUTDOWN);
    uint64_t ask = action(1, ROTA_LEASE_RELEASE)->ask;
    assert_false(rota_lease_fsm_check(&fsm, now, 2, EPOCH));
    rota_lease_fsm_held(&fsm, &n);
    assert_int_equal(n, 0);
    answer(ROTA_LEASE_UNKNOWN, ask, 0, 0);
    wait_on();
    shut_down(); /* again */
    answer(ROTA_LEASE_RELEASED, fsm.n_asks, 0, 0);
    assert_int_equal(todo.n, 1);
    action(0, ROTA_LEASE_DONE);
    assert_int_equal(rota_lease_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    tick();
    assert_int_equal(todo.n, 0);
}

static void a_shutdown_without_anything_held_is_done_at_once(void **state)
{
    (void)state;
    init(1, false);
    shut_down();
    action(0, ROTA_LEASE_DONE);
}

static void a_shutdown_releases_a_late_grant(void **state)
{
    (void)state;
    init(1, false);
    tick();
    uint64_t ask = action(0, ROTA_LEASE_CLAIM)->ask;
    shut_down();
    assert_int_equal(todo.n, 0);
    answer(ROTA_LEASE_CLAIMED, ask, 2, EPOCH);
    answer(ROTA_LEASE_RELEASED, action(0, ROTA_LEASE_RELEASE)->ask, 0, 0);
    action(0, ROTA_LEASE_DONE);
}

static void a_claim_that_overtakes_the_release_is_released(void **state)
{
    (void)state;
    init(2, false);
    tick();
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_CLAIM)->ask, 2, EPOCH);
    uint64_t claim = action(1, ROTA_LEASE_CLAIM)->ask;
    shut_down();
    answer(ROTA_LEASE_CLAIMED, claim, 2, EPOCH + 1);
    assert_int_equal(action(0, ROTA_LEASE_RELEASE)->epoch, EPOCH + 1);
    answer(ROTA_LEASE_RELEASED, action(0, ROTA_LEASE_RELEASE)->ask, 0, 0);
    action(0, ROTA_LEASE_DONE);
}

static void a_shutdown_does_not_wait_forever(void **state)
{
    (void)state;
    init(1, false);
    hold();
    shut_down();
    rota_time began_at = now;
    wait_on();
    assert_int_equal(now - began_at, TTL);
    action(0, ROTA_LEASE_DONE);
}

static void after_a_long_sleep_all_is_lost_at_once(void **state)
{
    (void)state;
    init(SHARDS, false);
    tick();
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        answer(ROTA_LEASE_CLAIMED, action(shard > 0, ROTA_LEASE_CLAIM)->ask, shard, EPOCH + shard);
    now += ROTA_DAY;
    tick();
    assert_int_equal(todo.n, 2 * SHARDS + 1);
    for (uint32_t i = 0; i < SHARDS; i++) {
        action(2 * (size_t)i, ROTA_LEASE_STOP);
        action(2 * (size_t)i + 1, ROTA_LEASE_RELEASE);
    }
    action(2 * (size_t)SHARDS, ROTA_LEASE_CLAIM);
}

static enum rota_code try_init(struct rota_lease_fsm_options options)
{
    struct rota_error error = {0};
    enum rota_code code = rota_lease_fsm_init(&fsm, 0, &options, &error);
    assert_true(code == ROTA_OK || error.text[0] != '\0');
    rota_lease_fsm_deinit(&fsm);
    return code;
}

static void options_out_of_bounds_are_refused(void **state)
{
    const struct rota_lease_fsm_options fine = {.n_shards = 4, .instance = US};
    struct rota_lease_fsm_options o;
    (void)state;
    assert_int_equal(try_init(fine), ROTA_OK);
    o = fine, o.n_shards = 0;
    assert_int_equal(try_init(o), ROTA_ERR_INVALID);
    o = fine, o.n_shards = ROTA_LEASE_SHARDS_MAX + 1;
    assert_int_equal(try_init(o), ROTA_ERR_INVALID);
    o = fine, o.n_wanted = ROTA_LEASE_WANTED_MAX + 1;
    assert_int_equal(try_init(o), ROTA_ERR_LIMIT);
    o = fine, o.ttl = ROTA_LEASE_TTL_MIN - 1;
    assert_int_equal(try_init(o), ROTA_ERR_INVALID);
    o = fine, o.ttl = -1;
    assert_int_equal(try_init(o), ROTA_ERR_INVALID);
    o = fine, o.ttl = INT64_MAX;
    assert_int_equal(try_init(o), ROTA_ERR_INVALID);
    o = fine, o.ttl = ROTA_LEASE_TTL_MAX + 1;
    assert_int_equal(try_init(o), ROTA_ERR_INVALID);
    o = fine, o.instance = 0;
    assert_int_equal(try_init(o), ROTA_ERR_INVALID);
    o = fine, o.n_shards = 1, o.ttl = ROTA_LEASE_TTL_MIN;
    assert_int_equal(try_init(o), ROTA_OK);
    o.n_shards = ROTA_LEASE_SHARDS_MAX, o.n_wanted = ROTA_LEASE_WANTED_MAX;
    o.ttl = ROTA_LEASE_TTL_MAX;
    assert_int_equal(try_init(o), ROTA_OK);
    init(1, false);
}

#define RULE(name) cmocka_unit_test_teardown(name, teardown)

/* --- looks, and what they find --- */

static void larger_tables_are_read_less_often(void **state)
{
    const rota_time ttl = 4 * ROTA_SEC;
    (void)state;
    init(1, false);
    rota_lease_fsm_deinit(&fsm);
    struct rota_lease_fsm_options options = {
        .n_shards = ROTA_LEASE_SHARDS_MAX, .n_wanted = 1, .ttl = ttl, .instance = US};
    assert_int_equal(rota_lease_fsm_init(&fsm, now, &options, NULL), ROTA_OK);
    rota_time cost = ROTA_LEASE_SHARDS_MAX * ROTA_LEASE_LOOK_PER_SHARD;
    assert_true(cost > ttl / 8); /* or this shows nothing */
    struct rota_lease_row rows[] = {row_of(0, US, 5, 1), row_of(1, THEM, 6, 1)};
    uint64_t ask = stand_by();
    assert_in_range(fsm.list_at - now, cost - cost / 4, cost);
    listed(ask, rows + 1, 1);
    assert_int_equal(rota_lease_fsm_deadline(&fsm), fsm.list_at);
    wait_on();
    listed(action(0, ROTA_LEASE_LIST)->ask, rows, 2); /* but at once after a stray */
    action(0, ROTA_LEASE_RELEASE);
    assert_in_range(rota_lease_fsm_deadline(&fsm) - now, ttl / 32, ttl / 16);
}

static void missing_row_of_an_unknown_shard_is_ignored(void **state)
{
    struct rota_lease_row rows[SHARDS + 1];
    (void)state;
    init(1, false);
    for (uint32_t i = 0; i <= SHARDS; i++)
        rows[i] = row_of(i, THEM, EPOCH, 1);
    listed(stand_by(), rows, SHARDS + 1);
    wait_on();
    listed(action(0, ROTA_LEASE_LIST)->ask, rows, SHARDS);
    assert_int_equal(todo.n, 0);
    assert_int_equal(fsm.n_listed, SHARDS);
}

static void database_that_went_back_restarts_every_count(void **state)
{
    struct rota_lease_row rows[] = {row_of(0, THEM, EPOCH, 5), row_of(1, THEM, EPOCH, 5)};
    (void)state;
    init(1, false);
    listed(stand_by(), rows, 2);
    assert_int_equal(rota_lease_watch_dead_at(&fsm.watch), now + TTL);
    wait_on();
    rows[1].pings = 4;
    listed(action(0, ROTA_LEASE_LIST)->ask, rows, 2);
    assert_int_equal(action(0, ROTA_LEASE_WENT_BACK)->shard, 1);
    assert_int_equal(rota_lease_watch_dead_at(&fsm.watch), ROTA_TIME_NEVER);
    assert_int_equal(fsm.dead_at, ROTA_TIME_NEVER);
    assert_int_equal(fsm.claim_after, now + TTL);
}

static void grant_leaves_the_rows_that_die_next(void **state)
{
    struct rota_lease_row rows[] = {row_of(0, 0, EPOCH, 5), row_of(1, THEM, EPOCH, 5)};
    (void)state;
    init(2, false);
    listed(stand_by(), rows, 2);
    rota_time dead_at = now + TTL;
    assert_int_equal(fsm.dead_at, ROTA_TIME_NEVER); /* a claim is out */
    fsm.has_hope = false;
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_CLAIM)->ask, 0, EPOCH + 1);
    action(0, ROTA_LEASE_START);
    assert_int_equal(fsm.dead_at, dead_at);
    fsm.has_hope = true;
    fsm.dead_at = now;
    tick();
    answer(ROTA_LEASE_CLAIMED, action(todo.n - 1, ROTA_LEASE_CLAIM)->ask, 1, EPOCH + 1);
    assert_int_equal(fsm.dead_at, ROTA_TIME_NEVER); /* there is all we want */
    assert_int_equal(rota_lease_watch_dead_at(&fsm.watch), ROTA_TIME_NEVER);
}

static void a_holder_with_its_share_lets_others_go_first(void **state)
{
    (void)state;
    init(SHARDS, false);
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 1, .n_most = SHARDS});
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_CLAIM)->ask, 0, EPOCH);
    fsm.seek_ask = 0;
    fsm.list_at = fsm.slots[0].ping_at = fsm.slots[0].expires_at = ROTA_TIME_NEVER;
    fsm.dead_at = now + ROTA_SEC;
    assert_int_equal(rota_lease_fsm_deadline(&fsm), now + ROTA_SEC + TTL / 40);
    fsm.claim_after = now + 2 * ROTA_SEC;
    assert_int_equal(rota_lease_fsm_deadline(&fsm), now + 2 * ROTA_SEC);
    fsm.claim_after = now;
    fsm.n_share = 2;
    fsm.has_hope = false;
    assert_int_equal(rota_lease_fsm_deadline(&fsm), now + ROTA_SEC);
    fsm.has_hope = true;
    assert_int_equal(rota_lease_fsm_deadline(&fsm), now);
    fsm.seek_ask = 99;
    assert_int_equal(rota_lease_fsm_deadline(&fsm), ROTA_TIME_NEVER);
}

static void reasons_have_names(void **state)
{
    const char *const names[] = {"expired", "taken", "went back", "behind", "shutdown", "?"};
    const enum rota_lease_why whys[] = {ROTA_LEASE_WHY_EXPIRED,   ROTA_LEASE_WHY_TAKEN,
                                        ROTA_LEASE_WHY_WENT_BACK, ROTA_LEASE_WHY_BEHIND,
                                        ROTA_LEASE_WHY_SHUTDOWN,  (enum rota_lease_why)99};
    (void)state;
    init(1, false);
    for (int i = 0; i < 6; i++)
        assert_string_equal(rota_lease_why_text(whys[i]), names[i]);
}

static void one_step_can_lose_and_seek_as_many_as_are_wanted(void **state)
{
    enum { MANY = 100 };
    (void)state;
    init(1, false);
    rota_lease_fsm_deinit(&fsm);
    struct rota_lease_fsm_options options = {
        .n_shards = MANY, .n_wanted = MANY, .ttl = TTL, .instance = US};
    assert_int_equal(rota_lease_fsm_init(&fsm, now, &options, NULL), ROTA_OK);
    tick();
    for (uint32_t shard = 0; shard < MANY; shard++)
        answer(ROTA_LEASE_CLAIMED, action(shard > 0, ROTA_LEASE_CLAIM)->ask, shard, EPOCH);
    now += ROTA_DAY;
    tick();
    assert_int_equal(todo.n, 2 * MANY + 1);
}

static void shutdown_releases_all_at_once_and_pings_nothing(void **state)
{
    (void)state;
    hold_all();
    step((struct rota_lease_event){.type = ROTA_LEASE_SHUTDOWN});
    assert_int_equal(todo.n, 2 * SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++) {
        action(i, ROTA_LEASE_STOP);
        action(SHARDS + i, ROTA_LEASE_RELEASE);
    }
}

static void share_that_grew_keeps_what_was_above_it(void **state)
{
    (void)state;
    init(SHARDS, false);
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 1, .n_most = SHARDS});
    answer(ROTA_LEASE_CLAIMED, action(0, ROTA_LEASE_CLAIM)->ask, 0, EPOCH);
    fsm.excess_at = now + TTL; /* as after a claim above the share */
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 2, .n_most = SHARDS});
    assert_int_equal(fsm.excess_at, ROTA_TIME_NEVER);
    step((struct rota_lease_event){.type = ROTA_LEASE_SHUTDOWN});
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 1, .n_most = 1});
    assert_int_equal(fsm.n_share, 2); /* too late */
}

static void repeated_share_changes_nothing(void **state)
{
    struct rota_lease_row rows[SHARDS];
    (void)state;
    init(SHARDS, false);
    for (uint32_t i = 0; i < SHARDS; i++)
        rows[i] = row_of(i, THEM, EPOCH, 1);
    listed(stand_by(), rows, SHARDS);
    rota_time deadline = rota_lease_fsm_deadline(&fsm);
    step((struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = SHARDS, .n_most = 1});
    assert_int_equal(todo.n, 0);
    assert_int_equal(rota_lease_fsm_deadline(&fsm), deadline);
    assert_int_equal(fsm.n_most, SHARDS); /* not below the share */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_new_process_claims_at_once),
        RULE(a_grant_is_counted_from_its_ask),
        RULE(a_late_grant_is_not_a_lease),
        RULE(a_grant_that_is_not_new_is_released),
        RULE(a_grant_of_an_unknown_shard_is_released),
        RULE(a_ping_extends_from_when_it_was_sent),
        RULE(belief_ends_with_the_grant_whether_or_not_a_tick_comes),
        RULE(out_of_time_is_stopped_first_then_released),
        RULE(the_answer_that_comes_after_the_end_does_not_help),
        RULE(a_taken_shard_is_stopped_and_not_released),
        RULE(after_a_database_went_back_unknown_holders_get_time_to_expire),
        RULE(a_standby_that_sees_the_database_go_back_waits_too),
        RULE(a_row_that_is_gone_means_that_the_database_went_back),
        RULE(claims_until_a_claim_was_answered),
        RULE(an_unknown_ping_is_asked_again_and_extends_nothing),
        RULE(pings_that_are_due_soon_go_together),
        RULE(each_of_many_pings_has_its_own_outcome),
        RULE(a_ping_without_an_answer_is_repeated_alone),
        RULE(late_and_repeated_answers_change_nothing),
        RULE(an_answer_of_another_kind_counts_as_unknown),
        RULE(a_standby_polls_and_claims_free_shards),
        RULE(a_standby_does_not_poll_faster_when_it_gets_nothing),
        RULE(an_unchanged_row_is_claimed_by_its_version),
        RULE(rows_of_our_name_are_claimed_only_when_alone),
        RULE(a_grant_in_a_lost_answer_is_released),
        RULE(as_many_are_sought_as_are_wanted),
        RULE(shards_above_the_share_are_released),
        RULE(a_holder_with_its_share_takes_shards_of_a_dead_holder),
        RULE(rows_of_a_dead_holder_that_die_one_after_the_other_are_all_taken),
        RULE(shards_taken_above_the_share_are_released_unless_it_grows),
        RULE(free_shards_go_to_holders_below_their_share),
        RULE(a_limit_is_not_exceeded_for_the_dead),
        RULE(a_holder_that_lost_an_orphaned_shard_claims_again_at_once),
        RULE(a_read_without_orphaned_rows_ends_the_search),
        RULE(more_than_there_are_is_not_sought),
        RULE(an_outdated_holder_stops),
        RULE(a_table_that_grants_a_shard_twice_ends_the_first_grant),
        RULE(a_shutdown_stops_then_releases),
        RULE(a_shutdown_without_anything_held_is_done_at_once),
        RULE(a_shutdown_releases_a_late_grant),
        RULE(a_claim_that_overtakes_the_release_is_released),
        RULE(a_shutdown_does_not_wait_forever),
        RULE(after_a_long_sleep_all_is_lost_at_once),
        RULE(options_out_of_bounds_are_refused),
        RULE(larger_tables_are_read_less_often),
        RULE(missing_row_of_an_unknown_shard_is_ignored),
        RULE(database_that_went_back_restarts_every_count),
        RULE(grant_leaves_the_rows_that_die_next),
        RULE(a_holder_with_its_share_lets_others_go_first),
        RULE(reasons_have_names),
        RULE(one_step_can_lose_and_seek_as_many_as_are_wanted),
        RULE(shutdown_releases_all_at_once_and_pings_nothing),
        RULE(share_that_grew_keeps_what_was_above_it),
        RULE(repeated_share_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
