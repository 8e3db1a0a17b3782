/* sql_url: where a database is, as one line of text.
 *
 *     sqlite:PATH
 *     mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?socket=PATH][&tls=MODE][&ca=PATH]
 *     postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?socket=...]   (or postgresql:)
 *
 * USER, PASSWORD, DATABASE and what stands behind a '=' may hold any character but
 * NUL as %XX; a PATH behind "sqlite:" is taken as it is. An IPv6 address stands in
 * brackets. With a socket the host may be left out. MODE is off, on (the default
 * when a host is not this machine is off: say what you want) or verify.
 *
 * Invariant: what is formatted never has the password in it, nor does an error. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <stdint.h>

enum {
    ROTA_SQL_URL_TEXT_MAX = 4096, /* bytes of a URL */
    ROTA_SQL_URL_NAME_MAX = 256,  /* room for a part, with its NUL */
    ROTA_SQL_URL_PATH_MAX = 1024, /* room for a path, with its NUL */
};

enum rota_sql_kind {
    ROTA_SQL_SQLITE,
    ROTA_SQL_MYSQL,
    ROTA_SQL_POSTGRES,
};

enum rota_sql_tls {
    ROTA_SQL_TLS_OFF,
    ROTA_SQL_TLS_ON,     /* encrypted, whoever it is */
    ROTA_SQL_TLS_VERIFY, /* and the certificate is that of the host */
};

struct rota_sql_url {
    enum rota_sql_kind kind;
    enum rota_sql_tls tls;
    uint16_t port; /* 0: the usual one */
    char user[ROTA_SQL_URL_NAME_MAX], password[ROTA_SQL_URL_NAME_MAX];
    char host[ROTA_SQL_URL_NAME_MAX], database[ROTA_SQL_URL_NAME_MAX];
    char path[ROTA_SQL_URL_PATH_MAX]; /* of SQLite's file, or of the socket; "": none */
    char ca[ROTA_SQL_URL_PATH_MAX];   /* file of certificates; "": those of the system */
};

/* Read a URL. */
enum rota_code rota_sql_url_parse(struct rota_str text, struct rota_sql_url *url,
                                  struct rota_error *error);

/* Write it without the password, the way rota_sql_url_parse() reads it. Returns
 * `text`. */
char *rota_sql_url_format(const struct rota_sql_url *url, char text[ROTA_SQL_URL_TEXT_MAX]);
