"""Tests that are Python functions, with results as TAP.

    @tap.test
    def the_rule_that_it_shows(): ...

    sys.exit(tap.run(names=sys.argv[2:]))

Why a test failed stands below its result, where test/outcome.py looks for it. What else may help
goes above: a test prints it itself.
"""
import time
import traceback

TESTS = []


class Skip(Exception):
    """This one can't run here; the text says why."""


def test(function):
    TESTS.append(function)
    return function


def show(*lines):
    """Comments."""
    print("".join(f"# {line}\n" for text in lines for line in str(text).splitlines()), end="", flush=True)


def call_test(function, *arguments):
    function(*arguments)


def run(*arguments, tests=TESTS, names=(), call=call_test, stops_at_failure=False):
    """Call all, or those that are named; gives the exit code."""
    chosen = [function for function in tests if not names or function.__name__ in names]
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    for number, function in enumerate(chosen, 1):
        result, note, why = "ok", "", ""
        began_at = time.monotonic()
        try:
            call(function, *arguments)
        except Skip as skip:
            note = f" # SKIP {skip}"
        except Exception:
            failed += 1
            result, why = "not ok", traceback.format_exc()
        show(f"{time.monotonic() - began_at:.1f} s")
        print(f"{result} {number} - {function.__name__}{note}", flush=True)
        show(why)
        if failed and stops_at_failure:
            break
    return 1 if failed or not chosen else 0
