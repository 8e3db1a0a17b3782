#!/usr/bin/env python3
"""Nodes that are down with jobs in their journals: test_absent.py ROTAD ROTA [NAME...].

A job that exists is never denied: what the other nodes say of it while its node is down, after they
were restarted themselves, and when a node leaves in order. Prints TAP."""

import json
import os
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import grpc_raw  # noqa: E402
from grpc_raw import message  # noqa: E402
from rotad import ANY_PORTS, TIMEOUT, Node, await_true, cluster, run_tests  # noqa: E402

ROTAD, ROTA = (os.path.abspath(path) for path in sys.argv[1:3])
TESTS = []
N_JOBS = 48


def test(function):
    TESTS.append(function)
    return function


def run(node, *words):
    return subprocess.run([ROTA, *words], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, "ROTA_NODE": node.name})


def rota(node, *words, code=0):
    done = run(node, *words)
    assert done.returncode == code, (words, done)
    return done.stderr if code else done.stdout


def add_jobs(node, n=N_JOBS, queue="q"):
    """Jobs of all nodes, for each goes to a partition by chance."""
    done = subprocess.run([ROTA, "job", "add", "--queue", queue, "--node", node.name, "--lines", "-"], check=True,
                          input="x\n" * n, text=True, capture_output=True, timeout=TIMEOUT)
    assert str(n) in done.stdout, done
    lines = rota(node, "job", "list", "--queue", queue, "--limit", "1000", "--json").splitlines()
    assert len(lines) == n, lines
    return [json.loads(line)["job"] for line in lines]


