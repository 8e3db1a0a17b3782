/* store_members: which members of a store are hosts, and how they look as such. */
#pragma once

#include <rota/host.h>
#include <rota/store.h>

/* Alive by the database's clock, not evicted, and with `role` among its roles, which are
 * parted by commas; an empty one is everybody's. */
bool rota_store_member_is_listed(const struct rota_store_member *member, struct rota_str role,
                                 rota_time db_now);

/* Its texts are the member's. */
struct rota_host rota_store_member_host(const struct rota_store_member *member);
