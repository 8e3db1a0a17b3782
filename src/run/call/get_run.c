/* Runs: Gets in progress, and the calls they make. */
#include "run/call/get_inside.h"

#include "io/clock.h"
#include "wire/grpc/call_notes.h"

#include <stdlib.h>

/* --- calls --- */

static struct rota_get_call *take_call(struct rota_get *get)
{
    struct rota_get_call *call = get->calls_at_rest;
    if (!call)
        return calloc(1, sizeof *call);
    get->calls_at_rest = call->next;
    get->n_calls_at_rest--;
    return call;
}

static void note_latency(struct rota_get_peer *peer, rota_time latency)
{
    uint64_t us = latency > 0 ? (uint64_t)(latency / ROTA_USEC) : 0;
    size_t bucket = 0;
    while (us >= UINT64_C(2) << bucket && bucket < ROTA_BALANCER_LATENCIES - 1)
        bucket++;
    peer->latencies[bucket]++;
}

/* It is over, or no longer needed. */
static void leave_call(struct rota_get *get, struct rota_get_call *call)
{
    call->peer->n_running--;
    rota_list_remove(&call->of_run);
    rota_list_remove(&call->of_peer);
    if (get->n_calls_at_rest >= ROTA_GET_AT_REST_MAX) {
        free(call);
        return;
    }
    call->next = get->calls_at_rest;
    get->calls_at_rest = call;
    get->n_calls_at_rest++;
}

static struct rota_get_call *find_call(const struct rota_get_run *run, uint64_t number)
{
    ROTA_LIST_EACH (call, &run->calls, struct rota_get_call, of_run) {
        if (call->number == number)
            return call;
    }
    return NULL;
}

static void keep_text(struct rota_get_run *run, size_t try, struct rota_str text)
{
    if (try < run->sent.size)
        run->sent.items[try].text = rota_arena_copy(&run->arena, text);
}

/* --- answers --- */

/* An entry's id by its place in the request; one that was not requested belongs to no key. */
static uint64_t id_of(const struct rota_get_run *run, const struct rota_get_sent *sent, uint64_t id)
{
    if (run->get->service.entry_id)
        return id;
    return id < sent->n_keys ? sent->keys[id] : UINT64_MAX;
}

/* The shards of the answer, for as long as the run; NULL: no memory. */
static const struct rota_interval_claim *keep_shards(struct rota_get_run *run)
{
    const struct rota_get_reader *reader = &run->get->reader;
    size_t size = reader->shards.size * sizeof *reader->shards.items;
    struct rota_interval_claim *shards = rota_arena_take(&run->arena, size + 1);
    if (shards && size > 0)
        memcpy(shards, reader->shards.items, size);
    return shards;
}

/* Read a response into the event; the entries stay with the reader. */
static enum rota_failure read_answer(struct rota_get_call *call, struct rota_str message,
                                     struct rota_get_fsm_event *event, struct rota_error *error)
{
    struct rota_get_run *run = call->run;
    struct rota_get *get = run->get;
    struct rota_get_reader *reader = &get->reader;
    struct rota_get_sent *sent = &run->sent.items[call->try];
    struct rota_get_head head = {0};
    error->text[0] = '\0';
    reader->response = message;
    reader->has_failed = false;
    if (get->service.read_response(get->service.data, message, &head, reader, error)) {
        if (!error->text[0])
            rota_error_set(error, ROTA_ERR_INVALID, "the response is malformed");
        return ROTA_FAILURE_INTERNAL;
    }
    if (reader->has_failed || !rota_vector_reserve(&get->ids, reader->entries.size) ||
        !rota_vector_reserve(&get->problems, reader->problems.size)) {
        rota_error_no_memory(error, "for the response");
        return ROTA_FAILURE_LOCAL;
    }
    for (size_t i = 0; i < reader->entries.size; i++)
        get->ids.items[i] = id_of(run, sent, reader->entries.items[i].id);
    for (size_t i = 0; i < reader->problems.size; i++) {
        const struct rota_get_problem *problem = &reader->problems.items[i];
        get->problems.items[i] =
            (struct rota_get_fsm_problem){id_of(run, sent, problem->id), problem->text.size == 0};
    }
    event->problems = get->problems.items;
    event->n_problems = reader->problems.size;
    event->all_matched = head.all_matched;
    event->claims = sent->shards = keep_shards(run);
    event->n_claims = sent->n_shards = reader->shards.size;
    if (!event->claims) {
        rota_error_no_memory(error, "for the response");
        return ROTA_FAILURE_LOCAL;
    }
    event->ids = get->ids.items;
    event->n_ids = reader->entries.size;
    return ROTA_FAILURE_NONE;
}

