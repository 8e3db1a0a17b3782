/* servers: the brokers of `bench work`, ours and the peers', each started as one would to have
 * jobs in memory, on disk some time later, or on disk when that is said. */
#pragma once

#include "../process.h"

#include <stddef.h>

enum servers_system { ROTA, REDIS, BEANSTALKD, GEARMAND, NATS, N_SYSTEMS };

/* What is safe when a job is acknowledged. */
enum servers_durability { MEMORY, LATER, FSYNC, N_DURABILITIES };

struct servers_peer {
    const char *name;
    enum servers_system system;
    enum servers_durability durability;
    const char *options; /* of its command line; of NATS, the stream's storage */
    bool is_polling;     /* of Rota: workers poll over gRPC, and do not connect over ZeroMQ */
};

struct servers_server {
    const struct servers_peer *peer;
    struct process process;
    char directory[64];
    char addresses[2][64]; /* for the client's command line */
    int n_addresses;
};

const char *servers_program(enum servers_system system); /* the name of its client */
const char *servers_packages(enum servers_system system);
const char *servers_durability_name(enum servers_durability durability);
bool servers_has(enum servers_system system);

/* Start it with nothing; false when it does not answer. */
bool servers_start(struct servers_server *server, const struct servers_peer *peer);

/* Kill it and start it with what it has on disk; the seconds until it answers that it has
 * `n_jobs`, 0 when that is not so. */
double servers_restart(struct servers_server *server, size_t n_jobs);

/* Kill it, and remove what it has written. */
void servers_stop(struct servers_server *server);

/* Bytes of its memory that are in use. */
double servers_resident(const struct servers_server *server);
