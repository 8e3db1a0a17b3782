#!/usr/bin/env python3
"""Brokers as a user runs them: test_queue.py ROTA PROGRAMS.

Starts them, adds jobs, kills and restarts them, puts their clocks. PROGRAMS is where work_load
and libwall_clock.so are. Prints TAP."""

import contextlib
import fcntl
import functools
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import brokers  # noqa: E402
import grpc_raw  # noqa: E402
import promise  # noqa: E402
import tap  # noqa: E402
import work_history  # noqa: E402
from brokers import TIMEOUT, folder, free_port  # noqa: E402
from tap import test  # noqa: E402

ROTA, PROGRAMS = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
Broker = functools.partial(brokers.Broker, ROTA)


@test
def jobs_outlive_a_restart():
    with folder() as data:
        with Broker("--data", data) as broker:
            first = broker.add("one", "--priority", "7", "--can", "go", "--key", "someone")
            broker.run("job", "add", "--queue", "work", "--lines", "-", data=b"a\nb\nc\n")
            gone = broker.add("gone")
            broker.run("job", "cancel", gone)
            before = broker.show(first)
            usual = {"max_attempts": 5, "timeout_ms": 0, "backoff_ms": 1000, "backoff_max_ms": 600000}
            assert before == {**before, **usual}, before
            listed = json.loads(broker.run("job", "list", "--queue", "work", "--json").splitlines()[0])
            assert listed == {**listed, **usual}, listed
            asked = broker.show(broker.run("job", "add", "--queue", "other", "--attempts", "2", "--backoff", "5ms", "x")
                                .strip())
            assert (asked["max_attempts"], asked["backoff_ms"]) == (2, 5), asked
            assert broker.terminate() == 0
        with Broker("--data", data) as broker:
            assert broker.show(first) == before
            assert len(broker.jobs()) == 4
            assert broker.jobs("cancelled") == [gone]
            broker.run("job", "retry", gone)
            assert len(broker.jobs()) == 5


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


def zmtp_peer(broker):
    """A connection to the broker's ZeroMQ address, after the handshake."""
    host, port = broker.facts["zmq"].rsplit(":", 1)
    peer = socket.create_connection((host, int(port)), TIMEOUT)
    ready = b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    peer.sendall(GREETING + b"\x04" + bytes([len(ready)]) + ready)
    return peer


def await_end(peer):
    with contextlib.suppress(ConnectionError):
        while peer.recv(65536):
            pass


@test
def connections_without_a_hello_are_rejected():
    with Broker("--durability", "memory", "--workers", "127.0.0.1:0") as broker:
        silent = zmtp_peer(broker)
        for _ in range(3):
            size = 16 << 20
            large = zmtp_peer(broker)
            with contextlib.suppress(ConnectionError):  # all but the last byte of a message
                large.sendall(b"\x02" + struct.pack(">Q", size) + bytes(size - 1))
            await_end(large)
        await_end(silent)
        assert broker.terminate() == 0
        said = broker.errors()
        assert "too many bytes before the hello" in said and "no hello in time" in said, said


@test
def workers_without_a_key_cannot_send_a_large_message_instead():
    with folder() as path:
        subprocess.run([ROTA, "worker-key", path], check=True, capture_output=True, timeout=TIMEOUT)
        listed = subprocess.run([ROTA, "worker-key", "--name", "one", path], check=True, capture_output=True, timeout=TIMEOUT)
        pathlib.Path(path + ".list").write_bytes(listed.stdout)
        with Broker("--durability", "memory", "--workers", "127.0.0.1:0", "--workers-key", path, "--workers-list",
                    path + ".list") as broker:
            host, port = broker.facts["zmq"].rsplit(":", 1)
            peer = socket.create_connection((host, int(port)), TIMEOUT)
            size = 16 << 20
            with contextlib.suppress(ConnectionError):  # a command of the handshake
                peer.sendall(GREETING.replace(b"NULL\0", b"CURVE") + b"\x06" + struct.pack(">Q", size) + bytes(size - 1))
            await_end(peer)
            assert broker.terminate() == 0
            assert "too many bytes before the hello" in broker.errors(), broker.log


@test
def methods_between_nodes_are_not_for_others():
    with Broker("--durability", "memory") as broker:
        broker.add("job")
        broker.run("queue", "pause", "work")
        client = grpc_raw.Client(broker.node, TIMEOUT)
        try:
            for method in "QueuePeer/Holders", "NodePeer/Report":
                assert client.call("/rota.peer.v1." + method, b"") is None
        finally:
            client.close()


