#!/usr/bin/env python3
"""Jobs over brokers and workers while these are killed, stopped and out of room.

    test_work_processes.py ROTA WORK_LOAD WORK_SERVE [--jobs N] [--brokers N] [--workers N]
        [--rate N] [--moving] [--seed N]

Two submitters add jobs until N are acknowledged, workers do them: of four, three poll and one is
connected over ZeroMQ. A fault follows each share of
the jobs: kill -9 of a broker or a worker, SIGSTOP of either (of a worker for longer than its lease),
SIGTERM of a broker, a disk that is full until somebody was refused. Whoever ended is started again.
With --moving, of several brokers one now and then hands all it has to the others for a while.
In the end the queue is drained, the brokers are restarted once more, and test/lib/work_history.py
checks what everybody has logged: each acknowledged job was completed exactly once. Prints TAP."""
import argparse
import heapq
import itertools
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import own_mounts  # noqa: E402
import promise  # noqa: E402
import tap  # noqa: E402
import work_history  # noqa: E402
from ports import free_ports  # noqa: E402

QUEUE = "work"
LEASE_MS = 2000
SLOTS = 64
PATIENCE = 300  # seconds without an acknowledgement: something hangs
CAPABILITIES = ("go", "chess", "draughts")

# Who is stopped while it looks for leaks at its end never ends.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class Process:
    """One that is started again and again; each life has a log of its own."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.process, self.n_lives, self.is_stopped = None, 0, False
        self.path, self.offset, self.counts = None, 0, {b"ack": 0, b"no": 0, b"ok": 0}

    def look(self):
        """Count what is new in its log."""
        with open(self.path, "rb") as log:
            log.seek(self.offset)
            news = log.read()
        news = news[:news.rfind(b"\n") + 1]
        self.offset += len(news)
        for word in self.counts:
            self.counts[word] += news.count(b"\n" + word + b" ") + news.startswith(word + b" ")

    def start(self):
        self.is_stopped = False
        if self.path:
            self.look()
        self.offset = 0
        self.path = path = self.world.folder / f"{self.name}.{self.n_lives}.log"
        self.n_lives += 1
        with open(path, "wb") as log, open(self.world.folder / f"{self.name}.err", "ab") as errors:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=errors)
        return path

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, number):
        """Its status. One that is stopped continues first."""
        self.signal(number)
        self.signal(signal.SIGCONT)
        return self.process.wait(PATIENCE)

    def pause(self):
        self.is_stopped = True
        self.signal(signal.SIGSTOP)

    def resume(self, life):
        if self.is_stopped and self.n_lives == life:
            self.is_stopped = False
            self.signal(signal.SIGCONT)


class Broker(Process):
    def __init__(self, world, name, port, workers_port):
        super().__init__(world, name)
        self.node, self.address = f"127.0.0.1:{port}", f"127.0.0.1:{workers_port}"
        self.is_ending = False
        self.disk = world.folder / name
        self.disk.mkdir()
        if world.has_mounts:
            own_mounts.mount_tmpfs(self.disk, world.disk_size)

    def command(self):
        return [self.world.rota, "broker", "--data", self.disk / "data", "--listen", self.node, "--store", self.world.store,
                "--durability", "journal", "--workers", self.address, "--segment",
                str(self.world.segment_size), "--log-level", "warn"]

    def start(self):
        path = super().start()
        give_up_at = time.monotonic() + PATIENCE
        while "ready" not in path.read_text():
            assert self.process.poll() is None, f"{self.name} does not start: {self.errors()}"
            assert time.monotonic() < give_up_at, f"{self.name} does not get ready"
            self.world.wait(0.05)
            self.world.run_timers()  # others go on meanwhile

    def errors(self):
        return (self.world.folder / f"{self.name}.err").read_text()[-2000:]

    def fill(self):
        """Take all the room there is on its disk."""
        with open(self.disk / "filler", "wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 16)):
                    pass
            except OSError:
                pass

    def unfill(self):
        (self.disk / "filler").unlink(missing_ok=True)


class Worker(Process):
    def __init__(self, world, name, can):
        super().__init__(world, name)
        self.can = can

    def command(self):
        return [self.world.load, "work", self.world.nodes(), QUEUE, f"{self.name}-{self.n_lives}",
                str(self.world.random.getrandbits(32)), str(SLOTS), str(LEASE_MS), *self.can]


class ConnectedWorker(Process):
    """Its next life has the same name, and ends the session of this one."""

    def __init__(self, world, name, can):
        super().__init__(world, name)
        self.can = can

    def command(self):
        return [self.world.serve, ",".join(broker.address for broker in self.world.brokers), QUEUE, self.name,
                str(self.world.random.getrandbits(32)), str(SLOTS), str(LEASE_MS), *self.can]


class Submitter(Process):
    def __init__(self, world, name, n_jobs):
        super().__init__(world, name)
        self.n_jobs = n_jobs

    def command(self):
        return [self.world.load, "submit", self.world.nodes(), QUEUE, str(self.n_jobs), str(self.world.rate // 2),
                str(self.world.random.getrandbits(32)), "20", "20000"]


class World:
    def __init__(self, arguments, folder, has_mounts):
        self.rota, self.load, self.serve, self.folder = arguments.rota, arguments.load, arguments.serve, folder
        self.has_mounts = has_mounts
        self.disk_size = f"{max(48, arguments.jobs // 4000)}m"
        self.segment_size = 1 << 20 if arguments.jobs > 200000 else 1 << 17
        self.store = f"sqlite:{folder}/store.db"  # not on a disk that gets full
        self.random = random.Random(arguments.seed)
        self.n_jobs, self.rate, self.is_moving = arguments.jobs, arguments.rate, arguments.moving
        self.timers, self.order = [], itertools.count()
        self.counts = {}
        self.brokers = []
        ports = iter(free_ports(2 * arguments.brokers))
        self.brokers += [Broker(self, f"broker{i}", next(ports), next(ports)) for i in range(arguments.brokers)]
        self.workers = [(ConnectedWorker if i % 4 == 3 else Worker)(
                            self, f"worker{i}", [can for j, can in enumerate(CAPABILITIES) if (i + j) % 3 or i == 0])
                        for i in range(arguments.workers)]
        self.submitters = [Submitter(self, f"submit{i}", arguments.jobs // 2) for i in range(2)]

    def place(self, broker, verb):
        """A broker that ended in order is not a member until it is back, and then it is not draining. A
        disk that is busy keeps the store locked for longer than a command waits."""
        is_locked = True
        while is_locked:
            done = subprocess.run([self.rota, "node", verb, broker.node, "--store", self.store], timeout=PATIENCE,
                                  stderr=subprocess.PIPE)
            is_locked = b"database is locked" in done.stderr
        assert done.returncode == 0 or b"is not a member" in done.stderr, done.stderr

    def nodes(self):
        return ",".join(broker.node for broker in self.brokers)

    def wait(self, seconds):
        """Let time pass; less when a submitter ends."""
        poll = select.poll()
        fds = [os.pidfd_open(process.process.pid) for process in self.submitters
               if process.process and process.process.poll() is None]
        for fd in fds:
            poll.register(fd, select.POLLIN)
        poll.poll(seconds * 1000)
        for fd in fds:
            os.close(fd)

    def count(self, word):
        for process in [*self.submitters, *self.workers]:
            process.look()
        return sum(process.counts[word] for process in [*self.submitters, *self.workers])

    def later(self, seconds, call):
        heapq.heappush(self.timers, (time.monotonic() + seconds, next(self.order), call))

    def run_timers(self):
        while self.timers and self.timers[0][0] <= time.monotonic():
            heapq.heappop(self.timers)[2]()

    # --- faults ---

    def any_broker(self):
        return self.random.choice([broker for broker in self.brokers if not broker.is_ending] or self.brokers)

    def kill_broker(self):
        broker = self.any_broker()
        broker.end(signal.SIGKILL)
        broker.is_ending = False
        broker.start()

    def terminate_broker(self):
        """It may take a while, for those who call it."""
        broker = self.any_broker()
        broker.is_ending = True
        broker.signal(signal.SIGTERM)
        broker.signal(signal.SIGCONT)
        life = broker.n_lives

        def look():
            if broker.n_lives != life:
                return  # it was killed meanwhile
            if broker.process.poll() is None:
                self.later(0.05, look)
                return
            status = broker.process.returncode
            assert status == 0, f"{broker.name} ended with {status}: {broker.errors()}"
            broker.is_ending = False
            broker.start()
        look()

    def stop_broker(self):
        broker = self.any_broker()
        broker.pause()
        life = broker.n_lives
        self.later(self.random.uniform(0.2, 3), lambda: broker.resume(life))

    def kill_worker(self):
        worker = self.random.choice(self.workers)
        worker.end(signal.SIGKILL)
        worker.start()

    def stop_worker(self):
        worker = self.random.choice(self.workers)
        worker.pause()
        life = worker.n_lives
        self.later(self.random.uniform(0.2, 3) * LEASE_MS / 1000, lambda: worker.resume(life))

    def change_route(self):
        """One hands its partitions to the others, and gets them back."""
        off = self.random.choice(self.brokers)
        self.place(off, "drain")
        self.later(self.random.uniform(0.5, 5), lambda: self.place(off, "undrain"))

    def fill_disk(self):
        broker = self.any_broker()
        n_refused = self.count(b"no")
        broker.fill()

        def look():
            if self.count(b"no") > n_refused or all(one.process.poll() is not None for one in self.submitters):
                broker.unfill()
            else:
                broker.fill()  # what was compacted meanwhile, too
                self.later(0.05, look)
        look()

    def faults(self):
        kinds = [self.kill_broker, self.terminate_broker, self.stop_broker, self.kill_worker, self.stop_worker,
                 self.kill_worker, self.stop_worker]
        if self.has_mounts:
            kinds.append(self.fill_disk)
        if self.is_moving:
            kinds += [self.change_route, self.change_route]
        while True:
            self.random.shuffle(kinds)
            yield from list(kinds)

    # --- the run ---

    def run(self):
        for broker in self.brokers:
            broker.start()
        # Workers are killed and stopped for longer than their lease at random, three of them under one job now and
        # then: these are deaths, and not the job's fault.
        for broker in self.brokers:
            subprocess.run([self.rota, "queue", "quarantine", QUEUE, "--create", "--deaths", "1000", "--node", broker.node],
                           timeout=PATIENCE, check=True)
        for process in [*self.workers, *self.submitters]:
            process.start()
        faults = self.faults()
        n_faults = max(24, min(240, self.n_jobs // 4000))
        n_done, n_last, heard_at = 0, 0, time.monotonic()
        while any(submitter.process.poll() is None for submitter in self.submitters):
            self.wait(0.02)
            self.run_timers()
            n = self.count(b"ok")
            if n > n_last:
                n_last, heard_at = n, time.monotonic()
            assert time.monotonic() - heard_at < PATIENCE, "nothing is done any more"
            if n >= (n_done + 1) * self.n_jobs / (n_faults + 2) and n_done < n_faults:
                fault = next(faults)
                fault()
                n_done += 1
                self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
        for submitter in self.submitters:
            assert submitter.process.returncode == 0, (self.folder / f"{submitter.name}.err").read_text()
        while self.timers:
            self.wait(0.02)
            self.run_timers()
        self.drain()

    def drain(self):
        done = subprocess.run([self.rota, "queue", "wait-empty", QUEUE, "--node", self.brokers[0].node], timeout=PATIENCE,
                              capture_output=True, text=True)
        assert done.returncode == 0, done
        for worker in self.workers:
            status = worker.end(signal.SIGTERM)
            assert status == 0, f"{worker.name} ended with {status}"

    def show(self):
        done = subprocess.run([self.rota, "queue", "show", QUEUE, "--json", "--node", self.brokers[0].node],
                              timeout=PATIENCE, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def end(self):
        for process in [*self.submitters, *self.workers, *self.brokers]:
            if process.process and process.process.poll() is None:
                process.end(signal.SIGKILL)


n_checks = n_failed = 0


def check(is_right, name, *notes):
    global n_checks, n_failed
    n_checks += 1
    n_failed += not is_right
    print("ok" if is_right else "not ok", n_checks, "-", name)
    tap.show(*notes if not is_right else ())


def run(world):
    began_at = time.monotonic()
    world.run()
    took = time.monotonic() - began_at
    counts = world.show()
    left = {key: counts[key] for key in ("waiting", "delayed", "running", "dead")}
    check(not any(left.values()), "nothing is left and nothing has died", left)
    for broker in world.brokers:
        status = broker.end(signal.SIGTERM)
        check(status == 0, f"{broker.name} ends in good order", status, broker.errors())
    for broker in world.brokers:
        broker.start()
    counts = world.show()
    left = {key: counts[key] for key in ("waiting", "delayed", "running", "dead")}
    check(not any(left.values()), "nor comes it back with a restart", left)
    history = work_history.History()
    for path in sorted(world.folder.glob("submit*.log")) + sorted(world.folder.glob("worker*.log")):
        history.read(path)
    problems = history.check()
    totals = history.count()
    check(not problems, "every acknowledged job was completed exactly once",
          *(promise.BROKEN + problem for problem in problems))
    check(totals["acknowledged"] >= world.n_jobs, "all were acknowledged", totals)
    shares = {kind: sum(worker.counts[b"ok"] for worker in world.workers if isinstance(worker, kind))
              for kind in (Worker, ConnectedWorker)}
    check(all(shares.values()), "those who poll and those who are connected had a part in it", shares)
    if world.has_mounts:
        check(totals["refused"] > 0, "a full disk refused some", totals)
    print(f"# {took:.1f} s, {totals['acknowledged'] / took:.0f} jobs/s, {totals}, faults {world.counts}, "
          f"{shares[ConnectedWorker]} ends of connected workers")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rota")
    parser.add_argument("load")
    parser.add_argument("serve")
    parser.add_argument("--jobs", type=int, default=20000)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--moving", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and leave nobody behind
    has_mounts = own_mounts.enter()
    print(f"# seed {arguments.seed}" + ("" if has_mounts else "; no disk of our own can be filled here"), flush=True)
    with tempfile.TemporaryDirectory(prefix="rota-work-", ignore_cleanup_errors=True) as folder:
        world = World(arguments, pathlib.Path(folder), has_mounts)
        try:
            run(world)
        except Exception as error:  # also a TimeoutExpired
            check(False, "the run went as planned", traceback.format_exc(), error)
            for broker in world.brokers:
                print("# " + broker.errors().replace("\n", "\n# "))
        finally:
            world.end()
            if has_mounts:
                for broker in world.brokers:
                    subprocess.run(["umount", "-l", broker.disk], check=False)
    print(f"1..{n_checks}")
    return n_failed > 0


sys.exit(main())
