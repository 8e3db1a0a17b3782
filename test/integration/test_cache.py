#!/usr/bin/env python3
"""A cache over a table of each database: test_cache.py ROTA DATA_DIR LIB_DIR KIND.

Starts the database, servers over a table of it and clients; takes away servers, rights,
tables and the database itself. Prints TAP."""

import contextlib
import sqlite3
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[3])
import databases  # noqa: E402
import tap  # noqa: E402
from cli.cache_world import World  # noqa: E402
from cli.support import ok  # noqa: E402
from tap import test  # noqa: E402

KIND = sys.argv[4]
KEYS = [f"key{i}" for i in range(200)]
VALUES = {key: f"value of {key}" for key in KEYS}
BYTES = {"sqlite": "BLOB", "mysql": "LONGBLOB", "postgres": "BYTEA"}[KIND]


def sql(database, text):
    """Run statements in the database that the store is in, as whoever may do all."""
    if KIND == "sqlite":
        with contextlib.closing(sqlite3.connect(database.url.split(":", 1)[1], timeout=60)) as connection:
            connection.executescript(text)
    elif KIND == "mysql":
        database.must(database.client, "--no-defaults", f"--socket={database.socket}", "-uroot",
                      databases.DATABASE, input=text.encode())
    else:
        database.must(database.psql, "--no-psqlrc", "-h", database.folder, "-p", database.port, "-U", "root",
                      "-d", databases.DATABASE, "--quiet", "--set=ON_ERROR_STOP=1", input=text.encode())


def key_name():
    return "`key`" if KIND == "mysql" else "key"


def fill(database, table="items"):
    size = "VARCHAR(200) COLLATE utf8mb4_bin" if KIND == "mysql" else "VARCHAR(200)"
    rows = ", ".join(f"('{key}', '{value}')" for key, value in VALUES.items())
    grant = f"GRANT SELECT ON {table} TO {databases.USER};" if KIND == "postgres" else ""
    sql(database, f"CREATE TABLE {table} ({key_name()} {size} PRIMARY KEY, value {BYTES} NOT NULL);"
                  f"INSERT INTO {table} VALUES {rows}; {grant}")


@contextlib.contextmanager
def cluster(database, space, *more, shards=2, dcs=("east", "west")):
    with World(database.url) as world:
        world.space = space
        world.dcs = {dc: world.data_centre(dc, shards, "sql:items", "--space", space, *more) for dc in dcs}
        yield world


def values(world, *keys):
    return world.values("--space", world.space, *keys)


@test
def a_table_is_read_through(database):
    with cluster(database, "through", "--keep", "1h") as world:
        assert values(world, *KEYS, "none", "none'; DROP TABLE items; --") == VALUES
        sql(database, "UPDATE items SET value = 'other' WHERE value = 'value of key1'")
        # What is in memory is answered from there; which data center answers is open.
        assert values(world, "key1")["key1"] in ("value of key1", "other")
        sql(database, "UPDATE items SET value = 'value of key1' WHERE value = 'other'")
    with cluster(database, "fresh", "--keep", "0", dcs=("east",)) as world:
        assert values(world, "key1") == {"key1": "value of key1"}
        sql(database, "UPDATE items SET value = 'other' WHERE value = 'value of key1'")
        assert values(world, "key1") == {"key1": "other"}
        sql(database, "UPDATE items SET value = 'value of key1' WHERE value = 'other'")


@test
def no_server_is_missed(database):
    with cluster(database, "missed") as world:
        for server in world.dcs["east"]:
            server.kill()
            assert values(world, *KEYS) == VALUES
        world.dcs["east"] = world.data_centre("east", 2, "sql:items", "--space", "missed")
        world.dcs["west"][0].freeze()
        assert values(world, *KEYS) == VALUES
        world.dcs["west"][0].kill()
        assert values(world, *KEYS) == VALUES


@test
def a_data_center_is_re_sharded_while_the_other_one_serves(database):
    with cluster(database, "more") as world:
        for server in world.dcs["east"]:
            server.terminate()
        assert "has 2 shards" in world.refused("east", 4, "sql:items", "--space", "more")
        assert values(world, *KEYS) == VALUES
        world.data_centre("east", 4, "sql:items", "--space", "more", "--reshard")
        for server in world.dcs["west"]:
            server.terminate()
        assert values(world, *KEYS) == VALUES


