"""rota cache and rota get: servers over a file and over SQLite, and whoever asks them."""

import base64
import contextlib
import json
import os
import pathlib
import signal
import socket
import sqlite3

from cli.cache_world import World, free_port
from cli.support import Files, ok, on_terminal, refuse, replace, run, test

PAIRS = "".join(f"key{i}\tvalue {i}\n" for i in range(100))
KEYS = [f"key{i}" for i in range(100)]
VALUES = {f"key{i}": f"value {i}" for i in range(100)}


@contextlib.contextmanager
def cluster(dcs=("east", "west"), shards=2, text=PAIRS):
    """Data centres with a server for each shard, over one file."""
    with World() as world:
        world.source = world.files.write("pairs", text)
        world.dcs = {dc: world.data_centre(dc, shards, f"file:{world.source}") for dc in dcs}
        yield world


@test
def every_key_is_answered_by_its_shard():
    with cluster() as world:
        assert world.values(*KEYS, "none") == VALUES
        shards = {server.address: server.shard() for servers in world.dcs.values() for server in servers}
        items = [json.loads(line) for line in world.get("--json", *KEYS).lines()]
        seen = {}
        for item in items:
            assert item["state"] == "found" and item["value"] == VALUES[item["key"]], item
            assert seen.setdefault(item["key"], shards[item["host"]]) == shards[item["host"]]
        assert set(seen.values()) == {0, 1}  # both have some
        again = [json.loads(line) for line in world.get("--json", "--mode", "broadcast", *KEYS).lines()]
        for item in again:
            assert shards[item["host"]] == seen[item["key"]], item


@test
def a_killed_server_is_replaced_by_the_other_data_center():
    with cluster() as world:
        world.dcs["east"][0].kill()
        assert world.values(*KEYS) == VALUES
        for server in world.dcs["east"]:
            server.kill()
        assert world.values(*KEYS) == VALUES
        world.dcs["west"][0].freeze()  # now a shard has nobody
        shard = world.dcs["west"][0].shard()
        answer = world.get("--timeout", "1500ms", "--json", *KEYS)
        assert answer.code == 1 and b"no answer for" in answer.err, answer.err
        states = {item["state"] for item in answer.json_lines()}
        assert states == {"found", "missing"}, states
        spare = world.serve("west", 2, f"file:{world.source}")
        world.dcs["west"][0].kill()
        assert spare.shard() == shard
        assert world.values(*KEYS) == VALUES


@test
def data_centers_are_re_sharded_one_by_one():
    with cluster() as world:
        for dc in ("east", "west"):
            for server in world.dcs[dc]:
                server.terminate()
            said = world.refused(dc, 4, f"file:{world.source}")
            assert "has 2 shards" in said and "--reshard" in said, said
            assert world.servers[-1].err().count("has 2 shards") == 1, world.servers[-1].err()
            world.dcs[dc] = world.data_centre(dc, 4, f"file:{world.source}", "--reshard")
            assert world.values(*KEYS) == VALUES
        assert sorted(server.shard() for server in world.dcs["east"]) == [0, 1, 2, 3]
        # Who does it beside those who hold shards is told of them; a spare has none.
        spare = world.serve("east", 8, f"file:{world.source}", "--reshard")
        line = spare.logged("lease resharded")
        assert "from=4" in line and "to=8" in line and "held=4" in line and "level=warn" in line, line
        shards = {lease["shards"] for lease in ok("lease", "list", "--store", world.url, "--json").json()["leases"]}
        assert shards == {4, 8}, shards


@test
def a_process_that_cannot_serve_takes_no_shard():
    with World() as world:
        path = world.url.split(":", 1)[1]
        bad = world.files.write("bad", "no tab\n")
        source = world.files.write("pairs", PAIRS)
        world.serve("east", 1, f"file:{source}").terminate()

        def content():
            with contextlib.closing(sqlite3.connect(path)) as database:
                return [list(database.execute(f"SELECT * FROM {table}")) for table in ("rota_dcs", "rota_leases")]

        before = content()
        for source in (f"file:{bad}", "file:/nowhere/pairs", "sql:nothing", "sql:rota_dcs:space:nix"):
            world.refused("east", 2, source, "--reshard")
            assert content() == before, source


@test
def a_standby_takes_over_released_shards():
    with cluster(dcs=("east",), shards=1) as world:
        spare = world.serve("east", 1, f"file:{world.source}")
        assert world.values("key1") == {"key1": "value 1"}
        world.dcs["east"][0].terminate()
        assert 'msg="cache stopped"' in world.dcs["east"][0].err()
        spare.logged("lease gained")
        assert world.values("key1") == {"key1": "value 1"}
        leases = ok("lease", "list", "--store", world.url, "--json").json()["leases"]
        assert [lease["host"] for lease in leases] == [spare.address], leases


