#include "sync_checks.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct sync_checks sync_checks;

struct peer sync_a, sync_b, sync_c;
uv_loop_t sync_loop;
char sync_group[64];

extern char **environ;

rota_time sync_session(void)
{
    return sync_checks.session ? sync_checks.session : 3 * ROTA_SEC;
}

const char *sync_new_group(void)
{
    static int n;
    snprintf(sync_group, sizeof sync_group, "checks-%d-%d.%lld", (int)getpid(), ++n,
             (long long)(rota_clock_wall() / ROTA_MSEC));
    return sync_group;
}

int sync_set_up(void **state)
{
    (void)state;
    sync_new_group();
    sync_a = sync_b = sync_c = (struct peer){0};
    return uv_loop_init(&sync_loop);
}

int sync_tear_down(void **state)
{
    struct peer *peers[] = {&sync_a, &sync_b, &sync_c};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        if (peers[i]->sync)
            peer_close(peers[i]);
    await_end(&sync_loop);
    return 0;
}

void sync_open(struct peer *peer)
{
    peer_open(peer, &sync_loop, sync_checks.url, sync_group, ROTA_SYNC_SESSION_MAX);
}

void sync_open_short(struct peer *peer)
{
    peer_open(peer, &sync_loop, sync_checks.url, sync_group, sync_session());
}

void sync_open_two(void)
{
    sync_open(&sync_a);
    sync_open(&sync_b);
    peer_join(&sync_a, "1/a");
    peer_join(&sync_b, "2/b");
    peer_await_members(&sync_a, 2);
    peer_await_members(&sync_b, 2);
}

void sync_assert_text(const struct peer *peer, size_t i, const char *text)
{
    assert_true(i < peer->records.size);
    assert_string_equal(peer->records.items[i].bytes, text);
}

/* --- a member in a process of its own --- */

static void sync_member_on_event(struct peer *peer, const struct rota_sync_event *event)
{
    const char *word = event->type == ROTA_SYNC_GROUP_OK     ? "K"
                       : event->type == ROTA_SYNC_GROUP_LOST ? "L"
                                                             : "";
    (void)peer;
    if (word[0] && write(STDOUT_FILENO, word, 1) != 1)
        _exit(1);
}

int sync_member_main(int argc, char **argv)
{
    static struct peer peer;
    if (argc != 6 || strcmp(argv[1], "member") != 0)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
    uv_loop_init(&sync_loop);
    peer.on_event = sync_member_on_event;
    peer_start(&peer, &sync_loop, argv[2], argv[3], atoll(argv[5]) * ROTA_MSEC, false);
    peer_join(&peer, argv[4]);
    return uv_run(&sync_loop, UV_RUN_DEFAULT);
}

struct sync_member sync_member_start(const char *line, rota_time session)
{
    struct sync_member member;
    char ms[32], program[] = "/proc/self/exe", word[] = "member";
    char *arguments[] = {program, word, (char *)sync_checks.url, sync_group, (char *)line,
                         ms,      NULL};
    posix_spawn_file_actions_t actions;
    int fds[2];
    snprintf(ms, sizeof ms, "%lld", (long long)(session / ROTA_MSEC));
    assert_int_equal(pipe(fds), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, fds[0]);
    assert_int_equal(posix_spawn(&member.pid, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    member.from_fd = fds[0];
    return member;
}

/* Wait for a letter from it; what comes before is skipped. */
static void sync_member_await(struct sync_member *member, char wanted)
{
    char c = '\0';
    while (c != wanted)
        if (read(member->from_fd, &c, 1) != 1)
            fail_msg("the member has ended before it said %c", wanted);
}

void sync_member_end(struct sync_member *member)
{
    int status;
    kill(member->pid, SIGKILL);
    kill(member->pid, SIGCONT);
    assert_int_equal(waitpid(member->pid, &status, 0), member->pid);
    close(member->from_fd);
}

static void sync_member_on_letter(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    ++*(size_t *)poll->data;
}

char sync_member_hear(struct sync_member *member)
{
    size_t n_heard = 0;
    char c = '\0';
    uv_poll_t *poll = malloc(sizeof *poll);
    assert_non_null(poll);
    assert_int_equal(uv_poll_init(&sync_loop, poll, member->from_fd), 0);
    poll->data = &n_heard;
    uv_poll_start(poll, UV_READABLE | UV_DISCONNECT, sync_member_on_letter);
    await(&sync_loop, &n_heard, 1);
    uv_close((uv_handle_t *)poll, (uv_close_cb)free);
    assert_int_equal(fcntl(member->from_fd, F_SETFL, 0), 0); /* libuv reads without waiting */
    return read(member->from_fd, &c, 1) == 1 ? c : '\0';
}

struct sync_member sync_member_enter(struct peer *peer, const char *line)
{
    while (true) {
        struct sync_member member = sync_member_start(line, sync_session());
        if (sync_member_hear(&member) == 'K') {
            while (!peer_has_member(peer, line))
                await(&sync_loop, &peer->n_rounds, peer->n_rounds + 1);
            return member;
        }
        sync_member_end(&member);
    }
}

/* --- the log --- */

void records_come_in_order_and_each_once(void **state)
{
    char text[16];
    (void)state;
    sync_open(&sync_a);
    assert_int_equal(sync_a.first, 0);
    for (uint64_t i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "r%d", (int)i);
        peer_append(&sync_a, i, text, strlen(text));
        if (i % ROTA_SYNC_APPENDS_MAX == ROTA_SYNC_APPENDS_MAX - 1)
            await(&sync_loop, &sync_a.n_answered, i + 1);
    }
    await(&sync_loop, &sync_a.n_answered, 40);
    assert_int_equal(sync_a.n_appended, 40);
    peer_await_end(&sync_a, sync_a.offsets[39] + 1);
    assert_int_equal(sync_a.n_records, 40);
    for (size_t i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "r%d", (int)i);
        sync_assert_text(&sync_a, i, text);
        assert_int_equal(sync_a.records.items[i].offset, sync_a.offsets[i]);
    }
}

