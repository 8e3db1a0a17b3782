#!/usr/bin/env python3
"""A node as a user runs it: test_rotad.py ROTAD ROTA [NAME...].

Starts it with and without settings, asks it over HTTP, sends it signals. Prints TAP."""

import contextlib
import glob
import http.client
import json
import os
import pathlib
import queue
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from tap import test  # noqa: E402

ROTAD, ROTA = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 120
ANY_PORTS = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--workers", "127.0.0.1:0"]


class Node:
    """A rotad in a directory of its own. Its log is a queue of lines."""

    def __init__(self, folder, *words, env=None):
        self.process = subprocess.Popen([ROTAD, *words], cwd=folder, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.lines = queue.Queue()
        self.seen = []
        threading.Thread(target=self.read, daemon=True).start()
        self.ready = self.process.stdout.readline()
        self.reach = dict(word.split("=", 1) for word in self.ready.split()[1:])

    def read(self):
        for line in self.process.stderr:
            self.lines.put(line)

    def await_line(self, *texts):
        """The next line of the log with these in it."""
        while True:
            try:
                self.seen.append(self.lines.get(timeout=TIMEOUT))
            except queue.Empty:
                raise AssertionError(f"{texts} not in {self.seen}") from None
            if all(text in self.seen[-1] for text in texts):
                return self.seen[-1]

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        return self.process.wait(TIMEOUT)

    def get(self, path, method="GET", **fields):
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        connection = http.client.HTTPConnection(self.reach["http"], timeout=TIMEOUT)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextlib.contextmanager
def node(*words, folder=None, env=None):
    with tempfile.TemporaryDirectory(prefix="rota-node-") as own:
        made = Node(folder or own, *words, env=env)
        try:
            yield made
        finally:
            if made.process.poll() is None:
                made.process.kill()
            made.process.wait(TIMEOUT)


def run(*words, folder=None, env=None):
    return subprocess.run([ROTAD, *words], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT,
                          env={**os.environ, **(env or {})})


def write(folder, text):
    path = os.path.join(folder, "rotad.toml")
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)
    return path


@test
def without_a_file_everything_is_in_rota_data():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        with node(*ANY_PORTS, folder=folder) as one:
            assert one.ready.startswith("ready grpc=127.0.0.1:"), (one.ready, one.seen)
            assert all(one.reach[name].startswith("127.0.0.1:") for name in ("grpc", "zmq", "http")), one.ready
            data = os.path.join(folder, "rota-data")
            assert {"jobs", "rotad.lock", "store.db", "token"} <= set(os.listdir(data))
            token = os.stat(os.path.join(data, "token"))
            assert stat.S_IMODE(token.st_mode) == 0o600 and token.st_size == 44
            with open(os.path.join(data, "rotad.lock")) as lock:
                assert int(lock.read()) == one.process.pid
            one.signal(signal.SIGTERM)
            assert one.wait() == 0


@test
def token_stays_the_same():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        tokens = []
        for _ in range(2):
            with node(*ANY_PORTS, folder=folder) as one:
                assert one.ready
                with open(os.path.join(folder, "rota-data", "token")) as file:
                    tokens.append(file.read())
                one.signal(signal.SIGTERM)
                one.wait()
        assert tokens[0] == tokens[1]
        with open(os.path.join(folder, "rota-data", "token"), "w") as file:
            file.write("short\n")
        done = run(*ANY_PORTS, folder=folder)
        assert done.returncode == 1 and "contains no token" in done.stderr, done


