#include "io/sql/store_inside.h"

#include <stdio.h>

/* --- the tables, in one place: for creating them and for docs/store.md --- */

struct column {
    const char *name, *type; /* the type is a token of store_text.c */
    const char *what;
};

struct table {
    const char *name, *what;
    const char *key;   /* NULL: a column is its own */
    const char *index; /* a second one, or NULL */
    struct column columns[16];
};

static const struct table tables[] = {
    {.name = "rota_leases",
     .what = "Leases: the owner of each shard",
     .key = "space, dc, shard",
     .columns =
         {
             {"space", "name", "the set of shards"},
             {"dc", "name", "data center; each has all shards of the space"},
             {"shard", "int", "from 0"},
             {"shards", "int", "number of shards when it was claimed; 0: never claimed"},
             {"host", "name", "the holder, or the last one; empty: never held"},
             {"instance", "int", "random number of the holder's process; 0: free"},
             {"epoch", "int", "epoch of the current or last holder; grows with every grant"},
             {"locked_at", "int", "when the lease was granted"},
             {"last_ping", "int", "last heartbeat or release"},
             {"ttl_ms", "int", "the lease expires this long after last_ping, in milliseconds"},
             {"pings", "int", "grows with every claim, ping and release"},
         }},
    {.name = "rota_dcs",
     .what = "Number of shards per data center",
     .key = "space, dc",
     .columns =
         {
             {"space", "name", "the set of shards"},
             {"dc", "name", "data center"},
             {"shards", "int", "rows of rota_leases from this shard number on are not claimed"},
         }},
    {.name = "rota_holds",
     .what = "Spaces with a claim freeze",
     .key = "space",
     .columns =
         {
             {"space", "name", "the set of shards; empty: all spaces"},
             {"hold_until", "int", "end of the freeze"},
         }},
    {.name = "rota_history",
     .what = "Grants and releases, at least the newest 1,000 of each space",
     .index = "space, id",
     .columns =
         {
             {"id", "id", "grows"},
             {"space", "name", "as in rota_leases, like the next four"},
             {"dc", "name", ""},
             {"shard", "int", ""},
             {"host", "name", ""},
             {"epoch", "int", ""},
             {"is_release", "int", "1: released; 0: granted"},
             {"at", "int", "when"},
             {"shards", "int", "number of shards at that time; 0: unknown"},
         }},
    {.name = "rota_members",
     .what = "The nodes of the cluster",
     .key = "address",
     .columns =
         {
             {"address", "name", "address of the node"},
             {"roles", "text", "roles of the node"},
             {"zone", "name", "failure zone; empty: none"},
             {"weight", "int", "in thousandths"},
             {"state", "int", "0: active, 1: draining, 2: evicted; set only by operators"},
             {"start_at", "int", "on the ring from this time; 0: no limit"},
             {"stop_at", "int", "off the ring from this time; 0: no limit"},
             {"ttl_ms", "int", "dead this long after its last heartbeat, in milliseconds"},
             {"heartbeat", "int", "last heartbeat"},
             {"name", "name", "name of the node; empty: its address serves as the name"},
             {"drain_at", "int", "an active node is draining from this time; 0: no drain is due"},
         }},
    {.name = "rota_spaces",
     .what = "Spaces and their configuration",
     .key = "name",
     .columns =
         {
             {"name", "name", "name of the space"},
             {"engine", "name", "engine that assigns the shards"},
             {"config", "text", "configuration of the engine"},
             {"version", "int", "grows with every change"},
         }},
    {.name = "rota_space_nodes",
     .what = "Nodes of each space",
     .key = "space, name",
     .columns =
         {
             {"space", "name", "the space"},
             {"name", "name", "the node, by its address"},
             {"instance", "int", "random number of the node's process"},
             {"pings", "int", "changes randomly with every heartbeat"},
             {"ttl_ms", "int", "dead this long without a heartbeat, in milliseconds"},
             {"acked", "int", "the newest version of the space that the node has applied"},
             {"highest", "int", "the highest epoch that it had from a lease or a group"},
             {"weight", "int", "in thousandths"},
             {"is_draining", "int", "1: the node is draining"},
             {"zone", "name", "failure zone of the node; empty: none"},
         }},
    {.name = "rota_jobs",
     .what = "Jobs, written by the owner of their partition",
     .key = "queue, part, id",
     .columns =
         {
             {"queue", "name", "the queue"},
             {"part", "int", "the partition, from 0"},
             {"id", "name", "32 hexadecimal digits"},
             {"state", "name", "waiting, delayed, running, done, dead or cancelled"},
             {"priority", "int", "the highest runs first"},
             {"attempts", "int", "attempts counted so far"},
             {"enqueued_at", "int", "when the job was added, by its owner's clock"},
             {"worker", "name", "current or last worker"},
             {"record", "bytes",
              "the job without its payload, in the format of JOB in docs/journal.md"},
             {"payload", "payload", "payload; NULL: lost, and the job is skipped"},
         }},
    {.name = "rota_partitions",
     .what = "Owners of queue partitions; only the current epoch may write",
     .key = "queue, part",
     .columns =
         {
             {"queue", "name", "the queue"},
             {"part", "int", "the partition, from 0"},
             {"epoch", "int", "grows with every owner; unique"},
             {"instance", "int", "random number of the owner's process"},
             {"owner", "name", "address of the owner"},
             {"owned_at", "int", "when ownership started"},
         }},
    {.name = "rota_queues",
     .what = "Pauses of queues before version 12, read until rota_queue_settings has a row",
     .key = "queue",
     .columns =
         {
             {"queue", "name", "the queue"},
             {"is_paused", "int", "1: paused"},
             {"kills_max", "int", "workers that a job may kill before it is dead; 0: 3"},
         }},
    {.name = "rota_weights",
     .what = "Weights of fair keys before version 12, read in the same way",
     .key = "queue, fair_key",
     .columns =
         {
             {"queue", "name", "the queue"},
             {"fair_key", "key", "the key; empty: jobs without a key"},
             {"weight", "int", "in thousandths"},
         }},
    {.name = "rota_layouts",
     .what = "Partition layouts before version 12, the same; the latest row of a queue counts",
     .key = "queue, made_at",
     .columns =
         {
             {"queue", "name", "the queue"},
             {"made_at", "int", "when the layout was set; its steps follow a little later"},
             {"wanted", "int", "target number of partitions"},
             {"written", "int", "partitions that new jobs go to"},
             {"readable", "int", "partitions that jobs may be in"},
             {"batch", "int", "partitions that are placed as one unit"},
             {"mode", "int", "0: lookup, 1: slots"},
             {"from_batch", "int", "former batch and mode during a gradual change"},
             {"from_mode", "int", "..."},
             {"start_at", "int", "start of the gradual change; 0: none"},
             {"end_at", "int", "end of the gradual change"},
         }},
    {.name = "rota_queue_settings",
     .what = "Settings and layouts of queues; a queue without a row has the defaults",
     .key = "queue",
     .index = "version",
     .columns =
         {
             {"queue", "name", "the queue; empty: the latest version of all rows"},
             {"version", "int", "grows with every change of any row"},
             {"settings", "bytes",
              "pause, layout and weight records in the format of docs/journal.md, each preceded by "
              "its size; empty: the defaults, and the row is deleted after an hour"},
             {"changed_by", "name", "who changed it"},
             {"changed_at", "int", "when"},
         }},
    {.name = "rota_lives",
     .what = "The last epoch granted to an owner of partitions",
     .key = "id",
     .columns =
         {
             {"id", "int", "1: the only row"},
             {"life", "int", "the epoch; attempt numbers contain it, so that none repeats"},
         }},
    {.name = "rota_secrets",
     .what = "Secrets shared by processes that use the store",
     .key = "name",
     .columns =
         {
             {"name", "name", "\"cluster\": nodes authenticate each other with it"},
             {"value", "text", "random letters and digits"},
         }},
};

