#!/usr/bin/env python3
"""What a request may cost the node that answers it: test_costs.py ROTAD ROTA.

A node lives on one thread. Each request, of every method that the node lists in its reflection and of every route,
is made as large as its bounds allow; the time that this thread computed for it is compared with a bound, and another
client is answered meanwhile. It is CPU time, not time on the wall: a machine that has much else to do changes nothing.
Operators and nodes have methods of their own; others call them, too, and are refused. Prints TAP."""

import http.client
import json
import os
import pathlib
import queue
import re
import sqlite3
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import grpc_raw  # noqa: E402
import rotad  # noqa: E402
from grpc_raw import fields, message  # noqa: E402

ROTAD = os.path.abspath(sys.argv[1])
SHARDS, CATALOG = 131072, 4096
QUEUES = 99000
ENDED = 100000  # jobs that a node remembers
MESSAGE = 20 << 20  # that a node reads, where its method says nothing else
KEYS = 65536  # of a Get
SETTINGS = f"""[[space]]
name = "large"
shards = {SHARDS}

[[space]]
name = "catalog"
shards = {CATALOG}

[[cache]]
name = "values"
source = "file:%s"
shards = 1
"""
HELD_MAX = 0.1  # seconds of the loop's thread for one request
ITSELF = 0.02  # the share of a core that its heartbeats and views of so many shards take, twice what was measured


def is_slow():
    with open(ROTAD, "rb") as program:
        return b"__asan_init" in (content := program.read()) or b"__tsan_init" in content


LIMIT = HELD_MAX * (20 if is_slow() else 1)


def name(number, size=64):
    return f"{number:0{size}d}"


def http_cases(node):
    many = [{"name": f"10.{i // 250}.{i % 250}.1:7700", "weight": 100, "zone": name(i, 200)} for i in range(1000)]
    job = node.post("/api/v1/queues/q/jobs", {"payload": "x"})["id"]
    for path in ("/healthz", "/readyz", "/metrics"):
        yield "GET", path, None
    for path in ("", "/openapi.json", "/node", "/cluster", "/events", "/queues", "/queues/q", "/calls", "/groups",
                 "/groups/none", "/ledger", "/spaces", "/spaces/large", "/spaces/large/shards/7", "/workers",
                 "/queues/q/jobs?state=waiting&limit=1000", "/queues/q/jobs/" + job):
        yield "GET", "/api/v1" + path, None
    yield "POST", "/api/v1/queues/q/pause", None
    yield "POST", "/api/v1/queues/q/resume", None
    for verb in ("cancel", "retry"):
        yield "POST", f"/api/v1/queues/q/jobs/{job}/{verb}", None
    yield "POST", "/api/v1/queues/q/jobs", {"payload": "x" * 1000000}
    yield "POST", "/api/v1/queues/q/jobs", {"can": [name(i) for i in range(14000)]}
    yield "POST", "/api/v1/plan", {"add": many}
    yield "POST", "/api/v1/plan", {"remove": [node.name] * 50000}
    yield "POST", "/api/v1/plan", {"counts": {"q": 65536}}
    yield "POST", "/api/v1/plan/apply", {"counts": {"q": 8}}
    yield "GET", "/api/v1/plans/1", None
    yield "POST", "/api/v1/spaces/large/shards/7/pin", {"node": node.name, "is_dry_run": True}
    yield "POST", "/api/v1/spaces/large/migrate", {"engine": "lease", "is_dry_run": True}
    for verb in ("evict", "drain", "undrain"):
        yield "POST", f"/api/v1/nodes/{node.name}/{verb}", {"is_dry_run": True}


