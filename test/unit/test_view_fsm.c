#include "core/own/view_fsm_inside.h"
#include "view_nodes.h"

#include <stdio.h>

/* --- owning --- */

static void first_node_makes_a_view_and_owns_all(void **state)
{
    (void)state;
    unix_ms = 5000;
    open_plain(0);
    pass(TTL / 4);
    assert_int_equal(n_served(0), SHARDS);
    assert_int_equal(stored.number, 5000);
    assert_int_equal(nodes[0].serving[3], 5000);
    assert_int_equal(rota_view_fsm_epoch(&nodes[0].fsm, now, 3), 5000);
    assert_int_equal(rota_view_fsm_epoch(&nodes[0].fsm, now, SHARDS), 0);
}

static void shards_that_stay_are_not_interrupted(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    uint64_t first = stored.number;
    open_plain(1);
    pass(TTL);
    assert_int_equal(n_served_in_all(), SHARDS);
    assert_in_range(n_served(1), 1, SHARDS - 1);
    assert_int_equal(nodes[0].n_stopped, n_served(1));
    assert_int_equal(nodes[0].n_started, 0);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        struct rota_view_owner owner;
        assert_true(rota_view_fsm_owner(&nodes[1].fsm, shard, &owner));
        assert_int_equal(owner.epoch, nodes[0].serving[shard] | nodes[1].serving[shard]);
        assert_int_equal(owner.epoch > first, nodes[1].serving[shard] != 0);
    }
}

/* Shards that have an owner, as the node sees them; `n_moving` of these are moving. */
static uint32_t count_owned(const struct rota_view_fsm *fsm, uint32_t *n_moving)
{
    struct rota_view_owner owner;
    uint32_t n = *n_moving = 0;
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        if (rota_view_fsm_owner(fsm, shard, &owner)) {
            n++;
            *n_moving += owner.is_moving;
        }
    return n;
}

static void gainer_waits_for_the_ack_of_the_former_owner(void **state)
{
    (void)state;
    uint32_t n_moving;
    open_plain(0);
    pass(TTL);
    nodes[0].is_blind = true; /* it beats, but does not hear of views */
    open_plain(1);
    pass(2 * TTL);
    assert_int_equal(n_served(0), SHARDS);
    assert_int_equal(n_served(1), 0);
    assert_int_equal(count_owned(&nodes[1].fsm, &n_moving), SHARDS);
    assert_in_range(n_moving, 1, SHARDS);
    nodes[0].is_blind = false;
    pass(TTL);
    assert_int_equal(n_served_in_all(), SHARDS);
    assert_true(n_served(1) > 0);
    count_owned(&nodes[1].fsm, &n_moving);
    assert_int_equal(n_moving, 0);
}

static void node_that_has_nothing_to_do_with_it_is_not_waited_for(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    open_plain(2);
    pass(TTL);
    uint32_t shard = 0;
    while (nodes[0].serving[shard] == 0)
        shard++;
    nodes[2].is_blind = true;
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = shard, .name = rota_str("b")});
    pass(TTL / 2);
    assert_int_equal(nodes[0].serving[shard], 0);
    assert_int_equal(nodes[1].serving[shard], stored.number);
}

static void owner_before_the_last_one_is_waited_for_too(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    open_plain(2);
    pass(TTL);
    uint32_t shard = 0;
    while (nodes[0].serving[shard] == 0)
        shard++;
    nodes[0].is_blind = true;
    wish(1, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = shard, .name = rota_str("b")});
    wish(1, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = shard, .name = rota_str("c")});
    pass(TTL);
    assert_true(nodes[0].serving[shard] != 0);
    assert_int_equal(nodes[2].serving[shard], 0);
    nodes[0].is_blind = false;
    pass(TTL);
    assert_int_equal(nodes[2].serving[shard], stored.number);
}

static void shard_that_comes_back_has_a_later_epoch(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    uint32_t shard = 0;
    while (nodes[0].serving[shard] == 0)
        shard++;
    uint64_t first = nodes[0].serving[shard];
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = shard, .name = rota_str("b")});
    pass(TTL / 2);
    uint64_t second = nodes[1].serving[shard];
    struct rota_view_owner owner;
    assert_true(rota_view_fsm_owner(&nodes[0].fsm, shard, &owner) && owner.is_pinned);
    assert_true(rota_str_is_equal(owner.name, rota_str("b")));
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_UNPIN, .shard = shard});
    pass(TTL / 2);
    assert_true(first < second && second < nodes[0].serving[shard]);
    assert_true(rota_view_fsm_owner(&nodes[0].fsm, shard, &owner) && !owner.is_pinned);
}

/* --- aliveness --- */

static void cut_off_node_stops_before_others_start(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    uint32_t n = n_served(0);
    nodes[0].is_deaf = true;
    pass(TTL * 3 / 4 - TTL / 3);
    assert_int_equal(n_served(0), n);
    pass(TTL / 2);
    assert_int_equal(n_served(0), 0);
    assert_int_equal(n_served(1), SHARDS - n);
    pass(2 * TTL);
    assert_int_equal(n_served(1), SHARDS);
    nodes[0].is_deaf = false; /* its row is gone: it comes back as another */
    pass(TTL);
    assert_int_equal(n_served(0), n);
    assert_int_equal(n_served_in_all(), SHARDS);
}

static void store_that_is_unreachable_for_all_changes_no_owner(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    uint64_t number = stored.number;
    uint32_t n = n_served(0);
    nodes[0].is_deaf = nodes[1].is_deaf = true;
    pass(5 * TTL);
    assert_int_equal(n_served_in_all(), 0);
    nodes[0].is_deaf = nodes[1].is_deaf = false;
    pass(TTL);
    assert_int_equal(n_served(0), n);
    assert_int_equal(n_served_in_all(), SHARDS);
    assert_int_equal(stored.number, number);
}

