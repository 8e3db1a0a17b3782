#!/usr/bin/env python3
"""Brokers whose disks are full, damaged, failing or somebody else's: test_queue_disks.py ROTA PROGRAMS.

PROGRAMS is where work_load and libdisk_faults.so are. Prints TAP."""
import contextlib
import errno
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import brokers  # noqa: E402
import own_mounts  # noqa: E402
import promise  # noqa: E402
import tap  # noqa: E402
import work_history  # noqa: E402
from brokers import TIMEOUT, folder  # noqa: E402
from tap import test  # noqa: E402

HAS_MOUNTS = own_mounts.enter()
ROTA, PROGRAMS = sys.argv[1], pathlib.Path(sys.argv[2])
STORES = tempfile.TemporaryDirectory(prefix="rota-store-")  # not on the disks of the journals


def with_store(words):
    """The words of a broker with a journal, and a store elsewhere, one for each directory."""
    if "--data" not in words:
        return words
    data = words[words.index("--data") + 1]
    return ("--store", f"sqlite:{STORES.name}/{abs(hash(data))}.db", "--durability", "journal", *words)


def Broker(*words, **options):
    return brokers.Broker(ROTA, *with_store(words), **options)

WRITES, SYNCS, ROOM = 1, 2, 4


class Disk:
    """A disk that fails when it is told to."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="rota-disk-")
        self.plan(0, 0)
        self.env = {"LD_PRELOAD": str(PROGRAMS / "libdisk_faults.so"), "ROTA_TEST_DISK": self.file.name,
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def plan(self, what, why, n_left=0):
        """The first number is written last: only then does it count."""
        with open(self.file.name, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), struct.pack("ii", why, n_left), 4)
            os.pwrite(file.fileno(), struct.pack("i", what), 0)


def refused(*arguments, env=None):
    """What a broker says that does not start."""
    words = (*brokers.listen(arguments), *with_store(arguments))
    done = subprocess.run([ROTA, "broker", *words], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **(env or {})})
    assert done.returncode != 0 and done.stdout == "", done
    return done.stderr


def segments(data):
    return sorted(pathlib.Path(data, "jobs").glob("*.journal"))


def check_failure(what, why, n_left):
    disk = Disk()
    with folder() as data:
        known = []
        with Broker("--data", data, env=disk.env) as broker:
            for i in range(5):
                known.append(broker.add(f"job {i}"))
            disk.plan(what, why, n_left)
            for _ in range(n_left + 1):
                done = subprocess.run([ROTA, "job", "add", "--node", broker.node, "--queue", "work", "--timeout", "1s",
                                       "x"], capture_output=True, text=True, timeout=TIMEOUT)
                if done.returncode != 0:
                    break
                known.append(done.stdout.strip())
            assert done.returncode == 1 and done.stdout == "" and "the outcome is unknown" in done.stderr, done
            assert broker.process.wait(TIMEOUT) == 1
            assert data in broker.errors() and os.strerror(why) in broker.errors(), broker.errors()
        disk.plan(0, 0)
        with Broker("--data", data, env=disk.env) as broker:
            assert set(known) <= set(broker.jobs())
            broker.add("and on it goes")
            assert broker.terminate() == 0


@test
def a_sync_that_fails_ends_the_broker_and_loses_nothing():
    check_failure(SYNCS, errno.EIO, 0)
    check_failure(SYNCS, errno.EIO, 3)


@test
def a_write_that_fails_ends_the_broker_and_loses_nothing():
    check_failure(WRITES, errno.EIO, 0)
    check_failure(WRITES, errno.EROFS, 2)


@test
def a_disk_that_fails_at_the_start_is_reported():
    disk = Disk()
    with folder() as data:
        with Broker("--data", data) as broker:
            job = broker.add("x")
            assert broker.terminate() == 0
        disk.plan(SYNCS, errno.EIO)
        assert os.strerror(errno.EIO) in refused("--data", data, env=disk.env)
        with Broker("--data", data) as broker:
            assert broker.jobs() == [job]


@test
def a_sync_of_sqlite_that_fails_is_an_error_and_loses_nothing():
    """SQLite writes again what it could not sync, so the broker continues; but somebody has to look at that disk."""
    disk = Disk()
    with folder() as data:
        store = f"sqlite:{os.path.dirname(data)}/store.db"
        with Broker("--store", store, env=disk.env) as broker:
            known = [broker.add(f"job {i}") for i in range(5)]
            for _ in range(3):
                disk.plan(SYNCS, errno.EIO)
                failed = subprocess.run([ROTA, "job", "add", "--node", broker.node, "--queue", "work", "--timeout", "1s", "x"],
                                        capture_output=True, text=True, timeout=TIMEOUT)
                assert failed.returncode == 1, failed
                disk.plan(0, 0)
                while not (added := subprocess.run([ROTA, "job", "add", "--node", broker.node, "--queue", "work", "--timeout", "10s", "x"],
                                                   capture_output=True, text=True, timeout=TIMEOUT)).stdout:
                    assert added.returncode == 1, added
                known.append(added.stdout.strip())
            broker.kill()
        said = [line for line in broker.errors().splitlines() if "store down" in line]
        assert said and all("level=error" in line and "check it" in line for line in said), said[:3]
        with Broker("--store", store) as broker:
            until = time.monotonic() + TIMEOUT
            while missing := set(known) - set(broker.jobs()):  # it first takes the partitions over
                assert time.monotonic() < until, missing


def check_full(broker, fill, free, has_reserve=True):
    known = [broker.add("x") for _ in range(3)]
    fill()
    for _ in range(200):
        done = subprocess.run([ROTA, "job", "add", "--node", broker.node, "--queue", "work", "--timeout", "3s", "-"],
                              input=bytes(300000), capture_output=True, timeout=TIMEOUT)
        if done.returncode != 0:
            break
        known.append(done.stdout.decode().strip())
    assert done.returncode == 1, "the disk was never full"
    assert "RESOURCE_EXHAUSTED" in broker.run("job", "add", "--queue", "work", "x", code=1)
    assert set(known) <= set(broker.jobs())
    if has_reserve:
        broker.run("job", "cancel", known[0])  # what ends work still goes
    free()
    while subprocess.run([ROTA, "job", "add", "--node", broker.node, "--queue", "work", "there is room"],
                         capture_output=True, timeout=TIMEOUT).returncode != 0:
        assert broker.process.poll() is None, broker.errors()
    if not has_reserve:
        broker.run("job", "cancel", known[0])
    return known


def check_acknowledged(broker, data):
    """Each change is told by one line. Whoever is killed may not have come to the last."""
    lines = [line for line in broker.errors().splitlines() if "journal full" in line or "journal has room" in line]
    assert lines, broker.errors()
    for i, line in enumerate(lines):
        assert ("journal has room" if i % 2 else "journal full") in line and data in line, lines
        assert i % 2 or "why=" in line, lines


def check_after(data, known):
    with Broker("--data", data, "--segment", "1048576") as broker:
        assert set(known[1:]) <= set(broker.jobs())
        assert broker.show(known[0])["state"] == "cancelled"


@contextlib.contextmanager
def small_disk(size):
    if not HAS_MOUNTS:
        raise tap.Skip("no disk of our own can be mounted here")
    with tempfile.TemporaryDirectory(prefix="rota-queue-") as place:
        own_mounts.mount_tmpfs(place, size)
        try:
            yield place
        finally:
            subprocess.run(["umount", "-l", place], check=True)


def fill_up(path, piece=65536):
    """Whatever is free is taken by somebody else."""
    with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(piece)):
            pass


def check_full_mount(size, *options):
    with small_disk(size) as place:
        filler = os.path.join(place, "filler")
        data = os.path.join(place, "data")
        with Broker("--data", data, *options) as broker:
            known = check_full(broker, lambda: fill_up(filler), lambda: os.unlink(filler))
            broker.kill()
            check_acknowledged(broker, data)
        check_after(data, known)


@test
def a_full_disk_refuses_new_jobs_and_keeps_the_others():
    check_full_mount("32m", "--segment", "1048576")


@test
def a_disk_that_is_smaller_than_a_usual_reserve_takes_jobs():
    check_full_mount("6m", "--segment", "1048576")
    check_full_mount("6m")


def add_until_full(broker, size=900, n=8000):
    """How many jobs were accepted."""
    lines = b"".join(b"%0*d\n" % (size, i) for i in range(n))
    said = broker.run("job", "add", "--queue", "work", "--lines", "-", data=lines, code=1)
    assert "the disk is full" in said, said
    assert "RESOURCE_EXHAUSTED" in broker.run("job", "add", "--queue", "work", "x", code=1)
    return broker.queue()["waiting"]


def work_off(broker, n, meanwhile=lambda: None):
    """Have `n` jobs done, and see that whoever asks for something else is answered in time.

    Each job is a process, and there are thousands: all of them take as long as the machine needs,
    but the next one is always done within TIMEOUT."""
    worker = subprocess.Popen([ROTA, "work", "--node", broker.node, "--queue", "work", "--slots", "16", "--", "true"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        n_before, until = -1, None
        while (n_done := broker.queue()["done"]) < n:
            if n_done > n_before:
                n_before, until = n_done, time.monotonic() + TIMEOUT
            assert time.monotonic() < until, broker.queue()
            broker.run("queue", "pause", "work")
            broker.run("queue", "resume", "work")
            meanwhile()
            time.sleep(0.05)
    finally:
        worker.kill()
        worker.wait(TIMEOUT)


@test
def all_jobs_get_done_on_a_disk_that_stays_full():
    for size, segment in (("4m", "65536"), ("2m", "262144")):
        with small_disk(size) as place:
            data = os.path.join(place, "data")
            with Broker("--data", data, "--segment", segment) as broker:
                n = add_until_full(broker)
                assert os.path.exists(os.path.join(data, "jobs", "reserve"))  # new jobs have not used it
                broker.run("job", "cancel", broker.jobs()[0])
                work_off(broker, n - 1)
                broker.add("there is room again")
                broker.kill()
            with Broker("--data", data, "--segment", segment) as broker:
                counts = broker.queue()
                assert counts["waiting"] == 1 and counts["done"] == n - 1, counts


@test
def all_jobs_get_done_while_another_process_fills_the_disk():
    with small_disk("4m") as place:
        data, filler = os.path.join(place, "data"), os.path.join(place, "filler")
        with Broker("--data", data, "--segment", "65536") as broker:
            n = add_until_full(broker)
            # A twelfth of them: who takes all that becomes free has the reserve, too, in the end.
            work_off(broker, n // 12, lambda: fill_up(filler, 4096))
            broker.kill()
        with Broker("--data", data, "--segment", "65536") as broker:  # in the middle of it
            work_off(broker, n)
            assert broker.terminate() == 0


@test
def large_jobs_that_wait_do_not_hold_up_small_ones_on_a_full_disk():
    with small_disk("24m") as place:
        data = os.path.join(place, "data")
        with Broker("--data", data, "--segment", "4194304") as broker:
            large = bytes(300000)
            for _ in range(30):
                broker.run("job", "add", "--queue", "work", "-", data=large)
            work_off(broker, 30)
            for _ in range(8):
                broker.run("job", "add", "--queue", "idle", "-", data=large)
            broker.run("job", "add", "--queue", "work", "--lines", "-", data=b"x\n" * 300)
            fill_up(os.path.join(place, "filler"))
            while subprocess.run([ROTA, "job", "add", "--node", broker.node, "--queue", "idle", "-"], input=large,
                                 capture_output=True, timeout=TIMEOUT).returncode == 0:
                pass
            work_off(broker, 330)


@test
def writes_that_find_no_room_are_made_again():
    disk = Disk()
    with folder() as data:
        with Broker("--data", data, "--segment", "1048576", env=disk.env) as broker:
            known = check_full(broker, lambda: disk.plan(ROOM | WRITES, errno.ENOSPC, 8), lambda: disk.plan(0, 0),
                               has_reserve=False)
            broker.kill()
            check_acknowledged(broker, data)
        check_after(data, known)


@test
def files_that_may_not_grow_are_a_full_disk():
    with folder() as data:
        # The reserve and one segment fit; nothing larger does.
        with Broker("--data", data, "--segment", "1048576", prefix=["prlimit", "--fsize=9000000"]) as broker:
            broker.add("x")
            pid = broker.process.pid
            known = check_full(broker, lambda: subprocess.run(["prlimit", f"--pid={pid}", "--fsize=500000:9000000"],
                                                              check=True),
                               lambda: subprocess.run(["prlimit", f"--pid={pid}", "--fsize=9000000"], check=True),
                               has_reserve=False)
            broker.kill()
        check_after(data, known)


@test
def a_journal_is_shortened_while_jobs_flow():
    with folder() as data, tempfile.TemporaryDirectory(prefix="rota-queue-") as logs:
        # Ended jobs are forgotten when memory is short; then their records are of no use.
        options = ["--data", data, "--segment", "65536", "--memory", "4000000"]
        paths = [os.path.join(logs, name) for name in ("submit", "work")]
        with Broker(*options) as broker, open(paths[0], "wb") as submitted, open(paths[1], "wb") as worked:
            worker = subprocess.Popen([PROGRAMS / "work_load", "work", broker.node, "work", "w", "1", "32", "2000", "go",
                                       "chess", "draughts"], stdout=worked)
            try:
                subprocess.run([PROGRAMS / "work_load", "submit", broker.node, "work", "3000", "100000", "2", "500",
                                "20000"], stdout=submitted, timeout=TIMEOUT, check=True)
                broker.run("queue", "wait-empty", "work")
                worker.terminate()
                assert worker.wait(TIMEOUT) == 0
            finally:
                worker.kill()  # or who reads our output waits for it
            broker.kill()
        history = work_history.History()
        for path in paths:
            history.read(path)
        promise.check(not history.check(), f"{history.check()}")
        left = segments(data)
        size = sum(path.stat().st_size for path in left)
        assert int(left[0].stem) > 10 and size < 15000000, (left[0], size)  # of 30 MB
        with Broker(*options) as broker:
            counts = broker.queue()
            assert counts["waiting"] == counts["running"] == counts["delayed"] == 0, counts


def fill_journal(data, n=60):
    with Broker("--data", data, "--segment", "65536") as broker:
        broker.run("job", "add", "--queue", "work", "--lines", "-",
                   data=b"".join(b"%d " % i + b"x" * 3000 + b"\n" for i in range(n)))
        known = broker.jobs()
        assert broker.terminate() == 0
    assert len(known) == n
    return known


@test
def a_damaged_journal_is_refused_and_repaired_when_asked_for():
    for n in (3, 60):  # in one segment, and in the middle of several
        with folder() as data:
            known = fill_journal(data, n)
            victim = segments(data)[0]
            content = bytearray(victim.read_bytes())
            at = content.index(b"x" * 3000) + 1500
            content[at] ^= 1
            victim.write_bytes(content)
            said = refused("--data", data)
            assert victim.name in said and "damaged" in said, said
            assert victim.read_bytes() == content
            with Broker("--data", data, "--segment", "65536", "--repair") as broker:
                left = broker.jobs()
                assert set(left) < set(known) and len(left) == len(known) - 1, (len(left), len(known))
                job = broker.add("after the repair")
                assert broker.terminate() == 0
            with Broker("--data", data, "--segment", "65536") as broker:  # it is whole again
                assert set(broker.jobs()) == {*left, job}


def crc32c(data):
    value = 0xffffffff
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    return value ^ 0xffffffff


@test
def a_journal_of_a_later_version_is_left_alone():
    with folder() as data:
        known = fill_journal(data, 3)
        victim = segments(data)[-1]
        content = bytearray(victim.read_bytes())
        assert content[:8] == b"rotaJRNL" and struct.unpack("<I", content[44:48])[0] == crc32c(content[:44])
        content[8:12] = struct.pack("<I", struct.unpack("<I", content[8:12])[0] + 1)
        content[44:48] = struct.pack("<I", crc32c(content[:44]))
        before = victim.read_bytes()
        victim.write_bytes(content)
        for words in ([], ["--repair"]):
            said = refused("--data", data, *words)
            assert victim.name in said and "newer version" in said, said
            assert victim.read_bytes() == content and len(segments(data)) == 1
        victim.write_bytes(before)
        with Broker("--data", data) as broker:
            assert set(broker.jobs()) == set(known)


@test
def a_broker_that_is_refused_for_its_workers_makes_no_directory():
    with folder() as data:
        said = refused("--data", data, "--listen", "127.0.0.1:0", "--workers", "0.0.0.0:0")
        assert "need keys" in said and not os.path.exists(data), said


@test
def a_foreign_directory_is_left_alone():
    with folder() as data:
        os.makedirs(os.path.join(data, "jobs"), 0o700)
        path = os.path.join(data, "jobs", "00000001.journal")
        with open(path, "wb") as file:
            file.write(b"somebody's diary\n" * 100)
        os.chmod(path, 0o600)
        assert "00000001.journal" in refused("--data", data)
        with open(path, "rb") as file:
            assert file.read() == b"somebody's diary\n" * 100


sys.exit(tap.run(names=sys.argv[3:]))
