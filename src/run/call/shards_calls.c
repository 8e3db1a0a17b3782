/* Runs and their calls: the machines of execution, made real. */
#include "run/call/shards_hooks.h"

#include "base/text.h"
#include "io/clock.h"

#include <assert.h>
#include <stdlib.h>

/* --- notes --- */

/* Without memory the step is taken at once: too early is better than never. */
static void take_note(struct rota_shards *shards, struct rota_shards_note note)
{
    if (rota_vector_push(&shards->notes, note))
        return;
    if (note.call)
        rota_shards_calls_step(note.call, &note.of_call);
    else
        rota_shards_calls_step_run(note.run, &note.of_run);
    rota_shard_map_drop(note.call ? note.of_call.map : note.of_run.map);
}

static void note_run(struct rota_shards_run *run, struct rota_execute_event event)
{
    take_note(run->shards, (struct rota_shards_note){.run = run, .of_run = event});
}

void rota_shards_calls_note(struct rota_shards_call *call, struct rota_call_fsm_event event)
{
    take_note(call->run->shards, (struct rota_shards_note){.call = call, .of_call = event});
}

/* --- a call --- */

static struct rota_shards_call *call_new(struct rota_shards_run *run, size_t shard,
                                         struct rota_str channel)
{
    const struct rota_shards_request *request = &run->request;
    struct rota_shards_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    struct rota_call_fsm_options options = {
        .collection = run->user ? run->request.name.id : run->fsm.map->collection,
        .channel = channel,
        .is_followed = run->user != NULL,
        .deadline = run->deadline == ROTA_TIME_NEVER ? 0 : run->deadline,
        .try_timeout = request->try_timeout,
        .hedge_after = request->hedge_after,
        .work = request->work,
        .retries = request->retries ? request->retries : run->shards->options.retries,
        .repeat = request->repeat,
        .has_preferred = request->has_preferred,
        .is_pinned = request->is_pinned,
        .preferred = request->preferred,
    };
    call->waiter.kind = ROTA_WAITS_CALL;
    call->run = run;
    call->shard = shard;
    call->channel = channel;
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++) {
        call->attempts[i].waiter.kind = ROTA_WAITS_ATTEMPT;
        call->attempts[i].call = call;
    }
    rota_call_fsm_init(&call->fsm, &run->shards->shared, &options);
    return call;
}

static void stop_waiting(struct rota_shards_call *call)
{
    struct rota_shards *shards = call->run->shards;
    if (call->waiter.number)
        rota_shard_cache_cancel(shards->cache, call->waiter.number);
    rota_shards_wait_end(shards, &call->waiter);
}

static void call_free(struct rota_shards_call *call)
{
    struct rota_shards *shards = call->run->shards;
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        rota_shards_nodes_attempt_cancel(&call->attempts[i]);
    stop_waiting(call);
    rota_heap_remove(&shards->moments, &call->moment);
    rota_list_remove(&call->told);
    rota_call_fsm_deinit(&call->fsm, rota_clock_mono());
    if (call->run->user)
        shards->hooks->free(shards->hooks->data, call);
    rota_buffer_deinit(&call->text);
    rota_buffer_deinit(&call->message);
    free(call);
}

/* Ask the cache for the leaders; the answer is queued as a note, or comes later. */
static void ask_leaders(struct rota_shards_call *call, const struct rota_call_fsm_action *action)
{
    struct rota_shards *shards = call->run->shards;
    struct rota_call_fsm_event event = {.type = ROTA_CALL_LEADERS, .number = action->number};
    call->asked = action->number;
    if (call->run->user) {
        shards->hooks->ask(shards->hooks->data, call, action->number);
        return;
    }
    stop_waiting(call); /* for an answer that is no longer needed */
    if (!rota_shards_wait_begin(shards, &call->waiter)) {
        event.failure = ROTA_FAILURE_LOCAL;
        rota_shards_calls_note(call, event);
        return;
    }
    struct rota_shard_query query = {
        .method = ROTA_SHARD_GET_SHARD,
        .database = call->run->request.name.database,
        .collection = call->fsm.options.collection,
        .channel = call->channel,
        .with_cache = action->with_cache,
        .deadline = action->deadline == ROTA_TIME_NEVER ? 0 : action->deadline,
        .waiter = call->waiter.number,
    };
    enum rota_code code =
        rota_shard_cache_get(shards->cache, rota_clock_mono(), &query, &event.map, NULL);
    if (code == ROTA_OK && !event.map)
        return;
    rota_shards_wait_end(shards, &call->waiter);
    event.failure = rota_failure_of_answer(code);
    rota_shards_calls_note(call, event);
}

