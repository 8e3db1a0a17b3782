/* A broker and its clients, on one loop, over real gRPC. */
#include "queue_world.h"

#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    struct rota_work_broker_options options = {.is_memory = true, .partitions = 4};
    assert_non_null(world);
    world_open(world, &options);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    world_close(*state);
    free(*state);
    return 0;
}

static void await_watchers(struct world *world, size_t n)
{
    while (rota_work_broker_counts(world->broker).watchers != n)
        uv_run(&world->loop, UV_RUN_ONCE);
}

/* --- tests --- */

static void a_job_is_added_polled_and_completed(void **state)
{
    struct world *world = *state;
    struct told told, other;
    struct rota_queue_handed job;
    struct name name = must_add(world, "jobs", "what to do");
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &job), 1);
    assert_memory_equal(job.id.data, name.bytes, sizeof name.bytes);
    assert_true(rota_str_is_equal(job.payload, rota_str("what to do")));
    assert_int_equal(job.n_attempts, 1);
    assert_int_equal(complete(world, &job, "done so", &other), ROTA_STATUS_OK);
    assert_int_equal(complete(world, &job, "done so", &other), ROTA_STATUS_OK); /* said twice */
    struct rota_queue_job_info info = describe(world, &name, &other);
    assert_int_equal(info.state, ROTA_JOB_DONE);
    assert_true(rota_str_is_equal(info.result, rota_str("done so")));
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 0);
}

static void a_poll_waits_for_a_job(void **state)
{
    struct world *world = *state;
    static struct told waiting;
    struct rota_queue_poll request = a_poll(10, 60000);
    struct rota_queue_list reply;
    start(world, "Poll", &ROTA_QUEUE_POLL, &request, &waiting);
    must_add(world, "other", "not for it");
    assert_int_equal(waiting.n_ends, 0);
    must_add(world, "jobs", "for it");
    await(&world->loop, &waiting.n_ends, 1);
    read_reply(world, &ROTA_QUEUE_POLL_REPLY, &waiting, &reply);
    assert_int_equal(reply.items.n, 1);
    assert_int_equal(rota_work_broker_counts(world->broker).polls, 0);
}

static void a_poll_without_a_job_returns_an_empty_list(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct rota_queue_handed job;
    assert_int_equal(poll_jobs(world, 1, 0, &told, &job), 0);
    assert_int_equal(poll_jobs(world, 1, 20, &told, &job), 0);
    assert_int_equal(rota_work_broker_counts(world->broker).polls, 0);
}

static size_t n_queues(struct world *world)
{
    static struct told told;
    struct rota_queue_list reply;
    struct rota_queue_setting all = {0};
    assert_int_equal(ask(world, "Queues", &ROTA_QUEUE_PAUSE, &all, &told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_QUEUES_REPLY, &told, &reply);
    return reply.items.n;
}

static void an_unused_queue_is_forgotten(void **state)
{
    struct world *world = *state;
    static struct told waiting;
    struct rota_queue_poll request = a_poll(1, 60000);
    struct rota_call *call = start(world, "Poll", &ROTA_QUEUE_POLL, &request, &waiting);
    while (rota_work_broker_counts(world->broker).polls == 0)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(n_queues(world), 1);
    rota_call_cancel(call);
    size_t n = 1;
    for (int i = 0; i < 100 && n > 0; i++) /* the broker hears of the end in between */
        n = n_queues(world);
    assert_int_equal(n, 0);
}

static void a_poll_that_is_dropped_takes_no_job(void **state)
{
    struct world *world = *state;
    static struct told told, dropped;
    struct rota_queue_handed job;
    struct rota_queue_poll request = a_poll(1, 60000);
    struct rota_call *call = start(world, "Poll", &ROTA_QUEUE_POLL, &request, &dropped);
    must_add(world, "other", "so that the poll is there");
    assert_int_equal(rota_work_broker_counts(world->broker).polls, 1);
    rota_call_cancel(call);
    must_add(world, "other", "so that it is gone");
    assert_int_equal(rota_work_broker_counts(world->broker).polls, 0);
    must_add(world, "jobs", "x");
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &job), 1);
    assert_int_equal(job.n_attempts, 1);
}