/* What it knew of the others is old by then. */
static void node_that_was_out_of_time_reads_as_soon_as_its_heartbeat_counts(void **state)
{
    struct rota_view_fsm *fsm = &nodes[0].fsm;
    uint64_t beat = 0;
    bool has_read = false;
    (void)state;
    open_plain(0);
    pass(TTL);
    nodes[0].is_deaf = true;
    pass(2 * TTL);
    assert_int_equal(n_served(0), 0);
    while (!beat) { /* reads still fail */
        rota_time deadline = rota_view_fsm_deadline(fsm);
        now = deadline > now ? deadline : now;
        struct rota_view_event event = {.type = ROTA_VIEW_TICK};
        struct rota_view_actions todo = rota_view_fsm_step(fsm, now, &event);
        struct rota_view_ask asks[ROTA_VIEW_ASKS_MAX];
        size_t n_asks = todo.n_asks;
        memcpy(asks, todo.asks, n_asks * sizeof *asks);
        for (size_t i = 0; i < n_asks; i++) {
            event = (struct rota_view_event){.type = ROTA_VIEW_UNKNOWN, .ask = asks[i].number};
            if (asks[i].type == ROTA_VIEW_BEAT)
                beat = asks[i].number;
            else
                assert_int_equal(rota_view_fsm_step(fsm, now, &event).n_asks, 0);
        }
    }
    assert_true(rota_view_fsm_deadline(fsm) > now);
    struct rota_view_event beaten = {.type = ROTA_VIEW_BEATEN, .ask = beat};
    struct rota_view_actions todo = rota_view_fsm_step(fsm, now, &beaten);
    for (size_t i = 0; i < todo.n_asks; i++)
        has_read |= todo.asks[i].type == ROTA_VIEW_READ;
    assert_true(has_read);
}

static void time_is_asked_for_not_timers(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    assert_int_not_equal(rota_view_fsm_epoch(&nodes[0].fsm, now, 0), 0);
    assert_int_equal(rota_view_fsm_epoch(&nodes[0].fsm, nodes[0].fsm.until, 0), 0);
}

static void restarted_node_has_new_epochs(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    uint64_t first = nodes[0].serving[0];
    rota_view_fsm_deinit(&nodes[0].fsm);
    open_plain(0); /* its name is taken, by itself as it happens */
    pass(TTL / 2);
    assert_int_equal(n_served(0), 0);
    pass(TTL);
    assert_int_equal(n_served(0), SHARDS);
    assert_true(nodes[0].serving[0] > first);
}

static void node_that_is_alone_reclaims_its_row_at_once(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    uint64_t first = nodes[0].serving[0];
    rota_view_fsm_deinit(&nodes[0].fsm);
    open_node(0, (struct rota_view_fsm_options){.is_alone = true});
    pass(TTL / 4);
    assert_int_equal(n_served(0), SHARDS);
    assert_true(nodes[0].serving[0] > first);
}

static void node_that_has_shut_down_needs_no_time(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_SHUTDOWN});
    assert_true(nodes[0].is_done);
    assert_int_equal(rota_view_fsm_deadline(&nodes[0].fsm), ROTA_TIME_NEVER);
}

/* After that its row is dead to all others, too. */
static void node_waits_a_ttl_for_its_row_to_go(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    nodes[0].is_deaf = true;
    rota_time begun_at = now;
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_SHUTDOWN});
    while (!nodes[0].is_done) {
        assert_false(rota_view_fsm_deadline(&nodes[0].fsm) > begun_at + TTL);
        now = rota_view_fsm_deadline(&nodes[0].fsm);
        drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_TICK});
    }
    assert_int_equal(now, begun_at + TTL);
}

static void second_node_of_a_name_is_a_standby(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    open_node(1, (struct rota_view_fsm_options){.name = rota_str("a")});
    pass(4 * TTL);
    assert_int_equal(n_served(0), SHARDS);
    assert_int_equal(n_served(1), 0);
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_SHUTDOWN});
    pass(TTL);
    assert_true(nodes[0].is_done);
    assert_int_equal(n_served(0), 0);
    assert_int_equal(n_served(1), SHARDS);
}

static void drained_node_owns_nothing_and_can_come_back(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = 5, .name = rota_str("b")});
    assert_false(rota_view_fsm_is_drained(&nodes[1].fsm));
    drive(&nodes[1], (struct rota_view_event){.type = ROTA_VIEW_DRAIN});
    assert_false(rota_view_fsm_is_drained(&nodes[1].fsm));
    pass(TTL);
    assert_true(rota_view_fsm_is_drained(&nodes[1].fsm));
    assert_int_equal(n_served(1), 0);
    assert_int_equal(n_served(0), SHARDS);
    drive(&nodes[1], (struct rota_view_event){.type = ROTA_VIEW_UNDRAIN});
    pass(TTL);
    assert_false(rota_view_fsm_is_drained(&nodes[1].fsm));
    assert_true(nodes[1].serving[5] != 0);
    assert_int_equal(n_served_in_all(), SHARDS);
}

static void weight_is_followed(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    uint32_t n = n_served(0);
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_WEIGH, .weight = 20000});
    pass(TTL);
    assert_true(n_served(0) > n);
    assert_int_equal(n_served_in_all(), SHARDS);
}

/* --- views that were missed --- */

