#!/usr/bin/env python3
"""Brokers that keep their jobs in a store: test_queue_store.py KIND ROTA [TEST...].

Restarts them, kills and stops them, takes their database away and puts it back; one
database of KIND for all. Prints TAP."""

import contextlib
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import databases  # noqa: E402
import grpc_raw  # noqa: E402
import promise  # noqa: E402
import stop  # noqa: E402
from grpc_raw import message  # noqa: E402
from work_processes import TIMEOUT, Broker, Worker, folder, run_tests, wait_until  # noqa: E402

KIND, ROTA = sys.argv[1:3]
WANTED = sys.argv[3:]  # tests by name; none: all
TESTS = []
LOGS = []
DATABASE = None


def test(function):
    """A scenario; those who were killed in the one before it are not waited for."""

    @functools.wraps(function)
    def run():
        if LOGS:  # there are tables
            bury()
        return function()

    TESTS.append(run)
    return run


def bury():
    """Nobody waits until those who were killed are found dead."""
    sql("DELETE FROM rota_members; DELETE FROM rota_space_nodes;")


def with_server(function):
    """Of a database that is a process and can be away."""
    return test(function) if KIND != "sqlite" else function


def sql(text):
    if KIND == "mysql":
        DATABASE.must(DATABASE.client, "--no-defaults", f"--socket={DATABASE.socket}", "-uroot", databases.DATABASE,
                      input=text.encode())
    elif KIND == "postgres":
        DATABASE.must(DATABASE.psql, *DATABASE.local()[:-1], databases.DATABASE, "--quiet", "--set=ON_ERROR_STOP=1",
                      input=text.encode())
    else:
        import sqlite3
        with contextlib.closing(sqlite3.connect(DATABASE.url.removeprefix("sqlite:"), timeout=TIMEOUT)) as file:
            file.executescript(text)


def ask(node, *words, timeout="60s"):
    """Whatever comes of it."""
    return subprocess.run([ROTA, *words, "--node", node.node, "--timeout", timeout], capture_output=True,
                          timeout=TIMEOUT, text=True)


class Node(Broker):
    def __init__(self, *words):
        super().__init__(ROTA, "--store", DATABASE.url, *(() if "--ttl" in words else ("--ttl", "6s")), *words)
        LOGS.append(self.log)
        self.queue = "work"

    def jobs(self, state, queue="work"):
        """Of a queue that nobody knows there are none."""
        done = ask(self, "job", "list", "--queue", queue, "--state", state, "--limit", "1000000", "--json")
        assert done.returncode == 0 or "there is no queue" in done.stderr, done
        entries = map(json.loads, done.stdout.splitlines())
        return [entry["job"] for entry in entries if "job" in entry]  # one may tell what is missing

    def add_lines(self, n, queue="work"):
        text = "".join(f"{i}\n" for i in range(n))
        self.run("job", "add", "--queue", queue, "--lines", "-", data=text.encode())
        return set(self.jobs("waiting", queue))


class Adder:
    """Adds jobs one by one until it is told to stop; `known` are those that were acknowledged."""

    def __init__(self, nodes, queue):
        self.nodes, self.queue, self.known = nodes, queue, []
        self.is_over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        i = 0
        while not self.is_over:
            i += 1
            node = self.nodes[i % len(self.nodes)]
            done = subprocess.run([ROTA, "job", "add", "--node", node.node, "--queue", self.queue, "--", f"job {i}"],
                                  capture_output=True, timeout=TIMEOUT, text=True)
            if done.returncode == 0:
                self.known += done.stdout.split()

    def await_more(self, n):
        goal = len(self.known) + n
        wait_until(lambda: len(self.known) >= goal, f"{n} more jobs")

    def end(self):
        self.is_over = True
        self.thread.join(TIMEOUT)
        return set(self.known)


def await_done(node, known, queue):
    left = set(known)

    def is_over():
        left.difference_update(node.jobs("done", queue))
        return not left

    try:
        wait_until(is_over, "that all are done")
    except AssertionError:
        raise AssertionError([node.show(job) for job in sorted(left)[:3]]) from None


