#include <rota/experimental/partition.h>

#include "vectors.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void names_parse_as_in_the_original(void **state)
{
    json_t *root = vectors_load("tqid.json");
    const json_t *row;
    size_t i;
    (void)state;

    json_array_foreach (json_object_get(root, "rows"), i, row) {
        struct rota_partition_name name;
        struct rota_error error;
        struct rota_str text = vectors_str(row, "rpc_name");
        bool ok = rota_partition_parse(text, &name, &error) == ROTA_OK;
        assert_int_equal(ok, json_is_true(json_object_get(row, "ok")));
        if (!ok) {
            assert_non_null(strstr(error.text, "partition name"));
            continue;
        }
        assert_true(rota_str_is_equal(name.queue, vectors_str(row, "base")));
        assert_int_equal(name.id, vectors_int(row, "partition"));

        if (!json_object_get(row, "parent_rpc_name"))
            continue;
        char formatted[ROTA_ROUTE_KEY_MAX];
        struct rota_partition partition = {.queue = name.queue};
        assert_int_equal(
            rota_partition_parent(name.id, vectors_int(row, "degree"), &partition.id, NULL),
            ROTA_OK);
        size_t size = rota_partition_format(&partition, formatted);
        assert_true(
            rota_str_is_equal(rota_str_of(formatted, size), vectors_str(row, "parent_rpc_name")));
    }
    assert_true(i >= 34);
    json_decref(root);
}

static void parent_of_the_last_id_does_not_overflow(void **state)
{
    int64_t parent = -7;
    (void)state;
    assert_int_equal(rota_partition_parent(INT64_MAX, 1, &parent, NULL), ROTA_OK);
    assert_int_equal(parent, INT64_MAX - 1);
    assert_int_equal(rota_partition_parent(INT64_MAX, INT64_MAX, &parent, NULL), ROTA_OK);
    assert_int_equal(parent, 0);
    assert_int_equal(rota_partition_parent(0, 3, &parent, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_partition_parent(5, 0, &parent, NULL), ROTA_ERR_INVALID);
    assert_int_equal(parent, 0);
}

static void refuse(struct rota_partition partition, const char *phrase)
{
    struct rota_error error;
    assert_int_equal(rota_partition_check(&partition, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, phrase));
}

static void impossible_partitions_are_refused(void **state)
{
    static char long_text[ROTA_QUEUE_NAME_MAX + 1];
    struct rota_str queue = rota_str("orders");
    (void)state;
    memset(long_text, 'x', sizeof long_text);
    struct rota_str too_long = rota_str_of(long_text, sizeof long_text);

    struct rota_partition good = {.namespace_id = rota_str("ns"), .queue = queue, .id = 3};
    assert_int_equal(rota_partition_check(&good, NULL), ROTA_OK);
    refuse((struct rota_partition){.queue = queue, .id = -1}, "-1 is negative");
    refuse((struct rota_partition){.queue = queue, .id = INT64_MAX}, "at most");
    refuse((struct rota_partition){.queue = too_long}, "the queue name has 1001 bytes");
    refuse((struct rota_partition){.namespace_id = too_long, .queue = queue}, "namespace");
    refuse((struct rota_partition){.queue = rota_str("/_sys/x/1")}, "reserved");
    refuse((struct rota_partition){.queue = queue, .type = (enum rota_task_type)4}, "type 4");
    refuse((struct rota_partition){.queue = queue, .kind = (enum rota_partition_kind)3}, "kind 3");
    refuse((struct rota_partition){.queue = queue, .kind = (enum rota_partition_kind) - 1}, "kind");
    refuse((struct rota_partition){.queue = queue, .sticky_name = queue}, "sticky");
    refuse((struct rota_partition){.queue = queue, .kind = ROTA_PARTITION_STICKY, .id = 1},
           "partition 0 only");
    refuse((struct rota_partition){.queue = queue, .kind = ROTA_PARTITION_WORKER_COMMANDS},
           "type nexus");
}

/* Whether a call that breaks the rules ends the process instead of writing
 * beyond what it was given. */
static bool is_stopped(const struct rota_partition *partition, bool is_key)
{
    static struct rota_route_key key;
    static char text[ROTA_ROUTE_KEY_MAX];
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(2);
        if (is_key)
            rota_partition_route_key(partition, 0, &key);
        else
            rota_partition_format(partition, text);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void names_that_are_too_long_never_leave_the_key(void **state)
{
    static char long_text[3 * ROTA_QUEUE_NAME_MAX];
    struct rota_str too_long = rota_str_of(long_text, sizeof long_text);
    struct rota_partition rows[] = {
        {.queue = too_long},
        {.namespace_id = too_long},
        {.kind = ROTA_PARTITION_STICKY, .sticky_name = too_long},
        {.id = -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(is_stopped(&rows[i], true));
        assert_true(is_stopped(&rows[i], false));
    }
}

static void type_names_read_back(void **state)
{
    (void)state;
    for (int i = 0; i <= ROTA_TASK_NEXUS; i++) {
        enum rota_task_type type;
        const char *name = rota_task_type_name((enum rota_task_type)i);
        assert_int_equal(rota_task_type_parse(rota_str(name), &type), ROTA_OK);
        assert_int_equal(type, i);
    }
    assert_int_equal(rota_task_type_parse(rota_str("Workflow"), NULL), ROTA_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_parse_as_in_the_original),
        cmocka_unit_test(parent_of_the_last_id_does_not_overflow),
        cmocka_unit_test(impossible_partitions_are_refused),
        cmocka_unit_test(names_that_are_too_long_never_leave_the_key),
        cmocka_unit_test(type_names_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
