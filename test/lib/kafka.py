"""A Kafka for a test: one broker or several, started for it alone, and gone with it.

usage: kafka.py [--large] DIRECTORY BROKERS PROGRAM [ARGUMENT...]

Has Maven fetch Kafka into DIRECTORY, once for all runs; starts BROKERS nodes (each broker
and controller, on ports of the loopback interface), runs the program and ends with its
result. The program finds in its environment
  ROTA_TEST_URL      kafka://HOST:PORT[,HOST:PORT...]
  ROTA_TEST_CONTROL  two descriptors "READ,WRITE": it writes a line `restart`, `stop`,
                     `start`, `kill`, `pause` or `resume`, of all nodes or, as in `kill 2`,
                     of one, and reads `ok` when that is done
With --large the brokers have memory and patience for tens of thousands of partitions.
When Kafka can't be had here it prints `1..0 # SKIP reason`.

Other tests in Python import it: `with kafka.open_cluster(directory, brokers=3) as cluster:
cluster.url`, `cluster.kill(2)`.

The brokers end with whoever started them, however that ends: the kernel kills them, and a
process that waits for nothing else removes their directory.
"""
import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid

from ports import free_ports

VERSION = "3.9.1"
START_S = 120
WORDS = ("restart", "stop", "start", "kill", "pause", "resume")
PR_SET_PDEATHSIG = 1

# There is no ready-made archive in Maven's repository: the broker's class is started
# from its jars.
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>rota.test</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-reload4j</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %m (%c{1})%n
"""

# Little memory, and a start that is not spent on compiling.
JAVA = ["-Xms48m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
        "-XX:ReservedCodeCacheSize=48m", "-Xss256k", "-Djava.awt.headless=true"]

# Losses are noticed soon, few threads, small buffers; sessions from 2 s on.
SETTINGS = """
process.roles=broker,controller
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=2000
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
replica.lag.time.max.ms=5000
controlled.shutdown.max.retries=1
log.cleaner.dedupe.buffer.size=2097152
log.cleaner.threads=1
log.flush.interval.messages=9223372036854775807
log.retention.check.interval.ms=1000
num.network.threads=2
num.io.threads=2
num.replica.fetchers=1
background.threads=2
message.max.bytes=4194304
"""

HEAP_MB = 256
LARGE = {"heap": 1024, "settings": "broker.heartbeat.interval.ms=2000\nbroker.session.timeout.ms=30000\n"}

libc = ctypes.CDLL(None, use_errno=True)


class Absent(Exception):
    """Kafka can't be had here."""


class Failed(Exception):
    pass


