/* What happens when memory runs out, at every single allocation: a reader or a machine refuses with
 * ROTA_ERR_NO_MEMORY, leaks nothing, and what it had before still holds. */
#include "no_memory.h"

#include "core/own/group_fold.h"
#include "core/own/lease_fsm.h"
#include "core/own/view_fsm.h"
#include "core/place/members_fsm.h"
#include "core/place/queue_fsm.h"
#include "core/work/broker/broker.h"
#include "core/work/cluster/tree_fsm.h"
#include "core/work/worker/sessions.h"
#include "node/rules/space_watch.h"
#include "wire/grpc/descriptor.h"
#include "wire/record/group_record.h"
#include "wire/text/config_text.h"
#include "wire/text/hosts_file.h"
#include "wire/text/json_rows.h"
#include "wire/text/kafka_url.h"
#include "wire/text/keys_file.h"
#include "wire/text/pairs_file.h"
#include "wire/text/view_text.h"

#include <rota/experimental/claims.h>
#include <rota/experimental/config.h>
#include <rota/experimental/plan.h>
#include <rota/ring.h>

#include <dirent.h>
#include <stdio.h>

#define rota_view_fsm_step(...)      NO_MEMORY_IN(rota_view_fsm_step(__VA_ARGS__))
#define rota_broker_add(...)         NO_MEMORY_IN(rota_broker_add(__VA_ARGS__))
#define rota_broker_end(...)         NO_MEMORY_IN(rota_broker_end(__VA_ARGS__))
#define rota_broker_tick(...)        NO_MEMORY_DURING(rota_broker_tick(__VA_ARGS__))
#define rota_broker_worker_open(...) NO_MEMORY_IN(rota_broker_worker_open(__VA_ARGS__))
#include "view_nodes.c" /* compiled here for the calls above */
#include "work_bench.c" /* compiled here for the calls above */

/* OK, or refused because of the failure that was planted. */
static bool is_done(enum rota_code code)
{
    if (code && code != ROTA_ERR_NO_MEMORY)
        fail_msg("code %d", (int)code);
    assert_true(code == ROTA_OK || no_memory_has_failed());
    return code == ROTA_OK;
}

/* --- readers --- */

static struct rota_str input;
static void (*reader)(void);
static enum rota_code code_with_memory;

static void read_once(void)
{
    no_memory_arm();
    reader();
    no_memory_disarm();
}

/* Of a reader: what it says of the input if it has memory, or that it has none. */
static bool is_read(enum rota_code code)
{
    if (no_memory.fails_at == 0)
        code_with_memory = code;
    else if (code != code_with_memory)
        assert_true(code == ROTA_ERR_NO_MEMORY && no_memory_has_failed());
    return code == ROTA_OK;
}

/* Every file of a fuzz target's corpus. */
static void read_corpus(const char *target, void (*read)(void))
{
    static char bytes[1 << 16];
    char path[512];
    snprintf(path, sizeof path, "%s/../fuzz/corpus/%s", TEST_DATA, target);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    size_t n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/../fuzz/corpus/%s/%s", TEST_DATA, target, entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        input = rota_str_of(bytes, fread(bytes, 1, sizeof bytes, file));
        fclose(file);
        if (input.size > 4096)
            continue; /* would take long */
        reader = read;
        memset(&no_memory, 0, sizeof no_memory);
        read_once();
        if (no_memory.n == 0 && no_memory.n_live == 0) {
            no_memory.fails_at = UINT64_MAX; /* count */
            read_once();
            if (no_memory.n == 0)
                continue; /* needs none */
        }
        no_memory_everywhere(read_once);
        n++;
    }
    closedir(folder);
    assert_true(n > 0);
}

static void read_hosts(void)
{
    struct rota_hosts hosts;
    struct rota_error error;
    if (is_read(rota_hosts_file_parse(input, "f", &hosts, &error)))
        rota_hosts_file_deinit(&hosts);
}

static void read_pairs(void)
{
    struct rota_pairs pairs = {.seed = 5};
    struct rota_pairs_reader into;
    struct rota_error error;
    enum rota_code code = ROTA_OK;
    rota_pairs_file_reader_init(&into, "f", &pairs);
    for (size_t at = 0; !code && at < input.size; at += 7) {
        size_t left = input.size - at;
        code = rota_pairs_file_reader_feed(&into, rota_str_of(input.data + at, left < 7 ? left : 7),
                                           &error);
    }
    if (!code)
        code = rota_pairs_file_reader_finish(&into, &error);
    is_read(code);
    rota_pairs_file_reader_deinit(&into);
    rota_pairs_file_deinit(&pairs);
}

static void read_kafka_url(void)
{
    struct rota_kafka_url url;
    struct rota_error error;
    if (!is_read(rota_kafka_url_parse(input, &url, &error)))
        return;
    char *text = rota_kafka_url_format(&url);
    assert_true(text || no_memory_has_failed());
    free(text);
    rota_kafka_url_deinit(&url);
}

