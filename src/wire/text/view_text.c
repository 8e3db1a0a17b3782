#include "wire/text/view_text.h"

#include "base/error_at.h"
#include "base/quote.h"

/* --- reading --- */

enum { PLAIN = 1, REFUSALS, KEYED }; /* versions */

static unsigned version_of(const struct rota_view *view)
{
    return view->n_shards == 0 ? KEYED : view->refusals.size > 0 ? REFUSALS : PLAIN;
}

struct reader {
    struct rota_str rest; /* of the text */
    struct rota_str line; /* the rest of the current line */
    size_t number;        /* of the line, from 1 */
    struct rota_view *view;
    struct rota_error *error;
    uint64_t version;
};

static enum rota_code reject_line(const struct reader *reader, enum rota_code code,
                                  const char *what)
{
    return rota_error_set_at(reader->error, code, "view", reader->number, "%s", what);
}

static enum rota_code next_line(struct reader *reader)
{
    const char *end = reader->rest.size ? memchr(reader->rest.data, '\n', reader->rest.size) : NULL;
    reader->number++;
    if (!end)
        return reject_line(reader, ROTA_ERR_INVALID, "the last line is missing");
    size_t size = (size_t)(end - reader->rest.data);
    reader->line = rota_str_of(reader->rest.data, size);
    reader->rest = rota_str_of(end + 1, reader->rest.size - size - 1);
    return ROTA_OK;
}

/* The line begins with this word and a space; skip them. */
static bool take_word(struct reader *reader, const char *word)
{
    size_t size = strlen(word);
    if (reader->line.size < size + 1 || memcmp(reader->line.data, word, size) != 0 ||
        reader->line.data[size] != ' ')
        return false;
    reader->line = rota_str_of(reader->line.data + size + 1, reader->line.size - size - 1);
    return true;
}

/* A decimal number, and the space after it unless it is the last of the line. */
static bool take_number(struct reader *reader, uint64_t max, bool is_last, uint64_t *number)
{
    struct rota_str line = reader->line;
    uint64_t value = 0;
    size_t n = 0;
    for (; n < line.size && line.data[n] >= '0' && line.data[n] <= '9'; n++) {
        uint64_t digit = (uint64_t)(line.data[n] - '0');
        if (value > (max - digit) / 10 || digit > max)
            return false;
        value = value * 10 + digit;
    }
    if (n == 0 || (n > 1 && line.data[0] == '0'))
        return false;
    if (is_last ? n != line.size : n == line.size || line.data[n] != ' ')
        return false;
    n += !is_last;
    reader->line = rota_str_of(line.data + n, line.size - n);
    *number = value;
    return true;
}

static enum rota_code read_number(struct reader *reader, const char *word, uint64_t max,
                                  uint64_t *number)
{
    enum rota_code code = next_line(reader);
    if (!code && (!take_word(reader, word) || !take_number(reader, max, true, number)))
        return rota_error_set_at(reader->error, ROTA_ERR_INVALID, "view", reader->number,
                                 "expected \"%s\" and a number in range", word);
    return code;
}

static enum rota_code read_engine(struct reader *reader, const char *word,
                                  enum rota_view_engine *engine)
{
    enum rota_code code = next_line(reader);
    if (!code && (!take_word(reader, word) || !rota_view_engine_parse(reader->line, engine)))
        return rota_error_set_at(reader->error, ROTA_ERR_INVALID, "view", reader->number,
                                 "expected \"%s\" and ring, static, lease or group", word);
    return code;
}

static enum rota_code read_phase(struct reader *reader)
{
    enum rota_code code = next_line(reader);
    if (!code &&
        (!take_word(reader, "phase") || !rota_view_phase_parse(reader->line, &reader->view->phase)))
        return reject_line(reader, ROTA_ERR_INVALID,
                           "expected \"phase\" and stable, shadow, stopping or starting");
    return code;
}

static enum rota_code read_head(struct reader *reader)
{
    uint64_t n_shards;
    struct rota_view *view = reader->view;
    enum rota_code code = next_line(reader);
    if (!code && (!take_word(reader, "rota-view") ||
                  !take_number(reader, UINT32_MAX, true, &reader->version) || reader->version < 1))
        code = reject_line(reader, ROTA_ERR_INVALID, "expected \"rota-view 1\"");
    if (!code && reader->version > ROTA_VIEW_TEXT_VERSION)
        code = reject_line(reader, ROTA_ERR_INVALID, "it was written by a newer version of Rota");
    if (!code)
        code = read_number(reader, "number", ROTA_VIEW_NUMBER_MAX, &view->number);
    if (!code)
        code = read_number(reader, "base", ROTA_VIEW_NUMBER_MAX, &view->base);
    if (!code)
        code = read_engine(reader, "engine", &view->engine);
    if (!code)
        code = read_engine(reader, "to", &view->to);
    if (!code)
        code = read_phase(reader);
    if (!code)
        code = read_number(reader, "shards", ROTA_VIEW_SHARDS_MAX, &n_shards);
    if (!code)
        view->n_shards = (uint32_t)n_shards;
    return code;
}

