"""Calls to shards while nodes are stopped, killed, moved, slow or failing, and clocks jump.

usage: test_shards.py ROTA DIRECTORY

Starts a directory (shard_directory), nodes (shard_server) and a client (shard_client) that
makes calls at a steady pace and writes a ledger, a line for each call that ended. A
scenario waits for some lines, does something to a node or to somebody's wall clock
(test/lib/wall_clock.c), and reads on. Then the ledger is checked: each call was answered once, none later than its deadline and a
tick, and all went well as long as somebody could serve them. Results are TAP.
"""
import concurrent.futures
import os
import pathlib
import queue
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROTA, PROGRAMS = sys.argv[1], pathlib.Path(sys.argv[2])
SHARDS = 4
DELAY_MS, SLOTS = 4, 4
PER_SECOND = 200
TIMEOUT_MS, TRY_TIMEOUT_MS = 2000, 250

# Timers have milliseconds, and the machine that the tests run on has other things
# to do: so much later than its deadline may a call end. That it ends with it is shown on
# virtual time (unit/test_call_fsm, sim/sim_call); here it must not wait for what never comes.
LATE_MS = 2000
HANG_S = 120
AT_ONCE = 2
HOUR_NS = 3600 * 10**9


class Failed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


class Clock:
    """The wall clock of one process."""

    def __init__(self, path):
        self.path, self.shift = path, 0
        self.path.write_bytes(struct.pack("q", 0))

    def step(self, hours):
        self.shift += int(hours * HOUR_NS)
        with open(self.path, "r+b", buffering=0) as file:
            file.write(struct.pack("q", self.shift))

    def environment(self):
        own = {
            "LD_PRELOAD": str(PROGRAMS / "libwall_clock.so"),
            "ROTA_TEST_CLOCK": str(self.path),
            # A sanitizer would like to be loaded first itself.
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
        }
        return {**os.environ, **own}


def start(clock, *arguments):
    """Start a program that says where it serves; returns it and its address."""
    process = subprocess.Popen(
        [str(a) for a in arguments],
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env=clock.environment(),
    )
    line = process.stdout.readline()
    if not line.startswith("ready grpc="):
        process.kill()
        raise Failed(f"{arguments[0]} said {line!r}")
    return process, line.split()[1].split("=", 1)[1]


