#include "core/work/job/durability.h"

#include <stddef.h>

const char *const rota_durability_names[] = {"journal", "store", "memory", NULL};
