/* Two sessions back to back, without a network, on a clock of our own. */
#include "wire/http2/http2.h"

#include <rota/experimental/random.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CALLS = 300 };

struct side {
    struct rota_http2 *session;
    struct rota_http2_call calls[CALLS]; /* those of a server are taken in order */
    size_t n_accepted, n_asked, n_ended, n_released, n_goaway, n_messages;
    enum rota_status status;
    bool is_unsent, is_slow, has_stream;
    bool leaves_in_message, cancels_in_end; /* what an owner may do from a callback */
    bool insists;
    int n_told_of_room;
};

struct world {
    struct side client, server;
    rota_time now;
};

static struct rota_http2_call *on_accept(void *data)
{
    struct side *side = data;
    assert_true(side->n_accepted < CALLS);
    return &side->calls[side->n_accepted++];
}

static void on_head(void *data, struct rota_http2_call *call)
{
    struct side *side = data;
    if (side->has_stream)
        rota_http2_expect_stream(call);
}

static void on_request(void *data, struct rota_http2_call *call)
{
    struct side *side = data;
    side->n_asked++;
    if (side->is_slow)
        return;
    assert_int_equal(rota_http2_send(call, rota_buffer_str(&call->decoder.message)), ROTA_OK);
    rota_http2_finish(call, ROTA_STATUS_OK, rota_str(""), NULL, 0);
}

static void on_message(void *data, struct rota_http2_call *call, struct rota_str message)
{
    struct side *side = data;
    (void)message;
    side->n_messages++;
    if (side->leaves_in_message) {
        rota_http2_pause(call);
        rota_http2_cancel(call);
        rota_http2_cancel(call);
    }
}

static void on_end(void *data, struct rota_http2_call *call, const struct rota_http2_result *result)
{
    struct side *side = data;
    side->n_ended++;
    side->status = result->status;
    side->is_unsent = result->is_unsent;
    if (side->cancels_in_end)
        rota_http2_cancel(call);
}

/* One that insists sends again at once, what is too large as long as something waits. */
static void on_room(void *data, struct rota_http2_call *call)
{
    struct side *side = data;
    static char large[ROTA_HTTP2_STREAM_OUT_MAX];
    side->n_told_of_room++;
    if (side->insists)
        assert_int_equal(rota_http2_send(call, rota_str_of(large, sizeof large)), ROTA_ERR_LIMIT);
}

static void on_release(void *data, struct rota_http2_call *call)
{
    struct side *side = data;
    (void)call;
    side->n_released++;
}

static void on_goaway(void *data, bool is_calm)
{
    struct side *side = data;
    assert_true(is_calm);
    side->n_goaway++;
}

static void side_open(struct side *side, struct rota_http2_options options, rota_time now)
{
    struct rota_http2_handler handler = {on_accept, on_head,    on_request, on_message, on_end,
                                         on_room,   on_release, on_goaway,  side};
    options.authority = "test";
    for (int i = 0; i < CALLS; i++)
        rota_http2_call_init(&side->calls[i]);
    assert_int_equal(rota_http2_new(&options, &handler, now, &side->session, NULL), ROTA_OK);
}

static struct world *world_new(struct rota_http2_options client, struct rota_http2_options server)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->now = 1000 * ROTA_SEC;
    server.is_server = true;
    side_open(&world->client, client, world->now);
    side_open(&world->server, server, world->now);
    return world;
}

static void side_close(struct side *side)
{
    rota_http2_free(side->session, rota_str("the end"));
    for (int i = 0; i < CALLS; i++)
        rota_http2_call_deinit(&side->calls[i]);
}

static void world_free(struct world *world)
{
    side_close(&world->client);
    side_close(&world->server);
    free(world);
}

static size_t carry(struct world *world, struct side *from, struct side *to)
{
    struct rota_buffer bytes = {0};
    rota_http2_pull(from->session, &bytes, SIZE_MAX);
    struct rota_str left = rota_buffer_str(&bytes);
    while (left.size > 0 && rota_http2_feed(to->session, world->now, &left))
        ;
    size_t size = bytes.size;
    rota_buffer_deinit(&bytes);
    return size;
}