def die_with_parent():
    os.setpgid(0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# --- fetching ---

def need_program(name):
    found = shutil.which(name)
    if not found:
        raise Absent(f"{name} is not installed")
    return found


def fetch(directory):
    """The folder of Kafka's jars; they are fetched when they are not there."""
    directory = pathlib.Path(directory)
    jars, marker = directory / f"jars-{VERSION}", directory / f"jars-{VERSION}.complete"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if marker.exists() and marker.read_text() == POM:
            return jars
        marker.unlink(missing_ok=True)
        shutil.rmtree(jars, ignore_errors=True)
        (directory / "pom.xml").write_text(POM)
        maven = subprocess.run(
            [need_program("mvn"), "--batch-mode", "--quiet", "--file", directory / "pom.xml",
             "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=die_with_parent, check=False)
        if maven.returncode != 0:
            said = [line for line in maven.stdout.splitlines() if "ERROR" in line] or [""]
            raise Absent(f"Maven could not fetch Kafka {VERSION}: {said[0][:300]}")
        (directory / "log4j.properties").write_text(LOG4J)
        marker.write_text(POM)
    return jars


# --- running ---

class Node:
    """One broker, which is a controller too."""

    def __init__(self, cluster, number, port, controller_port):
        self.cluster, self.number = cluster, number
        self.port, self.controller_port = port, controller_port
        self.folder = cluster.folder / str(number)
        self.server = self.reader = None
        self.folder.mkdir()

    def java(self, *arguments, heap):
        return [self.cluster.java, f"-Xmx{heap}m", *JAVA,
                f"-Dlog4j.configuration=file:{self.cluster.directory}/log4j.properties",
                "-cp", f"{self.cluster.jars}/*", *arguments]

    def format(self, cluster_id):
        voters = ",".join(f"{n.number}@127.0.0.1:{n.controller_port}" for n in self.cluster.nodes)
        copies = min(3, len(self.cluster.nodes))
        (self.folder / "settings").write_text(
            SETTINGS + f"node.id={self.number}\ncontroller.quorum.voters={voters}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}\n"
            f"log.dirs={self.folder}/data\noffsets.topic.replication.factor={copies}\n"
            f"default.replication.factor={copies}\ntransaction.state.log.replication.factor={copies}\n"
            + self.cluster.settings)
        return subprocess.Popen(
            self.java("kafka.tools.StorageTool", "format", "--cluster-id", cluster_id,
                      "--config", self.folder / "settings", heap=64),
            stdin=subprocess.DEVNULL, stdout=self.open_log(), stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent)

    def open_log(self):
        return open(self.folder / "log", "ab")

    def complain(self, what):
        text = (self.folder / "log").read_text(errors="replace")
        return Failed(f"{what}\n{text[-4000:]}")

    def begin(self):
        """Start it; await_ready() waits until it serves."""
        self.server = subprocess.Popen(
            self.java("kafka.Kafka", self.folder / "settings", heap=self.cluster.heap),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent)
        self.is_ready = threading.Event()
        self.has_ended = False
        self.reader = threading.Thread(target=self.read_log, args=(self.server.stdout,), daemon=True)
        self.reader.start()

    def read_log(self, lines):
        with self.open_log() as log:
            for line in lines:
                log.write(line)
                log.flush()
                if b"Kafka Server started" in line:
                    self.is_ready.set()
        self.has_ended = True
        self.is_ready.set()

    def await_ready(self):
        if not self.is_ready.wait(START_S):
            raise self.complain(f"broker {self.number} did not serve within {START_S} s")
        if self.has_ended:
            raise self.complain(f"broker {self.number} ended before it served")

    def end(self, number):
        if self.server is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.server.send_signal(signal.SIGCONT)
            self.server.send_signal(number)
        try:
            self.server.wait(START_S)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        self.reader.join()
        self.server = None

    def tell(self, number):
        if self.server is not None:
            self.server.send_signal(number)


class Cluster:
    """`settings` are lines for every broker's, after those that we have; `heap` is in MB."""

    def __init__(self, directory, brokers=1, settings="", heap=HEAP_MB):
        self.directory = pathlib.Path(directory).resolve()
        self.java = need_program("java")
        self.jars = fetch(self.directory)
        self.settings, self.heap = settings, heap
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rota-kafka-"))
        # It reads until we are gone, and then cleans up behind us.
        self.sweeper = subprocess.Popen(
            ["sh", "-c", 'read -r _; sleep 0.2; rm -rf "$1" 2>/dev/null || { sleep 1; rm -rf "$1"; }',
             "sweeper", self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        self.nodes = []
        try:
            self.make(brokers)
        except BaseException:
            self.close()
            raise

    def make(self, brokers):
        ports = free_ports(2 * brokers)
        self.nodes = [Node(self, i + 1, ports[2 * i], ports[2 * i + 1]) for i in range(brokers)]
        self.url = "kafka://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        cluster_id = uuid.uuid4().hex[:22]
        formats = [(node, node.format(cluster_id)) for node in self.nodes]
        for node, process in formats:
            if process.wait(START_S) != 0:
                raise node.complain("the storage could not be formatted")
        self.start()

    def some(self, number):
        return [node for node in self.nodes if number is None or node.number == int(number)]

    def start(self, number=None):
        for node in self.some(number):
            if node.server is None:
                node.begin()
        for node in self.some(number):
            node.await_ready()

    def end(self, number, how):
        for node in self.some(number):
            node.end(how)

    def stop(self, number=None):
        # Those that end first would wait for the others, which they can't outvote.
        alone = number is None and len(self.nodes) > 1
        self.end(number, signal.SIGKILL if alone else signal.SIGTERM)

    def kill(self, number=None):
        self.end(number, signal.SIGKILL)

    def restart(self, number=None):
        self.stop(number)
        self.start(number)

    def pause(self, number=None):
        for node in self.some(number):
            node.tell(signal.SIGSTOP)

    def resume(self, number=None):
        for node in self.some(number):
            node.tell(signal.SIGCONT)

    def say_last_words(self):
        """What the brokers complained about, as comments in TAP."""
        for node in self.nodes:
            lines = (node.folder / "log").read_text(errors="replace").splitlines()
            for line in [line for line in lines if " WARN " in line or " ERROR " in line][-15:]:
                print(f"# broker {node.number}: {line[:300]}")

    def close(self):
        self.kill()
        self.sweeper.stdin.close()
        self.sweeper.wait()


@contextlib.contextmanager
def open_cluster(directory, brokers=1, settings="", heap=HEAP_MB):
    """Running brokers; raises Absent when they can't be had here."""
    made = Cluster(directory, brokers, settings, heap)
    try:
        yield made
    finally:
        made.close()


def serve_control(cluster, commands, answers):
    for line in commands:
        word, *number = line.split()
        if word not in WORDS:
            raise Failed(f"what is {word!r}?")
        getattr(cluster, word)(*number)
        answers.write("ok\n")
        answers.flush()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    is_large = sys.argv[1] == "--large"
    directory, brokers, *command = sys.argv[1 + is_large:]
    try:
        with open_cluster(directory, int(brokers), **(LARGE if is_large else {})) as cluster:
            read_word, write_word = os.pipe()
            read_ok, write_ok = os.pipe()
            program = subprocess.Popen(
                command, pass_fds=(read_ok, write_word),
                env=dict(os.environ, ROTA_TEST_URL=cluster.url,
                         ROTA_TEST_CONTROL=f"{read_ok},{write_word}"),
                preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
            os.close(read_ok)
            os.close(write_word)
            with os.fdopen(read_word) as commands, os.fdopen(write_ok, "w") as answers:
                serve_control(cluster, commands, answers)
            code = program.wait()
            if code:
                cluster.say_last_words()
            return code
    except Absent as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
