/* dry_run: what a command that changes something would do, without doing it.
 *
 * The command reads and changes nothing, and prints sentences, one on each line: what is
 * there now and what would become of it. As JSON it is what commands that carry out a plan answer:
 * {"plan": [sentence...], "is_done": false}. What the change itself would refuse is refused, as
 * far as looking tells. */
#pragma once

#include "base/buffer.h"
#include "base/json.h"
#include "base/option.h"

/* `field` is a bool. */
#define ROTA_DRY_RUN_OPTION(result, field)                                                         \
    {                                                                                              \
        .name = "dry-run", ROTA_OPTION_INTO(FLAG, result, field),                                  \
        .help = "print what would happen and change nothing"                                       \
    }

/* For the description of a command that prints nothing else of the kind. */
#define ROTA_DRY_RUN_JSON "With --dry-run and --json: {\"plan\": [sentence...], \"is_done\"}."

struct rota_dry_run {
    struct rota_json json; /* into the buffer of the answer, which is kept */
    bool is_json;
};

void rota_dry_run_begin(struct rota_dry_run *dry_run, bool is_json, struct rota_buffer *buffer);
void rota_dry_run_say(struct rota_dry_run *dry_run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rota_dry_run_end(struct rota_dry_run *dry_run);
