/* Tables that nodes and clients keep, when memory runs out at every single allocation: each refuses
 * what it can't keep, leaks nothing, and what it had before still holds. */
#include "no_memory.h"

#include "core/call/get/places.h"
#include "core/call/service/space_table.h"
#include "core/call/shards/health_fsm.h"
#include "core/work/cluster/layouts.h"
#include "core/work/cluster/remote_fsm.h"
#include "core/work/cluster/tally.h"

static struct rota_work_layout laid(uint32_t n, rota_time change_at)
{
    struct rota_work_layout layout = {
        .wanted = n,
        .write = n,
        .read = n,
        .spread = {.mode = change_at ? ROTA_SPREAD_LOOKUP : ROTA_SPREAD_SLOTS, .batch = 4}};
    if (change_at)
        layout.change = (struct rota_layout_change){
            {.mode = ROTA_SPREAD_SLOTS, .batch = 16}, change_at, change_at + ROTA_SEC};
    return layout;
}

static void lay_out_queues(void)
{
    struct rota_layouts layouts;
    const struct rota_work_layout usual = laid(4, 0);
    const rota_time now = 1000 * ROTA_SEC;
    rota_layouts_init(&layouts, &usual, 7);
    for (uint32_t i = 0; i < 3; i++) {
        char name[] = {'q', (char)('0' + i)};
        struct rota_str queue = rota_str_of(name, sizeof name);
        const struct rota_work_layout first = laid(8 + i, now), next = laid(8 + i, now + 1);
        uint32_t had = 4;
        for (int round = 0; round < 2; round++) {
            if (NO_MEMORY_IN(rota_layouts_set(&layouts, now, queue, round ? &next : &first)))
                had = 8 + i;
            else
                assert_true(no_memory_has_failed());
            assert_int_equal(rota_layouts_get(&layouts, queue).read, had);
            assert_int_equal(rota_layouts_spread(&layouts, queue, 0).mode, ROTA_SPREAD_SLOTS);
        }
    }
    size_t n = 0;
    for (struct rota_layouts_flip flip; rota_layouts_step(&layouts, now + ROTA_HOUR, &flip); n++)
        assert_int_equal(rota_layouts_spread(&layouts, flip.queue, flip.partition).mode,
                         ROTA_SPREAD_LOOKUP);
    assert_true(n == 8 + 9 + 10 || no_memory_has_failed());
    assert_int_equal(layouts.n_changing, 0);
    assert_int_equal(rota_layouts_deadline(&layouts), ROTA_TIME_NEVER);
    rota_layouts_deinit(&layouts);
}

static void count_workers(void)
{
    struct rota_tally tally;
    uint64_t n_added = 0;
    rota_tally_init(&tally, 7);
    for (uint64_t i = 0; i < 40; i++) {
        char name[] = {'w', (char)('0' + i)};
        bool is_added = NO_MEMORY_IN(
            rota_tally_add(&tally, 0, rota_str("q"), rota_str_of(name, sizeof name), 1, 0));
        n_added += is_added;
        assert_true(is_added || no_memory_has_failed());
    }
    struct rota_tally_sum sum = rota_tally_of(&tally, rota_str("q"));
    assert_int_equal(sum.n_workers, n_added);
    assert_int_equal(sum.n_free, n_added);
    rota_tally_deinit(&tally);
}

static void give_places(void)
{
    struct rota_places places;
    uint32_t n_given = 0;
    rota_places_init(&places, 100, 10, 0, 7);
    for (int i = 0; i < 40; i++) {
        char peer[] = {'p', (char)('0' + i)};
        enum rota_place refused;
        enum rota_place place =
            NO_MEMORY_IN(rota_places_take(&places, rota_str_of(peer, sizeof peer), &refused));
        n_given += place == ROTA_PLACE_GIVEN;
        if (place != ROTA_PLACE_GIVEN) {
            assert_int_equal(refused, ROTA_PLACE_OUT_OF_MEMORY);
            assert_true(no_memory_has_failed());
        }
    }
    assert_int_equal(places.n, n_given);
    rota_places_deinit(&places);
}

static void watch_nodes(void)
{
    struct rota_health_fsm fsm;
    rota_health_fsm_init(&fsm, &(struct rota_health_options){.seed = 7});
    uint64_t n_added = 0, n_asked = 0;
    for (uint64_t node = 1; node <= 40; node++) {
        enum rota_health_state health;
        uint32_t n_failures;
        enum rota_code code = NO_MEMORY_IN(rota_health_fsm_add(&fsm, 0, node, NULL));
        assert_int_equal(code == ROTA_OK, rota_health_fsm_look(&fsm, node, &health, &n_failures));
        assert_true(code == ROTA_OK || (code == ROTA_ERR_NO_MEMORY && no_memory_has_failed()));
        n_added += code == ROTA_OK;
    }
    const struct rota_health_event tick = {.type = ROTA_HEALTH_TICK};
    while (rota_health_fsm_deadline(&fsm) <= ROTA_SEC)
        n_asked += rota_health_fsm_step(&fsm, ROTA_SEC, &tick).ask;
    assert_int_equal(n_asked, n_added);
    rota_health_fsm_deinit(&fsm);
}

