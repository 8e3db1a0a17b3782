/* config: layers of settings, and which of them a queue sees.
 *
 * A layer is what one part of a file sets: the first is the file's top, the
 * others are overrides with a scope. The reader of files makes layers and
 * leaves all judgement to rota_config_new(). */
#pragma once

#include "base/buffer.h"

#include <rota/experimental/config.h>

struct rota_config_value {
    bool is_set;
    uint32_t line;
    struct rota_gradual value;
};

struct rota_config_layer {
    struct rota_config_scope scope;
    uint32_t line;
    struct rota_config_value values[ROTA_SETTINGS];
};

/* Check and index `layers`, of which there is at least one; `file` is for
 * messages. Copies all it needs. Gives `*config`. */
enum rota_code rota_config_new(const struct rota_config_layer *layers, size_t n_layers,
                               const char *file, struct rota_config **config,
                               struct rota_error *error);

/* Whether a value lies within the bounds of its setting. */
enum rota_code rota_setting_check(enum rota_setting setting, const struct rota_gradual *value,
                                  struct rota_error *error);

/* What values a setting takes, for people: "an integer from 1 to 1024". */
void rota_setting_print_allowed(enum rota_setting setting, struct rota_buffer *buffer);

/* The table of all settings in Markdown, as docs/dynamic-settings.md has it. */
void rota_setting_print_table(struct rota_buffer *buffer);
