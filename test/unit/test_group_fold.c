#include "core/own/group_fold.h"

#include "vectors.h"

#include <rota/experimental/random.h>

#include <stdio.h>
#include <stdlib.h>

/* A fold, and the records that go into it. Tasks are letters. */
struct bench {
    struct rota_group_fold fold;
    uint64_t sequence[128];
    char names[128][2];
    struct rota_group_record *kept[4096]; /* all that was said, by offset */
    size_t n_kept;
};

static void open_bench(struct bench *bench)
{
    memset(bench, 0, sizeof *bench);
    rota_group_fold_init(&bench->fold);
    for (int i = 0; i < 128; i++)
        bench->names[i][0] = (char)i;
}

static void close_bench(struct bench *bench)
{
    assert_true(rota_group_fold_is_sound(&bench->fold));
    for (size_t i = 0; i < bench->n_kept; i++)
        rota_group_record_unref(bench->kept[i]);
    rota_group_fold_deinit(&bench->fold);
}

static struct rota_group_member member(struct bench *bench, char task, uint64_t incarnation)
{
    return (struct rota_group_member){rota_str_of(bench->names[(int)task], 1), incarnation};
}

static struct rota_group_record *record_of(struct bench *bench, enum rota_group_kind kind,
                                           char task, uint64_t epoch)
{
    struct rota_group_record *record = rota_group_record_new(kind);
    assert_non_null(record);
    record->author = member(bench, task, 1);
    record->sequence = ++bench->sequence[(int)task];
    record->epoch = epoch;
    return record;
}

/* The lowest mark of all that is made and not finished. */
static void assert_watermark(struct rota_group_fold *fold)
{
    int64_t lowest = INT64_MAX, mark = 0;
    bool has_any = false;
    for (size_t i = 0; i < fold->partitions.size; i++) {
        const struct rota_group_partition *partition = &fold->partitions.items[i];
        enum rota_group_life life =
            partition->def ? rota_group_fold_life(partition) : ROTA_GROUP_REMOVED;
        if (life != ROTA_GROUP_CREATED && life != ROTA_GROUP_READY && life != ROTA_GROUP_RUNNING)
            continue;
        has_any = true;
        lowest = partition->mark < lowest ? partition->mark : lowest;
    }
    assert_int_equal(rota_group_fold_watermark(fold, &mark), has_any);
    if (has_any)
        assert_int_equal(mark, lowest);
}

/* Takes `record`, which is then at the next offset. */
static enum rota_group_verdict apply(struct bench *bench, struct rota_group_record *record)
{
    enum rota_group_verdict verdict;
    assert_true(bench->n_kept < 4096);
    bench->kept[bench->n_kept] = record;
    assert_int_equal(rota_group_fold_apply(&bench->fold, bench->n_kept++, record, &verdict),
                     ROTA_OK);
    assert_watermark(&bench->fold);
    return verdict;
}

static enum rota_group_verdict epoch_after(struct bench *bench, uint64_t prev, const char *tasks,
                                           uint64_t generation)
{
    struct rota_group_record *record =
        record_of(bench, ROTA_GROUP_EPOCH, tasks[0], prev + 1); /* the first one leads */
    record->prev_epoch = prev;
    record->generation = generation;
    record->n_tasks = strlen(tasks);
    record->tasks = calloc(record->n_tasks, sizeof *record->tasks);
    for (size_t i = 0; i < record->n_tasks; i++)
        record->tasks[i].member = member(bench, tasks[i], 1);
    return apply(bench, record);
}

static void epoch(struct bench *bench, const char *tasks)
{
    assert_int_equal(epoch_after(bench, bench->fold.epoch, tasks, 1), ROTA_GROUP_ACCEPTED);
}

static struct rota_group_name name_of(const char *text)
{
    return (struct rota_group_name){rota_str(text), rota_group_hash(rota_str(text))};
}

static const struct rota_group_partition *find(struct bench *bench, const char *name)
{
    return rota_group_fold_find(&bench->fold, name_of(name));
}

static enum rota_group_life life(struct bench *bench, const char *name)
{
    const struct rota_group_partition *partition = find(bench, name);
    return partition ? rota_group_fold_life(partition) : ROTA_GROUP_NAMED;
}

static char task_at(struct bench *bench, uint32_t place)
{
    return place == ROTA_GROUP_NOBODY ? '-' : bench->fold.tasks.items[place].member.task.data[0];
}

static char owner(struct bench *bench, const char *name)
{
    return task_at(bench, find(bench, name)->owner);
}

static char target(struct bench *bench, const char *name)
{
    return task_at(bench, find(bench, name)->target);
}

/* One change; parents are words with blanks between them. The token is the one in
 * force. */
struct words {
    const char *parents;
    char to;
    int64_t mark;
    bool has_position, is_end;
    uint64_t token;
};

static struct rota_group_record *change_of(struct bench *bench, char task,
                                           enum rota_group_change_type type, const char *name,
                                           struct words words)
{
    struct rota_group_record *record = record_of(bench, ROTA_GROUP_STATE, task, bench->fold.epoch);
    struct rota_str parents[ROTA_GROUP_PARENTS_MAX];
    size_t n = 0;
    for (const char *at = words.parents; at && *at; at += strcspn(at, " "), at += *at == ' ')
        parents[n++] = rota_str_of(at, strcspn(at, " "));
    const struct rota_group_partition *partition = find(bench, name);
    record->changes = calloc(1, sizeof *record->changes);
    record->n_changes = 1;
    record->changes[0] = (struct rota_group_change){
        .type = type,
        .def = rota_group_def_new(rota_str(name), parents, n, rota_str("")),
        .token = words.token ? words.token
                 : partition ? partition->token
                             : 0,
        .target = words.to ? member(bench, words.to, 1) : member(bench, '-', 1),
        .has_position = words.has_position,
        .mark = words.mark,
        .is_end = words.is_end,
    };
    return record;
}

static enum rota_group_refusal say(struct bench *bench, char task, enum rota_group_change_type type,
                                   const char *name, struct words words)
{
    assert_int_equal(apply(bench, change_of(bench, task, type, name, words)), ROTA_GROUP_ACCEPTED);
    assert_int_equal(bench->fold.refusals.size, 1);
    return bench->fold.refusals.items[0];
}

#define FINE(...)         assert_int_equal(say(&bench, __VA_ARGS__), ROTA_GROUP_FINE)
#define REFUSED(why, ...) assert_int_equal(say(&bench, __VA_ARGS__), why)

static void seed(struct bench *bench, char leader)
{
    struct rota_group_record *record =
        record_of(bench, ROTA_GROUP_STATE, leader, bench->fold.epoch);
    record->is_seed_end = true;
    assert_int_equal(apply(bench, record), ROTA_GROUP_ACCEPTED);
    assert_true(bench->fold.is_seeded);
}

/* --- epochs --- */

static void epoch_counts_only_after_the_one_in_force(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    assert_int_equal(epoch_after(&bench, 5, "a", 1), ROTA_GROUP_BROKEN_CHAIN);
    assert_int_equal(epoch_after(&bench, 0, "ab", 1), ROTA_GROUP_ACCEPTED);
    assert_int_equal(epoch_after(&bench, 0, "b", 1), ROTA_GROUP_BROKEN_CHAIN); /* a second leader */
    assert_int_equal(bench.fold.epoch, 1);
    assert_int_equal(bench.fold.n_tasks, 2);
    assert_int_equal(task_at(&bench, bench.fold.leader), 'a');
    assert_int_equal(epoch_after(&bench, 1, "b", 1), ROTA_GROUP_ACCEPTED);
    close_bench(&bench);
}

