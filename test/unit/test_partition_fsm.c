/* Which partitions of a shared store a node takes, opens and leaves. */
#include "core/work/cluster/partition_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { INSTANCE = 77 };

struct bench {
    struct rota_broker *broker;
    struct rota_partition_fsm fsm;
    enum rota_partition_owner owner; /* of all partitions */
    rota_time now;
};

static struct rota_work_now at(const struct bench *bench)
{
    return (struct rota_work_now){.boot = bench->now, .wall = bench->now};
}

static enum rota_partition_owner owner(void *data, struct rota_str queue, uint32_t number)
{
    (void)queue;
    (void)number;
    return ((struct bench *)data)->owner;
}

static int set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->now = ROTA_SEC;
    bench->owner = ROTA_PARTITION_OURS;
    assert_false(rota_broker_new(&(struct rota_broker_options){.seed = 7}, &bench->broker, NULL));
    rota_broker_begin(bench->broker, at(bench));
    const struct rota_partition_options options = {
        .broker = bench->broker, .instance = INSTANCE, .owner = owner, .data = bench};
    assert_true(rota_partition_fsm_init(&bench->fsm, &options));
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    rota_partition_fsm_deinit(&bench->fsm);
    rota_broker_free(bench->broker);
    free(bench);
    return 0;
}

static void step(struct bench *bench, struct rota_partition_event event)
{
    rota_partition_fsm_clear(&bench->fsm);
    if (!event.queue.data)
        event.queue = rota_str("q");
    rota_partition_fsm_step(&bench->fsm, at(bench), &event);
}

/* The first action of a type, or NULL. */
static const struct rota_partition_action *action(const struct bench *bench,
                                                  enum rota_partition_action_type type)
{
    for (size_t i = 0; i < bench->fsm.actions.size; i++)
        if (bench->fsm.actions.items[i].type == type)
            return &bench->fsm.actions.items[i];
    return NULL;
}

static const struct rota_partition_held *part(const struct bench *bench)
{
    return rota_partition_fsm_find(&bench->fsm, rota_str("q"), 0);
}

static void turn(struct bench *bench)
{
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_TURN,
                                              .durable = rota_broker_last_number(bench->broker)});
}

static void row(struct bench *bench, uint64_t epoch, uint64_t instance)
{
    step(bench, (struct rota_partition_event){
                    .type = ROTA_PARTITION_ROW, .epoch = epoch, .instance = instance});
}

static void checked(struct bench *bench)
{
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_CHECKED});
}

static void begin_check(struct bench *bench)
{
    bench->now = rota_partition_fsm_deadline(&bench->fsm);
    turn(bench);
    assert_non_null(action(bench, ROTA_PARTITION_DO_CHECK));
}

/* The store is up and has a row of another instance: it is taken, and loaded. */
static void load(struct bench *bench, uint64_t epoch)
{
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_UP});
    assert_non_null(action(bench, ROTA_PARTITION_DO_CHECK));
    row(bench, epoch - 1, 1);
    checked(bench);
    assert_non_null(action(bench, ROTA_PARTITION_DO_TAKE));
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_TAKEN, .epoch = epoch});
    assert_true(action(bench, ROTA_PARTITION_DO_LOAD)->is_first);
}

static void open(struct bench *bench, uint64_t epoch)
{
    load(bench, epoch);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_LOADED});
    assert_false(action(bench, ROTA_PARTITION_DO_LOAD)->is_first);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_LOADED, .is_last = true});
    assert_non_null(action(bench, ROTA_PARTITION_DO_OPENED));
    assert_int_equal(part(bench)->epoch, epoch);
}

static bool must_wait(const struct bench *bench, rota_time since)
{
    return rota_partition_fsm_must_wait(&bench->fsm, rota_str("q"), 0, since);
}

static bool vouches(const struct bench *bench)
{
    return rota_partition_fsm_vouches(&bench->fsm, rota_str("q"), 0);
}

static void a_partition_opens_when_all_its_jobs_are_loaded(void **state)
{
    struct bench *bench = *state;
    load(bench, 5);
    assert_false(vouches(bench));
    assert_true(must_wait(bench, 1));
    assert_false(bench->fsm.is_settled);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_LOADED, .is_last = true});
    assert_non_null(action(bench, ROTA_PARTITION_DO_RESUME));
    assert_true(bench->fsm.is_settled && rota_partition_fsm_is_loaded(&bench->fsm));
    assert_true(vouches(bench));
}

