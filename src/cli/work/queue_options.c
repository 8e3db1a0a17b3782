#include "cli/work/queue_options.h"

#include "base/quote.h"

#include <rota/experimental/partition.h>

enum rota_task_type rota_queue_options_type(const struct rota_queue_options *options)
{
    return (enum rota_task_type)(options->type + 1);
}

struct rota_spread rota_queue_options_spread(const struct rota_queue_options *options)
{
    return (struct rota_spread){.mode = (enum rota_spread_mode)options->mode,
                                .batch = (uint32_t)options->batch};
}

/* Whether it can be shown unchanged: UTF-8 that needs no escapes. */
static bool is_showable(struct rota_str text)
{
    char piece[ROTA_QUOTE_PIECE_MAX];
    while (text.size > 0) {
        char first = *text.data;
        rota_quote_next(&text, piece);
        if (piece[0] == '\\' && first != '\\' && first != '"')
            return false;
    }
    return true;
}

static enum rota_code check_name(const char *command, const char *option, const char *name,
                                 struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (is_showable(rota_str(name)))
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s: --%s: %s has control characters or is not UTF-8", command, option,
                          rota_quote(rota_str(name), quoted));
}

enum rota_code rota_queue_options_check(const char *command, const char *namespace_id,
                                        const char *queue, struct rota_error *error)
{
    struct rota_partition partition = {.namespace_id = rota_str(namespace_id),
                                       .queue = rota_str(queue),
                                       .type = ROTA_TASK_WORKFLOW};
    struct rota_error inner;
    enum rota_code code;
    if (!queue[0])
        return rota_error_set(error, ROTA_ERR_INVALID, "%s: --queue: the name is empty", command);
    if ((code = check_name(command, "namespace", namespace_id, error)) ||
        (code = check_name(command, "queue", queue, error)))
        return code;
    if ((code = rota_partition_check(&partition, &inner)))
        rota_error_set(error, code, "%s: %s", command, inner.text);
    return code;
}
