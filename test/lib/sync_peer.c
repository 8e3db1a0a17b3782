#include "sync_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void peer_forget_records(struct peer *peer)
{
    for (size_t i = 0; i < peer->records.size; i++)
        free(peer->records.items[i].bytes);
    peer->records.size = 0;
    peer->n_records = 0;
}

void peer_forget_members(struct peer *peer)
{
    for (size_t i = 0; i < peer->members.size; i++)
        free(peer->members.items[i]);
    peer->members.size = 0;
}

void peer_read(struct peer *peer, uint64_t offset)
{
    peer_forget_records(peer);
    peer->from = peer->next = offset;
    peer->n_ok = 0;
    rota_sync_read(peer->sync, offset);
}

static void peer_on_record(struct peer *peer, const struct rota_sync_event *event)
{
    struct peer_record record = {.offset = event->offset, .size = event->size};
    assert_true(event->offset >= peer->next);
    peer->next = event->offset + 1;
    record.is_whole = event->bytes.size == event->size;
    record.bytes = malloc(event->bytes.size + 1);
    assert_non_null(record.bytes);
    if (event->bytes.size > 0)
        memcpy(record.bytes, event->bytes.data, event->bytes.size);
    record.bytes[event->bytes.size] = '\0';
    assert_true(rota_vector_push(&peer->records, record));
    peer->n_records++;
}

static void peer_on_answer(struct peer *peer, const struct rota_sync_event *event)
{
    assert_in_range(event->number, 0, 4095);
    assert_false(peer->is_answered[event->number]);
    peer->is_answered[event->number] = true;
    peer->offsets[event->number] = event->type == ROTA_SYNC_APPENDED ? event->offset : UINT64_MAX;
    peer->n_answered++;
    peer->n_ok_since = 0;
}

static void peer_on_round(struct peer *peer, const struct rota_sync_event *event)
{
    assert_true(peer->is_member);
    assert_true(event->sent_at <= rota_clock_boot());
    peer_forget_members(peer);
    for (size_t i = 0; i < event->n_members; i++) {
        char *line = strndup(event->members[i].data, event->members[i].size);
        assert_true(line && rota_vector_push(&peer->members, line));
    }
    peer->generation = event->generation;
    peer->is_leader = event->is_leader;
    peer->n_group_ok_since = 0;
    peer->n_rounds++;
}

void peer_on_event(void *data, const struct rota_sync_event *event)
{
    struct peer *peer = data;
    assert_int_equal(peer->n_failed, 0);
    assert_int_equal(peer->n_closed, 0);
    if (event->error)
        snprintf(peer->error, sizeof peer->error, "%s", event->error->text);
    peer->n_events++;
    switch (event->type) {
    case ROTA_SYNC_OPENED:
        peer->first = event->first;
        peer->end = event->end;
        peer->n_opened++;
        assert_int_equal(peer->n_opened, peer->n_lost + 1);
        if (!peer->is_deaf)
            peer_read(peer, event->first);
        break;
    case ROTA_SYNC_RECORD:
        peer_on_record(peer, event);
        break;
    case ROTA_SYNC_OK:
        assert_true(event->end <= peer->next || event->end <= peer->from);
        assert_true(event->sent_at <= rota_clock_boot());
        peer->ok_end = event->end;
        peer->ok_sent_at = event->sent_at;
        peer->n_ok++;
        peer->n_ok_since++;
        break;
    case ROTA_SYNC_LOST:
        assert_non_null(event->error);
        peer->n_lost++;
        break;
    case ROTA_SYNC_APPENDED:
        peer_on_answer(peer, event);
        peer->n_appended++;
        break;
    case ROTA_SYNC_NOT_APPENDED:
        peer_on_answer(peer, event);
        peer->n_not_appended++;
        break;
    case ROTA_SYNC_ROUND:
        peer_on_round(peer, event);
        break;
    case ROTA_SYNC_GROUP_OK:
        assert_true(peer->is_member && peer->n_rounds > 0);
        assert_true(event->sent_at <= rota_clock_boot());
        peer->group_ok_sent_at = event->sent_at;
        peer->n_group_ok++;
        peer->n_group_ok_since++;
        break;
    case ROTA_SYNC_GROUP_LOST:
        assert_true(peer->is_member);
        assert_non_null(event->error);
        peer->is_member = false;
        peer->n_group_lost++;
        break;
    case ROTA_SYNC_UNREACHABLE:
        assert_non_null(event->error);
        peer->n_unreachable++;
        break;
    case ROTA_SYNC_FAILED:
        assert_non_null(event->error);
        peer->n_failed++;
        break;
    }
    if (peer->on_event)
        peer->on_event(peer, event);
}

