/* config_scan: keys and single values of a configuration text.
 *
 * The lower half of config_text: a cursor over the document's own copy of the text. Keys lose
 * the spaces around their dots and strings their escapes in place, always before the cursor, so
 * that no other memory is needed. */
#pragma once

#include "base/error_at.h"
#include "wire/text/config_text.h"

struct rota_config_scan {
    char *at;   /* the next byte; the copy ends with a NUL and has no other */
    char *line; /* where the line begins */
    uint32_t n_lines;
    const char *file;
    struct rota_error *error;
};

/* Begin at the start of `text`, which ends with a NUL. Rejects bytes that may not appear
 * anywhere in a text: NUL, invalid UTF-8, a byte order mark, control characters. */
enum rota_code rota_config_scan_init(struct rota_config_scan *scan, char *text, size_t size,
                                     const char *file, struct rota_error *error);

/* Say "FILE:LINE: ..." about the current line; returns `code`. */
#define rota_config_scan_fail(scan, code, ...)                                                     \
    rota_error_set_at((scan)->error, (code), (scan)->file, (scan)->n_lines, __VA_ARGS__)

/* Report that `wanted` was expected at the cursor. */
enum rota_code rota_config_scan_expected(struct rota_config_scan *scan, const char *wanted);

/* Step over spaces and tabs. */
void rota_config_scan_spaces(struct rota_config_scan *scan);

/* Skip what may be at the end of a line, and the line's end. */
enum rota_code rota_config_scan_line_end(struct rota_config_scan *scan);

/* A bare key, with dots perhaps. */
enum rota_code rota_config_scan_key(struct rota_config_scan *scan, struct rota_str *key);

/* A value that is not an inline table: sets the entry's type and value. */
enum rota_code rota_config_scan_value(struct rota_config_scan *scan,
                                      struct rota_config_text_entry *entry);
