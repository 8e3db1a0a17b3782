/* Settings of queues in the tables that programs before version 12 had, as rows. */
#include "base/map.h"
#include "io/sql/store_inside.h"
#include "wire/message/queue_message.h"

#include <stdlib.h>

/* The settings of one queue, encoded. */
struct former {
    struct rota_str name; /* of one of the results */
    struct rota_journal_batch batch;
    struct rota_buffer settings;
};

struct formers {
    struct rota_sql_result pauses, weights, layouts;
    struct rota_map by_name;
    ROTA_VECTOR(struct former *) all;
};

/* NULL without memory. */
static struct former *find_former(struct formers *formers, struct rota_str name)
{
    struct former *found = rota_map_get(&formers->by_name, name);
    if (found)
        return found;
    found = calloc(1, sizeof *found);
    if (!found)
        return NULL;
    found->name = name;
    if (!rota_vector_push(&formers->all, found)) {
        free(found);
        return NULL;
    }
    return rota_map_put(&formers->by_name, name, found) ? found : NULL;
}

static bool add_setting(struct formers *formers, const struct rota_sql_result *result, size_t row,
                        struct rota_work_record setting)
{
    setting.queue = rota_sql_bytes_at(result, row, 0);
    struct former *former = find_former(formers, setting.queue);
    if (!former)
        return false;
    rota_queue_message_write_jobs(&former->batch, &setting, &former->settings);
    return !former->settings.failed;
}

static bool add_pauses(struct formers *formers)
{
    const struct rota_sql_result *rows = &formers->pauses;
    bool is_added = true;
    for (size_t i = 0; is_added && i < rows->n_rows; i++)
        is_added =
            add_setting(formers, rows, i,
                        (struct rota_work_record){.type = ROTA_WORK_PAUSE,
                                                  .at = 1,
                                                  .is_paused = rota_sql_int_at(rows, i, 1) != 0,
                                                  .weight = (uint32_t)rota_sql_int_at(rows, i, 2)});
    return is_added;
}

static bool add_weights(struct formers *formers)
{
    const struct rota_sql_result *rows = &formers->weights;
    bool is_added = true;
    for (size_t i = 0; is_added && i < rows->n_rows; i++)
        is_added =
            add_setting(formers, rows, i,
                        (struct rota_work_record){.type = ROTA_WORK_WEIGHT,
                                                  .at = 1,
                                                  .key = rota_sql_bytes_at(rows, i, 1),
                                                  .weight = (uint32_t)rota_sql_int_at(rows, i, 2)});
    return is_added;
}

static struct rota_spread spread_at(const struct rota_sql_result *rows, size_t row, size_t column)
{
    return (struct rota_spread){
        .batch = (uint32_t)rota_sql_int_at(rows, row, column),
        .mode = rota_sql_int_at(rows, row, column + 1) ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP};
}

/* The latest of a queue comes last. */
static bool add_layouts(struct formers *formers)
{
    const struct rota_sql_result *rows = &formers->layouts;
    bool is_added = true;
    for (size_t i = 0; is_added && i < rows->n_rows; i++) {
        const struct rota_work_layout layout = {.wanted = (uint32_t)rota_sql_int_at(rows, i, 2),
                                                .write = (uint32_t)rota_sql_int_at(rows, i, 3),
                                                .read = (uint32_t)rota_sql_int_at(rows, i, 4),
                                                .spread = spread_at(rows, i, 5),
                                                .change = {.from = spread_at(rows, i, 7),
                                                           .start = rota_sql_int_at(rows, i, 9),
                                                           .end = rota_sql_int_at(rows, i, 10)}};
        is_added = add_setting(formers, rows, i,
                               (struct rota_work_record){.type = ROTA_WORK_LAYOUT,
                                                         .at = rota_sql_int_at(rows, i, 1),
                                                         .layout = &layout});
    }
    return is_added;
}

static enum rota_code read_tables(struct rota_store_session *session, struct formers *formers,
                                  struct rota_error *error)
{
    enum rota_code code = rota_store_text_run_n(
        session,
        "SELECT queue, is_paused, kills_max FROM rota_queues WHERE is_paused <> 0 OR kills_max > 0",
        NULL, 0, &formers->pauses, error);
    if (!code)
        code = rota_store_text_run_n(session, "SELECT queue, fair_key, weight FROM rota_weights",
                                     NULL, 0, &formers->weights, error);
    if (!code)
        code =
            rota_store_text_run_n(session,
                                  "SELECT queue, made_at, wanted, written, readable, batch, mode, "
                                  "from_batch, from_mode, start_at, end_at "
                                  "FROM rota_layouts ORDER BY queue, made_at",
                                  NULL, 0, &formers->layouts, error);
    return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
}

/* One block: the rows, and what they point into. */
static bool copy_formers(const struct formers *formers, struct rota_store_answer *answer)
{
    struct rota_sql_result none = {0};
    size_t n = formers->all.size, size = 0;
    for (size_t i = 0; i < n; i++)
        size += formers->all.items[i]->name.size + formers->all.items[i]->settings.size;
    struct rota_store_queue *queues =
        rota_store_session_answer_rows(answer, 1, n * sizeof *queues + size, &none);
    if (!queues)
        return false;
    char *at = (char *)(queues + n);
    for (size_t i = 0; i < n; i++) {
        const struct rota_str name = formers->all.items[i]->name;
        const struct rota_str settings = rota_buffer_str(&formers->all.items[i]->settings);
        queues[i] = (struct rota_store_queue){
            .name = rota_str_of(memcpy(at, name.data, name.size), name.size)};
        at += name.size;
        queues[i].settings = rota_str_of(memcpy(at, settings.data, settings.size), settings.size);
        at += settings.size;
    }
    answer->queues = queues;
    answer->n_queues = n;
    return true;
}

enum rota_code rota_store_former_read(struct rota_store_session *session,
                                      struct rota_store_answer *answer)
{
    struct formers formers = {0};
    rota_map_init(&formers.by_name, 1);
    enum rota_code code = read_tables(session, &formers, &answer->error);
    if (!code && (!add_pauses(&formers) || !add_weights(&formers) || !add_layouts(&formers) ||
                  !copy_formers(&formers, answer)))
        code = rota_error_no_memory(&answer->error, "for the settings of queues");
    for (size_t i = 0; i < formers.all.size; i++) {
        rota_buffer_deinit(&formers.all.items[i]->settings);
        free(formers.all.items[i]);
    }
    rota_vector_deinit(&formers.all);
    rota_map_deinit(&formers.by_name);
    rota_sql_result_deinit(&formers.pauses);
    rota_sql_result_deinit(&formers.weights);
    rota_sql_result_deinit(&formers.layouts);
    return code;
}
