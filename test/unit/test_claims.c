#include "core/own/claims.h"

#include "vectors.h"

#include <rota/experimental/random.h>
#include <stdio.h>

static struct rota_claims *open_claims(void)
{
    struct rota_claims *claims;
    assert_int_equal(rota_claims_new(1, &claims, NULL), ROTA_OK);
    return claims;
}

static struct rota_claim claim_of(const char *shard, int64_t node, uint64_t epoch, bool is_held)
{
    return (struct rota_claim){
        .space = rota_str("1"),
        .shard = rota_str(shard),
        .node = node,
        .epoch = epoch,
        .address = rota_str(node == 1 ? "a:1" : "b:2"),
        .is_held = is_held,
    };
}

static enum rota_code set(struct rota_claims *claims, struct rota_claim claim)
{
    return rota_claims_set(claims, &claim, NULL);
}

static enum rota_claims_answer check(struct rota_claims *claims, const char *shard, uint64_t epoch)
{
    return rota_claims_check(claims, 0, rota_str("1"), rota_str(shard), epoch);
}

static void only_the_epoch_that_is_held_here_is_served(void **state)
{
    struct rota_claims *claims = open_claims();
    (void)state;
    assert_int_equal(check(claims, "s", 5), ROTA_CLAIMS_NOT_HELD);
    assert_int_equal(set(claims, claim_of("s", 1, 5, true)), ROTA_OK);
    assert_int_equal(check(claims, "s", 4), ROTA_CLAIMS_STALE);
    assert_int_equal(check(claims, "s", 5), ROTA_CLAIMS_HELD);
    assert_int_equal(check(claims, "s", 6), ROTA_CLAIMS_AHEAD);
    assert_int_equal(check(claims, "t", 5), ROTA_CLAIMS_NOT_HELD);
    rota_claims_free(claims);
}

static void a_claim_of_another_node_is_not_served(void **state)
{
    struct rota_claims *claims = open_claims();
    (void)state;
    assert_int_equal(set(claims, claim_of("s", 1, 5, true)), ROTA_OK);
    assert_int_equal(set(claims, claim_of("s", 2, 6, false)), ROTA_OK);
    assert_int_equal(check(claims, "s", 5), ROTA_CLAIMS_STALE);
    assert_int_equal(check(claims, "s", 6), ROTA_CLAIMS_NOT_HELD);
    assert_int_equal(check(claims, "s", 7), ROTA_CLAIMS_AHEAD);
    rota_claims_free(claims);
}

static void older_epoch_never_overwrites_a_newer_one(void **state)
{
    struct rota_claims *claims = open_claims();
    struct rota_claim found, late = claim_of("s", 1, 5, true);
    struct rota_error error;
    (void)state;
    assert_int_equal(set(claims, claim_of("s", 2, 6, false)), ROTA_OK);
    assert_int_equal(rota_claims_set(claims, &late, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "epoch 5 is older than the known epoch 6"));
    assert_true(rota_claims_find(claims, rota_str("1"), rota_str("s"), &found));
    assert_int_equal(found.node, 2);
    assert_true(found.epoch == 6 && !found.is_held);
    assert_true(rota_str_is_equal(found.address, rota_str("b:2")));
    rota_claims_free(claims);
}

static void epoch_has_one_owner(void **state)
{
    struct rota_claims *claims = open_claims();
    (void)state;
    assert_int_equal(set(claims, claim_of("s", 1, 5, true)), ROTA_OK);
    assert_int_equal(set(claims, claim_of("s", 2, 5, false)), ROTA_ERR_INVALID);
    assert_int_equal(check(claims, "s", 5), ROTA_CLAIMS_HELD);
    struct rota_claim moved = claim_of("s", 1, 5, true); /* renewed, at another address */
    moved.address = rota_str("c:3");
    assert_int_equal(set(claims, moved), ROTA_OK);
    assert_int_equal(rota_claims_size(claims), 1);
    assert_int_equal(check(claims, "s", 5), ROTA_CLAIMS_HELD);
    rota_claims_free(claims);
}

