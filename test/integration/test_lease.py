"""Leases of real processes on a real database: killed, stopped, restarted, re-sharded.

usage: test_lease.py KIND ROTA LEASE_HOLDER

Each scenario has a space of its own in one database of KIND. Holders write what they do
under their leases into a ledger; it is checked after each scenario: of each shard there
is never an effect of an epoch after one of a later epoch began, and an epoch is one
host's. Results are TAP.
"""
import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import databases  # noqa: E402
import promise  # noqa: E402
import stop  # noqa: E402
import tap  # noqa: E402

KIND, ROTA, HOLDER = sys.argv[1:4]
HANG_S = 120
TTL_MS = 1500
LONG_MS = 3600 * 1000


class Failed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


class Holder:
    """A process, and the lines that it prints."""

    def __init__(self, world, host, shards=1, wanted=1, ttl=TTL_MS, loss="standby", *words):
        self.host, self.lines, self.world = host, queue.Queue(), world
        self.log = open(world.folder / f"{host}.log", "ab")
        self.process = subprocess.Popen(
            [HOLDER, world.url, host, str(shards), str(wanted), str(ttl), loss, world.ledger, *words],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        threading.Thread(target=self.read, daemon=True).start()
        self.address = self.wait("ready")[1]

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(["ended"])

    def next(self):
        try:
            return self.lines.get(timeout=HANG_S)
        except queue.Empty:
            raise Failed(f"{self.host} says nothing") from None

    def wait(self, word):
        """The next line that begins with it; others are skipped."""
        while (line := self.next())[0] != word:
            check(line[0] != "ended", f"{self.host} ended before {word!r}")
        return line

    def start(self):
        """Wait for a shard: its number and epoch."""
        line = self.wait("start")
        return int(line[1]), int(line[2])

    def has_said(self, word):
        """Whether it has said this until now."""
        with self.lines.mutex:
            return any(line[0] == word for line in self.lines.queue)

    def send(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Stopped, when this returns."""
        stop.stop(self.process)

    def end(self):
        """A clean end."""
        self.send(signal.SIGTERM)
        self.wait("closed")
        check(self.process.wait(HANG_S) == 0, f"{self.host} did not end well")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


class World:
    """The holders of one scenario, and the table."""

    def __init__(self, database, folder):
        self.database, self.url, self.folder = database, database.url, folder
        self.ledger, self.holders = str(folder / "ledger"), []

    def hold(self, *arguments):
        self.holders.append(Holder(self, *arguments))
        return self.holders[-1]

    def rota(self, *arguments):
        done = subprocess.run([ROTA, "lease", *arguments, "--space", "cache", "--store", self.url, "--json"],
                              capture_output=True, timeout=HANG_S, check=False)
        check(done.returncode == 0, done.stderr.decode())
        return json.loads(done.stdout)

    def call(self, holder, shard, epoch):
        caller = subprocess.Popen([HOLDER, "call", holder.address, str(shard), str(epoch)],
                                  stdout=subprocess.PIPE, text=True)
        check(caller.stdout.readline() == "calling\n", "no call")
        return caller

    @staticmethod
    def status(caller):
        status = caller.stdout.readline().strip()
        check(caller.wait(HANG_S) == 0, "the caller failed")
        return status

    def clear(self):
        """As if nobody had used it: a scenario begins."""
        for holder in self.holders:
            holder.kill()
        self.holders = []
        self.rota("hold", "--for", "0")
        self.forget()
        pathlib.Path(self.ledger).write_text("")

    def forget(self):
        """Empty tables, which only the database's own client can do."""
        tables = ("rota_leases", "rota_dcs", "rota_history")
        script = "".join(f"DELETE FROM {table};\n" for table in tables)
        if KIND == "sqlite":
            import sqlite3

            with contextlib.closing(sqlite3.connect(self.url.split(":", 1)[1], timeout=HANG_S)) as database:
                database.executescript(script)
        elif KIND == "mysql":
            self.database.must(self.database.client, "--no-defaults", f"--socket={self.database.socket}", "-uroot",
                               databases.DATABASE, input=script.encode())
        else:
            local = [databases.DATABASE if word == "postgres" else word for word in self.database.local()]
            self.database.must(self.database.psql, *local, "--quiet", "--set=ON_ERROR_STOP=1", input=script.encode())

    def check_ledger(self):
        """Returns the hosts that did something."""
        newest, owners = {}, {}
        entries = [line.split() for line in pathlib.Path(self.ledger).read_text().splitlines()]
        for at, shard, epoch, host in sorted(entries, key=lambda entry: int(entry[0])):
            epoch = int(epoch)
            promise.check(epoch >= newest.get(shard, 0), f"shard {shard}: epoch {epoch} of {host} after {newest.get(shard)}")
            promise.check(owners.setdefault((shard, epoch), host) == host, f"shard {shard}: epoch {epoch} has two owners")
            newest[shard] = epoch
        return {entry[3] for entry in entries}


# --- scenarios ---


def a_spare_takes_over_from_one_that_was_killed(world):
    a = world.hold("a")
    shard, epoch = a.start()
    check(world.status(world.call(a, shard, epoch)) == "OK", "the holder does not serve")
    b = world.hold("b")
    a.send(signal.SIGKILL)
    taken, later = b.start()
    check(taken == shard and later > epoch, "not taken over with a later epoch")
    check(world.status(world.call(b, shard, later)) == "OK", "the spare does not serve")
    check(world.status(world.call(b, shard, epoch)) != "OK", "an old epoch is served")
    b.end()
    check(world.check_ledger() == {"a", "b"}, "somebody did nothing")


def one_that_was_stopped_for_too_long_does_nothing_when_it_wakes(world):
    a = world.hold("a")
    shard, epoch = a.start()
    b = world.hold("b")
    a.stop()
    taken, later = b.start()
    check(taken == shard and later > epoch, "not taken over")
    caller = world.call(a, shard, epoch)  # it is there when the holder wakes up
    a.send(signal.SIGCONT)
    check(world.status(caller) not in ("OK", ""), "a call was served after the end of the lease")
    check(a.wait("woken")[1] == "0", "a lease that is over checks out")
    check(world.status(world.call(b, shard, later)) == "OK", "the new holder does not serve")
    b.end()
    again, latest = a.start()  # it stood by
    check(again == shard and latest > later, "the one that stood by does not come back")
    a.end()
    world.check_ledger()


def one_that_lost_its_lease_aborts(world):
    for loss, code in (("abort", -signal.SIGABRT), ("exit", 1)):
        a = world.hold(loss, 1, 1, TTL_MS, loss)
        shard, epoch = a.start()
        b = world.hold("b")
        a.stop()
        b.start()
        caller = world.call(a, shard, epoch)
        a.send(signal.SIGCONT)
        check(world.status(caller) != "OK", "a call was served after the end of the lease")
        a.wait("stop")
        a.wait("lost")
        check(a.process.wait(HANG_S) == code, f"it ended with {a.process.returncode}")
        b.end()
    world.check_ledger()


def released_shards_are_taken_without_waiting_for_the_ttl(world):
    a = world.hold("a", 1, 1, 60000)
    shard, epoch = a.start()
    b = world.hold("b", 1, 1, 1500)  # it looks often, and a dead lease would take a minute
    a.end()
    taken, later = b.start()
    check(taken == shard and later > epoch, "not taken over")
    history = world.rota("history")["history"]
    check([event["event"] for event in history] == ["granted", "released", "granted"], history)
    check(not world.rota("list")["leases"][0]["state"] == "free", "nobody holds it")
    b.end()
    check(world.rota("list")["leases"][0]["state"] == "free", "it was not given back")
    world.check_ledger()


def hosts_share_shards_and_prefer_their_own(world):
    a, b = world.hold("a", 4, 2), world.hold("b", 4, 2)
    of_a, of_b = {a.start()[0], a.start()[0]}, {b.start()[0], b.start()[0]}
    check(of_a | of_b == {0, 1, 2, 3}, "some shard has no holder, or two")
    b.end()
    a.end()
    a = world.hold("a", 4, 2)
    check({a.start()[0], a.start()[0]} == of_a, "others than before")
    a.end()
    world.check_ledger()


def hosts_that_crashed_together_have_their_own_shards_back(world):
    hosts = {}
    crashed = []
    for host in "abcd":
        crashed.append(world.hold(host, 4))
        hosts[host] = crashed[-1].start()[0]
    for holder in crashed:
        holder.send(signal.SIGKILL)
        holder.process.wait()
    again = {host: world.hold(host, 4) for host in "dcba"}
    for host, holder in again.items():
        check(holder.start()[0] == hosts[host], f"{host} has another shard than before")
    for holder in again.values():
        holder.end()
    world.check_ledger()


def a_host_that_is_alone_has_its_shard_back_at_once(world):
    a = world.hold("a", 1, 1, LONG_MS)
    shard, epoch = a.start()
    a.send(signal.SIGKILL)
    a.process.wait()
    again, later = world.hold("a", 1, 1, LONG_MS, "standby", "alone").start()
    check(again == shard and later > epoch, "not taken back")
    world.check_ledger()


def shards_change_in_number_only_when_asked(world):
    a = world.hold("a", 2, 1)
    a.start()
    b = world.hold("b", 4, 4)
    refusal = " ".join(b.wait("refused"))
    check("2 shards" in refusal and "not 4" in refusal, refusal)
    check(not b.has_said("start"), "granted all the same")
    b.end()
    c = world.hold("c", 4, 4, TTL_MS, "standby", "reshard")
    check(len({c.start()[0] for _ in range(3)}) == 3, "the new shards are not claimed")
    check(not a.has_said("stop"), "who held one of two lost it")
    a.end()
    c.start()
    c.end()
    world.check_ledger()


def no_host_claims_during_a_freeze(world):
    a = world.hold("a", 1, 1, TTL_MS)
    shard, epoch = a.start()
    world.rota("hold", "--for", "1h")
    b = world.hold("b")
    a.end()
    check(world.rota("list")["leases"][0]["state"] == "free" and not b.has_said("start"), "claimed")
    world.rota("hold", "--for", "0")
    taken, later = b.start()
    check(taken == shard and later > epoch, "not taken after the hold")
    b.end()
    world.check_ledger()


def a_restart_of_the_database_only_costs_time(world):
    holders = [world.hold(host, 3, 1, 3000) for host in "abcd"]
    while sum(holder.has_said("start") for holder in holders) < 3:
        threading.Event().wait(0.05)  # between two looks
    world.database.restart()
    world.database.pause()
    threading.Event().wait(0.5)  # a while without answers
    world.database.resume()
    holders[0].send(signal.SIGKILL)
    holders[0].process.wait()

    def all_are_held():
        return all(lease["state"] == "held" and lease["host"] != "a" for lease in world.rota("list")["leases"])

    for _ in range(20 * HANG_S):
        if all_are_held():
            break
        threading.Event().wait(0.05)
    check(all_are_held(), "not all shards have a holder again")
    for holder in holders[1:]:
        holder.end()
    world.check_ledger()


SCENARIOS = [
    a_spare_takes_over_from_one_that_was_killed,
    one_that_was_stopped_for_too_long_does_nothing_when_it_wakes,
    one_that_lost_its_lease_aborts,
    released_shards_are_taken_without_waiting_for_the_ttl,
    hosts_share_shards_and_prefer_their_own,
    hosts_that_crashed_together_have_their_own_shards_back,
    a_host_that_is_alone_has_its_shard_back_at_once,
    shards_change_in_number_only_when_asked,
    no_host_claims_during_a_freeze,
    a_restart_of_the_database_only_costs_time,
]


def run(scenario, world):
    try:
        world.clear()
        scenario(world)
    except Exception:
        for log in sorted(world.folder.glob("*.log")):
            tap.show(*(f"{log.stem}: {line}" for line in log.read_text(errors="replace").splitlines()[-15:]))
        raise


def main():
    try:
        with databases.open_database(KIND) as database, tempfile.TemporaryDirectory() as folder:
            world = World(database, pathlib.Path(folder))
            if KIND == "sqlite":
                pathlib.Path(database.url.split(":", 1)[1]).touch()
            code = tap.run(world, tests=SCENARIOS, call=run)
            for holder in world.holders:
                holder.kill()
            return code
    except databases.Absent as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
