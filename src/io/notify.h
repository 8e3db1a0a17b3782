/* notify: tell the service manager that has started us how we are.
 *
 * A datagram to the socket that NOTIFY_SOCKET names, as systemd's sd_notify does; without that
 * variable nobody asked, and nothing happens. */
#pragma once

#include <rota/time.h>

/* Send assignments, "READY=1", with newlines between them. Waits a second at most for a manager
 * that is behind with reading; whether it hears is not our matter. */
void rota_notify(const char *text);

/* WATCHDOG=1, without waiting: there will be another. */
void rota_notify_alive(void);

/* In what span WATCHDOG=1 has to come again and again (WATCHDOG_USEC); 0: nobody waits for it. */
rota_time rota_notify_watchdog(void);