def now_us():
    """By the clock of the ledger."""
    return time.monotonic_ns() // 1000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class World:
    """A directory, nodes 1 to 3 that serve all shards, and a client."""

    def __init__(self, folder, slots=SLOTS):
        self.folder = pathlib.Path(folder)
        self.map = self.folder / "map"
        self.nodes, self.addresses = {}, {}
        self.numbers = {}  # of nodes, by all addresses that they ever had
        self.clocks = {who: Clock(self.folder / f"clock-{who}")
                       for who in (1, 2, 3, 5, 6, "directory", "client")}
        self.processes, self.readers = [], []
        self.ledger = {}
        self.metrics = {}
        for node in (1, 2, 3):
            self.start_node(node, slots=slots)
        self.write_map()
        self.directory_address = f"127.0.0.1:{free_port()}"
        self.start_directory()

    def start_node(self, node, delay_ms=DELAY_MS, slots=SLOTS):
        process, address = start(
            self.clocks[node], PROGRAMS / "shard_server", node, delay_ms, slots
        )
        self.processes.append(process)
        self.nodes[node], self.addresses[node] = process, address

    def start_directory(self):
        self.directory, _ = start(
            self.clocks["directory"],
            PROGRAMS / "shard_directory", self.map, self.directory_address
        )
        self.processes.append(self.directory)

    def restart_directory(self):
        self.directory.kill()
        self.directory.wait()
        self.start_directory()

    def write_map(self):
        self.numbers.update((address, node) for node, address in self.addresses.items())
        lines = [
            f"c replica-{node} {shard} {address} 1\n"
            for shard in range(SHARDS)
            for node, address in sorted(self.addresses.items())
        ]
        new = self.map.with_suffix(".new")
        new.write_text("".join(lines))
        new.rename(self.map)

    def start_client(self, n_calls=0, timeout_ms=TIMEOUT_MS, try_timeout_ms=TRY_TIMEOUT_MS,
                     is_jumping_whole=False, per_second=PER_SECOND, at_a_time=()):
        """A client that makes so many calls; 0: until finish(), for a scenario that waits for something."""
        self.n_calls, self.timeout_ms = n_calls, timeout_ms
        environment = self.clocks["client"].environment()
        if is_jumping_whole:
            environment["ROTA_TEST_CLOCK_ALL"] = "1"
        self.client = subprocess.Popen(
            [
                str(a)
                for a in (PROGRAMS / "shard_client", self.directory_address, n_calls, per_second,
                          timeout_ms, try_timeout_ms, self.folder / "metrics", *at_a_time)
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.processes.append(self.client)
        self.complaints = []
        self.said = queue.SimpleQueue()  # a client whose pipe is full would stand still
        for read, *streams in ((self.hear_client, self.client.stdout, self.said),
                               (self.complaints.extend, self.client.stderr)):
            self.readers.append(threading.Thread(target=read, args=streams, daemon=True))
            self.readers[-1].start()

    @staticmethod
    def hear_client(stream, said):
        """An earlier client may end only when the next one runs."""
        for line in stream:
            said.put(line)
        said.put("")

    def read_line(self):
        """The next line of the ledger; None when it has ended."""
        line = self.said.get()
        words = line.split()
        if words[:1] == ["end"]:
            self.n_calls = int(words[1])
            return None
        if not line:
            code = self.client.wait(HANG_S)
            for reader in self.readers:
                reader.join()
            raise Failed(f"the client ended with {code}: {''.join(self.complaints)}")
        check(len(words) == 6, f"the client said {line!r}")
        call = int(words[0])
        check(call not in self.ledger, f"call {call} was answered twice")
        self.ledger[call] = (int(words[1]), int(words[2]), words[3], int(words[4]))
        return self.ledger[call]

    def read_until(self, condition, what):
        """Read until a line fulfils the condition."""
        until = time.monotonic() + HANG_S / 2
        while True:
            check(time.monotonic() < until, f"never {what}")
            line = self.read_line()
            check(line is not None, f"the calls are over, and never {what}")
            if condition(line):
                return

    def read(self, n):
        for _ in range(n):
            check(self.read_line() is not None, "the calls are over")

    def finish(self, may_fail=False):
        if self.n_calls == 0:
            self.client.terminate()
        while self.read_line() is not None:
            pass
        check(self.client.wait(HANG_S) == 0, f"the client failed: {''.join(self.complaints)}")
        text = (self.folder / "metrics").read_text()
        for number, address in re.findall(r"^# node (\d+) (\S+)$", text, re.MULTILINE):
            text = text.replace(f'node="{number}"', f'node="{self.numbers[address]}"')
        for line in text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                self.metrics[name] = float(value)
        self.check_ledger(may_fail)

    def check_ledger(self, may_fail):
        missing = [c for c in range(1, self.n_calls + 1) if c not in self.ledger]
        check(not missing, f"calls {missing[:5]} were never answered")
        check(len(self.ledger) == self.n_calls, "there are answers to no call")
        for call, (began, ended, status, node) in self.ledger.items():
            late = (ended - began) / 1000 - self.timeout_ms
            check(late <= LATE_MS, f"call {call} ended {late:.0f} ms after its deadline")
        failed = {c: line for c, line in self.ledger.items() if line[2] != "OK"}
        check(
            may_fail or not failed,
            f"{len(failed)} calls failed although a replica was well: "
            f"{list(failed.items())[:3]} {''.join(self.complaints[:5])}",
        )

    def served_by(self, node):
        """What the node has counted since it started."""
        self.nodes[node].send_signal(signal.SIGHUP)
        words = self.nodes[node].stdout.readline().split()
        check(words[:1] == ["served"], f"node {node} said {words}")
        return int(words[1])

    def answered_by(self, node):
        return sum(1 for line in self.ledger.values() if line[3] == node)

    def slow(self, ms):
        """Calls that took longer than `ms`."""
        return sum(1 for began, ended, _, _ in self.ledger.values() if ended - began > ms * 1000)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()  # a stopped one, too
            process.wait()
        for reader in self.readers:
            reader.join()
        for process in self.processes:
            process.stdout.close()


# --- scenarios ---


def all_is_well(world):
    world.start_client(600)
    world.finish()
    for node in (1, 2, 3):
        check(world.answered_by(node) > 0, f"node {node} was never asked")
    reads = 'rota_shard_cache_reads_total{method="get_leaders",served="%s"}'
    check(world.metrics["rota_shard_cache_questions_total"] == 1, "the map was asked for twice")
    check(world.metrics[reads % "hit"] > 500, "the map was hardly ever at hand")
    check(world.metrics[reads % "hit"] + world.metrics[reads % "miss"] == 600,
          "reads of the map are miscounted")
    check(world.metrics["rota_shard_cache_update_seconds_sum"] > 0, "a question took no time")
    check(world.metrics['rota_call_tries_total{kind="first"}'] == 600, "tries are miscounted")
    check(world.metrics["rota_pool_connections_all"] == 6, "calls leave connections in use")
    for node in (1, 2, 3):
        check(world.metrics['rota_balancer_in_flight{node="%d"}' % node] == 0, "tries leak")
    check(world.metrics['rota_node_latency_seconds{node="1",quantile="0.5"}'] >= (DELAY_MS - 1) / 1000,
          "an answer came before it could")


def count_shares(world, n_calls, *at_a_time):
    """How many of so many calls each node has served."""
    before = [world.served_by(node) for node in (1, 2, 3)]
    world.ledger.clear()
    world.start_client(n_calls, per_second=at_a_time[0] * PER_SECOND / 2, at_a_time=at_a_time)
    world.finish()
    return [world.served_by(node) - n for node, n in zip((1, 2, 3), before)]


def equal_nodes_get_equal_shares(world):
    """However few calls are made at a time, to connections that stand already or have to be made first, with
    pauses and without. Three clients each.

    A node that other programs keep from running gets fewer calls, and should: that the shares of nodes that
    run differ by at most 10 % is shown where nothing else runs (test_shards_even, sim_balance). Here, the
    medians may be off by half, and one client of three may leave a node out."""
    for how in ((), ("warm",), ("paced",), ("paced", "warm")):
        for at_a_time, n_calls in ((1, 90), (2, 180), (16, 1440)):
            runs = [count_shares(world, n_calls, at_a_time, *how) for _ in range(3)]
            text = f"{at_a_time} at a time {how}: nodes served {runs}"
            check(all(sum(run) >= n_calls for run in runs), text)
            medians = [statistics.median(node) for node in zip(*runs)]
            check(all(n_calls / 6 <= n <= n_calls / 2 for n in medians), text)
            check(sum(min(run) < n_calls / 30 for run in runs) <= 1, text)


equal_nodes_get_equal_shares.world = {"slots": 64}


def stopped_node(world):
    world.start_client(600)
    world.read(200)
    world.nodes[2].send_signal(signal.SIGSTOP)
    world.read(200)
    world.nodes[2].send_signal(signal.SIGCONT)
    world.finish()
    check(world.slow(TRY_TIMEOUT_MS) < 30, f"{world.slow(TRY_TIMEOUT_MS)} calls met a node that slept")


def all_nodes_stopped(world):
    world.start_client(600, timeout_ms=500)
    world.read(100)
    for node in world.nodes.values():
        node.send_signal(signal.SIGSTOP)
    world.read_until(lambda line: line[2] != "OK", "did a call fail that nobody could serve")
    for node in world.nodes.values():
        node.send_signal(signal.SIGCONT)
    world.finish(may_fail=True)
    statuses = {line[2] for line in world.ledger.values()}
    check(statuses == {"OK", "DEADLINE_EXCEEDED"}, f"calls ended with {statuses}")
    failed = [c for c, line in world.ledger.items() if line[2] != "OK"]
    check(max(failed) < 500, f"call {max(failed)} failed although all nodes were well again")


def killed_node(world):
    world.start_client(500)
    world.read(150)
    world.nodes[3].kill()
    world.finish()
    check(world.metrics['rota_balancer_in_flight{node="3"}'] == 0, "tries leak on a dead node")
    check(world.slow(TRY_TIMEOUT_MS) < 10, "a dead node held up calls")


def node_that_comes_back_elsewhere(world):
    world.start_client()
    world.read(150)
    world.nodes[1].kill()
    world.nodes[1].wait()
    before = world.addresses[1]
    world.start_node(1)
    check(world.addresses[1] != before, "it came back under the same address")
    world.write_map()
    there_at = now_us()
    world.read_until(lambda line: line[3] == 1 and line[0] > there_at,
                     "did node 1 answer at its new address")
    world.finish()
    check(world.metrics["rota_shard_cache_changes_total"] >= 1, "the change was not heard of")


def port_that_refuses(world):
    world.addresses[4] = f"127.0.0.1:{free_port()}"
    world.write_map()
    world.start_client(500)
    world.finish()
    check(world.answered_by(4) == 0, "nobody has answered")
    check(world.slow(TRY_TIMEOUT_MS) < 10, "a refused connection held up calls")
    check(world.metrics["rota_health_dropped_total{node=\"4\"}"] >= 1, "health checks never gave it up")


def node_that_never_accepts(world):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)
        world.addresses[4] = f"127.0.0.1:{deaf.getsockname()[1]}"
        world.write_map()
        world.start_client(400)
        world.finish()
        check(world.answered_by(4) == 0, "nobody has answered")
        check(world.slow(TRY_TIMEOUT_MS - 1) < 40, "a deaf node held up many calls")


def node_that_fails_fast(world):
    world.start_client()
    world.read(100)
    world.nodes[2].send_signal(signal.SIGUSR1)
    world.read(200)
    world.nodes[2].send_signal(signal.SIGUSR2)
    well_at = now_us()
    world.read_until(lambda line: line[3] == 2 and line[0] > well_at,
                     "was the node asked that is well again")
    world.finish()
    check(world.metrics['rota_node_tries_total{node="2",outcome="other"}'] < 60,
          "a node that fails fast attracts calls")


def directory_that_restarts(world):
    world.start_client()
    world.read(100)
    world.directory.kill()
    world.directory.wait()
    world.read(100)  # the map at hand serves on
    world.start_node(5)
    world.write_map()
    world.start_directory()
    world.read_until(lambda line: line[3] == 5, "was the new node asked")
    world.finish()


def check_no_time_was_lost(world):
    """Nothing has run out, or lasted, by somebody's wall clock."""
    check(world.metrics["rota_shard_cache_questions_total"] == 1, "a map grew old at a jump")
    check(world.metrics["rota_shard_cache_evicted_total"] == 0, "a map left at a jump")
    for node in (1, 2, 3):
        check(world.metrics['rota_node_tries_total{node="%d",outcome="timeout"}' % node] == 0,
              f"a try on node {node} ran out of time at a jump")
        check(world.metrics['rota_health_dropped_total{node="%d"}' % node] == 0,
              f"a jump made node {node} look dead")


def client_whose_clock_jumps(world):
    world.start_client(try_timeout_ms=TIMEOUT_MS)
    for hours in (1, -1, -1, 1):
        world.read(60)
        world.clocks["client"].step(hours)
    world.nodes[2].send_signal(signal.SIGUSR1)
    world.read(100)
    world.clocks["client"].step(-1)  # what is held against the node does not last longer
    world.nodes[2].send_signal(signal.SIGUSR2)
    well_at = now_us()
    world.read_until(lambda line: line[3] == 2 and line[0] > well_at,
                     "was the node asked that is well again")
    world.finish()
    check_no_time_was_lost(world)


def client_whose_clock_jumps_before_a_deadline(world):
    """Nobody answers; the calls end when their time is over, not an hour early or late."""
    world.start_client(300, timeout_ms=500, try_timeout_ms=500)
    world.read(50)
    for node in world.nodes.values():
        node.send_signal(signal.SIGSTOP)
    world.read(10)
    world.clocks["client"].step(-1)
    world.read(60)
    world.clocks["client"].step(2)
    world.read(60)
    for node in world.nodes.values():
        node.send_signal(signal.SIGCONT)
    world.finish(may_fail=True)
    for call, (began, ended, status, _) in world.ledger.items():
        check(status in ("OK", "DEADLINE_EXCEEDED"), f"call {call} ended with {status}")
        check(status == "OK" or ended - began >= 500 * 1000, f"call {call} had less than its time")


def nodes_whose_clocks_jump(world):
    """Calls are long, so that there are always some in flight in a node, with deadlines."""
    for node in (1, 2, 3):
        world.nodes[node].kill()
        world.start_node(node, delay_ms=400, slots=1000)
    world.write_map()
    world.restart_directory()
    world.start_client(900, try_timeout_ms=TIMEOUT_MS)
    for i in range(20):
        world.read(40)
        world.clocks[1].step(1)
        world.clocks[2].step(-1)
        world.clocks[3].step(1 if i % 2 else -1)
    world.finish()
    check_no_time_was_lost(world)
    for node in (1, 2, 3):
        check(world.answered_by(node) > 0, f"node {node} was never asked")


def directory_whose_clock_is_put_back(world):
    world.start_client()
    world.read(100)
    world.directory.kill()
    world.directory.wait()
    world.clocks["directory"].step(-1)
    world.start_node(5)
    world.write_map()
    world.start_directory()
    world.read_until(lambda line: line[3] == 5, "was the new node asked")
    world.clocks["directory"].step(-1)
    world.start_node(6)
    del world.addresses[5]  # also while it runs
    world.write_map()
    world.read_until(lambda line: line[3] == 6, "was the next new node asked")
    world.finish()
    check(world.metrics["rota_shard_cache_changes_total"] == 2, "a change was not heard of")


def jump_of_every_clock_is_noticed(world):
    """The checks above can fail: here the client's only clock is one that jumps."""
    world.start_client(300, try_timeout_ms=TIMEOUT_MS, is_jumping_whole=True)
    world.read(100)
    world.clocks["client"].step(1)
    try:
        world.finish()
        check_no_time_was_lost(world)
    except Failed:
        return
    raise Failed("a client that lives by a clock that jumps was not noticed")


SCENARIOS = [
    all_is_well,
    equal_nodes_get_equal_shares,
    stopped_node,
    all_nodes_stopped,
    killed_node,
    node_that_comes_back_elsewhere,
    port_that_refuses,
    node_that_never_accepts,
    node_that_fails_fast,
    directory_that_restarts,
    client_whose_clock_jumps,
    client_whose_clock_jumps_before_a_deadline,
    nodes_whose_clocks_jump,
    directory_whose_clock_is_put_back,
    jump_of_every_clock_is_noticed,
]


def run(scenario):
    """None when all is well, or why not."""
    with tempfile.TemporaryDirectory() as folder:
        world = None
        try:
            world = World(folder, **getattr(scenario, "world", {}))
            scenario(world)
            return None
        except Failed as problem:
            return str(problem)
        except Exception:
            return traceback.format_exc()
        finally:
            if world:
                world.close()


def main():
    wanted = sys.argv[3:]
    scenarios = [s for s in SCENARIOS if not wanted or s.__name__ in wanted]
    watchdog = threading.Timer(HANG_S, lambda: os._exit(1))
    watchdog.daemon = True
    watchdog.start()
    print(f"1..{len(scenarios)}", flush=True)
    failed = 0
    # They hardly need the machine, only time.
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for number, problem in enumerate(pool.map(run, scenarios), 1):
            name = scenarios[number - 1].__name__
            if problem:
                failed += 1
                print(f"not ok {number} - {name}", flush=True)
                print("".join(f"# {line}\n" for line in problem.splitlines()), end="", flush=True)
            else:
                print(f"ok {number} - {name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
