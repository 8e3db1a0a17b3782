"""Whether get_history.py finds what must not be in a history: test_get_history.py.

Each test plants one mistake in a history without any. Results are TAP."""
import copy
import pathlib
import subprocess
import sys
import tempfile

LIB = pathlib.Path(__file__).resolve().parent.parent / "lib"
sys.path.insert(0, str(LIB))
sys.dont_write_bytecode = True
import get_history  # noqa: E402
import tap  # noqa: E402
from tap import test  # noqa: E402

SECOND = 10**9
VALUES = {"apple": "red", "pear": "green"}
A, B, W = "a:1", "b:1", "w:1"
TTL_S = 2

# Of shard 0 in the east A is the first holder and B the second; W holds it in the west.
LOGS = {
    A: ["10 gained east 0 5", "20 lost east 0 5"],
    B: ["30 gained east 0 6", "50 stopped east 0 6"],
    W: ["11 gained west 0 5"],
}


def show_time(second):
    return f"2026-01-01T00:{int(second) // 60:02}:{second % 60:012.9f}Z"


def at(second):
    return get_history.parse_time(show_time(second))


def log_line(text):
    second, *words = text.split()
    if words[0] == "pause":
        return f'ts={show_time(float(second))} level=info msg="process stopped" until={show_time(float(words[1]))}\n'
    what, dc, shard, epoch = words
    return (f'ts={show_time(float(second))} level=info msg="lease {what}" '
            f"space=cache dc={dc} shard={shard} epoch={epoch}\n")


def item(key, value, host, epoch, hash=0):
    return {"key": key, "hash": hash, "state": "absent" if value is None else "found", "value": value or "",
            "host": host, "shard": [0, 1, 4], "epoch": epoch}


def get(number, sent, ended, *items, text=""):
    return {"id": number, "sent": at(sent), "ended": at(ended), "text": text, "keys": list(items), "tries": []}


def missing(key):
    return dict(item(key, None, "", 0), state="missing")


GOOD = [
    get(1, 12, 13, item("apple", "red", A, 5), item("pear", "green", W, 5)),
    get(2, 19.5, 20.5, item("apple", "red", A, 5, 4)),  # sent before the end, and in flight
    get(3, 19.5, 31, item("apple", "red", A, 5)),
    get(4, 25, 26, item("apple", "red", W, 5), item("plum", None, W, 5)),
    get(5, 29, 31, item("apple", "red", B, 6)),
    get(6, 32, 33, item("apple", "red", B, 6), item("pear", "green", W, 5)),
    get(7, 33, 34),
]


def check(gets=(), logs=None, **how):
    events = [event for host, lines in (logs or LOGS).items()
              for event in get_history.parse_log(host, map(log_line, lines))]
    return [problem.kind for problem in get_history.check([*GOOD, *gets], events, VALUES, TTL_S, **how)]


def with_lines(host, *lines):
    logs = copy.deepcopy(LOGS)
    logs.setdefault(host, []).extend(lines)
    return logs


@test
def correct_histories_pass():
    assert check() == []


@test
def a_wrong_value_is_found():
    assert check([get(8, 32, 33, item("apple", "green", B, 6))]) == ["wrong"]
    assert check([get(8, 32, 33, item("apple", "", B, 6))]) == ["wrong"]
    assert check([get(8, 32, 33, item("apple", None, B, 6))]) == ["wrong"]
    assert check([get(8, 32, 33, item("plum", "blue", B, 6))]) == ["wrong"]


@test
def an_answer_from_the_wrong_shard_is_found():
    assert check([get(8, 32, 33, item("apple", "red", B, 6, 5))]) == ["wrong"]


@test
def a_missing_key_is_found():
    lost = get(8, 32, 33, item("pear", "green", W, 5), missing("apple"), text="1 of 2 keys are missing")
    assert check([lost]) == ["failed"]
    assert check([lost], may_fail=True) == []
    assert check([get(8, 32, 33, text="no memory")]) == ["failed"]


@test
def two_holders_of_one_epoch_are_found():
    assert check(logs=with_lines("c:1", "31 gained east 0 6")) == ["two"]
    assert check(logs=with_lines(B, "31 gained east 0 6")) == ["two"]  # it has forgotten, and has it again
    assert check(logs=with_lines("c:1", "60 gained west 0 6")) == []
    assert check(logs=with_lines("c:1", "31 gained east 1 6")) == []


@test
def an_epoch_that_goes_back_is_found():
    assert check(logs=with_lines("c:1", "60 gained east 0 4")) == ["back"]
    assert check(logs=with_lines("c:1", "60 gained east 0 7", "61 gained east 0 6")) == ["two"]
    assert check(logs=with_lines("c:1", "60 gained east 0 8", "61 gained east 0 7")) == ["back"]


@test
def an_answer_under_a_lease_that_was_not_held_is_found():
    assert check([get(8, 32, 33, item("apple", "red", W, 6))]) == ["not-held"]
    assert check([get(8, 27, 28, item("apple", "red", B, 6))]) == ["not-held"]


@test
def an_answer_under_a_lease_that_is_over_is_found():
    assert check([get(8, 21, 22, item("apple", "red", A, 5))]) == ["over"]
    logs = with_lines(A)
    logs[A].pop()  # it does not know that it has lost it
    assert check([get(8, 21, 22, item("apple", "red", A, 5))], logs) == []
    assert check([get(8, 31, 32, item("apple", "red", A, 5))], logs) == ["over"]


@test
def an_answer_after_too_long_a_stop_is_found():
    late = get(8, 14, 19, item("apple", "red", A, 5))
    assert check([late]) == []
    assert check([late], with_lines(A, "13 pause 18")) == ["stopped"]
    assert check([late], with_lines(A, "13 pause 14.5")) == []  # not for that long
    assert check([late], with_lines(B, "13 pause 18")) == []
    assert check([late], with_lines(A, "15 pause 18")) == []  # may have been answered before


@test
def every_problem_is_reported():
    assert sorted(check([get(8, 32, 33, item("apple", "no", A, 5), missing("pear"))])) == ["failed", "over", "wrong"]


@test
def it_can_be_run_by_hand():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "values").write_text("apple\tred\npear\tgreen\n")
        (folder / "log").write_text("rota: noise\n" + log_line("10 gained east 0 5") + 'ts=2026-01-01T00:00:01Z level=info msg="store up"\n')
        for value, code, kind in (("red", 0, ""), ("blue", 1, "wrong: Get 1: apple is 'blue'")):
            (folder / "gets").write_text(get_history.json.dumps(get(1, 12, 13, item("apple", value, A, 5))) + "\n")
            done = subprocess.run([sys.executable, LIB / "get_history.py", "--ttl", "2", folder / "values", folder / "gets",
                                   f"{A}={folder / 'log'}"], capture_output=True, text=True, check=False)
            assert done.returncode == code and done.stdout.startswith(kind), (done.stdout, done.stderr)
            assert f"1 Gets and 1 leases: {code} problems" in done.stdout, done.stdout


sys.exit(tap.run())