static void talk(struct world *world)
{
    while (carry(world, &world->client, &world->server) +
               carry(world, &world->server, &world->client) >
           0)
        ;
}

static struct rota_http2_call *prepare(struct world *world, int i, bool is_streaming)
{
    struct rota_http2_call *call = &world->client.calls[i];
    assert_int_equal(rota_http2_call_prepare(call, rota_str("/a/b"), rota_str("hello"), NULL, 0,
                                             is_streaming, NULL),
                     ROTA_OK);
    return call;
}

static struct rota_http2_call *start(struct world *world, int i)
{
    struct rota_http2_call *call = prepare(world, i, false);
    assert_int_equal(rota_http2_start(world->client.session, call, 10 * ROTA_SEC), ROTA_OK);
    return call;
}

static void a_call_goes_there_and_back(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    struct rota_http2_call *call = start(world, 0);
    assert_false(rota_http2_may_be_sent(call));
    talk(world);
    assert_int_equal(world->client.n_ended, 1);
    assert_int_equal(world->client.status, ROTA_STATUS_OK);
    assert_int_equal(world->client.n_released, 1);
    assert_int_equal(world->server.n_released, 1);
    assert_string_equal(call->decoder.message.data, "hello");
    assert_true(world->server.calls[0].head.timeout == 10 * ROTA_SEC);
    assert_int_equal(rota_http2_n_calls(world->client.session), 0);
    world_free(world);
}

/* The client takes nothing. What waits is little enough for more, but not for what is sent. */
static void a_call_that_is_refused_again_delays_no_other(void **state)
{
    static char large[ROTA_HTTP2_STREAM_OUT_MAX];
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    world->server.is_slow = true;
    start(world, 0);
    talk(world);
    struct rota_http2_call *served = &world->server.calls[0];
    assert_int_equal(rota_http2_send(served, rota_str_of(large, sizeof large / 4)), ROTA_OK);
    assert_int_equal(rota_http2_send(served, rota_str_of(large, sizeof large)), ROTA_ERR_LIMIT);
    world->server.insists = true;
    struct rota_buffer bytes = {0};
    rota_http2_pull(world->server.session, &bytes, 1); /* one frame, and no more */
    rota_buffer_deinit(&bytes);
    assert_int_equal(world->server.n_told_of_room, 1);
    world_free(world);
}

/* Value of the pair that the test sends, beside the user-agent. */
static const char *pair_of(struct rota_grpc_head *head, char text[16])
{
    size_t n;
    const struct rota_metadata *pairs = rota_grpc_head_fields_pairs(&head->metadata, &n);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(pairs[i].name, rota_str("x")))
            snprintf(text, 16, "%.*s", ROTA_STR_ARGS(pairs[i].value));
    return text;
}

/* Calls that are alike are packed and read in a shorter way. None may be taken for
 * another, also while other fields come and go in the tables. */
static void check_own_head(struct world *world, struct rota_random *random, size_t i)
{
    static const char *const paths[] = {"/a/b", "/a/c", "/d"};
    const char *path = paths[rota_random_below(random, 5) % 3];
    rota_time timeout = ((int64_t)rota_random_below(random, 4) / 2 + 1) * ROTA_SEC;
    bool is_ok = rota_random_below(random, 3) > 0;
    bool has_text = !is_ok && rota_random_below(random, 2) == 0;
    char value[16], text[16];
    snprintf(value, sizeof value, "%d", (int)rota_random_below(random, 200));
    struct rota_metadata pair = {rota_str("x"), rota_str(value)};
    size_t n_there = rota_random_below(random, 4) == 0, n_back = rota_random_below(random, 4) == 0;

    struct rota_http2_call *call = &world->client.calls[i], *served = &world->server.calls[i];
    assert_int_equal(
        rota_http2_call_prepare(call, rota_str(path), rota_str("hi"), &pair, n_there, false, NULL),
        ROTA_OK);
    assert_int_equal(rota_http2_start(world->client.session, call, timeout), ROTA_OK);
    talk(world);
    assert_string_equal(served->head.path.data, path);
    assert_true(served->head.timeout == timeout);
    assert_int_equal(served->head.metadata.places.size, 1 + n_there);
    assert_string_equal(pair_of(&served->head, text), n_there ? value : "");

    if (is_ok)
        rota_http2_send(served, rota_str("ho"));
    rota_http2_finish(served, is_ok ? ROTA_STATUS_OK : ROTA_STATUS_NOT_FOUND,
                      rota_str(has_text ? value : ""), &pair, n_back);
    talk(world);
    assert_int_equal(world->client.n_ended, i + 1);
    assert_int_equal(world->client.status, is_ok ? ROTA_STATUS_OK : ROTA_STATUS_NOT_FOUND);
    assert_true(
        rota_str_is_equal(rota_buffer_str(&call->head.text), rota_str(has_text ? value : "")));
    assert_string_equal(pair_of(&call->head, text), n_back ? value : "");
}