/* --- the way from version to version --- */

/* A step makes a table of the list above, adds a column to one that an earlier step has made, or
 * is a statement. A new database takes all steps, an older one those after its version. To
 * change the tables, change the list above, put the step at the end here with the next version,
 * and raise ROTA_STORE_SCHEMA_VERSION; steps that were released stay as they are. In MariaDB
 * each must be repeatable. */
static const struct step {
    int version;
    const char *table, *column;
    const char *text; /* as in store_text.c; NULL: of the table or the column */
} steps[] = {
    {1, .table = "rota_leases"},
    {1, .table = "rota_dcs"},
    {1, .table = "rota_holds"},
    {1, .table = "rota_history"},
    {1, .table = "rota_members"},
    {1, .table = "rota_spaces"},
    {2, .table = "rota_history", .column = "shards"},
    {3, .table = "rota_jobs"},
    {3, .table = "rota_partitions"},
    {3, .table = "rota_queues"},
    {3, .table = "rota_weights"},
    {3, .table = "rota_lives"},
    {4, .table = "rota_space_nodes"},
    {5, .table = "rota_layouts"},
    {6, .table = "rota_secrets"},
    {7, .table = "rota_queues", .column = "kills_max"},
    {8, .table = "rota_layouts", .column = "from_batch"},
    {8, .table = "rota_layouts", .column = "from_mode"},
    {8, .table = "rota_layouts", .column = "start_at"},
    {8, .table = "rota_layouts", .column = "end_at"},
    {9, .table = "rota_members", .column = "name"},
    {10, .table = "rota_members", .column = "drain_at"},
    {11, .table = "rota_space_nodes", .column = "zone"},
    {12, .table = "rota_queue_settings"},
};