static void epoch_without_its_author_does_not_count(void **state)
{
    struct bench bench;
    struct rota_group_record *record;
    (void)state;
    open_bench(&bench);
    record = record_of(&bench, ROTA_GROUP_EPOCH, 'a', 1);
    record->n_tasks = 1;
    record->tasks = calloc(1, sizeof *record->tasks);
    record->tasks[0].member = member(&bench, 'b', 1);
    assert_int_equal(apply(&bench, record), ROTA_GROUP_LEADERLESS);
    assert_int_equal(bench.fold.epoch, 0);
    close_bench(&bench);
}

static void record_counts_only_in_the_epoch_at_its_own_offset(void **state)
{
    struct bench bench;
    struct rota_group_record *early, *late;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    late = change_of(&bench, 'b', ROTA_GROUP_OWN, "p", (struct words){0});
    early = change_of(&bench, 'b', ROTA_GROUP_OWN, "p", (struct words){0});
    early->epoch = 3;
    assert_int_equal(apply(&bench, early), ROTA_GROUP_EARLY_EPOCH);
    epoch(&bench, "ab");
    assert_int_equal(apply(&bench, late), ROTA_GROUP_OLD_EPOCH);
    assert_null(find(&bench, "p"));
    close_bench(&bench);
}

static void records_of_strangers_and_earlier_incarnations_do_not_count(void **state)
{
    struct bench bench;
    struct rota_group_record *record;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    record = change_of(&bench, 'c', ROTA_GROUP_OWN, "p", (struct words){0});
    assert_int_equal(apply(&bench, record), ROTA_GROUP_STRANGER);
    record = change_of(&bench, 'b', ROTA_GROUP_OWN, "p", (struct words){0});
    record->author.incarnation = 2;
    assert_int_equal(apply(&bench, record), ROTA_GROUP_STRANGER);
    close_bench(&bench);
}

static void sequence_decides_and_no_timestamp(void **state)
{
    struct bench bench;
    struct rota_group_record *first, *second;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "a");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    first = change_of(&bench, 'a', ROTA_GROUP_PROGRESS, "p",
                      (struct words){.has_position = true, .mark = 1});
    second = change_of(&bench, 'a', ROTA_GROUP_PROGRESS, "p",
                       (struct words){.has_position = true, .mark = 2});
    first->timestamp = 100;
    second->timestamp = 50; /* the clock was set back in between */
    rota_group_record_ref(first);
    assert_int_equal(apply(&bench, first), ROTA_GROUP_ACCEPTED);
    assert_int_equal(apply(&bench, second), ROTA_GROUP_ACCEPTED);
    assert_int_equal(find(&bench, "p")->mark, 2);
    assert_int_equal(apply(&bench, first), ROTA_GROUP_REPEATED); /* appended twice */
    assert_int_equal(find(&bench, "p")->mark, 2);
    close_bench(&bench);
}

static void lag_counts_records_the_author_had_not_read(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    const struct rota_group_task *a = rota_group_fold_task(&bench.fold, member(&bench, 'a', 1));
    const struct rota_group_task *b = rota_group_fold_task(&bench.fold, member(&bench, 'b', 1));
    assert_false(b->has_lag);
    struct rota_group_record *word = record_of(&bench, ROTA_GROUP_STATE, 'b', 1);
    word->next = bench.n_kept; /* it has read everything */
    assert_int_equal(apply(&bench, word), ROTA_GROUP_ACCEPTED);
    for (int i = 0; i < 5; i++) {
        word = record_of(&bench, ROTA_GROUP_STATE, 'a', 1);
        word->next = 1;
        assert_int_equal(apply(&bench, word), ROTA_GROUP_ACCEPTED);
    }
    assert_true(b->has_lag && b->lag == 0); /* others write on, and it has nothing to say */
    assert_true(a->has_lag && a->lag == bench.n_kept - 2);
    close_bench(&bench);
}

static void offset_is_applied_once(void **state)
{
    struct bench bench;
    enum rota_group_verdict verdict;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "a");
    assert_int_equal(rota_group_fold_apply(&bench.fold, 0, bench.kept[0], &verdict), ROTA_OK);
    assert_int_equal(verdict, ROTA_GROUP_REPEATED);
    rota_group_fold_skip(&bench.fold, 7, 100, ROTA_GROUP_FOREIGN); /* a gap is no harm */
    assert_int_equal(bench.fold.next, 8);
    assert_int_equal(bench.fold.counts.verdicts[ROTA_GROUP_FOREIGN], 1);
    close_bench(&bench);
}

/* --- owners --- */

static void partition_has_one_owner_whichever_tasks_claim_it(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    REFUSED(ROTA_GROUP_IS_KNOWN, 'b', ROTA_GROUP_OWN, "p", (struct words){0});
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'b', ROTA_GROUP_TAKE, "p", (struct words){0});
    REFUSED(ROTA_GROUP_NOT_MINE, 'b', ROTA_GROUP_FINISH, "p", (struct words){.is_end = true});
    REFUSED(ROTA_GROUP_NOT_MINE, 'b', ROTA_GROUP_MOVE, "p", (struct words){.to = 'b'});
    REFUSED(ROTA_GROUP_IS_UNKNOWN, 'b', ROTA_GROUP_TAKE, "q", (struct words){0});
    assert_int_equal(owner(&bench, "p"), 'a');
    close_bench(&bench);
}

static void offer_is_taken_by_its_addressee_alone_and_cleared_by_its_sharer(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "abc");
    FINE('a', ROTA_GROUP_SHARE, "p", (struct words){.to = 'b'});
    assert_int_equal(owner(&bench, "p"), '-');
    assert_int_equal(target(&bench, "p"), 'b');
    assert_int_equal(life(&bench, "p"), ROTA_GROUP_READY);
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'a', ROTA_GROUP_TAKE, "p", (struct words){0}); /* no re-own */
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'c', ROTA_GROUP_TAKE, "p", (struct words){0});
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'a', ROTA_GROUP_CLEAR, "p", (struct words){0});
    FINE('b', ROTA_GROUP_TAKE, "p", (struct words){0});
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'b', ROTA_GROUP_TAKE, "p", (struct words){0});
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'b', ROTA_GROUP_CLEAR, "p", (struct words){0});
    FINE('a', ROTA_GROUP_CLEAR, "p", (struct words){0});
    assert_int_equal(find(&bench, "p")->sharer, 0);
    assert_int_equal(owner(&bench, "p"), 'b');
    REFUSED(ROTA_GROUP_NO_TARGET, 'a', ROTA_GROUP_SHARE, "q", (struct words){.to = 'x'});
    close_bench(&bench);
}