@test
def a_server_can_hold_several_shards():
    with World() as world:
        source = world.files.write("pairs", PAIRS)
        server = world.serve("east", 3, f"file:{source}", "--wanted", "3")
        server.logged("lease gained", 3)
        assert world.values(*KEYS) == VALUES
        hosts = {json.loads(line)["host"] for line in world.get("--json", *KEYS).lines()}
        assert hosts == {server.address}, hosts
        *_, explained = world.get("--explain", "--json", *KEYS).json_lines()
        assert [attempt["keys"] for attempt in explained["tries"]] == [len(KEYS)], explained  # one request for all shards
        server.terminate()


@test
def a_second_signal_ends_a_server_at_once():
    with cluster(dcs=("east",), shards=1) as world:
        server = world.dcs["east"][0]
        # A connection with a call in flight would be waited for; a database that hangs, too.
        with contextlib.closing(sqlite3.connect(world.url.split(":", 1)[1], isolation_level=None)) as database:
            database.execute("BEGIN EXCLUSIVE")
            server.process.send_signal(signal.SIGTERM)
            server.logged("cache stopping")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(60) == 0
            database.execute("ROLLBACK")


@test
def a_restarted_server_with_a_data_directory_takes_its_shard_back():
    with World() as world:
        source = world.files.write("pairs", PAIRS)
        listen = f"127.0.0.1:{free_port()}"
        args = ("--listen", listen, "--data", world.files.path / "data", "--ttl", "10m")
        server = world.serve("east", 1, f"file:{source}", *args)
        server.logged("lease gained")
        server.kill()
        world.serve("east", 1, f"file:{source}", *args).logged("lease gained")
        assert world.values("key1") == {"key1": "value 1"}


@test
def a_lost_shard_is_not_answered_for():
    with cluster(dcs=("east",), shards=1) as world:
        path = world.url.split(":", 1)[1]
        stands_by = world.serve("east", 1, f"file:{world.source}", "--loss", "standby")
        for server, code in ((world.dcs["east"][0], -signal.SIGABRT), (stands_by, None)):
            server.logged("lease gained")
            with contextlib.closing(sqlite3.connect(path, timeout=60)) as database, database:
                database.execute("UPDATE rota_leases SET instance = 77, epoch = epoch + 1, last_ping = 1 << 60")
            server.logged("lease lost") if code is None else server.process.wait(60)
            assert server.process.poll() == code, server.err()
            answer = world.get("--timeout", "1s", "key1")
            assert answer.code == 1, answer.out
            with contextlib.closing(sqlite3.connect(path, timeout=60)) as database, database:
                database.execute("UPDATE rota_leases SET instance = 0")
        stands_by.logged("lease gained", 2)
        assert world.values("key1") == {"key1": "value 1"}


@test
def a_file_is_followed_and_a_mistake_changes_nothing():
    with cluster(dcs=("east",), shards=1) as world:
        server = world.dcs["east"][0]
        assert world.values("key1", "new") == {"key1": "value 1"}
        replace(world.source, "key1\tother\nnew\tn\n")
        server.logged("source read")
        assert world.values("key1", "new") == {"key1": "other", "new": "n"}
        replace(world.source, "key1\tthird\nno tab\n")
        assert "pairs:2: no tab" in server.logged("source rejected, keeping the previous values")
        assert world.values("key1") == {"key1": "other"}
        os.unlink(world.source)
        assert world.values("key1") == {"key1": "other"}
        pathlib.Path(world.source).write_text("key1\tfourth\n")
        server.logged("source read", 2)
        assert world.values("key1") == {"key1": "fourth"}


