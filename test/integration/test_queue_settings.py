#!/usr/bin/env python3
"""Nodes that obey a file of dynamic settings: test_queue_settings.py ROTAD ROTA. Prints TAP."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import promise  # noqa: E402
import rotad  # noqa: E402
import tap  # noqa: E402
from tap import test  # noqa: E402

ROTAD, ROTA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TIMEOUT = 120


def counts(n):
    return f"matching.numTaskqueueWritePartitions = {n}\nmatching.numTaskqueueReadPartitions = {n}\n"


def replace(path, text):
    """At once, as an editor does."""
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def run(node, *words, code=0, data=None):
    done = subprocess.run([ROTA, *words, "--node", node.name], input=data, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == code, (words, done)
    return done.stdout if code == 0 else done.stderr


def show(node, queue):
    return json.loads(run(node, "queue", "show", queue, "--json"))


def await_layout(nodes, queue, **expected):
    for node in nodes:
        seen = {}
        rotad.await_true(lambda: seen.update(show(node, queue)) or expected.items() <= seen.items(),
                         lambda: (expected, seen))


def jobs_of(node, queue, state):
    lines = run(node, "job", "list", "--queue", queue, "--state", state, "--limit", "1000000", "--json").splitlines()
    return sorted(entry["job"] for entry in map(json.loads, lines) if "job" in entry)


@test
def queues_follow_the_file_step_by_step_and_lose_nothing():
    for durability in ("journal", "store"):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/queues.toml"
            replace(path, counts(8))
            with rotad.cluster(ROTAD, 2, "--queue-settings", path, "--durability", durability) as nodes:
                lines = "".join(f"{i}\n" for i in range(60))
                run(nodes[0], "job", "add", "--queue", "work", "--lines", "-", data=lines)
                added = jobs_of(nodes[0], "work", "waiting")
                assert len(added) == 60, len(added)
                await_layout(nodes, "work", write=8, read=8, partitions_from=f"{path}:1", spread_from="default")
                replace(path, "matching.spreadRoutingBatchSize = 4\n" + counts(16) + "[[override]]\nqueue = \"work\"\n" + counts(3))
                await_layout(nodes, "work", write=3, wanted=3, batch=4, partitions_from=f"{path}:6", spread_from=f"{path}:1")
                # Nodes are asked one after the other, and jobs move.
                rotad.await_true(lambda: jobs_of(nodes[1], "work", "waiting") == added, "all jobs listed once")
                run(nodes[1], "job", "add", "--queue", "other", "x")
                await_layout(nodes, "other", write=16, read=16, batch=4)
                with subprocess.Popen([ROTA, "work", "--node", nodes[0].name, "--queue", "work", "--", "true"],
                                      stderr=subprocess.DEVNULL) as worker:
                    run(nodes[0], "queue", "wait-empty", "work")
                    await_layout(nodes, "work", read=3)  # the partitions beyond are empty
                    done = jobs_of(nodes[1], "work", "done")
                    promise.check(set(added) == set(done), f"lost: {set(added) - set(done)}")
                    worker.terminate()
                replace(path, counts(32))
                await_layout(nodes, "other", write=32, read=32, batch=4, spread_from="set")
                await_layout(nodes, "work", write=32, read=32)


@test
def commands_cannot_change_what_the_file_sets():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/queues.toml"
        replace(path, "[[override]]\nqueue = \"work\"\n" + counts(8))
        with rotad.cluster(ROTAD, 1, "--queue-settings", path) as (node,):
            for queue in ("work", "free"):
                run(node, "job", "add", "--queue", queue, "x")
            told = run(node, "queue", "partitions", "work", "4", code=2)
            assert f"{path}:3 sets this for queue \"work\"; change it there" in told, told
            run(node, "queue", "spread", "work", "--batch", "2", "--mode", "slots")
            run(node, "queue", "partitions", "free", "4")
            await_layout([node], "work", write=8, batch=2, partitions_from=f"{path}:3", spread_from="set")
            await_layout([node], "free", write=4, partitions_from="set", spread_from="default")


@test
def a_file_with_an_error_changes_nothing():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/queues.toml"
        replace(path, "nonsense = 1\n")
        for words in ([], ["--check-config"]):
            done = subprocess.run([ROTAD, "--data", f"{folder}/data", "--queue-settings", path, *rotad.ANY_PORTS, *words],
                                  capture_output=True, text=True, timeout=TIMEOUT)
            assert done.returncode == 2 and f"{path}:1: " in done.stderr, done
        replace(path, counts(8))
        with rotad.cluster(ROTAD, 1, "--queue-settings", path) as (node,):
            run(node, "job", "add", "--queue", "work", "x")
            replace(path, "nonsense = 1\n")
            rotad.await_true(lambda: "config not updated" in open(node.data + ".log").read())
            await_layout([node], "work", write=8)


if __name__ == "__main__":
    sys.exit(tap.run(names=sys.argv[3:]))
