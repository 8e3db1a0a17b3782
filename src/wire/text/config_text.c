#include "wire/text/config_text.h"

#include "base/hash.h"
#include "base/map.h"
#include "base/vector.h"
#include "wire/text/config_scan.h"

#include <assert.h>
#include <stdlib.h>

/* What a name was used for, to reject a second use. */
enum kind {
    KIND_VALUE,  /* set, or an inline table: closed */
    KIND_DOTTED, /* a table made by the dots of a key: open to keys of its scope */
    KIND_SUPER,  /* a table made by the dots of a header: may get its own header */
    KIND_HEADER, /* a table with its header */
    KIND_ARRAY,  /* an array of tables */
};

/* Names form a tree; a node is found in the map under its parent's number and
 * its own last part. */
struct node {
    enum kind kind;
    uint32_t line;
    uint32_t number; /* of an array: of its latest table */
    uint32_t scope;  /* of a dotted one: the table whose keys made it */
    size_t n_instances;
    size_t key_size;
    char key[]; /* the parent's number, the name's part */
};

struct parser {
    struct rota_config_scan scan;
    ROTA_VECTOR(struct rota_config_text_table) tables;
    ROTA_VECTOR(struct rota_config_text_entry) entries;
    struct rota_map nodes;
    uint32_t n_nodes; /* numbers given; 0 is the table without a header */
    uint32_t table;   /* the node under the last header */
};

#define fail(...) rota_config_scan_fail(&parser->scan, ROTA_ERR_INVALID, __VA_ARGS__)

static enum rota_code no_memory(struct parser *parser)
{
    return rota_config_scan_fail(&parser->scan, ROTA_ERR_NO_MEMORY,
                                 "not enough memory to read the file");
}

/* --- names --- */

static size_t make_node_key(char *key, uint32_t parent, struct rota_str part)
{
    memcpy(key, &parent, sizeof parent);
    memcpy(key + sizeof parent, part.data, part.size);
    return sizeof parent + part.size;
}

static struct node *find_node(struct parser *parser, uint32_t parent, struct rota_str part)
{
    char key[sizeof parent + ROTA_CONFIG_TEXT_KEY_MAX];
    return rota_map_get(&parser->nodes, rota_str_of(key, make_node_key(key, parent, part)));
}

static struct node *add_node(struct parser *parser, uint32_t parent, struct rota_str part,
                             enum kind kind)
{
    struct node *node = malloc(sizeof *node + sizeof parent + part.size);
    if (!node)
        return NULL;
    *node = (struct node){
        .kind = kind, .line = parser->scan.n_lines, .number = ++parser->n_nodes, .n_instances = 1};
    node->key_size = make_node_key(node->key, parent, part);
    if (!rota_map_put(&parser->nodes, rota_str_of(node->key, node->key_size), node)) {
        free(node);
        return NULL;
    }
    return node;
}

/* Step `*part`, at first empty at the start of `name`, to the next part;
 * returns whether it is the last. */
static bool next_part(struct rota_str name, struct rota_str *part)
{
    const char *start = part->size ? part->data + part->size + 1 : name.data;
    const char *end = name.data + name.size;
    const char *dot = memchr(start, '.', (size_t)(end - start));
    *part = rota_str_of(start, (size_t)((dot ? dot : end) - start));
    return !dot;
}

/* `name` up to and with `part` has another meaning already. */
static enum rota_code report_clash(struct parser *parser, struct rota_str name,
                                   struct rota_str part, const struct node *node)
{
    int size = (int)(part.data + part.size - name.data);
    if (node->kind == KIND_VALUE)
        return fail("%.*s already has a value, on line %u", size, name.data, node->line);
    return fail("%.*s is already %s, since line %u", size, name.data,
                node->kind == KIND_ARRAY ? "an array of tables" : "a table", node->line);
}