static enum rota_code read_name(struct reader *reader, struct rota_str *name)
{
    if (!rota_view_name_is_valid(reader->line))
        return reject_line(reader, ROTA_ERR_INVALID,
                           "the name is missing, too long or has control characters");
    *name = rota_arena_copy(&reader->view->arena, reader->line);
    return name->data ? ROTA_OK
                      : reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for a name");
}

static enum rota_code read_seat(struct reader *reader)
{
    struct rota_str seat;
    if (reader->view->seats.size == ROTA_VIEW_SEATS_MAX)
        return reject_line(reader, ROTA_ERR_LIMIT, "too many seats");
    enum rota_code code = read_name(reader, &seat);
    if (!code && !rota_vector_push(&reader->view->seats, seat))
        code = reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for a seat");
    return code;
}

static bool take_span(struct reader *reader, struct rota_view_span *span)
{
    return take_number(reader, ROTA_VIEW_NUMBER_MAX, false, &span->from) &&
           take_number(reader, ROTA_VIEW_NUMBER_MAX, false, &span->to);
}

/* The zone, after the name, whose size comes first. Leaves the name. */
static enum rota_code read_zone(struct reader *reader, struct rota_str *zone)
{
    uint64_t size;
    if (!take_number(reader, ROTA_VIEW_NAME_MAX, false, &size) || size > reader->line.size ||
        (size < reader->line.size && reader->line.data[size] != ' ') ||
        size + 1 == reader->line.size)
        return reject_line(reader, ROTA_ERR_INVALID,
                           "expected \"member\" FROM TO WEIGHT INSTANCE SIZE NODE ZONE");
    struct rota_str line = reader->line;
    if (size < line.size)
        *zone = rota_str_of(line.data + size + 1, line.size - size - 1);
    *zone = rota_arena_copy(&reader->view->arena, *zone);
    reader->line = rota_str_of(line.data, size);
    return zone->data ? ROTA_OK
                      : reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for a zone");
}

static enum rota_code read_member(struct reader *reader)
{
    struct rota_view_member member = {0};
    uint64_t weight;
    if (reader->view->members.size == ROTA_VIEW_MEMBERS_MAX)
        return reject_line(reader, ROTA_ERR_LIMIT, "too many members");
    if (!take_span(reader, &member.span) ||
        !take_number(reader, ROTA_VIEW_WEIGHT_MAX, false, &weight) ||
        !take_number(reader, UINT64_MAX, false, &member.instance))
        return reject_line(reader, ROTA_ERR_INVALID,
                           "expected \"member\" FROM TO WEIGHT INSTANCE NODE");
    member.weight = (uint32_t)weight;
    enum rota_code code = reader->version == KEYED ? read_zone(reader, &member.zone) : ROTA_OK;
    if (!code)
        code = read_name(reader, &member.name);
    if (!code && !rota_vector_push(&reader->view->members, member))
        code = reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for a member");
    return code;
}

static enum rota_code read_pin(struct reader *reader)
{
    struct rota_view_pin pin = {0};
    uint64_t shard;
    if (reader->view->pins.size == ROTA_VIEW_PINS_MAX)
        return reject_line(reader, ROTA_ERR_LIMIT, "too many pins");
    if (!take_span(reader, &pin.span) || !take_number(reader, ROTA_VIEW_SHARDS_MAX, false, &shard))
        return reject_line(reader, ROTA_ERR_INVALID, "expected \"pin\" FROM TO SHARD NODE");
    pin.shard = (uint32_t)shard;
    enum rota_code code = read_name(reader, &pin.name);
    if (!code && !rota_vector_push(&reader->view->pins, pin))
        code = reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for a pin");
    return code;
}

static enum rota_code read_refusal(struct reader *reader)
{
    struct rota_view_refusal refusal = {0};
    uint64_t shard, size;
    if (reader->view->refusals.size == ROTA_VIEW_REFUSALS_MAX)
        return reject_line(reader, ROTA_ERR_LIMIT, "too many refusals");
    if (!take_span(reader, &refusal.span) ||
        !take_number(reader, ROTA_VIEW_SHARDS_MAX, false, &shard) ||
        !take_number(reader, ROTA_VIEW_NAME_MAX, false, &size) || size + 1 >= reader->line.size ||
        reader->line.data[size] != ' ')
        return reject_line(reader, ROTA_ERR_INVALID,
                           "expected \"refusal\" FROM TO SHARD SIZE NODE REASON");
    refusal.shard = (uint32_t)shard;
    struct rota_str line = reader->line;
    refusal.why = rota_arena_copy(&reader->view->arena,
                                  rota_str_of(line.data + size + 1, line.size - size - 1));
    reader->line = rota_str_of(line.data, size);
    enum rota_code code = read_name(reader, &refusal.name);
    if (!code && (!refusal.why.data || !rota_vector_push(&reader->view->refusals, refusal)))
        code = reject_line(reader, ROTA_ERR_NO_MEMORY, "not enough memory for a refusal");
    return code;
}

