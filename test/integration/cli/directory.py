"""rota directory get: the shards of a collection. integration/test_rotad.py has those of spaces."""

import contextlib
import pathlib
import signal
import subprocess
import tempfile

from cli.support import ROTA, ok, refuse, test

DIRECTORY = pathlib.Path(ROTA).parents[2] / "test" / "integration" / "shard_directory"


@test
def directory_answers_for_its_collections():
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = pathlib.Path(folder) / "map"
        path.write_text("default books 7 books-0 1 h:1\ndefault books 7 books-0 2 h:2 epoch=5\n")
        server = subprocess.Popen([DIRECTORY, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stack.callback(server.communicate)
        stack.callback(server.kill)
        line = server.stdout.readline().decode()
        assert line.startswith("ready grpc=127.0.0.1:"), line
        node = line.split()[1].split("=")[1]
        get = ("directory", "get", "--node", node)
        assert ok(*get, "--collection", "books").lines() == [
            b"books-0\t1\th:1\t1\tyes", b"books-0\t2\th:2\t5\tyes"]
        found = ok("directory", "get", "--id", "7", "--json", env={"ROTA_NODE": f"127.0.0.1:1,{node}"}).json()
        assert (found["collection"], found["id"]) == ("books", 7), found
        assert [n["node"] for n in found["shards"][0]["nodes"]] == [1, 2], found
        refuse(*get, "--collection", "papers", code=1, name="NOT_FOUND")
        path.write_text("default books 7 books-0 3 h:3\n")
        while ok(*get, "--id", "7").lines() != [b"books-0\t3\th:3\t1\tyes"]:
            pass
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


@test
def directory_refuses_invalid_options():
    refuse("directory", "get", "--id", "1", "--node", "", name="--node")
    refuse("directory", "get", "--node", "127.0.0.1:1", name="--collection")
    refuse("directory", "get", "--node", "127.0.0.1:1", "--id", "1", name="refused", code=1)
    refuse("directory", "serve", name="serve")
