"""A database for a test: started for it alone, and gone with it.

usage: databases.py KIND PROGRAM [ARGUMENT...]

Starts a server of KIND (sqlite, mysql, postgres) in a directory of its own, runs the
program and ends with its result. The program finds in its environment
  ROTA_TEST_URL        where the database is, with a user that owns it
  ROTA_TEST_ADMIN_URL  the same with a user that may do everything
  ROTA_TEST_CONTROL    two descriptors "READ,WRITE": it writes a line `restart`, `stop`,
                       `start`, `pause` or `resume`, and reads `ok` when that is done
When the server's programs are not installed it prints `1..0 # SKIP reason`.

Other tests in Python import it: `with databases.open_database("mysql") as database: database.url`.

Servers are never run as root. They end with whoever started them, however that ends:
the kernel kills them, and a process that waits for nothing else removes the directory.
"""
import contextlib
import ctypes
import glob
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.parse

import watch

USER, PASSWORD, DATABASE = "rota", "s3cret p@ss/word", "rota_test"
START_S = 120
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def is_running(pid):
    """Has a process that was told to stop a thread that has not yet?"""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may have ended by itself
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TtXZ":
                    return True
    return False


class Absent(Exception):
    """The server's programs are not installed."""


class Failed(Exception):
    pass


def find_program(*names):
    for name in names:
        found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        if found:
            return found
        for path in sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True):
            return path
    raise Absent(f"{names[0]} is not installed")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def become_plain():
    """Of a child: be nobody if we are root, and die with our parent."""
    os.setpgid(0, 0)
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Database:
    """A server in a directory of its own. Subclasses know their programs."""

    port = 0

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rota-db-"))
        # It reads until we are gone, and then cleans up behind us.
        self.sweeper = subprocess.Popen(
            ["sh", "-c", 'read -r _; sleep 0.2; rm -rf "$1" 2>/dev/null || { sleep 1; rm -rf "$1"; }',
             "sweeper", self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if os.getuid() == 0:
            os.chown(self.folder, pwd.getpwnam("nobody").pw_uid, -1)
        self.log = open(self.folder / "log", "wb")
        self.server = None

    def complain(self, what):
        return Failed(f"{what}\n{(self.folder / 'log').read_text(errors='replace')[-4000:]}")

    def run(self, *command, input=None):
        """Run a program as the server's user; returns whether it went well."""
        return subprocess.run(
            [str(c) for c in command], input=input, stdout=self.log, stderr=self.log,
            cwd=self.folder, env=self.environment(), preexec_fn=become_plain, check=False,
        ).returncode == 0

    def environment(self):
        return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.folder),
                "LC_ALL": "C", "TZ": "UTC"}

    def must(self, *command, input=None):
        if not self.run(*command, input=input):
            raise self.complain(f"{pathlib.Path(command[0]).name} failed")

    def start(self):
        before = (self.folder / "log").stat().st_size
        self.server = subprocess.Popen(
            [str(c) for c in self.command()], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, cwd=self.folder, env=self.environment(), preexec_fn=become_plain,
        )
        log = self.folder / "log"
        with watch.Watch(self.folder) as folder:
            is_told = folder.wait(lambda: self.ready_text in log.read_bytes()[before:], START_S, self.server)
        if self.server.poll() is not None:
            raise self.complain("the server ended before it served")
        if not is_told or not self.is_ready():
            raise self.complain(f"the server did not serve within {START_S} s")

    def start_somewhere(self):
        """Start on a port that is free; somebody else may be faster to take it."""
        for attempt in range(5):
            self.port = free_port()
            try:
                return self.start()
            except Failed:
                self.stop()
                if attempt == 4:
                    raise

    def stop(self):
        if self.server and self.server.poll() is None:
            self.server.send_signal(signal.SIGCONT)
            self.server.send_signal(self.stop_signal)
            try:
                self.server.wait(START_S)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
        self.server = None

    def restart(self):
        self.stop()
        self.start()

    def members(self):
        """The server's processes."""
        pids = [self.server.pid]
        for pid in pids:
            for task in glob.glob(f"/proc/{pid}/task/*/children"):
                with contextlib.suppress(OSError):
                    pids += [int(word) for word in pathlib.Path(task).read_text().split()]
        return pids

    def tell_all(self, number):
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(pid, number)

    def pause(self):
        """Stop it; when this returns, no thread of it runs any more."""
        self.tell_all(signal.SIGSTOP)
        while any(is_running(pid) for pid in self.members()):
            os.sched_yield()

    def resume(self):
        self.tell_all(signal.SIGCONT)

    def close(self):
        if self.server and self.server.poll() is None:
            self.tell_all(signal.SIGKILL)
            self.server.wait()
        self.log.close()
        self.sweeper.stdin.close()
        self.sweeper.wait()

    def make_url(self, user, password):
        word = f"{user}:{urllib.parse.quote(password, safe='')}@" if password else f"{user}@"
        return f"{self.scheme}://{word}127.0.0.1:{self.port}/{DATABASE}"


