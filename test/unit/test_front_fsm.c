/* Which node answers a call, and what the one that receives it does. */
#include "core/work/cluster/front_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PARTS = 4, SELF = 0, OTHER = 1, NOBODY = 2 };

struct bench {
    struct rota_broker *broker;
    struct rota_partition_fsm partitions;
    struct rota_front_fsm fsm;
    int owners[PARTS];
    struct rota_work_layout layout;
    size_t n_listed, n_down; /* other nodes */
    bool is_told;
    rota_time now;
};

static const struct rota_front_call FRESH = {0}, CARRIED = {.is_carried = true};

static struct rota_work_now at(const struct bench *bench)
{
    return (struct rota_work_now){.boot = bench->now, .wall = bench->now};
}

static struct rota_front_owner owner(void *data, struct rota_str queue, uint32_t partition)
{
    const struct bench *bench = data;
    (void)queue;
    switch (bench->owners[partition % PARTS]) {
    case SELF:
        return (struct rota_front_owner){.whose = ROTA_PARTITION_OURS};
    case OTHER:
        return (struct rota_front_owner){ROTA_PARTITION_ANOTHERS, rota_str("other:1")};
    default:
        return (struct rota_front_owner){.whose = ROTA_PARTITION_NOBODYS};
    }
}

static enum rota_partition_owner whose(void *data, struct rota_str queue, uint32_t partition)
{
    return owner(data, queue, partition).whose;
}

static struct rota_work_layout layout(void *data, struct rota_str queue)
{
    (void)queue;
    return ((struct bench *)data)->layout;
}

static size_t n_others(void *data, enum rota_front_others which)
{
    const struct bench *bench = data;
    return bench->n_listed + (which == ROTA_FRONT_HOLDERS ? bench->n_down : 0);
}

static bool is_told(void *data)
{
    return ((struct bench *)data)->is_told;
}

static void begin(struct bench *bench, bool is_alone, bool has_store)
{
    const struct rota_front_options options = {
        .broker = bench->broker,
        .partitions = has_store ? &bench->partitions : NULL,
        .is_alone = is_alone,
        .n_partitions = PARTS,
        .owner = owner,
        .layout = layout,
        .n_others = n_others,
        .is_told = is_told,
        .data = bench,
        .seed = 7,
    };
    rota_front_fsm_init(&bench->fsm, &options);
}

/* Two nodes, each with a journal; partition 0 is ours, all others are the other's. */
static int set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->now = ROTA_SEC;
    bench->n_listed = 1;
    bench->is_told = true;
    bench->layout = (struct rota_work_layout){.wanted = PARTS, .write = PARTS, .read = PARTS};
    for (int i = 1; i < PARTS; i++)
        bench->owners[i] = OTHER;
    assert_false(rota_broker_new(&(struct rota_broker_options){.seed = 7}, &bench->broker, NULL));
    rota_broker_begin(bench->broker, at(bench));
    const struct rota_partition_options options = {
        .broker = bench->broker, .instance = 7, .owner = whose, .data = bench};
    assert_true(rota_partition_fsm_init(&bench->partitions, &options));
    begin(bench, false, false);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    rota_partition_fsm_deinit(&bench->partitions);
    rota_broker_free(bench->broker);
    free(bench);
    return 0;
}

static struct rota_str queue(void)
{
    return rota_str("q");
}

static struct rota_job_id id_in(uint32_t partition, uint64_t number)
{
    return rota_job_id_make(ROTA_SEC, partition, number);
}

static struct rota_front_new new_job(struct rota_job_id id)
{
    return (struct rota_front_new){.queue = queue(), .id = id};
}

static enum rota_code add(struct bench *bench, const struct rota_front_call *call,
                          struct rota_front_new *job, struct rota_front_added *added)
{
    struct rota_job_spec spec = {
        .queue = queue(), .id = job->id, .unique = job->unique, .max_attempts = 1};
    return rota_front_fsm_add(&bench->fsm, at(bench), call, job, &spec, added, NULL);
}

/* A job of this partition is here. */
static struct rota_job_id put(struct bench *bench, uint32_t partition)
{
    struct rota_front_new job = new_job(id_in(partition, 100 + partition));
    struct rota_front_added added;
    int was = bench->owners[partition];
    bench->owners[partition] = SELF;
    assert_int_equal(add(bench, &CARRIED, &job, &added), ROTA_OK);
    bench->owners[partition] = was;
    return added.id;
}

static struct rota_front_action ask(const struct bench *bench, const struct rota_front_call *call,
                                    struct rota_job_id id)
{
    return rota_front_fsm_job(&bench->fsm, call, queue(), id);
}

static void assert_refused(struct rota_front_action action, enum rota_front_reason reason)
{
    assert_int_equal(action.what, ROTA_FRONT_REFUSE);
    assert_int_equal(action.reason, reason);
}

/* --- any call --- */

