"""rota node on a store, and hosts that come from a store."""

import contextlib
import os

from cli.support import Files, Watching, ok, refuse, run, test


@contextlib.contextmanager
def store():
    """The URL of a store with three members, and files."""
    with Files() as files:
        url = f"sqlite:{files.path}/store.db"
        ok("node", "heartbeat", "a:1", "--zone", "east", "--roles", "broker,cache", "--ttl", "1h", "--store", url)
        ok("node", "heartbeat", "b:1", "--roles", "broker", "--ttl", "1h", "--store", url)
        ok("node", "heartbeat", "c:1", "--roles", "other", "--ttl", "1h", env={"ROTA_STORE": url})
        yield url, files


def states(url):
    return {m["address"]: m["state"] for m in ok("node", "members", "--store", url, "--json").json()["members"]}


@test
def members_are_listed_and_operators_change_them():
    with store() as (url, _):
        lines = [line.split(b"\t") for line in ok("node", "members", "--store", url).lines()]
        assert lines[0][:5] == [b"a:1", b"in", b"1", b"east", b"broker,cache"], lines
        ok("node", "heartbeat", "d:1", "--ttl", "1ms", "--store", url)
        ok("node", "drain", "a:1", "--store", url)
        ok("node", "evict", "b:1", "--store", url)
        ok("node", "evict", "c:1", "--store", url)
        assert states(url) == {"a:1": "draining", "b:1": "evicted", "c:1": "evicted", "d:1": "dead"}
        ok("node", "heartbeat", "b:1", "--ttl", "1h", "--store", url)
        assert states(url)["b:1"] == "evicted"
        ok("node", "undrain", "b:1", "--store", url)
        ok("node", "remove", "c:1", "d:1", "--store", url)
        assert states(url) == {"a:1": "draining", "b:1": "in"}
        for word in ("drain", "evict", "undrain", "remove"):
            refuse("node", word, "z:1", "--store", url, code=1, name="z:1")


@test
def a_dry_run_reports_the_effect_on_members():
    with store() as (url, files):
        before = states(url)
        for word, fate in (("drain", b"without shards"), ("evict", b"excluded from the cluster"), ("undrain", b"be in"),
                           ("remove", b"removed from the list")):
            line = ok("node", word, "a:1", "--dry-run", "--store", url).out
            assert b"a:1 is in (zone=east, roles=broker,cache)" in line and fate in line, line
            refuse("node", word, "z:1", "--dry-run", "--store", url, code=1, name="z:1 is not a member")
        assert b"a:1 is in" in ok("node", "heartbeat", "a:1", "--zone", "west", "--dry-run", "--store", url).out
        assert b"not a member yet" in ok("node", "heartbeat", "d:1", "--dry-run", "--store", url).out
        refuse("node", "heartbeat", "bad address", "--dry-run", "--store", url, name="address")
        assert states(url) == before
        listed = ok("node", "members", "--store", url, "--json").json()["members"]
        assert listed[0]["zone"] == "east", listed
        missing = files.path / "missing.db"
        assert b"would be created" in ok("node", "heartbeat", "a:1", "--dry-run", "--store", f"sqlite:{missing}").out
        assert not missing.exists()


@test
def a_ring_of_the_members_is_that_of_a_file_with_them():
    with store() as (url, files):
        keys = b"".join(b"key%d\n" % i for i in range(50))
        every = files.write("every", "a:1 zone=east\nb:1\nc:1\n")
        brokers = files.write("brokers", "a:1 zone=east\nb:1\n")
        for command in (["ring", "lookup"], ["route", "--queue", "q"], ["plan", "--queue", "q", "--add", "z:1"]):
            of_file = ok(*command, "--hosts", every, stdin=keys).out
            assert ok(*command, "--store", url, stdin=keys).out == of_file, command
            assert ok(*command, stdin=keys, env={"ROTA_STORE": url}).out == of_file, command
            of_file = ok(*command, "--hosts", brokers, stdin=keys).out
            assert ok(*command, "--store", url, "--role", "broker", stdin=keys).out == of_file, command
            # A file that is named goes before the environment.
            assert ok(*command, "--hosts", brokers, stdin=keys, env={"ROTA_STORE": url}).out == of_file, command
        ok("node", "drain", "c:1", "--store", url)
        assert ok("ring", "lookup", "--store", url, stdin=keys).out == ok("ring", "lookup", "--hosts", brokers, stdin=keys).out
        lines = ok("hosts", "check", "--store", url).lines()
        assert lines == [b"a:1\ton ring\t1\teast\t-\t-", b"b:1\ton ring\t1\t-\t-\t-", b"c:1\tdraining\t1\t-\t-\t-"], lines


