"""Whether outcome.py tells what failed from what passed: test_outcome.py. Results are TAP."""
import json
import pathlib
import subprocess
import sys
import tempfile

OUTCOME = pathlib.Path(__file__).resolve().parent.parent / "outcome.py"


def entry(name, result, *lines):
    return json.dumps({"name": "rota:" + name, "result": result, "stdout": "\n".join(lines)})


FIRST = [
    entry("unit / whole", "OK", "1..2", "ok 1 - a", "ok 2 - b # SKIP not here"),
    entry("unit / wrong", "FAIL", "ok 1 - a", "not ok 2 - b"),
    entry("integration / starved", "TIMEOUT", "ok 1 - a"),
    entry("integration+thread / broken", "ERROR", "not ok 1 - a", "not ok 2 - b"),
    entry("integration / absent", "SKIP", "1..0 # SKIP no server"),
    entry("headers / headers", "OK"),
]
SECOND = [
    entry("integration / starved", "OK", "ok 1 - a", "ok 2 - b"),
    entry("integration+thread / broken", "FAIL", "ok 1 - a", "not ok 2 - b"),
]


def ask(what, *runs):
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for run in runs:
            paths.append(pathlib.Path(directory) / str(len(paths)))
            paths[-1].write_text("\n".join(run) + "\n", encoding="utf-8")
        return subprocess.run([sys.executable, OUTCOME, what, *paths], check=True, text=True,
                              capture_output=True).stdout.split("\n")[:-1]


CHECKS = {
    "subtests_are_counted": (ask("counts", FIRST), ["4 4 2"]),
    "last_run_of_a_program_counts": (ask("counts", FIRST, SECOND), ["6 2 2"]),
    "only_programs_with_processes_run_again": (ask("again", FIRST), ["starved", "broken"]),
    "what_fails_again_has_failed": (ask("failed", FIRST, SECOND), ["wrong: b", "broken: b"]),
    "what_passes_then_is_unsteady": (ask("unsteady", FIRST, SECOND), ["starved: timeout"]),
    "run_without_a_failure_has_nothing_to_tell": (ask("failed", [FIRST[0]]), []),
}

print(f"1..{len(CHECKS)}")
is_bad = False
for number, (name, (got, want)) in enumerate(CHECKS.items(), 1):
    is_right = got == want
    is_bad |= not is_right
    print(f"{'ok' if is_right else 'not ok'} {number} - {name}")
    if not is_right:
        print(f"# got {got}, not {want}")
sys.exit(is_bad)