@test
def a_job_is_not_denied_while_its_partition_changes_hands():
    """Two nodes that give a partition to each other, for as long as their lists differ."""
    with Node("--partitions", "1") as first, Node("--partitions", "1", "--ttl", "2m") as second:  # which looks every 12 s
        wait_until(lambda: len(json.loads(first.run("queue", "nodes", "--json"))["nodes"]) == 2, "that it knows both")
        queue = next(name for name in (f"hands{i}" for i in range(100)) if is_taken_by(first, name))
        job = first.add("x", queue=queue)
        none = f"{queue}/{job.split('/')[1][:-1]}{'0' if job[-1] != '0' else '1'}"
        n_released = len(first.logged("partition released"))
        subprocess.run([ROTA, "node", "drain", first.node, "--store", DATABASE.url], check=True, timeout=TIMEOUT)
        wait_until(lambda: len(first.logged("partition released")) > n_released, "that the first has left it")
        if not any(queue in line for line in second.logged("partition open")):  # it does not know yet
            for node in (first, second):
                for words in (["job", "show"], ["job", "cancel"], ["job", "explain"]):
                    for name in (job, none):
                        done = ask(node, *words, name, timeout="1s")
                        assert "NOT_FOUND" not in done.stderr or any(
                            queue in line for line in second.logged("partition open")), (words, done)
        wait_until(lambda: ask(second, "job", "show", job).returncode == 0, "that the second has it")
        for node in (first, second):
            done = ask(node, "job", "show", none)
            assert done.returncode == 1 and "NOT_FOUND" in done.stderr, done


@test
def a_repeated_add_is_never_a_second_job_while_its_partition_changes_hands():
    """A client whose first add had no answer asks again, at nodes that drain and come back."""
    one = ["--partitions", "1"]
    with Node(*one) as first, Node(*one) as second:
        nodes = [first, second]
        await_both(nodes)
        batch = message(_1=[message(_1="again", _2="x", _3=id_at(i)) for i in range(20)])
        repeated = message(_1=[message(_1="again", _2="x", _3=id_at(i), _17=1) for i in range(20)])
        clients = [grpc_raw.Client(node.node, TIMEOUT) for node in nodes]
        path = "/rota.v1.Queue/AddBatch"
        assert all(is_added and is_new for is_added, is_new, _ in read_added(clients[0].call(path, batch)))
        n_turns = 0
        for turn in range(4):
            node, other = nodes[turn % 2], nodes[1 - turn % 2]
            n_opened = len(other.logged("partition open"))
            subprocess.run([ROTA, "node", "drain", node.node, "--store", DATABASE.url], check=True, timeout=TIMEOUT)
            for _ in range(40):  # while the one gives it up and the other takes it, if the one had it
                for client in clients:
                    for is_added, is_new, may_go in read_added(client.call(path, repeated)):
                        assert not is_new and (is_added or not may_go), (turn, is_added, is_new, may_go)
                if len(other.logged("partition open")) > n_opened:
                    n_turns += 1
                    break
            subprocess.run([ROTA, "node", "undrain", node.node, "--store", DATABASE.url], check=True, timeout=TIMEOUT)
        assert n_turns > 0
        for client in clients:
            client.close()
        wait_until(lambda: len(first.jobs("waiting", "again")) == 20, "that all are seen")


def id_at(number):
    """The id of a job in partition 0."""
    return bytes.fromhex(f"0190000000000000{number + 1:016x}")


def read_added(reply):
    """(was it added, is it new, may it go elsewhere) of each job; of a call that failed: nothing."""
    added = []
    for _, entry in grpc_raw.fields(reply or b""):
        fields = dict(grpc_raw.fields(entry))
        added.append((fields.get(3, 0) == 0, bool(fields.get(2, 0)), bool(fields.get(5, 0))))
    return added


