#include "wire/text/sql_url.h"

#include "base/percent.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>

/* No message shows a part of the URL: without the '@', the password is where a host should be. */

static const char *const tls_names[] = {"off", "on", "verify"};

/* --- parsing --- */

/* Copy with %XX decoded; `what` is its name in messages. */
static enum rota_code decode_escapes(struct rota_str text, const char *what, char *part,
                                     size_t room, struct rota_error *error)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        int c = rota_percent_decode(text, &i);
        if (c < 0)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "%s of the store's URL has a %% without two hex digits after it "
                                  "(write %%25 for a literal %%)",
                                  what);
        if (c == '\0')
            return rota_error_set(error, ROTA_ERR_INVALID, "%s of the store's URL has a NUL byte",
                                  what);
        if (size + 1 == room)
            return rota_error_set(error, ROTA_ERR_LIMIT,
                                  "%s of the store's URL has more than %zu bytes", what, room - 1);
        part[size++] = (char)c;
    }
    part[size] = '\0';
    return ROTA_OK;
}

static enum rota_code parse_port(struct rota_str text, uint16_t *port, struct rota_error *error)
{
    uint32_t number = 0;
    for (size_t i = 0; i < text.size && number <= UINT16_MAX; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            number = UINT16_MAX;
        number = number * 10 + (uint32_t)(text.data[i] - '0');
    }
    if (number == 0 || number > UINT16_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the port of the store's URL is not a number from 1 to 65535 (in a "
                              "password, write : / ? # @ as %%3A %%2F %%3F %%23 %%40)");
    *port = (uint16_t)number;
    return ROTA_OK;
}

static bool is_host(struct rota_str host, bool is_ip6)
{
    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
        if (!is_plain && !(is_ip6 && (c == ':' || c == '%')))
            return false;
    }
    return host.size > 0;
}

/* HOST[:PORT], or [IPV6][:PORT] */
static enum rota_code parse_host(struct rota_str text, struct rota_sql_url *url,
                                 struct rota_error *error)
{
    bool is_ip6 = text.size > 0 && text.data[0] == '[';
    const char *end = text.size ? memchr(text.data, is_ip6 ? ']' : ':', text.size) : NULL;
    struct rota_str host = rota_str_of(text.data, end ? (size_t)(end - text.data) : text.size);
    struct rota_str port = rota_str_of(host.data + host.size, text.size - host.size);
    if (is_ip6) {
        rota_text_cut_at(&host, '[');
        rota_text_cut_at(&port, ']');
    }
    if ((is_ip6 && !end) || !is_host(host, is_ip6) || host.size >= sizeof url->host)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the store's URL has no host, or an invalid character in it (in a "
                              "password, write : / ? # @ as %%3A %%2F %%3F %%23 %%40)");
    memcpy(url->host, host.data, host.size);
    url->host[host.size] = '\0';
    if (port.size == 0)
        return ROTA_OK;
    if (port.data[0] == ':')
        port = rota_str_of(port.data + 1, port.size - 1);
    return parse_port(port, &url->port, error);
}

static enum rota_code parse_tls(struct rota_str value, enum rota_sql_tls *tls,
                                struct rota_error *error)
{
    for (size_t i = 0; i < sizeof tls_names / sizeof *tls_names; i++)
        if (rota_str_is_equal(value, rota_str(tls_names[i]))) {
            *tls = (enum rota_sql_tls)i;
            return ROTA_OK;
        }
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "tls= in the store's URL must be off, on or verify");
}

/* NAME=VALUE[&NAME=VALUE...] */
static enum rota_code parse_settings(struct rota_str rest, struct rota_sql_url *url,
                                     struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    while (!code && rest.size > 0) {
        struct rota_str value = rota_text_cut_at(&rest, '&');
        struct rota_str name = rota_text_cut_at(&value, '=');
        if (rota_str_is_equal(name, rota_str("socket")))
            code = decode_escapes(value, "the socket", url->path, sizeof url->path, error);
        else if (rota_str_is_equal(name, rota_str("ca")))
            code = decode_escapes(value, "the ca", url->ca, sizeof url->ca, error);
        else if (rota_str_is_equal(name, rota_str("tls")))
            code = parse_tls(value, &url->tls, error);
        else
            code = rota_error_set(error, ROTA_ERR_INVALID,
                                  "after the ? of the store's URL only socket=, tls= and ca= are "
                                  "allowed (in a password, write ? as %%3F)");
    }
    if (!code && url->tls == ROTA_SQL_TLS_VERIFY && url->ca[0] == '\0')
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "tls=verify in the store's URL needs ca=FILE too");
    return code;
}

/* [USER[:PASSWORD]@] */
static enum rota_code parse_user(struct rota_str text, struct rota_sql_url *url,
                                 struct rota_error *error)
{
    struct rota_str rest = text;
    struct rota_str user = rota_text_cut_at(&rest, ':');
    enum rota_code code = decode_escapes(user, "the user", url->user, sizeof url->user, error);
    if (code)
        return code;
    return decode_escapes(rest, "the password", url->password, sizeof url->password, error);
}

/* What follows the "//" of a server's URL. */
static enum rota_code parse_server(struct rota_str rest, struct rota_sql_url *url,
                                   struct rota_error *error)
{
    struct rota_str settings = rest;
    struct rota_str place = rota_text_cut_at(&settings, '?');
    struct rota_str database = place;
    struct rota_str authority = rota_text_cut_at(&database, '/');
    struct rota_str host = authority;
    enum rota_code code = ROTA_OK;

