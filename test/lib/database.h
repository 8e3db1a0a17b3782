/* For tests on a real database: what test/lib/databases.py says of the one that it has
 * started. */
#pragma once

#include "wire/text/sql_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

const char *database_text(const char *name);

/* The database; as somebody who may do everything when `is_admin`. */
struct rota_sql_url database_url(bool is_admin);

/* Have the server do something: "restart", "stop", "start", "pause", "resume". Returns
 * when it is done. */
void database_do(const char *word);
