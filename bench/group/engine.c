#include "engine.h"

#include "../process.h"

#include <inttypes.h>
#include <poll.h>
#include <rota/experimental/random.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MEMBERS_MAX = 50,
    MANY = 1000,      /* partitions */
    STEP_MS = 120000, /* for each step of a round */
};

const struct peer_kind peers[N_PEERS] = {
    [ROTA_SQLITE] = {"rota sqlite", NULL, SQLITE},
    [ROTA_POSTGRES] = {"rota postgres", NULL, POSTGRES},
    [ROTA_KAFKA] = {"rota kafka", NULL, KAFKA},
    [RANGE] = {"librdkafka range", "range", KAFKA},
    [STICKY] = {"librdkafka cooperative", "cooperative-sticky", KAFKA},
};

static int64_t boot_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- members --- */

struct member {
    struct process process;
    bool is_ready, is_gone;
    size_t base, has, gained, interrupted, changes;
    int64_t at;
    char rest[256]; /* of a line that is not whole */
    size_t n_rest;
};

static struct member members[MEMBERS_MAX];
static int n_members;

static void parse_line(struct member *member, const char *line)
{
    if (strcmp(line, "ready") == 0)
        member->is_ready = true;
    else if (sscanf(line, "%zu %zu %zu %zu %zu %" SCNd64, &member->base, &member->has,
                    &member->gained, &member->interrupted, &member->changes, &member->at) != 6)
        member->is_gone = true;
}

static void read_member(struct member *member)
{
    char text[4096];
    ssize_t n = read(member->process.out, text, sizeof text);
    if (n <= 0)
        member->is_gone = true;
    for (ssize_t i = 0; i < n; i++) {
        if (text[i] == '\n') {
            member->rest[member->n_rest] = '\0';
            parse_line(member, member->rest);
            member->n_rest = 0;
        } else if (member->n_rest < sizeof member->rest - 1) {
            member->rest[member->n_rest++] = text[i];
        }
    }
}

/* Listen to all until it is so. False: one has ended, or it takes too long. */
static bool await(bool (*is_so)(size_t wanted), size_t wanted)
{
    int64_t give_up_at = boot_clock() + (int64_t)STEP_MS * 1000000;
    while (!is_so(wanted)) {
        struct pollfd ready[MEMBERS_MAX];
        if (boot_clock() > give_up_at)
            return false;
        for (int i = 0; i < n_members; i++)
            ready[i] = (struct pollfd){.fd = members[i].process.pid ? members[i].process.out : -1,
                                       .events = POLLIN};
        poll(ready, (nfds_t)n_members, 1000);
        for (int i = 0; i < n_members; i++) {
            if (ready[i].revents)
                read_member(&members[i]);
            if (members[i].process.pid && members[i].is_gone)
                return false;
        }
    }
    return true;
}

static bool are_ready(size_t wanted)
{
    size_t n = 0;
    for (int i = 0; i < n_members; i++)
        n += members[i].is_ready;
    return n == wanted;
}

static bool is_owned(size_t wanted)
{
    size_t n = 0;
    for (int i = 0; i < n_members; i++)
        n += members[i].process.pid ? members[i].has : 0;
    return n == wanted;
}

/* ... and every one has some: of a group that grows, all have come. */
static bool is_shared(size_t wanted)
{
    for (int i = 0; i < n_members; i++)
        if (members[i].has == 0)
            return false;
    return is_owned(wanted);
}

static bool are_based(size_t wanted)
{
    for (int i = 0; i < n_members; i++)
        if (members[i].base != wanted)
            return false;
    return true;
}

static size_t count_changes(void)
{
    size_t n = 0;
    for (int i = 0; i < n_members; i++)
        n += members[i].changes;
    return n;
}

static bool has_changed(size_t wanted)
{
    return count_changes() >= wanted;
}

static void tell_all(int number)
{
    for (int i = 0; i < n_members; i++)
        kill(members[i].process.pid, number);
}

static void stop_member(struct member *member)
{
    if (member->process.pid)
        process_stop(&member->process);
    member->process.pid = 0;
}

static void stop_members(void)
{
    for (int i = 0; i < n_members; i++)
        stop_member(&members[i]);
    n_members = 0;
}

/* --- groups --- */

