"""Whether group_history.py finds what must not be in a history: test_group_history.py.

Each test plants one mistake in a history without any. Results are TAP."""
import json
import pathlib
import subprocess
import sys
import tempfile

LIB = pathlib.Path(__file__).resolve().parent.parent / "lib"
sys.path.insert(0, str(LIB))
sys.dont_write_bytecode = True
import group_history  # noqa: E402
import tap  # noqa: E402
from tap import test  # noqa: E402

SESSION = 6

# `AT EVENT KEY=VALUE...` of each process. Of the two partitions, a reads p0 and is killed
# before it has told of the end; b reads p1, is paused for too long, loses it, and reads p0.
# c reads p1 to its end, and what came of it: p1.0, and p0+p1, a child of both.
GOOD = {
    "a": """
        1 epoch epoch=1 is_leader=true tasks=a,b
        2 own partition=p0 parents= offset=2
        2 share partition=p1 parents= target=b offset=2
        3 start partition=p0 token=2 mark=0 parents=
        4 read partition=p0 token=2 from=0 to=10
        5 progress partition=p0 token=2 mark=10 offset=6
        6 read partition=p0 token=2 from=10 to=25
        7 watermark mark=0
        8 killed
    """,
    "b": """
        1 epoch epoch=1 is_leader=false tasks=a,b
        3 take partition=p1 offset=4
        3 start partition=p1 token=4 mark=0 parents=
        4 read partition=p1 token=4 from=0 to=7
        9 epoch epoch=2 is_leader=true tasks=b,c
        9 start partition=p0 token=9 mark=10 parents=
        10 read partition=p0 token=9 from=10 to=30
        11 paused until=20
        20 lost reason=fence
        20 stop partition=p1 token=4
        20 stop partition=p0 token=9
        21 stopped partition=p1 token=4
        21 stopped partition=p0 token=9
        30 joined generation=4
    """,
    "c": """
        9 epoch epoch=2 is_leader=false tasks=b,c
        18 epoch epoch=3 is_leader=true tasks=c
        18 start partition=p0 token=12 mark=30 parents=
        18 start partition=p1 token=12 mark=0 parents=
        19 read partition=p1 token=12 from=0 to=9
        20 own partition=p1.0 parents=p1 offset=13
        20 own partition=p0+p1 parents=p0,p1 offset=13
        21 finish partition=p1 token=12 offset=14
        22 start partition=p1.0 token=13 mark=9 parents=p1
        23 watermark mark=9
        23 read partition=p0 token=12 from=30 to=31
        24 finish partition=p0 token=12 offset=15
        25 start partition=p0+p1 token=13 mark=9 parents=p0,p1
        26 watermark mark=9
    """,
}


def value_of(key, text):
    if key in ("parents", "tasks"):
        return text.split(",") if text else []
    if key == "is_leader":
        return text == "true"
    return int(float(text) * 1e9) if key == "until" else int(text) if text.lstrip("-").isdigit() else text


def show(task, text):
    """A line as a process prints it."""
    at, event, *words = text.split()
    pairs = (word.split("=", 1) for word in words)
    return json.dumps({"event": event, "at": int(float(at) * 1e9), "task": task, "incarnation": 1,
                       **{key: value_of(key, value) for key, value in pairs}}) + "\n"


def lines_of(task, text):
    return [show(task, line) for line in text.splitlines() if line.strip()]


def kinds(history):
    lives = [group_history.Life(task, lines_of(task, text)) for task, text in history.items()]
    return sorted({problem.kind for problem in group_history.check(lives, SESSION * 10**9)})


def changed(task, old, new):
    """One line is another one, or several."""
    assert sum(text.count(old) for name, text in GOOD.items() if name == task) == 1, old
    return kinds({**GOOD, task: GOOD[task].replace(old, new)})


def added(task, *lines):
    return kinds({**GOOD, task: GOOD.get(task, "") + "\n".join(lines)})


@test
def correct_histories_pass():
    assert kinds(GOOD) == []


@test
def two_owners_of_one_token_are_found():
    assert "two" in added("d", "26 start partition=p1 token=12 mark=9 parents=")
    assert "two" in changed("c", "19 read", "18.5 start partition=p1 token=12 mark=0 parents=\n19 read")


@test
def a_token_that_goes_back_is_found():
    assert "back" in changed("c", "18 epoch", "17 start partition=p0 token=1 mark=0 parents=\n18 epoch")


@test
def two_readers_at_once_are_found():
    # The one that was stopped continues.
    without_stop = GOOD["b"].replace("11 paused until=20", "")
    assert kinds({**GOOD, "b": without_stop}) == ["overlap"]
    # It was not killed.
    assert "overlap" in changed("a", "8 killed", "")
    # It was killed later.
    assert kinds({**GOOD, "a": GOOD["a"].replace("8 killed", "9.5 killed")}) == ["overlap"]
    # A pause that ended before another one began is no excuse.
    assert kinds({**GOOD, "b": GOOD["b"].replace("11 paused until=20", "11 paused until=12").replace("20 lost", "12 lost")}) == ["overlap"]


@test
def a_late_read_is_found():
    assert "late" in changed("b", "20 lost", "20 read partition=p0 token=9 from=30 to=31\n20 lost")


@test
def a_read_after_too_long_a_pause_is_found():
    history = {"a": """
        1 own partition=p0 parents= offset=2
        1 start partition=p0 token=2 mark=0 parents=
        2 paused until=9
        10 read partition=p0 token=2 from=0 to=1
    """}
    assert kinds(history) == ["woken"]
    assert kinds({"a": history["a"].replace("until=9", "until=7")}) == []  # not for that long


