/* bench_place [--json]: what placing a key costs, against textbook ways.
 *
 * All run in one process on the same keys: our ring, a red-black tree with one
 * node per point (what ringpop does), a sorted array with bsearch, jump hashing
 * and rendezvous hashing. The first three must give the same owners and are
 * checked to. Jump and rendezvous place differently and are shown for scale:
 * jump can only lose its last host, rendezvous looks at every host. */
#include "base/hash.h"
#include "core/place/ring_points.h"
#include "core/place/slots.h"
#include "measure.h"
#include "tree_ring.h"
#include <rota/experimental/random.h>

#include <rota/experimental/route.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 8192, KEY_SIZE = 40, N = 8, POINTS = ROTA_RING_POINTS_DEFAULT };

static char key_text[KEYS][KEY_SIZE + 1];
static struct rota_str keys[KEYS];
static uint32_t key_hashes[KEYS];

struct subject {
    uint32_t n_hosts;
    struct rota_ring_host *hosts, extra; /* `extra` is the one that joins */
    char (*names)[32];
    struct rota_ring *ring;
    struct tree_ring *tree;
    uint32_t *host_hashes; /* for rendezvous */
    uint32_t n_added;      /* to the tree, by measuring that */
    uint32_t sum;          /* keeps the work from being optimised away */
};

/* --- the work, KEYS operations each --- */

static void ring_lookup(void *data)
{
    struct subject *s = data;
    for (int i = 0; i < KEYS; i++)
        s->sum += rota_ring_lookup(s->ring, keys[i]);
}

static void ring_lookup_batch(void *data)
{
    static uint32_t owners[KEYS];
    struct subject *s = data;
    rota_ring_lookup_batch(s->ring, keys, KEYS, owners);
    s->sum += owners[KEYS - 1];
}

static void ring_lookup_n(void *data)
{
    struct subject *s = data;
    uint32_t hosts[N];
    for (int i = 0; i < KEYS; i++)
        s->sum += hosts[rota_ring_lookup_n(s->ring, keys[i], N, hosts) - 1];
}

static void ring_slots(void *data)
{
    struct subject *s = data;
    uint32_t hosts[N];
    for (int i = 0; i < KEYS; i++) {
        rota_slots_match(s->ring, rota_ring_hash(keys[i]), N, hosts);
        s->sum += hosts[N - 1];
    }
}

static void hash_only(void *data)
{
    struct subject *s = data;
    for (int i = 0; i < KEYS; i++)
        s->sum += rota_hash_farm32(keys[i]);
}

static void tree_lookup(void *data)
{
    struct subject *s = data;
    for (int i = 0; i < KEYS; i++)
        s->sum += tree_ring_lookup(s->tree, keys[i]);
}

static void tree_lookup_n(void *data)
{
    struct subject *s = data;
    uint32_t hosts[N];
    for (int i = 0; i < KEYS; i++)
        s->sum += hosts[tree_ring_lookup_n(s->tree, keys[i], N, hosts) - 1];
}

/* bsearch() finds equals; a lower bound is written out. */
static uint32_t array_owner(const struct rota_ring *ring, uint32_t hash)
{
    const struct rota_ring_point *points = rota_ring_points(ring);
    size_t from = 0, to = rota_ring_n_points(ring);
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (points[middle].hash < hash)
            from = middle + 1;
        else
            to = middle;
    }
    return points[from].host;
}

static void array_lookup(void *data)
{
    struct subject *s = data;
    for (int i = 0; i < KEYS; i++)
        s->sum += array_owner(s->ring, rota_hash_farm32(keys[i]));
}

static uint32_t jump(uint64_t key, uint32_t n_hosts)
{
    int64_t b = -1, j = 0;
    while (j < n_hosts) {
        b = j;
        key = key * 2862933555777941757u + 1;
        j = (int64_t)((double)(b + 1) * ((double)((int64_t)1 << 31) / (double)((key >> 33) + 1)));
    }
    return (uint32_t)b;
}

static void jump_lookup(void *data)
{
    struct subject *s = data;
    for (int i = 0; i < KEYS; i++)
        s->sum += jump(rota_hash_farm32(keys[i]), s->n_hosts);
}

/* One multiplication and a few shifts per host: about as cheap as a score gets. */
static uint32_t rendezvous(const struct subject *s, uint32_t hash)
{
    uint32_t best = 0;
    uint64_t best_score = 0;
    for (uint32_t i = 0; i < s->n_hosts; i++) {
        uint64_t score = ((uint64_t)hash << 32 | s->host_hashes[i]) * 0x9e3779b97f4a7c15u;
        score ^= score >> 32;
        score *= 0xd6e8feb86659fd93u;
        if (score >= best_score) {
            best_score = score;
            best = i;
        }
    }
    return best;
}

enum { RENDEZVOUS_KEYS = 64 };

