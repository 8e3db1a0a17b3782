/* sql_url: where a database is, as one line of text.
 *
 *     sqlite:PATH
 *     mysql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?NAME=VALUE[&NAME=VALUE...]]
 *     postgres://... (or postgresql://...) in the same way
 *
 * After the '?': socket=PATH (of MariaDB the file, of PostgreSQL its directory; the host may be
 * left out then), tls=off|on|verify (default off), ca=FILE (which tls=verify needs). USER,
 * PASSWORD, DATABASE and VALUE may hold any character but NUL as %XX; an IPv6 address is in
 * brackets; the PATH of SQLite is not decoded.
 *
 * Invariant: neither a formatted URL nor an error contains the password. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <stdint.h>

enum {
    ROTA_SQL_URL_TEXT_MAX = 16384, /* room for a URL, with its NUL */
    ROTA_SQL_URL_NAME_MAX = 256,   /* room for a part, with its NUL */
    ROTA_SQL_URL_PATH_MAX = 1024,  /* room for a path, with its NUL */
};

enum rota_sql_kind {
    ROTA_SQL_SQLITE,
    ROTA_SQL_MYSQL,
    ROTA_SQL_POSTGRES,
};

enum rota_sql_tls {
    ROTA_SQL_TLS_OFF,
    ROTA_SQL_TLS_ON,     /* encrypted, without verifying the peer */
    ROTA_SQL_TLS_VERIFY, /* and the certificate is that of the host */
};

struct rota_sql_url {
    enum rota_sql_kind kind;
    enum rota_sql_tls tls;
    uint16_t port; /* 0: the usual one */
    char user[ROTA_SQL_URL_NAME_MAX], password[ROTA_SQL_URL_NAME_MAX];
    char host[ROTA_SQL_URL_NAME_MAX], database[ROTA_SQL_URL_NAME_MAX];
    char path[ROTA_SQL_URL_PATH_MAX]; /* of SQLite's file, or of the socket; "": none */
    char ca[ROTA_SQL_URL_PATH_MAX];   /* file of certificates; "": the system's */
};

/* Read a URL. */
enum rota_code rota_sql_url_parse(struct rota_str text, struct rota_sql_url *url,
                                  struct rota_error *error);

/* Write it without the password, the way rota_sql_url_parse() reads it. Returns
 * `text`. */
char *rota_sql_url_format(const struct rota_sql_url *url, char text[ROTA_SQL_URL_TEXT_MAX]);