static void read_view(void)
{
    struct rota_view view = {0}, copy = {0};
    struct rota_error error;
    if (is_read(rota_view_text_parse(input, &view, &error)) &&
        is_done(rota_view_copy(&view, &copy, &error)))
        assert_true(rota_view_is_equal(&copy, &view));
    rota_view_deinit(&view);
    rota_view_deinit(&copy);
}

static void read_config(void)
{
    struct rota_config *config;
    struct rota_error error;
    if (is_read(rota_config_parse(input, "f", &config, &error)))
        rota_config_unref(config);
}

static void read_descriptors(void)
{
    struct rota_descriptors descriptors;
    rota_descriptors_init(&descriptors);
    is_read(rota_descriptors_add(&descriptors, input));
    rota_descriptors_deinit(&descriptors);
}

static void read_rows(void)
{
    static const char *const fields[] = {"name", "state", "jobs"};
    struct rota_rows rows = {0};
    struct rota_error error;
    if (is_read(rota_json_rows_read(input, "nodes", fields, 3, &rows, &error)))
        rota_json_rows_deinit(&rows);
}

static void read_group_record(void)
{
    struct rota_group_record *record = NULL;
    struct rota_buffer text = {0};
    enum rota_group_verdict verdict;
    struct rota_error error;
    if (!is_read(rota_group_record_parse(input, &record, &verdict, &error)) ||
        verdict != ROTA_GROUP_ACCEPTED)
        return;
    enum rota_code code = rota_group_record_format(record, &text, &error);
    assert_true(code == ROTA_OK || code == ROTA_ERR_LIMIT || no_memory_has_failed());
    rota_buffer_deinit(&text);
    rota_group_record_unref(record);
}

static void readers_refuse_and_leak_nothing(void **state)
{
    (void)state;
    read_corpus("hosts", read_hosts);
    read_corpus("pairs", read_pairs);
    read_corpus("kafka_url", read_kafka_url);
    read_corpus("view", read_view);
    read_corpus("config", read_config);
    read_corpus("descriptor", read_descriptors);
    read_corpus("rows", read_rows);
    read_corpus("group", read_group_record);
}

/* --- place --- */

static struct rota_ring *ring_of(int n)
{
    static const char *const ADDRESSES[] = {"a:1", "b:1", "c:1", "d:1"};
    struct rota_ring_host hosts[4] = {0};
    struct rota_ring *ring = NULL;
    for (int i = 0; i < n; i++)
        hosts[i] = (struct rota_ring_host){.address = rota_str(ADDRESSES[i]),
                                           .zone = rota_str(i % 2 ? "x" : "y")};
    return is_done(rota_ring_new(hosts, (size_t)n, 20, &ring, NULL)) ? ring : NULL;
}

static void change_a_ring(void)
{
    struct rota_ring_host added = {.address = rota_str("z:1")};
    struct rota_str removed = rota_str("a:1");
    struct rota_ring *next = NULL;
    no_memory_arm();
    struct rota_ring *ring = ring_of(3);
    if (ring && is_done(rota_ring_with(ring, &added, 1, &removed, 1, &next, NULL)))
        assert_int_equal(rota_ring_size(next), 3);
    rota_ring_unref(next);
    rota_ring_unref(ring);
}

static void plan_a_change(void)
{
    no_memory_arm();
    struct rota_ring *before = ring_of(2), *after = ring_of(4);
    struct rota_plan_options options = {.before = before, .after = after};
    struct rota_plan_space space = {.namespace_id = rota_str("ns"),
                                    .queue = rota_str("q"),
                                    .type = ROTA_TASK_ACTIVITY,
                                    .before = {8, {0}},
                                    .after = {8, {0}}};
    struct rota_plan *plan = NULL;
    if (before && after && is_done(rota_plan_new(&options, &plan, NULL))) {
        while (!is_done(rota_plan_add(plan, &space, NULL)))
            no_memory_disarm();
        const struct rota_plan_result *result = rota_plan_result(plan);
        assert_true(result->hosts_after.n == 4 && result->lost == 0);
    }
    rota_plan_free(plan);
    rota_ring_unref(before);
    rota_ring_unref(after);
}

/* A snapshot that could not be accepted changes nothing, and can be given again. */
static void change_members(void)
{
    struct rota_host hosts[] = {{.address = rota_str("a:1"), .zone = rota_str("x")},
                                {.address = rota_str("b:1")},
                                {.address = rota_str("c:1"), .is_draining = true}};
    struct rota_members_event events[] = {
        {.type = ROTA_MEMBERS_SNAPSHOT, .version = 1, .hosts = hosts, .n_hosts = 2},
        {.type = ROTA_MEMBERS_EVICT, .address = rota_str("b:1")},
        {.type = ROTA_MEMBERS_SNAPSHOT, .version = 2, .hosts = hosts, .n_hosts = 3},
        {.type = ROTA_MEMBERS_DRAIN, .address = rota_str("a:1")},
    };
    struct rota_members_fsm fsm;
    struct rota_members_actions actions;
    size_t n, n_before;
    no_memory_arm();
    if (!is_done(rota_members_fsm_init(&fsm, 10, NULL)))
        return;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        rota_members_fsm_list(&fsm, &n_before);
        while (!is_done(rota_members_fsm_step(&fsm, 5, &events[i], &actions, NULL))) {
            no_memory_disarm();
            rota_members_fsm_list(&fsm, &n);
            assert_int_equal(n, n_before);
        }
        rota_members_fsm_actions_deinit(&actions);
    }
    rota_members_fsm_list(&fsm, &n);
    assert_int_equal(n, 3);
    assert_int_equal(rota_ring_size(rota_members_fsm_ring(&fsm)), 0);
    rota_members_fsm_deinit(&fsm);
}