void all_readers_see_the_same(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_write(&sync_a, 1, "before");
    sync_open(&sync_b);
    assert_true(sync_b.end >= sync_a.offsets[1] + 1);
    uint64_t last = 0;
    for (uint64_t i = 0; i < 10; i++) {
        peer_write(&sync_a, 10 + i, "of a");
        last = peer_write(&sync_b, 10 + i, "of b");
    }
    peer_await_end(&sync_a, last + 1);
    peer_await_end(&sync_b, last + 1);
    assert_int_equal(sync_a.n_records, 21);
    assert_int_equal(sync_b.n_records, 21);
    for (size_t i = 0; i < 21; i++) {
        sync_assert_text(&sync_b, i, sync_a.records.items[i].bytes);
        assert_int_equal(sync_a.records.items[i].offset, sync_b.records.items[i].offset);
    }
}

void reader_begins_in_the_middle(void **state)
{
    (void)state;
    sync_a.is_deaf = true;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 8; i++)
        peer_write(&sync_a, i, i < 5 ? "early" : "late");
    assert_int_equal(sync_a.n_records + sync_a.n_ok, 0); /* nobody has asked */
    peer_read(&sync_a, sync_a.offsets[5]);
    peer_await_end(&sync_a, sync_a.offsets[7] + 1);
    assert_int_equal(sync_a.n_records, 3);
    sync_assert_text(&sync_a, 0, "late");
    peer_read(&sync_a, sync_a.offsets[2]); /* back, and the earlier wish is forgotten */
    peer_await_end(&sync_a, sync_a.offsets[7] + 1);
    assert_int_equal(sync_a.n_records, 6);
    peer_read(&sync_a, sync_a.offsets[7] + 1); /* nothing is there yet */
    peer_await_end(&sync_a, sync_a.offsets[7] + 1);
    assert_int_equal(sync_a.n_records, 0);
    peer_write(&sync_a, 8, "new");
    await(&sync_loop, &sync_a.n_records, 1);
    sync_assert_text(&sync_a, 0, "new");
}

void ok_has_what_was_there_when_it_was_asked_for(void **state)
{
    (void)state;
    sync_open(&sync_a);
    sync_open(&sync_b);
    for (uint64_t i = 0; i < 5; i++) {
        uint64_t offset = peer_write(&sync_a, i, "x");
        rota_time written_at = rota_clock_boot();
        while (sync_b.ok_sent_at < written_at)
            await(&sync_loop, &sync_b.n_ok, sync_b.n_ok + 1);
        assert_true(sync_b.ok_end > offset);
        assert_int_equal(sync_b.n_records, i + 1);
    }
    size_t n = sync_b.n_ok; /* and it comes without any news too */
    await(&sync_loop, &sync_b.n_ok, n + 2);
}

void news_is_heard_at_once(void **state)
{
    (void)state;
    sync_a.ok_every = sync_b.ok_every = ROTA_SYNC_SESSION_MAX / 2;
    sync_open(&sync_a);
    sync_open(&sync_b);
    await(&sync_loop, &sync_b.n_ok, 1);
    for (uint64_t i = 0; i < 5; i++) {
        peer_write(&sync_a, i, "x");
        await(&sync_loop, &sync_b.n_records, i + 1);
    }
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    peer_join(&sync_b, "2/b");
    peer_await_members(&sync_a, 2);
    peer_leave(&sync_b);
    peer_await_members(&sync_a, 1);
}

