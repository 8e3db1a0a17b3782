#!/usr/bin/env python3
"""Several nodes as operators see them: test_nodes.py ROTAD ROTA [NAME...].

What each of them shows of all, what happens when one is killed, drained or evicted, events, and the
commands. Prints TAP."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rotad import ANY_PORTS, TIMEOUT, Node, await_true, cluster, run_tests  # noqa: E402

ROTAD, ROTA = (os.path.abspath(path) for path in sys.argv[1:3])
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def rota(*words, code=0, node=None):
    done = subprocess.run([ROTA, *words], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **({"ROTA_NODE": node.name} if node else {})})
    assert done.returncode == code, (words, done)
    return done.stderr if code else done.stdout


def states(node):
    return {entry["address"]: entry["state"] for entry in node.get("/api/v1/cluster")["nodes"]}


def add_jobs(node, queue, n):
    for _ in range(n):
        rota("job", "add", "--queue", queue, "x", node=node)


@test
def no_node_is_warned_of_before_it_has_joined():
    with cluster(ROTAD, 2) as nodes:
        nodes[1].process.send_signal(signal.SIGTERM)
        assert nodes[1].process.wait(TIMEOUT) == 0
        await_true(lambda: sum(entry["is_placed"] for entry in nodes[0].get("/api/v1/cluster")["nodes"]) == 1)
        for node in nodes:
            with open(node.data + ".log") as log:
                assert "node not in the list of nodes" not in log.read()


@test
def a_node_that_is_not_there_yet_is_waited_for_by_drain():
    with tempfile.TemporaryDirectory(prefix="rota-nodes-") as folder:
        node = Node(ROTAD, folder, "n", *ANY_PORTS)
        words = ["--listen", node.name, *ANY_PORTS[2:]]
        add_jobs(node, "q", 1)
        rota("queue", "pause", "q", node=node)
        node.end()
        waiting = subprocess.Popen([ROTA, "queue", "wait-empty", "--node", node.name, "--timeout", "10m", "q"])
        for _ in range(2): # so that it has asked, too
            assert "refused" in rota("job", "add", "--queue", "q", "x", node=node, code=1)
        node = Node(ROTAD, folder, "n", *words)
        try:
            for job in rota("job", "list", "--queue", "q", node=node).splitlines():
                rota("job", "cancel", job.split()[0], node=node)
            assert waiting.wait(TIMEOUT) == 0
        finally:
            waiting.kill()
            waiting.wait(TIMEOUT)
            node.end()


@test
def every_node_shows_all():
    with cluster(ROTAD, 3) as nodes:
        for node in nodes:
            shown = node.get("/api/v1/cluster")
            assert shown["node"]["address"] == node.name
            assert [entry["address"] for entry in shown["nodes"]] == sorted(one.name for one in nodes)
            for entry in shown["nodes"]:
                own = next(one for one in nodes if one.name == entry["address"])
                assert entry["http"] == own.reach["http"] and entry["state"] == "serving", entry
                assert entry["is_alive"] and entry["is_placed"] and not entry["is_draining"], entry
                assert entry["memory"] > 1 << 20 and entry["cpu_ms"] > 0 and entry["weight"] == 1, entry
                assert abs(shown["now_ms"] - entry["heard_ms"]) < 1000 * TIMEOUT, entry
            points = shown["ring"]["points"]
            assert len(points) == 300 and points == sorted(points), points[:5]
            assert {place for _, place in points} == {0, 1, 2}
        assert len({json.dumps(node.get("/api/v1/cluster")["ring"]) for node in nodes}) == 1


@test
def killed_node_is_dead_and_one_that_left_is_gone():
    with cluster(ROTAD, 3, "--ttl", "2s") as (one, two, three):
        two.process.kill()
        await_true(lambda: states(one)[two.name] == "dead")
        dead = next(entry for entry in one.get("/api/v1/cluster")["nodes"] if entry["address"] == two.name)
        assert not dead["is_alive"] and not dead["is_placed"] and dead["http"] == two.reach["http"], dead
        three.process.send_signal(signal.SIGTERM)
        three.process.wait(TIMEOUT)
        await_true(lambda: set(states(one)) == {one.name, two.name})

        def told(name, text):
            return [event for event in one.get("/api/v1/events?kind=node")["events"]
                    if event["subject"] == name and text in event["text"]]
        await_true(lambda: told(three.name, "has left"))
        assert len(told(two.name, "is dead")) == 1 and not told(two.name, "has left"), one.get("/api/v1/events")
        assert not told(one.name, "is dead") and not told(three.name, "is dead")


@test
def stopped_node_is_unresponsive_before_it_is_dead():
    with cluster(ROTAD, 2, "--ttl", "5s") as (one, two):
        two.process.send_signal(signal.SIGSTOP)
        seen = []
        try:
            def is_dead():
                state = states(one)[two.name]
                seen.append(state)
                return state == "dead"
            await_true(is_dead)
        finally:
            two.process.send_signal(signal.SIGCONT)
        assert "unresponsive" in seen, seen
        await_true(lambda: states(one)[two.name] == "serving")


@test
def drain_prints_its_plan_moves_all_and_is_undone():
    with cluster(ROTAD, 3) as (one, two, three):
        add_jobs(one, "q", 12)
        jobs = {entry["address"]: entry["jobs"] for entry in one.get("/api/v1/cluster")["nodes"]}
        busy = max((two, three), key=lambda node: jobs[node.name])
        path = f"/api/v1/nodes/{busy.name}/"
        # A node may have taken jobs by an earlier view of who serves queues; these still move.
        plans = []
        await_true(lambda: plans.append([one.post(f"/api/v1/nodes/{name}/drain", {"is_dry_run": True})
                                         for name in (busy.name, busy.title, busy.name)])
                   or plans[-1][0] == plans[-1][1] == plans[-1][2], "a plan that is the same by address and by name")
        plan = plans[-1][0]
        assert not plan["is_done"] and plan["plan"][0].startswith(f"{busy.title} hands over"), plan
        assert plan["node"] == busy.name, plan
        assert any("queue q: " in said and "of its 16 partitions" in said for said in plan["plan"]), plan
        assert states(one)[busy.name] == "serving"

        said = rota("node", "drain", busy.name, "--wait", node=one)
        assert said.splitlines() == plan["plan"], (said, plan)
        shown = json.loads(rota("node", "show", busy.name, "--json", node=one))
        assert shown["state"] == "drained" and shown["jobs"] == 0, shown
        await_true(lambda: not json.loads(rota("node", "show", busy.name, "--json", node=one))["is_placed"])
        await_true(lambda: sum(entry["jobs"] for entry in one.get("/api/v1/cluster")["nodes"]) == 12)
        assert busy.ask("/readyz")[0] == 503

        assert "is already drained" in rota("node", "drain", busy.name, "--dry-run", node=busy)
        rota("node", "undrain", busy.name, node=busy)
        await_true(lambda: states(one)[busy.name] == "serving")
        await_true(lambda: next(entry["jobs"] for entry in one.get("/api/v1/cluster")["nodes"]
                                if entry["address"] == busy.name) > 0, "jobs that come back")
        assert busy.ready.count("\n") == 1  # it says that it is ready once
        worker = subprocess.Popen([ROTA, "work", "--node", busy.name, "--queue", "q", "--", "true"],
                                  stderr=subprocess.DEVNULL)
        try:
            await_true(lambda: sum(entry["jobs"] for entry in one.get("/api/v1/cluster")["nodes"]) == 0)
        finally:
            worker.kill()
            worker.wait(TIMEOUT)


@test
def a_drain_lists_what_moves_up_to_a_bound_of_partitions():
    with cluster(ROTAD, 2) as (one, two):
        for queue in "abcde":
            add_jobs(one, queue, 1)
            rota("queue", "partitions", queue, "65536", node=one)
        plan = one.post(f"/api/v1/nodes/{two.name}/drain", {"is_dry_run": True})["plan"]
        queues = [said for said in plan if said.startswith("queue")]
        assert [said.split()[1] for said in queues] == ["a:", "b:", "c:", "d:", "from"], plan
        assert all("of its 65536 partitions move" in said and f" to {one.title}" in said for said in queues[:4]), plan
        assert queues[4] == "queues from e on have too many partitions to list what moves", plan


def members_of_queues(node):
    """By the view in the store."""
    with contextlib.closing(sqlite3.connect(os.path.join(os.path.dirname(node.data), "store.db"))) as store:
        text = store.execute("SELECT config FROM rota_spaces WHERE name = 'queues'").fetchone()[0]
    lines = [line.split() for line in (text.decode() if isinstance(text, bytes) else text).splitlines()]
    return sorted(words[6] for words in lines if words[0] == "member" and words[2] == "0")


@test
def evicted_node_gets_no_work_until_undrained():
    with cluster(ROTAD, 2) as (one, two):
        said = json.loads(rota("node", "evict", two.name, "--json", node=one))
        assert said["is_done"] and said["node"] == two.name and "marked as dead" in said["plan"][0], said
        assert states(one)[two.name] == "evicted"
        await_true(lambda: not next(entry["is_placed"] for entry in one.get("/api/v1/cluster")["nodes"]
                                    if entry["address"] == two.name))
        await_true(lambda: members_of_queues(one) == [one.name])
        rota("node", "undrain", two.name, node=one)
        await_true(lambda: states(one)[two.name] == "serving")
        await_true(lambda: members_of_queues(one) == sorted([one.name, two.name]))
        for verb in ("evict", "show"):
            listed = sorted((one, two), key=lambda node: node.name)
            assert "no such node; the nodes are " + ", ".join(f"{node.title} ({node.name})" for node in listed) in rota(
                "node", verb, "10.9.9.9:1", node=one, code=1)
        assert one.ask("/api/v1/nodes/10.9.9.9:1/drain", "POST", {})[0] == 404
        assert one.ask(f"/api/v1/nodes/{two.name}/drain", "POST", {}, token="x" * 43)[0] in (401, 403)
        assert one.ask(f"/api/v1/nodes/{two.name}/drain", "POST", {"is_dry_rum": True})[0] == 400
        assert states(one)[two.name] == "serving"


@test
def only_operators_change_a_cluster_and_events_name_them():
    with cluster(ROTAD, 2) as (one, two):
        wrong = os.path.join(os.path.dirname(one.data), "wrong")
        with open(wrong, "w", encoding="ascii") as file:
            file.write("x" * 43 + "\n")
        rota("job", "add", "--queue", "mail", "--token-file", wrong, "x", node=one)  # anyone may add jobs
        for words in (["node", "drain", two.name], ["node", "evict", two.name], ["queue", "pause", "mail"],
                      ["queue", "partitions", "mail", "4"]):
            done = subprocess.run([ROTA, *words, "--node", one.name, "--token-file", wrong],
                                  capture_output=True, text=True, timeout=TIMEOUT, check=False)
            assert done.returncode == 1 and "only operators may call" in done.stderr, (words, done)
            assert "the token you sent does not belong to this node" in done.stderr, (words, done)
        assert states(one)[two.name] == "serving"
        with open(os.path.join(one.data, "token"), encoding="ascii") as file:
            token = file.read().strip()
        with open(wrong, "w", encoding="ascii") as file:
            file.write(token)
        rota("node", "drain", two.name, "--token-file", wrong, node=one)
        rota("node", "undrain", two.name, node=one)  # the command finds the token of a node here by itself
        texts = [event["text"] for event in one.get("/api/v1/events?kind=operator")["events"]
                 if event["subject"] == two.name]
        assert len(texts) == 2 and all(", by an operator with the token, from 127.0.0.1:" in text for text in texts), texts


@test
def each_node_returns_the_events_of_all():
    with cluster(ROTAD, 2) as (one, two):
        process = subprocess.Popen([ROTA, "events", "--follow", "--json", "--node", two.name],
                                   stdout=subprocess.PIPE, text=True)
        try:
            rota("job", "add", "--queue", "mail", "x", node=one)
            one.post("/api/v1/queues/mail/pause")
            texts = []
            for line in process.stdout:
                event = json.loads(line)
                if event["subject"] == "mail":
                    assert event["kind"] == "queue", event
                    texts.append(event["text"])
                if len(texts) == 2:
                    break
            assert "is paused" in texts, texts
            assert any(re.fullmatch(r"received a Pause request by an operator with the token, over HTTP, from 127\.0\.0\.1:\d+", text) for text in texts), texts
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        rota("job", "add", "--queue", "mail", "--attempts", "1", "y", node=one)
        one.post("/api/v1/queues/mail/resume")
        worker = subprocess.Popen([ROTA, "work", "--node", one.name, "--queue", "mail", "--", "false"],
                                  stderr=subprocess.DEVNULL)
        try:
            dead = await_true(lambda: [event for event in two.get("/api/v1/events?kind=job")["events"]
                                       if "is dead after 1 attempts" in event["text"]])
        finally:
            worker.kill()
            worker.wait(TIMEOUT)
        assert dead[0]["subject"].startswith("mail/") and dead[0]["node"] in (one.name, two.name), dead
        for node in (one, two):
            page = node.get("/api/v1/events")
            assert {event["node"] for event in page["events"]} == {one.name, two.name}, page
            assert [event["at_ms"] for event in page["events"]] == sorted(event["at_ms"] for event in page["events"])
            assert node.get(f"/api/v1/events?after={page['after']}")["events"] == []
            kinds = {event["kind"] for event in node.get("/api/v1/events?kind=node")["events"]}
            assert kinds == {"node"}, kinds
            assert node.ask("/api/v1/events?kind=nonsense")[0] == 400
        said = rota("events", "--kind", "node", node=one).splitlines()
        assert rota("events", "--kind", "node", "-o", "tsv", node=one).splitlines() == said
        table = rota("events", "--kind", "node", "-o", "wide", node=one).splitlines()
        assert table[0].split() == ["TIME", "KIND", "EVENT"] and len(table) == len(said) + 1, (table, said)
        assert all(line.index("node ") == table[0].index("KIND") for line in table[1:]), table
        assert max(map(len, rota("events", "-o", "table", node=one).splitlines())) <= 80
        assert [json.loads(line)["kind"] for line in rota("events", "--kind", "node", "-o", "json", node=one).splitlines()] \
            == ["node"] * len(said)
        assert said and all(line.split("\t")[1] == "node" for line in said), said
        assert "kind must be one of" in rota("events", "--kind", "nodes", node=one, code=2)


@test
def queues_of_all_nodes_come_page_by_page():
    with cluster(ROTAD, 2) as (one, two):
        names = [f"q{i:02d}" for i in range(20)]
        for name in reversed(names):
            for node in (one, two):
                node.post(f"/api/v1/queues/{name}/jobs", {"payload": "x"})
        for node in (one, two):
            seen, after = [], ""
            while True:
                page = node.get(f"/api/v1/queues?max=7&after={after}")
                seen += page["items"]
                after = page["next"]
                if not after:
                    break
                assert len(page["items"]) == 7, page
            assert [queue["name"] for queue in seen] == names, seen
            assert [queue["n_waiting"] for queue in seen] == [2] * len(names), seen
            assert node.get("/api/v1/queues")["next"] == "" and node.ask("/api/v1/queues?max=1001")[0] == 400


@test
def observers_do_not_keep_a_node_from_stopping():
    with cluster(ROTAD, 2, "--drain-limit", "1h") as (one, two):
        connection = http.client.HTTPConnection(one.reach["http"], timeout=TIMEOUT)
        connection.request("GET", "/api/v1/stream")
        assert connection.getresponse().readline()
        process = subprocess.Popen([ROTA, "events", "--follow", "--json", "--node", f"{one.name},{two.name}"],
                                   stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline()
            two.process.send_signal(signal.SIGSTOP)  # and a question that is not answered meanwhile
            threading.Thread(target=one.ask, args=("/api/v1/cluster",), daemon=True).start()
            one.process.send_signal(signal.SIGTERM)
            assert one.process.wait(TIMEOUT) == 0
            two.process.send_signal(signal.SIGCONT)
            for line in process.stdout:  # continues with the other
                event = json.loads(line)
                if event["subject"] == one.name and event["text"] == "has left":
                    break
            assert event["node"] == two.name
            two.process.send_signal(signal.SIGTERM)
            assert two.process.wait(TIMEOUT) == 0
        finally:
            process.kill()
            process.wait(TIMEOUT)
            process.stdout.close()
            connection.close()


@test
def list_is_for_people_and_scripts():
    with cluster(ROTAD, 2) as (one, two):
        lines = rota("node", "list", node=one).splitlines()
        assert sorted(line.split("\t")[:3] for line in lines) == [[node.title, node.name, "serving"] for node in (one, two)], lines
        assert {line.split("\t")[3] for line in lines} == {"a", "b"}, lines
        listed = json.loads(rota("node", "list", "--json", "--node", f"127.0.0.1:1,{two.name}"))
        assert [entry["address"] for entry in listed["nodes"]] == sorted([one.name, two.name])
        for words in [], [one.name], [one.title]:
            assert rota("node", "show", *words, node=one).splitlines()[:3] == [
                f"name\t{one.title}", f"address\t{one.name}", "state\tserving"]
        assert "no such node" in rota("node", "show", "x:1", node=one, code=1)


@contextlib.contextmanager
def started(folder, name, *words):
    node = Node(ROTAD, folder, name, "--store", f"sqlite:{folder}/store.db", "--ttl", "2s", *ANY_PORTS, *words)
    try:
        yield node
    finally:
        node.end()


def refused(folder, *words):
    """What a node that can't start says."""
    done = subprocess.run([ROTAD, "--data", folder + "/refused", "--store", f"sqlite:{folder}/store.db", *ANY_PORTS, *words],
                          capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 1 and not done.stdout, done
    return done.stderr


def name_of(node):
    return node.get("/api/v1/node")["name"]


@test
def name_is_of_one_live_node():
    with tempfile.TemporaryDirectory(prefix="rota-nodes-") as folder:
        with started(folder, "one", "--name", "box") as one:
            why = refused(folder, "--name", "box", "--ttl", "2s")
            assert f"the live node at {one.name} has the name" in why, why
            assert list(states(one)) == [one.name], "the second one was listed"
            one.process.kill()
            one.process.wait(TIMEOUT)
            with started(folder, "two", "--name", "box") as two: # when the ttl of the first is over
                assert name_of(two) == "box" and states(two) == {one.name: "dead", two.name: "serving"}
                assert rota("node", "show", "box", node=two).splitlines()[1] == f"address\t{two.name}"


@test
def node_without_a_name_has_that_of_its_host():
    host = socket.gethostname()
    with tempfile.TemporaryDirectory(prefix="rota-nodes-") as folder:
        with started(folder, "one") as one:
            port = one.name.split(":")[1]
            assert name_of(one) == f"{host}-{port}"
            # Another host of the same name: nothing fails because of a name that the node was not given.
            with started(folder, "two", "--advertise", f"localhost:{port}") as two:
                assert name_of(two) == f"localhost:{port}"
                with open(two.data + ".log") as log:
                    assert f'msg="name of the host is taken" name={host}-{port} by={one.name}' in log.read()


@test
def names_are_shown_and_addresses_kept():
    with cluster(ROTAD, 2) as (one, two):
        two.process.send_signal(signal.SIGTERM)
        assert two.process.wait(TIMEOUT) == 0

        def left():
            return [event for event in one.get("/api/v1/events?kind=node")["events"]
                    if event["subject"] == two.name and event["node"] == one.name and "joined" not in event["text"]]
        event = await_true(left)[0]
        assert event["subject_name"] == "n1" and event["node_name"] == "n0", event
        shown = rota("events", node=one)
        assert f"n1 {event['text']}\tn0" in shown and two.name not in shown, shown
        listed = [json.loads(line) for line in rota("events", "--json", node=one).splitlines()]
        assert any(each["subject"] == two.name and each["subject_name"] == "n1" and each["node_name"] == "n0" for each in listed)
        metrics = one.ask("/metrics")[2].decode()
        assert f'rota_node_info{{address="{one.name}",node_name="n0"}} 1' in metrics


@test
def old_rows_have_no_names():
    with cluster(ROTAD, 1) as (one,):
        store = sqlite3.connect(os.path.join(os.path.dirname(one.data), "store.db"))
        with store:
            store.execute("INSERT INTO rota_members (address, roles, zone, weight, state, start_at, stop_at, ttl_ms, heartbeat) "
                          "SELECT 'old:1', roles, zone, weight, state, start_at, stop_at, 3600000, heartbeat FROM rota_members")
        store.close()
        assert await_true(lambda: states(one).get("old:1")) == "unresponsive"
        assert rota("node", "show", "old:1", node=one).splitlines()[:2] == ["name\told:1", "address\told:1"]


if __name__ == "__main__":
    sys.exit(run_tests(TESTS, sys.argv[3:]))