def grpc_cases():
    """Method, request, and whether it is answered with a message."""
    job = message(_1="q", _2=b"x" * 4000, _4=[name(i) for i in range(16)], _14=b"", _15=b"k" * 256, _16=b"t" * 256)
    ident = bytes(16)
    jobs = "/rota.v1.Queue/"
    yield jobs + "Add", message(_1=message(_1="q", _2=b"x" * (16 << 20))), True
    yield jobs + "AddBatch", message(_1=[job] * 3500), True
    yield jobs + "AddBatch", message(_1=[message(_1="q")] * 4096), True
    yield jobs + "AddBatch", message(_1=[message(_1="q")] * 4097), False
    yield jobs + "List", message(_1="q", _2=1, _3=1000), True
    yield jobs + "Describe", message(_1="q", _2=ident, _3=1, _4=1), False
    yield jobs + "Poll", message(_1=[name(i) for i in range(64)], _2=[name(i) for i in range(256)], _3=1000, _5=1), True
    yield jobs + "Poll", message(_1="q", _2=[name(i) for i in range(256)], _3=1000, _5=1), True
    yield jobs + "CompleteBatch", message(_1=[message(_1="q", _2=ident, _3=1, _4=b"r" * 4000)] * 4096), True
    yield jobs + "Complete", message(_1="q", _2=ident, _3=1, _4=b"r" * (16 << 20)), False
    yield jobs + "Fail", message(_1="q", _2=ident, _3=1, _4=b"r" * (16 << 20)), False
    yield jobs + "Extend", message(_1="q", _2=ident, _3=1, _4=b"p" * (16 << 20)), False
    yield jobs + "Cancel", message(_1="q", _2=ident), False
    yield jobs + "Retry", message(_1="q", _2=ident), False
    yield jobs + "SetPriority", message(_1="q", _2=ident, _3=9), False
    yield jobs + "Queues", b"", True
    yield jobs + "Workers", b"", True
    yield jobs + "Nodes", b"", True
    yield jobs + "Add", b"\x0a\x00" * (4 << 20), False  # a field that comes again and again
    yield jobs + "Poll", b"\x0a\x00" * (8 << 20), False
    yield "/rota.v1.Space/List", b"", True
    yield "/rota.v1.Space/Show", message(_1="large"), True
    yield "/rota.v1.Space/Explain", message(_1="large", _2=SHARDS - 1), True
    yield "/rota.v1.Nodes/Show", b"", True
    yield "/rota.v1.Nodes/Documents", message(_1=["cluster", "queues", "spaces", "calls", "groups"] * 6), True
    yield "/rota.v1.Directory/GetSpace", message(_1="catalog"), True
    yield "/rota.v1.Directory/GetSpace", message(_1="large"), True
    yield "/rota.v1.Directory/GetSpace", message(_1="s" * (15 << 20)), False
    keys = message(_1=[b"%d" % i for i in range(KEYS)])
    for method in ("Get", "Relay"):
        yield "/rota.v1.Cache/" + method, keys, True
        yield "/rota.v1.Cache/" + method, b"\x0a\x00" * (8 << 20), False
    yield "/grpc.health.v1.Health/Check", message(_1=b"s" * (15 << 20)), False


