#!/usr/bin/env python3
"""Settings of queues, which are rows of the store or come from a file of dynamic settings:
test_queue_settings.py ROTAD ROTA. Prints TAP."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import databases  # noqa: E402
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


@contextlib.contextmanager
def node_of(folder, name, store):
    node = rotad.Node(ROTAD, folder, name, "--store", store, "--name", name, "--ttl", "2s", *rotad.ANY_PORTS)
    try:
        yield node
    finally:
        node.end()


@test
def a_node_that_joins_has_what_a_lost_node_was_asked_for():
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:{folder}/store.db"
        with node_of(folder, "first", store) as node:
            for queue in ("still", "wide"):
                run(node, "job", "add", "--queue", queue, "x")
            run(node, "queue", "pause", "still")
            run(node, "queue", "weight", "still", "--key", "heavy", "--weight", "300")
            run(node, "queue", "quarantine", "still", "--deaths", "7")
            run(node, "queue", "partitions", "wide", "24")
            run(node, "queue", "spread", "wide", "--batch", "8", "--mode", "slots", "--gradual", "10s")
            before = show(node, "wide")["change"]
            node.process.kill()
        with node_of(folder, "second", store) as node:  # it has a disk of its own
            still = show(node, "still")
            assert still["is_paused"] and still["worker_deaths"] == 7, still
            assert show(node, "wide")["change"] == before, show(node, "wide")
            await_layout([node], "wide", write=24, read=24, batch=8)  # it takes the last step
            run(node, "queue", "resume", "still")
            assert not show(node, "still")["is_paused"]


@test
def changes_at_two_nodes_are_both_kept():
    with rotad.cluster(ROTAD, 2) as nodes:
        with contextlib.ExitStack() as stack:
            asks = [stack.enter_context(subprocess.Popen([ROTA, "queue", "weight", "work", "--key", f"key-{i}", "--weight", "200", "--create",
                                                          "--node", nodes[i % 2].name], stdout=subprocess.DEVNULL))
                    for i in range(12)]
            assert [ask.wait(TIMEOUT) for ask in asks] == 12 * [0]
        run(nodes[0], "queue", "pause", "work")
        assert show(nodes[1], "work")["is_paused"]  # at once
        with open(nodes[0].data + ".log") as file:
            assert "settings of queue not applied" not in file.read()


@test
def without_the_store_nothing_is_changed_and_what_was_set_holds():
    try:
        with databases.open_database("postgres") as database, tempfile.TemporaryDirectory() as folder:
            with node_of(folder, "first", database.url) as node:
                run(node, "job", "add", "--queue", "work", "x")
                run(node, "queue", "pause", "work")
                database.stop()
                told = run(node, "queue", "resume", "work", code=1)
                assert "nothing was changed: settings of queues are in the store" in told, told
                assert show(node, "work")["is_paused"]
                run(node, "job", "list", "--queue", "work")
                database.start()
                rotad.await_true(lambda: subprocess.run([ROTA, "queue", "resume", "work", "--node", node.name],
                                                        capture_output=True).returncode == 0)
                assert not show(node, "work")["is_paused"]
    except databases.Absent as absent:
        raise tap.Skip(absent) from absent


if __name__ == "__main__":
    sys.exit(tap.run(names=sys.argv[3:]))
