#!/usr/bin/env python3
"""The program `rota` as a user runs it: test_cli.py ROTA DATA_DIR.

Answers are checked against the vectors in test/data; bad input of every
command and file must give one sentence that names the culprit, exit code 2,
and nothing on standard output. Prints TAP."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import traceback

ROTA = os.path.abspath(sys.argv[1])
DATA = pathlib.Path(sys.argv[2])
TESTS = []
TYPES = {1: "workflow", 2: "activity", 3: "nexus"}


class Skip(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def lines(self):
        assert self.out == b"" or self.out.endswith(b"\n"), self.out[-100:]
        return self.out.split(b"\n")[:-1]

    def json(self):
        return json.loads(self.out)

    def json_lines(self):
        return [json.loads(line) for line in self.lines()]


def run(*args, stdin=b"", env=None, **how):
    """Run rota; how may override standard output and the like."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    environment.update(env or {})
    how.setdefault("stdout", subprocess.PIPE)
    if "stdin_from" in how:
        how["stdin"] = how.pop("stdin_from")
    else:
        how["input"] = stdin
    done = subprocess.run([ROTA, *args], stderr=subprocess.PIPE, env=environment, timeout=120, **how)
    return Answer(done.returncode, done.stdout, done.stderr)


def ok(*args, **how):
    answer = run(*args, **how)
    assert answer.code == 0, (args, answer.code, answer.err)
    assert answer.err == b"", (args, answer.err)
    return answer


def refuse(*args, name=None, code=2, **how):
    """The command fails with one sentence on standard error that has `name` in it."""
    answer = run(*args, **how)
    shown = tuple(a[:80] if isinstance(a, (str, bytes)) else a for a in args)
    assert answer.code == code or (code is None and answer.code > 0), (
        shown, answer.code, answer.out[:200], answer.err[:500])
    assert not answer.out, (shown, answer.out[:200])
    assert answer.err.startswith(b"rota: "), (shown, answer.err[:500])
    assert answer.err.endswith(b"\n") and answer.err.count(b"\n") == 1, (shown, answer.err[:500])
    assert 10 < len(answer.err) < 700, (shown, len(answer.err))
    answer.err.decode("utf-8")
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", answer.err), (shown, answer.err)
    for part in [name] if isinstance(name, (str, bytes)) else name or []:
        part = part if isinstance(part, bytes) else part.encode()
        assert part in answer.err, (shown, part, answer.err)
    return answer


class Files:
    """A directory with the files a test needs."""

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)
        return self

    def __exit__(self, *_):
        self.directory.cleanup()

    def write(self, name, content):
        path = self.path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def hosts(self, name, addresses):
        return self.write(name, "".join(a + "\n" for a in addresses))


def vectors(name):
    return json.loads((DATA / name).read_text())


def as_hosts(n, first=1):
    return [f"10.0.{i >> 8}.{i & 255}:7000" for i in range(first, first + n)]


# --- answers ---


@test
def lookups_are_those_of_the_vectors():
    data = vectors("ringpop_small.json")
    checked = 0
    with Files() as files:
        for ring in data["rings"]:
            rows = [r for r in data["rows"] if r["ring"] == ring["id"] and "\n" not in r["key"]]
            if ring.get("identities") or not ring["servers"]:
                continue
            servers = ring["servers"]
            path = files.hosts(ring["id"], servers)
            common = ["ring", "lookup", "--hosts", path, "--points", str(ring["replica_points"])]
            owners = ok(*common, stdin="".join(r["key"] + "\n" for r in rows).encode())
            for row, line in zip(rows, owners.lines(), strict=True):
                assert line == row["key"].encode() + b"\t" + row["owner"].encode(), (ring["id"], row)
            for n in {r["n"] for r in rows if r["n"] > 0}:
                some = [r for r in rows if r["n"] == n]
                answer = ok(*common, "-n", str(n), stdin="".join(r["key"] + "\n" for r in some).encode())
                for row, line in zip(some, answer.lines(), strict=True):
                    expected = ",".join(servers[i] for i in row["list"])
                    assert line == f"{row['key']}\t{expected}".encode(), (ring["id"], row, line)
                    checked += 1
    assert checked > 200, checked


@test
def hashes_are_those_of_the_vectors():
    rows = [r for r in vectors("farm32.json")["rows"] if b"\n" not in bytes.fromhex(r["in_hex"])]
    answer = ok("ring", "hash", stdin=b"".join(bytes.fromhex(r["in_hex"]) + b"\n" for r in rows))
    assert answer.lines() == [str(r["h32"]).encode() for r in rows]
    assert len(rows) > 100


