/* connector_news: letters from the socket thread to the consumer. */
#pragma once

#include "io/mailbox.h"
#include "io/net/zmq.h"

struct rota_connector;
struct rota_connector_peer;

/* What the consumer receives about one session: its begin and its end. Allocated with the
 * session, so that the end can always be reported. */
struct rota_connector_news {
    struct rota_letter up, down;
    struct rota_connector *connector;
    struct rota_connector_peer *peer; /* a reference */
    uint64_t stamp, session, epoch;
    struct rota_error why;
};

/* A session begins: reserve a place and the letters about it. NULL when there is none. */
struct rota_connector_news *rota_connector_news_new(struct rota_connector *connector,
                                                    struct rota_connector_peer *peer);
void rota_connector_news_tell_up(struct rota_connector_news *news);
void rota_connector_news_tell_down(struct rota_connector_news *news, const struct rota_error *why);
void rota_connector_news_tell_retry(struct rota_connector *connector, const struct rota_error *why,
                                    rota_time wait);
void rota_connector_news_tell_room(struct rota_connector_peer *peer);
/* Socket's: the turn is over, post its letters to the consumer. */
void rota_connector_news_tell_all(struct rota_connector *connector);

/* Pass a message to its handler; takes it. False when there is no memory. */
bool rota_connector_news_dispatch(struct rota_connector *connector,
                                  struct rota_connector_peer *peer, struct rota_str type,
                                  struct rota_str body, struct rota_zmq_message *message);

/* Whether the consumer is slow; it posts `resume` when it has caught up. */
bool rota_connector_news_is_behind(struct rota_connector *connector);
