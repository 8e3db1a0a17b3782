"""Brokers and workers as processes, for tests that start and stop them.

    with Broker("--durability", "memory") as broker, Worker(broker, "sh", "-c", "cat") as worker:
        job = broker.add("hello")
        broker.await_state(job, "done")
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from brokers import listen

TIMEOUT = 120  # of a machine that has much else to do


def wait_until(question, what="it"):
    """Ask until the answer is true, and give it. `what` may be a function that tells more.

    For what a broker by itself tells nobody of: which nodes it knows, how far jobs have moved to
    another node, which layout is in force; its log has none of them and it has no stream of them.
    A job's end is told (`queue wait-empty`, `job add --wait`), and a node of rotad tells all of it
    (rotad.await_news): there nothing has to be asked again. Between two questions is at least the
    time that the answer took, for who asks takes from those who are to answer."""
    end = time.monotonic() + TIMEOUT
    while True:
        began_at = time.monotonic()
        answer = question()
        if answer:
            return answer
        answered_at = time.monotonic()
        if answered_at > end:
            raise AssertionError(f"{what() if callable(what) else what} did not come about")
        time.sleep(max(0.02, answered_at - began_at))


def is_alive(pid):
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="rota-work-") as path:
        yield path


class Process:
    """One of rota's; its standard error is kept in `log`."""

    def __init__(self, rota, *words, env=None):
        self.rota = rota
        self.log = []
        self.process = subprocess.Popen([rota, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        errors="replace", env={**os.environ, **(env or {})})
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for line in self.process.stderr:
            self.log.append(line)

    def logged(self, text):
        return [line for line in list(self.log) if text in line]

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(TIMEOUT)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait()

    def terminate(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()


class Broker(Process):
    def __init__(self, rota, *words):
        super().__init__(rota, "broker", *listen(words), *words)
        line = self.process.stdout.readline()
        assert line.startswith("ready grpc="), (line, self.log)
        self.facts = dict(fact.split("=", 1) for fact in line.split()[1:])
        self.node = self.facts["grpc"]

    def run(self, *words, data=None, code=0):
        done = subprocess.run([self.rota, *words[:2], "--node", self.node, *words[2:]], input=data, capture_output=True,
                              timeout=TIMEOUT)
        assert done.returncode == code, (words, done)
        return (done.stdout if code == 0 else done.stderr).decode(errors="replace")

    def add(self, payload, *words, queue="work"):
        return self.run("job", "add", "--queue", queue, *words, "--", payload).strip()

    def show(self, job):
        return json.loads(self.run("job", "show", job, "--json"))

    def await_state(self, job, *states):
        return wait_until(lambda: (lambda shown: shown if shown["state"] in states else None)(self.show(job)),
                          f"{job} {states}")


class Worker(Process):
    def __init__(self, brokers, *words, queue="work"):
        brokers = brokers if isinstance(brokers, (list, tuple)) else [brokers]
        super().__init__(brokers[0].rota, "work", "--node", ",".join(broker.node for broker in brokers), "--queue",
                         queue, "--log-level", "debug", *words)


def run_tests(tests):
    """Run functions and print TAP; one that answers with a text was skipped for that reason."""
    print(f"1..{len(tests)}")
    failed = 0
    for number, function in enumerate(tests, 1):
        try:
            skipped = function()
            print(f"ok {number} - {function.__name__}" + (f" # SKIP {skipped}" if skipped else ""), flush=True)
        except Exception:
            failed += 1
            print(f"not ok {number} - {function.__name__}", flush=True)
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
    sys.exit(1 if failed else 0)