@test
def routes_are_those_of_the_vectors():
    data = vectors("spread.json")
    rings = {r["id"]: r for r in data["rings"]}
    with Files() as files:
        for row in data["rows"]:
            ring = rings[row["ring"]]
            path = files.hosts(row["ring"], ring["servers"])
            answer = ok("route", "--hosts", path, "--points", str(ring["replica_points"]),
                        "--namespace", row["namespace_id"], "--queue", row["queue"],
                        "--type", TYPES[row["task_type"]], "--batch", str(row["batch_size"]),
                        "--partitions", str(row["first_partition"] + len(row["keys"])))
            lines = answer.lines()[row["first_partition"]:]
            for i, (line, key, index, owner) in enumerate(
                    zip(lines, row["keys"], row["indexes"], row["owners"], strict=True)):
                expected = f"{row['first_partition'] + i}\t{key}\t{index}\t{ring['servers'][owner]}"
                assert line == expected.encode(), (row["ring"], line, expected)


@test
def gradual_changes_are_those_of_the_vectors():
    rows = vectors("gradual.json")["rows"]
    for row in rows:
        bounds = ["--key", row["key"], "--start", str(row["start_ns"]), "--end", str(row["end_ns"])]
        if row["end_ns"] < row["start_ns"]:
            refuse("gradual", *bounds, "--now", "1", name="end")
            continue
        for point in row["points"][:3] + row["points"][-1:]:
            word = "new" if point["new"] else "old"
            answer = ok("gradual", *bounds, "--now", str(point["now_ns"]))
            assert answer.out == f"{word}\t{row['first_new_ns']}\n".encode(), (row, point, answer.out)
        edge = ok("gradual", *bounds, "--now", str(row["first_new_ns"]), "--json").json()
        assert edge["value"] == "new" and edge["when_ns"] == row["first_new_ns"], edge
    assert len(rows) > 50


@test
def keys_are_bytes():
    keys = [b"", b"a", b"\0", b"a\0b", b"\xff\xfe", b"\r", b"tab\there", b"x" * (1 << 20), b"last"]
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        for stdin in (b"\n".join(keys), b"\n".join(keys) + b"\n"):
            lines = ok("ring", "lookup", "--hosts", path, stdin=stdin).lines()
            assert [line.rsplit(b"\t", 1)[0] for line in lines] == keys
        objects = ok("ring", "lookup", "--hosts", path, "--json", "-n", "2", stdin=b"\n".join(keys)).json_lines()
        assert [len(o["hosts"]) for o in objects] == [2] * len(keys)
        assert objects[3]["key"] == "a\0b" and "\ufffd" in objects[4]["key"]
        assert ok("ring", "lookup", "--hosts", path).out == b""
        assert ok("ring", "lookup", "--hosts", path, stdin=b"\n\n").out.count(b"\t") == 2


@test
def keys_are_answered_while_the_input_is_open():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        with subprocess.Popen([ROTA, "ring", "lookup", "--hosts", path],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            for key in (b"one", b"two"):
                process.stdin.write(key + b"\n")
                process.stdin.flush()
                assert process.stdout.readline().startswith(key + b"\t10.0.0.")
            process.stdin.close()
            assert process.wait(60) == 0


@test
def too_long_a_key_ends_the_run_behind_the_answers():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        answer = run("ring", "lookup", "--hosts", path, stdin=b"a\nb\n" + b"x" * 10_000_000 + b"\nc\n")
        assert answer.code == 2 and answer.out.count(b"\n") == 2, answer.out[:100]
        assert b"line 3 " in answer.err and answer.err.count(b"\n") == 1


@test
def empty_ring_has_no_owner():
    with Files() as files:
        for path in (files.write("empty", ""), files.write("comments", "# none\n\n"),
                     files.write("drained", "10.0.0.1:7000 draining\n")):
            refuse("ring", "lookup", "--hosts", path, stdin=b"k\n", code=1, name=path)
            refuse("route", "--hosts", path, "--queue", "q", "--partitions", "4", code=1, name=path)


@test
def hosts_are_placed_by_the_clock():
    with Files() as files:
        path = files.write("hosts", "a:1\nb:1 start_at=2030-01-01T00:00:00Z\nc:1 stop_at=2031-01-01T00:00:00Z\n")

        def owners(at):
            keys = "".join(f"key{i}\n" for i in range(200)).encode()
            lines = ok("ring", "lookup", "--hosts", path, "--at", at, stdin=keys).lines()
            return {line.split(b"\t")[1] for line in lines}

        assert owners("2029-12-31T23:59:59Z") == {b"a:1", b"c:1"}
        assert owners("2030-01-01T00:00:00Z") == {b"a:1", b"b:1", b"c:1"}
        assert owners("2031-01-01T00:00:00Z") == {b"a:1", b"b:1"}


@test
def one_partition_is_the_same_line_as_among_all():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(7))
        common = ["route", "--hosts", path, "--namespace", "ns", "--queue", "q", "--batch", "4", "--mode", "slots"]
        lines = ok(*common, "--partitions", "20").lines()
        assert len(lines) == 20
        for i in (0, 3, 4, 19):
            assert ok(*common, "--partitions", "20", "--partition", str(i)).lines() == [lines[i]]
        document = ok(*common, "--partitions", "20", "--json").json()
        assert [f"{p['partition']}\t{p['key']}\t{p['index']}\t{p['host']}".encode()
                for p in document["partitions"]] == lines