void any_bytes_are_kept(void **state)
{
    static char large[ROTA_SYNC_RECORD_MAX];
    static const char odd[] = "\0nul\xff\xfe'; DROP TABLE x; --\n\\x41%s";
    struct rota_error error;
    (void)state;
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)(i * 2654435761u >> 13);
    sync_open(&sync_a);
    peer_append(&sync_a, 0, odd, sizeof odd);
    peer_append(&sync_a, 1, large, sizeof large);
    peer_append(&sync_a, 2, "", 0);
    await(&sync_loop, &sync_a.n_appended, 3);
    peer_await_end(&sync_a, sync_a.offsets[2] + 1);
    assert_int_equal(sync_a.records.items[0].size, sizeof odd);
    assert_memory_equal(sync_a.records.items[0].bytes, odd, sizeof odd);
    assert_int_equal(sync_a.records.items[1].size, sizeof large);
    assert_memory_equal(sync_a.records.items[1].bytes, large, sizeof large);
    assert_int_equal(sync_a.records.items[2].size, 0);
    assert_int_equal(rota_sync_append(sync_a.sync, 3, rota_str_of(large, sizeof large + 1), &error),
                     ROTA_ERR_LIMIT);
}

void too_many_appends_are_refused(void **state)
{
    struct rota_error error;
    (void)state;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < ROTA_SYNC_APPENDS_MAX; i++)
        peer_append(&sync_a, i, "x", 1);
    assert_int_equal(rota_sync_append(sync_a.sync, 99, rota_str("x"), &error), ROTA_ERR_LIMIT);
    await(&sync_loop, &sync_a.n_answered, ROTA_SYNC_APPENDS_MAX);
    assert_false(sync_a.is_answered[99]);
    peer_write(&sync_a, 100, "there is room again");
}

void what_is_not_needed_may_be_trimmed(void **state)
{
    (void)state;
    sync_open(&sync_a);
    for (uint64_t i = 0; i < 10; i++)
        peer_write(&sync_a, i, i < 6 ? "old" : "new");
    peer_await_end(&sync_a, sync_a.offsets[9] + 1);
    rota_sync_trim(sync_a.sync, sync_a.offsets[6]);
    peer_write(&sync_a, 10, "after");
    sync_open(&sync_b);
    assert_true(sync_b.first <= sync_a.offsets[6]);
    peer_await_end(&sync_b, sync_a.offsets[10] + 1);
    assert_true(sync_b.n_records >= 5);
    sync_assert_text(&sync_b, sync_b.n_records - 5, "new");
    assert_int_equal(sync_a.n_lost, 0);
}

void observer_reads_and_does_nothing_else(void **state)
{
    struct rota_error error;
    (void)state;
    sync_open(&sync_a);
    peer_write(&sync_a, 0, "x");
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    peer_start(&sync_b, &sync_loop, sync_checks.url, sync_group, ROTA_SYNC_SESSION_MAX, true);
    await(&sync_loop, &sync_b.n_records, 1);
    rota_sync_join(sync_b.sync, rota_str("2/b"));
    assert_int_not_equal(rota_sync_append(sync_b.sync, 0, rota_str("y"), &error), ROTA_OK);
    rota_sync_trim(sync_b.sync, 1);
    peer_write(&sync_a, 1, "z");
    await(&sync_loop, &sync_b.n_records, 2);
    await(&sync_loop, &sync_a.n_group_ok, sync_a.n_group_ok + 2);
    assert_int_equal(sync_a.members.size, 1);
    assert_int_equal(sync_b.n_rounds + sync_b.n_group_ok, 0);
}

/* --- the group --- */

void lone_member_leads(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_join(&sync_a, "7/a");
    peer_await_members(&sync_a, 1);
    assert_true(sync_a.is_leader);
    assert_string_equal(sync_a.members.items[0], "7/a");
    rota_time before = rota_clock_boot();
    while (sync_a.group_ok_sent_at < before)
        await(&sync_loop, &sync_a.n_group_ok, sync_a.n_group_ok + 1);
    assert_int_equal(sync_a.n_group_lost, 0);
}

void round_is_told_to_all_with_the_whole_list(void **state)
{
    (void)state;
    sync_open(&sync_a);
    sync_open(&sync_b);
    sync_open(&sync_c);
    peer_join(&sync_a, "1/a");
    peer_join(&sync_b, "2/b");
    peer_join(&sync_c, "3/c");
    peer_await_members(&sync_a, 3);
    peer_await_members(&sync_b, 3);
    peer_await_members(&sync_c, 3);
    struct peer *peers[] = {&sync_a, &sync_b, &sync_c};
    for (size_t i = 0; i < 6; i++) { /* until all have heard of the last one */
        struct peer *peer = peers[i % 3], *next = peers[(i + 1) % 3];
        while (peer->generation < next->generation)
            await(&sync_loop, &peer->n_rounds, peer->n_rounds + 1);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(peers[i]->generation, sync_a.generation);
        assert_true(peer_has_member(peers[i], "1/a"));
        assert_true(peer_has_member(peers[i], "2/b"));
        assert_true(peer_has_member(peers[i], "3/c"));
    }
    assert_int_equal(sync_a.is_leader + sync_b.is_leader + sync_c.is_leader, 1);
    await(&sync_loop, &sync_a.n_group_ok_since, 1);
    await(&sync_loop, &sync_b.n_group_ok_since, 1);
    await(&sync_loop, &sync_c.n_group_ok_since, 1);
}