static void keep_claims(void)
{
    static const char *const SHARDS_OF[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct rota_claims *claims = NULL;
    no_memory_arm();
    if (!is_done(rota_claims_new(7, &claims, NULL)))
        return;
    for (size_t i = 0; i < 9; i++) {
        struct rota_claim claim = {
            .space = rota_str("s"), .shard = rota_str(SHARDS_OF[i]), .epoch = i + 1};
        while (!is_done(rota_claims_set(claims, &claim, NULL))) {
            no_memory_disarm();
            assert_int_equal(rota_claims_size(claims), i);
        }
    }
    assert_int_equal(rota_claims_size(claims), 9);
    rota_claims_free(claims);
}

/* A configuration that is refused leaves the one before in force. */
static void want_counts(void)
{
    static const int64_t COUNTS[] = {4, 40, 400, 8};
    const struct rota_partition queue = {
        .namespace_id = rota_str("ns"), .queue = rota_str("q"), .type = ROTA_TASK_ACTIVITY};
    struct rota_queue_config config = {.write = 2,
                                       .read = 2,
                                       .batch = rota_gradual_static(3),
                                       .mode = rota_gradual_static(ROTA_SPREAD_SLOTS),
                                       .degree = 20};
    struct rota_queue_fsm fsm;
    if (!is_done(NO_MEMORY_IN(rota_queue_fsm_init(&fsm, 0, &queue, &config, NULL))))
        return;
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        int64_t before = rota_queue_fsm_config(&fsm).read;
        struct rota_queue_news news;
        config.write = config.read = COUNTS[i];
        while (!is_done(NO_MEMORY_IN(rota_queue_fsm_want(&fsm, 0, &config, NULL)))) {
            assert_int_equal(rota_queue_fsm_config(&fsm).read, before);
            no_memory_end();
        }
        while (rota_queue_fsm_step(&fsm, 0, &news)) {
        }
    }
    rota_queue_fsm_deinit(&fsm);
}

/* Only making the machine takes memory. One that could not be made can be ended. */
static void hold_a_lease(void)
{
    struct rota_lease_fsm fsm;
    const struct rota_lease_fsm_options options = {.n_shards = 4, .n_wanted = 2, .instance = 7};
    struct rota_lease_event event = {.type = ROTA_LEASE_TICK};
    no_memory_arm();
    if (!is_done(rota_lease_fsm_init(&fsm, 0, &options, NULL))) {
        rota_lease_fsm_deinit(&fsm);
        return;
    }
    for (uint32_t shard = 0; shard < 2; shard++) {
        uint64_t n_before = no_memory.n;
        struct rota_lease_actions todo = rota_lease_fsm_step(&fsm, shard, &event);
        assert_int_equal(todo.list[todo.n - 1].type, ROTA_LEASE_CLAIM);
        event = (struct rota_lease_event){.type = ROTA_LEASE_CLAIMED,
                                          .ask = todo.list[todo.n - 1].ask,
                                          .shard = shard,
                                          .epoch = 100 + shard};
        assert_int_equal(no_memory.n, n_before);
    }
    rota_lease_fsm_step(&fsm, 2, &event);
    assert_int_equal(rota_lease_fsm_epoch(&fsm, 3, 0), 100);
    assert_int_equal(rota_lease_fsm_epoch(&fsm, 3, 1), 101);
    rota_lease_fsm_deinit(&fsm);
}

static void places_stay_as_they_were(void **state)
{
    (void)state;
    no_memory_everywhere(change_a_ring);
    no_memory_everywhere(plan_a_change);
    no_memory_everywhere(change_members);
    no_memory_everywhere(keep_claims);
    no_memory_everywhere(want_counts);
    no_memory_everywhere(hold_a_lease);
}

/* --- groups --- */

static const char *const RECORDS[] = {"epoch", "own", "child", "finish", "remove"};

