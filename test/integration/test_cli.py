#!/usr/bin/env python3
"""The program `rota` as a user runs it: test_cli.py ROTA DATA_DIR.

Answers are checked against the vectors in test/data; bad input of every
command and file must give one sentence that names the culprit, exit code 2,
and nothing on standard output. The tests are in cli/, noun by noun. Prints TAP."""

import sys
import traceback

sys.dont_write_bytecode = True
from cli import cache, config, directory, doctor, group, hosts, lease, members, plan, ring, route, shards, sim, space, support, usage  # noqa: E402, F401 (they register their tests)


def main():
    print(f"1..{len(support.TESTS)}")
    failed = 0
    for number, function in enumerate(support.TESTS, 1):
        name = function.__name__
        try:
            function()
            print(f"ok {number} {name}")
        except Exception:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print("#", line)
            print(f"not ok {number} {name}")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