/* Note that `key` in the table `scope` gets a value; `*number` is its node. */
static enum rota_code define_value(struct parser *parser, uint32_t scope, struct rota_str key,
                                   uint32_t *number)
{
    struct rota_str part = {key.data, 0};
    uint32_t parent = scope;
    for (bool is_last = false; !is_last;) {
        is_last = next_part(key, &part);
        struct node *node = find_node(parser, parent, part);
        if (!node) {
            node = add_node(parser, parent, part, is_last ? KIND_VALUE : KIND_DOTTED);
            if (!node)
                return no_memory(parser);
            node->scope = scope;
        } else if (is_last || node->kind != KIND_DOTTED || node->scope != scope) {
            return report_clash(parser, key, part, node);
        }
        parent = node->number;
    }
    *number = parent;
    return ROTA_OK;
}

/* Note a header; `*last` is its node. */
static enum rota_code define_table(struct parser *parser, struct rota_str name, bool is_array,
                                   struct node **last)
{
    struct rota_str part = {name.data, 0};
    uint32_t parent = 0;
    enum kind kind = is_array ? KIND_ARRAY : KIND_HEADER;
    for (bool is_last = false; !is_last;) {
        is_last = next_part(name, &part);
        struct node *node = find_node(parser, parent, part);
        if (!node) {
            if (!(node = add_node(parser, parent, part, is_last ? kind : KIND_SUPER)))
                return no_memory(parser);
        } else if (!is_last && node->kind == KIND_ARRAY) {
            return fail("tables inside an array of tables are not supported");
        } else if (is_last && is_array && node->kind == KIND_ARRAY) {
            node->number = ++parser->n_nodes;
            node->n_instances++;
        } else if (is_last && !is_array && node->kind == KIND_SUPER) {
            node->kind = KIND_HEADER;
            node->line = parser->scan.n_lines;
        } else if (is_last || node->kind == KIND_VALUE) {
            return report_clash(parser, name, part, node);
        }
        parent = node->number;
        *last = node;
    }
    return ROTA_OK;
}

/* --- lines --- */

static enum rota_code parse_entry(struct parser *parser, uint32_t scope, int depth);

/* The fields of an inline table, whose entry has the number `index`. */
static enum rota_code parse_inline(struct parser *parser, size_t index, uint32_t scope, int depth)
{
    struct rota_config_scan *scan = &parser->scan;
    enum rota_code code;

    if (depth > ROTA_CONFIG_TEXT_DEPTH_MAX)
        return rota_config_scan_fail(scan, ROTA_ERR_LIMIT, "more than %d nested inline tables",
                                     ROTA_CONFIG_TEXT_DEPTH_MAX);
    scan->at++;
    rota_config_scan_spaces(scan);
    while (*scan->at != '}') {
        if ((code = parse_entry(parser, scope, depth)))
            return code;
        rota_config_scan_spaces(scan);
        if (*scan->at == '}')
            break;
        if (*scan->at != ',')
            return rota_config_scan_expected(scan, "a comma or }");
        scan->at++;
        rota_config_scan_spaces(scan);
        if (*scan->at == '}')
            return rota_config_scan_expected(scan, "another field after the comma");
    }
    scan->at++;
    parser->entries.items[index].type = ROTA_CONFIG_TEXT_TABLE;
    parser->entries.items[index].n_fields = parser->entries.size - index - 1;
    return ROTA_OK;
}

static enum rota_code parse_entry(struct parser *parser, uint32_t scope, int depth)
{
    struct rota_config_scan *scan = &parser->scan;
    struct rota_config_text_entry entry = {
        .table = parser->tables.size - 1,
        .line = scan->n_lines,
        .column = (uint32_t)(scan->at - scan->line) + 1,
    };
    size_t index = parser->entries.size;
    uint32_t number = 0;
    enum rota_code code;

    if (index == ROTA_CONFIG_TEXT_ENTRIES_MAX)
        return rota_config_scan_fail(scan, ROTA_ERR_LIMIT, "more than %d values in a file",
                                     ROTA_CONFIG_TEXT_ENTRIES_MAX);
    if ((code = rota_config_scan_key(scan, &entry.key)))
        return code;
    rota_config_scan_spaces(scan);
    if (*scan->at != '=')
        return rota_config_scan_expected(scan, "= after the key");
    scan->at++;
    rota_config_scan_spaces(scan);
    if ((code = define_value(parser, scope, entry.key, &number)))
        return code;

