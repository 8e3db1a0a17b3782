"""Tasks of a group, real processes on a real log, while all of them come and go.

usage: test_group_processes.py KIND ROTA [KAFKA]

KIND is sqlite, postgres, kafka or kafka3, which has three brokers; KAFKA is the folder in
which Kafka's programs are kept. `rota group join` reads partitions that split and merge
from the first scenario to the last. A scenario does something to tasks or to the server,
waits until every partition has a living reader again, and continues from there. After each,
all that the tasks have printed so far is checked (test/lib/group_history.py): one owner, no
two readers at once, nothing lost, nothing moved without need. Results are TAP.

ROTA_TEST_QUIET_S and ROTA_TEST_HANGS make two scenarios longer: for how many seconds nothing
happens, and how often a task hangs.
"""
import collections
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import databases  # noqa: E402
import group_history  # noqa: E402
import kafka  # noqa: E402
import promise  # noqa: E402
import stop  # noqa: E402
import tap  # noqa: E402
import watch  # noqa: E402

KIND, ROTA, *KAFKA = sys.argv[1:]
HANG_S = 100
SESSION_S = 8 if KIND == "kafka3" else 4  # three brokers on two cores are held up for seconds
PARTITIONS, SPLITS, ROWS = 6, 0.3, 10
NAMES = ["ann", "bob", "cid", "dee", "eve"]
QUIET_S = float(os.environ.get("ROTA_TEST_QUIET_S", 10))
HANGS = int(os.environ.get("ROTA_TEST_HANGS", 3 if KIND.startswith("kafka") else 1))


class Failed(Exception):
    pass


class Late(Failed):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Task:
    """One process, and what it has printed."""

    def __init__(self, world, name, number):
        self.name, self.size, self.rest = name, 0, ""
        self.path, self.log = world.folder / f"{name}.{number}", world.folder / f"{name}.{number}.log"
        self.life = group_history.Life(self.path.name)
        with open(self.path, "ab") as out, open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [ROTA, "group", "join", "--log", world.url, "--name", "test", "--task", name,
                 "--partitions", str(PARTITIONS), "--simulate-splits", str(SPLITS), "--rate", str(ROWS),
                 "--session", f"{SESSION_S}s"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=log)

    def read(self):
        with open(self.path) as file:
            file.seek(self.size)
            text = file.read()
            self.size = file.tell()
        *whole, self.rest = (self.rest + text).split("\n")
        self.life.feed(whole)

    def note(self, event, **facts):
        """Between its own lines: what was done to it."""
        with open(self.path, "a") as file:
            file.write(f"\n{json.dumps({'event': event, **facts})}\n")

    def last(self, kind, since=0):
        """Its latest event of this kind, if it is not older."""
        event = next((event for event in reversed(self.life.events) if event["event"] == kind), None)
        return event if event and event["at"] >= since else None

    def readers(self):
        return [reader for reader in self.life.readers if not reader.is_over()]

    def kill(self):
        """Dead, when this returns."""
        self.note("killed", at=now())
        self.process.kill()
        self.process.wait()

    def leave(self):
        self.note("asked", at=now())
        self.process.send_signal(signal.SIGTERM)

    def stop(self):
        """Stopped, when this returns."""
        stop.stop(self.process)
        self.stopped_at = now()

    def go_on(self):
        self.note("paused", at=self.stopped_at, until=now())
        self.process.send_signal(signal.SIGCONT)


