/* The notes beside a call: whatever is read can be written, and reads back the same. */
#include "core/own/shard_note.h"
#include "wire/grpc/call_notes.h"

#include <assert.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shard(struct rota_str text)
{
    char room[ROTA_SHARD_NOTE_NAMES_MAX], again[ROTA_SHARD_NOTE_NAMES_MAX],
        written[ROTA_SHARD_NOTE_MAX];
    struct rota_str space, shard, other_space, other_shard;
    if (!rota_shard_note_parse(text, room, &space, &shard))
        return;
    assert(space.size > 0 && space.size <= ROTA_SHARD_NAME_MAX);
    assert(shard.size > 0 && shard.size <= ROTA_SHARD_NAME_MAX);
    struct rota_str note = rota_shard_note_format(space, shard, written);
    assert(rota_shard_note_parse(note, again, &other_space, &other_shard));
    assert(rota_str_is_equal(space, other_space) && rota_str_is_equal(shard, other_shard));
}

static void check_claim(struct rota_str text)
{
    char written[ROTA_NOTE_CLAIM_MAX];
    struct rota_replica claim, again;
    if (!rota_call_notes_parse_claim(text, &claim))
        return;
    assert(claim.node >= 0 && claim.address.size > 0);
    if (memchr(claim.address.data, 0, claim.address.size))
        return; /* which can't be written */
    rota_call_notes_format_claim(claim.node, claim.epoch, claim.address, written);
    assert(rota_call_notes_parse_claim(rota_str(written), &again));
    assert(claim.node == again.node && claim.epoch == again.epoch);
    assert(rota_str_is_equal(claim.address, again.address));
}

static void check_numbers(struct rota_str text)
{
    char written[ROTA_NOTE_COST_MAX];
    struct rota_cost cost, again;
    uint64_t epoch, same;
    if (rota_call_notes_parse_cost(text, &cost)) {
        assert(cost.response_us >= 0 && cost.service_us >= 0 && cost.waiting >= 0);
        assert(rota_call_notes_parse_cost(rota_str(rota_call_notes_format_cost(&cost, written)),
                                          &again));
        assert(memcmp(&cost, &again, sizeof cost) == 0);
    }
    if (rota_call_notes_parse_epoch(text, &epoch)) {
        snprintf(written, sizeof written, "%llu", (unsigned long long)epoch);
        assert(rota_call_notes_parse_epoch(rota_str(written), &same) && same == epoch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str text = rota_str_of(data, size);
    check_shard(text);
    check_claim(text);
    check_numbers(text);
    return 0;
}