static void node_that_missed_views_computes_the_same_epochs(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    for (uint32_t i = 0; i < 200; i++) {
        struct rota_str to = rota_str(i % 2 ? "a" : "b");
        wish(0, (struct rota_view_wish){
                    .type = ROTA_VIEW_PIN, .shard = (i * 5 + i / 7) % SHARDS, .name = to});
        assert_int_equal(nodes[0].outcome.code, ROTA_OK);
    }
    assert_true(stored.base > 2);
    open_plain(2);
    drive(&nodes[2], (struct rota_view_event){.type = ROTA_VIEW_DRAIN});
    pass(TTL);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        struct rota_view_owner followed, fresh;
        assert_true(rota_view_fsm_owner(&nodes[0].fsm, shard, &followed));
        assert_true(rota_view_fsm_owner(&nodes[2].fsm, shard, &fresh));
        assert_int_equal(followed.epoch, fresh.epoch);
        assert_int_equal(followed.instance, fresh.instance);
        assert_int_equal(nodes[0].serving[shard] | nodes[1].serving[shard], fresh.epoch);
    }
    assert_int_equal(n_served_in_all(), SHARDS);
}

static void store_that_falls_back_stops_nodes_that_know_a_later_view(void **state)
{
    (void)state;
    struct rota_view before;
    open_plain(0);
    pass(TTL);
    assert_int_equal(rota_view_copy(&stored, &before, NULL), ROTA_OK);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = 1, .name = rota_str("a")});
    uint64_t known = stored.number;
    rota_view_deinit(&stored);
    stored = before;
    pass(TTL / 3);
    assert_true(nodes[0].went_back);
    assert_int_equal(n_served(0), 0);
    pass(2 * TTL);
    assert_int_equal(n_served(0), SHARDS);
    assert_true(nodes[0].serving[1] > known);
    assert_true(nodes[0].serving[2] > known);
}

static void reused_number_stops_nodes_that_know_its_former_view(void **state)
{
    (void)state;
    struct rota_view before;
    open_plain(0);
    pass(TTL);
    assert_int_equal(rota_view_copy(&stored, &before, NULL), ROTA_OK);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = 1, .name = rota_str("a")});
    before.number = stored.number;
    rota_view_deinit(&stored);
    stored = before;
    pass(TTL / 3);
    assert_true(nodes[0].went_back);
    assert_int_equal(n_served(0), 0);
    pass(2 * TTL);
    assert_int_equal(n_served(0), SHARDS);
    assert_true(nodes[0].serving[1] > before.number);
}

/* --- wishes --- */

static void invalid_request_is_reported(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = SHARDS, .name = rota_str("a")});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = 0});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = 0, .name = rota_str("a\n")});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_RESEAT});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_COMMIT, .to = ROTA_VIEW_LEASE});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    uint64_t number = stored.number;
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_UNPIN, .shard = 0});
    assert_int_equal(nodes[0].outcome.code, ROTA_OK);
    assert_int_equal(nodes[0].outcome.number, number);
    assert_int_equal(stored.number, number);
}

static void drive_pin(uint32_t shard, const char *name)
{
    struct rota_view_wish made = {
        .type = name[0] ? ROTA_VIEW_PIN : ROTA_VIEW_UNPIN, .shard = shard, .name = rota_str(name)};
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_WISH, .wish = made});
}

static void of_simultaneous_requests_the_last_about_a_shard_counts(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        open_plain(i);
    pass(TTL);
    nodes[0].is_deaf = true;
    drive_pin(3, "b");
    drive_pin(4, "b");
    drive_pin(5, "b");
    drive_pin(3, "c");
    drive_pin(4, "");
    nodes[0].is_deaf = false;
    pass(TTL / 2);
    assert_int_equal(stored.pins.size, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(rota_str_is_equal(stored.pins.items[i].name,
                                      rota_str(stored.pins.items[i].shard == 3 ? "c" : "b")));
    assert_true(nodes[2].serving[3] != 0 && nodes[1].serving[5] != 0);
}

static void request_during_a_proposal_is_part_of_the_next(void **state)
{
    struct rota_view_wish late = {
        .type = ROTA_VIEW_PIN, .id = 8, .shard = 4, .name = rota_str("b")};
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    nodes[0].late = &late;
    drive_pin(3, "b");
    pass(TTL / 2);
    assert_null(nodes[0].late);
    assert_int_equal(nodes[0].outcome.id, 8);
    assert_int_equal(nodes[0].outcome.code, ROTA_OK);
    assert_int_equal(stored.pins.size, 2);
    assert_true(nodes[1].serving[3] != 0 && nodes[1].serving[4] != 0);
}

static void oversized_request_is_refused_at_once(void **state)
{
    static struct rota_str seats[ROTA_VIEW_SEATS_MAX + 1];
    static char name[ROTA_VIEW_NAME_MAX + 1];
    (void)state;
    memset(name, 'x', sizeof name);
    for (size_t i = 0; i <= ROTA_VIEW_SEATS_MAX; i++)
        seats[i] = rota_str("a");
    open_plain(0);
    pass(TTL);
    wish(0, (struct rota_view_wish){
                .type = ROTA_VIEW_RESEAT, .seats = seats, .n_seats = ROTA_VIEW_SEATS_MAX + 1});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_LIMIT);
    wish(0, (struct rota_view_wish){
                .type = ROTA_VIEW_RESEAT, .seats = seats, .n_seats = ROTA_VIEW_SEATS_MAX});
    assert_int_equal(nodes[0].outcome.code, ROTA_OK);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .name = rota_str_of(name, 256)});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .name = rota_str_of(name, 255)});
    assert_int_equal(nodes[0].outcome.code, ROTA_OK);
    nodes[0].is_deaf = true; /* it waits for its row to go */
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_SHUTDOWN});
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_UNPIN});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_UNAVAILABLE);
}