class World:
    def __init__(self, server, url, folder, lines):
        self.server, self.url, self.folder, self.lines = server, url, folder, lines
        self.tasks, self.living = [], {}

    def read(self):
        for task in self.tasks:
            task.read()
        for task in self.living.values():
            check(task.process.poll() is None, f"{task.name} has ended with {task.process.poll()}")

    def wait(self, what, is_done):
        """Look whenever a task has printed something, until it is so; returns what it is then."""
        def look():
            self.read()
            return is_done()

        result = self.lines.wait(look, HANG_S, *(task.process for task in self.living.values()))
        if not result:
            raise Late(f"no {what} within {HANG_S} s")
        return result

    def pass_time(self, until):
        time.sleep(max(0, until - now()) / 10**9)

    def start(self, *names):
        for name in names:
            self.living[name] = Task(self, name, len(self.tasks))
            self.tasks.append(self.living[name])
        return self.living[names[-1]]

    def history(self):
        return group_history.History([task.life for task in self.tasks])

    def wait_members(self, since=0):
        """All who live, and nobody else, are in one epoch."""
        def is_agreed():
            epochs = [task.last("epoch") for task in self.living.values()]
            return all(epochs) and len({event["epoch"] for event in epochs}) == 1 \
                and len(epochs[0]["tasks"]) == len(epochs) and max(event["at"] for event in epochs) >= since

        self.wait("epoch of all the living", is_agreed)

    def wait_read(self):
        """Every partition that there is by now has a living reader, or is finished; and each reads on."""
        began = now()
        self.wait("reader for every partition", lambda: not self.history().unread(began))
        self.wait("read of each task", lambda: all(
            task.last("read", began) or not task.readers() for task in self.living.values()))

    def leader(self):
        return next(task for task in self.living.values() if (event := task.last("epoch")) and event["is_leader"])

    def others(self, task):
        return [other for other in self.living.values() if other is not task]

    def kill(self, task):
        del self.living[task.name]
        task.kill()

    def leave(self, task):
        """It ends well, and says so."""
        del self.living[task.name]
        task.leave()
        check(task.process.wait(HANG_S) == 0, f"{task.name} has left with {task.process.returncode}")
        self.read()
        check(task.last("left"), f"{task.name} does not say that it has left")

    def check_history(self):
        """A task may have read the others' records before they print that they were accepted; what is
        wrong stays wrong, whatever they print later."""
        problems = []

        def is_right():
            problems[:] = group_history.check([task.life for task in self.tasks], SESSION_S * 10**9, is_over=False)
            return not problems

        with contextlib.suppress(Late):
            self.wait("history that is right", is_right)
        text = "\n".join(f"{problem.kind}: {problem.text}" for problem in problems[:20])
        promise.check(all(problem.kind in group_history.EXCUSED for problem in problems), text)
        check(not problems, text)

    def close(self):
        for task in self.tasks:
            if task.process.poll() is None:
                task.process.kill()
                task.process.wait()


# --- scenarios ---