static void a_repeated_add_creates_one_job(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct name name, again;
    bool is_new;
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_queue_job_spec spec = {
        .queue = JOBS,
        .id = rota_queue_message_id_write(rota_job_id_make(ROTA_SEC, 3, 77), id),
    };
    assert_int_equal(add(world, spec, &name, &is_new, &told), ROTA_STATUS_OK);
    assert_true(is_new);
    assert_int_equal(add(world, spec, &again, &is_new, &told), ROTA_STATUS_OK);
    assert_false(is_new);
    assert_memory_equal(name.bytes, again.bytes, sizeof name.bytes);
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 1);
}

static void a_stale_attempt_is_refused(void **state)
{
    struct world *world = *state;
    static struct told told, other;
    struct rota_queue_handed job;
    must_add(world, "jobs", "x");
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &job), 1);
    job.attempt++;
    assert_int_equal(complete(world, &job, "", &other), ROTA_STATUS_ABORTED);
    job.attempt--;
    struct rota_queue_about about = {
        .queue = job.queue, .id = job.id, .attempt = job.attempt, .bytes = rota_str("no luck")};
    about.is_final = true;
    assert_int_equal(ask(world, "Fail", &ROTA_QUEUE_FAIL, &about, &other), ROTA_STATUS_OK);
    assert_int_equal(complete(world, &job, "", &other), ROTA_STATUS_ABORTED);
    about.is_given_back = true;
    assert_int_equal(ask(world, "Fail", &ROTA_QUEUE_FAIL, &about, &other),
                     ROTA_STATUS_INVALID_ARGUMENT);
}

static void a_watch_of_a_job_reports_its_end(void **state)
{
    struct world *world = *state;
    static struct told told, watching, other;
    struct rota_queue_handed job;
    struct rota_queue_news news;
    struct name name = must_add(world, "jobs", "x");
    struct rota_queue_about about = {.queue = JOBS, .id = id_of(&name)};
    start(world, "Watch", &ROTA_QUEUE_NAME, &about, &watching);
    await(&world->loop, &watching.n_messages, 1);
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &job), 1);
    await(&world->loop, &watching.n_messages, 2);
    assert_int_equal(complete(world, &job, "the result", &other), ROTA_STATUS_OK);
    await(&world->loop, &watching.n_ends, 1);
    assert_int_equal(watching.status, ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_NEWS, &watching, &news);
    const struct rota_queue_job_info *info = news.job;
    assert_int_equal(info->state, ROTA_JOB_DONE);
    assert_true(rota_str_is_equal(info->result, rota_str("the result")));
    assert_int_equal(rota_work_broker_counts(world->broker).watchers, 0);
}

static void a_batch_answers_for_each_job(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct rota_queue_job_spec jobs[] = {
        {.queue = JOBS}, {.queue = rota_str("not a queue!")}, {.queue = JOBS, .partition = 9}};
    struct rota_queue_list request = {.items = {jobs, 3}}, reply;
    assert_int_equal(ask(world, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &told),
                     ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_ADD_BATCH_REPLY, &told, &reply);
    const struct rota_queue_added *added = reply.items.items;
    assert_int_equal(reply.items.n, 3);
    assert_int_equal(added[0].status, ROTA_STATUS_OK);
    assert_true(added[0].is_new);
    assert_int_equal(added[1].status, ROTA_STATUS_INVALID_ARGUMENT);
    assert_true(added[1].error.size > 0);
    assert_int_equal(added[2].status, ROTA_STATUS_INVALID_ARGUMENT);
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 1);
}

