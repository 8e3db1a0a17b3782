#include "cli/up.h"

#include <stdio.h>

static void add_text(struct rota_json *json, const char *key, const char *text)
{
    rota_json_key(json, key);
    rota_json_text(json, text);
}

static void show_json(struct rota_watch *watch, const struct rota_up_process *nodes, size_t n_nodes,
                      const char *data)
{
    struct rota_json *json = &watch->json;
    char text[PATH_MAX + 32];
    rota_watch_begin(watch, "ready");
    snprintf(text, sizeof text, "http://%s/", nodes[0].http);
    add_text(json, "dashboard", text);
    add_text(json, "data", data);
    snprintf(text, sizeof text, "sqlite:%s/store.db", data);
    add_text(json, "store", text);
    rota_json_key(json, "nodes");
    rota_json_begin_array(json);
    for (size_t i = 0; i < n_nodes; i++) {
        rota_json_begin_object(json);
        add_text(json, "name", nodes[i].name);
        add_text(json, "zone", nodes[i].zone);
        add_text(json, "grpc", nodes[i].grpc);
        add_text(json, "zmq", nodes[i].zmq);
        add_text(json, "http", nodes[i].http);
        rota_json_key(json, "pid");
        rota_json_int(json, nodes[i].pid);
        rota_json_end_object(json);
    }
    rota_json_end_array(json);
    rota_watch_end(watch);
}

static void append_commands(struct rota_buffer *line, const struct rota_up_process *nodes,
                            size_t n_nodes, const char *data, const char *rota, bool has_no_load)
{
    rota_buffer_print(line, "  export ROTA_NODE=%s\n", nodes[0].grpc);
    if (has_no_load) {
        rota_buffer_print(line, "  %s job add --queue mail hello\n", rota);
        rota_buffer_print(line, "  %s queue list\n", rota);
        rota_buffer_print(line, "  %s work --node %s --queue mail -- tr a-z A-Z\n", rota,
                          nodes[0].nodes);
    } else {
        rota_buffer_print(line, "  %s queue show %s\n", rota, rota_up_queue);
        rota_buffer_print(line, "  %s job add --queue %s --can upper --wait hello\n", rota,
                          rota_up_queue);
        rota_buffer_print(line, "  %s group status --log sqlite:%s/groups.db --name %s\n", rota,
                          data, rota_up_queue);
    }
    rota_buffer_print(line, "  %s get sample-1 sample-2 sample-3\n", rota);
    rota_buffer_print(
        line, "  kill -9 %ld  # the others take over; it is started again after 15 seconds\n",
        nodes[n_nodes - 1].pid);
}

void rota_up_show(struct rota_watch *watch, const struct rota_up_process *nodes, size_t n_nodes,
                  const char *data, const char *rota, bool has_no_load)
{
    struct rota_buffer *line = &watch->line;
    if (watch->is_json) {
        show_json(watch, nodes, n_nodes, data);
        return;
    }
    rota_buffer_print(line, "%zu node%s, all of it in %s:\n", n_nodes, n_nodes == 1 ? "" : "s",
                      data);
    for (size_t i = 0; i < n_nodes; i++)
        rota_buffer_print(line, "  %s  zone=%s  grpc=%s  zmq=%s  http=%s  pid=%ld\n", nodes[i].name,
                          nodes[i].zone, nodes[i].grpc, nodes[i].zmq, nodes[i].http, nodes[i].pid);
    rota_buffer_print(line, "\nDashboard: http://%s/\n\nTry, in another terminal:\n",
                      nodes[0].http);
    append_commands(line, nodes, n_nodes, data, rota, has_no_load);
    rota_buffer_append_text(line, "\nCtrl-C ends it.\n\n");
    rota_watch_print(watch);
}
