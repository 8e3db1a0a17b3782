#!/usr/bin/env python3
"""Plans at a real cluster: test_plan.py ROTAD.

Three nodes share a ring space and a queue. What a plan predicts is compared, shard by shard,
with what comes when it is applied. Prints TAP."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

ROTAD = os.path.abspath(sys.argv[1])
TIMEOUT = 120
SHARDS = 500
SETTINGS = f"""ttl = "10s"

[[space]]
name = "orders"
shards = {SHARDS}
"""
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Node:
    def __init__(self, folder, number):
        self.folder = os.path.join(folder, f"node-{number}")
        os.mkdir(self.folder)
        with open(f"{self.folder}/rotad.toml", "w") as file:
            file.write(SETTINGS)
        with open(f"{self.folder}/log", "w") as log:
            self.process = subprocess.Popen(
                [ROTAD, "--config", "rotad.toml", "--store", f"sqlite:{folder}/store.db", "--http", "127.0.0.1:0",
                 "--workers", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--zone", f"zone-{number % 2}"],
                cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), line
        reach = dict(word.split("=", 1) for word in line.split()[1:])
        self.grpc, self.http = reach["grpc"], reach["http"]
        with open(f"{self.folder}/rota-data/token") as file:
            self.token = file.read().strip()

    def ask(self, method, path, body=None, token=True):
        connection = http.client.HTTPConnection(self.http, timeout=TIMEOUT)
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

    def owners(self):
        space = self.get("/api/v1/spaces/orders")
        return [space["nodes"][owner] if owner >= 0 else None for owner, _, _ in space["shards"]], \
            all(state == 0 for _, _, state in space["shards"])


def await_true(what, look):
    end = time.monotonic() + TIMEOUT
    while True:
        result = look()
        if result:
            return result
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.1)


@test
def nobody_plans_without_the_token(nodes):
    status, result = nodes[0].ask("POST", "/api/v1/plan", {}, token=False)
    assert status == 401, (status, result)


@test
def what_makes_no_sense_is_refused(nodes):
    for body, word in [({"remove": ["nobody:1"]}, "nobody:1"), ({"what": 1}, "what"), ({"mode": "x"}, "lookup"),
                       ({"weights": {nodes[0].grpc: -1}}, "weight"), ({"add": [{"name": nodes[0].grpc}]}, "already"),
                       ({"counts": {"q": 0}}, "partitions"), ({"remove_zone": "mars"}, "mars"), ([], "JSON")]:
        status, result = nodes[0].ask("POST", "/api/v1/plan", body)
        assert status in (400, 404) and word in result["error"], (body, status, result)
    for body, word in [({"remove": [node.grpc for node in nodes]}, "no node"), ({"batch": 3}, "batch")]:
        status, result = nodes[0].ask("POST", "/api/v1/plan/apply", body)
        assert status == 400 and word in result["error"], (body, status, result)
    assert nodes[0].ask("GET", "/api/v1/plans/1")[0] == 404


@test
def nothing_that_changes_moves_nothing(nodes):
    status, plan = nodes[1].ask("POST", "/api/v1/plan", {})
    assert status == 200 and plan["moves"] == 0 and plan["minimum"] == 0, plan
    assert plan["n_shards"] == SHARDS + 16, plan["n_shards"]
    assert plan["spread_before"] == plan["spread_after"]


@test
def a_node_more_takes_its_share_and_no_more(nodes):
    status, plan = nodes[1].ask("POST", "/api/v1/plan", {"add": [{"name": "new:1", "zone": "zone-0"}]})
    assert status == 200, plan
    orders = next(each for each in plan["per_space"] if each["name"] == "orders")
    gained = dict(plan["spread_after"])["new:1"]
    assert 0 < orders["moves"] <= gained and orders["minimum"] == SHARDS // 4, plan


def apply_as_predicted(asked, body, step):
    """Plan, apply, and compare; returns the owners after it."""
    before, _ = asked.owners()
    status, plan = asked.ask("POST", "/api/v1/plan", body)
    assert status == 200 and plan["moves"] > 0, plan
    assert any(step in each for each in plan["steps"]), plan["steps"]
    assert asked.owners()[0] == before, "a plan alone changes something"
    status, made = asked.ask("POST", "/api/v1/plan/apply", body)
    assert status == 200, made
    done = await_true("the end of the plan", lambda: next(
        (seen for seen in [asked.get(f"/api/v1/plans/{made['id']}")] if seen["state"] in ("done", "failed")), None))
    assert done["state"] == "done", done
    assert done["outcome"]["moves"] == done["predicted"]["moves"] == plan["moves"], done
    assert done["outcome"]["spread_after"] == plan["spread_after"], done
    after, is_settled = asked.owners()
    assert is_settled
    assert sum(a != b for a, b in zip(before, after)) == next(
        each["moves"] for each in plan["per_space"] if each["name"] == "orders")
    return after


@test
def weights_that_are_applied_come_as_predicted(nodes):
    weights = {nodes[1].grpc: 2, nodes[0].grpc: 0.5}
    apply_as_predicted(nodes[2], {"weights": weights}, f"give {nodes[1].grpc} the weight 2")
    shown = {node["name"]: node["weight"] for node in nodes[0].get("/api/v1/cluster")["nodes"]}
    assert shown == {nodes[2].grpc: 1, **weights}, shown


@test
def a_node_that_goes_goes_as_predicted(nodes):
    going = nodes[2].grpc
    assert going not in apply_as_predicted(nodes[0], {"remove": [going]}, f"drain {going}")


def main():
    print(f"1..{len(TESTS)}", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        nodes = []
        try:
            nodes = [Node(folder, number) for number in range(3)]
            nodes[0].ask("POST", "/api/v1/queues/mail/jobs", {"payload": "x"})
            await_true("an owner for each shard", lambda: all(
                is_settled and len(set(owners)) == 3 for owners, is_settled in [node.owners() for node in nodes]))
            for number, function in enumerate(TESTS, 1):
                try:
                    function(nodes)
                    print(f"ok {number} {function.__name__}", flush=True)
                except Exception:
                    failed += 1
                    print("# " + traceback.format_exc().replace("\n", "\n# "))
                    print(f"not ok {number} {function.__name__}", flush=True)
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
                    print("# " + "# ".join(errors[:40]))
    return failed > 0


sys.exit(main())
