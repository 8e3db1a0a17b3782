/* Network addresses as people write them: "host:port", "10.0.0.7:80",
 * "[::1]:80". */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    ROTA_ADDRESS_HOST_MAX = 256, /* bytes of a host, with its NUL */
    ROTA_ADDRESS_TEXT_MAX = ROTA_ADDRESS_HOST_MAX + 8,
};

struct rota_address {
    char host[ROTA_ADDRESS_HOST_MAX]; /* a name, or an IP address without brackets */
    char port_text[6];
    uint16_t port;
};

/* Parse "host:port". An IPv6 address must be in brackets. Any thread. */
enum rota_code rota_address_parse(const char *text, struct rota_address *address,
                                  struct rota_error *error);

/* The address itself when the host is an IP address; false when it is a name that has to be
 * resolved. Any thread. */
bool rota_address_resolve(const struct rota_address *address, struct sockaddr_storage *resolved);

/* Does the text mean all addresses of a machine, 0.0.0.0 or ::, to which no other machine can
 * connect? Any thread. */
bool rota_address_is_any(const char *text);

/* Why a name could not be looked up; `status` is that of uv_getaddrinfo(). Any thread. */
const char *rota_address_lookup_error(int status);

/* What to do when an address can't be listened on; empty when there is nothing to say. */
const char *rota_address_help(int error_number);

/* Write an IPv4 or IPv6 address with its port. Returns `text`. Any thread. */
char *rota_address_format(const struct sockaddr *address, char text[ROTA_ADDRESS_TEXT_MAX]);

/* What counts as one peer: an IPv4 address, or the first half of an IPv6 address. */
struct rota_peer_key {
    uint8_t size;
    char bytes[8];
};
struct rota_peer_key rota_address_peer(const struct sockaddr *address);

static inline struct rota_str rota_peer_key_str(const struct rota_peer_key *key)
{
    return rota_str_of(key->bytes, key->size);
}

/* Does it lead to this machine alone: 127.0.0.0/8 or ::1? Any thread. */
bool rota_address_is_loopback(const struct sockaddr *address);