@test
def other_column_names_can_be_given(database):
    text = "VARCHAR(100)" if KIND != "sqlite" else "TEXT"
    grant = f"GRANT SELECT ON people TO {databases.USER};" if KIND == "postgres" else ""
    sql(database, f"CREATE TABLE people (id INT PRIMARY KEY, name {text}); INSERT INTO people VALUES (7, 'Ada'); {grant}")
    with World(database.url) as world:
        world.serve("east", 1, "sql:people:id:name", "--space", "people").logged("lease gained")
        assert world.values("--space", "people", "7", "8") == {"7": "Ada"}


@test
def fractions_are_given_as_the_database_prints_them(database):
    number = {"sqlite": "REAL", "mysql": "DOUBLE", "postgres": "DOUBLE PRECISION"}[KIND]
    rows = {"half": "0.5", "tenth": "0.1", "third": "-0.333333333333333", "much": "1e+300", "whole": "2.0"}
    grant = f"GRANT SELECT ON numbers TO {databases.USER};" if KIND == "postgres" else ""
    sql(database, f"CREATE TABLE numbers ({key_name()} VARCHAR(20) PRIMARY KEY, value {number});"
                  f"INSERT INTO numbers VALUES {', '.join(f'({key!r}, {value})' for key, value in rows.items())}; {grant}")
    with World(database.url) as world:
        world.serve("east", 1, "sql:numbers", "--space", "numbers").logged("lease gained")
        found = world.values("--space", "numbers", *rows)
        if KIND == "sqlite":
            assert found == dict(rows, much="1.0e+300"), found
        else:
            assert found == dict(rows, much="1e300" if KIND == "mysql" else "1e+300", whole="2"), found


@test
def a_key_in_two_rows_is_refused_by_itself(database):
    grant = f"GRANT SELECT ON twice TO {databases.USER};" if KIND == "postgres" else ""
    sql(database, f"CREATE TABLE twice ({key_name()} VARCHAR(20), value VARCHAR(20));"
                  f"INSERT INTO twice VALUES ('a', '1'), ('b', '2'), ('a', '3'), ('c', '4'); {grant}")
    with World(database.url) as world:
        world.serve("east", 1, "sql:twice", "--space", "twice").logged("lease gained")
        answer = world.get("--space", "twice", "a", "b", "c")
        assert answer.code == 1 and answer.out == b"b\t2\nc\t4\n", (answer.out, answer.err)
        assert b'the table has 2 rows with the key "a"' in answer.err, answer.err


@test
def a_key_that_does_not_fit_the_column_fails_alone(database):
    grant = f"GRANT SELECT ON ordinals TO {databases.USER};" if KIND == "postgres" else ""
    sql(database, f"CREATE TABLE ordinals (id INT PRIMARY KEY, name {BYTES});"
                  f"INSERT INTO ordinals VALUES (1, 'one'), (2, 'two'); {grant}")
    with World(database.url) as world:
        world.serve("east", 1, "sql:ordinals:id:name", "--space", "ordinals").logged("lease gained")
        said = b'invalid input syntax for type integer: "x"' if KIND == "postgres" else b'have no value: "x"'
        for keys, values in (("1", "x", "2"), b"1\tone\n2\ttwo\n"), (("x",), b""):  # the same alone and with others
            answer = world.get("--space", "ordinals", *keys)
            assert answer.code == 1 and said in answer.err and answer.out == values, (answer.out, answer.err)


@test
def a_value_that_is_too_large_fails_by_itself(database):
    huge = {"sqlite": "zeroblob(17 * 1024 * 1024)", "mysql": "REPEAT('x', 17 * 1024 * 1024)",
            "postgres": "CAST(repeat('x', 17 * 1024 * 1024) AS BYTEA)"}[KIND]
    if KIND == "mysql":
        sql(database, "SET GLOBAL max_allowed_packet = 64 * 1024 * 1024")
    sql(database, f"INSERT INTO items VALUES ('huge', {huge})")
    with cluster(database, "large", shards=1, dcs=("east",)) as world:
        answer = world.get("--space", "large", "key1", "huge", "key2")
        assert answer.code == 1 and b'"huge" is too large' in answer.err, (answer.out, answer.err)
        assert answer.out == b"key1\tvalue of key1\nkey2\tvalue of key2\n", answer.out
    sql(database, f"DELETE FROM items WHERE {key_name()} = 'huge'")


