#include "io/net/address.h"

#include "base/quote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <uv.h>

static bool read_port(struct rota_str text, uint16_t *port)
{
    unsigned number = 0;
    if (text.size == 0 || text.size > 5)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        number = number * 10 + (unsigned)(text.data[i] - '0');
    }
    *port = (uint16_t)number;
    return number <= UINT16_MAX;
}

static enum rota_code reject_address(const char *text, const char *why, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    return rota_error_set(error, ROTA_ERR_INVALID, "address %s %s",
                          rota_quote(rota_str(text), quoted), why);
}

enum rota_code rota_address_parse(const char *text, struct rota_address *address,
                                  struct rota_error *error)
{
    const char *colon = strrchr(text, ':');
    struct rota_address read = {0};
    if (strstr(text, "://"))
        return reject_address(text, "is a URL; use HOST:PORT", error);
    if (!colon)
        return reject_address(text, "has no port; use HOST:PORT", error);

    struct rota_str host = rota_str_of(text, (size_t)(colon - text));
    struct rota_str port = rota_str(colon + 1);
    if (host.size >= 2 && host.data[0] == '[' && host.data[host.size - 1] == ']')
        host = rota_str_of(host.data + 1, host.size - 2);
    else if (memchr(host.data, ':', host.size))
        return reject_address(text, "needs brackets around its IPv6 address, as in [::1]:80",
                              error);

    if (host.size == 0)
        return reject_address(text, "has no host; use HOST:PORT", error);
    if (host.size >= sizeof read.host)
        return reject_address(text, "has a host name that is too long", error);
    if (!read_port(port, &read.port))
        return reject_address(text, "has a port that is not a number from 0 to 65535", error);
    memcpy(read.host, host.data, host.size);
    snprintf(read.port_text, sizeof read.port_text, "%u", read.port);
    *address = read;
    return ROTA_OK;
}

bool rota_address_resolve(const struct rota_address *address, struct sockaddr_storage *resolved)
{
    struct sockaddr_storage made = {0};
    if (uv_ip4_addr(address->host, address->port, (struct sockaddr_in *)&made) &&
        uv_ip6_addr(address->host, address->port, (struct sockaddr_in6 *)&made))
        return false;
    *resolved = made;
    return true;
}

const char *rota_address_lookup_error(int status)
{
    return status == UV_EAI_NONAME || status == UV_EAI_NODATA ? "there is no such host name"
                                                              : uv_strerror(status);
}

const char *rota_address_help(int error_number)
{
    switch (error_number) {
    case EADDRINUSE:
        return "; stop the process that uses it (`ss -ltnp` shows it), or choose another address";
    case EADDRNOTAVAIL:
        return "; this machine does not have that address (`ip address` shows those it has)";
    case EACCES:
        return "; ports below 1024 need root or CAP_NET_BIND_SERVICE";
    default:
        return "";
    }
}

bool rota_address_is_any(const char *text)
{
    struct rota_address address;
    struct sockaddr_storage resolved;
    if (rota_address_parse(text, &address, NULL) || !rota_address_resolve(&address, &resolved))
        return false;
    return strcmp(address.host, "0.0.0.0") == 0 ||
           strspn(address.host, "0:") == strlen(address.host);
}

char *rota_address_format(const struct sockaddr *address, char text[ROTA_ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        uv_ip6_name(v6, host, sizeof host);
        snprintf(text, ROTA_ADDRESS_TEXT_MAX, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        uv_ip4_name(v4, host, sizeof host);
        snprintf(text, ROTA_ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(v4->sin_port));
    } else {
        snprintf(text, ROTA_ADDRESS_TEXT_MAX, "?");
    }
    return text;
}

bool rota_address_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    if (address->sa_family != AF_INET6)
        return false;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

struct rota_peer_key rota_address_peer(const struct sockaddr *address)
{
    struct rota_peer_key key = {0};
    const void *from = NULL;
    if (address->sa_family == AF_INET) {
        from = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
        key.size = 4;
    } else if (address->sa_family == AF_INET6) {
        const struct in6_addr *six =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        bool is_four = IN6_IS_ADDR_V4MAPPED(six);
        from = is_four ? &six->s6_addr[12] : six->s6_addr;
        key.size = is_four ? 4 : 8;
    }
    if (from)
        memcpy(key.bytes, from, key.size);
    return key;
}
