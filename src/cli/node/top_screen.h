/* top_screen: the terminal, taken over to draw on and given back as it was.
 *
 * Taken over it shows another page, without a cursor, and hands over each key as it is typed.
 * Interrupts still come as signals. Giving it back twice does no harm. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <termios.h>

struct rota_top_screen_terminal {
    struct termios before;
    bool is_taken;
};

/* False: standard input or output is no terminal, or not one that can be drawn on. */
bool rota_top_screen_is_there(void);

bool rota_top_screen_take(struct rota_top_screen_terminal *terminal);
void rota_top_screen_give_back(struct rota_top_screen_terminal *terminal);

/* All of it, or false: the terminal is gone. */
bool rota_top_screen_write(struct rota_str bytes);