static void each_call_has_its_own_head(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct world *world =
            world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
        struct rota_random random;
        rota_random_init(&random, seed);
        world->server.is_slow = true;
        for (size_t i = 0; i < CALLS; i++)
            check_own_head(world, &random, i);
        world_free(world);
    }
}

static void say(struct rota_http2_call *call, struct rota_buffer *message, const char *text)
{
    rota_http2_begin_message(call, message);
    rota_buffer_append_text(message, text);
}

static void a_message_built_in_the_calls_memory_is_not_copied(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    struct rota_http2_call *asked = &world->server.calls[0];
    struct rota_buffer message = {0};
    (void)state;
    world->server.is_slow = true;
    struct rota_http2_call *call = start(world, 0);
    talk(world);
    say(asked, &message, "built");
    const char *memory = message.data;
    assert_int_equal(rota_http2_send_begun(asked, &message), ROTA_OK);
    assert_ptr_equal(asked->out.data, memory);
    assert_int_equal(message.size, 0);
    rota_http2_finish(asked, ROTA_STATUS_OK, rota_str(""), NULL, 0);
    talk(world);
    assert_int_equal(world->client.status, ROTA_STATUS_OK);
    assert_string_equal(call->decoder.message.data, "built");

    rota_http2_call_reset(asked);
    say(asked, &message, "again"); /* the call kept it for the next use */
    assert_ptr_equal(message.data, memory);
    assert_int_equal(rota_http2_send_begun(asked, &message), ROTA_ERR_UNAVAILABLE);
    assert_int_equal(message.size, ROTA_GRPC_PREFIX_SIZE + 5); /* left alone */
    rota_buffer_deinit(&message);
    world_free(world);
}

static void a_message_that_was_built_keeps_its_place_after_others(void **state)
{
    enum { FIRST = ROTA_HTTP2_STREAM_OUT_MAX - 100 };
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    struct rota_http2_call *asked = &world->server.calls[0];
    struct rota_buffer message = {0};
    (void)state;
    world->server.is_slow = true;
    struct rota_http2_call *call = prepare(world, 0, true);
    assert_int_equal(rota_http2_start(world->client.session, call, ROTA_TIME_NEVER), ROTA_OK);
    talk(world);
    rota_http2_begin_message(asked, &message);
    assert_non_null(rota_buffer_extend(&message, FIRST));
    memset(message.data + ROTA_GRPC_PREFIX_SIZE, 'x', FIRST);
    assert_int_equal(rota_http2_send_begun(asked, &message), ROTA_OK);
    say(asked, &message, "a second");
    assert_int_equal(rota_http2_send_begun(asked, &message), ROTA_OK);
    assert_int_equal(message.size, 0);
    say(asked, &message,
        "a third, of more than one hundred bytes: one hundred are what is left of "
        "the room for the replies that wait");
    assert_int_equal(rota_http2_send_begun(asked, &message), ROTA_ERR_LIMIT);
    assert_true(message.size > 100); /* left alone */
    talk(world);
    assert_int_equal(world->client.n_messages, 2);
    assert_int_equal(rota_http2_send_begun(asked, &message), ROTA_OK);
    rota_http2_finish(asked, ROTA_STATUS_OK, rota_str(""), NULL, 0);
    talk(world);
    assert_int_equal(world->client.n_messages, 3);
    assert_int_equal(world->client.status, ROTA_STATUS_OK);
    rota_buffer_deinit(&message);
    world_free(world);
}

