/* Ground truth for tests: a JSON file of test/data, and short ways to read it. */
#pragma once

#include <jansson.h>
#include <rota/str.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Read test/data/NAME; fails the test when it can't be read. Free with
 * json_decref(). */
json_t *vectors_load(const char *name);

struct rota_str vectors_str(const json_t *object, const char *key);
int64_t vectors_int(const json_t *object, const char *key);

/* The entry of the array under "rings" that has this id. */
const json_t *vectors_ring(const json_t *root, struct rota_str id);
