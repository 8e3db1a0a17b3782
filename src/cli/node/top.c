#include "cli/node/top.h"

#include "base/heap.h"

#include <stdio.h>
#include <string.h>

/* --- tables --- */

static const struct rota_top_column NODES[] = {
    {"NODE", "name", ROTA_TOP_TEXT, NULL},
    {"STATE", "state", ROTA_TOP_TEXT, NULL},
    {"ZONE", "zone", ROTA_TOP_TEXT, NULL},
    {"CPU", "cpu_ms", ROTA_TOP_CPU, "cpu"},
    {"MEMORY", "memory", ROTA_TOP_BYTES, NULL},
    {"JOBS", "jobs", ROTA_TOP_NUMBER, NULL},
    {"RUN", "running", ROTA_TOP_NUMBER, NULL},
    {"SHARDS", "shards", ROTA_TOP_NUMBER, NULL},
    {"CALLS/S", "calls_total", ROTA_TOP_RATE, "calls_per_s"},
    {"UP", "started_ms", ROTA_TOP_AGE, NULL},
    {"SEEN", "heard_ms", ROTA_TOP_AGE, NULL},
};

static const struct rota_top_column SPACES[] = {
    {"SPACE", "name", ROTA_TOP_TEXT, NULL},
    {"ENGINE", "engine", ROTA_TOP_TEXT, NULL},
    {"SHARDS", "n_shards", ROTA_TOP_NUMBER, NULL},
    {"OWNED", "n_owned", ROTA_TOP_NUMBER, NULL},
    {"MOVING", "n_moving", ROTA_TOP_NUMBER, NULL},
    {"VERSION", "version", ROTA_TOP_VALUE, NULL},
    {"MIGRATION", "migration.phase", ROTA_TOP_TEXT, "migration"},
};

static const struct rota_top_column QUEUES[] = {
    {"QUEUE", "name", ROTA_TOP_TEXT, NULL},
    {"PAUSED", "is_paused", ROTA_TOP_FLAG, NULL},
    {"WAITING", "n_waiting", ROTA_TOP_NUMBER, NULL},
    {"DELAYED", "n_delayed", ROTA_TOP_NUMBER, NULL},
    {"RUN", "n_running", ROTA_TOP_NUMBER, NULL},
    {"DEAD", "n_dead", ROTA_TOP_NUMBER, NULL},
    {"ADDED/S", "added_total", ROTA_TOP_RATE, "added_per_s"},
    {"DONE/S", "done_total", ROTA_TOP_RATE, "done_per_s"},
    {"OLDEST", "oldest_ms", ROTA_TOP_AGE, NULL},
    {"WORKERS", "n_workers", ROTA_TOP_NUMBER, NULL},
    {"FREE", "n_free", ROTA_TOP_NUMBER, NULL},
};

static const struct rota_top_column CALLS[] = {
    {"REPLICA", "replica", ROTA_TOP_TEXT, NULL},
    {"COLLECTION", "collection", ROTA_TOP_TEXT, NULL},
    {"SHARDS", "n_shards", ROTA_TOP_NUMBER, NULL},
    {"CALLER", "node_name", ROTA_TOP_TEXT, NULL},
    {"CALLS/S", "n_calls", ROTA_TOP_RATE, "calls_per_s"},
    {"FAILED", "n_failed", ROTA_TOP_NUMBER, NULL},
    {"HEDGED", "n_hedged", ROTA_TOP_NUMBER, NULL},
    {"IN FLIGHT", "in_flight", ROTA_TOP_NUMBER, NULL},
    {"P50 MS", "latency.p50_ms", ROTA_TOP_VALUE, "p50_ms"},
    {"P99 MS", "latency.p99_ms", ROTA_TOP_VALUE, "p99_ms"},
    {"CIRCUIT", "circuit", ROTA_TOP_TEXT, NULL},
};

#define VIEW(the_name, the_topic, the_key, table)                                                  \
    {                                                                                              \
        .name = (the_name), .topic = (the_topic), .key = (the_key), .columns = (table),            \
        .n_columns = sizeof(table) / sizeof *(table)                                               \
    }