# --- plans ---


def routes(hosts, queue, n, batch, mode):
    lines = ok("route", "--hosts", hosts, "--namespace", "ns", "--queue", queue, "--type", "activity",
               "--partitions", str(n), "--batch", str(batch), "--mode", mode).lines()
    return [line.split(b"\t")[3].decode() for line in lines]


def check_plan(before, after, n=(24, 24), batch=(0, 0), mode=("lookup", "lookup"), options=(), queues=3):
    names = [f"q-{i}" for i in range(queues)]
    expected = []
    owned = {}
    for queue in names:
        old = routes(before, queue, n[0], batch[0], mode[0])
        new = routes(after, queue, n[1], batch[1], mode[1])
        for host in new:
            owned[host] = owned.get(host, 0) + 1
        for i in range(max(n)):
            was = old[i] if i < n[0] else "-"
            will = new[i] if i < n[1] else "-"
            if was != will:
                expected.append(f"{queue}\t{i}\t{was}\t{will}".encode())
    common = ["plan", "--hosts", before, "--namespace", "ns", "--queue", "q", "--queues", str(queues), "--type",
              "activity", "--partitions", str(n[0]), "--batch", str(batch[0]), "--mode", mode[0], *options]
    assert ok(*common, "--moves").lines() == expected
    document = ok(*common, "--json", "--moves").json()
    assert document["moved"] + document["new"] + document["gone"] == len(expected)
    assert document["partitions"] == {"before": n[0] * queues, "after": n[1] * queues}
    assert {h["host"]: h["after"] for h in document["per_host"] if h["after"]} == owned
    assert all(h["after"] == h["before"] + h["arriving"] - h["leaving"] for h in document["per_host"])
    assert [f"{m['queue']}\t{m['partition']}\t{m['from'] or '-'}\t{m['to'] or '-'}".encode()
            for m in document["moves"]] == expected
    text = ok(*common).out.decode()
    assert str(document["moved"]) in text and "\x1b" not in text
    return document


@test
def plan_is_the_difference_of_routes():
    with Files() as files:
        three, four = files.hosts("3", as_hosts(3)), files.hosts("4", as_hosts(4))
        ten = files.hosts("10", as_hosts(10))
        heavy = files.write("heavy", "10.0.0.1:7000 weight=2.5\n10.0.0.2:7000\n10.0.0.3:7000\n")
        document = check_plan(three, four, options=["--then-hosts", four])
        assert document["minimum"] == 18 and document["ratio"] > 0
        check_plan(three, four, options=["--add", "10.0.0.4:7000"], batch=(8, 8))
        check_plan(three, four, options=["--add", "10.0.0.4:7000"], batch=(8, 8), mode=("slots", "slots"))
        check_plan(four, three, options=["--remove", "10.0.0.4:7000"])
        check_plan(three, heavy, options=["--weight", "10.0.0.1:7000=2.5"])
        document = check_plan(ten, ten, batch=(4, 8), options=["--batch-to", "8"])
        assert document["minimum"] == 0 and document["ratio"] is None
        check_plan(ten, ten, batch=(8, 8), mode=("lookup", "slots"), options=["--mode-to", "slots"])
        check_plan(ten, ten, n=(24, 30), options=["--partitions-to", "30"])
        document = check_plan(ten, three, n=(24, 5), options=["--partitions-to", "5", "--then-hosts", three])
        assert document["gone"] == 3 * 19 and document["advice"]


@test
def plan_takes_lines_of_the_hosts_format():
    with Files() as files:
        path = files.write("hosts", "a:1 zone=x\nb:1 zone=y\nc:1 zone=y\n")
        document = ok("plan", "--hosts", path, "--queue", "q", "--partitions", "64", "--json",
                      "--add", "d:1 weight=2 zone=z", "--add=e:1", "--remove-zone", "y").json()
        assert [h["host"] for h in document["per_host"] if h["after"]] == ["a:1", "d:1", "e:1"]
        assert {z["zone"]: (z["hosts_before"], z["hosts_after"]) for z in document["per_zone"]} == \
            {"": (0, 1), "x": (1, 1), "y": (2, 0), "z": (0, 1)}
        refuse("plan", "--hosts", path, "--queue", "q", "--add", "d:1 wieght=2", name="wieght")
        refuse("plan", "--hosts", path, "--queue", "q", "--add", "a:1", name="a:1")
        refuse("plan", "--hosts", path, "--queue", "q", "--remove", "z:1", name="z:1")
        refuse("plan", "--hosts", path, "--queue", "q", "--remove-zone", "w", name="w")
        refuse("plan", "--hosts", path, "--queue", "q", "--weight", "z:1=2", name="z:1")
        refuse("plan", "--hosts", path, "--queue", "q", "--weight", "a:1", name="a:1")
        refuse("plan", "--hosts", path, "--queue", "q", "--weight", "a:1=-2", name="-2")
        refuse("plan", "--hosts", path, "--queue", "q", name="nothing")


