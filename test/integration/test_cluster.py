#!/usr/bin/env python3
"""Several brokers that hold queues together, as a user runs them: test_cluster.py ROTA.

Starts them, adds jobs at any of them, takes nodes off and puts them back, kills them in the
middle. Prints TAP."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import promise  # noqa: E402
import tap  # noqa: E402
from ports import free_ports  # noqa: E402
from tap import test  # noqa: E402
from work_processes import TIMEOUT, wait_until  # noqa: E402

ROTA = sys.argv[1]


class Node:
    """A broker at an address of its own, which it has again when it is started again."""

    def __init__(self, address, data, *arguments):
        self.address, self.data, self.arguments = address, data, arguments
        self.process = None
        self.log = []

    def start(self):
        self.process = subprocess.Popen([ROTA, "broker", "--data", self.data, "--listen", self.address,
                                         *self.arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("ready grpc="), (line, self.process.stderr.read())
        threading.Thread(target=self.drain, args=[self.process.stderr], daemon=True).start()
        return self

    def drain(self, stream):
        for line in stream:
            self.log.append(line)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(TIMEOUT)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)

    def run(self, *words, data=None, code=0):
        done = subprocess.run([ROTA, *words, "--node", self.address, "--timeout", "60s"], input=data,
                              capture_output=True, timeout=TIMEOUT)
        assert done.returncode == code, (words, done, self.log[-20:])
        return (done.stdout if code == 0 else done.stderr).decode()

    def add(self, payload, *words, queue="work"):
        return self.run("job", "add", "--queue", queue, *words, payload).strip()

    def show(self, job):
        return json.loads(self.run("job", "show", job, "--json"))

    def jobs(self, state="waiting", queue="work"):
        lines = self.run("job", "list", "--queue", queue, "--state", state, "--limit", "1000000", "--json").splitlines()
        entries = [json.loads(line) for line in lines]
        self.missing = [entry["missing"] for entry in entries if entry.get("missing")]
        return [entry["job"] for entry in entries if "job" in entry]  # one may tell what is missing

    def all_jobs(self):
        """Sorted. A node that did not answer in time is asked again."""
        jobs = self.jobs()
        while self.missing:
            jobs = self.jobs()
        return sorted(jobs)

    def nodes(self):
        return json.loads(self.run("queue", "nodes", "--json"))

    def queue(self, name="work"):
        return json.loads(self.run("queue", "show", name, "--json"))


@contextlib.contextmanager
def nodes(n, *arguments):
    """Brokers with journals of their own that know each other by a store."""
    with tempfile.TemporaryDirectory(prefix="rota-cluster-") as folder:
        store = f"sqlite:{folder}/store.db"
        made = [Node(f"127.0.0.1:{port}", os.path.join(folder, f"data{i}"), "--store", store, "--durability", "journal",
                     *arguments) for i, port in enumerate(free_ports(n))]
        try:
            for node in made:
                node.start()
            for node in made:
                await_nodes(node, lambda seen: len(seen["nodes"]) == n)
            yield made
        finally:
            for node in made:
                if node.process and node.process.poll() is None:
                    node.process.kill()
                    node.process.wait(TIMEOUT)


def place(node, verb):
    """Have a node drained, or undrained."""
    subprocess.run([ROTA, "node", verb, node.address, "--store", node.arguments[1]], check=True, timeout=TIMEOUT)


def partition_of(job):
    return int(job.split("/")[1][12:16], 16)


def numbered(partition, number):
    """An id in this partition."""
    return f"{0x0190_0000_0000 + number:012x}{partition:04x}{number:016x}"


@test
def a_queue_without_jobs_can_be_deleted():
    with nodes(3) as (a, b, c):
        jobs = [node.add("x", queue="old") for node in (a, b, c) for _ in range(4)]
        a.run("queue", "pause", "old")
        b.run("queue", "weight", "old", "--key", "k", "--weight", "300")
        for words in ([], ["--dry-run"]):
            assert "unfinished jobs" in a.run("queue", "delete", "old", *words, code=1)
        for job in jobs:
            c.run("job", "cancel", job)
        assert "12 ended jobs" in a.run("queue", "delete", "old", "--dry-run")
        assert a.show(jobs[0])["state"] == "cancelled"
        b.run("queue", "delete", "old")
        for node in (a, b, c):
            assert "there is no queue" in node.run("queue", "show", "old", code=1)
            node.run("job", "show", jobs[0], code=1)
        again = a.add("y", queue="old")  # a new one under an old name, and open
        assert [queue["is_paused"] for queue in (b.queue("old"), c.queue("old"))] == [False, False]
        assert c.show(again)["state"] == "waiting"


@test
def any_node_can_be_asked():
    with nodes(3) as (a, b, c):
        jobs = [node.add(f"{i}") for i in range(4) for node in (a, b, c)]
        assert len(set(jobs)) == 12
        for node in (a, b, c):
            assert sorted(node.jobs()) == sorted(jobs)
            for job in jobs:
                assert node.show(job)["state"] == "waiting"
            assert node.queue()["waiting"] == 12
        a.run("job", "cancel", jobs[0])
        b.run("job", "cancel", jobs[1])
        c.run("job", "cancel", jobs[2])
        assert sorted(b.jobs("cancelled")) == sorted(jobs[:3])
        a.run("job", "retry", jobs[2])
        assert len(c.jobs()) == 10
        b.run("job", "show", "work/" + "1" * 32, code=1)


def await_queue(node, is_so, name="work"):
    seen = {}
    wait_until(lambda: seen.update(node.queue(name)) or is_so(seen), lambda: (seen, node.log[-20:]))


def await_nodes(node, is_so):
    seen = {}
    wait_until(lambda: seen.update(node.nodes()) or is_so(seen), lambda: (seen, node.log[-20:]))


def without_explain(shown):
    """Why it waits depends on the nodes that there are."""
    return {key: value for key, value in shown.items() if key != "explain"}


@test
def jobs_follow_the_route():
    with nodes(3) as (a, b, c):
        lines = "".join(f"line {i}\n" for i in range(3000)).encode()
        for node in (a, b, c):
            node.run("job", "add", "--queue", "work", "--lines", "-", data=lines)
            assert node.nodes()["jobs"] > 0
        jobs = [node.add(f"{i}", "--priority", str(i)) for i in range(8) for node in (a, b, c)]
        a.run("job", "cancel", jobs[3])
        before = {job: b.show(job) for job in jobs}
        known = b.all_jobs()
        place(c, "drain")
        await_nodes(c, lambda seen: seen["jobs"] == 0)
        for node in (a, b):  # a list asks one node after the other: a job that moves between these may be in neither's
            await_nodes(node, lambda seen: seen["leaving"] == 0)
        listed = c.all_jobs()  # it still knows whom to ask
        assert listed == known, (len(listed), len(set(listed)), len(known), sorted(set(known) - set(listed))[:3])
        assert c.terminate() == 0
        for node in (a, b):  # until they know that it left, they say that it may have the jobs it had
            await_nodes(node, lambda seen: len(seen["nodes"]) == 2)
        assert a.all_jobs() == known
        for job in jobs:
            assert without_explain(b.show(job)) == without_explain(before[job]), job
        place(c, "undrain")
        c.start()
        await_nodes(c, lambda seen: seen["jobs"] > 1000 and seen["leaving"] == 0)
        for node in (a, b):
            await_nodes(node, lambda seen: seen["leaving"] == 0)
        # A node that learned of it last may only now hand jobs over.
        wait_until(lambda: sorted(b.jobs()) == known, lambda: (len(b.jobs()), len(known), b.log[-20:]))
        assert c.show(jobs[3])["state"] == "cancelled"


@contextlib.contextmanager
def worker(made, *words):
    process = subprocess.Popen([ROTA, "work", "--node", ",".join(node.address for node in made), "--queue", "work",
                                "--slots", "4", "--lease", "3s", "--kill-after", "500ms", "--log-level", "error", *words],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT)


@test
def worker_of_all_nodes_is_counted_once():
    with nodes(3) as (a, b, c):
        a.add("x")
        with worker((a, b, c), "--name", "ann", "--", "true"):
            a.run("queue", "wait-empty", "work")

            def listed():
                return [json.loads(line) for line in b.run("queue", "workers", "--json").splitlines()]

            wait_until(lambda: sum(each["connections"] for each in listed()) > 1, "polls at several of them")
            wait_until(lambda: [(each["worker"], each["slots"], each["queues"]) for each in listed()] == [("ann", 4, ["work"])],
                       "the worker")
            assert "connected workers that could run it: 1" in b.run("job", "add", "--queue", "work", "--dry-run", "x")
            for node in (a, b, c):
                await_queue(node, lambda seen: (seen["workers"], seen["slots"], seen["free"]) == (1, 4, 4))


def add_some(node, n):
    """As many as the node acknowledges; what became of the others is not known."""
    added = []
    for i in range(n):
        done = subprocess.run([ROTA, "job", "add", "--node", node.address, "--queue", "work", "--timeout", "2s",
                               "--attempts", "1000", f"{i}"], capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode == 0:
            added.append(done.stdout.strip())
    return added


@test
def no_job_is_lost_or_done_twice_whichever_process_is_killed():
    chance = random.Random(5)
    with nodes(3) as made, worker(made, "--", "cat"):
        added = []
        for turn in range(8):
            listed = chance.sample(made, chance.choice([1, 2, 3]))
            victim = chance.choice(listed)
            for node in made:
                place(node, "undrain" if node in listed else "drain")
            added += add_some(chance.choice(made), 15)
            victim.kill()
            if listed != [victim]:  # else nobody is there to take any
                added += add_some(chance.choice([node for node in made if node is not victim]), 10)
            victim.start()
            added += add_some(victim, 5)
        for node in made:
            place(node, "undrain")
        for node in made:
            await_nodes(node, lambda seen: seen["leaving"] == 0 and len(seen["nodes"]) == 3)
        made[0].run("queue", "wait-empty", "work")
        assert len(added) > 100, len(added)
        # Nodes are asked one after the other: a job that moves meanwhile may be listed by both, a job that is at two
        # nodes is listed twice forever.
        done = made[1].jobs("done")
        until = time.monotonic() + TIMEOUT
        while len(set(done)) < len(done):
            print("# listed twice:", {job for job in done if done.count(job) > 1}, [node.nodes() for node in made], flush=True)
            promise.check(time.monotonic() < until, "a job is at two nodes")
            done = made[1].jobs("done")
        promise.check(set(added) <= set(done), f"lost: {set(added) - set(done)}")


@test
def an_unreachable_node_keeps_its_jobs():
    with nodes(3, "--ttl", "1m") as (a, b, c):
        jobs = [node.add(f"{i}") for i in range(10) for node in (a, b, c)]
        here = {node: node.nodes()["jobs"] for node in (a, b, c)}
        assert sum(here.values()) == 30 and min(here.values()) > 0, here
        c.kill()
        assert len(a.jobs()) == 30 - here[c]
        assert a.queue()["waiting"] == 30 - here[c]
        for words in (["queue", "list"], ["job", "list", "--queue", "work"]):
            told = subprocess.run([ROTA, *words, "--node", a.address], capture_output=True, text=True, timeout=TIMEOUT)
            text = f"rota: jobs on {c.address} are not counted: node {c.address}: "
            assert told.returncode == 0 and told.stderr.startswith(text), told
        for node in (a, b):  # there are always partitions that are not away
            for i in range(10):
                jobs.append(node.add("more"))
        lost = [job for job in jobs if job not in a.jobs()]
        assert "UNAVAILABLE" in b.run("job", "show", lost[0], code=1)
        c.start()
        await_queue(a, lambda queue: queue["waiting"] == len(jobs))
        assert sorted(a.jobs()) == sorted(jobs)


@test
def settings_and_unique_keys_are_of_all_nodes():
    with nodes(3) as (a, b, c):
        first = a.add("x", "--unique", "once")
        for node in (a, b, c):
            assert node.add("y", "--unique", "once") == first
        b.run("queue", "pause", "work")
        assert c.queue()["is_paused"]
        with worker((a, b, c), "--", "cat") as process:
            c.run("queue", "resume", "work")
            assert a.run("job", "add", "--queue", "work", "--wait", "hello") == "hello"
            assert process.poll() is None
        assert c.show(first)["state"] == "done"


if __name__ == "__main__":
    sys.exit(tap.run(names=sys.argv[2:]))