static void a_node_that_drains_takes_no_polls(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(rota_front_fsm_poll(&bench->fsm).what, ROTA_FRONT_HERE);
    bench->fsm.is_draining = true;
    assert_refused(rota_front_fsm_poll(&bench->fsm), ROTA_FRONT_CLOSING);
    bench->fsm.is_draining = false;
    bench->fsm.is_closing = true;
    assert_refused(rota_front_fsm_poll(&bench->fsm), ROTA_FRONT_CLOSING);
}

static void all_nodes_are_asked_but_for_a_carried_call(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(rota_front_fsm_all(&bench->fsm, &FRESH, ROTA_FRONT_LISTED, false).what,
                     ROTA_FRONT_ASK_OTHERS);
    assert_int_equal(rota_front_fsm_all(&bench->fsm, &CARRIED, ROTA_FRONT_LISTED, false).what,
                     ROTA_FRONT_HERE);
}

static void a_node_that_is_down_counts_where_jobs_matter(void **state)
{
    struct bench *bench = *state;
    bench->n_listed = 0;
    bench->n_down = 1;
    assert_int_equal(rota_front_fsm_all(&bench->fsm, &FRESH, ROTA_FRONT_LISTED, false).what,
                     ROTA_FRONT_HERE);
    assert_int_equal(rota_front_fsm_all(&bench->fsm, &FRESH, ROTA_FRONT_HOLDERS, true).what,
                     ROTA_FRONT_ASK_OTHERS);
}

static void jobs_of_a_store_are_listed_once_they_are_loaded(void **state)
{
    struct bench *bench = *state;
    begin(bench, true, true);
    assert_int_equal(rota_front_fsm_all(&bench->fsm, &FRESH, ROTA_FRONT_HOLDERS, true).what,
                     ROTA_FRONT_WAIT);
    assert_int_equal(rota_front_fsm_all(&bench->fsm, &FRESH, ROTA_FRONT_HOLDERS, false).what,
                     ROTA_FRONT_HERE);
    bench->fsm.is_store_down = true;
    assert_refused(rota_front_fsm_all(&bench->fsm, &FRESH, ROTA_FRONT_HOLDERS, true),
                   ROTA_FRONT_STORE_AWAY);
    bench->partitions.is_settled = true;
    assert_int_equal(rota_front_fsm_all(&bench->fsm, &FRESH, ROTA_FRONT_HOLDERS, true).what,
                     ROTA_FRONT_HERE);
}

/* --- a job --- */

static void a_local_job_is_answered_here_whichever_node_owns_it(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(ask(bench, &FRESH, put(bench, 0)).what, ROTA_FRONT_HERE);
    assert_int_equal(ask(bench, &FRESH, put(bench, 1)).what, ROTA_FRONT_HERE);
    assert_int_equal(ask(bench, &CARRIED, put(bench, 2)).what, ROTA_FRONT_HERE);
}

static void a_job_that_is_not_here_is_asked_of_its_owner_first(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action = ask(bench, &FRESH, id_in(1, 1));
    assert_int_equal(action.what, ROTA_FRONT_ASK_OWNER);
    assert_true(rota_str_is_equal(action.owner, rota_str("other:1")));
    assert_int_equal(ask(bench, &FRESH, id_in(0, 1)).what, ROTA_FRONT_ASK_OTHERS);
    bench->owners[1] = NOBODY;
    assert_int_equal(ask(bench, &FRESH, id_in(1, 1)).what, ROTA_FRONT_ASK_OTHERS);
}

static void a_node_alone_denies_a_job_once_it_knows_that_it_is(void **state)
{
    struct bench *bench = *state;
    bench->n_listed = 0;
    assert_int_equal(ask(bench, &FRESH, id_in(0, 1)).what, ROTA_FRONT_HERE);
    bench->is_told = false;
    assert_int_equal(ask(bench, &FRESH, id_in(0, 1)).what, ROTA_FRONT_ASK_OTHERS);
    assert_false(rota_front_fsm_denies(&bench->fsm));
    begin(bench, true, false);
    assert_int_equal(ask(bench, &FRESH, id_in(0, 1)).what, ROTA_FRONT_HERE);
    assert_true(rota_front_fsm_denies(&bench->fsm));
    begin(bench, true, true);
    assert_false(rota_front_fsm_denies(&bench->fsm));
}

static void a_carried_call_is_not_routed_again(void **state)
{
    struct bench *bench = *state;
    assert_refused(ask(bench, &CARRIED, id_in(0, 1)), ROTA_FRONT_NOT_HERE);
    assert_refused(ask(bench, &CARRIED, id_in(1, 1)), ROTA_FRONT_NOT_HERE);
    begin(bench, true, false);
    assert_refused(ask(bench, &CARRIED, id_in(1, 1)), ROTA_FRONT_NOT_HERE);
}

