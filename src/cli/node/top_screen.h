/* top_screen: takes over the terminal to draw on it, and restores it.
 *
 * While taken over it shows the alternate screen without a cursor, and delivers each key as it is
 * typed. Interrupts still arrive as signals. Restoring it twice does no harm. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <termios.h>

struct rota_top_screen_terminal {
    struct termios before;
    bool is_taken;
};

/* False: standard input or output is not a terminal, or can't be drawn on. */
bool rota_top_screen_is_there(void);

bool rota_top_screen_enter(struct rota_top_screen_terminal *terminal);
void rota_top_screen_leave(struct rota_top_screen_terminal *terminal);

/* Write all of it; false: the terminal is gone. */
bool rota_top_screen_write(struct rota_str bytes);
