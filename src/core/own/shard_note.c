#include "core/own/shard_note.h"

#include "base/percent.h"

static bool is_plain(char c)
{
    return c > ' ' && c <= '~' && c != '/' && c != '%';
}

static char *escape_name(char *to, struct rota_str name)
{
    for (size_t i = 0; i < name.size; i++)
        if (is_plain(name.data[i]))
            *to++ = name.data[i];
        else
            to = rota_percent_encode(to, (unsigned char)name.data[i]);
    return to;
}

static bool is_name(struct rota_str name)
{
    return name.size > 0 && name.size <= ROTA_SHARD_NAME_MAX;
}

struct rota_str rota_shard_note_format(struct rota_str space, struct rota_str shard,
                                       char text[ROTA_SHARD_NOTE_MAX])
{
    if (!is_name(space) || !is_name(shard))
        return rota_str_of(text, 0);
    char *end = escape_name(text, space);
    *end++ = '/';
    end = escape_name(end, shard);
    return rota_str_of(text, (size_t)(end - text));
}

/* Read one name; `room` has ROTA_SHARD_NAME_MAX bytes for it. */
static bool unescape_name(struct rota_str text, char *room, struct rota_str *name)
{
    size_t n = 0;
    bool is_escaped = false;
    for (size_t i = 0; i < text.size; i++) {
        bool is_one = text.data[i] == '%';
        int c = rota_percent_decode(text, &i);
        if (n == ROTA_SHARD_NAME_MAX || c < 0 || (!is_one && !is_plain((char)c)))
            return false;
        is_escaped |= is_one;
        room[n++] = (char)c;
    }
    *name = is_escaped ? rota_str_of(room, n) : text;
    return n > 0;
}

/* A name without escapes, as nearly all are. */
static bool is_plain_name(struct rota_str text)
{
    bool is_fine = is_name(text);
    for (size_t i = 0; i < text.size; i++)
        is_fine &= is_plain(text.data[i]);
    return is_fine;
}

bool rota_shard_note_parse(struct rota_str text, char room[ROTA_SHARD_NOTE_NAMES_MAX],
                           struct rota_str *space, struct rota_str *shard)
{
    const char *slash = text.size > 0 ? memchr(text.data, '/', text.size) : NULL;
    struct rota_str names[2];
    if (!slash)
        return false;
    size_t size = (size_t)(slash - text.data);
    names[0] = rota_str_of(text.data, size);
    names[1] = rota_str_of(slash + 1, text.size - size - 1);
    if ((!is_plain_name(names[0]) || !is_plain_name(names[1])) &&
        (!unescape_name(names[0], room, &names[0]) ||
         !unescape_name(names[1], room + ROTA_SHARD_NAME_MAX, &names[1])))
        return false;
    *space = names[0];
    *shard = names[1];
    return true;
}
