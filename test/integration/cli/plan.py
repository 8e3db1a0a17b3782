"""rota plan: what would move."""

import re

from cli.support import Files, as_hosts, ok, on_terminal, refuse, run, test, without_colors


def routes(hosts, queue, n, batch, mode):
    lines = ok("route", "--hosts", hosts, "--namespace", "ns", "--queue", queue, "--type", "activity",
               "--partitions", str(n), "--batch", str(batch), "--mode", mode).lines()
    return [line.split(b"\t")[3].decode() for line in lines]


def check_plan(before, after, n=(24, 24), batch=(0, 0), mode=("lookup", "lookup"), options=(), queues=3):
    names = [f"q-{i}" for i in range(queues)]
    expected = []
    owned = {}
    for queue in names:
        old = routes(before, queue, n[0], batch[0], mode[0])
        new = routes(after, queue, n[1], batch[1], mode[1])
        for host in new:
            owned[host] = owned.get(host, 0) + 1
        for i in range(max(n)):
            was = old[i] if i < n[0] else "-"
            will = new[i] if i < n[1] else "-"
            if was != will:
                expected.append(f"{queue}\t{i}\t{was}\t{will}".encode())
    common = ["plan", "--hosts", before, "--namespace", "ns", "--queue", "q", "--queues", str(queues), "--type",
              "activity", "--partitions", str(n[0]), "--batch", str(batch[0]), "--mode", mode[0], *options]
    assert ok(*common, "--moves").lines() == expected
    assert ok(*common, "--moves", "-o", "tsv").lines() == expected
    table = [line.split() for line in ok(*common, "--moves", "-o", "table").lines()]
    assert table[0] == [b"QUEUE", b"PARTITION", b"FROM", b"TO"], table[0]
    assert [b"\t".join(cells) for cells in table[1:]] == expected
    document = ok(*common, "--json", "--moves").json()
    assert ok(*common, "--moves", "-o", "json").json() == document
    refuse(*common, "-o", "tsv", name="--output tsv needs --moves")
    assert document["moved"] + document["new"] + document["gone"] == len(expected)
    assert document["partitions"] == {"before": n[0] * queues, "after": n[1] * queues}
    assert {h["host"]: h["after"] for h in document["per_host"] if h["after"]} == owned
    assert all(h["after"] == h["before"] + h["arriving"] - h["leaving"] for h in document["per_host"])
    assert [f"{m['queue']}\t{m['partition']}\t{m['from'] or '-'}\t{m['to'] or '-'}".encode()
            for m in document["moves"]] == expected
    text = ok(*common).out.decode()
    assert str(document["moved"]) in text and "\x1b" not in text
    return document


@test
def plan_is_the_difference_of_routes():
    with Files() as files:
        three, four = files.hosts("3", as_hosts(3)), files.hosts("4", as_hosts(4))
        ten = files.hosts("10", as_hosts(10))
        heavy = files.write("heavy", "10.0.0.1:7000 weight=2.5\n10.0.0.2:7000\n10.0.0.3:7000\n")
        document = check_plan(three, four, options=["--then-hosts", four])
        assert document["minimum"] == 18 and document["ratio"] > 0
        check_plan(three, four, options=["--add", "10.0.0.4:7000"], batch=(8, 8))
        check_plan(three, four, options=["--add", "10.0.0.4:7000"], batch=(8, 8), mode=("slots", "slots"))
        check_plan(four, three, options=["--remove", "10.0.0.4:7000"])
        check_plan(three, heavy, options=["--weight", "10.0.0.1:7000=2.5"])
        document = check_plan(ten, ten, batch=(4, 8), options=["--batch-to", "8"])
        assert document["minimum"] == 0 and document["ratio"] is None
        check_plan(ten, ten, batch=(8, 8), mode=("lookup", "slots"), options=["--mode-to", "slots"])
        check_plan(ten, ten, n=(24, 30), options=["--partitions-to", "30"])
        document = check_plan(ten, three, n=(24, 5), options=["--partitions-to", "5", "--then-hosts", three])
        assert document["gone"] == 3 * 19 and document["advice"]