static void after_goaway_a_call_is_refused_at_once_and_unchanged(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    world->server.is_slow = true;
    start(world, 0);
    talk(world);
    rota_http2_drain(world->server.session);
    talk(world);
    assert_int_equal(world->client.n_goaway, 1);
    assert_false(rota_http2_is_open(world->client.session));
    struct rota_http2_call *late = prepare(world, 1, false);
    assert_int_equal(rota_http2_start(world->client.session, late, ROTA_TIME_NEVER),
                     ROTA_ERR_UNAVAILABLE);
    assert_null(late->session);
    assert_false(rota_http2_may_be_sent(late));

    /* What was in flight finishes, and only then both are done. */
    assert_false(rota_http2_is_done(world->server.session));
    rota_http2_send(&world->server.calls[0], rota_str("late but fine"));
    rota_http2_finish(&world->server.calls[0], ROTA_STATUS_OK, rota_str(""), NULL, 0);
    talk(world);
    assert_int_equal(world->client.status, ROTA_STATUS_OK);
    assert_true(rota_http2_is_done(world->client.session));
    assert_true(rota_http2_is_done(world->server.session));
    world_free(world);
}

static void a_call_in_flight_during_a_drain_is_served(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    talk(world);
    rota_http2_drain(world->server.session);
    start(world, 0); /* the client does not know yet */
    carry(world, &world->client, &world->server);
    talk(world);
    assert_int_equal(world->client.n_ended, 1);
    assert_int_equal(world->client.status, ROTA_STATUS_OK);
    world_free(world);
}

static void calls_above_the_peers_limit_wait_and_too_many_are_refused(void **state)
{
    struct world *world = world_new((struct rota_http2_options){.queue_max = 5},
                                    (struct rota_http2_options){.streams_max = 3});
    (void)state;
    talk(world);
    world->server.is_slow = true;
    for (int i = 0; i < 8; i++)
        start(world, i);
    struct rota_http2_call *ninth = prepare(world, 8, false);
    assert_int_equal(rota_http2_start(world->client.session, ninth, ROTA_TIME_NEVER),
                     ROTA_ERR_LIMIT);
    talk(world);
    assert_int_equal(world->server.n_asked, 3);

    rota_http2_cancel(&world->client.calls[7]); /* waits: gone at once, never sent */
    assert_int_equal(world->client.n_released, 1);
    rota_http2_cancel(&world->client.calls[0]); /* makes room for the fourth */
    talk(world);
    assert_int_equal(world->server.n_asked, 4);
    assert_int_equal(world->server.n_ended, 1);
    rota_http2_drain(world->server.session);
    talk(world);
    assert_int_equal(world->client.n_ended, 3); /* those that still waited: refused, unsent */
    assert_true(world->client.is_unsent);
    world_free(world);
}

static void a_call_dropped_before_it_left_is_never_seen(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    for (int i = 0; i < 10; i++) {
        start(world, i);
        if (i % 2)
            rota_http2_cancel(&world->client.calls[i]);
    }
    talk(world);
    assert_int_equal(world->server.n_asked, 5);
    assert_int_equal(world->client.n_ended, 5);
    assert_int_equal(world->client.n_released, 10);
    world_free(world);
}

static void a_lost_connection_reports_which_calls_may_have_been_sent(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    world->server.is_slow = true;
    start(world, 0);
    talk(world);
    assert_true(rota_http2_may_be_sent(&world->client.calls[0]));
    side_close(&world->client);
    assert_int_equal(world->client.status, ROTA_STATUS_UNAVAILABLE);
    assert_false(world->client.is_unsent);

    side_open(&world->client, (struct rota_http2_options){0}, world->now);
    start(world, 1); /* nothing is pulled: it has not left */
    side_close(&world->client);
    assert_true(world->client.is_unsent);
    side_open(&world->client, (struct rota_http2_options){0}, world->now);
    world_free(world);
}

