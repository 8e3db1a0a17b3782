/* The claims, asked for every call that was routed by one. */
#include "run/rpc/server_inside.h"

#include "core/call/failure.h"
#include "core/own/claims.h"
#include "core/own/shard_note.h"
#include "io/clock.h"
#include "wire/grpc/call_notes.h"

#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MAX = 256, SHOWN_MAX = 160 };

static const char SHARD[] = ROTA_NOTE_SHARD, EPOCH[] = ROTA_NOTE_EPOCH;

/* Both fields have names of the same size, which few other fields have. Of a known size, they are
 * compared without a call. */
static inline bool is_note(const char *name, const char *note)
{
    uint64_t left, right;
    _Static_assert(sizeof SHARD == sizeof EPOCH && sizeof SHARD == 11, "names of ten bytes");
    memcpy(&left, name, sizeof left);
    memcpy(&right, note, sizeof right);
    return left == right && name[8] == note[8] && name[9] == note[9];
}

/* The names point into the metadata, or into memory of the call if they were escaped. */
static bool read_names(struct rota_server_route *route)
{
    char unused[ROTA_SHARD_NOTE_NAMES_MAX];
    bool is_escaped = memchr(route->note.data, '%', route->note.size) != NULL;
    if (is_escaped && !route->room && !(route->room = malloc(ROTA_SHARD_NOTE_NAMES_MAX)))
        return false;
    return rota_shard_note_parse(route->note, is_escaped ? route->room : unused, &route->space,
                                 &route->shard);
}

/* The notes of a call are read once, however often they are asked for. */
static struct rota_server_route *notes_of(struct rota_server_call *call)
{
    struct rota_server_route *route = &call->route;
    struct rota_str epoch = {0}, note = {0};
    size_t n;
    if (route->is_read)
        return route;
    const struct rota_metadata *pairs = rota_grpc_head_fields_pairs(&call->h2.head.metadata, &n);
    for (size_t i = 0; i < n; i++)
        if (pairs[i].name.size != sizeof SHARD - 1)
            continue;
        else if (is_note(pairs[i].name.data, EPOCH) && !epoch.data)
            epoch = pairs[i].value;
        else if (is_note(pairs[i].name.data, SHARD) && !note.data)
            note = pairs[i].value;
    route->note = note;
    route->is_read = true;
    route->is_there = epoch.data || note.data;
    route->has_epoch = epoch.size > 0 && rota_call_notes_parse_epoch(epoch, &route->epoch);
    route->is_parsed = false;
    return route;
}

static const struct rota_server_route *route_of(struct rota_server_call *call)
{
    struct rota_server_route *route = notes_of(call);
    if (!route->is_parsed)
        route->is_valid = route->has_epoch && route->note.size > 0 && read_names(route);
    route->is_parsed = true;
    return route;
}

bool rota_server_fence_call_is_routed(struct rota_server_call *call)
{
    return notes_of(call)->is_there;
}

bool rota_server_call_shard(struct rota_server_call *call, struct rota_str *space,
                            struct rota_str *shard, uint64_t *epoch)
{
    const struct rota_server_route *route = route_of(call);
    if (!route->is_valid)
        return false;
    *space = route->space;
    *shard = route->shard;
    *epoch = route->epoch;
    return true;
}

static void write_reason(const struct rota_server_route *route, enum rota_claims_answer answer,
                         const struct rota_claim *known, char text[TEXT_MAX])
{
    int size = (int)(route->note.size < SHOWN_MAX ? route->note.size : SHOWN_MAX);
    unsigned long long epoch = route->epoch, ours = known->epoch;
    bool is_starting = known->epoch == route->epoch && !known->is_held && known->address.size == 0;
    switch (answer) {
    case ROTA_CLAIMS_HELD:
    case ROTA_CLAIMS_NOT_HELD:
        if (answer == ROTA_CLAIMS_NOT_HELD && ours > 0 && is_starting)
            snprintf(text, TEXT_MAX,
                     "this server does not serve shard %.*s now: it is starting, or its owner is "
                     "not known here",
                     size, route->note.data);
        else
            snprintf(text, TEXT_MAX, "this server does not own shard %.*s", size, route->note.data);
        break;
    case ROTA_CLAIMS_STALE:
        snprintf(text, TEXT_MAX, "epoch %llu of shard %.*s is stale: the current epoch is %llu",
                 epoch, size, route->note.data, ours);
        break;
    case ROTA_CLAIMS_AHEAD:
        snprintf(text, TEXT_MAX,
                 "epoch %llu of shard %.*s is unknown here so far: the last known epoch is %llu",
                 epoch, size, route->note.data, ours);
        break;
    }
}

