#include "run/connector/connector_inside.h"

#include "io/clock.h"
#include "io/file.h"
#include "io/net/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUBLIC_NAME "public"
#define SECRET_NAME "secret"

enum { KEY_FILE_MAX = 64 << 10 };

/* --- addresses --- */

static bool is_loopback(const struct rota_address *address)
{
    struct sockaddr_storage resolved;
    if (strcmp(address->host, "localhost") == 0)
        return true;
    return rota_address_resolve(address, &resolved) &&
           rota_address_is_loopback((struct sockaddr *)&resolved);
}

static enum rota_code read_address(struct rota_connector *connector, struct rota_error *error)
{
    struct rota_address address;
    const char *text = connector->options.address;
    enum rota_code code = rota_address_parse(text, &address, error);
    if (code)
        return code;
    if (!connector->keys.is_on && !connector->options.is_insecure && !is_loopback(&address))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s is not a loopback address: workers on other machines need keys",
                              text);
    /* The library resolves names to connect, never to listen. */
    const char *host = strcmp(address.host, "localhost") == 0 ? "127.0.0.1" : address.host;
    bool is_ipv6 = strchr(host, ':') != NULL;
    snprintf(connector->endpoint, sizeof connector->endpoint, "tcp://%s%s%s:%s", is_ipv6 ? "[" : "",
             host, is_ipv6 ? "]" : "", address.port_text);
    snprintf(connector->address, sizeof connector->address, "%s", text);
    return ROTA_OK;
}

/* --- key files --- */

static enum rota_code read_pair(const char *path, struct rota_buffer *text,
                                struct rota_key *public_key, struct rota_key *secret_key,
                                struct rota_error *error)
{
    struct rota_keys keys = {0};
    enum rota_code code = rota_file_read(path, KEY_FILE_MAX, text, error);
    if (!code)
        code = rota_keys_file_parse(rota_buffer_str(text), path, &keys, error);
    if (code)
        return code;
    const struct rota_key *found_public = rota_keys_file_find_key(&keys, rota_str(PUBLIC_NAME));
    const struct rota_key *found_secret = rota_keys_file_find_key(&keys, rota_str(SECRET_NAME));
    if (!found_public || !found_secret) {
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "%s is not a key pair: it needs a line \"" PUBLIC_NAME
                              " KEY\" and a line \"" SECRET_NAME " KEY\"",
                              path);
    } else if (!(code = rota_file_check_secret(path, false, error))) {
        *public_key = *found_public;
        *secret_key = *found_secret;
    }
    rota_keys_file_deinit(&keys);
    return code;
}

static void stamp_of(const struct stat *found, long long stamp[3])
{
    stamp[0] = (long long)found->st_mtim.tv_sec * 1000000000 + found->st_mtim.tv_nsec;
    stamp[1] = (long long)found->st_size;
    stamp[2] = (long long)found->st_ino;
}

/* The current list; on an error the previous one stays. */
static enum rota_code read_workers(struct rota_connector *connector, struct rota_error *error)
{
    const char *path = connector->options.workers_file;
    struct rota_buffer text = {0};
    struct rota_keys workers = {0};
    struct stat found;
    if (stat(path, &found) == 0)
        stamp_of(&found, connector->keys.stamp);
    enum rota_code code = rota_file_read(path, ROTA_KEYS_FILE_MAX, &text, error);
    if (!code)
        code = rota_keys_file_parse(rota_buffer_str(&text), path, &workers, error);
    if (code) {
        rota_buffer_deinit(&text);
        return code;
    }
    rota_keys_file_deinit(&connector->keys.workers);
    rota_buffer_deinit(&connector->keys.workers_text);
    connector->keys.workers = workers;
    connector->keys.workers_text = text;
    return ROTA_OK;
}

static enum rota_code read_keys(struct rota_connector *connector, bool is_broker,
                                struct rota_error *error)
{
    const struct rota_connector_options *options = &connector->options;
    struct rota_connector_keys *keys = &connector->keys;
    const char *other = is_broker ? options->workers_file : options->broker_key;
    if (!options->key_file && !other)
        return ROTA_OK;
    if (!options->key_file || !other)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a %s with keys needs its own pair and the %s",
                              is_broker ? "broker" : "worker",
                              is_broker ? "list of its workers" : "public key of its broker");
    enum rota_code code =
        read_pair(options->key_file, &keys->own_text, &keys->public_key, &keys->secret_key, error);
    if (code)
        return code;
    if (is_broker)
        code = read_workers(connector, error);
    else if (!rota_keys_file_parse_key(rota_str(options->broker_key), &keys->broker_key))
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "the key of the broker is not a key: a key has %d characters of Z85",
                              ROTA_KEY_TEXT_SIZE);
    keys->is_on = !code;
    return code;
}