enum { N_STEPS = sizeof steps / sizeof *steps };

#define SCHEMA_TABLE                                                                               \
    "CREATE TABLE IF NOT EXISTS rota_schema (id BIGINT NOT NULL PRIMARY KEY, "                     \
    "version BIGINT NOT NULL)"

static const struct table *find_table(const char *name)
{
    size_t i = 0;
    while (strcmp(tables[i].name, name) != 0)
        i++; /* a step that names none is our mistake, and no test gets past it */
    return &tables[i];
}

/* Whether the column was added later than its table. */
static bool is_added(const struct table *table, const struct column *column)
{
    for (size_t i = 0; i < N_STEPS; i++)
        if (steps[i].column && strcmp(steps[i].table, table->name) == 0 &&
            strcmp(steps[i].column, column->name) == 0)
            return true;
    return false;
}

/* A column that is added later has a default for existing rows. */
static void format_column(const struct table *table, const struct column *column,
                          struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "%s $type_%s", column->name, column->type);
    if (is_added(table, column))
        rota_buffer_append_text(buffer,
                                strcmp(column->type, "int") == 0 ? " DEFAULT 0" : " DEFAULT ''");
}

static void format_table(const struct table *table, bool is_whole, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "CREATE TABLE IF NOT EXISTS %s (\n", table->name);
    for (const struct column *column = table->columns; column->name; column++) {
        if (!is_whole && is_added(table, column))
            continue;
        rota_buffer_print(buffer, "%s    ", column > table->columns ? ",\n" : "");
        format_column(table, column, buffer);
    }
    if (table->key)
        rota_buffer_print(buffer, ",\n    PRIMARY KEY (%s)", table->key);
    rota_buffer_append_text(buffer, "\n)$engine");
}

static void format_index(const struct table *table, struct rota_buffer *buffer)
{
    rota_buffer_print(buffer, "CREATE INDEX IF NOT EXISTS %s_order ON %s (%s)", table->name,
                      table->name, table->index);
}

static void format_addition(const struct step *step, struct rota_buffer *buffer)
{
    const struct table *table = find_table(step->table);
    const struct column *column = table->columns;
    while (strcmp(column->name, step->column) != 0)
        column++;
    rota_buffer_print(buffer, "ALTER TABLE %s $add_column ", table->name);
    format_column(table, column, buffer);
}

/* With its index, each followed by a semicolon. */
static void append_table(const struct table *table, bool is_whole, struct rota_buffer *buffer)
{
    format_table(table, is_whole, buffer);
    rota_buffer_append_text(buffer, ";\n");
    if (!table->index)
        return;
    format_index(table, buffer);
    rota_buffer_append_text(buffer, ";\n");
}

/* Takes `text`. */
static void expand_text(enum rota_sql_kind kind, struct rota_buffer *text,
                        struct rota_buffer *buffer)
{
    rota_store_text_expand(kind, text->data ? text->data : "", buffer);
    buffer->failed |= text->failed;
    rota_buffer_deinit(text);
}

