/* names: what the numbers of some enums are called, by their number and with a NULL
 * behind them, as tables of options and settings take them. */
#pragma once

extern const char *const rota_task_type_names[];   /* enum rota_task_type */
extern const char *const rota_spread_mode_names[]; /* enum rota_spread_mode */
