/* Which caller may call which method of a server, by token and by certificate. */
#include <rota/server.h>
#include <rota/tls.h>

#include "certificate.h"
#include "echo.h"
#include "loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLERK = 1 << 0, BOSS = 1 << 1 };

struct fixture {
    struct rota_server *server;
    struct rota_tls *server_tls, *client_tls;
    unsigned n_calls;
    uint32_t roles; /* of the last caller, as its handler sees it */
    char actor[ROTA_SERVER_ACTOR_MAX];
};

static uint32_t identify(void *data, struct rota_server_call *call, char *actor)
{
    size_t n;
    const struct rota_metadata *metadata = rota_server_call_metadata(call, &n);
    struct rota_str token = {0};
    (void)data;
    rota_metadata_get(metadata, n, "authorization", &token);
    bool is_boss = rota_str_is_equal(token, rota_str("Bearer boss")) ||
                   rota_server_call_is_named(call, "the.boss.example");
    if (actor)
        snprintf(actor, ROTA_SERVER_ACTOR_MAX, "%s at %s", is_boss ? "boss" : "stranger",
                 rota_server_call_peer(call));
    return is_boss ? BOSS : 0;
}

static void on_call(void *data, struct rota_server_call *call)
{
    struct fixture *f = data;
    f->n_calls++;
    f->roles = rota_server_call_roles(call);
    rota_server_call_actor(call, f->actor);
    rota_server_call_reply(call, rota_str("done"));
}