static void waiting_requests_are_bounded_and_end_with_a_shutdown(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    nodes[0].is_deaf = true;
    for (uint32_t i = 0; i <= ROTA_VIEW_WISHES_MAX; i++) {
        nodes[0].outcome = (struct rota_view_outcome){0};
        struct rota_view_wish made = {
            .type = ROTA_VIEW_PIN, .id = 9, .shard = i % SHARDS, .name = rota_str("a")};
        drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_WISH, .wish = made});
    }
    assert_int_equal(nodes[0].outcome.id, 9);
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_LIMIT);
    struct rota_view_actions todo = rota_view_fsm_step(
        &nodes[0].fsm, now, &(struct rota_view_event){.type = ROTA_VIEW_SHUTDOWN});
    assert_int_equal(todo.n_outcomes, ROTA_VIEW_WISHES_MAX);
    assert_int_equal(todo.outcomes[5].code, ROTA_ERR_UNAVAILABLE);
    assert_int_equal(todo.n_stops, SHARDS);
    assert_int_equal(todo.asks[0].type, ROTA_VIEW_LEAVE);
}

/* --- observers --- */

static void observer_has_no_row_and_knows_all(void **state)
{
    struct rota_view_owner owner;
    (void)state;
    open_node(1, (struct rota_view_fsm_options){.is_observer = true});
    pass(TTL);
    assert_int_equal(stored.number, 0);
    open_plain(0);
    pass(TTL);
    assert_int_equal(table.n_rows, 1);
    assert_true(rota_view_fsm_owner(&nodes[1].fsm, 3, &owner));
    assert_int_equal(owner.epoch, nodes[0].serving[3]);
    drive(&nodes[1], (struct rota_view_event){.type = ROTA_VIEW_SHUTDOWN});
    assert_true(nodes[1].is_done);
}

static void observer_of_a_static_space_needs_no_seats(void **state)
{
    struct rota_view_owner owner;
    const struct rota_str seats[] = {rota_str("a"), rota_str("b")};
    (void)state;
    open_node(0, (struct rota_view_fsm_options){
                     .engine = ROTA_VIEW_STATIC, .seats = seats, .n_seats = 2});
    open_node(1, (struct rota_view_fsm_options){.engine = ROTA_VIEW_STATIC, .is_observer = true});
    pass(TTL);
    assert_true(rota_view_fsm_owner(&nodes[1].fsm, 0, &owner));
    assert_false(rota_view_fsm_owner(&nodes[1].fsm, 1, &owner));
}

static void observer_proposes_only_requests(void **state)
{
    (void)state;
    open_plain(0);
    open_node(1, (struct rota_view_fsm_options){.is_observer = true});
    pass(TTL);
    nodes[0].is_deaf = true; /* its row is evicted, and nobody is left to end its membership */
    uint64_t number = stored.number;
    pass(3 * TTL);
    assert_int_equal(table.n_rows, 0);
    assert_int_equal(stored.number, number);
    nodes[0].is_deaf = false;
    pass(TTL);
    assert_int_equal(n_served(0), SHARDS);

    number = stored.number;
    drive(&nodes[1],
          (struct rota_view_event){
              .type = ROTA_VIEW_WISH,
              .wish = {.type = ROTA_VIEW_PIN, .id = 7, .shard = 3, .name = rota_str("a")}});
    pass(TTL / 4);
    assert_int_equal(nodes[1].outcome.id, 7);
    assert_int_equal(nodes[1].outcome.code, ROTA_OK);
    assert_true(stored.number > number);
    assert_int_equal(stored.pins.size, 1);
    assert_int_equal(n_served(0), SHARDS);
    assert_int_equal(nodes[0].n_stopped, 0);

    drive(&nodes[1],
          (struct rota_view_event){.type = ROTA_VIEW_WISH,
                                   .wish = {.type = ROTA_VIEW_MIGRATE, .to = ROTA_VIEW_LEASE}});
    pass(TTL / 4);
    drive(&nodes[1],
          (struct rota_view_event){.type = ROTA_VIEW_WISH,
                                   .wish = {.type = ROTA_VIEW_COMMIT, .to = ROTA_VIEW_LEASE}});
    pass(TTL);
    assert_int_equal(stored.engine, ROTA_VIEW_LEASE);
    assert_int_equal(stored.phase, ROTA_VIEW_STABLE);
    assert_true(nodes[0].is_running);
}

/* --- engines --- */

static void static_space_waits_for_its_listed_nodes(void **state)
{
    (void)state;
    const struct rota_str seats[] = {rota_str("a"), rota_str("b")};
    struct rota_view_fsm_options options = {
        .engine = ROTA_VIEW_STATIC, .seats = seats, .n_seats = 2};
    open_node(0, options);
    pass(TTL);
    assert_int_equal(n_served(0), SHARDS / 2);
    open_node(1, options);
    pass(TTL);
    assert_int_equal(n_served(1), SHARDS / 2);
    assert_int_equal(nodes[0].n_stopped, 0);
    nodes[1].is_deaf = true;
    pass(3 * TTL);
    assert_int_equal(n_served(0), SHARDS / 2);
}

