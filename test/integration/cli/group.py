"""rota group: tasks that share partitions, and how their group stands."""

import contextlib
import json
import os
import signal
import subprocess

from cli.support import ROTA, Files, ok, on_terminal, refuse, test, without_colors


class Task:
    """A process of `rota group join`."""

    def __init__(self, url, name, *args):
        self.process = subprocess.Popen(
            [ROTA, "group", "join", "--name", "demo", "--task", name, *args], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, ROTA_LOG=url))
        self.name, self.events = name, []

    def until(self, event, **facts):
        """Read on until this event; a wait forever is ended by the test's own time limit."""
        while True:
            line = self.process.stdout.readline()
            assert line.endswith(b"\n"), (self.name, event, self.events[-5:], self.process.stderr.read())
            self.events.append(json.loads(line))
            last = self.events[-1]
            if last["event"] == event and all(last.get(k) == v for k, v in facts.items()):
                return last

    def end(self, number=signal.SIGTERM, code=0):
        self.process.send_signal(number)
        self.events += [json.loads(line) for line in self.process.stdout.read().splitlines()]
        err = self.process.stderr.read()
        assert self.process.wait(60) == code, (self.process.returncode, err)
        return err

    def of(self, event):
        return [e for e in self.events if e["event"] == event]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


@contextlib.contextmanager
def group():
    with Files() as files, contextlib.ExitStack() as stack:
        url = f"sqlite:{files.path}/group.db"

        def join(name, *args):
            task = Task(url, name, *args)
            stack.callback(task.close)
            return task
        yield url, join


@test
def task_of_a_group_reports_its_work_and_leaves_cleanly():
    with group() as (url, join):
        task = join("a", "--partitions", "2")
        for _ in range(4):
            task.until("read")
        task.until("progress")
        task.end(signal.SIGINT)
        kinds = [e["event"] for e in task.events]
        assert kinds[:3] == ["ready", "joined", "epoch"] and kinds[-1] == "left", kinds
        assert kinds.count("own") == kinds.count("start") == kinds.count("stop") == kinds.count("stopped") == 2, kinds
        assert kinds.index("own") < kinds.index("start") < kinds.index("read"), kinds
        times = [e["at"] for e in task.events]
        assert times == sorted(times)
        assert all(e["task"] == "a" and e["incarnation"] > 0 for e in task.events)
        assert task.of("epoch")[0]["tasks"] == ["a"] and task.of("epoch")[0]["is_leader"]
        start = task.of("start")[0]
        assert (start["mark"], start["position"], start["parents"]) == (0, "0", []), start
        for partition in ("p0", "p1"):  # rows without a gap, and the last position in the log
            reads = [(e["from"], e["to"]) for e in task.of("read") if e["partition"] == partition]
            assert [f for f, _ in reads] == [0] + [t for _, t in reads[:-1]], reads
            marks = [e["mark"] for e in task.of("progress") if e["partition"] == partition]
            assert marks[-1] == reads[-1][1], (marks, reads)
        again = join("a", "--partitions", "2")
        rows = {e["partition"]: e["to"] for e in task.of("read")}
        for _ in range(2):
            start = again.until("start")
            assert start["mark"] == rows[start["partition"]], (start, rows)
            assert start["token"] > task.of("start")[-1]["token"]
        again.end()


@test
def task_with_a_closed_output_leaves():
    with group() as (url, join):
        task = join("a", "--partitions", "2")
        task.until("read")
        other = join("b", "--partitions", "2")
        other.until("epoch", tasks=["a", "b"])
        task.process.stdout.close()
        other.until("epoch", tasks=["b"])
        other.until("start")
        assert task.process.wait(60) == 1, task.process.returncode
        assert task.process.stderr.read() == b""
        other.end()


@test
def partitions_split_and_merge_and_go_over_to_the_living():
    with group() as (url, join):
        a = join("a", "--partitions", "2", "--simulate-splits", "5")
        a.until("epoch")
        b = join("b", "--partitions", "2", "--simulate-splits", "5")
        a.until("epoch", tasks=["a", "b"])
        while not any(len(e["parents"]) == 2 for e in b.of("start")):
            b.until("start")
        b.process.kill()  # found dead at once, not after its session
        b.process.wait()
        a.until("epoch", tasks=["a"])
        a.until("start")
        a.end()
        assert a.of("share") and a.of("finish") and a.of("remove") and not a.of("lost")
        made = [e["partition"] for t in (a, b) for e in t.of("own") + t.of("share")]
        assert len(made) == len(set(made)), made