void rota_store_schema_format(enum rota_sql_kind kind, struct rota_buffer *buffer)
{
    struct rota_buffer text = {0};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        append_table(&tables[i], true, &text);
    rota_buffer_print(&text,
                      SCHEMA_TABLE ";\nINSERT INTO rota_schema (id, version) VALUES (1, %d);\n",
                      ROTA_STORE_SCHEMA_VERSION);
    expand_text(kind, &text, buffer);
}

void rota_store_schema_format_upgrade(enum rota_sql_kind kind, int from, struct rota_buffer *buffer)
{
    struct rota_buffer text = {0};
    for (size_t i = 0; i < N_STEPS; i++) {
        const struct step *step = &steps[i];
        if (step->version <= from)
            continue;
        if (step->text) {
            rota_buffer_print(&text, "%s;\n", step->text);
        } else if (step->column) {
            format_addition(step, &text);
            rota_buffer_append_text(&text, ";\n");
        } else {
            append_table(find_table(step->table), false, &text);
        }
    }
    rota_buffer_print(&text, "UPDATE rota_schema SET version = %d WHERE id = 1;\n",
                      ROTA_STORE_SCHEMA_VERSION);
    expand_text(kind, &text, buffer);
}

void rota_store_schema_format_grants(struct rota_buffer *buffer)
{
    enum { ON_A_LINE = 5 };
    size_t n = sizeof tables / sizeof *tables;
    rota_buffer_append_text(buffer, "GRANT SELECT ON rota_schema TO rota;\n"
                                    "GRANT SELECT, INSERT, UPDATE, DELETE\n   ON ");
    for (size_t i = 0; i < n; i++)
        rota_buffer_print(buffer, "%s%s", tables[i].name,
                          i + 1 == n                 ? " TO rota;\n"
                          : (i + 1) % ON_A_LINE == 0 ? ",\n      "
                                                     : ", ");
}

void rota_store_schema_describe(struct rota_buffer *buffer)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const struct table *table = &tables[i];
        rota_buffer_print(buffer, "**%s**: %s", table->name, table->what);
        if (table->key)
            rota_buffer_print(buffer, "; key (%s)", table->key);
        rota_buffer_append_text(buffer, ".\n\n| column | type | |\n|---|---|---|\n");
        for (const struct column *column = table->columns; column->name; column++)
            rota_buffer_print(buffer, "| %s | %s | %s |\n", column->name, column->type,
                              column->what);
        rota_buffer_append_char(buffer, '\n');
    }
}

/* --- making them --- */

static enum rota_code run_statement(struct rota_store_session *session, const char *text,
                                    struct rota_error *error)
{
    return rota_store_text_run_n(session, text, NULL, 0, NULL, error);
}

/* Complete the statement in `text`, and run it. */
static enum rota_code tell_text(struct rota_store_session *session, struct rota_buffer *text,
                                struct rota_error *error)
{
    enum rota_code code = text->failed ? rota_error_no_memory(error, "for a table")
                                       : run_statement(session, text->data, error);
    rota_buffer_clear(text);
    return code;
}

static enum rota_code make_table(struct rota_store_session *session, const struct table *table,
                                 struct rota_error *error)
{
    struct rota_buffer text = {0};
    format_table(table, false, &text);
    enum rota_code code = tell_text(session, &text, error);
    if (!code && table->index) {
        format_index(table, &text);
        code = tell_text(session, &text, error);
    }
    rota_buffer_deinit(&text);
    return code;
}

/* SQLite has no ADD COLUMN IF NOT EXISTS. */
static enum rota_code has_column(struct rota_store_session *session, const struct step *step,
                                 bool *is_there, struct rota_error *error)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("table", rota_str(step->table)),
        ROTA_STORE_STR("column", rota_str(step->column)),
    };
    struct rota_sql_result result = {0};
    if (session->kind != ROTA_SQL_SQLITE)
        return ROTA_OK;
    enum rota_code code = rota_store_run(
        session, "SELECT COUNT(*) FROM pragma_table_info(:table) WHERE name = :column", arguments,
        &result, error);
    *is_there = !code && result.n_rows == 1 && rota_sql_int_at(&result, 0, 0) > 0;
    rota_sql_result_deinit(&result);
    return code;
}

