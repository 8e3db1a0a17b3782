/* view_text: a view as text, as in its row of the store.
 *
 *     rota-view 1
 *     number 1763289412345
 *     base 1763289400000
 *     engine ring
 *     to ring
 *     phase stable
 *     shards 1024
 *     seat NODE                                (any number; of a static space)
 *     member FROM TO WEIGHT INSTANCE NODE      (any number)
 *     pin FROM TO SHARD NODE                   (any number)
 *     refusal FROM TO SHARD SIZE NODE REASON   (any number)
 *     end
 *
 * In this order, each line with its LF, one space between two words. Numbers are decimal without
 * leading zeros; a TO of 0 means not ended. NODE is the rest of the line: a name without control
 * characters; of a refusal, SIZE bytes, and the rest is REASON. A text with refusals begins with
 * "rota-view 2", so that programs that do not know them reject it.
 *
 * The view of a keyed space begins with "rota-view 3", has 0 shards, and members with zones:
 *
 *     member FROM TO WEIGHT INSTANCE SIZE NODE ZONE
 *
 * NODE has SIZE bytes; a member without a zone ends there. Nothing else is allowed, so that a row
 * that was edited by hand, or truncated, is detected: there is one text for each view. */
#pragma once

#include "base/buffer.h"
#include "core/own/view.h"

enum {
    ROTA_VIEW_TEXT_VERSION = 3,   /* the highest that is read */
    ROTA_VIEW_TEXT_MAX = 6 << 20, /* bytes; a view within its bounds has less */
};

/* Fills `view`, which is empty, and stays so on failure. What is read is checked as by
 * rota_view_check(). */
enum rota_code rota_view_text_parse(struct rota_str text, struct rota_view *view,
                                    struct rota_error *error);

/* Append the view's text. */
void rota_view_text_format(const struct rota_view *view, struct rota_buffer *buffer);