def operator_cases(node):
    text, many = b"x" * (MESSAGE - 100), ",".join([node.name] * 1024)
    jobs, nodes, spaces = "/rota.v1.Queue/", "/rota.v1.Nodes/", "/rota.v1.Space/"
    yield jobs + "Pause", message(_1="q", _2=0), True
    yield jobs + "SetWeight", message(_1="q", _2=b"k" * 256, _3=1000000), True
    yield jobs + "SetWeight", message(_1="q", _2=b"k" * (16 << 20), _3=1), False
    yield jobs + "SetQuarantine", message(_1="q", _2=1000), True
    yield jobs + "SetLayout", message(_1="q", _2=65536, _3=1, _4=512, _5=1, _6=1), True
    yield jobs + "SetLayout", message(_1="wide", _2=65536, _3=1, _4=512, _5=1), True
    yield jobs + "DeleteQueue", message(_1="ended"), True
    yield jobs + "Forget", message(_1="192.0.2.1:7700"), False
    for method in ("Drain", "Undrain", "Evict"):
        yield nodes + method, message(_1=node.name, _2=1), True
        yield nodes + method, message(_1=text), False
    yield nodes + "Weigh", message(_1=node.name, _2=100000), True
    yield spaces + "Pin", message(_1="large", _2=SHARDS - 1, _3=node.name), True
    yield spaces + "Pin", message(_1="large", _2=SHARDS - 1), True
    yield spaces + "Migrate", message(_1="large", _2="lease", _3=1), False  # that many shards it can't have
    yield spaces + "Migrate", message(_1="large", _2="static", _3=1), True
    yield spaces + "Migrate", message(_1="catalog", _2="lease", _3=1), False
    yield spaces + "Reseat", message(_1="large", _2=many, _3=1), True
    yield spaces + "Reseat", message(_1="catalog", _2="n0," * (MESSAGE // 3 - 100)), False
    yield spaces + "Create", message(_1="s" * 200, _3=SHARDS), True
    yield spaces + "Delete", message(_1="s" * 200), True
    yield spaces + "Delete", message(_1=text), False


def node_cases(node):
    """What nodes ask each other."""
    jobs, ident = "/rota.peer.v1.QueuePeer/", bytes(16)
    word = message(_2="192.0.2.1:7700", _3="q", _4="".join(name(i, 63) + " " for i in range(256)), _5=1, _6=1)
    yield "/rota.peer.v1.NodePeer/Report", message(_1=1), True
    yield jobs + "Find", message(_1=[message(_1="q", _2=ident)] * 4096), True
    yield jobs + "Tell", message(_1=[word] * (MESSAGE // (len(word) + 5))), True
    yield jobs + "Visit", message(_1="192.0.2.1:7700", _2="q", _4=4096), False
    yield jobs + "Holders", message(_2=[message(_1=f"192.0.2.1:{i}") for i in range(1, 1025)]), True
    yield jobs + "Changed", message(_1=1, _2="q"), True
    yield jobs + "Look", b"", True
    yield jobs + "Adopt", message(_1=ident, _2="q", _4=b"r" * (MESSAGE - 100)), False


def stream_cases(client, other):
    """Until the first message comes."""
    def watch_queue():
        stream = client.start("/rota.v1.Queue/Watch", message(_1="q"))
        assert other.call("/rota.v1.Queue/AddBatch", message(_1=[message(_1="q")] * 4096)) is not None
        return client.await_first(stream)

    yield "/rota.v1.Queue/Watch", watch_queue
    service, reflection = b"s" * (15 << 20), "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    for method, *requests in (
            ("/rota.v1.Nodes/Events", message(_2=["node"] * 4096)),
            ("/rota.v1.Directory/WatchSpace", message(_1="large")),
            ("/grpc.health.v1.Health/Watch", b""),
            (reflection, message(_4=service)),
            (reflection, *[message(_4="rota.v1.Queue")] * 20000)):
        yield method, lambda a=(method, *requests): client.await_first(client.start(*a))


def served_methods(client):
    """Their paths, as reflection describes them."""
    def ask(**question):
        return dict(fields(client.call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", message(**question))))

    paths = set()
    for _, service in fields(ask(_7="")[6]):
        full = dict(fields(service))[1].decode()
        (_, file), *_ = fields(ask(_4=full)[4])
        described = (dict(parts := fields(text)) | {2: [value for key, value in parts if key == 2]}
                     for key, text in fields(file) if key == 6)
        paths |= {f"/{full}/{dict(fields(method))[1].decode()}" for entry in described
                  if full.endswith("." + entry[1].decode()) for method in entry[2]}
    return paths


def left_out(node, client, asked):
    """Methods and routes of which no request is measured."""
    paths = [what.split()[1] for what in asked if not what.startswith("/")]
    routes = [route["path"] for route in node.get("/api/v1")["routes"]]
    return sorted(served_methods(client) - {what.split()[0] for what in asked}) + \
        [route for route in routes if not any(
            re.fullmatch(route.replace("*", "[^/]+"), path.split("?")[0]) for path in paths)]


def secret_of(node):
    """That of the cluster, with which nodes call each other."""
    with sqlite3.connect(f"file:{os.path.dirname(node.data)}/store.db?mode=ro", uri=True) as store:
        return store.execute("SELECT value FROM rota_secrets WHERE name = 'cluster'").fetchone()[0]


def end_jobs(client):
    """As many as a node remembers."""
    for first in range(0, ENDED, 4000):
        assert client.call("/rota.v1.Queue/AddBatch", message(_1=[message(_1="ended")] * 4000)) is not None
        for _ in range(4):
            handed = fields(client.call("/rota.v1.Queue/Poll", message(_1="ended", _3=1000, _5=60000)))
            ends = [dict(fields(job)) for _, job in handed]
            assert client.call("/rota.v1.Queue/CompleteBatch", message(
                _1=[message(_1=end[1], _2=end[2], _3=end[3]) for end in ends])) is not None


def ask_stream(node):
    """Until the stream has sent the queues."""
    connection = http.client.HTTPConnection(node.reach["http"], timeout=rotad.TIMEOUT)
    connection.request("GET", "/api/v1/stream")
    stream = connection.getresponse()
    while (line := stream.readline()) and line != b"event: queues\n":
        pass
    connection.close()
    assert line, "the stream ended"


def fill_queues(client):
    """As many queues as a broker may have, but for a few."""
    for first in range(0, QUEUES, 4096):
        jobs = [message(_1=name(i)) for i in range(first, min(first + 4096, QUEUES))]
        assert client.call("/rota.v1.Queue/AddBatch", message(_1=jobs)) is not None


def cases_of_many_queues(node, client, operator):
    """What asks about all queues when there are very many."""
    for path in ("/metrics", "/api/v1/queues", "/api/v1/queues?max=1000&after=" + name(QUEUES // 2), "/api/v1/cluster"):
        yield f"GET {path}", lambda path=path: ask_http(node, "GET", path, None)
    yield "GET /api/v1/stream", lambda: ask_stream(node)
    for method, request in (("/rota.v1.Queue/Queues", b""), ("/rota.v1.Queue/Nodes", b""), ("/rota.v1.Nodes/Show", b""),
                            ("/rota.v1.Nodes/Documents", message(_1=["cluster", "queues"])),
                            ("/rota.v1.Nodes/Drain", message(_1=node.name, _2=1)),
                            ("/rota.v1.Queue/AddBatch", message(_1=[message(_1=name(i)) for i in range(4096)]))):
        yield method, lambda a=(operator, method, request, True): ask_grpc(*a)


class Meter:
    """What the node's loop computes, and whether others are answered."""

    def __init__(self, node):
        self.node, self.asks, self.answers = node, queue.Queue(), queue.Queue()
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        connection = http.client.HTTPConnection(self.node.reach["http"], timeout=rotad.TIMEOUT)
        while self.asks.get():
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            answer.read()
            self.answers.put(answer.status)
        connection.close()

    def seconds(self):
        """Of the first thread of the process, which has the loop."""
        with open(f"/proc/{self.node.process.pid}/task/{self.node.process.pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9

    def check(self, what, ask):
        """The least of three tries, without what the loop does by itself meanwhile."""
        costs = []
        for _ in range(3):
            before, began_at = self.seconds(), time.monotonic()
            for _ in range(3):
                self.asks.put(True)
            ask()
            assert [self.answers.get(timeout=rotad.TIMEOUT) for _ in range(3)] == [200] * 3
            costs.append(self.seconds() - before - ITSELF * (time.monotonic() - began_at))
            if costs[-1] < LIMIT:
                break
        assert min(costs) < LIMIT, (what, costs)
        return max(min(costs), 0)

    def end(self):
        self.asks.put(False)
        self.thread.join()


def ask_http(node, method, path, body):
    status, _, answer = node.ask(path, method, body)
    assert status in (200, 400, 404, 409), (method, path, status, answer[:300])


def ask_grpc(client, method, request, is_answered):
    reply = client.call(method, request)
    assert (reply is not None) == is_answered, (method, reply, client.trailers.get(client.stream))


def ask_stream_of(ask):
    assert ask() is not None


def main():
    with tempfile.TemporaryDirectory(prefix="rota-costs-") as folder:
        path = os.path.join(folder, "rotad.toml")
        with open(path, "w") as file:
            file.write(SETTINGS % os.path.join(folder, "values"))
        with open(os.path.join(folder, "values"), "w") as file:
            file.writelines(f"{i}\tvalue {i}\n" for i in range(KEYS))
        with rotad.cluster(ROTAD, 1, "--config", path) as (node,):
            rotad.await_news(node.reach["http"], lambda: {"large": SHARDS, "catalog": CATALOG} == {
                space["name"]: space["n_owned"] for space in node.get("/api/v1/spaces")["spaces"]}, "an owner for each shard")
            node.post("/api/v1/queues/q/jobs", {"payload": "x"})
            client, other, operator, peer = (grpc_raw.Client(node.reach["grpc"], rotad.TIMEOUT, **metadata) for metadata in (
                {}, {}, {"authorization": "Bearer " + node.token()}, {"authorization": "Bearer " + secret_of(node)}))
            end_jobs(client)
            cases = [(f"{method} {path} {len(json.dumps(body)) if body else 0} bytes",
                      lambda a=(node, method, path, body): ask_http(*a)) for method, path, body in http_cases(node)]
            for caller, made in ((client, grpc_cases()), (operator, operator_cases(node)), (peer, node_cases(node))):
                cases += [(f"{case[0]} {len(case[1])} bytes", lambda a=(caller, *case): ask_grpc(*a)) for case in made]
            for method in sorted({case[0] for case in (*operator_cases(node), *node_cases(node))}):
                cases.append((f"{method} by a stranger", lambda method=method: ask_grpc(
                    client, method, message(_1=b"x" * (1 << 20)), False)))
            cases += [(method, lambda ask=ask: ask_stream_of(ask)) for method, ask in stream_cases(client, other)]
            many = [(f"{what} with {QUEUES} queues", ask) for what, ask in cases_of_many_queues(node, client, operator)]
            print(f"1..{len(cases + many) + 1}", flush=True)
            meter, failed = Meter(node), 0
            for number, (what, ask) in enumerate(cases + many, 1):
                if number == len(cases) + 1:
                    fill_queues(client)
                try:
                    print(f"ok {number} - {what}: {meter.check(what, ask) * 1e3:.1f} ms of the loop", flush=True)
                except Exception as error:  # noqa: BLE001
                    failed += 1
                    print(f"not ok {number} - {what}\n# {str(error)[:600]}", flush=True)
            meter.end()
            forgotten = left_out(node, client, [what for what, _ in cases + many])
            print(f"{'not ' if forgotten else ''}ok {len(cases + many) + 1} - every method and route is measured\n"
                  f"# {forgotten}", flush=True)
            for each in (client, other, operator, peer):
                each.close()
    return 1 if failed or forgotten else 0


sys.exit(main())
