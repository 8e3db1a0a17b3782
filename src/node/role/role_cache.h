/* The role "cache": collections of values, served in shards.
 *
 * Each section [[cache]] is a collection. The node takes its part of the collection's shards in
 * its zone, by lease, and answers rota.v1.Cache/Get for their keys at its own address. It also
 * answers rota.v1.Cache/Relay for every key, through the client of <rota/experimental/get.h>, so
 * that a plain client needs one address and no map. A call names its collection by the metadata
 * ROTA_GET_COLLECTION; without, the first is meant. */
#pragma once

#include "node/node_settings.h"

#include <rota/experimental/get.h>
