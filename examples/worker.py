#!/usr/bin/env python3
"""A worker over ZeroMQ in Python, written from docs/worker-protocol.md alone.

    worker.py ADDRESS --queue QUEUE [--can CAPABILITY]... [--name NAME] [--slots N]
              [--key FILE --broker-key=KEY]

It answers each job with its payload in capitals; a payload "fail" fails, "progress" says so
first, "hold" waits until it is cancelled. Keys are made with `rota worker-key`; some begin with
a dash, so the = is needed. It needs Python and a ZeroMQ binding (Debian: python3-zmq)."""
import argparse
import os
import random
import signal
import sys
import time

try:
    import zmq
except ImportError:
    sys.exit("worker.py: there is no ZeroMQ for this Python; on Debian: apt install python3-zmq")

DONE, FAILED, GIVEN_BACK = 1, 2, 6
STOPPING = 0
REFUSALS = {  # events that only a monitor of the socket gets
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "our key is not in the broker's list",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "do the keys match, and do both sides use keys?",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "do the keys match, and do both sides use keys?",
}


# --- Protocol Buffers, as far as they are needed here ---

def varint(number):
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value) if value else b""


def data(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def fields(message):
    """Each field of a message: its number, and an int or bytes."""
    at = 0

    def next_varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = next_varint()
        if tag & 7 == 0:
            yield tag >> 3, next_varint()
        elif tag & 7 == 2:
            size = next_varint()
            yield tag >> 3, bytes(message[at:at + size])
            at += size
        else:
            at += 8 if tag & 7 == 1 else 4


# --- the worker ---

def check_secret(path, status):
    """Rejects a key file that other users can read; one of another owner may be readable by our group."""
    if status.st_mode & (0o066 if status.st_uid == os.geteuid() else 0o006):
        sys.exit(f"{path}: other users can get at the secret key in it (mode {status.st_mode & 0o7777:04o}); run chmod 600 {path}")


class Worker:
    def __init__(self, options):
        self.options = options
        self.context = zmq.Context()
        self.socket = None
        self.epoch = 0
        self.wait = 0.2
        self.held = {}  # what we work at, by job and attempt: its first three fields
        self.ends = {}  # and how it ended, until the broker has confirmed that
        self.is_stopping = False

    def send(self, kind, body=b""):
        """Never blocks: missing heartbeats show that the broker accepts nothing."""
        try:
            self.socket.send(bytes([len(kind)]) + kind.encode() + body, zmq.DONTWAIT)
            self.sent_at = time.monotonic()
        except zmq.Again:
            pass

    def connect(self):
        """A new socket for each session, so that no message of the last one arrives in it."""
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.reconnect_ivl = 24 * 60 * 60 * 1000  # it does not; -1 drops what we have not read when the connection ends
        if self.options.key:
            with open(self.options.key) as file:
                check_secret(self.options.key, os.fstat(file.fileno()))
                keys = dict(line.split() for line in file if line.strip() and line[0] != "#")
            self.socket.curve_publickey = keys["public"].encode()
            self.socket.curve_secretkey = keys["secret"].encode()
            self.socket.curve_serverkey = self.options.broker_key.encode()
        self.epoch = max(self.epoch + 1, time.time_ns() // 1000)
        self.monitor = self.socket.get_monitor_socket(sum(REFUSALS), f"inproc://monitor-{self.epoch}")
        self.monitor.linger = 0
        self.refusal = None
        self.socket.connect("tcp://" + self.options.address)
        self.interval, self.is_welcome = 1.0, False
        self.missed_max = 10 if self.options.key else 5  # keys take round trips
        self.heard_at = self.sent_at = self.said_at = time.monotonic()
        self.send("rota.hello", data(1, b"rota-worker") + number(2, 1)
                  + data(3, self.options.name.encode()) + number(4, self.epoch))

    def is_refused(self):
        """Whether the handshake has failed, which the socket itself does not report."""
        while not self.refusal and self.monitor.poll(0):
            self.refusal = REFUSALS.get(int.from_bytes(self.monitor.recv_multipart()[0][:2], sys.byteorder))
        return self.refusal is not None

    def on_welcome(self, body):
        known = dict(fields(body))
        self.interval, self.missed_max = known[3] / 1000, known[4]
        if self.is_welcome:
            return
        self.is_welcome, self.wait = True, 0.2
        self.send("rota.ready",
                  b"".join(data(1, name.encode()) for name in self.options.can)
                  + b"".join(data(2, name.encode()) for name in self.options.queue)
                  + number(3, max(self.options.slots, len(self.held)))
                  + b"".join(data(4, head) for head in self.held.values()))
        self.say_again()

    def send_ends(self, names):
        if names:
            self.send("rota.ends", b"".join(data(1, self.ends[name]) for name in names))

    def say_again(self):
        """Repeats all completions that are not confirmed."""
        self.said_at = time.monotonic()
        self.send_ends(list(self.ends))

    def on_jobs(self, body):
        names = []
        for _, entry in fields(body):
            job = dict(fields(entry))
            name, payload = (job[2], job[3]), job.get(4, b"")
            head = self.held[name] = data(1, job[1]) + data(2, job[2]) + number(3, job[3])
            if payload == b"hold":
                continue
            if payload == b"progress":
                self.send("rota.progress", data(1, head + data(4, b"half of it")))
            if payload == b"fail":
                self.ends[name] = head + number(4, FAILED) + data(6, b"it was asked to fail")
            else:
                self.ends[name] = head + number(4, DONE) + data(5, payload.upper())
            names.append(name)
        self.send_ends(names)  # all of them in one message

    def forget(self, body):
        """Forgets attempts that are confirmed or cancelled."""
        for _, entry in fields(body):
            name = dict(fields(entry))
            self.held.pop((name[2], name[3]), None)
            self.ends.pop((name[2], name[3]), None)

    def on_check(self, body):
        """Reports which attempts we have; the numbers of the check go back unchanged."""
        asked = dict(fields(body))
        self.send("rota.holds", b"".join(data(1, head) for head in self.held.values())
                  + number(2, asked.get(2, 0)) + number(3, asked.get(3, 0))
                  + number(4, 1 + (0 if self.is_stopping else max(self.options.slots, len(self.held)))))

    def give_back(self):
        """Returns unfinished jobs to the queue, which costs them no attempt."""
        for name, head in self.held.items():
            self.ends.setdefault(name, head + number(4, GIVEN_BACK))
        self.send("rota.slots")  # no more jobs
        self.say_again()

    def take(self, frame):
        """Returns false if the session is over."""
        self.heard_at = time.monotonic()
        size = frame[0]
        kind, body = frame[1:1 + size].decode(), frame[1 + size:]
        if kind == "rota.welcome":
            self.on_welcome(body)
        elif kind == "rota.jobs":
            self.on_jobs(body)
        elif kind in ("rota.ended", "rota.cancel"):
            self.forget(body)
        elif kind == "rota.check":
            self.on_check(body)
        elif kind == "rota.bye":
            why = dict(fields(body)).get(2, b"").decode(errors="replace")
            print(f"the broker ended the session: {why}", file=sys.stderr)
            return False
        return True  # a beat, or something newer

    def serve(self):
        """One session, until it is over."""
        self.connect()
        stop_at = None
        while not self.is_stopping or (self.is_welcome and self.held):
            now = time.monotonic()
            if self.is_stopping and not stop_at:
                stop_at = now + 5
                self.give_back()
            if stop_at and now >= stop_at:
                break  # the broker gives it to others
            if self.is_refused():
                print(f"{self.options.address} does not let us in: {self.refusal}", file=sys.stderr)
                return
            if now - self.heard_at >= self.interval * self.missed_max:
                print(f"{self.options.address} is unresponsive" + ("" if self.is_welcome else
                      ": is a broker there, and does it know our key?"), file=sys.stderr)
                return
            if self.is_welcome and now - self.said_at >= self.interval * 3:
                self.say_again()
            if self.is_welcome and now - self.sent_at >= self.interval:
                self.send("rota.beat")
            if self.socket.poll(int(self.interval * 500)) and not self.take(self.socket.recv()):
                return
        if self.is_welcome:
            self.socket.linger = 1000
            self.send("rota.bye", number(1, STOPPING))

    def run(self):
        while not self.is_stopping:
            self.serve()
            self.socket.disable_monitor()
            self.monitor.close()
            self.socket.close()
            again_at = time.monotonic() + self.wait * random.uniform(0.8, 1.2)
            while not self.is_stopping and time.monotonic() < again_at:
                time.sleep(0.1)
            self.wait = min(self.wait * 2, 30)
        self.context.term()

    def stop(self, *_):
        self.is_stopping = True


def main():
    parser = argparse.ArgumentParser(description="answers jobs with their payload in capitals")
    parser.add_argument("address", help="HOST:PORT of the broker")
    parser.add_argument("--queue", action="append", required=True)
    parser.add_argument("--can", action="append", default=[])
    parser.add_argument("--name", default=f"python-{os.getpid()}")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--key", help="a file with our key pair")
    parser.add_argument("--broker-key", help="the broker's public key, behind a =")
    worker = Worker(parser.parse_args())
    signal.signal(signal.SIGTERM, worker.stop)
    signal.signal(signal.SIGINT, worker.stop)
    worker.run()


if __name__ == "__main__":
    main()
