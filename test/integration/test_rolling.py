#!/usr/bin/env python3
"""A cluster whose nodes are restarted in turn: test_rolling.py ROTA ROTAD.

Three nodes in two zones serve jobs and a cache. While jobs are added and keys are asked for, each
node is stopped with SIGTERM and started again, as an operator would. No call may fail, and every job
is done, by one completion, at one node. It runs once, too, but for one reason: when its partition goes
to another node while it runs, it is run again there, and the first attempt is refused
(docs/queues.md). The worker knows: what a node has acknowledged to it never runs again. Prints TAP."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import promise  # noqa: E402
from ports import free_ports  # noqa: E402

ROTA, ROTAD = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 120
KEYS = 200


class Cluster:
    def __init__(self, folder, n):
        self.folder = folder
        with open(f"{folder}/values", "w") as file:
            file.writelines(f"key-{i}\tvalue-{i}\n" for i in range(KEYS))
        with open(f"{folder}/rotad.toml", "w") as file:
            file.write(f'[[cache]]\nname = "values"\nsource = "file:{folder}/values"\nshards = 2\n')
        self.ports = [free_ports(3) for _ in range(n)]
        self.nodes = [None] * n
        self.addresses = ",".join(f"127.0.0.1:{ports[0]}" for ports in self.ports)

    def start(self, i):
        grpc, http, workers = self.ports[i]
        with open(f"{self.folder}/node-{i}.log", "a") as log:
            self.nodes[i] = subprocess.Popen(
                [ROTAD, "--config", f"{self.folder}/rotad.toml", "--data", f"{self.folder}/node-{i}", "--store",
                 f"sqlite:{self.folder}/store.db", "--listen", f"127.0.0.1:{grpc}", "--http", f"127.0.0.1:{http}",
                 "--workers", f"127.0.0.1:{workers}", "--zone", "ab"[i % 2]],
                stdout=subprocess.PIPE, stderr=log, text=True)

    def await_ready(self, i):
        ready = self.nodes[i].stdout.readline()
        assert ready.startswith("ready "), (ready, self.log(i))

    def log(self, i):
        with open(f"{self.folder}/node-{i}.log") as file:
            return file.read()[-3000:]

    def restart(self, i):
        self.nodes[i].send_signal(signal.SIGTERM)
        assert self.nodes[i].wait(TIMEOUT) == 0, self.log(i)
        self.nodes[i].stdout.close()
        self.start(i)
        self.await_ready(i)

    def stop(self):
        for node in self.nodes:
            if node and node.poll() is None:
                node.kill()
                node.wait(TIMEOUT)


class Load(threading.Thread):
    """Makes one call after another until it is told to stop; the first that fails ends it."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.n, self.error, self.is_over = call, 0, None, False
        self.slowest = 0.0

    def run(self):
        while not self.is_over and not self.error:
            began_at = time.monotonic()
            try:
                self.call(self.n)
                self.n += 1
                self.slowest = max(self.slowest, time.monotonic() - began_at)
            except Exception as error:
                self.error = error

    def await_calls(self, n):
        """Until so many more have ended."""
        end = time.monotonic() + TIMEOUT
        n += self.n
        while self.n < n and not self.error:
            assert time.monotonic() < end, "no call ends any more"
            time.sleep(0.01)
        self.check()

    def finish(self):
        self.is_over = True
        self.join(TIMEOUT)
        self.check()
        print(f"# {self.call.__name__}: {self.n} calls, the slowest took {self.slowest:.2f} s", flush=True)

    def check(self):
        if self.error:
            raise self.error


