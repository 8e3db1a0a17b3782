#!/usr/bin/env python3
"""A service that owns shards, as processes: test_service_server.py SERVICE_NODE ROTAD ROTA.

Three servers share the shards of a space, and a load adds to counters all the time: each reply has
to be the one before plus 1, whatever happens to the servers. They are killed, stopped and continued,
restarted one after the other, start slowly, and can't start. Prints TAP."""

import contextlib
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import promise  # noqa: E402
import tap  # noqa: E402
from stop import stop  # noqa: E402
from tap import test  # noqa: E402

SERVICE, ROTAD, ROTA = (os.path.abspath(path) for path in sys.argv[1:4])
TIMEOUT = 120
SHARDS = 16


class Process:
    """A program whose lines are awaited."""

    def __init__(self, *words, **options):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **options)
        self.lines, self.seen = queue.Queue(), []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def wait_for(self, pattern):
        """The next line that matches."""
        while True:
            line = self.lines.get(timeout=TIMEOUT)
            assert line is not None, (f"it ended before {pattern}", self.seen[-20:])
            self.seen.append(line)
            if found := re.search(pattern, line):
                return found

    def held(self, patience=0.05):
        """The shards that it serves, by all that it has printed so far."""
        with contextlib.suppress(queue.Empty):
            while (line := self.lines.get(timeout=patience)) is not None:
                self.seen.append(line)
            self.lines.put(None)
        shards = set()
        for line in self.seen:
            if found := re.match(r"(start|stop) shard=(\d+) ", line):
                (shards.add if found[1] == "start" else shards.discard)(found[2])
        return shards

    def end(self, number=signal.SIGTERM):
        """Its exit code, after all its lines were seen."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        code = self.process.wait(TIMEOUT)
        self.reader.join()
        self.held()
        self.process.stdout.close()
        return code


class Cluster:
    def __init__(self, names="abc"):
        self.names = names

    def __enter__(self):
        self.place = tempfile.TemporaryDirectory(prefix="rota-service-")
        self.folder = self.place.name
        self.store = f"sqlite:{self.folder}/store.db"
        self.stack, self.processes = contextlib.ExitStack(), []
        self.servers = {name: self.serve(name) for name in self.names}
        return self

    def __exit__(self, *_):
        self.stack.close()
        self.place.cleanup()

    def start(self, *words, **options):
        process = Process(*words, **options)
        self.processes.append(process)
        self.stack.callback(lambda: process.process.stdout.closed or process.end(signal.SIGKILL))
        return process

    def serve(self, name, awaited=r"^start "):
        server = self.start(SERVICE, "serve", self.store, self.folder, name)
        server.grpc = server.wait_for(r"^ready grpc=(\S+)")[1]
        if awaited:
            server.wait_for(awaited)
        return server

    def one_of(self, owner, *others):
        """A shard of this server, when all shards are served."""
        while sum(len(server.held()) for server in (owner, *others)) != SHARDS or not owner.held():
            pass
        return min(owner.held())

    def load(self, n=32):
        load = self.start(SERVICE, "load", self.store, str(n))
        load.wait_for("^round 2$")
        return load

    def node(self):
        """A rotad on the same store, which is asked about the space."""
        node = self.start(ROTAD, "--data", f"{self.folder}/data", "--store", self.store, "--listen", "127.0.0.1:0",
                          "--http", "127.0.0.1:0", "--workers", "127.0.0.1:0", stderr=subprocess.DEVNULL)
        node.grpc = node.wait_for(r"^ready .*grpc=(\S+)")[1]
        self.rota(node, "wait", "space", "counters")
        return node

    def rota(self, node, *words):
        done = subprocess.run([ROTA, *words, "--node", node.grpc], capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, (words, done)
        return done.stdout

    def knob(self, name, suffix, text=None):
        path = pathlib.Path(self.folder, f"{name}.{suffix}")
        if text is None:
            path.unlink()
        else:
            path.write_text(text)


def end_load(cluster, load):
    """It counted, each count was the one before plus 1, and no server got a call that it must not have."""
    assert load.end() == 0, load.seen[-3:]
    assert load.seen[-1].startswith("done "), load.seen[-3:]
    for process in cluster.processes:
        if process is not load:
            process.held()
        promise.check(not [line for line in process.seen if line.startswith("wrong")], f"{process.seen}")
        assert not [line for line in process.seen if line.startswith("failed")], process.seen


def more_rounds(load, n=2):
    for _ in range(n):
        load.wait_for("^round ")


@test
def an_owner_that_is_killed_is_replaced_and_nothing_is_counted_twice():
    with Cluster("ab") as cluster:
        load = cluster.load()
        killed, other = cluster.servers.values()
        shard = cluster.one_of(killed, other)
        assert killed.end(signal.SIGKILL) == -signal.SIGKILL
        other.wait_for(f"^start shard={shard} ")
        more_rounds(load, 3)
        end_load(cluster, load)


@test
def an_owner_that_was_stopped_for_longer_than_its_ttl_does_not_write_when_it_continues():
    with Cluster("ab") as cluster:
        load = cluster.load()
        stopped, other = cluster.servers.values()
        for _ in range(2):
            shard = cluster.one_of(stopped, other)
            stop(stopped.process, has_flocks=True)
            other.wait_for(f"^start shard={shard} ")
            more_rounds(load)
            stopped.process.send_signal(signal.SIGCONT)
            stopped.wait_for(f"^stop shard={shard} ")
            stopped.wait_for(f"^start shard={shard} ")
            more_rounds(load)
        end_load(cluster, load)


@test
def three_servers_are_restarted_one_after_the_other_under_load():
    with Cluster() as cluster:
        load = cluster.load()
        for name in "abc":
            assert cluster.servers[name].end() == 0, name
            cluster.servers[name] = cluster.serve(name)
            more_rounds(load, 1)
        end_load(cluster, load)
        for name in "abc":
            seen = cluster.servers[name]
            assert seen.end() == 0
            starts, stops = (sum(line.startswith(word) for line in seen.seen) for word in ("start ", "stop "))
            assert starts == stops > 0, (starts, stops)


@test
def a_shard_that_starts_slowly_is_served_when_it_has_started_and_no_other_server_starts_it():
    with Cluster("a") as cluster:
        cluster.knob("b", "slow", "")
        load = cluster.load()
        slow = cluster.serve("b", awaited=None)
        found = slow.wait_for(r"^begin shard=(\d+) epoch=(\d+)$")
        node = cluster.node()
        told = cluster.rota(node, "shard", "explain", "counters", found[1])
        assert slow.grpc in told, told
        load.wait_for(rf"^rejected owner={slow.grpc} claim=$")  # it is not sent to where it has been
        cluster.knob("b", "slow")
        slow.wait_for(rf"^start shard={found[1]} epoch={found[2]}$")
        more_rounds(load)
        end_load(cluster, load)
        assert not [line for line in cluster.servers["a"].seen if f"epoch={found[2]}" in line]


@test
def a_shard_that_cannot_start_goes_to_another_server_explain_says_why_and_it_comes_back():
    with Cluster("a") as cluster:
        node = cluster.node()
        load = cluster.load()
        cluster.knob("b", "fail", "the disk of b is full")
        broken = cluster.serve("b", awaited=None)
        found = broken.wait_for(r"^refuse shard=(\d+) epoch=(\d+)$")
        cluster.servers["a"].wait_for(rf"^start shard={found[1]} epoch=(?!{found[2]}$)")
        told = cluster.rota(node, "shard", "explain", "counters", found[1])
        while "could not start it" not in told:
            told = cluster.rota(node, "shard", "explain", "counters", found[1])
        assert f"{broken.grpc} could not start it: the disk of b is full" in told, told
        more_rounds(load)
        cluster.knob("b", "fail")
        broken.wait_for(rf"^start shard={found[1]} ")
        more_rounds(load)
        end_load(cluster, load)
        while "could not start it" in told:
            told = cluster.rota(node, "shard", "explain", "counters", found[1])


@test
def a_shard_that_no_server_can_start_is_tried_again_and_again_by_its_owner():
    with Cluster("") as cluster:
        cluster.knob("a", "fail", "no disk")
        only = cluster.serve("a", awaited=None)
        found = only.wait_for(r"^refuse shard=(\d+) ")
        for _ in range(3):
            only.wait_for(rf"^refuse shard={found[1]} ")
        cluster.knob("a", "fail")
        only.wait_for(rf"^start shard={found[1]} ")
        load = cluster.load()
        end_load(cluster, load)


sys.exit(tap.run(names=sys.argv[4:]))
