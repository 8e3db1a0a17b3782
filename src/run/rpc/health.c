#include <rota/experimental/health.h>

#include "base/list.h"
#include "base/map.h"
#include "wire/message/standard_message.h"

#include <stdio.h>
#include <stdlib.h>

struct service {
    enum rota_standard_health status;
    char name[];
};

struct watcher {
    struct rota_server_call *call;
    struct rota_list_node link;
    enum rota_standard_health told;
    bool has_told;
    char name[];
};

struct rota_health {
    struct rota_map services;
    struct rota_list_node watchers;
    size_t n_watchers;
};

static enum rota_standard_health status_of(const struct rota_health *health, const char *name)
{
    const struct service *service = rota_map_get(&health->services, rota_str(name));
    return service ? service->status : ROTA_STANDARD_SERVICE_UNKNOWN;
}

static enum rota_code send_status(struct rota_server_call *call, enum rota_standard_health status)
{
    const struct rota_standard_health_response message = {status};
    struct rota_buffer bytes = {0};
    rota_message_encode(&ROTA_STANDARD_HEALTH_RESPONSE, &message, &bytes);
    enum rota_code code =
        bytes.failed ? ROTA_ERR_NO_MEMORY : rota_server_call_send(call, rota_buffer_str(&bytes));
    rota_buffer_deinit(&bytes);
    return code;
}

/* The service that a request names, in `name`; false when it was answered. */
static bool read_name(struct rota_server_call *call, char name[ROTA_HEALTH_NAME_MAX + 1])
{
    struct rota_standard_health_request message;
    const char *problem = NULL;
    if (rota_message_decode(&ROTA_STANDARD_HEALTH_REQUEST, rota_server_call_request(call), &message,
                            NULL, NULL))
        problem = "the request is not a HealthCheckRequest";
    else if (message.service.size > ROTA_HEALTH_NAME_MAX)
        problem = "the service's name is too long";
    if (problem) {
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, problem, NULL, 0);
        return false;
    }
    snprintf(name, ROTA_HEALTH_NAME_MAX + 1, "%.*s", ROTA_STR_ARGS(message.service));
    return true;
}

static void on_check(void *data, struct rota_server_call *call)
{
    struct rota_health *health = data;
    char name[ROTA_HEALTH_NAME_MAX + 1];
    if (!read_name(call, name))
        return;
    enum rota_standard_health status = status_of(health, name);
    if (status == ROTA_STANDARD_SERVICE_UNKNOWN) {
        rota_server_call_finish(call, ROTA_STATUS_NOT_FOUND, "no such service", NULL, 0);
        return;
    }
    send_status(call, status);
    rota_server_call_finish(call, ROTA_STATUS_OK, NULL, NULL, 0);
}

/* Send what has changed; without room, when there is some again. */
static void notify_watcher(struct rota_health *health, struct watcher *watcher)
{
    enum rota_standard_health status = status_of(health, watcher->name);
    if (watcher->has_told && watcher->told == status)
        return;
    if (send_status(watcher->call, status) == ROTA_OK) {
        watcher->told = status;
        watcher->has_told = true;
    }
}

static void on_watch(void *data, struct rota_server_call *call)
{
    struct rota_health *health = data;
    char name[ROTA_HEALTH_NAME_MAX + 1];
    if (!read_name(call, name))
        return;
    struct watcher *watcher = NULL;
    if (health->n_watchers < ROTA_HEALTH_WATCHERS_MAX)
        watcher = calloc(1, sizeof *watcher + strlen(name) + 1);
    if (!watcher) {
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED, "too many watchers", NULL, 0);
        return;
    }
    memcpy(watcher->name, name, strlen(name) + 1);
    watcher->call = call;
    rota_list_push(&health->watchers, &watcher->link);
    health->n_watchers++;
    rota_server_call_set_data(call, watcher);
    notify_watcher(health, watcher);
}

static void on_watch_room(void *data, struct rota_server_call *call)
{
    notify_watcher(data, rota_server_call_data(call));
}

static void watcher_end(struct rota_health *health, struct watcher *watcher)
{
    rota_list_remove(&watcher->link);
    health->n_watchers--;
    rota_server_call_finish(watcher->call, ROTA_STATUS_CANCELLED, NULL, NULL, 0);
    free(watcher);
}

static void on_watch_cancel(void *data, struct rota_server_call *call)
{
    watcher_end(data, rota_server_call_data(call));
}

enum rota_code rota_health_open(struct rota_server *server, struct rota_health **result,
                                struct rota_error *error)
{
    struct rota_health *health = calloc(1, sizeof *health);
    if (!health)
        return rota_error_no_memory(error, "for the health service");
    rota_list_init(&health->watchers);
    rota_map_init(&health->services, (uintptr_t)health);
    const struct rota_server_method check = {.path = "/grpc.health.v1.Health/Check",
                                             .on_call = on_check,
                                             .data = health,
                                             .is_urgent = true};
    const struct rota_server_method watch = {.path = "/grpc.health.v1.Health/Watch",
                                             .on_call = on_watch,
                                             .on_cancel = on_watch_cancel,
                                             .on_room = on_watch_room,
                                             .data = health,
                                             .is_urgent = true};
    enum rota_code code = rota_health_set(health, "", true, error);
    if (code == ROTA_OK)
        code = rota_server_add(server, &check, error);
    if (code == ROTA_OK)
        code = rota_server_add(server, &watch, error);
    if (code) {
        rota_health_close(health);
        return code;
    }
    *result = health;
    return ROTA_OK;
}

void rota_health_close(struct rota_health *health)
{
    if (!health)
        return;
    ROTA_LIST_DRAIN (watcher, &health->watchers, struct watcher, link)
        watcher_end(health, watcher);
    rota_map_deinit_values(&health->services);
    free(health);
}

enum rota_code rota_health_set(struct rota_health *health, const char *name, bool is_serving,
                               struct rota_error *error)
{
    struct service *service = rota_map_get(&health->services, rota_str(name));
    if (!service) {
        size_t size = strlen(name);
        if (size > ROTA_HEALTH_NAME_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "health: a service's name has at most %d bytes",
                                  ROTA_HEALTH_NAME_MAX);
        if (health->services.size >= ROTA_HEALTH_SERVICES_MAX)
            return rota_error_set(error, ROTA_ERR_LIMIT, "health: more than %d services",
                                  ROTA_HEALTH_SERVICES_MAX);
        service = malloc(sizeof *service + size + 1);
        if (!service)
            return rota_error_no_memory(error, "for the health of service %s", name);
        memcpy(service->name, name, size + 1);
        if (!rota_map_put(&health->services, rota_str(service->name), service)) {
            free(service);
            return rota_error_no_memory(error, "for the health of service %s", name);
        }
    }
    service->status = is_serving ? ROTA_STANDARD_SERVING : ROTA_STANDARD_NOT_SERVING;
    ROTA_LIST_EACH (watcher, &health->watchers, struct watcher, link)
        if (strcmp(watcher->name, name) == 0)
            notify_watcher(health, watcher);
    return ROTA_OK;
}
