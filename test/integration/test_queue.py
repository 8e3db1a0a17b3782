#!/usr/bin/env python3
"""Brokers as a user runs them: test_queue.py ROTA.

Starts them, adds jobs, kills and restarts them, fills their disks. Prints TAP."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback

ROTA = sys.argv[1]
TESTS = []
TIMEOUT = 60


def test(function):
    TESTS.append(function)
    return function


class Broker:
    def __init__(self, *arguments, prefix=()):
        self.process = subprocess.Popen([*prefix, ROTA, "broker", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("ready grpc="), (line, self.process.stderr.read())
        self.facts = dict(fact.split("=", 1) for fact in line.split()[1:])
        self.node = self.facts["grpc"]
        self.log = []
        threading.Thread(target=self.drain, args=[self.process.stderr], daemon=True).start()

    def drain(self, stream):
        for line in stream:
            self.log.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(TIMEOUT)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT)

    def run(self, *words, data=None, code=0):
        done = subprocess.run([ROTA, *words, "--node", self.node], input=data, capture_output=True, timeout=TIMEOUT)
        assert done.returncode == code, (words, done)
        return (done.stdout if code == 0 else done.stderr).decode()

    def add(self, payload, *words):
        return self.run("job", "add", "--queue", "work", *words, payload).strip()

    def show(self, job):
        return json.loads(self.run("job", "show", job, "--json"))

    def jobs(self, state="waiting", queue="work"):
        lines = self.run("job", "list", "--queue", queue, "--state", state, "--limit", "1000000", "--json").splitlines()
        return [json.loads(line)["job"] for line in lines]


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="rota-queue-") as path:
        yield os.path.join(path, "data")


@test
def jobs_outlive_a_restart():
    with folder() as data:
        with Broker("--data", data) as broker:
            first = broker.add("one", "--priority", "7", "--can", "go", "--key", "someone")
            broker.run("job", "add", "--queue", "work", "--lines", "-", data=b"a\nb\nc\n")
            gone = broker.add("gone")
            broker.run("job", "cancel", gone)
            before = broker.show(first)
            assert broker.terminate() == 0
        with Broker("--data", data) as broker:
            assert broker.show(first) == before
            assert len(broker.jobs()) == 4
            assert broker.jobs("cancelled") == [gone]
            broker.run("job", "retry", gone)
            assert len(broker.jobs()) == 5


@test
def what_was_acknowledged_is_there_after_kill_9():
    with folder() as data:
        known = []
        for life in range(3):
            with Broker("--data", data) as broker:
                assert set(known) <= set(broker.jobs()), life
                adder = subprocess.Popen(
                    ["sh", "-c", f"while {ROTA} job add --node {broker.node} --queue work x; do :; done"],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                bulk = subprocess.Popen([ROTA, "job", "add", "--node", broker.node, "--queue", "bulk", "--lines", "-"],
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                threading.Thread(target=bulk.communicate, args=[b"line\n" * 200000], daemon=True).start()
                known += [adder.stdout.readline().strip() for _ in range(10)]
                broker.kill()
                known += adder.stdout.read().split()
                adder.wait(TIMEOUT)
                bulk.wait(TIMEOUT)
        with Broker("--data", data) as broker:
            assert set(known) <= set(broker.jobs())


@test
def a_directory_belongs_to_one_broker():
    with folder() as data, Broker("--data", data) as broker:
        second = subprocess.run([ROTA, "broker", "--data", data], capture_output=True, text=True, timeout=TIMEOUT)
        assert second.returncode != 0 and str(broker.process.pid) in second.stderr, second
        broker.add("still served")


@test
def memory_has_to_be_asked_for():
    refused = subprocess.run([ROTA, "broker"], capture_output=True, text=True, timeout=TIMEOUT)
    assert refused.returncode == 2 and "--durability memory" in refused.stderr, refused
    refused = subprocess.run([ROTA, "broker", "--durability", "memory", "--data", "x"], capture_output=True, text=True,
                             timeout=TIMEOUT)
    assert refused.returncode == 2, refused
    with Broker("--durability", "memory") as broker:
        broker.add("x")
        assert broker.terminate() == 0


@test
def a_full_disk_refuses_jobs_and_keeps_what_it_has():
    with tempfile.TemporaryDirectory(prefix="rota-queue-") as place:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", place], capture_output=True)
        if mounted.returncode != 0:
            return "no tmpfs can be mounted here"
        try:
            data = os.path.join(place, "data")
            payload = os.urandom(4 << 20)
            with Broker("--data", data) as broker:
                known = []
                for _ in range(100):
                    done = subprocess.run([ROTA, "job", "add", "--node", broker.node, "--queue", "work", "--timeout",
                                           "3s", "-"], input=payload, capture_output=True, text=False, timeout=TIMEOUT)
                    if done.returncode != 0:
                        break
                    known.append(done.stdout.decode().strip())
                assert done.returncode == 1, "the disk was never full"
                refused = broker.run("job", "add", "--queue", "work", "x", code=1)
                assert "RESOURCE_EXHAUSTED" in refused, refused
                assert set(known) <= set(broker.jobs())
                broker.run("job", "cancel", known[0])  # what ends work still goes
                broker.kill()
            with Broker("--data", data) as broker:
                assert set(known[1:]) <= set(broker.jobs())
                assert broker.show(known[0])["state"] == "cancelled"
        finally:
            subprocess.run(["umount", "-l", place], check=True)


@test
def queues_are_shown_paused_and_drained():
    with folder() as data:
        with Broker("--data", data) as broker:
            job = broker.add("x")
            broker.run("queue", "pause", "work")
            shown = json.loads(broker.run("queue", "show", "work", "--json"))
            assert shown["is_paused"] and shown["waiting"] == 1, shown
            assert "paused" in broker.run("job", "explain", job)
            broker.kill()
        with Broker("--data", data) as broker:
            assert "paused" in broker.run("queue", "list")
            broker.run("queue", "resume", "work")
            broker.run("job", "cancel", job)
            broker.run("queue", "drain", "work")
            assert broker.run("queue", "dead", "work") == ""
            broker.run("queue", "show", "none", code=1)


@test
def hostile_words_are_refused():
    with Broker("--durability", "memory") as broker:
        job = broker.add("x")
        for words in (["job", "show", "x"], ["job", "show", "work/zz"], ["job", "show", "/"], ["job", "show", "wo rk/" + "0" * 32],
                      ["job", "add", "--queue", "wo/rk", "x"], ["job", "add", "--queue", "work", "--can", "a b", "x"],
                      ["job", "add", "--queue", "work", "--priority", "40000", "x"]):
            assert "rota: " in broker.run(*words, code=2), words
        broker.run("job", "show", "work/" + "1" * 32, code=1)
        broker.run("job", "add", "--queue", "work", "-", data=b"x" * (17 << 20), code=2)
        assert broker.jobs() == [job]


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


sys.exit(main())
