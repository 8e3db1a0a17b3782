/* connector_keys: the address and the keys of a connector. */
#pragma once

#include "base/buffer.h"
#include "wire/text/keys_file.h"

#include <rota/error.h>

struct rota_connector;

struct rota_connector_keys {
    struct rota_buffer own_text, workers_text;
    struct rota_key public_key, secret_key, broker_key;
    struct rota_keys workers; /* a broker's */
    long long stamp[3];       /* of the file that they were read from */
    bool is_on;
};

/* Read the address and the keys, and reject an insecure combination. */
enum rota_code rota_connector_keys_open(struct rota_connector *connector, bool is_broker,
                                        struct rota_error *error);
void rota_connector_keys_close(struct rota_connector_keys *keys);
/* Socket's: answer authentication requests. */
void rota_connector_keys_judge(struct rota_connector *connector);
