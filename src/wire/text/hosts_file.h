/* hosts_file: a list of hosts as text, one host per line.
 *
 *     # ADDRESS [weight=W] [zone=Z] [start_at=T] [stop_at=T] [draining]
 *     10.0.0.1:7000 zone=east
 *     10.0.0.2:7000 zone=west weight=1.5   # a larger machine
 *     10.0.0.3:7000 start_at=2026-01-31T12:00:00Z draining=false
 *
 * W is a decimal number from 0.01 to 1000 with at most three decimals; T is a timestamp as
 * rota_time_parse() reads it, after 1970. A comment is a whole line or starts after a blank. Lines
 * end with LF or CRLF. An address has no comma, and neither an address nor a zone has a '#' or a
 * character that can't be seen.
 *
 * The reader is strict: it rejects what it does not understand, with the line's number, so that
 * a typo never changes the membership. */
#pragma once

#include <rota/experimental/host.h>

enum {
    ROTA_HOSTS_TEXT_MAX = 16 << 20, /* bytes of a file */
    ROTA_HOSTS_LINE_MAX = 4096,     /* bytes of a line, without its end */
    ROTA_HOSTS_MAX = ROTA_RING_HOSTS_MAX,
};

struct rota_hosts {
    struct rota_host *hosts; /* in the order of the file; weights are never 0 */
    size_t n_hosts;
    char *text; /* what the hosts' strings point into */
};

/* Read a file's text; `file` is its name in messages, which begin with "FILE:LINE: ". An empty
 * list is not an error. Fills `*hosts`; rota_hosts_file_deinit() ends it. Any thread. */
enum rota_code rota_hosts_file_parse(struct rota_str text, const char *file,
                                     struct rota_hosts *hosts, struct rota_error *error);

void rota_hosts_file_deinit(struct rota_hosts *hosts);

/* Parse a weight as in the file; false if it is invalid. Any thread. */
bool rota_hosts_file_parse_weight(const char *text, uint32_t *weight);
