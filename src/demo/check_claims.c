#include "demo/check_claims.h"

#include <assert.h>
#include <string.h>

bool rota_check_claims_init(struct rota_check_claims *claims, struct rota_check *check,
                            const char *name, const char *const *nodes, size_t n_nodes,
                            uint32_t n_shards)
{
    assert(n_nodes > 0 && n_nodes <= ROTA_CHECK_NODES_MAX && n_shards > 0 &&
           n_shards <= ROTA_CHECK_SHARDS_MAX);
    *claims = (struct rota_check_claims){
        .check = check,
        .name = name,
        .nodes = nodes,
        .n_nodes = n_nodes,
        .shards = calloc(n_shards, sizeof *claims->shards),
        .n_shards = n_shards,
        .told = calloc((size_t)n_shards * n_nodes, sizeof *claims->told),
        .now = 1,
    };
    if (claims->shards && claims->told)
        return true;
    claims->n_shards = 0;
    rota_check_claims_deinit(claims);
    return false;
}

void rota_check_claims_deinit(struct rota_check_claims *claims)
{
    for (uint32_t i = 0; i < claims->n_shards; i++)
        rota_vector_deinit(&claims->shards[i].claims);
    free(claims->shards);
    free(claims->told);
    *claims = (struct rota_check_claims){.n_shards = 0};
}

/* The claim with this epoch, added if needed. NULL: there is no room for it. */
static struct rota_check_claim *find_or_add_claim(struct rota_check_claims *claims, uint32_t shard,
                                                  uint32_t owner, uint64_t epoch)
{
    struct rota_check_shard *of = &claims->shards[shard];
    const struct rota_check_claim made = {.epoch = epoch, .owner = owner};
    size_t i = of->claims.size;
    while (i > 0 && of->claims.items[i - 1].epoch > epoch) /* it is one of the last */
        i--;
    if (i > 0 && of->claims.items[i - 1].epoch == epoch)
        return &of->claims.items[i - 1];
    if (claims->n_claims == ROTA_CHECK_CLAIMS_MAX || !rota_vector_push(&of->claims, made)) {
        rota_check_report_fault(claims->check, ROTA_CHECK_UNCHECKED,
                                "epoch %llu of shard %u of %.80s is not checked: too many epochs",
                                (unsigned long long)epoch, shard, claims->name);
        return NULL;
    }
    claims->n_claims++;
    claims->n_moves += of->claims.size > 1;
    memmove(&of->claims.items[i + 1], &of->claims.items[i],
            (of->claims.size - 1 - i) * sizeof made);
    of->claims.items[i] = made;
    return &of->claims.items[i];
}

static void compare_owner(struct rota_check_claims *claims, uint32_t shard, uint32_t owner,
                          struct rota_check_claim *claim)
{
    if (claim->owner == owner || claim->is_disputed)
        return;
    claim->is_disputed = true;
    rota_check_report_fault(claims->check, ROTA_CHECK_TWO_OWNERS,
                            "shard %u of %.80s has two owners, %.40s and %.40s, under epoch %llu",
                            shard, claims->name, claims->nodes[claim->owner], claims->nodes[owner],
                            (unsigned long long)claim->epoch);
}

static const struct rota_check_claim *later_one(const struct rota_check_claims *claims,
                                                uint32_t shard, uint64_t epoch, uint64_t asked)
{
    const struct rota_check_shard *of = &claims->shards[shard];
    for (size_t i = of->claims.size; i-- > 0 && of->claims.items[i].epoch > epoch;)
        if (of->claims.items[i].held_at && of->claims.items[i].held_at <= asked)
            return &of->claims.items[i];
    return NULL;
}

void rota_check_claims_held(struct rota_check_claims *claims, uint32_t shard, uint32_t owner,
                            uint64_t epoch, uint64_t asked)
{
    assert(shard < claims->n_shards && owner < claims->n_nodes);
    struct rota_check_claim *claim = find_or_add_claim(claims, shard, owner, epoch);
    claims->now++;
    if (!claim)
        return;
    compare_owner(claims, shard, owner, claim);
    const struct rota_check_claim *later = later_one(claims, shard, epoch, asked);
    if (later && !claim->is_old) {
        claim->is_old = true;
        rota_check_report_fault(
            claims->check, ROTA_CHECK_OLD_OWNER,
            "shard %u of %.80s: %.40s owns it under the stale epoch %llu after %.40s "
            "had epoch %llu",
            shard, claims->name, claims->nodes[owner], (unsigned long long)epoch,
            claims->nodes[later->owner], (unsigned long long)later->epoch);
    }
    if (!claim->held_at)
        claim->held_at = claims->now;
    claims->n_awaited -= claims->shards[shard].is_awaited;
    claims->shards[shard].is_awaited = false;
}

void rota_check_claims_reported(struct rota_check_claims *claims, uint32_t shard, uint32_t teller,
                                size_t owner, uint64_t epoch, uint64_t asked)
{
    assert(shard < claims->n_shards && teller < claims->n_nodes);
    size_t place = (size_t)teller * claims->n_shards + shard;
    claims->now++;
    if (epoch < claims->told[place].epoch && claims->told[place].at <= asked)
        rota_check_report_fault(
            claims->check, ROTA_CHECK_EPOCH_FELL,
            "the epoch of shard %u of %.80s fell from %llu to %llu, as reported by %.40s", shard,
            claims->name, (unsigned long long)claims->told[place].epoch, (unsigned long long)epoch,
            claims->nodes[teller]);
    if (epoch > claims->told[place].epoch) {
        claims->told[place].epoch = epoch;
        claims->told[place].at = claims->now;
    }
    struct rota_check_claim *claim =
        owner < claims->n_nodes ? find_or_add_claim(claims, shard, (uint32_t)owner, epoch) : NULL;
    if (claim)
        compare_owner(claims, shard, (uint32_t)owner, claim);
}

void rota_check_claims_await(struct rota_check_claims *claims)
{
    for (uint32_t i = 0; i < claims->n_shards; i++)
        claims->shards[i].is_awaited = true;
    claims->n_awaited = claims->n_shards;
}

void rota_check_claims_judge(struct rota_check_claims *claims)
{
    for (uint32_t i = 0; i < claims->n_shards; i++)
        if (claims->shards[i].is_awaited)
            rota_check_report_fault(claims->check, ROTA_CHECK_SHARD_UNOWNED,
                                    "shard %u of %.80s has no owner although all nodes are up", i,
                                    claims->name);
}