@test
def plan_knows_when_a_gradual_change_moves_what():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(5))
        common = ["plan", "--hosts", path, "--namespace", "ns", "--queue", "q", "--partitions", "100", "--batch-to", "8",
                  "--json", "--moves", "--start", "2030-01-01T00:00:00Z", "--end", "1893459600"]
        document = ok(*common).json()
        start, end = 1893456000 * 10**9, 1893459600 * 10**9
        assert sum(b["moves"] for b in document["timeline"]) == document["moved"] > 50
        assert document["timeline"][0]["start"] == "2030-01-01T00:00:00Z"
        assert document["timeline"][-1]["end"] == "2030-01-01T01:00:00Z"
        for move in document["moves"][:5]:
            key = "ns:" + (f"/_sys/q-0/{move['partition']}" if move["partition"] else "q-0") + ":1"
            when = ok("gradual", "--key", key.replace("q-0", "q"), "--start", str(start), "--end", str(end),
                      "--now", "0").out.decode().split("\t")[1]
            assert int(when) == move["at_ns"], (move, when)
        refuse(*common[:-1], "1893450000", name="end")
        refuse(*common[:-2], name="--end")


@test
def plan_is_drawn_on_a_terminal():
    with Files() as files:
        path = files.write("hosts", "".join(f"{a} zone={'ab'[i % 2]}\n" for i, a in enumerate(as_hosts(40))))
        args = ["plan", "--hosts", path, "--queue", "q", "--partitions", "500", "--batch", "8", "--add", "new:1",
                "--start", "2030-01-01T00:00:00Z", "--end", "2030-01-01T01:00:00Z"]
        for env, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
            text = on_terminal(args, {"TERM": "xterm", "LC_ALL": "C.UTF-8", **env})
            assert ("\x1b[" in text) == colored
            assert "█" in text and "new:1" in text and "more" in text
            for line in re.sub(r"\x1b\[[0-9;]*[mK]", "", text).splitlines():
                assert len(line) <= 80, line
        plain = ok(*args, env={"TERM": "xterm", "LC_ALL": "C.UTF-8"}).out.decode()
        assert "\x1b" not in plain and "█" not in plain


def on_terminal(args, env):
    """What rota prints when standard output is a terminal of 80 columns."""
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment.update(env)
    master, slave = pty.openpty()
    process = subprocess.Popen([ROTA, *args], stdin=subprocess.DEVNULL, stdout=slave, env=environment)
    os.close(slave)
    text = b""
    try:
        while chunk := os.read(master, 65536):
            text += chunk
    except OSError:
        pass  # how the end of a terminal reads
    os.close(master)
    assert process.wait(60) == 0
    return text.decode()


# --- simulations ---


@test
def policies_are_compared_in_the_simulator():
    call = ["sim", "balance", "--calls", "20000", "--scenario", "slow_32"]
    document = ok(*call, "--json").json()
    assert document["seed"] == 1 and document["calls"] == 20000 and not document["hedge"]
    (scenario,) = document["scenarios"]
    assert scenario["name"] == "slow_32"
    rows = {row["policy"]: row for row in scenario["results"]}
    assert {"rota", "look_aside", "round_robin", "random", "oracle"} <= rows.keys()
    assert rows["look_aside"]["p99_us"] > 3 * rows["rota"]["p99_us"]
    assert rows["rota"]["n_calls"] == 18000 and rows["rota"]["n_failed"] == 0

    # A seed gives the same answer, another seed another one; the table has the same numbers.
    assert ok(*call, "--json", "--seed", "1").json() == document
    assert ok(*call, "--json", "--seed", "2").json() != document
    table = ok(*call, "--policy", "rota").out.decode()
    assert f"{rows['rota']['p99_us'] / 1000:.1f}" in table and "look_aside" not in table
    hedged = ok(*call, "--policy", "rota", "--hedge", "--json").json()["scenarios"][0]["results"][0]
    assert 0.01 < hedged["hedged"] < 0.06

    refuse("sim", "balance", "--scenario", "slow", name=["slow", "--scenario"])
    refuse("sim", "balance", "--policy", "rotta", name=["rotta", "--policy"])
    refuse("sim", "balance", "--calls", "0", name="--calls")
    refuse("sim", "balance", "--calls", "10000001", name="--calls")
    refuse("sim", "balance", "--seed", "-1", name="--seed")


