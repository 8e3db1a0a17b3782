#include "core/place/members_fsm.h"

#include "core/place/ring_points.h"
#include <rota/experimental/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* --- a machine and one word per event --- */

static struct rota_members_fsm fsm;
static struct rota_members_actions actions; /* of the last step */
static struct rota_error error;             /* of the last step that failed */

static int setup(void **state)
{
    (void)state;
    actions = (struct rota_members_actions){0};
    return rota_members_fsm_init(&fsm, 16, NULL);
}

static int teardown(void **state)
{
    (void)state;
    rota_members_fsm_actions_deinit(&actions);
    rota_members_fsm_deinit(&fsm);
    return 0;
}

static enum rota_code step(rota_time now, struct rota_members_event event)
{
    rota_members_fsm_actions_deinit(&actions);
    return rota_members_fsm_step(&fsm, now, &event, &actions, &error);
}

static enum rota_code snapshot(rota_time now, uint64_t version, const struct rota_host *hosts,
                               size_t n)
{
    return step(
        now, (struct rota_members_event){
                 .type = ROTA_MEMBERS_SNAPSHOT, .version = version, .hosts = hosts, .n_hosts = n});
}

static enum rota_code override(rota_time now, enum rota_members_event_type type,
                               const char *address)
{
    return step(now, (struct rota_members_event){.type = type, .address = rota_str(address)});
}

static enum rota_code tick(rota_time now)
{
    return step(now, (struct rota_members_event){.type = ROTA_MEMBERS_TICK});
}

/* The last step's change as text, "+added -removed ~changed". */
static const char *told(void)
{
    static char text[1024];
    const struct rota_members_change *c = &actions.change;
    const struct rota_str *lists[] = {c->added, c->removed, c->changed};
    const size_t sizes[] = {c->n_added, c->n_removed, c->n_changed};
    size_t end = 0;
    text[0] = '\0';
    for (size_t list = 0; list < 3; list++)
        for (size_t i = 0; i < sizes[list]; i++)
            end += (size_t)snprintf(text + end, sizeof text - end, "%s%c%.*s", end ? " " : "",
                                    "+-~"[list], ROTA_STR_ARGS(lists[list][i]));
    assert_int_equal(actions.tell, end > 0);
    return text;
}

/* The hosts on the ring as text. */
static const char *placed(void)
{
    static char text[1024];
    const struct rota_ring *ring = rota_members_fsm_ring(&fsm);
    size_t end = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < rota_ring_size(ring); i++)
        end += (size_t)snprintf(text + end, sizeof text - end, "%s%.*s", end ? " " : "",
                                ROTA_STR_ARGS(rota_ring_host(ring, i).address));
    return text;
}

static struct rota_host host(const char *address)
{
    return (struct rota_host){.address = rota_str(address)};
}

static void start_with_three(rota_time now)
{
    struct rota_host hosts[] = {host("a"), host("b"), host("c")};
    assert_int_equal(snapshot(now, 1, hosts, 3), ROTA_OK);
}

/* --- snapshots --- */

static void snapshot_becomes_the_ring(void **state)
{
    struct rota_host hosts[] = {host("c"), host("a"), host("b")};
    size_t n;
    (void)state;
    assert_int_equal(rota_ring_size(rota_members_fsm_ring(&fsm)), 0);
    assert_int_equal(snapshot(0, 1, hosts, 3), ROTA_OK);
    assert_string_equal(told(), "+a +b +c");
    assert_string_equal(placed(), "a b c");
    assert_ptr_equal(actions.ring, rota_members_fsm_ring(&fsm));
    assert_int_equal(rota_ring_points_per_host(actions.ring), 16);
    rota_members_fsm_list(&fsm, &n);
    assert_int_equal(n, 3);
    assert_int_equal(rota_members_fsm_find(&fsm, rota_str("b"))->host.weight, ROTA_WEIGHT_ONE);
    assert_null(rota_members_fsm_find(&fsm, rota_str("x")));
}

static void same_snapshot_reports_nothing(void **state)
{
    struct rota_host hosts[] = {host("c"), host("a"), host("b")};
    (void)state;
    start_with_three(0);
    hosts[1].weight = ROTA_WEIGHT_ONE; /* the default, in full */
    assert_int_equal(snapshot(1, 2, hosts, 3), ROTA_OK);
    assert_string_equal(told(), "");
    assert_null(actions.ring);
}

