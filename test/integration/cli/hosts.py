"""rota hosts: a file of hosts, once and as it changes."""

from cli.support import Files, Watching, ok, refuse, replace, test


@test
def hosts_are_listed_with_their_state():
    with Files() as files:
        path = files.write("hosts", "a:1 weight=2 zone=x\nb:1 draining # why\nc:1 start_at=2030-01-01T00:00:00Z\n")
        document = ok("hosts", "check", path, "--json", "--at", "2029-01-01T00:00:00Z").json()
        assert [(h["host"], h["on_ring"]) for h in document["hosts"]] == [("a:1", True), ("b:1", False), ("c:1", False)]
        assert document["hosts"][0]["weight"] == 2 and document["hosts"][0]["zone"] == "x"
        text = ok("hosts", "check", path, "--at", "2030-01-01T00:00:00Z").out
        assert b"draining" in text and b"a:1" in text


@test
def hosts_are_watched():
    with Files() as files:
        path = files.write("hosts", "a:1\nb:1 draining\n")
        with Watching("hosts", "watch", path) as watch:
            assert [watch.line(), watch.line()] == ["on ring\ta:1\tweight=1", "draining\tb:1\tweight=1"]
            replace(path, "a:1\nb:1 weight=2 zone=x\n")
            assert watch.line() == "on ring\tb:1\tweight=2\tzone=x"
            replace(path, "a:1 weight=-1\n")
            line = watch.line()
            assert line.startswith("refused\t") and f"{path}:1" in line, line
            replace(path, "b:1 weight=2 zone=x\n")
            assert watch.line() == "gone\ta:1"
            watch.interrupt()
        with Watching("hosts", "watch", path, "--json") as watch:
            event = watch.json()
            assert event.pop("time") and event == {"event": "on ring", "host": "b:1", "weight": 2, "zone": "x"}, event
            replace(path, "b:1 weight=0\n")
            event = watch.json()
            assert event["event"] == "refused" and f"{path}:1" in event["error"], event
            watch.process.terminate()
            assert watch.process.wait(60) == 0
        for bad in (str(files.path / "missing"), str(files.path), files.write("bad", "x:1 weight=0\n")):
            refuse("hosts", "watch", bad, name=bad)


@test
def hosts_off_the_ring_have_their_state():
    with Files() as files:
        path = files.write("hosts", "a:1\n")
        with Watching("hosts", "watch", path) as watch:
            assert watch.line() == "on ring\ta:1\tweight=1"
            replace(path, "a:1\ns:1 draining\n")
            assert watch.line() == "draining\ts:1\tweight=1"
            replace(path, "a:1\ns:1 start_at=2200-01-01T00:00:00Z\n")
            assert watch.line() == "not yet\ts:1\tweight=1"
            replace(path, "a:1\ns:1 stop_at=2001-01-01T00:00:00Z\n")
            assert watch.line() == "stopped\ts:1\tweight=1"
            replace(path, "a:1\n")
            assert watch.line() == "gone\ts:1"
            replace(path, "a:1 draining\n")
            assert watch.line() == "draining\ta:1\tweight=1"
            watch.interrupt()


@test
def file_without_hosts_is_reported():
    with Files() as files:
        for content in ("", "# nobody yet\n"):
            path = files.write("hosts", content)
            refuse("hosts", "check", path, code=1, name=[path, "no hosts"])
            refuse("hosts", "check", path, "--json", code=1, name=[path, "no hosts"])
            with Watching("hosts", "watch", path) as watch:
                assert watch.line() == "no hosts"
                replace(path, "a:1\n")
                assert watch.line() == "on ring\ta:1\tweight=1"
                watch.interrupt()