@test
def bad_settings_are_refused_by_their_place():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        for text, said in (("listn = \"x\"\n", "rotad.toml:1"), ("\nttl = \"10 parsecs\"\n", "rotad.toml:2"),
                           ("roles = \"queue,cash\"\n", "cash"), ("cert = \"a.pem\"\n", "key"),
                           ("listen = \"foo\"\n", "listen: "), ("http = \"foo\"\n", "http: "),
                           ("listen = \"http://a:80\"\n", "is a URL; use HOST:PORT"),
                           ("workers = \"foo\"\n", "workers: "), ("advertise = \"foo\"\n", "advertise: "),
                           ("store = \"foo:bar\"\n", "store: "), ("store = \"mysql://x\"\n", "store: "),
                           ("cert = \"none.pem\"\nkey = \"none.key\"\n", "none.pem"),
                           ("workers-key = \"none.k\"\nworkers-list = \"none.l\"\n", "none.k"),
                           ("listen = \"0.0.0.0:0\"\n", "set cert and key"), ("http = \"0.0.0.0:0\"\n", "proxy"),
                           ("listen = \"0.0.0.0:0\"\ninsecure = true\n", "listen: 0.0.0.0:0 is not an address that other"),
                           ("listen = \"[::]:0\"\ninsecure = true\n", "set advertise to one that is"),
                           ("advertise = \"0.0.0.0:7700\"\n", "advertise: 0.0.0.0:7700 is not an address that"),
                           ("workers = \"0.0.0.0:0\"\n", "workers-key"),
                           ("workers = \"0.0.0.0:0\"\ninsecure = true\n", "workers-key"),
                           ("data = \"a\"\ndata = \"b\"\n", "rotad.toml:2"), ("data = \"\0\"\n", "rotad.toml"),
                           ("[[space]]\nshards = 5\n", "name"), ("[[space]]\nname = \"queues\"\n", "is taken"), ("[[space]]\nname = \"a b\"\n", "a b"),
                           ("[[space]]\nname = \"a\"\nengine = \"rign\"\n", "rotad.toml:3"),
                           ("[[space]]\nname = \"a\"\nshards = 0\n", "rotad.toml:3"),
                           ("[[directory]]\nname = \"a\"\n", "rotad.toml:1: [[directory]] is gone: remove it"),
                           ("[[space]]\nname = \"a\"\nengine = \"group\"\n", "log"),
                           ("[[space]]\nname = \"a\"\nengine = \"lease\"\nshards = 131072\n", "65536"),
                           ("[[space]]\nname = \"a\"\n\n[[space]]\nname = \"a\"\n", "line 1 already has the name a"),
                           ("".join(f"[[space]]\nname = \"s{i}\"\n" for i in range(65)), "64")):
            path = write(folder, text)
            for words in (["--check-config"], []):
                done = run("--config", path, *words, folder=folder)
                assert done.returncode == 2 and said in done.stderr, (text, done)
                assert done.stdout == "" and done.stderr.count("\n") == 1, done
        assert os.listdir(folder) == ["rotad.toml"]
        for words, env, said in ((["--nonsense"], {}, "nonsense"), (["--weight", "-1"], {}, "weight"),
                                 (["--weight", "much"], {}, "--weight: "),
                                 ([], {"ROTA_WEIGHT": "abc"}, "ROTA_WEIGHT: "), ([], {"ROTA_ROLES": "king"}, "ROTA_ROLES: "),
                                 ([], {"ROTA_STORE": "foo:bar"}, "ROTA_STORE: "), ([], {"ROTA_LISTEN": "x"}, "ROTA_LISTEN: "),
                                 (["--config", write(folder, "zone = \"a\"\nweight = \"abc\"\n")], {}, "rotad.toml:2: weight: "),
                                 ([], {"ROTA_TTL": "soon"}, "ROTA_TTL"), (["--config", "absent"], {}, "absent")):
            done = run(*words, folder=folder, env=env)
            assert done.returncode == 2 and said in done.stderr, done


@test
def settings_are_printed_with_their_origin():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        path = write(folder, "zone = \"a\"\nttl = \"20s\"\nweight = \"2\"\n\n[[space]]\nname = \"orders\"\nshards = 7\n")
        done = run("--config", path, "--print-config", "--weight", "3", "--set", "cache.name=fruit", "--set",
                   "cache.source=file:a,b=c", folder=folder, env={"ROTA_TTL": "30s"})
        assert done.returncode == 0, done
        for said in ('zone = "a"', "rotad.toml:1", 'ttl = "30s"', "ROTA_TTL", 'weight = "3"',
                     '[[cache]] # --set\nname = "fruit"\nsource = "file:a,b=c"\nshards = 4\n', "[[space]] # ", "rotad.toml:5", 'name = "orders"\nengine = "ring"\nshards = 7\n'):
            assert said in done.stdout, (said, done.stdout)