static void token_is_the_offset_of_the_grant_and_grows(void **state)
{
    struct bench bench;
    uint64_t token;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    token = find(&bench, "p")->token;
    assert_int_equal(token, bench.n_kept - 1);
    FINE('a', ROTA_GROUP_MOVE, "p", (struct words){.to = 'b'});
    FINE('b', ROTA_GROUP_TAKE, "p", (struct words){0});
    assert_int_equal(find(&bench, "p")->token, bench.n_kept - 1);
    REFUSED(ROTA_GROUP_NOT_CURRENT, 'b', ROTA_GROUP_PROGRESS, "p",
            (struct words){.token = token, .has_position = true});
    epoch(&bench, "a");
    assert_int_equal(owner(&bench, "p"), 'a');
    assert_int_equal(find(&bench, "p")->token, bench.n_kept - 1);
    close_bench(&bench);
}

static void position_never_goes_back(void **state)
{
    struct bench bench;
    int64_t mark;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "a");
    assert_false(rota_group_fold_watermark(&bench.fold, &mark));
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){.has_position = true, .mark = 5});
    FINE('a', ROTA_GROUP_OWN, "q", (struct words){.has_position = true, .mark = 7});
    assert_true(rota_group_fold_watermark(&bench.fold, &mark));
    assert_int_equal(mark, 5);
    FINE('a', ROTA_GROUP_PROGRESS, "p", (struct words){.has_position = true, .mark = 9});
    REFUSED(ROTA_GROUP_BACKWARDS, 'a', ROTA_GROUP_PROGRESS, "p",
            (struct words){.has_position = true, .mark = 8});
    assert_true(rota_group_fold_watermark(&bench.fold, &mark));
    assert_int_equal(mark, 7);
    FINE('a', ROTA_GROUP_FINISH, "q", (struct words){.is_end = true});
    assert_true(rota_group_fold_watermark(&bench.fold, &mark));
    assert_int_equal(mark, 9);
    FINE('a', ROTA_GROUP_OWN, "r", (struct words){.has_position = true, .mark = -3});
    assert_true(rota_group_fold_watermark(&bench.fold, &mark));
    assert_int_equal(mark, -3);
    close_bench(&bench);
}

/* --- parents and children --- */

static void child_is_reported_by_the_reader_of_a_parent(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    REFUSED(ROTA_GROUP_NOT_PARENT, 'b', ROTA_GROUP_OWN, "c", (struct words){.parents = "p"});
    FINE('a', ROTA_GROUP_OWN, "c", (struct words){.parents = "p"});
    /* c waits for p, and is not read: nothing can come of it yet */
    REFUSED(ROTA_GROUP_NOT_PARENT, 'a', ROTA_GROUP_OWN, "d", (struct words){.parents = "c"});
    REFUSED(ROTA_GROUP_NOT_READY, 'a', ROTA_GROUP_FINISH, "c", (struct words){.is_end = true});
    FINE('a', ROTA_GROUP_FINISH, "p", (struct words){0});
    REFUSED(ROTA_GROUP_NOT_PARENT, 'a', ROTA_GROUP_OWN, "e", (struct words){.parents = "p"});
    FINE('a', ROTA_GROUP_OWN, "d", (struct words){.parents = "c"});
    FINE('a', ROTA_GROUP_OWN, "f", (struct words){.parents = "nowhere p c"}); /* any of them */
    REFUSED(ROTA_GROUP_NOT_PARENT, 'a', ROTA_GROUP_OWN, "g", (struct words){.parents = "nowhere"});
    close_bench(&bench);
}

static void new_partition_without_a_position_begins_at_0(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "a");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){.mark = 7});
    assert_int_equal(find(&bench, "p")->mark, 0);
    FINE('a', ROTA_GROUP_OWN, "q", (struct words){.mark = 7, .has_position = true});
    assert_int_equal(find(&bench, "q")->mark, 7);
    FINE('a', ROTA_GROUP_PROGRESS, "p", (struct words){.mark = 9}); /* commits nothing */
    assert_int_equal(find(&bench, "p")->mark, 0);
    close_bench(&bench);
}

static void number_of_partitions_is_bounded(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "a");
    size_t more = ROTA_GROUP_PARTITIONS_MAX - 4;
    bench.fold.n_partitions += more; /* as if there were so many */
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    FINE('a', ROTA_GROUP_OWN, "c", (struct words){.parents = "p q"}); /* q is named, and counts */
    REFUSED(ROTA_GROUP_IS_FULL, 'a', ROTA_GROUP_OWN, "d", (struct words){.parents = "p"});
    FINE('a', ROTA_GROUP_OWN, "d", (struct words){0});
    REFUSED(ROTA_GROUP_IS_FULL, 'a', ROTA_GROUP_OWN, "e", (struct words){0});
    bench.fold.n_partitions -= more;
    close_bench(&bench);
}

/* The names of the partitions that the last record changed, in order. */
static void assert_touched(struct bench *bench, const char *names)
{
    char found[64] = "";
    for (char name = 'a'; name <= 'z'; name++)
        for (size_t i = 0; i < bench->fold.touched.size; i++) {
            uint32_t place = bench->fold.touched.items[i];
            if (bench->fold.partitions.items[place].def->name.text.data[0] == name)
                strncat(found, &name, 1);
        }
    assert_string_equal(found, names);
}

static void record_lists_the_partitions_it_touched(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "abc");
    seed(&bench, 'a');
    assert_touched(&bench, "");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    assert_touched(&bench, "p");
    FINE('a', ROTA_GROUP_SHARE, "c", (struct words){.parents = "p q", .to = 'b'});
    assert_touched(&bench, "cpq");
    FINE('a', ROTA_GROUP_WITHDRAW, "c", (struct words){.to = 'c'});
    assert_touched(&bench, "c");
    FINE('c', ROTA_GROUP_TAKE, "c", (struct words){0});
    assert_touched(&bench, "c");
    FINE('a', ROTA_GROUP_CLEAR, "c", (struct words){0});
    assert_touched(&bench, "c");
    FINE('a', ROTA_GROUP_PROGRESS, "p", (struct words){0});
    assert_touched(&bench, "p");
    REFUSED(ROTA_GROUP_NOT_MINE, 'b', ROTA_GROUP_PROGRESS, "p", (struct words){0});
    assert_touched(&bench, "");
    FINE('a', ROTA_GROUP_FINISH, "p", (struct words){0});
    assert_touched(&bench, "cp");
    FINE('b', ROTA_GROUP_OWN, "q", (struct words){0});
    assert_touched(&bench, "q");
    FINE('b', ROTA_GROUP_MOVE, "q", (struct words){.to = 'a'});
    assert_touched(&bench, "q");
    epoch(&bench, "ab"); /* what c had is granted again */
    assert_touched(&bench, "c");
    close_bench(&bench);
}

static void child_is_ready_when_all_its_parents_are_finished(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    FINE('a', ROTA_GROUP_OWN, "c", (struct words){.parents = "p q"}); /* q is not known yet */
    assert_int_equal(life(&bench, "c"), ROTA_GROUP_CREATED);
    assert_int_equal(life(&bench, "q"), ROTA_GROUP_NAMED);
    FINE('a', ROTA_GROUP_FINISH, "p", (struct words){0});
    assert_int_equal(life(&bench, "c"), ROTA_GROUP_CREATED);
    FINE('b', ROTA_GROUP_OWN, "q", (struct words){0});
    assert_int_equal(life(&bench, "q"), ROTA_GROUP_RUNNING);
    REFUSED(ROTA_GROUP_IS_KNOWN, 'b', ROTA_GROUP_OWN, "c", (struct words){.parents = "p q"});
    FINE('b', ROTA_GROUP_FINISH, "q", (struct words){0});
    assert_int_equal(life(&bench, "c"), ROTA_GROUP_RUNNING);
    close_bench(&bench);
}

