#!/usr/bin/env python3
"""Nodes that have certificates, and who may ask them: test_tls_nodes.py ROTAD ROTA [NAME...].

They call each other with their own, and commands with those that they are given. Prints TAP."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from certificates import make_authority, make_certificate  # noqa: E402
from rotad import ANY_PORTS, TIMEOUT, Node, await_true, cluster, run_tests  # noqa: E402

ROTAD, ROTA = (os.path.abspath(path) for path in sys.argv[1:3])
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class World:
    """A folder with two authorities; of the first are the nodes' certificate and a client's."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.other_ca = make_authority(folder, "ca"), make_authority(folder, "other")
        self.node = make_certificate(folder, "node", "ca")
        self.client = make_certificate(folder, "client", "ca")
        self.stranger = make_certificate(folder, "stranger", "other")
        self.server_words = ["--cert", self.node[0], "--key", self.node[1], "--ca", self.ca]
        self.both = os.path.join(folder, "both.pem")
        with open(self.both, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("".join(open(path).read() for path in self.client))
        self.words = ["--tls-ca", self.ca, "--tls-cert", self.client[0], "--tls-key", self.client[1]]
        self.variables = {"ROTA_TLS_CA": self.ca, "ROTA_TLS_CERT": self.client[0], "ROTA_TLS_KEY": self.client[1]}


@contextlib.contextmanager
def world():
    with tempfile.TemporaryDirectory(prefix="rota-tls-") as folder:
        yield World(folder)


def rota(*words, code=0, env=None):
    done = subprocess.run([ROTA, *words], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**ENVIRONMENT, **(env or {})})
    assert done.returncode == code, (words, done)
    return done.stderr if code else done.stdout