static void an_idle_connection_is_pinged_and_closed_without_an_answer(void **state)
{
    struct rota_http2_options pinging = {.keepalive_interval = 60 * ROTA_SEC,
                                         .keepalive_timeout = 5 * ROTA_SEC};
    struct world *world = world_new(pinging, (struct rota_http2_options){0});
    struct rota_http2 *client = world->client.session;
    (void)state;
    talk(world);
    for (int i = 0; i < 5; i++) {
        assert_true(rota_http2_deadline(client) == world->now + 60 * ROTA_SEC);
        world->now += 60 * ROTA_SEC;
        assert_true(rota_http2_tick(client, world->now));
        talk(world); /* the answer comes */
    }
    world->now += 60 * ROTA_SEC;
    assert_true(rota_http2_tick(client, world->now));
    assert_true(rota_http2_deadline(client) == world->now + 5 * ROTA_SEC);
    assert_true(rota_http2_tick(client, world->now + 5 * ROTA_SEC - 1));
    assert_true(rota_http2_tick(client, world->now + 5 * ROTA_SEC)); /* something may have come */
    world->now = rota_http2_deadline(client);
    assert_false(rota_http2_tick(client, world->now));
    assert_int_equal(rota_http2_fault(client), ROTA_HTTP2_FAULT_SILENT);
    world_free(world);
}

static void an_answer_that_came_while_we_were_busy_counts(void **state)
{
    struct rota_http2_options pinging = {.keepalive_interval = 60 * ROTA_SEC,
                                         .keepalive_timeout = 5 * ROTA_SEC};
    struct world *world = world_new(pinging, (struct rota_http2_options){0});
    struct rota_http2 *client = world->client.session;
    (void)state;
    talk(world);
    world->now += 60 * ROTA_SEC;
    assert_true(rota_http2_tick(client, world->now));
    world->now += ROTA_HOUR;
    assert_true(rota_http2_tick(client, world->now));
    talk(world);
    assert_true(rota_http2_tick(client, world->now + ROTA_SEC));
    assert_true(rota_http2_deadline(client) == world->now + 60 * ROTA_SEC);
    world_free(world);
}

static void an_idle_connection_is_pinged_sooner_after_a_call(void **state)
{
    struct rota_http2_options pinging = {.keepalive_interval = 60 * ROTA_SEC,
                                         .keepalive_timeout = 5 * ROTA_SEC,
                                         .keepalive_call = ROTA_SEC};
    struct world *world = world_new(pinging, (struct rota_http2_options){0});
    struct rota_http2 *client = world->client.session;
    (void)state;
    talk(world);
    rota_http2_called(client, world->now + 2 * ROTA_SEC);
    rota_http2_called(client, world->now + 3 * ROTA_SEC); /* the first one counts */
    world->now += 3 * ROTA_SEC;
    assert_true(rota_http2_deadline(client) == world->now);
    assert_true(rota_http2_tick(client, world->now));
    assert_true(rota_http2_deadline(client) == world->now + 5 * ROTA_SEC);
    talk(world); /* the answer: the call may take its time */
    assert_true(rota_http2_deadline(client) == world->now + 60 * ROTA_SEC);
    world_free(world);
}

static const struct rota_http2_options idling = {.idle_timeout = 300 * ROTA_SEC,
                                                 .keepalive_timeout = 20 * ROTA_SEC};

static void a_connection_without_calls_ends_gracefully(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, idling);
    struct rota_http2 *server = world->server.session;
    (void)state;
    talk(world);
    start(world, 0);
    world->now += 200 * ROTA_SEC;
    talk(world);
    assert_int_equal(world->client.n_ended, 1);
    world->now += 299 * ROTA_SEC;
    assert_true(rota_http2_tick(server, world->now));
    talk(world);
    assert_int_equal(world->client.n_goaway, 0);
    world->now += 300 * ROTA_SEC; /* it was busy at the last look */
    assert_true(rota_http2_tick(server, world->now));
    start(world, 1); /* in flight when the client is asked to go: it is still served */
    talk(world);
    assert_int_equal(world->client.n_goaway, 1);
    assert_int_equal(world->client.n_ended, 2);
    assert_int_equal(world->client.status, ROTA_STATUS_OK);
    assert_true(rota_http2_is_done(server));
    assert_int_equal(rota_http2_fault(server), ROTA_HTTP2_FAULT_NONE);
    world_free(world);
}