const struct rota_top_view rota_top_views[ROTA_TOP_VIEWS] = {
    VIEW("nodes", "cluster", "nodes", NODES),
    VIEW("shards", "spaces", "spaces", SPACES),
    VIEW("queues", "queues", "items", QUEUES),
    VIEW("calls", "calls", "calls", CALLS),
};

static const struct rota_top_view *view_of(const struct rota_top *top)
{
    return &rota_top_views[top->view];
}

/* --- rows --- */

void rota_top_init(struct rota_top *top)
{
    *top = (struct rota_top){.width = 80, .height = 24, .marks = {"v", "^"}};
}

void rota_top_deinit(struct rota_top *top)
{
    rota_vector_deinit(&top->rows);
    rota_vector_deinit(&top->before);
}

static void copy_name(char to[ROTA_TOP_NAME_MAX], struct rota_str text)
{
    size_t n = text.size < ROTA_TOP_NAME_MAX ? text.size : ROTA_TOP_NAME_MAX - 1;
    if (n > 0)
        memcpy(to, text.data, n);
    to[n] = '\0';
}

static double number_of(struct rota_str cell)
{
    char text[40];
    char *end;
    if (cell.size == 0 || cell.size >= sizeof text)
        return 0;
    memcpy(text, cell.data, cell.size);
    text[cell.size] = '\0';
    double value = strtod(text, &end);
    return *end ? 0 : value;
}

/* Rows mostly arrive in the same order, so start searching at the same index. */
static const struct rota_top_row *find_before(const struct rota_top *top, const char *name,
                                              size_t place)
{
    size_t n = top->before.size;
    for (size_t i = 0; i < n; i++) {
        const struct rota_top_row *row = &top->before.items[(place + i) % n];
        if (strcmp(row->name, name) == 0)
            return row;
    }
    return NULL;
}

static void fill_row(const struct rota_top *top, struct rota_top_row *row,
                     const struct rota_str *cells, size_t place)
{
    const struct rota_top_view *view = view_of(top);
    double seconds = (double)(top->taken_at - top->before_at) / ROTA_SEC;
    copy_name(row->name, cells[0]);
    row->place = (uint32_t)place;
    const struct rota_top_row *before = find_before(top, row->name, place);
    for (size_t i = 0; i < view->n_columns; i++) {
        row->cells[i] = cells[i];
        row->values[i] = number_of(cells[i]);
        row->rates[i] = before && seconds > 0 && row->values[i] >= before->values[i]
                            ? (row->values[i] - before->values[i]) / seconds
                            : 0;
    }
}

/* --- order --- */

/* The sort value of a row; texts are compared as texts. */
static double weight_of(const struct rota_top_view *view, const struct rota_top_row *row,
                        size_t column)
{
    switch (view->columns[column].kind) {
    case ROTA_TOP_TEXT:
    case ROTA_TOP_FLAG:
        return 0;
    case ROTA_TOP_RATE:
    case ROTA_TOP_CPU:
        return row->rates[column];
    case ROTA_TOP_AGE:
        return row->values[column] > 0 ? -row->values[column] : -1e300;
    case ROTA_TOP_NUMBER:
    case ROTA_TOP_VALUE:
    case ROTA_TOP_BYTES:
    case ROTA_TOP_SPAN:
        return row->values[column];
    }
    return 0;
}

/* Numbers: largest first. Texts: alphabetically. Ties: in the order received. */
static bool goes_before(const struct rota_top *top, const struct rota_top_row *a,
                        const struct rota_top_row *b)
{
    const struct rota_top_view *view = view_of(top);
    size_t column = top->sorted_by[top->view];
    bool is_reversed = top->is_reversed[top->view];
    if (rota_top_is_text(view->columns[column].kind)) {
        int order = rota_str_compare(a->cells[column], b->cells[column]);
        if (order != 0)
            return (order < 0) != is_reversed;
    } else {
        double x = weight_of(view, a, column), y = weight_of(view, b, column);
        if (x != y)
            return (x > y) != is_reversed;
    }
    return a->place < b->place;
}

