/* host_options: the options that say where the hosts of a ring come from: a file, or the members of
 * a store. */
#pragma once

#include "base/option.h"
#include "cli/store_options.h"
#include "wire/text/hosts_file.h"
#include "wire/text/sql_url.h"

struct rota_host_options {
    const char *file;  /* NULL: the store's members */
    const char *store; /* NULL: ROTA_STORE */
    const char *role;  /* of the members; NULL: all */
    bool is_argument;  /* the file is an argument of the command, not an option */
};

/* The three are those of a struct rota_host_options in `result`. */
#define ROTA_HOST_OPTIONS(result, file_field, store_field, role_field)                             \
    {.name = "hosts",                                                                              \
     ROTA_OPTION_INTO(TEXT, result, file_field),                                                   \
     .value_name = "FILE",                                                                         \
     .help = "file with the hosts on the ring, one per line"},                                     \
        ROTA_MEMBER_OPTIONS(result, store_field, role_field)

/* The same for a command whose file is not an option. */
#define ROTA_MEMBER_OPTIONS(result, store_field, role_field)                                       \
    {.name = "store",                                                                              \
     ROTA_OPTION_INTO(TEXT, result, store_field),                                                  \
     .value_name = "URL",                                                                          \
     .help = "use the members in this store as hosts instead [env ROTA_STORE]"},                   \
    {                                                                                              \
        .name = "role", ROTA_OPTION_INTO(TEXT, result, role_field), .value_name = "ROLE",          \
        .min = 1, .max = ROTA_STORE_NAME_MAX, .help = "with --store: only members with this role"  \
    }

/* Reject two sources or none. Without any, `store` is set from ROTA_STORE. */
enum rota_code rota_host_options_check(struct rota_host_options *options, struct rota_error *error);

/* The file, or the store without its password, for messages. */
const char *rota_host_options_name(const struct rota_host_options *options,
                                   char name[ROTA_SQL_URL_TEXT_MAX]);

/* Read the hosts. From a store these are the live members that are not evicted. Fills `*hosts`;
 * rota_hosts_file_deinit() frees it. */
enum rota_code rota_host_options_read(const struct rota_host_options *options,
                                      struct rota_hosts *hosts, struct rota_error *error);
