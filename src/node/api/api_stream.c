#include "node/api/api_stream.h"

#include "base/hash.h"
#include "node/api/api.h"
#include "node/documents/document.h"
#include "node/documents/topics.h"
#include "node/node_spaces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A topic as last read. */
struct sight {
    struct rota_streams *streams;
    const struct rota_topic *topic;
    struct rota_buffer text; /* its JSON; empty: not seen yet */
    uint64_t hash;
    bool is_asked; /* it has not arrived yet */
};

struct client {
    struct rota_streams *streams;
    struct rota_http_stream *stream;
    struct rota_list_node link;
    uint64_t sent[ROTA_TOPICS_MAX]; /* hash of what was sent; 0: nothing */
    uint64_t after;                 /* number of the last event */
    rota_time sent_at;
    struct rota_str space; /* that it follows shard by shard; empty: none */
    struct rota_space_seen space_seen;
};

struct rota_streams {
    struct rota_node *node;
    uv_timer_t timer;
    struct rota_list_node clients;
    size_t n_clients;
    struct sight sights[ROTA_TOPICS_MAX];
    struct rota_buffer line; /* that is being made */
};

/* --- sending --- */

static void send_line(struct client *client, rota_time now)
{
    client->sent_at = now;
    rota_http_stream_send(client->stream, rota_buffer_str(&client->streams->line));
}

static void send_document(struct client *client, size_t i, rota_time now)
{
    struct rota_buffer *line = &client->streams->line;
    const struct sight *sight = &client->streams->sights[i];
    if (sight->text.size == 0 || client->sent[i] == sight->hash)
        return;
    rota_buffer_clear(line);
    rota_buffer_print(line, "event: %s\ndata: ", sight->topic->name);
    rota_buffer_append_str(line, rota_buffer_str(&sight->text));
    rota_buffer_append_text(line, "\n\n");
    client->sent[i] = sight->hash;
    send_line(client, now);
}

static void send_events(struct client *client, rota_time now)
{
    struct rota_buffer *line = &client->streams->line;
    const struct rota_event *event;
    while ((event = rota_events_next(&client->streams->node->events, client->after))) {
        struct rota_json json = {.buffer = line};
        rota_buffer_clear(line);
        rota_buffer_print(line,
                          "event: event\nid: %llu\ndata: ", (unsigned long long)event->number);
        rota_document_cluster_write_event(client->streams->node, event, &json);
        rota_buffer_append_text(line, "\n\n");
        client->after = event->number;
        send_line(client, now);
    }
}

/* The shards that have changed; all of them at first. */
static void send_space(struct client *client, rota_time now)
{
    struct rota_buffer *line = &client->streams->line;
    struct rota_node_spaces *spaces = client->streams->node->spaces;
    struct rota_json json = {.buffer = line};
    rota_buffer_clear(line);
    rota_buffer_append_text(line, "event: space\ndata: ");
    if (client->space.size == 0 || !spaces ||
        !rota_node_spaces_write_changes(spaces, client->space, &client->space_seen, &json))
        return;
    rota_buffer_append_text(line, "\n\n");
    send_line(client, now);
}

static void send_all(struct client *client, rota_time now)
{
    for (size_t i = 0; i < rota_n_topics; i++)
        send_document(client, i, now);
    send_events(client, now);
    if (now - client->sent_at >= ROTA_STREAM_SIGN) {
        rota_buffer_clear(&client->streams->line);
        rota_buffer_append_text(&client->streams->line, ": still here\n\n");
        send_line(client, now);
    }
}

/* --- looking --- */

static void on_document(void *data, const struct rota_error *error, struct rota_str json)
{
    struct sight *sight = data;
    struct rota_streams *streams = sight->streams;
    rota_time now = rota_clock_boot();
    sight->is_asked = false;
    if (error)
        return;
    rota_buffer_clear(&sight->text);
    rota_buffer_append_str(&sight->text, json);
    uint64_t hash = rota_hash_sip64(1, json);
    sight->hash = hash ? hash : 1;
    ROTA_LIST_EACH (client, &streams->clients, struct client, link)
        send_document(client, (size_t)(sight - streams->sights), now);
}

