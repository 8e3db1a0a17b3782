#include <rota/health.h>

#include "base/map.h"

#include "health.pb-c.h"

#include <assert.h>
#include <stdlib.h>

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

struct service {
    serving_status status;
    char name[];
};

struct watcher {
    struct rota_server_call *call;
    struct watcher *next, *previous;
    serving_status told;
    bool has_told;
    char name[];
};

struct rota_health {
    struct rota_map services;
    struct watcher *watchers;
    size_t n_watchers;
};

static serving_status status_of(const struct rota_health *health, const char *name)
{
    const struct service *service = rota_map_get(&health->services, rota_str(name));
    return service ? service->status : SERVICE_UNKNOWN;
}

static enum rota_code send_status(struct rota_server_call *call, serving_status status)
{
    Grpc__Health__V1__HealthCheckResponse message = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    uint8_t bytes[16];
    message.status = status;
    assert(grpc__health__v1__health_check_response__get_packed_size(&message) <= sizeof bytes);
    size_t size = grpc__health__v1__health_check_response__pack(&message, bytes);
    return rota_server_call_send(call, rota_str_of(bytes, size));
}

/* The service that a request names, in `name`; false when it was answered. */
static bool read_name(struct rota_server_call *call, char name[ROTA_HEALTH_NAME_MAX + 1])
{
    struct rota_str request = rota_server_call_request(call);
    Grpc__Health__V1__HealthCheckRequest *message = grpc__health__v1__health_check_request__unpack(
        NULL, request.size, (const uint8_t *)request.data);
    bool fits = message && strlen(message->service) <= ROTA_HEALTH_NAME_MAX;
    if (fits)
        memcpy(name, message->service, strlen(message->service) + 1);
    else
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT,
                                message ? "the service's name is too long"
                                        : "the request is not a HealthCheckRequest",
                                NULL, 0);
    if (message)
        grpc__health__v1__health_check_request__free_unpacked(message, NULL);
    return fits;
}

static void on_check(void *data, struct rota_server_call *call)
{
    struct rota_health *health = data;
    char name[ROTA_HEALTH_NAME_MAX + 1];
    if (!read_name(call, name))
        return;
    serving_status status = status_of(health, name);
    if (status == SERVICE_UNKNOWN) {
        rota_server_call_finish(call, ROTA_STATUS_NOT_FOUND, "no such service", NULL, 0);
        return;
    }
    send_status(call, status);
    rota_server_call_finish(call, ROTA_STATUS_OK, NULL, NULL, 0);
}

/* Tell what has changed; without room it is told when there is some again. */
static void tell(struct rota_health *health, struct watcher *watcher)
{
    serving_status status = status_of(health, watcher->name);
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
    watcher->next = health->watchers;
    if (watcher->next)
        watcher->next->previous = watcher;
    health->watchers = watcher;
    health->n_watchers++;
    rota_server_call_set_data(call, watcher);
    tell(health, watcher);
}

static void on_watch_room(void *data, struct rota_server_call *call)
{
    tell(data, rota_server_call_data(call));
}

static void watcher_end(struct rota_health *health, struct watcher *watcher)
{
    *(watcher->previous ? &watcher->previous->next : &health->watchers) = watcher->next;
    if (watcher->next)
        watcher->next->previous = watcher->previous;
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
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "health");
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
    const struct rota_map_entry *entry;
    size_t place = 0;
    if (!health)
        return;
    while (health->watchers)
        watcher_end(health, health->watchers);
    while ((entry = rota_map_next(&health->services, &place)))
        free(entry->value);
    rota_map_deinit(&health->services);
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
            return rota_error_set(error, ROTA_ERR_NO_MEMORY, "health: service %s", name);
        memcpy(service->name, name, size + 1);
        if (!rota_map_put(&health->services, rota_str(service->name), service)) {
            free(service);
            return rota_error_set(error, ROTA_ERR_NO_MEMORY, "health: service %s", name);
        }
    }
    service->status = is_serving ? SERVING : NOT_SERVING;
    for (struct watcher *watcher = health->watchers; watcher; watcher = watcher->next)
        if (strcmp(watcher->name, name) == 0)
            tell(health, watcher);
    return ROTA_OK;
}
