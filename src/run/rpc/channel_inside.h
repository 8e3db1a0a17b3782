/* What others in this folder need of channel.c. */
#pragma once

#include <rota/experimental/channel.h>

struct uv_loop_s *rota_channel_loop(const struct rota_channel *channel);

/* Whether the server has sent something on the current connection. */
bool rota_channel_is_heard(const struct rota_channel *channel);
