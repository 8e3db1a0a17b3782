#!/usr/bin/env python3
"""A worker in Python and a broker, with keys, and with frames that get lost between them:
test_worker_frames.py ROTA LIB WORKER.

Prints TAP."""
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types

ROTA, LIB, WORKER = sys.argv[1:4]
sys.path.insert(0, LIB)
import work_processes as lib  # noqa: E402
from ports import free_ports  # noqa: E402
from work_processes import folder, wait_until  # noqa: E402

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def can_zmq(python):
    return subprocess.run([python, "-c", "import zmq"], capture_output=True).returncode == 0


PYTHON = next((python for python in ("/usr/bin/python3", sys.executable) if can_zmq(python)), None)


def Broker(*words):
    return lib.Broker(ROTA, "--workers", "127.0.0.1:0", *(words or ("--durability", "memory")))


class Worker(lib.Process):
    def __init__(self, address, *words):
        super().__init__(PYTHON, WORKER, address, "--queue", "work", *words)


# --- a wire that loses frames ---

def read(stream, size):
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise ConnectionError
        data += more
    return data


def read_frame(stream):
    """A frame of ZMTP: all of its bytes, and its body; None of a command."""
    flags = read(stream, 1)
    size = read(stream, 8 if flags[0] & 2 else 1)
    body = read(stream, int.from_bytes(size, "big"))
    return flags + size + body, None if flags[0] & 4 else body


class Wire:
    """Between a worker and a broker. Of each type of message in `losses` so many are lost."""

    def __init__(self, address, losses):
        self.losses = dict(losses)
        self.lost = []
        host, port = address.rsplit(":", 1)
        self.to = (host.strip("[]"), int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.streams = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.to)
            except OSError:  # the broker is unreachable
                near.close()
                continue
            self.streams += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=[source, sink], daemon=True).start()

    def carry(self, source, sink):
        try:
            for _ in range(64):  # the greeting, in which each side waits for the other
                sink.sendall(read(source, 1))
            while True:
                frame, body = read_frame(source)
                kind = body[1:1 + body[0]].decode() if body else ""
                if self.losses.get(kind, 0) > 0:
                    self.losses[kind] -= 1
                    self.lost.append(kind)
                else:
                    sink.sendall(frame)
        except (OSError, ConnectionError):
            for stream in (source, sink):
                stream.close()

    def cut(self):
        for stream in self.streams:
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()


def with_losses(losses, payloads=("one", "two", "three")):
    with Broker() as broker, Wire(broker.facts["zmq"], losses) as wire:
        with Worker(wire.address) as worker:
            jobs = {broker.add(payload): payload for payload in payloads}
            shown = {job: broker.await_state(job, "done", "dead") for job in jobs}
            for job, payload in jobs.items():
                assert shown[job]["result"] == payload.upper(), shown[job]
            wait_until(lambda: not any(wire.losses.values()), f"the loss of {wire.losses}")
            is_calm = not broker.logged("worker disconnected")  # a busy machine may miss beats
            assert worker.terminate() == 0, worker.log
        return shown, is_calm


@test
def nothing_gets_lost_on_a_wire_that_loses_nothing():
    shown, is_calm = with_losses({})
    assert not is_calm or all(job["attempts"] == 1 for job in shown.values()), shown


@test
def jobs_that_get_lost_are_sent_again():
    shown, _ = with_losses({"rota.jobs": 2})
    assert any(job["attempts"] > 1 for job in shown.values()), shown


@test
def questions_and_answers_that_get_lost_are_asked_again():
    with_losses({"rota.jobs": 1, "rota.check": 1, "rota.holds": 1})


@test
def ends_are_repeated_until_they_are_answered():
    shown, is_calm = with_losses({"rota.ends": 2, "rota.ended": 2})
    assert not is_calm or all(job["attempts"] == 1 for job in shown.values()), shown


@test
def a_welcome_and_an_offer_that_get_lost_end_in_another_session():
    with_losses({"rota.welcome": 1})
    with_losses({"rota.ready": 1})


