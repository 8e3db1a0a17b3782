/* Members in a store: who there is, told by each for itself.
 *
 * A process that beats is a member for as long as it does: its row in the store
 * (<rota/store.h>) says where it listens, what it does and how much it takes, and is
 * alive for a ttl after each beat. Operators drain and evict members in the same table.
 * Whoever wants a ring of them opens a membership (<rota/members.h>) with a source that
 * reads the table. */
#pragma once

#include <rota/members.h>
#include <rota/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A source that reads the members of `store` every `interval`; 0 means 1 s. Listed are
 * those whose last beat is no longer ago than their ttl, by the database's clock, that
 * are not evicted and that have `role` among their roles, which are parted by commas;
 * NULL means all. A store that is away is an error, reported once, and leaves the
 * membership as it was; so does a table in which nobody is alive any more. Keeps
 * `store`. Gives `*source`, which rota_members_open() takes. */
enum rota_code rota_store_members_new(struct rota_store *store, const char *role,
                                      rota_time interval, struct rota_members_source **source,
                                      struct rota_error *error);

struct rota_heartbeat;

/* Be a member: write `member` into `store`, now and then every third of its ttl (0 means
 * 10 s) until it is closed. A process that listens at several addresses is as many members,
 * by one statement: `more` are those beside the member's own, each once. State and heartbeat
 * are not looked at: the one is operators', the other the database's. A store that is away is
 * no error. `member` and `more` are copied; `loop`, `store` and `log`, which may be NULL, are
 * kept. Gives `*heartbeat`; rota_heartbeat_close() ends it. */
enum rota_code rota_heartbeat_open(struct uv_loop_s *loop, struct rota_store *store,
                                   const struct rota_store_member *member,
                                   const struct rota_str *more, size_t n_more,
                                   const struct rota_log *log, struct rota_heartbeat **heartbeat,
                                   struct rota_error *error);

/* Beat no more. Takes `heartbeat`, which may be NULL. The member stays listed until its
 * ttl is over: to go at a moment that all agree on, beat with a `stop_at` before. */
void rota_heartbeat_close(struct rota_heartbeat *heartbeat);

#ifdef __cplusplus
}
#endif