static void a_request_that_failed_is_repeated_when_the_store_is_up(void **state)
{
    struct bench *bench = *state;
    const struct rota_partition_event down = {.type = ROTA_PARTITION_DOWN},
                                      up = {.type = ROTA_PARTITION_UP};
    load(bench, 5);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_LOADED});
    step(bench, down);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_LOADED, .is_failed = true});
    assert_null(action(bench, ROTA_PARTITION_DO_LOAD));
    assert_int_equal(rota_partition_fsm_deadline(&bench->fsm), ROTA_TIME_NEVER);
    step(bench, up);
    assert_false(action(bench, ROTA_PARTITION_DO_LOAD)->is_first); /* from where it was */
    assert_non_null(action(bench, ROTA_PARTITION_DO_CHECK));
}

static void a_take_that_failed_gives_no_epoch(void **state)
{
    struct bench *bench = *state;
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_UP});
    row(bench, 4, 1);
    checked(bench);
    step(bench, (struct rota_partition_event){
                    .type = ROTA_PARTITION_TAKEN, .epoch = 5, .is_failed = true});
    assert_int_equal(part(bench)->epoch, 0);
    assert_null(action(bench, ROTA_PARTITION_DO_LOAD));
    assert_non_null(action(bench, ROTA_PARTITION_DO_TAKE)); /* again */
}

static void a_row_with_another_epoch_is_another_nodes(void **state)
{
    struct bench *bench = *state;
    open(bench, 5);
    begin_check(bench);
    row(bench, 5, INSTANCE);
    assert_null(action(bench, ROTA_PARTITION_DO_FORGET));
    checked(bench);
    begin_check(bench);
    row(bench, 6, 1);
    assert_int_equal(action(bench, ROTA_PARTITION_DO_FORGET)->end, ROTA_PARTITION_LOST);
    assert_int_equal(part(bench)->state,
                     ROTA_PARTITION_WANTED); /* the route says that it is ours */
    assert_false(vouches(bench));
}

static void a_write_that_is_rejected_ends_its_own_epoch_only(void **state)
{
    struct bench *bench = *state;
    struct rota_partition_event rejected = {.type = ROTA_PARTITION_REJECTED, .epoch = 4};
    open(bench, 5);
    step(bench, rejected);
    assert_non_null(part(bench));
    rejected.epoch = 5;
    step(bench, rejected);
    assert_int_equal(action(bench, ROTA_PARTITION_DO_FORGET)->end, ROTA_PARTITION_LOST);
    assert_null(part(bench));
}

static void a_partition_is_left_when_its_changes_are_written(void **state)
{
    struct bench *bench = *state;
    struct rota_job_spec spec = {.queue = rota_str("q")};
    struct rota_job_id id;
    uint64_t number;
    bool is_new;
    open(bench, 5);
    turn(bench);
    assert_false(rota_broker_add(bench->broker, at(bench), &spec, &id, &is_new, &number, NULL));
    bench->owner = ROTA_PARTITION_ANOTHERS;
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_ROUTE});
    assert_non_null(action(bench, ROTA_PARTITION_DO_CHECK));
    row(bench, 5, INSTANCE);
    checked(bench);
    assert_int_equal(part(bench)->state, ROTA_PARTITION_LEAVING);
    assert_false(vouches(bench));
    turn(bench);
    assert_int_equal(action(bench, ROTA_PARTITION_DO_FORGET)->end, ROTA_PARTITION_RELEASED);
    assert_null(part(bench));
}

static void an_unopened_partition_is_dropped_and_its_answer_ignored(void **state)
{
    struct bench *bench = *state;
    load(bench, 5);
    bench->owner = ROTA_PARTITION_ANOTHERS;
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_ROUTE});
    checked(bench);
    assert_int_equal(action(bench, ROTA_PARTITION_DO_FORGET)->end, ROTA_PARTITION_DROPPED);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_LOADED, .is_last = true});
    assert_null(action(bench, ROTA_PARTITION_DO_OPENED));
}

