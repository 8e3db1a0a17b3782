/* plan_view: print a plan, for people and for programs. */
#pragma once

#include "base/json.h"

#include <rota/experimental/plan.h>

/* What a plan is about. */
struct rota_plan_view {
    int64_t queues;
    struct rota_plan_side before, after;
    uint32_t points_before, points_after;
    rota_time start, end; /* of the gradual change; both 0: not gradual */
    const char *advice;   /* NULL: none */
};

/* Print tables to standard output, with bars if that is a terminal. */
void rota_plan_view_print(const struct rota_plan_view *view, const struct rota_plan_result *result);

/* Write the members of the document that come after its moves. */
void rota_plan_view_format_json(const struct rota_plan_view *view,
                                const struct rota_plan_result *result, struct rota_json *json);
