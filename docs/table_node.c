/* Writes the generated part of docs/node.md: the settings of a node. */
#include "base/buffer.h"
#include "node/node_settings.h"

#include <stdio.h>

int main(void)
{
    struct rota_buffer text = {0};
    rota_buffer_append_text(&text, "| setting | default | SIGHUP | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < rota_node_n_options; i++) {
        const struct rota_option *option = &rota_node_options[i];
        char limits[ROTA_OPTION_LIMITS_MAX];
        rota_option_format_limits(option, limits);
        rota_buffer_print(&text, "| `%s`%s%s | ", option->name, option->value_name ? " " : "",
                          option->value_name ? option->value_name : "");
        if (option->default_text && *option->default_text)
            rota_buffer_print(&text, "`%s`", option->default_text);
        rota_buffer_print(&text, " | %s | %s%s%s%s |\n", rota_node_settings_is_live(i) ? "yes" : "",
                          option->help, *limits ? " (" : "", limits, *limits ? ")" : "");
    }
    if (text.failed)
        return 1;
    fputs(text.data, stdout);
    rota_buffer_deinit(&text);
    return 0;
}
