/* dry_run: what a command would change, without changing it.
 *
 * The command only reads, and prints one sentence per line: what exists now and what would happen
 * to it. As JSON it is the answer of commands that carry out a plan: {"plan": [sentence...],
 * "is_done": false}. It rejects what the change itself would reject, as far as reading can show. */
#pragma once

#include "base/buffer.h"
#include "base/json.h"
#include "base/option.h"

#include <stdarg.h>

/* `field` is a bool. */
#define ROTA_DRY_RUN_OPTION(result, field)                                                         \
    {                                                                                              \
        .name = "dry-run", ROTA_OPTION_INTO(FLAG, result, field),                                  \
        .help = "print what would happen and change nothing"                                       \
    }

/* For the description of a command that has no other plan. */
#define ROTA_DRY_RUN_JSON "With --dry-run and --json: {\"plan\": [sentence...], \"is_done\"}."

struct rota_dry_run {
    struct rota_json json; /* into the buffer of the answer, which is kept */
    bool is_json;
};

void rota_dry_run_begin(struct rota_dry_run *dry_run, bool is_json, struct rota_buffer *buffer);
void rota_dry_run_say(struct rota_dry_run *dry_run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rota_dry_run_say_list(struct rota_dry_run *dry_run, const char *format, va_list arguments);
void rota_dry_run_end(struct rota_dry_run *dry_run);