def is_taken_by(node, queue):
    """Whether this node has the one partition of a queue."""
    node.add("first", queue=queue)
    return any(queue in line for line in node.logged("partition open"))


@test
def a_paused_owner_does_not_deny_jobs_of_its_successor():
    one = ["--partitions", "1"]  # the very one that the owner had
    with Node(*one) as first:
        first.add("x", queue="stop")
        stop.stop(first.process)
        try:
            bury()  # at once, rather than after its ttl
            with Node(*one) as second:
                jobs = second.add_lines(10, "stop")
            bury()
            client = grpc_raw.Client(first.node, TIMEOUT)
            asked = [client.start("/rota.v1.Queue/Describe", message(_1="stop", _2=bytes.fromhex(job.split("/")[1])))
                     for job in jobs]  # which its socket has before it continues
        finally:
            first.process.send_signal(signal.SIGCONT)
        with contextlib.closing(client):
            assert all([client.await_reply(call) for call in asked])


@test
def jobs_outlive_a_restart():
    with Node() as node:
        first = node.add("one", "--priority", "7", "--can", "go", "--key", "someone", queue="rest")
        node.add_lines(300, "rest")
        gone = node.add("gone", queue="rest")
        node.run("job", "cancel", gone)
        node.run("queue", "pause", "rest")
        before = node.show(first)
        assert node.terminate() == 0
    with Node() as node:
        shown = node.show(first)
        assert {**shown, "explain": None} == {**before, "explain": None}, (before, shown)
        # It answers for a partition that it reads, but does not own until its former life is over.
        wait_until(lambda: node.show(first)["explain"] == before["explain"], lambda: (before, node.show(first)))
        assert len(node.jobs("waiting", "rest")) == 301
        assert node.jobs("cancelled", "rest") == [gone]
        node.run("job", "retry", gone)
        assert len(node.jobs("waiting", "rest")) == 302
        assert "paused" in node.run("queue", "show", "rest")
        with Worker(node, "--can", "go", "--", "cat", queue="rest"):
            node.run("queue", "resume", "rest")
            shown = node.await_state(first, "done")
            assert shown["result"] == "one", shown


@test
def acknowledged_jobs_survive_kill_9():
    known = set()
    for life in range(3):
        with Node() as node:
            promise.check(known <= (found := set(node.jobs("waiting", "kill"))), f"life {life} lost {known - found}")
            adder = Adder([node], "kill")
            adder.await_more(10)
            node.kill()
            known |= adder.end()
        bury()
    with Node() as node:
        promise.check(known <= (found := set(node.jobs("waiting", "kill"))), f"lost: {known - found}")


@test
def an_attempt_continues_over_a_restart():
    with folder() as path, contextlib.ExitStack() as stack:
        gate, begun = f"{path}/gate", f"{path}/begun"
        node = stack.enter_context(Node("--listen", "127.0.0.1:0"))
        job = node.add("once", queue="over")
        script = f"echo x >> {begun}; while ! test -e {gate}; do sleep 0.05; done; cat"
        stack.enter_context(Worker(node, "--", "sh", "-c", script, queue="over"))
        wait_until(lambda: pathlib.Path(begun).exists(), "that the job started")
        node.await_state(job, "running")
        node.kill()
        again = stack.enter_context(Node("--listen", node.node))
        assert again.show(job)["state"] == "running"
        pathlib.Path(gate).touch()
        shown = again.await_state(job, "done")
        assert shown["result"] == "once" and shown["attempts"] >= 1, shown


@test
def another_node_takes_over_after_kill_9():
    with folder() as path, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node()) for _ in range(3)]
        script = f"echo $ROTA_JOB_ID >> {path}/begun; cat"
        for node in nodes:
            stack.enter_context(Worker(node, "--slots", "2", "--lease", "4s", "--kill-after", "500ms", "--", "sh", "-c", script, queue="take"))
        adder = Adder(nodes[1:], "take")
        adder.await_more(20)
        nodes[0].kill()
        adder.await_more(20)
        known = adder.end()
        await_done(nodes[1], known, "take")
        assert any("partition open" in line for line in nodes[1].log + nodes[2].log)


