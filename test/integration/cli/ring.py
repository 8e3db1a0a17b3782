"""rota ring: owners and hashes of keys."""

import subprocess

from cli.support import ROTA, Files, as_hosts, ok, refuse, run, test, vectors


@test
def lookups_are_those_of_the_vectors():
    data = vectors("ringpop_small.json")
    checked = 0
    with Files() as files:
        for ring in data["rings"]:
            rows = [r for r in data["rows"] if r["ring"] == ring["id"] and "\n" not in r["key"]]
            if ring.get("identities") or not ring["servers"]:
                continue
            servers = ring["servers"]
            path = files.hosts(ring["id"], servers)
            common = ["ring", "lookup", "--hosts", path, "--points", str(ring["replica_points"])]
            owners = ok(*common, stdin="".join(r["key"] + "\n" for r in rows).encode())
            for row, line in zip(rows, owners.lines(), strict=True):
                assert line == row["key"].encode() + b"\t" + row["owner"].encode(), (ring["id"], row)
            for n in {r["n"] for r in rows if r["n"] > 0}:
                some = [r for r in rows if r["n"] == n]
                answer = ok(*common, "-n", str(n), stdin="".join(r["key"] + "\n" for r in some).encode())
                for row, line in zip(some, answer.lines(), strict=True):
                    expected = ",".join(servers[i] for i in row["list"])
                    assert line == f"{row['key']}\t{expected}".encode(), (ring["id"], row, line)
                    checked += 1
    assert checked > 200, checked


@test
def hashes_are_those_of_the_vectors():
    rows = [r for r in vectors("farm32.json")["rows"] if b"\n" not in bytes.fromhex(r["in_hex"])]
    answer = ok("ring", "hash", stdin=b"".join(bytes.fromhex(r["in_hex"]) + b"\n" for r in rows))
    assert answer.lines() == [str(r["h32"]).encode() for r in rows]
    assert len(rows) > 100


@test
def keys_are_bytes():
    keys = [b"", b"a", b"\0", b"a\0b", b"\xff\xfe", b"\r", b"tab\there", b"x" * (1 << 20), b"last"]
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        for stdin in (b"\n".join(keys), b"\n".join(keys) + b"\n"):
            lines = ok("ring", "lookup", "--hosts", path, stdin=stdin).lines()
            assert [line.rsplit(b"\t", 1)[0] for line in lines] == keys
        objects = ok("ring", "lookup", "--hosts", path, "--json", "-n", "2", stdin=b"\n".join(keys)).json_lines()
        assert [len(o["hosts"]) for o in objects] == [2] * len(keys)
        assert objects[3]["key"] == "a\0b" and "\ufffd" in objects[4]["key"]
        assert ok("ring", "lookup", "--hosts", path).out == b""
        assert ok("ring", "lookup", "--hosts", path, stdin=b"\n\n").out.count(b"\t") == 2


@test
def keys_are_answered_while_the_input_is_open():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        with subprocess.Popen([ROTA, "ring", "lookup", "--hosts", path],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            for key in (b"one", b"two"):
                process.stdin.write(key + b"\n")
                process.stdin.flush()
                assert process.stdout.readline().startswith(key + b"\t10.0.0.")
            process.stdin.close()
            assert process.wait(60) == 0


@test
def too_long_a_key_ends_the_run_behind_the_answers():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        answer = run("ring", "lookup", "--hosts", path, stdin=b"a\nb\n" + b"x" * 10_000_000 + b"\nc\n")
        assert answer.code == 2 and answer.out.count(b"\n") == 2, answer.out[:100]
        assert b"line 3 " in answer.err and answer.err.count(b"\n") == 1


@test
def empty_ring_has_no_owner():
    with Files() as files:
        for path in (files.write("empty", ""), files.write("comments", "# none\n\n"),
                     files.write("drained", "10.0.0.1:7000 draining\n")):
            refuse("ring", "lookup", "--hosts", path, stdin=b"k\n", code=1, name=path)
            refuse("route", "--hosts", path, "--queue", "q", "--partitions", "4", code=1, name=path)


@test
def hosts_are_placed_by_the_clock():
    with Files() as files:
        path = files.write("hosts", "a:1\nb:1 start_at=2030-01-01T00:00:00Z\nc:1 stop_at=2031-01-01T00:00:00Z\n")

        def owners(at):
            keys = "".join(f"key{i}\n" for i in range(200)).encode()
            lines = ok("ring", "lookup", "--hosts", path, "--at", at, stdin=keys).lines()
            return {line.split(b"\t")[1] for line in lines}

        assert owners("2029-12-31T23:59:59Z") == {b"a:1", b"c:1"}
        assert owners("2030-01-01T00:00:00Z") == {b"a:1", b"b:1", b"c:1"}
        assert owners("2031-01-01T00:00:00Z") == {b"a:1", b"b:1"}


@test
def keys_and_hosts_do_not_share_standard_input():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        for name in ("-", "/dev/stdin"):
            refuse("ring", "lookup", "--hosts", name, stdin=b"a:1\n", name=["--hosts", "standard input"])
        with open(path, "rb") as keys:  # a file can be read twice
            assert len(ok("ring", "lookup", "--hosts", path, stdin_from=keys).lines()) == 3
