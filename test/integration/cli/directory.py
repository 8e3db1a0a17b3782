"""rota directory: the map of shards, served and asked for."""

import pathlib
import signal
import subprocess
import tempfile

from cli.support import ROTA, ok, refuse, test


@test
def directory_serves_a_map_and_answers_for_it():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "map"
        path.write_text("default books 7 books-0 1 h:1\ndefault books 7 books-0 2 h:2 epoch=5\n")
        server = subprocess.Popen([ROTA, "directory", "serve", "--map", path],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            line = server.stdout.readline().decode()
            assert line.startswith("ready grpc=127.0.0.1:"), line
            node = line.split()[1].split("=")[1]
            get = ("directory", "get", "--node", node)
            assert ok(*get, "--collection", "books").lines() == [
                b"books-0\t1\th:1\t1\tyes", b"books-0\t2\th:2\t5\tyes"]
            found = ok("directory", "get", "--id", "7", "--json",
                       env={"ROTA_NODE": f"127.0.0.1:1,{node}"}).json()
            assert (found["collection"], found["id"]) == ("books", 7), found
            assert [n["node"] for n in found["shards"][0]["nodes"]] == [1, 2], found
            refuse(*get, "--collection", "papers", code=1, name="NOT_FOUND")
            # What becomes of the file is told, and a mistake changes nothing.
            path.write_text("default books 7\n")
            while b"map:1:" not in server.stderr.readline():
                assert server.poll() is None
            ok(*get, "--collection", "books")
            path.write_text("default books 7 books-0 3 h:3\n")
            while ok(*get, "--id", "7").lines() != [b"books-0\t3\th:3\t1\tyes"]:
                pass
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()
            server.communicate()


@test
def directory_serves_the_ring_of_a_stores_members():
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/store.db"
        ok("node", "beat", "a:1", "--ttl", "1h", "--roles", "broker", "--store", url)
        ok("node", "beat", "c:1", "--ttl", "1h", "--store", url)
        server = subprocess.Popen([ROTA, "directory", "serve", "--store", url, "--role", "broker", "--shards", "4"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            line = server.stdout.readline().decode()
            assert line.startswith("ready grpc=127.0.0.1:"), line
            ask = ("directory", "get", "--node", line.split()[1].split("=")[1], "--collection", "shards", "--json")

            def addresses():
                return {node["address"] for shard in ok(*ask).json()["shards"] for node in shard["nodes"]}

            assert addresses() == {"a:1"}
            ok("node", "beat", "b:1", "--ttl", "1h", "--roles", "broker", "--store", url)
            while addresses() != {"a:1", "b:1"}:
                assert server.poll() is None
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()
            server.communicate()


@test
def directory_refuses_what_it_can_not_use():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "map"
        refuse("directory", "serve", "--map", "a", "--hosts", "b", name="set one of map, hosts and members")
        refuse("directory", "serve", "--map", "a", "--role", "b", name="set one of map, hosts and members")
        refuse("directory", "serve", "--shards", "0", name="directory.shards")
        refuse("directory", "serve", "--map", path, name="map", code=1)
        for text, name in [(b"", "no collection"), (b"a b c d e f\n", "map:1: id"),
                           (b"\xff\n", "0xff"), (b"a b 1 d 1 f x=1\n", "x=1")]:
            path.write_bytes(text)
            refuse("directory", "serve", "--map", path, name=name, code=1)
        path.write_text("a b 1 d 1 f\n")
        refuse("directory", "serve", "--map", path, "--listen", "nowhere", name="nowhere")
        refuse("directory", "serve", "--map", path, "--listen", "0.0.0.0:0", name="insecure")
        refuse("directory", "get", "--id", "1", "--node", "", name="--node")
        refuse("directory", "get", "--node", "127.0.0.1:1", name="--collection")
        refuse("directory", "get", "--node", "127.0.0.1:1", "--id", "1", name="refused", code=1)
