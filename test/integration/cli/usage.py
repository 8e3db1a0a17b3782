"""Help, bad usage, bad files and broken streams, of every command."""

import os
import pathlib
import re
import signal
import socket
import subprocess

from cli.support import (ROTA, Files, as_hosts, closed, commands, config_commands, every_command, ok, refuse, run,
                         test, watching_commands)

COMMANDS = ["ring lookup", "ring hash", "route", "gradual", "plan", "hosts check", "hosts watch",
            "config check", "config show", "config watch", "directory get",
            "group join", "group status", "sim balance"]


@test
def every_command_explains_itself():
    top, everything = ok("--help").out, ok("help", "all").out
    assert ok("help").out == top and b"rota help all" in top
    assert b"Exit codes" in everything and b"input before the error" in b" ".join(everything.split())
    assert all(len(line) <= 80 for line in [*top.splitlines(), *everything.splitlines()])
    for command in ok("help", "--json").json()["commands"]:
        noun, *verb = command["name"].split()
        line = re.search(rb"^  " + noun.encode() + rb" .*(\n   .*)*", top, re.MULTILINE)
        assert line and all(word.encode() in line[0] for word in verb), command["name"]
    for command in COMMANDS:
        assert command.encode() in everything, command
        text = ok(*command.split(), "--help").out
        assert ok("help", *command.split()).out == text
        assert b"Usage: rota " + command.encode() in text, text
        # Help wins whatever else is wrong.
        assert ok(*command.split(), "--no-such-option", "--help").out == text
    for group in ("ring", "hosts", "config", "directory", "sim"):
        text = ok("help", group).out
        assert all(c.encode() in text for c in COMMANDS if c.startswith(group))
        assert ok(group, "--help").out == ok(group).out == text
    assert ok("plan", "--help").out.count(b"rota plan --hosts") >= 3
    assert re.fullmatch(rb"rota \d+\.\d+\.\d+\n", ok("--version").out)


# They look, compute, wait or serve, and leave everything as it is. (A server is what it is started
# for.)
LOOKING = {"list", "show", "explain", "history", "status", "check", "watch", "get", "lookup", "hash", "dead", "workers",
           "nodes", "members", "balance", "wait-empty",
           "route", "gradual", "plan", "top", "events", "doctor", "up", "broker", "work", "serve", "join", "ping", "wait"}


@test
def every_command_that_changes_something_has_a_dry_run():
    changing = []
    for command in ok("help", "--json").json()["commands"]:
        name = command["name"].split()[-1]
        has = any(option["name"] == "dry-run" for option in command["options"])
        assert has != (name in LOOKING), command["name"]
        changing += [command["name"]] if has else []
    assert {"job add", "queue pause", "lease freeze", "node heartbeat", "node drain", "space migrate"} <= set(changing), changing


@test
def a_renamed_command_still_runs_and_names_the_new_one():
    old = run("queue", "drain", "--help")
    assert old.code == 0 and old.out == ok("queue", "wait-empty", "--help").out
    assert old.err == b"rota: `queue drain` is `queue wait-empty` now; the old name will be removed in the next release\n", old.err
    assert run("queue", "drain", "x", "--bad").err.splitlines()[1:] == run("queue", "wait-empty", "x", "--bad").err.splitlines()
    for where in (["--help"], ["help", "all"], ["help", "queue"], ["help", "--json"]):
        assert b"wait-empty" in ok(*where).out and b"queue drain" not in ok(*where).out, where


@test
def completion_reports_no_failures():
    for noun in ("queue", "node", "space", "group", "nonsense"):
        assert ok("complete", noun, "--node", "127.0.0.1:1").out == b"", noun
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # it takes connections and says nothing
        assert ok("complete", "queue", "--node", f"127.0.0.1:{deaf.getsockname()[1]}").out == b""
    assert b"complete" not in ok("help", "all").out


@test
def unknown_names_are_reported():
    refuse("rign", name=["rign", "did you mean", "ring"])
    refuse("plam", name=["plam", "did you mean", "plan"])
    refuse("shards", name=["shards", "did you mean `directory`?"])
    refuse("members", "lst", name=["members", "did you mean `node`?"])
    refuse("ring", "lokup", name=["lokup", "did you mean", "lookup"])
    refuse("xyzzyx", name="xyzzyx")
    refuse("help", "nothing-like-it", name="nothing-like-it")
    refuse(name="command")
    refuse("\x1b[31m\n\xff", name="unknown")
    refuse(b"\xff\xfe", name="unknown")


@test
def unknown_option_is_refused_by_every_command():
    with Files() as files:
        for command in every_command(files):
            words = " ".join(w for w in command[:2] if w.isalpha() and command[0] in ("ring", "hosts", "config")) or command[0]
            refuse(*command, "--no-such-option", name=["--no-such-option", f"`rota {words} --help`"])
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
        refuse("plan", "--queue", "q", "--add", "z:1", name="--hosts")
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
def full_disk_is_reported():
    with Files() as files, open("/dev/full", "wb") as full:
        hosts = files.hosts("hosts", as_hosts(3))
        for command in (*every_command(files), *watching_commands(files), ["--help"], ["--version"],
                        ["plan", "--help"], ["help", "--markdown"], ["help", "--json"], ["gradual", "--help"],
                        ["hosts", "watch", hosts, "--json"],
                        ["route", "--hosts", hosts, "--queue", "q", "--partitions", "100000"],
                        ["plan", "--hosts", hosts, "--add", "z:1", "--partitions", "100000", "--moves"]):
            answer = run(*command, stdin=b"key\n" * 100000, stdout=full)
            assert answer.code == 1, (command, answer.code)
            assert answer.err.startswith(b"rota: ") and answer.err.count(b"\n") == 1, (command, answer.err)
            assert b"No space left" in answer.err, (command, answer.err)


@test
def full_disk_is_reported_after_a_pipe_of_keys():
    """What was answered is flushed before each read, and that is what fails."""
    with Files() as files, open("/dev/full", "wb") as full:
        with subprocess.Popen([ROTA, "ring", "lookup", "--hosts", files.hosts("hosts", as_hosts(3))],
                              stdin=subprocess.PIPE, stdout=full, stderr=subprocess.PIPE) as process:
            process.stdin.write(b"key\n")
            process.stdin.flush()
            assert b"No space left" in process.stderr.read()  # although the input is open
            assert process.wait(60) == 1


@test
def reader_that_leaves_is_ignored():
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
        for command in (["ring", "lookup", "--hosts", hosts], ["ring", "hash"]):
            done = closed("<", *command)
            assert done.code == 2 and b"standard input" in done.err, done.err
            refuse(*command, stdin_from=os.open(files.path, os.O_RDONLY), name="standard input")
        route = ["route", "--hosts", hosts, "--queue", "q", "--partitions", "4"]
        for command in (route, *watching_commands(files)):
            done = closed(">", *command)
            assert done.code == 1 and done.err.startswith(b"rota: cannot write to standard output"), (command, done.code, done.err)
        assert pathlib.Path(hosts).read_text().startswith("10.0.0.1:7000")
        assert closed("2>", *route).code == 0


@test
def closed_standard_streams_do_no_harm_to_watches():
    """No file of theirs may become a standard stream."""
    with Files() as files:
        for command in watching_commands(files):
            for streams in ("<&-", "2>&-", "<&- 2>&-"):
                process = subprocess.Popen(["sh", "-c", f'exec "$@" {streams}', "sh", ROTA, *command],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                assert process.stdout.readline()
                process.terminate()
                _, err = process.communicate(timeout=60)
                assert (process.returncode, err) == (0, b""), (command, streams, process.returncode, err)
