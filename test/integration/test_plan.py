#!/usr/bin/env python3
"""Plans at a real cluster: test_plan.py ROTAD ROTA.

Three nodes share a ring space and a queue. What a plan predicts is compared, shard by shard,
with what comes when it is applied; jobs come and are done meanwhile. Prints TAP."""

import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import promise  # noqa: E402
import rotad  # noqa: E402
import tap  # noqa: E402
from tap import test  # noqa: E402
from work_processes import wait_until  # noqa: E402

ROTAD, ROTA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TIMEOUT = 120
LONG = 660  # of many large plans, or of all jobs of a queue, on a busy machine
SHARDS = 500
SETTINGS = f"""ttl = "10s"

[[space]]
name = "orders"
shards = {SHARDS}
"""


class Node:
    def __init__(self, folder, number):
        self.store, self.number = f"sqlite:{folder}/store.db", number
        self.folder = os.path.join(folder, f"node-{number}")
        os.mkdir(self.folder)
        with open(f"{self.folder}/rotad.toml", "w") as file:
            file.write(SETTINGS)
        self.start("127.0.0.1:0")

    def start(self, listen):
        with open(f"{self.folder}/log", "a") as log:
            self.process = subprocess.Popen(
                [ROTAD, "--config", "rotad.toml", "--store", self.store, "--http", "127.0.0.1:0",
                 "--workers", "127.0.0.1:0", "--listen", listen, "--zone", f"zone-{self.number % 2}"],
                cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), line
        reach = dict(word.split("=", 1) for word in line.split()[1:])
        self.grpc, self.http = reach["grpc"], reach["http"]
        with open(f"{self.folder}/rota-data/token") as file:
            self.token = file.read().strip()

    def ask(self, method, path, body=None, token=True, timeout=TIMEOUT):
        connection = http.client.HTTPConnection(self.http, timeout=timeout)
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {self.token}"
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        result = json.loads(answer.read())
        connection.close()
        return answer.status, result

    def get(self, path):
        status, result = self.ask("GET", path)
        assert status == 200, (status, result)
        return result

    def await_news(self, look, what):
        return rotad.await_news(self.http, look, what)

    def owners(self):
        space = self.get("/api/v1/spaces/orders")
        return [space["nodes"][owner] if owner >= 0 else None for owner, _, _ in space["shards"]], \
            all(state == 0 for _, _, state in space["shards"])


@test
def without_a_token_plans_are_computed_but_not_applied(nodes):
    status, result = nodes[0].ask("POST", "/api/v1/plan", {}, token=False)
    assert status == 200 and result["moves"] == 0, (status, result)
    status, result = nodes[0].ask("POST", "/api/v1/plan/apply", {}, token=False)
    assert status == 401, (status, result)


@test
def senseless_plans_are_refused(nodes):
    for body, word in [({"remove": ["nobody:1"]}, "nobody:1"), ({"what": 1}, "what"), ({"mode": "x"}, "lookup"),
                       ({"weights": {nodes[0].grpc: -1}}, "weight"), ({"add": [{"name": nodes[0].grpc}]}, "already"),
                       ({"counts": {"q": 0}}, "partitions"), ({"counts": {"q": 3}}, "no queue q"),
                       ({"batch": 10 ** 9}, "batch"), ({"remove_zone": "mars"}, "mars"), ([], "JSON")]:
        status, result = nodes[0].ask("POST", "/api/v1/plan", body)
        assert status in (400, 404) and word in result["error"], (body, status, result)
    status, result = nodes[0].ask("POST", "/api/v1/plan/apply", {"remove": [node.grpc for node in nodes]})
    assert status == 400 and "no node" in result["error"], (status, result)
    assert nodes[0].ask("GET", "/api/v1/plans/1")[0] == 404


@test
def nothing_that_changes_moves_nothing(nodes):
    status, plan = nodes[1].ask("POST", "/api/v1/plan", {})
    assert status == 200 and plan["moves"] == 0 and plan["minimum"] == 0, plan
    assert plan["n_shards"] == SHARDS + 16, plan["n_shards"]
    assert plan["spread_before"] == plan["spread_after"]