/* The texts of keys that can't be given are few and short: they are copied. */
static void keep_problems(struct rota_get_run *run, size_t try)
{
    const struct rota_get_reader *reader = &run->get->reader;
    size_t n = reader->problems.size;
    struct rota_get_problem *problems = rota_arena_take(&run->arena, n * sizeof *problems + 1);
    for (size_t i = 0; problems && i < n; i++) {
        problems[i].id = reader->problems.items[i].id;
        problems[i].text = rota_arena_copy(&run->arena, reader->problems.items[i].text);
        run->has_no_memory |= !problems[i].text.data;
    }
    run->has_no_memory |= !problems;
    run->sent.items[try].problems = problems;
}

/* Values of the answer that was just read were taken: keep it as long as the run. */
static void keep_answer(struct rota_get_run *run, size_t try)
{
    const struct rota_get_reader *reader = &run->get->reader;
    size_t n = reader->entries.size;
    struct rota_get_entry *entries = rota_arena_take(&run->arena, n * sizeof *entries + 1);
    struct rota_str copy = rota_arena_copy(&run->arena, reader->response);
    if (!entries || !copy.data) {
        run->has_no_memory = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct rota_str value = reader->entries.items[i].value;
        uintptr_t offset = (uintptr_t)value.data - (uintptr_t)reader->response.data;
        entries[i].id = reader->entries.items[i].id;
        if (value.size == 0 || offset < reader->response.size)
            entries[i].value = rota_str_of(value.size ? copy.data + offset : "", value.size);
        else
            entries[i].value = rota_arena_copy(&run->arena, value);
        run->has_no_memory |= !entries[i].value.data;
    }
    run->sent.items[try].entries = entries;
    if (reader->problems.size > 0)
        keep_problems(run, try);
}

static void on_answer(void *data, struct rota_call *rpc, const struct rota_call_result *result)
{
    struct rota_get_call *call = data;
    struct rota_get_run *run = call->run;
    struct rota_get *get = run->get;
    struct rota_get_fsm_event event = {.number = call->number, .host = call->peer->id};
    struct rota_str named = {"", 0}, value;
    struct rota_cost cost;
    struct rota_error error;
    (void)rpc;
    if (rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_COST, &value) &&
        rota_call_notes_parse_cost(value, &cost))
        event.cost = &cost;
    rota_metadata_get(result->metadata, result->n_metadata, ROTA_NOTE_FAILURE, &named);
    event.failure = rota_failure_of_reply(result->status, result->may_have_run, named);
    if (event.failure == ROTA_FAILURE_NONE) {
        event.failure = read_answer(call, result->message, &event, &error);
        if (event.failure)
            keep_text(run, call->try, rota_str(error.text));
    } else {
        const char *name = rota_status_name(result->status);
        keep_text(run, call->try, result->text.size > 0 ? result->text : rota_str(name));
    }
    event.type = event.failure ? ROTA_GET_FAILED : ROTA_GET_ANSWER;
    if (event.failure)
        call->peer->n_failed++;
    else
        note_latency(call->peer, rota_clock_mono() - call->started_at);
    leave_call(get, call);
    rota_get_run_step(run, &event);
    rota_get_cache_reader_clear(&get->reader);
    rota_get_finish_event(get, true);
}

/* --- sending --- */

static void refuse_try(struct rota_get_run *run, const struct rota_get_fsm_action *action,
                       enum rota_failure failure, const char *text)
{
    struct rota_get_refused refused = {action->number, action->host->id, failure};
    keep_text(run, action->try, rota_str(text));
    if (!rota_vector_push(&run->refused, refused))
        run->has_no_memory = true; /* the machine will wait for it in vain, up to its time */
}

