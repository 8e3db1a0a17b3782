"""What the tests of the command line share: running rota, and files for it."""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import tap  # noqa: E402
from tap import test  # noqa: E402, F401 (of all tests here)

ROTA = os.path.abspath(sys.argv[1])
DATA = pathlib.Path(sys.argv[2])


class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def lines(self):
        assert self.out == b"" or self.out.endswith(b"\n"), self.out[-100:]
        return self.out.split(b"\n")[:-1]

    def json(self):
        return json.loads(self.out)

    def json_lines(self):
        return [json.loads(line) for line in self.lines()]


def run(*args, stdin=b"", env=None, **how):
    """Run rota; how may override standard output and the like."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    environment.update(env or {})
    how.setdefault("stdout", subprocess.PIPE)
    if "stdin_from" in how:
        how["stdin"] = how.pop("stdin_from")
    else:
        how["input"] = stdin
    done = subprocess.run([ROTA, *args], stderr=subprocess.PIPE, env=environment, timeout=120, **how)
    return Answer(done.returncode, done.stdout, done.stderr)


def ok(*args, **how):
    answer = run(*args, **how)
    assert answer.code == 0, (args, answer.code, answer.err)
    assert answer.err == b"", (args, answer.err)
    return answer


def refuse(*args, name=None, code=2, **how):
    """The command fails with one sentence on standard error that has `name` in it."""
    answer = run(*args, **how)
    shown = tuple(a[:80] if isinstance(a, (str, bytes)) else a for a in args)
    assert answer.code == code, (shown, answer.code, answer.out[:200], answer.err[:500])
    assert not answer.out, (shown, answer.out[:200])
    assert answer.err.startswith((b"rota: ", b"rotad: ")), (shown, answer.err[:500])
    assert answer.err.endswith(b"\n") and answer.err.count(b"\n") == 1, (shown, answer.err[:500])
    assert 10 < len(answer.err) < 700, (shown, len(answer.err))
    answer.err.decode("utf-8")
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", answer.err), (shown, answer.err)
    for part in [name] if isinstance(name, (str, bytes)) else name or []:
        part = part if isinstance(part, bytes) else part.encode()
        assert part in answer.err, (shown, part, answer.err)
    return answer


class Files:
    """A directory with the files a test needs."""

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)
        return self

    def __exit__(self, *_):
        self.directory.cleanup()

    def write(self, name, content):
        path = self.path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def hosts(self, name, addresses):
        return self.write(name, "".join(a + "\n" for a in addresses))


def vectors(name):
    return json.loads((DATA / name).read_text())


def as_hosts(n, first=1):
    return [f"10.0.{i >> 8}.{i & 255}:7000" for i in range(first, first + n)]


def on_terminal(*args, width=80, code=0, env=None):
    """What rota prints when standard output is a terminal."""
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", **(env or {})})
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen([ROTA, *args], stdin=subprocess.DEVNULL, stdout=slave, env=environment)
    os.close(slave)
    text = b""
    try:
        while chunk := os.read(master, 65536):
            text += chunk
    except OSError:
        pass  # how the end of a terminal reads
    os.close(master)
    assert process.wait(60) == code
    return text.decode()


def without_colors(text):
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", text)


def closed(stream, *args, **how):
    """Run rota with a standard stream closed: "<", ">" or "2>"."""
    done = subprocess.run(["sh", "-c", f'exec "$@" {stream}&-', "sh", ROTA, *args],
                          capture_output=True, timeout=60, check=False, **how)
    return Answer(done.returncode, done.stdout, done.stderr)


class Watching:
    """A command that prints a line as each thing happens."""

    def __init__(self, *args):
        self.process = subprocess.Popen([ROTA, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def line(self):
        """The next line without its moment; the test's own time limit ends a wait forever."""
        text = self.process.stdout.readline().decode()
        assert text.endswith("\n"), (text, self.process.stderr.read())
        moment, rest = text.rstrip("\n").split("\t", 1)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment), moment
        return rest

    def json(self):
        return json.loads(self.process.stdout.readline())

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        rest, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, rest, err) == (0, b"", b""), (self.process.returncode, rest, err)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def replace(path, text):
    """Put new content in the place of a file, as editors do."""
    pathlib.Path(path + ".new").write_text(text)
    os.rename(path + ".new", path)


def commands(path):
    """A call of every command that is right if the file is."""
    yield ["ring", "lookup", "--hosts", path]
    yield ["route", "--hosts", path, "--namespace", "ns", "--queue", "q", "--type", "workflow", "--partitions", "4"]
    yield ["plan", "--hosts", path, "--queue", "q", "--add", "z:1"]
    yield ["hosts", "check", path]
    yield ["hosts", "watch", path]


def config_commands(path):
    yield ["config", "check", path]
    yield ["config", "show", path, "--namespace", "ns", "--queue", "q", "--type", "workflow"]


def every_command(files):
    hosts = files.hosts("good", as_hosts(3))
    config = files.write("good.toml", "")
    yield from (c for c in commands(hosts) if "watch" not in c)
    yield from config_commands(config)
    yield ["ring", "hash"]
    yield ["gradual", "--key", "k", "--start", "1", "--end", "2", "--now", "3"]


def watching_commands(files):
    yield ["hosts", "watch", files.hosts("watched", as_hosts(3))]
    yield ["config", "watch", files.write("watched.toml", ""), "--queue", "q"]