static void older_snapshot_is_ignored(void **state)
{
    struct rota_host a = host("a"), b = host("b");
    (void)state;
    assert_int_equal(snapshot(0, 7, &a, 1), ROTA_OK);
    assert_int_equal(snapshot(0, 6, &b, 1), ROTA_OK);
    assert_string_equal(told(), "");
    assert_string_equal(placed(), "a");
    assert_int_equal(snapshot(0, 7, &b, 1), ROTA_OK); /* read again under the same version */
    assert_string_equal(told(), "+b -a");
}

static void weight_and_zone_change_the_ring(void **state)
{
    struct rota_host hosts[] = {host("a"), host("b"), host("c")};
    (void)state;
    start_with_three(0);
    hosts[0].weight = 2 * ROTA_WEIGHT_ONE;
    hosts[1].zone = rota_str("east");
    assert_int_equal(snapshot(0, 2, hosts, 3), ROTA_OK);
    assert_string_equal(told(), "~a ~b");
    assert_int_equal(rota_ring_n_points(actions.ring), 4 * 16);
    assert_int_equal(rota_ring_n_zones(actions.ring), 2);
}

static void draining_member_is_off_the_ring(void **state)
{
    struct rota_host hosts[] = {host("a"), host("b"), host("c")};
    (void)state;
    start_with_three(0);
    hosts[1].is_draining = true;
    assert_int_equal(snapshot(0, 2, hosts, 3), ROTA_OK);
    assert_string_equal(told(), "-b");
    assert_string_equal(placed(), "a c");
    assert_non_null(rota_members_fsm_find(&fsm, rota_str("b")));
}

static void member_that_waits_is_changed_not_added(void **state)
{
    struct rota_host hosts[] = {host("a"), host("b"), host("c"), host("d")};
    (void)state;
    start_with_three(0);
    hosts[3].start_at = 100;
    assert_false(rota_members_fsm_is_timed(&fsm));
    assert_int_equal(snapshot(0, 2, hosts, 4), ROTA_OK);
    assert_true(rota_members_fsm_is_timed(&fsm));
    assert_string_equal(told(), "~d");
    assert_null(actions.ring);
    assert_int_equal(snapshot(0, 3, hosts, 3), ROTA_OK); /* gone before its time */
    assert_false(rota_members_fsm_is_timed(&fsm));
    assert_string_equal(told(), "~d");
    assert_null(actions.ring);
}

static void empty_list_removes_no_member(void **state)
{
    struct rota_host a = host("a");
    (void)state;
    assert_int_equal(snapshot(0, 1, NULL, 0), ROTA_OK); /* before there was anybody */
    assert_string_equal(placed(), "");
    assert_int_equal(snapshot(0, 2, &a, 1), ROTA_OK);
    assert_int_equal(snapshot(0, 3, NULL, 0), ROTA_ERR_INVALID);
    assert_string_equal(error.text, "members: the list is empty; keeping the current members");
    assert_string_equal(placed(), "a");
    assert_int_equal(snapshot(0, 2, &a, 1), ROTA_OK); /* version 3 never came to be */
    a.is_draining = true;
    assert_int_equal(snapshot(0, 4, &a, 1), ROTA_OK); /* how it is done */
    assert_string_equal(placed(), "");
    assert_int_equal(snapshot(0, 5, NULL, 0), ROTA_ERR_INVALID);
}

static void bad_snapshot_keeps_the_old_state(void **state)
{
    static struct rota_host many[ROTA_MEMBERS_MAX + 1];
    struct rota_host twice[] = {host("a"), host("b"), host("a")};
    struct rota_host bad[] = {host("a"), host("z")};
    struct rota_ring *before;
    (void)state;
    start_with_three(0);
    before = rota_members_fsm_ring(&fsm);

    assert_int_equal(snapshot(0, 9, many, ROTA_MEMBERS_MAX + 1), ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "65536 hosts"));
    assert_int_equal(snapshot(0, 9, twice, 3), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "host \"a\" is listed twice"));
    for (int is_waiting = 0; is_waiting < 2; is_waiting++) {
        bad[1] = (struct rota_host){.address = rota_str("z"), .weight = 1};
        bad[1].is_draining = is_waiting; /* a host is checked before it is needed */
        assert_int_equal(snapshot(0, 9, bad, 2), ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "\"z\": weight 1/1000"));
    }
    assert_ptr_equal(rota_members_fsm_ring(&fsm), before);
    assert_string_equal(placed(), "a b c");

    assert_int_equal(snapshot(0, 2, twice, 2), ROTA_OK); /* version 9 never came to be */
    assert_string_equal(told(), "-c");
}