@test
def a_lost_cancel_is_repeated():
    with Broker() as broker, Wire(broker.facts["zmq"], {"rota.cancel": 1}) as wire:
        with Worker(wire.address, "--slots", "1") as worker:
            job = broker.add("hold")
            broker.await_state(job, "running")
            broker.run("job", "cancel", job)
            wait_until(lambda: wire.lost, "the loss of the cancel")
            assert broker.await_state(broker.add("next"), "done")["result"] == "NEXT"
            held = broker.add("hold")  # and this is given back: the worker stops at once
            broker.await_state(held, "running")
            is_calm = not broker.logged("worker disconnected")
            assert worker.terminate() == 0
            shown = broker.await_state(held, "waiting")
            assert not is_calm or shown["attempts"] == 0, shown


@test
def ends_outlive_a_connection_and_a_broker():
    with folder() as place:
        words = ("--data", os.path.join(place, "data"))
        with Broker(*words) as broker:
            with Wire(broker.facts["zmq"], {"rota.ended": 1000}) as wire, Worker(wire.address) as worker:
                job = broker.add("one")
                broker.await_state(job, "done")
                wait_until(lambda: wire.lost, "the loss of an answer")
                wire.cut()
                wire.losses.clear()
                assert broker.await_state(broker.add("two"), "done")["result"] == "TWO"
                # The broker forgets that there was an answer; the end is said to its next life.
                wire.losses["rota.ends"] = 1000
                late = broker.add("late")
                wait_until(lambda: "rota.ends" in wire.lost)
                broker.kill()
                with lib.Broker(ROTA, "--workers", broker.facts["zmq"], *words) as broker:
                    wire.losses.clear()
                    shown = broker.await_state(late, "done")
                    assert shown["result"] == "LATE", shown
                assert worker.process.poll() is None


# --- several brokers ---

@test
def when_the_node_of_a_worker_is_killed_its_job_goes_elsewhere_and_it_comes_back():
    with folder() as place:
        owner, near, zmq = (f"127.0.0.1:{port}" for port in free_ports(3))

        def node(address, *words):
            return lib.Broker(ROTA, "--listen", address, "--store", f"sqlite:{place}/store.db", "--durability", "journal",
                              "--data", os.path.join(place, address), *words)
        with node(owner) as a, Worker(zmq, "--slots", "64", "--name", "faithful") as worker:
            with node(near, "--workers", zmq) as b:
                for each in (a, b):
                    wait_until(lambda each=each: len(json.loads(each.run("queue", "nodes", "--json"))["nodes"]) == 2,
                               "that they know each other")
                jobs = []
                while not json.loads(a.run("queue", "nodes", "--json"))["jobs"]:
                    jobs.append(a.add("hold"))  # until one is at the node without the worker
                for job in jobs:
                    assert "faithful" in a.await_state(job, "running")["worker"]
                b.kill()
            lent = [job for job in jobs if job in a.run("job", "list", "--queue", "work", "--state", "running")]
            assert len(lent) == 1, (lent, jobs)
            with lib.Worker(a, "--", "cat"):
                shown = a.await_state(lent[0], "done")
                assert shown["attempts"] == 2 and shown["result"] == "hold", shown
            with node(near, "--workers", zmq) as b:
                wait_until(lambda: "faithful" in b.run("queue", "workers"), "the worker's return")
                assert b.await_state(b.add("more"), "done")["result"] == "MORE"
            assert worker.process.poll() is None, worker.log


# --- keys ---

def key(*words):
    done = subprocess.run([ROTA, "worker-key", *words], capture_output=True, text=True, timeout=lib.TIMEOUT)
    assert done.returncode == 0, done
    return done.stdout.strip()


