#include "io/log/sync.h"

#include "base/quote.h"
#include "io/log/sync_inside.h"

#include <ctype.h>
#include <stdio.h>

/* Which engine a URL is for. Of a URL that can't be read nothing is repeated: it may
 * have a password. */
static enum rota_code find_engine(const char *url, const struct rota_sync_engine **engine,
                                  struct rota_error *error)
{
    static const struct {
        const char *scheme;
        const struct rota_sync_engine *engine;
    } schemes[] = {
        {"sqlite:", &rota_sync_sql},
        {"postgres://", &rota_sync_sql},
        {"postgresql://", &rota_sync_sql},
        {"kafka://", &rota_sync_kafka},
    };
    if (!url || !url[0])
        return rota_error_set(error, ROTA_ERR_INVALID, "a group needs the URL of its log");
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (rota_str_has_prefix(rota_str(url), rota_str(schemes[i].scheme))) {
            *engine = schemes[i].engine;
            return ROTA_OK;
        }
    if (rota_str_has_prefix(rota_str(url), rota_str("mysql:")))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "the log of a group cannot be in MariaDB, which has no notifications: "
            "use sqlite:, postgres:// or kafka://");
    return rota_error_set(
        error, ROTA_ERR_INVALID,
        "the URL of a group's log must start with sqlite:, postgres:// or kafka://");
}

static enum rota_code check_name(const char *name, struct rota_error *error)
{
    size_t size = name ? strlen(name) : 0;
    char quoted[ROTA_QUOTE_MAX];
    if (size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "a group needs a name");
    if (size > ROTA_SYNC_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the name of a group has %zu bytes; at most %d are allowed", size,
                              ROTA_SYNC_NAME_MAX);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        if (!(c < 0x80 && isalnum(c)) && !strchr("._-", c))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "%s is not the name of a group: letters, digits, '.', '_' or '-'",
                                  rota_quote(rota_str(name), quoted));
    }
    return ROTA_OK;
}

static enum rota_code check_times(struct rota_sync_options *options, struct rota_error *error)
{
    char text[ROTA_TIME_TEXT_MAX];
    if (options->session == 0)
        options->session = ROTA_SYNC_SESSION;
    if (options->session < ROTA_SYNC_SESSION_MIN || options->session > ROTA_SYNC_SESSION_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the session of a group must last from 1 s to 5 min, not %s",
                              options->session < 0 ? "a negative duration"
                                                   : rota_span_format(options->session, text));
    if (options->ok_every == 0)
        options->ok_every = options->session / 6;
    if (options->ok_every < ROTA_MSEC || options->ok_every > options->session / 2)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "the heartbeat interval of a group must be from 1 ms to half a session");
    return ROTA_OK;
}

enum rota_code rota_sync_open(struct uv_loop_s *loop, const struct rota_sync_options *options,
                              struct rota_sync **sync, struct rota_error *error)
{
    struct rota_sync_options checked = *options;
    const struct rota_sync_engine *engine = NULL;
    enum rota_code code = find_engine(checked.url, &engine, error);
    if (!code)
        code = check_name(checked.name, error);
    if (!code)
        code = check_times(&checked, error);
    return code ? code : engine->open(loop, &checked, sync, error);
}

void rota_sync_close(struct rota_sync *sync, void (*on_closed)(void *data), void *data)
{
    if (sync)
        sync->engine->close(sync, on_closed, data);
}

void rota_sync_read(struct rota_sync *sync, uint64_t offset)
{
    sync->engine->read(sync, offset);
}

enum rota_code rota_sync_append(struct rota_sync *sync, uint64_t number, struct rota_str bytes,
                                struct rota_error *error)
{
    if (bytes.size > ROTA_SYNC_RECORD_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the record has %zu bytes; at most %d are allowed", bytes.size,
                              ROTA_SYNC_RECORD_MAX);
    return sync->engine->append(sync, number, bytes, error);
}

void rota_sync_join(struct rota_sync *sync, struct rota_str line)
{
    if (line.size > ROTA_SYNC_LINE_MAX)
        line.size = ROTA_SYNC_LINE_MAX;
    sync->engine->join(sync, line);
}

void rota_sync_leave(struct rota_sync *sync)
{
    sync->engine->leave(sync);
}

void rota_sync_trim(struct rota_sync *sync, uint64_t offset)
{
    sync->engine->trim(sync, offset);
}

const char *rota_sync_name(const struct rota_sync *sync)
{
    return sync->name;
}

const char *rota_sync_trouble(const struct rota_sync *sync)
{
    return sync->trouble.text[0] ? sync->trouble.text : NULL;
}
