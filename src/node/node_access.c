/* Access control: the node's token, the cluster's secret, and names in certificates. */
#include "node/node_inside.h"

#include "io/file.h"
#include "io/local_token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the token --- */

static bool make_secret(char text[ROTA_GUARD_TOKEN_SIZE + 1])
{
    unsigned char chance[32];
    if (uv_random(NULL, NULL, chance, sizeof chance, 0, NULL))
        return false;
    rota_guard_token(chance, text);
    return true;
}

static enum rota_code refuse_path(const char *what, const char *path, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_IO, "%s %.1000s: %s", what, path, strerror(errno));
}

static enum rota_code make_token(struct rota_node *node, const char *path, struct rota_error *error)
{
    if (!make_secret(node->token))
        return rota_error_set(error, ROTA_ERR_IO, "the system has no random bytes for a token");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return refuse_path("cannot create", path, error);
    bool is_written = write(fd, node->token, ROTA_GUARD_TOKEN_SIZE) == ROTA_GUARD_TOKEN_SIZE &&
                      write(fd, "\n", 1) == 1;
    if (close(fd) || !is_written) {
        unlink(path);
        return refuse_path("cannot write", path, error);
    }
    return ROTA_OK;
}

/* What operators need; made on the first start. */
static enum rota_code read_token(struct rota_node *node, struct rota_error *error)
{
    struct rota_buffer content = {0};
    char path[4200];
    snprintf(path, sizeof path, "%s/token", node->settings->data);
    enum rota_code code = rota_file_read(path, 1024, &content, error);
    if (code == ROTA_ERR_NOT_FOUND) {
        code = make_token(node, path, error);
    } else if (!code) {
        struct rota_str text = rota_buffer_str(&content);
        while (text.size > 0 && strchr(" \r\n", text.data[text.size - 1]))
            text.size--;
        if (text.size != ROTA_GUARD_TOKEN_SIZE)
            code = rota_error_set(
                error, ROTA_ERR_INVALID,
                "%.1000s contains no token; remove the file, and the node creates a new one", path);
        else
            memcpy(node->token, text.data, text.size);
    }
    rota_buffer_deinit(&content);
    node->guard.token = rota_str(node->token);
    return code;
}

/* --- the cluster's secret --- */

#define SECRET "cluster"

static void on_secret(void *data, const struct rota_store_answer *answer)
{
    struct rota_node *node = data;
    bool is_known = !answer->code && answer->n_values == 1;
    node->is_secret_asked = false;
    if (!is_known || answer->values[0].value.size > ROTA_GUARD_TOKEN_SIZE) {
        if (!node->is_secret_missed)
            rota_log(
                node->log, rota_clock_wall(), ROTA_LOG_WARN, "cluster secret not read",
                ROTA_LOG_FACT("error", answer->error.text),
                ROTA_LOG_FACT(
                    "fix", answer->code == ROTA_ERR_UNAVAILABLE
                               ? "see \"store down\" above; it is read again when the store is up"
                               : "grant SELECT and INSERT on rota_secrets"));
        node->is_secret_missed = true;
        return; /* read again with the next call, or when the store is back */
    }
    memcpy(node->secret, answer->values[0].value.data, answer->values[0].value.size);
    node->access.secret = rota_str(node->secret);
}

void rota_node_access_ask(void *data)
{
    struct rota_node *node = data;
    char proposed[ROTA_GUARD_TOKEN_SIZE + 1];
    if (node->access.secret.size > 0 || node->is_secret_asked || !make_secret(proposed))
        return;
    const struct rota_store_request request = {
        .verb = ROTA_STORE_SECRET,
        .config = {.name = rota_str(SECRET), .text = rota_str(proposed)}};
    node->is_secret_asked = !rota_store_ask(node->store, &request, on_secret, node, NULL);
}

/* --- callers --- */

static bool is_named(const void *data, const char *name)
{
    return rota_server_call_is_named(data, name);
}

uint32_t rota_node_access_identify(void *data, struct rota_server_call *call, char *actor)
{
    struct rota_node *node = data;
    size_t n;
    if (node->access.secret.size == 0)
        rota_node_access_ask(node); /* one request at a time */
    const struct rota_metadata *metadata = rota_server_call_metadata(call, &n);
    struct rota_access_caller caller = {
        .address = rota_server_call_peer(call), .is_named = is_named, .data = call};
    rota_metadata_get(metadata, n, "authorization", &caller.authorization);
    rota_metadata_get(metadata, n, ROTA_NOTE_ACTOR, &caller.actor);
    if (actor)
        rota_access_actor(&node->access, &caller, actor);
    return rota_access_roles(&node->access, &caller);
}

/* --- life --- */

/* The settings were checked: only memory can be missing. */
static enum rota_code read_list(const char *names, char **text, struct rota_access_list *list,
                                struct rota_error *error)
{
    if (!names)
        return ROTA_OK;
    if (!(*text = strdup(names)))
        return rota_error_no_memory(error, "for the names in certificates");
    rota_access_list_parse(*text, list);
    return ROTA_OK;
}

enum rota_code rota_node_access_open(struct rota_node *node, struct rota_error *error)
{
    const struct rota_node_settings *settings = node->settings;
    enum rota_code code = read_token(node, error);
    if (!code)
        code = read_list(settings->operators, &node->operators, &node->access.operators, error);
    if (!code)
        code = read_list(settings->nodes, &node->nodes, &node->access.nodes, error);
    node->access.token = rota_str(node->token);
    return code;
}

void rota_node_access_publish(struct rota_node *node)
{
    struct rota_error error;
    if (rota_local_token_write(rota_server_address(node->server, 0), node->token,
                               &node->local_token_fd, &error))
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN,
                 "token not published for local commands", ROTA_LOG_FACT("error", error.text),
                 ROTA_LOG_FACT("fix", "use --token-file for commands that change the cluster"));
}

void rota_node_access_close(struct rota_node *node)
{
    if (node->server)
        rota_local_token_remove(rota_server_address(node->server, 0), node->local_token_fd);
    free(node->operators);
    free(node->nodes);
}
