"""rota doctor: what it finds, and that it says how to mend it."""

import contextlib
import pathlib
import resource
import shutil
import socket
import sqlite3
import subprocess

from cli.support import ROTA, Files, refuse, run, test


def findings(*args, code=0, **how):
    """What it says of each thing, by name."""
    answer = run("doctor", "--json", *args, **how)
    assert answer.code == code and not answer.err, (answer.code, answer.err, answer.out)
    found = answer.json()["findings"]
    for finding in found:
        assert (finding["verdict"] == "ok") == (finding["fix"] is None), finding
    return {finding["what"]: finding for finding in found}


def certificate(path, days):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", path / f"{days}.key", "-out", path / f"{days}.pem", "-days", str(days), "-subj",
                    "/CN=rota"], check=True, capture_output=True)
    return str(path / f"{days}.pem"), str(path / f"{days}.key")


@test
def doctor_checks_the_machine():
    with Files() as files:
        found = findings("--data", str(files.path))
        assert {"clock", "file descriptors", "memory", "disk", "disk space", "disk sync"} == set(found), found
        assert str(files.path) in found["disk sync"]["found"]
        assert not list(files.path.iterdir())
        text = run("doctor", "--data", str(files.path))
        assert text.code == 0 and b" disk: " in text.out, text.out  # a warning if it is in memory
        lines = [line.decode().split("\t") for line in run("doctor", "--data", str(files.path), "-o", "tsv").lines()]
        assert [line[:2] for line in lines] == [[name, found[name]["verdict"]] for name in found], lines
        table = run("doctor", "--data", str(files.path), "-o", "table").lines()
        assert table[0].split() == [b"CHECK", b"VERDICT", b"FOUND", b"FIX"] and len(table) == len(found) + 1, table
        assert run("doctor", "--data", str(files.path), "-o", "json").json()["findings"]


@test
def doctor_finds_few_descriptors():
    with Files() as files:
        found = findings("--data", str(files.path),
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        assert found["file descriptors"]["verdict"] == "warn" and "100 can" in found["file descriptors"]["found"]


@test
def doctor_names_the_limit_of_memory():
    with Files() as files:
        def limit(mib):
            return lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))

        def memory(*words, mib=200, code=0):
            return findings("--data", str(files.path), *words, code=code, preexec_fn=limit(mib))["memory"]

        if b"__asan_init" in pathlib.Path(ROTA).read_bytes():
            return  # it takes all addresses that there are
        assert memory()["verdict"] == "warn" and "200 MiB available, limited by the address space" in memory()["found"], memory()
        assert "--memory" in memory("--memory", str(1 << 40), mib=4096)["found"]
        assert memory(mib=100, code=1)["verdict"] == "fail"


@test
def doctor_finds_an_unwritable_directory():
    with Files() as files:
        found = findings("--data", str(files.path / "none"), code=1)
        assert found["disk"]["verdict"] == "fail" and "No such file" in found["disk"]["found"], found
        assert b"\nfail  disk: " in run("doctor", "--data", str(files.path / "none")).out


@test
def doctor_finds_a_taken_port():
    with socket.socket() as taken, Files() as files:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        found = findings("--data", str(files.path), "--listen", address, code=1)
        assert address in found["port"]["found"] and "ss -ltnp" in found["port"]["found"], found
        assert findings("--data", str(files.path), "--listen", "127.0.0.1:0")["port"]["verdict"] == "ok"


@test
def doctor_finds_certificates_that_run_out_or_do_not_fit():
    if not shutil.which("openssl"):
        return
    with Files() as files:
        def look(cert, key, code=0):
            return findings("--data", str(files.path), "--cert", cert, "--key", key, code=code)["certificate"]

        good, good_key = certificate(files.path, 365)
        soon, soon_key = certificate(files.path, 3)
        assert look(good, good_key)["verdict"] == "ok"
        assert look(soon, soon_key)["verdict"] == "warn"
        assert look(good, soon_key, code=1)["verdict"] == "fail"
        assert look(str(files.path / "none"), good_key, code=1)["verdict"] == "fail"


