"""Whether work_history.py finds what must not be in a history: test_work_history.py.

Each test plants one mistake in a history without any. Results are TAP."""
import pathlib
import sys
import tempfile

LIB = pathlib.Path(__file__).resolve().parent.parent / "lib"
sys.path.insert(0, str(LIB))
sys.dont_write_bytecode = True
import tap  # noqa: E402
import work_history  # noqa: E402
from tap import test  # noqa: E402


# Jobs a to f. a is done at once. b needs go: w1 is given it, does not answer for too long, and w2
# completes it. c is completed by w1, which is killed before it hears so. d was refused. The add
# of e was never answered, and it is done all the same. f fails once, and is done by w1 later.
GOOD = {
    "submit": """
        add a - 100
        add b go 100
        add c chess 100
        add d - 100
        ack a
        ack c
        no d RESOURCE_EXHAUSTED
        ack b
        add e - 100
        add f - 5000
        ack f
    """,
    "w1": """
        can chess go
        got a 7 good
        end a 7
        ok a 7
        got b 8 good
        end b 8
        stale b 8
        got f 13 good
        end f 13
        ok f 13
        got c 9 good
        end c 9
    """,
    "w2": """
        can go
        got b 10 good
        end b 10
        ok b 10
        got e 11 good
        end e 11
        gone e 11
        got f 12 good
        fail f 12
        ok f 12
    """,
}


def check(replacements=(), torn=""):
    """The problems of the history after each (process, old, new)."""
    texts = dict(GOOD)
    for process, old, new in replacements:
        lines = [line.strip() for line in texts[process].strip().splitlines()]
        at = lines.index(old)
        lines[at:at + 1] = new
        texts[process] = "\n".join(lines)
    history = work_history.History()
    with tempfile.TemporaryDirectory(prefix="rota-history-") as folder:
        for process in ("submit", "w1", "w2"):
            path = pathlib.Path(folder) / process
            lines = [line.strip() for line in texts[process].strip().splitlines()]
            path.write_text("\n".join(lines) + "\n" + (torn if process == "w2" else ""))
            history.read(path)
    return history.check()


def finds(text, *replacements):
    problems = check(replacements)
    assert any(text in problem for problem in problems), (text, problems)
    assert len(problems) == 1, problems


@test
def a_good_history_has_no_problems():
    assert check() == [], check()


@test
def a_line_that_was_cut_counts_for_nothing():
    assert check(torn="ok e 1") == []


@test
def a_job_that_was_acknowledged_and_is_lost_is_found():
    finds("never handed out", ("submit", "add f - 5000", ["add f - 5000", "add 1f - 10", "ack 1f"]))


@test
def a_job_whose_every_attempt_was_refused_is_found():
    finds("never completed", ("w1", "ok a 7", ["stale a 7"]))
    finds("never completed", ("w2", "ok b 10", ["stale b 10"]))


@test
def a_job_that_failed_last_is_found():
    finds("never completed", ("w1", "got f 13 good", []), ("w1", "end f 13", []), ("w1", "ok f 13", []))


@test
def an_attempt_in_doubt_that_was_not_the_last_does_not_count():
    finds("never completed", ("w2", "got f 12 good", ["got c 20 good", "fail c 20", "ok c 20", "got f 12 good"]),
          ("w2", "can go", ["can go chess"]))


@test
def two_completions_are_found():
    finds("completed 2 times", ("w1", "stale b 8", ["ok b 8"]))


@test
def a_job_that_is_handed_out_after_it_was_completed_is_found():
    finds("had completed it", ("w2", "got e 11 good", ["got a 14 good", "end a 14", "stale a 14", "got e 11 good"]))


@test
def an_attempt_that_two_are_given_is_found():
    finds("handed out twice", ("w2", "got e 11 good", ["got a 7 good", "end a 7", "ok a 7", "got e 11 good"]))


@test
def a_worker_without_the_capability_is_found():
    finds("it needs go", ("w2", "can go", ["can draughts"]))


@test
def another_payload_is_found():
    finds("another payload", ("w1", "got a 7 good", ["got a 7 bad"]))


@test
def a_job_without_an_add_is_found():
    finds("nobody has added it", ("submit", "add e - 100", []))


@test
def a_job_that_was_refused_and_runs_is_found():
    finds("was refused", ("submit", "ack f", ["no f RESOURCE_EXHAUSTED"]))


@test
def an_id_that_is_used_twice_is_found():
    finds("added twice", ("submit", "add e - 100", ["add e - 100", "add e - 100"]))


@test
def an_end_without_a_beginning_is_found():
    finds("at a wrong time", ("w2", "gone e 11", ["gone e 11", "ok e 11"]))


sys.exit(tap.run())
