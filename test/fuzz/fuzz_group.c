/* Records of a group's log: what is read keeps its bounds, reads the same again when
 * it is written, and a fold takes it in without breaking its invariants. */
#include "wire/record/group_record.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(struct rota_group_record *record)
{
    struct rota_buffer once = {0}, twice = {0};
    struct rota_group_record *again = NULL;
    enum rota_group_verdict verdict;
    enum rota_code code = rota_group_record_format(record, &once, NULL);
    assert(code == ROTA_OK || code == ROTA_ERR_LIMIT);
    if (code == ROTA_OK) {
        assert(!rota_group_record_parse(rota_buffer_str(&once), &again, &verdict, NULL));
        assert(verdict == ROTA_GROUP_ACCEPTED);
        assert(!rota_group_record_format(again, &twice, NULL));
        assert(rota_str_is_equal(rota_buffer_str(&once), rota_buffer_str(&twice)));
        rota_group_record_unref(again);
    }
    rota_buffer_deinit(&once);
    rota_buffer_deinit(&twice);
}

/* Whatever it says, said by a member in its epoch. */
static void fold(struct rota_group_record *record)
{
    struct rota_group_fold fold, loaded;
    struct rota_group_task_state member = {.member = record->author};
    struct rota_group_record *epoch = rota_group_record_new(ROTA_GROUP_EPOCH);
    enum rota_group_verdict verdict;
    assert(epoch);
    epoch->author = record->author;
    epoch->epoch = 1;
    epoch->sequence = 1;
    epoch->tasks = &member;
    epoch->n_tasks = 1;
    rota_group_fold_init(&fold);
    assert(!rota_group_fold_apply(&fold, 5, epoch, &verdict) && verdict == ROTA_GROUP_ACCEPTED);
    if (record->kind != ROTA_GROUP_EPOCH)
        record->epoch = 1;
    record->sequence = 2;
    assert(!rota_group_fold_apply(&fold, 6, record, &verdict));
    assert(rota_group_fold_is_sound(&fold));
    rota_group_fold_deinit(&fold);
    epoch->tasks = NULL;
    rota_group_record_unref(epoch);

    rota_group_fold_init(&loaded);
    if (record->kind == ROTA_GROUP_SNAPSHOT && !rota_group_fold_load(&loaded, &record, 1, NULL))
        assert(rota_group_fold_is_sound(&loaded));
    rota_group_fold_deinit(&loaded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_group_record *record = NULL;
    enum rota_group_verdict verdict;
    struct rota_group_member member;
    struct rota_error error;
    struct rota_str text = rota_str_of(data, size);
    (void)rota_group_record_metadata_parse(text, &member);
    assert(!rota_group_record_parse(text, &record, &verdict, &error));
    if (verdict != ROTA_GROUP_ACCEPTED) {
        assert(verdict <= ROTA_GROUP_OVERSIZED && error.text[0]);
        return 0;
    }
    check_again(record);
    fold(record);
    rota_group_record_unref(record);
    return 0;
}