static void finish_needs_a_proof(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "a");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    REFUSED(ROTA_GROUP_UNPROVEN, 'a', ROTA_GROUP_FINISH, "p", (struct words){0});
    FINE('a', ROTA_GROUP_OWN, "c", (struct words){.parents = "p"});
    FINE('a', ROTA_GROUP_FINISH, "p", (struct words){.has_position = true, .mark = 7});
    assert_int_equal(find(&bench, "p")->mark, 7); /* with its last position */
    REFUSED(ROTA_GROUP_IS_FINISHED, 'a', ROTA_GROUP_FINISH, "p", (struct words){0});
    FINE('a', ROTA_GROUP_FINISH, "c", (struct words){.is_end = true});
    close_bench(&bench);
}

static void removed_only_when_all_that_refer_to_it_are_finished(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    FINE('a', ROTA_GROUP_SHARE, "c", (struct words){.parents = "p", .to = 'b'});
    REFUSED(ROTA_GROUP_NOT_FINISHED, 'a', ROTA_GROUP_REMOVE, "p", (struct words){0});
    FINE('a', ROTA_GROUP_FINISH, "p", (struct words){0});
    REFUSED(ROTA_GROUP_IS_REFERRED, 'a', ROTA_GROUP_REMOVE, "p", (struct words){0});
    FINE('b', ROTA_GROUP_TAKE, "c", (struct words){0});
    FINE('b', ROTA_GROUP_FINISH, "c", (struct words){.is_end = true});
    REFUSED(ROTA_GROUP_NOT_SEEDED, 'a', ROTA_GROUP_REMOVE, "p", (struct words){0});
    seed(&bench, 'a');
    REFUSED(ROTA_GROUP_NOT_MINE, 'b', ROTA_GROUP_REMOVE, "p", (struct words){0});
    FINE('a', ROTA_GROUP_REMOVE, "p", (struct words){0});
    assert_int_equal(life(&bench, "p"), ROTA_GROUP_REMOVED);
    assert_int_equal(bench.fold.n_partitions, 1);
    REFUSED(ROTA_GROUP_IS_KNOWN, 'a', ROTA_GROUP_OWN, "p", (struct words){0});
    close_bench(&bench);
}

static void late_child_of_a_removed_parent_becomes_ready(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "a");
    seed(&bench, 'a');
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    FINE('a', ROTA_GROUP_OWN, "q", (struct words){0});
    FINE('a', ROTA_GROUP_FINISH, "p", (struct words){.is_end = true});
    FINE('a', ROTA_GROUP_REMOVE, "p", (struct words){0});
    FINE('a', ROTA_GROUP_OWN, "c", (struct words){.parents = "p q"});
    FINE('a', ROTA_GROUP_FINISH, "q", (struct words){0});
    assert_int_equal(life(&bench, "c"), ROTA_GROUP_RUNNING);
    close_bench(&bench);
}

static void removed_names_are_remembered_up_to_a_bound(void **state)
{
    struct bench *bench = malloc(sizeof *bench);
    struct rota_group_record *record;
    char name[16];
    (void)state;
    assert_non_null(bench);
    open_bench(bench);
    epoch(bench, "a");
    seed(bench, 'a');
    assert_int_equal(say(bench, 'a', ROTA_GROUP_OWN, "q", (struct words){0}), ROTA_GROUP_FINE);
    for (int from = 0; from <= ROTA_GROUP_REMEMBERED_MAX; from += 1000) {
        record = record_of(bench, ROTA_GROUP_STATE, 'a', 1);
        record->changes = calloc(3000, sizeof *record->changes);
        for (int i = from; i < from + 1000 && i <= ROTA_GROUP_REMEMBERED_MAX; i++) {
            snprintf(name, sizeof name, "p%d", i);
            struct rota_group_def *def = rota_group_def_new(rota_str(name), NULL, 0, rota_str(""));
            for (int j = 0; j < 3; j++)
                record->changes[record->n_changes++] = (struct rota_group_change){
                    .type = (enum rota_group_change_type[]){ROTA_GROUP_OWN, ROTA_GROUP_FINISH,
                                                            ROTA_GROUP_REMOVE}[j],
                    .def = j ? rota_group_def_ref(def) : def,
                    .token = bench->n_kept,
                    .is_end = true,
                };
        }
        assert_int_equal(apply(bench, record), ROTA_GROUP_ACCEPTED);
        if (from == 0) /* from now on somebody refers to p1, and it stays */
            assert_int_equal(
                say(bench, 'a', ROTA_GROUP_OWN, "c", (struct words){.parents = "p1 q"}),
                ROTA_GROUP_FINE);
    }
    assert_int_equal(life(bench, "p0"), ROTA_GROUP_REMOVED); /* p1 is not among the counted */
    assert_int_equal(life(bench, "p1"), ROTA_GROUP_REMOVED);
    assert_int_equal(life(bench, "p2"), ROTA_GROUP_REMOVED);
    assert_int_equal(bench->fold.n_removed, ROTA_GROUP_REMEMBERED_MAX);
    assert_int_equal(say(bench, 'a', ROTA_GROUP_FINISH, "q", (struct words){0}), ROTA_GROUP_FINE);
    assert_int_equal(say(bench, 'a', ROTA_GROUP_FINISH, "c", (struct words){.is_end = true}),
                     ROTA_GROUP_FINE);
    assert_null(find(bench, "p0"));
    assert_int_equal(life(bench, "p1"), ROTA_GROUP_REMOVED);
    close_bench(bench);
    free(bench);
}

/* The names that are remembered, from the oldest on, and back. */
static void assert_remembered(struct bench *bench, const char *names)
{
    const struct rota_group_fold *fold = &bench->fold;
    size_t n = 0;
    for (uint32_t at = fold->removed_first; at != UINT32_MAX; at = fold->partitions.items[at].next)
        assert_int_equal(fold->partitions.items[at].def->name.text.data[0], names[n++]);
    assert_int_equal(n, strlen(names));
    for (uint32_t at = fold->removed_last; at != UINT32_MAX;
         at = fold->partitions.items[at].previous)
        assert_int_equal(fold->partitions.items[at].def->name.text.data[0], names[--n]);
    assert_int_equal(n, 0);
    assert_int_equal(fold->n_removed, strlen(names));
}