/* What the engine logs is shown when a test fails. */
static void peer_write_log(void *data, struct rota_str line)
{
    (void)data;
    fwrite(line.data, 1, line.size, stderr);
}

void peer_start(struct peer *peer, uv_loop_t *loop, const char *url, const char *name,
                rota_time session, bool is_observer)
{
    static const struct rota_log log = {ROTA_LOG_DEBUG, peer_write_log, NULL};
    struct rota_error error;
    rota_time ok_every = session > 6 * ROTA_SEC ? ROTA_SEC : 0;
    struct rota_sync_options options = {
        .url = url,
        .name = name,
        .session = session,
        .ok_every = peer->ok_every ? peer->ok_every : ok_every,
        .is_observer = is_observer,
        .on_event = peer_on_event,
        .log = &log,
        .data = peer,
    };
    peer->loop = loop;
    if (rota_sync_open(loop, &options, &peer->sync, &error))
        fail_msg("%s", error.text);
}

void peer_open(struct peer *peer, uv_loop_t *loop, const char *url, const char *name,
               rota_time session)
{
    peer_start(peer, loop, url, name, session, false);
    await(loop, &peer->n_opened, peer->n_opened + 1);
}

void peer_on_closed(void *data)
{
    ((struct peer *)data)->n_closed++;
}

void peer_close(struct peer *peer)
{
    rota_sync_close(peer->sync, peer_on_closed, peer);
    await(peer->loop, &peer->n_closed, 1);
    peer_forget_records(peer);
    peer_forget_members(peer);
    rota_vector_deinit(&peer->records);
    rota_vector_deinit(&peer->members);
    *peer = (struct peer){0};
}

void peer_append(struct peer *peer, uint64_t number, const void *bytes, size_t size)
{
    struct rota_error error;
    if (rota_sync_append(peer->sync, number, rota_str_of(bytes, size), &error))
        fail_msg("%s", error.text);
}

uint64_t peer_write(struct peer *peer, uint64_t number, const char *text)
{
    peer_append(peer, number, text, strlen(text));
    await(peer->loop, &peer->n_answered, peer->n_answered + 1);
    assert_true(peer->is_answered[number]);
    if (peer->offsets[number] == UINT64_MAX)
        fail_msg("record %llu was not appended", (unsigned long long)number);
    return peer->offsets[number];
}

void peer_join(struct peer *peer, const char *line)
{
    peer->is_member = true;
    rota_sync_join(peer->sync, rota_str(line));
}

void peer_leave(struct peer *peer)
{
    peer->is_member = false;
    rota_sync_leave(peer->sync);
}

bool peer_has_member(const struct peer *peer, const char *line)
{
    for (size_t i = 0; i < peer->members.size; i++)
        if (strcmp(peer->members.items[i], line) == 0)
            return true;
    return false;
}

void peer_await_members(struct peer *peer, size_t n)
{
    while (peer->n_rounds == 0 || peer->members.size != n)
        await(peer->loop, &peer->n_rounds, peer->n_rounds + 1);
}

void peer_await_end(struct peer *peer, uint64_t end)
{
    while (peer->n_ok == 0 || peer->ok_end < end)
        await(peer->loop, &peer->n_ok, peer->n_ok + 1);
}