static void a_batch_of_completions_answers_for_each(void **state)
{
    struct world *world = *state;
    static struct told told, other;
    struct rota_queue_handed first, second;
    char unknown[ROTA_QUEUE_ID_SIZE];
    static struct told polled[2];
    must_add(world, "jobs", "1");
    must_add(world, "jobs", "2");
    assert_int_equal(poll_jobs(world, 1, 1000, &polled[0], &first), 1);
    struct name name = {0};
    memcpy(name.bytes, first.id.data, sizeof name.bytes);
    assert_int_equal(poll_jobs(world, 1, 1000, &polled[1], &second), 1);
    struct rota_queue_about ends[] = {
        {.queue = JOBS, .id = id_of(&name), .attempt = first.attempt, .bytes = rota_str("done")},
        {.queue = JOBS, .id = second.id, .attempt = second.attempt + 1},
        {.queue = JOBS, .id = rota_queue_message_id_write(rota_job_id_make(1, 0, 1), unknown)},
        {.queue = JOBS},
    };
    struct rota_queue_list request = {.items = {ends, 4}}, reply;
    assert_int_equal(ask(world, "CompleteBatch", &ROTA_QUEUE_COMPLETE_BATCH, &request, &told),
                     ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_COMPLETE_BATCH_REPLY, &told, &reply);
    const struct rota_queue_added *ended = reply.items.items;
    assert_int_equal(reply.items.n, 4);
    assert_int_equal(ended[0].status, ROTA_STATUS_OK);
    assert_int_equal(ended[1].status, ROTA_STATUS_ABORTED);
    assert_int_equal(ended[2].status, ROTA_STATUS_NOT_FOUND);
    assert_false(ended[2].may_go_elsewhere); /* there is no other node */
    assert_int_equal(ended[3].status, ROTA_STATUS_INVALID_ARGUMENT);
    struct rota_queue_description seen;
    assert_int_equal(ask(world, "Describe", &ROTA_QUEUE_DESCRIBE, &ends[0], &other),
                     ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_DESCRIPTION, &other, &seen);
    const struct rota_queue_job_info *info = seen.job;
    assert_int_equal(info->state, ROTA_JOB_DONE);
    assert_true(rota_str_is_equal(info->result, rota_str("done")));
}

static void hostile_requests_are_refused_with_a_sentence(void **state)
{
    struct world *world = *state;
    static struct told told;
    static const char *const METHODS[] = {"Add",           "AddBatch", "Cancel", "Complete",
                                          "CompleteBatch", "Describe", "Fail",   "List",
                                          "Pause",         "Poll",     "Watch"};
    static const struct rota_str BYTES[] = {{"\xff\xff\xff", 3}, {"\x0a\x05x", 3}, {"\x08\x01", 2}};
    for (size_t i = 0; i < sizeof METHODS / sizeof *METHODS; i++)
        for (size_t j = 0; j < sizeof BYTES / sizeof *BYTES; j++) {
            start_raw(world, METHODS[i], BYTES[j], strcmp(METHODS[i], "Watch") == 0, &told);
            await(&world->loop, &told.n_ends, 1);
            assert_int_equal(told.status, ROTA_STATUS_INVALID_ARGUMENT);
            assert_true(told.text[0] != '\0');
        }
    struct rota_queue_poll request = a_poll(1, 1);
    request.lease_ms = UINT64_MAX;
    assert_int_equal(ask(world, "Poll", &ROTA_QUEUE_POLL, &request, &told),
                     ROTA_STATUS_INVALID_ARGUMENT);
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 0);
}

static void assert_bound(struct world *world, const char *method,
                         const struct rota_message_type *type, const void *request,
                         const char *field, const char *bound)
{
    static struct told told;
    assert_int_equal(ask(world, method, type, request, &told), ROTA_STATUS_INVALID_ARGUMENT);
    if (!strstr(told.text, field) || !strstr(told.text, bound))
        fail_msg("%s does not name %s and %s", told.text, field, bound);
}