@test
def a_worker_comes_in_with_its_own_key_only():
    with folder() as place:
        def path(name):
            return os.path.join(place, name)
        public = key(path("broker.key"))
        assert key(path("broker.key")) == public and len(public) == 40
        assert os.stat(path("broker.key")).st_mode & 0o077 == 0
        with open(path("list"), "w") as file:
            file.write(key("--name", "snake", path("snake.key")) + "\n")
            file.write(key("--name", "other", path("other.key")) + "\n")
        stranger = key(path("stranger.key"))
        wrong = key(path("wrong.key"))
        assert len({public, stranger, wrong}) == 3
        with Broker("--durability", "memory", "--workers-key", path("broker.key"), "--workers-list",
                    path("list")) as broker:
            address, job = broker.facts["zmq"], broker.add("one")

            def worker(name, file, server=public):
                return Worker(address, "--name", name, "--key", path(file), f"--broker-key={server}")
            refused = (worker("stranger", "stranger.key"), worker("snake", "snake.key", wrong), Worker(address))
            with refused[0], refused[1], refused[2]:
                with worker("snake", "other.key") as thief:  # a key that is known, under another's name
                    wait_until(lambda: thief.logged("ended the session"), "the end of the session")
                    wait_until(lambda: broker.logged("worker rejected"))
                wait_until(lambda: broker.logged("the peer's key is not in our list"), "the stranger")
                for one, why in zip(refused, ("our key is not in the broker's list", "do the keys match", "both sides use keys")):
                    # A broker may close before its reason has arrived: then the next try tells it.
                    wait_until(lambda: one.logged(why) or one.process.poll() is not None, why)
                    assert one.process.poll() is None, one.log
                assert broker.show(job)["state"] == "waiting"
                with worker("snake", "snake.key"):
                    shown = broker.await_state(job, "done")
                    assert shown["result"] == "ONE" and shown["worker"] == "snake", shown


@test
def a_broker_without_keys_does_not_speak_of_them():
    with Broker("--durability", "memory") as broker:
        host, port = broker.facts["zmq"].rsplit(":", 1)
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)), b"\xff" * 200):
            with socket.create_connection((host, int(port)), lib.TIMEOUT) as stranger:
                stranger.sendall(data)
        wait_until(lambda: broker.logged("the peer ended the handshake"), "a word of it")
        assert not broker.logged("do the keys match"), broker.log


@test
def a_web_page_cannot_act_as_a_worker():
    """A page of any origin may POST to this port. Read as ZMTP 1.0, whose first byte is the size of
    a frame, the request line is a name for the connection, and frames of the page's choice follow."""
    def frame(data):
        return bytes([len(data) + 1, 0]) + data
    hello = b"\x0arota.hello" + b"\x0a\x0brota-worker\x10\x01\x1a\x0efrom-a-browser\x20\x01"
    head = b"POST /" + b"a" * (1 + ord("P") - 6)  # of which "P" says how long it is
    with Broker("--durability", "memory") as broker:
        host, port = broker.facts["zmq"].rsplit(":", 1)
        with socket.create_connection((host, int(port)), lib.TIMEOUT) as page:
            heard = b""
            try:
                page.sendall(head + frame(hello))
                while more := page.recv(4096):
                    heard += more
                    assert b"rota.welcome" not in heard, heard
            except ConnectionResetError:
                pass
        assert not broker.logged("from-a-browser"), broker.log
        with Worker(broker.facts["zmq"]):
            assert broker.await_state(broker.add("one"), "done")["result"] == "ONE"


# --- what is not a worker's fault, and what is ---
#
# A broker that starts again was stopped with SIGTERM before. `rota job show` reports a worker's
# death before the record of it is on disk, so SIGKILL can lose it; and a killed broker remains a
# member of its store, which owns its jobs, until its membership expires.

@test
def a_broker_that_is_frozen_costs_no_attempt():
    with Broker("--durability", "memory") as broker, Worker(broker.facts["zmq"]) as worker:
        job = broker.add("hold", "--attempts", "1")
        broker.await_state(job, "running")
        for i in range(2):
            broker.signal(signal.SIGSTOP)
            # The worker gives up a broker that it does not hear.
            wait_until(lambda: len(worker.logged("is unresponsive")) > i, "the silence")
            broker.signal(signal.SIGCONT)
            assert broker.await_state(broker.add("next"), "done")["result"] == "NEXT"
        shown = broker.show(job)
        assert shown["state"] == "running" and shown["attempts"] == 1, shown
        assert worker.terminate() == 0


@test
def a_worker_reads_the_goodbye_of_a_broker_that_stops():
    """It was frozen meanwhile, and finds both at once: the goodbye, and the end of its connection."""
    with Broker() as broker, Worker(broker.facts["zmq"]) as worker:
        assert broker.await_state(broker.add("one"), "done")["result"] == "ONE"
        worker.signal(signal.SIGSTOP)
        assert broker.terminate() == 0
        worker.signal(signal.SIGCONT)
        wait_until(lambda: worker.logged("the broker ended the session"), "the goodbye")
        assert worker.terminate() == 0


