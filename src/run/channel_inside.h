/* What channel_wait.c needs of channel.c. */
#pragma once

#include <rota/channel.h>

struct uv_loop_s *rota_channel_loop(const struct rota_channel *channel);