static bool start_members(const char *url, const char *group, const char *topic, enum peer peer,
                          const struct cell *c)
{
    char path[PROCESS_PATH_SIZE], address[512], name[64], room[64], task[16], numbers[3][16];
    char assignor[32];
    const char *brokers = strstr(url, "//");
    bool is_rota = !peers[peer].assignor;
    process_path("group", is_rota ? "group_rota" : "group_kafka", path);
    snprintf(address, sizeof address, "%s", is_rota || !brokers ? url : brokers + 2);
    snprintf(name, sizeof name, "%s", group);
    snprintf(room, sizeof room, "%s", topic);
    snprintf(assignor, sizeof assignor, "%s", is_rota ? "" : peers[peer].assignor);
    snprintf(numbers[0], sizeof *numbers, "%d", c->n_members);
    snprintf(numbers[1], sizeof *numbers, "%d", c->n_partitions);
    snprintf(numbers[2], sizeof *numbers, "%d", GROUP_SESSION_MS);
    char *of_rota[] = {path, address, name, task, numbers[0], numbers[1], numbers[2], NULL};
    char *of_kafka[] = {path, address, name, room, assignor, numbers[2], NULL};
    for (n_members = 0; n_members < c->n_members; n_members++) {
        members[n_members] = (struct member){0};
        snprintf(task, sizeof task, "task%d", n_members);
        if (!process_start(&members[n_members].process, n_members % 2,
                           is_rota ? of_rota : of_kafka))
            return false;
    }
    return true;
}

/* All members are there, and all partitions are shared among them. */
static bool make_group(const char *url, const char *group, const char *topic, enum peer peer,
                       const struct cell *c)
{
    if (!start_members(url, group, topic, peer, c))
        return false;
    if (!peers[peer].assignor) {
        if (!await(are_ready, (size_t)c->n_members))
            return false;
        kill(members[0].process.pid, SIGUSR2);
    }
    if (!await(is_shared, (size_t)c->n_partitions))
        return false;
    tell_all(SIGUSR1);
    return await(are_based, 1);
}

static bool run_round(const char *url, const char *group, const char *topic, enum peer peer,
                      const struct cell *c, struct rota_random *random, struct result *result)
{
    bool is_right = false;
    if (make_group(url, group, topic, peer, c)) {
        struct member *victim = &members[rota_random_below(random, (uint64_t)n_members)];
        *result = (struct result){.had = (double)victim->has};
        int64_t killed_at = boot_clock(), last_at = killed_at;
        stop_member(victim);
        is_right = await(is_owned, (size_t)c->n_partitions);
        for (int i = 0; i < n_members; i++) {
            if (!members[i].process.pid)
                continue;
            last_at = members[i].at > last_at ? members[i].at : last_at;
            result->moved += (double)members[i].gained;
            result->interrupted += (double)members[i].interrupted;
        }
        result->ms = (double)(last_at - killed_at) / 1e6;
    }
    stop_members();
    return is_right;
}

/* --- what the log takes --- */

static double ask(sqlite3 *database, const char *statement)
{
    sqlite3_stmt *made = NULL;
    double value = -1;
    if (sqlite3_prepare_v2(database, statement, -1, &made, NULL) == SQLITE_OK &&
        sqlite3_step(made) == SQLITE_ROW)
        value = sqlite3_column_double(made, 0);
    sqlite3_finalize(made);
    return value;
}

/* What is in the log of the group from this place on. */
static void ask_log(sqlite3 *database, const char *group, double from, struct bytes *found)
{
    static const char is_snapshot[] = "instr(substr(bytes, 1, 200), '\"kind\":\"snapshot\"') > 0";
    char statement[400];
    const struct {
        const char *what, *where;
        double *into;
    } questions[] = {
        {"count(*)", "NOT", &found->records},
        {"coalesce(sum(length(bytes)), 0)", "NOT", &found->bytes},
        {"coalesce(max(length(bytes)), 0)", "NOT", &found->largest},
        {"coalesce(sum(length(bytes)), 0)", "", &found->snapshot_bytes},
    };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        snprintf(statement, sizeof statement,
                 "SELECT %s FROM rota_group_record WHERE name = '%s' AND place >= %.0f AND %s (%s)",
                 questions[i].what, group, from, questions[i].where, is_snapshot);
        *questions[i].into = ask(database, statement);
    }
}

/* 3 members with 10,000 partitions split 50 of them each, one after the other. Of each split
 * there is told: two children, owned or offered and taken, and the end of the parent. */