@test
def a_child_before_the_end_of_its_parents_is_found():
    assert changed("c", "22 start partition=p1.0", "20.5 start partition=p1.0") == []  # the finish is told late
    assert "early" in changed("c", "22 start partition=p1.0", "18.5 start partition=p1.0")
    assert "early" in changed("c", "25 start partition=p0+p1", "22.5 start partition=p0+p1")
    assert "early" in changed("c", "24 finish partition=p0 token=12 offset=15", "")
    assert "early" in changed("c", "22 start partition=p1.0 token=13 mark=9 parents=p1",
                              "22 start partition=p1.0 token=13 mark=9 parents=p7")


@test
def an_unreported_finish_counts():
    history = {
        "a": """
            1 own partition=p0 parents= offset=2
            1 start partition=p0 token=2 mark=0 parents=
            2 own partition=p0.0 parents=p0 offset=3
            3 killed
        """,
        "b": "5 start partition=p0.0 token=7 mark=0 parents=p0",
    }
    assert kinds(history) == []
    assert kinds({**history, "a": history["a"].replace("3 killed", "")}) == ["early"]


@test
def reading_a_finished_partition_is_found():
    assert "finished" in added("c", "27 start partition=p1 token=16 mark=9 parents=")
    assert "finished" in added("c", "27 finish partition=p1 token=12 offset=17")
    assert "finished" in changed("c", "22 start", "21.5 read partition=p1 token=12 from=9 to=10\n22 start")


@test
def a_lost_partition_is_found():
    assert changed("c", "25 start partition=p0+p1 token=13 mark=9 parents=p0,p1", "") == ["lost"]
    assert added("c", "28 own partition=p9 parents= offset=20") == ["lost"]
    assert added("c", "28 share partition=p9 parents=p1 target=b offset=20") == ["lost"]
    assert added("c", "28 share partition=p9 parents=p1.0 target=b offset=20") == []  # it waits for its parent
    assert added("c", "28 own partition=p9 parents=p8 offset=20") == ["lost"]  # ... which must be there
    assert "lost" in added("c", "28 killed")
    assert "lost" in added("c", "28 left")


@test
def a_move_without_a_reason_is_found():
    stop = ("27 stop partition=p1.0 token=13", "28 stopped partition=p1.0 token=13")
    again = "29 start partition=p1.0 token=19 mark=9 parents=p1"
    assert "moved" in added("c", *stop, again)
    assert added("c", *stop, "28 move partition=p1.0 target=c offset=18", again) == []
    assert added("c", "26.5 lost reason=fence", *stop, "27 stop partition=p0+p1 token=13",
                 "28 stopped partition=p0+p1 token=13", again, "29 start partition=p0+p1 token=19 mark=9 parents=p0,p1") == []
    assert added("c", "26.5 asked", *stop, "27 stop partition=p0+p1 token=13", "28 stopped partition=p0+p1 token=13",
                 "29 left") == ["lost"]  # nobody is left to have them


@test
def skipped_rows_are_found():
    assert changed("b", "9 start partition=p0 token=9 mark=10", "9 start partition=p0 token=9 mark=26") == ["gap"]
    assert changed("b", "10 read partition=p0 token=9 from=10", "10 read partition=p0 token=9 from=12") == ["gap"]
    assert changed("c", "19 read partition=p1 token=12 from=0 to=9", "19 read partition=p1 token=12 from=0 to=-1") == ["gap"]
    assert changed("a", "6 read partition=p0 token=2 from=10", "6 read partition=p0 token=2 from=9") == ["gap"]


@test
def repeated_work_on_committed_rows_is_found():
    found = kinds({**GOOD, "b": GOOD["b"].replace("token=9 mark=10", "token=9 mark=9").replace("token=9 from=10", "token=9 from=9")})
    assert found == ["repeat"]


@test
def a_watermark_that_goes_back_is_found():
    assert "watermark" in changed("c", "26 watermark mark=9", "26 watermark mark=8")
    assert changed("a", "7 watermark mark=0", "7 watermark mark=11") == ["watermark"]  # p0 begins at 10 after it


@test
def epochs_that_differ_are_found():
    assert changed("b", "1 epoch epoch=1 is_leader=false tasks=a,b", "1 epoch epoch=1 is_leader=false tasks=a,b,c") == ["epoch"]
    assert changed("b", "1 epoch epoch=1 is_leader=false tasks=a,b", "1 epoch epoch=1 is_leader=true tasks=a,b") == ["epoch"]


@test
def half_a_line_is_the_end_of_one_that_was_killed():
    for end, found in ((show("a", "8 killed"), []), (show("a", "8 watermark mark=0"), ["broken"]), ("", ["broken"])):
        life = group_history.Life("a", [show("a", "1 joined generation=1"), '{"event":"wat\n', end])
        life.close()
        assert [problem.kind for problem in life.problems] == found, (end, life.problems)
    life = group_history.Life("a", [show("a", "8 killed"), '{"event":"wat'])  # noted before it was dead
    life.close()
    assert life.problems == []
    assert "broken" in added("b", "31 read partition=p1 token=77 from=0 to=1")


@test
def it_can_be_run_by_hand():
    with tempfile.TemporaryDirectory() as name:
        for code, kind, more in ((0, "3 processes", ""), (1, "lost: p9 is not", "28 own partition=p9 parents= offset=20")):
            for task, text in GOOD.items():
                (pathlib.Path(name) / task).write_text("".join(lines_of(task, text + (more if task == "c" else ""))))
            done = subprocess.run([sys.executable, LIB / "group_history.py", "--session", "6", *sorted(pathlib.Path(name).iterdir())],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == code and done.stdout.startswith(kind), (done.stdout, done.stderr)
            assert f"readers: {code} problems" in done.stdout, done.stdout


sys.exit(tap.run())
