/* The claims, asked for every call that was routed by one. */
#include "run/rpc/server_inside.h"

#include "core/call/failure.h"
#include "io/clock.h"
#include "wire/grpc/call_notes.h"

#include <rota/claims.h>
#include <stdio.h>

enum { TEXT_MAX = 256, SHOWN_MAX = 160 };

/* Which claim a call was routed by. */
struct route {
    struct rota_str note; /* of the shard, as received */
    struct rota_str space, shard;
    uint64_t epoch;
    char room[ROTA_NOTE_NAMES_MAX];
};

/* False when it names none, or none that can be read. */
static bool read_route(struct rota_server_call *call, struct route *route)
{
    size_t n;
    const struct rota_metadata *pairs = rota_grpc_fields_pairs(&call->h2.head.metadata, &n);
    struct rota_str epoch;
    return rota_metadata_get(pairs, n, ROTA_NOTE_EPOCH, &epoch) &&
           rota_metadata_get(pairs, n, ROTA_NOTE_SHARD, &route->note) &&
           rota_note_parse_epoch(epoch, &route->epoch) &&
           rota_note_parse_shard(route->note, route->room, &route->space, &route->shard);
}

bool rota_server_call_is_routed(struct rota_server_call *call)
{
    size_t n;
    const struct rota_metadata *pairs = rota_grpc_fields_pairs(&call->h2.head.metadata, &n);
    struct rota_str value;
    return rota_metadata_get(pairs, n, ROTA_NOTE_EPOCH, &value) ||
           rota_metadata_get(pairs, n, ROTA_NOTE_SHARD, &value);
}

static void write_reason(const struct route *route, enum rota_claims_answer answer, uint64_t known,
                         char text[TEXT_MAX])
{
    int size = (int)(route->note.size < SHOWN_MAX ? route->note.size : SHOWN_MAX);
    unsigned long long epoch = route->epoch, ours = known;
    switch (answer) {
    case ROTA_CLAIMS_HELD:
    case ROTA_CLAIMS_NOT_HELD:
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
static void write_refusal(const struct rota_claims *claims, const struct route *route,
                          enum rota_claims_answer answer, struct refusal *refusal)
{
    struct rota_claim claim = {0};
    rota_claims_find(claims, route->space, route->shard, &claim);
    write_reason(route, answer, claim.epoch, refusal->text);
    refusal->notes[0] = stale_note();
    refusal->n_notes = 1;
    bool is_news =
        answer == ROTA_CLAIMS_STALE || (answer == ROTA_CLAIMS_NOT_HELD && !claim.is_held);
    if (is_news && claim.address.size > 0) {
        rota_note_format_claim(claim.node, claim.epoch, claim.address, refusal->claim);
        refusal->notes[refusal->n_notes++] =
            (struct rota_metadata){rota_str(ROTA_NOTE_CLAIM), rota_str(refusal->claim)};
    }
}

bool rota_server_fence(struct rota_server_call *call)
{
    const struct rota_claims *claims = call->server->options.claims;
    struct route route;
    if (!claims)
        return true;
    if (!read_route(call, &route)) {
        if (!call->method->is_fenced)
            return true;
        rota_server_refuse(call, ROTA_SERVER_UNFENCED, ROTA_STATUS_FAILED_PRECONDITION,
                           "only the owner of a shard serves this method: the call must carry its "
                           "shard and epoch (rota-shard, rota-epoch)",
                           NULL, 0);
        return false;
    }
    enum rota_claims_answer answer =
        rota_claims_check(claims, rota_clock_boot(), route.space, route.shard, route.epoch);
    if (answer == ROTA_CLAIMS_HELD)
        return true;
    struct refusal refusal;
    write_refusal(claims, &route, answer, &refusal);
    rota_server_refuse(call, ROTA_SERVER_STALE, rota_failure_status(ROTA_FAILURE_STALE),
                       refusal.text, refusal.notes, refusal.n_notes);
    return false;
}

bool rota_server_call_is_current(struct rota_server_call *call)
{
    const struct rota_claims *claims = call->server->options.claims;
    struct route route;
    return !claims || !read_route(call, &route) ||
           rota_claims_check(claims, rota_clock_boot(), route.space, route.shard, route.epoch) ==
               ROTA_CLAIMS_HELD;
}

void rota_server_call_refuse(struct rota_server_call *call)
{
    const struct rota_claims *claims = call->server->options.claims;
    struct route route;
    struct refusal refusal = {
        .text = "this server does not own the shard",
        .notes = {stale_note()},
        .n_notes = 1,
    };
    if (claims && read_route(call, &route)) {
        enum rota_claims_answer answer =
            rota_claims_check(claims, rota_clock_boot(), route.space, route.shard, route.epoch);
        write_refusal(claims, &route, answer, &refusal);
    }
    rota_server_call_finish(call, rota_failure_status(ROTA_FAILURE_STALE), refusal.text,
                            refusal.notes, refusal.n_notes);
}