static void seats_are_replaced_on_request(void **state)
{
    (void)state;
    const struct rota_str ab[] = {rota_str("a"), rota_str("b")},
                          ba[] = {rota_str("b"), rota_str("a")}, bad[] = {rota_str("a\n")};
    struct rota_view_fsm_options options = {.engine = ROTA_VIEW_STATIC, .seats = ab, .n_seats = 2};
    open_node(0, options);
    open_node(1, options);
    pass(TTL);
    uint64_t number = stored.number;
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_RESEAT, .seats = ab, .n_seats = 2});
    assert_int_equal(nodes[0].outcome.code, ROTA_OK); /* so it is */
    assert_int_equal(stored.number, number);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_RESEAT, .seats = bad, .n_seats = 1});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    assert_int_equal(stored.number, number);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_RESEAT, .seats = ba, .n_seats = 2});
    assert_int_equal(nodes[0].outcome.code, ROTA_OK);
    pass(TTL);
    assert_int_equal(stored.base, number + 1); /* no former view can be reconstructed */
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_true(nodes[(shard + 1) % 2].serving[shard] != 0);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_RESEAT, .seats = ab, .n_seats = 1});
    pass(TTL);
    assert_int_equal(stored.seats.size, 1);
    assert_int_equal(n_served(0), SHARDS);
    assert_int_equal(n_served(1), 0);
}

static void migration_to_given_seats_can_be_cancelled(void **state)
{
    (void)state;
    const struct rota_str seats[] = {rota_str("b")}, bad[] = {rota_str("")};
    uint32_t n_differences;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    wish(0, (struct rota_view_wish){
                .type = ROTA_VIEW_MIGRATE, .to = ROTA_VIEW_STATIC, .seats = bad, .n_seats = 1});
    assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    assert_int_equal(stored.phase, ROTA_VIEW_STABLE);
    wish(0, (struct rota_view_wish){
                .type = ROTA_VIEW_MIGRATE, .to = ROTA_VIEW_STATIC, .seats = seats, .n_seats = 1});
    assert_int_equal(nodes[0].outcome.code, ROTA_OK);
    assert_int_equal(stored.phase, ROTA_VIEW_SHADOW);
    assert_int_equal(stored.seats.size, 1);
    assert_int_equal(rota_view_fsm_differences(&nodes[1].fsm, &n_differences, NULL), ROTA_OK);
    assert_int_equal(n_differences, n_served(0));
    uint32_t n_before = n_served(0);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_CANCEL});
    assert_int_equal(nodes[0].outcome.code, ROTA_OK);
    assert_int_equal(stored.phase, ROTA_VIEW_STABLE);
    assert_int_equal(stored.engine, ROTA_VIEW_RING);
    pass(TTL);
    assert_int_equal(n_served(0), n_before);
    assert_int_equal(n_served_in_all(), SHARDS);
}

static void ring_becomes_static_without_interrupting_shards_that_stay(void **state)
{
    (void)state;
    uint32_t n_differences;
    uint64_t before[SHARDS];
    open_plain(0);
    open_plain(1);
    pass(TTL);
    memcpy(before, nodes[0].serving, sizeof before);
    assert_int_equal(rota_view_fsm_differences(&nodes[0].fsm, &n_differences, NULL),
                     ROTA_ERR_NOT_FOUND);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_MIGRATE, .to = ROTA_VIEW_STATIC});
    assert_memory_equal(before, nodes[0].serving, sizeof before);
    assert_int_equal(stored.seats.size, 2);
    assert_int_equal(rota_view_fsm_differences(&nodes[0].fsm, &n_differences, NULL), ROTA_OK);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_COMMIT, .to = ROTA_VIEW_STATIC});
    pass(TTL / 2);
    uint32_t n_moved = 0;
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        assert_int_equal(nodes[shard % 2].serving[shard], stored.number);
        n_moved += (before[shard] != 0) != (nodes[0].serving[shard] != 0);
    }
    assert_int_equal(n_differences, n_moved);
}

static void engine_of_its_own_runs_when_all_have_stopped(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(TTL);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_MIGRATE, .to = ROTA_VIEW_LEASE});
    assert_int_equal(n_served_in_all(), SHARDS);
    nodes[1].is_blind = true;
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_COMMIT, .to = ROTA_VIEW_LEASE});
    pass(TTL);
    assert_int_equal(stored.phase, ROTA_VIEW_STOPPING);
    assert_int_equal(n_served(0), 0);
    assert_false(nodes[0].is_running);
    nodes[1].is_blind = false;
    pass(TTL);
    assert_int_equal(stored.phase, ROTA_VIEW_STABLE);
    assert_int_equal(stored.engine, ROTA_VIEW_LEASE);
    assert_true(nodes[0].is_running && nodes[1].is_running);
    assert_int_equal(nodes[0].floor, stored.base);

    size_t n_halts = nodes[0].n_halts;
    open_plain(2); /* which changes the view, and nothing for those that run */
    pass(TTL);
    assert_true(nodes[2].is_running);
    assert_int_equal(nodes[0].n_halts, n_halts);
    rota_view_fsm_note_epoch(&nodes[1].fsm, 123456789);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_MIGRATE, .to = ROTA_VIEW_RING});
    assert_true(nodes[0].is_running && nodes[1].is_running);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_COMMIT, .to = ROTA_VIEW_RING});
    pass(TTL);
    assert_false(nodes[0].is_running || nodes[1].is_running);
    assert_int_equal(n_served_in_all(), SHARDS);
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_true((nodes[0].serving[shard] | nodes[1].serving[shard] | nodes[2].serving[shard]) >
                    123456789);
}

static void engine_of_its_own_halts_out_of_time_and_when_drained(void **state)
{
    (void)state;
    open_node(0, (struct rota_view_fsm_options){.engine = ROTA_VIEW_LEASE});
    open_node(1, (struct rota_view_fsm_options){.engine = ROTA_VIEW_LEASE});
    pass(TTL);
    assert_true(nodes[0].is_running && nodes[1].is_running);
    assert_true(rota_view_fsm_is_running(&nodes[0].fsm, now));
    assert_false(rota_view_fsm_is_running(&nodes[0].fsm, nodes[0].fsm.until));
    drive(&nodes[1], (struct rota_view_event){.type = ROTA_VIEW_DRAIN});
    pass(TTL);
    assert_false(nodes[1].is_running);
    assert_true(rota_view_fsm_is_drained(&nodes[1].fsm));
    nodes[0].is_deaf = true;
    pass(TTL);
    assert_false(nodes[0].is_running);
}

