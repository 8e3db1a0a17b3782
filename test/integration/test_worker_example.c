/* The worker in Python, examples/worker.py, against a broker's connector: the protocol is
 * written down well enough. */
#include "connectors.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 100 };

static uv_loop_t loop;
static struct end broker;
static uint32_t jobs, ended;
static size_t n_ready, n_done, n_failed, n_steps;
static bool is_done[JOBS + 3]; /* by attempt: a worker that was starved says it again */
static uint32_t slots;
static bool is_answered; /* whether ends are confirmed */
static pid_t pid;
static const char *python;

static void on_ready(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    static struct rota_str capabilities[ROTA_WORKER_CAPABILITIES_MAX];
    static struct rota_str queues[ROTA_WORKER_QUEUES_MAX];
    static struct rota_worker_running running[ROTA_WORKER_SLOTS_MAX];
    struct rota_worker_ready ready = {capabilities, queues, running, 0, 0, 0, 0, false};
    struct rota_error error;
    (void)data, (void)from;
    if (rota_worker_batch_ready_read(message, &ready, &error))
        fail_msg("%s", error.text);
    assert_int_equal(ready.n_capabilities, 2);
    assert_true(rota_str_is_equal(ready.capabilities[0], rota_str("gpu")));
    assert_true(rota_str_is_equal(ready.queues[0], rota_str("texts")));
    slots = ready.slots;
    n_ready++;
}

static void on_ends(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_attempt_end end;
    struct rota_buffer body = {0};
    enum rota_code code;
    (void)data;
    while (rota_worker_batch_end_next(&batch, &end, &code, NULL)) {
        assert_in_range(end.attempt, 1, JOBS + 2);
        n_done += end.cause == ROTA_JOB_CAUSE_DONE && !is_done[end.attempt];
        is_done[end.attempt] |= end.cause == ROTA_JOB_CAUSE_DONE;
        n_failed += end.cause == ROTA_JOB_CAUSE_FAILED;
        if (end.cause == ROTA_JOB_CAUSE_DONE)
            assert_true(rota_str_is_equal(end.bytes, rota_str("SHOUT")) ||
                        rota_str_is_equal(end.bytes, rota_str("PROGRESS")));
        else
            assert_true(rota_str_is_equal(end.reason, rota_str("it was asked to fail")));
        struct rota_worker_verdict verdict = {end.queue, end.id, end.attempt, ROTA_OK};
        rota_worker_batch_verdict_write(&verdict, &body);
    }
    assert_int_equal(code, ROTA_OK);
    if (is_answered)
        rota_connector_send(broker.connector, from, ended, rota_buffer_str(&body), NULL);
    rota_buffer_deinit(&body);
}

static void on_progress(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct rota_worker_batch batch = rota_worker_batch(message);
    struct rota_worker_step step;
    enum rota_code code;
    (void)data, (void)from;
    while (rota_worker_batch_step_next(&batch, &step, &code, NULL))
        n_steps++;
    assert_int_equal(code, ROTA_OK);
}

static void open_broker(const char *address)
{
    struct rota_connector_options options = end_options(&broker, &loop);
    struct rota_error error;
    const struct {
        const char *name;
        rota_connector_on_message *on_message;
    } handlers[] = {{ROTA_WORKER_READY, on_ready},
                    {ROTA_WORKER_ENDS, on_ends},
                    {ROTA_WORKER_PROGRESS, on_progress}};
    memset(&broker, 0, sizeof broker);
    if (address)
        options.address = address;
    if (rota_connector_open_broker(&options, &broker.connector, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        uint32_t type;
        assert_int_equal(rota_connector_register(broker.connector, handlers[i].name, &type, &error),
                         0);
        assert_int_equal(rota_connector_register_handler_async(
                             broker.connector, type, handlers[i].on_message, NULL, &error),
                         0);
    }
    assert_int_equal(rota_connector_register(broker.connector, ROTA_WORKER_JOBS, &jobs, &error), 0);
    assert_int_equal(rota_connector_register(broker.connector, ROTA_WORKER_ENDED, &ended, &error),
                     0);
    if (rota_connector_start(broker.connector, &error))
        fail_msg("%s", error.text);
}

static void start_worker(void)
{
    pid = fork();
    if (pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that failed does not wait for it */
    execlp(python, python, WORKER_PY, rota_connector_address(broker.connector), "--queue", "texts",
           "--can", "gpu", "--can", "game=go", "--name", "snake", "--slots", "7", (char *)NULL);
    _exit(127);
}

static void send_job(const char *payload, uint64_t attempt)
{
    struct rota_worker_job job = {
        .queue = rota_str("texts"),
        .id = {1, attempt},
        .attempt = attempt,
        .n_attempts = 1,
        .payload = rota_str(payload),
    };
    struct rota_buffer body = {0};
    rota_worker_batch_job_write(&job, &body);
    assert_int_equal(
        rota_connector_send(broker.connector, broker.peer, jobs, rota_buffer_str(&body), NULL),
        ROTA_OK);
    rota_buffer_deinit(&body);
}

static void a_worker_in_python_serves_a_broker(void **state)
{
    char where[300];
    int status;
    (void)state;
    is_answered = true;
    open_broker(NULL);
    snprintf(where, sizeof where, "%s", rota_connector_address(broker.connector));
    start_worker();
    await(&loop, &n_ready, 1);
    assert_int_equal(slots, 7);
    for (uint64_t i = 1; i <= JOBS; i++)
        send_job("shout", i);
    send_job("progress", JOBS + 1);
    await(&loop, &n_done, JOBS + 1);
    assert_int_equal(n_steps, 1);
    /* What was not confirmed is said again to the broker's next life. */
    is_answered = false;
    send_job("fail", JOBS + 2);
    await(&loop, &n_failed, 1);
    end_close(&broker, &loop);
    is_answered = true;
    open_broker(where);
    await(&loop, &n_ready, 2);
    await(&loop, &n_failed, 2);
    assert_int_equal(n_done, JOBS + 1);
    kill(pid, SIGTERM);
    await(&loop, &broker.n_disconnected, 1);
    assert_non_null(strstr(broker.why, "ended the session"));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    end_close(&broker, &loop);
}

static bool can_zmq(const char *name)
{
    char command[200];
    snprintf(command, sizeof command, "%s -c 'import zmq' 2>/dev/null", name);
    return system(command) == 0;
}

int main(void)
{
    python = can_zmq("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
    if (!can_zmq(python)) {
        printf("1..0 # SKIP no python3 with a ZeroMQ binding\n");
        return 0;
    }
    if (uv_loop_init(&loop))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_in_python_serves_a_broker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