def await_both(nodes):
    wait_until(lambda: all(len(json.loads(node.run("queue", "nodes", "--json"))["nodes"]) == 2 for node in nodes),
               "that both are listed")


@test
def a_worker_at_one_node_does_the_jobs_of_all():
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node()) for _ in range(2)]
        await_both(nodes)
        known = nodes[0].add_lines(64, "away")
        stack.enter_context(Worker(nodes[1], "--slots", "4", "--", "cat", queue="away"))
        await_done(nodes[0], known, "away")
        queue = json.loads(nodes[0].run("queue", "show", "away", "--json"))
        assert 0 < queue["fetched_total"] < len(known) and queue["lent_total"] == queue["fetched_total"], queue
        assert all(nodes[1].show(job)["attempts"] == 1 for job in sorted(known)[:8])


def await_partitions(node, queue, n):
    """Until so many are written and read; nothing but a look tells of it."""
    def is_so():
        shown = json.loads(node.run("queue", "show", queue, "--json"))
        return shown["wanted"] == shown["write"] == shown["read"] == n

    wait_until(is_so, f"{n} partitions of {queue} at {node.node}")


def partition_of(job):
    return int(job.split("/")[1][12:16], 16)


@test
def a_queue_grows_and_shrinks_while_jobs_wait():
    with folder() as path, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node()) for _ in range(2)]
        await_both(nodes)
        known = nodes[0].add_lines(64, "lay")
        nodes[1].run("queue", "partitions", "lay", "48")
        for node in nodes:
            await_partitions(node, "lay", 48)
        added = known | nodes[1].add_lines(300, "lay")
        assert len(added) == 364 and {partition_of(job) for job in added} - set(range(16)), sorted(added)
        nodes[0].run("queue", "partitions", "lay", "3")  # which waits for the jobs beyond
        for node in nodes:
            wait_until(lambda: node.run("queue", "show", "lay").endswith("write\t3\nread\t48\n"), "that both know of it")
        for i in range(20):
            added.add(nodes[i % 2].add(f"late {i}", queue="lay"))
        assert len(added) == 384 and set(nodes[1].jobs("waiting", "lay")) == added
        # Nobody but the store knows how the queue lies.
        for node in nodes:
            node.kill()
        bury()
        nodes = [stack.enter_context(Node()) for _ in range(2)]
        await_both(nodes)
        for node in nodes:
            wait_until(lambda: node.run("queue", "show", "lay").endswith("write\t3\nread\t48\n"), "that both know of it again")
        wait_until(lambda: set(nodes[0].jobs("waiting", "lay")) == added, "that all are known again")
        script = f"echo $ROTA_QUEUE/$ROTA_JOB_ID >> {path}/begun; cat"
        for node in nodes:
            stack.enter_context(Worker(node, "--slots", "2", "--", "sh", "-c", script, queue="lay"))
        await_done(nodes[0], added, "lay")
        for node in nodes:
            await_partitions(node, "lay", 3)
        # Once more, while jobs come and are done.
        adder = Adder(nodes, "lay")
        for n in (40, 2):
            nodes[0].run("queue", "partitions", "lay", str(n))
            for node in nodes:
                await_partitions(node, "lay", n)
            adder.await_more(10)
        added |= adder.end()
        await_done(nodes[1], added, "lay")
        for node in nodes:
            assert set(node.jobs("done", "lay")) == added
            shown = json.loads(node.run("queue", "show", "lay", "--json"))
            assert shown["done"] == len(added) and shown["waiting"] == shown["running"] == 0, shown
        begun = pathlib.Path(f"{path}/begun").read_text().split()
        promise.check(set(begun) == added, f"{len(added - set(begun))} jobs were never begun")
        assert len(begun) == len(added), [nodes[0].show(job) for job in begun if begun.count(job) > 1]
        assert all(partition_of(nodes[1].add("after", queue="lay")) < 2 for _ in range(6))