static void rendezvous_lookup(void *data)
{
    struct subject *s = data;
    for (int i = 0; i < RENDEZVOUS_KEYS; i++)
        s->sum += rendezvous(s, key_hashes[i]);
}

static void ring_build(void *data)
{
    struct subject *s = data;
    struct rota_ring *ring;
    if (rota_ring_new(s->hosts, s->n_hosts, POINTS, &ring, NULL))
        abort();
    rota_ring_unref(ring);
}

static void ring_add_one(void *data)
{
    struct subject *s = data;
    struct rota_ring *ring;
    if (rota_ring_with(s->ring, &s->extra, 1, NULL, 0, &ring, NULL))
        abort();
    rota_ring_unref(ring);
}

/* Changes the tree itself, so each round adds another host; there are few. */
static void tree_add_one(void *data)
{
    struct subject *s = data;
    char name[32];
    snprintf(name, sizeof name, "10.200.0.%u:7000", s->n_added);
    struct rota_ring_host host = {.address = rota_str(name)};
    tree_ring_add(s->tree, &host, s->n_hosts + s->n_added++);
}

static void tree_build(void *data)
{
    struct subject *s = data;
    tree_ring_free(tree_ring_new(s->hosts, s->n_hosts, POINTS));
}

/* --- the measured things --- */

struct row {
    const char *what, *how;
    void (*work)(void *data);
    size_t n; /* operations per round */
    int rounds;
    uint32_t n_hosts_max; /* not measured beyond */
    const char *note;
};

static const struct row ROWS[] = {
    {"hash", "fingerprint32", hash_only, KEYS, 31, 10000, "40-byte key"},
    {"lookup", "rota", ring_lookup, KEYS, 31, 10000, ""},
    {"lookup", "rota batch", ring_lookup_batch, KEYS, 31, 10000, "many keys at once"},
    {"lookup", "red-black tree", tree_lookup, KEYS, 15, 10000, ""},
    {"lookup", "sorted array", array_lookup, KEYS, 31, 10000, "binary search"},
    {"lookup", "jump", jump_lookup, KEYS, 31, 10000,
     "other placement; hosts leave last-in first-out"},
    {"lookup", "rendezvous", rendezvous_lookup, RENDEZVOUS_KEYS, 15, 10000, "other placement"},
    {"lookup_n(8)", "rota", ring_lookup_n, KEYS, 31, 10000, ""},
    {"lookup_n(8)", "red-black tree", tree_lookup_n, KEYS, 15, 10000, ""},
    {"slots(8)", "rota", ring_slots, KEYS, 15, 10000, "a whole batch of 8"},
    {"build", "rota", ring_build, 1, 15, 10000, ""},
    {"build", "red-black tree", tree_build, 1, 5, 10000, ""},
    {"add one host", "rota", ring_add_one, 1, 15, 10000, "a new ring; the old one stays usable"},
    {"add one host", "red-black tree", tree_add_one, 1, 15, 10000,
     "in place; readers have to wait"},
};

static void make_keys(void)
{
    struct rota_random random;
    rota_random_init(&random, 1);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key_text[i], sizeof key_text[i], "%016llx:orders-%04d:workers:%06u:1",
                 (unsigned long long)rota_random_next(&random), i,
                 (unsigned)rota_random_below(&random, 1000000));
        keys[i] = rota_str_of(key_text[i], KEY_SIZE);
        key_hashes[i] = rota_hash_farm32(keys[i]);
    }
}

static int compare_hosts(const void *a, const void *b)
{
    return rota_str_compare(((const struct rota_ring_host *)a)->address,
                            ((const struct rota_ring_host *)b)->address);
}

static void subject_init(struct subject *s, uint32_t n_hosts)
{
    *s = (struct subject){.n_hosts = n_hosts};
    s->hosts = calloc(n_hosts, sizeof *s->hosts);
    s->names = calloc(n_hosts + 1, sizeof *s->names);
    s->host_hashes = calloc(n_hosts, sizeof *s->host_hashes);
    if (!s->hosts || !s->names || !s->host_hashes)
        abort();
    for (uint32_t i = 0; i <= n_hosts; i++) {
        snprintf(s->names[i], sizeof *s->names, "10.%u.%u.%u:7000", i / 62500, i / 250 % 250,
                 i % 250);
        struct rota_str address = rota_str(s->names[i]);
        if (i == n_hosts) {
            s->extra.address = address;
        } else {
            s->hosts[i].address = address;
            s->host_hashes[i] = rota_hash_farm32(address);
        }
    }
    qsort(s->hosts, n_hosts, sizeof *s->hosts, compare_hosts);
    if (rota_ring_new(s->hosts, n_hosts, POINTS, &s->ring, NULL))
        abort();
    s->tree = tree_ring_new(s->hosts, n_hosts, POINTS);
}