@test
def acknowledged_jobs_survive_kill_9():
    with folder() as data:
        known = []
        for life in range(3):
            with Broker("--data", data) as broker:
                assert set(known) <= set(broker.jobs()), life
                adder = subprocess.Popen(
                    ["sh", "-c", f"while {ROTA} job add --node {broker.node} --queue work x; do :; done"],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                bulk = subprocess.Popen([ROTA, "job", "add", "--node", broker.node, "--queue", "bulk", "--lines", "-"],
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                threading.Thread(target=bulk.communicate, args=[b"line\n" * 200000], daemon=True).start()
                known += [adder.stdout.readline().strip() for _ in range(10)]
                broker.kill()
                known += adder.stdout.read().split()
                adder.wait(TIMEOUT)
                bulk.wait(TIMEOUT)
        with Broker("--data", data) as broker:
            assert set(known) <= set(broker.jobs())


@test
def a_key_is_that_of_one_job():
    with folder() as data:
        with Broker("--data", data) as broker:
            first = broker.run("job", "add", "--queue", "work", "--idempotency-key", "order 17", "x").strip()
            assert broker.run("job", "add", "--queue", "work", "--idempotency-key", "order 17", "y").strip() == first
            broker.kill()
        with Broker("--data", data) as broker:
            assert broker.run("job", "add", "--queue", "work", "--idempotency-key", "order 17", "z").strip() == first
            assert broker.jobs() == [first]
            other = broker.run("job", "add", "--queue", "other", "--idempotency-key", "order 17", "z").strip()
            assert other.split("/")[1] != first.split("/")[1]


@test
def a_directory_belongs_to_one_broker():
    with folder() as data, Broker("--data", data) as broker:
        second = subprocess.run([ROTA, "broker", "--data", data, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=TIMEOUT)
        assert second.returncode != 0 and str(broker.process.pid) in second.stderr, second
        broker.add("still served")


@test
def jobs_in_memory_leave_nothing_behind():
    with tempfile.TemporaryDirectory() as place:
        with Broker("--durability", "memory", env={"TMPDIR": place}) as broker:
            broker.add("x")
            assert os.listdir(place) and "zmq" not in broker.facts, broker.facts
            assert broker.terminate() == 0
        assert os.listdir(place) == []


@test
def jobs_are_kept_where_durability_says():
    with folder() as data:
        for word, place in (("journal", ["--data", data]), ("store", ["--store", f"sqlite:{data}.db"])):
            for words in (["--durability", word, *place], place):
                with Broker(*words) as broker:
                    broker.add("x")
                    assert broker.terminate() == 0
            with Broker(*place) as broker:
                assert len(broker.jobs()) == 2


@test
def keys_that_would_be_of_no_use_are_refused():
    for words in (["--workers-key", "k"], ["--workers-list", "l"], ["--workers", "127.0.0.1:0", "--workers-key", "k"],
                  ["--workers", "127.0.0.1:0", "--workers-list", "l"]):
        refused = subprocess.run([ROTA, "broker", "--durability", "memory", *words], capture_output=True, text=True,
                                 timeout=TIMEOUT)
        assert refused.returncode == 2 and "workers-key and workers-list must be set together" in refused.stderr, refused


@test
def a_key_readable_by_other_users_is_refused():
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "broker.key")
        open(os.path.join(place, "list"), "w").close()
        words = [ROTA, "broker", "--durability", "memory", "--listen", "127.0.0.1:0", "--workers", "127.0.0.1:0",
                 "--workers-key", path, "--workers-list", os.path.join(place, "list")]
        subprocess.run([ROTA, "worker-key", path], stdout=subprocess.DEVNULL, check=True, timeout=TIMEOUT)
        os.chmod(path, 0o644)
        for refuses in (words, [ROTA, "worker-key", path]):
            refused = subprocess.run(refuses, capture_output=True, text=True, timeout=TIMEOUT)
            assert (refused.returncode, refused.stdout) == (2, ""), refused
            assert f"{path}: other users can read the secret in it (mode 0644); run chmod 600 {path}\n" in refused.stderr
        os.chmod(path, 0o600)
        assert len(subprocess.run([ROTA, "worker-key", path], capture_output=True, timeout=TIMEOUT).stdout) == 41


@test
def a_dry_run_reports_a_new_key():
    with tempfile.TemporaryDirectory() as place:
        def key(*words, code=0):
            done = subprocess.run([ROTA, "worker-key", *words], capture_output=True, text=True, timeout=TIMEOUT, cwd=place)
            assert done.returncode == code and bool(done.stderr) == bool(code), done
            return done.stderr if code else done.stdout

        for path in (os.path.join(place, "new"), "new"):
            assert key(path, "--dry-run") == (f"a new key pair would be written to {path}, readable only by its owner "
                                              "(mode 0600), and its public key printed\n")
        assert "and the line of snake with" in key("new", "--name", "snake", "--dry-run")
        assert os.listdir(place) == []
        public = key("there").strip()
        assert "there has a key pair and would stay as it is" in (told := key("there", "--dry-run")), told
        assert key("there").strip() == public
        os.symlink("nowhere", os.path.join(place, "link"))
        pathlib.Path(place, "text").write_text("no key\n")
        os.mkdir(os.path.join(place, "folder"))
        for path in ("", "link", "text", "folder", "folder/none/key", "none/", "text/key", "x" * 300):  # as without
            code = subprocess.run([ROTA, "worker-key", path], capture_output=True, timeout=TIMEOUT, cwd=place).returncode
            assert code in (1, 2) and key(path, code=code) == key(path, "--dry-run", code=code), path
        assert key("x", "--name", "a b", code=2) == key("x", "--name", "a b", "--dry-run", code=2)
        assert sorted(os.listdir(place)) == ["folder", "link", "text", "there"]


@test
def workers_beyond_this_machine_need_keys_whatever_grpc_does():
    for words in ([], ["--insecure"]):
        refused = subprocess.run([ROTA, "broker", "--durability", "memory", "--listen", "127.0.0.1:0", "--workers",
                                  "0.0.0.0:0", *words], capture_output=True, text=True, timeout=TIMEOUT)
        assert refused.returncode == 2 and "workers on other machines need keys" in refused.stderr
        assert "--workers: 0.0.0.0:0" in refused.stderr and "set workers-key and workers-list" in refused.stderr, refused


@test
def plain_text_beyond_this_machine_is_asked_for():
    refused = subprocess.run([ROTA, "broker", "--durability", "memory", "--listen", "0.0.0.0:0"], capture_output=True,
                             text=True, timeout=TIMEOUT)
    assert refused.returncode == 2 and "set cert and key, or set insecure" in refused.stderr, refused


@test
def shares_of_keys_and_workers_are_for_operators_too():
    with folder() as data, Broker("--data", data) as broker:
        for i in range(8):
            broker.add(f"heavy {i}", "--key", "heavy")
            broker.add(f"light {i}", "--key", "light", "--backoff", "5ms")
        broker.run("queue", "weight", "work", "--key", "heavy", "--weight", "300")
        broker.run("queue", "weight", "work", "--key", "heaviest", "--weight", "100000")
        for words in (["0"], ["100001"], ["100001", "--dry-run"]):
            refused = subprocess.run([ROTA, "queue", "weight", "work", "--node", broker.node, "--key", "heavy", "--weight",
                                      *words], capture_output=True, text=True, timeout=TIMEOUT)
            assert refused.returncode == 2 and "--weight" in refused.stderr, refused
        with subprocess.Popen([ROTA, "work", "--node", broker.node, "--queue", "work", "--name", "someone", "--", "cat"],
                              stderr=subprocess.DEVNULL) as worker:
            broker.run("queue", "wait-empty", "work")
            names = set()
            while not any("someone" in name for name in names):
                lines = broker.run("queue", "workers", "--json").splitlines()
                names = {json.loads(line)["worker"] for line in lines}
            worker.terminate()


@test
def a_script_waits_until_things_are_ready():
    nobody = subprocess.run([ROTA, "wait", "--node", "127.0.0.1:1", "--timeout", "300ms"], capture_output=True, text=True,
                            timeout=TIMEOUT)
    assert nobody.returncode == 1 and re.match(r"rota: timed out waiting for a node: .*cannot connect to 127.0.0.1:1", nobody.stderr), nobody
    with Broker("--durability", "memory") as broker:
        broker.run("wait", "node")
        assert re.fullmatch(rf"{re.escape(broker.node)} answered in [\d.]+ ms\n", broker.run("ping"))
        assert json.loads(broker.run("ping", "--json"))["node"] == broker.node
        assert "timed out waiting for queue work: there is no queue \"work\"" in broker.run("wait", "queue", "work", "--timeout", "3s",
                                                                               code=1)
        for words in (["queue"], ["node", "x"], ["sapce", "x"]):
            broker.run("wait", *words, code=2)
        with subprocess.Popen([ROTA, "wait", "queue", "work", "--node", broker.node, "--timeout", str(TIMEOUT) + "s"]) as wait:
            with subprocess.Popen([ROTA, "work", "--node", broker.node, "--queue", "work", "--", "cat"],
                                  stderr=subprocess.DEVNULL) as worker:
                assert wait.wait(TIMEOUT) == 0
                worker.send_signal(signal.SIGTERM)


@test
def a_slip_makes_no_queue():
    with Broker("--durability", "memory") as broker:
        broker.add("x")
        for words in (["queue", "pause"], ["queue", "resume"], ["queue", "weight", "--key", "k", "--weight", "50"]):
            assert "there is no queue \"wrok\"" in broker.run(*words, "wrok", code=1), words
        for words in (["queue", "dead"], ["job", "list", "--queue"]):
            listed = subprocess.run([ROTA, *words, "wrok", "--node", broker.node], capture_output=True, text=True,
                                    timeout=TIMEOUT)
            assert listed.returncode == 1 and listed.stderr == "rota: there is no queue \"wrok\"\n", listed
        assert "wrok" not in broker.run("queue", "list")
        assert broker.run("queue", "dead", "work") == "" and broker.jobs("dead") == []
        assert "would be paused" in broker.run("queue", "pause", "new", "--create", "--dry-run")
        broker.run("queue", "pause", "new", "--create")  # before its first job
        assert broker.queue("new")["is_paused"]
        broker.run("queue", "resume", "new")


@test
def several_jobs_are_cancelled_and_retried_at_once():
    with Broker("--durability", "memory") as broker:
        jobs = [broker.add(str(i)) for i in range(3)]
        assert "not a job" in broker.run("job", "cancel", jobs[0], "nonsense", code=2)
        assert len(broker.jobs()) == 3  # nothing was done
        assert broker.run("job", "cancel", *jobs[:2], "--json") == "{}\n{}\n"
        said = broker.run("job", "cancel", *jobs, code=1)  # what can be done is
        assert said.count("is already cancelled") == 2 and '\\"' not in said, said
        assert sorted(broker.jobs("cancelled")) == sorted(jobs)
        broker.run("job", "retry", *jobs)
        assert sorted(broker.jobs()) == sorted(jobs)


@test
def a_job_that_waits_can_go_before_others():
    with Broker("--durability", "memory") as broker:
        jobs = [broker.add(str(i)) for i in range(3)]
        assert "would have priority 7" in broker.run("job", "priority", jobs[2], "--priority", "7", "--dry-run")
        assert broker.show(jobs[2])["priority"] == 0
        broker.run("job", "priority", jobs[2], "--priority", "7")
        assert broker.show(jobs[2])["priority"] == 7
        worker = [ROTA, "work", "--node", broker.node, "--queue", "work", "--", "cat"]
        with subprocess.Popen(worker, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            broker.run("queue", "wait-empty", "work")
            process.terminate()
        begun = {job: broker.show(job)["events"][1]["at"].rstrip("Z") for job in jobs}  # "06.36" is before "06.363"
        assert begun[jobs[2]] <= min(begun.values()), begun
        assert "is already done" in broker.run("job", "priority", jobs[2], "--priority", "1", code=1)
        assert "32767" in broker.run("job", "priority", jobs[2], "--priority", "99999", code=2)


@test
def the_history_of_a_delayed_job_shows_until_when():
    with Broker("--durability", "memory") as broker:
        job = broker.add("x", "--delay", "1h")
        last = broker.run("job", "show", job).splitlines()[-1].split("\t")
        assert last[0] == "event" and last[2] == "delayed" and last[-1].startswith("not before 20"), last


@test
def a_job_is_shown_as_a_sheet_on_a_terminal_and_as_lines_elsewhere():
    with Broker("--durability", "memory") as broker:
        job = broker.add("first\nsecond", "--can", "gpu", "--priority", "7", "--job-timeout", "90s")
        lines = broker.run("job", "show", job).splitlines()
        fields = dict(line.split("\t", 1) for line in lines)
        assert fields["job"] == job and fields["can"] == "gpu" and fields["priority"] == "7", fields
        assert fields["payload"] == "first\\nsecond" and fields["timeout_ms"] == "1m30s" and fields["worker"] == "-", fields
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["enqueued_at"]), fields
        sheet = broker.run("job", "show", job, "-o", "table").splitlines()
        assert f"JOB           {job}" in sheet and "CAPABILITIES  gpu" in sheet, sheet
        assert not any(line.startswith("WORKER") for line in sheet), sheet  # it has none
        assert re.fullmatch(r"ADDED         \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", sheet[3]), sheet
        events = sheet[sheet.index("") + 1:]
        assert events[0].split() == ["TIME", "STATE", "CAUSE", "WORKER", "REASON"] and len(events) == 2, events
        assert json.loads(broker.run("job", "show", job, "--json"))["explain"] == fields["explain"]


@test
def queues_are_shown_paused_and_drained():
    with folder() as data:
        with Broker("--data", data) as broker:
            job = broker.add("x")
            broker.run("queue", "pause", "work")
            shown = json.loads(broker.run("queue", "show", "work", "--json"))
            assert shown["is_paused"] and shown["waiting"] == 1, shown
            assert "paused" in broker.run("job", "explain", job)
            broker.kill()
        with Broker("--data", data) as broker:
            assert "paused" in broker.run("queue", "list")
            broker.run("queue", "resume", "work")
            broker.run("job", "cancel", job)
            broker.run("queue", "wait-empty", "work")
            assert broker.run("queue", "dead", "work") == ""
            broker.run("queue", "show", "none", code=1)


@test
def wait_empty_ends_and_reports_the_remaining_jobs():
    with Broker("--durability", "memory") as broker:
        jobs = [broker.add("x"), broker.add("y", "--delay", "1h")]
        late = broker.run("queue", "wait-empty", "work", "--timeout", "500ms", code=1)
        left = "1 waiting, 1 delayed, 0 running; no worker serves it"
        assert late.endswith(f"rota: queue work was not empty within 500ms: {left}\n"), late
        with broker.start("queue", "wait-empty", "work", stderr=subprocess.PIPE, text=True) as drain:
            first = drain.stderr.readline()  # though it is no terminal
            broker.run("job", "cancel", *jobs)
            rest = drain.stderr.read()
        assert first == f"rota: queue work: {left}\n" and rest.endswith("rota: queue work is empty\n"), (first, rest)
        assert drain.returncode == 0
        broker.kill()
        late = broker.run("queue", "wait-empty", "work", "--timeout", "300ms", code=1)
        assert "; asking again\n" in late and "rota: queue work was not empty within 300ms: " in late, late


@test
def a_dry_run_reports_and_changes_nothing():
    with folder() as data, Broker("--data", data) as broker:
        assert "no queue work yet" in broker.run("job", "add", "--queue", "work", "--dry-run", "x")
        assert broker.run("queue", "list") == ""
        broker.run("queue", "pause", "work", "--dry-run", code=1)
        job = broker.add("x")
        lines = pathlib.Path(data, "lines")
        lines.write_text("longer than nothing\n")
        assert "\n1 job would be added to it\n" in broker.run("job", "add", "--queue", "work", "--lines", lines, "--dry-run")
        assert "a payload of 1 byte would" in broker.run("job", "add", "--queue", "work", "x", "--dry-run")
        lines.write_text("a\nb\nc\n")
        plan = json.loads(broker.run("job", "add", "--queue", "work", "--can", "go", "--lines", lines, "--dry-run", "--json"))
        assert plan["is_done"] is False and any("3 jobs would be added" in line for line in plan["plan"]), plan
        assert any("no connected worker" in line for line in plan["plan"]), plan
        broker.run("job", "add", "--queue", "work", "--can", "a b", "--dry-run", "x", code=2)
        broker.run("job", "add", "--queue", "work", "--deadline", "2020-01-01T00:00:00Z", "--dry-run", "x", code=2)
        assert "cancelled before it starts" in broker.run("job", "cancel", job, "--dry-run")
        assert "already" in broker.run("job", "retry", job, "--dry-run", code=1)
        assert "1 waiting job would not start" in broker.run("queue", "pause", "work", "--dry-run")
        assert "stay as it is" in broker.run("queue", "resume", "work", "--dry-run")
        assert "weight 300" in broker.run("queue", "weight", "work", "--key", "k", "--weight", "300", "--dry-run")
        shown = json.loads(broker.run("queue", "show", "work", "--json"))
        assert broker.jobs() == [job] and not shown["is_paused"] and shown["cancelled"] == 0, shown
        broker.run("job", "cancel", job)
        assert "already" in broker.run("job", "cancel", job, "--dry-run", code=1)
        assert "would wait again" in broker.run("job", "retry", job, "--dry-run")
        assert "is cancelled" in broker.run("job", "retry", job, "--dry-run")


@test
def hostile_words_are_refused():
    with Broker("--durability", "memory") as broker:
        job = broker.add("x")
        for words in (["job", "show", "x"], ["job", "show", "work/zz"], ["job", "show", "/"], ["job", "show", "wo rk/" + "0" * 32],
                      ["job", "add", "--queue", "wo/rk", "x"], ["job", "add", "--queue", "work", "--can", "a b", "x"],
                      ["job", "add", "--queue", "work", *["--can=c%d" % i for i in range(17)], "x"],
                      ["job", "add", "--queue", "work", "--priority", "40000", "x"],
                      ["job", "add", "--queue", "work", "--unique", "", "x"],  # an empty variable of a script
                      *(["job", "add", "--queue", "work", "--deadline", moment, "x", *more] for moment in ("-5", "0", "1")
                        for more in ([], ["--dry-run"]))):  # 0 is none in the message
            assert "rota: " in broker.run(*words, code=2), words
        refused = broker.run("job", "add", "--queue", "work", "--can", "c" * 300, "x", code=2)
        assert "is not a capability: use 1 to 64 letters" in refused, refused
        broker.run("job", "show", "work/" + "1" * 32, code=1)
        broker.run("job", "add", "--queue", "work", "-", data=b"x" * (17 << 20), code=2)
        assert broker.jobs() == [job]


@test
def a_payload_of_64_megabytes_is_refused():
    with Broker("--durability", "memory") as broker:
        refused = broker.run("job", "add", "--queue", "work", "-", data=bytes(64 << 20), code=2)
        assert "16777216" in refused, refused
        refused = broker.run("job", "add", "--queue", "work", "--lines", "-", data=b"first\n" + b"x" * (64 << 20),
                             code=2)
        assert "line 2 is longer than 16777216 bytes" in refused, refused
        assert "1 job was added, continue with line 2" in refused, refused
        assert len(broker.jobs()) == 1  # the first line
        broker.run("job", "add", "--queue", "work", "-", data=bytes(16 << 20))


@test
def the_ready_line_has_addresses_as_people_write_them():
    with Broker("--durability", "memory", "--workers", "127.0.0.1:0") as broker:
        assert broker.facts["zmq"].startswith("127.0.0.1:") and int(broker.facts["zmq"].split(":")[1]) > 0, broker.facts
        assert broker.facts["grpc"].startswith("127.0.0.1:"), broker.facts


# --- results ---


class Worker:
    """Does all jobs of a queue; the results are its name."""

    def __init__(self, broker, name, seed=7):
        self.path = tempfile.NamedTemporaryFile(prefix="rota-queue-", suffix=".log", delete=False).name
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen([PROGRAMS / "work_load", "work", broker.node, "work", name, str(seed), "8",
                                             "2000", "go", "chess", "draughts"], stdout=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(TIMEOUT)
        os.unlink(self.path)


def start_waiter(broker):
    """One who waits for a job, and the job's name."""
    waiter = broker.start("job", "add", "--queue", "work", "--wait", "--timeout", "30s", "x", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    while not (jobs := broker.jobs()):
        assert waiter.poll() is None, waiter.communicate()
    return waiter, jobs[0]


@test
def a_wait_returns_the_result():
    with Broker("--durability", "memory") as broker:
        with Worker(broker, "somebody"):
            assert broker.run("job", "add", "--queue", "work", "--wait", "--can", "go", "x") == "somebody"
            shown = json.loads(broker.run("job", "add", "--queue", "work", "--wait", "--json", "x"))
            assert shown["state"] == "done" and shown["result"] == "somebody", shown
        waiter, job = start_waiter(broker)
        broker.run("job", "cancel", job)
        out, errors = waiter.communicate(timeout=TIMEOUT)
        assert waiter.returncode == 1 and out == "" and errors == "rota: the job is cancelled\n", (out, errors)
        with subprocess.Popen([ROTA, "work", "--node", broker.node, "--queue", "work", "--log-level", "error", "--", "sh", "-c",
                               "echo one >&2; printf 'two\\033\\n' >&2; exit 65"]) as worker:
            said = broker.run("job", "add", "--queue", "work", "--wait", "x", code=1)
            worker.terminate()
        assert said == "rota: the job is dead: exit code 65\none\ntwo\\u001b\n", said


@test
def a_binary_result_is_printed_in_base64():
    with Broker("--durability", "memory") as broker:
        done = subprocess.Popen([ROTA, "work", "--node", broker.node, "--queue", "work", "--", "cat"])
        try:
            for data, name, told in ((b"a\xffb", "result_base64", "Yf9i"), (b"text", "result", "text")):
                shown = json.loads(broker.run("job", "add", "--queue", "work", "--wait", "--json", "-", data=data))
                assert shown[name] == told and ("result" in shown) == (name == "result"), shown
                shown = broker.show(shown["job"])
                assert shown[name] == told, shown
        finally:
            done.kill()
            done.wait(TIMEOUT)


@test
def a_wait_survives_a_killed_broker():
    with folder() as data:
        where = f"127.0.0.1:{free_port()}"
        with Broker("--data", data, "--listen", where) as broker:
            waiter, _ = start_waiter(broker)
            broker.kill()
        with Broker("--data", data, "--listen", where) as broker, Worker(broker, "another"):
            out, errors = waiter.communicate(timeout=TIMEOUT)
            assert (waiter.returncode, out) == (0, "another"), (waiter.returncode, out, errors)


@test
def a_wait_follows_the_job_to_its_node():
    with folder() as data:
        first, second = (f"127.0.0.1:{free_port()}" for _ in range(2))
        with Broker("--data", data, "--listen", first) as broker:
            waiter = subprocess.Popen([ROTA, "job", "add", "--node", f"{first},{second}", "--queue", "work", "--wait", "x"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not broker.jobs():
                assert waiter.poll() is None, waiter.communicate()
            assert broker.terminate() == 0
        with Broker("--data", data, "--listen", second) as broker, Worker(broker, "another"):
            out, errors = waiter.communicate(timeout=TIMEOUT)
            assert (waiter.returncode, out) == (0, "another"), (waiter.returncode, out, errors)
            assert errors.count("asking again") <= 1, errors  # none: its add was in flight


def start_shown(broker, **options):
    """One who waits for a job at a terminal, and the terminal."""
    ours, theirs = pty.openpty()
    waiter = broker.start("job", "add", "--queue", "work", "--wait", "x", stdout=subprocess.PIPE, stderr=theirs, **options)
    os.close(theirs)
    return waiter, ours


def drawn_with(terminal, drawn, phrase):
    """What was drawn until a phrase is."""
    give_up_at = time.monotonic() + TIMEOUT
    while phrase not in drawn:
        assert time.monotonic() < give_up_at, (phrase, drawn)
        drawn, is_open = drawn_until(terminal, drawn, time.monotonic() + 0.05)
        assert is_open or phrase in drawn, (phrase, drawn)
    return drawn


@test
def a_wait_at_a_terminal_shows_the_state_of_the_job():
    with tempfile.TemporaryDirectory() as place, Broker("--durability", "memory") as broker:
        gate = os.path.join(place, "gate")
        os.mkfifo(gate)
        waiter, terminal = start_shown(broker)
        drawn = drawn_with(terminal, b"", b"\rwaiting: no worker serves queue work\x1b[K")
        command = 'echo "half \033[31m of $(head -c 300 /dev/zero | tr \\\\0 x)" >&2; cat "$0"'
        with subprocess.Popen([ROTA, "work", "--node", broker.node, "--queue", "work", "--name", "w", "--lease", "8s",
                               "--kill-after", "2s", "--", "sh", "-c", command, gate], stderr=subprocess.DEVNULL) as worker:
            drawn = drawn_with(terminal, drawn, b'\rrunning: attempt 1 of 5, on worker "w": half \\u001b[31m of xx')
            with open(gate, "w") as file:
                file.write("the result")
            drawn, _ = drawn_until(terminal, drawn, None)
            out, _ = waiter.communicate(timeout=TIMEOUT)
            worker.terminate()
        os.close(terminal)
        assert (waiter.returncode, out) == (0, b"the result") and drawn.endswith(b"\r\x1b[K"), (waiter.returncode, out, drawn)
        lines = drawn.replace(b"\x1b[K", b"").split(b"\r")
        assert max(map(len, lines)) == 79 and b"\n" not in drawn, drawn  # one line, cut to a terminal of 80


@test
def commands_that_wait_show_the_reason_on_a_terminal():
    with Broker("--durability", "memory") as broker:
        job = broker.add("x")
        for words, phrase in ((["queue", "wait-empty", "work"],
                               b"\rwaiting until queue work is empty: 1 waiting, 0 delayed, 0 running; no worker serves it"),
                              (["wait", "queue", "work"], b"\rwaiting for queue work: no worker serves it")):
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
            waiter = broker.start(*words, "--timeout", "10m", stderr=theirs)
            os.close(theirs)
            drawn_with(ours, b"", phrase)
            waiter.kill()
            waiter.wait(TIMEOUT)
            os.close(ours)
        broker.run("job", "cancel", job)


@test
def a_result_ends_its_line_on_a_terminal():
    with Broker("--durability", "memory") as broker, Worker(broker, "answer"):
        ours, theirs = pty.openpty()
        waiter = broker.start("job", "add", "--queue", "work", "--wait", "x", stdout=theirs)
        os.close(theirs)
        drawn, _ = drawn_until(ours, b"", None)
        os.close(ours)
        assert waiter.wait(TIMEOUT) == 0 and drawn == b"answer\r\n", drawn


@test
def a_wait_at_a_terminal_can_be_interrupted():
    with Broker("--durability", "memory") as broker:
        waiter, terminal = start_shown(broker)
        drawn = drawn_with(terminal, b"", b"waiting: no worker serves")
        waiter.send_signal(signal.SIGINT)
        drawn, _ = drawn_until(terminal, drawn, None)
        os.close(terminal)
        out, _ = waiter.communicate(timeout=TIMEOUT)
        (job,) = broker.jobs()
        told = f"\r\x1b[Krota: job {job} continues; see rota job show --node {broker.node} {job}\r\n"
        assert (waiter.returncode, out) == (-signal.SIGINT, b"") and drawn.endswith(told.encode()), (waiter.returncode, drawn)
        broker.run("job", "cancel", job)

        waiter, terminal = start_shown(broker)  # the broker is unreachable
        drawn = drawn_with(terminal, b"", b"waiting: no worker serves")
        broker.kill()
        drawn = drawn_with(terminal, drawn, b"asking again until the job has ended")
        waiter.send_signal(signal.SIGINT)
        drawn, _ = drawn_until(terminal, drawn, None)
        os.close(terminal)
        waiter.communicate(timeout=TIMEOUT)
        assert waiter.returncode == -signal.SIGINT and b"continues; see rota job show" in drawn, (waiter.returncode, drawn)


@test
def a_wait_without_a_terminal_shows_no_progress():
    with Broker("--durability", "memory") as broker:
        waiter, job = start_waiter(broker)
        waiter.send_signal(signal.SIGINT)
        assert waiter.communicate(timeout=TIMEOUT) == ("", "") and waiter.returncode == -signal.SIGINT
        assert broker.jobs() == [job]


# --- many lines ---


@test
def job_without_a_payload_is_asked_for_one():
    with Broker("--durability", "memory") as broker:
        assert "standard input" in broker.run("job", "add", "--queue", "work", data=b"meant", code=2)
        assert not broker.jobs()
        broker.run("job", "add", "--queue", "work", "")
        assert len(broker.jobs()) == 1


@test
def lines_may_be_any_bytes():
    with Broker("--durability", "memory") as broker:
        assert broker.run("job", "add", "--queue", "work", "--lines", "-", data=b"a\n\n\0b\xff\n\r\nlast") == "5 jobs added\n"
        shown = [broker.show(job) for job in broker.jobs()]
        assert sorted(job.get("payload", job.get("payload_base64", "")) for job in shown) == ["", "\r", "AGL/", "a", "last"]
        assert broker.run("job", "add", "--queue", "work", "--lines", "-", data=b"") == "0 jobs added\n"


@test
def an_add_that_finds_a_job_with_the_key_says_so():
    with Broker("--durability", "memory") as broker:
        told = [subprocess.run([ROTA, "job", "add", "--node", broker.node, "--queue", "work", "--unique", "k", "x"],
                               capture_output=True, text=True, timeout=TIMEOUT) for _ in range(2)]
        assert [done.returncode for done in told] == [0, 0] and told[0].stdout == told[1].stdout, told
        assert [done.stderr for done in told] == ["", "rota: a job with this key exists already\n"], told


@test
def lines_with_one_key_are_refused():
    with Broker("--durability", "memory") as broker:
        told = broker.run("job", "add", "--queue", "work", "--unique", "k", "--lines", "-", data=b"a\nb\n", code=2)
        assert "one job" in told, told
        assert not broker.jobs()


def shares(drawn):
    """The different percentages that were drawn, in this order."""
    return list(dict.fromkeys(int(share) for share in re.findall(rb"\radding jobs \[[= ]*\] +(\d+)%", drawn)))


def drawn_until(terminal, drawn, moment):
    """What was drawn until a moment; None: until all who had the terminal have ended. And whether somebody has it."""
    while True:
        left = None if moment is None else max(0, moment - time.monotonic())
        if not select.select([terminal], [], [], left)[0]:
            return drawn, True
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            piece = b""
        if not piece:
            return drawn, False
        drawn += piece


@test
def a_large_file_of_lines_is_streamed():
    n_lines, size = 200000, 300
    with tempfile.NamedTemporaryFile(prefix="rota-lines-") as file, Broker("--durability", "memory") as broker:
        for i in range(n_lines):
            file.write(b"%0*d\n" % (size - 1, i))
        file.flush()
        ours, theirs = pty.openpty()  # a terminal, on which progress is drawn
        is_checked = any(word in ROTA for word in ("sanitize", "asan", "thread"))
        limit = [] if is_checked else ["prlimit", f"--data={n_lines * size * 3 // 4}"]
        adder = subprocess.Popen([*limit, ROTA, "job", "add", "--node", broker.node, "--queue", "work", "--timeout",
                                  f"{TIMEOUT}s", "--lines", file.name], stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        drawn, is_open = b"", True
        while is_open and len(shares(drawn)) < 6:  # the broker continues in short steps; a read would be 27%
            broker.process.send_signal(signal.SIGSTOP)
            time.sleep(0.15)
            broker.process.send_signal(signal.SIGCONT)
            drawn, is_open = drawn_until(ours, drawn, time.monotonic() + 0.01)
        drawn, _ = drawn_until(ours, drawn, None)
        os.close(ours)
        out, _ = adder.communicate(timeout=TIMEOUT)
        assert adder.returncode == 0 and out == f"{n_lines} jobs added\n".encode(), (adder.returncode, out, drawn)
        assert broker.queue()["waiting"] == n_lines
        assert len(shares(drawn)) >= 6 and drawn.endswith(b"\r\x1b[K"), drawn
        assert shares(drawn) == sorted(shares(drawn)), drawn


@test
def uncounted_jobs_of_lines_are_counted():
    with Broker("--durability", "memory") as broker:
        ours, theirs = pty.openpty()
        adder = broker.start("job", "add", "--queue", "work", "--lines", "-", stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        drawn, n_lines, give_up_at = b"", 0, time.monotonic() + TIMEOUT
        while len(set(counts := re.findall(rb"\radding jobs: (\d+)", drawn))) < 3:
            assert time.monotonic() < give_up_at, (n_lines, drawn)
            adder.stdin.write(b"line\n")
            adder.stdin.flush()
            n_lines += 1
            drawn, _ = drawn_until(ours, drawn, time.monotonic() + 0.2)
        adder.stdin.close()
        drawn, _ = drawn_until(ours, drawn, None)
        os.close(ours)
        assert adder.stdout.read() == b"%d jobs added\n" % n_lines and adder.wait(TIMEOUT) == 0, drawn
        adder.stdout.close()
        assert 0 < int(counts[0]) and int(counts[-1]) <= n_lines, (counts, n_lines)


def await_hearing(process, is_heard):
    """Until a process has a handler for SIGINT, or has none any more."""
    while True:
        with open(f"/proc/{process.pid}/status") as file:
            caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt:"))
        if bool(caught & 1 << signal.SIGINT - 1) == is_heard:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@test
def an_interrupt_reports_how_many_lines_were_added():
    with tempfile.NamedTemporaryFile(prefix="rota-lines-") as file, Broker("--durability", "memory") as broker:
        def start(name, **options):
            return broker.start("job", "add", "--queue", "work", "--timeout", f"{TIMEOUT}s", "--lines", name,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

        file.write(b"line\n" * 3000)
        file.flush()
        broker.process.send_signal(signal.SIGSTOP)
        adder = start(file.name)
        await_hearing(adder, True)
        adder.send_signal(signal.SIGINT)
        await_hearing(adder, False)
        other = start(file.name)
        for is_heard in (True, False):  # a second one is not waited for
            await_hearing(other, is_heard)
            other.send_signal(signal.SIGINT)
        assert other.communicate(timeout=TIMEOUT) == ("", "") and other.returncode == -signal.SIGINT
        broker.process.send_signal(signal.SIGCONT)
        assert adder.communicate(timeout=TIMEOUT) == ("", "rota: 1024 jobs were added, continue with line 1025\n")
        assert adder.returncode == -signal.SIGINT and broker.queue()["waiting"] == 1024

        adder = start("-", stdin=subprocess.PIPE)
        adder.stdin.write("line\n" * 3 + "half")
        adder.stdin.flush()
        while broker.queue()["waiting"] < 1027:
            assert adder.poll() is None, adder.communicate()
        adder.send_signal(signal.SIGINT)
        _, told = adder.communicate(timeout=TIMEOUT)
        assert told == "rota: 3 jobs were added, continue with line 4\n" and adder.returncode == -signal.SIGINT, told


@test
def lines_are_added_once_whatever_happens_to_the_broker():
    n_lines = 150000
    lines = b"".join(b"line %d\n" % i for i in range(n_lines))
    with folder() as data:
        where = f"127.0.0.1:{free_port()}"
        broker = Broker("--data", data, "--listen", where)
        adder = broker.start("job", "add", "--queue", "work", "--lines", "-", "--timeout", "20s", stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        told, part, more = {}, len(lines) // 5, threading.Semaphore(0)

        def feed():
            for i in range(4):  # a part for each life, so that no machine is too fast
                more.acquire()
                adder.stdin.write(lines[i * part:(i + 1) * part])
            told.update(out=adder.communicate(lines[4 * part:]))

        thread = threading.Thread(target=feed)
        thread.start()
        n_before = 0
        for life in range(4):
            more.release()
            with broker:
                while n_before == (n := broker.queue()["waiting"] if life or broker.run("queue", "list") else 0):
                    assert thread.is_alive(), told
                if life % 2:
                    assert broker.terminate() == 0
                else:
                    broker.kill()
            n_before = n
            broker = Broker("--data", data, "--listen", where)
        with broker:
            thread.join(TIMEOUT)
            assert adder.returncode == 0 and told["out"][0] == b"%d jobs added\n" % n_lines, (adder.returncode, told)
            assert broker.queue()["waiting"] == n_lines, broker.queue()


# --- clocks ---


@test
def lines_that_were_not_added_are_named():
    with tempfile.TemporaryDirectory() as place, Broker("--durability", "memory", "--memory", str(8 << 20)) as broker:
        broker.run("job", "add", "--queue", "work", "-", data=b"x" * ((7 << 20) - 1100))  # jobs have seven eighths
        file = pathlib.Path(place) / "lines"
        file.write_text("\n".join(["x" * 1000, "x" * 1000, "c", "x" * 1000, "x" * 1000, "f"]) + "\n")
        told = broker.run("job", "add", "--queue", "work", "--lines", str(file), code=1)
        assert "added 3 jobs: lines 1-6, except 2, 4-5" in told, told
        assert len(broker.jobs()) == 4
        file.write_text("\n".join(["g", "x" * 1000, "x" * 1000]) + "\n")
        told = broker.run("job", "add", "--queue", "work", "--lines", str(file), code=1)
        assert "1 job was added, continue with line 2" in told, told


def carry(reader, writer, sizes):
    """Pass on all that comes, and note how much."""
    with contextlib.suppress(OSError):  # one of the two is gone
        while piece := reader.recv(65536):
            sizes.append(len(piece))
            writer.sendall(piece)
    with contextlib.suppress(OSError):
        writer.shutdown(socket.SHUT_WR)


def add_through(node, payload, *words):
    """Add a job; gives the exit code, what was told, and how often the payload was sent to the node."""
    sent = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        adder = subprocess.Popen([ROTA, "job", "add", "--node", f"127.0.0.1:{server.getsockname()[1]}", "--queue", "work",
                                  *words, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        feeder = threading.Thread(target=adder.stdin.write, args=[payload])
        feeder.start()
        feeder.join(TIMEOUT)
        adder.stdin.close()
        server.settimeout(TIMEOUT)
        ours, _ = server.accept()
        host, port = node.split(":")
        with ours, socket.create_connection((host, int(port))) as theirs:
            both = [threading.Thread(target=carry, args=args) for args in ((ours, theirs, sent), (theirs, ours, []))]
            for thread in both:
                thread.start()
            told, code = adder.stderr.read().decode(), adder.wait(TIMEOUT)
            for thread in both:
                thread.join(TIMEOUT)
        adder.stdout.close()
        adder.stderr.close()
    return code, told, sum(sent) // len(payload)


def fill(node):
    """Add jobs until no node has room for 2 MiB more."""
    for _ in range(64):
        done = subprocess.run([ROTA, "job", "add", "--node", node, "--queue", "work", "--timeout", "1s", "-"],
                              input=b"x" * (1 << 20), capture_output=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            assert b"no room" in done.stderr, done
            return
    raise AssertionError("there is always room")


@test
def one_node_without_room_is_asked_once():
    with Broker("--durability", "memory", "--memory", str(5 << 20)) as broker:
        fill(broker.node)
        code, told, n_sent = add_through(broker.node, b"x" * (2 << 20))
        assert code == 1 and "no room" in told and n_sent == 1, (code, told, n_sent)


@test
def nodes_without_room_are_asked_until_the_time_is_over():
    where = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    words = ["--durability", "memory", "--memory", str(5 << 20)]
    with folder() as data, Broker(*words, "--store", f"sqlite:{data}.db", "--listen", where[0]), \
            Broker(*words, "--store", f"sqlite:{data}.db", "--listen", where[1]):
        fill(where[0])
        code = 0
        while code == 0:  # where time was over before the other node was asked, that one has room
            code, told, n_sent = add_through(where[0], b"x" * (2 << 20), "--timeout", "1s")
        assert code == 1 and n_sent <= 8, (code, told, n_sent)  # after pauses of 20 ms and more, which double


@test
def a_clock_that_jumps_loses_nothing():
    day = 86400 * 10 ** 9
    with folder() as data, tempfile.NamedTemporaryFile(prefix="rota-clock-") as clock:
        def put(shift):
            with open(clock.name, "r+b", buffering=0) as file:
                file.write(shift.to_bytes(8, "little", signed=True))

        clock.write(bytes(8))
        clock.flush()
        env = {"LD_PRELOAD": str(PROGRAMS / "libwall_clock.so"), "ROTA_TEST_CLOCK": clock.name,
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        where = f"127.0.0.1:{free_port()}"
        with Broker("--data", data, "--listen", where, env=env) as broker:
            delayed = broker.add("later", "--delay", "1h")
            oldest = broker.add("oldest", "--can", "nobody")
            submitter = subprocess.Popen([PROGRAMS / "work_load", "submit", where, "work", "4000", "2000", "5", "0", "1"],
                                         stdout=subprocess.PIPE)
            with Worker(broker, "w") as worker:
                known = b""
                for shift in (day, -day, 3650 * day, -365 * day, 0):
                    put(shift)
                    known += b"".join(submitter.stdout.readline() for _ in range(800))
                known += submitter.stdout.read()
                assert submitter.wait(TIMEOUT) == 0
                while (counts := broker.queue())["waiting"] > 1 or counts["running"] or counts["delayed"] > 1:
                    assert worker.process.poll() is None
                put(-30 * day)
                assert broker.show(delayed)["state"] == "delayed"
                assert broker.show(oldest)["state"] == "waiting"
                worker.process.terminate()
                assert worker.process.wait(TIMEOUT) == 0
                broker.kill()
                with tempfile.NamedTemporaryFile("wb") as log:
                    log.write(known)
                    log.flush()
                    history = work_history.History()
                    history.read(log.name)
                    history.read(worker.path)
                promise.check(not history.check(), f"{history.check()}")
                assert history.count()["acknowledged"] == 4000, history.count()
        with Broker("--data", data, "--listen", where, env=env) as broker:  # in the past of what it has written
            assert broker.jobs("delayed") == [delayed] and broker.jobs() == [oldest]
            another = broker.add("another")
            assert set(broker.jobs()) == {oldest, another}
            put(10 * day)
            assert broker.terminate() == 0
        with Broker("--data", data, "--listen", where, env=env) as broker:  # its hour has come
            assert set(broker.jobs()) == {oldest, another, delayed}


sys.exit(tap.run(names=sys.argv[3:]))
