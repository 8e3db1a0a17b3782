"""rota config: settings, where they come from, and as they change."""

import re

from cli.support import Files, Watching, config_commands, ok, refuse, replace, test

SETTING = "matching.spreadRoutingBatchSize"


@test
def settings_are_shown_with_their_origin():
    with Files() as files:
        path = files.write("rota.toml", f"{SETTING} = 4\n\n[[override]]\nqueue = \"orders\"\n{SETTING} = 8\n")
        lines = ok("config", "check", path).lines()
        assert f"{SETTING}\t4\tline 1: whole file".encode() in lines, lines
        lines = ok("config", "show", path, "--queue", "orders").lines()
        assert f'{SETTING}\t8\tline 5: queue "orders"'.encode() in lines, lines
        table = ok("config", "show", path, "--queue", "orders", "-o", "table").out.decode().splitlines()
        assert table[0].split() == ["SETTING", "VALUE", "SOURCE"], table
        assert any(re.fullmatch(rf'{SETTING} +8 +line 5: queue "orders"', line) for line in table), table
        assert ok("config", "show", path, "--queue", "orders", "-o", "json").out == \
            ok("config", "show", path, "--queue", "orders", "--json").out
        settings = ok("config", "show", path, "--queue", "orders", "--json").json()["settings"]
        batch = next(s for s in settings if s["setting"] == SETTING)
        assert batch == {"setting": SETTING, "value": 8, "line": 5, "scope": {"queue": "orders"}}, batch
        assert ok("config", "check", files.write("empty.toml", "")).out.count(b"default") == len(settings)
        refuse("config", "show", path, name="--queue")
        refuse("config", "show", path, "--queue", "/_sys/x", name="/_sys/x")


@test
def every_type_of_queue_can_be_asked_about():
    with Files() as files:
        path = files.write("rota.toml", f"{SETTING} = 4\n\n[[override]]\ntype = \"unspecified\"\n{SETTING} = 8\n")
        for name, value in (("unspecified", 8), ("workflow", 4), ("activity", 4), ("nexus", 4)):
            settings = ok("config", "show", path, "--queue", "q", "--type", name, "--json").json()["settings"]
            assert next(s for s in settings if s["setting"] == SETTING)["value"] == value, name
        refuse("route", "--hosts", path, "--queue", "q", "--type", "unspecified", name="--type")


@test
def bad_configurations_are_named_with_the_line():
    with Files() as files:
        bad = {
            "key": (b"\nmatching.spreadRoutingBatchSiz = 4\n", [":2"]),
            "value": (f"{SETTING} = -4\n".encode(), [":1"]),
            "big": (f"{SETTING} = 9223372036854775808\n".encode(), [":1"]),
            "nul": (b"a = \"\0\"\n", [":1"]),
            "bytes": (b"# x\na = \"\xff\"\n", [":2"]),
            "long": (b"a = \"" + b"x" * 10_000_000 + b"\"\n", []),
            "open": (b"[[override\n", [":1"]),
            "hosts": (b"10.0.0.1:7000\n", [":1"]),
        }
        for name, (content, parts) in bad.items():
            path = files.write(name, content)
            for command in (*config_commands(path), ["config", "watch", path, "--queue", "q"]):
                refuse(*command, name=[path, *parts])


@test
def settings_are_watched():
    with Files() as files:
        path = files.write("rota.toml", f"{SETTING} = 4\n")
        with Watching("config", "watch", path, "--queue", "q") as watch:
            lines = [watch.line() for _ in ok("config", "check", path).lines()]
            assert f"set\t{SETTING}\t4\tline 1: whole file" in lines
            replace(path, f"{SETTING} = four\n")
            line = watch.line()
            assert line.startswith("refused\t") and f"{path}:1" in line, line
            replace(path, f"# more\n{SETTING} = 5\n")
            assert watch.line() == f"set\t{SETTING}\t5\tline 2: whole file"
            watch.interrupt()
        with Watching("config", "watch", path, "--queue", "q", "--json") as watch:
            events = [watch.json() for _ in lines]
            assert {e["event"] for e in events} == {"set"} and SETTING in [e["setting"] for e in events]
            replace(path, f"{SETTING} = four\n")
            event = watch.json()
            assert event["event"] == "refused" and f"{path}:1" in event["error"], event
            watch.interrupt()
