"""Gets from real servers over a real database, while all of them come and go.

usage: test_get_processes.py KIND ROTA GET_LOAD

Two data centers, each with all shards, of `rota cache serve` over a table of a database
of KIND; and get_load, which asks at a steady pace from the first scenario to the last.
A scenario does something to hosts or to the database, waits until that has had its
effect, and for some Gets more. After each, all that clients and servers have logged so
far is checked (test/lib/get_history.py): no Get fails, no answer is wrong, no lease has
two holders, no epoch goes back, nobody answers under a lease that is over. Results are
TAP.
"""
import collections
import contextlib
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import databases  # noqa: E402
import get_history  # noqa: E402
import promise  # noqa: E402
import stop  # noqa: E402
import tap  # noqa: E402
import watch  # noqa: E402

KIND, ROTA, LOAD = sys.argv[1:4]
HANG_S = 120
TTL_S, LONG_S = 2, 300
SHARDS, MORE_SHARDS = 4, 8
PER_SECOND, PER_GET = 40, 10
TIMEOUT_MS, HOST_TIMEOUT_MS = 30000, 5000
PROBE_TIMEOUT_MS = 10000
SPACE = "cache"
VALUES = {f"key{i}": f"value of key{i}" for i in range(150)}
KEYS = [*VALUES, *(f"none{i}" for i in range(25))]


class Failed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


def wait(world, what, is_done):
    """Until it is so, by what the processes have logged; returns what it is then."""
    with watch.Watch(world.folder) as logs:
        result = logs.wait(is_done, HANG_S)
    check(result, f"no {what} within {HANG_S} s")
    return result


class Tail:
    """A file that is written by others, read line by line."""

    def __init__(self, path):
        self.path, self.size, self.rest = path, 0, ""

    def lines(self):
        """Those that are whole and new."""
        with open(self.path) as file:
            file.seek(self.size)
            text = file.read()
            self.size = file.tell()
        *whole, self.rest = (self.rest + text).split("\n")
        return [f"{line}\n" for line in whole]


class Load:
    """A client, and what has become of its Gets. If it asks one host alone it waits for that
    host as long as for the whole Get."""

    def __init__(self, world, name, keys, *host):
        timeouts = (PROBE_TIMEOUT_MS, PROBE_TIMEOUT_MS) if host else (TIMEOUT_MS, HOST_TIMEOUT_MS)
        self.tail, self.gets = Tail(world.folder / f"{name}.gets"), []
        (world.folder / f"{name}.keys").write_text("".join(f"{key}\n" for key in keys))
        with open(self.tail.path, "wb") as out, open(world.folder / f"{name}.err", "wb") as err:
            self.process = subprocess.Popen(
                [LOAD, world.url, SPACE, world.folder / f"{name}.keys", str(PER_SECOND), str(PER_GET),
                 *map(str, timeouts), *host],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def read(self):
        self.gets += get_history.read_gets(self.tail.lines())
        check(self.process.poll() in (None, 0), "the load has ended")
        return self.gets

    def end(self):
        """No more of them, and the end of those in flight."""
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(HANG_S) == 0, f"the load has ended with {self.process.returncode}")
        self.read()
        numbers = sorted(get["id"] for get in self.gets)
        check(numbers == list(range(1, len(numbers) + 1)), "a Get has not ended, or twice")

    def close(self):
        self.process.kill()
        self.process.wait()