#define GOES_AFTER(top, a, b)    goes_before((top), &(b), &(a))
#define PUT_ROW(top, index, row) ((top)->rows.items[index] = (row))

/* Put `row` into the heap of the first `n`, at `root` or below it. */
static void sift_row(struct rota_top *top, size_t n, size_t root, struct rota_top_row row)
{
    ROTA_HEAP_SIFT_DOWN(top, top->rows.items, n, root, row, GOES_AFTER, PUT_ROW);
}

/* Heap sort needs no memory, and no global state for the comparison. */
static void sort_rows(struct rota_top *top)
{
    size_t n = top->rows.size;
    for (size_t i = n / 2; i-- > 0;)
        sift_row(top, n, i, top->rows.items[i]);
    for (size_t i = n; i-- > 1;) {
        struct rota_top_row last = top->rows.items[i];
        top->rows.items[i] = top->rows.items[0];
        sift_row(top, i, 0, last);
    }
}

/* The index of the chosen row; 0 if it no longer exists. */
static size_t chosen_place(const struct rota_top *top)
{
    for (size_t i = 0; i < top->rows.size; i++)
        if (strcmp(top->rows.items[i].name, top->chosen) == 0)
            return i;
    return 0;
}

void rota_top_take(struct rota_top *top, rota_time now, const struct rota_str *cells, size_t n_rows)
{
    size_t n = n_rows < ROTA_TOP_ROWS_MAX ? n_rows : ROTA_TOP_ROWS_MAX;
    rota_top_row_vector spare = top->before;
    top->before = top->rows;
    top->before_at = top->taken_at;
    top->rows = spare;
    top->rows.size = 0;
    top->taken_at = now;
    top->has_rows = true;
    top->why[0] = '\0';
    if (!rota_vector_reserve(&top->rows, n)) {
        rota_top_refuse(top, "not enough memory for the rows");
        return;
    }
    for (size_t i = 0; i < n; i++)
        fill_row(top, &top->rows.items[i], &cells[i * view_of(top)->n_columns], i);
    top->rows.size = n;
    sort_rows(top);
}

void rota_top_refuse(struct rota_top *top, const char *why)
{
    top->rows.size = top->before.size = 0;
    top->has_rows = false;
    snprintf(top->why, sizeof top->why, "%s", why);
}

size_t rota_top_chosen(const struct rota_top *top)
{
    return top->rows.size > 0 ? top->rows.items[chosen_place(top)].place : SIZE_MAX;
}

/* --- keys --- */

enum key {
    KEY_UP = 256,
    KEY_DOWN,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
    KEY_ESCAPE,
    KEY_NONE,
};

/* Take one key off the bytes; an escape sequence is one key. */
static int next_key(struct rota_str *bytes)
{
    static const struct {
        const char *bytes;
        int key;
    } SEQUENCES[] = {
        {"\033[A", KEY_UP},         {"\033OA", KEY_UP},    {"\033[B", KEY_DOWN},
        {"\033OB", KEY_DOWN},       {"\033[C", KEY_RIGHT}, {"\033OC", KEY_RIGHT},
        {"\033[D", KEY_LEFT},       {"\033OD", KEY_LEFT},  {"\033[5~", KEY_PAGE_UP},
        {"\033[6~", KEY_PAGE_DOWN}, {"\033[H", KEY_HOME},  {"\033OH", KEY_HOME},
        {"\033[1~", KEY_HOME},      {"\033[F", KEY_END},   {"\033OF", KEY_END},
        {"\033[4~", KEY_END},
    };
    size_t size = 1;
    int key = (unsigned char)bytes->data[0];
    if (key == '\033') {
        key = KEY_ESCAPE;
        if (bytes->size > 1 && (bytes->data[1] == '[' || bytes->data[1] == 'O')) {
            size = 2;
            while (size < bytes->size && (bytes->data[size] < '@' || bytes->data[size] > '~'))
                size++;
            size += size < bytes->size;
            key = KEY_NONE;
        }
        for (size_t i = 0; i < sizeof SEQUENCES / sizeof SEQUENCES[0]; i++)
            if (rota_str_is_equal(rota_str_of(bytes->data, size), rota_str(SEQUENCES[i].bytes)))
                key = SEQUENCES[i].key;
    }
    *bytes = rota_str_of(bytes->data + size, bytes->size - size);
    return key;
}