def wait_for_a_job_of(node, asked):
    """A command that waits for the end of a job which lies at `node`; others are left to wait, too."""
    waiting = []
    before = jobs_of(node)
    while jobs_of(node) == before:
        n = rota(asked, "job", "list", "--queue", "w", "--limit", "1000").count("\n") if waiting else 0
        waiting.append(subprocess.Popen([ROTA, "job", "add", "--queue", "w", "--node", asked.name, "--wait", "x"],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        await_true(lambda n=n: run(asked, "job", "list", "--queue", "w", "--limit", "1000").stdout.count("\n") > n)
    return waiting


def jobs_of(node):
    """What lies at this very node."""
    return json.loads(rota(node, "queue", "nodes", "--json"))["jobs"]


def absent(node):
    return json.loads(rota(node, "queue", "nodes", "--json"))["absent"]


def listed(node):
    return json.loads(rota(node, "queue", "nodes", "--json"))["nodes"]


def kill(node):
    node.process.kill()
    node.process.wait(TIMEOUT)


def start_again(node, folder, *words):
    return Node(ROTAD, folder, os.path.basename(node.data), "--store", f"sqlite:{folder}/store.db",
                "--listen", node.name, *ANY_PORTS[2:], *words)


def await_absent(node, *names):
    await_true(lambda: sorted(absent(node)) == sorted(names), f"{names} are absent")


def is_cancelled(node, job):
    """Cancel it; a job that is in flight to another node can't be reached for a moment."""
    done = run(node, "job", "cancel", job)
    assert "NOT_FOUND" not in done.stderr, done
    return done.returncode == 0 or "FAILED_PRECONDITION" in done.stderr


def poll(node):
    """A job of this very node, as a worker holds it: the fields that its reports begin with, and its name."""
    client = grpc_raw.Client(node.name, TIMEOUT)
    (_, handed), = grpc_raw.fields(client.call("/rota.v1.Queue/Poll", message(_1="q", _4=TIMEOUT * 1000)))
    client.close()
    queue, job, attempt = (dict(grpc_raw.fields(handed))[number] for number in (1, 2, 3))
    return {"_1": queue, "_2": job, "_3": attempt}, f"{queue.decode()}/{job.hex()}"


def report(node, method, held):
    """The status and the text with which a worker's report about a job is refused."""
    client = grpc_raw.Client(node.name, TIMEOUT)
    answer = client.fail("/rota.v1.Queue/" + method, message(**held))
    client.close()
    return answer


def find_lost(node, jobs):
    """The jobs that this node can't show: each answer names the node that may have it."""
    lost = []
    for job in jobs:
        done = run(node, "job", "show", job, "--json")
        if done.returncode:
            lost.append(job)
            assert "NOT_FOUND" not in done.stderr, done
        else:
            assert json.loads(done.stdout)["job"] == job, done
    return lost


@test
def a_job_of_a_node_that_is_down_is_never_denied():
    with cluster(ROTAD, 3, "--ttl", "2s") as (one, two, three):
        jobs = add_jobs(one)
        n_gone = jobs_of(three)
        assert 0 < n_gone < N_JOBS, n_gone
        waiting = wait_for_a_job_of(three, one)
        held, polled = poll(three)
        kill(three)
        await_absent(one, three.name)
        await_absent(two, three.name)
        lost = find_lost(one, jobs)
        assert len(lost) == n_gone, (len(lost), n_gone)
        for words in (["job", "show"], ["job", "cancel"], ["job", "explain"], ["job", "priority", "--priority", "3"],
                      ["job", "retry"]):
            text = rota(two, *words, lost[0], code=1)
            assert f"node {three.name} may have the job: cannot connect" in text and "NOT_FOUND" not in text, (words, text)
        assert polled in lost, (polled, lost)
        for method in ("Complete", "Fail", "Extend"):  # its worker turns to another node
            text = report(two, method, held)
            assert b"grpc-status\x0214" in text, (method, text)  # UNAVAILABLE
            assert f"node {three.name} may have the job: cannot connect".encode() in text, (method, text)
        listed_jobs = run(one, "job", "list", "--queue", "q", "--limit", "1000", "--json")
        lines = [json.loads(line) for line in listed_jobs.stdout.splitlines()]
        assert sum("job" in line for line in lines) == N_JOBS - n_gone, listed_jobs
        assert [node["node"] for line in lines for node in line.get("missing", [])] == [three.name], listed_jobs
        assert three.name in listed_jobs.stderr, listed_jobs
        for node in (one, two):
            shown = run(node, "queue", "show", "q", "--json")
            queue = json.loads(shown.stdout)
            assert queue["waiting"] == N_JOBS - n_gone, shown
            assert [each["node"] for each in queue["missing"]] == [three.name] and queue["missing"][0]["why"], shown
            assert three.name in shown.stderr, shown
            for path in ("queues", "queues/q", "queues/q/jobs"):
                document = node.get("/api/v1/" + path)
                assert document["missing"] == [three.name] and three.name in document["missing_why"][0], document
        try:
            assert three.name in waiting[-1].stderr.readline()
            assert [process.poll() for process in waiting] == [None] * len(waiting)
        finally:
            for process in waiting:
                process.kill()
                process.communicate(timeout=TIMEOUT)
        again = start_again(three, os.path.dirname(three.data), "--ttl", "2s")
        try:
            await_absent(one)
            await_true(lambda: find_lost(one, jobs) == [])
        finally:
            again.end()


@test
def drain_waits_for_the_jobs_of_a_node_that_is_down():
    with cluster(ROTAD, 2, "--ttl", "2s") as (one, two):
        jobs = add_jobs(one)
        assert jobs_of(two) > 0
        kill(two)
        await_absent(one, two.name)
        for job in jobs:  # all that can be
            run(one, "job", "cancel", job)
        late = rota(one, "queue", "wait-empty", "q", "--timeout", "1500ms", code=1)
        assert two.name in late and "was not empty within" in late, late
        waiting = subprocess.Popen([ROTA, "queue", "wait-empty", "q", "--timeout", "10m", "--node", one.name],
                                   stderr=subprocess.PIPE, text=True)
        again = None
        try:
            assert two.name in waiting.stderr.readline()
            again = start_again(two, os.path.dirname(two.data), "--ttl", "2s")
            await_absent(one)
            await_true(lambda: find_lost(one, jobs) == [])
            await_true(lambda: all([is_cancelled(one, job) for job in jobs]))
            waiting.communicate(timeout=TIMEOUT)
            assert waiting.returncode == 0
        finally:
            waiting.kill()
            if again:
                again.end()


@test
def a_queue_that_only_a_node_that_is_down_may_know_is_not_empty():
    with cluster(ROTAD, 2, "--ttl", "2s") as (one, two):
        jobs = add_jobs(two, queue="other")
        assert jobs_of(two) > 0
        kill(two)
        await_absent(one, two.name)
        kill(one)
        one = start_again(one, os.path.dirname(one.data), "--ttl", "2s")
        for job in jobs:
            run(one, "job", "cancel", job)
        try:
            late = rota(one, "queue", "wait-empty", "other", "--timeout", "1s", code=1)
            assert two.name in late, late
            late = rota(one, "queue", "wait-empty", "never", "--timeout", "1s", code=1)
            assert two.name in late, late
        finally:
            one.end()


@test
def knowledge_about_a_node_that_is_down_outlives_the_others():
    with cluster(ROTAD, 3, "--ttl", "2s") as (one, two, three):
        folder = os.path.dirname(one.data)
        jobs = add_jobs(one)
        kill(three)
        await_absent(one, three.name)
        n_gone = len(find_lost(one, jobs))
        assert n_gone > 0
        kill(one)
        kill(two)
        one = start_again(one, folder, "--ttl", "2s")
        two = start_again(two, folder, "--ttl", "2s")
        fresh = Node(ROTAD, folder, "fresh", "--store", f"sqlite:{folder}/store.db", "--ttl", "2s", *ANY_PORTS)
        try:
            for node in (one, two, fresh):  # one that never met it has heard of it
                await_absent(node, three.name)
                assert len(find_lost(node, jobs)) == n_gone
            text = rota(one, "queue", "forget", "192.0.2.1:7700", code=1)
            assert "no node of this cluster was ever at \"192.0.2.1:7700\"" in text, text
            rota(one, "queue", "forget", three.name)
            for node in (one, two, fresh):
                await_absent(node)
            text = rota(one, "job", "show", find_lost_quietly(one, jobs), code=1)
            assert "NOT_FOUND" in text, text
        finally:
            for node in (one, two, fresh):
                node.end()


def find_lost_quietly(node, jobs):
    return next(job for job in jobs if run(node, "job", "show", job).returncode)


@test
def a_node_that_hands_all_over_and_leaves_owes_nothing():
    with cluster(ROTAD, 3, "--ttl", "2s") as (one, two, three):
        jobs = add_jobs(one)
        assert jobs_of(three) > 0
        three.process.send_signal(signal.SIGTERM)
        assert three.process.wait(TIMEOUT) == 0
        await_true(lambda: three.name not in listed(one))
        await_true(lambda: three.name not in listed(two))
        logs = [open(node.data + ".log").read() for node in (one, two, three)]
        assert absent(one) == absent(two) == [], "\n---\n".join(logs)
        assert find_lost(one, jobs) == []
        assert jobs_of(one) + jobs_of(two) == N_JOBS
        text = rota(one, "job", "show", "q/" + "01" * 16, code=1)
        assert "NOT_FOUND" in text, text


@test
def a_node_that_left_and_came_back_alone_has_jobs_again():
    with cluster(ROTAD, 2, "--ttl", "2s") as (one, two):
        folder = os.path.dirname(two.data)
        two.process.send_signal(signal.SIGTERM)
        assert two.process.wait(TIMEOUT) == 0
        await_true(lambda: listed(one) == [one.name] and absent(one) == [])
        text = rota(one, "job", "show", "q/" + "01" * 16, code=1)
        assert "NOT_FOUND" in text, text  # it is known to be empty
        kill(one)
        two = start_again(two, folder, "--ttl", "2s")
        again = None
        try:
            await_true(lambda: listed(two) == [two.name])
            job = rota(two, "job", "add", "--queue", "q", "x").strip()
            kill(two)
            await_true(lambda: is_dead(two, folder))
            again = start_again(one, folder, "--ttl", "2s")
            await_true(lambda: listed(again) == [again.name])
            text = rota(again, "job", "show", job, code=1)
            assert f"node {two.name} may have the job" in text and "NOT_FOUND" not in text, text
            assert absent(again) == [two.name]
            two = start_again(two, folder, "--ttl", "2s")
            await_true(lambda: run(again, "job", "show", job).returncode == 0)
        finally:
            for node in (two, again):
                if node:
                    node.end()


def is_dead(node, folder):
    """Whether the row that it left in the store is no longer that of a live member."""
    shown = subprocess.run([ROTA, "node", "members", "--store", f"sqlite:{folder}/store.db", "--json"], check=True,
                           capture_output=True, text=True, timeout=TIMEOUT)
    return any(row["address"] == node.name and row["state"] == "dead" for row in json.loads(shown.stdout)["members"])


@test
def a_journal_that_moves_to_another_address_is_not_waited_for_at_the_old_one():
    with tempfile.TemporaryDirectory(prefix="rota-absent-") as folder:
        words = ["--store", f"sqlite:{folder}/store.db", "--ttl", "2s", *ANY_PORTS]
        one, two = (Node(ROTAD, folder, name, *words) for name in ("one", "two"))
        try:
            await_true(lambda: len(listed(one)) == 2 and len(listed(two)) == 2)
            jobs = add_jobs(one)
            kill(two)
            await_absent(one, two.name)
            two = Node(ROTAD, folder, "two", *words)
            await_true(lambda: two.name in listed(one) and len(listed(one)) == 2)
            await_absent(one)
            await_true(lambda: find_lost(one, jobs) == [])
            assert absent(two) == []
        finally:
            one.end()
            two.end()


sys.exit(run_tests(TESTS, sys.argv[3:]))