class Host:
    """An address, and the process that serves there, if any."""

    def __init__(self, world, dc, number):
        subnet = os.getpid() % 65000 + 256  # of our own, so that nobody else takes a port of ours
        self.world, self.dc, self.process, self.is_stopped = world, dc, None, False
        self.address, self.name = f"127.{subnet >> 8}.{subnet & 255}.{number}:7600", f"{dc}-{number}"
        self.tail, self.events = Tail(world.folder / f"{dc}-{number}.log"), []

    def start(self, shards, ttl, *more):
        self.began_at = time.time_ns()
        with open(self.tail.path, "ab") as log:
            self.process = subprocess.Popen(
                [ROTA, "cache", "serve", "--dc", self.dc, "--space", SPACE, "--shards", str(shards),
                 "--source", "sql:items", "--listen", self.address, "--name", self.name, "--ttl", f"{ttl}s", "--keep", "1h",
                 "--loss", "standby", *more],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env=dict(os.environ, ROTA_STORE=self.world.url))

    def ready(self):
        line = self.process.stdout.readline().decode()
        check(line.startswith(f"ready grpc={self.address} "), f"{self.address} is not ready: {line!r}")

    def read(self):
        self.events += get_history.parse_log(self.address, self.tail.lines())
        return self.events

    def log(self):
        return self.tail.path.read_text()

    def held(self):
        """The lease that it holds, as far as it has said."""
        if not self.process or self.is_stopped:
            return None
        events = [event for event in self.read() if not isinstance(event, get_history.Stopped)]
        last = events[-1] if events else None
        return last if isinstance(last, get_history.Gained) and last.at > self.began_at else None

    def kill(self):
        self.process.kill()
        self.gone()

    def leave(self):
        self.process.send_signal(signal.SIGTERM)

    def gone(self, code=None):
        ended = self.process.wait(HANG_S)
        self.process.stdout.close()
        self.process = None
        check(code is None or ended == code, f"{self.address} has ended with {ended}")

    def stop(self):
        """Stopped, when this returns; gives the moment."""
        stop.stop(self.process)
        self.is_stopped = True
        self.stopped_at = time.time_ns()
        return self.stopped_at

    def go_on(self):
        with open(self.tail.path, "a") as log:
            log.write(f'ts={show_time(self.stopped_at)} level=info msg="process stopped" until={show_time(time.time_ns())}\n')
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False