@test
def plan_takes_lines_of_the_hosts_format():
    with Files() as files:
        path = files.write("hosts", "a:1 zone=x\nb:1 zone=y\nc:1 zone=y\n")
        document = ok("plan", "--hosts", path, "--queue", "q", "--partitions", "64", "--json",
                      "--add", "d:1 weight=2 zone=z", "--add=e:1", "--remove-zone", "y").json()
        assert [h["host"] for h in document["per_host"] if h["after"]] == ["a:1", "d:1", "e:1"]
        assert {z["zone"]: (z["hosts_before"], z["hosts_after"]) for z in document["per_zone"]} == \
            {"": (0, 1), "x": (1, 1), "y": (2, 0), "z": (0, 1)}
        answer = refuse("plan", "--hosts", path, "--queue", "q", "--add", "d:1 wieght=2", name=["plan: --add: ", "wieght"])
        assert b"add:1" not in answer.err, answer.err  # there is but one line
        refuse("plan", "--hosts", path, "--queue", "q", "--add", "d:1\ne:1", name="--add")
        refuse("plan", "--hosts", path, "--queue", "q", "--add", "a:1", name="a:1")
        refuse("plan", "--hosts", path, "--queue", "q", "--remove", "z:1", name="z:1")
        refuse("plan", "--hosts", path, "--queue", "q", "--remove-zone", "w", name="w")
        refuse("plan", "--hosts", path, "--queue", "q", "--weight", "z:1=2", name="z:1")
        refuse("plan", "--hosts", path, "--queue", "q", "--weight", "a:1", name="a:1")
        refuse("plan", "--hosts", path, "--queue", "q", "--weight", "a:1=-2", name="-2")
        refuse("plan", "--hosts", path, "--queue", "q", name="nothing")


@test
def plan_knows_when_a_gradual_change_moves_what():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(5))
        common = ["plan", "--hosts", path, "--namespace", "ns", "--queue", "q", "--partitions", "100", "--batch-to", "8",
                  "--json", "--moves", "--start", "2030-01-01T00:00:00Z", "--end", "1893459600"]
        document = ok(*common).json()
        start, end = 1893456000 * 10**9, 1893459600 * 10**9
        assert sum(b["moves"] for b in document["timeline"]) == document["moved"] > 50
        assert document["timeline"][0]["start"] == "2030-01-01T00:00:00Z"
        assert document["timeline"][-1]["end"] == "2030-01-01T01:00:00Z"
        for move in document["moves"][:5]:
            key = "ns:" + (f"/_sys/q-0/{move['partition']}" if move["partition"] else "q-0") + ":1"
            when = ok("gradual", "--key", key.replace("q-0", "q"), "--start", str(start), "--end", str(end),
                      "--now", "0").out.decode().split("\t")[1]
            assert int(when) == move["at_ns"], (move, when)
        refuse(*common[:-1], "1893450000", name=["plan: --end", "--start"])
        refuse(*common[:-2], name="--end")
        # A change without length is one row, and everything moves in it.
        sudden = ok(*common[:-1], "1893456000").json()
        assert [b["moves"] for b in sudden["timeline"]] == [document["moved"]], sudden["timeline"]


@test
def plan_of_an_immediate_change_has_no_timeline():
    with Files() as files:
        path = files.write("hosts", "a:1 zone=x\nb:1 zone=y\nc:1\n")
        window = ["--start", "2030-01-01T00:00:00Z", "--end", "2030-01-01T01:00:00Z"]
        plan = ["plan", "--hosts", path, "--partitions", "64", *window]
        for change in (["--add", "d:1"], ["--remove", "a:1"], ["--remove-zone", "x"], ["--weight", "a:1=2"],
                       ["--then-hosts", path], ["--partitions-to", "70"], ["--points-to", "50"]):
            for more in ([], ["--batch-to", "8"], ["--mode-to", "slots"]):
                refuse(*plan, *change, *more, name=[change[0], "immediately", "--batch-to"])
        ok(*plan, "--batch-to", "8", "--mode-to", "slots")