@test
def values_of_more_than_an_answer_can_have_come_in_several(database):
    large = {"sqlite": "CAST(replace(hex(zeroblob(3 * 1024 * 1024)), '0', 'x') AS BLOB)",
             "mysql": "REPEAT('x', 6 * 1024 * 1024)",
             "postgres": "CAST(repeat('x', 6 * 1024 * 1024) AS BYTEA)"}[KIND]
    names = [f"large{i}" for i in range(4)]
    for name in names:
        sql(database, f"INSERT INTO items VALUES ('{name}', {large})")
    with cluster(database, "several", shards=1) as world:
        answer = world.get("--space", "several", "--timeout", "60s", *names, "key1")
        lines = answer.out.split(b"\n")
        assert answer.code == 0 and len(answer.out) > 24 << 20, (len(answer.out), answer.err)
        assert lines == [f"{name}\t".encode() + b"x" * (6 << 20) for name in names] + [b"key1\tvalue of key1", b""]
    for name in names:
        sql(database, f"DELETE FROM items WHERE {key_name()} = '{name}'")


@test
def a_server_without_its_table_takes_no_shard(database):
    def content():
        leases = ok("lease", "list", "--store", database.url, "--space", "cache/trace", "--json").json()["leases"]
        return leases, ok("lease", "history", "--store", database.url, "--space", "cache/trace").out

    with World(database.url) as world:
        world.serve("east", 1, "sql:items", "--space", "trace").terminate()
        before = content()
        assert "nothing" in world.refused("east", 4, "sql:nothing", "--space", "trace", "--reshard")
        assert "nix" in world.refused("east", 4, "sql:items:nix:value", "--space", "trace", "--reshard")
        assert content() == before


@test
def an_unreadable_table_is_refused(database):
    with World(database.url) as world:
        assert "nothing" in world.refused("east", 1, "sql:nothing", "--space", "a")
        assert "nix" in world.refused("east", 1, "sql:items:nix:value", "--space", "a")
        said = world.refused("east", 1, "sql:items; DROP TABLE items", "--space", "a")
        assert "DROP" in said, said
        if KIND == "postgres":
            sql(database, "CREATE TABLE secret (key TEXT, value TEXT)")
            assert "permission denied" in world.refused("east", 1, "sql:secret", "--space", "a")
        if KIND == "mysql":
            sql(database, "CREATE DATABASE other; CREATE TABLE other.secret (`key` INT, value INT)")
            assert "denied" in world.refused("east", 1, "sql:other.secret", "--space", "a")
        if KIND != "sqlite":
            world.url = database.url.replace("rota:", "rota:wrong")
            said = world.refused("east", 1, "sql:items", "--space", "a")
            assert "wrong" not in said and "s3cret" not in said, said


@test
def a_table_that_goes_missing_fails_the_gets_and_comes_back(database):
    with cluster(database, "gone", "--keep", "0", shards=1, dcs=("east",)) as world:
        assert values(world, "key1") == {"key1": "value of key1"}
        sql(database, "ALTER TABLE items RENAME TO elsewhere")
        answer = world.get("--space", "gone", "--timeout", "1s", "key1")
        assert answer.code == 1 and b"items" in answer.err, answer.err
        sql(database, "ALTER TABLE elsewhere RENAME TO items")
        assert values(world, "key1") == {"key1": "value of key1"}


@test
def a_restart_of_the_database_is_not_noticed_by_callers(database):
    with cluster(database, "restart", "--keep", "1h", "--ttl", "30s") as world:
        nodes = ",".join(server.address for servers in world.dcs.values() for server in servers)
        for dc in world.dcs:  # so that all is in memory, everywhere
            hosts = world.files.write(f"hosts-{dc}", "".join(f"{server.address} zone={dc}\n" for server in world.dcs[dc]))
            assert ok("get", "--hosts", hosts, *KEYS).code == 0
        database.stop()
        for source in (("--hosts", hosts), ("--node", nodes)):
            answer = ok("get", *source, "--timeout", "60s", *KEYS)
            assert answer.code == 0, answer.err
        database.start()
        assert values(world, *KEYS, "new") == VALUES


def main():
    with databases.open_database(KIND) as database:
        fill(database)
        return tap.run(database)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except databases.Absent as reason:
        print(f"1..0 # SKIP {reason}")