static void members_that_wait_must_fit_too(void **state)
{
    static struct rota_host hosts[ROTA_RING_ZONES_MAX + 1];
    static char names[ROTA_RING_ZONES_MAX + 1][16];
    (void)state;
    for (size_t i = 0; i <= ROTA_RING_ZONES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "h%zu", i);
        hosts[i].address = hosts[i].zone = rota_str(names[i]);
    }
    hosts[0].start_at = 100;
    assert_int_equal(snapshot(0, 1, hosts, ROTA_RING_ZONES_MAX + 1), ROTA_ERR_LIMIT);
    assert_int_equal(snapshot(0, 1, hosts, ROTA_RING_ZONES_MAX), ROTA_OK);
    assert_int_equal(tick(100), ROTA_OK);
    assert_string_equal(told(), "+h0");
}

/* --- overrides --- */

static void override_holds_whatever_the_source_reports(void **state)
{
    struct rota_host hosts[] = {host("a"), host("b"), host("c")};
    (void)state;
    for (int is_evict = 0; is_evict < 2; is_evict++) {
        start_with_three(0);
        assert_int_equal(override(0, is_evict ? ROTA_MEMBERS_EVICT : ROTA_MEMBERS_DRAIN, "b"),
                         ROTA_OK);
        assert_string_equal(told(), "-b");
        assert_int_equal(snapshot(0, 1, hosts, 1), ROTA_OK);
        assert_int_equal(snapshot(0, 1, hosts, 3), ROTA_OK); /* comes back, is still off */
        assert_string_equal(told(), "+c ~b");
        const struct rota_member *b = rota_members_fsm_find(&fsm, rota_str("b"));
        assert_int_equal(b->is_evicted, is_evict);
        assert_int_equal(b->is_drained, !is_evict);
        assert_int_equal(override(0, is_evict ? ROTA_MEMBERS_UNEVICT : ROTA_MEMBERS_UNDRAIN, "b"),
                         ROTA_OK);
        assert_string_equal(told(), "+b");
    }
}

static void override_may_come_before_its_host(void **state)
{
    (void)state;
    assert_int_equal(override(0, ROTA_MEMBERS_EVICT, "b"), ROTA_OK);
    assert_string_equal(told(), "");
    start_with_three(0);
    assert_string_equal(told(), "+a +c ~b");
}

static void second_override_changes_the_state_not_the_ring(void **state)
{
    (void)state;
    start_with_three(0);
    override(0, ROTA_MEMBERS_EVICT, "b");
    assert_int_equal(override(0, ROTA_MEMBERS_DRAIN, "b"), ROTA_OK);
    assert_string_equal(told(), "~b");
    assert_null(actions.ring);
    override(0, ROTA_MEMBERS_DRAIN, "b"); /* once more */
    assert_string_equal(told(), "");
    override(0, ROTA_MEMBERS_UNEVICT, "b");
    assert_string_equal(told(), "~b");
    override(0, ROTA_MEMBERS_UNDRAIN, "b");
    assert_string_equal(told(), "+b");
    override(0, ROTA_MEMBERS_UNDRAIN, "b");
    assert_string_equal(told(), "");
}

static void overrides_are_bounded(void **state)
{
    static char long_name[ROTA_ADDRESS_MAX + 2];
    char name[16];
    (void)state;
    memset(long_name, 'x', ROTA_ADDRESS_MAX + 1);
    assert_int_equal(override(0, ROTA_MEMBERS_EVICT, long_name), ROTA_ERR_INVALID);
    assert_int_equal(override(0, ROTA_MEMBERS_DRAIN, ""), ROTA_ERR_INVALID);
    assert_int_equal(override(0, ROTA_MEMBERS_UNDRAIN, ""), ROTA_OK); /* is not there: fine */

    for (int i = 0; i < ROTA_MEMBERS_OVERRIDES_MAX; i++) {
        snprintf(name, sizeof name, "h%d", i);
        assert_int_equal(override(0, ROTA_MEMBERS_EVICT, name), ROTA_OK);
    }
    assert_int_equal(override(0, ROTA_MEMBERS_EVICT, "one-more"), ROTA_ERR_LIMIT);
    assert_int_equal(override(0, ROTA_MEMBERS_DRAIN, "h0"), ROTA_OK);
    assert_int_equal(override(0, ROTA_MEMBERS_UNEVICT, "h1"), ROTA_OK); /* makes room */
    assert_int_equal(override(0, ROTA_MEMBERS_EVICT, "one-more"), ROTA_OK);
}

