#include "run/call/space_directory.h"

#include "base/list.h"
#include "base/map.h"
#include "io/clock.h"
#include "io/timer.h"
#include "wire/message/directory_message.h"

#include <stdio.h>
#include <stdlib.h>

/* Claims as they are sent: entries of a SpaceUpdate. */
struct encoded {
    struct rota_buffer bytes;
    uint64_t from, to; /* of changes; of a part: `to` is the number of changes at that time */
    bool is_filled;
};

struct entry {
    struct rota_space_directory *directory;
    struct rota_space_feed feed;
    struct rota_list_node watchers;
    struct encoded *parts; /* of the snapshot */
    size_t n_parts;
    uint64_t history; /* of what is encoded */
    struct encoded deltas[ROTA_SPACE_DIRECTORY_DELTAS];
    size_t n_deltas; /* ever */
    size_t name_size;
    char name[];
};

struct watcher {
    struct rota_server_call *call;
    struct rota_list_node link; /* of its space, or of those that wait */
    struct entry *entry;        /* NULL: the space is not known */
    struct rota_space_follower follower;
    uint64_t history, version; /* as requested */
    rota_time until;           /* while it waits for a map; else ROTA_TIME_NEVER */
    bool is_watch;             /* else it wants one reply */
    bool is_begun;
    char space[]; /* its name, with a NUL */
};

struct rota_space_directory {
    void (*look_up)(void *data);
    void *data;
    struct rota_map spaces;        /* by name: struct entry */
    struct rota_list_node waiting; /* for a space that is not known */
    size_t n_watchers;
    uv_timer_t timer;
    struct rota_buffer head, reply;
    struct rota_directory_claims_writer writer;
    bool is_ended, is_looking;
};

/* --- calls --- */

static void watcher_free(struct watcher *watcher, struct rota_space_directory *directory)
{
    rota_list_remove(&watcher->link);
    directory->n_watchers--;
    free(watcher);
}

static void watcher_end(struct rota_space_directory *directory, struct watcher *watcher,
                        enum rota_status status, const char *text)
{
    rota_server_call_finish(watcher->call, status, text, NULL, 0);
    watcher_free(watcher, directory);
}

static void end_all(struct rota_space_directory *directory, struct rota_list_node *watchers,
                    const char *why)
{
    ROTA_LIST_DRAIN (watcher, watchers, struct watcher, link)
        watcher_end(directory, watcher, ROTA_STATUS_UNAVAILABLE, why);
}

static void not_found(struct rota_space_directory *directory, struct watcher *watcher)
{
    char text[ROTA_SPACE_TEXT_MAX];
    snprintf(text, sizeof text, "the store has no space %.200s", watcher->space);
    watcher_end(directory, watcher, ROTA_STATUS_NOT_FOUND, text);
}

/* --- encoding --- */

static void add_claim(struct entry *entry, uint32_t number, bool is_listed)
{
    const struct rota_space_feed *feed = &entry->feed;
    const struct rota_space_shard *known = &feed->claims[number];
    bool is_owned = known->owner != ROTA_SPACE_NOBODY && known->state != ROTA_SPACE_UNOWNED;
    const struct rota_directory_claim claim = {
        .shard = number % feed->n_shards,
        .owner = is_owned ? known->owner + 1 : 0,
        .epoch = known->epoch,
        .is_moving = is_owned && known->state == ROTA_SPACE_MOVING,
    };
    rota_directory_message_claims_add(&entry->directory->writer, &claim, is_listed);
}

static uint64_t lower(uint64_t base, const struct rota_space_feed *feed, uint32_t claim)
{
    return feed->claims[claim].epoch < base ? feed->claims[claim].epoch : base;
}

/* Each zone for itself. */
static void encode_part(struct entry *entry, uint32_t first, uint32_t n, struct rota_buffer *bytes)
{
    struct rota_directory_claims_writer *writer = &entry->directory->writer;
    const struct rota_space_feed *feed = &entry->feed;
    for (uint32_t end, from = first; from < first + n; from = end) {
        uint32_t zone = from / feed->n_shards;
        uint64_t base = UINT64_MAX;
        end = (zone + 1) * feed->n_shards < first + n ? (zone + 1) * feed->n_shards : first + n;
        for (uint32_t i = from; i < end; i++)
            base = lower(base, feed, i);
        writer->claims = (struct rota_directory_claims){.zone = rota_str(feed->zones[zone]),
                                                        .first_shard = from % feed->n_shards,
                                                        .base_epoch = base};
        for (uint32_t i = from; i < end; i++)
            add_claim(entry, i, false);
        rota_directory_message_claims_end(writer, bytes);
    }
}

