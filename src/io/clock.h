/* The clocks. Only drivers read them; pure code gets the time as an argument. */
#pragma once

#include <rota/time.h>

/* Time since 1970, the wall clock. It may jump. Any thread. */
rota_time rota_clock_wall(void);

/* Time since an arbitrary instant before the process began; it never goes back. Any thread. */
rota_time rota_clock_mono(void);

/* The same, but it also counts the time in which the machine slept. Any thread. */
rota_time rota_clock_boot(void);