/* The attempt of this number; of number 0, one that is free. */
static struct rota_shards_attempt *find_attempt(struct rota_shards_call *call, uint64_t number)
{
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (call->attempts[i].number == number)
            return &call->attempts[i];
    return NULL;
}

static void start_try(struct rota_shards_call *call, const struct rota_call_fsm_action *action)
{
    struct rota_shards_attempt *attempt = find_attempt(call, 0);
    assert(attempt);
    attempt->number = action->number;
    attempt->deadline = action->deadline;
    attempt->started_at = rota_clock_mono();
    if (call->run->user)
        call->run->shards->hooks->start(call->run->shards->hooks->data, call, action->replica);
    rota_shards_nodes_attempt_start(attempt, action->replica);
}

static void finish_call(struct rota_shards_call *call, const struct rota_call_fsm_action *action)
{
    struct rota_shards *shards = call->run->shards;
    call->is_done = true;
    call->failure = action->failure;
    call->node = action->node;
    call->n_tries = call->fsm.n_tries;
    stop_waiting(call);
    rota_list_push(&shards->told_calls, &call->told);
    if (call->run->user) {
        call->run->is_done = true;
        return;
    }
    note_run(call->run, (struct rota_execute_event){.type = ROTA_EXECUTE_CALL_ENDED,
                                                    .failure = action->failure,
                                                    .shard = call->shard});
}

static void do_call(struct rota_shards_call *call, rota_time now,
                    const struct rota_call_fsm_action *action)
{
    struct rota_shards_attempt *attempt;
    struct rota_shards_node *node;
    switch (action->type) {
    case ROTA_CALL_ASK_LEADERS:
        ask_leaders(call, action);
        break;
    case ROTA_CALL_START_TRY:
        start_try(call, action);
        break;
    case ROTA_CALL_CANCEL_TRY:
        attempt = find_attempt(call, action->number);
        if (attempt)
            rota_shards_nodes_attempt_cancel(attempt);
        break;
    case ROTA_CALL_REPORT:
        node = rota_shards_nodes_find(call->run->shards, action->node);
        if (node && action->failure == ROTA_FAILURE_TIMEOUT)
            rota_shards_node_failed(node, rota_str(ROTA_SHARDS_SILENT));
        if (call->run->user) {
            call->run->shards->hooks->report(call->run->shards->hooks->data, call, now, action);
            break;
        }
        rota_shard_cache_report(call->run->shards->cache, now,
                                &(struct rota_shard_report){
                                    .collection = call->fsm.options.collection,
                                    .version = action->version,
                                    .channel = call->channel,
                                    .node = action->node,
                                    .failure = action->failure,
                                    .claim = action->claim,
                                });
        break;
    case ROTA_CALL_FINISH:
        finish_call(call, action);
        break;
    }
}

/* The one caller of a call's machine: an event goes in, the actions are carried out, its next
 * deadline is set. */