static void a_missing_row_means_a_loss_at_the_second_check(void **state)
{
    struct bench *bench = *state;
    open(bench, 5);
    for (int i = 0; i < 2; i++) { /* the first may have begun before the row was made */
        assert_non_null(part(bench));
        begin_check(bench);
        checked(bench);
    }
    assert_int_equal(action(bench, ROTA_PARTITION_DO_FORGET)->end, ROTA_PARTITION_LOST);
}

static void a_job_is_denied_only_after_a_check_that_began_later(void **state)
{
    struct bench *bench = *state;
    open(bench, 5);
    rota_time since = bench->now + ROTA_MSEC;
    assert_true(must_wait(bench, 0));
    assert_true(must_wait(bench, since));
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_WAITS});
    assert_int_equal(rota_partition_fsm_deadline(&bench->fsm),
                     bench->fsm.check_began_at + ROTA_PARTITION_CHECK_MIN);
    begin_check(bench);
    row(bench, 5, INSTANCE);
    checked(bench);
    assert_non_null(action(bench, ROTA_PARTITION_DO_RESUME));
    assert_false(must_wait(bench, since));
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_DOWN});
    assert_true(must_wait(bench, since));
}

static void nothing_is_known_before_a_node_is(void **state)
{
    struct bench *bench = *state;
    bench->owner = ROTA_PARTITION_NOBODYS;
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_UP});
    row(bench, 4, 1);
    checked(bench);
    assert_null(part(bench));
    assert_false(vouches(bench) || rota_partition_fsm_is_loaded(&bench->fsm));
    assert_true(must_wait(bench, 1));
    assert_true(rota_partition_fsm_must_wait_to_add(&bench->fsm, rota_str("q"), 0));
    assert_null(part(bench));
}

static void a_job_that_is_added_wants_its_partition(void **state)
{
    struct bench *bench = *state;
    bench->owner = ROTA_PARTITION_ANOTHERS;
    assert_false(rota_partition_fsm_must_wait_to_add(&bench->fsm, rota_str("q"), 0));
    assert_null(part(bench));
    bench->owner = ROTA_PARTITION_OURS;
    assert_true(rota_partition_fsm_must_wait_to_add(&bench->fsm, rota_str("q"), 0));
    assert_int_equal(part(bench)->state, ROTA_PARTITION_WANTED);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_UP});
    assert_non_null(action(bench, ROTA_PARTITION_DO_TAKE));
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_TAKEN, .epoch = 1});
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_LOADED, .is_last = true});
    assert_false(rota_partition_fsm_must_wait_to_add(&bench->fsm, rota_str("q"), 0));
}

static void a_single_node_takes_all_once_and_then_when_calls_wait(void **state)
{
    struct bench *bench = *state;
    bench->fsm.options.is_alone = true;
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_UP});
    checked(bench);
    begin_check(bench);
    row(bench, 4, 1);
    assert_null(part(bench));
    step(bench, (struct rota_partition_event){
                    .type = ROTA_PARTITION_ROW, .epoch = 4, .instance = 1, .is_waited_for = true});
    assert_non_null(part(bench));
}

static void a_deleted_queues_row_is_removed_once(void **state)
{
    struct bench *bench = *state;
    struct rota_partition_event removed = {
        .type = ROTA_PARTITION_REMOVED, .epoch = 5, .is_failed = true};
    open(bench, 5);
    step(bench,
         (struct rota_partition_event){.type = ROTA_PARTITION_DELETED, .queue = rota_str("other")});
    assert_int_equal(part(bench)->state, ROTA_PARTITION_OPEN);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_DELETED});
    turn(bench);
    assert_non_null(action(bench, ROTA_PARTITION_DO_REMOVE));
    turn(bench);
    assert_null(action(bench, ROTA_PARTITION_DO_REMOVE));
    step(bench, removed);
    assert_non_null(action(bench, ROTA_PARTITION_DO_REMOVE));
    removed.is_failed = false;
    step(bench, removed);
    assert_int_equal(action(bench, ROTA_PARTITION_DO_FORGET)->end, ROTA_PARTITION_REMOVED_ROW);
    assert_null(part(bench));
}