/* --- time --- */

static void bounds_flip_at_their_instant(void **state)
{
    struct rota_host hosts[] = {host("a"), host("b")};
    (void)state;
    hosts[0].stop_at = 300;
    hosts[1].start_at = 200;
    assert_int_equal(rota_members_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    assert_int_equal(snapshot(100, 1, hosts, 2), ROTA_OK);
    assert_string_equal(placed(), "a");
    assert_int_equal(rota_members_fsm_deadline(&fsm), 200);
    assert_true(rota_members_fsm_is_timed(&fsm));

    assert_int_equal(tick(199), ROTA_OK);
    assert_string_equal(told(), "");
    assert_int_equal(tick(200), ROTA_OK);
    assert_string_equal(told(), "+b");
    assert_int_equal(rota_members_fsm_deadline(&fsm), 300);
    tick(299);
    assert_string_equal(told(), "");
    tick(300);
    assert_string_equal(told(), "-a");
    assert_int_equal(rota_members_fsm_deadline(&fsm), ROTA_TIME_NEVER);

    tick(150); /* the clock was set back, beyond both */
    assert_string_equal(told(), "+a -b");
    assert_int_equal(rota_members_fsm_deadline(&fsm), 200);
    tick(1000);
    assert_string_equal(told(), "+b -a");
}

static void any_event_sees_the_time(void **state)
{
    struct rota_host b = host("b");
    (void)state;
    b.start_at = 200;
    snapshot(100, 5, &b, 1);
    assert_int_equal(snapshot(200, 4, NULL, 0), ROTA_OK); /* out of date, but a hint */
    assert_string_equal(told(), "+b");
    override(100, ROTA_MEMBERS_UNEVICT, "b");
    assert_string_equal(told(), "-b");
}

static void alignment_is_strictly_after_the_news_spread(void **state)
{
    rota_time spread = ROTA_MEMBERS_PROPAGATION, minute = ROTA_MIN;
    (void)state;
    assert_int_equal(rota_members_align(1234, 0, spread), 1234);
    assert_int_equal(rota_members_align(0, minute, spread), minute);
    assert_int_equal(rota_members_align(minute - spread - 1, minute, spread), minute);
    assert_int_equal(rota_members_align(minute - spread, minute, spread), 2 * minute);
    assert_int_equal(rota_members_align(5 * minute, minute, 0), 6 * minute);
    assert_int_equal(rota_members_align(-90 * ROTA_SEC, minute, 0), -minute);
    assert_int_equal(rota_members_align(ROTA_TIME_NEVER - 5, minute, spread), ROTA_TIME_NEVER);
}

/* --- all of it, against the rule written down plainly --- */

enum { WORLD = 12, ROUNDS = 20000 };

struct world {
    struct rota_host hosts[WORLD]; /* all there may be */
    bool is_listed[WORLD], is_evicted[WORLD], is_drained[WORLD];
    struct rota_member before[WORLD]; /* as it was after the last event */
    bool was_listed[WORLD];
    uint64_t version;
};

static void vary_host(struct rota_random *random, struct rota_host *host, rota_time now)
{
    static const char *const zones[] = {"", "east", "west"};
    host->weight = rota_random_chance(random, 0.5) ? 0 : 500 * (1 + (uint32_t)(now % 4));
    host->zone = rota_str(zones[rota_random_below(random, 3)]);
    host->is_draining = rota_random_chance(random, 0.2);
    host->start_at = rota_random_chance(random, 0.6) ? 0 : now + rota_random_range(random, -20, 20);
    host->stop_at = rota_random_chance(random, 0.6) ? 0 : now + rota_random_range(random, -20, 40);
}

static enum rota_code random_event(struct world *world, struct rota_random *random, rota_time now)
{
    size_t which = rota_random_below(random, WORLD), n = 0;
    struct rota_host listed[WORLD];
    struct rota_str address = world->hosts[which].address;
    enum rota_members_event_type type =
        (enum rota_members_event_type)rota_random_below(random, ROTA_MEMBERS_TICK + 1);

    switch (type) {
    case ROTA_MEMBERS_SNAPSHOT:
        if (rota_random_chance(random, 0.2) && world->version > 0) /* late: must not count */
            return snapshot(now, world->version - 1, NULL, 0);
        vary_host(random, &world->hosts[which], now);
        which = rota_random_below(random, WORLD);
        world->is_listed[which] = !world->is_listed[which];
        for (size_t i = WORLD; i-- > 0;)
            if (world->is_listed[i])
                listed[n++] = world->hosts[i];
        if (n == 0) { /* would be refused */
            world->is_listed[which] = true;
            listed[n++] = world->hosts[which];
        }
        return snapshot(now, ++world->version, listed, n);
    case ROTA_MEMBERS_EVICT:
    case ROTA_MEMBERS_UNEVICT:
        world->is_evicted[which] = type == ROTA_MEMBERS_EVICT;
        break;
    case ROTA_MEMBERS_DRAIN:
    case ROTA_MEMBERS_UNDRAIN:
        world->is_drained[which] = type == ROTA_MEMBERS_DRAIN;
        break;
    case ROTA_MEMBERS_TICK:
        break;
    }
    return step(now, (struct rota_members_event){.type = type, .address = address});
}

static bool is_in(struct rota_str address, const struct rota_str *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(address, list[i]))
            return true;
    return false;
}