static enum rota_code take_step(struct rota_store_session *session, const struct step *step,
                                struct rota_error *error)
{
    struct rota_buffer text = {0};
    bool is_there = false;
    if (step->text)
        return run_statement(session, step->text, error);
    if (!step->column)
        return make_table(session, find_table(step->table), error);
    enum rota_code code = has_column(session, step, &is_there, error);
    if (code || is_there)
        return code;
    format_addition(step, &text);
    code = tell_text(session, &text, error);
    rota_buffer_deinit(&text);
    return code;
}

/* The version of the tables that are there; 0: none. */
static enum rota_code read_version(struct rota_store_session *session, int64_t *version,
                                   struct rota_error *error)
{
    struct rota_sql_result result = {0};
    struct rota_error inner;
    enum rota_code code = rota_store_text_run_n(
        session, "SELECT version FROM rota_schema WHERE id = 1", NULL, 0, &result, &inner);
    if (!code)
        *version = result.n_rows == 1 ? rota_sql_int_at(&result, 0, 0) : 0;
    else if (code == ROTA_ERR_NOT_FOUND)
        *version = 0;
    else if (error)
        *error = inner;
    rota_sql_result_deinit(&result);
    return code == ROTA_ERR_NOT_FOUND ? ROTA_OK : code;
}

static enum rota_code write_version(struct rota_store_session *session, bool is_new,
                                    struct rota_error *error)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_INT("version", ROTA_STORE_SCHEMA_VERSION)};
    return rota_store_run(session,
                          is_new ? "$insert_new rota_schema (id, version) VALUES (1, :version) "
                                   "$or_nothing"
                                 : "UPDATE rota_schema SET version = :version WHERE id = 1",
                          arguments, NULL, error);
}

static enum rota_code upgrade_schema(struct rota_store_session *session, struct rota_error *error)
{
    int64_t version = 0;
    enum rota_code code = run_statement(session, SCHEMA_TABLE "$engine", error);
    if (!code)
        code = read_version(session, &version, error);
    if (code || version >= ROTA_STORE_SCHEMA_VERSION)
        return code; /* another process was faster */
    for (size_t i = 0; !code && i < N_STEPS; i++)
        if (steps[i].version > version)
            code = take_step(session, &steps[i], error);
    if (!code)
        code = write_version(session, version == 0, error);
    if (!code)
        session->upgraded_from = (int)version;
    return code;
}

/* In MariaDB a change of a table can't be rolled back, nor be part of a transaction: a lock
 * by name keeps others out. */
static enum rota_code upgrade_named(struct rota_store_session *session, struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_text_run_n(
        session, "SELECT GET_LOCK(CONCAT('rota.', MD5(DATABASE())), 30)", NULL, 0, &result, error);
    if (!code && (result.n_rows != 1 || rota_sql_int_at(&result, 0, 0) != 1))
        code = rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "another program has been upgrading the store's tables for too long");
    rota_sql_result_deinit(&result);
    if (code)
        return code;
    code = upgrade_schema(session, error);
    run_statement(session, "DO RELEASE_LOCK(CONCAT('rota.', MD5(DATABASE())))", NULL);
    return code;
}

/* One at a time, and all or nothing where the database can do that. */
static enum rota_code upgrade_alone(struct rota_store_session *session, struct rota_error *error)
{
    if (session->kind == ROTA_SQL_MYSQL)
        return upgrade_named(session, error);
    enum rota_code code = rota_sql_begin(session->sql, error);
    if (!code && session->kind == ROTA_SQL_POSTGRES)
        code = run_statement(session, "SELECT pg_advisory_xact_lock(7310581)", error);
    if (!code)
        code = upgrade_schema(session, error);
    if (!code)
        return rota_sql_commit(session->sql, error);
    rota_sql_rollback(session->sql);
    return code;
}

enum rota_code rota_store_schema_open(struct rota_store_session *session, struct rota_error *error)
{
    int64_t version = 0;
    enum rota_code code = read_version(session, &version, error);
    if (!code && version < ROTA_STORE_SCHEMA_VERSION) {
        code = upgrade_alone(session, error);
        if (!code)
            code = read_version(session, &version, error);
    }
    if (!code && version > ROTA_STORE_SCHEMA_VERSION)
        code =
            rota_error_set(error, ROTA_ERR_INVALID,
                           "the store's tables have version %lld, but this program supports "
                           "version %d: a newer Rota has upgraded them; install that version here",
                           (long long)version, ROTA_STORE_SCHEMA_VERSION);
    return code;
}