@test
def a_heartbeat_carries_weight_and_times():
    with store() as (url, _):
        ok("node", "heartbeat", "b:1", "--ttl", "1h", "--weight", "2.5", "--start-at", "2030-01-01T00:00:00Z",
           "--stop-at", "2040-01-01T00:00:00Z", "--store", url)
        listed = {m["address"]: m for m in ok("node", "members", "--store", url, "--json").json()["members"]}
        assert listed["b:1"]["weight"] == 2.5 and listed["b:1"]["start_at"] == "2030-01-01T00:00:00.000000Z", listed
        assert listed["b:1"]["stop_at"] == "2040-01-01T00:00:00.000000Z" and listed["a:1"]["start_at"] is None, listed
        assert b"\t2030-01-01T00:00:00.000Z\t2040-01-01T00:00:00.000Z\t-\n" in ok("node", "members", "--store", url).out
        for moment, state in ("2029-12-31T00:00:00Z", b"not yet"), ("2030-01-02T00:00:00Z", b"on ring"):
            hosts = ok("hosts", "check", "--store", url, "--at", moment).lines()
            assert hosts[1].split(b"\t")[:3] == [b"b:1", state, b"2.5"], hosts


@test
def members_are_watched():
    with store() as (url, _):
        with Watching("hosts", "watch", "--store", url, "--role", "broker") as watch:
            seen = {watch.line(), watch.line()}
            assert seen == {"on ring\ta:1\tweight=1\tzone=east", "on ring\tb:1\tweight=1"}, seen
            ok("node", "drain", "b:1", "--store", url)
            assert watch.line() == "draining\tb:1\tweight=1"
            ok("node", "evict", "b:1", "--store", url)
            assert watch.line() == "gone\tb:1"
            watch.interrupt()


@test
def invalid_sources_of_hosts_are_refused():
    with store() as (url, files):
        hosts = files.write("hosts", "a:1\n")
        missing = f"sqlite:{files.path}/missing.db"
        commands = (["ring", "lookup"], ["route", "--queue", "q"], ["plan", "--queue", "q", "--add", "z:1"])
        for command in commands:
            refuse(*command, name=["--store", "ROTA_STORE"], env={"ROTA_STORE": ""})
            refuse(*command, "--hosts", hosts, "--store", url, name="--store")
            refuse(*command, "--hosts", hosts, "--role", "x", name="--role")
            refuse(*command, "--store", missing, name="missing.db")
            refuse(*command, "--store", "nonsense:x", name="sqlite:")
            if "plan" not in command:  # which adds the first
                refuse(*command, "--store", url, "--role", "nobody", code=1, name="store.db")
        refuse("hosts", "check", hosts, "--store", url, name="--store")
        refuse("hosts", "check", name="--store", env={"ROTA_STORE": ""})
        refuse("hosts", "watch", "--store", missing, name="missing.db")
        refuse("node", "members", "--store", missing, name="missing.db")
        refuse("node", "heartbeat", "bad address\n", "--store", url, name="address")
        refuse("node", "heartbeat", "", "--store", url, name="address")
        for address in ("a b", "a,b", "#a"):
            refuse("node", "heartbeat", address, "--store", url, name=address)
        for weight in ("0", "x", "1001", "1 zone=a"):
            refuse("node", "heartbeat", "a:1", "--weight", weight, "--store", url, name="0.01 to 1000")
        assert not os.path.exists(missing.split(":", 1)[1])
        secret = run("ring", "lookup", "--store", "postgres://u:s3cret@127.0.0.1:1/db")
        assert secret.code == 1 and b"s3cret" not in secret.err, secret.err