static void a_call_waits_for_its_partition_of_a_store(void **state)
{
    struct bench *bench = *state;
    begin(bench, false, true);
    assert_int_equal(ask(bench, &FRESH, id_in(0, 1)).what, ROTA_FRONT_WAIT);
    assert_int_equal(ask(bench, &CARRIED, id_in(0, 1)).what, ROTA_FRONT_WAIT);
    bench->fsm.is_store_down = true;
    assert_refused(ask(bench, &FRESH, id_in(0, 1)), ROTA_FRONT_STORE_AWAY);
}

static void a_check_after_the_call_came_lets_the_owner_deny(void **state)
{
    struct bench *bench = *state;
    const struct rota_front_call waited = {.since = 5 * ROTA_SEC};
    begin(bench, false, true);
    bench->partitions.is_checked = true;
    bench->partitions.checked_at = 4 * ROTA_SEC;
    assert_int_equal(ask(bench, &waited, id_in(0, 1)).what, ROTA_FRONT_WAIT);
    bench->partitions.checked_at = 5 * ROTA_SEC;
    assert_int_equal(ask(bench, &waited, id_in(0, 1)).what, ROTA_FRONT_HERE);
}

static void with_a_store_only_the_owner_answers_for_its_jobs(void **state)
{
    struct bench *bench = *state;
    begin(bench, false, true);
    assert_int_equal(ask(bench, &FRESH, id_in(1, 1)).what, ROTA_FRONT_ASK_OWNER);
    assert_refused(ask(bench, &CARRIED, id_in(1, 1)), ROTA_FRONT_NOT_OWNED);
    bench->n_listed = 0;
    assert_refused(ask(bench, &FRESH, id_in(1, 1)), ROTA_FRONT_NOT_OWNED);
}

/* --- what other nodes say --- */

static enum rota_lookup_word word(const struct bench *bench, enum rota_status status, bool is_stale,
                                  bool has_nodes, uint64_t nodes)
{
    return rota_front_fsm_word(&bench->fsm,
                               &(struct rota_front_answer){status, is_stale, has_nodes, nodes});
}

static void an_answer_becomes_a_verdict(void **state)
{
    struct bench *bench = *state;
    uint64_t nodes = rota_broker_nodes_hash(bench->broker);
    assert_int_equal(word(bench, ROTA_STATUS_OK, false, false, 0), ROTA_LOOKUP_FOUND);
    assert_int_equal(word(bench, ROTA_STATUS_NOT_FOUND, false, true, nodes), ROTA_LOOKUP_NONE);
    assert_int_equal(word(bench, ROTA_STATUS_NOT_FOUND, false, false, 0), ROTA_LOOKUP_NONE);
    assert_int_equal(word(bench, ROTA_STATUS_NOT_FOUND, false, true, nodes + 1),
                     ROTA_LOOKUP_UNSURE);
    assert_int_equal(word(bench, ROTA_STATUS_UNAVAILABLE, true, false, 0), ROTA_LOOKUP_UNOWNED);
    assert_int_equal(word(bench, ROTA_STATUS_UNAVAILABLE, false, false, 0), ROTA_LOOKUP_SILENT);
    assert_int_equal(word(bench, ROTA_STATUS_DEADLINE_EXCEEDED, false, false, 0),
                     ROTA_LOOKUP_SILENT);
    assert_int_equal(word(bench, ROTA_STATUS_ABORTED, false, false, 0), ROTA_LOOKUP_REFUSED);
}

static enum rota_front_do said(const struct bench *bench, enum rota_lookup_word word, bool has_sent)
{
    return rota_front_fsm_owner_said(&bench->fsm, word, has_sent).what;
}

static void an_owner_that_lacks_a_job_is_not_the_last_to_be_asked(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(said(bench, ROTA_LOOKUP_FOUND, false), ROTA_FRONT_PASS);
    assert_int_equal(said(bench, ROTA_LOOKUP_REFUSED, false), ROTA_FRONT_PASS);
    assert_int_equal(said(bench, ROTA_LOOKUP_SILENT, false), ROTA_FRONT_PASS);
    assert_int_equal(said(bench, ROTA_LOOKUP_NONE, false), ROTA_FRONT_ASK_OTHERS);
    assert_int_equal(said(bench, ROTA_LOOKUP_UNSURE, false), ROTA_FRONT_ASK_OTHERS);
    assert_int_equal(said(bench, ROTA_LOOKUP_UNASKED, false), ROTA_FRONT_ASK_OTHERS);
    assert_int_equal(said(bench, ROTA_LOOKUP_NONE, true), ROTA_FRONT_PASS); /* a stream went on */
}

static void the_owner_of_a_shared_partition_has_the_last_word(void **state)
{
    struct bench *bench = *state;
    begin(bench, false, true);
    assert_int_equal(said(bench, ROTA_LOOKUP_NONE, false), ROTA_FRONT_PASS);
    assert_int_equal(said(bench, ROTA_LOOKUP_UNOWNED, false), ROTA_FRONT_ASK_OTHERS);
    assert_int_equal(said(bench, ROTA_LOOKUP_UNASKED, false), ROTA_FRONT_ASK_OTHERS);
}