static int page_height(const struct rota_top *top)
{
    return top->height > 7 ? top->height - 6 : 1;
}

static void move_cursor(struct rota_top *top, long long by)
{
    if (top->is_detail) {
        long long scroll = (long long)top->scroll + by;
        top->scroll = scroll > 0 ? (size_t)scroll : 0;
        return;
    }
    if (top->rows.size == 0)
        return;
    long long place = (long long)chosen_place(top) + by, last = (long long)top->rows.size - 1;
    place = place < 0 ? 0 : place > last ? last : place;
    memcpy(top->chosen, top->rows.items[place].name, sizeof top->chosen);
}

static void sort_by(struct rota_top *top, int by)
{
    size_t n = view_of(top)->n_columns;
    size_t *column = &top->sorted_by[top->view];
    *column = (*column + n + (size_t)(by + (int)n)) % n;
    sort_rows(top);
}

static bool change_view(struct rota_top *top, size_t view)
{
    top->is_detail = top->is_help = false;
    top->scroll = 0;
    if (view == top->view)
        return false;
    top->view = view;
    top->chosen[0] = '\0';
    rota_top_refuse(top, "");
    return true;
}

static void go_back(struct rota_top *top)
{
    if (top->is_help)
        top->is_help = false;
    else
        top->is_detail = false;
    top->scroll = 0;
}

static bool press_key(struct rota_top *top, int key)
{
    if (key >= '1' && key < '1' + ROTA_TOP_VIEWS)
        return change_view(top, (size_t)(key - '1'));
    switch (key) {
    case 'q':
    case 'Q':
        top->is_over = true;
        break;
    case '\t':
        return change_view(top, (top->view + 1) % ROTA_TOP_VIEWS);
    case KEY_UP:
    case 'k':
        move_cursor(top, -1);
        break;
    case KEY_DOWN:
    case 'j':
        move_cursor(top, 1);
        break;
    case KEY_PAGE_UP:
        move_cursor(top, -page_height(top));
        break;
    case KEY_PAGE_DOWN:
    case ' ':
        move_cursor(top, page_height(top));
        break;
    case KEY_HOME:
    case 'g':
        move_cursor(top, -ROTA_TOP_ROWS_MAX);
        break;
    case KEY_END:
    case 'G':
        move_cursor(top, top->is_detail ? 0 : ROTA_TOP_ROWS_MAX);
        break;
    case KEY_LEFT:
    case '<':
        sort_by(top, -1);
        break;
    case KEY_RIGHT:
    case '>':
        sort_by(top, 1);
        break;
    case 'r':
        top->is_reversed[top->view] = !top->is_reversed[top->view];
        sort_rows(top);
        break;
    case '\r':
    case '\n':
        if (top->is_help || top->is_detail || top->rows.size == 0)
            break;
        move_cursor(top, 0); /* choose the marked row from now on */
        top->is_detail = true;
        top->scroll = 0;
        break;
    case KEY_ESCAPE:
    case 127:
    case '\b':
        go_back(top);
        break;
    case '?':
    case 'h':
        top->is_help = !top->is_help;
        break;
    case 'p':
        top->is_paused = !top->is_paused;
        break;
    default: /* any byte may arrive */
        break;
    }
    return false;
}

bool rota_top_feed(struct rota_top *top, struct rota_str bytes)
{
    bool is_other = false;
    while (bytes.size > 0 && !top->is_over)
        is_other |= press_key(top, next_key(&bytes));
    return is_other;
}