static void name_that_is_referred_to_leaves_the_row_and_comes_back_last(void **state)
{
    (void)state;
    for (const char *name = "vwxyz"; *name; name++) {
        struct bench bench;
        char parents[8], rest[8] = "", back[8];
        open_bench(&bench);
        epoch(&bench, "a");
        seed(&bench, 'a');
        FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
        for (const char *at = "vwxyz"; *at; at++) {
            const char text[] = {*at, 0};
            FINE('a', ROTA_GROUP_OWN, text, (struct words){0});
            FINE('a', ROTA_GROUP_FINISH, text, (struct words){.is_end = true});
            FINE('a', ROTA_GROUP_REMOVE, text, (struct words){0});
            if (*at != *name)
                strcat(rest, text);
        }
        assert_remembered(&bench, "vwxyz");
        snprintf(parents, sizeof parents, "p %c", *name);
        FINE('a', ROTA_GROUP_OWN, "c", (struct words){.parents = parents});
        assert_remembered(&bench, rest);
        FINE('a', ROTA_GROUP_FINISH, "p", (struct words){0});
        FINE('a', ROTA_GROUP_FINISH, "c", (struct words){.is_end = true});
        snprintf(back, sizeof back, "%s%c", rest, *name);
        assert_remembered(&bench, back);
        close_bench(&bench);
    }
}

static void places_of_pairs_are_used_again(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "a");
    for (int i = 0; i < 100; i++) {
        char parent[16], child[16], both[40];
        snprintf(parent, sizeof parent, "p%d", i);
        snprintf(child, sizeof child, "c%d", i);
        snprintf(both, sizeof both, "%s q%d", parent, i);
        FINE('a', ROTA_GROUP_OWN, parent, (struct words){0});
        FINE('a', ROTA_GROUP_OWN, child, (struct words){.parents = both});
        snprintf(child, sizeof child, "q%d", i);
        FINE('a', ROTA_GROUP_OWN, child, (struct words){0});
        FINE('a', ROTA_GROUP_FINISH, parent, (struct words){0});
        FINE('a', ROTA_GROUP_FINISH, child, (struct words){0});
        assert_true(bench.fold.edges.size <= 2);
    }
    close_bench(&bench);
}

/* --- redistribution --- */

static void survivors_keep_their_partitions_and_those_of_removed_tasks_are_spread_evenly(
    void **state)
{
    struct bench bench;
    char name[8];
    (void)state;
    open_bench(&bench);
    epoch(&bench, "abcd");
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "p%d", i);
        FINE(
            "abcd" [i % 4], ROTA_GROUP_OWN, name, (struct words) { 0 });
    }
    epoch(&bench, "abc");
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "p%d", i);
        if (i % 4 != 3)
            assert_int_equal(owner(&bench, name), "abcd"[i % 4]);
        else
            assert_int_equal(find(&bench, name)->token, bench.n_kept - 1);
    }
    for (size_t i = 0; i < bench.fold.tasks.size; i++)
        if (bench.fold.tasks.items[i].serial)
            assert_in_range(bench.fold.tasks.items[i].load, 13, 14);
    assert_int_equal(bench.fold.counts.n_granted_by_epochs, 10);
    close_bench(&bench);
}

static void offers_to_removed_tasks_are_assigned_and_others_stay(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "abcd");
    FINE('a', ROTA_GROUP_SHARE, "to_gone", (struct words){.to = 'd'});
    FINE('d', ROTA_GROUP_SHARE, "by_gone", (struct words){.to = 'b'});
    FINE('d', ROTA_GROUP_SHARE, "gone_both", (struct words){.to = 'd'});
    epoch(&bench, "abc");
    assert_int_equal(target(&bench, "by_gone"), 'b'); /* it has one addressee, still */
    assert_int_equal(owner(&bench, "by_gone"), '-');
    assert_int_equal(target(&bench, "to_gone"), '-');
    assert_int_not_equal(owner(&bench, "to_gone"), '-');
    assert_int_not_equal(owner(&bench, "gone_both"), '-');
    FINE('b', ROTA_GROUP_TAKE, "by_gone", (struct words){0});
    FINE('a', ROTA_GROUP_CLEAR, "to_gone", (struct words){0});
    close_bench(&bench);
}

static void finished_partitions_of_removed_tasks_go_to_the_leader(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "abc");
    seed(&bench, 'a');
    FINE('c', ROTA_GROUP_OWN, "p", (struct words){0});
    FINE('c', ROTA_GROUP_OWN, "k", (struct words){.parents = "p"});
    FINE('c', ROTA_GROUP_FINISH, "p", (struct words){0});
    epoch(&bench, "ba");
    assert_int_equal(owner(&bench, "p"), 'b');
    assert_int_equal(life(&bench, "p"), ROTA_GROUP_FINISHED);
    assert_int_equal(life(&bench, "k"), ROTA_GROUP_RUNNING);
    FINE(owner(&bench, "k"), ROTA_GROUP_FINISH, "k", (struct words){.is_end = true});
    FINE('b', ROTA_GROUP_REMOVE, "p", (struct words){0});
    close_bench(&bench);
}

static void new_partition_goes_to_the_least_loaded_and_to_oneself_of_equals(void **state)
{
    struct bench bench;
    uint32_t extra[4] = {0};
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    uint32_t a = rota_group_fold_place(&bench.fold,
                                       rota_group_fold_task(&bench.fold, member(&bench, 'a', 1)));
    uint32_t b = 1 - a;
    assert_int_equal(
        rota_group_fold_least_loaded(&bench.fold, a, ROTA_GROUP_NOBODY, NULL, rota_str("x")), a);
    FINE('a', ROTA_GROUP_SHARE, "p", (struct words){.to = 'a'}); /* an offer counts */
    assert_int_equal(
        rota_group_fold_least_loaded(&bench.fold, a, ROTA_GROUP_NOBODY, NULL, rota_str("x")), b);
    extra[b] = 2;
    assert_int_equal(
        rota_group_fold_least_loaded(&bench.fold, b, ROTA_GROUP_NOBODY, extra, rota_str("x")), a);
    assert_int_equal(rota_group_fold_least_loaded(&bench.fold, b, a, extra, rota_str("x")), b);
    close_bench(&bench);
}

/* Those who agree on the loads agree on the task, wherever each of them keeps it. */
static void least_loaded_task_is_the_same_in_every_fold(void **state)
{
    struct bench one, other;
    size_t n_chosen[4] = {0};
    (void)state;
    open_bench(&one);
    open_bench(&other);
    epoch(&one, "abcd");
    epoch(&other, "dbca");
    for (int i = 0; i < 400; i++) {
        char name[8];
        uint32_t extra_one[4], extra_other[4], least = UINT32_MAX;
        snprintf(name, sizeof name, "p%d", i);
        for (uint32_t place = 0; place < 4; place++) {
            uint32_t load = i % 2 ? 0 : (uint32_t)(i >> place) % 3;
            extra_one[place] = load;
            char task = task_at(&one, place);
            for (uint32_t there = 0; there < 4; there++)
                if (task_at(&other, there) == task)
                    extra_other[there] = load;
            least = load < least ? load : least;
        }
        uint32_t self = i % 3 == 0 ? (uint32_t)i % 4 : ROTA_GROUP_NOBODY, self_there = self;
        for (uint32_t there = 0; self != ROTA_GROUP_NOBODY && there < 4; there++)
            if (task_at(&other, there) == task_at(&one, self))
                self_there = there;
        uint32_t a = rota_group_fold_least_loaded(&one.fold, self, ROTA_GROUP_NOBODY, extra_one,
                                                  rota_str(name));
        uint32_t b = rota_group_fold_least_loaded(&other.fold, self_there, ROTA_GROUP_NOBODY,
                                                  extra_other, rota_str(name));
        assert_int_equal(task_at(&one, a), task_at(&other, b));
        assert_int_equal(extra_one[a], least);
        if (self != ROTA_GROUP_NOBODY && extra_one[self] == least)
            assert_int_equal(a, self);
        n_chosen[a]++;
    }
    for (int i = 0; i < 4; i++) /* and the names spread over all of them */
        assert_in_range(n_chosen[i], 60, 140);
    assert_int_equal(rota_group_fold_least_loaded(&one.fold, 0, 0, NULL, rota_str("x")),
                     rota_group_fold_least_loaded(&one.fold, 0, 0, NULL, rota_str("x")));
    close_bench(&one);
    close_bench(&other);
}

