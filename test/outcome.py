"""What became of the tests, by meson's logs (testlog.json) in the order of their runs.

    outcome.py counts LOG...   PASSED FAILED SKIPPED subtests; of a program that ran again its
                               last run counts
    outcome.py failed LOG...   a line for each program that failed in the end, and why
    outcome.py unsteady LOG... ... and that passed only when it ran again
    outcome.py again LOG...    the names of those that failed and may run again: programs
                               that start servers and processes, which a busy machine can starve
"""
import json
import re
import sys

BAD = {"FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS"}
SUBTEST = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$", re.MULTILINE)


class Run:
    """One run of one program."""

    def __init__(self, entry):
        self.suites, _, self.name = entry["name"].rpartition(" / ")
        self.is_bad = entry["result"] in BAD
        self.result = entry["result"].lower()
        self.passed, self.skipped, self.failed = 0, 0, []
        for is_not, text in SUBTEST.findall(entry.get("stdout") or ""):
            if re.search(r"#\s*skip", text, re.IGNORECASE):
                self.skipped += 1
            elif is_not:
                self.failed.append(text)
            else:
                self.passed += 1
        if not self.is_bad and not self.passed and not self.skipped:
            self.passed, self.skipped = (0, 1) if self.result == "skip" else (1, 0)

    def n_failed(self):
        """Subtests; one that crashed without a failed subtest has one."""
        return max(len(self.failed), 1) if self.is_bad else 0

    def why(self):
        return ", ".join(self.failed) or self.result


def read(paths):
    """Runs of each program, in order."""
    programs = {}
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                run = Run(json.loads(line))
                programs.setdefault((run.suites, run.name), []).append(run)
    return programs.values()


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("counts", "failed", "unsteady", "again"):
        sys.exit(__doc__)
    programs = read(sys.argv[2:])
    if sys.argv[1] == "counts":
        last = [runs[-1] for runs in programs]
        print(sum(run.passed for run in last), sum(run.n_failed() for run in last),
              sum(run.skipped for run in last))
    for runs in programs:
        if sys.argv[1] == "failed" and runs[-1].is_bad:
            print(f"{runs[-1].name}: {runs[-1].why()}")
        elif sys.argv[1] == "unsteady" and runs[0].is_bad and not runs[-1].is_bad:
            print(f"{runs[0].name}: {runs[0].why()}")
        elif sys.argv[1] == "again" and runs[-1].is_bad and "integration" in runs[-1].suites:
            print(runs[-1].name)


main()
