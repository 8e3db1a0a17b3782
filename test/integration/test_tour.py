#!/usr/bin/env python3
"""The five minutes of README.md, line by line: test_tour.py BUILD_DIRECTORY.

A shell in a terminal gets each line as somebody would paste it, and each has to succeed; where the
page says what is seen, that has to be seen. It happens in a network of its own, for the page names
ports. Two things differ from what a reader does: what would be below /tmp is in a directory of the
test, and `./dev build` has been done. Prints TAP, a test for each line."""

import os
import pathlib
import pty
import re
import select
import sys
import tempfile
import termios
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "test" / "lib"))
import own_mounts  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
TIMEOUT = 400  # seconds for one line, on a busy machine
PROMPT = re.compile(r"<done (\d+)>")
SAYS = re.compile(r"\bprints `([^`]+)`")
ADDRESS = re.compile(r"<(http://127[^>]+)>")

# What is seen after the first line that begins so, beside what the page says in its own words.
SEEN = {
    "rota job explain": r"^waiting: no worker serves queue letters$",
    "rota job list --queue letters --state done": r"(?s)letters/\w{32}\t.*letters/\w{32}\t.*letters/\w{32}\t",
    "rota up --chaos": r"Dashboard: http://127\.0\.0\.1:\d+/",
    "printf 'user:1": r"^user:1\t([\d.:]+,){2}[\d.:]+\nuser:2\t([\d.:]+,){2}[\d.:]+$",
}


# --- the page ---

def read_tour():
    """Its lines of commands, each with the text up to the next one."""
    page = (SOURCE / "README.md").read_text()
    part = re.search(r"^## Five minutes\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)[1]
    tour = []
    for line in part.splitlines():
        if line.startswith("    "):
            tour.append([line.strip(), ""])
        elif tour:
            tour[-1][1] += line + "\n"
    return tour


def expected_of(command, text):
    """Patterns of what is seen after a line."""
    patterns = [pattern for start, pattern in SEEN.items() if command.startswith(start)]
    patterns += [rf"^{re.escape(said)}\s*$" for said in SAYS.findall(text)]
    return patterns


# --- the shell ---

class Terminal:
    def __init__(self, folder):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            attributes = termios.tcgetattr(0)
            attributes[3] &= ~termios.ECHO
            termios.tcsetattr(0, termios.TCSANOW, attributes)
            for name in [each for each in os.environ if each.startswith("ROTA_")]:
                del os.environ[name]
            os.environ.update(PS1="<done $?>", TERM="dumb", PWD=folder)
            os.chdir(folder)
            os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
        self.seen = ""
        self.read()

    def read(self):
        """Until the shell asks for more: its last result, and what was seen."""
        give_up_at = time.monotonic() + TIMEOUT
        while not (found := PROMPT.search(self.seen)):
            if not select.select([self.fd], [], [], max(0, give_up_at - time.monotonic()))[0]:
                raise AssertionError(f"it did not end in {TIMEOUT} s; seen: {self.seen}")
            self.seen += os.read(self.fd, 65536).decode(errors="replace").replace("\r\n", "\n")
        told, self.seen = self.seen[:found.start()], self.seen[found.end():]
        return int(found[1]), told

    def type(self, line):
        os.write(self.fd, line.encode() + b"\n")
        return self.read()


def make_place(folder):
    """A directory as a clone looks that was built here."""
    for name in ("examples", "README.md"):
        os.symlink(SOURCE / name, os.path.join(folder, name))
    os.symlink(BUILD, os.path.join(folder, "build"))
    dev = pathlib.Path(folder, "dev")
    dev.write_text(f"#!/bin/sh\n[ $# = 1 ] && {SOURCE}/dev help | grep -q \"^  $1 \"\n")
    dev.chmod(0o755)


# --- the tests ---

def check(terminal, folder, command, text):
    code, told = terminal.type(command.replace("/tmp/", folder + "/"))
    assert code == 0, f"exit code {code}: {told}"
    for pattern in expected_of(command, text):
        assert re.search(pattern, told, re.MULTILINE), f"not seen: {pattern} in: {told}"
    for address in ADDRESS.findall(text):
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            assert b"<!doctype html>" in answer.read().lower(), f"no page at {address}"


def check_factors(terminal, tour):
    """The page says by which factor a plan exceeds the least, in both modes."""
    page = " ".join(text for _, text in tour)
    said = re.search(r"here ([\d.]+) times, and ([\d.]+) in\s+mode `lookup`", page)
    assert said, "the page does not say it"
    (command,) = [line for line, _ in tour if line.startswith("rota plan") and "--add" in line]
    for mode, factor in zip(("slots", "lookup"), said.groups()):
        code, told = terminal.type(re.sub(r"--mode \w+", f"--mode {mode}", command))
        assert code == 0 and re.search(rf"\b{re.escape(factor)}\b", told), (mode, factor, told)


def check_all_are_there(tour):
    for start in SEEN:
        assert any(line.startswith(start) for line, _ in tour), f"the page has no line that begins: {start}"
    for word in (SAYS, ADDRESS):
        assert any(word.search(text) for _, text in tour), f"the page has nothing like {word.pattern}"


def main():
    tour = read_tour()
    with tempfile.TemporaryDirectory(prefix="rota-tour-", ignore_cleanup_errors=True) as folder:
        clone = os.path.join(folder, "rota")
        os.mkdir(clone)
        make_place(clone)
        terminal = Terminal(clone)
        tests = [("the lines that are looked at are on the page", lambda: check_all_are_there(tour))]
        tests += [(command, lambda command=command, text=text: check(terminal, folder, command, text))
                  for command, text in tour]
        tests += [("the factors of the plan are as the page says", lambda: check_factors(terminal, tour))]
        print(f"1..{len(tests)}", flush=True)
        failed = 0
        for number, (name, run) in enumerate(tests, 1):
            result = "ok"
            try:
                run()
            except (AssertionError, OSError, TypeError, ValueError) as error:
                failed += 1
                result = "not ok"
                print("".join(f"# {line}\n" for line in str(error).splitlines()), end="")
            print(f"{result} {number} - {name.replace('#', 'no.')}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    if not own_mounts.enter(*own_mounts.MACHINE):
        why = "the tour needs a network of its own, which this machine does not give"
        sys.exit(print(f"1..0 # SKIP {why}") or 0)
    own_mounts.raise_loopback()
    sys.exit(main())
