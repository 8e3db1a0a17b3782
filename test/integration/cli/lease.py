"""rota lease: the leases of a store."""

import contextlib
import pathlib
import re
import sqlite3

from cli.support import Files, ok, refuse, test

SECOND = 1000 * 1000  # in the tables


@contextlib.contextmanager
def store():
    """A store with its tables: its URL, and a connection to it."""
    with Files() as files:
        path = files.write("store.db", "")
        url = f"sqlite:{path}"
        ok("lease", "history", "--store", url)
        with contextlib.closing(sqlite3.connect(path)) as database:
            yield url, database


def add_lease(database, dc, shard, host, instance, epoch, last_ping, space="cache/cache"):
    with database:
        database.execute(
            "INSERT INTO rota_leases (space, dc, shard, shards, host, instance, epoch, locked_at, last_ping, ttl_ms, pings)"
            " VALUES (?, ?, ?, 4, ?, ?, ?, ?, ?, 10000, 7)",
            (space, dc, shard, host, instance, epoch, 1700000000 * SECOND, last_ping),
        )


@test
def leases_are_listed_with_their_state():
    with store() as (url, database):
        far = 4000000000 * SECOND
        with database:
            database.execute("INSERT INTO rota_dcs VALUES ('cache/cache', 'east', 8), ('queue', 'east', 3)")
        add_lease(database, "east", 0, "a:1", 5, 70, far)
        add_lease(database, "east", 1, "b:1", 5, 71, 1700000000 * SECOND)
        add_lease(database, "east", 2, "b:1", 0, 72, 1700000000 * SECOND)
        add_lease(database, "east", 3, "", 0, 0, 0)
        add_lease(database, "west", 0, "\x1b[31mred", 5, 73, far)
        add_lease(database, "east", 0, "other", 5, 74, far, space="queue")
        header = ok("lease", "list", "--store", url, "-o", "table").lines()[0]
        assert re.split(rb"  +", header) == [b"DC", b"SHARD", b"STATE", b"HOST", b"SHARDS", b"EPOCH", b"CLAIMED OF",
                                             b"HEARTBEAT"], header
        lines = [line.split(b"\t") for line in ok("lease", "list", "--store", url).lines()]
        assert [line[:4] for line in lines[:4]] == [
            [b"east", b"0", b"held", b"a:1"],
            [b"east", b"1", b"expired", b"b:1"],
            [b"east", b"2", b"free", b"b:1"],
            [b"east", b"3", b"new", b"-"],
        ], lines
        assert lines[0][4:7] == [b"8", b"70", b"4"], lines
        assert lines[1][7] == b"2023-11-14T22:13:20.000Z", lines
        assert lines[3][4:] == [b"8", b"0", b"4", b"-"], lines
        assert lines[4][4] == b"0", lines  # nobody has said
        assert len(lines) == 5 and b"\x1b" not in lines[4][3], lines
        assert len(ok("lease", "list", "--store", url, "--dc", "west").lines()) == 1
        assert len(ok("lease", "list", "--dc", "west", env={"ROTA_STORE": url}).lines()) == 1
        leases = ok("lease", "list", "--store", url, "--space", "queue", "--json").json()["leases"]
        assert [lease["host"] for lease in leases] == ["other"]
        lease = ok("lease", "list", "--store", url, "--dc", "east", "--json").json()["leases"][1]
        assert lease == {
            "dc": "east", "shard": 1, "of": 4, "shards": 8, "state": "expired", "host": "b:1", "epoch": 71, "pings": 7,
            "granted_at": "2023-11-14T22:13:20.000000Z", "last_ping": "2023-11-14T22:13:20.000000Z", "ttl": 10,
        }, lease
        refuse("lease", "list", "--store", url, "--space", "none", code=1, name="none")


@test
def history_is_listed_newest_first():
    with store() as (url, database):
        with database:
            for number in range(3):
                database.execute(
                    "INSERT INTO rota_history (space, dc, shard, host, epoch, is_release, at) VALUES ('cache/cache', 'east', ?, 'a:1', ?, ?, ?)",
                    (number, 10 + number, number == 2, (1700000000 + number) * SECOND),
                )
        lines = ok("lease", "history", "--store", url).lines()
        assert lines[0] == b"2023-11-14T22:13:22.000Z\treleased\teast\t2\ta:1\t12\t0", lines
        assert len(lines) == 3
        history = ok("lease", "history", "--store", url, "--json").json()["history"]
        assert [event["event"] for event in history] == ["released", "granted", "granted"]
        assert ok("lease", "history", "--store", url, "--space", "none").lines() == []


@test
def hold_is_set_and_ended():
    with store() as (url, database):
        def held():
            return dict(database.execute("SELECT space, hold_until FROM rota_holds"))

        assert ok("lease", "freeze", "--store", url, "--for", "1h").out.startswith(b"claims are frozen until 2")
        assert held()[""] > 1700000000 * SECOND
        assert ok("lease", "freeze", "--store", url, "--for", "1h", "--space", "x", "--json").json()["hold_until"]
        assert ok("lease", "freeze", "--store", url, "--for", "0").out == b"claims are not frozen\n"
        assert held()[""] == 0 and held()["x"] > 0
        assert ok("lease", "freeze", "--store", url, "--for", "0", "--space", "x", "--json").json() == {"hold_until": None}
        before = held()
        assert b"any space until 2" in ok("lease", "freeze", "--store", url, "--for", "1h", "--dry-run").out
        assert b"would end" in ok("lease", "freeze", "--store", url, "--for", "0", "--dry-run").out
        add_lease(database, "east", 0, "a:1", 7, 70, 4000000000 * SECOND)
        plan = ok("lease", "freeze", "--store", url, "--for", "1h", "--space", "cache/cache", "--dry-run", "--json").json()
        assert "1 shards: 1 are held" in plan["plan"][0] and plan["is_done"] is False, plan
        assert held() == before
        refuse("lease", "freeze", "--store", url, name="--for")
        refuse("lease", "freeze", "--store", url, "--for", "500d", name="500d")


@test
def an_unusable_store_is_named_without_its_password():
    with Files() as files:
        missing = files.path / "missing.db"
        refuse("lease", "list", "--store", f"sqlite:{missing}", name="No such file")
        assert not pathlib.Path(missing).exists()
        refuse("lease", "list", "--store", f"sqlite:{files.write('text', 'no database at all' * 99)}", name="text")
        refuse("lease", "list", "--store", "oracle://x/y", name="postgres://")
        answer = refuse("lease", "list", "--store", "mysql://u:s3cret@127.0.0.1:1/d", code=1, name="127.0.0.1")
        assert b"s3cret" not in answer.err
        answer = refuse("lease", "freeze", "--for", "1s", "--store", "postgres://u:s3cret@127.0.0.1:1/d", code=1)
        assert b"s3cret" not in answer.err
        refuse("lease", "list", name="--store")
        path = files.write("store.db", "")
        refuse("lease", "list", "--store", f"sqlite:{path}", "--space", "a\nb")
        refuse("lease", "list", "--store", f"sqlite:{path}", "--space", "x" * 300)
