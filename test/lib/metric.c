#include "metric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int64_t metric_in(const char *text, const char *series)
{
    size_t size = strlen(series);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, series, size) == 0 && line[size] == ' ')
            return strtoll(line + size, NULL, 10);
    }
    fail_msg("%s is not in\n%s", series, text);
    return -1;
}

int64_t metric_of(const struct rota_metrics *metrics, const char *series)
{
    char *text = rota_metrics_text(metrics, NULL);
    assert_non_null(text);
    int64_t value = metric_in(text, series);
    free(text);
    return value;
}