enum rota_code rota_connector_keys_open(struct rota_connector *connector, bool is_broker,
                                        struct rota_error *error)
{
    enum rota_code code = read_keys(connector, is_broker, error);
    return code ? code : read_address(connector, error);
}

void rota_connector_keys_close(struct rota_connector_keys *keys)
{
    if (keys->own_text.data)
        explicit_bzero(keys->own_text.data, keys->own_text.size);
    explicit_bzero(&keys->secret_key, sizeof keys->secret_key);
    rota_buffer_deinit(&keys->own_text);
    rota_keys_file_deinit(&keys->workers);
    rota_buffer_deinit(&keys->workers_text);
}

/* --- authentication --- */

static void reload_keys(struct rota_connector *connector)
{
    struct rota_error error;
    struct stat found;
    long long stamp[3];
    if (stat(connector->options.workers_file, &found) != 0)
        return;
    stamp_of(&found, stamp);
    if (memcmp(stamp, connector->keys.stamp, sizeof stamp) == 0)
        return;
    if (read_workers(connector, &error))
        rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_ERROR,
                 "list of workers not read", ROTA_LOG_FACT("reason", error.text));
}

void rota_connector_keys_judge(struct rota_connector *connector)
{
    struct rota_zmq_question question;
    while (rota_zmq_next_question(connector->zmq, &question)) {
        if (!connector->keys.is_on) { /* the address is one of this machine */
            rota_zmq_answer(connector->zmq, true, rota_str(""));
            continue;
        }
        reload_keys(connector);
        struct rota_str name =
            question.has_key ? rota_keys_file_find_name(&connector->keys.workers, &question.key)
                             : rota_str("");
        rota_zmq_answer(connector->zmq, name.size > 0, name);
        if (name.size)
            continue;
        rota_count(&connector->counters.n_keys_refused, 1);
        if (rota_connector_lines_may_log(connector, ROTA_CONNECTOR_LINE_KEY))
            rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_WARN, "key rejected",
                     ROTA_LOG_FACT("address", (const char *)question.address));
    }
}

/* --- making keys --- */

static enum rota_code write_pair(const char *path, const char *text, struct rota_error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return rota_error_set(error, ROTA_ERR_IO, "cannot create %s: %s", path, strerror(errno));
    size_t size = strlen(text);
    bool is_written = write(fd, text, size) == (ssize_t)size && fsync(fd) == 0;
    int failed = errno;
    is_written = close(fd) == 0 && is_written;
    if (is_written)
        return ROTA_OK;
    unlink(path);
    return rota_error_set(error, ROTA_ERR_IO, "cannot write %s: %s", path, strerror(failed));
}

enum rota_code rota_connector_key_make(const char *path, char public_key[ROTA_CONNECTOR_KEY_SIZE],
                                       struct rota_error *error)
{
    char made_public[ROTA_KEY_TEXT_SIZE + 1], made_secret[ROTA_KEY_TEXT_SIZE + 1];
    char text[256];
    enum rota_code code = rota_zmq_check(error);
    if (code)
        return code;
    if (!rota_zmq_make_keys(made_public, made_secret))
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "ZeroMQ was built without keys (CURVE)");
    snprintf(text, sizeof text,
             "# A key pair for CURVE. Share only the public key.\n" PUBLIC_NAME " %s\n" SECRET_NAME
             " %s\n",
             made_public, made_secret);
    code = write_pair(path, text, error);
    if (!code)
        memcpy(public_key, made_public, ROTA_CONNECTOR_KEY_SIZE);
    explicit_bzero(made_secret, sizeof made_secret);
    explicit_bzero(text, sizeof text);
    return code;
}

enum rota_code rota_connector_key_read(const char *path, char public_key[ROTA_CONNECTOR_KEY_SIZE],
                                       struct rota_error *error)
{
    struct rota_buffer text = {0};
    struct rota_key read_public, read_secret;
    enum rota_code code = read_pair(path, &text, &read_public, &read_secret, error);
    if (!code)
        rota_keys_file_format_key(&read_public, public_key);
    if (text.data)
        explicit_bzero(text.data, text.size);
    rota_buffer_deinit(&text);
    explicit_bzero(&read_secret, sizeof read_secret);
    return code;
}