class Sqlite(Database):
    def __init__(self):
        super().__init__()
        self.url = self.admin_url = f"sqlite:{self.folder}/rota.db"
        os.close(os.open(f"{self.folder}/rota.db", os.O_CREAT, 0o600))  # nodes keep a secret in it

    def start(self):
        pass

    def pause(self):
        pass

    def resume(self):
        pass


class Mysql(Database):
    scheme = "mysql"
    ready_text = b"ready for connections"
    stop_signal = signal.SIGTERM

    def __init__(self):
        programs = [find_program("mariadbd", "mysqld"), find_program("mariadb-install-db"),
                    find_program("mariadb", "mysql")]
        super().__init__()
        self.mariadbd, install, self.client = programs
        self.data, self.socket = self.folder / "data", self.folder / "sock"
        self.must(install, "--no-defaults", f"--datadir={self.data}", "--skip-test-db",
                  "--auth-root-authentication-method=normal", f"--tmpdir={self.folder}", *self.frugal())
        self.start_somewhere()
        self.must(self.client, "--no-defaults", f"--socket={self.socket}", "-uroot", input=f"""
            CREATE DATABASE {DATABASE};
            CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';
            GRANT ALL ON {DATABASE}.* TO '{USER}'@'%';
            CREATE USER 'admin'@'%' IDENTIFIED BY '{PASSWORD}';
            GRANT ALL ON *.* TO 'admin'@'%' WITH GRANT OPTION;
        """.encode())
        self.url = self.make_url(USER, PASSWORD)
        self.admin_url = self.make_url("admin", PASSWORD)

    @staticmethod
    def frugal():
        return ["--innodb-buffer-pool-size=24M", "--innodb-log-file-size=8M",
                "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
                "--performance-schema=OFF", "--skip-log-bin", "--skip-name-resolve"]

    def command(self):
        return [self.mariadbd, "--no-defaults", f"--datadir={self.data}", f"--socket={self.socket}",
                f"--port={self.port}", "--bind-address=127.0.0.1", f"--tmpdir={self.folder}",
                "--max-connections=300", *self.frugal()]

    def is_ready(self):
        return self.run(self.client, "--no-defaults", f"--socket={self.socket}", "-uroot",
                        "--execute=SELECT 1")


class Postgres(Database):
    scheme = "postgres"
    ready_text = b"ready to accept connections"
    stop_signal = signal.SIGINT

    def __init__(self):
        programs = [find_program("postgres"), find_program("initdb"), find_program("psql")]
        super().__init__()
        self.postgres, initdb, self.psql = programs
        self.data = self.folder / "data"
        self.must(initdb, "-D", self.data, "--no-sync", "--username=root", "--auth=scram-sha-256",
                  "--auth-local=trust", "--encoding=UTF8", "--locale=C")
        self.start_somewhere()
        self.must(self.psql, *self.local(), "--quiet", "--set=ON_ERROR_STOP=1", input=f"""
            CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}';
            CREATE ROLE admin SUPERUSER LOGIN PASSWORD '{PASSWORD}';
            CREATE DATABASE {DATABASE} OWNER {USER};
        """.encode())
        self.url = self.make_url(USER, PASSWORD)
        self.admin_url = self.make_url("admin", PASSWORD)

    def local(self):
        return ["--no-psqlrc", "-h", self.folder, "-p", self.port, "-U", "root", "-d", "postgres"]

    def command(self):
        return [self.postgres, "-D", self.data, "-p", self.port, "-k", self.folder,
                "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off",
                "-c", "synchronous_commit=off", "-c", "shared_buffers=16MB",
                "-c", "max_connections=200"]

    def is_ready(self):
        return self.run(self.psql, *self.local(), "-c", "SELECT 1")


KINDS = {"sqlite": Sqlite, "mysql": Mysql, "postgres": Postgres}


@contextlib.contextmanager
def open_database(kind):
    """A running database of this kind; raises Absent when it can't be had here."""
    made = KINDS[kind]()
    try:
        yield made
    finally:
        made.close()


def serve_control(database, commands, answers):
    for line in commands:
        word = line.strip()
        if word not in ("restart", "stop", "start", "pause", "resume"):
            raise Failed(f"what is {word!r}?")
        getattr(database, word)()
        answers.write("ok\n")
        answers.flush()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with open_database(sys.argv[1]) as database:
            read_word, write_word = os.pipe()
            read_ok, write_ok = os.pipe()
            program = subprocess.Popen(
                sys.argv[2:], pass_fds=(read_ok, write_word),
                env=dict(os.environ, ROTA_TEST_URL=database.url,
                         ROTA_TEST_ADMIN_URL=database.admin_url,
                         ROTA_TEST_CONTROL=f"{read_ok},{write_word}"),
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )
            os.close(read_ok)
            os.close(write_word)
            with os.fdopen(read_word) as commands, os.fdopen(write_ok, "w") as answers:
                serve_control(database, commands, answers)
            return program.wait()
    except Absent as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
