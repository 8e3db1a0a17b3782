/* container: from a member to the struct that it is in. */
#pragma once

#include <stddef.h>

#define ROTA_CONTAINER(pointer, type, member)                                                      \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