static bool is_same_member(const struct rota_member *a, const struct rota_member *b)
{
    return a->host.weight == b->host.weight && a->host.start_at == b->host.start_at &&
           a->host.stop_at == b->host.stop_at && a->host.is_draining == b->host.is_draining &&
           a->is_evicted == b->is_evicted && a->is_drained == b->is_drained &&
           a->is_placed == b->is_placed && rota_str_is_equal(a->host.zone, b->host.zone);
}

/* One host of the world: is it where it should be, and was what happened told?
 * Returns whether something had to be. */
static bool check_host(struct world *world, size_t i, rota_time now)
{
    const struct rota_host *is = &world->hosts[i];
    const struct rota_members_change *change = &actions.change;
    struct rota_member now_is = {
        .host = *is, .is_evicted = world->is_evicted[i], .is_drained = world->is_drained[i]};
    const struct rota_member *member = rota_members_fsm_find(&fsm, is->address);
    now_is.is_placed = world->is_listed[i] && rota_host_is_placed(is, now) && !now_is.is_evicted &&
                       !now_is.is_drained;
    if (now_is.host.weight == 0)
        now_is.host.weight = ROTA_WEIGHT_ONE;

    bool was_placed = world->was_listed[i] && world->before[i].is_placed;
    bool is_same = world->was_listed[i] == world->is_listed[i] &&
                   (!world->is_listed[i] || is_same_member(&world->before[i], &now_is));
    bool added = now_is.is_placed && !was_placed, removed = was_placed && !now_is.is_placed;

    assert_int_equal(member != NULL, world->is_listed[i]);
    if (member)
        assert_int_equal(member->is_placed, now_is.is_placed);
    assert_int_equal(rota_ring_find(rota_members_fsm_ring(&fsm), is->address) != ROTA_RING_NONE,
                     now_is.is_placed);
    assert_int_equal(is_in(is->address, change->added, change->n_added), added);
    assert_int_equal(is_in(is->address, change->removed, change->n_removed), removed);
    assert_int_equal(is_in(is->address, change->changed, change->n_changed),
                     !is_same && !added && !removed);
    world->was_listed[i] = world->is_listed[i];
    world->before[i] = now_is;
    return !is_same;
}

