/* json_scan: a JSON parser that builds nothing.
 *
 * The caller asks for what it expects: the next key of an object, the next item of an array, a
 * string, a whole number; or skips a value and gets its text. After the first thing that is not as
 * expected, or not JSON, the scan has `failed` and returns nothing from then on, so that the caller
 * checks it once, at the end.
 *
 * It is strict (RFC 8259: no comments, no trailing commas, UTF-8 only, no control characters in
 * strings, no lone surrogates) and never recurses: a value may be nested ROTA_SCAN_DEPTH_MAX
 * deep. */
#pragma once

#include <rota/str.h>
#include <stdint.h>

enum { ROTA_SCAN_DEPTH_MAX = 32 };

struct rota_scan {
    const char *at, *end;
    char *room; /* where decoded strings go: as many bytes as the text has; NULL: skip only */
    bool failed;
    bool is_first; /* nothing of the object or array that was begun last was read yet */
};

void rota_json_scan_init(struct rota_scan *scan, struct rota_str text, char *room);

/* Begin with an object or an array. */
void rota_json_scan_object(struct rota_scan *scan);
void rota_json_scan_array(struct rota_scan *scan);

/* The next key, decoded; its value comes next. False at the end of the object. */
bool rota_json_scan_key(struct rota_scan *scan, struct rota_str *key);

/* Whether there is one more item; false at the end of the array. */
bool rota_json_scan_item(struct rota_scan *scan);

struct rota_str rota_json_scan_string(struct rota_scan *scan);
bool rota_json_scan_bool(struct rota_scan *scan);

/* Whole numbers without fraction and exponent, in these bounds. */
uint64_t rota_json_scan_uint(struct rota_scan *scan, uint64_t max);
int64_t rota_json_scan_int(struct rota_scan *scan);

/* The text of a value of any kind, checked. */
struct rota_str rota_json_scan_skip(struct rota_scan *scan);

/* Nothing but blanks may follow. */
void rota_json_scan_end(struct rota_scan *scan);