@test
def a_job_that_kills_its_workers_is_put_in_quarantine():
    with folder() as place:
        words = ("--data", os.path.join(place, "data"))
        with Broker(*words) as broker:
            job = broker.add("hold")
            for name in ("first", "second"):
                with Worker(broker.facts["zmq"], "--name", name) as worker:
                    broker.await_state(job, "running")
                    worker.kill()
                broker.await_state(job, "delayed", "waiting")
            assert broker.terminate() == 0
        with Broker(*words) as broker:
            with Worker(broker.facts["zmq"], "--name", "third") as worker:
                broker.await_state(job, "running")
                worker.kill()
            shown = broker.await_state(job, "dead")
            assert shown["reason"] == "killed 3 workers: first, second, third", shown
            assert "quarantined" in broker.run("job", "explain", job)
            broker.run("job", "retry", job)
            with Worker(broker.facts["zmq"], "--name", "fourth") as worker:
                broker.await_state(job, "running")
                broker.run("job", "cancel", job)


@test
def quarantine_limit_is_set_for_a_queue_and_kept():
    for kind in ("journal", "store"):
        with folder() as place:
            words = ("--data", os.path.join(place, "data")) if kind == "journal" else (
                "--store", "sqlite://" + os.path.join(place, "store.db"))
            with Broker(*words) as broker:
                job = broker.add("hold")
                assert "after killing 2 workers" in broker.run("queue", "quarantine", "--deaths", "2", "--dry-run", "work")
                broker.run("queue", "quarantine", "--deaths", "2", "work")
                with Worker(broker.facts["zmq"], "--name", "first") as worker:
                    broker.await_state(job, "running")
                    worker.kill()
                broker.await_state(job, "delayed", "waiting")
                assert broker.terminate() == 0
            with Broker(*words) as broker:
                with Worker(broker.facts["zmq"], "--name", "second") as worker:
                    broker.await_state(job, "running")
                    worker.kill()
                assert broker.await_state(job, "dead")["reason"] == "killed 2 workers: first, second"
                queue, = (json.loads(line) for line in broker.run("queue", "list", "--json").splitlines())
                assert queue["worker_deaths"] == 2 and queue["quarantined_total"] == 1, queue


@test
def a_worker_without_a_reachable_node_stops_on_a_signal():
    """In place of ZeroMQ: a socket that never connects, during whose first poll SIGTERM comes."""
    polls = []

    class Monitor:
        def poll(self, _):
            return 0

        def close(self):
            pass

    class Socket:
        def get_monitor_socket(self, *_):
            return Monitor()

        def disable_monitor(self):
            pass

        def connect(self, _):
            pass

        def close(self):
            pass

        def send(self, *_):
            pass

        def poll(self, ms):
            polls.append(ms)
            worker.stop()
            return 0

    class Context:
        def socket(self, _):
            return Socket()

        def term(self):
            pass

    zmq, sys.modules["zmq"] = sys.modules.get("zmq"), types.SimpleNamespace(
        Context=Context, DEALER=0, DONTWAIT=0, EVENT_HANDSHAKE_FAILED_AUTH=1, EVENT_HANDSHAKE_FAILED_PROTOCOL=2,
        EVENT_HANDSHAKE_FAILED_NO_DETAIL=4)
    try:
        module = runpy.run_path(WORKER, run_name="example")
    finally:
        del sys.modules["zmq"]
        if zmq:
            sys.modules["zmq"] = zmq
    worker = module["Worker"](types.SimpleNamespace(address="127.0.0.1:1", key=None, name="a", slots=1))
    worker.run()
    assert polls == [500], polls


@test
def a_file_with_a_key_is_never_changed():
    with folder() as place:
        path = os.path.join(place, "some.key")
        with open(path, "w") as file:
            file.write("not a key\n")
        done = subprocess.run([ROTA, "worker-key", path], capture_output=True, text=True, timeout=lib.TIMEOUT)
        assert done.returncode != 0 and done.stderr.startswith("rota: "), done
        with open(path) as file:
            assert file.read() == "not a key\n"
        done = subprocess.run([ROTA, "worker-key", "--name", "a b", path], capture_output=True, text=True,
                              timeout=lib.TIMEOUT)
        assert done.returncode == 2, done


if PYTHON:
    lib.run_tests(TESTS)
print("1..0 # SKIP no python3 with a ZeroMQ binding")