@test
def minimum_is_at_most_what_removed_hosts_own():
    with Files() as files:
        path = files.write("hosts", "".join(f"{a} zone={'ab'[i % 2]}{' weight=2' if i == 5 else ''}\n"
                                            for i, a in enumerate(as_hosts(6))))
        document = ok("plan", "--hosts", path, "--queues", "500", "--partitions", "8", "--batch", "8",
                      "--mode", "slots", "--remove-zone", "b", "--json").json()
        owned = sum(h["before"] for h in document["per_host"] if h["zone"] == "b")
        assert document["minimum"] == owned <= document["moved"], (document["minimum"], owned)
        text = ok("plan", "--hosts", path, "--remove-zone", "b").out
        assert b"lower bound for an even placement" in text
        assert b"slightly below 1" in b" ".join(ok("plan", "--help").out.split())


@test
def load_is_compared_with_the_fair_share_by_weight():
    with Files() as files:
        path = files.write("hosts", "a:1 weight=3\nb:1\nc:1\nd:1\n")
        document = ok("plan", "--hosts", path, "--queues", "500", "--add", "e:1", "--json").json()
        fair = {"a:1": 1000, "b:1": 1000 / 3, "c:1": 1000 / 3, "d:1": 1000 / 3}
        largest = max(h["before"] / fair[h["host"]] for h in document["per_host"] if h["on_ring_before"])
        spread = document["spread"]["hosts_before"]
        assert abs(spread["max_to_fair"] - largest) < 1e-9 and largest < 1.5 < spread["max"] / spread["mean"]
        assert b"max/fair" in ok("plan", "--hosts", path, "--add", "e:1").out


@test
def plan_without_hosts_loses_everything():
    with Files() as files:
        path = files.write("hosts", "a:1 zone=x\nb:1 zone=y\n")
        empty = files.write("empty", "")
        for change in (["--then-hosts", empty], ["--remove-zone", "x", "--remove-zone", "y"],
                       ["--remove", "a:1", "--remove", "b:1"]):
            plan = ["plan", "--hosts", path, "--queues", "5", *change]
            answer = run(*plan)
            assert answer.code == 1 and b"nothing owns the 20 partitions" in answer.err, (answer.code, answer.err)
            assert re.search(rb"lost +20: ", answer.out), answer.out
            answer = run(*plan, "--json", "--moves")
            document = answer.json()
            assert answer.code == 1 and document["lost"] == 20 and document["moved"] == 0 == document["minimum"]
            assert {m["kind"] for m in document["moves"]} == {"lost"} and document["moves"][0]["to"] is None
        document = ok("plan", "--hosts", empty, "--then-hosts", path, "--json").json()
        assert document["moved"] == 4 and document["lost"] == 0


@test
def plan_is_bounded():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        refuse("plan", "--hosts", path, "--queues", "10000000", "--partitions", "16777216", "--add", "z:1",
               name=["--queues", "10000000", "16777216", "4294967296"])
        refuse("plan", "--hosts", path, "--queues", "10000000", "--partitions-to", "16777216", name="--queues")
        refuse("plan", "--hosts", path, "--queues", "257", "--partitions", "16777216", "--add", "z:1", name="--queues")


@test
def hosts_that_would_not_be_placed_are_not_added():
    with Files() as files:
        path = files.hosts("hosts", as_hosts(3))
        plan = ["plan", "--hosts", path, "--at", "2030-01-01T00:00:00Z", "--json", "--add"]
        for line, why in (("x:1 draining", "draining"), ("x:1 start_at=2030-01-01T00:00:01Z", "later"),
                          ("x:1 stop_at=2030-01-01T00:00:00Z", "stopped")):
            refuse(*plan, line, name=["--add", "x:1", "not placed at 2030-01-01T00:00:00Z", why])
        assert ok(*plan, "x:1 start_at=2030-01-01T00:00:00Z").json()["spread"]["hosts_after"]["count"] == 4


