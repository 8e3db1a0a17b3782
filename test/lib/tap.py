"""Tests that are Python functions, told as TAP.

    @tap.test
    def the_rule_that_it_shows(): ...

    sys.exit(tap.run(names=sys.argv[2:]))
"""
import time
import traceback

TESTS = []


class Skip(Exception):
    """This one can't run here; the text says why."""


def test(function):
    TESTS.append(function)
    return function


def run(*arguments, names=(), stops_at_failure=False):
    """Call all, or those that are named; gives the exit code."""
    chosen = [function for function in TESTS if not names or function.__name__ in names]
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    for number, function in enumerate(chosen, 1):
        result, note, reason = "ok", "", ""
        began_at = time.monotonic()
        try:
            function(*arguments)
        except Skip as reason:
            note = f" # SKIP {reason}"
        except Exception:
            failed += 1
            result = "not ok"
            reason = "".join(f"# {line}\n" for line in traceback.format_exc().splitlines())
        print(f"# {time.monotonic() - began_at:.1f} s\n{result} {number} - {function.__name__}{note}\n{reason}",
              end="", flush=True)
        if failed and stops_at_failure:
            break
    return 1 if failed or not chosen else 0
