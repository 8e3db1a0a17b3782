#include "cli/node/top_screen.h"

#include "cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

bool rota_top_screen_is_there(void)
{
    struct rota_terminal terminal = rota_terminal_look();
    return isatty(STDIN_FILENO) && terminal.is_terminal && terminal.is_redrawn;
}

bool rota_top_screen_write(struct rota_str bytes)
{
    while (bytes.size > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes.data, bytes.size);
        if (n > 0) {
            bytes = rota_str_of(bytes.data + n, bytes.size - (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};
            poll(&room, 1, 100);
        } else if (n == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

bool rota_top_screen_enter(struct rota_top_screen_terminal *terminal)
{
    struct termios own;
    if (terminal->is_taken)
        return true;
    if (tcgetattr(STDIN_FILENO, &terminal->before))
        return false;
    own = terminal->before;
    own.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    own.c_cc[VMIN] = 1;
    own.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &own))
        return false;
    terminal->is_taken = true;
    return rota_top_screen_write(rota_str("\033[?1049h\033[?25l"));
}

void rota_top_screen_leave(struct rota_top_screen_terminal *terminal)
{
    if (!terminal->is_taken)
        return;
    terminal->is_taken = false;
    rota_top_screen_write(rota_str("\033[0m\033[?25h\033[?1049l"));
    tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->before);
}
