/* For tests of the store: requests in a few words, and a look behind its back. */
#pragma once

#include "database.h"
#include "io/sql/store_inside.h"

#include <rota/experimental/store_ask.h>

#define TTL (10 * ROTA_SEC)

struct rota_store_session *store_open_with(rota_time statement_timeout);
struct rota_store_session *store_open(void);
struct rota_sql *store_admin(void);

/* Run a statement that has to go well. Returns the first value of its first row if that
 * is a number, or the rows that it met. */
int64_t store_sql(struct rota_sql *sql, const char *text);

/* As if nobody had ever used it. */
void store_clear(void);

struct rota_store_request store_request(enum rota_store_verb verb);

/* Carry it out. Ends what `*answer` was before. */
enum rota_code store_do(struct rota_store_session *session,
                        const struct rota_store_request *request, struct rota_store_answer *answer);

void store_must(struct rota_store_session *session, const struct rota_store_request *request,
                struct rota_store_answer *answer);
struct rota_store_request store_claim_of(const char *host, uint64_t instance, uint32_t shards);
struct rota_store_claimed store_claim(struct rota_store_session *session,
                                      const struct rota_store_request *request);
struct rota_store_request store_of_lease(enum rota_store_verb verb, uint64_t instance,
                                         struct rota_store_claimed claimed);
bool store_ping(struct rota_store_session *session, uint64_t instance,
                struct rota_store_claimed claimed);
bool store_release(struct rota_store_session *session, uint64_t instance,
                   struct rota_store_claimed claimed);

/* Name a shard as dead, just as it is now. */
void store_name_dead(struct rota_store_session *session, uint32_t shard,
                     struct rota_lease_dead *dead, struct rota_store_request *request);
