"""rota directory get: the owners of the shards of a space. integration/test_rotad.py has those of spaces."""

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
        path.write_text("books east 0 h:1 1\nbooks west 0 h:2 5\nbooks west 1 h:1 6 moving\ncache/fruit a 1 h:3 2\n")
        server = subprocess.Popen([DIRECTORY, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        stack.callback(server.communicate)
        stack.callback(server.kill)
        line = server.stdout.readline().decode()
        assert line.startswith("ready grpc=127.0.0.1:"), line
        node = line.split()[1].split("=")[1]
        get = ("directory", "get", "--node", node)
        assert ok(*get, "--collection", "books").lines() == [
            b"0\teast\th:1\t1\tyes", b"0\twest\th:2\t5\tyes", b"1\twest\th:1\t6\tno"]
        assert ok(*get, "--collection", "cache/fruit").lines() == [b"0\t-\t-\t-\t-", b"1\ta\th:3\t2\tyes"]
        found = ok("directory", "get", "--collection", "books", "--json", env={"ROTA_NODE": f"127.0.0.1:1,{node}"}).json()
        assert (found["space"], found["engine"]) == ("books", "lease"), found
        assert [[n["zone"] for n in shard["nodes"]] for shard in found["shards"]] == [["east", "west"], ["west"]], found
        refuse(*get, "--collection", "papers", code=1, name="NOT_FOUND")
        path.write_text("books east 0 h:3 7\n")
        while ok(*get, "--collection", "books").lines() != [b"0\teast\th:3\t7\tyes"]:
            pass
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


@test
def directory_refuses_invalid_options():
    refuse("directory", "get", "--collection", "x", "--node", "", name="--node")
    refuse("directory", "get", "--node", "127.0.0.1:1", name="--collection")
    refuse("directory", "get", "--node", "127.0.0.1:1", "--collection", "x", name="refused", code=1)
    refuse("directory", "serve", name="serve")
