#!/usr/bin/env python3
"""The pages that are to be pasted, line by line: test_tour.py BUILD_DIRECTORY [PAGE...].

The five-minute tour of README.md, and each docs/start-*.md; or the pages that are named, with the
programs on PATH if the directory has none. A shell in a terminal gets each line as
somebody would paste it, and each has to succeed; where the page says what is seen, that has to be
seen. It happens in a network of its own, for the pages name ports. Two things differ from what a
reader does: what would be below /tmp is in a directory of the test, and `./dev build` has been done.
Prints TAP, a test for each line."""

import contextlib
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
import tap  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
TIMEOUT = 400  # seconds for one line, on a busy machine
PROMPT = re.compile(r"<done (\d+)>")
SAYS = re.compile(r"\bprints `([^`]+)`")
ADDRESS = re.compile(r"<(http://127[^>]+)>")

# What is seen after a line that begins so, beside what the page says in its own words.
SEEN = {
    "rota job explain": r"^waiting: no worker serves queue letters$",
    "rota job list --queue letters --state done": r"(?s)letters/\w{32} .*letters/\w{32} .*letters/\w{32} ",
    "rota job add --queue letters --idempotency-key": r"^letters/\w{32}$",
    "until rota get ": r"^apple\tgreen\npear\tyellow\n",
    "rota get apple grape": r"^apple\tgreen\ngrape\tblue\n",
    "rota lease list": r"(?s)east +0 +held.*east +1 +held.*west +0 +held.*west +1 +held",
    "rota group status --name demo": r"^GROUP +demo\n|^p0: ",
    "until rota group status ": r"^GROUP +demo\n",
    "counter_client": r"^apples=1 ",
    "until shard_client": r"(\d+: hello\n){16}",
    "build/examples/shard_client": r"^(\d+: \w+\n){16}",
    "until build/examples/shard_client": r"(\d+: again\n){16}",
    "for name in ant bee": r"(?s)ant=1 .*bee=1 .*cat=1 .*dog=1 ",
    "for name in dog cat": r"(?s)dog=2 .*cat=2 .*bee=2 .*ant=2 ",
    "rota space show counters": r"^SHARDS\s+32",
    "rota shard explain counters": r"^WHY\s+shard 4 ",
    "for name in bee ant": r"(?s)bee=3 .*ant=3 .*dog=3 .*cat=3 ",
    "for name in cat dog": r"(?s)cat=4 .*dog=4 .*ant=4 .*bee=4 ",
    "rota up --chaos": r"(?s)Dashboard: http://127\.0\.0\.1:\d+/.*nothing lost",
}


# --- the pages ---

def read_page(page):
    """Its lines of commands, each with the text up to the next one."""
    text = page.read_text()
    if page.name == "README.md":
        text = re.search(r"^## Five-minute tour.*?\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)[1]
    tour = []
    for line in text.splitlines():
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
            os.environ.update(PS1="<done $?>", TERM="dumb", PWD=folder, HISTFILE="")
            os.environ["PATH"] = f"{BUILD}/src/cli:{BUILD}/src/node:" + os.environ["PATH"]
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

class Page:
    def __init__(self, path, terminal, folder):
        self.tour, self.terminal, self.folder, self.told = read_page(path), terminal, folder, {}

    def check(self, command, text):
        code, told = self.terminal.type(command.replace("/tmp/", self.folder + "/"))
        assert code == 0, f"exit code {code}: {told}"
        for pattern in expected_of(command, text):
            assert re.search(pattern, told, re.MULTILINE), f"not seen: {pattern} in: {told}"
        for address in ADDRESS.findall(text):
            with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
                assert b"<!doctype html>" in answer.read().lower(), f"no page at {address}"
        if "--idempotency-key" in command:
            job = told.split()[-1]
            assert self.told.setdefault(command, job) == job, f"{self.told[command]} and then {told}"


def check_all_are_there(tour):
    for start in SEEN:
        assert any(line.startswith(start) for line, _ in tour), f"no page has a line that begins: {start}"
    for word in (SAYS, ADDRESS):
        assert any(word.search(text) for _, text in tour), f"no page has anything like {word.pattern}"


def main():
    named = [pathlib.Path(name).resolve() for name in sys.argv[2:]]
    paths = named or [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("start-*.md"))]
    lines = sum((read_page(path) for path in paths), [])
    tests = [] if named else [("the lines that are looked at are on the pages", lambda: check_all_are_there(lines))]
    print(f"1..{len(lines) + len(tests)}", flush=True)
    with contextlib.ExitStack() as stack:
        for path in paths:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-tour-", ignore_cleanup_errors=True))
            clone = os.path.join(folder, "rota")
            os.mkdir(clone)
            make_place(clone)
            page = Page(path, Terminal(clone), folder)
            tests += [(f"{path.name}: {command}", lambda page=page, command=command, text=text: page.check(command, text))
                      for command, text in page.tour]
        failed = 0
        for number, (name, run) in enumerate(tests, 1):
            result, why = "ok", ""
            try:
                run()
            except (AssertionError, OSError, TypeError, ValueError) as error:
                failed += 1
                result, why = "not ok", error
            print(f"{result} {number} - {name.replace('#', 'no.')}")
            tap.show(why)
    return 1 if failed else 0


if __name__ == "__main__":
    if not own_mounts.enter(*own_mounts.MACHINE):
        why = "the tour needs a network of its own, which this machine does not give"
        sys.exit(print(f"1..0 # SKIP {why}") or 0)
    own_mounts.raise_loopback()
    own_mounts.mount_tmpfs("/run", "8m")  # nodes of other networks may have the same addresses, and a token each
    sys.exit(main())