/* --- hostile rows --- */

static void invalid_rows_are_skipped(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"x\n", "y", "z", ""};
    open_plain(0);
    pass(TTL);
    for (size_t i = 0; i < 4; i++) {
        struct view_table_row row = {.instance = i == 1 ? 0 : 5 + i,
                                     .ttl = i == 2 ? INT64_MIN : INT64_MAX,
                                     .acked = UINT64_MAX,
                                     .highest = UINT64_MAX,
                                     .weight = i == 2 ? 0 : UINT32_MAX};
        snprintf(row.name, sizeof row.name, "%s", NAMES[i]);
        table.rows[table.n_rows++] = row;
    }
    pass(TTL);
    assert_int_equal(n_served(0), SHARDS);
    assert_int_equal(stored.members.size, 1);
    assert_true(stored.number < 100);
}

/* --- keyed spaces --- */

static struct rota_str zone_of_member(int i)
{
    const struct rota_view *view = rota_view_fsm_view(&nodes[0].fsm);
    uint32_t member = rota_view_find(view, nodes[i].fsm.options.name);
    assert_int_not_equal(member, ROTA_VIEW_NOBODY);
    return view->members.items[member].zone;
}

static void keyed_space_has_members_with_zones(void **state)
{
    (void)state;
    size_t n_rows;
    is_keyed = true;
    open_node(0, (struct rota_view_fsm_options){.zone = rota_str("east")});
    open_plain(1);
    pass(TTL);
    assert_int_equal(rota_view_fsm_view(&nodes[1].fsm)->number, stored.number);
    assert_int_equal(stored.n_shards, 0);
    assert_true(rota_str_is_equal(zone_of_member(0), rota_str("east")));
    assert_int_equal(zone_of_member(1).size, 0);
    drive(&nodes[1], (struct rota_view_event){
                         .type = ROTA_VIEW_WEIGH, .weight = 500, .zone = rota_str("west")});
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_DRAIN});
    pass(TTL);
    assert_true(rota_view_fsm_is_drained(&nodes[0].fsm));
    assert_int_equal(rota_view_find(&stored, rota_str("a")), ROTA_VIEW_NOBODY);
    assert_true(rota_str_is_equal(zone_of_member(1), rota_str("west")));
    const struct rota_view_row *rows = rota_view_fsm_rows(&nodes[1].fsm, &n_rows);
    assert_int_equal(n_rows, 2);
    assert_true(rows[0].is_draining && !rows[1].is_draining);
}

static void keyed_space_stays_a_ring(void **state)
{
    (void)state;
    const struct rota_str seats[] = {rota_str("a")};
    const struct rota_view_wish wishes[] = {
        {.type = ROTA_VIEW_MIGRATE, .to = ROTA_VIEW_STATIC},
        {.type = ROTA_VIEW_RESEAT, .seats = seats, .n_seats = 1},
        {.type = ROTA_VIEW_PIN, .name = rota_str("a")},
        {.type = ROTA_VIEW_REFUSE, .name = rota_str("a"), .why = rota_str("it can't")}};
    is_keyed = true;
    open_plain(0);
    pass(TTL);
    uint64_t number = stored.number;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        wish(0, wishes[i]);
        pass(TTL);
        assert_int_equal(nodes[0].outcome.code, ROTA_ERR_INVALID);
    }
    assert_int_equal(stored.number, number);
}

static void members_of_other_spaces_have_no_zones(void **state)
{
    (void)state;
    open_node(0, (struct rota_view_fsm_options){.zone = rota_str("east")});
    pass(TTL);
    assert_int_equal(n_served(0), SHARDS);
    assert_int_equal(zone_of_member(0).size, 0);
}

static void options_out_of_bounds_are_refused(void **state)
{
    static struct rota_str seats[ROTA_VIEW_SEATS_MAX + 1];
    struct rota_view_fsm fsm;
    struct rota_error error;
    struct rota_view_fsm_options options = {
        .space = rota_str("s"), .name = rota_str("n"), .n_shards = 1, .seats = seats};
    (void)state;
    for (size_t i = 0; i <= ROTA_VIEW_SEATS_MAX; i++)
        seats[i] = rota_str("n");
#define INIT(field, value, code)                                                                   \
    do {                                                                                           \
        __typeof__(options.field) kept = options.field;                                            \
        options.field = (value);                                                                   \
        assert_int_equal(rota_view_fsm_init(&fsm, 0, &options, &error), code);                     \
        if (code == ROTA_OK)                                                                       \
            rota_view_fsm_deinit(&fsm);                                                            \
        options.field = kept;                                                                      \
    } while (0)
    INIT(space, rota_str(""), ROTA_ERR_INVALID);
    INIT(name, rota_str(""), ROTA_ERR_INVALID);
    INIT(n_shards, 0, ROTA_OK);
    INIT(zone, rota_str("\n"), ROTA_ERR_INVALID);
    INIT(n_shards, ROTA_VIEW_SHARDS_MAX, ROTA_OK);
    INIT(n_shards, ROTA_VIEW_SHARDS_MAX + 1, ROTA_ERR_INVALID);
    INIT(ttl, ROTA_VIEW_TTL_MIN - 1, ROTA_ERR_INVALID);
    INIT(ttl, ROTA_VIEW_TTL_MIN, ROTA_OK);
    INIT(ttl, ROTA_VIEW_TTL_MAX, ROTA_OK);
    INIT(ttl, ROTA_VIEW_TTL_MAX + 1, ROTA_ERR_INVALID);
    INIT(weight, ROTA_WEIGHT_MIN - 1, ROTA_ERR_INVALID);
    INIT(weight, ROTA_WEIGHT_MIN, ROTA_OK);
    INIT(weight, ROTA_WEIGHT_MAX, ROTA_OK);
    INIT(weight, ROTA_WEIGHT_MAX + 1, ROTA_ERR_INVALID);
    INIT(n_seats, ROTA_VIEW_SEATS_MAX, ROTA_OK);
    INIT(n_seats, ROTA_VIEW_SEATS_MAX + 1, ROTA_ERR_INVALID);
    options.engine = ROTA_VIEW_STATIC;
    INIT(n_shards, 0, ROTA_ERR_INVALID);
    INIT(n_seats, 0, ROTA_ERR_INVALID);
    INIT(n_seats, 1, ROTA_OK);
    options.is_observer = true;
    INIT(n_seats, 0, ROTA_OK);
    seats[1] = rota_str("\n");
    INIT(n_seats, 2, ROTA_ERR_INVALID);
#undef INIT
}