/* One after the other; a fold that failed is of no use, but can be ended. */
static void fold_a_log(void)
{
    struct rota_group_member author = {rota_str("a"), 1};
    struct rota_group_task_state member = {.member = author};
    struct rota_group_fold fold, loaded;
    struct rota_group_record **pieces = NULL;
    size_t n_pieces = 0;
    bool is_well = true;
    rota_group_fold_init(&fold);
    for (size_t i = 0; is_well && i < sizeof RECORDS / sizeof *RECORDS; i++) {
        struct rota_str parent = rota_str("p");
        struct rota_group_change change = {.target = author};
        enum rota_group_verdict verdict;
        struct rota_group_record *record =
            rota_group_record_new(i ? ROTA_GROUP_STATE : ROTA_GROUP_EPOCH);
        record->author = author;
        record->epoch = 1;
        record->sequence = i + 1;
        if (i == 0) {
            record->tasks = &member;
            record->n_tasks = 1;
        } else {
            static const enum rota_group_change_type TYPES[] = {
                ROTA_GROUP_OWN, ROTA_GROUP_OWN, ROTA_GROUP_FINISH, ROTA_GROUP_REMOVE};
            change.type = TYPES[i - 1];
            change.def = rota_group_def_new(i == 2 ? rota_str("c") : rota_str("p"), &parent, i == 2,
                                            rota_str(""));
            change.token = i > 2 ? 11 : 0;
            change.is_end = true;
            change.has_position = i == 1;
            record->changes = &change;
            record->n_changes = 1;
            record->is_seed_end = i == 1;
        }
        is_well = is_done(NO_MEMORY_IN(rota_group_fold_apply(&fold, 10 + i, record, &verdict)));
        if (is_well)
            assert_true(verdict == ROTA_GROUP_ACCEPTED && rota_group_fold_is_sound(&fold));
        record->tasks = NULL;
        record->changes = NULL;
        record->n_tasks = record->n_changes = 0;
        if (i)
            rota_group_def_unref(change.def);
        rota_group_record_unref(record);
    }
    if (is_well && is_done(NO_MEMORY_IN(rota_group_fold_save(&fold, &pieces, &n_pieces)))) {
        rota_group_fold_init(&loaded);
        if (is_done(NO_MEMORY_IN(rota_group_fold_load(&loaded, pieces, n_pieces, NULL))))
            assert_true(rota_group_fold_digest(&loaded) == rota_group_fold_digest(&fold));
        rota_group_fold_deinit(&loaded);
    }
    for (size_t i = 0; i < n_pieces; i++)
        rota_group_record_unref(pieces[i]);
    free(pieces);
    rota_group_fold_deinit(&fold);
}

static void fold_refuses_and_leaks_nothing(void **state)
{
    (void)state;
    no_memory_everywhere(fold_a_log);
}

/* --- spaces --- */

/* Three nodes share a space; one of them leaves. view_nodes.h sees that no two serve a shard. */
static void own_a_space(void)
{
    void *state = NULL;
    set_up(&state);
    stored = (struct rota_view){0};
    for (int i = 0; i < NODES; i++) {
        open_plain(i);
        pass(TTL / 2);
    }
    pass(2 * TTL);
    const struct rota_view_wish early = {
        .type = ROTA_VIEW_PIN, .id = 5, .shard = 2, .name = rota_str("b")};
    drive(&nodes[0], (struct rota_view_event){.type = ROTA_VIEW_WISH, .wish = early});
    no_memory_end();
    pass(TTL); /* it is answered, unless it was refused at once */
    assert_int_equal(nodes[0].outcome.id, 5);
    is_done(nodes[0].outcome.code);
    wish(0, (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = 3, .name = rota_str("b")});
    pass(4 * TTL);
    assert_int_equal(n_served_in_all(), SHARDS);
    assert_int_equal(nodes[1].serving[3] != 0, true);
    tear_down(&state);
    stored = (struct rota_view){0};
}

static void watch_a_space(void)
{
    static const struct rota_space_shard shards[4];
    struct rota_space_map map = {.name = rota_str("s"), .shards = shards};
    struct rota_space_watch watch = {0};
    for (map.n_shards = 2; map.n_shards <= 4; map.n_shards++) {
        map.version++;
        uint32_t n_before = watch.n;
        while (!NO_MEMORY_IN(rota_space_watch_look(&watch, &map))) {
            assert_true(no_memory_has_failed() && watch.n == n_before);
            no_memory_end();
        }
        assert_int_equal(watch.n, map.n_shards);
    }
    rota_space_watch_deinit(&watch);
}

static void owners_continue_when_there_is_memory_again(void **state)
{
    (void)state;
    no_memory_everywhere(own_a_space);
    no_memory_everywhere(watch_a_space);
}

/* --- work --- */