static void late_drop_leaves_the_next_claim_alone(void **state)
{
    struct rota_claims *claims = open_claims();
    struct rota_claim found;
    (void)state;
    assert_false(rota_claims_drop(claims, rota_str("1"), rota_str("s"), 5));
    assert_int_equal(set(claims, claim_of("s", 1, 7, true)), ROTA_OK);
    assert_false(rota_claims_drop(claims, rota_str("1"), rota_str("s"), 6));
    assert_int_equal(check(claims, "s", 7), ROTA_CLAIMS_HELD);
    assert_true(rota_claims_drop(claims, rota_str("1"), rota_str("s"), 7));
    assert_int_equal(check(claims, "s", 7), ROTA_CLAIMS_NOT_HELD);
    assert_false(rota_claims_find(claims, rota_str("1"), rota_str("s"), &found));
    assert_int_equal(rota_claims_size(claims), 0);
    rota_claims_free(claims);
}

static void claim_expires_and_renewing_prolongs_it(void **state)
{
    struct rota_claims *claims = open_claims();
    struct rota_claim claim = claim_of("s", 1, 5, true);
    struct rota_str space = rota_str("1"), shard = rota_str("s");
    (void)state;
    claim.until = 10;
    assert_int_equal(set(claims, claim), ROTA_OK);
    assert_int_equal(rota_claims_check(claims, 9, space, shard, 5), ROTA_CLAIMS_HELD);
    assert_int_equal(rota_claims_check(claims, 10, space, shard, 5), ROTA_CLAIMS_NOT_HELD);
    claim.until = 20;
    assert_int_equal(set(claims, claim), ROTA_OK);
    assert_int_equal(rota_claims_check(claims, 10, space, shard, 5), ROTA_CLAIMS_HELD);
    rota_claims_free(claims);
}

static void similar_names_are_distinguished(void **state)
{
    struct rota_claims *claims = open_claims();
    struct rota_claim claim = claim_of("b", 1, 5, true);
    (void)state;
    claim.space = rota_str_of("a\0", 2);
    assert_int_equal(set(claims, claim), ROTA_OK);
    assert_int_equal(rota_claims_check(claims, 0, rota_str("a"), rota_str_of("\0b", 2), 5),
                     ROTA_CLAIMS_NOT_HELD);
    assert_int_equal(rota_claims_check(claims, 0, rota_str_of("a\0b", 3), rota_str(""), 5),
                     ROTA_CLAIMS_NOT_HELD);
    assert_int_equal(rota_claims_check(claims, 0, claim.space, claim.shard, 5), ROTA_CLAIMS_HELD);
    rota_claims_free(claims);
}

