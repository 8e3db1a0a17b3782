#!/usr/bin/env python3
"""Spaces of three nodes, as people run them: test_spaces.py ROTAD ROTA.

One cluster on one SQLite store lives through it all: shards are pinned, a node is killed, one
drains, engines are exchanged. Everybody who starts or stops a shard logs it, on the one clock
that this machine has, so that in the end it is known whether any shard ever had two owners.
What is waited for comes over the nodes' own streams. Prints TAP."""

import collections
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import promise  # noqa: E402
import tap  # noqa: E402
from tap import test  # noqa: E402

ROTAD, ROTA = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 120
SHARDS = 1000
FEW = 16
SETTINGS = f"""ttl = "5s"
drain-limit = "60s"
log-level = "debug"

[[space]]
name = "orders"
shards = {SHARDS}

[[space]]
name = "few"
shards = {FEW}
log = "sqlite:LOG"
"""


class Node:
    """A rotad, with a log in a file that later lives of it append to."""

    def __init__(self, folder, name, settings=SETTINGS):
        self.folder, self.name = os.path.join(folder, name), name
        os.mkdir(self.folder)
        with open(f"{self.folder}/rotad.toml", "w") as file:
            file.write(settings.replace("LOG", f"{folder}/log.db"))
        self.words = [ROTAD, "--config", "rotad.toml", "--store", f"sqlite:{folder}/store.db", "--http", "127.0.0.1:0",
                      "--workers", "127.0.0.1:0", "--name", name]
        self.grpc = "127.0.0.1:0"
        self.start()

    def start(self):
        with open(f"{self.folder}/log", "a") as log:
            self.process = subprocess.Popen([*self.words, "--listen", self.grpc], cwd=self.folder, text=True,
                                            stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), (line, self.log()[-2000:])
        reach = dict(word.split("=", 1) for word in line.split()[1:])
        self.grpc, self.http = reach["grpc"], reach["http"]

    def log(self):
        with open(f"{self.folder}/log") as file:
            return file.read()

    def kill(self):
        self.process.kill()
        return self.wait_end()

    def stop(self):
        self.process.terminate()
        return self.wait_end()

    def wait_end(self):
        """Returns the exit code. What it had when it was killed ended with it."""
        code = self.process.wait(TIMEOUT)
        self.process.stdout.close()
        with open(f"{self.folder}/log", "a") as log:
            log.write(f"ended {time.time_ns()}\n")
        return code

    def ask(self, path, body=None, with_token=True):
        connection = http.client.HTTPConnection(self.http, timeout=TIMEOUT)
        fields = {"Content-Type": "application/json"} if body is not None else {}
        if with_token:
            with open(f"{self.folder}/rota-data/token") as token:
                fields["Authorization"] = f"Bearer {token.read().strip()}"
        try:
            connection.request("GET" if body is None else "POST", path, headers=fields,
                               body=None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def rota(self, *words, code=0):
        done = subprocess.run([ROTA, *words, "--node", self.grpc], capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == code, (words, done)
        return done.stdout if code == 0 else done.stderr

    def follow(self, space):
        """The space as it is after each event of the stream: {shard: (owner, epoch, state)}."""
        connection = http.client.HTTPConnection(self.http, timeout=TIMEOUT)
        shards, event = {}, ""
        try:
            connection.request("GET", f"/api/v1/stream?space={space}")
            answer = connection.getresponse()
            for line in answer:
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "event":
                    event = value
                elif key == "data" and event == "space":
                    news = json.loads(value)
                    assert news["name"] == space, news
                    for shard, owner, epoch, state in news["changed"]:
                        shards[shard] = (news["nodes"][owner] if owner >= 0 else None, epoch, state)
                    yield dict(shards), news
        finally:
            connection.close()

    def wait_event(self, text):
        """Until the node's stream has an event with these words."""
        connection = http.client.HTTPConnection(self.http, timeout=TIMEOUT)
        try:
            connection.request("GET", "/api/v1/stream")
            for line in connection.getresponse():
                if text in line.decode():
                    return
        finally:
            connection.close()
        raise AssertionError(f"{self.name} ended its stream")

    def wait(self, space, is_so):
        """The space when it is so."""
        for shards, _ in self.follow(space):
            if is_so(shards):
                return shards
        raise AssertionError(f"{self.name} ended its stream")


class Cluster:
    def __enter__(self):
        self.place = tempfile.TemporaryDirectory(prefix="rota-spaces-")
        self.nodes = [Node(self.place.name, name) for name in "abc"]
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            if node.process.poll() is None:
                node.kill()
        self.place.cleanup()

    def names(self, *nodes):
        return {node.grpc for node in nodes or self.nodes}

    def settle(self, space, *nodes, but=lambda shards: True):
        """Wait until these nodes share the space, every one of them knows it, and all agree."""
        nodes = nodes or self.nodes
        names = self.names(*nodes)

        def is_so(shards):
            return ({owner for owner, _, _ in shards.values()} == names and
                    all(state == 0 for _, _, state in shards.values()) and but(shards))

        for _ in range(100):
            seen = [node.wait(space, is_so) for node in nodes]
            if all(shards == seen[0] for shards in seen):
                return seen[0]
        raise AssertionError(f"the nodes do not agree about {space}")


def share(shards, name):
    return {shard for shard, (owner, _, _) in shards.items() if owner == name}


# --- what was owned by whom, and when ---

LINE = re.compile(r'ts=(\S+) .*msg="shard (started|stopped)" space=(\S+) shard=(\d+) epoch=(\d+)')


def read_time(text):
    """Nanoseconds since 1970, of a moment as logs have it."""
    day, _, fraction = text.rstrip("Z").partition(".")
    seconds = time.mktime(time.strptime(day + "UTC", "%Y-%m-%dT%H:%M:%S%Z")) - time.timezone
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0") or 0)


def read_spans(node):
    """(space, shard, epoch, from, to, whether it ended with the node) of all that a node held."""
    held = {}

    def cut(end):
        yield from ((*key, epoch, since, end, True) for key, (epoch, since) in held.items())
        held.clear()

    for line in node.log().splitlines():
        if line.startswith("ended "):
            yield from cut(int(line.split()[1]))
        elif match := LINE.match(line):
            at, key, epoch = read_time(match[1]), (match[3], int(match[4])), int(match[5])
            if match[2] == "started":
                assert key not in held, (node.name, line)
                held[key] = epoch, at
            else:
                assert held[key][0] == epoch, (node.name, line)
                yield (*key, epoch, held.pop(key)[1], at, False)
    yield from cut(time.time_ns())


def check_spans(nodes):
    """Never two owners at a time, and never an epoch that is not above the one before. A process that lost the store
    for a while may start again under the same epoch (docs/spaces.md)."""
    spans = collections.defaultdict(list)
    for node in nodes:
        lives = 0
        for space, shard, epoch, since, to, has_ended in read_spans(node):
            spans[space, shard].append((since, to, epoch, f"{node.name}, life {lives}"))
            lives += has_ended
    for key, held in spans.items():
        held.sort()
        for before, after in zip(held, held[1:]):
            promise.check(before[1] <= after[0], f"{key} has two owners: {before}, {after}")
            is_same = before[2:] == after[2:]
            promise.check(is_same or before[2] < after[2], f"{key} has an epoch that does not grow: {before}, {after}")
    return spans


# --- tests ---

@test
def every_shard_is_owned_once(cluster):
    shards = cluster.settle("orders")
    assert sorted(shards) == list(range(SHARDS))
    assert all(len(share(shards, name)) > SHARDS / 10 for name in cluster.names()), shards
    for node in cluster.nodes:
        status, document = node.ask("/api/v1/spaces/orders", with_token=False)
        assert status == 200 and document["engine"] == "ring", document
        assert [document["nodes"][owner] for owner, _, _ in document["shards"]] == \
            [shards[shard][0] for shard in range(SHARDS)]
        assert dict(zip(document["nodes"], document["node_names"])) == {each.grpc: each.name for each in cluster.nodes}
        for owner in node.grpc, node.name:
            listed = json.loads(node.rota("shard", "list", "orders", "--owner", owner, "--json"))["shards"]
            assert {entry["shard"] for entry in listed} == share(shards, node.grpc)
            assert {(entry["owner"], entry["owner_name"]) for entry in listed} == {(node.grpc, node.name)}
        fields = node.rota("shard", "list", "orders", "--owner", node.name).splitlines()[0].split("\t")
        assert fields[2] == node.name and fields[-1] == node.grpc, fields
    shown = json.loads(cluster.nodes[0].rota("space", "show", "orders", "--json"))
    assert {entry["node"]: entry["n_owned"] for entry in shown["nodes"]} == \
        {name: len(share(shards, name)) for name in cluster.names()}, shown
    lines = cluster.nodes[0].rota("space", "show", "orders").splitlines()
    for node in cluster.nodes:
        assert f"node\t{node.name}\t{len(share(shards, node.grpc))}\t0\t{node.grpc}" in lines, lines
    names = [space["name"] for space in json.loads(cluster.nodes[1].rota("space", "list", "--json"))["spaces"]]
    assert names == ["few", "orders"], names
    held = int(re.search(r"rota_space_held{space=\"orders\"} (\d+)", metrics(cluster.nodes[0]))[1])
    assert held == len(share(shards, cluster.nodes[0].grpc))


def metrics(node):
    connection = http.client.HTTPConnection(node.http, timeout=TIMEOUT)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@test
def mistakes_change_nothing(cluster):
    one = cluster.nodes[0]
    before = one.ask("/api/v1/spaces/orders")[1]["shards"]
    assert "no space \"x\"" in one.rota("space", "show", "x", code=1)
    assert "0 to 999" in one.rota("shard", "explain", "orders", str(SHARDS), code=1)
    assert "nobody:1" in one.rota("shard", "pin", "orders", "3", "nobody:1", code=1)
    assert "unknown engine rign" in one.rota("space", "migrate", "orders", "rign", code=2)
    assert one.ask("/api/v1/spaces/orders/shards/1000")[0] == 404
    assert one.ask("/api/v1/spaces/x/shards/1")[0] == 404
    assert one.ask("/api/v1/spaces/orders/shards/-1")[0] == 400
    pin = "/api/v1/spaces/orders/shards/3/pin"
    assert one.ask(pin, {"node": one.grpc}, with_token=False)[0] == 401
    assert one.ask(pin, {"node": 5})[0] == 400
    assert one.ask(pin, {"nodes": "a:1"})[0] == 400
    assert one.ask("/api/v1/spaces/orders/migrate", {"engine": "rign"})[0] == 400
    assert one.ask("/api/v1/spaces/orders")[1]["shards"] == before


@test
def pin_moves_one_shard_only(cluster):
    one, two, three = cluster.nodes
    before = cluster.settle("orders")
    shard = min(share(before, one.grpc))
    follow = three.follow("orders")
    shards, news = next(follow)
    assert len(news["changed"]) == SHARDS  # all at first, and then only what changes
    said = two.rota("shard", "pin", "orders", str(shard), two.grpc, "--dry-run")
    assert f"from {one.name} to {two.name};" in said and said.count("\n") == 1, said
    two.rota("shard", "move", "orders", str(shard), two.name)
    while shards[shard][0] != two.grpc or shards[shard][2] != 0:
        shards, news = next(follow)
        assert {entry[0] for entry in news["changed"]} <= {shard}, news
    assert shards[shard][1] > before[shard][1], shards[shard]
    lines = one.rota("shard", "explain", "orders", str(shard)).splitlines()
    assert "is_pinned\tyes" in lines and f"owner\t{two.grpc}" in lines and f"owner_name\t{two.name}" in lines, lines
    assert any(line.startswith("change\t20") and f"\towned\t{two.name}\t" in line and line.endswith(f"\t{two.grpc}") for line in lines), lines
    explained = one.ask(f"/api/v1/spaces/orders/shards/{shard}")[1]
    assert explained["is_pinned"] and explained["owner"] == two.grpc, explained
    assert explained["owner_name"] == two.name and explained["history"][0]["owner_name"] == two.name, explained
    assert "pin" in explained["why"] and two.name in explained["why"] and two.grpc not in explained["why"] and explained["history"][0]["owner"] == two.grpc, explained
    status, plan = one.ask(f"/api/v1/spaces/orders/shards/{shard}/pin", {"node": None})
    assert status == 200 and plan["is_done"] and plan["plan"], plan
    for node, text in ((one, plan["plan"][0]), (two, f"shard {shard} ")):  # over HTTP and over gRPC
        events = node.ask("/api/v1/events?kind=operator")[1]["events"]
        assert any(text in event["text"] and event["subject"] == "orders" for event in events), events
    while shards[shard][0] != one.grpc or shards[shard][2] != 0:
        shards, news = next(follow)
        assert {entry[0] for entry in news["changed"]} <= {shard}, news
    follow.close()


@test
def killed_nodes_shards_go_elsewhere(cluster):
    *left, lost = cluster.nodes
    before = cluster.settle("orders")
    assert lost.kill() != 0
    after = cluster.settle("orders", *left)
    for shard, (owner, epoch, _) in before.items():
        if owner == lost.grpc:
            assert after[shard][1] > epoch, (shard, before[shard], after[shard])
        else:
            assert after[shard] == before[shard], (shard, before[shard], after[shard])
    lost.start()
    again = cluster.settle("orders")
    assert {shard: entry[0] for shard, entry in again.items()} == {shard: entry[0] for shard, entry in before.items()}


@test
def drained_node_owns_nothing(cluster):
    *left, one = cluster.nodes
    before = cluster.settle("orders")
    store = f"sqlite:{cluster.place.name}/store.db"
    subprocess.run([ROTA, "node", "drain", "--store", store, one.name], check=True, timeout=TIMEOUT,
                   stdout=subprocess.DEVNULL)
    names = cluster.names(*left)
    for node in cluster.nodes:  # the one that drains knows it, too
        node.wait("orders", lambda shards: {entry[0] for entry in shards.values()} == names and
                  all(entry[2] == 0 for entry in shards.values()))
    subprocess.run([ROTA, "node", "undrain", "--store", store, one.grpc], check=True, timeout=TIMEOUT,
                   stdout=subprocess.DEVNULL)
    after = cluster.settle("orders")
    assert share(after, one.grpc) == share(before, one.grpc)


@test
def node_that_stops_hands_over_first(cluster):
    *left, one = cluster.nodes
    cluster.settle("orders")
    assert one.stop() == 0
    ended_at = int(one.log().split()[-1])
    kept = [span for span in read_spans(one) if span[4] == ended_at]
    assert not kept, ("it ended with shards in its hands", kept)
    cluster.settle("orders", *left)
    one.start()
    cluster.settle("orders")


@test
def another_node_answers_for_spaces_it_does_not_have(cluster):
    other = Node(cluster.place.name, "d", 'ttl = "5s"\n')
    try:
        shards = other.wait("orders", lambda shards: len(shards) == SHARDS and
                            all(entry[2] == 0 for entry in shards.values()))
        assert {entry[0] for entry in shards.values()} == cluster.names()
        assert other.grpc not in other.rota("shard", "list", "orders")
    finally:
        assert other.stop() == 0


@test
def a_space_is_created_seated_and_deleted_by_command(cluster):
    one, two = cluster.nodes[:2]
    words = ["rooms", "--engine", "static", "--shards", "4", "--seats"]
    assert "would be created" in one.rota("space", "create", *words, f"{one.grpc},{two.grpc}", "--dry-run")
    assert "no space \"rooms\"" in one.rota("space", "show", "rooms", code=1)
    one.rota("space", "create", *words, f"{one.name},{two.grpc}")
    assert "exists already" in two.rota("space", "create", *words, one.grpc, code=1)
    other = Node(cluster.place.name, "e", SETTINGS + '\n[[space]]\nname = "rooms"\nengine = "lease"\nshards = 9\n')
    try:  # the store decides, not this file
        other.rota("space", "reseat", "rooms", f"{other.grpc},{two.name}")
        shards = two.wait("rooms", lambda shards: share(shards, other.grpc) == {0, 2})
        assert sorted(shards) == [0, 1, 2, 3], shards
        assert "engine\tstatic" in two.rota("space", "show", "rooms")
        assert re.search(rf"\b{other.name}\b", two.rota("space", "delete", "rooms", code=1)), "it has a member"
    finally:
        assert other.stop() == 0
    assert "would be deleted" in two.rota("space", "delete", "rooms", "--dry-run")
    two.rota("space", "delete", "rooms")
    assert "no space \"rooms\"" in two.rota("space", "delete", "rooms", code=1)
    for node in (one, two):
        node.wait_event("no longer exists")
        assert "no space \"rooms\"" in node.rota("space", "show", "rooms", code=1)
    one.rota("space", "create", "rooms", "--shards", "7")  # of another size
    assert len(two.wait("rooms", lambda shards: len(shards) == 7)) == 7
    one.rota("space", "delete", "rooms")


@test
def invalid_spaces_are_not_created(cluster):
    one = cluster.nodes[0]
    for words, name in ((["a b"], "1 to 200"), (["queues"], "is taken"), (["x" * 201], "1 to 200"), (["x", "--engine", "static"], "seats"),
                        (["x", "--seats", one.grpc], "seats"), (["x", "--engine", "lease", "--shards", "131072"], "65536"),
                        (["x", "--engine", "static", "--seats", ",,"], "entry 0")):
        assert name in one.rota("space", "create", *words, code=1 if name == "entry 0" else 2), words
    assert "no space \"x\"" in one.rota("space", "show", "x", code=1)


def migrate(cluster, space, engine):
    one = cluster.nodes[0]
    before = one.wait(space, lambda shards: all(entry[2] == 0 for entry in shards.values()))
    said = one.rota("space", "migrate", space, engine, "--dry-run")
    assert engine in said, said
    assert json.loads(one.rota("space", "show", space, "--json"))["engine"] != engine
    one.rota("space", "migrate", space, engine, "--shadow", "100ms", "--wait")
    shown = json.loads(one.rota("space", "show", space, "--json"))
    assert shown["engine"] == engine and shown["migration"] is None, shown
    for node in cluster.nodes:
        after = node.wait(space, lambda shards: all(entry[2] == 0 for entry in shards.values()))
        for shard, entry in before.items():
            assert after[shard][1] >= entry[1], (shard, entry, after[shard])
    return before, after


@test
def engine_is_exchanged_under_watch(cluster):
    migrate(cluster, "orders", "static")
    migrate(cluster, "orders", "ring")


@test
def orphaned_shadow_is_continued_or_cancelled_by_any_node(cluster):
    one, two = cluster.nodes[:2]

    def shadow(engine):
        one.rota("space", "migrate", "orders", engine, "--shadow", "1d")
        for node in (one, two):
            while "\tshadow\t" not in node.rota("space", "list"):
                pass

    shadow("static")
    two.rota("space", "migrate", "orders", "static", "--shadow", "100ms", "--wait")
    shadow("ring")
    assert "the shadow of ring ends" in two.rota("space", "migrate", "orders", "static")
    while "\tshadow\t" in one.rota("space", "list"):
        pass
    assert json.loads(two.rota("space", "show", "orders", "--json"))["engine"] == "static"
    migrate(cluster, "orders", "ring")


@test
def engines_of_every_kind_follow_each_other(cluster):
    before, after = migrate(cluster, "few", "lease")
    assert all(after[shard][1] > before[shard][1] for shard in before), (before, after)
    share = -(-FEW // len(cluster.nodes))  # nobody keeps more, though whoever came first could
    cluster.nodes[0].wait("few", lambda shards: all(entry[2] == 0 for entry in shards.values()) and max(
        collections.Counter(entry[0] for entry in shards.values()).values()) <= share)
    migrate(cluster, "few", "group")
    migrate(cluster, "few", "ring")


@test
def never_two_owners(cluster):
    for node in cluster.nodes:
        node.process.terminate()
    for node in cluster.nodes:
        assert node.wait_end() == 0, node.log()[-2000:]
    spans = check_spans(cluster.nodes)
    assert len(spans) == SHARDS + FEW, len(spans)
    moves = sum(len(held) - 1 for held in spans.values())
    assert moves > SHARDS, moves
    print(f"# {moves} moves of {len(spans)} shards")


with Cluster() as the_cluster:  # each test continues where the one before has ended
    CODE = tap.run(the_cluster, stops_at_failure=True)
sys.exit(CODE)
