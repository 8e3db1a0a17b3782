"""rota route and rota gradual: where partitions are, and from when on."""

from cli.support import Files, as_hosts, ok, refuse, test, vectors

TYPES = {1: "workflow", 2: "activity", 3: "nexus"}


@test
def routes_are_those_of_the_vectors():
    data = vectors("spread.json")
    rings = {r["id"]: r for r in data["rings"]}
    with Files() as files:
        for row in data["rows"]:
            ring = rings[row["ring"]]
            path = files.hosts(row["ring"], ring["servers"])
            answer = ok("route", "--hosts", path, "--points", str(ring["replica_points"]),
                        "--namespace", row["namespace_id"], "--queue", row["queue"],
                        "--type", TYPES[row["task_type"]], "--batch", str(row["batch_size"]),
                        "--partitions", str(row["first_partition"] + len(row["keys"])))
            lines = answer.lines()[row["first_partition"]:]
            for i, (line, key, index, owner) in enumerate(
                    zip(lines, row["keys"], row["indexes"], row["owners"], strict=True)):
                expected = f"{row['first_partition'] + i}\t{key}\t{index}\t{ring['servers'][owner]}"
                assert line == expected.encode(), (row["ring"], line, expected)


@test
def one_partition_is_the_same_line_as_among_all():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(7))
        common = ["route", "--hosts", path, "--namespace", "ns", "--queue", "q", "--batch", "4", "--mode", "slots"]
        lines = ok(*common, "--partitions", "20").lines()
        assert len(lines) == 20
        for i in (0, 3, 4, 19):
            assert ok(*common, "--partitions", "20", "--partition", str(i)).lines() == [lines[i]]
        document = ok(*common, "--partitions", "20", "--json").json()
        assert [f"{p['partition']}\t{p['key']}\t{p['index']}\t{p['host']}".encode()
                for p in document["partitions"]] == lines


@test
def gradual_changes_are_those_of_the_vectors():
    rows = vectors("gradual.json")["rows"]
    for row in rows:
        bounds = ["--key", row["key"], "--start", str(row["start_ns"]), "--end", str(row["end_ns"])]
        if row["end_ns"] < row["start_ns"]:
            refuse("gradual", *bounds, "--now", "1", name="end")
            continue
        for point in row["points"][:3] + row["points"][-1:]:
            word = "new" if point["new"] else "old"
            answer = ok("gradual", *bounds, "--now", str(point["now_ns"]))
            assert answer.out == f"{word}\t{row['first_new_ns']}\n".encode(), (row, point, answer.out)
        edge = ok("gradual", *bounds, "--now", str(row["first_new_ns"]), "--json").json()
        assert edge["value"] == "new" and edge["when_ns"] == row["first_new_ns"], edge
    assert len(rows) > 50


@test
def bounds_of_a_gradual_change_are_checked():
    def gradual(start, end, now="5"):
        return ["gradual", "--key", "k", "--start", start, "--end", end, "--now", now]

    refuse(*gradual("10", "9"), name=["gradual: --end", "--start"])
    refuse(*gradual("0", "9"), name=["--start", "1 or more"])
    refuse(*gradual("0", "0"), name="--start")
    refuse(*gradual("5", "0"), name=["--end", "1 or more"])
    refuse(*gradual("-5", "10"), name="--start")
    refuse(*gradual("1", "9223372036854775808"), name="--end")
    refuse(*gradual("1", "2", "x"), name="--now")
    assert ok("gradual", "--help").out.count(b"nanoseconds") > 1
    assert ok(*gradual("7", "7", "6")).out == b"old\t7\n"
    assert ok(*gradual("7", "7", "7")).out == b"new\t7\n"
    assert ok("gradual", "--key", "", "--start", "1", "--end", str(2**63 - 1), "--now", "0").out.startswith(b"old\t")


@test
def names_that_break_lines_are_refused():
    with Files() as files:
        hosts = files.hosts("hosts", as_hosts(3))
        config = files.write("rota.toml", "")
        commands = {"route": ["--hosts", hosts], "plan": ["--hosts", hosts, "--add", "z:1"],
                    "config show": [config], "config watch": [config]}
        for bad in ("new\nline", "tab\there", "\x1b[31m", "\x7f", "\u009b", "\u202e", b"\xff\xfe"):
            for command, rest in commands.items():
                refuse(*command.split(), *rest, "--queue", bad, name=[f"{command}: --queue", "control characters"])
                refuse(*command.split(), *rest, "--queue", "q", "--namespace", bad,
                       name=[f"{command}: --namespace", "control characters"])
        for command, rest in commands.items():
            refuse(*command.split(), *rest, "--queue", "", name=[f"{command}: --queue", "empty"])
        assert ok("route", "--hosts", hosts, "--queue", 'q"\\ü', "--partition", "0").out.decode().count('q"\\ü') == 1


@test
def hosts_come_from_pipes_too():
    with Files() as files:
        text = b"".join(h.encode() + b"\n" for h in as_hosts(3))
        path = files.write("hosts", text)
        expected = ok("route", "--hosts", path, "--queue", "q").out
        for name in ("-", "/dev/stdin"):
            assert ok("route", "--hosts", name, "--queue", "q", stdin=text).out == expected
            assert ok("hosts", "check", name, stdin=text).out == ok("hosts", "check", path).out
            assert ok("plan", "--hosts", name, "--add", "z:1", "--json", stdin=text).out == \
                ok("plan", "--hosts", path, "--add", "z:1", "--json").out
            assert ok("config", "check", name, stdin=b"").out.count(b"default") > 3
        refuse("hosts", "check", "-", stdin=b"a:1\nb:1 weight=x\n", name="standard input:2")
        refuse("plan", "--hosts", "-", "--then-hosts", "-", stdin=text, name=["--hosts", "--then-hosts"])
        refuse("hosts", "watch", "/dev/stdin", stdin=text, name="pipe")