static struct rota_front_action all_said(const struct bench *bench, enum rota_lookup_word a,
                                         enum rota_lookup_word b)
{
    const enum rota_lookup_word words[] = {a, b};
    struct rota_front_search search = rota_front_fsm_begin_search(&bench->fsm, 0);
    search.n_rounds = 1;
    return rota_front_fsm_others_said(&bench->fsm, &search, bench->now, queue(), id_in(1, 1), words,
                                      2);
}

static void a_job_is_denied_when_all_nodes_deny_it(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action = all_said(bench, ROTA_LOOKUP_NONE, ROTA_LOOKUP_NONE);
    assert_int_equal(action.what, ROTA_FRONT_PASS);
    assert_int_equal(action.index, 0);
    action = all_said(bench, ROTA_LOOKUP_NONE, ROTA_LOOKUP_SILENT);
    assert_int_equal(action.what, ROTA_FRONT_PASS);
    assert_int_equal(action.index, 1);
    action = all_said(bench, ROTA_LOOKUP_UNASKED, ROTA_LOOKUP_FOUND);
    assert_int_equal(action.index, 1);
    action = all_said(bench, ROTA_LOOKUP_UNASKED, ROTA_LOOKUP_UNASKED); /* by the owner before */
    assert_int_equal(action.what, ROTA_FRONT_PASS);
    assert_int_equal(action.index, 0);
}

static void a_job_is_denied_after_two_rounds_within_the_time_that_received_jobs_stay(void **state)
{
    struct bench *bench = *state;
    const enum rota_lookup_word words[] = {ROTA_LOOKUP_NONE, ROTA_LOOKUP_NONE};
    struct rota_front_search search = rota_front_fsm_begin_search(&bench->fsm, bench->now);
    assert_int_equal(
        rota_front_fsm_others_said(&bench->fsm, &search, bench->now, queue(), id_in(1, 1), words, 2)
            .what,
        ROTA_FRONT_ASK_OTHERS);
    assert_refused(rota_front_fsm_others_said(&bench->fsm, &search,
                                              bench->now + ROTA_FRONT_SEARCH_MAX + 1, queue(),
                                              id_in(1, 1), words, 2),
                   ROTA_FRONT_LATE);
    search = rota_front_fsm_begin_search(&bench->fsm, bench->now);
    search.n_rounds = 1;
    assert_int_equal(
        rota_front_fsm_others_said(&bench->fsm, &search, bench->now, queue(), id_in(1, 1), words, 2)
            .what,
        ROTA_FRONT_PASS);
}

static void a_job_that_arrived_during_the_search_is_not_denied(void **state)
{
    struct bench *bench = *state;
    const enum rota_lookup_word words[] = {ROTA_LOOKUP_NONE, ROTA_LOOKUP_NONE};
    struct rota_front_search search = rota_front_fsm_begin_search(&bench->fsm, bench->now);
    search.n_rounds = 1;
    assert_refused(rota_front_fsm_others_said(&bench->fsm, &search, bench->now, queue(),
                                              put(bench, 1), words, 2),
                   ROTA_FRONT_MOVED);
}

/* A node has come, which may have jobs. */
static void learn_node(struct bench *bench, const char *address)
{
    const struct rota_broker_node_view view = {rota_str(address), true, ROTA_SEC};
    assert_int_equal(rota_broker_take_node(bench->broker, at(bench), &view, NULL), ROTA_OK);
}

static void a_node_that_is_learned_of_during_a_search_may_have_the_job(void **state)
{
    struct bench *bench = *state;
    const enum rota_lookup_word words[] = {ROTA_LOOKUP_NONE, ROTA_LOOKUP_NONE};
    struct rota_front_search search = rota_front_fsm_begin_search(&bench->fsm, bench->now);
    struct rota_front_search repeated;
    assert_int_equal(rota_front_fsm_search(&bench->fsm, &repeated, bench->now, 1).what,
                     ROTA_FRONT_ASK_OTHERS);
    search.n_rounds = repeated.n_rounds = 1;
    learn_node(bench, "late:1");
    assert_refused(rota_front_fsm_others_said(&bench->fsm, &search, bench->now, queue(),
                                              id_in(1, 1), words, 2),
                   ROTA_FRONT_NOT_TOLD);
    assert_refused(rota_front_fsm_searched(&bench->fsm, &repeated, bench->now, true, false, false),
                   ROTA_FRONT_NOT_TOLD_AGAIN);
    assert_int_equal(
        rota_front_fsm_searched(&bench->fsm, &repeated, bench->now, false, false, false).what,
        ROTA_FRONT_HERE); /* it was found */
}

