/* What has threads and files, opened while memory runs out: it fails with a reason, or works in the
 * end, and leaves nothing behind. */
#include "no_memory.h"

#include "await.h"
#include "io/net/http.h"
#include "run/call/cache.h"
#include "run/call/directory.h"
#include "run/call/space_directory.h"
#include "run/own/space_service.h"

#include <rota/experimental/broker.h>
#include <rota/experimental/config_watch.h>
#include <rota/experimental/health.h>
#include <rota/experimental/lease.h>
#include <rota/experimental/members.h>
#include <rota/experimental/queue_watch.h>
#include <rota/experimental/reflection.h>
#include <rota/server.h>
#include <rota/space.h>
#include <rota/store.h>

#include <stdio.h>
#include <unistd.h>

static uv_loop_t loop;
static struct rota_error error;
static char folder[] =
    "/dev/shm/rota-memory-XXXXXX"; /* hundreds of times: it need not outlive us */
static size_t n_told, n_closed;

/* Keeps the loop from sleeping when it has nothing to do. */
static uv_timer_t ticking;

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void begin(void)
{
    n_told = n_closed = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &ticking);
    uv_timer_start(&ticking, on_tick, 1, 1);
}

static void end(void)
{
    uv_close((uv_handle_t *)&ticking, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* Whether it was opened. */
static bool is_open(enum rota_code code)
{
    if (!code)
        return true;
    assert_true(no_memory_has_failed());
    assert_int_equal(error.code, code);
    assert_true(error.text[0]);
    return false;
}

#define OPEN(call) is_open(NO_MEMORY_IN(call))

/* For a moment without memory, and then with it until all is well. */
static void run_until(const size_t *n)
{
    no_memory_arm();
    for (int i = 0; i < 20 && !*n; i++)
        uv_run(&loop, UV_RUN_ONCE);
    no_memory_disarm();
    no_memory_end();
    await(&loop, n, 1);
}

static void on_closed(void *data)
{
    (void)data;
    n_closed++;
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *url(void)
{
    static char text[128];
    snprintf(text, sizeof text, "sqlite:%s/store.db", folder);
    return text;
}

/* --- watched files --- */

static void files_scenario(void)
{
    struct rota_members_source *source = NULL;
    struct rota_members *members = NULL;
    struct rota_config_watch *config = NULL;
    struct rota_queue_watch *queue = NULL;
    begin();
    if (OPEN(rota_hosts_watch_new(path_of("hosts"), &source, &error)) &&
        OPEN(rota_members_open(&loop, source, NULL, &members, &error))) {
        struct rota_ring *ring = rota_members_ring(members);
        size_t n;
        rota_members_list(members, &n);
        assert_int_equal(n, 2);
        rota_ring_unref(ring);
        (void)OPEN(rota_members_drain(members, rota_str("127.0.0.1:1"), &error));
    }
    const struct rota_config_watch_options options = {.path = path_of("config")};
    const struct rota_queue_watch_options of_queue = {.namespace_id = rota_str("n"),
                                                      .queue = rota_str("q")};
    if (OPEN(rota_config_watch_open(&loop, &options, &config, &error)))
        (void)OPEN(rota_queue_watch_open(&loop, config, &of_queue, &queue, &error));
    rota_queue_watch_close(queue);
    rota_config_watch_close(config);
    rota_members_close(members);
    end();
}

static void watched_files(void **state)
{
    (void)state;
    await_write(path_of("hosts"), "127.0.0.1:1\n127.0.0.1:2\n");
    await_write(path_of("config"), "");
    no_memory_everywhere(files_scenario);
}

/* --- the store, and what lives on it --- */

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    (void)data, (void)shard;
    assert_true(epoch > 0);
    n_told++;
}

static void lease_scenario(void)
{
    const struct rota_store_options options = {.url = url()};
    const struct rota_lease_options wish = {.space = "s",
                                            .dc = "d",
                                            .host = "h",
                                            .shards = 2,
                                            .wanted = 2,
                                            .is_alone = true,
                                            .loss = ROTA_LEASE_LOSS_STANDBY,
                                            .on_start = on_start};
    struct rota_store *store = NULL;
    struct rota_lease *lease = NULL;
    begin();
    if (OPEN(rota_store_open(&loop, &options, &store, &error)) &&
        OPEN(rota_lease_open(&loop, store, &wish, &lease, &error))) {
        run_until(&n_told);
        await(&loop, &n_told, 2); /* both shards */
        rota_lease_close(lease, on_closed, NULL);
        await(&loop, &n_closed, 1);
    }
    rota_store_close(store);
    end();
}

static void a_lease(void **state)
{
    (void)state;
    no_memory_each(lease_scenario,
                   false); /* a store without any memory waits before it tries again */
}

static void space_scenario(void)
{
    const struct rota_store_options options = {.url = url()};
    const struct rota_space_options wish = {.name = "places",
                                            .member = "127.0.0.1:9",
                                            .engine = "ring",
                                            .n_shards = 4,
                                            .is_alone = true,
                                            .ttl = 300 * ROTA_MSEC,
                                            .on_start = on_start};
    struct rota_store *store = NULL;
    struct rota_space *space = NULL;
    begin();
    if (OPEN(rota_store_open(&loop, &options, &store, &error)) &&
        OPEN(rota_space_open(&loop, store, &wish, &space, &error))) {
        run_until(&n_told);
        await(&loop, &n_told, 4);
        rota_space_close(space, on_closed, NULL);
        await(&loop, &n_closed, 1);
    }
    rota_store_close(store);
    end();
}

static void a_space(void **state)
{
    (void)state;
    no_memory_each(space_scenario, false);
}

/* --- where a cache reads --- */

static void sources_scenario(void)
{
    const struct rota_cache_source_options with = {0};
    struct rota_cache_source *file = NULL, *table = NULL;
    struct rota_cache *cache = NULL;
    begin();
    if (OPEN(rota_cache_file_open(&loop, path_of("pairs"), &with, &file, &error)) &&
        OPEN(rota_cache_sql_open(&loop, url(), "pairs:k:v", &with, &table, &error))) {
        const struct rota_cache_options options = {.source = file, .memory = 1 << 20, .seed = 1};
        (void)OPEN(rota_cache_open(&options, &cache, &error));
    }
    if (table)
        table->close(table);
    if (file)
        file->close(file);
    rota_cache_close(cache);
    end();
}

static void sources_of_a_cache(void **state)
{
    (void)state;
    await_write(path_of("pairs"), "a\tb\n");
    no_memory_everywhere(sources_scenario);
}

/* --- what a server serves beside --- */

static void on_nothing(void *data)
{
    (void)data;
}

static void on_done(void *data, struct rota_str space, const char *text, const char *actor)
{
    (void)data, (void)space, (void)text, (void)actor;
}

static void services_scenario(void)
{
    struct rota_server *server = NULL;
    struct rota_health *health = NULL;
    struct rota_reflection *reflection = NULL;
    struct rota_directory *shards = NULL;
    struct rota_space_directory *spaces = NULL;
    struct rota_space_service *service = NULL;
    begin();
    if (OPEN(rota_server_open(&loop, NULL, &server, &error)) &&
        OPEN(rota_health_open(server, &health, &error)) &&
        OPEN(rota_health_set(health, "rota.v1.Queue", true, &error)) &&
        OPEN(rota_reflection_open(server, NULL, 0, &reflection, &error)) &&
        OPEN(rota_directory_open(server, &shards, &error)) &&
        OPEN(rota_space_service_open(server, NULL, on_done, NULL, &service, &error)))
        (void)OPEN(rota_space_directory_open(&loop, server, on_nothing, NULL, &spaces, &error));
    if (spaces)
        rota_space_directory_end(spaces);
    if (service)
        rota_space_service_end(service);
    rota_server_close(server);
    rota_space_directory_close(spaces);
    rota_space_service_close(service);
    rota_directory_close(shards);
    rota_reflection_close(reflection);
    rota_health_close(health);
    end();
}

static void services_of_a_server(void **state)
{
    (void)state;
    no_memory_everywhere(services_scenario);
}

/* --- brokers with journals --- */

/* Takes the members. */
static void open_broker(const struct rota_work_broker_options *options)
{
    const struct rota_server_options of_server = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    struct rota_server *server = NULL;
    struct rota_work_broker *broker = NULL;
    if (!OPEN(rota_server_open(&loop, &of_server, &server, &error))) {
        if (options->members)
            options->members->stop(options->members);
    } else if (OPEN(rota_work_broker_open(&loop, server, options, &broker, &error))) {
        no_memory_end();
        for (int i = 0; i < 3; i++)
            uv_run(&loop, UV_RUN_ONCE);
    }
    rota_server_close(server);
    rota_work_broker_close(broker);
}

static void broker_scenario(void)
{
    char directory[128];
    snprintf(directory, sizeof directory, "%s", path_of("jobs"));
    const struct rota_work_broker_options options = {
        .directory = directory, .partitions = 1, .segment_size = 65536};
    begin();
    open_broker(&options);
    end();
}

static void member_scenario(void)
{
    char settings[128];
    snprintf(settings, sizeof settings, "%s", path_of("config"));
    struct rota_work_broker_options options = {
        .is_memory = true, .advertise = "127.0.0.1:1", .settings_file = settings};
    begin();
    if (OPEN(rota_hosts_list_new("127.0.0.1:1,127.0.0.1:2", &options.members, &error)))
        open_broker(&options);
    end();
}

static void a_broker_with_a_journal(void **state)
{
    (void)state;
    no_memory_everywhere(broker_scenario);
}

static void a_broker_among_others(void **state)
{
    (void)state;
    await_write(path_of("config"), "");
    no_memory_everywhere(member_scenario);
}

/* --- HTTP --- */

static void on_request(void *data, struct rota_http_request *request)
{
    const struct rota_http_field field = {"X-Test", "yes"};
    (void)data;
    rota_http_answer(request, 200, &field, 1, rota_http_body(request));
    n_told++;
}

static char heard[1024];
static size_t n_heard, n_ended;

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    (void)handle, (void)size;
    *buffer = uv_buf_init(heard + n_heard, (unsigned)(sizeof heard - 1 - n_heard));
}

static void on_heard(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    (void)buffer;
    n_heard += size > 0 ? (size_t)size : 0;
    heard[n_heard] = '\0';
    if (size >= 0)
        return;
    uv_close((uv_handle_t *)stream, NULL);
    n_ended++;
}

static void on_connect(uv_connect_t *connect, int status)
{
    static const char text[] = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                               "Connection: close\r\n\r\nhello";
    uv_buf_t bytes = uv_buf_init((char *)(uintptr_t)text, sizeof text - 1);
    assert_int_equal(status, 0);
    assert_int_equal(uv_try_write(connect->handle, &bytes, 1), sizeof text - 1);
    uv_read_start(connect->handle, on_room, on_heard);
}

/* Whether it was answered; if not, the connection has ended. */
static bool request(const char *address)
{
    struct sockaddr_in to;
    uv_tcp_t tcp;
    uv_connect_t connect;
    n_heard = n_ended = 0;
    uv_ip4_addr("127.0.0.1", atoi(strrchr(address, ':') + 1), &to);
    uv_tcp_init(&loop, &tcp);
    assert_int_equal(uv_tcp_connect(&connect, &tcp, (struct sockaddr *)&to, on_connect), 0);
    no_memory_arm();
    while (!n_ended)
        uv_run(&loop, UV_RUN_ONCE);
    no_memory_disarm();
    uv_run(&loop, UV_RUN_NOWAIT);
    return strstr(heard, "X-Test: yes") && strstr(heard, "hello");
}

static void http_scenario(void)
{
    const struct rota_http_handler handler = {.on_request = on_request};
    struct rota_http *http = NULL;
    begin();
    if (OPEN(rota_http_open(&loop, "127.0.0.1:0", NULL, &handler, &http, &error))) {
        assert_true(request(rota_http_address(http)) || no_memory_has_failed());
        no_memory_end();
        assert_true(request(rota_http_address(http)));
        rota_http_close(http);
    }
    end();
}

static void a_server_for_browsers(void **state)
{
    (void)state;
    no_memory_everywhere(http_scenario);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watched_files),
        cmocka_unit_test(a_server_for_browsers),
        cmocka_unit_test(a_broker_with_a_journal),
        cmocka_unit_test(a_broker_among_others),
        cmocka_unit_test(sources_of_a_cache),
        cmocka_unit_test(services_of_a_server),
        cmocka_unit_test(a_lease),
        cmocka_unit_test(a_space),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
