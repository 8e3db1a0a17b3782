/* store_members: which members of a store are hosts, and how they become hosts. */
#pragma once

#include <rota/experimental/host.h>
#include <rota/experimental/members.h>
#include <rota/experimental/store_ask.h>

/* Alive by the database's clock, not evicted, and with `role` among its comma-separated roles;
 * an empty `role` matches every member. */
bool rota_store_member_is_listed(const struct rota_store_member *member, struct rota_str role,
                                 rota_time db_now);

/* Its texts are borrowed from the member. */
struct rota_host rota_store_member_host(const struct rota_store_member *member);

/* Pass every answer of a source of rota_store_members_new() that has rows to `on_rows`, before the
 * members are made of it. It must not close the members. */
void rota_store_members_watch(struct rota_members_source *source, rota_store_on_answer *on_rows,
                              void *data);

/* Read the rows now, if it is open. */
void rota_store_members_look(struct rota_members_source *source);
