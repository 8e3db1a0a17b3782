#!/usr/bin/env python3
"""A cluster on this machine as a user runs it: test_up.py ROTA ROTAD [NAME...].

Starts it, kills its nodes, interrupts it, and looks what it leaves behind. Prints TAP."""

import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import promise  # noqa: E402
import tap  # noqa: E402
from tap import test  # noqa: E402

ROTA, ROTAD = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 120
# Faults that a starved machine can cause.
EXCUSED = {"get_unanswered", "job_dead", "partition_forgotten", "row_late", "shard_unowned", "unchecked"}
ENVIRONMENT = {**os.environ, "ROTA_ROTAD": ROTAD}
ENVIRONMENT.pop("ROTA_NODE", None)


class Up:
    """A cluster whose events are read one by one."""

    def __init__(self, *words, json_lines=True, environment=None):
        self.folder = tempfile.TemporaryDirectory(prefix="rota-test-up-")
        self.json_lines = json_lines
        self.process = subprocess.Popen(
            [ROTA, "up", *words, *(["--json"] if json_lines else [])], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**ENVIRONMENT, "TMPDIR": self.folder.name, **(environment or {})})
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)
        self.process.stdout.close()
        self.process.stderr.close()
        self.folder.cleanup()

    def line(self):
        line = self.process.stdout.readline()
        self.seen.append(line)
        return line

    def event(self, *names):
        """The next event with one of these names."""
        while line := self.line():
            event = json.loads(line)
            if event["event"] in names:
                return event
        raise AssertionError((names, self.seen[-20:], self.process.stderr.read()))

    def node_event(self, *names):
        """The next one that is about a node."""
        while not (event := self.event(*names))["name"].startswith("node-"):
            pass
        return event

    def interrupt(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def wait(self):
        code = self.process.wait(TIMEOUT)
        self.seen += self.process.stdout.readlines()
        return code


def descendants(root):
    """All processes below this one."""
    parents = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/stat") as file:
                parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def command_of(pid):
    """Empty if it has ended meanwhile."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def await_gone(pids):
    """Until each has ended; they are others' children, so there is no waiting for them."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            try:
                assert select.select([fd], [], [], TIMEOUT)[0], f"{pid} is still there"
            finally:
                os.close(fd)


def get(address, path):
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def await_ledger(address, is_seen):
    """Until what the page shows of the check is like that; the node may be down meanwhile."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            ledger = json.loads(get(address, "/api/v1/ledger")[1])["ledger"]
            if ledger and is_seen(ledger):
                return ledger
        time.sleep(0.1)
    raise AssertionError(get(address, "/api/v1/ledger"))


def run(*words, node=None, code=0):
    done = subprocess.run([ROTA, *words], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**ENVIRONMENT, **({"ROTA_NODE": node} if node else {})})
    assert done.returncode == code, (words, done)
    return done.stdout


@test
def json_line_has_every_node():
    with Up("--no-load") as up:
        ready = up.event("ready")
        nodes = ready["nodes"]
        assert [node["name"] for node in nodes] == ["node-1", "node-2", "node-3"]
        assert [node["zone"] for node in nodes] == ["a", "b", "a"]
        shown = json.loads(get(nodes[2]["http"], "/api/v1/cluster")[1])["nodes"]  # the dashboard numbers them in this order
        assert [(node["name"], node["address"]) for node in shown] == [(node["name"], node["grpc"]) for node in nodes], (shown, nodes)
        assert ready["dashboard"] == f"http://{nodes[0]['http']}/"
        assert len({node[key] for node in nodes for key in ("grpc", "zmq", "http")}) == 9
        for node in nodes:
            os.kill(node["pid"], 0)
            assert get(node["http"], "/readyz") == (200, "serving\n")
            assert os.readlink(f"/proc/{node['pid']}/exe") == ROTAD
        members = json.loads(run("node", "members", "--store", ready["store"], "--json"))["members"]
        members = [m for m in members if m["roles"].startswith("node,")]  # others serve shards
        assert {(m["address"], m["zone"]) for m in members} == {(node["grpc"], node["zone"]) for node in nodes}
        assert not os.path.exists(os.path.join(ready["data"], "worker-upper.log"))


@test
def interrupt_leaves_nothing():
    for number in (signal.SIGINT, signal.SIGTERM):
        with Up() as up:
            ready = up.event("ready")
            run("job", "add", "--queue", "sample", "--can", "upper", "--wait", "--timeout", "60s", "hello",
                node=ready["nodes"][0]["grpc"])
            below = descendants(up.process.pid)
            assert {node["pid"] for node in ready["nodes"]} < below and len(below) >= 6, below
            up.interrupt(number)
            assert up.wait() == 0, up.seen
            await_gone(below)
            assert os.listdir(up.folder.name) == []


@test
def nothing_outlives_a_kill():
    with Up() as up:
        up.event("ready")
        below = descendants(up.process.pid)
        up.process.kill()
        up.process.wait(TIMEOUT)
        await_gone(below)


@test
def it_ends_when_its_reader_ends():
    with Up("--nodes", "2") as up:
        nodes = up.event("ready")["nodes"]
        below = descendants(up.process.pid)
        up.process.stdout.close()
        os.kill(nodes[0]["pid"], signal.SIGKILL)  # there is something to tell
        assert up.process.wait(TIMEOUT) == 1
        await_gone(below)


@test
def killed_node_is_shown_and_comes_back():
    with Up("--no-load", "--nodes", "2") as up:
        nodes = up.event("ready")["nodes"]
        victim = nodes[1]
        os.kill(victim["pid"], signal.SIGKILL)
        died = up.event("died")
        assert (died["name"], died["signal"]) == ("node-2", 9) and died["restart_ms"] > 0, died
        back = up.event("serving")
        assert back["name"] == "node-2" and back["pid"] != victim["pid"], back
        assert get(victim["http"], "/readyz") == (200, "serving\n")  # where it was before
        os.kill(back["pid"], signal.SIGKILL)
        assert up.event("died")["restart_ms"] > died["restart_ms"]
        up.interrupt()
        assert up.wait() == 0


@test
def commands_that_are_shown_work():
    for words in ([], ["--no-load"]):
        with Up(*words, json_lines=False) as up:
            while "Ctrl-C" not in up.line():
                assert up.seen[-1], (up.seen, up.process.stderr.read())
            text = "".join(up.seen)
            commands = [line.strip() for line in text.split("Try, in another terminal:\n")[1].splitlines()
                        if line.startswith("  ")]
            assert len(commands) == 6, commands
            node = commands.pop(0).removeprefix("export ROTA_NODE=")
            for command in commands:
                forever = " work " in command
                done = subprocess.Popen(command if command.startswith("kill") else shlex.split(command),
                                        shell=command.startswith("kill"), text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**ENVIRONMENT, "ROTA_NODE": node})
                try:
                    if forever:
                        run("queue", "wait-empty", "mail", "--timeout", "10m", node=node)
                        done.terminate()
                    out, error = done.communicate(timeout=TIMEOUT)
                finally:
                    done.kill()
                assert done.returncode == 0, (command, out, error)
                if "--wait" in command:
                    assert out == "HELLO", out
                if " get " in command:
                    assert out.splitlines()[1] == "sample-2\tvalue of sample-2, which is 2 squared: 4", out
                assert out or forever or command.startswith("kill"), command
            while "\tdied\t" not in up.line():
                assert up.seen[-1]
            assert re.search(r"\tdied\tnode-3\tsignal=9", up.seen[-1]), up.seen[-1]


@test
def data_is_kept_in_the_given_directory():
    with tempfile.TemporaryDirectory(prefix="rota-test-up-") as folder:
        data = os.path.join(folder, "cluster")
        with Up("--no-load", "--nodes", "2", "--data", data) as up:
            node = up.event("ready")["nodes"][0]["grpc"]
            job = run("job", "add", "--queue", "mail", "hello", node=node).strip()
            with Up("--no-load", "--nodes", "2", "--data", data) as second:
                assert second.wait() == 1
                said = second.process.stderr.read()
                assert f"another rota up (process {up.process.pid})" in said, said
            up.interrupt()
            assert up.wait() == 0
        with Up("--no-load", "--nodes", "2", "--data", data) as up:
            node = up.event("ready")["nodes"][1]["grpc"]
            assert json.loads(run("job", "show", "--json", job, node=node))["state"] == "waiting"


@test
def sample_is_served_and_shown():
    with Up() as up:
        nodes = up.event("ready")["nodes"]

        def shards():
            calls = json.loads(get(nodes[0]["http"], "/api/v1/calls")[1])["calls"]
            held = {}  # by caller and zone, of nodes that have answered
            for call in calls:
                if call["latency"]["buckets"]:
                    key = call["node"], call["zone"]
                    held[key] = held.get(key, 0) + call["n_shards"]
            return {zone for (_, zone), n in held.items() if n == 2}

        def group():
            return json.loads(get(nodes[2]["http"], "/api/v1/groups/sample")[1])

        end = time.monotonic() + TIMEOUT
        expected = {"a", "b"}  # both with all their shards
        while time.monotonic() < end:
            shown, seen = group(), shards()
            if seen == expected and len(shown["tasks"]) == 3 and \
                    any(part["parents"] and part["state"] == "running" for part in shown["partitions"]):
                break
            time.sleep(0.1)
        assert seen == expected, seen
        ended = {part["name"]: part for part in shown["partitions"] if part["ended_ms"]}
        children = [part for part in shown["partitions"] if part["parents"] and part["started_ms"]]
        assert children, shown
        for child in children:
            for parent in child["parents"]:
                assert ended[parent]["started_ms"] <= ended[parent]["ended_ms"] <= child["started_ms"], (child, ended)
        listed = json.loads(get(nodes[1]["http"], "/api/v1/groups")[1])["groups"]
        assert [entry["name"] for entry in listed] == ["sample"] and listed[0]["why_away"] is None, listed


@test
def program_is_found_where_it_was_built():
    environment = {key: value for key, value in ENVIRONMENT.items() if key != "ROTA_ROTAD"}
    up = subprocess.Popen([ROTA, "up", "--no-load", "--nodes", "1", "--json"], stdout=subprocess.PIPE, text=True,
                          env=environment)
    try:
        ready = json.loads(up.stdout.readline())
        assert os.path.realpath(f"/proc/{ready['nodes'][0]['pid']}/exe") == os.path.realpath(ROTAD)
    finally:
        up.terminate()
        assert up.wait(TIMEOUT) == 0
        up.stdout.close()


@test
def invalid_values_are_refused():
    with Up(environment={"ROTA_ROTAD": "/nowhere/rotad"}) as up:
        assert up.wait() == 1 and "/nowhere/rotad" in up.process.stderr.read()
        assert os.listdir(up.folder.name) == []
    with Up(environment={"ROTA_ROTAD": "/bin/false"}) as up:
        assert up.wait() == 1 and "did not start" in up.process.stderr.read()
    for words in (["--example", "none"], ["--example", "counter", "--no-load"], ["--nodes", "0"], ["--nodes", "17"], ["--for", "0s"], ["--data", "/proc/none"]):
        with Up(*words) as up:
            assert up.wait() in (1, 2) and up.process.stderr.read().count("\n") == 1


@test
def chaos_loses_nothing():
    with Up("--chaos") as up:
        up.event("ready")
        struck = set()
        end = time.monotonic() + 2 * TIMEOUT
        while not {"killed", "stopped"} <= struck and time.monotonic() < end:
            struck.add(up.node_event("killed", "stopped")["event"])
            back = up.node_event("serving", "continued", "killed", "stopped")
            assert back["event"] in ("serving", "continued"), up.seen  # never two at a time
        up.interrupt()
        up.event("checking")
        verdict = up.event("nothing lost", "violated")
        broken = {name for name, n in verdict["faults"].items() if n} - EXCUSED
        promise.check(not broken, f"{verdict}")
        assert up.wait() == 0, (verdict, up.process.stderr.read())
        assert verdict["event"] == "nothing lost" and verdict["acknowledged"] == verdict["done"] > 0, verdict
        assert len(verdict["faults"]) > 10 and not any(verdict["faults"].values()), verdict
        # Zero is worth something only if everything was looked at.
        assert all(verdict[name] > 1 for name in ("strikes", "gets", "rows", "partitions", "looks")), verdict


@test
def the_verdict_for_people_is_a_table():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([ROTA, "up", "--chaos", "--for", "1s", "--nodes", "1"], capture_output=True, text=True,
                              env={**ENVIRONMENT, "TMPDIR": folder}, timeout=10 * TIMEOUT)
    assert done.returncode == 0, done
    sheet, promises = done.stdout.split("\n\n")[-2:]
    fields = dict(line.split(None, 1) for line in sheet.replace("FAULTS INJECTED", "FAULTS").replace("SHARD MOVES", "MOVES").splitlines())
    assert fields["VERDICT"] == "nothing lost" and fields["NODES"] == "1" and re.fullmatch(r"\d+s", fields["DURATION"]), sheet
    assert re.fullmatch(r"(\d+) \(kills: (\d+), pauses: (\d+)\)", fields["FAULTS"]), sheet
    title, *rows = promises.splitlines()
    assert title.split() == ["PROMISE", "CHECKED", "RESULT"] and len(rows) == 13, promises
    assert all(re.fullmatch(r"\S.* +\d+  (jobs|Gets|rows|partitions|reports|shards) +ok", row) for row in rows), promises


@test
def chaos_reports_unfinished_work():
    with Up("--chaos", "--nodes", "1") as up:
        ready = up.event("ready")
        # A worker by whose word no attempt will ever succeed.
        worker = subprocess.Popen([ROTA, "work", "--node", ready["nodes"][0]["grpc"], "--queue", "sample", "--can",
                                   "upper", "--can", "count", "--slots", "8", "--", "sh", "-c", "exit 65"],
                                  stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + TIMEOUT
            while time.monotonic() < end:
                dead = subprocess.run([ROTA, "queue", "dead", "sample"], capture_output=True, text=True,
                                      env={**ENVIRONMENT, "ROTA_NODE": ready["nodes"][0]["grpc"]}, timeout=TIMEOUT)
                if dead.returncode == 0 and dead.stdout:
                    break
                time.sleep(0.1)
        finally:
            worker.kill()
            worker.wait(TIMEOUT)
        up.interrupt()
        verdict = up.event("nothing lost", "violated")
        assert verdict["event"] == "violated" and verdict["faults"]["job_dead"] > 0, verdict
        assert up.wait() == 1 and "is dead" in up.process.stderr.read()


@test
def chaos_reports_violations():
    """Somebody changes what it watches: values that the nodes serve, and the result of a job."""
    with Up("--chaos", "--nodes", "1") as up:
        ready = up.event("ready")
        node = ready["nodes"][0]
        await_ledger(node["http"], lambda ledger: ledger["gets"] > 1)
        values = os.path.join(ready["data"], "sample.tsv")
        with open(values) as old, open(f"{values}.new", "w") as file:
            file.writelines(line.split("\t")[0] + "\tanother\n" for line in old)
        os.rename(f"{values}.new", values)
        worker = subprocess.Popen([ROTA, "work", "--node", node["grpc"], "--queue", "sample", "--can", "upper", "--can",
                                   "count", "--slots", "8", "--", "echo", "what"], stderr=subprocess.DEVNULL)
        try:
            await_ledger(node["http"], lambda ledger: ledger["faults"]["get_wrong"] and ledger["faults"]["job_wrong"])
        finally:
            worker.kill()
            worker.wait(TIMEOUT)
        up.interrupt()
        verdict = up.event("nothing lost", "violated")
        faults = {name for name, n in verdict["faults"].items() if n} - {"get_unanswered"}  # while the node is paused
        assert verdict["event"] == "violated" and faults == {"get_wrong", "job_wrong"}, verdict
        assert up.wait() == 1 and "returned a wrong value" in up.process.stderr.read()


@test
def counters_of_the_example_count_once():
    """Then somebody adds to one of them."""
    with Up("--chaos", "--example", "counter") as up:
        ready = up.event("ready")
        http = ready["nodes"][0]["http"]
        counts = os.path.join(ready["data"], "counts")
        await_ledger(http, lambda ledger: ledger["counts"] > 100)
        server = next(pid for pid in descendants(up.process.pid) if "counter_server" in command_of(pid))
        os.kill(server, signal.SIGKILL)
        while not up.event("died", "killed")["name"].startswith("counter-"):
            pass
        seen = await_ledger(http, lambda ledger: ledger["counts"] > 0)["counts"]
        ledger = await_ledger(http, lambda ledger: ledger["counts"] > seen + 100)
        promise.check(ledger["faults"]["count_wrong"] == 0, f"{ledger['told']}")
        shard = next(name for name in os.listdir(counts) if " " in open(os.path.join(counts, name)).read())
        with open(os.path.join(counts, shard), "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            name = open(file.name).read().split()[-3]
            file.write(f"{name} 1000000 other\n")
        await_ledger(http, lambda ledger: ledger["faults"]["count_wrong"])
        up.interrupt()
        verdict = up.event("nothing lost", "violated")
        assert verdict["event"] == "violated" and verdict["faults"]["count_wrong"] == 1, verdict
        assert up.wait() == 1 and f"counter {name} went from" in up.process.stderr.read()


@test
def second_interrupt_of_chaos_does_not_wait():
    with Up("--chaos", "--for", "1s") as up:
        nodes = up.event("ready")["nodes"]
        run("queue", "pause", "sample", "--create", "--timeout", "60s", node=nodes[0]["grpc"])
        up.event("checking")
        up.interrupt()
        assert up.wait() == 1 and "not checked" in up.process.stderr.read()


sys.exit(tap.run(names=sys.argv[3:]))
