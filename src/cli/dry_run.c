#include "cli/dry_run.h"

#include "cli/terminal.h"

#include <stdio.h>

void rota_dry_run_begin(struct rota_dry_run *dry_run, bool is_json, struct rota_buffer *buffer)
{
    *dry_run = (struct rota_dry_run){.json = {.buffer = buffer}, .is_json = is_json};
    if (!is_json)
        return;
    rota_json_begin_object(&dry_run->json);
    rota_json_add_array(&dry_run->json, "plan");
}

void rota_dry_run_say(struct rota_dry_run *dry_run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    rota_dry_run_say_list(dry_run, format, arguments);
    va_end(arguments);
}

void rota_dry_run_say_list(struct rota_dry_run *dry_run, const char *format, va_list arguments)
{
    char text[2048];
    vsnprintf(text, sizeof text, format, arguments);
    if (dry_run->is_json) {
        rota_json_text(&dry_run->json, text);
        return;
    }
    rota_terminal_append(dry_run->json.buffer, rota_str(text));
    rota_buffer_append_char(dry_run->json.buffer, '\n');
}

void rota_dry_run_end(struct rota_dry_run *dry_run)
{
    if (!dry_run->is_json)
        return;
    rota_json_end_array(&dry_run->json);
    rota_json_add_bool(&dry_run->json, "is_done", false);
    rota_json_end_object(&dry_run->json);
    rota_buffer_append_char(dry_run->json.buffer, '\n');
}
