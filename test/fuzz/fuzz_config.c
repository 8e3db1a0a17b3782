/* Configurations: a text is refused with its file, or read into one in which
 * every queue has at least as many read as write partitions. */
#include <rota/experimental/config.h>

#include "wire/text/config_text.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(const struct rota_config_text *document, size_t size, struct rota_str str)
{
    return str.size == 0 ||
           (str.data >= document->text && str.data + str.size <= document->text + size);
}

/* Everything that was read lies in the document, and in its table. */
static void check_document(const struct rota_config_text *document, size_t size)
{
    for (size_t i = 0; i < document->n_entries; i++) {
        const struct rota_config_text_entry *entry = &document->entries[i];
        assert(entry->table < document->n_tables && entry->key.size > 0);
        const struct rota_config_text_table *table = &document->tables[entry->table];
        assert(i >= table->first_entry && i < table->first_entry + table->n_entries);
        assert(is_inside(document, size, entry->key) && is_inside(document, size, table->name));
        if (entry->type == ROTA_CONFIG_TEXT_STRING)
            assert(is_inside(document, size, entry->string) &&
                   !memchr(entry->string.data, '\0', entry->string.size));
        if (entry->type == ROTA_CONFIG_TEXT_TABLE)
            assert(i + entry->n_fields < table->first_entry + table->n_entries);
    }
}

static void check_queue(const struct rota_config *config, const char *space, const char *name)
{
    for (int type = ROTA_TASK_UNSPECIFIED; type <= ROTA_TASK_NEXUS; type++) {
        struct rota_config_origin origins[ROTA_SETTINGS];
        char text[ROTA_SETTING_TEXT_MAX];
        struct rota_queue_config queue =
            rota_config_queue(config, rota_str(space), rota_str(name), (enum rota_task_type)type);
        assert(queue.write >= 1 && queue.write <= queue.read && queue.read <= ROTA_PARTITIONS_MAX);
        struct rota_spread spread =
            rota_queue_config_spread(&queue, rota_str(name), 1767250000 * ROTA_SEC);
        assert(spread.batch <= ROTA_BATCH_MAX && (unsigned)spread.mode <= ROTA_SPREAD_SLOTS);

        rota_config_explain(config, rota_str(space), rota_str(name), (enum rota_task_type)type,
                            origins);
        assert(origins[ROTA_SETTING_READ_PARTITIONS].value.new_value == queue.read);
        for (int i = 0; i < ROTA_SETTINGS; i++)
            assert(rota_setting_format((enum rota_setting)i, &origins[i].value, text)[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str text = rota_str_of(data, size);
    struct rota_config_text document;
    struct rota_config *config;
    struct rota_error error = {0};
    bool is_text = rota_config_text_parse(text, "f", &document, NULL) == ROTA_OK;

    if (is_text) {
        check_document(&document, size);
        rota_config_text_deinit(&document);
    }
    if (rota_config_parse(text, "f", &config, &error)) {
        assert(error.code != ROTA_OK && rota_str_has_prefix(rota_str(error.text), rota_str("f:")));
        return 0;
    }
    assert(is_text);
    check_queue(config, "orders", "email");
    check_queue(config, "orders", "q");
    check_queue(config, "", "q");
    check_queue(config, "other", "other");
    rota_config_unref(config);
    return 0;
}