static void encode_changes(struct entry *entry, uint64_t from, uint64_t to,
                           struct rota_buffer *bytes)
{
    struct rota_directory_claims_writer *writer = &entry->directory->writer;
    const struct rota_space_feed *feed = &entry->feed;
    for (uint32_t zone = 0; zone < feed->n_zones; zone++) {
        uint64_t base = UINT64_MAX;
        for (uint64_t i = from; i < to; i++)
            if (rota_space_feed_claim(feed, i) / feed->n_shards == zone)
                base = lower(base, feed, rota_space_feed_claim(feed, i));
        writer->claims =
            (struct rota_directory_claims){.zone = rota_str(feed->zones[zone]), .base_epoch = base};
        for (uint64_t i = from; i < to; i++)
            if (rota_space_feed_claim(feed, i) / feed->n_shards == zone)
                add_claim(entry, rota_space_feed_claim(feed, i), true);
        if (writer->n > 0)
            rota_directory_message_claims_end(writer, bytes);
    }
}

static void forget_encoded(struct entry *entry)
{
    for (size_t i = 0; i < entry->n_parts; i++)
        rota_buffer_deinit(&entry->parts[i].bytes);
    for (size_t i = 0; i < ROTA_SPACE_DIRECTORY_DELTAS; i++)
        rota_buffer_deinit(&entry->deltas[i].bytes);
    free(entry->parts);
    entry->parts = NULL;
    entry->n_parts = 0;
    memset(entry->deltas, 0, sizeof entry->deltas);
}

/* The part, encoded since its last change; NULL without memory. */
static const struct encoded *find_part(struct entry *entry, const struct rota_space_piece *piece)
{
    const struct rota_space_feed *feed = &entry->feed;
    size_t n = (feed->n_claims + ROTA_SPACE_FEED_PIECE - 1) / ROTA_SPACE_FEED_PIECE;
    size_t index = piece->first_claim / ROTA_SPACE_FEED_PIECE;
    if (entry->history != feed->history || entry->n_parts != n)
        forget_encoded(entry);
    if (!entry->parts && !(entry->parts = calloc(n, sizeof *entry->parts)))
        return NULL;
    entry->n_parts = n;
    entry->history = feed->history;
    struct encoded *part = &entry->parts[index];
    if (part->is_filled && part->to >= feed->changed[index])
        return part;
    rota_buffer_clear(&part->bytes);
    encode_part(entry, piece->first_claim, piece->n_claims, &part->bytes);
    part->to = feed->n_changes;
    part->is_filled = !part->bytes.failed;
    return part->is_filled ? part : NULL;
}

/* Those that followers are at: most are at the same place. */
static const struct encoded *find_delta(struct entry *entry, const struct rota_space_piece *piece)
{
    if (entry->history != entry->feed.history)
        forget_encoded(entry);
    entry->history = entry->feed.history;
    for (size_t i = 0; i < ROTA_SPACE_DIRECTORY_DELTAS; i++) {
        struct encoded *delta = &entry->deltas[i];
        if (delta->is_filled && delta->from == piece->from && delta->to == piece->to)
            return delta;
    }
    struct encoded *delta = &entry->deltas[entry->n_deltas++ % ROTA_SPACE_DIRECTORY_DELTAS];
    rota_buffer_clear(&delta->bytes);
    encode_changes(entry, piece->from, piece->to, &delta->bytes);
    delta->from = piece->from;
    delta->to = piece->to;
    delta->is_filled = !delta->bytes.failed;
    return delta->is_filled ? delta : NULL;
}

/* The claims of a piece; false without memory. */
static bool find_claims(struct entry *entry, const struct rota_space_piece *piece,
                        struct rota_str *bytes)
{
    const struct encoded *found = NULL;
    *bytes = rota_str("");
    if (piece->n_claims == 0 && piece->from == piece->to)
        return true;
    found = piece->n_claims > 0 ? find_part(entry, piece) : find_delta(entry, piece);
    if (found)
        *bytes = rota_buffer_str(&found->bytes);
    return found != NULL;
}