static void a_connection_with_a_call_is_not_idle(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, idling);
    struct rota_http2 *server = world->server.session;
    (void)state;
    world->server.is_slow = true;
    talk(world);
    start(world, 0);
    talk(world);
    for (int i = 0; i < 10; i++) {
        world->now = rota_http2_deadline(server);
        assert_true(rota_http2_tick(server, world->now));
    }
    talk(world);
    assert_int_equal(world->client.n_goaway, 0);
    assert_int_equal(world->server.n_asked, 1);
    world_free(world);
}

static void a_request_that_never_is_whole_does_not_keep_a_connection(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, idling);
    struct rota_http2 *server = world->server.session;
    struct rota_buffer bytes = {0};
    (void)state;
    talk(world);
    start(world, 0);
    rota_http2_pull(world->client.session, &bytes, SIZE_MAX);
    for (size_t i = 0; i + 3 < bytes.size; i++) { /* a byte now and then, and the last ones never */
        struct rota_str one = rota_str_of(bytes.data + i, 1);
        world->now += ROTA_SEC;
        assert_true(rota_http2_feed(server, world->now, &one));
    }
    world->now = rota_http2_deadline(server);
    assert_true(rota_http2_tick(server, world->now)); /* it may answer until then */
    assert_true(rota_http2_deadline(server) == world->now + 20 * ROTA_SEC);
    assert_false(rota_http2_tick(server, world->now + 20 * ROTA_SEC));
    assert_int_equal(rota_http2_fault(server), ROTA_HTTP2_FAULT_SILENT);
    assert_int_equal(world->server.n_asked, 0);
    rota_buffer_deinit(&bytes);
    world_free(world);
}

static void bytes_should_leave_after_so_many_calls(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    talk(world);
    for (int i = 0; i < ROTA_HTTP2_FLUSH_CALLS; i++) {
        assert_false(rota_http2_wants_flush(world->client.session));
        start(world, i);
    }
    assert_true(rota_http2_wants_flush(world->client.session));
    carry(world, &world->client, &world->server);
    assert_false(rota_http2_wants_flush(world->client.session));
    assert_true(rota_http2_wants_flush(world->server.session));
    world_free(world);
}

static void a_paused_call_gets_its_result_later_even_without_its_stream(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    struct rota_http2_call *call = prepare(world, 0, true);
    assert_int_equal(rota_http2_start(world->client.session, call, ROTA_TIME_NEVER), ROTA_OK);
    rota_http2_pause(call);
    talk(world);
    assert_int_equal(world->server.n_released, 1);
    assert_int_equal(world->client.n_messages, 0);
    assert_int_equal(world->client.n_ended, 0);
    rota_http2_resume(call);
    assert_int_equal(world->client.n_messages, 1);
    assert_int_equal(world->client.n_ended, 1);
    assert_int_equal(world->client.status, ROTA_STATUS_OK);
    assert_int_equal(world->client.n_released, 1);
    world_free(world);
}

/* A paused call with two replies, whose stream is gone. `flag` is the first byte of
 * the second one. */
static struct world *world_of_held(struct rota_http2_call **call, char flag)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    struct rota_http2_call *asked = &world->server.calls[0];
    world->server.is_slow = true;
    *call = prepare(world, 0, true);
    assert_int_equal(rota_http2_start(world->client.session, *call, ROTA_TIME_NEVER), ROTA_OK);
    rota_http2_pause(*call);
    talk(world);
    assert_int_equal(rota_http2_send(asked, rota_str("one")), ROTA_OK);
    size_t at = asked->out.size;
    assert_int_equal(rota_http2_send(asked, rota_str("two")), ROTA_OK);
    asked->out.data[at] = flag;
    rota_http2_finish(asked, ROTA_STATUS_OK, rota_str(""), NULL, 0);
    talk(world);
    assert_int_equal(world->server.n_released, 1);
    assert_int_equal(world->client.n_released, 0);
    return world;
}

