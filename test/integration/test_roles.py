#!/usr/bin/env python3
"""What nodes do beside queues, as a user sees it: test_roles.py ROTAD ROTA [NAME...].

Caches in shards that nodes divide, the front door for all keys, the directory, groups that are
watched. Prints TAP."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from test_rotad import ANY_PORTS, ROTA, TIMEOUT, Node, node, run, write

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import test  # noqa: E402
from watch import Watch  # noqa: E402

tap.TESTS.clear()  # those of test_rotad

CACHE = '[[cache]]\nname = "{0}"\nsource = "file:{1}/{0}"\nshards = {2}\n'


def rota(*words, code=0):
    done = subprocess.run([ROTA, *words], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == code, (words, done)
    return done.stdout


def await_true(folder, question):
    """Whatever changes is written into the store or a log in the folder, and nodes beat there."""
    with Watch(folder) as watch:
        assert watch.wait(question, TIMEOUT), question


def values(folder, name, n=50):
    with open(os.path.join(folder, name), "w") as file:
        file.writelines(f"{name}-{i}\t{i * i}\n" for i in range(n))


@contextlib.contextmanager
def nodes(folder, settings, n, *words):
    path = write(folder, settings)
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(node("--config", path, "--store", f"sqlite:{folder}/store.db", "--data",
                                         f"{folder}/data-{i}", *ANY_PORTS, *words, folder=folder)) for i in range(n)]
        assert all(one.ready for one in made), [one.seen for one in made]
        yield made


def held_leases(folder, cache):
    """By the table."""
    done = subprocess.run([ROTA, "lease", "list", "--store", f"sqlite:{folder}/store.db", "--space",
                           f"cache/{cache}", "--json"], capture_output=True, text=True, timeout=TIMEOUT)
    rows = json.loads(done.stdout)["leases"] if done.returncode == 0 else []
    return [row for row in rows if row["state"] == "held"]


def holders(folder, cache):
    """Who holds which shard."""
    return {row["shard"]: row["host"] for row in held_leases(folder, cache)}


@test
def any_node_answers_for_every_key():
    with tempfile.TemporaryDirectory(prefix="rota-roles-") as folder:
        values(folder, "fruit")
        values(folder, "trees")
        with nodes(folder, CACHE.format("fruit", folder, 3) + CACHE.format("trees", folder, 2), 2) as (one, two):
            for at in (one, two):
                asked = ["get", "--node", at.reach["grpc"], "--timeout", "60s"]
                assert rota(*asked, *(f"fruit-{i}" for i in range(50))) == \
                    "".join(f"fruit-{i}\t{i * i}\n" for i in range(50))
                assert rota(*asked, "--collection", "trees", "trees-7") == "trees-7\t49\n"
                assert rota(*asked, "trees-7", code=1) == ""  # the first one has no such key
                rota("get", "--node", at.reach["grpc"], "--timeout", "1s", "--collection", "none", "trees-7", code=1)

            def calls():
                return json.loads(one.get("/api/v1/calls")[1])["calls"]

            def held():
                found = {}
                for call in calls():
                    key = call["node"], call["collection"]
                    found[key] = found.get(key, 0) + call["n_shards"]
                return found

            def told():
                found = rota("directory", "get", "--node", two.reach["grpc"], "--collection", "cache/fruit", "--json")
                return {at["address"] for shard in json.loads(found)["shards"] for at in shard["nodes"]}

            await_true(folder, lambda: held() == {(at.reach["grpc"], name): shards for at in (one, two)
                                                  for name, shards in (("fruit", 3), ("trees", 2))})
            await_true(folder, lambda: told() == {call["replica"] for call in calls()
                                                  if call["collection"] == "fruit" and call["n_shards"]})
            for call in calls():
                buckets = call["latency"]["buckets"]
                assert call["circuit"] == "closed" and call["n_failed"] == 0, call
                assert sum(n for _, n in buckets) + call["n_cancelled"] + call["in_flight"] == call["n_calls"], call
            shown = json.loads(one.get("/api/v1/cluster")[1])
            assert {entry["address"] for entry in shown["nodes"]} == {one.reach["grpc"], two.reach["grpc"]}, shown


@test
def every_node_knows_the_owners_of_a_cache_in_each_zone():
    with tempfile.TemporaryDirectory(prefix="rota-roles-") as folder:
        values(folder, "fruit")
        config = write(folder, 'ttl = "1s"\n' + CACHE.format("fruit", folder, 3))
        with contextlib.ExitStack() as stack:
            def start(name, *words):
                made = stack.enter_context(node("--store", f"sqlite:{folder}/store.db", "--data",
                                                f"{folder}/{name}", *ANY_PORTS, *words, folder=folder))
                assert made.ready, made.seen
                return made

            other = start("other")  # has no cache, and does not know that there is one
            at = ["directory", "get", "--node", other.reach["grpc"], "--json", "--collection"]
            rota(*at, "cache/fruit", code=1)
            with_cache = ["--config", config, "--zone"]
            east, west = start("east", *with_cache, "east"), start("west", *with_cache, "west")

            def told():
                found = json.loads(rota(*at, "cache/fruit"))
                assert (found["space"], found["engine"]) == ("cache/fruit", "lease"), found
                return {(owner["zone"], shard["shard"]): (owner["address"], owner["epoch"])
                        for shard in found["shards"] for owner in shard["nodes"]}

            def by_table():
                return {(row["dc"], row["shard"]): (row["host"], row["epoch"]) for row in held_leases(folder, "fruit")}

            await_true(folder, lambda: len(by_table()) == 6 and told() == by_table())
            assert {address for address, _ in told().values()} == {east.reach["grpc"], west.reach["grpc"]}
            rota("directory", "get", "--node", other.reach["grpc"], "--collection", "cache/none", code=1)
            before = told()
            west.signal(signal.SIGKILL)  # its shards have no owner until another node of the zone takes them
            next_west = start("next", *with_cache, "west")

            def is_taken():
                now = told()
                return len(now) == 6 and {at for (zone, _), (at, _) in now.items() if zone == "west"} == {
                    next_west.reach["grpc"]}

            await_true(folder, is_taken)
            now = told()
            assert all(now[key][1] > before[key][1] if key[0] == "west" else now[key] == before[key] for key in now)


@test
def nodes_of_a_zone_divide_the_shards():
    with tempfile.TemporaryDirectory(prefix="rota-roles-") as folder:
        values(folder, "fruit")
        with nodes(folder, CACHE.format("fruit", folder, 4), 2) as (one, two):
            names = [one.reach["grpc"], two.reach["grpc"]]
            await_true(folder, lambda: sorted(holders(folder, "fruit").values()) == sorted(2 * names))
            two.signal(signal.SIGTERM)
            assert two.wait() == 0
            await_true(folder, lambda: list(holders(folder, "fruit").values()) == 4 * names[:1])


@test
def drained_node_has_no_shards_until_it_is_restored():
    with tempfile.TemporaryDirectory(prefix="rota-roles-") as folder:
        values(folder, "fruit")
        with nodes(folder, CACHE.format("fruit", folder, 2), 2) as (one, two):
            names = [one.reach["grpc"], two.reach["grpc"]]
            store = ["--store", f"sqlite:{folder}/store.db"]
            await_true(folder, lambda: set(holders(folder, "fruit").values()) == set(names))
            rota("node", "drain", *store, names[0])
            await_true(folder, lambda: list(holders(folder, "fruit").values()) == 2 * names[1:])
            assert rota("get", "--node", names[0], "--timeout", "60s", "fruit-3") == "fruit-3\t9\n"
            rota("node", "undrain", *store, names[0])
            await_true(folder, lambda: set(holders(folder, "fruit").values()) == set(names))


@test
def group_is_watched_from_when_it_is_there():
    with tempfile.TemporaryDirectory(prefix="rota-roles-") as folder:
        with nodes(folder, '[[group]]\nname = "flow"\n', 1) as (one,):
            def shown():
                return json.loads(one.get("/api/v1/groups")[1])["groups"][0]

            await_true(folder, lambda: "no such file" in (shown()["why_away"] or ""))
            task = subprocess.Popen([ROTA, "group", "join", "--log", f"sqlite:{folder}/groups.db", "--name", "flow",
                                     "--task", "ann", "--partitions", "2", "--rate", "50", "--simulate-splits", "2"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                await_true(folder, lambda: shown()["why_away"] is None and shown()["n_tasks"] == 1)

                def story():
                    return {part["name"]: part for part in
                            json.loads(one.get("/api/v1/groups/flow")[1])["partitions"]}

                await_true(folder, lambda: any(part["state"] == "removed" for part in story().values()) and
                           any(part["parents"] and part["ended_ms"] for part in story().values()))
                parts = story()
                assert parts["p0"]["parents"] == [] and parts["p0"]["owner"] == "ann", parts["p0"]
                for part in parts.values():
                    assert part["state"] in ("waiting", "running", "finished", "removed"), part
                    assert (part["ended_ms"] is not None) == (part["state"] in ("finished", "removed")), part
                    for parent in part["parents"] if part["started_ms"] else []:
                        assert parts[parent]["ended_ms"] <= part["started_ms"], (part, parts[parent])
                assert one.get("/api/v1/groups/none")[0] == 404
            finally:
                task.terminate()
                task.wait(TIMEOUT)


@test
def invalid_sections_are_refused():
    with tempfile.TemporaryDirectory(prefix="rota-roles-") as folder:
        values(folder, "fruit")
        for text, said in ((2 * CACHE.format("fruit", folder, 2), "[[cache]] on line 5: [[cache]] on line 1 already has the name fruit"),
                           (CACHE.format("fruit", folder, 2) + '[[space]]\nname = "fruit"\n', "already has the name fruit"),
                           ('[[cache]]\nname = "fruit"\n', "source"),
                           (CACHE.format("none", folder, 2), f"[[cache]] none: cannot read {folder}/none"),
                           ('[[cache]]\nname = "a,b"\nsource = "file:x"\n', "comma"),
                           ('[[cache]]\nname = "a"\nsource = "x"\n', "[[cache]] a: the source x must be file:FILE or sql:TABLE"),
                           ('[[group]]\nname = "g"\nlog = "ftp://x"\n', None)):
            done = run("--config", write(folder, text), *ANY_PORTS, "--check-config", folder=folder)
            if done.returncode == 0 and said:
                done = run("--config", write(folder, text), *ANY_PORTS, folder=folder)
            if said:
                last = done.stderr.splitlines()[-1]
                assert done.returncode in (1, 2) and last.startswith("rotad: ") and said in last, (text, done)
        with nodes(folder, '[[cache]]\nname = "t"\nsource = "sql:none"\n[[group]]\nname = "g"\nlog = "ftp://x"\n',
                   1) as (one,):
            one.await_line("cache rejected", "collection=t")
            assert any("group cannot be read" in line and "group=g" in line for line in one.seen), one.seen
            assert one.get("/readyz") == (200, "serving\n")  # what else it does continues


if __name__ == "__main__":
    sys.exit(tap.run(names=sys.argv[3:]))