/* An update without its claims, into the directory's buffer. */
static bool encode_head(struct entry *entry, const struct rota_space_piece *piece)
{
    struct rota_space_directory *directory = entry->directory;
    struct rota_directory_space_node *nodes = calloc(piece->n_nodes + 1, sizeof *nodes);
    if (!nodes)
        return false;
    for (size_t i = 0; i < piece->n_nodes; i++)
        nodes[i].address = rota_str(entry->feed.nodes.items[piece->first_node + i]);
    struct rota_directory_update update = {
        .history = entry->feed.history,
        .version = entry->feed.version,
        .is_snapshot = piece->is_snapshot,
        .is_whole = piece->is_whole,
        .engine = rota_str(entry->feed.engine),
        .n_shards = entry->feed.n_shards,
        .first_node = piece->first_node,
        .nodes = {nodes, piece->n_nodes},
    };
    rota_buffer_clear(&directory->head);
    rota_message_encode(&ROTA_DIRECTORY_UPDATE, &update, &directory->head);
    free(nodes);
    return !directory->head.failed;
}

/* --- sending --- */

static void no_memory(struct rota_space_directory *directory, struct watcher *watcher)
{
    watcher_end(directory, watcher, ROTA_STATUS_RESOURCE_EXHAUSTED,
                "the directory does not have enough memory");
}

/* Send what the client does not have; without room the rest is sent later. */
static void send_updates(struct watcher *watcher)
{
    struct entry *entry = watcher->entry;
    struct rota_space_directory *directory = entry->directory;
    struct rota_space_piece piece;
    struct rota_str claims;
    while (rota_space_feed_next(&entry->feed, &watcher->follower, &piece)) {
        if (!find_claims(entry, &piece, &claims) || !encode_head(entry, &piece)) {
            no_memory(directory, watcher);
            return;
        }
        rota_buffer_clear(&directory->reply);
        rota_directory_message_write_reply(rota_buffer_str(&directory->head), claims,
                                           &directory->reply);
        if (directory->reply.failed) {
            no_memory(directory, watcher);
            return;
        }
        if (rota_server_call_send(watcher->call, rota_buffer_str(&directory->reply)))
            return;
        rota_space_feed_sent(&entry->feed, &watcher->follower, &piece);
    }
}

/* All pieces in one reply. Lists of a message may be in pieces, too: the head comes last, when it
 * is known what all of them are. */
static void send_map(struct watcher *watcher)
{
    struct entry *entry = watcher->entry;
    struct rota_space_directory *directory = entry->directory;
    struct rota_space_piece piece,
        all = {.first_node = watcher->follower.n_nodes, .is_whole = true};
    struct rota_buffer bytes = {0};
    struct rota_str claims;
    bool is_filled = true;
    while (is_filled && rota_space_feed_next(&entry->feed, &watcher->follower, &piece)) {
        if (piece.is_snapshot) {
            all.is_snapshot = true;
            all.first_node = 0;
        }
        is_filled = find_claims(entry, &piece, &claims);
        rota_buffer_append_str(&bytes, claims);
        rota_space_feed_sent(&entry->feed, &watcher->follower, &piece);
    }
    all.n_nodes = watcher->follower.n_nodes - all.first_node;
    rota_buffer_clear(&directory->reply);
    is_filled = is_filled && !bytes.failed && encode_head(entry, &all);
    if (is_filled)
        rota_directory_message_write_reply(rota_buffer_str(&directory->head),
                                           rota_buffer_str(&bytes), &directory->reply);
    if (is_filled && !directory->reply.failed) {
        rota_server_call_reply(watcher->call, rota_buffer_str(&directory->reply));
        watcher_free(watcher, directory);
    } else {
        no_memory(directory, watcher);
    }
    rota_buffer_deinit(&bytes);
}

/* If the map is known. */
static void serve(struct watcher *watcher)
{
    struct entry *entry = watcher->entry;
    if (entry->feed.version == 0)
        return;
    if (!watcher->is_begun)
        rota_space_feed_resume(&entry->feed, watcher->history, watcher->version,
                               &watcher->follower);
    watcher->is_begun = true;
    watcher->until = ROTA_TIME_NEVER;
    if (watcher->is_watch)
        send_updates(watcher);
    else
        send_map(watcher);
}

/* --- waiting --- */

static void on_timer(uv_timer_t *timer);

/* All calls have the same patience, so one timer for the latest is enough: it is set again. */
static void arm_timer(struct rota_space_directory *directory)
{
    if (!uv_is_active((uv_handle_t *)&directory->timer))
        rota_timer_set(&directory->timer, on_timer, 0, ROTA_SPACE_DIRECTORY_PATIENCE);
}