static void check_over(struct world *world, size_t n_messages, size_t n_ended)
{
    assert_int_equal(world->client.n_messages, n_messages);
    assert_int_equal(world->client.n_ended, n_ended);
    assert_int_equal(world->client.n_released, 1);
    assert_int_equal(rota_http2_n_calls(world->client.session), 0);
    world_free(world);
}

static void a_bad_message_that_was_held_ends_the_call_once(void **state)
{
    struct rota_http2_call *call;
    struct world *world = world_of_held(&call, 7);
    (void)state;
    rota_http2_resume(call);
    assert_int_equal(world->client.status, ROTA_STATUS_INTERNAL);
    check_over(world, 1, 1);
}

static void a_held_call_may_be_left_from_its_message(void **state)
{
    struct rota_http2_call *call;
    struct world *world = world_of_held(&call, 0);
    (void)state;
    world->client.leaves_in_message = true;
    rota_http2_resume(call);
    check_over(world, 1, 0);
}

static void a_call_may_be_cancelled_when_it_has_ended(void **state)
{
    struct rota_http2_call *call;
    (void)state;
    for (int flag = 0; flag <= 7; flag += 7) {
        struct world *world = world_of_held(&call, (char)flag);
        world->client.cancels_in_end = true;
        rota_http2_resume(call);
        check_over(world, flag ? 1 : 2, 1);
    }

    struct world *world =
        world_new((struct rota_http2_options){0}, (struct rota_http2_options){.streams_max = 1});
    world->client.cancels_in_end = world->server.is_slow = true;
    talk(world);
    start(world, 0);
    start(world, 1); /* waits, and ends with the GOAWAY */
    talk(world);
    rota_http2_drain(world->server.session);
    talk(world);
    assert_int_equal(world->client.n_released, 1);
    rota_http2_finish(&world->server.calls[0], ROTA_STATUS_OK, rota_str(""), NULL, 0);
    talk(world);
    assert_int_equal(world->client.n_ended, 2);
    assert_int_equal(world->client.n_released, 2);
    assert_int_equal(world->server.n_ended, 0); /* no reset for what was over */
    world_free(world);
}

static void a_server_may_cancel_a_call_that_its_client_dropped(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    world->server.cancels_in_end = world->server.is_slow = true;
    struct rota_http2_call *call = start(world, 0);
    talk(world);
    rota_http2_cancel(call);
    talk(world);
    assert_int_equal(world->server.n_ended, 1);
    assert_int_equal(world->server.n_released, 1);
    assert_int_equal(rota_http2_n_calls(world->server.session), 0);
    world_free(world);
}

static void a_call_may_be_paused_before_it_has_begun(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    struct rota_http2_call *call = prepare(world, 0, true);
    rota_http2_pause(call);
    rota_http2_resume(call);
    assert_int_equal(rota_http2_start(world->client.session, call, ROTA_TIME_NEVER), ROTA_OK);
    talk(world);
    check_over(world, 1, 1);

    world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    call = prepare(world, 0, true);
    rota_http2_pause(call);
    rota_http2_call_rewind(call); /* as when it goes to another connection */
    assert_int_equal(rota_http2_start(world->client.session, call, ROTA_TIME_NEVER), ROTA_OK);
    talk(world);
    assert_int_equal(world->client.n_messages, 0);
    rota_http2_resume(call);
    check_over(world, 1, 1);
}

/* A call whose request is `n` messages of `size` bytes, and `n_more` bytes of
 * another. */
static void start_stream(struct world *world, int n, uint32_t size, size_t n_more)
{
    struct rota_http2_call *call = &world->client.calls[0];
    uint8_t prefix[ROTA_GRPC_PREFIX_SIZE];
    char *bytes = calloc(1, size + 1);
    assert_non_null(bytes);
    assert_int_equal(
        rota_http2_call_prepare(call, rota_str("/a/b"), rota_str("hello"), NULL, 0, true, NULL),
        ROTA_OK);
    rota_grpc_prefix_encode(prefix, size, false);
    for (int i = 1; i < n; i++) {
        rota_buffer_append(&call->out, prefix, sizeof prefix);
        rota_buffer_append(&call->out, bytes, size);
    }
    rota_buffer_append(&call->out, prefix, n_more);
    free(bytes);
    assert_int_equal(rota_http2_start(world->client.session, call, 10 * ROTA_SEC), ROTA_OK);
}