static void a_node_that_does_not_know_the_others_denies_nothing(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action = all_said(bench, ROTA_LOOKUP_NONE, ROTA_LOOKUP_UNSURE);
    assert_refused(action, ROTA_FRONT_NOT_TOLD);
    assert_true(action.is_unsure);
    bench->is_told = false;
    action = all_said(bench, ROTA_LOOKUP_NONE, ROTA_LOOKUP_NONE);
    assert_refused(action, ROTA_FRONT_NOT_TOLD);
    assert_false(action.is_unsure);
    assert_refused(all_said(bench, ROTA_LOOKUP_UNASKED, ROTA_LOOKUP_UNASKED), ROTA_FRONT_NOT_TOLD);
    assert_int_equal(all_said(bench, ROTA_LOOKUP_FOUND, ROTA_LOOKUP_NONE).what, ROTA_FRONT_PASS);
}

static void without_the_owner_of_a_shared_partition_nothing_is_known(void **state)
{
    struct bench *bench = *state;
    begin(bench, false, true);
    assert_refused(all_said(bench, ROTA_LOOKUP_UNASKED, ROTA_LOOKUP_UNASKED), ROTA_FRONT_NOT_OWNED);
    struct rota_front_action action = all_said(bench, ROTA_LOOKUP_UNOWNED, ROTA_LOOKUP_NONE);
    assert_int_equal(action.what, ROTA_FRONT_PASS);
    assert_int_equal(action.index, 1);
}

/* --- new jobs --- */

static enum rota_code route(struct bench *bench, struct rota_front_new *job,
                            struct rota_front_action *action)
{
    rota_front_fsm_read(job, false);
    return rota_front_fsm_route(&bench->fsm, &FRESH, job, action, NULL);
}

static void a_job_without_preferences_stays_here(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action;
    for (int i = 0; i < 20; i++) {
        struct rota_front_new job = new_job((struct rota_job_id){0});
        assert_int_equal(route(bench, &job, &action), ROTA_OK);
        assert_int_equal(action.what, ROTA_FRONT_HERE);
        assert_int_equal(job.partition, 0);
    }
    bench->owners[0] = OTHER;
    struct rota_front_new job = new_job((struct rota_job_id){0});
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
    assert_int_equal(action.what, ROTA_FRONT_ASK_OWNER);
}

static void a_job_goes_to_the_owner_of_the_partition_of_its_id(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action;
    struct rota_front_new job = new_job(id_in(2, 1)), ours = new_job(id_in(0, 1));
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
    assert_int_equal(action.what, ROTA_FRONT_ASK_OWNER);
    assert_int_equal(job.partition, 2);
    assert_int_equal(route(bench, &ours, &action), ROTA_OK);
    assert_int_equal(action.what, ROTA_FRONT_HERE);
}

static void a_job_that_is_here_is_added_again_here(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action;
    struct rota_front_new job = new_job(put(bench, 2));
    struct rota_front_added added;
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
    assert_int_equal(action.what, ROTA_FRONT_HERE);
    assert_int_equal(add(bench, &FRESH, &job, &added), ROTA_OK);
    assert_false(added.is_new);
    assert_true(added.number > 0); /* it may not be on disk yet */
}

/* Else its client would take it for not added, and add it under another id. */
static void a_node_that_drains_takes_no_new_jobs_and_knows_those_it_has(void **state)
{
    struct bench *bench = *state;
    struct rota_front_new job = new_job(put(bench, 0)), another = new_job(id_in(0, 7));
    struct rota_front_added added;
    bench->fsm.is_draining = true;
    job.is_again = another.is_again = true;
    assert_int_equal(add(bench, &FRESH, &job, &added), ROTA_OK);
    assert_false(added.is_new);
    assert_true(added.number > 0);
    assert_int_equal(add(bench, &FRESH, &another, &added), ROTA_ERR_UNAVAILABLE);
}

/* Another node, or this one formerly, may have it in the store: nobody has looked. */
static void with_a_store_a_repeated_add_is_not_refused_as_undone(void **state)
{
    struct bench *bench = *state;
    struct rota_front_new job = new_job(id_in(0, 7)), late = new_job(id_in(3, 8));
    struct rota_front_action action;
    struct rota_front_added added;
    begin(bench, false, true);
    bench->fsm.is_draining = true;
    assert_int_equal(add(bench, &FRESH, &job, &added), ROTA_ERR_UNAVAILABLE);
    assert_true(rota_front_fsm_is_undone(&bench->fsm, &job));
    job.is_again = true;
    assert_int_equal(add(bench, &FRESH, &job, &added), ROTA_ERR_UNAVAILABLE);
    assert_false(rota_front_fsm_is_undone(&bench->fsm, &job));
    /* It may be in a partition that gets no new jobs any more: its owner is asked. */
    late.asked = 3;
    bench->layout.write = 2;
    assert_int_equal(route(bench, &late, &action), ROTA_ERR_STALE);
    late.is_again = true;
    assert_int_equal(route(bench, &late, &action), ROTA_OK);
    assert_int_equal(action.what, ROTA_FRONT_ASK_OWNER);
    begin(bench, false, false); /* with journals all nodes are asked first */
    assert_true(rota_front_fsm_is_undone(&bench->fsm, &job));
}

