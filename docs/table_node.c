/* Writes the generated part of docs/configuration.md: the settings of a node. */
#include "base/buffer.h"
#include "node/node_settings.h"

#include <stdio.h>

static void append_meaning(const struct rota_option *option, struct rota_buffer *text)
{
    char limits[ROTA_OPTION_LIMITS_MAX];
    rota_option_format_limits(option, limits);
    rota_buffer_print(text, " | %s%s%s%s |\n", option->help, *limits ? " (" : "", limits,
                      *limits ? ")" : "");
}

static void append_name(const struct rota_option *option, struct rota_buffer *text)
{
    rota_buffer_print(text, "| `%s`%s%s | ", option->name, option->value_name ? " " : "",
                      option->value_name ? option->value_name : "");
    if (option->default_text && *option->default_text)
        rota_buffer_print(text, "`%s`", option->default_text);
}

static void append_kind(const struct rota_settings_kind *kind, struct rota_buffer *text)
{
    rota_buffer_print(text, "\n| in `[[%s]]` | default | meaning |\n|---|---|---|\n", kind->name);
    for (size_t i = 0; i < kind->n_options; i++) {
        append_name(&kind->options[i], text);
        if (kind->options[i].is_required)
            rota_buffer_append_text(text, "has to be given");
        append_meaning(&kind->options[i], text);
    }
}

int main(void)
{
    struct rota_buffer text = {0};
    rota_buffer_append_text(&text, "| setting | default | SIGHUP | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < rota_node_n_options; i++) {
        append_name(&rota_node_options[i], &text);
        rota_buffer_print(&text, " | %s", rota_node_settings_is_live(i) ? "yes" : "");
        append_meaning(&rota_node_options[i], &text);
    }
    for (size_t i = 0; i < rota_node_n_kinds; i++)
        if (!rota_node_kinds[i].gone)
            append_kind(&rota_node_kinds[i], &text);
    if (text.failed)
        return 1;
    fputs(text.data, stdout);
    rota_buffer_deinit(&text);
    return 0;
}
