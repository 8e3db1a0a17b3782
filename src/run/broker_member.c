/* A broker among the members of its store: it says that it is well, and hears who else is. */
#include "run/broker_inside.h"

#include <rota/store.h>
#include <rota/store_members.h>
#include <stdlib.h>

#define TTL (6 * ROTA_SEC) /* without a beat for so long, others take what we have */

struct rota_broker_member {
    struct rota_store *store;
    struct rota_heartbeat *heartbeat;
};

enum rota_code rota_work_broker_member_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                            const char *url, struct rota_error *error)
{
    const struct rota_store_options with = {.url = url}; /* broker_store tells how it is */
    const struct rota_store_member self = {.address = rota_str(broker->options.advertise),
                                           .roles = rota_str(ROTA_BROKER_ROLE),
                                           .ttl = TTL};
    struct rota_broker_member *member = broker->member = calloc(1, sizeof *member);
    if (!member)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a member");
    enum rota_code code = rota_store_open(loop, &with, &member->store, error);
    if (!code) /* before the members are asked for: we are among them */
        code = rota_heartbeat_open(loop, member->store, &self, NULL, 0, broker->options.log,
                                   &member->heartbeat, error);
    if (!code)
        code = rota_store_members_new(member->store, ROTA_BROKER_ROLE, 0, &broker->options.members,
                                      error);
    return code;
}

void rota_work_broker_member_close(struct rota_broker_member *member)
{
    if (!member)
        return;
    rota_heartbeat_close(member->heartbeat);
    rota_store_close(member->store);
    free(member);
}