/* Whoever is told that there is no room tries again, and would do so forever. */
static void oversized_requests_are_refused_with_field_and_bound(void **state)
{
    struct world *world = *state;
    static struct rota_str names[257];
    static struct rota_queue_job_spec jobs[ROTA_QUEUE_BATCH_MAX + 1];
    static struct rota_queue_about ends[ROTA_QUEUE_BATCH_MAX + 1];
    for (size_t i = 0; i < 257; i++)
        names[i] = rota_str("x");
    for (size_t i = 0; i < ROTA_QUEUE_BATCH_MAX + 1; i++) {
        jobs[i].queue = JOBS;
        ends[i].queue = JOBS;
    }
    struct rota_queue_job_spec needy = {.queue = JOBS, .can = {names, 17}};
    struct rota_queue_add add_needy = {.job = &needy};
    struct rota_queue_list batch = {.items = {jobs, ROTA_QUEUE_BATCH_MAX + 1}};
    struct rota_queue_list completions = {.items = {ends, ROTA_QUEUE_BATCH_MAX + 1}};
    struct rota_queue_poll everywhere = a_poll(1, 1), able = a_poll(1, 1);
    everywhere.queues = (struct rota_message_strs){names, 65};
    able.can = (struct rota_message_strs){names, 257};
    assert_bound(world, "Add", &ROTA_QUEUE_ADD, &add_needy, "can", "16");
    assert_bound(world, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &batch, "jobs", "4096");
    assert_bound(world, "CompleteBatch", &ROTA_QUEUE_COMPLETE_BATCH, &completions, "attempts",
                 "4096");
    assert_bound(world, "Poll", &ROTA_QUEUE_POLL, &everywhere, "queues", "64");
    assert_bound(world, "Poll", &ROTA_QUEUE_POLL, &able, "can", "256");
    needy = (struct rota_queue_job_spec){.queue = JOBS, .partition = ROTA_JOB_PARTITIONS_MAX};
    assert_bound(world, "Add", &ROTA_QUEUE_ADD, &add_needy, "partition", "65535");
    needy = (struct rota_queue_job_spec){.queue = JOBS, .max_attempts = ROTA_JOB_ATTEMPTS_MAX + 1};
    assert_bound(world, "Add", &ROTA_QUEUE_ADD, &add_needy, "attempts", "1000");
    static char longest[ROTA_JOB_KEY_MAX + 1];
    needy =
        (struct rota_queue_job_spec){.queue = JOBS, .unique = rota_str_of(longest, sizeof longest)};
    assert_bound(world, "Add", &ROTA_QUEUE_ADD, &add_needy, "unique", "256");
}

static void a_priority_is_set_within_its_bounds(void **state)
{
    static const int64_t FINE[] = {INT16_MIN, INT16_MAX, 7};
    static const int64_t WRONG[] = {INT16_MIN - 1, INT16_MAX + 1, INT64_MAX};
    struct world *world = *state;
    static struct told told;
    struct rota_queue_description seen;
    struct name name = must_add(world, "jobs", "x");
    struct rota_queue_about about = {.queue = JOBS, .id = id_of(&name)};
    for (size_t i = 0; i < sizeof FINE / sizeof FINE[0]; i++) {
        about.priority = FINE[i];
        assert_int_equal(ask(world, "SetPriority", &ROTA_QUEUE_PRIORITY, &about, &told),
                         ROTA_STATUS_OK);
        about.priority = WRONG[i];
        assert_bound(world, "SetPriority", &ROTA_QUEUE_PRIORITY, &about, "priority", "32767");
        assert_int_equal(ask(world, "Describe", &ROTA_QUEUE_DESCRIBE, &about, &told),
                         ROTA_STATUS_OK);
        read_reply(world, &ROTA_QUEUE_DESCRIPTION, &told, &seen);
        const struct rota_queue_job_info *info = seen.job;
        const struct rota_queue_job_spec *spec = info->spec;
        assert_int_equal(spec->priority, FINE[i]);
    }
}

static void a_payload_over_the_limit_is_refused(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct name name;
    size_t size = ROTA_JOB_PAYLOAD_MAX;
    char *payload = calloc(1, (size_t)64 << 20);
    assert_non_null(payload);
    struct rota_queue_job_spec spec = {.queue = JOBS, .payload = rota_str_of(payload, size + 1)};
    assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_INVALID_ARGUMENT);
    spec.payload.size = (size_t)64 << 20;
    assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_RESOURCE_EXHAUSTED);
    spec.payload.size = size;
    assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_OK);
    free(payload);
}