@test
def missing_memory_is_reported_at_the_start():
    def limit(mib):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))

    with open(ROTAD, "rb") as program:
        is_sanitized = b"__asan_init" in program.read()  # which takes all addresses that there are
    with tempfile.TemporaryDirectory(prefix="rotad-") as folder:
        refused = subprocess.run([ROTAD, *ANY_PORTS], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT,
                                 preexec_fn=limit(100))
        assert is_sanitized or refused.returncode == 1 and "100 MiB of memory" in refused.stderr, refused
        assert not os.path.exists(f"{folder}/rota-data/token"), os.listdir(folder)
    with node(*ANY_PORTS, "--memory", str(1 << 44)) as one:
        line = one.await_line("less memory than settings allow", f"allowed={1 << 44}")
        assert "fix=" in line, line


@test
def soft_limit_of_descriptors_is_raised():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        words = ["sh", "-c", f'ulimit -Sn 256; exec "$0" "$@"', ROTAD, *ANY_PORTS]
        process = subprocess.Popen(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            assert process.stdout.readline().startswith("ready ")
            with open(f"/proc/{process.pid}/limits") as file:
                line = next(line for line in file if line.startswith("Max open files"))
            assert line.split()[3:5] == [str(hard)] * 2, line
        finally:
            process.kill()
            process.wait(TIMEOUT)


def connect(one, name, text):
    host, port = one.reach[name].split(":")
    made = socket.create_connection((host, int(port)), timeout=TIMEOUT)
    made.sendall(text)
    return made


@test
def health_is_reported_whatever_others_hold():
    with node(*ANY_PORTS, "--peer-connections", "8", "--idle-limit", "1h") as one:
        assert one.ready
        held = [connect(one, "http", b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(8)]
        held += [connect(one, "http", b"GET /healthz HTTP/1.1\r\nX: ") for _ in range(100)]
        one.await_line("HTTP rejected: a limit is reached", "bound=peer", "peer=127.0.0.1")
        for path in ("/healthz", "/readyz", "/metrics"):
            status, text = one.get(path)
            assert status == 200, (path, status, text)
        assert 'rota_http_full_total{bound="peer"} ' in text, text
        status, text = one.get("/api/v1/cluster")
        assert status == 503 and "connection limit" in text, (status, text)
        for each in held:
            each.close()


@test
def one_peer_does_not_take_all_connections():
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
    with node(*ANY_PORTS, "--peer-connections", "16") as one:
        assert one.ready
        held = [connect(one, "grpc", hello) for _ in range(30)]
        one.await_line("connections rejected: their peer is at its limit", "bound=16", "peer=127.0.0.1")
        ended = 0
        while ended < 14:  # the rest are kept, beside that of the node to itself
            for each in held:
                each.settimeout(0.01)
                with contextlib.suppress(TimeoutError, ConnectionError):
                    while each.recv(4096):
                        pass
                    each.close()
                    held.remove(each)
                    ended += 1
        assert 'rota_server_full_total{bound="peer"}' in one.get("/metrics")[1]
        for each in held:
            each.close()


def begun_requests(n):
    """HTTP/2 that begins gRPC calls and never ends their messages, within the windows of the node."""
    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    head = (b"\x83\x86\x01\x09localhost\x04\x12/rota.v1.Queue/Add"
            b"\x0f\x10\x10application/grpc\x00\x02te\x08trailers")
    text = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    for stream in range(1, 2 * n, 2):
        text += frame(1, 4, stream, head) + frame(0, 0, stream, b"\0\0\x10\0\0")  # of 1 MiB
        text += frame(0, 0, stream, bytes(16384)) * 60
    return text


@test
def memory_bounds_all_requests_together():
    with node(*ANY_PORTS, "--memory", "1048576") as one:
        assert one.ready
        text = begun_requests(7)
        held = []
        for _ in range(8):
            with contextlib.suppress(ConnectionError):
                held.append(connect(one, "grpc", text))
        one.await_line("calls rejected: too many bytes are held", f"bound={48 << 20}")
        body = b"POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + bytes(999999)
        held += [connect(one, "http", body) for _ in range(6)]  # 4 MiB are for these
        one.await_line("HTTP rejected: a limit is reached", "bound=bytes")
        text = one.get("/metrics")[1]
        assert 'rota_server_full_total{bound="bytes"}' in text and 'rota_http_full_total{bound="bytes"}' in text, text
        for each in held:
            each.close()


@test
def connections_without_a_call_end():
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
    with node(*ANY_PORTS, "--idle-limit", "1s") as one:
        assert one.ready
        for name, text in (("grpc", hello), ("http", b"GET /healthz HTTP/1.1\r\nX: ")):
            with connect(one, name, text) as idle:
                with contextlib.suppress(ConnectionError):
                    while idle.recv(4096):
                        if name == "grpc":
                            idle.sendall(b"\0\0\x08\6\1\0\0\0\0" + bytes(8))  # the answer to its ping
        assert one.get("/api/v1/queues")[0] == 200  # the node has ended its own, and asks itself again


@test
def directory_has_one_node_at_a_time():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        with node(*ANY_PORTS, folder=folder) as one:
            done = run(*ANY_PORTS, folder=folder)
            assert done.returncode == 1 and f"process {one.process.pid}" in done.stderr, done
            assert "Sanitizer" not in done.stderr, done
            one.process.kill()
            one.wait()
        for text, end in (("is serving again: its previous process ended without leaving", signal.SIGTERM),
                          ("is serving", signal.SIGKILL)):
            with node(*ANY_PORTS, folder=folder) as other:
                assert other.ready.startswith("ready "), other.seen
                events = json.loads(other.get("/api/v1/events?kind=node")[1])["events"]
                assert [event["text"] for event in events if "is serving" in event["text"]] == [text], events
                other.signal(end)
                other.wait()


@test
def directory_has_every_space_with_the_epochs_of_its_claims():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        config = write(folder, '[[space]]\nname = "books"\nshards = 12\n')
        with node("--config", config, *ANY_PORTS) as one:
            asked = ["--node", one.reach["grpc"], "--json"]

            def rota(*words):
                done = subprocess.run([ROTA, *words, *asked], capture_output=True, timeout=TIMEOUT, check=False)
                return json.loads(done.stdout) if done.returncode == 0 else None

            def agree():
                found, shards = rota("directory", "get", "--collection", "books"), rota("shard", "list", "books")
                if not found or not shards or any(shard["state"] != "owned" for shard in shards["shards"]):
                    return False
                claims = {shard["shard"]: [(shard["owner"], shard["epoch"])] for shard in shards["shards"]}
                return {shard["shard"]: [(at["address"], at["epoch"]) for at in shard["nodes"] if at["serviceable"]]
                        for shard in found["shards"]} == claims

            while not agree():
                pass
            assert rota("directory", "get", "--collection", "papers") is None
            assert rota("space", "create", "papers", "--shards", "2", "--engine", "static", "--seats", "10.0.0.1:1")
            while not rota("directory", "get", "--collection", "papers"):
                pass


@test
def those_who_watch_a_space_do_not_hold_up_a_stop():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        config = write(folder, '[[space]]\nname = "books"\nshards = 4\n')
        with node("--config", config, *ANY_PORTS, "--drain-limit", "1h") as one:
            while subprocess.run([ROTA, "directory", "get", "--collection", "books", "--node", one.reach["grpc"]],
                                 capture_output=True, timeout=TIMEOUT, check=False).returncode != 0:
                pass  # it has not read its spaces yet
            watch = subprocess.Popen([ROTA, "directory", "watch", "--collection", "books", "--node",
                                      one.reach["grpc"]],
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            try:
                assert watch.stdout.readline()
                while json.loads(one.get("/api/v1/node")[1])["watchers"] == 0:
                    pass
                one.signal(signal.SIGTERM)
                assert one.wait() == 0
            finally:
                watch.kill()
                watch.wait(TIMEOUT)
                watch.stdout.close()


@test
def http_is_for_its_own_names():
    with node(*ANY_PORTS, "--http-names", "rota.example") as one:
        assert one.get("/healthz")[0] == 200
        assert one.get("/readyz") == (200, "serving\n")
        assert one.get("/metrics")[0] == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "rota.example.evil"):
            status, body = one.get("/readyz", Host=host)
            assert status in (400, 403, 421) and "error" in json.loads(body), (host, status, body)
        for host in ("rota.example", "localhost", one.reach["http"]):
            assert one.get("/readyz", Host=host)[0] == 200, host
        cluster = json.loads(one.get("/api/v1/cluster")[1])
        assert [member["address"] for member in cluster["nodes"]] == [one.reach["grpc"]]
        assert one.get("/nothing")[0] == 404
        for path, method in (("/api/v1/node", "POST"), ("/api/v1/queues", "DELETE"), ("/api/v1/plan", "PUT")):
            assert one.get(path, method)[0] == 405, (path, method)
            assert one.get(path, method, Host="evil.example")[0] == 403, (path, method)
        assert one.get("/api/v1/queues/mail/pause", "POST")[0] == 401


def add_and_take(one, folder):
    """A job that runs at a worker until the file `go` is there."""
    address = one.reach["grpc"]
    worker = subprocess.Popen([ROTA, "work", "--node", address, "--queue", "q", "--drain", "60s", "--", "sh", "-c",
                               f"echo begun > {folder}/begun; read line < {folder}/go"], stderr=subprocess.DEVNULL)
    subprocess.run([ROTA, "job", "add", "--node", address, "--queue", "q", "x"], check=True, timeout=TIMEOUT,
                   stdout=subprocess.DEVNULL)
    with open(f"{folder}/begun") as pipe:
        assert pipe.read() == "begun\n"
    return worker


@contextlib.contextmanager
def busy(*words):
    """A node with a job that runs, and the pipe that ends it."""
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        os.mkfifo(f"{folder}/begun")
        os.mkfifo(f"{folder}/go")
        with node(*ANY_PORTS, *words, folder=folder) as one:
            worker = add_and_take(one, folder)
            try:
                yield one, f"{folder}/go"
            finally:
                worker.kill()
                worker.wait(TIMEOUT)


@test
def sigterm_waits_for_running_work():
    with busy("--drain-limit", "1h") as (one, go):
        one.signal(signal.SIGTERM)
        one.await_line("node draining")
        status, body = one.get("/readyz")
        assert (status, body) == (503, "stopping\n"), (status, body)
        assert one.process.poll() is None
        with open(go, "w") as pipe:
            pipe.write("go\n")
        assert one.wait() == 0
        one.await_line("node ended")


@test
def second_sigterm_is_immediate():
    with busy("--drain-limit", "1h") as (one, _):
        one.signal(signal.SIGTERM)
        one.await_line("node draining")
        one.signal(signal.SIGTERM)
        assert one.wait() == 0


@test
def drain_has_a_limit():
    with busy("--drain-limit", "100ms") as (one, _):
        one.signal(signal.SIGTERM)
        assert one.wait() == 0


@test
def sighup_applies_settings_that_can_change():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        path = write(folder, "zone = \"a\"\n")
        with node("--config", path, *ANY_PORTS, folder=folder) as one:
            assert one.get("/readyz", Host="rota.example")[0] != 200
            write(folder, "zone = \"b\"\nhttp-names = \"rota.example\"\npartitions = 32\nlog-level = \"debug\"\n")
            one.signal(signal.SIGHUP)
            one.await_line("setting changed", "http-names")
            one.await_line("setting changed", "zone")
            one.await_line("setting needs a restart", "partitions")
            one.await_line("settings reloaded")
            assert one.get("/readyz", Host="rota.example")[0] == 200
            assert json.loads(one.get("/api/v1/node")[1])["zone"] == "b"
            one.await_line("members changed", "changed=1")  # the others hear of the zone

            write(folder, "zone = \"c\"\nnonsense = 1\n")
            one.signal(signal.SIGHUP)
            said = one.await_line("settings not reloaded")
            assert "rotad.toml:2" in said and "level=error" in said, said
            assert json.loads(one.get("/api/v1/node")[1])["zone"] == "b"
            assert one.get("/readyz") == (200, "serving\n")
            texts = [event["text"] for event in json.loads(one.get("/api/v1/events?kind=setting")[1])["events"]]
            assert texts.count("has reloaded its settings") == 1 and "rotad.toml:2" in texts[-1], texts
            assert texts[-1].startswith("could not reload its settings: "), texts


def certify(folder, name, names, issuer=None):
    """A key and a certificate NAME.pem for these names, by itself or by another one."""
    with open(f"{folder}/{name}.ext", "w") as file:
        file.write(f"subjectAltName={names}\n" if names else "basicConstraints=critical,CA:TRUE\n")
    for words in (["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key"],
                  ["req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr"],
                  ["x509", "-req", "-in", f"{name}.csr", "-days", "2", "-extfile", f"{name}.ext", "-out",
                   f"{name}.pem", *(["-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key", "-CAcreateserial"] if issuer
                                    else ["-signkey", f"{name}.key"])]):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=TIMEOUT)
    return ["--cert", f"{folder}/{name}.pem", "--key", f"{folder}/{name}.key"]


def asks(one, folder, *words, code=0):
    """What the command line sees of a node, by TLS."""
    done = subprocess.run([ROTA, *words, "--node", one.reach["grpc"]], cwd=folder, capture_output=True, text=True,
                          timeout=TIMEOUT)
    assert done.returncode == code, done
    return done.stderr if code else done.stdout


def refused(folder, said, *words):
    """By the start, and by --check-config as well, with the same sentence."""
    texts = []
    for check in (["--check-config"], []):
        done = run(*words, *check, folder=folder)
        assert done.returncode == 2 and said in done.stderr, (check, done)
        texts.append(done.stderr)
    assert texts[0] == texts[1], texts


@test
def settings_are_checked_as_strictly_as_at_the_start():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        tls = certify(folder, "other", "DNS:other.example")
        refused(folder, "is not valid for 127.0.0.1", *ANY_PORTS, *tls)
        refused(folder, "is not valid for node.example", *ANY_PORTS, *tls, "--advertise", "node.example:7700")
        done = run(*ANY_PORTS, *tls, "--advertise", "other.example:7700", "--check-config", folder=folder)
        assert done.returncode == 0, done
        os.chmod(tls[3], 0o644)
        refused(folder, "other users can read the secret in it", *ANY_PORTS, *tls, "--advertise", "other.example:7700")
        with open(os.path.join(folder, "keys"), "w") as file:
            file.write("public nonsense\n")
        refused(folder, "keys", *ANY_PORTS, "--workers-key", "keys", "--workers-list", "keys")
        refused(folder, "operators names certificates, but without ca clients send none", *ANY_PORTS,
                "--operators", "ops")
        refused(folder, "ca needs TLS: set cert and key", *ANY_PORTS, "--ca", tls[1])
        os.chmod(tls[3], 0o600)
        refused(folder, "nodes: certificate names must be separated by commas", *ANY_PORTS, *tls, "--advertise",
                "other.example:7700", "--ca", tls[1], "--nodes", "one,,two")
        assert not os.path.exists(os.path.join(folder, "rota-data"))


@test
def files_that_other_users_can_read_or_change_are_refused():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        with node(*ANY_PORTS, folder=folder) as one:
            assert one.ready
            one.signal(signal.SIGTERM)
            one.wait()
        data = os.path.join(folder, "rota-data")
        for path, mode, said in ((data, 0o777, "every user can write to rota-data"),
                                 (os.path.join(data, "token"), 0o644, "rota-data/token: other users can read the secret in it"),
                                 (os.path.join(data, "token"), 0o602, "other users can change the secret in it"),
                                 (os.path.join(data, "store.db"), 0o666, "rota-data/store.db: other users can read the secret in it"),
                                 (os.path.join(data, "jobs"), 0o777, "rota-data/jobs: every user can write to it")):
            before = stat.S_IMODE(os.stat(path).st_mode)
            os.chmod(path, mode)
            refused(folder, said, *ANY_PORTS)
            os.chmod(path, before)
        jobs = os.path.join(data, "jobs")
        segment = glob.glob(jobs + "/*.journal")[0]
        os.chmod(segment, 0o644)
        os.chmod(jobs, 0o755)
        refused(folder, "other users can read the jobs in it (mode 0644)", *ANY_PORTS)
        assert run(*ANY_PORTS, "--roles", "group", "--check-config", folder=folder).returncode == 0
        os.chmod(segment, 0o600)
        os.chmod(jobs, 0o700)
        with node(*ANY_PORTS, folder=folder) as one:
            assert one.ready, one.seen


@test
def a_store_readable_by_other_users_is_refused():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        store = os.path.join(folder, "store.db")
        old = os.umask(0o022)
        subprocess.run([ROTA, "node", "heartbeat", "--store", f"sqlite:{store}", "10.0.0.1:1"], check=True, timeout=TIMEOUT)
        os.umask(old)
        for path in glob.glob(store + "*"):
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o640, path
        with node(*ANY_PORTS, "--store", f"sqlite:{store}", folder=folder) as one:
            assert one.ready, one.seen
        os.chmod(store, 0o644)
        refused(folder, f"--store: {store}: other users can read the secret in it (mode 0644); run chmod 600 {store}",
                *ANY_PORTS, "--store", f"sqlite:{store}")


@test
def node_with_its_own_certificate_asks_itself():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        own = certify(folder, "own", "IP:127.0.0.1")
        ports = ["--http", "127.0.0.1:0", "--workers", "127.0.0.1:0"]
        with node("--listen", "127.0.0.1:0", *ports, *own, folder=folder) as one:
            assert one.ready.startswith("ready "), one.seen
            assert json.loads(one.get("/api/v1/queues")[1]) ["items"] == []
            asks(one, folder, "job", "add", "--queue", "q", "x", "--tls-ca", "own.pem")
            assert asks(one, folder, "queue", "list", "--tls-ca", "own.pem").startswith("q\topen\t1\t")
            assert asks(one, folder, "node", "list", "--tls-ca", "own.pem").count("serving") == 1
            certify(folder, "other", "IP:127.0.0.1")
            assert "certificate" in asks(one, folder, "node", "list", "--tls-ca", "other.pem", code=1)
            asks(one, folder, "node", "list", "--timeout", "5s", code=1)  # plain text is for nobody
            one.signal(signal.SIGTERM)
            assert one.wait() == 0
        # Everywhere is here, too; the name is that by which others come.
        named = certify(folder, "named", "DNS:rota.example")
        with node("--listen", "0.0.0.0:0", "--advertise", "rota.example:7700", *ports, *named, folder=folder) as one:
            assert one.ready.startswith("ready "), one.seen
            assert [queue["name"] for queue in json.loads(one.get("/api/v1/queues")[1])["items"]] == ["q"]
        done = run("--listen", "127.0.0.1:0", *ports, *named, folder=folder)
        assert done.returncode == 2 and "is not valid for 127.0.0.1" in done.stderr and "advertise" in done.stderr, done
        refused(folder, "--key: ", "--listen", "127.0.0.1:0", *ports, *own[:2], *named[2:])


@test
def nodes_know_each_other_by_their_authority():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        certify(folder, "ca", None)
        words = [*ANY_PORTS, "--store", f"sqlite:{folder}/store.db", "--ca", f"{folder}/ca.pem"]
        with contextlib.ExitStack() as stack:
            nodes = [stack.enter_context(node("--data", f"{folder}/{name}", *words,
                                              *certify(folder, name, "IP:127.0.0.1", "ca"), folder=folder))
                     for name in ("a", "b")]

            def states(one):
                return [entry["state"] for entry in json.loads(one.get("/api/v1/cluster")[1])["nodes"]]
            for one in nodes:
                while states(one) != ["serving", "serving"]:
                    time.sleep(0.1)
            trusted = ["--tls-ca", "ca.pem", "--tls-cert", "a.pem", "--tls-key", "a.key"]
            for i in range(8):  # some of them belong to the other node
                asks(nodes[0], folder, "job", "add", "--queue", "q", f"{i}", *trusted)
            for one in nodes:
                assert json.loads(one.get("/api/v1/queues")[1])["items"][0]["n_waiting"] == 8
            assert asks(nodes[1], folder, "node", "list", *trusted).count("serving") == 2
            asks(nodes[1], folder, "node", "list", "--tls-ca", "ca.pem", "--timeout", "5s", code=1)  # without one
            certify(folder, "a", "IP:127.0.0.1", "ca")
            nodes[0].signal(signal.SIGHUP)
            nodes[0].await_line("settings reloaded")
            assert states(nodes[0]) == ["serving", "serving"]


@test
def service_manager_is_notified():
    with tempfile.TemporaryDirectory(prefix="rota-node-") as folder:
        path = os.path.join(folder, "notify")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.settimeout(TIMEOUT)
        listener.bind(path)

        def await_word(word, passed):
            while (said := listener.recv(4096).decode()).split("\n")[0] != word:
                assert said in passed, said

        env = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"}
        with node(*ANY_PORTS, folder=folder, env=env) as one:
            assert one.ready
            await_word("READY=1", ["WATCHDOG=1"])
            for _ in range(3):
                await_word("WATCHDOG=1", [])
            one.signal(signal.SIGHUP)
            await_word("RELOADING=1", ["WATCHDOG=1"])
            await_word("READY=1", ["WATCHDOG=1"])
            one.signal(signal.SIGTERM)
            await_word("STOPPING=1", ["WATCHDOG=1"])
            assert one.wait() == 0
        listener.close()


if __name__ == "__main__":
    sys.exit(tap.run(names=sys.argv[3:]))