static void options_are_copied_and_have_defaults(void **state)
{
    char space[] = "space", name[] = "node", seat[] = "seat";
    struct rota_str seats[] = {rota_str(seat), rota_str(name)};
    struct rota_view_fsm fsm;
    (void)state;
    struct rota_view_fsm_options options = {.space = rota_str(space),
                                            .name = rota_str(name),
                                            .n_shards = 3,
                                            .seats = seats,
                                            .n_seats = 2};
    assert_int_equal(rota_view_fsm_init(&fsm, 700, &options, NULL), ROTA_OK);
    memset(space, '-', sizeof space);
    memset(name, '-', sizeof name);
    memset(seat, '-', sizeof seat);
    memset(seats, 0, sizeof seats);
    assert_true(rota_str_is_equal(fsm.options.space, rota_str("space")));
    assert_true(rota_str_is_equal(fsm.options.name, rota_str("node")));
    assert_true(rota_str_is_equal(fsm.options.seats[0], rota_str("seat")));
    assert_true(rota_str_is_equal(fsm.options.seats[1], rota_str("node")));
    assert_int_equal(fsm.options.ttl, 10 * ROTA_SEC);
    assert_int_equal(fsm.options.weight, ROTA_WEIGHT_ONE);
    assert_int_equal(rota_view_fsm_deadline(&fsm), 700); /* it reads at once */
    for (uint32_t shard = 0; shard < 3; shard++)
        assert_int_equal(fsm.hashes[shard], rota_view_hash(rota_str("space"), shard));
    rota_view_fsm_deinit(&fsm);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* All of three quarters to one 24th of a ttl, and nothing else. */
static void pause_is_a_24th_of_a_ttl_at_most(void **state)
{
    struct rota_view_fsm fsm;
    const rota_time most = 24 * ROTA_SEC / 24;
    rota_time lowest = ROTA_TIME_NEVER, highest = 0;
    (void)state;
    struct rota_view_fsm_options options = {
        .space = rota_str("s"), .name = rota_str("n"), .n_shards = 1, .ttl = 24 * ROTA_SEC};
    assert_int_equal(rota_view_fsm_init(&fsm, 0, &options, NULL), ROTA_OK);
    for (int i = 0; i < 10000; i++) {
        rota_time pause = rota_view_fsm_pause(&fsm);
        lowest = rota_time_min(lowest, pause);
        highest = pause > highest ? pause : highest;
    }
    assert_in_range(lowest, most / 4 * 3, most / 4 * 3 + most / 100);
    assert_in_range(highest, most - most / 100, most);
    rota_view_fsm_deinit(&fsm);
}

/* A member proposes a 64th of a ttl later for each one before it, so that mostly one does. */
static void members_propose_in_turn(void **state)
{
    static const size_t before[] = {1, 2, 7, 8, 12};
    (void)state;
    open_plain(0);
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        pass(2 * TTL);
        struct view_table_row own = table.rows[0];
        size_t n_turns = before[i] < 8 ? before[i] : 8;
        for (size_t k = 0; k < before[i]; k++) {
            table.rows[k] = own;
            table.rows[k].instance = 1000 * (i + 1) + k;
            snprintf(table.rows[k].name, sizeof table.rows[k].name, "A%u", (unsigned)k);
        }
        table.rows[before[i]] = own;
        table.n_rows = before[i] + 1;
        rota_time read_at = nodes[0].fsm.read_at;
        uint64_t number = stored.number;
        while (stored.number == number) {
            now = rota_view_fsm_deadline(&nodes[0].fsm);
            drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_TICK});
        }
        assert_int_equal(now - read_at, (rota_time)n_turns * (TTL / 64));
        table.rows[0] = table.rows[before[i]];
        table.n_rows = 1;
    }
}

static void reasons_to_stop_have_names(void **state)
{
    static const char *const names[] = {"moved", "expired", "gone", "went back", "shutdown", "?"};
    static const enum rota_view_why whys[] = {ROTA_VIEW_WHY_MOVED,    ROTA_VIEW_WHY_EXPIRED,
                                              ROTA_VIEW_WHY_GONE,     ROTA_VIEW_WHY_WENT_BACK,
                                              ROTA_VIEW_WHY_SHUTDOWN, (enum rota_view_why)99};
    (void)state;
    for (int i = 0; i < 6; i++)
        assert_string_equal(rota_view_fsm_look_why_text(whys[i]), names[i]);
}

