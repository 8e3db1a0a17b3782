#!/usr/bin/env python3
"""`rota top` on a terminal: test_top.py ROTAD ROTA [NAME...].

Runs it on a pseudo-terminal against live nodes, types keys, resizes it, sends it signals, and reads what
it draws as a terminal would. Prints TAP."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rotad import TIMEOUT, cluster, run_tests  # noqa: E402

ROTAD, ROTA = (os.path.abspath(path) for path in sys.argv[1:3])
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Screen:
    """A terminal with a program on it, as far as `rota top` uses one."""

    def __init__(self, *words, width=120, height=20, env=None):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.size(width, height)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                        env={**os.environ, "TERM": "xterm", **(env or {})})
        self.lines, self.bytes, self.is_other_page, self.has_cursor = {}, b"", False, True

    def size(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, keys):
        os.write(self.master, keys.encode())

    def read(self, seconds=0.1):
        """What was drawn since; the number of its bytes."""
        n = 0
        while select.select([self.master], [], [], seconds)[0]:
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                return n
            if not piece:
                return n
            n += len(piece)
            self.draw(piece)
            seconds = 0
        return n

    def draw(self, piece):
        text = (self.bytes + piece).decode(errors="replace")
        self.bytes = b""
        row = getattr(self, "row", 1)
        for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z])", text):
            if part == "\x1b[2J":
                self.lines = {}
            elif part in ("\x1b[?1049h", "\x1b[?1049l"):
                self.is_other_page = part.endswith("h")
            elif part in ("\x1b[?25h", "\x1b[?25l"):
                self.has_cursor = part.endswith("h")
            elif match := re.fullmatch(r"\x1b\[(\d+);1H", part):
                row = int(match[1])
                self.lines[row] = ""
            elif part and not part.startswith("\x1b"):
                self.lines[row] = self.lines.get(row, "") + part
        self.row = row

    def text(self):
        return "\n".join(self.lines.get(row, "") for row in range(1, max(self.lines, default=0) + 1))

    def await_text(self, *patterns):
        until = time.monotonic() + TIMEOUT
        while not all(re.search(pattern, self.text()) for pattern in patterns):
            assert time.monotonic() < until and self.process.poll() is None, (patterns, self.text())
            self.read()
        return self.text()

    def is_clean(self):
        return (not self.is_other_page and self.has_cursor
                and termios.tcgetattr(self.slave) == self.before)

    def await_end(self):
        until = time.monotonic() + TIMEOUT
        while self.process.poll() is None:
            assert time.monotonic() < until
            self.read()
        self.read()
        return self.process.returncode


@contextlib.contextmanager
def screen(*words, **options):
    made = Screen(ROTA, "top", *words, **options)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(TIMEOUT)
        os.close(made.master)
        os.close(made.slave)


@test
def nodes_queues_and_one_of_them_are_shown():
    with cluster(ROTAD, 2) as (one, two), screen("--node", one.name) as top:
        shown = top.await_text(one.title + ".*serving", two.title + ".*serving", r"\[1 nodes\]")
        assert top.is_other_page and not top.has_cursor
        assert shown.count("> ") >= 1 and "\x1b" not in shown
        top.type("3")
        top.await_text(r"\[3 queues\]", "  none")
        subprocess.run([ROTA, "job", "add", "--node", two.name, "--queue", "mail", "x"], check=True,
                       stdout=subprocess.DEVNULL, timeout=TIMEOUT)
        top.await_text(r"> mail .* 1 ")
        top.type("\r")
        top.await_text(r"(?m)^  n_waiting +1")
        top.type("\x1b")
        top.await_text(r"QUEUE(v|▼)")
        top.type(">>")
        top.await_text(r"WAITING(v|▼)")
        top.type("?")
        top.await_text(r"reverse the order")
        top.type("?4")
        top.await_text(r"\[4 calls\]", r"shows no calls|  none|REPLICA")
        top.type("1")
        top.await_text(two.title + ".*serving")
        two.process.kill()
        top.await_text(two.title + r" +(unresponsive|dead)")
        top.type("q")
        assert top.await_end() == 0 and top.is_clean()


@test
def terminal_is_as_it_was_on_every_way_out():
    with cluster(ROTAD, 1) as (one,):
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, "\x03", "q"):
            with screen("--node", one.name) as top:
                top.await_text("serving")
                assert not top.is_clean()
                if isinstance(how, str):
                    top.type(how)
                else:
                    top.process.send_signal(how)
                assert top.await_end() == 0 and top.is_clean(), how


def state_of(process):
    with open(f"/proc/{process.pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


@test
def stop_gives_the_terminal_back_and_going_on_takes_it():
    with cluster(ROTAD, 1) as (one,), screen("--node", one.name) as top:
        top.await_text("serving")
        for _ in range(2):
            top.process.send_signal(signal.SIGTSTP)
            until = time.monotonic() + TIMEOUT
            while state_of(top.process) != "T":
                assert time.monotonic() < until
                top.read()
            top.read()
            assert top.is_clean()
            top.lines = {}
            top.process.send_signal(signal.SIGCONT)
            top.await_text("serving", r"\[1 nodes\]")
            assert top.is_other_page and not top.has_cursor
        top.type("q")
        assert top.await_end() == 0 and top.is_clean()


@test
def it_resizes_and_draws_only_changes():
    with cluster(ROTAD, 1) as (one,), screen("--node", one.name, width=100, height=30) as top:
        top.await_text("serving")
        assert max(top.lines) == 30
        top.size(60, 12)
        top.lines = {}
        top.await_text("serving")
        assert max(top.lines) == 12 and max(map(len, top.lines.values())) <= 60, top.text()
        top.type("2")
        top.await_text(r"\[2 shards\]", "shows no shards|  none|ring|lease")
        top.type("p")
        top.await_text("paused")
        top.read(1.5)
        whole = len(top.text())
        for _ in range(2):
            n = top.read(1.5)
            assert n < whole, (n, whole)  # the clock, not the page


@test
def it_works_without_color_and_continues_with_another_node():
    with cluster(ROTAD, 2) as (one, two), \
            screen("--node", f"{one.name},{two.name}", env={"NO_COLOR": "1"}) as top:
        raw = []
        draw = top.draw
        top.draw = lambda piece: (raw.append(piece), draw(piece))
        top.await_text("serving")
        top.await_text("top  " + re.escape(one.name))
        one.process.kill()
        top.await_text("top  " + re.escape(two.name), one.title + r" +(unresponsive|dead)")
        assert not re.search(rb"\x1b\[[0-9;]*m", b"".join(raw)), b"".join(raw)


@test
def scripts_get_a_page_and_pipes_a_sentence():
    with cluster(ROTAD, 2) as (one, two):
        done = subprocess.run([ROTA, "top", "--once", "--node", one.name], capture_output=True, text=True,
                              timeout=TIMEOUT)
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and lines[0].startswith("NODE ") and len(lines) == 4, done
        assert {line.split()[0].removeprefix("> ") for line in lines[1:3]} == {one.title, two.title}, lines
        assert lines[3].startswith("TOTAL "), lines

        def once(*words):
            done = subprocess.run([ROTA, "top", "--once", "--node", one.name, *words], capture_output=True, text=True,
                                  timeout=TIMEOUT)
            assert done.returncode == 0 and not done.stderr, done
            return done.stdout

        found = json.loads(once("--json"))["nodes"]
        assert {node["name"] for node in found} == {one.title, two.title}, found
        assert all(node["state"] == "serving" and 0 <= node["cpu"] < 64 and node["calls_per_s"] >= 0
                   and node["memory"] > 0 for node in found), found
        rows = [line.split("\t") for line in once("-o", "tsv").splitlines()]
        assert [row[:2] for row in rows] == [[node["name"], "serving"] for node in found], (rows, found)
        assert all(len(row) == len(found[0]) for row in rows), rows
        assert once("-o", "wide").startswith("NODE ") and once("-o", "tsv", "--view", "queues") == ""
        assert json.loads(once("-o", "json", "--view", "queues")) == {"queues": []}
        done = subprocess.run([ROTA, "top", "--node", one.name], capture_output=True, text=True, timeout=TIMEOUT,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 2 and "--once" in done.stderr and done.stdout == "", done
        with screen("--node", one.name, env={"TERM": "dumb"}) as top:
            assert top.await_end() == 2 and "--once" in top.text()
        for words in (["--json"], ["-o", "tsv"]):
            with screen("--node", one.name, *words) as top:
                assert top.await_end() == 2 and "need --once" in top.text(), (words, top.text())


if __name__ == "__main__":
    sys.exit(run_tests(TESTS, sys.argv[3:]))