@test
def any_bytes_are_values_and_safe_to_show():
    odd = b"\x00\x01\xff\x1b[31m\\\t\n"
    text = b"odd\\x00key\t\\x00\\x01\\xff\\x1b[31m\\\\\\t\\n\nempty\t\n" + "grün\tüber\n".encode()
    with cluster(dcs=("east",), shards=1, text=text) as world:
        node = world.dcs["east"][0].address
        shown = on_terminal("get", "--node", node, "empty", "grün")
        assert shown == "empty\t\r\ngrün\tüber\r\n", repr(shown)
        answer = world.get("-", stdin=b"odd\x00key\nempty\n")
        assert answer.code == 0, answer.err
        assert answer.out == b"odd\\x00key\t\\x00\\x01\\xff\\x1b[31m\\\\\\t\\n\nempty\t\n", answer.out
        found = world.get("--json", "-", stdin=b"odd\x00key\n").json()
        assert found["key"] == "odd\0key" and found["value_base64"], found
        assert base64.b64decode(found["value_base64"], validate=True) == odd, found
        assert world.get("--raw", "grün").out == "über".encode()
        assert world.get("--raw", "none").code == 1
        # What is printed can be a source.
        again = world.files.write("again", answer.out)
        world.serve("west", 1, f"file:{again}").logged("lease gained")
        world.dcs["east"][0].terminate()
        assert world.get("-", stdin=b"odd\x00key\nempty\n").out == answer.out


@test
def explain_shows_the_winner_and_late_answers():
    with cluster(shards=1) as world:
        addresses = {dc: servers[0].address for dc, servers in world.dcs.items()}
        world.dcs["east"][0].freeze()
        answer = world.get("--explain", "--mode", "broadcast", "key1", "none")
        assert answer.code == 1, answer.err
        keys, tries = answer.out.decode().split("\n\n")
        first, second = (line.split("\t") for line in keys.split("\n"))
        assert first[:4] == ["key1", "value 1", "found", addresses["west"]] and first[4].endswith("ms"), first
        assert second[:4] == ["none", "", "absent", addresses["west"]], second
        rows = [line.split("\t") for line in tries.strip().split("\n")]
        assert any(row[0] == addresses["west"] and row[1] == "west" and row[-1] == "won" for row in rows), rows
        assert {row[2] for row in rows} == {"2 keys"}, rows
        assert b"\t1 key\t" in world.get("--explain", "key1").out
        *items, explained = world.get("--explain", "--json", "key1").json_lines()
        assert items[0]["host"] == addresses["west"] and explained["tries"], explained


@test
def servers_can_be_named_or_listed():
    with cluster(shards=1) as world:
        nodes = [servers[0].address for servers in world.dcs.values()]
        assert ok("get", "--node", ",".join(nodes), "key1").out == b"key1\tvalue 1\n"
        assert ok("get", "key1", env={"ROTA_NODE": nodes[0]}).out == b"key1\tvalue 1\n"
        hosts = world.files.write("hosts", "".join(f"{node} zone=z{i}\n" for i, node in enumerate(nodes)))
        assert ok("get", "--hosts", hosts, "key1").out == b"key1\tvalue 1\n"
        many = "".join(f"key{i % 100}\n" for i in range(3000)).encode()
        answer = ok("get", "--hosts", hosts, "-", stdin=many)
        assert len(answer.lines()) == 3000 and answer.lines()[2999] == b"key99\tvalue 99"
        answer = ok("get", "--hosts", hosts, "-", stdin=b"\nkey1\r\n\r\n\nkey2\r\nkey3")
        assert answer.out == b"key1\tvalue 1\nkey2\tvalue 2\nkey3\tvalue 3\n", answer.out
        assert ok("get", "--hosts", hosts, "-", stdin=b"\n\r\n\n").out == b""


@test
def unservable_caches_are_refused_with_one_sentence():
    with Files() as files:
        source = files.write("pairs", PAIRS)
        store = f"sqlite:{files.path}/store.db"
        serve = ("cache", "serve", "--store", store, "--dc", "east")
        good = (*serve, "--shards", "2", "--source", f"file:{source}")
        for name, args in [
            ("cache.shards", (*serve, "--shards", "0", "--source", f"file:{source}")),
            ("cache.shards", (*serve, "--shards", "-1", "--source", f"file:{source}")),
            ("cache.shards", (*serve, "--shards", "65537", "--source", f"file:{source}")),
            ("cache.source", (*serve, "--shards", "1")),
            ("wanted = 3", (*good, "--wanted", "3")),
            ("cache.memory", (*good, "--memory", "1")),
            ("--ttl", (*good, "--ttl", "1ms")),
            ("cache.loss", (*good, "--loss", "panic")),
            ("--alone", (*good, "--alone")),
            ("nowhere", (*good, "--listen", "nowhere")),
            ("advertise", (*good, "--listen", "0.0.0.0:0", "--insecure")),
            ("insecure", (*good, "--listen", "0.0.0.0:0", "--advertise", "10.0.0.1:5")),
            ("store", (*good[:2], "--store", "oracle:db", *good[4:])),
        ]:
            refuse(*args, name=name)
        for name, args in [
            ("must be", (*serve, "--shards", "1", "--source", "pairs")),
            ("must be", (*serve, "--shards", "1", "--source", "file:")),
            ("no/such", (*serve, "--shards", "1", "--source", "file:no/such")),
            ("not a file", (*serve, "--shards", "1", "--source", f"file:{files.path}")),
            ("must be", (*serve, "--shards", "1", "--source", "sql:a:b")),
            ("comma", (*good, "--space", "a,b")),
        ]:
            refuse(*args, name=name, code=1)
        for text, name in [(b"a 1\n", ":1: no tab"), (b"a\t1\na\t2\n", ":2: the key \"a\" is already on line 1"),
                           (b"a\t\\q\n", ":1: byte 3"), (b"\t1\n", ":1: no key"),
                           (b"k" * 5000 + b"\tv\n", ":1: the key has 5000 bytes"),
                           (b"a\t" + b"v" * (17 << 20), ":1: the value of \"a\"")]:
            bad = files.write("bad", text)
            refuse(*serve, "--shards", "1", "--source", f"file:{bad}", name=name, code=1)
        # One line of a gigabyte, which takes no room on the disk.
        huge = files.path / "huge"
        with open(huge, "wb") as file:
            file.write(b"a\t")
            file.truncate(1 << 30)
        refuse(*serve, "--shards", "1", "--source", f"file:{huge}", name=":1: a line of more than", code=1)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            refuse(*good, "--listen", "127.0.0.1:%d" % taken.getsockname()[1], name="in use", code=1)