    if (memchr(authority.data, '@', authority.size)) {
        struct rota_str user = rota_text_cut_at(&host, '@');
        code = parse_user(user, url, error);
    }
    if (!code)
        code = parse_settings(settings, url, error);
    if (!code && (host.size > 0 || url->path[0] == '\0'))
        code = parse_host(host, url, error);
    if (!code && database.size == 0)
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "the store's URL names no database: add it after the host, as in "
                              "mysql://USER@HOST/DATABASE");
    return code ? code
                : decode_escapes(database, "the database", url->database, sizeof url->database,
                                 error);
}

static enum rota_code parse_path(struct rota_str path, struct rota_sql_url *url,
                                 struct rota_error *error)
{
    if (path.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the store's URL has no path: sqlite:PATH, as in sqlite:rota.db");
    if (path.size >= sizeof url->path)
        return rota_error_set(error, ROTA_ERR_LIMIT, "the store's path has more than %zu bytes",
                              sizeof url->path - 1);
    memcpy(url->path, path.data, path.size);
    return ROTA_OK;
}

static bool skip_prefix(struct rota_str *rest, const char *prefix)
{
    size_t size = strlen(prefix);
    if (!rota_str_has_prefix(*rest, rota_str(prefix)))
        return false;
    *rest = rota_str_of(rest->data + size, rest->size - size);
    return true;
}

static enum rota_code parse_url(struct rota_str rest, struct rota_sql_url *url,
                                struct rota_error *error)
{
    if (skip_prefix(&rest, "sqlite:")) {
        url->kind = ROTA_SQL_SQLITE;
        return parse_path(rest, url, error);
    }
    if (skip_prefix(&rest, "mysql://") || skip_prefix(&rest, "mariadb://"))
        url->kind = ROTA_SQL_MYSQL;
    else if (skip_prefix(&rest, "postgres://") || skip_prefix(&rest, "postgresql://"))
        url->kind = ROTA_SQL_POSTGRES;
    else
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a store's URL begins with sqlite:, mysql:// or postgres://, as in "
                              "sqlite:/var/lib/rota/store.db");
    return parse_server(rest, url, error);
}

enum rota_code rota_sql_url_parse(struct rota_str text, struct rota_sql_url *url,
                                  struct rota_error *error)
{
    struct rota_sql_url parsed = {0};
    if (text.size >= ROTA_SQL_URL_TEXT_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the store's URL has %zu bytes; at most %d are allowed", text.size,
                              ROTA_SQL_URL_TEXT_MAX - 1);
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "byte %zu of the store's URL is a control character", i + 1);
    enum rota_code code = parse_url(text, &parsed, error);
    if (!code)
        *url = parsed;
    return code;
}

/* --- writing --- */

struct writer {
    char *text;
    size_t size;
};

static void write_char(struct writer *writer, char c)
{
    if (writer->size + 1 < ROTA_SQL_URL_TEXT_MAX)
        writer->text[writer->size++] = c;
}

static void write_text(struct writer *writer, const char *text)
{
    while (*text)
        write_char(writer, *text++);
}

/* `plain` are characters that need no escape there. */
static void write_encoded(struct writer *writer, const char *part, const char *plain)
{
    char escape[4] = "";
    for (; *part; part++) {
        unsigned char c = (unsigned char)*part;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr(plain, c)) {
            write_char(writer, (char)c);
        } else {
            rota_percent_encode(escape, c);
            write_text(writer, escape);
        }
    }
}

static void write_setting(struct writer *writer, char *separator, const char *name,
                          const char *value)
{
    write_char(writer, *separator);
    *separator = '&';
    write_text(writer, name);
    write_encoded(writer, value, "-._~/");
}

static void write_server(struct writer *writer, const struct rota_sql_url *url)
{
    bool is_ip6 = strchr(url->host, ':') || strchr(url->host, '%');
    char port[8], separator = '?';

    write_text(writer, url->kind == ROTA_SQL_MYSQL ? "mysql://" : "postgres://");
    if (url->user[0]) {
        write_encoded(writer, url->user, "-._~");
        write_char(writer, '@');
    }
    write_text(writer, is_ip6 ? "[" : "");
    write_text(writer, url->host);
    write_text(writer, is_ip6 ? "]" : "");
    if (url->port) {
        snprintf(port, sizeof port, ":%u", (unsigned)url->port);
        write_text(writer, port);
    }
    write_char(writer, '/');
    write_encoded(writer, url->database, "-._~/");
    if (url->path[0])
        write_setting(writer, &separator, "socket=", url->path);
    if (url->tls)
        write_setting(writer, &separator, "tls=", tls_names[url->tls]);
    if (url->ca[0])
        write_setting(writer, &separator, "ca=", url->ca);
}

char *rota_sql_url_format(const struct rota_sql_url *url, char text[ROTA_SQL_URL_TEXT_MAX])
{
    struct writer writer = {text, 0};
    if (url->kind == ROTA_SQL_SQLITE) {
        write_text(&writer, "sqlite:");
        write_text(&writer, url->path);
    } else {
        write_server(&writer, url);
    }
    text[writer.size] = '\0';
    return text;
}
