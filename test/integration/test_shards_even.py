"""Equal nodes get equal shares of the calls, however few are made at a time.

usage: test_shards_even.py DIRECTORY

Starts three nodes (shard_server) that are alike, and clients (even_client) that make 1, 2 or 16 calls
at a time, with connections that stand already or have to be made first, with pauses and without.
Each node must answer a third of a client's calls, 10 % more or less. A node that other programs keep
from running gets fewer calls, and should; so a client whose shares are not even is run twice more,
and the medians count: an unfair balancer is unfair every time. Results are TAP.
"""
import pathlib
import statistics
import subprocess
import sys

PROGRAMS = pathlib.Path(sys.argv[1])
NODES, DELAY_MS, SLOTS = 3, 4, 64
N_CALLS = {1: 600, 2: 900, 16: 9000}
HANG_S = 300


def start_node(node):
    process = subprocess.Popen([PROGRAMS / "shard_server", str(node), str(DELAY_MS), str(SLOTS)],
                               stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split("=", 1)[1].strip()


def start_client(addresses, at_once, pause_ms, state):
    words = [PROGRAMS / "even_client", N_CALLS[at_once], at_once, pause_ms, state, *addresses]
    return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)


def count(client, at_once):
    """How many calls each node answered; None if the client failed."""
    output, _ = client.communicate(timeout=HANG_S)
    counts = [int(word) for word in output.split()]
    return counts if client.returncode == 0 and sum(counts) == N_CALLS[at_once] else None


def is_even(counts, at_once):
    share = N_CALLS[at_once] / NODES
    return all(abs(n - share) <= share / 10 for n in counts)


def judge(client, addresses, case):
    runs = [count(client, case[0])]
    while runs[-1] and not is_even(runs[0], case[0]) and len(runs) < 3:
        runs.append(count(start_client(addresses, *case), case[0]))
    verdict = None not in runs and is_even([statistics.median(node) for node in zip(*runs)], case[0])
    at_once, pause_ms, state = case
    return verdict, f"{at_once} at a time, {state}, {pause_ms} ms apart: {runs}"


def main():
    nodes = [start_node(node) for node in range(1, NODES + 1)]
    addresses = [address for _, address in nodes]
    kinds = [(pause_ms, state) for pause_ms in (0, 3) for state in ("cold", "warm")]
    # The clients with few calls at a time hardly load the nodes and run side by side; the others
    # would disturb each other.
    batches = [[(at_once, *kind) for at_once in (1, 2) for kind in kinds]]
    batches += [[(16, *kind)] for kind in kinds]
    n_results = n_failed = 0
    try:
        for batch in batches:
            clients = [start_client(addresses, *case) for case in batch]
            for client, case in zip(clients, batch):
                verdict, name = judge(client, addresses, case)
                n_results += 1
                n_failed += not verdict
                print(f"{'ok' if verdict else 'not ok'} {n_results} - {name}", flush=True)
    finally:
        for process, _ in nodes:
            process.kill()
            process.wait()
    print(f"1..{n_results}")
    return n_failed > 0


if __name__ == "__main__":
    sys.exit(main())