@test
def an_unusable_store_is_reported():
    with Files() as files, World() as world:
        source = world.files.write("pairs", PAIRS)
        world.url = "sqlite:/no/such/folder/store.db"
        assert "/no/such/folder" in world.refused("east", 1, f"file:{source}")
        garbage = files.write("garbage.db", b"this is no database" * 1000)
        world.url = f"sqlite:{garbage}"
        assert "garbage.db" in world.refused("east", 1, f"file:{source}")
        assert pathlib.Path(garbage).read_bytes() == b"this is no database" * 1000
        # One that is unreachable is waited for, and its password is not told.
        world.url = f"mysql://user:geheim@127.0.0.1:{free_port()}/db"
        server = world.start("east", 1, f"file:{source}")
        assert "127.0.0.1" in server.logged("store down")
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
        assert "geheim" not in server.err(), server.err()


@test
def invalid_gets_are_refused_with_one_sentence():
    with Files() as files:
        refuse("get", "--node", "", "a", name="--node")
        refuse("get", "--node", "a:1", name="KEY")
        refuse("get", "--node", "nowhere", "a", name="nowhere")
        refuse("get", "--node", "127.0.0.1:1", "--hosts", "x", "a", name="only one of")
        refuse("get", "--hosts", f"{files.path}/none", "a", name="none")
        refuse("get", "--store", f"sqlite:{files.path}/none.db", "a", name="none.db")
        assert not (files.path / "none.db").exists()
        refuse("get", "--store", f"mysql://u:geheim@127.0.0.1:{free_port()}/db", "a", name="127.0.0.1", code=1)
        # A store that says that there is no server, and one that says nothing.
        path = files.path / "empty.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            get = ("get", "--store", f"sqlite:{path}", "--timeout", "1s", "a")
            database.execute("VACUUM")
            refuse(*get, name='lists no running server of the cache "cache"', code=1)
            database.execute("PRAGMA locking_mode = EXCLUSIVE")  # else it can be read
            database.execute("BEGIN EXCLUSIVE")
            refuse(*get, name="did not answer within 1s", code=1)
            database.execute("ROLLBACK")
        refuse("get", "--node", "127.0.0.1:1", *(f"key{i}" for i in range(1025)), name="on standard input")
        refuse("get", "--node", "127.0.0.1:1", "--raw", "a", "b", name="--raw")
        refuse("get", "--node", "127.0.0.1:1", "--mode", "loud", "a", name="--mode")
        refuse("get", "--node", f"127.0.0.1:{free_port()}", "--timeout", "300ms", "a", name="\"a\"", code=1)
        nobody = f"127.0.0.1:{free_port()}"
        refuse("get", "--node", nobody, "--timeout", "300ms", "a", name=nobody, code=1)
        refuse("get", "--node", nobody, "--timeout", "300ms", "a", name="refused", code=1)
        refuse("get", "--node", "10.255.255.1:1", "--timeout", "300ms", "a", name="insecure")
        answer = run("get", "--node", "127.0.0.1:1", "-", stdin=b"")
        assert answer.code == 0 and not answer.out, answer.err  # nothing is got at once
