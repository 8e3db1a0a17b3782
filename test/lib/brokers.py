"""Brokers as a user runs them, for tests: starts, asks, kills them; and runs the tests.

    @test
    def a_rule():
        with folder() as data, Broker(ROTA, "--data", data) as broker:
            broker.add("payload")

    sys.exit(run_tests())    # prints TAP; a test that returns a text is skipped for it
"""
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading

TIMEOUT = 120  # of what takes a second on a machine that is at rest


def free_port():
    """Below those that the system gives to others while ours is not in use."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe:
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="rota-queue-") as path:
        yield os.path.join(path, "data")


PORTS = {}  # by data directory: one that was killed is listed until its ttl is over, and comes back there


def listen(arguments):
    """The words that say where it listens."""
    if "--listen" in arguments:
        return ()
    port = PORTS.setdefault(arguments[arguments.index("--data") + 1], free_port()) if "--data" in arguments else 0
    return "--listen", f"127.0.0.1:{port}"


class Broker:
    def __init__(self, rota, *arguments, prefix=(), env=None):
        self.rota = rota
        arguments = (*listen(arguments), *arguments)
        self.process = subprocess.Popen([*prefix, rota, "broker", *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        assert line.startswith("ready grpc="), (line, self.process.stderr.read())
        self.facts = dict(fact.split("=", 1) for fact in line.split()[1:])
        self.node = self.facts["grpc"]
        self.log = []
        self.reader = threading.Thread(target=self.drain, args=[self.process.stderr], daemon=True)
        self.reader.start()

    def drain(self, stream):
        for line in stream:
            self.log.append(line)

    def errors(self):
        """All that it said, once it has ended."""
        self.reader.join(TIMEOUT)
        return "".join(self.log)

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

    def start(self, *words, **options):
        return subprocess.Popen([self.rota, *words, "--node", self.node], **options)

    def run(self, *words, data=None, code=0):
        done = subprocess.run([self.rota, *words, "--node", self.node], input=data, capture_output=True,
                              timeout=TIMEOUT)
        assert done.returncode == code, (words, done)
        return (done.stdout if code == 0 else done.stderr).decode()

    def add(self, payload, *words):
        return self.run("job", "add", "--queue", "work", *words, payload).strip()

    def show(self, job):
        return json.loads(self.run("job", "show", job, "--json"))

    def queue(self, name="work"):
        return json.loads(self.run("queue", "show", name, "--json"))

    def jobs(self, state="waiting", queue="work"):
        """Of a queue that no node knows there are none, nor of one that only a dead node may know."""
        done = subprocess.run([self.rota, "job", "list", "--queue", queue, "--state", state, "--limit", "1000000",
                               "--json", "--node", self.node], capture_output=True, timeout=TIMEOUT)
        assert done.returncode == 0 or b"there is no queue" in done.stderr or b"knows queue" in done.stderr, done
        entries = map(json.loads, done.stdout.splitlines())
        return [entry["job"] for entry in entries if "job" in entry]  # one may name missing nodes