void rota_shards_calls_step(struct rota_shards_call *call, const struct rota_call_fsm_event *event)
{
    struct rota_shards *shards = call->run->shards;
    rota_time now = rota_clock_mono();
    struct rota_call_fsm_actions todo = rota_call_fsm_step(&call->fsm, now, event);
    for (size_t i = 0; i < todo.n; i++)
        do_call(call, now, &todo.items[i]);

    rota_time at = rota_call_fsm_deadline(&call->fsm);
    if (call->moment.place != 0 && call->moment.at == at)
        return;
    rota_heap_remove(&shards->moments, &call->moment);
    call->moment.at = at;
    call->moment.order = ++shards->n_numbers;
    if (at != ROTA_TIME_NEVER && !rota_heap_push(&shards->moments, &call->moment))
        rota_shards_calls_note(call, (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
}

static bool copy_request(struct rota_shards_run *run, const struct rota_shards_request *request)
{
    run->request = *request;
    struct rota_str *texts[] = {&run->request.name.database, &run->request.name.collection,
                                &run->request.channel, &run->request.method, &run->request.request};
    size_t size = 1;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        size += texts[i]->size;
    char *place = run->strings = malloc(size);
    if (!place)
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = rota_text_put(&place, *texts[i]);
    return true;
}

static void init_machine(struct rota_shards_run *run)
{
    const struct rota_shards_request *request = &run->request;
    struct rota_random *random = &run->shards->random;
    switch (request->mode) {
    case ROTA_SHARDS_ALL:
        rota_execute_fsm_init(&run->fsm, ROTA_EXECUTE_ALL, request->is_partial, random);
        break;
    case ROTA_SHARDS_ONE:
        rota_execute_fsm_init(&run->fsm, ROTA_EXECUTE_ONE, request->is_partial, random);
        break;
    case ROTA_SHARDS_NAMED:
        rota_execute_fsm_init_shard(&run->fsm, request->channel);
        break;
    }
}

static enum rota_code check_request(const struct rota_shards *shards,
                                    const struct rota_shards_request *request,
                                    struct rota_error *error)
{
    if (shards->n_runs >= ROTA_SHARDS_RUNS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "shards: more than %d runs at a time",
                              ROTA_SHARDS_RUNS_MAX);
    if (request->method.size == 0 || request->method.data[0] != '/')
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "shards: a method must look like \"/package.Service/Method\"");
    if (request->name.id == 0 && request->name.collection.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "shards: the collection needs an id or a name");
    if (request->name.database.size > ROTA_SHARD_NAME_MAX ||
        request->name.collection.size > ROTA_SHARD_NAME_MAX ||
        request->channel.size > ROTA_SHARD_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "shards: a name has more than %d bytes",
                              ROTA_SHARD_NAME_MAX);
    if (!request->on_done)
        return rota_error_set(error, ROTA_ERR_INVALID, "shards: on_done is not set");
    if (request->mode != ROTA_SHARDS_ALL && request->mode != ROTA_SHARDS_ONE &&
        request->mode != ROTA_SHARDS_NAMED)
        return rota_error_set(error, ROTA_ERR_INVALID, "shards: unknown mode %d",
                              (int)request->mode);
    if (request->mode == ROTA_SHARDS_NAMED && request->channel.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "shards: no shard is named");
    if (request->timeout < 0 || request->try_timeout < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "shards: a timeout must not be negative");
    return ROTA_OK;
}

enum rota_code rota_shards_execute(struct rota_shards *shards,
                                   const struct rota_shards_request *request,
                                   struct rota_shards_run **result, struct rota_error *error)
{
    enum rota_code code = check_request(shards, request, error);
    if (code)
        return code;
    struct rota_shards_run *run = calloc(1, sizeof *run);
    if (!run || !copy_request(run, request)) {
        free(run);
        return rota_error_no_memory(error, "to call shards");
    }
    run->waiter.kind = ROTA_WAITS_RUN;
    run->shards = shards;
    run->deadline =
        request->timeout > 0 ? rota_time_add(rota_clock_mono(), request->timeout) : ROTA_TIME_NEVER;
    init_machine(run);
    rota_list_push(&shards->runs, &run->link);
    shards->n_runs++;
    if (result)
        *result = run;
    note_run(run, (struct rota_execute_event){.type = ROTA_EXECUTE_START});
    rota_shards_settle(shards, false);
    return ROTA_OK;
}

struct rota_shards_call *rota_shards_call_begin(struct rota_shards *shards,
                                                const struct rota_shards_request *request,
                                                int64_t collection, void *user,
                                                const struct rota_metadata *metadata,
                                                size_t n_metadata)
{
    struct rota_shards_run *run = calloc(1, sizeof *run);
    struct rota_shards_call **calls = calloc(1, sizeof *calls);
    if (!run || !calls || !copy_request(run, request)) {
        free(calls);
        free(run);
        return NULL;
    }
    run->waiter.kind = ROTA_WAITS_RUN;
    run->shards = shards;
    run->user = user;
    run->metadata = metadata;
    run->n_metadata = n_metadata;
    run->request.name.id = collection;
    run->deadline = rota_time_add(rota_clock_mono(), request->timeout);
    rota_execute_fsm_init_shard(&run->fsm, rota_str(""));
    struct rota_shards_call *call = calls[0] = call_new(run, 0, rota_str(""));
    if (!call) {
        free(run->strings);
        free(calls);
        free(run);
        return NULL;
    }
    run->calls = calls;
    run->n_calls = 1;
    rota_list_push(&shards->runs, &run->link);
    shards->n_runs++;
    rota_shards_calls_note(call, (struct rota_call_fsm_event){.type = ROTA_CALL_START});
    return call;
}

void rota_shards_call_cancel(struct rota_shards_call *call)
{
    struct rota_shards *shards = call->run->shards;
    bool is_over = call->run->is_done || call->run->is_dropped || shards->is_closed;
    call->run->is_dropped = true;
    if (is_over)
        return;
    rota_shards_calls_note(call, (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
    rota_shards_settle(shards, false);
}

void rota_shards_cancel(struct rota_shards_run *run)
{
    struct rota_shards *shards = run->shards;
    run->is_dropped = true;
    if (run->is_done || shards->is_closed)
        return;
    note_run(run, (struct rota_execute_event){.type = ROTA_EXECUTE_CANCEL});
    rota_shards_settle(shards, false);
}

void rota_shards_calls_run_stop(struct rota_shards_run *run)
{
    for (size_t i = 0; i < run->n_calls; i++)
        for (size_t j = 0; run->calls[i] && j < ROTA_CALL_RUNNING_MAX; j++)
            rota_shards_nodes_attempt_cancel(&run->calls[i]->attempts[j]);
}

void rota_shards_calls_run_free(struct rota_shards_run *run)
{
    struct rota_shards *shards = run->shards;
    if (run->waiter.number)
        rota_shard_cache_cancel(shards->cache, run->waiter.number);
    rota_shards_wait_end(shards, &run->waiter);
    for (size_t i = 0; i < run->n_calls; i++)
        if (run->calls[i])
            call_free(run->calls[i]);
    rota_list_remove(&run->link);
    rota_list_remove(&run->told);
    rota_execute_fsm_deinit(&run->fsm);
    shards->n_runs--;
    free(run->calls);
    free(run->strings);
    free(run);
}

static void ask_map(struct rota_shards_run *run)
{
    struct rota_shards *shards = run->shards;
    const struct rota_shards_request *request = &run->request;
    struct rota_execute_event event = {.type = ROTA_EXECUTE_LEADERS};
    enum rota_code code = ROTA_ERR_NO_MEMORY;
    if (rota_shards_wait_begin(shards, &run->waiter)) {
        struct rota_shard_query query = {
            .method = ROTA_SHARD_GET_LEADERS,
            .database = request->name.database,
            .name = request->name.collection,
            .collection = request->name.id,
            .channel = request->mode == ROTA_SHARDS_NAMED ? request->channel : rota_str(""),
            .with_cache = true,
            .deadline = run->deadline == ROTA_TIME_NEVER ? 0 : run->deadline,
            .waiter = run->waiter.number,
        };
        code = rota_shard_cache_get(shards->cache, rota_clock_mono(), &query, &event.map, NULL);
        if (code == ROTA_OK && !event.map)
            return;
        rota_shards_wait_end(shards, &run->waiter);
    }
    event.failure = rota_failure_of_answer(code);
    note_run(run, event);
}

static void start_call(struct rota_shards_run *run, const struct rota_execute_action *action)
{
    if (!run->calls) {
        run->calls = calloc(run->fsm.n_shards, sizeof *run->calls);
        run->n_calls = run->calls ? run->fsm.n_shards : 0;
    }
    struct rota_shards_call *call =
        run->calls ? call_new(run, action->shard, action->channel) : NULL;
    if (!call) {
        note_run(run, (struct rota_execute_event){.type = ROTA_EXECUTE_CALL_ENDED,
                                                  .failure = ROTA_FAILURE_LOCAL,
                                                  .shard = action->shard});
        return;
    }
    run->calls[action->shard] = call;
    rota_shards_calls_note(call, (struct rota_call_fsm_event){.type = ROTA_CALL_START});
}

/* The one caller of a run's machine. */
void rota_shards_calls_step_run(struct rota_shards_run *run, const struct rota_execute_event *event)
{
    struct rota_shards *shards = run->shards;
    struct rota_execute_action action;
    rota_execute_fsm_step(&run->fsm, event);
    while (rota_execute_fsm_next(&run->fsm, &action)) {
        switch (action.type) {
        case ROTA_EXECUTE_ASK_LEADERS:
            ask_map(run);
            break;
        case ROTA_EXECUTE_START_CALL:
            start_call(run, &action);
            break;
        case ROTA_EXECUTE_CANCEL_CALL:
            if (run->calls && run->calls[action.shard])
                rota_shards_calls_note(run->calls[action.shard],
                                       (struct rota_call_fsm_event){.type = ROTA_CALL_CANCEL});
            break;
        case ROTA_EXECUTE_FINISH:
            if (run->waiter.number)
                rota_shard_cache_cancel(shards->cache, run->waiter.number);
            rota_shards_wait_end(shards, &run->waiter);
            run->is_done = true;
            run->failure = action.failure;
            run->n_ok = action.n_ok;
            run->n_failed = action.n_failed;
            rota_list_push(&shards->told_runs, &run->told);
            break;
        }
    }
}