static void an_id_excludes_another_partition(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action;
    struct rota_front_new job = new_job(id_in(2, 1));
    job.asked = 1;
    assert_int_equal(route(bench, &job, &action), ROTA_ERR_INVALID);
    job.asked = 2;
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
}

static void a_partition_has_to_exist_and_to_be_written(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action;
    struct rota_front_new job = new_job((struct rota_job_id){0});
    job.asked = PARTS;
    assert_int_equal(route(bench, &job, &action), ROTA_ERR_INVALID);
    job.asked = 3;
    bench->layout.write = 2;
    assert_int_equal(route(bench, &job, &action), ROTA_ERR_STALE);
    job.is_sought = true; /* where it would have been */
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
}

static void the_partition_of_an_id_is_the_same_under_any_layout(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action;
    struct rota_front_new job = new_job(id_in(3, 1));
    bench->layout.write = 2;
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
    assert_true(job.is_placed);
    job = new_job(id_in(3, 1));
    job.asked = 3; /* the caller can choose another id */
    assert_int_equal(route(bench, &job, &action), ROTA_ERR_STALE);
    job.is_keyed = true;
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
}

static void jobs_with_one_unique_key_share_a_partition(void **state)
{
    struct bench *bench = *state;
    struct rota_front_action action;
    struct rota_front_new job = new_job((struct rota_job_id){0});
    job.unique = rota_str("one");
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
    struct rota_front_new elsewhere = new_job(id_in((job.partition + 1) % PARTS, 1));
    elsewhere.unique = job.unique;
    assert_int_equal(route(bench, &elsewhere, &action), ROTA_ERR_INVALID);
    struct rota_front_added added;
    struct rota_front_new carried = new_job((struct rota_job_id){0});
    carried.unique = job.unique;
    carried.asked = job.partition == 1 ? 2 : 1;
    assert_int_equal(add(bench, &CARRIED, &carried, &added), ROTA_ERR_STALE);
}

static void a_carried_job_is_added_where_its_sender_says_if_that_is_ours(void **state)
{
    struct bench *bench = *state;
    struct rota_front_added added;
    struct rota_front_new job = new_job(id_in(2, 1));
    job.asked = 1; /* by the layout of the sender */
    assert_int_equal(add(bench, &CARRIED, &job, &added), ROTA_ERR_STALE);
    bench->owners[1] = SELF;
    assert_int_equal(add(bench, &CARRIED, &job, &added), ROTA_OK);
    assert_true(added.is_new);
    bench->owners[3] = NOBODY;
    job = new_job(id_in(3, 2));
    assert_int_equal(add(bench, &CARRIED, &job, &added), ROTA_ERR_STALE);
}

static void a_known_job_is_not_added(void **state)
{
    struct bench *bench = *state;
    struct rota_front_added added;
    struct rota_front_new job = new_job(id_in(0, 1));
    job.is_known = true;
    assert_int_equal(add(bench, &FRESH, &job, &added), ROTA_OK);
    assert_false(added.is_new);
    assert_int_equal(added.number, 0);
    assert_false(rota_front_fsm_has(&bench->fsm, queue(), job.id));
}

static void a_job_of_a_store_waits_for_its_partition(void **state)
{
    struct bench *bench = *state;
    struct rota_front_new job = new_job(id_in(0, 1)), others = new_job(id_in(1, 1));
    begin(bench, false, true);
    assert_true(rota_front_fsm_must_wait(&bench->fsm, &CARRIED, &job));
    assert_false(rota_front_fsm_must_wait(&bench->fsm, &CARRIED, &others));
    assert_non_null(rota_partition_fsm_find(&bench->partitions, queue(), 0)); /* it is wanted */
    struct rota_front_new bad = new_job(id_in(0, 1));
    bad.asked = 2;
    assert_false(rota_front_fsm_must_wait(&bench->fsm, &FRESH, &bad)); /* and be refused */
}

static void a_store_that_is_unreachable_takes_no_jobs(void **state)
{
    struct bench *bench = *state;
    begin(bench, false, true);
    assert_int_equal(rota_front_fsm_accept(&bench->fsm, false).what, ROTA_FRONT_HERE);
    bench->fsm.is_store_down = true;
    assert_refused(rota_front_fsm_accept(&bench->fsm, false), ROTA_FRONT_STORE_AWAY_NEW);
    assert_refused(rota_front_fsm_accept(&bench->fsm, true), ROTA_FRONT_STORE_AWAY_AGAIN);
}

/* --- repeated adds --- */