@test
def a_new_node_takes_only_its_share(nodes):
    status, plan = nodes[1].ask("POST", "/api/v1/plan", {"add": [{"name": "new:1", "zone": "zone-0"}]})
    assert status == 200, plan
    orders = next(each for each in plan["per_space"] if each["name"] == "orders")
    gained = dict(plan["spread_after"])["new:1"]
    assert 0 < orders["moves"] <= gained and orders["minimum"] == SHARDS // 4, plan


LARGE = {"add": [{"name": f"10.{i // 250}.{i % 250}.1:7700", "weight": 100} for i in range(1000)]}


@test
def a_large_plan_needs_the_token(nodes):
    status, result = nodes[0].ask("POST", "/api/v1/plan", LARGE, token=False)
    assert status == 401 and "token" in result["error"], (status, str(result)[:200])


@test
def a_large_plan_does_not_block_the_node(nodes):
    answers = []
    planner = threading.Thread(target=lambda: answers.append(nodes[0].ask("POST", "/api/v1/plan", LARGE)))
    planner.start()
    connection = http.client.HTTPConnection(nodes[0].http, timeout=TIMEOUT)
    n_healthy = 0
    while not answers:
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        n_healthy += not answers
    planner.join()
    connection.close()
    (status, plan), = answers
    assert status == 200 and len(plan["spread_after"]) == 1003, (status, str(plan)[:200])
    # A node that plans on its loop answers those that came before, and then nothing until it is through.
    assert n_healthy >= 20, n_healthy


@test
def more_plans_at_a_time_than_allowed_are_refused(nodes):
    statuses = []
    while 429 not in statuses:  # on a busy machine they may come one after the other
        statuses.clear()
        planners = [threading.Thread(target=lambda: statuses.append(
            nodes[0].ask("POST", "/api/v1/plan", LARGE, timeout=LONG)[0])) for _ in range(12)]
        for planner in planners:
            planner.start()
        for planner in planners:
            planner.join()
        assert set(statuses) <= {200, 429} and statuses.count(200) >= 8, statuses


def rota(*arguments):
    result = subprocess.run([ROTA, *arguments], text=True, capture_output=True, timeout=LONG)
    assert result.returncode == 0, (arguments, result)
    return result.stdout


class Load:
    """Jobs of a queue come at all nodes, and are done, until it is over."""

    def __init__(self, nodes, queue):
        self.nodes, self.queue, self.n_added, self.n_unknown, self.failures = nodes, queue, 0, 0, []
        self.is_over, self.changed = threading.Event(), threading.Condition()
        self.thread = threading.Thread(target=self.add)
        self.thread.start()
        self.worker = subprocess.Popen([ROTA, "work", "--queue", queue, "--slots", "4", "--node",
                                        ",".join(node.grpc for node in nodes), "--", "true"], stderr=subprocess.DEVNULL)

    def add(self):
        while not self.is_over.is_set():
            node = self.nodes[self.n_added % len(self.nodes)]
            status, result = node.ask("POST", f"/api/v1/queues/{self.queue}/jobs", {"payload": str(self.n_added)})
            with self.changed:
                if status == 200:
                    self.n_added += 1
                elif status == 503:
                    self.n_unknown += 1
                else:
                    self.failures.append((status, result))
                self.changed.notify_all()

    def await_added(self, n):
        with self.changed:
            assert self.changed.wait_for(lambda: self.n_added > n or self.failures, TIMEOUT), self.n_added

    def end(self):
        """All that was added was done, by one completion each."""
        try:
            self.is_over.set()
            self.thread.join()
            assert not self.failures, self.failures[:3]
            rota("queue", "wait-empty", self.queue, "--timeout", "10m", "--node", self.nodes[0].grpc)
            # A job that moves to another node is at both for a moment.
            queue = self.nodes[0].await_news(lambda: next((seen for seen in [layout_of(self.nodes[0], self.queue)]
                                                           if seen["n_done"] == seen["done_total"]), None), "one count of done jobs")
            assert queue["n_dead"] == 0, queue
            promise.check(self.n_added <= queue["n_done"] <= self.n_added + self.n_unknown,
                          f"{self.n_added} were added and perhaps {self.n_unknown} more: {queue}")
        finally:
            self.worker.terminate()
            self.worker.wait(TIMEOUT)