@test
def a_key_is_that_of_one_job():
    def add(node, key):
        return node.run("job", "add", "--queue", "keys", "--idempotency-key", key, node.node).strip()

    keys = [f"order {i}" for i in range(12)]
    with Node() as a:
        with Node() as b:
            await_both([a, b])
            jobs = [add((a, b)[i % 2], key) for i, key in enumerate(keys)]
            assert len(set(jobs)) == len(keys)
            for n in (2, 16):
                a.run("queue", "partitions", "keys", str(n))
                assert [add((b, a)[i % 2], key) for i, key in enumerate(keys)] == jobs, n
            b.kill()
        # Whoever has the partition now has its jobs.
        assert [add(a, key) for key in keys] == jobs
        assert sorted(a.jobs("waiting", "keys")) == sorted(jobs)


def n_sent_to(node):
    """Connections to a node with bytes that it has not read."""
    port = int(node.node.rsplit(":", 1)[1])
    with open("/proc/net/tcp") as table:
        lines = [line.split() for line in table][1:]
    return sum(1 for line in lines if int(line[1].split(":")[1], 16) == port and line[3] == "01"
               and int(line[4].split(":")[1], 16) > 0)


@test
def a_stopped_owner_is_fenced():
    with contextlib.ExitStack() as stack:
        old = stack.enter_context(Node())
        known = old.add_lines(200, "fence")
        assert len(known) == 200
        stop.stop(old.process)
        new = stack.enter_context(Node())
        # Until the stopped one is off the list it is asked too, and what it has is missing.
        wait_until(lambda: ask(new, "job", "list", "--queue", "fence", "--limit", "1000").stdout.count("\n") == 200,
                   "that the other has the jobs")
        stack.enter_context(Worker(new, "--slots", "4", "--", "cat", queue="fence"))
        await_done(new, known, "fence")
        # What is sent to it now it finds when it continues, and believes that it may write.
        late = [subprocess.Popen([ROTA, "job", "add", "--node", old.node, "--timeout", f"{TIMEOUT}s", "--queue",
                                  "fence", "--", f"late {i}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 text=True) for i in range(4)]
        wait_until(lambda: n_sent_to(old) >= len(late), "that it has something to read")
        old.signal(signal.SIGCONT)
        for process in late:
            known |= set(process.communicate(timeout=TIMEOUT)[0].split())
        wait_until(lambda: old.logged("partition lost"), "that the old owner finds out")
        stack.enter_context(Worker(old, "--slots", "4", "--", "cat", queue="fence"))
        await_done(new, known, "fence")
        await_done(old, known, "fence")


@test
def nodes_come_and_go_while_jobs_run():
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Node())
        stack.enter_context(Worker(first, "--slots", "2", "--", "cat", queue="move"))
        adder = Adder([first], "move")
        adder.await_more(10)
        second = stack.enter_context(Node())
        stack.enter_context(Worker(second, "--slots", "2", "--", "cat", queue="move"))
        wait_until(lambda: second.logged("partition open"), "that the second has something")
        adder.await_more(10)
        assert second.terminate() == 0
        adder.await_more(10)
        known = adder.end()
        await_done(first, known, "move")


@with_server
def the_database_is_restarted_in_the_middle():
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node())
        stack.enter_context(Worker(node, "--slots", "2", "--", "cat", queue="again"))
        adder = Adder([node], "again")
        for _ in range(2):
            adder.await_more(10)
            DATABASE.restart()
        adder.await_more(10)
        await_done(node, adder.end(), "again")


@with_server
def a_node_without_its_database_refuses_jobs_until_it_is_back():
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node())
        first = node.add("first", queue="away")
        DATABASE.stop()
        try:
            wait_until(lambda: node.logged("store unreachable"), "that it is given up")
            done = subprocess.run([ROTA, "job", "add", "--node", node.node, "--queue", "away", "--timeout", "5s",
                                   "--", "x"], capture_output=True, timeout=TIMEOUT, text=True)
            assert done.returncode == 1 and "the node accepts no new jobs, the store is unreachable" in done.stderr, done
            assert done.stderr.count("; asking again\n") == 1 and "outcome is unknown" not in done.stderr, done
            stack.enter_context(Worker(node, "--", "cat", queue="away"))
        finally:
            DATABASE.start()
        assert node.await_state(first, "done")["result"] == "first"
        assert node.await_state(node.add("second", queue="away"), "done")