static void jobs_of_a_node_come_as_a_whole_or_not_at_all(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct rota_buffer jobs = {0};
    struct rota_journal_batch batch = {0};
    struct rota_job_spec spec = {.queue = rota_str("q"), .id = {0x10000, 7}, .max_attempts = 5};
    struct rota_work_record record = {
        .type = ROTA_WORK_JOB, .id = spec.id, .queue = spec.queue, .spec = &spec, .at = ROTA_SEC};
    rota_queue_message_write_jobs(&batch, &record, &jobs);
    struct rota_queue_adopt adopt = {.queue = rota_str("q"), .jobs = rota_buffer_str(&jobs)};
    assert_int_equal(ask(world, "/rota.peer.v1.QueuePeer/Adopt", &ROTA_QUEUE_ADOPT, &adopt, &told),
                     ROTA_STATUS_INVALID_ARGUMENT); /* without a name */
    adopt.name = rota_str("0123456789abcdef");
    for (size_t size = 1; size < jobs.size; size++) {
        adopt.jobs.size = size;
        assert_int_equal(
            ask(world, "/rota.peer.v1.QueuePeer/Adopt", &ROTA_QUEUE_ADOPT, &adopt, &told),
            ROTA_STATUS_INVALID_ARGUMENT);
    }
    adopt.jobs.size = jobs.size;
    adopt.partition = 1;
    assert_int_equal(ask(world, "/rota.peer.v1.QueuePeer/Adopt", &ROTA_QUEUE_ADOPT, &adopt, &told),
                     ROTA_STATUS_INVALID_ARGUMENT); /* of another partition than it says */
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 0);
    adopt.partition = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            ask(world, "/rota.peer.v1.QueuePeer/Adopt", &ROTA_QUEUE_ADOPT, &adopt, &told),
            ROTA_STATUS_OK);
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 1);
    rota_buffer_deinit(&jobs);
}

static void a_paused_queue_hands_nothing_out(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct rota_queue_handed job;
    struct rota_queue_setting pause = {.queue = JOBS, .is_paused = true};
    must_add(world, "jobs", "x");
    assert_int_equal(ask(world, "Pause", &ROTA_QUEUE_PAUSE, &pause, &told), ROTA_STATUS_OK);
    assert_int_equal(poll_jobs(world, 1, 0, &told, &job), 0);
    pause.is_paused = false;
    assert_int_equal(ask(world, "Pause", &ROTA_QUEUE_PAUSE, &pause, &told), ROTA_STATUS_OK);
    assert_int_equal(poll_jobs(world, 1, 0, &told, &job), 1);
}

static void a_draining_node_answers_polls_and_accepts_no_jobs(void **state)
{
    struct world *world = *state;
    static struct told told, waiting;
    struct rota_queue_poll request = a_poll(1, 60000);
    struct rota_queue_job_spec spec = {.queue = JOBS};
    struct name name;
    start(world, "Poll", &ROTA_QUEUE_POLL, &request, &waiting);
    must_add(world, "other", "x");
    rota_work_broker_drain(world->broker);
    await(&world->loop, &waiting.n_ends, 1);
    assert_int_equal(waiting.status, ROTA_STATUS_OK);
    assert_int_equal(waiting.size, 0);
    assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(ask(world, "Poll", &ROTA_QUEUE_POLL, &request, &told),
                     ROTA_STATUS_UNAVAILABLE);
}

/* In one batch, and later; also when the job has ended, and with its defaults spelt out. */
static void an_add_received_twice_creates_one_job(void **state)
{
    struct world *world = *state;
    static struct told told, other;
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_queue_handed job;
    struct rota_queue_job_spec jobs[] = {
        {.queue = JOBS, .payload = rota_str("first")},
        {.queue = JOBS, .payload = rota_str("first"), .max_attempts = 5}};
    jobs[0].id = jobs[1].id = rota_queue_message_id_write(rota_job_id_make(ROTA_SEC, 0, 5), id);
    struct rota_queue_list request = {.items = {jobs, 2}}, reply;
    assert_int_equal(ask(world, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &told),
                     ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_ADD_BATCH_REPLY, &told, &reply);
    const struct rota_queue_added *added = reply.items.items;
    assert_true(added[0].is_new && !added[1].is_new);
    assert_true(!added[0].status && !added[1].status);
    assert_int_equal(poll_jobs(world, 2, 0, &told, &job), 1);
    assert_true(rota_str_is_equal(job.payload, rota_str("first")));
    assert_int_equal(complete(world, &job, "", &other), ROTA_STATUS_OK);
    assert_int_equal(ask(world, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &other),
                     ROTA_STATUS_OK);
    assert_int_equal(poll_jobs(world, 1, 0, &told, &job), 0); /* it is done, and stays so */
}