static void a_stream_of_requests_is_delivered_one_by_one(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    world->server.has_stream = true;
    start_stream(world, 5, 1000, 0);
    talk(world);
    assert_int_equal(world->server.n_messages, 5);
    assert_int_equal(world->server.n_asked, 1);
    assert_int_equal(world->server.n_ended, 0);
    assert_int_equal(world->client.status, ROTA_STATUS_OK);
    world_free(world);
}

/* By then it has an owner, which has to hear that it is over. */
static void a_rejected_stream_of_requests_gets_a_status(void **state)
{
    struct world *world =
        world_new((struct rota_http2_options){0}, (struct rota_http2_options){.message_max = 999});
    (void)state;
    world->server.has_stream = true;
    start_stream(world, 3, 1000, 0);
    talk(world);
    assert_int_equal(world->server.n_messages, 1);
    assert_int_equal(world->server.n_asked, 0);
    assert_int_equal(world->server.n_ended, 1);
    assert_int_equal(world->server.n_released, 1);
    assert_int_equal(world->client.n_ended, 1);
    assert_int_equal(world->client.status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    world_free(world);
}

static void a_stream_of_requests_must_end_between_two(void **state)
{
    struct world *world = world_new((struct rota_http2_options){0}, (struct rota_http2_options){0});
    (void)state;
    world->server.has_stream = true;
    start_stream(world, 2, 10, 3);
    talk(world);
    assert_int_equal(world->server.n_messages, 2);
    assert_int_equal(world->server.n_asked, 0);
    assert_int_equal(world->server.n_ended, 1);
    assert_int_equal(world->client.status, ROTA_STATUS_INTERNAL);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_goes_there_and_back),
        cmocka_unit_test(a_call_that_is_refused_again_delays_no_other),
        cmocka_unit_test(each_call_has_its_own_head),
        cmocka_unit_test(a_message_built_in_the_calls_memory_is_not_copied),
        cmocka_unit_test(a_message_that_was_built_keeps_its_place_after_others),
        cmocka_unit_test(after_goaway_a_call_is_refused_at_once_and_unchanged),
        cmocka_unit_test(a_call_in_flight_during_a_drain_is_served),
        cmocka_unit_test(calls_above_the_peers_limit_wait_and_too_many_are_refused),
        cmocka_unit_test(a_call_dropped_before_it_left_is_never_seen),
        cmocka_unit_test(a_lost_connection_reports_which_calls_may_have_been_sent),
        cmocka_unit_test(an_idle_connection_is_pinged_and_closed_without_an_answer),
        cmocka_unit_test(an_answer_that_came_while_we_were_busy_counts),
        cmocka_unit_test(an_idle_connection_is_pinged_sooner_after_a_call),
        cmocka_unit_test(bytes_should_leave_after_so_many_calls),
        cmocka_unit_test(a_connection_without_calls_ends_gracefully),
        cmocka_unit_test(a_connection_with_a_call_is_not_idle),
        cmocka_unit_test(a_request_that_never_is_whole_does_not_keep_a_connection),
        cmocka_unit_test(a_paused_call_gets_its_result_later_even_without_its_stream),
        cmocka_unit_test(a_bad_message_that_was_held_ends_the_call_once),
        cmocka_unit_test(a_held_call_may_be_left_from_its_message),
        cmocka_unit_test(a_call_may_be_cancelled_when_it_has_ended),
        cmocka_unit_test(a_server_may_cancel_a_call_that_its_client_dropped),
        cmocka_unit_test(a_call_may_be_paused_before_it_has_begun),
        cmocka_unit_test(a_stream_of_requests_is_delivered_one_by_one),
        cmocka_unit_test(a_rejected_stream_of_requests_gets_a_status),
        cmocka_unit_test(a_stream_of_requests_must_end_between_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