@with_server
def nodes_with_journals_go_on_without_their_database():
    with folder() as path, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node("--durability", "journal", "--data", f"{path}/{i}", "--ttl", "2s"))
                 for i in range(2)]
        await_both(nodes)
        stack.enter_context(Worker(nodes[0], "--", "cat", queue="on"))
        done = []
        DATABASE.stop()
        try:
            wait_until(lambda: all(node.logged("store down") for node in nodes), "that both miss it")
            until = time.monotonic() + 6  # three times as long as a node lasts without a heartbeat
            while time.monotonic() < until:
                done += [(node, node.add("x", queue="on")) for node in nodes]
                for node, job in done[-2:]:
                    assert node.await_state(job, "done")["result"] == "x"
        finally:
            DATABASE.start()
        wait_until(lambda: all(len(node.logged("store up")) > 1 for node in nodes), "that both have it again")
        await_both(nodes)
        for node, job in done:
            assert node.show(job)["state"] == "done"
        assert nodes[0].await_state(nodes[1].add("y", queue="on"), "done")["result"] == "y"


@with_server
def callers_do_not_learn_where_the_database_is():
    about = message(_1="hidden", _2=bytes(16), _3=1)
    jobs = ("Describe", "Cancel", "Complete", "Fail", "Extend", "Retry", "SetPriority", "List", "Queues", "Workers", "Nodes")
    requests = [("Queue/Add", message(_1=message(_1="hidden"))), ("Queue/AddBatch", message(_1=[message(_1="hidden")])),
                *((f"Queue/{method}", about) for method in jobs),
                ("Queue/Poll", message(_1="hidden", _5=10)), ("Space/List", b""), ("Space/Show", message(_1="none")),
                ("Directory/GetSpace", message(_1="none")), ("Nodes/Show", b""),
                ("Nodes/Documents", message(_1=["cluster", "queues", "spaces"])), ("Nodes/Events", b"")]
    hidden = [f":{DATABASE.port}", databases.USER + "@", databases.DATABASE, databases.PASSWORD, "://"]
    with Node() as node:
        node.add("job", queue="hidden")
        client = grpc_raw.Client(node.node, TIMEOUT, **{"grpc-timeout": "2S"})
        DATABASE.stop()
        try:
            wait_until(lambda: node.logged("store unreachable"), "that it is given up")
            said = b""
            for method, request in requests:
                stream = client.start("/rota.v1." + method, request)
                said += (client.await_reply(stream) or b"") + client.trailers.get(stream, b"")
        finally:
            client.close()
            DATABASE.start()
        assert b"the store is unreachable" in said, said
        assert [text for text in hidden if text.encode() in said] == [], said
        assert databases.USER + "@" in "".join(node.log), node.log  # who runs the node can look it up