static void an_id_that_another_job_has_is_refused(void **state)
{
    struct world *world = *state;
    static struct told told, other;
    char id[ROTA_QUEUE_ID_SIZE];
    struct name name;
    struct rota_queue_handed job;
    struct rota_queue_job_spec jobs[] = {{.queue = JOBS, .payload = rota_str("first")},
                                         {.queue = JOBS, .payload = rota_str("second")},
                                         {.queue = JOBS, .payload = rota_str("third")}};
    jobs[0].id = jobs[1].id = rota_queue_message_id_write(rota_job_id_make(ROTA_SEC, 0, 5), id);
    struct rota_queue_list request = {.items = {jobs, 3}}, reply;
    assert_int_equal(ask(world, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &told),
                     ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_ADD_BATCH_REPLY, &told, &reply);
    const struct rota_queue_added *added = reply.items.items;
    assert_true(added[0].is_new && !added[1].is_new && added[2].is_new);
    assert_int_equal(added[1].status, ROTA_STATUS_ALREADY_EXISTS);
    assert_false(added[1].may_go_elsewhere);
    assert_int_equal(add(world, jobs[1], &name, NULL, &told), ROTA_STATUS_ALREADY_EXISTS);
    assert_int_equal(add(world, jobs[0], &name, NULL, &told), ROTA_STATUS_OK);
    assert_int_equal(poll_jobs(world, 3, 0, &told, &job), 2);
    assert_true(rota_str_is_equal(job.payload, rota_str("first")));
    assert_int_equal(complete(world, &job, "", &other), ROTA_STATUS_OK); /* and is still known */
    assert_int_equal(add(world, jobs[1], &name, NULL, &told), ROTA_STATUS_ALREADY_EXISTS);
    assert_int_equal(add(world, jobs[0], &name, NULL, &told), ROTA_STATUS_OK);
}

static void assert_news(struct world *world, const struct told *watching, const struct name *name,
                        enum rota_job_state job_state)
{
    struct rota_queue_news news;
    read_reply(world, &ROTA_QUEUE_NEWS, watching, &news);
    const struct rota_queue_job_info *info = news.job;
    const struct rota_queue_job_spec *spec = info->spec;
    assert_memory_equal(spec->id.data, name->bytes, sizeof name->bytes);
    assert_int_equal(info->state, job_state);
    assert_int_equal(news.n_missed, 0);
}

static void a_watch_of_a_queue_reports_all_its_jobs(void **state)
{
    struct world *world = *state;
    static struct told told, watching, other;
    struct rota_queue_handed job;
    struct rota_queue_about about = {.queue = JOBS};
    struct rota_call *call = start(world, "Watch", &ROTA_QUEUE_NAME, &about, &watching);
    await_watchers(world, 1);
    must_add(world, "other", "of no interest");
    struct name name = must_add(world, "jobs", "x");
    await(&world->loop, &watching.n_messages, 1);
    assert_news(world, &watching, &name, ROTA_JOB_WAITING);
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &job), 1);
    await(&world->loop, &watching.n_messages, 2);
    assert_news(world, &watching, &name, ROTA_JOB_RUNNING);
    struct rota_queue_about about_job = {
        .queue = job.queue, .id = job.id, .attempt = job.attempt, .retry_after_ms = 3600000};
    assert_int_equal(ask(world, "Fail", &ROTA_QUEUE_FAIL, &about_job, &other), ROTA_STATUS_OK);
    await(&world->loop, &watching.n_messages, 3);
    assert_news(world, &watching, &name, ROTA_JOB_DELAYED);
    assert_int_equal(ask(world, "Cancel", &ROTA_QUEUE_NAME, &about_job, &other), ROTA_STATUS_OK);
    await(&world->loop, &watching.n_messages, 4);
    assert_news(world, &watching, &name, ROTA_JOB_CANCELLED);
    assert_int_equal(watching.n_ends, 0);
    rota_call_cancel(call);
    await_watchers(world, 0);
}

/* What a watcher has heard that does not always read. */
struct heard {
    struct rota_call *call;
    size_t n_messages, n_missed, n_ends;
    enum rota_status status;
    enum rota_job_state state; /* the last */
    char result[16], progress[16];
};

