"""What became of the tests, by meson's logs (testlog.json) in the order of their runs.

    outcome.py counts [--ci] LOG...    PASSED FAILED SKIPPED UNSTEADY subtests
    outcome.py failed [--ci] LOG...    a line for each program that failed; below it, indented, the
                                       first and last lines that it printed about each failed subtest,
                                       and what it wrote to standard error about the failure
    outcome.py unsteady [--ci] LOG...  ... that failed first and passed when it ran again, alone
    outcome.py again [--ci] LOG...     the names of those that failed and may run again

Only programs that start servers and processes may run again: a busy machine can starve them. A
subtest that passes then is unsteady, which is not a pass. Some failures have no such excuse: a
sanitizer's report, a crash, a failed assertion of our own, a job that is lost or doubled, two
owners (test/lib/promise.py). A program whose output has one of these has failed, even if it says
that it passed, and never runs again.

With --ci a program that skips itself has failed: there every server and tool has to be there.
"""
import json
import re
import signal
import sys

BAD = {"FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS"}
SUBTEST = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$", re.MULTILINE)
REASON = re.compile(r"^not ok\b.*\n((?:#.*\n?)+)", re.MULTILINE)
REASON_HEAD, REASON_TAIL, REASON_WIDTH = 2, 6, 400
COMPLAINT = re.compile(r"^ERROR: .*", re.MULTILINE)  # of cmocka: fail_msg() and print_error()
SKIPPED = re.compile(r"^1\.\.0\s*#\s*SKIP\s*(.*)$", re.MULTILINE | re.IGNORECASE)
CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}
UNEXCUSED = re.compile(
    r"(?:ERROR|WARNING): (?:Address|Leak|Memory|Thread|UndefinedBehavior)Sanitizer"
    r"|\S+:\d+(?::\d+)?: runtime error: .*"  # UndefinedBehaviorSanitizer
    r"|\S+:\d+: \w+: Assertion .* failed"
    r"|broken promise: .*")


def shorten(lines):
    """Node.js has the message first, Python last."""
    return lines if len(lines) <= REASON_HEAD + REASON_TAIL else lines[:REASON_HEAD] + lines[-REASON_TAIL:]


class Run:
    """One run of one program."""

    def __init__(self, entry, is_ci):
        out = entry.get("stdout") or ""
        self.suites, _, self.name = entry["name"].rpartition(" / ")
        self.is_bad = entry["result"] in BAD
        self.result = entry["result"].lower()
        self.passed, self.skipped, self.failed = 0, 0, []
        for is_not, text in SUBTEST.findall(out):
            if re.search(r"#\s*skip", text, re.IGNORECASE):
                self.skipped += 1
            elif is_not:
                self.failed.append(text)
            else:
                self.passed += 1
        if not self.is_bad and not self.passed and not self.skipped:
            self.passed, self.skipped = (0, 1) if self.result == "skip" else (1, 0)
        self.reasons = [line.rstrip()[:REASON_WIDTH] for line in self.find_reasons(out, entry.get("stderr") or "")]
        self.unexcused = self.find_unexcused(entry, out) if self.result != "expectedfail" else None
        self.is_bad |= self.unexcused is not None
        if is_ci and self.result == "skip":
            why = SKIPPED.search(out)
            self.is_bad, self.skipped = True, 0
            self.unexcused = "CI has to run it: " + (why[1] if why else "it was skipped")

    def find_reasons(self, out, errors):
        """A program that ends before its first subtest has nothing but its last words."""
        found = [line[1:] for block in REASON.findall(out) for line in shorten(block.splitlines())]
        if self.is_bad:
            lines = COMPLAINT.findall(errors) or ([] if self.failed else errors.splitlines()[-REASON_TAIL:])
            found += [" " + line for line in shorten(lines)]
        return found

    def find_unexcused(self, entry, out):
        """What no busy machine can cause; None if there is nothing."""
        code = entry.get("returncode", 0)
        if self.is_bad and self.result != "timeout" and -code in CRASHES:
            return signal.Signals(-code).name
        found = UNEXCUSED.search(out) or UNEXCUSED.search(entry.get("stderr") or "")
        return found[0] if found else None

    def n_failed(self):
        """Subtests; one that crashed without a failed subtest has one."""
        return max(len(self.failed), 1) if self.is_bad else 0

    def may_run_again(self):
        return self.is_bad and not self.unexcused and "integration" in self.suites

    def report(self):
        """What failed, and below it what the program said about it."""
        return "\n ".join([f"{self.name}: {self.why()}", *self.reasons])

    def why(self):
        return ", ".join([*(self.failed or [self.result]), *([self.unexcused] if self.unexcused else [])])


class Program:
    """All runs of one program, in order. The last one counts."""

    def __init__(self):
        self.runs = []

    def last(self):
        return self.runs[-1]

    def is_unsteady(self):
        return self.runs[0].is_bad and not self.last().is_bad

    def n_unsteady(self):
        return self.runs[0].n_failed() if self.is_unsteady() else 0

    def n_passed(self):
        return max(self.last().passed - self.n_unsteady(), 0)


def read(paths, is_ci):
    programs = {}
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                run = Run(json.loads(line), is_ci)
                programs.setdefault((run.suites, run.name), Program()).runs.append(run)
    return programs.values()


def main():
    what, *paths = sys.argv[1:] or [None]
    is_ci = "--ci" in paths
    paths = [path for path in paths if path != "--ci"]
    if not paths or what not in ("counts", "failed", "unsteady", "again"):
        sys.exit(__doc__)
    programs = read(paths, is_ci)
    if what == "counts":
        print(sum(program.n_passed() for program in programs), sum(program.last().n_failed() for program in programs),
              sum(program.last().skipped for program in programs), sum(program.n_unsteady() for program in programs))
    for program in programs:
        first, last = program.runs[0], program.last()
        if what == "failed" and last.is_bad:
            print(last.report())
        elif what == "unsteady" and program.is_unsteady():
            print(first.report())
        elif what == "again" and last.may_run_again():
            print(last.name)


main()