# --- help ---

COMMANDS = ["ring lookup", "ring hash", "route", "gradual", "plan", "hosts check", "hosts watch",
            "config check", "config show", "config watch", "sim balance"]


@test
def every_command_explains_itself():
    top = ok("--help").out
    assert ok("help").out == top and b"Exit codes" in top
    for command in COMMANDS:
        assert command.encode() in top, command
        text = ok(*command.split(), "--help").out
        assert ok("help", *command.split()).out == text
        assert b"Usage: rota " + command.encode() in text, text
        # Help wins whatever else is wrong.
        assert ok(*command.split(), "--no-such-option", "--help").out == text
    for group in ("ring", "hosts", "config", "sim"):
        text = ok("help", group).out
        assert all(c.encode() in text for c in COMMANDS if c.startswith(group))
        assert ok(group, "--help").out == text
    assert ok("plan", "--help").out.count(b"rota plan --hosts") >= 3
    assert re.fullmatch(rb"rota \d+\.\d+\.\d+\n", ok("--version").out)


@test
def unknown_words_are_named():
    refuse("rign", name=["rign", "did you mean", "ring"])
    refuse("plam", name=["plam", "did you mean", "plan"])
    refuse("ring", "lokup", name=["lokup", "did you mean", "lookup"])
    refuse("xyzzyx", name="xyzzyx")
    refuse("ring", name="ring")
    refuse("help", "nothing-like-it", name="nothing-like-it")
    refuse(name="command")
    refuse("\x1b[31m\n\xff", name="unknown")
    refuse(b"\xff\xfe", name="unknown")


# --- bad input ---


def commands(path):
    """A call of every command that is right if the file is."""
    yield ["ring", "lookup", "--hosts", path]
    yield ["route", "--hosts", path, "--namespace", "ns", "--queue", "q", "--type", "workflow", "--partitions", "4"]
    yield ["plan", "--hosts", path, "--queue", "q", "--add", "z:1"]
    yield ["hosts", "check", path]
    yield ["hosts", "watch", path]


def config_commands(path):
    yield ["config", "check", path]
    yield ["config", "show", path, "--namespace", "ns", "--queue", "q", "--type", "workflow"]


def every_command(files):
    hosts = files.hosts("good", as_hosts(3))
    config = files.write("good.toml", "")
    yield from (c for c in commands(hosts) if "watch" not in c)
    yield from config_commands(config)
    yield ["ring", "hash"]
    yield ["sim", "balance", "--scenario", "equal", "--policy", "rota", "--calls", "100"]
    yield ["gradual", "--key", "k", "--start", "1", "--end", "2", "--now", "3"]


@test
def unknown_option_is_refused_by_every_command():
    with Files() as files:
        for command in every_command(files):
            refuse(*command, "--no-such-option", name="--no-such-option")
            refuse(*command, "--no-such-option=5", name="--no-such-option")
            refuse(*command, "-Z", name="-Z")
            refuse(*command, "--json=yes", name="--json")
            refuse(*command, "left", "over", name="left")
            refuse(*command, b"\xff\x1b", name="unexpected")


@test
def option_without_value_is_refused_by_every_command():
    with Files() as files:
        hosts = files.hosts("hosts", as_hosts(3))
        for command, options in (
                (["ring", "lookup"], ["--hosts", "--points", "--count", "--at"]),
                (["route"], ["--hosts", "--namespace", "--queue", "--type", "--partitions", "--batch", "--mode"]),
                (["gradual"], ["--key", "--start", "--end", "--now"]),
                (["plan"], ["--hosts", "--add", "--then-hosts", "--batch-to"]),
                (["config", "show", hosts], ["--namespace"])):
            for option in options:
                refuse(*command, option, name=option)


@test
def missing_options_are_named():
    refuse("ring", "lookup", name="--hosts")
    with Files() as files:
        hosts = files.hosts("hosts", as_hosts(3))
        refuse("route", "--queue", "q", name="--hosts")
        refuse("route", "--hosts", hosts, name="--queue")
        refuse("plan", "--queue", "q", name="--hosts")
        full = ["--key", "k", "--start", "1", "--end", "2", "--now", "3"]
        for i in range(0, 8, 2):
            refuse("gradual", *full[:i], *full[i + 2:], name=full[i])
    refuse("hosts", "check", name="FILE")
    refuse("config", "check", name="FILE")


@test
def unreadable_files_are_named_by_every_command():
    with Files() as files:
        missing = str(files.path / "missing")
        directory = str(files.path)
        secret = files.hosts("secret", as_hosts(3))
        os.chmod(secret, 0)
        for path in (missing, directory) + ((secret,) if os.geteuid() else ()):
            for command in (*commands(path), *config_commands(path)):
                refuse(*command, name=path)
        good = files.hosts("hosts", as_hosts(3))
        refuse("plan", "--hosts", good, "--queue", "q", "--then-hosts", missing, name=missing)
        refuse("ring", "lookup", "--hosts", "", name="hosts file")