static void open_server(struct fixture *f, struct rota_tls *tls)
{
    struct rota_error error;
    const struct rota_server_options options = {.identify = identify, .data = f, .tls = tls};
    const struct rota_server_method methods[] = {
        {.path = "/test.v1.Office/Look", .on_call = on_call, .data = f},
        {.path = "/test.v1.Office/Sign", .on_call = on_call, .data = f, .roles = BOSS},
        {.path = "/test.v1.Office/File", .on_call = on_call, .data = f, .roles = CLERK},
    };
    if (rota_server_open(&loop, &options, &f->server, &error) ||
        rota_server_listen(f->server, "127.0.0.1:0", &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rota_server_add(f->server, &methods[i], &error), ROTA_OK);
}

static enum rota_status ask(struct fixture *f, const char *method, const char *token,
                            struct rota_tls *tls)
{
    struct rota_channel *channel;
    struct rota_reply reply;
    struct rota_error error;
    const struct rota_channel_options options = {.token = token, .tls = tls};
    const struct rota_call_options call = {.method = rota_str(method)};
    if (rota_channel_open(&loop, rota_server_address(f->server, 0), &options, &channel, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rota_channel_wait(channel, &call, &reply, &error), ROTA_OK);
    enum rota_status status = reply.status;
    rota_reply_deinit(&reply);
    rota_channel_close(channel);
    return status;
}

static void close_server(struct fixture *f)
{
    rota_server_close(f->server);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void a_method_is_for_callers_that_have_one_of_its_roles(void **state)
{
    struct fixture f = {0};
    (void)state;
    open_server(&f, NULL);
    assert_int_equal(ask(&f, "/test.v1.Office/Look", NULL, NULL), ROTA_STATUS_OK);
    assert_int_equal(f.roles, 0);
    assert_memory_equal(f.actor, "stranger at 127.0.0.1:", 22);
    assert_int_equal(ask(&f, "/test.v1.Office/Sign", "boss", NULL), ROTA_STATUS_OK);
    assert_int_equal(f.roles, BOSS);
    assert_memory_equal(f.actor, "boss at 127.0.0.1:", 18);
    assert_int_equal(f.n_calls, 2);
    assert_int_equal(ask(&f, "/test.v1.Office/Sign", NULL, NULL), ROTA_STATUS_UNAUTHENTICATED);
    assert_int_equal(ask(&f, "/test.v1.Office/Sign", "bos", NULL), ROTA_STATUS_UNAUTHENTICATED);
    assert_int_equal(ask(&f, "/test.v1.Office/File", "boss", NULL), ROTA_STATUS_UNAUTHENTICATED);
    assert_int_equal(f.n_calls, 2); /* no handler has seen those */
    close_server(&f);
}

static void a_token_has_a_bound(void **state)
{
    struct fixture f = {0};
    char token[ROTA_CHANNEL_TOKEN_MAX + 2];
    struct rota_channel *channel;
    const struct rota_channel_options options = {.token = token};
    const struct rota_call_options call = {.method = rota_str("/test.v1.Office/Look")};
    (void)state;
    open_server(&f, NULL);
    memset(token, 'x', sizeof token);
    token[sizeof token - 1] = '\0';
    assert_int_equal(
        rota_channel_open(&loop, rota_server_address(f.server, 0), &options, &channel, NULL),
        ROTA_OK);
    assert_int_equal(rota_channel_call(channel, &call, NULL, NULL), ROTA_ERR_INVALID);
    token[ROTA_CHANNEL_TOKEN_MAX] = '\0'; /* it is read at each call */
    struct rota_reply reply;
    assert_int_equal(rota_channel_wait(channel, &call, &reply, NULL), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_OK);
    rota_reply_deinit(&reply);
    rota_channel_close(channel);
    close_server(&f);
}

/* A file of this test's, in a directory of its own. */
static const char *path_of(const char *name)
{
    static char directory[] = "/tmp/rota-roles-XXXXXX", paths[4][64];
    static bool is_made;
    static size_t n;
    if (!is_made && !mkdtemp(directory))
        fail_msg("%s: %s", directory, strerror(errno));
    is_made = true;
    char *path = paths[n++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static struct rota_tls *new_tls(bool is_server, const struct certificate *ca, const char *name,
                                const char *names)
{
    struct certificate_wish wish = {.name = name, .names = names, .issuer = ca};
    struct certificate made = certificate_make(&wish);
    struct rota_error error;
    struct rota_tls *tls;
    certificate_write(&made, path_of("cert"), path_of("key"));
    const struct rota_tls_options options = {
        .certificate_file = path_of("cert"), .key_file = path_of("key"), .ca_file = path_of("ca")};
    if (is_server ? rota_tls_server_new(&options, &tls, &error)
                  : rota_tls_client_new(&options, &tls, &error))
        fail_msg("%s", error.text);
    certificate_deinit(&made);
    return tls;
}

static void a_certificate_names_its_owner_exactly(void **state)
{
    static const struct {
        const char *name, *names;
        enum rota_status status;
    } CLIENTS[] = {
        {"the.boss.example", NULL, ROTA_STATUS_OK},
        {"someone", "DNS:other.example,DNS:the.boss.example", ROTA_STATUS_OK},
        {"the.boss.example.org", NULL, ROTA_STATUS_UNAUTHENTICATED},
        {"THE.BOSS.EXAMPLE", NULL, ROTA_STATUS_UNAUTHENTICATED},
        {"someone", "DNS:*.boss.example", ROTA_STATUS_UNAUTHENTICATED},
        {"someone", "email:the@boss.example", ROTA_STATUS_UNAUTHENTICATED},
    };
    struct fixture f = {0};
    struct certificate ca = certificate_make(&(struct certificate_wish){.name = "tests"});
    (void)state;
    certificate_write(&ca, path_of("ca"), NULL);
    f.server_tls = new_tls(true, &ca, "server", "DNS:localhost,IP:127.0.0.1");
    open_server(&f, f.server_tls);
    for (size_t i = 0; i < sizeof CLIENTS / sizeof *CLIENTS; i++) {
        f.client_tls = new_tls(false, &ca, CLIENTS[i].name, CLIENTS[i].names);
        assert_int_equal(ask(&f, "/test.v1.Office/Sign", NULL, f.client_tls), CLIENTS[i].status);
        rota_tls_free(f.client_tls);
    }
    close_server(&f);
    rota_tls_free(f.server_tls);
    certificate_deinit(&ca);
    unlink(path_of("ca"));
    unlink(path_of("cert"));
    unlink(path_of("key"));
    rmdir(path_of(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_method_is_for_callers_that_have_one_of_its_roles),
        TEST(a_token_has_a_bound),
        TEST(a_certificate_names_its_owner_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