def layout_of(node, name):
    return next(queue for queue in node.get("/api/v1/queues")["items"] if queue["name"] == name)


def plan_and_apply(asked, body, step):
    status, plan = asked.ask("POST", "/api/v1/plan", body)
    assert status == 200, plan
    assert any(step in each for each in plan["steps"]), plan["steps"]
    status, made = asked.ask("POST", "/api/v1/plan/apply", body)
    assert status == 200, made
    done = asked.await_news(lambda: next((seen for seen in [asked.get(f"/api/v1/plans/{made['id']}")]
                                          if seen["state"] in ("done", "failed")), None), "the end of the plan")
    assert done["state"] == "done", done
    assert done["outcome"]["moves"] == done["predicted"]["moves"] == plan["moves"], done
    assert done["outcome"]["spread_after"] == plan["spread_after"], done
    return plan


@test
def partitions_batch_and_mode_come_as_predicted_while_jobs_are_done(nodes):
    load = Load(nodes, "orders")
    try:
        load.await_added(50)
        for asked, body, n, step in [
                (nodes[0], {"counts": {"orders": 48}}, 48, "give queue orders 48 partitions"),
                (nodes[1], {"batch": 4, "mode": "lookup"}, 48, "spread the partitions of queue orders by batch 4 and mode lookup"),
                (nodes[2], {"counts": {"orders": 5}, "batch": 16, "mode": "slots"}, 5, "leave queue orders 5 partitions")]:
            plan = plan_and_apply(asked, body, step)
            assert (plan["moves"] > 0) == ("batch" in body), plan
            for node in nodes:
                queue = node.await_news(lambda: next((seen for seen in [layout_of(node, "orders")]
                                                      if seen["read"] == n), None), "the layout at a node")
                assert queue["wanted"] == queue["write"] == n, queue
                assert queue["batch"] == body.get("batch", 16), queue
    finally:
        load.end()


def instants(store, queue, layout, n):
    """When each partition of a queue changes, in ms, as the library says."""
    routes = json.loads(rota("route", "--store", store, "--queue", queue, "--partitions", str(n), "--json"))
    span = ["--start", str(layout["change_start_ms"] * 10 ** 6), "--end", str(layout["change_end_ms"] * 10 ** 6)]
    return {route["partition"]: json.loads(rota("gradual", "--key", route["key"], *span, "--now", "0", "--json"))["when_ns"] / 10 ** 6
            for route in routes["partitions"]}


def departures(nodes, known):
    """The partitions whose jobs have moved, and when: {(queue, partition): at_ms}."""
    for node in nodes:
        for event in node.get("/api/v1/events")["events"]:
            found = re.fullmatch(r"has (\d+) jobs? of partition (\d+) moving to (.*)", event["text"])
            if found and event["node"] in {other.grpc for other in nodes}:
                known.setdefault((event["subject"], int(found[2])), event["at_ms"])
    return known


def knows_nodes(node, n):
    seen = json.loads(rota("queue", "nodes", "--json", "--node", node.grpc))
    return len(seen["nodes"]) == n and seen["leaving"] == 0


@test
def drains_and_weights_that_are_due_outlive_the_node_that_was_asked(_):
    nodes = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            nodes = [Node(folder, number) for number in range(4)]
            for node in nodes:
                node.await_news(lambda: len(node.get("/api/v1/cluster")["nodes"]) == 4, "all nodes")
            asked, first, second, heavy = nodes

            def is_changed():
                seen = {node["address"]: node for node in second.get("/api/v1/cluster")["nodes"]}
                return [seen[node.grpc]["state"] in ("draining", "drained") for node in (first, second)] + \
                    [seen[heavy.grpc]["weight"] == 2]

            status, made = asked.ask("POST", "/api/v1/plan/apply", {
                "remove": [first.grpc, second.grpc], "weights": {heavy.grpc: 2}, "gradual_ms": 16000})
            assert status == 200, made
            asked.await_news(lambda: asked.get(f"/api/v1/plans/{made['id']}")["state"] != "applying", "all answers")
            asked.process.kill()
            asked.process.wait()
            assert not all(is_changed())
            second.await_news(lambda: all(is_changed()), "the other changes")
            rota("node", "undrain", first.grpc, "--node", heavy.grpc)
            heavy.await_news(lambda: next(node["state"] == "serving" for node in heavy.get("/api/v1/cluster")["nodes"]
                                          if node["address"] == first.grpc), "work for it again")
        finally:
            for node in nodes:
                node.process.kill()
                node.process.wait()


