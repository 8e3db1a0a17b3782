/* What every engine of a group's log owes, whatever it is made of. A test program of an
 * engine says where the log is and runs the list:
 *
 *     const struct CMUnitTest tests[] = {SYNC_CHECKS, cmocka_unit_test(...), ...};
 *     int main(int argc, char **argv)
 *     {
 *         if (argc > 1)
 *             return sync_member_main(argc, argv); // a member in a process of its own
 *         sync_checks.url = ...;
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * Each check has a group of its own, with a name that no other run uses. */
#pragma once

#include "sync_peer.h"

#include <sys/prctl.h>

extern struct sync_checks {
    const char *url;
    rota_time session; /* short, but not for a busy machine; 0 means 3 s */
} sync_checks;

extern struct peer sync_a, sync_b, sync_c;
extern uv_loop_t sync_loop;
extern char sync_group[64];

rota_time sync_session(void);

/* A name that is new. */
const char *sync_new_group(void);

int sync_set_up(void **state);
int sync_tear_down(void **state);

/* With the longest session: nobody goes by it. */
void sync_open(struct peer *peer);

void sync_open_short(struct peer *peer);

/* Two members that know of each other. */
void sync_open_two(void);

void sync_assert_text(const struct peer *peer, size_t i, const char *text);

struct sync_member {
    pid_t pid;
    int from_fd; /* a line for each GROUP_OK, a 'L' for GROUP_LOST */
};

/* PROGRAM member URL GROUP LINE SESSION_MS: joins, and stays until it is ended. */
int sync_member_main(int argc, char **argv);

struct sync_member sync_member_start(const char *line, rota_time session);
void sync_member_end(struct sync_member *member);

/* What it says next, while our own loop runs; NUL: it has ended. */
char sync_member_hear(struct sync_member *member);

/* One that is in, and is known to `peer`. On a busy machine its session, which is short, may be
 * over before that: then it tries again. */
struct sync_member sync_member_enter(struct peer *peer, const char *line);

void records_come_in_order_and_each_once(void **state);
void all_readers_see_the_same(void **state);
void reader_begins_in_the_middle(void **state);

/* It says when it was asked, and so it can't be from before the record. */
void ok_has_what_was_there_when_it_was_asked_for(void **state);

/* Nobody looks by itself for minutes, so only a wake-up can tell. */
void news_is_heard_at_once(void **state);

void any_bytes_are_kept(void **state);
void too_many_appends_are_refused(void **state);

/* Below it all may go; nothing from it on does. */
void what_is_not_needed_may_be_trimmed(void **state);

void observer_reads_and_does_nothing_else(void **state);
void lone_member_leads(void **state);
void round_is_told_to_all_with_the_whole_list(void **state);
void who_leaves_is_gone_at_once(void **state);
void later_wish_takes_the_place_of_an_earlier(void **state);

/* It is stopped, so it can't be known to be dead; and when it continues it is told so. */
void stopped_member_goes_after_its_session(void **state);

void killed_member_goes(void **state);

/* From within each event that comes, and then there are no more events. */
void event_may_close_it(void **state);

void it_may_be_closed_at_any_moment(void **state);

#define SYNC_CHECK(name) cmocka_unit_test_setup_teardown(name, sync_set_up, sync_tear_down)

/* clang-format off */
#define SYNC_CHECKS                                                                                \
    SYNC_CHECK(records_come_in_order_and_each_once),                                               \
    SYNC_CHECK(all_readers_see_the_same),                                                          \
    SYNC_CHECK(reader_begins_in_the_middle),                                                       \
    SYNC_CHECK(ok_has_what_was_there_when_it_was_asked_for),                                       \
    SYNC_CHECK(news_is_heard_at_once),                                                             \
    SYNC_CHECK(any_bytes_are_kept),                                                                \
    SYNC_CHECK(too_many_appends_are_refused),                                                      \
    SYNC_CHECK(what_is_not_needed_may_be_trimmed),                                                 \
    SYNC_CHECK(observer_reads_and_does_nothing_else),                                              \
    SYNC_CHECK(lone_member_leads),                                                                 \
    SYNC_CHECK(round_is_told_to_all_with_the_whole_list),                                          \
    SYNC_CHECK(who_leaves_is_gone_at_once),                                                        \
    SYNC_CHECK(later_wish_takes_the_place_of_an_earlier),                                          \
    SYNC_CHECK(stopped_member_goes_after_its_session),                                             \
    SYNC_CHECK(killed_member_goes),                                                                \
    SYNC_CHECK(event_may_close_it),                                                                \
    SYNC_CHECK(it_may_be_closed_at_any_moment)
