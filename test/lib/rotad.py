"""Nodes as processes: some rotad on one store, in one directory, and what they answer."""

import contextlib
import http.client
import json
import os
import subprocess
import tempfile
import time

TIMEOUT = 120
ANY_PORTS = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--workers", "127.0.0.1:0"]


class Node:
    """A rotad with a data directory of its own; its log is the file log beside it."""

    def __init__(self, rotad, folder, name, *words):
        self.data = os.path.join(folder, name)
        self.log = open(self.data + ".log", "w")
        self.process = subprocess.Popen([rotad, "--data", self.data, *words], cwd=folder, text=True,
                                        stdout=subprocess.PIPE, stderr=self.log)
        self.ready = self.process.stdout.readline()
        assert self.ready.startswith("ready "), open(self.data + ".log").read()
        self.reach = dict(word.split("=", 1) for word in self.ready.split()[1:])
        self.name = self.reach["grpc"]

    def ask(self, path, method="GET", body=None, token=None):
        """The status, the fields and the bytes of an answer."""
        fields = {"Authorization": "Bearer " + (token or self.token())} if method != "GET" else {}
        if body is not None:
            fields["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(self.reach["http"], timeout=TIMEOUT)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=fields)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def token(self):
        with open(os.path.join(self.data, "token")) as file:
            return file.read().strip()

    def get(self, path):
        status, _, body = self.ask(path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def post(self, path, body=None):
        status, _, answer = self.ask(path, "POST", {} if body is None else body)
        assert status == 200, (path, status, answer)
        return json.loads(answer)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)
        self.process.stdout.close()
        self.log.close()


@contextlib.contextmanager
def cluster(rotad, n, *words, zones=("a", "b")):
    """`n` nodes on one store, named n0, n1, ...; all of them see all."""
    with tempfile.TemporaryDirectory(prefix="rota-nodes-") as folder:
        nodes = []
        try:
            for i in range(n):
                nodes.append(Node(rotad, folder, f"n{i}", "--store", f"sqlite:{folder}/store.db",
                                  "--name", f"n{i}", "--zone", zones[i % len(zones)], *ANY_PORTS, *words))
                nodes[i].title = f"n{i}"
            for node in nodes:
                await_true(lambda node=node: sum(entry["is_placed"] for entry in
                                                 node.get("/api/v1/cluster")["nodes"]) == n)
            yield nodes
        finally:
            for node in nodes:
                node.end()


def await_true(is_so, what="it"):
    """Until `is_so` returns something true, which it does at last."""
    until = time.monotonic() + TIMEOUT
    while not (answer := is_so()):
        assert time.monotonic() < until, f"{what} did not come true"
        time.sleep(0.05)
    return answer


def await_news(address, look, what="it"):
    """Until `look` returns something true: it looks whenever the node whose HTTP is at `address` tells
    of a change, which it does within a second, and gives a heartbeat every 10 s."""
    until = time.monotonic() + TIMEOUT
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT)
    try:
        connection.request("GET", "/api/v1/stream")
        stream = connection.getresponse()
        assert stream.status == 200, stream.status
        while not (answer := look()):
            assert time.monotonic() < until, f"{what} did not come true"
            while (line := stream.readline()).strip():  # an event ends with an empty line
                pass
            assert line, f"the stream ended before {what} came true"
        return answer
    finally:
        connection.close()


def run_tests(tests, names):
    """All, or those that are named. Prints TAP."""
    import traceback
    chosen = [test for test in tests if not names or test.__name__ in names]
    print(f"1..{len(chosen)}")
    failed = 0
    for number, function in enumerate(chosen, 1):
        try:
            function()
            print(f"ok {number} - {function.__name__}", flush=True)
        except Exception:
            failed += 1
            print(f"not ok {number} - {function.__name__}", flush=True)
            print("".join(f"# {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
    return 1 if failed else 0