static void note_of_a_shard_finds_its_claim(void **state)
{
    static const struct {
        const char *note;
        uint64_t epoch;
        enum rota_claims_answer answer;
    } cases[] = {
        {"1/s", 5, ROTA_CLAIMS_HELD},
        {"1/s", 4, ROTA_CLAIMS_STALE},
        {"1/s", 6, ROTA_CLAIMS_AHEAD},
        {"1/a%2F%20b", 7, ROTA_CLAIMS_HELD},
        {"1/a/ b", 7, ROTA_CLAIMS_NOT_HELD},
        {"1/%73", 5, ROTA_CLAIMS_NOT_HELD}, /* "s", as the format does not write it */
        {"1/s/", 5, ROTA_CLAIMS_NOT_HELD},
        {"", 5, ROTA_CLAIMS_NOT_HELD},
    };
    struct rota_claims *claims = open_claims();
    (void)state;
    assert_int_equal(rota_claims_check_note(claims, 0, rota_str("1/s"), 5), ROTA_CLAIMS_NOT_HELD);
    assert_int_equal(set(claims, claim_of("s", 1, 5, true)), ROTA_OK);
    assert_int_equal(set(claims, claim_of("a/ b", 1, 7, true)), ROTA_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(rota_claims_check_note(claims, 0, rota_str(cases[i].note), cases[i].epoch),
                         cases[i].answer);
    rota_claims_free(claims);
}

static void malformed_claim_is_refused(void **state)
{
    static char large[ROTA_SHARD_NAME_MAX + 1];
    struct rota_claims *claims = open_claims();
    struct rota_claim bad = claim_of("", 1, 5, true);
    (void)state;
    memset(large, 'x', sizeof large);
    assert_int_equal(set(claims, bad), ROTA_ERR_INVALID);
    bad = claim_of("s", -1, 5, true);
    assert_int_equal(set(claims, bad), ROTA_ERR_INVALID);
    bad = claim_of("s", 1, 5, true);
    bad.address = rota_str("a b");
    assert_int_equal(set(claims, bad), ROTA_ERR_INVALID);
    bad.address = rota_str_of(large, sizeof large);
    assert_int_equal(set(claims, bad), ROTA_ERR_INVALID);
    bad.address = rota_str("\xff");
    assert_int_equal(set(claims, bad), ROTA_ERR_INVALID);
    bad = claim_of("s", 1, 5, true);
    bad.space = rota_str_of(large, sizeof large);
    assert_int_equal(set(claims, bad), ROTA_ERR_INVALID);
    assert_int_equal(rota_claims_check(claims, 0, bad.space, bad.shard, 5), ROTA_CLAIMS_NOT_HELD);
    assert_int_equal(rota_claims_limit(claims, bad.space, 1, NULL), ROTA_ERR_INVALID);
    bad = claim_of("s", 1, 5, true);
    bad.shard = rota_str_of(large, sizeof large);
    assert_int_equal(set(claims, bad), ROTA_ERR_INVALID);
    bad.shard = bad.space = bad.address = rota_str_of(large, sizeof large - 1);
    bad.node = 0;
    assert_int_equal(set(claims, bad), ROTA_OK);
    assert_int_equal(rota_claims_limit(claims, bad.space, 1, NULL), ROTA_OK);
    bad.address = rota_str("!~");
    assert_int_equal(set(claims, bad), ROTA_OK);
    bad.address = rota_str("\x7f");
    assert_int_equal(set(claims, bad), ROTA_ERR_INVALID);
    rota_claims_free(claims);
    rota_claims_free(NULL);
}

static void all_are_listed_and_they_are_bounded(void **state)
{
    struct rota_claims *claims = open_claims();
    struct rota_claim claim;
    char name[16];
    size_t place = 0, n = 0;
    uint64_t sum = 0;
    (void)state;
    for (uint64_t i = 0; i < ROTA_CLAIMS_MAX; i++) {
        snprintf(name, sizeof name, "%d", (int)i);
        assert_int_equal(set(claims, claim_of(name, 1, i, true)), ROTA_OK);
    }
    assert_int_equal(set(claims, claim_of("one more", 1, 1, true)), ROTA_ERR_LIMIT);
    assert_int_equal(set(claims, claim_of("7", 1, 8, true)), ROTA_OK); /* known: no more */
    for (; rota_claims_next(claims, &place, &claim); n++)
        sum += claim.epoch;
    assert_int_equal(n, ROTA_CLAIMS_MAX);
    assert_true(sum == (uint64_t)ROTA_CLAIMS_MAX * (ROTA_CLAIMS_MAX - 1) / 2 + 1);
    rota_claims_free(claims);
}

static void limit_of_a_space_ends_all_its_claims(void **state)
{
    struct rota_claims *claims = open_claims();
    struct rota_claim one = claim_of("1", 1, 5, true), other = claim_of("2", 1, 5, true), seen;
    (void)state;
    other.until = 100;
    assert_int_equal(set(claims, one), ROTA_OK);
    assert_int_equal(set(claims, other), ROTA_OK);
    assert_int_equal(rota_claims_limit(claims, one.space, 200, NULL), ROTA_OK);
    assert_int_equal(rota_claims_check(claims, 199, one.space, one.shard, 5), ROTA_CLAIMS_HELD);
    assert_int_equal(rota_claims_check(claims, 200, one.space, one.shard, 5), ROTA_CLAIMS_NOT_HELD);
    assert_int_equal(rota_claims_check(claims, 199, one.space, other.shard, 5),
                     ROTA_CLAIMS_NOT_HELD); /* its own end comes first */
    assert_int_equal(rota_claims_limit(claims, one.space, 300, NULL), ROTA_OK);
    assert_int_equal(rota_claims_check(claims, 299, one.space, one.shard, 5), ROTA_CLAIMS_HELD);
    assert_true(rota_claims_find(claims, one.space, one.shard, &seen));
    assert_int_equal(seen.until, 300);
    assert_int_equal(rota_claims_limit(claims, one.space, 0, NULL), ROTA_OK);
    assert_int_equal(rota_claims_check(claims, 1000, one.space, one.shard, 5), ROTA_CLAIMS_HELD);
    assert_int_equal(rota_claims_limit(claims, rota_str("elsewhere"), 7, NULL), ROTA_OK);
    assert_int_equal(rota_claims_check(claims, 1000, one.space, one.shard, 5), ROTA_CLAIMS_HELD);
    assert_int_equal(rota_claims_limit(claims, rota_str(""), 7, NULL), ROTA_ERR_INVALID);
    rota_claims_free(claims);
}

static void limits_are_bounded(void **state)
{
    struct rota_claims *claims = open_claims();
    char name[16];
    (void)state;
    for (int i = 0; i < ROTA_CLAIMS_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(rota_claims_limit(claims, rota_str(name), 1, NULL), ROTA_OK);
    }
    assert_int_equal(rota_claims_limit(claims, rota_str("new"), 1, NULL), ROTA_ERR_LIMIT);
    assert_int_equal(rota_claims_limit(claims, rota_str("new"), 0, NULL), ROTA_OK);
    assert_int_equal(rota_claims_limit(claims, rota_str("7"), 0, NULL), ROTA_OK);
    assert_int_equal(rota_claims_limit(claims, rota_str("new"), 1, NULL), ROTA_OK);
    rota_claims_free(claims);
}

static void answers_have_names(void **state)
{
    const char *const names[] = {"held", "stale", "not_held", "ahead", "unknown"};
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_string_equal(rota_claims_answer_name((enum rota_claims_answer)i), names[i]);
}

/* What the claims have to say, by the words of their header. */
struct model {
    bool is_known[9];
    struct rota_claim claims[9];
    rota_time limits[3];
};

static rota_time model_until(const struct model *model, size_t at)
{
    rota_time own = model->claims[at].until, limit = model->limits[at / 3];
    return own == 0 ? limit : limit == 0 ? own : rota_time_min(own, limit);
}

static enum rota_claims_answer model_check(const struct model *model, size_t at, rota_time now,
                                           uint64_t epoch)
{
    const struct rota_claim *claim = &model->claims[at];
    rota_time until = model_until(model, at);
    if (!model->is_known[at])
        return ROTA_CLAIMS_NOT_HELD;
    if (epoch < claim->epoch)
        return ROTA_CLAIMS_STALE;
    if (epoch > claim->epoch)
        return ROTA_CLAIMS_AHEAD;
    return claim->is_held && (until == 0 || now < until) ? ROTA_CLAIMS_HELD : ROTA_CLAIMS_NOT_HELD;
}

static void assert_as_modelled(const struct rota_claims *claims, const struct model *model,
                               size_t at, rota_time now)
{
    const struct rota_claim *wanted = &model->claims[at];
    struct rota_claim found;
    for (uint64_t epoch = 0; epoch < 8; epoch++)
        assert_int_equal(rota_claims_check(claims, now, wanted->space, wanted->shard, epoch),
                         model_check(model, at, now, epoch));
    bool is_found = rota_claims_find(claims, wanted->space, wanted->shard, &found);
    assert_int_equal(is_found, model->is_known[at]);
    if (!is_found)
        return;
    assert_int_equal(found.until, wanted->is_held ? model_until(model, at) : wanted->until);
    assert_int_equal(found.node, wanted->node);
    assert_int_equal(found.epoch, wanted->epoch);
    assert_int_equal(found.is_held, wanted->is_held);
    assert_true(rota_str_is_equal(found.address, wanted->address));
    assert_true(rota_str_is_equal(found.space, wanted->space));
    assert_true(rota_str_is_equal(found.shard, wanted->shard));
}

static void model_set(struct rota_claims *claims, struct model *model, size_t at,
                      struct rota_random *random)
{
    static const char *const addresses[] = {"", "a:1", "b:22"};
    struct rota_claim claim = model->claims[at];
    claim.node = (int64_t)rota_random_below(random, 3);
    claim.epoch = rota_random_below(random, 8);
    claim.is_held = rota_random_below(random, 2);
    claim.until = (rota_time)rota_random_below(random, 5) * 10;
    claim.address = rota_str(addresses[rota_random_below(random, 3)]);
    const struct rota_claim *known = model->is_known[at] ? &model->claims[at] : NULL;
    bool is_refused = known && (claim.epoch < known->epoch ||
                                (claim.epoch == known->epoch && claim.node != known->node));
    assert_int_equal(set(claims, claim), is_refused ? ROTA_ERR_INVALID : ROTA_OK);
    if (is_refused)
        return;
    model->claims[at] = claim;
    model->is_known[at] = true;
}

static void claims_do_what_their_header_says(void **state)
{
    static const char *const names[] = {"a", "bb", "a\x01"};
    struct rota_claims *claims = open_claims();
    struct rota_random random;
    struct model model = {0};
    (void)state;
    rota_random_init(&random, 5);
    for (size_t at = 0; at < 9; at++) {
        model.claims[at].space = rota_str(names[at / 3]);
        model.claims[at].shard = rota_str(names[at % 3]);
    }
    for (int i = 0; i < 20000; i++) {
        size_t at = rota_random_below(&random, 9), n = 0;
        rota_time until = (rota_time)rota_random_below(&random, 5) * 10;
        uint64_t epoch = rota_random_below(&random, 8);
        switch (rota_random_below(&random, 4)) {
        case 0:
            assert_int_equal(rota_claims_limit(claims, model.claims[at].space, until, NULL),
                             ROTA_OK);
            model.limits[at / 3] = until;
            break;
        case 1:
            assert_int_equal(
                rota_claims_drop(claims, model.claims[at].space, model.claims[at].shard, epoch),
                model.is_known[at] && model.claims[at].epoch <= epoch);
            if (model.claims[at].epoch <= epoch)
                model.is_known[at] = false;
            break;
        default:
            model_set(claims, &model, at, &random);
            break;
        }
        for (size_t k = 0; k < 9; k++)
            n += model.is_known[k];
        assert_int_equal(rota_claims_size(claims), n);
        assert_as_modelled(claims, &model, at, (rota_time)rota_random_below(&random, 42));
    }
    rota_claims_free(claims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_epoch_that_is_held_here_is_served),
        cmocka_unit_test(a_claim_of_another_node_is_not_served),
        cmocka_unit_test(older_epoch_never_overwrites_a_newer_one),
        cmocka_unit_test(epoch_has_one_owner),
        cmocka_unit_test(late_drop_leaves_the_next_claim_alone),
        cmocka_unit_test(claim_expires_and_renewing_prolongs_it),
        cmocka_unit_test(similar_names_are_distinguished),
        cmocka_unit_test(note_of_a_shard_finds_its_claim),
        cmocka_unit_test(malformed_claim_is_refused),
        cmocka_unit_test(all_are_listed_and_they_are_bounded),
        cmocka_unit_test(limit_of_a_space_ends_all_its_claims),
        cmocka_unit_test(limits_are_bounded),
        cmocka_unit_test(answers_have_names),
        cmocka_unit_test(claims_do_what_their_header_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
