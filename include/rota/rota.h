/* All of Rota's public API. */
#pragma once

#include <rota/balancer.h>
#include <rota/channel.h>
#include <rota/config.h>
#include <rota/error.h>
#include <rota/gradual.h>
#include <rota/host.h>
#include <rota/members.h>
#include <rota/partition.h>
#include <rota/picker.h>
#include <rota/plan.h>
#include <rota/random.h>
#include <rota/ring.h>
#include <rota/route.h>
#include <rota/rpc.h>
#include <rota/server.h>
#include <rota/shard.h>
#include <rota/shards.h>
#include <rota/str.h>
#include <rota/time.h>
