/* pages: the dashboard's files, which are part of the program. */
#pragma once

#include <stddef.h>

struct rota_page {
    const char *path; /* "/", "/app.js" */
    const char *type;
    const char *tag; /* of its content, in quotation marks */
    const unsigned char *bytes;
    size_t size;
};

extern const struct rota_page rota_pages[];
extern const size_t rota_n_pages;