static void hint_is_followed_by_a_read_at_once(void **state)
{
    (void)state;
    open_plain(0);
    open_plain(1);
    pass(3 * TTL);
    nodes[0].is_blind = true;
    wish(1, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = 5, .name = rota_str("b")});
    assert_int_equal(nodes[1].outcome.code, ROTA_OK);
    nodes[0].is_blind = false;
    assert_true(nodes[0].fsm.view.number < stored.number);
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_HINT});
    assert_int_equal(nodes[0].fsm.view.number, stored.number);
}

/* With a sanitizer, this also shows that the proposal is freed. */
static void node_can_stop_with_a_proposal_in_flight(void **state)
{
    (void)state;
    bool has_any = false;
    open_plain(0);
    open_plain(1);
    pass(3 * TTL);
    open_plain(2);
    for (int i = 0; i < 1000 && !has_any; i++) {
        pass(1);
        for (int j = 0; j < NODES; j++)
            has_any |= nodes[j].fsm.proposal.number > 0;
    }
    assert_true(has_any);
}

static void view_of_another_number_of_shards_is_not_followed(void **state)
{
    (void)state;
    open_plain(0);
    pass(TTL);
    uint64_t number = stored.number;
    stored.n_shards = SHARDS + 1;
    stored.number++;
    open_plain(1);
    pass(TTL / 2);
    assert_int_equal(nodes[0].fsm.view.number, number);
    assert_int_equal(nodes[1].fsm.view.number, 0);
    assert_int_equal(n_served(1), 0);
    pass(2 * TTL);
    assert_int_equal(n_served(1), 0);
}

static void store_that_falls_back_is_given_the_time_of_the_slowest_node(void **state)
{
    (void)state;
    struct rota_view before;
    open_plain(0);
    pass(TTL);
    assert_int_equal(rota_view_copy(&stored, &before, NULL), ROTA_OK);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = 1, .name = rota_str("a")});
    struct view_table_row slow = {.name = "slow", .instance = 99, .pings = 1, .ttl = 5 * TTL};
    assert_true(view_table_join(&table, &slow, 0));
    slow = (struct view_table_row){
        .name = "mad", .instance = 98, .pings = 1, .ttl = ROTA_VIEW_TTL_MAX + 1};
    assert_true(view_table_join(&table, &slow, 0));
    pass(TTL / 2); /* they are seen */
    rota_view_deinit(&stored);
    stored = before;
    for (int i = 0; i < 100 && !nodes[0].went_back; i++)
        pass(1);
    assert_true(nodes[0].went_back);
    assert_in_range(nodes[0].fsm.hold_until - now, 5 * TTL - TTL / 50, 5 * TTL);
    nodes[0].fsm.seek_ask = nodes[0].fsm.own_ask = 77; /* the store does not answer */
    assert_int_equal(rota_view_fsm_deadline(&nodes[0].fsm), nodes[0].fsm.hold_until);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(first_node_makes_a_view_and_owns_all),
        TEST(shards_that_stay_are_not_interrupted),
        TEST(gainer_waits_for_the_ack_of_the_former_owner),
        TEST(node_that_has_nothing_to_do_with_it_is_not_waited_for),
        TEST(owner_before_the_last_one_is_waited_for_too),
        TEST(shard_that_comes_back_has_a_later_epoch),
        TEST(cut_off_node_stops_before_others_start),
        TEST(store_that_is_unreachable_for_all_changes_no_owner),
        TEST(node_that_was_out_of_time_reads_as_soon_as_its_heartbeat_counts),
        TEST(time_is_asked_for_not_timers),
        TEST(restarted_node_has_new_epochs),
        TEST(node_that_is_alone_reclaims_its_row_at_once),
        TEST(node_that_has_shut_down_needs_no_time),
        TEST(node_waits_a_ttl_for_its_row_to_go),
        TEST(second_node_of_a_name_is_a_standby),
        TEST(drained_node_owns_nothing_and_can_come_back),
        TEST(weight_is_followed),
        TEST(node_that_missed_views_computes_the_same_epochs),
        TEST(store_that_falls_back_stops_nodes_that_know_a_later_view),
        TEST(reused_number_stops_nodes_that_know_its_former_view),
        TEST(invalid_request_is_reported),
        TEST(of_simultaneous_requests_the_last_about_a_shard_counts),
        TEST(request_during_a_proposal_is_part_of_the_next),
        TEST(oversized_request_is_refused_at_once),
        TEST(waiting_requests_are_bounded_and_end_with_a_shutdown),
        TEST(observer_has_no_row_and_knows_all),
        TEST(observer_of_a_static_space_needs_no_seats),
        TEST(observer_proposes_only_requests),
        TEST(static_space_waits_for_its_listed_nodes),
        TEST(seats_are_replaced_on_request),
        TEST(migration_to_given_seats_can_be_cancelled),
        TEST(ring_becomes_static_without_interrupting_shards_that_stay),
        TEST(engine_of_its_own_runs_when_all_have_stopped),
        TEST(engine_of_its_own_halts_out_of_time_and_when_drained),
        TEST(invalid_rows_are_skipped),
        TEST(keyed_space_has_members_with_zones),
        TEST(keyed_space_stays_a_ring),
        TEST(members_of_other_spaces_have_no_zones),
        TEST(options_out_of_bounds_are_refused),
        TEST(options_are_copied_and_have_defaults),
        TEST(pause_is_a_24th_of_a_ttl_at_most),
        TEST(members_propose_in_turn),
        cmocka_unit_test(reasons_to_stop_have_names),
        TEST(hint_is_followed_by_a_read_at_once),
        TEST(node_can_stop_with_a_proposal_in_flight),
        TEST(view_of_another_number_of_shards_is_not_followed),
        TEST(store_that_falls_back_is_given_the_time_of_the_slowest_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
