/* A broker whose jobs are in a journal: what is acknowledged is on disk, and the next broker has
 * it. */
#include "queue_world.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS = 240, AT_ONCE = 8 };

struct place {
    struct world world;
    char directory[64];
};

static void open_world(struct place *place)
{
    struct rota_work_broker_options options = {.directory = place->directory, .partitions = 4};
    world_open(&place->world, &options);
}

static void restart(struct place *place)
{
    world_close(&place->world);
    place->world = (struct world){0};
    open_world(place);
}

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    strcpy(place->directory, "/tmp/rota-journal-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    open_world(place);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    char path[400];
    world_close(&place->world);
    DIR *directory = opendir(place->directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        snprintf(path, sizeof path, "%s/%s", place->directory, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    assert_int_equal(rmdir(place->directory), 0);
    free(place);
    return 0;
}

/* Turns follow one another while the records of earlier ones are written. */
static void each_call_is_answered_once_and_is_on_disk(void **state)
{
    struct place *place = *state;
    static struct told told[CALLS];
    struct rota_queue_job_spec spec = {.queue = JOBS, .payload = rota_str("x")};
    struct rota_queue_add request = {.job = &spec};
    size_t n_ends = 0;
    for (size_t i = 0; i < CALLS; i++) {
        start(&place->world, "Add", &ROTA_QUEUE_ADD, &request, &told[i]);
        if (i % AT_ONCE == AT_ONCE - 1)
            uv_run(&place->world.loop, UV_RUN_NOWAIT);
    }
    for (size_t i = 0; i < CALLS; i++)
        await(&place->world.loop, &told[i].n_ends, 1);
    struct rota_work_broker_counts counts = rota_work_broker_counts(place->world.broker);
    assert_int_equal(counts.jobs, CALLS);
    assert_true(counts.durable_total >= CALLS);
    assert_true(counts.durable_total <= counts.records_total);
    restart(place);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(told[i].status, ROTA_STATUS_OK);
        n_ends += told[i].n_ends;
    }
    assert_int_equal(n_ends, CALLS);
    assert_int_equal(rota_work_broker_counts(place->world.broker).jobs, CALLS);
}

static void next_broker_knows_the_outcome_of_each_job(void **state)
{
    struct place *place = *state;
    struct world *world = &place->world;
    static struct told told, other;
    struct rota_queue_handed done, running;
    struct name names[3];
    for (int i = 0; i < 3; i++)
        names[i] = must_add(world, "jobs", i == 0 ? "first" : "x");
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &done), 1);
    assert_int_equal(complete(world, &done, "result", &other), ROTA_STATUS_OK);
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &running), 1);
    struct name name;
    memcpy(name.bytes, running.id.data, sizeof name.bytes);
    struct rota_queue_handed kept = {.queue = JOBS, .id = id_of(&name), .attempt = running.attempt};
    must_add(world, "other", "x"); /* which is on disk when what was before is */
    restart(place);
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 3);
    struct rota_queue_job_info info = describe(world, &names[0], &told);
    assert_int_equal(info.state, ROTA_JOB_DONE);
    assert_true(rota_str_is_equal(info.result, rota_str("result")));
    info = describe(world, &name, &told);
    assert_int_equal(info.state, ROTA_JOB_RUNNING);
    assert_int_equal(complete(world, &kept, "late", &other), ROTA_STATUS_OK);
    info = describe(world, &name, &told);
    assert_int_equal(info.state, ROTA_JOB_DONE);
    restart(place);
    info = describe(world, &name, &told);
    assert_true(rota_str_is_equal(info.result, rota_str("late")));
    assert_int_equal(rota_work_broker_counts(world->broker).jobs, 2);
}

static void invalid_directory_is_reported(void **state)
{
    struct place *place = *state;
    struct rota_work_broker_options options = {.directory = "/dev/null/journal"};
    struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    struct rota_work_broker *broker = NULL;
    struct rota_server *server;
    struct rota_error error;
    assert_int_equal(rota_server_open(&place->world.loop, &with, &server, NULL), ROTA_OK);
    assert_true(rota_work_broker_open(&place->world.loop, server, &options, &broker, &error));
    assert_non_null(strstr(error.text, "/dev/null/journal"));
    options.directory = place->directory; /* which another broker has */
    assert_true(rota_work_broker_open(&place->world.loop, server, &options, &broker, &error));
    assert_non_null(strstr(error.text, place->directory));
    assert_null(broker);
    rota_server_close(server);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_call_is_answered_once_and_is_on_disk),
        TEST(next_broker_knows_the_outcome_of_each_job),
        TEST(invalid_directory_is_reported),
    };
    return cmocka_run_group_tests_name("broker_journal", tests, NULL, NULL);
}
