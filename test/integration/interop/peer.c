#include "peer.h"

#include <rota/tls.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rota_tls *read_tls(const char *directory, bool is_server)
{
    char ca[1024], certificate[1024], key[1024];
    snprintf(ca, sizeof ca, "%s/ca.pem", directory);
    snprintf(certificate, sizeof certificate, "%s/cert.pem", directory);
    snprintf(key, sizeof key, "%s/key.pem", directory);
    struct rota_tls_options server = {.certificate_file = certificate, .key_file = key};
    struct rota_tls_options client = {.ca_file = ca};
    struct rota_tls *tls = NULL;
    struct rota_error error;
    if (is_server ? rota_tls_server_new(&server, &tls, &error)
                  : rota_tls_client_new(&client, &tls, &error)) {
        fprintf(stderr, "peer: %s\n", error.text);
        exit(2);
    }
    return tls;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(uv_loop_t *loop, const char *address, struct rota_tls *tls, char **what);
    } commands[] = {{"serve", peer_serve}, {"check", peer_check}, {"survive", peer_survive}};
    uv_loop_t loop;
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; argc > 3 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        struct rota_tls *tls = strcmp(argv[3], "-") == 0 ? NULL : read_tls(argv[3], i == 0);
        uv_loop_init(&loop);
        int status = commands[i].run(&loop, argv[2], tls, argv + 4);
        uv_run(&loop, UV_RUN_DEFAULT);
        rota_tls_free(tls);
        if (uv_loop_close(&loop) != 0) {
            fprintf(stderr, "peer: something is still open\n");
            return 2;
        }
        return status != 0;
    }
    fprintf(stderr, "usage: peer serve|check|survive ADDRESS DIRECTORY|- [WHAT...]\n");
    return 2;
}