static void subject_deinit(struct subject *s)
{
    rota_ring_unref(s->ring);
    tree_ring_free(s->tree);
    free(s->hosts);
    free(s->names);
    free(s->host_hashes);
}

/* The three rings must agree, else a ratio between them means nothing. */
static void check_same(const struct subject *s)
{
    uint32_t ours[N], theirs[N];
    for (int i = 0; i < KEYS; i++) {
        size_t n = rota_ring_lookup_n(s->ring, keys[i], N, ours);
        bool same = tree_ring_lookup_n(s->tree, keys[i], N, theirs) == n &&
                    array_owner(s->ring, key_hashes[i]) == ours[0] &&
                    tree_ring_lookup(s->tree, keys[i]) == ours[0];
        for (size_t j = 0; j < n; j++)
            same = same && ours[j] == theirs[j];
        if (!same) {
            fprintf(stderr, "bench_place: the rings disagree on key %s\n", key_text[i]);
            exit(1);
        }
    }
}

static size_t bytes_per_host(const struct subject *s)
{
    size_t before = measure_heap();
    struct rota_ring *ring;
    if (rota_ring_new(s->hosts, s->n_hosts, POINTS, &ring, NULL))
        abort();
    size_t bytes = measure_heap() - before;
    rota_ring_unref(ring);
    return bytes / s->n_hosts;
}

static const char *pretty(double ns, char *text, size_t size)
{
    if (ns < 1e4)
        snprintf(text, size, "%.1f ns", ns);
    else if (ns < 1e7)
        snprintf(text, size, "%.1f us", ns / 1e3);
    else
        snprintf(text, size, "%.1f ms", ns / 1e6);
    return text;
}

/* The tree's time for the same work, when there is one: rows of one kind are
 * compared with it. */
static double against_tree(const char *what, const double *medians)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        bool is_tree = ROWS[i].work == tree_lookup || ROWS[i].work == tree_lookup_n ||
                       ROWS[i].work == tree_build || ROWS[i].work == tree_add_one;
        if (is_tree && strcmp(ROWS[i].what, what) == 0)
            return medians[i];
    }
    return 0;
}

static void report(const struct subject *s, bool json, bool is_first)
{
    enum { N_ROWS = sizeof ROWS / sizeof *ROWS };
    struct measure results[N_ROWS];
    double medians[N_ROWS];
    for (size_t i = 0; i < N_ROWS; i++) {
        results[i] = measure_run(ROWS[i].work, (void *)s, ROWS[i].n, ROWS[i].rounds);
        medians[i] = results[i].median;
    }
    size_t bytes = bytes_per_host(s);

    if (!json)
        printf("%s%u hosts, %d points each; %zu bytes per host\n\n  %-14s%-16s%12s%26s%10s\n",
               is_first ? "" : "\n", s->n_hosts, POINTS, bytes, "", "", "median", "p10 .. p90",
               "vs tree");
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct row *row = &ROWS[i];
        double tree = against_tree(row->what, medians), ratio = tree / medians[i];
        char median[32], low[32], high[32], range[72], versus[32] = "";
        if (json) {
            printf("%s{\"hosts\":%u,\"what\":\"%s\",\"how\":\"%s\",\"ns\":%.2f,\"ns_p10\":%.2f,"
                   "\"ns_p90\":%.2f,\"times_faster_than_tree\":",
                   is_first && i == 0 ? "" : ",", s->n_hosts, row->what, row->how, medians[i],
                   results[i].low, results[i].high);
            printf(tree > 0 ? "%.2f}" : "null}", ratio);
            continue;
        }
        snprintf(range, sizeof range, "%s .. %s", pretty(results[i].low, low, sizeof low),
                 pretty(results[i].high, high, sizeof high));
        if (tree > 0)
            snprintf(versus, sizeof versus, "%.1fx", ratio);
        printf("  %-14s%-16s%12s%26s%10s%s%s\n", row->what, row->how,
               pretty(medians[i], median, sizeof median), range, versus, *row->note ? "  " : "",
               row->note);
    }
    if (json)
        printf(",{\"hosts\":%u,\"what\":\"memory\",\"how\":\"rota\",\"bytes_per_host\":%zu}",
               s->n_hosts, bytes);
}

int main(int argc, char **argv)
{
    static const uint32_t HOSTS[] = {10, 100, 1000, 10000};
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "usage: bench_place [--json]\n");
        return 2;
    }
    make_keys();
    if (json)
        printf("{\"bench\":\"place\",\"key_bytes\":%d,\"points\":%d,\"rows\":[", KEY_SIZE, POINTS);
    for (size_t i = 0; i < sizeof HOSTS / sizeof *HOSTS; i++) {
        struct subject subject;
        subject_init(&subject, HOSTS[i]);
        check_same(&subject);
        report(&subject, json, i == 0);
        subject_deinit(&subject);
        fflush(stdout);
    }
    if (json)
        printf("]}\n");
    return 0;
}