/* What was refused is not there, can be asked for again, and is done once. */
static void do_jobs(void)
{
    static struct bench bench;
    enum { JOBS = 40, DELAYED = 6 }; /* many come due at once */
    struct rota_job_id ids[JOBS];
    struct rota_str can[] = {rota_str("gpu"), rota_str("big")}, queue = rota_str("q");
    uint64_t session = 0;
    bench.options = (struct rota_broker_options){.seed = 7};
    bench_init(&bench);
    for (size_t i = 0; i < JOBS; i++) {
        struct rota_job_spec spec = {.queue = queue,
                                     .payload = rota_str("payload"),
                                     .unique = i == 3 ? rota_str("one") : rota_str(""),
                                     .key = i == 4 ? rota_str("fair") : rota_str(""),
                                     .not_before = i >= DELAYED ? bench.now.wall + ROTA_SEC : 0,
                                     .capabilities = can,
                                     .n_capabilities = i % 3};
        while (!is_done(bench_try_add(&bench, &spec, &ids[i])))
            no_memory_end();
        assert_int_equal(rota_broker_n_jobs(bench.broker), i + 1);
    }
    struct rota_str other = rota_str("other");
    struct rota_worker_spec poll = {.name = rota_str("p"),
                                    .epoch = 1,
                                    .liveness = ROTA_HOUR,
                                    .lease = ROTA_SEC,
                                    .is_poll = true,
                                    .slots = 1,
                                    .queues = &other,
                                    .n_queues = 1};
    while (!is_done(bench_try_open(&bench, &poll, &session)))
        no_memory_end();
    assert_true(rota_broker_is_sound(bench.broker)); /* it has one poll, not two */
    struct rota_worker_spec worker = {.name = rota_str("w"),
                                      .epoch = 1,
                                      .liveness = ROTA_HOUR,
                                      .slots = JOBS,
                                      .queues = &queue,
                                      .n_queues = 1,
                                      .capabilities = can,
                                      .n_capabilities = 2};
    while (!is_done(bench_try_open(&bench, &worker, &session)))
        no_memory_end();
    for (size_t i = 0; i < JOBS; i++) {
        bench_tick(&bench, ROTA_SEC);
        if (bench_state(&bench, ids[i]) != ROTA_JOB_RUNNING) { /* it could not be handed out */
            no_memory_end();
            bench_tick(&bench, ROTA_SEC);
        }
        uint64_t attempt = bench_view(&bench, ids[i]).attempt;
        while (!is_done(bench_end(&bench, ids[i], attempt, ROTA_JOB_CAUSE_DONE, "result")))
            no_memory_end();
        assert_int_equal(bench_state(&bench, ids[i]), ROTA_JOB_DONE);
    }
    assert_int_equal(rota_broker_n_jobs(bench.broker), 0);
    bench_deinit(&bench);
}

/* Effects that nobody has taken yet need more and more memory. */
static void add_jobs_in_a_row(void)
{
    static struct bench bench;
    enum { JOBS = 100 };
    struct rota_job_spec spec = {.queue = rota_str("q"), .payload = rota_str("payload")};
    bench.options = (struct rota_broker_options){.seed = 7};
    bench_init(&bench);
    for (size_t i = 0; i < JOBS; i++) {
        struct rota_job_id id;
        while (!is_done(rota_broker_add(bench.broker, bench.now, &spec, &id, &bench.is_new,
                                        &bench.number, &bench.error)))
            no_memory_end();
        assert_int_equal(rota_broker_n_jobs(bench.broker), i + 1);
    }
    bench_settle(&bench);
    bench_deinit(&bench);
}

enum { MANY = 12 };

/* A broker with MANY jobs, all with one worker, made while there is memory. */
static uint64_t fill_bench(struct bench *bench, struct rota_job_id ids[MANY])
{
    uint64_t fails_at = no_memory.fails_at;
    no_memory_end();
    bench->options = (struct rota_broker_options){.seed = 7};
    bench_init(bench);
    for (int i = 0; i < MANY; i++)
        ids[i] = bench_add(bench, "payload");
    uint64_t session = bench_open(bench, "w", MANY / 2);
    no_memory.fails_at = fails_at;
    return session;
}

/* A partition that can't be given up stays open: its jobs are handed out. */
static void close_a_partition(void)
{
    static struct bench bench;
    struct rota_job_id ids[MANY];
    fill_bench(&bench, ids);
    bool is_closed = is_done(
        NO_MEMORY_IN(rota_broker_partition_close(bench.broker, bench.now, rota_str("q"), 0, NULL)));
    no_memory_end();
    bench_settle(&bench);
    bench_open(&bench, "x", MANY);
    bench_tick(&bench, ROTA_SEC);
    assert_int_equal(bench_state(&bench, ids[MANY - 1]),
                     is_closed ? ROTA_JOB_WAITING : ROTA_JOB_RUNNING);
    bench_deinit(&bench);
}

/* What a worker had goes to the next one, if need be later. */
static void lose_a_worker(void)
{
    static struct bench bench;
    struct rota_job_id ids[MANY];
    uint64_t session = fill_bench(&bench, ids);
    NO_MEMORY_DURING(rota_broker_worker_close(bench.broker, bench.now, session));
    bench_settle(&bench);
    no_memory_end();
    uint64_t next = bench_open(&bench, "x", MANY);
    for (int i = 0; i < 3; i++)
        bench_tick(&bench, ROTA_SEC);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(bench_session_of(&bench, ids[i]), next);
    bench_deinit(&bench);
}

/* Everything that lasts is written again, in steps; then the journal begins there, and is read. */
static void compact(struct bench *bench)
{
    uint64_t from = rota_broker_last_number(bench->broker) + 1;
    size_t n_old = bench->journal.size;
    while (NO_MEMORY_IN(rota_broker_rewrite(bench->broker, from, SIZE_MAX, SIZE_MAX)) > 0) {
        assert_true(no_memory_has_failed());
        no_memory_end();
        bench_settle(bench);
    }
    no_memory_end();
    bench_settle(bench);
    memmove(bench->journal.items, bench->journal.items + n_old,
            (bench->journal.size - n_old) * sizeof *bench->journal.items);
    bench_crash(bench, bench->journal.size - n_old);
}