static void ask_for_topic(struct sight *sight)
{
    if (sight->is_asked)
        return;
    sight->is_asked = true;
    rota_topic_ask(sight->streams->node, sight->topic, on_document, sight);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_streams *streams = timer->data;
    rota_time now = rota_clock_boot();
    /* Shards are sent before the list of spaces, so that a follower of both never sees an
     * unknown version. */
    ROTA_LIST_EACH (client, &streams->clients, struct client, link)
        send_space(client, now);
    for (size_t i = 0; i < rota_n_topics; i++)
        ask_for_topic(&streams->sights[i]);
    ROTA_LIST_EACH (client, &streams->clients, struct client, link)
        send_all(client, now);
}

/* --- clients --- */

static void on_client_gone(void *data)
{
    struct client *client = data;
    struct rota_streams *streams = client->streams;
    rota_list_remove(&client->link);
    free((void *)client->space.data);
    free(client);
    if (--streams->n_clients == 0)
        uv_timer_stop(&streams->timer);
}

/* The last event that a reconnecting browser has seen. */
static uint64_t last_seen(const struct rota_api_call *call)
{
    struct rota_str text = rota_http_field(call->request, "Last-Event-ID");
    char copy[24];
    snprintf(copy, sizeof copy, "%.*s", (int)(text.size < 20 ? text.size : 20), text.data);
    return strtoull(copy, NULL, 10);
}

/* A copy of the name in `?space=NAME`; empty when there is none. */
static struct rota_str followed_space(const struct rota_api_call *call)
{
    struct rota_str name;
    char *copy = NULL;
    if (rota_http_target_find(call->target, "space", &name) && (copy = malloc(name.size + 1)))
        memcpy(copy, name.data, name.size);
    return rota_str_of(copy, copy ? name.size : 0);
}

void rota_api_stream(struct rota_api_call *call)
{
    static const struct rota_http_field FIELDS[] = {
        {"Content-Type", "text/event-stream"},
        {"Cache-Control", "no-store"},
        {"X-Accel-Buffering", "no"},
        {"X-Content-Type-Options", "nosniff"},
    };
    struct rota_streams *streams = call->node->streams;
    struct client *client =
        streams->n_clients < ROTA_STREAMS_MAX ? calloc(1, sizeof *client) : NULL;
    if (!client) {
        rota_api_refuse(call, 503, "too many clients of the stream");
        return;
    }
    client->streams = streams;
    client->after = last_seen(call);
    client->space = followed_space(call);
    client->sent_at = rota_clock_boot();
    struct rota_http_request *request = call->request;
    rota_api_let_go(call);
    client->stream = rota_http_answer_stream(request, 200, FIELDS, sizeof FIELDS / sizeof FIELDS[0],
                                             on_client_gone, client);
    if (!client->stream) {
        free((void *)client->space.data);
        free(client);
        return;
    }
    rota_list_push(&streams->clients, &client->link);
    rota_http_stream_send(client->stream, rota_str("retry: 1000\n\n"));
    if (streams->n_clients++ == 0)
        uv_timer_start(&streams->timer, on_timer, 0, ROTA_STREAM_EVERY / ROTA_MSEC);
}

/* --- life --- */

enum rota_code rota_api_stream_open(struct rota_node *node, struct rota_streams **streams,
                                    struct rota_error *error)
{
    struct rota_streams *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for streams");
    made->node = node;
    rota_list_init(&made->clients);
    uv_timer_init(node->loop, &made->timer);
    made->timer.data = made;
    for (size_t i = 0; i < rota_n_topics; i++)
        made->sights[i] = (struct sight){.streams = made, .topic = &rota_topics[i]};
    *streams = made;
    return ROTA_OK;
}

static void on_closed(uv_handle_t *handle)
{
    struct rota_streams *streams = handle->data;
    for (size_t i = 0; i < rota_n_topics; i++)
        rota_buffer_deinit(&streams->sights[i].text);
    rota_buffer_deinit(&streams->line);
    free(streams);
}

void rota_api_stream_close(struct rota_streams *streams)
{
    if (!streams)
        return;
    ROTA_LIST_DRAIN (client, &streams->clients, struct client, link) {
        rota_http_stream_close(client->stream);
        on_client_gone(client);
    }
    uv_close((uv_handle_t *)&streams->timer, on_closed);
}

size_t rota_api_stream_n_clients(const struct rota_streams *streams)
{
    return streams->n_clients;
}