/* Record what is requested from which host. */
static bool note_try(struct rota_get_run *run, const struct rota_get_fsm_action *action)
{
    uint32_t *keys = rota_arena_take(&run->arena, action->n_keys * sizeof *keys + 1);
    struct rota_get_sent sent = {
        .host = rota_arena_copy(&run->arena, action->host->address),
        .dc = rota_arena_copy(&run->arena, action->host->dc),
        .keys = keys,
        .n_keys = action->n_keys,
    };
    if (!keys || !sent.host.data || !sent.dc.data ||
        !rota_vector_reserve(&run->sent, action->try + 1))
        return false;
    if (action->n_keys > 0)
        memcpy(keys, action->keys, action->n_keys * sizeof *keys);
    while (run->sent.size <= action->try)
        run->sent.items[run->sent.size++] = (struct rota_get_sent){0};
    run->sent.items[action->try] = sent;
    return true;
}

static enum rota_code write_request(struct rota_get_run *run,
                                    const struct rota_get_fsm_action *action,
                                    struct rota_error *error)
{
    struct rota_get *get = run->get;
    const struct rota_get_service *service = &get->service;
    const char *keys = run->request.keys;
    rota_buffer_clear(&get->writer.buffer);
    if (!rota_vector_reserve(&get->key_list, action->n_keys))
        return rota_error_no_memory(error, "for the request");
    for (size_t i = 0; i < action->n_keys; i++)
        get->key_list.items[i] = keys + action->keys[i] * service->key_size;
    error->text[0] = '\0';
    enum rota_code code = service->write_request(service->data, get->key_list.items, action->n_keys,
                                                 action->epoch, &get->writer, error);
    if (code && !error->text[0])
        rota_error_set(error, code, "the request cannot be written");
    if (!code && get->writer.buffer.failed)
        code = rota_error_no_memory(error, "for the request");
    return code;
}

static void send_try(struct rota_get_run *run, const struct rota_get_fsm_action *action)
{
    struct rota_get *get = run->get;
    struct rota_get_peer *peer = rota_get_hosts_find_peer(get, action->host->id);
    struct rota_error error;
    if (!note_try(run, action)) {
        refuse_try(run, action, ROTA_FAILURE_LOCAL, "not enough memory");
        return;
    }
    enum rota_code code = write_request(run, action, &error);
    if (code) {
        refuse_try(run, action,
                   code == ROTA_ERR_NO_MEMORY ? ROTA_FAILURE_LOCAL : ROTA_FAILURE_INPUT,
                   error.text);
        return;
    }
    struct rota_get_call *call = peer ? take_call(get) : NULL;
    if (!call) {
        refuse_try(run, action, peer ? ROTA_FAILURE_LOCAL : ROTA_FAILURE_UNREACHABLE,
                   peer ? "not enough memory" : "cannot connect to the host");
        return;
    }
    struct rota_call_options options = {
        .method = rota_str(get->service.method),
        .request = rota_buffer_str(&get->writer.buffer),
        .on_end = on_answer,
        .data = call,
    };
    struct rota_metadata pair;
    rota_get_name_collection(get, &pair, &options);
    if (action->deadline != ROTA_TIME_NEVER && action->deadline != 0) {
        rota_time left = action->deadline - rota_clock_mono();
        options.timeout = left > 1 ? left : 1;
    }
    peer->n_calls++;
    peer->n_running++;
    peer->n_hedges += action->is_hedge;
    call->started_at = rota_clock_mono();
    call->run = run;
    call->peer = peer;
    call->number = action->number;
    call->try = action->try;
    rota_list_push(&run->calls, &call->of_run);
    rota_list_push(&peer->calls, &call->of_peer);
    code = rota_channel_call(peer->channel, &options, &call->rpc, &error);
    if (code) {
        peer->n_failed++;
        leave_call(get, call);
        refuse_try(run, action,
                   code == ROTA_ERR_UNAVAILABLE ? ROTA_FAILURE_UNREACHABLE
                                                : rota_failure_of_answer(code),
                   error.text);
    }
}