/* From whatever loads: those who are given something end as equal as can be. */
static void partitions_of_removed_tasks_go_to_the_least_loaded(void **state)
{
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 3);
    for (int round = 0; round < 20; round++) {
        struct bench bench;
        uint32_t before[9] = {0}, lowest = UINT32_MAX, highest = 0;
        int n = 0;
        char name[16];
        open_bench(&bench);
        epoch(&bench, "abcdefghi");
        for (int task = 0; task < 9; task++)
            for (size_t k = task == 8 ? 12 : rota_random_below(&random, 9); k > 0; k--) {
                snprintf(name, sizeof name, "p%d", n++);
                FINE((char)('a' + task), ROTA_GROUP_OWN, name, (struct words){0});
                before[task]++;
            }
        epoch(&bench, "abcdefgh");
        for (int task = 0; task < 8; task++) {
            uint32_t load =
                rota_group_fold_task(&bench.fold, member(&bench, (char)('a' + task), 1))->load;
            lowest = load < lowest ? load : lowest;
            if (load > before[task])
                highest = load > highest ? load : highest;
        }
        assert_true(highest <= lowest + 1);
        assert_int_equal(bench.fold.counts.n_granted_by_epochs, 12);
        close_bench(&bench);
    }
}

static void offer_can_be_withdrawn_and_the_first_in_the_log_wins(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "abc");
    FINE('a', ROTA_GROUP_SHARE, "p", (struct words){.to = 'b'});
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'c', ROTA_GROUP_WITHDRAW, "p", (struct words){.to = 'c'});
    FINE('a', ROTA_GROUP_WITHDRAW, "p", (struct words){.to = 'c'});
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'b', ROTA_GROUP_TAKE, "p", (struct words){0});
    FINE('c', ROTA_GROUP_TAKE, "p", (struct words){0});
    REFUSED(ROTA_GROUP_NOT_OFFERED, 'a', ROTA_GROUP_WITHDRAW, "p", (struct words){.to = 'b'});
    close_bench(&bench);
}

/* --- for those who compare --- */

/* One of each: running, offered, waiting, finished, removed, and a name. */
static void open_varied(struct bench *bench)
{
    open_bench(bench);
    epoch(bench, "abc");
    seed(bench, 'a');
    for (const char *name = "xyz"; *name; name++) {
        const char text[] = {*name, 0};
        assert_int_equal(say(bench, 'a', ROTA_GROUP_OWN, text, (struct words){0}), ROTA_GROUP_FINE);
        assert_int_equal(say(bench, 'a', ROTA_GROUP_FINISH, text, (struct words){.is_end = true}),
                         ROTA_GROUP_FINE);
        if (*name != 'z')
            assert_int_equal(say(bench, 'a', ROTA_GROUP_REMOVE, text, (struct words){0}),
                             ROTA_GROUP_FINE);
    }
    say(bench, 'a', ROTA_GROUP_OWN, "p", (struct words){0});
    say(bench, 'a', ROTA_GROUP_SHARE, "o", (struct words){.to = 'b'});
    assert_int_equal(say(bench, 'a', ROTA_GROUP_OWN, "c", (struct words){.parents = "p q"}),
                     ROTA_GROUP_FINE);
    assert_true(rota_group_fold_is_sound(&bench->fold));
}

#define CHANGES_DIGEST(field, value)                                                               \
    do {                                                                                           \
        __typeof__(field) kept = (field);                                                          \
        (field) = (value);                                                                         \
        assert_true(rota_group_fold_digest(fold) != digest);                                       \
        (field) = kept;                                                                            \
        assert_true(rota_group_fold_digest(fold) == digest);                                       \
    } while (0)

static void digest_covers_the_whole_state(void **state)
{
    struct bench bench;
    struct rota_group_fold *fold = &bench.fold;
    (void)state;
    open_varied(&bench);
    uint64_t digest = rota_group_fold_digest(fold);
    CHANGES_DIGEST(fold->epoch, fold->epoch + 1);
    CHANGES_DIGEST(fold->epoch_offset, fold->epoch_offset + 1);
    CHANGES_DIGEST(fold->generation, fold->generation + 1);
    CHANGES_DIGEST(fold->sync_epoch[0], 'x');
    CHANGES_DIGEST(fold->incarnation_floor, fold->incarnation_floor + 1);
    CHANGES_DIGEST(fold->is_seeded, false);
    CHANGES_DIGEST(fold->leader, ROTA_GROUP_NOBODY);
    CHANGES_DIGEST(fold->leader, fold->leader + 1);
    CHANGES_DIGEST(fold->tasks.items[1].sequence, 99);
    CHANGES_DIGEST(fold->tasks.items[1].member.incarnation, 99);
    CHANGES_DIGEST(fold->tasks.items[1].member.task, rota_str("other"));
    CHANGES_DIGEST(fold->removed_first, fold->removed_last);
    for (const char *name = "pocqxz"; *name; name++) {
        const char text[] = {*name, 0};
        struct rota_group_partition *partition = (struct rota_group_partition *)find(&bench, text);
        struct rota_blob *blob = rota_group_blob_new(rota_str("elsewhere"));
        CHANGES_DIGEST(partition->mark, partition->mark + 1);
        CHANGES_DIGEST(partition->position, blob);
        CHANGES_DIGEST(partition->token, partition->token + 1);
        CHANGES_DIGEST(partition->n_children, partition->n_children + 1);
        CHANGES_DIGEST(partition->n_parents_open, partition->n_parents_open + 1);
        CHANGES_DIGEST(partition->owner, 2);
        CHANGES_DIGEST(partition->target, 2);
        CHANGES_DIGEST(partition->sharer, fold->tasks.items[2].serial);
        CHANGES_DIGEST(partition->stage, (uint8_t)(partition->stage + 1));
        rota_group_blob_unref(blob);
    }
    close_bench(&bench);
}

#define BREAKS(field, value)                                                                       \
    do {                                                                                           \
        __typeof__(field) kept = (field);                                                          \
        (field) = (value);                                                                         \
        assert_false(rota_group_fold_is_sound(fold));                                              \
        (field) = kept;                                                                            \
        assert_true(rota_group_fold_is_sound(fold));                                               \
    } while (0)