@test
def a_weight_is_given_once():
    with Files() as files:
        path = files.hosts("hosts", ["h", "h=2", "i"])
        plan = ["plan", "--hosts", path, "--json"]
        refuse(*plan, "--weight", "h=2", "--weight", "i=2", "--weight", "h=3", name=["--weight", '"h"', "twice"])
        ok(*plan, "--weight", "h=2", "--weight", "h=2=3", "--weight", "i=2")


@test
def columns_line_up_whatever_the_names():
    with Files() as files:
        path = files.write("hosts", "ünï:1 zone=ö\nplain:1 zone=x\nq\"\\:1\n")
        text = ok("plan", "--hosts", path, "--partitions", "50", "--add", "日本:1").out.decode()
        assert 'q"\\:1 ' in text
        for table in text.split("\n\n")[3:]:
            rows = [line for line in table.splitlines() if line]
            assert len({len(row) for row in rows}) == 1, rows


@test
def terminal_control_characters_are_refused_or_escaped():
    with Files() as files:
        for line in ("bidi\u202e:1", "csi\u009b31m:1", "line\u2028:1", "z:1 zone=\u2067y", "z:1 zone=\u0085y"):
            path = files.write("hosts", f"a:1 zone=x\n{line}\n")
            for command in (["plan", "--hosts", path, "--remove", "a:1"], ["hosts", "check", path]):
                answer = run(*command)
                text = (answer.out + answer.err).decode()
                assert not re.search("[\u0080-\u009f\u2028-\u202e\u2066-\u2069]", text), (command, text)
                assert re.search(r"\\u(202e|009b|2028|2067|0085)", text), (command, text)


@test
def narrow_terminals_lose_bars_before_names():
    with Files() as files:
        addresses = as_hosts(3) + ["a-rather-long-name.of-some-host.example.com:7000", "ü" * 60 + ":1"]
        path = files.write("hosts", "".join(f"{a} zone={'ab'[i % 2]}\n" for i, a in enumerate(addresses)))
        plan = ["plan", "--hosts", path, "--queue", "q", "--partitions", "500", "--batch", "8"]
        hour = ["--start", "2030-01-01T00:00:00Z", "--end", "2030-01-01T01:00:00Z"]
        for change in (["--add", "new:1"], ["--mode-to", "slots", *hour], ["--partitions-to", "3"]):
            for width in (60, 80, 100):
                text = without_colors(on_terminal(*plan, *change, width=width))
                assert all(len(line) <= width for line in text.splitlines()), text
                assert "10.0.0.1:7000" in text and "\ufffd" not in text
                assert "a-rather-l" in text and "m:7000 " in text  # both ends stay
        short = files.hosts("short", as_hosts(3))
        text = {w: on_terminal("plan", "--hosts", short, "--add", "new:1", width=w) for w in (60, 80)}
        assert "█" in text[80] and "█" not in text[60] and "stay" not in text[60]


@test
def plan_is_drawn_on_a_terminal():
    with Files() as files:
        path = files.write("hosts", "".join(f"{a} zone={'ab'[i % 2]}\n" for i, a in enumerate(as_hosts(40))))
        plan = ["plan", "--hosts", path, "--queue", "q", "--partitions", "500", "--batch", "8"]
        hour = ["--start", "2030-01-01T00:00:00Z", "--end", "2030-01-01T01:00:00Z"]
        for change, word in ((["--add", "new:1"], "new:1"), (["--mode-to", "slots", *hour], "Gradually")):
            for env, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
                text = on_terminal(*plan, *change, env=env)
                assert ("\x1b[" in text) == colored
                assert "█" in text and word in text and "more" in text
                for line in without_colors(text).splitlines():
                    assert len(line) <= 80, line
            plain = ok(*plan, *change, env={"TERM": "xterm", "LC_ALL": "C.UTF-8"}).out.decode()
            assert "\x1b" not in plain and "█" not in plain