@with_server
def observers_do_not_wait_for_an_unreachable_database():
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node())
        done = node.add("done", queue="seen")
        with Worker(node, "--", "cat", queue="seen"):
            node.await_state(done, "done")
        waiting = node.add("waiting", queue="seen")
        node.run("job", "add", "--queue", "other", "x")
        about_done = message(_1="seen", _2=bytes.fromhex(done.split("/")[1]))
        client = grpc_raw.Client(node.node, TIMEOUT)
        stack.callback(client.close)
        assert client.call("/rota.v1.Queue/Queues", b"")  # once the node has loaded all partitions
        DATABASE.stop()
        try:
            was_given_up = node.logged("store unreachable")
            adds = [client.start("/rota.v1.Queue/Add", message(_1=message(_1="other", _2="x")))
                    for _ in range(32)]  # each to a partition by chance: some are of those that the node has
            for method, request in (("Queues", b""), ("List", message(_1="seen")), ("Describe", about_done)):
                reply = client.call(f"/rota.v1.Queue/{method}", request)
                assert reply and node.node.encode() not in reply, (method, reply)  # nor is the node missing
            # The looks were answered first, though the adds came first.
            assert was_given_up or not client.ended.intersection(adds)
            wait_until(lambda: node.logged("store unreachable"), "that it is given up")
            assert [client.await_reply(add) for add in adds] == [None] * 32
            looks = [ask(node, *words) for words in
                     (("queue", "list"), ("job", "list", "--queue", "seen"), ("job", "explain", done))]
            assert all(look.returncode == 0 and look.stdout and not look.stderr for look in looks), looks
            assert "this node hands out no jobs now, the store is unreachable" in node.run("job", "explain", waiting)
        finally:
            DATABASE.start()
        wait_until(lambda: node.logged("store reachable again"), "that it is back")


@test
def newer_tables_are_refused():
    sql("UPDATE rota_schema SET version = 99 WHERE id = 1;")
    try:
        done = subprocess.run([ROTA, "broker", "--store", DATABASE.url], capture_output=True, timeout=TIMEOUT, text=True)
        assert done.returncode != 0 and "version 99" in done.stderr, done
        LOGS.append([done.stderr])
    finally:
        sql("UPDATE rota_schema SET version = 3 WHERE id = 1;")


@test
def impossible_requests_fail_at_once():
    for words, text in ((["--store", "nonsense"], "begins with sqlite:"),
                        (["--store", "sqlite:/no/such/folder/x.db"], "/no/such/folder")):
        done = subprocess.run([ROTA, "broker", *words], capture_output=True, timeout=TIMEOUT, text=True)
        assert done.returncode != 0 and text in done.stderr, (words, done)
    if KIND != "sqlite":
        wrong = DATABASE.url.replace(databases.USER + ":", databases.USER + ":not", 1)
        done = subprocess.run([ROTA, "broker", "--store", wrong], capture_output=True, timeout=TIMEOUT, text=True)
        assert done.returncode != 0 and databases.PASSWORD not in done.stderr, done


@test
def an_invalid_job_row_is_skipped():
    with Node() as node:
        job = node.add("fine", queue="rows")
        assert node.terminate() == 0
    sql("UPDATE rota_partitions SET epoch = epoch WHERE queue = 'rows';"
        "INSERT INTO rota_jobs (queue, part, id, state, priority, attempts, enqueued_at, worker, record, payload) "
        "SELECT queue, part, '00000000000000000000000000000001', 'waiting', 0, 0, 0, '', record, NULL "
        "FROM rota_jobs WHERE queue = 'rows';")
    with Node() as node:
        assert node.jobs("waiting", "rows") == [job]
        wait_until(lambda: node.logged("row skipped"), "the line in the log")


@test
def large_payloads_come_back():
    large = "x" * (5 << 20)
    with Node() as node:
        job = node.run("job", "add", "--queue", "large", "-", data=large.encode()).strip()
        node.kill()
    bury()
    with Node() as node, Worker(node, "--", "wc", "-c", queue="large"):
        assert node.await_state(job, "done")["result"].strip() == str(len(large))
        if KIND == "mysql":
            more = "x" * (15 << 20)
            assert "max_allowed_packet" in node.run("job", "add", "--queue", "large", "-", data=more.encode(), code=2)


@test
def the_password_is_never_shown():
    if KIND == "sqlite":
        return "SQLite has none"
    text = "".join(line for log in LOGS for line in log)
    assert text and databases.PASSWORD not in text
    return None


def main():
    global DATABASE
    try:
        with databases.open_database(KIND) as DATABASE:
            return run_tests([function for function in TESTS if not WANTED or function.__name__ in WANTED])
    except databases.Absent as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


sys.exit(main())
