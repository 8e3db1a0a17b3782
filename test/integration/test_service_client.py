#!/usr/bin/env python3
"""Clients of a space, as people run them: test_service_client.py ROTAD SERVICE_SERVER SERVICE_LOAD.

Two nodes serve the directory, three servers own the shards, a client calls them with keys and knows
no store. Servers are stopped, killed, and nodes too. Prints TAP."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from tap import test  # noqa: E402

ROTAD, SERVER, LOAD = (os.path.abspath(path) for path in sys.argv[1:4])
SPACE, SHARDS = "things", 64
folder = tempfile.mkdtemp(prefix="rota-service-")
store = f"sqlite:{folder}/store.db"
started = []


def start(words, **kwargs):
    process = subprocess.Popen(words, text=True, stdout=subprocess.PIPE, cwd=folder, **kwargs)
    started.append(process)
    line = process.stdout.readline()
    assert line.startswith("ready"), (words, line)
    process.grpc = dict(word.split("=", 1) for word in line.split()[1:]).get("grpc")
    return process


def start_node(name, listen="127.0.0.1:0"):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    return start([ROTAD, "--store", store, "--http", "127.0.0.1:0", "--workers", "127.0.0.1:0", "--listen", listen,
                  "--data", f"{folder}/{name}"], stderr=open(f"{folder}/{name}.log", "a"))


def start_server():
    return start([SERVER, store, SPACE, str(SHARDS)])


class Client:
    def __init__(self, space, repeat, *nodes):
        self.process = start([LOAD, space, repeat, *nodes], stdin=subprocess.PIPE)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.say(line)
        return self.process.stdout.readline().rstrip("\n")

    def await_calls(self, n):
        """Until so many more calls went well."""
        answer = self.ask(f"await {n}")
        assert answer == "ok", answer

    def stop(self):
        """How the load went."""
        answer = self.ask("stop")
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", answer)} | {"text": answer}

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def ended(process):
    return process.wait() == 0


nodes = [start_node("one"), start_node("two")]
addresses = [node.grpc for node in nodes]


@test
def a_space_that_the_store_does_not_have_is_not_found():
    client = Client("nothing", "unsent", *addresses)
    answer = client.ask("call key")
    assert answer.startswith("NOT_FOUND ") and "space nothing" in answer and "ran=0" in answer, answer
    client.close()


servers = [start_server() for _ in range(3)]


@test
def a_client_without_the_store_calls_the_owner():
    client = Client(SPACE, "unsent", *addresses)
    owners, n = set(), 0
    while n < 20 or len(owners) < 2:  # the first server to join owns all shards until the next one does
        answer = client.ask(f"call key-{n % 20}")
        assert answer.startswith("OK "), answer
        owners.add(re.search(r"node=(\S+)", answer)[1])
        n += 1
    assert owners <= {server.grpc for server in servers}, owners
    client.close()


@test
def a_handover_under_load_fails_no_call():
    client = Client(SPACE, "unsent", *addresses)
    client.say("load 32")
    client.await_calls(1000)
    for _ in range(3):
        old = servers.pop(0)
        servers.append(start_server())
        client.await_calls(500)
        old.send_signal(signal.SIGTERM)
        client.await_calls(2000)
        assert ended(old)
    result = client.stop()
    assert result["failed"] == 0 and result["followed"] > 0, result
    client.close()


@test
def calls_follow_to_the_next_owner_of_a_server_that_was_killed():
    client = Client(SPACE, "any", *addresses)
    client.say("load 32")
    client.await_calls(1000)
    old = servers.pop(0)
    old.kill()
    old.wait()
    client.await_calls(5000)  # with calls for every shard among them
    result = client.stop()
    assert result["failed"] == 0 and result["followed"] > 0, result
    client.close()


@test
def a_call_that_must_not_run_twice_reports_that_it_may_have_run():
    client = Client(SPACE, "unsent", *addresses)
    client.say("load 64")
    client.await_calls(1000)
    old = servers.pop(0)
    servers.append(start_server())
    old.kill()
    old.wait()
    client.say("await 2000")
    lines = []
    while (line := client.process.stdout.readline().rstrip("\n")) != "ok":
        lines.append(line)
    for line in lines:
        assert line.startswith("UNAVAILABLE ") and "ran=1" in line and old.grpc in line, line
    client.stop()
    client.close()


@test
def the_map_comes_from_another_node_when_one_is_killed():
    client = Client(SPACE, "unsent", *addresses)
    assert client.ask("call key").startswith("OK ")
    for i, node in enumerate(nodes):
        node.kill()
        node.wait()
        old = servers.pop(0)
        servers.append(start_server())
        old.send_signal(signal.SIGTERM)
        assert ended(old)
        client.say("load 8")
        client.await_calls(2000)
        result = client.stop()
        assert result["failed"] == 0, result
        nodes[i] = start_node(["one", "two"][i], node.grpc)
    client.close()


@test
def an_error_names_space_shard_server_and_node():
    client = Client(SPACE, "unsent", *addresses)
    assert client.ask("call key").startswith("OK ")
    for server in servers:
        server.kill()
        server.wait()
    answer = client.ask("call key")
    assert answer.startswith("DEADLINE_EXCEEDED ") and "ran=0" in answer, answer
    assert f"space {SPACE}, shard " in answer and any(address in answer for address in addresses), answer
    client.close()


failed = tap.run(names=sys.argv[4:])
for process in started:
    if process.poll() is None:
        process.kill()
shutil.rmtree(folder)
sys.exit(failed)
