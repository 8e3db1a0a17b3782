/* notify: report our state to the service manager that has started us.
 *
 * A datagram to the socket that NOTIFY_SOCKET names, as systemd's sd_notify does; without that
 * variable nothing happens. */
#pragma once

#include <rota/time.h>

/* Send assignments, "READY=1", with newlines between them. Waits at most a second for a manager
 * that reads slowly; errors are ignored. */
void rota_notify(const char *text);

/* WATCHDOG=1, without waiting: there will be another. */
void rota_notify_alive(void);

/* The interval within which WATCHDOG=1 has to be repeated (WATCHDOG_USEC); 0: not needed. */
rota_time rota_notify_watchdog(void);