static void receive_chunk(struct bench *from, struct bench *to, struct rota_job_id name)
{
    struct rota_work_record record;
    uint64_t number;
    while (!is_done(NO_MEMORY_IN(rota_broker_adopting(to->broker, to->now, name, NULL)))) {
        no_memory_end();
        bench_settle(to);
    }
    for (size_t place = 0; rota_broker_chunk_next(from->broker, name, &place, &record);)
        if (!is_done(
                NO_MEMORY_IN(rota_broker_adopt(to->broker, to->now, &record, &number, NULL)))) {
            NO_MEMORY_DURING(rota_broker_adopt_none(to->broker, to->now));
            no_memory_end();
            bench_settle(to);
            receive_chunk(from, to, name); /* from the first job */
            return;
        }
    while (!is_done(NO_MEMORY_IN(rota_broker_adopted(to->broker, to->now, name, &number, NULL))))
        no_memory_end();
    bench_settle(to);
}

/* A chunk of jobs goes from one broker to another: each job is with exactly one of them. */
static void hand_jobs_over(void)
{
    static struct bench from, to;
    struct rota_str q = rota_str("q"), far = rota_str("far:1");
    struct rota_job_id ids[MANY], name, other;
    uint64_t fails_at = no_memory.fails_at, number;
    fill_bench(&from, ids);
    no_memory_end();
    to.options = (struct rota_broker_options){.seed = 8};
    bench_init(&to);
    assert_int_equal(rota_broker_partition_close(from.broker, from.now, q, 0, NULL), ROTA_OK);
    bench_settle(&from);
    no_memory.fails_at = fails_at;
    while (!is_done(
        NO_MEMORY_IN(rota_broker_chunk_begin(from.broker, from.now, q, 0, far, &name, NULL))))
        no_memory_end();
    bench_settle(&from);
    assert_int_equal(rota_broker_chunk_begin(from.broker, from.now, q, 0, far, &other, NULL),
                     ROTA_ERR_NOT_FOUND);
    receive_chunk(&from, &to, name);
    while (!is_done(NO_MEMORY_IN(rota_broker_chunk_taken(from.broker, from.now, name, NULL)))) {
        no_memory_end();
        bench_settle(&from);
    }
    bench_settle(&from);
    while (!is_done(NO_MEMORY_IN(rota_broker_adopted_over(to.broker, to.now, name, &number, NULL))))
        no_memory_end();
    bench_settle(&to);
    while (!is_done(NO_MEMORY_IN(rota_broker_chunk_end(from.broker, from.now, name, NULL))))
        no_memory_end();
    bench_settle(&from);
    assert_int_equal(rota_broker_n_jobs(from.broker), 0);
    compact(&from);
    compact(&to);
    assert_true(rota_broker_is_empty(from.broker));
    assert_int_equal(rota_broker_n_jobs(to.broker), MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(bench_state(&to, ids[i]), ROTA_JOB_WAITING);
    assert_true(rota_broker_has_adopted(to.broker, name, &number));
    bench_deinit(&from);
    bench_deinit(&to);
}

/* The names of chunks that were received, nodes that may hold jobs, and owners of partitions: each
 * are so many that there is no room for their records from before. */
static void rewrite_what_lasts(void)
{
    static struct bench bench;
    enum { N_QUEUES = MANY, N_CHUNKS = 8 * MANY, N_NODES = 20 * MANY };
    struct rota_broker_node_view node;
    struct rota_partition_view partition;
    char text[16];
    uint64_t fails_at = no_memory.fails_at, number;
    size_t n = 0;
    no_memory_end();
    bench.options = (struct rota_broker_options){.seed = 7};
    bench_init(&bench);
    for (uint64_t i = 1; i <= N_CHUNKS; i++) {
        struct rota_job_id name = {1, i};
        assert_int_equal(rota_broker_adopting(bench.broker, bench.now, name, NULL), ROTA_OK);
        assert_int_equal(rota_broker_adopted(bench.broker, bench.now, name, &number, NULL),
                         ROTA_OK);
        bench_settle(&bench);
    }
    for (int i = 0; i < N_NODES; i++) {
        snprintf(text, sizeof text, "node:%d", i);
        node = (struct rota_broker_node_view){rota_str(text), true, bench.now.wall};
        assert_int_equal(rota_broker_take_node(bench.broker, bench.now, &node, NULL), ROTA_OK);
        bench_settle(&bench);
    }
    for (int i = 0; i < N_QUEUES; i++) {
        snprintf(text, sizeof text, "q%d", i);
        bench_own(&bench, text);
    }
    no_memory.fails_at = fails_at;
    compact(&bench);
    for (uint64_t i = 1; i <= N_CHUNKS; i++)
        assert_true(rota_broker_has_adopted(bench.broker, (struct rota_job_id){1, i}, &number));
    for (size_t place = 0; rota_broker_next_node(bench.broker, &place, &node);)
        n += node.may_hold;
    assert_int_equal(n, N_NODES);
    n = 0;
    for (size_t place = 0; rota_broker_next_partition(bench.broker, &place, &partition);)
        n += partition.epoch == 1;
    assert_int_equal(n, N_QUEUES + 1);
    bench_deinit(&bench);
}

/* A queue's settings: each is made or refused as a whole, and the queue can be deleted. */
static void set_a_queue(void)
{
    static struct bench bench;
    struct rota_str q = rota_str("q");
    struct rota_work_layout layout = {.wanted = 8, .write = 8, .read = 8}, found;
    size_t n_live, n_ended;
    uint64_t number;
    rota_time at;
    bench.options = (struct rota_broker_options){.seed = 7};
    bench_init(&bench);
    while (
        !is_done(NO_MEMORY_IN(rota_broker_pause(bench.broker, bench.now, q, true, &number, NULL))))
        no_memory_end();
    while (
        !is_done(NO_MEMORY_IN(rota_broker_set_kills(bench.broker, bench.now, q, 7, &number, NULL))))
        no_memory_end();
    for (char key[] = "a"; key[0] <= 'p'; key[0]++)
        while (!is_done(NO_MEMORY_IN(rota_broker_set_weight(bench.broker, bench.now, q,
                                                            rota_str(key), 3000, &number, NULL))))
            no_memory_end();
    layout.spread = (struct rota_spread){.mode = ROTA_SPREAD_SLOTS, .batch = 16};
    while (!is_done(NO_MEMORY_IN(
        rota_broker_set_layout(bench.broker, bench.now, q, &layout, 0, &number, NULL))))
        no_memory_end();
    bench_settle(&bench);
    assert_true(rota_broker_layout(bench.broker, q, &found, &at));
    assert_int_equal(found.read, 8);
    while (!is_done(NO_MEMORY_IN(rota_broker_delete_queue(bench.broker, bench.now, q, false,
                                                          &n_live, &n_ended, &number, NULL))))
        no_memory_end();
    bench_settle(&bench);
    bench_deinit(&bench);
}

/* A broker that reads its journal has all of it, or gives up. */
static void read_a_journal(void)
{
    static struct bench bench;
    struct rota_job_id ids[MANY], name;
    struct rota_str q = rota_str("q"), can[] = {rota_str("gpu")};
    uint64_t fails_at = no_memory.fails_at, number;
    struct rota_broker *broker;
    fill_bench(&bench, ids);
    no_memory_end();
    for (int i = 0; i < MANY / 2; i++)
        bench_end_now(&bench, ids[i], i % 2 ? ROTA_JOB_CAUSE_DONE : ROTA_JOB_CAUSE_FAILED, "text");
    bench_add_spec(&bench, (struct rota_job_spec){.capabilities = can,
                                                  .n_capabilities = 1,
                                                  .unique = rota_str("u"),
                                                  .key = rota_str("f"),
                                                  .trace = rota_str("t"),
                                                  .not_before = bench.now.wall + ROTA_HOUR});
    rota_broker_set_weight(bench.broker, bench.now, q, rota_str("f"), 3000, &number, NULL);
    bench_settle(&bench);
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, q, 0, NULL), ROTA_OK);
    assert_int_equal(
        rota_broker_chunk_begin(bench.broker, bench.now, q, 0, rota_str("far:1"), &name, NULL),
        ROTA_OK);
    bench_settle(&bench);
    size_t n_jobs = rota_broker_n_jobs(bench.broker), n_read = 0;
    no_memory.fails_at = fails_at;
    if (is_done(NO_MEMORY_IN(rota_broker_new(&bench.options, &broker, NULL)))) {
        while (n_read < bench.journal.size && is_done(NO_MEMORY_IN(rota_broker_replay(
                                                  broker, &bench.journal.items[n_read], NULL))))
            n_read++;
        if (n_read == bench.journal.size)
            assert_int_equal(rota_broker_n_jobs(broker), n_jobs);
        rota_broker_free(broker);
    }
    bench_deinit(&bench);
}