static void on_heard(void *data, struct rota_call *call, struct rota_str message)
{
    struct heard *heard = data;
    struct rota_arena arena = {0};
    struct rota_queue_news news;
    (void)call;
    assert_int_equal(rota_message_decode(&ROTA_QUEUE_NEWS, message, &news, &arena, NULL), ROTA_OK);
    const struct rota_queue_job_info *info = news.job;
    heard->n_messages++;
    heard->n_missed += news.n_missed;
    heard->state = (enum rota_job_state)info->state;
    snprintf(heard->result, sizeof heard->result, "%.*s", ROTA_STR_ARGS(info->result));
    snprintf(heard->progress, sizeof heard->progress, "%.*s", ROTA_STR_ARGS(info->progress));
    rota_arena_deinit(&arena);
}

static void on_heard_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct heard *heard = data;
    (void)call;
    heard->n_ends++;
    heard->status = result->status;
}

static void watch(struct world *world, struct rota_queue_about about, struct heard *heard)
{
    struct rota_buffer buffer = {0};
    rota_message_encode(&ROTA_QUEUE_NAME, &about, &buffer);
    const struct rota_call_options options = {.method = rota_str("/rota.v1.Queue/Watch"),
                                              .request = rota_buffer_str(&buffer),
                                              .on_message = on_heard,
                                              .on_end = on_heard_end,
                                              .data = heard};
    *heard = (struct heard){0};
    assert_int_equal(rota_channel_call(world->channel, &options, &heard->call, NULL), ROTA_OK);
    rota_buffer_deinit(&buffer);
    await_watchers(world, 1);
}

/* What does not fit is counted, so that it knows that there was more. */
static void a_slow_watcher_of_a_queue_learns_how_much_it_missed(void **state)
{
    enum { BATCH = 1000, BATCHES = 36 };
    struct world *world = *state;
    static struct told told;
    static struct rota_queue_job_spec jobs[BATCH];
    struct rota_queue_list request = {.items = {jobs, BATCH}};
    struct heard heard;
    char name[200];
    memset(name, 'q', sizeof name - 1); /* each news has it: few of them fill what may wait */
    name[sizeof name - 1] = '\0';
    watch(world, (struct rota_queue_about){.queue = rota_str(name)}, &heard);
    rota_call_pause(heard.call);
    for (size_t i = 0; i < BATCH; i++)
        jobs[i] = (struct rota_queue_job_spec){.queue = rota_str(name)};
    for (size_t i = 0; i < BATCHES; i++)
        assert_int_equal(ask(world, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &told),
                         ROTA_STATUS_OK);
    assert_int_equal(heard.n_messages, 0);
    rota_call_resume(heard.call);
    size_t n_added = BATCH * BATCHES;
    while (heard.n_missed == 0) { /* which the next news says, once there is room for it */
        must_add(world, name, "one more");
        n_added++;
    }
    while (heard.n_messages + heard.n_missed < n_added)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(heard.n_messages + heard.n_missed, n_added);
    rota_call_cancel(heard.call);
    await_watchers(world, 0);
}

/* It hears less often, and always of the end. */
static void a_slow_watcher_of_a_job_gets_its_last_state(void **state)
{
    enum { STEPS = 8000 };
    struct world *world = *state;
    static struct told told, other;
    struct rota_queue_handed job;
    struct heard heard;
    struct name name = must_add(world, "jobs", "x");
    watch(world, (struct rota_queue_about){.queue = JOBS, .id = id_of(&name)}, &heard);
    await(&world->loop, &heard.n_messages, 1);
    rota_call_pause(heard.call);
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &job), 1);
    for (int i = 1; i <= STEPS; i++) {
        char progress[900];
        snprintf(progress, sizeof progress, "step %-880d", i);
        struct rota_queue_about step = {.queue = job.queue,
                                        .id = job.id,
                                        .attempt = job.attempt,
                                        .lease_ms = 60000,
                                        .bytes = rota_str(progress)};
        assert_int_equal(ask(world, "Extend", &ROTA_QUEUE_EXTEND, &step, &other), ROTA_STATUS_OK);
    }
    assert_int_equal(heard.n_messages, 1);
    rota_call_resume(heard.call);
    while (strncmp(heard.progress, "step 8000 ", 10) != 0)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_true(heard.n_messages < STEPS); /* not each of them */
    assert_int_equal(complete(world, &job, "the end", &other), ROTA_STATUS_OK);
    await(&world->loop, &heard.n_ends, 1);
    assert_int_equal(heard.status, ROTA_STATUS_OK);
    assert_int_equal(heard.state, ROTA_JOB_DONE);
    assert_string_equal(heard.result, "the end");
}