/* Every call of another node is answered well. */
static void end_all(struct rota_remote_fsm *fsm, rota_time now)
{
    for (int round = 0; round < 20 && fsm->attempts.size > 0; round++) {
        struct rota_remote_action ended[128];
        size_t n, n_ended = 0;
        const struct rota_remote_action *actions = rota_remote_fsm_actions(fsm, &n);
        for (size_t i = 0; i < n; i++)
            if (actions[i].type == ROTA_REMOTE_DO_END || actions[i].type == ROTA_REMOTE_DO_EXTEND)
                ended[n_ended++] = actions[i];
        rota_remote_fsm_clear(fsm);
        for (size_t i = 0; i < n_ended; i++)
            rota_remote_fsm_answered(fsm, now, ended[i].end.id, ended[i].end.attempt, ROTA_OK,
                                     false);
        rota_time at = rota_remote_fsm_deadline(fsm);
        now = at != ROTA_TIME_NEVER && at > now ? at : now;
        rota_remote_fsm_tick(fsm, now);
    }
    assert_int_equal(fsm->attempts.size, 0);
}

static void run_for_others(void)
{
    struct rota_remote_fsm fsm;
    enum rota_code code;
    rota_remote_fsm_init(&fsm, 7);
    for (uint64_t i = 1; i <= 20; i++) {
        struct rota_worker_running running = {rota_str("q"), {1, i}, i};
        struct rota_attempt_end end = {.queue = rota_str("q"),
                                       .id = running.id,
                                       .attempt = i,
                                       .cause = ROTA_JOB_CAUSE_DONE,
                                       .bytes = rota_str("result")};
        uint64_t session;
        code = NO_MEMORY_IN(
            rota_remote_fsm_take(&fsm, 0, 7, rota_str("there"), &running, ROTA_REMOTE_LEASE, NULL));
        assert_true(code == ROTA_OK || (code == ROTA_ERR_NO_MEMORY && no_memory_has_failed()));
        assert_int_equal(rota_remote_fsm_has(&fsm, running.id, i, &session), code == ROTA_OK);
        if (code)
            continue;
        assert_true(
            NO_MEMORY_IN(rota_remote_fsm_progress(&fsm, 0, running.id, i, rota_str("half"))));
        assert_true(NO_MEMORY_IN(rota_remote_fsm_end(&fsm, 0, &end, &code)));
        if (code) { /* it is unchanged, and is said again */
            assert_true(code == ROTA_ERR_NO_MEMORY && no_memory_has_failed());
            no_memory_end();
            assert_true(rota_remote_fsm_end(&fsm, 0, &end, &code));
            assert_int_equal(code, ROTA_OK);
        }
    }
    no_memory_end();
    end_all(&fsm, 0);
    rota_remote_fsm_deinit(&fsm);
}

/* A snapshot with as many shards and zones, all of one owner. */
static enum rota_code take_snapshot(struct rota_space_table *table, uint32_t n_shards,
                                    size_t n_zones, const char *owner)
{
    static const char *const zones[] = {"east", "west"};
    const struct rota_space_table_head head = {.history = 1,
                                               .version = n_shards,
                                               .is_snapshot = true,
                                               .is_whole = true,
                                               .engine = rota_str("ring"),
                                               .n_shards = n_shards};
    const struct rota_space_table_claim claim = {.epoch = n_shards, .owner = 1};
    size_t zone = 0;
    enum rota_code code = rota_space_table_begin(table, &head, NULL);
    if (!code)
        code = rota_space_table_node(table, 0, rota_str(owner), NULL);
    for (size_t i = 0; i < n_zones && !code; i++) {
        code = rota_space_table_zone(table, rota_str(zones[i]), &zone, NULL);
        for (uint32_t shard = 0; shard < n_shards && !code; shard++)
            code = rota_space_table_claim(table, zone, shard, &claim, NULL);
    }
    if (!code)
        code = rota_space_table_end(table, &head, NULL);
    if (code)
        rota_space_table_abort(table);
    return code;
}

static void follow_space(void)
{
    struct rota_space_table table;
    struct rota_space_table_shard found;
    const char *owner = NULL;
    uint32_t n_shards = 0;
    size_t n_zones = 0;
    rota_space_table_init(&table, 7);
    for (uint32_t i = 1; i <= 3; i++) {
        const char *next = i % 2 ? "a:1" : "b:1";
        const struct rota_replica claim = {.address = rota_str("c:1"), .epoch = 100 + i};
        enum rota_code code = NO_MEMORY_IN(take_snapshot(&table, 2 * i, i == 2 ? 2 : 1, next));
        assert_true(code == ROTA_OK || (code == ROTA_ERR_NO_MEMORY && no_memory_has_failed()));
        if (!code) {
            owner = next;
            n_shards = 2 * i;
            n_zones = i == 2 ? 2 : 1;
        }
        assert_false(rota_space_table_look(&table, 0, n_shards, true, &found));
        assert_int_equal(rota_space_table_look(&table, 0, 0, false, &found), n_shards > 0);
        if (n_shards == 0)
            continue;
        assert_int_equal(found.n_replicas, n_zones);
        assert_int_equal(found.replicas[0].epoch, n_shards);
        assert_true(rota_str_is_equal(found.replicas[n_zones - 1].address, rota_str(owner)));
        bool is_learned = NO_MEMORY_IN(rota_space_table_learn(&table, 0, 1, &claim));
        assert_true(is_learned || no_memory_has_failed() || n_zones > 1);
        rota_space_table_look(&table, 0, 1, true, &found);
        assert_true(!is_learned || found.replicas[0].epoch == 100 + i);
    }
    rota_space_table_deinit(&table);
}

static void tables_refuse_and_keep_their_content(void **state)
{
    (void)state;
    no_memory_everywhere(lay_out_queues);
    no_memory_everywhere(count_workers);
    no_memory_everywhere(give_places);
    no_memory_everywhere(watch_nodes);
    no_memory_everywhere(run_for_others);
    no_memory_everywhere(follow_space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_refuse_and_keep_their_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
