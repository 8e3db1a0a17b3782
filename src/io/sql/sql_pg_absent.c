/* In place of sql_pg.c where libpq is not installed. */
#include "io/sql/sql_inside.h"

static enum rota_code absent_open(const struct rota_sql_url *url,
                                  const struct rota_sql_options *options, void **self,
                                  struct rota_error *error)
{
    (void)url, (void)options, (void)self;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "this Rota was built without libpq, so it cannot use PostgreSQL");
}

const struct rota_sql_driver rota_sql_pg = {.open = absent_open};
