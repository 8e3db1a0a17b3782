/* names: the names of some enums' values, indexed by value and terminated by NULL, as tables of
 * options and settings take them. */
#pragma once

extern const char *const rota_task_type_names[];   /* enum rota_task_type */
extern const char *const rota_spread_mode_names[]; /* enum rota_spread_mode */