def show_time(ns):
    whole = datetime.datetime.utcfromtimestamp(ns // 10**9).isoformat()
    return f"{whole}.{ns % 10**9:09}Z"


class World:
    def __init__(self, database, folder):
        self.database, self.url, self.folder = database, database.url, folder
        self.dcs = {"east": [Host(self, "east", i) for i in range(1, 10)],
                    "west": [Host(self, "west", i) for i in range(101, 110)]}
        self.shards, self.clients = dict.fromkeys(self.dcs, SHARDS), []
        # Leases that are waited for are short, and on a busy machine may end by themselves.
        # So the data center that has to be whole meanwhile has long ones.
        self.ttls = {"east": TTL_S, "west": LONG_S}

    def hosts(self):
        return [host for hosts in self.dcs.values() for host in hosts]

    def alive(self, dc):
        return [host for host in self.dcs[dc] if host.process]

    def spare(self, dc):
        """One that serves nowhere yet."""
        return next(host for host in self.dcs[dc] if not host.process)

    def start(self, hosts, *more):
        for host in hosts:
            host.start(self.shards[host.dc], self.ttls[host.dc], *more)
        for host in hosts:
            host.ready()

    def holders(self, dc):
        return [host for host in self.alive(dc) if host.held()]

    def is_whole(self, dc):
        leases = [host.held() for host in self.alive(dc)]
        return {lease.shard for lease in leases if lease} == set(range(self.shards[dc]))

    def wait_whole(self, dc):
        wait(self, f"holder for each shard of {dc}", lambda: self.is_whole(dc))

    def load(self, name, keys, *host):
        self.clients.append(Load(self, name, keys, *host))
        return self.clients[-1]

    def wait_gets(self, n, since=None):
        """So many Gets more, of those sent from now on."""
        since = since or time.time_ns()
        wait(self, "more Gets", lambda: sum(get["sent"] > since for get in self.clients[0].read()) >= n)

    def wait_answer(self, dc):
        """Answers to Gets from now on by every holder of this data center, so that the client has found
        its way back to each before anything else is taken away from it."""
        since, missing = time.time_ns(), {host.address for host in self.holders(dc)}

        def have_answered():
            for get in self.clients[0].read():
                if get["sent"] > since:
                    missing.difference_update(item["host"] for item in get["keys"])
            return not missing

        wait(self, f"answers from {dc}", have_answered)

    def get_all_from(self, dc):
        """Each holder of the data center has all its keys in memory after this."""
        hosts = self.folder / f"{dc}.hosts"
        hosts.write_text("".join(f"{host.address} zone={dc}\n" for host in self.holders(dc)))
        done = subprocess.run([ROTA, "get", "--hosts", hosts, "--timeout", f"{HANG_S}s", "--json", *KEYS],
                              capture_output=True, timeout=2 * HANG_S, check=False)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        check({item["key"]: item.get("value") for item in found if item["state"] == "found"} == VALUES, done.stderr)
        check(all(item["state"] != "missing" for item in found), done.stderr)

    @contextlib.contextmanager
    def database_away(self):
        """It is down meanwhile; a file can't be, and answers nobody instead."""
        if KIND == "sqlite":
            import sqlite3

            with contextlib.closing(sqlite3.connect(self.url.split(":", 1)[1], timeout=HANG_S)) as database:
                database.isolation_level = None
                database.execute("BEGIN EXCLUSIVE")
                yield
                database.execute("ROLLBACK")
        else:
            self.database.stop()
            yield
            self.database.start()

    def check_history(self):
        """The first client asks all and must not fail; others ask who may be gone."""
        events = [event for host in self.hosts() if host.tail.path.exists() for event in host.read()]
        for client in self.clients:
            problems = get_history.check(client.read(), events, VALUES, TTL_S, client is not self.clients[0])
            text = "\n".join(f"{problem.kind}: {problem.text}" for problem in problems[:20])
            promise.check(all(problem.kind in get_history.EXCUSED for problem in problems), text)
            check(not problems, text)

    def close(self):
        for host in self.hosts():
            if host.process:
                host.kill()
        for client in self.clients:
            client.close()


# --- scenarios ---


def two_data_centers_answer(world):
    for dc in world.dcs:
        world.start(world.dcs[dc][:SHARDS])
        world.wait_whole(dc)
    world.load("all", KEYS)
    world.wait_gets(20)
    world.wait_answer("east")
    world.wait_answer("west")


def hosts_are_killed_one_after_the_other(world):
    world.start([world.spare("east")])
    for victim in world.holders("east"):
        victim.kill()
        world.wait_whole("east")
        world.wait_gets(20)
        world.start([victim])  # it stands by for the next


def a_host_is_stopped_for_longer_than_its_lease(world):
    victim = world.holders("east")[0]
    lease = victim.events[-1]
    keys = {item["key"] for get in world.clients[0].read() for item in get["keys"] if item["hash"] % SHARDS == lease.shard}
    probe = world.load("probe", sorted(keys), victim.address, victim.dc)  # what it asks waits until the host wakes
    wait(world, "answer from the one to be stopped", lambda: any(
        item["epoch"] == lease.epoch for get in probe.read() for item in get["keys"]))
    stopped_at = victim.stop()
    world.wait_whole("east")
    world.wait_gets(20, stopped_at + int(1.5 * TTL_S * 1e9))
    victim.go_on()
    wait(world, "loss of the lease", lambda: any(
        isinstance(event, get_history.Ended) and event.epoch == lease.epoch for event in victim.read()))
    probe.process.send_signal(signal.SIGTERM)  # it ends when its Gets have
    world.wait_gets(20)


def a_data_center_is_lost(world):
    lost = world.alive("east")
    for host in lost:
        host.process.kill()
    for host in lost:
        host.gone()
    world.wait_gets(2 * PER_SECOND)
    world.start(lost)
    world.wait_whole("east")
    world.wait_answer("east")


def data_centers_are_re_sharded_one_after_the_other(world):
    for dc in world.dcs:
        leaving = world.alive(dc)
        for host in leaving:
            host.leave()
        for host in leaving:
            host.gone(0)
        world.shards[dc], world.ttls[dc] = MORE_SHARDS, LONG_S
        world.start(world.dcs[dc][:MORE_SHARDS], "--reshard")
        world.wait_whole(dc)
        world.wait_gets(20)
        world.wait_answer(dc)


def all_hosts_of_a_data_center_are_restarted(world):
    for dc in world.dcs:
        hosts = world.alive(dc)
        for host in hosts:
            host.leave()
        for host in hosts:
            host.gone(0)
        world.start(hosts)
        world.wait_whole(dc)
        world.wait_gets(20)
        world.wait_answer(dc)


def the_database_is_restarted(world):
    for dc in world.dcs:
        world.get_all_from(dc)
    with world.database_away():
        world.wait_gets(PER_SECOND)
    world.wait_gets(PER_SECOND)
    # Leases are kept and given as before.
    for dc in world.dcs:
        spare, leaving = world.spare(dc), world.holders(dc)[0]
        shard, epoch = leaving.held().shard, leaving.held().epoch
        leaving.leave()
        leaving.gone(0)
        world.start([spare])
        world.wait_whole(dc)
        check(spare.held().shard == shard and spare.held().epoch > epoch, "the spare has another lease")
        world.wait_answer(dc)


def every_get_was_answered(world):
    world.clients[0].end()
    probe = world.clients[1]
    check(probe.process.wait(HANG_S) == 0, "the probe has not ended well")
    # It did ask while the host was stopped, and was turned away.
    stop = next(event for host in world.hosts() for event in host.events if isinstance(event, get_history.Stopped))
    check(any(stop.at < get["sent"] < stop.until and any(one["outcome"] == "wrong shard" for one in get["tries"])
              for get in probe.read()), "the one that was stopped was not asked")
    hosts = {host.address: host.dc for host in world.hosts()}
    answers = {(hosts[item["host"]], item["shard"][2]) for get in world.clients[0].gets for item in get["keys"]}
    check(answers == {(dc, n) for dc in world.dcs for n in (SHARDS, MORE_SHARDS)}, f"answers came from {answers} only")


SCENARIOS = [
    two_data_centers_answer,
    hosts_are_killed_one_after_the_other,
    a_host_is_stopped_for_longer_than_its_lease,
    a_data_center_is_lost,
    data_centers_are_re_sharded_one_after_the_other,
    all_hosts_of_a_data_center_are_restarted,
    the_database_is_restarted,
    every_get_was_answered,
]


def fill(database):
    """The table with the values, made by the database's own client."""
    kind = {"sqlite": "BLOB", "mysql": "LONGBLOB", "postgres": "BYTEA"}[KIND]
    key = "`key`" if KIND == "mysql" else "key"
    rows = ", ".join(f"('{key}', '{value}')" for key, value in VALUES.items())
    script = (f"CREATE TABLE items ({key} VARCHAR(200) PRIMARY KEY, value {kind} NOT NULL);"
              f"INSERT INTO items VALUES {rows};")
    if KIND == "sqlite":
        import sqlite3

        with contextlib.closing(sqlite3.connect(database.url.split(":", 1)[1])) as connection:
            connection.executescript(script)
    elif KIND == "mysql":
        database.must(database.client, "--no-defaults", f"--socket={database.socket}", "-uroot", databases.DATABASE,
                      input=script.encode())
    else:
        local = [databases.DATABASE if word == "postgres" else word for word in database.local()]
        script += f"GRANT SELECT ON items TO {databases.USER};"
        database.must(database.psql, *local, "--quiet", "--set=ON_ERROR_STOP=1", input=script.encode())


def run(scenario, world):
    try:
        scenario(world)
        world.check_history()
    except Exception:
        shown = []
        for host in world.hosts():
            if host.tail.path.exists():
                shown += [f"--- {host.address} {host.dc} {'up' if host.process else 'down'}", *host.log().splitlines()[-15:]]
        tap.show(*shown)
        raise


def tell(world):
    """How it went, for whoever reads the log of the tests."""
    gets = world.clients[0].gets if world.clients else []
    outcomes = collections.Counter(one["outcome"] for get in gets for one in get["tries"])
    took = sorted((get["ended"] - get["sent"]) / 1e6 for get in gets)
    gained = sum(isinstance(event, get_history.Gained) for host in world.hosts() for event in host.events)
    if took:
        print(f"# {len(gets)} Gets, median {took[len(took) // 2]:.1f} ms, the slowest {took[-1]:.0f} ms; {gained} leases")
        print("# requests:", ", ".join(f"{n} {outcome}" for outcome, n in outcomes.most_common()))


def main():
    try:
        with databases.open_database(KIND) as database, tempfile.TemporaryDirectory() as folder:
            fill(database)
            world = World(database, pathlib.Path(folder))
            try:
                # Each continues where the one before has ended.
                code = tap.run(world, tests=SCENARIOS, call=run, stops_at_failure=True)
                tell(world)
            finally:
                world.close()
            return code
    except databases.Absent as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