@test
def doctor_checks_stores_logs_and_nodes():
    with Files() as files:
        data = ("--data", str(files.path), "--timeout", "1s")
        url = f"sqlite:{files.path}/store.db"
        assert "first use" in findings(*data, "--store", url)["store"]["found"]
        assert not (files.path / "store.db").exists()
        assert run("node", "heartbeat", "a:1", "--store", url).code == 0
        found = findings(*data, env={"ROTA_STORE": url})
        assert found["store version"]["verdict"] == found["store durability"]["verdict"] == "ok", found
        (files.path / "bad.db").write_text("no database at all, but long enough to be looked at" * 20)
        bad = findings(*data, "--store", f"sqlite:{files.path}/bad.db", code=1)
        assert bad["store"]["verdict"] == "fail" and "backup" in bad["store"]["fix"], bad
        assert "store durability" not in bad, bad
        for url, fix in ((f"sqlite:{files.path}/none/x.db", "Create the directory"), ("what:ever", "docs/store.md")):
            assert fix in findings(*data, "--store", url, code=1)["store"]["fix"], url
        secret = findings(*data, "--store", "postgres://me:s3cret@127.0.0.1:1/x", code=1)["store"]
        assert secret["verdict"] == "fail" and "s3cret" not in str(secret), secret
        assert findings(*data, "--log", "what:ever", code=1)["log"]["verdict"] == "fail"
        assert findings(*data, "--node", "127.0.0.1:1", code=1)["node"]["verdict"] == "fail"


@test
def doctor_finds_tables_of_a_newer_version():
    with Files() as files:
        url = f"sqlite:{files.path}/store.db"
        assert run("node", "heartbeat", "a:1", "--store", url).code == 0
        assert "store tables" not in findings("--data", str(files.path), "--store", url)
        with contextlib.closing(sqlite3.connect(files.path / "store.db")) as store, store:
            store.execute("UPDATE rota_schema SET version = 99")
        tables = findings("--data", str(files.path), "--store", url, code=1)["store tables"]
        assert tables["verdict"] == "fail" and "have version 99, but this program" in tables["found"], tables
        assert "install that version" in tables["fix"], tables


@test
def doctor_asks_each_node_of_a_list():
    with Files() as files:
        def nodes(*args, **how):
            answer = run("doctor", "--json", "--data", str(files.path), "--timeout", "1s", *args, **how)
            return [each["found"] for each in answer.json()["findings"] if each["what"] == "node"]

        for words, env in ((("--node", "127.0.0.1:1,127.0.0.1:2"), {}), ((), {"ROTA_NODE": "127.0.0.1:1,127.0.0.1:2"})):
            one, other = nodes(*words, env=env)
            assert one.startswith("127.0.0.1:1: ") and other.startswith("127.0.0.1:2: "), (one, other)
        assert nodes(env={"ROTA_NODE": ""}) == []
        assert len(nodes("--node", "127.0.0.1:1,")) == 2
        away = ("--node", "192.0.2.1:1")
        assert "--insecure for commands" in nodes(*away)[0] and "--insecure for commands" not in nodes(*away, "--insecure")[0]


@test
def doctor_passes_over_the_environment_when_something_is_asked_for():
    with Files() as files, socket.create_server(("127.0.0.1", 0)) as taken:
        listen = ("--data", str(files.path), "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        away = {"ROTA_NODE": "127.0.0.1:1", "ROTA_STORE": "postgres://127.0.0.1:1/rota"}
        assert not {"node", "store"} & {what.split(" ")[0] for what in findings(*listen, env=away, code=1)}
        assert {"node", "store"} <= {what.split(" ")[0] for what in findings(*listen[:2], env=away, code=1)}


@test
def doctor_refuses_unknown_options():
    refuse("doctor", "--dta", "x", name="--dta")
    refuse("doctor", "here", name="here")


@test
def an_unreachable_log_is_a_failure():
    with Files() as files:
        for url in ("kafka://127.0.0.1:1", "postgres://rota@127.0.0.1:1/none"):
            log = findings("--data", str(files.path), "--log", url, "--timeout", "1s", code=1)["log"]
            assert log["verdict"] == "fail" and "127.0.0.1:1" in log["found"] and "Start the server" in log["fix"], log
        log = findings("--data", str(files.path), "--log", f"sqlite:{files.path}/none.db")["log"]
        assert log["verdict"] == "ok" and "first task that joins" in log["found"], log
        assert not list(files.path.iterdir())
