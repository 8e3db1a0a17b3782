/* Writes the generated parts of docs/store.md: the tables for people, or as SQL. */
#include "io/sql/store_session.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct rota_buffer text = {0};
    const char *part = argc > 1 ? argv[1] : "tables";
    if (strcmp(part, "postgres") == 0 || strcmp(part, "mysql") == 0) {
        rota_buffer_append_text(&text, "```sql\n");
        rota_store_schema_format(part[0] == 'p' ? ROTA_SQL_POSTGRES : ROTA_SQL_MYSQL, &text);
        rota_buffer_append_text(&text, "```\n");
    } else if (strcmp(part, "upgrade") == 0) {
        rota_buffer_append_text(&text, "```sql\n");
        rota_store_schema_format_upgrade(ROTA_SQL_POSTGRES, 1, &text);
        rota_buffer_append_text(&text, "```\n");
    } else if (strcmp(part, "grants") == 0) {
        rota_buffer_append_text(&text, "```sql\n");
        rota_store_schema_format_grants(&text);
        rota_buffer_append_text(&text, "```\n");
    } else {
        rota_store_schema_describe(&text);
    }
    if (text.failed)
        return 1;
    fputs(text.data, stdout);
    rota_buffer_deinit(&text);
    return 0;
}
