#include "database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *database_text(const char *name)
{
    const char *text = getenv(name);
    if (!text)
        fail_msg("%s is not set: run this with test/lib/databases.py", name);
    return text;
}

struct rota_sql_url database_url(bool is_admin)
{
    struct rota_sql_url url;
    struct rota_error error;
    const char *text = database_text(is_admin ? "ROTA_TEST_ADMIN_URL" : "ROTA_TEST_URL");
    if (rota_sql_url_parse(rota_str(text), &url, &error))
        fail_msg("%s", error.text);
    return url;
}

void database_do(const char *word)
{
    int read_fd, write_fd;
    char answer[8];
    size_t size = 0;
    assert_int_equal(sscanf(database_text("ROTA_TEST_CONTROL"), "%d,%d", &read_fd, &write_fd), 2);
    assert_int_equal(write(write_fd, word, strlen(word)), strlen(word));
    assert_int_equal(write(write_fd, "\n", 1), 1);
    while (size < 3) {
        ssize_t n = read(read_fd, answer + size, 3 - size);
        if (n <= 0)
            fail_msg("the server can't %s", word);
        size += (size_t)n;
    }
    assert_memory_equal(answer, "ok\n", 3);
}
