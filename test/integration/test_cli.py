#!/usr/bin/env python3
"""The program `rota` as a user runs it: test_cli.py ROTA DATA_DIR [TEST...].

Answers are checked against the vectors in test/data; bad input of every
command and file must give one sentence that names the culprit, exit code 2,
and nothing on standard output. The tests are in cli/, noun by noun. Prints TAP."""

import sys

sys.dont_write_bytecode = True
from cli import cache, config, directory, doctor, group, hosts, lease, members, plan, ring, route, shards, sim, space, usage  # noqa: E402, F401 (they register their tests)
from cli.support import tap  # noqa: E402

if __name__ == "__main__":
    sys.exit(tap.run(names=sys.argv[3:]))
