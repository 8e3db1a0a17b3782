/* Members in a store: each process registers itself.
 *
 * A process is a member as long as it sends heartbeats. Its row in the store (<rota/store.h>) has
 * its address, roles and weight, and is alive for a ttl after each heartbeat. Operators drain and
 * evict members in the same table. For a ring of members, open a membership
 * (<rota/experimental/members.h>) with a source that reads the table. */
#pragma once

#include <rota/experimental/members.h>
#include <rota/experimental/store_ask.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A source that reads the members of `store` every `interval`; 0 means 1 s. It lists members whose
 * last heartbeat is within their ttl, by the database's clock, that are not evicted and that have
 * `role` among their comma-separated roles; NULL means all. An unreachable store, and a table
 * without live members, is reported once as an error and leaves the membership as it was. Keeps
 * `store`. Gives `*source`, which rota_members_open() takes. */
enum rota_code rota_store_members_new(struct rota_store *store, const char *role,
                                      rota_time interval, struct rota_members_source **source,
                                      struct rota_error *error);

struct rota_heartbeat;

/* Becomes a member: writes `member` into `store`, now and every third of its ttl (0 means 10 s)
 * until it is closed. A process that listens at several addresses is as many members, written by
 * one statement: `more` are the addresses besides the member's own, without duplicates. The fields
 * state and heartbeat are ignored: operators set the one, the database the other. An unreachable
 * store is not an error. `member` and `more` are copied; `loop`, `store` and `log`, which may be
 * NULL, are kept. Gives `*heartbeat`; close it with rota_heartbeat_close(). */
enum rota_code rota_heartbeat_open(struct uv_loop_s *loop, struct rota_store *store,
                                   const struct rota_store_member *member,
                                   const struct rota_str *more, size_t n_more,
                                   const struct rota_log *log, struct rota_heartbeat **heartbeat,
                                   struct rota_error *error);

/* Stops the heartbeats. Takes `heartbeat`, which may be NULL. The member stays listed until its ttl
 * is over. To leave at a time that all agree on, set `stop_at` in a heartbeat before. */
void rota_heartbeat_close(struct rota_heartbeat *heartbeat);

#ifdef __cplusplus
}
#endif