static void a_repeated_add_is_searched_by_the_node_that_receives_it(void **state)
{
    struct bench *bench = *state;
    assert_true(rota_front_fsm_must_search(&bench->fsm, &FRESH));
    assert_false(rota_front_fsm_must_search(&bench->fsm, &CARRIED));
    begin(bench, true, false);
    assert_false(rota_front_fsm_must_search(&bench->fsm, &FRESH));
    begin(bench, false, true); /* the owner has read all jobs */
    assert_false(rota_front_fsm_must_search(&bench->fsm, &FRESH));
}

static void a_search_asks_all_nodes_twice(void **state)
{
    struct bench *bench = *state;
    struct rota_front_search search;
    assert_int_equal(rota_front_fsm_search(&bench->fsm, &search, 0, 1).what, ROTA_FRONT_ASK_OTHERS);
    assert_int_equal(rota_front_fsm_searched(&bench->fsm, &search, 1, true, false, false).what,
                     ROTA_FRONT_ASK_OTHERS);
    assert_int_equal(rota_front_fsm_searched(&bench->fsm, &search, 2, true, false, false).what,
                     ROTA_FRONT_HERE);
}

static void a_search_ends_when_all_are_found(void **state)
{
    struct bench *bench = *state;
    struct rota_front_search search;
    assert_int_equal(rota_front_fsm_search(&bench->fsm, &search, 0, 0).what, ROTA_FRONT_HERE);
    assert_int_equal(rota_front_fsm_search(&bench->fsm, &search, 0, 1).what, ROTA_FRONT_ASK_OTHERS);
    assert_int_equal(rota_front_fsm_searched(&bench->fsm, &search, 1, false, true, false).what,
                     ROTA_FRONT_HERE);
}

static void an_unresponsive_node_may_have_the_job(void **state)
{
    struct bench *bench = *state;
    struct rota_front_search search;
    rota_front_fsm_search(&bench->fsm, &search, 0, 1);
    assert_refused(rota_front_fsm_searched(&bench->fsm, &search, 1, true, true, false),
                   ROTA_FRONT_SILENT);
    rota_front_fsm_search(&bench->fsm, &search, 0, 1);
    rota_front_fsm_searched(&bench->fsm, &search, 1, true, false, false);
    assert_refused(rota_front_fsm_searched(&bench->fsm, &search, 2, true, true, false),
                   ROTA_FRONT_SILENT);
}

static void a_node_that_knows_others_may_have_sent_the_job_there(void **state)
{
    struct bench *bench = *state;
    uint64_t known = rota_broker_nodes_hash(bench->broker);
    struct rota_front_search search;
    assert_false(rota_front_fsm_knows_others(&bench->fsm, known));
    assert_false(rota_front_fsm_knows_others(&bench->fsm, 0));
    assert_true(rota_front_fsm_knows_others(&bench->fsm, known + 1));
    rota_front_fsm_search(&bench->fsm, &search, 0, 1);
    struct rota_front_action action =
        rota_front_fsm_searched(&bench->fsm, &search, 1, true, false, true);
    assert_refused(action, ROTA_FRONT_NOT_TOLD_AGAIN);
    assert_true(action.is_unsure);
    assert_int_equal(rota_front_fsm_searched(&bench->fsm, &search, 1, false, false, true).what,
                     ROTA_FRONT_HERE); /* it was found */
}

static void a_search_that_took_too_long_proves_nothing(void **state)
{
    struct bench *bench = *state;
    struct rota_front_search search;
    rota_front_fsm_search(&bench->fsm, &search, 0, 1);
    rota_front_fsm_searched(&bench->fsm, &search, ROTA_SEC, true, false, false);
    assert_refused(rota_front_fsm_searched(&bench->fsm, &search, ROTA_FRONT_SEARCH_MAX + 1, true,
                                           false, false),
                   ROTA_FRONT_LATE);
}

static void a_node_that_has_just_started_cannot_search(void **state)
{
    struct bench *bench = *state;
    struct rota_front_search search;
    bench->is_told = false;
    assert_refused(rota_front_fsm_search(&bench->fsm, &search, 0, 1), ROTA_FRONT_NOT_TOLD_AGAIN);
    assert_int_equal(rota_front_fsm_search(&bench->fsm, &search, 0, 0).what, ROTA_FRONT_HERE);
}

static void a_found_job_is_known_and_any_other_is_new(void **state)
{
    struct bench *bench = *state;
    struct rota_front_new found = {.queue = queue(), .id = id_in(1, 1), .is_again = true};
    struct rota_front_new other = found;
    found.is_found = true;
    rota_front_fsm_settle(&bench->fsm, &found);
    rota_front_fsm_settle(&bench->fsm, &other);
    assert_true(found.is_known && !other.is_known);
    assert_true(other.is_sought && !other.is_again);
}