def run(*words):
    done = subprocess.run([ROTA, *words], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, (words, done)
    return done.stdout


REFUSALS = ("job result rejected", "job attempt is over", "job stopped")


class Attempt:
    """One run of a job, as the worker's log has it."""

    def __init__(self):
        self.lines = []

    def count(self, phrase, how=""):
        return sum(f'msg="{phrase}"' in line and how in line for line in self.lines)

    def was_acknowledged(self):
        return self.count("job ends", "how=done") > 0 and self.count("job ended") > 0

    def was_refused(self):
        return any(self.count(phrase) > 0 for phrase in REFUSALS)


def attempts_of(path):
    """The attempts of each job that were begun, in that order; one more than it has slots for is given back unseen."""
    jobs = {}
    with open(path) as file:
        for line in file:
            if found := re.search(r" queue=(\S+) job=(\S+) attempt=\d+ number=(\S+)", line):
                queue, job, attempt = found.groups()
                jobs.setdefault(f"{queue}/{job}", {}).setdefault(attempt, Attempt()).lines.append(line)
    return {job: [attempt for attempt in attempts.values() if attempt.count("job started")]
            for job, attempts in jobs.items()}


def check_runs(job, attempts):
    """The last one is what counts. Those before it were refused, and never acknowledged."""
    story = [attempt.lines for attempt in attempts]
    assert all(attempt.count("job started") == 1 for attempt in attempts), (job, story)
    for attempt in attempts[:-1]:
        assert attempt.was_refused() and not attempt.was_acknowledged(), (job, story)
    # An answer that was lost is asked for again, perhaps of a node that knows of no such attempt any more.
    last = attempts[-1]
    assert last.was_acknowledged() or last.count("job ends", "how=done") > 1, (job, story)
    assert not (last.was_acknowledged() and last.was_refused()), (job, story)


def restarts_in_turn_lose_nothing(folder):
    cluster = Cluster(folder, 3)
    nodes = ["--node", cluster.addresses]
    jobs = {}  # payloads by names

    def add(n):
        name = run("job", "add", *nodes, "--timeout", "60s", "--queue", "work", f"job-{n}\n").strip()
        jobs[name] = f"job-{n}"

    def get(n):
        keys = [(7 * n + i) % KEYS for i in range(5)]
        found = run("get", *nodes, "--timeout", "60s", *(f"key-{key}" for key in keys))
        assert found == "".join(f"key-{key}\tvalue-{key}\n" for key in keys), found

    worker = None
    try:
        for i in range(3):
            cluster.start(i)
        for i in range(3):
            cluster.await_ready(i)
        with open(f"{folder}/work.log", "w") as log:
            worker = subprocess.Popen([ROTA, "work", *nodes, "--queue", "work", "--slots", "8", "--log-level", "debug", "--",
                                       "sh", "-c", "sleep 0.3; cat"], stderr=log)
        loads = [Load(add), Load(get)]
        for load in loads:
            load.start()
        for i in range(3):
            for load in loads:
                load.await_calls(5)
            cluster.restart(i)
        for load in loads:
            load.await_calls(5)
            load.finish()
        run("queue", "wait-empty", *nodes, "work", "--timeout", "10m")
        listed = run("job", "list", *nodes, "--queue", "work", "--state", "done", "--limit", "10000")
        promise.check(sorted(line.split("\t")[0] for line in listed.splitlines()) == sorted(jobs), f"{jobs} are not {listed}")
        assert len(jobs) == loads[0].n, (loads[0].n, jobs)
        worker.send_signal(signal.SIGTERM)  # when it has ended it has heard of all of them
        assert worker.wait(TIMEOUT) == 0
        runs = attempts_of(f"{folder}/work.log")
        for name, payload in jobs.items():
            shown = json.loads(run("job", "show", *nodes, "--json", name))
            promise.check([event["state"] for event in shown["events"]].count("done") == 1, f"{name} is not done once: {shown}")
            assert shown["result"].strip() == payload, (name, shown)
            check_runs(name, runs[name])
        n_again = sum(len(attempts) for attempts in runs.values()) - len(jobs)
        print(f"# {len(jobs)} jobs, {n_again} runs that were refused; {loads[1].n} Gets")
    finally:
        if worker:
            worker.kill()
            worker.wait(TIMEOUT)
        cluster.stop()


def main():
    print("1..1")
    with tempfile.TemporaryDirectory(prefix="rota-rolling-") as folder:
        try:
            restarts_in_turn_lose_nothing(folder)
            print("ok 1 - restarts_in_turn_lose_nothing")
            return 0
        except Exception:
            print("not ok 1 - restarts_in_turn_lose_nothing")
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()))
            return 1


if __name__ == "__main__":
    sys.exit(main())