static void keys_share_a_queue_by_their_weights(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct rota_queue_setting weight = {.queue = JOBS, .key = rota_str("heavy"), .weight = 3000};
    struct rota_queue_poll request = a_poll(8, 0);
    struct rota_queue_list reply;
    struct name name;
    size_t n_heavy = 0;
    must_add(world, "jobs", "of no key");
    assert_int_equal(ask(world, "SetWeight", &ROTA_QUEUE_WEIGHT, &weight, &told), ROTA_STATUS_OK);
    for (int i = 0; i < 16; i++) {
        struct rota_queue_job_spec spec = {.queue = JOBS,
                                           .key = rota_str(i % 2 ? "heavy" : "light")};
        assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_OK);
    }
    assert_int_equal(ask(world, "Poll", &ROTA_QUEUE_POLL, &request, &told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_POLL_REPLY, &told, &reply);
    const struct rota_queue_handed *jobs = reply.items.items;
    assert_int_equal(reply.items.n, 8);
    for (size_t i = 0; i < reply.items.n; i++)
        n_heavy += rota_str_is_equal(jobs[i].key, rota_str("heavy"));
    assert_in_range(n_heavy, 5, 6); /* of 7 or 8 that have a key */
    weight.weight = 0;
    assert_int_equal(ask(world, "SetWeight", &ROTA_QUEUE_WEIGHT, &weight, &told),
                     ROTA_STATUS_INVALID_ARGUMENT);
    weight.weight = UINT32_MAX;
    assert_int_equal(ask(world, "SetWeight", &ROTA_QUEUE_WEIGHT, &weight, &told),
                     ROTA_STATUS_INVALID_ARGUMENT);
}

static void workers_are_listed_while_they_wait_and_work(void **state)
{
    struct world *world = *state;
    static struct told told, waiting;
    struct rota_queue_poll request = a_poll(7, 60000);
    struct rota_queue_list reply;
    struct rota_queue_setting nothing = {0};
    start(world, "Poll", &ROTA_QUEUE_POLL, &request, &waiting);
    while (rota_work_broker_counts(world->broker).polls == 0)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(ask(world, "Workers", &ROTA_QUEUE_PAUSE, &nothing, &told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_WORKERS_REPLY, &told, &reply);
    const struct rota_queue_worker_info *worker = reply.items.items;
    assert_int_equal(reply.items.n, 1);
    assert_true(rota_str_is_equal(worker->name, rota_str("w1")));
    assert_int_equal(worker->slots, 7);
    assert_int_equal(worker->n_running, 0);
    must_add(world, "jobs", "x");
    await(&world->loop, &waiting.n_ends, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_added_polled_and_completed),
        TEST(a_poll_waits_for_a_job),
        TEST(a_poll_without_a_job_returns_an_empty_list),
        TEST(an_unused_queue_is_forgotten),
        TEST(a_poll_that_is_dropped_takes_no_job),
        TEST(a_repeated_add_creates_one_job),
        TEST(a_stale_attempt_is_refused),
        TEST(a_watch_of_a_job_reports_its_end),
        TEST(a_batch_answers_for_each_job),
        TEST(a_batch_of_completions_answers_for_each),
        TEST(hostile_requests_are_refused_with_a_sentence),
        TEST(oversized_requests_are_refused_with_field_and_bound),
        TEST(a_priority_is_set_within_its_bounds),
        TEST(a_payload_over_the_limit_is_refused),
        TEST(jobs_of_a_node_come_as_a_whole_or_not_at_all),
        TEST(a_paused_queue_hands_nothing_out),
        TEST(a_draining_node_answers_polls_and_accepts_no_jobs),
        TEST(an_add_received_twice_creates_one_job),
        TEST(an_id_that_another_job_has_is_refused),
        TEST(a_watch_of_a_queue_reports_all_its_jobs),
        TEST(a_slow_watcher_of_a_queue_learns_how_much_it_missed),
        TEST(a_slow_watcher_of_a_job_gets_its_last_state),
        TEST(keys_share_a_queue_by_their_weights),
        TEST(workers_are_listed_while_they_wait_and_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