static void a_job_that_is_here_is_not_known_but_added_to_wait_for_the_disk(void **state)
{
    struct bench *bench = *state;
    struct rota_front_added added;
    struct rota_front_action action;
    struct rota_front_new job = new_job(put(bench, 0));
    job.is_again = job.is_found = true;
    rota_front_fsm_settle(&bench->fsm, &job);
    assert_false(job.is_known);
    assert_int_equal(route(bench, &job, &action), ROTA_OK);
    assert_int_equal(add(bench, &FRESH, &job, &added), ROTA_OK);
    assert_false(added.is_new);
    assert_int_equal(added.number, rota_broker_last_number(bench->broker));
}

/* --- refusals --- */

static void a_refusal_lets_the_caller_go_elsewhere_only_if_nothing_was_done(void **state)
{
    static const enum rota_front_reason doubtful[] = {
        ROTA_FRONT_STORE_AWAY_AGAIN, ROTA_FRONT_NOT_TOLD_AGAIN, ROTA_FRONT_SILENT, ROTA_FRONT_LATE};
    (void)state;
    for (size_t i = 0; i < sizeof doubtful / sizeof *doubtful; i++) {
        assert_false(rota_front_fsm_refusal(doubtful[i])->is_undone);
        assert_int_equal(rota_front_fsm_refusal(doubtful[i])->status, ROTA_STATUS_UNAVAILABLE);
    }
    assert_true(rota_front_fsm_refusal(ROTA_FRONT_STORE_AWAY_NEW)->is_undone);
    assert_true(rota_front_fsm_refusal(rota_front_fsm_unread(false))->is_undone);
    assert_false(rota_front_fsm_refusal(rota_front_fsm_unread(true))->is_undone);
    assert_true(rota_front_fsm_refusal(ROTA_FRONT_NOT_OWNED)->is_undone);
    assert_true(rota_front_fsm_refusal(ROTA_FRONT_NOT_OWNED)->is_stale);
    assert_int_equal(rota_front_fsm_refusal(ROTA_FRONT_NOT_HERE)->status, ROTA_STATUS_NOT_FOUND);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_node_that_drains_takes_no_polls),
        RULE(all_nodes_are_asked_but_for_a_carried_call),
        RULE(a_node_that_is_down_counts_where_jobs_matter),
        RULE(jobs_of_a_store_are_listed_once_they_are_loaded),
        RULE(a_local_job_is_answered_here_whichever_node_owns_it),
        RULE(a_job_that_is_not_here_is_asked_of_its_owner_first),
        RULE(a_node_alone_denies_a_job_once_it_knows_that_it_is),
        RULE(a_carried_call_is_not_routed_again),
        RULE(a_call_waits_for_its_partition_of_a_store),
        RULE(a_check_after_the_call_came_lets_the_owner_deny),
        RULE(with_a_store_only_the_owner_answers_for_its_jobs),
        RULE(an_answer_becomes_a_verdict),
        RULE(an_owner_that_lacks_a_job_is_not_the_last_to_be_asked),
        RULE(the_owner_of_a_shared_partition_has_the_last_word),
        RULE(a_job_is_denied_when_all_nodes_deny_it),
        RULE(a_job_is_denied_after_two_rounds_within_the_time_that_received_jobs_stay),
        RULE(a_job_that_arrived_during_the_search_is_not_denied),
        RULE(a_node_that_is_learned_of_during_a_search_may_have_the_job),
        RULE(a_node_that_does_not_know_the_others_denies_nothing),
        RULE(without_the_owner_of_a_shared_partition_nothing_is_known),
        RULE(a_job_without_preferences_stays_here),
        RULE(a_job_goes_to_the_owner_of_the_partition_of_its_id),
        RULE(a_job_that_is_here_is_added_again_here),
        RULE(a_node_that_drains_takes_no_new_jobs_and_knows_those_it_has),
        RULE(with_a_store_a_repeated_add_is_not_refused_as_undone),
        RULE(an_id_excludes_another_partition),
        RULE(a_partition_has_to_exist_and_to_be_written),
        RULE(the_partition_of_an_id_is_the_same_under_any_layout),
        RULE(jobs_with_one_unique_key_share_a_partition),
        RULE(a_carried_job_is_added_where_its_sender_says_if_that_is_ours),
        RULE(a_known_job_is_not_added),
        RULE(a_job_of_a_store_waits_for_its_partition),
        RULE(a_store_that_is_unreachable_takes_no_jobs),
        RULE(a_repeated_add_is_searched_by_the_node_that_receives_it),
        RULE(a_search_asks_all_nodes_twice),
        RULE(a_search_ends_when_all_are_found),
        RULE(an_unresponsive_node_may_have_the_job),
        RULE(a_node_that_knows_others_may_have_sent_the_job_there),
        RULE(a_search_that_took_too_long_proves_nothing),
        RULE(a_node_that_has_just_started_cannot_search),
        RULE(a_found_job_is_known_and_any_other_is_new),
        RULE(a_job_that_is_here_is_not_known_but_added_to_wait_for_the_disk),
        RULE(a_refusal_lets_the_caller_go_elsewhere_only_if_nothing_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