def a_session_that_brokers_reject_is_reported_once(world):
    """One event, one line in the log. Brokers that are slow may lose it the log before, and it begins again."""
    task = subprocess.run(
        [ROTA, "group", "join", "--log", world.url, "--name", "other", "--task", "ann", "--session", "1s"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S, check=False)
    events = [json.loads(line)["event"] for line in task.stdout.splitlines()]
    is_once = events.count("failed") == 1 and events[-2:] == ["failed", "left"]
    check(task.returncode == 1 and is_once, f"{task.returncode}: {task.stdout}")
    for text in (task.stdout, task.stderr):
        check(text.count("group.min.session.timeout.ms") == 1, text)


def tasks_share_partitions_that_split(world):
    world.start(*NAMES)
    world.wait_members()
    world.wait_read()
    world.wait("split", lambda: any(reader.parents for task in world.tasks for reader in task.life.readers))
    world.wait("partition for each task", lambda: all(task.readers() for task in world.living.values()))


def undisturbed_tasks_keep_their_partitions(world):
    """One epoch for each join at most, and then no other; and nobody loses the log or the group."""
    epochs = {event["epoch"] for task in world.living.values() for event in task.life.events if event["event"] == "epoch"}
    began, since = 0, now()
    while are_disturbed(world, began, since):
        world.wait_members(max(task.last("lost")["at"] for task in world.living.values() if task.last("lost")))
        began = since = now()
    if not began:
        check(len(epochs) <= len(world.tasks), f"{len(epochs)} epochs for {len(world.tasks)} tasks")
    world.wait_read()


def are_disturbed(world, began, since):
    """Let quiet time pass, in which nothing may be lost. Brokers that the machine keeps from running for
    a whole session end the sessions of all: then the time was not quiet. Only librdkafka's own word counts
    for that."""
    world.pass_time(since + int(QUIET_S * 10**9))
    world.read()
    tasks = world.living.values()
    lost = [event for task in tasks if (event := task.last("lost", began))]
    if lost and all(event["reason"] == "fenced" for event in lost):
        if any("SESSTMOUT" in task.log.read_text() for task in tasks):
            print(f"# brokers did not respond for a session: {len(lost)} tasks have lost it", flush=True)
            return True
    check(not lost, f"lost: {lost}")
    for task in tasks:
        check(not task.last("epoch", since), f"{task.name} is told {task.last('epoch')}")
    return False


def tasks_are_killed_one_after_the_other_and_restarted(world):
    for victim in world.others(world.leader())[:2]:
        had, began = len(victim.readers()), now()
        world.kill(victim)
        world.wait_members(began)
        world.wait_read()
        check(had, "it had nothing")
        began = now()
        world.start(victim.name)  # another life of the same task
        world.wait_members(began)


def the_leader_is_killed(world):
    victim, began = world.leader(), now()
    world.kill(victim)
    world.wait_members(began)
    world.wait_read()
    check(world.leader() is not victim, "the dead lead")
    began = now()
    world.start(victim.name)
    world.wait_members(began)


def a_task_is_stopped_for_longer_than_its_session(world):
    """Again and again. It loses what it has. In Kafka nobody else loses anything; in a database it may
    hold a lock that others wait for."""
    for _ in range(HANGS):
        hang(world, max(world.living.values(), key=lambda task: len(task.readers())))


def hang(world, victim):
    began = now()
    victim.stop()
    world.read()
    had = {reader.partition: reader.token for reader in victim.readers()}
    check(had, "it had nothing")

    def are_others_reading():
        history = world.history()
        return all(history.is_finished(name) or history.readers[name][-1].token > token for name, token in had.items())

    world.wait("readers for all that it had", are_others_reading)
    world.pass_time(victim.stopped_at + 2 * SESSION_S * 10**9)
    since = now()
    victim.go_on()
    world.wait("loss", lambda: victim.last("lost", since))
    world.wait_members(since)
    world.wait_read()
    for task in world.others(victim) if KIND.startswith("kafka") else []:
        check(not task.last("lost", began), f"{victim.name} was stopped, but {task.name} has lost {task.last('lost')}")


def the_server_is_restarted(world):
    with file_locked(world) if KIND == "sqlite" else server_away(world):
        pass
    since = now()
    world.wait_members()
    world.wait("word of each task that its position is kept", lambda: all(
        task.last("progress", since) or not task.readers() for task in world.living.values()))
    world.wait_read()


@contextlib.contextmanager
def file_locked(world):
    """A file has no server: it answers nobody for a while."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(world.url.split(":", 1)[1], timeout=HANG_S)) as database:
        database.isolation_level = None
        database.execute("BEGIN EXCLUSIVE")
        world.pass_time(now() + 10**9)
        yield
        database.execute("ROLLBACK")


@contextlib.contextmanager
def server_away(world):
    one = [1] if KIND == "kafka3" else []  # of three
    world.server.stop(*one)
    yield
    world.server.start(*one)


def tasks_leave(world):
    while len(world.living) > 2:
        began = now()
        world.leave(world.leader() if len(world.living) % 2 else world.others(world.leader())[0])
        world.wait_members(began)
        world.wait_read()


def one_is_left_and_has_everything(world):
    began = now()
    last, other = world.living.values()
    world.kill(other)
    world.wait_members(began)
    world.wait_read()
    history = world.history()
    open_ones = [name for name, at in history.made.items() if at < began and not history.is_finished(name)]
    check(open_ones, "there is nothing left to read")
    world.leave(last)


SCENARIOS = [a_session_that_brokers_reject_is_reported_once] if KIND.startswith("kafka") else []
SCENARIOS += [
    tasks_share_partitions_that_split,
    undisturbed_tasks_keep_their_partitions,
    tasks_are_killed_one_after_the_other_and_restarted,
    the_leader_is_killed,
    a_task_is_stopped_for_longer_than_its_session,
    the_server_is_restarted,
    tasks_leave,
    one_is_left_and_has_everything,
]


def run(scenario, world):
    try:
        scenario(world)
        world.read()
        world.check_history()
    except Exception:
        shown = []
        for task in world.tasks:
            shown += [f"--- {task.path.name} {'up' if task.process.poll() is None else 'down'}",
                      *task.log.read_text(errors="replace").splitlines()[-8:],
                      *(str(event) for event in task.life.events[-8:])]
        tap.show(*shown)
        if keep := os.environ.get("ROTA_TEST_KEEP"):  # to look at it by hand
            subprocess.run(["cp", "-r", world.folder, keep], check=False)
        raise


def tell(world):
    """How it went, for whoever reads the log of the tests."""
    history = world.history()
    events = collections.Counter(event["event"] for task in world.tasks for event in task.life.events)
    print(f"# {len(world.tasks)} processes, {len(history.made)} partitions, {sum(events.values())} events:",
          ", ".join(f"{n} {name}" for name, n in events.most_common()))


@contextlib.contextmanager
def open_server():
    if KIND.startswith("kafka"):
        with kafka.open_cluster(KAFKA[0], 3 if KIND == "kafka3" else 1) as cluster:
            yield cluster
    else:
        with databases.open_database(KIND) as database:
            yield database


def main():
    try:
        with open_server() as server, tempfile.TemporaryDirectory() as folder, watch.Watch(folder) as lines:
            world = World(server, server.url, pathlib.Path(folder), lines)
            try:
                # Each continues where the one before has ended.
                code = tap.run(world, tests=SCENARIOS, call=run, stops_at_failure=True)
                tell(world)
            finally:
                world.close()
            return code
    except (databases.Absent, kafka.Absent) as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