void rota_get_run_drop_calls(struct rota_get_peer *peer)
{
    ROTA_LIST_DRAIN (call, &peer->calls, struct rota_get_call, of_peer) {
        struct rota_get_run *run = call->run;
        struct rota_get_fsm_event event = {.type = ROTA_GET_FAILED,
                                           .number = call->number,
                                           .host = peer->id,
                                           .failure = ROTA_FAILURE_UNREACHABLE};
        keep_text(run, call->try, rota_str("the host is no longer listed"));
        rota_call_cancel(call->rpc);
        leave_call(peer->get, call);
        rota_get_run_step(run, &event);
    }
}

/* --- runs --- */

static void finish_run(struct rota_get_run *run, rota_time now)
{
    run->ended_at = now;
    rota_list_push(&run->get->told, &run->told);
}

/* A hedge whose values were the first. */
static void note_win(struct rota_get_run *run, size_t try)
{
    const struct rota_get_fsm_try *won = rota_get_fsm_try(&run->fsm, try);
    struct rota_get_peer *peer = rota_get_hosts_find_peer(run->get, won->host);
    if (peer && won->is_hedge)
        peer->n_hedges_won++;
}

static void perform_action(struct rota_get_run *run, const struct rota_get_fsm_action *action,
                           rota_time now)
{
    struct rota_get_call *call;
    switch (action->type) {
    case ROTA_GET_SEND:
        send_try(run, action);
        break;
    case ROTA_GET_KEEP:
        note_win(run, action->try);
        keep_answer(run, action->try);
        break;
    case ROTA_GET_CANCEL_TRY:
        call = find_call(run, action->number);
        if (call) {
            call->peer->n_cancelled++;
            rota_call_cancel(call->rpc);
            leave_call(run->get, call);
        }
        break;
    case ROTA_GET_FINISH:
        finish_run(run, now);
        break;
    }
}

/* Carry out the machine's actions, and report those that failed. */
static void drive(struct rota_get_run *run, rota_time now)
{
    struct rota_get_fsm_action action;
    size_t n_told = 0;
    for (;;) {
        while (rota_get_fsm_next(&run->fsm, &action))
            perform_action(run, &action, now);
        if (n_told == run->refused.size)
            break;
        struct rota_get_refused refused = run->refused.items[n_told++];
        rota_get_fsm_step(&run->fsm, now,
                          &(struct rota_get_fsm_event){.type = ROTA_GET_FAILED,
                                                       .number = refused.number,
                                                       .host = refused.host,
                                                       .failure = refused.failure});
    }
    run->refused.size = 0;
    rota_heap_remove(&run->get->moments, &run->moment);
    run->moment.at =
        rota_get_fsm_is_done(&run->fsm) ? ROTA_TIME_NEVER : rota_get_fsm_deadline(&run->fsm);
    if (run->moment.at != ROTA_TIME_NEVER && !rota_heap_push(&run->get->moments, &run->moment))
        run->has_no_memory = true;
}

void rota_get_run_step(struct rota_get_run *run, const struct rota_get_fsm_event *event)
{
    rota_time now = rota_clock_mono();
    rota_get_fsm_step(&run->fsm, now, event);
    drive(run, now);
}

static struct rota_get_run *take_run(struct rota_get *get)
{
    struct rota_get_run *run = get->runs_at_rest;
    if (run) {
        get->runs_at_rest = run->next;
        get->n_runs_at_rest--;
    } else {
        run = calloc(1, sizeof *run);
        if (!run)
            return NULL;
        rota_get_fsm_init(&run->fsm, &get->shared);
        rota_list_init(&run->calls);
    }
    run->get = get;
    run->has_no_memory = false;
    run->moment.order = get->n_started++;
    rota_list_push(&get->runs, &run->link);
    get->n_runs++;
    return run;
}

static void run_free(struct rota_get_run *run)
{
    rota_get_fsm_deinit(&run->fsm, rota_clock_mono());
    rota_arena_deinit(&run->arena);
    rota_vector_deinit(&run->sent);
    rota_vector_deinit(&run->refused);
    free(run);
}