@test
def a_gradual_change_goes_partition_by_partition_and_outlives_the_node_that_was_asked(_):
    queues, nodes = ["mail", "web", "batch"], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            nodes = [Node(folder, number) for number in range(3)]
            for queue in queues:
                nodes[0].ask("POST", f"/api/v1/queues/{queue}/jobs", {"payload": "x"})
                rota("queue", "pause", queue, "--node", nodes[0].grpc)
            for node in nodes:
                node.await_news(lambda: len(node.get("/api/v1/cluster")["nodes"]) == 3, "all nodes")
                node.await_news(lambda: {each["name"] for each in node.get("/api/v1/queues")["items"]} == set(queues), "all queues")
            for node in nodes:  # queues have a list of nodes of their own
                wait_until(lambda node=node: knows_nodes(node, 3), "that the queues know all nodes")
            for queue in queues:
                for number in range(80):
                    assert nodes[number % 3].ask("POST", f"/api/v1/queues/{queue}/jobs", {"payload": "x"})[0] == 200
            moved_before = departures(nodes, {})
            status, made = nodes[0].ask("POST", "/api/v1/plan/apply", {"batch": 4, "mode": "lookup", "gradual_ms": 12000})
            assert status == 200, made
            layouts = {queue: nodes[1].await_news(lambda: next((seen for seen in [layout_of(nodes[1], queue)] if seen["batch"] == 4),
                                                               None), "the layout") for queue in queues}
            for layout in layouts.values():
                assert layout["change_end_ms"] - layout["change_start_ms"] == 12000, layout
                assert layout["change_from_batch"] == 16 and layout["change_from_slots"] and not layout["is_slots"], layout
            due = {(queue, partition): at for queue in queues for partition, at in instants(nodes[0].store, queue, layouts[queue], 16).items()}
            told = time.strftime("%Y-%m-%dT%H:%M:", time.gmtime(layouts["mail"]["change_end_ms"] / 1000))
            assert told in rota("queue", "show", "mail", "--node", nodes[2].grpc)
            moved = {}
            nodes[1].await_news(lambda: departures(nodes, moved), "the first partition that moves")
            nodes[0].process.kill()  # the node that was asked
            nodes[0].process.wait()
            killed_at = time.time() * 1000
            # Without the change the others would never let these go.
            later = nodes[1].await_news(lambda: [each for each in departures(nodes[1:], moved) if due[each] > killed_at],
                                        "a partition that moves after that")
            assert later
            nodes[0].start(nodes[0].grpc)
            for node in nodes:
                for queue in queues:
                    seen = layout_of(node, queue)
                    assert seen["change_end_ms"] == layouts[queue]["change_end_ms"], (seen, layouts[queue])
            for (queue, partition), at in departures(nodes, moved).items():
                if (queue, partition) in moved_before:
                    continue  # when the nodes had just come
                assert at >= int(due[queue, partition]), (queue, partition, at, due[queue, partition])
        finally:
            for node in nodes:
                node.process.kill()
                node.process.wait()


@test
def a_queue_is_spread_in_another_way_by_a_command(nodes):
    here = nodes[0].grpc
    nodes[0].ask("POST", "/api/v1/queues/spread/jobs", {"payload": "x"})
    assert "queue spread would have --batch 8 and --mode slots\n" == rota("queue", "spread", "spread", "--batch", "8", "--dry-run", "--node", here)
    assert layout_of(nodes[0], "spread")["batch"] == 16
    assert "queue spread has --batch 8 and --mode slots\n" == rota("queue", "spread", "spread", "--batch", "8", "--node", here)
    change = json.loads(rota("queue", "spread", "spread", "--mode", "lookup", "--gradual", "1h", "--json", "--node", here))
    assert change["batch"] == 8 and change["mode"] == "lookup", change
    assert change["change"]["from_batch"] == 8 and change["change"]["from_mode"] == "slots", change
    for node in nodes:
        node.await_news(lambda: layout_of(node, "spread")["change_end_ms"] > 0, "the change at a node")
    again = subprocess.run([ROTA, "queue", "spread", "spread", "--batch", "2", "--gradual", "1h", "--node", nodes[1].grpc],
                           capture_output=True, text=True, timeout=TIMEOUT)
    assert again.returncode == 2 and "more seconds" in again.stderr, again
    assert "has --batch 2 and --mode lookup\n" in rota("queue", "spread", "spread", "--batch", "2", "--node", nodes[1].grpc)
    assert layout_of(nodes[1], "spread")["change_end_ms"] == 0


