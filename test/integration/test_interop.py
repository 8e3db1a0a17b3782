"""Rota's gRPC against gRPC's own library, both ways: test_interop.py DIRECTORY,
where the echo examples are. Skipped when Python has no grpc module. Prints TAP."""

import subprocess
import sys
import traceback
from concurrent import futures

try:
    import grpc
except ImportError:
    print("1..0 # SKIP no Python module grpc (python3-grpcio)")
    sys.exit(0)

PROGRAMS = sys.argv[1]
ECHO = "/example.Echo/Echo"
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class RotaServer:
    def __enter__(self):
        self.process = subprocess.Popen([PROGRAMS + "/echo_server"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        address = self.process.stdout.readline().strip().removeprefix("ready grpc=")
        self.channel = grpc.insecure_channel(address)
        self.echo = self.channel.unary_unary(ECHO)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(timeout=20) == 0
        self.channel.close()
        self.process.stdout.close()


def status(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


@test
def their_client_gets_its_messages_back():
    with RotaServer() as server:
        for message in (b"hi", b"", b"\0" * 100, b"x" * (3 << 20)):
            assert server.echo(message, timeout=60) == message
        assert server.echo(b"m", metadata=[("a", "b"), ("c-bin", b"\0\1")], timeout=60) == b"m"


@test
def their_client_hears_our_errors():
    with RotaServer() as server:
        code, text = status(server.echo, b"x" * (5 << 20))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger" in text
        code, text = status(server.channel.unary_unary("/example.Echo/None"), b"")
        assert code == grpc.StatusCode.UNIMPLEMENTED
        code, text = status(server.echo, b"z" * 500, compression=grpc.Compression.Gzip)
        assert code == grpc.StatusCode.UNIMPLEMENTED and "compressed" in text
        assert server.echo(b"still here", timeout=60) == b"still here"


@test
def their_client_makes_and_drops_thousands_of_calls():
    with RotaServer() as server:
        calls = [server.echo.future(b"%d" % i, timeout=120) for i in range(3000)]
        assert [call.result() for call in calls] == [b"%d" % i for i in range(3000)]
        for call in [server.echo.future(b"x") for _ in range(2000)]:
            call.cancel()
        assert server.echo(b"still here", timeout=60) == b"still here"


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.echo) if details.method == ECHO else None

    @staticmethod
    def echo(request, context):
        if request == b"fail":
            context.set_trailing_metadata([("x", "y")])
            context.abort(grpc.StatusCode.NOT_FOUND, "nö 100%")
        assert context.time_remaining() > 0
        return request


@test
def our_clients_call_their_server():
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([Handler()])
    address = "127.0.0.1:%d" % server.add_insecure_port("127.0.0.1:0")
    server.start()

    def run(*arguments):
        return subprocess.run(arguments, capture_output=True, text=True, timeout=120)

    many = run(PROGRAMS + "/echo_client", address, "3000", "300")
    assert many.returncode == 0 and many.stdout.startswith("3000 ok, 0 failed"), many
    one = run(PROGRAMS + "/echo_wait", address, "hello")
    assert one.returncode == 0 and one.stdout == "hello\n", one
    bad = run(PROGRAMS + "/echo_wait", address, "fail")
    assert bad.returncode == 1 and bad.stderr == "echo_wait: NOT_FOUND: nö 100%\n", bad
    server.stop(None)
    gone = run(PROGRAMS + "/echo_wait", address, "hello")
    assert gone.returncode == 1 and "UNAVAILABLE" in gone.stderr, gone


print(f"1..{len(TESTS)}")
for number, function in enumerate(TESTS, 1):
    name = function.__name__.replace("_", " ")
    try:
        function()
        print(f"ok {number} - {name}", flush=True)
    except Exception:
        print(f"not ok {number} - {name}", flush=True)
        print("# " + traceback.format_exc().replace("\n", "\n# "))