@test
def bad_hosts_files_are_named_with_the_line():
    with Files() as files:
        bad = {
            "twice": (b"a:1\nb:1\na:1\n", ["a:1"]),
            "weight": (b"a:1\nb:1 weight=-1\n", [":2", "weight"]),
            "huge": (b"a:1 weight=9223372036854775808\n", [":1", "weight"]),
            "word": (b"a:1 wieght=1\n", [":1", "wieght"]),
            "moment": (b"a:1\n\n# x\nb:1 start_at=yesterday\n", [":4", "start_at"]),
            "nul": (b"a:1\nb\0:1\n", [":2"]),
            "long": (b"a:1\n" + b"x" * 10_000_000 + b"\n", [":2"]),
            "longname": (b"x" * 300 + b"\n", [":1"]),
            "bytes": (b"a:1\n\xff\xfe\x80:1 zone=\xff\n", [":2"]),
            "many": (b"".join(b"%d:1\n" % i for i in range(70000)), []),
        }
        for name, (content, parts) in bad.items():
            path = files.write(name, content)
            for command in commands(path):
                refuse(*command, name=[path, *parts])


@test
def impossible_values_are_named():
    with Files() as files:
        hosts = files.hosts("hosts", as_hosts(3))
        route = ["route", "--hosts", hosts, "--namespace", "ns", "--queue", "q"]
        plan = ["plan", "--hosts", hosts, "--queue", "q"]
        for n in ("-1", "0", "9223372036854775808", "18446744073709551617", "16777217", "4.5", "four", "", "0x10", " 4"):
            refuse(*route, "--partitions", n, name="--partitions")
            refuse(*plan, "--partitions", n, "--batch-to", "2", name="--partitions")
        for n in ("-1", "513", "9223372036854775808", "x"):
            refuse(*route, "--partitions", "4", "--batch", n, name="--batch")
            refuse(*plan, "--batch-to", n, name="--batch-to")
        for n in ("0", "-5", "10001", "99999999999999999999"):
            refuse("ring", "lookup", "--hosts", hosts, "--points", n, name="--points")
        for n in ("0", "-1", "65536", "x"):
            refuse("ring", "lookup", "--hosts", hosts, "-n", n, name="--count")
        refuse(*route, "--partitions", "4", "--partition", "4", name="--partition")
        refuse(*route, "--partitions", "4", "--mode", "slot", name=["--mode", "slot"])
        refuse(*route, "--partitions", "4", "--type", "cron", name=["--type", "cron"])
        refuse(*route, "--partitions", "4", "--type", "", name="--type")
        refuse(*route, "--partitions", "4", "--at", "noon", name=["--at", "noon"])
        refuse("route", "--hosts", hosts, "--queue", "/_sys/q", "--partitions", "4", name="/_sys/q")
        refuse("route", "--hosts", hosts, "--queue", "q" * 1001, "--partitions", "4", name="queue")
        refuse(*plan, "--queues", "-1", "--batch-to", "2", name="--queues")
        refuse(*plan, "--batch-to", "2", "--start", "soon", "--end", "2030-01-01T00:00:00Z", name="--start")
        refuse("plan", "--hosts", hosts, "--queue", "q" * 1000, "--queues", "10", "--batch-to", "2", name="queue")


@test
def bounds_of_a_gradual_change_are_checked():
    def gradual(start, end, now="5"):
        return ["gradual", "--key", "k", "--start", start, "--end", end, "--now", now]

    refuse(*gradual("10", "9"), name="end")
    refuse(*gradual("0", "9"), name="start")
    refuse(*gradual("0", "0"), name="start")
    refuse(*gradual("5", "0"), name="end")
    refuse(*gradual("-5", "10"), name="--start")
    refuse(*gradual("1", "9223372036854775808"), name="--end")
    refuse(*gradual("1", "2", "x"), name="--now")
    assert ok(*gradual("7", "7", "6")).out == b"old\t7\n"
    assert ok(*gradual("7", "7", "7")).out == b"new\t7\n"
    assert ok("gradual", "--key", "", "--start", "1", "--end", str(2**63 - 1), "--now", "0").out.startswith(b"old\t")


@test
def full_disk_is_told():
    with Files() as files, open("/dev/full", "wb") as full:
        for command in (*every_command(files), ["--help"], ["--version"], ["plan", "--help"],
                        ["help", "--markdown"], ["gradual", "--help"]):
            answer = run(*command, stdin=b"key\n" * 100000, stdout=full)
            assert answer.code == 1, (command, answer.code)
            assert answer.err.startswith(b"rota: ") and answer.err.count(b"\n") == 1, (command, answer.err)
            assert b"No space left" in answer.err, (command, answer.err)