def partitions(node):
    """To write to, and to read from."""
    queue = json.loads(rota("queue", "show", "slow", "--json", "--node", node))
    return queue["write"], queue["read"]


@test
def partitions_that_hold_jobs_are_read_until_they_are_empty(nodes):
    here = nodes[1].grpc
    rota("job", "add", "--queue", "slow", "--node", here, "x")
    rota("queue", "pause", "slow", "--node", here)
    for number in range(40):
        nodes[number % 3].ask("POST", "/api/v1/queues/slow/jobs", {"payload": str(number)})
    told = rota("queue", "partitions", "slow", "1", "--dry-run", "--node", here)
    assert "would get 1 partitions" in told, told
    assert partitions(here) == (16, 16)
    assert json.loads(rota("queue", "partitions", "slow", "1", "--json", "--node", here))["read"] == 16
    for node in nodes:
        node.await_news(lambda: partitions(node.grpc) == (1, 16), "the layout")
    rota("queue", "resume", "slow", "--node", here)
    worker = subprocess.Popen([ROTA, "work", "--queue", "slow", "--node", nodes[2].grpc, "--", "true"], stderr=subprocess.DEVNULL)
    try:
        for node in nodes:
            node.await_news(lambda: partitions(node.grpc) == (1, 1), "the end of it")
        queue = layout_of(nodes[0], "slow")
        assert queue["done_total"] == 41, queue
    finally:
        worker.terminate()
        worker.wait(TIMEOUT)


def apply_as_predicted(asked, body, step):
    """Plan, apply, and compare; returns the owners after it."""
    before, _ = asked.owners()
    status, plan = asked.ask("POST", "/api/v1/plan", body)
    assert status == 200 and plan["moves"] > 0, plan
    assert asked.owners()[0] == before, "a plan alone changes something"
    assert plan_and_apply(asked, body, step) == plan
    after, is_settled = asked.owners()
    assert is_settled
    assert sum(a != b for a, b in zip(before, after)) == next(
        each["moves"] for each in plan["per_space"] if each["name"] == "orders" and each["kind"] == "space")
    return after

@test
def weights_that_are_applied_come_as_predicted(nodes):
    weights = {nodes[1].grpc: 2, nodes[0].grpc: 0.5}
    apply_as_predicted(nodes[2], {"weights": weights}, f"give {nodes[1].grpc} the weight 2")
    shown = {node["address"]: node["weight"] for node in nodes[0].get("/api/v1/cluster")["nodes"]}
    assert shown == {nodes[2].grpc: 1, **weights}, shown


@test
def a_node_that_goes_goes_as_predicted(nodes):
    going = nodes[2].grpc
    assert going not in apply_as_predicted(nodes[0], {"remove": [going]}, f"drain {going}")


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        nodes = []
        try:
            nodes = [Node(folder, number) for number in range(3)]
            nodes[0].ask("POST", "/api/v1/queues/mail/jobs", {"payload": "x"})
            for node in nodes:
                node.await_news(lambda: next(is_settled and len(set(owners)) == 3
                                             for owners, is_settled in [node.owners()]), "an owner for each shard")
            failed = tap.run(nodes)
        finally:
            for node in nodes:
                node.process.terminate()
            for node in nodes:
                try:
                    node.process.wait(30)
                except subprocess.TimeoutExpired:
                    node.process.kill()
                    node.process.wait()
                with open(f"{node.folder}/log") as file:
                    errors = [line for line in file if "ERROR" in line or "Sanitizer" in line]
                if errors:
                    failed += 1
                    tap.show(*errors[:40])
    return failed > 0


sys.exit(main())