    bool is_table = *scan->at == '{';
    if (!is_table && (code = rota_config_scan_value(scan, &entry)))
        return code;
    if (!rota_vector_push(&parser->entries, entry))
        return no_memory(parser);
    return is_table ? parse_inline(parser, index, number, depth + 1) : ROTA_OK;
}

static enum rota_code push_table(struct parser *parser, struct rota_config_text_table table)
{
    if (parser->tables.size == ROTA_CONFIG_TEXT_TABLES_MAX)
        return rota_config_scan_fail(&parser->scan, ROTA_ERR_LIMIT, "more than %d tables in a file",
                                     ROTA_CONFIG_TEXT_TABLES_MAX);
    table.line = parser->scan.n_lines;
    table.first_entry = parser->entries.size;
    return rota_vector_push(&parser->tables, table) ? ROTA_OK : no_memory(parser);
}

static enum rota_code parse_header(struct parser *parser)
{
    struct rota_config_scan *scan = &parser->scan;
    struct rota_config_text_table table = {.is_array = scan->at[1] == '['};
    struct node *node = NULL;
    enum rota_code code;

    scan->at += table.is_array ? 2 : 1;
    rota_config_scan_spaces(scan);
    if ((code = rota_config_scan_key(scan, &table.name)))
        return code;
    rota_config_scan_spaces(scan);
    if (*scan->at != ']' || (table.is_array && scan->at[1] != ']'))
        return rota_config_scan_expected(scan, table.is_array ? "]]" : "]");
    scan->at += table.is_array ? 2 : 1;
    if ((code = define_table(parser, table.name, table.is_array, &node)))
        return code;
    assert(node);
    table.instance = node->n_instances - 1;
    parser->table = node->number;
    return push_table(parser, table);
}

static enum rota_code parse_lines(struct parser *parser)
{
    struct rota_config_scan *scan = &parser->scan;
    enum rota_code code = push_table(parser, (struct rota_config_text_table){.name = rota_str("")});

    while (!code && *scan->at != '\0') {
        rota_config_scan_spaces(scan);
        if (*scan->at == '[')
            code = parse_header(parser);
        else if (!strchr("#\r\n", *scan->at))
            code = parse_entry(parser, parser->table, 0);
        if (!code)
            code = rota_config_scan_line_end(scan);
        if (!code) {
            struct rota_config_text_table *table = &parser->tables.items[parser->tables.size - 1];
            table->n_entries = parser->entries.size - table->first_entry;
        }
    }
    return code;
}

enum rota_code rota_config_text_parse(struct rota_str text, const char *file,
                                      struct rota_config_text *document, struct rota_error *error)
{
    struct parser parser = {0};
    enum rota_code code;

    if (text.size > ROTA_CONFIG_TEXT_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%.200s: the file has %zu bytes; at most %d are allowed", file,
                              text.size, ROTA_CONFIG_TEXT_MAX);
    char *copy = malloc(text.size + 1);
    if (!copy)
        return rota_error_no_memory(error, "to read %.200s", file);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';

    /* A seed from the text itself: no text can be made to collide with it. */
    rota_map_init(&parser.nodes, rota_hash_sip64(text.size, text));
    code = rota_config_scan_init(&parser.scan, copy, text.size, file, error);
    if (!code)
        code = parse_lines(&parser);
    rota_map_deinit_values(&parser.nodes);

    struct rota_config_text made = {parser.tables.items, parser.entries.items, parser.tables.size,
                                    parser.entries.size, copy};
    if (code)
        rota_config_text_deinit(&made);
    else
        *document = made;
    return code;
}

void rota_config_text_deinit(struct rota_config_text *document)
{
    free(document->tables);
    free(document->entries);
    free(document->text);
    *document = (struct rota_config_text){0};
}

const char *rota_config_text_type_name(enum rota_config_text_type type)
{
    static const char *const NAMES[] = {
        [ROTA_CONFIG_TEXT_STRING] = "a string",   [ROTA_CONFIG_TEXT_INTEGER] = "an integer",
        [ROTA_CONFIG_TEXT_BOOLEAN] = "a boolean", [ROTA_CONFIG_TEXT_TIME] = "a date-time",
        [ROTA_CONFIG_TEXT_TABLE] = "a table",
    };
    return NAMES[type];
}