@test
def status_of_a_group_is_shown_to_people_and_programs():
    with group() as (url, join):
        task = join("a", "--partitions", "3", "--rate", "0")
        for _ in range(3):
            task.until("start")
        text = ok("group", "status", "--log", url, "--name", "demo").out.decode()
        lines = text.splitlines()
        for line in ("group\tdemo", "epoch\t1", "leader\ta", "partitions\t3", "unfinished\t3", "watermark\t0"):
            assert line in lines, (line, lines)
        assert lines[-1].startswith("task\ta\tyes\t3\t3\t"), lines
        shown = ok("group", "status", "--name", "demo", "--json", "--explain", "p1", env={"ROTA_LOG": url}).json()
        assert shown["leader"] == "a" and shown["partitions"] == 3 and shown["log"]["skipped"] == 0, shown
        (only,) = shown["tasks"]
        assert only["task"] == "a" and only["partitions"] == only["load"] == 3 and only["is_leader"], shown
        assert "task a owns it with fencing token" in shown["explanation"], shown
        line = ok("group", "status", "--log", url, "--name", "demo", "--explain", "nix").out
        assert line == b"nix: no task has reported it, or it was removed long ago\n", line
        drawn = without_colors(on_terminal("group", "status", "--log", url, "--name", "demo"))
        for line in ("GROUP       demo", "TASK  LEADER  PARTITIONS  LOAD  LAG"):
            assert line in drawn.splitlines(), (line, drawn)
        watch = subprocess.Popen([ROTA, "group", "status", "--log", url, "--name", "demo", "--watch", "--json"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert json.loads(watch.stdout.readline())["partitions"] == 3
        other = join("b", "--partitions", "3")
        while len(json.loads(watch.stdout.readline())["tasks"]) != 2:
            pass
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=60)
        assert watch.returncode == 0
        other.end()
        task.end()
        refuse("group", "status", "--log", url, "--name", "none", code=1, name="none")


@test
def idle_task_does_not_fall_behind():
    with group() as (url, join):
        def lag_of(name):
            shown = ok("group", "status", "--log", url, "--name", "demo", "--json").json()
            return next(task["lag"] for task in shown["tasks"] if task["task"] == name)

        a = join("a", "--partitions", "1")
        a.until("start")
        b = join("b", "--partitions", "1")
        b.until("epoch", tasks=["a", "b"])
        a.until("progress")
        before = lag_of("b")
        for _ in range(5):
            a.until("progress")
        assert lag_of("b") == before, (before, lag_of("b"))
        b.end()
        a.end()


@test
def bad_groups_are_refused():
    with Files() as files:
        url = f"sqlite:{files.path}/group.db"
        join = ["group", "join", "--log", url, "--name", "g", "--task", "t"]
        refuse(*join[:2], *join[4:], name="--log", env={"ROTA_LOG": ""})
        refuse(*join[:4], "--task", "t", name="--name")
        refuse(*join[:6], name="--task")
        refuse(*join[:6], "--task", "a b", name="task")
        refuse("group", "join", "--log", url, "--name", "a/b", "--task", "t", name="name of a group")
        for rate in ("x", "-1", "101", "nan", "1e999", ""):
            refuse(*join, "--simulate-splits", rate, name="--simulate-splits")
        refuse(*join, "--session", "10ms", name="--session")
        refuse(*join, "--session", "2s", "--stop-within", "1900ms", name=["1.9s", "2s"])
        refuse(*join, "--partitions", "300000", name="--partitions")
        refuse("group", "join", "--log", "mysql://u:secret@h/d", "--name", "g", "--task", "t", name="MariaDB")
        answer = refuse("group", "join", "--log", "http://u:secret@h/d", "--name", "g", "--task", "t", name="log")
        assert b"secret" not in answer.err, answer.err
        refuse("group", "join", "--log", "sqlite:/no/such/folder/g.db", "--name", "g", "--task", "t",
               code=2, name="/no/such/folder")
        refuse("group", "status", "--log", url, "--name", "g", code=2, name="group.db")
        assert not list(files.path.iterdir())


@test
def unreachable_log_is_reported_with_the_reason():
    for url in ("postgres://rota:s3cret@127.0.0.1:1/none", "kafka://127.0.0.1:1?sasl.password=s3cret"):
        err = refuse("group", "status", "--log", url, "--name", "demo", "--timeout", "5s", code=1,
                     name="could not be read within 5s: ").err
        assert b"Connection refused" in err and b"s3cret" not in err, err
        task = subprocess.Popen([ROTA, "group", "join", "--log", url, "--name", "demo", "--task", "a"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        told = json.loads(task.stdout.readline())
        assert told["event"] == "unreachable" and "Connection refused" in told["reason"], told
        task.send_signal(signal.SIGTERM)
        rest, err = task.communicate(timeout=60)
        assert [json.loads(line)["event"] for line in rest.splitlines()] == ["left"], rest
        assert err.count(b"Connection refused") == 1 and len(err.splitlines()) == 1, err
        assert b"s3cret" not in err + rest + told["reason"].encode(), err
