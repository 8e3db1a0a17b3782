/* Untrusted bytes made safe to show: in an error, a log line, a JSON text.
 *
 * The rules are JSON's, so that one reader understands all three. Well-formed UTF-8 stays as it
 * is; quotation marks, backslashes and whatever could break a line or drive a terminal become
 * escapes; a byte that is not UTF-8 becomes \ufffd. The result is therefore always printable
 * UTF-8. */
#pragma once

#include <rota/str.h>

enum {
    ROTA_QUOTE_PIECE_MAX = 8, /* room for one character as it is shown */
    ROTA_QUOTE_MAX = 96,      /* room for what rota_quote() writes */
};

/* Take one character off `*rest`, which is not empty, and write how it is
 * shown, without a NUL. Returns how many bytes that are. */
size_t rota_quote_next(struct rota_str *rest, char piece[ROTA_QUOTE_PIECE_MAX]);

/* Write `str` in quotation marks, for a message to people: a long one is cut
 * and followed by dots. Returns `text`. */
char *rota_quote(struct rota_str str, char text[ROTA_QUOTE_MAX]);
