#include "cli/own/space_client.h"

#include "base/quote.h"
#include "cli/terminal.h"
#include "wire/message/message_json.h"

/* --- words --- */

/* A shard is a number; the node checks whether the space has it. */
static bool read_shard(const char *text, uint32_t *shard)
{
    uint64_t number = 0;
    size_t i = 0;
    for (; text[i] >= '0' && text[i] <= '9' && number <= ROTA_SPACE_SHARDS_MAX; i++)
        number = 10 * number + (uint64_t)(text[i] - '0');
    *shard = (uint32_t)number;
    return i > 0 && text[i] == '\0' && number < ROTA_SPACE_SHARDS_MAX;
}

static enum rota_code take_arguments(const struct rota_option_list *arguments, bool has_shard,
                                     struct rota_space_words *words, struct rota_error *error)
{
    size_t at = 0;
    char quoted[ROTA_QUOTE_MAX];
    if (arguments->size > at)
        words->space = rota_str(arguments->items[at++]);
    if (arguments->size > 0 && words->space.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the space is empty");
    if (has_shard && arguments->size > at) {
        const char *text = arguments->items[at++];
        if (!read_shard(text, &words->shard))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "%s is not a shard: shards are numbers from 0 to %d",
                                  rota_quote(rota_str(text), quoted), ROTA_SPACE_SHARDS_MAX - 1);
    }
    if (arguments->size > at)
        words->node = words->engine = arguments->items[at];
    return ROTA_OK;
}

int rota_space_client_run(const struct rota_cli_command *command, int argc, char *const *argv,
                          bool has_shard, rota_space_act *act)
{
    struct rota_space_words words = {0};
    static struct rota_option_list arguments;
    struct rota_client client;
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(command, argc, argv, &words, &arguments, &exit_code))
        return exit_code;
    if (take_arguments(&arguments, has_shard, &words, &error) ||
        rota_client_open(&words.of, &client, &error))
        return rota_cli_fail_error(&error);
    enum rota_code code = act(&client, &words, &buffer, &error);
    rota_client_close(&client);
    if (!code)
        return rota_client_answer(command, &words.of, &buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail_error(&error);
}

/* --- answers --- */

enum rota_code rota_space_client_show(struct rota_client *client,
                                      const struct rota_space_words *words,
                                      struct rota_space_show *show, struct rota_error *error)
{
    struct rota_space_request request = {.space = words->space};
    enum rota_code code = rota_client_insist(client, "/rota.v1.Space/Show", &ROTA_SPACE_SHOW,
                                             &request, &ROTA_SPACE_SHOW_REPLY, show, error);
    const struct rota_space_claim_info *shards = code ? NULL : show->shards.items;
    if (!code && !show->space)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "malformed reply: expected a space");
    for (size_t i = 0; !code && i < show->shards.n; i++)
        if (shards[i].owner > show->nodes.n)
            return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                                  "malformed reply: an owner is not in the list of nodes");
    return code;
}

enum rota_code rota_space_client_change(struct rota_client *client, const char *method,
                                        const struct rota_message_type *type,
                                        const struct rota_space_request *request, bool *is_done,
                                        struct rota_buffer *buffer, struct rota_error *error)
{
    struct rota_space_plan plan;
    enum rota_code code =
        rota_client_ask(client, method, type, request, &ROTA_SPACE_PLAN_REPLY, &plan, error);
    if (code)
        return code;
    if (client->options->json) {
        struct rota_json json = {.buffer = buffer};
        rota_message_json_write(&ROTA_SPACE_PLAN_REPLY, &plan, &json);
        rota_buffer_append_char(buffer, '\n');
    }
    for (size_t i = 0; !client->options->json && i < plan.plan.n; i++) {
        rota_terminal_append(buffer, plan.plan.items[i]);
        rota_buffer_append_char(buffer, '\n');
    }
    if (is_done)
        *is_done = plan.is_done;
    return ROTA_OK;
}