@contextlib.contextmanager
def worker(world, node, queue):
    process = subprocess.Popen([ROTA, "work", "--node", node.name, "--queue", queue, *world.words, "--", "cat"],
                               env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(TIMEOUT)


@test
def jobs_that_are_added_at_one_node_are_done_at_the_other():
    with world() as with_, cluster(ROTAD, 2, *with_.server_words) as (one, other):
        jobs = [rota("job", "add", "--node", one.name, "--queue", "q", "x", env=with_.variables).split()[0]
                for _ in range(8)]
        with worker(with_, other, "q"):
            for job in jobs:
                await_true(lambda job=job: json.loads(
                    rota("job", "show", "--json", "--node", one.name, job, *with_.words))["state"] == "done", job)
        for node in (one, other):
            shown = json.loads(rota("queue", "show", "--json", "--node", node.name, "q", *with_.words))
            assert (shown["done"], shown["waiting"], shown["running"]) == (8, 0, 0), shown
            assert shown["fetched_total"] > 0, shown # some were of the node without a worker


@test
def nodes_see_each_other_and_themselves():
    with world() as with_, cluster(ROTAD, 2, *with_.server_words) as nodes:
        for node in nodes:
            await_true(lambda node=node: [entry["state"] for entry in node.get("/api/v1/cluster")["nodes"]] ==
                       ["serving"] * 2, "both serve")
            listed = rota("node", "list", "--node", node.name, *with_.words)
            assert all(one.name in listed for one in nodes), listed


@test
def callers_without_certificate_are_refused_where_ca_is_set():
    with world() as with_, cluster(ROTAD, 1, *with_.server_words) as (node,):
        ask = ["queue", "list", "--node", node.name]
        assert "requires a certificate, and this side sent none; give --tls-cert" in rota(*ask, "--tls-ca", with_.ca, code=1)
        assert "does not trust the CA of our certificate" in rota(
            *ask, "--tls-ca", with_.ca, "--tls-cert", with_.stranger[0], "--tls-key", with_.stranger[1], code=1)
        assert "not signed by a trusted CA" in rota(
            *ask, "--tls-ca", with_.other_ca, "--tls-cert", with_.client[0], "--tls-key", with_.client[1], code=1)
        assert "the peer speaks TLS, but this side uses plaintext; give --tls-ca" in rota(*ask, code=1)
        rota(*ask, *with_.words)
        logged = [line for line in open(node.data + ".log") if "TLS handshakes failed" in line]
        assert len(logged) > 0 and "127.0.0.1:" in logged[0] and "reason=" in logged[0], logged


@test
def commands_of_all_kinds_take_certificates():
    with world() as with_, cluster(ROTAD, 1, *with_.server_words) as (node,):
        at = ["--node", node.name]
        rota("job", "add", *at, "--queue", "q", "--key", "someone", "--tls-ca", with_.ca, "--tls-cert", with_.both, "x")
        for words in (["queue", "list"], ["queue", "workers"], ["job", "list", "--queue", "q"], ["space", "list"], ["node", "list"],
                      ["events"], ["doctor"]):
            rota(*words, *at, *with_.words)
            rota(*words, *at, env=with_.variables)
            rota(*words, *at, "--tls-ca", with_.ca, "--tls-cert", with_.both)
        os.chmod(with_.both, 0o644)
        assert f"chmod 600 {with_.both}" in rota("queue", "list", *at, "--tls-ca", with_.ca, "--tls-cert", with_.both, code=2)
        assert "has no space" in rota("directory", "get", "--collection", "none", *at, *with_.words, code=1).lower()


@test
def broker_by_itself_takes_certificates():
    with world() as with_:
        words = ["--tls-cert", with_.node[0], "--tls-key", with_.node[1], "--tls-ca", with_.ca]
        assert "cert and key must be set together" in rota("broker", "--durability", "memory", *words[2:], code=2)
        broker = subprocess.Popen([ROTA, "broker", "--listen", "127.0.0.1:0", "--durability", "memory", *words], stdout=subprocess.PIPE, text=True,
                                  stderr=subprocess.DEVNULL)
        try:
            at = ["--node", broker.stdout.readline().split("grpc=")[1].split()[0]]
            worker = subprocess.Popen([ROTA, "work", *at, *with_.words, "--queue", "q", "--", "tr", "a-z", "A-Z"],
                                      stderr=subprocess.DEVNULL)
            try:
                assert rota("job", "add", *at, *with_.words, "--queue", "q", "--wait", "hello") == "HELLO"
            finally:
                worker.terminate()
                worker.wait(TIMEOUT)
            assert "requires a certificate" in rota("queue", "list", *at, "--tls-ca", with_.ca, code=1)
        finally:
            broker.terminate()
            broker.wait(TIMEOUT)
            broker.stdout.close()


@test
def mistakes_are_reported():
    with world() as with_:
        at = ["queue", "list", "--node", "127.0.0.1:9"]
        assert "--tls-cert" in rota(*at, "--tls-key", with_.client[1], code=2)
        assert "missing.pem" in rota(*at, "--tls-ca", "missing.pem", code=2)
        rota(*at, "--tls-cert", with_.client[0], code=2)
        rota(*at, "--tls-cert", with_.client[0], "--tls-key", with_.node[1], code=2)


@test
def node_without_authorities_asks_for_no_certificate():
    with world() as with_, cluster(ROTAD, 1, *with_.server_words[:4]) as (node,):
        rota("queue", "list", "--node", node.name, "--tls-ca", with_.ca)


@test
def name_in_the_certificate_is_the_one_that_is_advertised():
    with world() as with_:
        certificate, key = make_certificate(with_.folder, "named", "ca", "DNS:localhost")
        node = Node(ROTAD, with_.folder, "data", *ANY_PORTS, "--advertise", "localhost:1", "--cert", certificate, "--key", key, "--ca", with_.ca)
        try:
            assert node.get("/api/v1/queues") is not None # which it asks itself for
        finally:
            node.end()


if not shutil.which("openssl"):
    print("1..0 # SKIP there is no openssl")
    sys.exit(0)
sys.exit(run_tests(TESTS, sys.argv[3:]))