void who_leaves_is_gone_at_once(void **state)
{
    (void)state;
    sync_open_two();
    peer_leave(&sync_a); /* the session is of minutes */
    peer_await_members(&sync_b, 1);
    assert_true(sync_b.is_leader);
    assert_true(peer_has_member(&sync_b, "2/b"));
    peer_write(&sync_a, 0, "the log is still open");
    peer_join(&sync_a, "3/a");
    peer_await_members(&sync_b, 2);
    assert_true(peer_has_member(&sync_b, "3/a"));
    peer_close(&sync_a); /* leaves too */
    peer_await_members(&sync_b, 1);
    assert_int_equal(sync_b.n_group_lost, 0);
}

void later_wish_takes_the_place_of_an_earlier(void **state)
{
    (void)state;
    sync_open(&sync_a);
    sync_open(&sync_b);
    peer_join(&sync_b, "9/b");
    peer_await_members(&sync_b, 1);
    peer_join(&sync_a, "1/a");
    peer_leave(&sync_a);
    peer_join(&sync_a, "2/a");
    peer_join(&sync_a, "3/a");
    while (!peer_has_member(&sync_b, "3/a"))
        await(&sync_loop, &sync_b.n_rounds, sync_b.n_rounds + 1);
    peer_await_members(&sync_b, 2);
    peer_await_members(&sync_a, 2);
    assert_true(peer_has_member(&sync_a, "3/a"));
    peer_join(&sync_a, "4/a");
    while (!peer_has_member(&sync_b, "4/a") || sync_b.members.size != 2)
        await(&sync_loop, &sync_b.n_rounds, sync_b.n_rounds + 1);
}

void stopped_member_goes_after_its_session(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    struct sync_member member = sync_member_enter(&sync_a, "2/b");
    kill(member.pid, SIGSTOP);
    peer_await_members(&sync_a, 1);
    assert_true(peer_has_member(&sync_a, "1/a"));
    kill(member.pid, SIGCONT);
    sync_member_await(&member, 'L');
    sync_member_end(&member);
    assert_int_equal(sync_a.n_group_lost, 0);
}

void killed_member_goes(void **state)
{
    (void)state;
    sync_open(&sync_a);
    peer_join(&sync_a, "1/a");
    peer_await_members(&sync_a, 1);
    struct sync_member member = sync_member_enter(&sync_a, "2/b");
    sync_member_end(&member);
    peer_await_members(&sync_a, 1);
    assert_true(sync_a.is_leader);
}

/* --- the end --- */

static int sync_close_after;

static void sync_on_event_close(struct peer *peer, const struct rota_sync_event *event)
{
    (void)event;
    if (sync_close_after-- == 0)
        rota_sync_close(peer->sync, peer_on_closed, peer);
}

void event_may_close_it(void **state)
{
    (void)state;
    sync_open(&sync_b);
    for (uint64_t i = 0; i < 4; i++)
        peer_write(&sync_b, i, "x");
    for (int after = 0; after < 12; after++) {
        struct peer *peer = &sync_a;
        sync_close_after = after;
        peer->on_event = sync_on_event_close;
        peer_start(peer, &sync_loop, sync_checks.url, sync_group, ROTA_SYNC_SESSION_MAX, false);
        peer_append(peer, 1, "y", 1);
        peer_append(peer, 2, "y", 1);
        peer_join(peer, "1/a");
        await(&sync_loop, &peer->n_closed, 1);
        peer_forget_records(peer);
        peer_forget_members(peer);
        rota_vector_deinit(&peer->records);
        rota_vector_deinit(&peer->members);
        *peer = (struct peer){0};
    }
}

void it_may_be_closed_at_any_moment(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        peer_start(&sync_a, &sync_loop, sync_checks.url, sync_group, ROTA_SYNC_SESSION_MAX, false);
        peer_append(&sync_a, 1, "y", 1);
        peer_join(&sync_a, "1/a");
        for (int i = 0; i < turns; i++)
            uv_run(&sync_loop, UV_RUN_ONCE);
        peer_close(&sync_a);
    }
}

/* clang-format on */
