/* All headers whose interface is promised (docs/compatibility.md). <rota/experimental/rota.h> adds
 * the others, which may change with every release. */
#pragma once

#include <rota/error.h>
#include <rota/group.h>
#include <rota/log.h>
#include <rota/metrics.h>
#include <rota/queue.h>
#include <rota/ring.h>
#include <rota/rpc.h>
#include <rota/server.h>
#include <rota/service_client.h>
#include <rota/service_server.h>
#include <rota/space.h>
#include <rota/store.h>
#include <rota/str.h>
#include <rota/time.h>
#include <rota/tls.h>