/* Whether one still waits. */
static bool end_late(struct rota_space_directory *directory, struct rota_list_node *watchers,
                     rota_time now, const char *why)
{
    bool is_waited = false;
    ROTA_LIST_EACH (watcher, watchers, struct watcher, link) {
        if (watcher->until <= now)
            watcher_end(directory, watcher, ROTA_STATUS_UNAVAILABLE, why);
        else
            is_waited |= watcher->until != ROTA_TIME_NEVER;
    }
    return is_waited;
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_space_directory *directory = timer->data;
    const struct rota_map_entry *found;
    size_t place = 0;
    rota_time now = rota_clock_mono();
    bool is_waited = end_late(directory, &directory->waiting, now, "the store does not respond");
    while ((found = rota_map_next(&directory->spaces, &place)))
        is_waited |= end_late(directory, &((struct entry *)found->value)->watchers, now,
                              "this node has not read the space from the store yet");
    if (is_waited)
        arm_timer(directory);
}

static struct entry *find_entry(const struct rota_space_directory *directory, struct rota_str name)
{
    return rota_map_get(&directory->spaces, name);
}

static void wait_for_map(struct rota_space_directory *directory, struct watcher *watcher)
{
    watcher->until = rota_time_add(rota_clock_mono(), ROTA_SPACE_DIRECTORY_PATIENCE);
    arm_timer(directory);
    watcher->entry = find_entry(directory, rota_str(watcher->space));
    if (watcher->entry) {
        rota_list_push(&watcher->entry->watchers, &watcher->link);
        serve(watcher);
        return;
    }
    rota_list_push(&directory->waiting, &watcher->link);
    if (directory->is_looking)
        return;
    directory->is_looking = true;
    directory->look_up(directory->data);
}

static bool is_listed(const struct rota_store_answer *answer, struct rota_str name)
{
    for (size_t i = 0; i < answer->n_spaces; i++)
        if (rota_str_is_equal(answer->spaces[i].name, name))
            return true;
    return false;
}

void rota_space_directory_looked_up(struct rota_space_directory *directory,
                                    const struct rota_store_answer *answer)
{
    directory->is_looking = false;
    if (directory->is_ended)
        return;
    ROTA_LIST_EACH (watcher, &directory->waiting, struct watcher, link) {
        watcher->entry = find_entry(directory, rota_str(watcher->space));
        if (watcher->entry) {
            rota_list_remove(&watcher->link);
            rota_list_push(&watcher->entry->watchers, &watcher->link);
            serve(watcher);
        } else if (!answer) {
            watcher_end(directory, watcher, ROTA_STATUS_UNAVAILABLE,
                        "this node cannot reach its store");
        } else if (is_listed(answer, rota_str(watcher->space))) {
            watcher_end(directory, watcher, ROTA_STATUS_UNAVAILABLE,
                        "this node cannot observe the space; its log says why");
        } else {
            not_found(directory, watcher);
        }
    }
}

/* --- methods --- */

static void on_request(struct rota_space_directory *directory, struct rota_server_call *call,
                       bool is_watch)
{
    struct rota_directory_space_request request;
    struct watcher *watcher = NULL;
    if (rota_message_decode(&ROTA_DIRECTORY_SPACE_REQUEST, rota_server_call_request(call), &request,
                            NULL, NULL) ||
        request.space.size == 0 || request.space.size > ROTA_SPACE_DIRECTORY_NAME_MAX ||
        memchr(request.space.data, '\0', request.space.size)) {
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT,
                                is_watch ? "the request is not a WatchSpaceRequest with a space"
                                         : "the request is not a GetSpaceRequest with a space",
                                NULL, 0);
        return;
    }
    if (directory->is_ended) {
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, "this node is leaving", NULL, 0);
        return;
    }
    if (directory->n_watchers < ROTA_SPACE_DIRECTORY_WATCHERS_MAX)
        watcher = calloc(1, sizeof *watcher + request.space.size + 1);
    if (!watcher) {
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "too many watchers", NULL, 0);
        return;
    }
    watcher->call = call;
    watcher->is_watch = is_watch;
    watcher->history = request.history;
    watcher->version = request.version;
    memcpy(watcher->space, request.space.data, request.space.size);
    directory->n_watchers++;
    rota_server_call_set_data(call, watcher);
    wait_for_map(directory, watcher);
}

static void on_get(void *data, struct rota_server_call *call)
{
    on_request(data, call, false);
}

static void on_watch(void *data, struct rota_server_call *call)
{
    on_request(data, call, true);
}

static void on_room(void *data, struct rota_server_call *call)
{
    (void)data;
    serve(rota_server_call_data(call));
}

static void on_cancel(void *data, struct rota_server_call *call)
{
    watcher_end(data, rota_server_call_data(call), ROTA_STATUS_CANCELLED, NULL);
}

/* --- spaces --- */

/* Two nodes, or two runs of one, must not have the same history. */
static uint64_t random_seed(void)
{
    uint64_t seed = 0;
    if (uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL))
        seed = (uint64_t)rota_clock_wall() ^ (uint64_t)uv_os_getpid() << 40;
    return seed;
}

