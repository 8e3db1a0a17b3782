#!/usr/bin/env python3
"""Several brokers that hold queues together, as a user runs them: test_cluster.py ROTA.

Starts them, adds jobs at any of them, takes nodes off and puts them back, kills them in the
middle. Prints TAP."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback

ROTA = sys.argv[1]
TESTS = []
TIMEOUT = 120


def test(function):
    TESTS.append(function)
    return function


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Node:
    """A broker at an address of its own, which it has again when it is started anew."""

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
        return [json.loads(line)["job"] for line in lines]

    def queue(self, name="work"):
        return json.loads(self.run("queue", "show", name, "--json"))


@contextlib.contextmanager
def nodes(n, *arguments, hosts=False):
    with tempfile.TemporaryDirectory(prefix="rota-cluster-") as folder:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(n)]
        path = os.path.join(folder, "hosts")
        write_hosts(path, addresses)
        listed = ["--hosts", path] if hosts else ["--nodes", ",".join(addresses)]
        made = [Node(address, os.path.join(folder, f"data{i}"), *listed, *arguments)
                for i, address in enumerate(addresses)]
        try:
            for node in made:
                node.start()
            yield (made, path) if hosts else made
        finally:
            for node in made:
                if node.process and node.process.poll() is None:
                    node.process.kill()
                    node.process.wait(TIMEOUT)


def write_hosts(path, addresses):
    with open(path + ".new", "w") as file:
        file.write("".join(f"{address}\n" for address in addresses))
    os.rename(path + ".new", path)


def partition_of(job):
    return int(job.split("/")[1][12:16], 16)


def numbered(partition, number):
    """An id in this partition."""
    return f"{0x0190_0000_0000 + number:012x}{partition:04x}{number:016x}"


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


def main():
    print(f"1..{len(TESTS)}")
    failed = 0
    for number, function in enumerate(TESTS, 1):
        try:
            skipped = function()
            print(f"ok {number} - {function.__name__}" + (f" # SKIP {skipped}" if skipped else ""), flush=True)
        except Exception:
            failed += 1
            print(f"not ok {number} - {function.__name__}", flush=True)
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
