#!/usr/bin/env python3
"""Jobs at all nodes, workers at some: test_forwarding.py ROTA.

Prints TAP."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile

from test_cluster import ROTA, TIMEOUT, nodes, promise, tap, wait_until

tap.TESTS.clear()  # those of the other file
test = tap.test


@contextlib.contextmanager
def worker(node, *words, command=("cat",), queue="work", name="elsewhere"):
    process = subprocess.Popen([ROTA, "work", "--node", node.address, "--queue", queue, "--name", name, *words,
                                "--", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT)


def add_everywhere(all_nodes, n, *words, queue="work"):
    return [node.add(f"{i}", *words, queue=queue) for node in all_nodes for i in range(n)]


def add_some(node, n):
    """Jobs where a node is unreachable: those of its partitions are refused."""
    jobs = []
    while len(jobs) < n:
        with contextlib.suppress(AssertionError):
            jobs.append(node.add("x"))
    return jobs


def await_all(node, jobs, state="done"):
    """Wait for each; nothing but time can make it fail. While nodes come and go, one may be asked that is down."""
    for job in jobs:
        shown = {}

        def is_there():
            with contextlib.suppress(AssertionError):
                shown.update(node.show(job))
            return shown.get("state") == state
        wait_until(is_there, lambda: (state, shown, node.run("job", "explain", job), node.log[-20:]))


def drain(node, jobs, queue="work"):
    """Wait for all of a queue, and see that these are done; every node has to be there."""
    node.run("queue", "wait-empty", queue)
    promise.check(set(jobs) <= (done := set(node.jobs("done", queue))), f"lost: {set(jobs) - done}, {node.log[-20:]}")


@test
def a_worker_at_one_node_does_the_jobs_of_all():
    with nodes(3) as (a, b, c):
        jobs = add_everywhere((a, b, c), 12)
        assert all(node.nodes()["jobs"] > 0 for node in (a, b, c))
        for job in jobs:
            text = b.run("job", "explain", job)
            assert "no worker serves queue work on this node; no worker on any other node serves it" in text, text
        with worker(b, "--slots", "2"):
            drain(a, jobs)
        shown = [c.show(job) for job in jobs]
        assert all(s["attempts"] == 1 for s in shown), shown
        queue = a.queue()
        assert queue["done"] == len(jobs), queue
        fetched = len(jobs) - b.nodes()["jobs"]
        assert queue["fetched_total"] == queue["lent_total"] == fetched, (queue, fetched)


@test
def capabilities_lead_the_way():
    with nodes(3) as (a, b, c):
        red = add_everywhere((a, b, c), 3, "--can", "red", queue="paint")
        blue = [c.add(f"{i}", "--can", "blue", queue="paint") for i in range(4)]
        green = [b.add(f"{i}", "--can", "green", queue="paint") for i in range(2)]
        with worker(a, "--can", "red", queue="paint"), worker(b, "--can", "blue", "--can", "red", queue="paint"):
            await_all(a, red + blue)
            for job in green:
                assert a.show(job)["state"] == "waiting"
                text = a.run("job", "explain", job)
                assert re.search("no worker (serves queue paint|of queue paint has green) on this node; "
                                 "no worker on any other node has green$", text), text
            with worker(c, "--can", "green", queue="paint"):
                drain(b, green, "paint")


@test
def explain_knows_the_workers_of_all_nodes():
    with nodes(3) as (a, b, c):
        needs = ("--can", "red", "--can", "blue")
        job = b.add("x", *needs)
        home = next(node for node in (a, b, c) if node.nodes()["jobs"] > 0)
        one, other = (node for node in (a, b, c) if node is not home)
        while one.nodes()["jobs"] == 0:
            b.add("y", *needs)
        with worker(one, "--can", "red", name="r"), worker(other, "--can", "blue", name="b"):
            expect = "no worker serves queue work on this node; no single worker on any other node has all of blue, red"
            wait_until(lambda: expect in a.run("job", "explain", job), lambda: a.run("job", "explain", job))
            with worker(one, *needs, name="both", command=("sleep", "1000")):  # it takes a job of its own node
                expect = f": 1 capable worker on {one.address}, no free slot\n"
                wait_until(lambda: a.run("job", "explain", job).endswith(expect), lambda: a.run("job", "explain", job))
                assert "on this node; workers of other nodes can take it" in b.run("job", "explain", job)
        os.kill(other.process.pid, signal.SIGSTOP)
        try:
            text = home.run("job", "explain", job)
            assert text.endswith(f"; {other.address} did not report workers\n"), text
        finally:
            os.kill(other.process.pid, signal.SIGCONT)


@test
def jobs_that_come_while_the_worker_is_idle_are_fetched():
    with nodes(3) as (a, b, c):
        with worker(c, "--slots", "4"):
            for _ in range(3):
                drain(a, add_everywhere((a, b, c), 3))


@test
def the_jobs_of_a_worker_that_is_killed_go_to_another():
    with nodes(3) as (a, b, c):
        jobs = [node.add("x") for node in (b, c)]
        with worker(a, "--slots", "2", "--lease", "4s", "--kill-after", "500ms", command=("sleep", "1000")) as gone:
            await_all(b, jobs, "running")
            gone.send_signal(signal.SIGKILL)
            gone.wait(TIMEOUT)
        with worker(a):
            drain(c, jobs)
        assert all(b.show(job)["attempts"] == 2 for job in jobs)


@test
def the_root_may_be_absent():
    with nodes(3) as all_nodes:
        for gone in all_nodes:
            left = [node for node in all_nodes if node is not gone]
            gone.kill()
            jobs = add_some(left[0], 6)
            with worker(left[1]):
                await_all(left[1], jobs)
            gone.start()


@test
def an_owner_that_is_restarted_takes_the_result():
    with tempfile.TemporaryDirectory(prefix="rota-forwarding-") as folder, nodes(3) as (a, b, c):
        gate = os.path.join(folder, "gate")
        os.mkfifo(gate)
        job = c.add("x")
        with worker(a, "--lease", f"{TIMEOUT}s", command=("sh", "-c", f"read go < {gate}; cat")):
            await_all(c, [job], "running")
            c.run("queue", "pause", "other", "--create")  # acknowledged when it is on disk; the begin is before it
            c.kill()
            c.start()
            with open(gate, "w") as file:
                file.write("go\n")
            drain(a, [job])
        shown = a.show(job)
        assert shown["attempts"] == 1 and shown["result"] == "x", shown


sys.exit(tap.run(names=sys.argv[2:]))