/* The content of a rejection. */
struct refusal {
    char text[TEXT_MAX], claim[ROTA_NOTE_CLAIM_MAX];
    struct rota_metadata notes[2];
    size_t n_notes;
};

static struct rota_metadata stale_note(void)
{
    return (struct rota_metadata){rota_str(ROTA_NOTE_FAILURE),
                                  rota_str(rota_failure_name(ROTA_FAILURE_STALE))};
}

/* With our newer claim: neither an expired claim of ours, nor one older than the caller's. */
static void write_refusal(const struct rota_claims *claims, const struct rota_server_route *route,
                          enum rota_claims_answer answer, struct refusal *refusal)
{
    struct rota_claim claim = {0};
    rota_claims_find(claims, route->space, route->shard, &claim);
    write_reason(route, answer, &claim, refusal->text);
    refusal->notes[0] = stale_note();
    refusal->n_notes = 1;
    bool is_news =
        answer == ROTA_CLAIMS_STALE || (answer == ROTA_CLAIMS_NOT_HELD && !claim.is_held);
    if (is_news && claim.address.size > 0) {
        rota_call_notes_format_claim(claim.node, claim.epoch, claim.address, refusal->claim);
        refusal->notes[refusal->n_notes++] =
            (struct rota_metadata){rota_str(ROTA_NOTE_CLAIM), rota_str(refusal->claim)};
    }
}

static enum rota_claims_answer check_claim(const struct rota_claims *claims,
                                           const struct rota_server_route *route)
{
    return rota_claims_check(claims, rota_clock_boot(), route->space, route->shard, route->epoch);
}

/* Nearly every call is for a claim that is held, and the text of its note finds it. */
static bool is_held(const struct rota_claims *claims, struct rota_server_call *call)
{
    const struct rota_server_route *route = notes_of(call);
    return route->has_epoch && rota_claims_check_note(claims, rota_clock_boot(), route->note,
                                                      route->epoch) == ROTA_CLAIMS_HELD;
}

bool rota_server_fence(struct rota_server_call *call)
{
    const struct rota_claims *claims = call->server->options.claims;
    if (!claims || is_held(claims, call))
        return true;
    const struct rota_server_route *route = route_of(call);
    if (!route->is_valid) {
        if (!call->method->is_fenced)
            return true;
        rota_server_arrive_refuse(
            call, ROTA_SERVER_UNFENCED, ROTA_STATUS_FAILED_PRECONDITION,
            "only the owner of a shard serves this method: the call must carry its "
            "shard and epoch (rota-shard, rota-epoch)",
            NULL, 0);
        return false;
    }
    enum rota_claims_answer answer = check_claim(claims, route);
    if (answer == ROTA_CLAIMS_HELD)
        return true;
    struct refusal refusal;
    write_refusal(claims, route, answer, &refusal);
    rota_server_arrive_refuse(call, ROTA_SERVER_STALE, rota_failure_status(ROTA_FAILURE_STALE),
                              refusal.text, refusal.notes, refusal.n_notes);
    return false;
}

bool rota_server_call_is_current(struct rota_server_call *call)
{
    const struct rota_claims *claims = call->server->options.claims;
    if (!claims)
        return true;
    if (call->server->is_closed)
        return !route_of(call)->is_valid; /* the claims may be gone */
    if (is_held(claims, call))
        return true;
    const struct rota_server_route *route = route_of(call);
    return !route->is_valid || check_claim(claims, route) == ROTA_CLAIMS_HELD;
}

void rota_server_call_refuse(struct rota_server_call *call)
{
    const struct rota_claims *claims = call->server->options.claims;
    const struct rota_server_route *route = route_of(call);
    struct refusal refusal = {
        .text = "this server does not own the shard",
        .notes = {stale_note()},
        .n_notes = 1,
    };
    if (claims && route->is_valid && !call->server->is_closed)
        write_refusal(claims, route, check_claim(claims, route), &refusal);
    rota_server_call_finish(call, rota_failure_status(ROTA_FAILURE_STALE), refusal.text,
                            refusal.notes, refusal.n_notes);
}