static void check_ring(const struct world *world, const struct rota_ring *before)
{
    struct rota_ring_host hosts[WORLD];
    struct rota_ring *fresh;
    const struct rota_ring *ring = rota_members_fsm_ring(&fsm);
    size_t n = 0;
    for (size_t i = 0; i < WORLD; i++)
        if (world->is_listed[i] && world->before[i].is_placed)
            hosts[n++] = (struct rota_ring_host){.address = world->hosts[i].address,
                                                 .zone = world->hosts[i].zone,
                                                 .weight = world->hosts[i].weight};
    assert_int_equal(rota_ring_new(hosts, n, 16, &fresh, NULL), ROTA_OK);
    assert_int_equal(rota_ring_n_points(ring), rota_ring_n_points(fresh));
    assert_memory_equal(rota_ring_points(ring), rota_ring_points(fresh),
                        (rota_ring_n_points(ring) + 1) * sizeof *rota_ring_points(ring));
    for (uint32_t i = 0; i < n; i++)
        assert_true(rota_str_is_equal(rota_ring_host(ring, i).zone, rota_ring_host(fresh, i).zone));
    assert_ptr_equal(ring, actions.ring ? actions.ring : before);
    rota_ring_unref(fresh);
}

static void check_deadline(const struct world *world, rota_time now)
{
    rota_time first = ROTA_TIME_NEVER;
    for (size_t i = 0; i < WORLD; i++) {
        const struct rota_host *is = &world->hosts[i];
        if (!world->is_listed[i])
            continue;
        if (is->start_at && is->start_at > now)
            first = rota_time_min(first, is->start_at);
        if (is->stop_at && is->stop_at > now)
            first = rota_time_min(first, is->stop_at);
    }
    assert_int_equal(rota_members_fsm_deadline(&fsm), first);
}

static void machine_is_the_naive_recomputation(void **state)
{
    static char names[WORLD][8];
    struct world world = {0};
    struct rota_random random;
    rota_time now = 1000;
    size_t n_changes = 0;
    (void)state;
    rota_random_init(&random, 1);
    for (size_t i = 0; i < WORLD; i++) {
        snprintf(names[i], sizeof names[i], "h%zu:1", i);
        world.hosts[i] = host(names[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct rota_ring *before = rota_members_fsm_ring(&fsm);
        bool is_any = false;
        now += rota_random_chance(&random, 0.05) ? -30 : rota_random_range(&random, 0, 5);
        assert_int_equal(random_event(&world, &random, now), ROTA_OK);
        for (size_t i = 0; i < WORLD; i++)
            is_any |= check_host(&world, i, now);
        assert_int_equal(actions.tell, is_any);
        check_ring(&world, before);
        check_deadline(&world, now);
        n_changes += is_any;
    }
    assert_true(n_changes > ROUNDS / 10 && n_changes < ROUNDS);
}

/* The source may reuse its memory. */
static void hosts_are_copied_with_their_texts(void **state)
{
    char address[] = "a:1", zone[] = "east";
    const struct rota_host host = {.address = rota_str(address), .zone = rota_str(zone)};
    (void)state;
    assert_int_equal(snapshot(1, 1, &host, 1), ROTA_OK);
    address[0] = zone[0] = 'x';
    assert_int_equal(fsm.list.n_members, 1);
    assert_true(rota_str_is_equal(fsm.list.members[0].host.address, rota_str("a:1")));
    assert_true(rota_str_is_equal(fsm.list.members[0].host.zone, rota_str("east")));
    assert_int_equal(fsm.list.members[0].host.weight, ROTA_WEIGHT_ONE);
    assert_true(fsm.list.members[0].is_placed);
    assert_int_equal(rota_members_fsm_deadline(&fsm), ROTA_TIME_NEVER);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(snapshot_becomes_the_ring),
        TEST(same_snapshot_reports_nothing),
        TEST(older_snapshot_is_ignored),
        TEST(weight_and_zone_change_the_ring),
        TEST(draining_member_is_off_the_ring),
        TEST(member_that_waits_is_changed_not_added),
        TEST(empty_list_removes_no_member),
        TEST(bad_snapshot_keeps_the_old_state),
        TEST(members_that_wait_must_fit_too),
        TEST(override_holds_whatever_the_source_reports),
        TEST(override_may_come_before_its_host),
        TEST(second_override_changes_the_state_not_the_ring),
        TEST(overrides_are_bounded),
        TEST(bounds_flip_at_their_instant),
        TEST(any_event_sees_the_time),
        TEST(alignment_is_strictly_after_the_news_spread),
        TEST(machine_is_the_naive_recomputation),
        TEST(hosts_are_copied_with_their_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