@test
def reader_that_leaves_is_no_news():
    with Files() as files:
        hosts = files.hosts("hosts", as_hosts(3))
        for ignored in (False, True):
            end, pipe = os.pipe()
            os.close(end)
            answer = run("ring", "lookup", "--hosts", hosts, stdin=b"key\n" * 100000, stdout=pipe,
                         restore_signals=False,
                         preexec_fn=lambda: signal.signal(
                             signal.SIGPIPE, signal.SIG_IGN if ignored else signal.SIG_DFL))
            os.close(pipe)
            assert answer.code in (1, -signal.SIGPIPE) and answer.err == b"", (answer.code, answer.err)


@test
def closed_standard_streams_do_no_harm():
    with Files() as files:
        hosts = files.hosts("hosts", as_hosts(3))

        def closed(fd, *args):
            return subprocess.run(["sh", "-c", f'exec "$@" {fd}&-', "sh", ROTA, *args],
                                  input=b"", capture_output=True, timeout=60, check=False)

        for command in (["ring", "lookup", "--hosts", hosts], ["ring", "hash"]):
            done = closed("<", *command)
            assert done.returncode == 2 and b"standard input" in done.stderr, done
            refuse(*command, stdin_from=os.open(files.path, os.O_RDONLY), name="standard input")
        route = ["route", "--hosts", hosts, "--queue", "q", "--partitions", "4"]
        done = closed(">", *route)
        assert done.returncode == 1 and b"standard output" in done.stderr, done
        assert pathlib.Path(hosts).read_text().startswith("10.0.0.1:7000")
        assert closed("2>", *route).returncode == 0


@test
def hosts_are_listed_with_their_state():
    with Files() as files:
        path = files.write("hosts", "a:1 weight=2 zone=x\nb:1 draining # why\nc:1 start_at=2030-01-01T00:00:00Z\n")
        document = ok("hosts", "check", path, "--json", "--at", "2029-01-01T00:00:00Z").json()
        assert [(h["host"], h["on_ring"]) for h in document["hosts"]] == [("a:1", True), ("b:1", False), ("c:1", False)]
        assert document["hosts"][0]["weight"] == 2 and document["hosts"][0]["zone"] == "x"
        text = ok("hosts", "check", path, "--at", "2030-01-01T00:00:00Z").out
        assert b"draining" in text and b"a:1" in text