static struct entry *add_entry(struct rota_space_directory *directory, struct rota_str name)
{
    struct entry *entry = calloc(1, sizeof *entry + name.size);
    if (!entry)
        return NULL;
    entry->directory = directory;
    entry->name_size = name.size;
    memcpy(entry->name, name.data, name.size);
    rota_list_init(&entry->watchers);
    rota_space_feed_init(&entry->feed, random_seed());
    if (rota_map_put(&directory->spaces, rota_str_of(entry->name, name.size), entry))
        return entry;
    free(entry);
    return NULL;
}

enum rota_code rota_space_directory_set(struct rota_space_directory *directory,
                                        const struct rota_space_map *map,
                                        const struct rota_space_zones *zones,
                                        struct rota_error *error)
{
    struct entry *entry = find_entry(directory, map->name);
    if (directory->is_ended)
        return ROTA_OK;
    if (!entry)
        entry = add_entry(directory, map->name);
    if (!entry || !rota_space_feed_update(&entry->feed, map, zones))
        return rota_error_no_memory(error, "for the directory of spaces");
    ROTA_LIST_EACH (watcher, &entry->watchers, struct watcher, link)
        serve(watcher);
    return ROTA_OK;
}

static void entry_free(struct entry *entry)
{
    forget_encoded(entry);
    rota_space_feed_deinit(&entry->feed);
    free(entry);
}

void rota_space_directory_remove(struct rota_space_directory *directory, struct rota_str name)
{
    struct entry *entry = find_entry(directory, name);
    if (!entry)
        return;
    rota_map_remove(&directory->spaces, name);
    ROTA_LIST_DRAIN (watcher, &entry->watchers, struct watcher, link)
        not_found(directory, watcher);
    entry_free(entry);
}

static void forget_spaces(struct rota_space_directory *directory)
{
    const struct rota_map_entry *found;
    size_t place = 0;
    while ((found = rota_map_next(&directory->spaces, &place))) {
        struct entry *entry = found->value;
        end_all(directory, &entry->watchers, "this node is leaving");
        entry_free(entry);
    }
    rota_map_deinit(&directory->spaces);
    end_all(directory, &directory->waiting, "this node is leaving");
}

/* --- life --- */

void rota_space_directory_end(struct rota_space_directory *directory)
{
    if (!directory || directory->is_ended)
        return;
    directory->is_ended = true;
    forget_spaces(directory);
    uv_timer_stop(&directory->timer);
}

static void on_closed(uv_handle_t *handle)
{
    struct rota_space_directory *directory = handle->data;
    rota_buffer_deinit(&directory->head);
    rota_buffer_deinit(&directory->reply);
    rota_directory_message_claims_deinit(&directory->writer);
    free(directory);
}

void rota_space_directory_close(struct rota_space_directory *directory)
{
    if (!directory)
        return;
    rota_space_directory_end(directory);
    uv_close((uv_handle_t *)&directory->timer, on_closed);
}

enum rota_code rota_space_directory_open(struct uv_loop_s *loop, struct rota_server *server,
                                         void (*look_up)(void *data), void *data,
                                         struct rota_space_directory **result,
                                         struct rota_error *error)
{
    struct rota_space_directory *directory = calloc(1, sizeof *directory);
    if (!directory)
        return rota_error_no_memory(error, "for the directory of spaces");
    directory->look_up = look_up;
    directory->data = data;
    rota_map_init(&directory->spaces, random_seed());
    rota_list_init(&directory->waiting);
    uv_timer_init(loop, &directory->timer);
    directory->timer.data = directory;
    const struct rota_server_method get = {.path = "/rota.v1.Directory/GetSpace",
                                           .on_call = on_get,
                                           .on_cancel = on_cancel,
                                           .data = directory};
    const struct rota_server_method watch = {.path = "/rota.v1.Directory/WatchSpace",
                                             .on_call = on_watch,
                                             .on_cancel = on_cancel,
                                             .on_room = on_room,
                                             .data = directory};
    enum rota_code code = rota_server_add(server, &get, error);
    if (code == ROTA_OK)
        code = rota_server_add(server, &watch, error);
    if (code) {
        rota_space_directory_close(directory);
        return code;
    }
    *result = directory;
    return ROTA_OK;
}

size_t rota_space_directory_n_spaces(const struct rota_space_directory *directory)
{
    return directory->spaces.size;
}

size_t rota_space_directory_n_watchers(const struct rota_space_directory *directory)
{
    return directory->n_watchers;
}