/* Seats, members, pins, refusals, in this order, and the end. */
static enum rota_code read_lists(struct reader *reader)
{
    static const struct {
        const char *word;
        enum rota_code (*read)(struct reader *reader);
    } LISTS[] = {
        {"seat", read_seat}, {"member", read_member}, {"pin", read_pin}, {"refusal", read_refusal}};
    size_t list = 0, n_lists = reader->version == REFUSALS ? 4 : 3;
    enum rota_code code = next_line(reader);
    while (!code && !rota_str_is_equal(reader->line, rota_str("end"))) {
        while (list < n_lists && !take_word(reader, LISTS[list].word))
            list++;
        if (list == n_lists)
            return reject_line(
                reader, ROTA_ERR_INVALID,
                "expected seats, members, pins and refusals, in this order, or the end");
        code = LISTS[list].read(reader);
        if (!code)
            code = next_line(reader);
    }
    if (!code && reader->rest.size > 0)
        code = reject_line(reader, ROTA_ERR_INVALID, "unexpected text after the end");
    if (!code && reader->version != version_of(reader->view))
        code = reject_line(reader, ROTA_ERR_INVALID,
                           "version 2 is for views with refusals, version 3 for keyed spaces, and "
                           "only for them");
    return code;
}

enum rota_code rota_view_text_parse(struct rota_str text, struct rota_view *view,
                                    struct rota_error *error)
{
    struct rota_view made = {0};
    struct reader reader = {.rest = text, .view = &made, .error = error};
    if (text.size > ROTA_VIEW_TEXT_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "view: the text has %zu bytes; at most %d are allowed", text.size,
                              ROTA_VIEW_TEXT_MAX);
    enum rota_code code = read_head(&reader);
    if (!code)
        code = read_lists(&reader);
    if (!code)
        code = rota_view_check(&made, error);
    if (code)
        rota_view_deinit(&made);
    else
        *view = made;
    return code;
}

/* --- writing --- */

static void format_span(struct rota_view_span span, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "%llu %llu ", (unsigned long long)span.from,
                      (unsigned long long)span.to);
}

static void format_name(struct rota_str name, struct rota_buffer *buffer)
{
    rota_buffer_append_str(buffer, name);
    rota_buffer_append_char(buffer, '\n');
}

void rota_view_text_format(const struct rota_view *view, struct rota_buffer *buffer)
{
    rota_buffer_print(
        buffer, "rota-view %u\nnumber %llu\nbase %llu\nengine %s\nto %s\nphase %s\nshards %u\n",
        version_of(view), (unsigned long long)view->number, (unsigned long long)view->base,
        rota_view_engine_name(view->engine), rota_view_engine_name(view->to),
        rota_view_phase_name(view->phase), view->n_shards);
    for (size_t i = 0; i < view->seats.size; i++) {
        rota_buffer_append_text(buffer, "seat ");
        format_name(view->seats.items[i], buffer);
    }
    for (size_t i = 0; i < view->members.size; i++) {
        const struct rota_view_member *member = &view->members.items[i];
        rota_buffer_append_text(buffer, "member ");
        format_span(member->span, buffer);
        rota_buffer_print(buffer, "%u %llu ", member->weight, (unsigned long long)member->instance);
        if (view->n_shards == 0)
            rota_buffer_print(buffer, "%zu ", member->name.size);
        rota_buffer_append_str(buffer, member->name);
        if (member->zone.size > 0)
            rota_buffer_append_char(buffer, ' ');
        format_name(member->zone, buffer);
    }
    for (size_t i = 0; i < view->pins.size; i++) {
        const struct rota_view_pin *pin = &view->pins.items[i];
        rota_buffer_append_text(buffer, "pin ");
        format_span(pin->span, buffer);
        rota_buffer_print(buffer, "%u ", pin->shard);
        format_name(pin->name, buffer);
    }
    for (size_t i = 0; i < view->refusals.size; i++) {
        const struct rota_view_refusal *refusal = &view->refusals.items[i];
        rota_buffer_append_text(buffer, "refusal ");
        format_span(refusal->span, buffer);
        rota_buffer_print(buffer, "%u %zu ", refusal->shard, refusal->name.size);
        rota_buffer_append_str(buffer, refusal->name);
        rota_buffer_append_char(buffer, ' ');
        format_name(refusal->why, buffer);
    }
    rota_buffer_append_text(buffer, "end\n");
}