class Watching:
    """A command that prints a line as each thing happens."""

    def __init__(self, *args):
        self.process = subprocess.Popen([ROTA, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def line(self):
        """The next line without its moment; the test's own time limit ends a wait for ever."""
        text = self.process.stdout.readline().decode()
        assert text.endswith("\n"), (text, self.process.stderr.read())
        return text.rstrip("\n").split("\t", 1)[1]

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        rest, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, rest, err) == (0, b"", b""), (self.process.returncode, rest, err)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def replace(path, text):
    """Put new content in the place of a file, as editors do."""
    pathlib.Path(path + ".new").write_text(text)
    os.rename(path + ".new", path)


@test
def hosts_are_watched():
    with Files() as files:
        path = files.write("hosts", "a:1\nb:1 draining\n")
        with Watching("hosts", "watch", path) as watch:
            assert [watch.line(), watch.line()] == ["added\ta:1", "waiting\tb:1"]
            replace(path, "a:1\nb:1\n")
            assert watch.line() == "added\tb:1"
            replace(path, "a:1 weight=-1\n")
            line = watch.line()
            assert line.startswith("refused\t") and f"{path}:1" in line, line
            replace(path, "b:1\n")
            assert watch.line() == "removed\ta:1"
            watch.interrupt()
        with Watching("hosts", "watch", path, "--json") as watch:
            event = json.loads(watch.process.stdout.readline())
            assert (event["event"], event["host"]) == ("added", "b:1")
            watch.process.terminate()
            assert watch.process.wait(60) == 0
        for bad in (str(files.path / "missing"), str(files.path), files.write("bad", "x:1 weight=0\n")):
            refuse("hosts", "watch", bad, name=bad)


SETTING = "matching.spreadRoutingBatchSize"


@test
def settings_are_shown_with_their_origin():
    with Files() as files:
        path = files.write("rota.toml", f"{SETTING} = 4\n\n[[override]]\nqueue = \"orders\"\n{SETTING} = 8\n")
        lines = ok("config", "check", path).lines()
        assert f"{SETTING}\t4\tline 1: whole file".encode() in lines, lines
        lines = ok("config", "show", path, "--queue", "orders").lines()
        assert f'{SETTING}\t8\tline 5: queue "orders"'.encode() in lines, lines
        settings = ok("config", "show", path, "--queue", "orders", "--json").json()["settings"]
        batch = next(s for s in settings if s["setting"] == SETTING)
        assert batch == {"setting": SETTING, "value": 8, "line": 5, "scope": {"queue": "orders"}}, batch
        assert ok("config", "check", files.write("empty.toml", "")).out.count(b"default") == len(settings)
        refuse("config", "show", path, name="--queue")
        refuse("config", "show", path, "--queue", "/_sys/x", name="/_sys/x")


@test
def bad_configurations_are_named_with_the_line():
    with Files() as files:
        bad = {
            "key": (b"\nmatching.spreadRoutingBatchSiz = 4\n", [":2"]),
            "value": (f"{SETTING} = -4\n".encode(), [":1"]),
            "big": (f"{SETTING} = 9223372036854775808\n".encode(), [":1"]),
            "nul": (b"a = \"\0\"\n", [":1"]),
            "bytes": (b"# x\na = \"\xff\"\n", [":2"]),
            "long": (b"a = \"" + b"x" * 10_000_000 + b"\"\n", []),
            "open": (b"[[override\n", [":1"]),
            "hosts": (b"10.0.0.1:7000\n", [":1"]),
        }
        for name, (content, parts) in bad.items():
            path = files.write(name, content)
            for command in (*config_commands(path), ["config", "watch", path, "--queue", "q"]):
                refuse(*command, name=[path, *parts])


@test
def settings_are_watched():
    with Files() as files:
        path = files.write("rota.toml", f"{SETTING} = 4\n")
        with Watching("config", "watch", path, "--queue", "q") as watch:
            lines = [watch.line() for _ in ok("config", "check", path).lines()]
            assert f"{SETTING}\t4\tline 1: whole file" in lines
            replace(path, f"{SETTING} = four\n")
            line = watch.line()
            assert line.startswith("refused\t") and f"{path}:1" in line, line
            replace(path, f"# more\n{SETTING} = 5\n")
            assert watch.line() == f"{SETTING}\t5\tline 2: whole file"
            watch.interrupt()


@test
def directory_serves_a_map_and_answers_for_it():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "map"
        path.write_text("default books 7 books-0 1 h:1\ndefault books 7 books-0 2 h:2 epoch=5\n")
        server = subprocess.Popen([ROTA, "directory", "serve", "--map", path],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            line = server.stdout.readline().decode()
            assert line.startswith("ready grpc=127.0.0.1:"), line
            node = line.split("=", 1)[1].strip()
            get = ("directory", "get", "--node", node)
            assert ok(*get, "--collection", "books").lines() == [
                b"books-0\t1\th:1\tepoch=1", b"books-0\t2\th:2\tepoch=5"]
            found = ok("directory", "get", "--id", "7", "--json",
                       env={"ROTA_NODE": f"127.0.0.1:1,{node}"}).json()
            assert (found["collection"], found["id"]) == ("books", 7), found
            assert [n["node"] for n in found["shards"][0]["nodes"]] == [1, 2], found
            refuse(*get, "--collection", "papers", code=1, name="NOT_FOUND")
            # What becomes of the file is told, and a mistake changes nothing.
            path.write_text("default books 7\n")
            assert b"map:1:" in server.stderr.readline()
            ok(*get, "--collection", "books")
            path.write_text("default books 7 books-0 3 h:3\n")
            while ok(*get, "--id", "7").lines() != [b"books-0\t3\th:3\tepoch=1"]:
                pass
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()
            server.communicate()


@test
def directory_refuses_what_it_can_not_use():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "map"
        refuse("directory", "serve", name="--map")
        refuse("directory", "serve", "--map", "a", "--hosts", "b", name="not both")
        refuse("directory", "serve", "--map", path, name="map", code=None)
        for text, name in [(b"", "no collection"), (b"a b c d e f\n", "map:1: id"),
                           (b"\xff\n", "0xff"), (b"a b 1 d 1 f x=1\n", "x=1")]:
            path.write_bytes(text)
            refuse("directory", "serve", "--map", path, name=name)
        path.write_text("a b 1 d 1 f\n")
        refuse("directory", "serve", "--map", path, "--listen", "nowhere", name="nowhere",
               code=None)
        refuse("directory", "serve", "--map", path, "--listen", "0.0.0.0:0", name="0.0.0.0",
               code=None)
        refuse("directory", "get", "--id", "1", name="--node")
        refuse("directory", "get", "--node", "127.0.0.1:1", name="--collection")
        refuse("directory", "get", "--node", "127.0.0.1:1", "--id", "1", name="refused", code=1)


def main():
    print(f"1..{len(TESTS)}")
    failed = 0
    for number, function in enumerate(TESTS, 1):
        name = function.__name__
        try:
            function()
            print(f"ok {number} {name}")
        except Skip as reason:
            print(f"ok {number} {name} # SKIP {reason}")
        except Exception:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print("#", line)
            print(f"not ok {number} {name}")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
