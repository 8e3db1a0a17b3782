"""Has Rota's peer talk with one of another make, both ways, and prints TAP.

    run.py rota|node|cpp BUILD_DIRECTORY PEER [OTHER]
    run.py queue BUILD_DIRECTORY ROTA
    run.py protos BUILD_DIRECTORY ROTAD

PEER is Rota's program and OTHER that of gRPC in C++; both are called as peer.h
says. What gRPC for Node needs is installed into the build directory at the
first run. Where a tool or a network is missing the tests are skipped, which
`./dev test --ci` takes as a failure."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "..", "..", "..", "proto")
sys.path.insert(0, os.path.join(HERE, "..", "..", "lib"))
import npm  # noqa: E402
from npm import Missing  # noqa: E402

TIMEOUT = 120  # seconds for one program; each needs a few
n_checks = n_failed = 0


def check(is_right, name, notes=()):
    global n_checks, n_failed
    n_checks += 1
    n_failed += not is_right
    print("ok" if is_right else "not ok", n_checks, "-", name)
    for note in notes:
        print("#", note, flush=True)


class Program:
    """A peer that runs. It is killed when it takes too long, so that whoever
    waits for it continues."""

    def __init__(self, argv, **options):
        self.argv = argv
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.timer = threading.Timer(TIMEOUT, self.process.kill)
        self.timer.start()

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, text):
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, which its status tells

    def end(self, number=None):
        """Its status, after a signal if one is given."""
        if number:
            self.process.send_signal(number)
        status = self.process.wait()
        self.timer.cancel()
        self.process.stdin.close()
        self.process.stdout.close()
        return status


class Peer:
    """A program that serves and checks. `has` names what its server has beside
    the service of interop.proto."""

    def __init__(self, name, argv, has=(), env=None):
        self.name, self.argv, self.has = name, argv, list(has)
        self.env = {**os.environ, **(env or {})}

    def start(self, *args):
        return Program(self.argv + list(args), env=self.env)

    def serve(self, directory, address="127.0.0.1:0"):
        server = self.start("serve", address, directory)
        words = server.line().split()
        if words[:1] != ["ready"]:
            server.end(signal.SIGKILL)
            raise RuntimeError(f"{self.name} does not serve: {' '.join(words)}")
        return server, words[1]


def relay(program, prefix):
    """Pass on the rest of a program's TAP under names of ours. All of it must be
    there: a plan at the end, and as many checks."""
    n = 0
    plan = None
    for line in program.process.stdout:
        words = line.rstrip("\n").split(" - ", 1)
        if line.startswith("#"):
            print(line, end="")
        elif line.startswith("1.."):
            plan = int(line[3:])
        elif len(words) == 2 and words[0].split()[0] in ("ok", "not"):
            n += 1
            check(words[0].startswith("ok"), f"{prefix}: {words[1]}")
        else:
            print("#", line, end="")
    status = program.end()
    check(plan == n and status == 0, f"{prefix}: all checks made and passed",
          [] if status == 0 else [f"exit status {status}, {n} checks of {plan}"])


def talk(client, server, directory):
    prefix = f"{client.name} to {server.name}" + (", TLS" if directory != "-" else "")
    serving, address = server.serve(directory)
    relay(client.start("check", address, directory, *server.has), prefix)
    status = serving.end(signal.SIGTERM)
    check(status == 0, f"{prefix}: the server ends in good order", [f"exit status {status}"])


def replace(client, server, directory):
    """The server is drained, and another takes its place."""
    prefix = f"{client.name} to {server.name}, replaced"
    serving, address = server.serve(directory)
    calling = client.start("survive", address, directory, *server.has)
    line = calling.line()
    status = serving.end(signal.SIGTERM)
    check(line == "holding" and status == 0, f"{prefix}: the server drains",
          [f"exit status {status}, {line}"])
    serving, _ = server.serve(directory, address)
    calling.tell("end")
    relay(calling, prefix)
    serving.end(signal.SIGTERM)


def make_certificates(directory):
    """ca.pem, and cert.pem with key.pem for this machine."""
    if not shutil.which("openssl"):
        raise Missing("there is no openssl")
    os.makedirs(directory, exist_ok=True)
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    with open(os.path.join(directory, "names"), "w", encoding="ascii") as names:
        names.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for args in (
            ["req", "-x509", *new_key, "-keyout", "ca-key.pem", "-out", "ca.pem", "-days", "7",
             "-subj", "/CN=Rota tests"],
            ["req", *new_key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost"],
            ["x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
             "-CAcreateserial", "-days", "7", "-extfile", "names", "-out", "cert.pem"]):
        subprocess.run(["openssl", *args], cwd=directory, check=True, stderr=subprocess.DEVNULL)


def node_peer(build):
    """gRPC for Node."""
    env = npm.install(HERE, build)
    version = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    has = ["drops"] if int(version.lstrip("v").split(".")[0]) < 20 else []
    return Peer("grpc-js", ["node", os.path.join(HERE, "peer.js")], has=has, env=env)


def cpp_peer(program):
    if not program:
        raise Missing("gRPC for C++ was not there when this was built: libgrpc++-dev, "
                      "libprotobuf-dev, protobuf-compiler, protobuf-compiler-grpc")
    return Peer("grpc++", [program], has=["cancels"])


def queue(build, rota):
    """A broker, and gRPC for Node as submitter and worker."""
    node = node_peer(build)
    broker = Program([rota, "broker", "--listen", "127.0.0.1:0", "--durability", "memory", "--log-level", "error"])
    address = broker.line().split("grpc=")[1].split()[0]
    relay(Program(["node", os.path.join(HERE, "queue.js"), address], env=node.env), "grpc-js to a broker")
    status = broker.end(signal.SIGTERM)
    check(status == 0, "grpc-js to a broker: it ends in good order", [f"exit status {status}"])


def compile_protos(directory):
    """All .proto files in one call, for each language that this protoc knows."""
    files = sorted(os.path.relpath(os.path.join(folder, name), PROTO)
                   for folder, _, names in os.walk(PROTO) for name in names if name.endswith(".proto"))
    if not shutil.which("protoc"):
        raise Missing("protoc is not installed: protobuf-compiler")
    for language in ("cpp", "csharp", "java", "python", "ruby"):
        out = os.path.join(directory, "protos-" + language)
        os.makedirs(out, exist_ok=True)
        done = subprocess.run(["protoc", f"--{language}_out={out}", *files], cwd=PROTO, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        check(done.returncode == 0 and not done.stdout, f"protoc compiles all files at once for {language}",
              done.stdout.splitlines())


def lint_protos(env):
    buf = os.path.join(env["NODE_PATH"], ".bin", "buf")
    done = subprocess.run([buf, "lint"], cwd=PROTO, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    check(done.returncode == 0, "buf lint finds nothing", done.stdout.splitlines())


def protos(build, rotad):
    """The .proto files as strangers use them, and what a node with every role says of itself."""
    node = node_peer(build)
    lint_protos(node.env)
    with tempfile.TemporaryDirectory(prefix="rota-protos-") as directory:
        compile_protos(directory)
        with open(os.path.join(directory, "prices"), "w", encoding="ascii") as file:
            file.write("one\t1\n")
        config = os.path.join(directory, "rotad.toml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f'[[cache]]\nname = "prices"\nsource = "file:{directory}/prices"\nshards = 1\n')
        server = Program([rotad, "--config", config, "--data", os.path.join(directory, "data"),
                          "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--workers", "127.0.0.1:0"])
        line = server.line()
        relay(Program(["node", os.path.join(HERE, "protos.js"), line.split("grpc=")[1].split()[0]],
                      env=node.env), "a node")
        status = server.end(signal.SIGTERM)
        check(status == 0, "a node: it ends in good order", [f"exit status {status}"])


def run(kind, build, peer, other):
    if kind in ("queue", "protos"):
        (queue if kind == "queue" else protos)(build, peer)
        return
    rota = Peer("Rota", [peer], has=["chat", "gzip", "health", "reflection"])
    certificates = os.path.join(build, "certificates-" + kind)
    if kind == "rota":
        pairs = [(rota, rota)]
    else:
        stranger = node_peer(build) if kind == "node" else cpp_peer(other)
        pairs = [(stranger, rota), (rota, stranger)]
    make_certificates(certificates)
    for client, server in pairs:
        talk(client, server, "-")
        talk(client, server, certificates)
        replace(client, server, "-")


def main():
    kind, build, peer = sys.argv[1:4]
    try:
        run(kind, build, peer, sys.argv[4] if len(sys.argv) > 4 else None)
    except Missing as missing:
        print(f"1..0 # SKIP {missing}")
        return 0
    print(f"1..{n_checks}")
    return n_failed > 0


sys.exit(main())