static void fold_with_wrong_counts_fails_its_check(void **state)
{
    struct bench bench;
    struct rota_group_fold *fold = &bench.fold;
    (void)state;
    open_varied(&bench);
    epoch(&bench, "ab"); /* the place of c is free */
    uint32_t nowhere = (uint32_t)fold->tasks.size, gone = 2;
    assert_int_equal(fold->tasks.items[gone].serial, 0);
    for (const char *name = "pocqxz"; *name; name++) {
        const char text[] = {*name, 0};
        struct rota_group_partition *partition = (struct rota_group_partition *)find(&bench, text);
        uint32_t had = partition->owner != ROTA_GROUP_NOBODY ? partition->owner : 0;
        BREAKS(partition->owner, nowhere);
        BREAKS(partition->owner, gone);
        BREAKS(partition->owner, partition->owner == ROTA_GROUP_NOBODY ? 1 : 1 - had);
        BREAKS(partition->target, nowhere);
        BREAKS(partition->target, gone);
        if (partition->owner != ROTA_GROUP_NOBODY) {
            BREAKS(partition->owner, ROTA_GROUP_NOBODY);
            BREAKS(partition->target, had);
        }
    }
    struct rota_group_partition *finished = (struct rota_group_partition *)find(&bench, "z");
    BREAKS(finished->n_parents_open, 1);
    BREAKS(fold->tasks.items[0].load, fold->tasks.items[0].load + 1);
    BREAKS(fold->tasks.items[1].n_owned, fold->tasks.items[1].n_owned + 1);
    BREAKS(fold->n_unfinished, fold->n_unfinished + 1);
    BREAKS(fold->n_partitions, fold->n_partitions + 1);
    BREAKS(fold->index_size, fold->index_size + 1);
    for (size_t i = 0; i < fold->index_capacity; i++)
        if (!fold->index[i])
            BREAKS(fold->index[i], 1);
        else /* and the name is not found */
            BREAKS(fold->index[i], fold->index[i] == 1 ? 2 : 1);
    close_bench(&bench);
}

static void verdicts_refusals_and_lives_have_names(void **state)
{
    const char *const verdicts[] = {"accepted",     "foreign",   "future",      "malformed",
                                    "oversized",    "old_epoch", "early_epoch", "broken_chain",
                                    "leaderless",   "stranger",  "repeated",    "not_leader",
                                    "out_of_order", "unknown"};
    const char *const refusals[] = {
        "fine",         "is_known",   "is_unknown",  "not_parent", "not_mine", "not_offered",
        "not_current",  "not_ready",  "is_finished", "backwards",  "unproven", "is_referred",
        "not_finished", "not_seeded", "no_target",   "is_full",    "unknown"};
    const char *const lives[] = {"named",    "created", "ready",  "running",
                                 "finished", "removed", "unknown"};
    (void)state;
    for (int i = 0; i <= ROTA_GROUP_VERDICTS; i++)
        assert_string_equal(rota_group_fold_verdict_name((enum rota_group_verdict)i), verdicts[i]);
    for (int i = 0; i <= ROTA_GROUP_REFUSALS; i++)
        assert_string_equal(rota_group_fold_refusal_name((enum rota_group_refusal)i), refusals[i]);
    for (int i = 0; i <= 6; i++)
        assert_string_equal(rota_group_fold_life_name((enum rota_group_life)i), lives[i]);
}

/* --- snapshots --- */

static void save_and_load(struct bench *bench, struct rota_group_fold *loaded)
{
    struct rota_group_record **pieces;
    size_t n;
    assert_int_equal(rota_group_fold_save(&bench->fold, &pieces, &n), ROTA_OK);
    rota_group_fold_init(loaded);
    assert_int_equal(rota_group_fold_load(loaded, pieces, n, NULL), ROTA_OK);
    assert_true(rota_group_fold_is_sound(loaded));
    assert_true(rota_group_fold_digest(loaded) == rota_group_fold_digest(&bench->fold));
    assert_int_equal(loaded->next, bench->fold.next);
    for (size_t i = 0; i < n; i++)
        rota_group_record_unref(pieces[i]);
    free(pieces);
}

static void fold_from_a_snapshot_agrees_with_one_from_the_beginning(void **state)
{
    struct bench bench;
    struct rota_group_fold loaded;
    enum rota_group_verdict verdict;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "abc");
    seed(&bench, 'a');
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){.has_position = true, .mark = 3});
    FINE('a', ROTA_GROUP_OWN, "done", (struct words){0});
    FINE('a', ROTA_GROUP_FINISH, "done", (struct words){.is_end = true});
    FINE('a', ROTA_GROUP_REMOVE, "done", (struct words){0});
    FINE('a', ROTA_GROUP_SHARE, "c1", (struct words){.parents = "p done", .to = 'b'});
    FINE('a', ROTA_GROUP_OWN, "c2", (struct words){.parents = "p nowhere"});
    FINE('a', ROTA_GROUP_FINISH, "p", (struct words){0});
    save_and_load(&bench, &loaded);
    size_t from = bench.n_kept;
    FINE('b', ROTA_GROUP_TAKE, "c1", (struct words){0});
    FINE('a', ROTA_GROUP_CLEAR, "c1", (struct words){0});
    FINE('b', ROTA_GROUP_FINISH, "c1", (struct words){.is_end = true});
    epoch(&bench, "bc");
    for (size_t i = from; i < bench.n_kept; i++)
        assert_int_equal(rota_group_fold_apply(&loaded, i, bench.kept[i], &verdict), ROTA_OK);
    assert_true(rota_group_fold_digest(&loaded) == rota_group_fold_digest(&bench.fold));
    rota_group_fold_deinit(&loaded);
    close_bench(&bench);
}

static void fold_agrees_wherever_its_snapshot_was_made(void **state)
{
    (void)state;
    for (uint64_t seed_of_chance = 1; seed_of_chance <= 60; seed_of_chance++) {
        struct bench bench;
        struct rota_group_fold loaded;
        struct rota_random random;
        char name[8], child[8];
        enum rota_group_verdict verdict;
        rota_random_init(&random, seed_of_chance);
        open_bench(&bench);
        epoch(&bench, "abcd");
        seed(&bench, 'a');
        bool is_loaded = false;
        for (int i = 0; i < 300; i++) {
            static const char *const epochs[] = {"abcd", "bcd", "dc", "cab", "da"};
            char task = "abcd"[rota_random_below(&random, 4)];
            snprintf(name, sizeof name, "p%d", (int)rota_random_below(&random, 30));
            snprintf(child, sizeof child, "p%d", (int)rota_random_below(&random, 30));
            enum rota_group_change_type type =
                (enum rota_group_change_type)rota_random_below(&random, ROTA_GROUP_CHANGES);
            struct words words = {
                .parents = strcmp(name, child) && rota_random_chance(&random, 0.5) ? child : NULL,
                .to = "abcd"[rota_random_below(&random, 4)],
                .has_position = rota_random_chance(&random, 0.5),
                .mark = (int64_t)rota_random_below(&random, 50),
                .is_end = rota_random_chance(&random, 0.5),
            };
            if (rota_random_chance(&random, 0.05))
                epoch(&bench, epochs[rota_random_below(&random, 5)]);
            else
                (void)apply(&bench, change_of(&bench, task, type, name, words));
            assert_true(rota_group_fold_is_sound(&bench.fold));
            size_t last = bench.n_kept - 1;
            if (is_loaded)
                assert_int_equal(rota_group_fold_apply(&loaded, last, bench.kept[last], &verdict),
                                 ROTA_OK);
            else if ((is_loaded = rota_random_chance(&random, 0.02)))
                save_and_load(&bench, &loaded);
            if (is_loaded)
                assert_true(rota_group_fold_digest(&loaded) == rota_group_fold_digest(&bench.fold));
        }
        if (is_loaded)
            rota_group_fold_deinit(&loaded);
        close_bench(&bench);
    }
}