static bool measure_bytes(const char *url, struct bytes *found)
{
    static const struct cell c = {3, 10000};
    sqlite3 *database = NULL;
    bool is_right = false;
    char statement[160];
    if (make_group(url, "bytes", "", ROTA_SQLITE, &c) &&
        sqlite3_open(url + strlen("sqlite:"), &database) == SQLITE_OK) {
        size_t before = count_changes();
        sqlite3_busy_timeout(database, STEP_MS);
        snprintf(statement, sizeof statement,
                 "SELECT next_offset FROM rota_group_head WHERE name = 'bytes'");
        double from = ask(database, statement);
        tell_all(SIGHUP);
        is_right = from >= 0 && await(has_changed, before + 3 * 50 * 3);
        ask_log(database, "bytes", from, found);
        found->changes = (double)(count_changes() - before);
    }
    sqlite3_close(database);
    stop_members();
    return is_right;
}

/* --- one engine, with a server that was started for it --- */

static bool make_topic(const char *url, const char *topic, int n_partitions)
{
    char path[PROCESS_PATH_SIZE], address[512], word[] = "create", name[64], number[16];
    char *arguments[] = {path, address, word, name, number, NULL};
    char line[PROCESS_LINE_SIZE];
    struct process process;
    process_path("group", "group_kafka", path);
    snprintf(address, sizeof address, "%s", strstr(url, "//") + 2);
    snprintf(name, sizeof name, "%s", topic);
    snprintf(number, sizeof number, "%d", n_partitions);
    if (!process_start(&process, 0, arguments))
        return false;
    bool is_right = process_read_line(&process, STEP_MS, line);
    process_stop(&process);
    return is_right;
}

/* One round of one peer in one cell, and its line. */
static void run_one(const char *url, const struct cell *c, int cell, enum peer peer, int round,
                    struct rota_random *random)
{
    char topic[64], group[64];
    struct result r = {0};
    snprintf(topic, sizeof topic, "topic%d", c->n_partitions);
    snprintf(group, sizeof group, "g%d-%d-%d", cell, peer, round);
    fprintf(stderr, "\r%-24s %d members, %d partitions, round %d ", peers[peer].name, c->n_members,
            c->n_partitions, round + 1);
    bool is_right = run_round(url, group, topic, peer, c, random, &r);
    printf("result %d %d %d %f %f %f %f\n", cell, peer, is_right, r.ms, r.had, r.moved,
           r.interrupted);
    fflush(stdout);
}

/* Each round has all peers, in a new random order: what else the machine does, and what the
 * broker has to bear, is the same for all. */
static void run_cell(enum engine engine, const char *url, const struct cell *c, int cell,
                     bool has_topic, int n_rounds, struct rota_random *random)
{
    if (c->n_partitions > MANY && n_rounds > 2)
        n_rounds = 2; /* they take long */
    for (int round = 0; round < n_rounds; round++) {
        enum peer order[N_PEERS];
        int n = 0;
        for (int peer = 0; peer < N_PEERS; peer++)
            if (peers[peer].engine == engine && (!peers[peer].assignor || has_topic))
                order[n++] = (enum peer)peer;
        for (int i = n - 1; i > 0; i--) {
            int j = (int)rota_random_below(random, (uint64_t)i + 1);
            enum peer kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        for (int i = 0; i < n; i++)
            run_one(url, c, cell, order[i], round, random);
    }
}

int engine_run(enum engine engine, const char *url, const struct cell *cells, int n_cells,
               int n_rounds)
{
    struct rota_random random;
    struct bytes found = {0};
    char path[PROCESS_PATH_SIZE], topic[64];
    int made = 0;
    bool has_topic = false;
    if (!url)
        return 2;
    process_path("group", "group_kafka", path);
    rota_random_init(&random, (uint64_t)time(NULL));
    for (int cell = 0; cell < n_cells; cell++) {
        int n = cells[cell].n_partitions;
        snprintf(topic, sizeof topic, "topic%d", n);
        if (n != made) /* Kafka's own groups need real partitions */
            has_topic = engine == KAFKA && access(path, X_OK) == 0 && make_topic(url, topic, n);
        made = n;
        run_cell(engine, url, &cells[cell], cell, has_topic, n_rounds, &random);
    }
    if (engine == SQLITE && measure_bytes(url, &found))
        printf("bytes %f %f %f %f %f\n", found.changes, found.records, found.bytes,
               found.snapshot_bytes, found.largest);
    return 0;
}
