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

/* --- settings: rows, of which the journal has a copy --- */

static void set_paused(struct world *world, bool is_paused)
{
    static struct told told;
    const struct rota_queue_setting pause = {.queue = JOBS, .is_paused = is_paused};
    assert_int_equal(ask(world, "Pause", &ROTA_QUEUE_PAUSE, &pause, &told), ROTA_STATUS_OK);
}

static bool is_paused(struct world *world)
{
    static struct told told;
    struct rota_queue_list list;
    const struct rota_queue_page page = {.queue = JOBS};
    assert_int_equal(ask(world, "Queues", &ROTA_QUEUE_PAGE, &page, &told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_QUEUES_REPLY, &told, &list);
    return list.items.n == 1 && ((const struct rota_queue_info *)list.items.items)->is_paused;
}

static void restart_with(struct place *place, const char *settings_url)
{
    world_close(&place->world);
    place->world = (struct world){.settings_url = settings_url};
    open_world(place);
}

/* It was opened without a store first, as by a program before there were rows. */
static void settings_of_a_journal_become_rows_which_count_from_then_on(void **state)
{
    struct place *place = *state;
    struct world *world = &place->world;
    char folder[] = "/tmp/rota-rows-XXXXXX", url[64], other[64], command[64];
    assert_non_null(mkdtemp(folder));
    snprintf(url, sizeof url, "sqlite:%s/store.db", folder);
    snprintf(other, sizeof other, "sqlite:%s/other.db", folder);
    set_paused(world, true);
    restart_with(place, url);
    assert_true(is_paused(world));
    set_paused(world, false); /* after the row that says that it is paused */
    set_paused(world, true);
    restart_with(place, NULL); /* the journal alone */
    assert_true(is_paused(world));
    set_paused(world, false);
    restart_with(place, url);
    assert_true(is_paused(world)); /* the row wins */
    set_paused(world, false);
    restart_with(place, other); /* a new store takes what the node has: nothing */
    assert_false(is_paused(world));
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* Two at once: the second is computed when the first is written, and before the route follows. */
static void changes_of_a_layout_that_come_together_are_both_kept(void **state)
{
    struct place *place = *state;
    struct world *world = &place->world;
    static struct told told[3];
    const struct rota_queue_lay_out wishes[] = {
        {.queue = JOBS, .partitions = 8},
        {.queue = JOBS, .has_spread = true, .is_slots = true, .batch = 2},
        {.queue = JOBS, .partitions = 8}};
    struct rota_queue_laid_out reply;
    char file[] = "/tmp/rota-rows-XXXXXX", url[64];
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    snprintf(url, sizeof url, "sqlite:%s", file);
    restart_with(place, url);
    for (size_t i = 0; i < 3; i++)
        start(world, "SetLayout", &ROTA_QUEUE_SET_LAYOUT, &wishes[i], &told[i]);
    for (size_t i = 0; i < 3; i++) {
        await(&world->loop, &told[i].n_ends, 1);
        assert_int_equal(told[i].status, ROTA_STATUS_OK);
    }
    read_reply(world, &ROTA_QUEUE_LAID_OUT, &told[2], &reply);
    assert_int_equal(reply.wanted, 8);
    assert_int_equal(reply.read, 8);
    assert_int_equal(reply.batch, 2);
    unlink(file);
}

/* The store can't even be opened: a journal that has jobs is served all the same. */
static void a_journal_is_served_with_its_copy_while_the_store_is_unreachable(void **state)
{
    struct place *place = *state;
    struct world *world = &place->world;
    static struct told told;
    struct rota_queue_handed job;
    must_add(world, "other", "x");
    set_paused(world, true);
    must_add(world, "jobs", "x");
    restart_with(place, "postgres://nobody@127.0.0.1:1/nothing");
    assert_true(is_paused(world));
    must_add(world, "jobs", "y");
    assert_int_equal(poll_jobs(world, 1, 1000, &told, &job), 0);
    const struct rota_queue_setting resume = {.queue = JOBS};
    assert_int_equal(ask(world, "Pause", &ROTA_QUEUE_PAUSE, &resume, &told),
                     ROTA_STATUS_UNAVAILABLE);
    assert_non_null(strstr(told.text, "nothing was changed"));
    assert_true(is_paused(world));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_call_is_answered_once_and_is_on_disk),
        TEST(next_broker_knows_the_outcome_of_each_job),
        TEST(invalid_directory_is_reported),
        TEST(settings_of_a_journal_become_rows_which_count_from_then_on),
        TEST(changes_of_a_layout_that_come_together_are_both_kept),
        TEST(a_journal_is_served_with_its_copy_while_the_store_is_unreachable),
    };
    return cmocka_run_group_tests_name("broker_journal", tests, NULL, NULL);
}
