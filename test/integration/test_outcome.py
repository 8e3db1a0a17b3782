"""Whether outcome.py tells what failed from what passed: test_outcome.py. Results are TAP."""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import promise  # noqa: E402

OUTCOME = pathlib.Path(__file__).resolve().parent.parent / "outcome.py"


def entry(name, result, *lines, code=1, stderr=""):
    return json.dumps({"name": "rota:" + name, "result": result, "returncode": code,
                       "stdout": "\n".join(lines), "stderr": stderr})


FIRST = [
    entry("unit / whole", "OK", "1..2", "ok 1 - a", "ok 2 - b # SKIP not here", code=0),
    entry("unit / wrong", "FAIL", "ok 1 - a", "not ok 2 - b"),
    entry("integration / starved", "TIMEOUT", "ok 1 - a", code=-15),
    entry("integration+thread / broken", "ERROR", "not ok 1 - a", "not ok 2 - b"),
    entry("integration / absent", "SKIP", "1..0 # SKIP no server", code=0),
    entry("headers / headers", "OK", code=0),
]
SECOND = [
    entry("integration / starved", "OK", "ok 1 - a", "ok 2 - b", code=0),
    entry("integration+thread / broken", "FAIL", "ok 1 - a", "not ok 2 - b"),
]


def ask(what, *runs):
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for run in runs:
            paths.append(pathlib.Path(directory) / str(len(paths)))
            paths[-1].write_text("\n".join(run) + "\n", encoding="utf-8")
        return subprocess.run([sys.executable, OUTCOME, *what.split(), *paths], check=True, text=True,
                              capture_output=True).stdout.split("\n")[:-1]


def broken_promise():
    try:
        promise.check(False, "job 7 was done twice")
    except promise.Broken as error:
        return f"# promise.Broken: {error}"


# As the programs print them, or those that they started.
UNEXCUSED = {
    "AddressSanitizer": "==41==ERROR: AddressSanitizer: heap-use-after-free on address 0x60",
    "LeakSanitizer": "# rota get: ==42==ERROR: LeakSanitizer: detected memory leaks",
    "ThreadSanitizer": "WARNING: ThreadSanitizer: data race (pid=43)",
    "UndefinedBehaviorSanitizer": "../src/wire/http2/hpack.c:70:5: runtime error: shift exponent 64 is too large",
    "failed_assertion": "rotad: ../src/core/own/view_fsm.c:88: settle: Assertion `n > 0' failed.",
    "broken_promise": broken_promise(),
}

CHECKS = {
    "subtests_are_counted": (ask("counts", FIRST), ["4 4 2 0"]),
    "last_run_of_a_program_counts_and_passing_then_is_no_pass": (ask("counts", FIRST, SECOND), ["5 2 2 1"]),
    "only_programs_with_processes_run_again": (ask("again", FIRST), ["starved", "broken"]),
    "what_fails_again_has_failed": (ask("failed", FIRST, SECOND), ["wrong: b", "broken: b"]),
    "what_passes_then_is_unsteady": (ask("unsteady", FIRST, SECOND), ["starved: timeout"]),
    "reasons_stand_below_what_failed": (
        ask("failed", [entry("unit / wrong", "FAIL", "# 1 s", "ok 1 - a", "# of a", "not ok 2 - b",
                             *(f"# line {i}" for i in range(9)), "# 2 s", "not ok 3 - c", "# why", "ok 4 - d", "# of d")]),
        ["wrong: b, c", *(f"  line {i}" for i in (0, 1, 4, 5, 6, 7, 8)), "  2 s", "  why"]),
    "complaints_on_standard_error_are_shown": (
        ask("failed", [entry("unit / wrong", "FAIL", "not ok 1 - a", "# x.c:1: error: Failure!",
                             stderr="ts=1 msg=ready\nERROR: waited in vain: 1 of 2\nts=2 msg=bye\n"),
                       entry("unit / ended", "ERROR", stderr="Traceback\nTypeError: no")]),
        ["wrong: a", "  x.c:1: error: Failure!", "  ERROR: waited in vain: 1 of 2", "ended: error", "  Traceback",
         "  TypeError: no"]),
    "run_without_a_failure_has_nothing_to_tell": (ask("failed", [FIRST[0]]), []),
    "ci_runs_every_program": (ask("counts --ci", FIRST), ["4 5 1 0"]),
    "ci_says_what_it_could_not_run": (ask("failed --ci", [FIRST[4]]), ["absent: skip, CI has to run it: no server"]),
    "ci_runs_nothing_again_that_was_skipped": (ask("again --ci", [FIRST[4]]), []),
    "crash_has_no_excuse": (ask("again", [entry("integration / crashed", "ERROR", "ok 1 - a", code=-11)]), []),
}
for kind, line in UNEXCUSED.items():
    in_output = entry("integration / bad", "FAIL", "not ok 1 - a", line)
    in_errors = entry("integration / bad", "FAIL", "not ok 1 - a", stderr=line)
    passes = entry("integration / bad", "OK", "ok 1 - a", line, code=0)
    CHECKS[f"{kind}_never_runs_again"] = (ask("again", [in_output]) + ask("again", [in_errors]), [])
    CHECKS[f"{kind}_is_named"] = (len(ask("failed", [in_output])[0]) > len("bad: a, "), True)
    CHECKS[f"{kind}_fails_a_program_that_says_it_passed"] = (ask("counts", [passes]), ["1 1 0 0"])
    planted = entry("unit / planted", "EXPECTEDFAIL", "not ok 1 - a", line)
    CHECKS[f"{kind}_may_be_planted"] = (ask("failed", [planted]), [])

print(f"1..{len(CHECKS)}")
is_bad = False
for number, (name, (got, want)) in enumerate(CHECKS.items(), 1):
    is_right = got == want
    is_bad |= not is_right
    print(f"{'ok' if is_right else 'not ok'} {number} - {name}")
    if not is_right:
        print(f"# got {got}, not {want}")
sys.exit(is_bad)
