#!/usr/bin/env python3
"""A tournament of Nim: one to three stones a turn; the player that takes the last one wins.

    tournament.py matches N    prints N matches, a line each: FIRST SECOND STONES SEED
    tournament.py match        reads a match, has the two programs play it, prints the winner
    tournament.py table        reads jobs as `rota job show --json` prints them, prints a table

`rota work` runs a match for each job. A player that breaks the rules or stops answering has lost; a
referee that cannot begin exits 75, and the job is tried again."""
import collections
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LATER, NEVER = 75, 65


def matches(n):
    for seed in range(n):
        players = ["clever", "careless"]
        print(*(players if seed % 2 else players[::-1]), 15 + seed % 7, seed)


def start(player, seed):
    program = os.path.join(HERE, f"tournament_{player}.sh")
    if not os.path.exists(program):
        print(f"there is no player {player}", file=sys.stderr)
        sys.exit(NEVER)
    try:
        return subprocess.Popen(["sh", program, seed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(LATER)


def ask(process, stones):
    """How many stones it takes; 0 if that breaks the rules."""
    try:
        process.stdin.write(f"{stones}\n")
        process.stdin.flush()
        take = int(process.stdout.readline())
    except (OSError, ValueError):
        return 0
    return take if 1 <= take <= min(3, stones) else 0


def match():
    words = sys.stdin.read().split()
    if len(words) != 4 or not words[2].isdigit():
        print("a match is FIRST SECOND STONES SEED", file=sys.stderr)
        sys.exit(NEVER)
    names, stones, seed = words[:2], int(words[2]), words[3]
    processes = [start(name, seed) for name in names]
    turn = 0
    while True:
        take = ask(processes[turn], stones)
        print(f"{names[turn]} takes {take} of {stones}", file=sys.stderr)  # the job's log
        stones -= take
        if take == 0:
            turn = 1 - turn
        if take == 0 or stones == 0:
            break
        turn = 1 - turn
    print(names[turn])
    for process in processes:
        process.kill()


def table():
    wins, played = collections.Counter(), collections.Counter()
    for line in sys.stdin:
        job = json.loads(line)
        winner = job["result"].strip()
        for player in ("clever", "careless"):
            played[player] += 1
        wins[winner] += 1
    print(f"{'player':10} {'played':>6} {'won':>5}")
    for player in sorted(played, key=lambda player: -wins[player]):
        print(f"{player:10} {played[player]:6} {wins[player]:5}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["matches"]:
        matches(int(sys.argv[2]))
    elif sys.argv[1:] == ["match"]:
        match()
    elif sys.argv[1:] == ["table"]:
        table()
    else:
        sys.exit(__doc__)