static void rows_that_cannot_be_loaded_fail_the_calls_that_wait(void **state)
{
    struct bench *bench = *state;
    load(bench, 5);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_UNUSABLE, .error = "full"});
    assert_string_equal(action(bench, ROTA_PARTITION_DO_RESUME)->text, "full");
    assert_null(part(bench));
}

static void a_partition_taken_over_while_it_is_loaded_is_lost(void **state)
{
    struct bench *bench = *state;
    load(bench, 5);
    row(bench, 6, 1);
    assert_int_equal(action(bench, ROTA_PARTITION_DO_FORGET)->end, ROTA_PARTITION_LOST);
}

static void an_epoch_of_another_process_is_not_ours(void **state)
{
    struct bench *bench = *state;
    open(bench, 5);
    row(bench, 5, INSTANCE + 1);
    assert_int_equal(action(bench, ROTA_PARTITION_DO_FORGET)->end, ROTA_PARTITION_LOST);
}

static void a_check_shows_the_state_when_it_began(void **state)
{
    struct bench *bench = *state;
    open(bench, 5);
    begin_check(bench);
    rota_time began = bench->now;
    bench->now += 2 * ROTA_MSEC;
    row(bench, 5, INSTANCE);
    checked(bench);
    assert_false(must_wait(bench, began));
    assert_true(must_wait(bench, began + ROTA_MSEC));
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_ROUTE});
    assert_true(must_wait(bench, began)); /* it was about another route */
}

static void partitions_wanted_during_a_take_are_taken_next(void **state)
{
    struct bench *bench = *state;
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_UP});
    row(bench, 4, 1);
    checked(bench);
    assert_non_null(action(bench, ROTA_PARTITION_DO_TAKE));
    assert_int_equal(bench->fsm.n_taken, 1);
    assert_true(rota_partition_fsm_must_wait_to_add(&bench->fsm, rota_str("q"), 1));
    turn(bench);
    assert_null(action(bench, ROTA_PARTITION_DO_TAKE));
    assert_int_equal(bench->fsm.n_taken, 1);
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_TAKEN, .epoch = 5});
    assert_non_null(action(bench, ROTA_PARTITION_DO_LOAD));
    assert_non_null(action(bench, ROTA_PARTITION_DO_TAKE));
    assert_int_equal(bench->fsm.n_taken, 1);
    assert_int_equal(bench->fsm.taken[0]->number, 1);
}

static void partition_that_goes_to_another_node_while_it_is_taken_is_not_loaded(void **state)
{
    struct bench *bench = *state;
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_UP});
    row(bench, 4, 1);
    checked(bench);
    assert_non_null(action(bench, ROTA_PARTITION_DO_TAKE));
    bench->owner = ROTA_PARTITION_ANOTHERS;
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_ROUTE});
    checked(bench);
    assert_null(part(bench));
    step(bench, (struct rota_partition_event){.type = ROTA_PARTITION_TAKEN, .epoch = 5});
    assert_null(action(bench, ROTA_PARTITION_DO_LOAD));
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(a_partition_opens_when_all_its_jobs_are_loaded),
        RULE(a_request_that_failed_is_repeated_when_the_store_is_up),
        RULE(a_take_that_failed_gives_no_epoch),
        RULE(a_row_with_another_epoch_is_another_nodes),
        RULE(a_write_that_is_rejected_ends_its_own_epoch_only),
        RULE(a_partition_is_left_when_its_changes_are_written),
        RULE(an_unopened_partition_is_dropped_and_its_answer_ignored),
        RULE(a_missing_row_means_a_loss_at_the_second_check),
        RULE(a_job_is_denied_only_after_a_check_that_began_later),
        RULE(nothing_is_known_before_a_node_is),
        RULE(a_job_that_is_added_wants_its_partition),
        RULE(a_single_node_takes_all_once_and_then_when_calls_wait),
        RULE(a_deleted_queues_row_is_removed_once),
        RULE(rows_that_cannot_be_loaded_fail_the_calls_that_wait),
        RULE(a_partition_taken_over_while_it_is_loaded_is_lost),
        RULE(an_epoch_of_another_process_is_not_ours),
        RULE(a_check_shows_the_state_when_it_began),
        RULE(partitions_wanted_during_a_take_are_taken_next),
        RULE(partition_that_goes_to_another_node_while_it_is_taken_is_not_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