static void broker_hands_over_and_keeps_durable_state(void **state)
{
    (void)state;
    no_memory_everywhere(hand_jobs_over);
    no_memory_everywhere(rewrite_what_lasts);
    no_memory_everywhere(set_a_queue);
    no_memory_everywhere(read_a_journal);
}

static void broker_refuses_and_continues(void **state)
{
    (void)state;
    no_memory_everywhere(do_jobs);
    no_memory_everywhere(add_jobs_in_a_row);
    no_memory_everywhere(close_a_partition);
    no_memory_everywhere(lose_a_worker);
}

/* A worker that is refused is not known, neither by its connection nor by its name. */
static void connect_workers(void)
{
    static const char *const NAMES[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    enum { N = sizeof NAMES / sizeof *NAMES };
    struct rota_session sessions[N], *replaced = NULL;
    struct rota_sessions known;
    rota_sessions_init(&known, (struct rota_beat){ROTA_SEC, 3}, 100, 100, 1);
    for (size_t i = 0; i < N; i++) {
        struct rota_str name = rota_str(NAMES[i]);
        sessions[i] = (struct rota_session){.route = name, .name = name, .epoch = 1};
        while (!NO_MEMORY_IN(rota_sessions_add(&known, &sessions[i], 0))) {
            assert_true(no_memory_has_failed());
            no_memory_end();
            assert_int_equal(rota_sessions_n(&known), i);
            assert_int_equal(rota_sessions_judge(&known, name, 1, &replaced), ROTA_SESSION_NEW);
            assert_null(replaced);
        }
        assert_int_equal(rota_sessions_n(&known), i + 1);
        assert_int_equal(rota_sessions_judge(&known, name, 1, &replaced), ROTA_SESSION_STALE);
    }
    for (size_t i = 0; i < N; i++)
        rota_sessions_remove(&known, &sessions[i]);
    rota_sessions_deinit(&known);
}

static void workers_are_known_or_refused(void **state)
{
    (void)state;
    no_memory_everywhere(connect_workers);
}

/* --- forwarding --- */

#define rota_tree_fsm_begin(...) NO_MEMORY_DURING(rota_tree_fsm_begin(__VA_ARGS__))
#define rota_tree_fsm_have(...)  NO_MEMORY_DURING(rota_tree_fsm_have(__VA_ARGS__))
#define rota_tree_fsm_end(...)   NO_MEMORY_DURING(rota_tree_fsm_end(__VA_ARGS__))
#define rota_tree_fsm_hear(...)  NO_MEMORY_DURING(rota_tree_fsm_hear(__VA_ARGS__))
#define rota_tree_fsm_tick(...)  NO_MEMORY_DURING(rota_tree_fsm_tick(__VA_ARGS__))

static struct rota_str tree_owner(void *data, struct rota_str queue, uint32_t partition)
{
    (void)data, (void)queue;
    return rota_str(partition == 0 ? "a" : partition == 1 ? "b" : "c");
}

static struct rota_str tree_node(void *data, size_t index)
{
    static const char *const addresses[] = {"a", "b", "c"};
    (void)data;
    return rota_str(index < 3 ? addresses[index] : "");
}

/* The visits on which `b` is sent to `c`; all are told to go. */
static int send_visitors(struct rota_tree_fsm *fsm, rota_time at)
{
    uint64_t visits[8];
    size_t n;
    int n_visits = 0;
    const struct rota_tree_action *actions = rota_tree_fsm_actions(fsm, &n);
    for (size_t i = 0; i < n; i++)
        if (actions[i].type == ROTA_TREE_DO_VISIT && actions[i].to.size == 1 &&
            actions[i].to.data[0] == 'b' && actions[i].word.node.data[0] == 'c') {
            assert_true(n_visits < 8);
            visits[n_visits++] = actions[i].visit;
        }
    rota_tree_fsm_clear(fsm);
    for (int i = 0; i < n_visits; i++)
        NO_MEMORY_DURING(rota_tree_fsm_answered(fsm, at, visits[i], 1, false));
    return n_visits;
}

/* The root `a`: `b` has idle slots and `c` has jobs. A word that was lost comes again with the
 * next refresh. */
static void match_words(void)
{
    struct rota_tree_fsm *fsm = NO_MEMORY_IN(rota_tree_fsm_new(
        &(struct rota_tree_options){
            .self = rota_str("a"), .partitions = 3, .owner = tree_owner, .node = tree_node},
        0));
    int n_visits = 0;
    if (!fsm) {
        assert_true(no_memory_has_failed());
        return;
    }
    for (uint64_t i = 1; i <= 4 && n_visits == 0; i++) {
        rota_time at = (rota_time)i * ROTA_TREE_REFRESH;
        struct rota_tree_word want = {.kind = ROTA_TREE_WANT,
                                      .node = rota_str("b"),
                                      .queue = rota_str("q"),
                                      .can = rota_str("x y "),
                                      .stamp = i,
                                      .n = 1,
                                      .hops = 1};
        struct rota_tree_word offer = want;
        offer.kind = ROTA_TREE_OFFER;
        offer.node = rota_str("c");
        offer.can = rota_str("y ");
        if (i == 2)
            no_memory_end();
        rota_tree_fsm_begin(fsm, at);
        rota_tree_fsm_have(fsm, ROTA_TREE_WANT, rota_str("q"), rota_str("z "), 1, at);
        rota_tree_fsm_end(fsm);
        NO_MEMORY_DURING(rota_tree_fsm_failed(fsm, at, rota_str("b")));
        NO_MEMORY_DURING(rota_tree_fsm_reached(fsm, at, rota_str("b")));
        rota_tree_fsm_hear(fsm, at, &want);
        rota_tree_fsm_hear(fsm, at, &offer);
        rota_tree_fsm_tick(fsm, at);
        n_visits = send_visitors(fsm, at);
    }
    assert_int_equal(n_visits, 1);
    rota_tree_fsm_free(fsm);
}

static void words_that_were_lost_come_again(void **state)
{
    (void)state;
    no_memory_everywhere(match_words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_refuse_and_leak_nothing),
        cmocka_unit_test(places_stay_as_they_were),
        cmocka_unit_test(fold_refuses_and_leaks_nothing),
        cmocka_unit_test(owners_continue_when_there_is_memory_again),
        cmocka_unit_test(broker_refuses_and_continues),
        cmocka_unit_test(broker_hands_over_and_keeps_durable_state),
        cmocka_unit_test(workers_are_known_or_refused),
        cmocka_unit_test(words_that_were_lost_come_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
