"""rota directory show and watch: how the nodes of a collection do. Each node is a directory of its own,
for that has the health service, too."""

import os
import pathlib
import pty
import signal
import subprocess
import sys

from cli.support import ROTA, Files, Watching, ok, on_terminal, refuse, replace, run, test, without_colors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from ports import free_port  # noqa: E402

DIRECTORY = pathlib.Path(ROTA).parents[2] / "test" / "integration" / "shard_directory"


class World:
    """A directory, and nodes 1 to 3 that serve the shards b-0 and b-1 of a collection."""

    def __enter__(self):
        self.files = Files().__enter__()
        self.idle = self.files.write("idle", "idle x 0 127.0.0.1:1 1\n")
        self.map = str(self.files.path / "map")
        self.nodes, self.processes = {}, []
        self.addresses = {node: f"127.0.0.1:{free_port()}" for node in (1, 2, 3)}
        for node in self.addresses:
            self.start(node)
        self.write()
        _, self.address = self.serve(self.map, "127.0.0.1:0")
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()  # a stopped one, too
            process.communicate()
        self.files.__exit__()

    def serve(self, path, listen):
        process = subprocess.Popen([DIRECTORY, path, listen],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        line = process.stdout.readline().decode()
        assert line.startswith("ready grpc="), line
        return process, line.split()[1].split("=")[1]

    def start(self, node):
        self.nodes[node], _ = self.serve(self.idle, self.addresses[node])

    def kill(self, node):
        self.nodes[node].kill()
        self.nodes[node].wait()

    def write(self, nodes=(1, 2, 3), note=""):
        replace(self.map, "".join(f"books zone-{node} {shard} {self.addresses[node]} 4{note}\n"
                                  for shard in (0, 1) for node in nodes))

    def show(self, *more, timeout="5s"):
        return run("directory", "show", "--node", self.address, "--collection", "books", "--timeout", timeout, *more)

    def watch(self, *more, timeout="5s"):
        return Watching("directory", "watch", "--node", self.address, "--collection", "books", "--interval", "50ms",
                        "--timeout", timeout, *more)


def by_node(world, answer):
    numbers = {address: node for node, address in world.addresses.items()}
    return {numbers[r["address"]]: r for shard in answer.json()["shards"] for r in shard["replicas"]}


@test
def shards_that_are_well_are_shown_with_exit_code_0():
    with World() as world:
        answer = world.show()
        assert answer.code == 0 and not answer.err, (answer.code, answer.out, answer.err)
        rows = [line.decode().split("\t") for line in answer.lines()]
        assert [(r[0], r[2]) for r in rows] == [
            (str(shard), world.addresses[node]) for shard in (0, 1) for node in (1, 2, 3)], rows
        for row in rows:
            assert row[3:6] == ["4", "serving", "closed"] and row[8] == "0/5" and row[10] == "-", row
            assert row[6] != "-" and len(row) == 11, row
        document = world.show("--json", "--rounds", "2").json()
        assert document["collection"] == "books"
        assert document["well"] is True and [s["channel"] for s in document["shards"]] == ["0", "1"]
        first = document["shards"][0]["replicas"][0]
        assert first["p99_us"] >= first["p50_us"] > 0 and first["score"] > 0, first
        assert (first["probes"], first["errors"], first["in_flight"], first["problem"]) == (2, 0, 0, None), first
        assert ok("directory", "show", "--collection", "books", env={"ROTA_NODE": f"127.0.0.1:1,{world.address}"}).lines()
        table = without_colors(on_terminal("directory", "show", "--node", world.address, "--collection", "books"))
        assert "SHARD  ADDRESS" in table and table.count("closed") == 6, table
        assert world.show("-o", "wide").out.split()[:2] == [b"SHARD", b"NODE"], "no titles"
        assert world.show("-o", "json").json()["well"] is True


@test
def shards_that_are_not_well_are_shown_with_exit_code_1():
    with World() as world:
        world.kill(2)
        world.nodes[3].send_signal(signal.SIGSTOP)
        answer = world.show("--json", "--rounds", "3", timeout="1s")
        nodes = by_node(world, answer)
        assert answer.code == 1 and answer.json()["well"] is False, answer.out
        assert {n: (r["health"], r["circuit"], r["well"]) for n, r in nodes.items()} == {
            1: ("serving", "closed", True), 2: ("failing", "open", False), 3: ("failing", "open", False)}, nodes
        assert [(nodes[n]["probes"], nodes[n]["errors"]) for n in (1, 2, 3)] == [(3, 0), (3, 3), (3, 3)], nodes
        # Nothing came from a stopped node in time: whether the probe, the connection or its start ran
        # out of it first is a matter of chance.
        assert "refused" in nodes[2]["problem"] and nodes[3]["problem"].endswith(" in time"), nodes
        assert nodes[2]["p50_us"] is None
        world.nodes[3].send_signal(signal.SIGCONT)
        nodes = by_node(world, world.show("--json", "--rounds", "50"))
        assert nodes[1]["probes"] == 50 and nodes[2]["probes"] < 50, nodes  # an open circuit is left alone
        world.start(2)
        assert world.show("--rounds", "1").code == 0
        world.write(note=" moving")
        while (answer := world.show("--rounds", "1")).code == 0:
            pass  # the directory has not read it yet
        assert answer.lines()[0].endswith(b"\tnot serviceable according to the map"), answer.out


def follow(watch, address, until):
    """Events of the node, up to the first one that is `until`."""
    seen = []
    while not seen or seen[-1] != until:
        event = watch.json()
        if event.get("address") == address:
            seen.append(event["event"])
    return seen


@test
def circuit_is_seen_to_open_half_open_and_close():
    with World() as world, world.watch("--json", timeout="1s") as watch:
        event = watch.json()
        assert event.pop("time") and event == {"event": "map", "shards": 2, "replicas": 6}, event
        for _ in (1, 2, 3):
            event = watch.json()
            assert (event["event"], event["health"], event["shards"]) == ("closed", "serving", 2), event
        # One that is dead.
        world.kill(2)
        assert follow(watch, world.addresses[2], "open") == ["closed", "open"]  # failing, and given up
        seen = follow(watch, world.addresses[2], "half-open")
        world.start(2)
        seen += follow(watch, world.addresses[2], "closed")
        assert seen[-2:] == ["half-open", "closed"] and set(seen[:-1]) <= {"open", "half-open"}, seen
        # One that is frozen, which accepts connections all the same.
        world.nodes[3].send_signal(signal.SIGSTOP)
        assert follow(watch, world.addresses[3], "open") == ["closed", "open"]
        world.nodes[3].send_signal(signal.SIGCONT)
        assert follow(watch, world.addresses[3], "closed")[-2:] == ["half-open", "closed"]
        watch.process.send_signal(signal.SIGINT)
        assert watch.process.wait(60) == 0


@test
def changes_of_the_map_are_reported():
    with World() as world, world.watch() as watch:
        assert watch.line() == "map\tshards=2\treplicas=6"
        first = [watch.line().split("\t") for _ in (1, 2, 3)]
        numbers = {address: number for _, number, address, *_ in first}
        assert sorted(first) == sorted(["closed", numbers[at], at, "serving", "shards=2"]
                                       for at in world.addresses.values()), first
        world.write(nodes=(1, 2))
        assert watch.line() == f"gone\t{numbers[world.addresses[3]]}\t{world.addresses[3]}\tserving\tshards=0"
        assert watch.line() == "map\tshards=2\treplicas=4"
        replace(world.map, "papers x 0 127.0.0.1:1 1\n")
        line = watch.line()
        assert line.startswith("refused\tno map of collection books: "), line
        world.write(nodes=(1, 3))
        assert watch.line().startswith(f"gone\t{numbers[world.addresses[2]]}\t")
        assert watch.line() == "map\tshards=2\treplicas=4"
        assert watch.line() == f"closed\t{numbers[world.addresses[3]]}\t{world.addresses[3]}\tserving\tshards=2"
        watch.interrupt()


@test
def terminal_shows_a_table_that_is_kept_up_to_date():
    with World() as world:
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [ROTA, "directory", "watch", "--node", world.address, "--collection", "books", "--interval", "50ms"],
            stdin=subprocess.DEVNULL, stdout=slave, env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"})
        os.close(slave)
        try:
            text = ""
            while "\x1b[J" not in text or text.rsplit("\x1b[H", 1)[1].count("serving") < 6:
                text += os.read(master, 65536).decode()
            world.kill(2)
            while text.rsplit("\x1b[H", 1)[1].count("open") < 2:
                text += os.read(master, 65536).decode()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
            os.close(master)


@test
def shards_without_a_map_are_refused_in_a_sentence():
    with World() as world:
        for verb in ("show", "watch"):
            papers = ("directory", verb, "--collection", "papers")
            refuse(*papers, "--node", world.address, code=1, name=["papers", "does not exist"])
            refuse(*papers, "--node", f"127.0.0.1:{free_port()}", "--timeout", "300ms", code=1,
                   name=["papers", "refused"])
            refuse(*papers, "--node", "nowhere", name="nowhere")
            refuse(*papers, "--node", f"{world.address},:", name='":"')
            refuse(*papers, "--node", "10.0.0.1:1", "--timeout", "300ms", code=1, name="insecure")
            refuse(*papers, "--node", ",".join([world.address] * 17), name="16")
            refuse(*papers, "--node", "", name="--node")
            refuse("directory", verb, "--node", world.address, name="--collection")
        path = pathlib.Path(world.map)
        path.write_text("books x 0 nowhere 1\n")
        while (answer := world.show("--rounds", "1")).code == 0:
            pass  # the directory has not read it yet
        assert b"failing" in answer.out and b"nowhere" in answer.lines()[0].split(b"\t")[-1], answer.out