void rota_get_run_end(struct rota_get_run *run)
{
    struct rota_get *get = run->get;
    rota_list_remove(&run->link);
    rota_list_remove(&run->told);
    rota_heap_remove(&get->moments, &run->moment);
    get->n_runs--;
    rota_arena_clear(&run->arena);
    run->sent.size = run->refused.size = 0;
    if (get->n_runs_at_rest >= ROTA_GET_AT_REST_MAX || get->is_closed) {
        run_free(run);
        return;
    }
    run->next = get->runs_at_rest;
    get->runs_at_rest = run;
    get->n_runs_at_rest++;
}

void rota_get_run_free_all(struct rota_get *get)
{
    ROTA_LIST_DRAIN (run, &get->runs, struct rota_get_run, link) {
        ROTA_LIST_DRAIN (call, &run->calls, struct rota_get_call, of_run)
            leave_call(get, call); /* their channels are closed */
        rota_get_run_end(run);
    }
    while (get->runs_at_rest) {
        struct rota_get_run *run = get->runs_at_rest;
        get->runs_at_rest = run->next;
        run_free(run);
    }
    while (get->calls_at_rest) {
        struct rota_get_call *call = get->calls_at_rest;
        get->calls_at_rest = call->next;
        free(call);
    }
}

/* --- for the program --- */

/* The ids and sharding keys of a request, in one pass over its keys. */
static bool read_keys(struct rota_get *get, const struct rota_get_request *request)
{
    const struct rota_get_service *service = &get->service;
    const char *key = request->keys;
    if (!rota_vector_reserve(&get->ids, request->n_keys) ||
        !rota_vector_reserve(&get->sharding_keys, request->n_keys))
        return false;
    for (size_t i = 0; i < request->n_keys; i++, key += service->key_size) {
        get->ids.items[i] = service->entry_id ? service->entry_id(service->data, key) : i;
        get->sharding_keys.items[i] = service->sharding_key(service->data, key);
    }
    return true;
}

static enum rota_code start_run(struct rota_get_run *run, rota_time now, struct rota_error *error)
{
    struct rota_get *get = run->get;
    const struct rota_get_options *options = &get->options;
    rota_time timeout = run->request.timeout ? run->request.timeout : options->timeout;
    if (!read_keys(get, &run->request))
        return rota_error_no_memory(error, "for the keys of a multi-get");
    struct rota_get_fsm_options with = {
        .ids = get->ids.items,
        .keys = get->sharding_keys.items,
        .n_keys = run->request.n_keys,
        .deadline = rota_time_add(now, timeout),
        .host_timeout = options->host_timeout,
        .ping_time = options->ping_period,
        .retries = options->retries,
        .mode = options->mode,
    };
    return rota_get_fsm_start(&run->fsm, now, &with, error);
}

enum rota_code rota_get_start(struct rota_get *get, const struct rota_get_request *request,
                              struct rota_get_run **result, struct rota_error *error)
{
    rota_time now = rota_clock_mono();
    if (request->n_keys > ROTA_GET_KEYS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "a multi-get has at most %d keys, not %zu",
                              (int)ROTA_GET_KEYS_MAX, request->n_keys);
    if (request->timeout < 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the deadline of a multi-get is before its start");
    if (!request->on_done)
        return rota_error_set(error, ROTA_ERR_INVALID, "multi-get: on_done is not set");
    if (get->n_runs >= ROTA_GET_RUNS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%d multi-gets are already in flight, the maximum",
                              (int)ROTA_GET_RUNS_MAX);
    struct rota_get_run *run = take_run(get);
    if (!run)
        return rota_error_no_memory(error, "for a multi-get");
    run->request = *request;
    run->started_at = run->moment.at = now;
    /* Reserve its entry in the timer's heap, so that it ends in time even if memory runs out
     * later. */
    enum rota_code code = rota_heap_push(&get->moments, &run->moment)
                              ? start_run(run, now, error)
                              : rota_error_no_memory(error, "for a multi-get");
    if (code) {
        rota_get_run_end(run);
        return code;
    }
    drive(run, now);
    if (result)
        *result = run;
    rota_get_finish_event(get, false);
    return ROTA_OK;
}

void rota_get_cancel(struct rota_get_run *run)
{
    struct rota_get *get = run->get;
    if (!rota_get_fsm_is_done(&run->fsm))
        rota_get_run_step(run, &(struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
    rota_get_run_end(run);
    rota_get_finish_event(get, false);
}