static void snapshot_of_a_group_without_an_epoch_has_no_leader(void **state)
{
    struct bench bench;
    struct rota_group_record **pieces;
    struct rota_group_fold loaded;
    size_t n;
    (void)state;
    open_bench(&bench);
    save_and_load(&bench, &loaded);
    rota_group_fold_deinit(&loaded);
    epoch(&bench, "ab");
    assert_int_equal(rota_group_fold_save(&bench.fold, &pieces, &n), ROTA_OK);
    uint32_t leader = pieces[0]->leader;
    static const uint32_t BAD[] = {ROTA_GROUP_NOBODY, 2};
    for (size_t i = 0; i < 2; i++) {
        pieces[0]->leader = BAD[i];
        rota_group_fold_init(&loaded);
        assert_int_equal(rota_group_fold_load(&loaded, pieces, n, NULL), ROTA_ERR_INVALID);
        rota_group_fold_deinit(&loaded);
    }
    pieces[0]->leader = leader;
    for (size_t i = 0; i < n; i++)
        rota_group_record_unref(pieces[i]);
    free(pieces);
    close_bench(&bench);
}

static enum rota_group_verdict piece(struct bench *bench, char task, uint64_t next, uint32_t index,
                                     uint32_t count)
{
    struct rota_group_record *record =
        record_of(bench, ROTA_GROUP_SNAPSHOT, task, bench->fold.epoch);
    record->next = next;
    record->index = index;
    record->count = count;
    return apply(bench, record);
}

static void snapshot_counts_when_its_last_piece_is_there(void **state)
{
    struct bench bench;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    assert_int_equal(piece(&bench, 'b', 1, 0, 2), ROTA_GROUP_NOT_LEADER);
    assert_int_equal(piece(&bench, 'a', 1, 1, 2), ROTA_GROUP_OUT_OF_ORDER);
    assert_int_equal(piece(&bench, 'a', 1, 0, 2), ROTA_GROUP_ACCEPTED);
    assert_int_equal(bench.fold.replay_from, 0);
    assert_int_equal(piece(&bench, 'a', 2, 1, 2), ROTA_GROUP_OUT_OF_ORDER); /* another one's */
    assert_int_equal(piece(&bench, 'a', 1, 1, 2), ROTA_GROUP_ACCEPTED);
    assert_int_equal(bench.fold.replay_from, 1);
    assert_int_equal(piece(&bench, 'a', 5, 0, 2), ROTA_GROUP_ACCEPTED);
    epoch(&bench, "ba");
    assert_int_equal(piece(&bench, 'a', 5, 1, 2), ROTA_GROUP_NOT_LEADER);
    assert_int_equal(piece(&bench, 'b', 5, 1, 2), ROTA_GROUP_OUT_OF_ORDER);
    assert_int_equal(bench.fold.replay_from, 1);
    close_bench(&bench);
}

static void snapshot_that_contradicts_itself_is_refused(void **state)
{
    struct bench bench;
    struct rota_group_record **pieces;
    struct rota_group_fold loaded;
    struct rota_error error;
    size_t n;
    (void)state;
    open_bench(&bench);
    epoch(&bench, "ab");
    FINE('a', ROTA_GROUP_OWN, "p", (struct words){0});
    assert_int_equal(rota_group_fold_save(&bench.fold, &pieces, &n), ROTA_OK);
    assert_int_equal(n, 2);
    for (int i = 0; i < 4; i++) {
        struct rota_group_partition_state *partition = &pieces[1]->partitions[0], kept = *partition;
        rota_group_fold_init(&loaded);
        if (i == 0)
            partition->target = 1; /* two have it */
        if (i == 1)
            partition->owner = 7;
        if (i == 2)
            partition->owner = ROTA_GROUP_NOBODY;
        assert_int_equal(rota_group_fold_load(&loaded, pieces, i == 3 ? 1 : n, &error),
                         ROTA_ERR_INVALID);
        *partition = kept;
        rota_group_fold_deinit(&loaded);
    }
    for (size_t i = 0; i < n; i++)
        rota_group_record_unref(pieces[i]);
    free(pieces);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epoch_counts_only_after_the_one_in_force),
        cmocka_unit_test(epoch_without_its_author_does_not_count),
        cmocka_unit_test(record_counts_only_in_the_epoch_at_its_own_offset),
        cmocka_unit_test(records_of_strangers_and_earlier_incarnations_do_not_count),
        cmocka_unit_test(sequence_decides_and_no_timestamp),
        cmocka_unit_test(lag_counts_records_the_author_had_not_read),
        cmocka_unit_test(offset_is_applied_once),
        cmocka_unit_test(partition_has_one_owner_whichever_tasks_claim_it),
        cmocka_unit_test(offer_is_taken_by_its_addressee_alone_and_cleared_by_its_sharer),
        cmocka_unit_test(token_is_the_offset_of_the_grant_and_grows),
        cmocka_unit_test(position_never_goes_back),
        cmocka_unit_test(child_is_reported_by_the_reader_of_a_parent),
        cmocka_unit_test(new_partition_without_a_position_begins_at_0),
        cmocka_unit_test(number_of_partitions_is_bounded),
        cmocka_unit_test(record_lists_the_partitions_it_touched),
        cmocka_unit_test(child_is_ready_when_all_its_parents_are_finished),
        cmocka_unit_test(finish_needs_a_proof),
        cmocka_unit_test(removed_only_when_all_that_refer_to_it_are_finished),
        cmocka_unit_test(late_child_of_a_removed_parent_becomes_ready),
        cmocka_unit_test(removed_names_are_remembered_up_to_a_bound),
        cmocka_unit_test(name_that_is_referred_to_leaves_the_row_and_comes_back_last),
        cmocka_unit_test(places_of_pairs_are_used_again),
        cmocka_unit_test(
            survivors_keep_their_partitions_and_those_of_removed_tasks_are_spread_evenly),
        cmocka_unit_test(offers_to_removed_tasks_are_assigned_and_others_stay),
        cmocka_unit_test(finished_partitions_of_removed_tasks_go_to_the_leader),
        cmocka_unit_test(new_partition_goes_to_the_least_loaded_and_to_oneself_of_equals),
        cmocka_unit_test(least_loaded_task_is_the_same_in_every_fold),
        cmocka_unit_test(partitions_of_removed_tasks_go_to_the_least_loaded),
        cmocka_unit_test(offer_can_be_withdrawn_and_the_first_in_the_log_wins),
        cmocka_unit_test(digest_covers_the_whole_state),
        cmocka_unit_test(fold_with_wrong_counts_fails_its_check),
        cmocka_unit_test(verdicts_refusals_and_lives_have_names),
        cmocka_unit_test(fold_from_a_snapshot_agrees_with_one_from_the_beginning),
        cmocka_unit_test(fold_agrees_wherever_its_snapshot_was_made),
        cmocka_unit_test(snapshot_of_a_group_without_an_epoch_has_no_leader),
        cmocka_unit_test(snapshot_counts_when_its_last_piece_is_there),
        cmocka_unit_test(snapshot_that_contradicts_itself_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
