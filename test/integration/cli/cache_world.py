"""Servers of a cache, started and ended as an operator does, for the tests that need some."""

import os
import pathlib
import re
import signal
import subprocess
import sys

from cli.support import ROTA, Files, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import stop  # noqa: E402
from ports import free_port  # noqa: E402
from watch import Watch  # noqa: E402


class Server:
    """A process of `rota cache serve`."""

    def __init__(self, world, args):
        self.err_path = world.files.path / f"err{len(world.servers)}"
        self.process = subprocess.Popen(
            [ROTA, "cache", "serve", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=open(self.err_path, "wb"), env=dict(os.environ, ROTA_STORE=world.url))
        self.args = args

    def err(self):
        return self.err_path.read_text()

    def ready(self):
        line = self.process.stdout.readline().decode()
        assert line.startswith("ready grpc="), (line, self.err())
        facts = dict(fact.split("=", 1) for fact in line.split()[1:])
        self.address = facts["grpc"]
        return self

    def logged(self, phrase, n=1):
        """Wait until it has logged a line with this phrase; returns the last one."""
        def look():
            lines = [line for line in self.err().splitlines() if f'msg="{phrase}"' in line]
            return lines[-1] if len(lines) >= n else None

        with Watch(self.err_path.parent) as watch:
            line = watch.wait(look, 60, self.process)
        assert line, (phrase, self.err())
        return line

    def shard(self):
        return int(re.search(r"shard=(\d+)", self.logged("lease gained"))[1])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self, code=0):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == code, (self.process.returncode, self.err())

    def freeze(self):
        stop.stop(self.process)

    def close(self):
        self.process.kill()  # a stopped one, too
        self.process.wait()
        self.process.stdout.close()


class World:
    """A store, and servers that come and go."""

    def __init__(self, url=None):
        self.url = url

    def __enter__(self):
        self.files = Files().__enter__()
        self.url = self.url or f"sqlite:{self.files.path}/store.db"
        self.servers = []
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.close()
        self.files.__exit__()

    def start(self, dc, shards, source, *more):
        server = Server(self, ["--dc", dc, "--shards", str(shards), "--source", source, *more])
        self.servers.append(server)
        return server

    def serve(self, dc, shards, source, *more):
        return self.start(dc, shards, source, *more).ready()

    def data_centre(self, dc, shards, source, *more):
        """All its servers, each with its shard."""
        servers = [self.start(dc, shards, source, *more) for _ in range(shards)]
        for server in servers:
            server.ready()
            server.logged("lease gained")
        return servers

    def refused(self, dc, shards, source, *more):
        """A server that does not start: the one line that tells why."""
        server = self.start(dc, shards, source, *more)
        assert server.process.wait(60) in (1, 2), (server.process.returncode, server.err())
        printed = server.process.stdout.read()  # the node may have been ready before its cache was refused
        assert printed == b"" or printed.startswith(b"ready "), printed
        said = [line for line in server.err().splitlines() if line.startswith("rotad: ") or "level=error" in line]
        assert said, server.err()
        return said[-1]

    def get(self, *args, **how):
        return run("get", *args, env={"ROTA_STORE": self.url}, **how)

    def values(self, *keys, timeout="20s"):
        """The values that there are; keys that nobody answers fail the test."""
        answer = self.get("--timeout", timeout, *keys)
        assert b"no answer for" not in answer.err and b"alive" not in answer.err, answer.err
        return dict(line.decode().split("\t", 1) for line in answer.lines())
