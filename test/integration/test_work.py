#!/usr/bin/env python3
"""Workers as a user runs them: test_work.py ROTA LIB.

`rota work` with commands that succeed, fail, hang and have children, while brokers and workers
are killed, restarted and told to stop. Prints TAP."""
import os
import re
import shutil
import signal
import subprocess
import sys

ROTA = sys.argv[1]
sys.path.insert(0, sys.argv[2])
import work_processes as lib  # noqa: E402
from work_processes import Worker, folder, is_alive, wait_until  # noqa: E402

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def Broker(*words):
    return lib.Broker(ROTA, *(words or ("--durability", "memory")))


def read(*path):
    try:
        with open(os.path.join(*path)) as file:
            return file.read()
    except FileNotFoundError:
        return ""


# Writes its process's number and that of a child of its own, then waits forever.
HANG = 'sleep 100000 & echo "$$ $!" >{0}.new; mv {0}.new {0}; wait'


def hanging(place):
    return wait_until(lambda: read(place), "the command's begin").split()


@test
def the_command_reads_the_payload_and_its_output_is_the_result():
    script = 'echo "$ROTA_JOB_ID $ROTA_JOB_ATTEMPT $ROTA_QUEUE $ROTA_TRACE" >&2; cat; exit 0'
    with Broker() as broker, Worker(broker, "--can", "go", "--", "sh", "-c", script):
        for payload in ("hello", "", "x" * 100000):
            job = broker.add(payload, "--can", "go")
            shown = broker.await_state(job, "done")
            assert shown["result"] == payload
            assert shown["reason"] == f"{job.split('/')[1]} 1 work ", shown
        assert f"\nreason\t{shown['reason']}\n" in broker.run("job", "show", job)
        big = broker.run("job", "add", "--queue", "work", "-", data=bytes(range(256)) * 40000).strip()
        broker.await_state(big, "done")
        assert broker.run("job", "add", "--queue", "work", "--wait", "answer") == "answer"


@test
def the_exit_code_decides():
    with Broker() as broker, Worker(broker, "--retry-after", "1s", "--", "sh", "-c",
                                    'read code; echo "says $code" >&2; [ $code -lt 128 ] || kill -9 $$; exit $code') as worker:
        never = broker.await_state(broker.add("65\n"), "dead")
        assert never["attempts"] == 1 and never["reason"] == "exit code 65\nsays 65", never
        failed = broker.await_state(broker.add("3\n", "--attempts", "2"), "dead")
        assert failed["attempts"] == 2 and failed["reason"] == "exit code 3\nsays 3", failed
        told = wait_until(lambda: worker.logged("exit code 3"))
        assert "level=info" in told[0] and "failed: exit code 3" in told[0], told
        killed = broker.await_state(broker.add("200\n", "--attempts", "1"), "dead")
        assert killed["reason"] == "ended by signal 9\nsays 200", killed
        later = broker.add("75\n", "--attempts", "1")
        wait_until(lambda: sum(event["cause"] == "given back" for event in broker.show(later)["events"]) >= 2)
        broker.run("job", "cancel", later)


@test
def a_cancelled_job_ends_with_its_whole_group():
    with folder() as place, Broker() as broker:
        begun = os.path.join(place, "begun")
        with Worker(broker, "--", "sh", "-c", "echo one >&2; echo two >&2; " + HANG.format(begun)) as worker:
            job = broker.add("x")
            pids = hanging(begun)
            broker.run("job", "cancel", job)
            wait_until(lambda: not any(map(is_alive, pids)), "the end of the group")
            assert broker.show(job)["state"] == "cancelled"
            wait_until(lambda: len(worker.logged("job logged")) == 2, "its log")
            for phrase in ("job attempt is over", "job stopped"):
                line = worker.logged(phrase)[0]
                assert "is cancelled" in line and " attempt=1 number=" in line, worker.log
            assert job.split("/")[1] in worker.logged("job logged")[1] and "how=two" in worker.logged("job logged")[1], worker.log
            os.unlink(begun)
            broker.add("y")
            hanging(begun)  # the slot is free again
            worker.signal(signal.SIGTERM)
            worker.signal(signal.SIGTERM)


@test
def a_command_that_takes_too_long_is_killed_whatever_it_does():
    with folder() as place, Broker() as broker:
        begun = os.path.join(place, "begun")
        with Worker(broker, "--timeout", "5s", "--kill-after", "100ms", "--", "sh", "-c",
                    "trap '' TERM; echo hm >&2; " + HANG.format(begun) + "; while :; do wait; done"):
            shown = broker.await_state(broker.add("x", "--attempts", "1"), "dead")
            assert shown["reason"] == "it timed out\nhm", shown
            assert not any(map(is_alive, hanging(begun)))


@test
def after_the_jobs_own_timeout_its_log_is_kept_and_no_two_attempts_overlap():
    with folder() as place, Broker() as broker:
        alive, overlap = os.path.join(place, "alive"), os.path.join(place, "overlap")
        # Ignores SIGTERM. The next attempt finds whether the last one still lives.
        script = (f"trap '' TERM; if kill -0 $(cat {alive} 2>/dev/null) 2>/dev/null; then touch {overlap}; fi; "
                  f"echo $$ >{alive}; echo hm >&2; while :; do sleep 0.1; done")
        with Worker(broker, "--slots", "2", "--kill-after", "1s", "--", "sh", "-c", script) as worker:
            job = broker.add("x", "--attempts", "2", "--job-timeout", "3s", "--backoff", "1ms")
            shown = broker.await_state(job, "dead")
            assert shown["attempts"] == 2 and shown["reason"] == "it timed out\nhm", shown
            causes = [event["cause"] for event in shown["events"]]
            assert causes.count("failed") == 2 and "timed out" not in causes, shown
            assert not os.path.exists(overlap)
            assert not worker.logged("not ours to end")


@test
def commands_die_with_their_worker_and_jobs_do_not():
    with folder() as place, Broker() as broker:
        begun = os.path.join(place, "begun")
        words = ("--lease", "2s", "--kill-after", "500ms", "--")
        with Worker(broker, *words, "sh", "-c", HANG.format(begun)) as worker:
            job = broker.add("x")
            pids = hanging(begun)
            worker.kill()
            wait_until(lambda: not any(map(is_alive, pids)), "the end of the commands")
        with Worker(broker, *words, "echo", "-n", "by another"):
            shown = broker.await_state(job, "done")
            assert shown["result"] == "by another" and shown["attempts"] >= 2, shown


@test
def a_stopped_worker_finishes_running_commands():
    with folder() as place, Broker() as broker:
        begun, go = os.path.join(place, "begun"), os.path.join(place, "go")
        script = f"echo $$ >{begun}; while [ ! -e {go} ]; do sleep 0.05; done; echo -n finished"
        with Worker(broker, "--drain", "10m", "--", "sh", "-c", script) as worker:
            job = broker.add("x")
            other = broker.add("y")
            wait_until(lambda: read(begun))
            worker.signal(signal.SIGTERM)
            wait_until(lambda: worker.logged("worker stopping"))
            open(go, "w").close()
            assert worker.wait() == 0, worker.log
            assert broker.show(job)["result"] == "finished"
            assert broker.show(other)["state"] == "waiting"


@test
def unfinished_jobs_are_returned_and_cost_no_attempt():
    with folder() as place, Broker() as broker:
        begun = os.path.join(place, "begun")
        for words, signals in ((("--drain", "0s"), 1), (("--drain", "1h"), 2)):
            job = broker.add("x", "--attempts", "1")
            with Worker(broker, *words, "--", "sh", "-c", HANG.format(begun)) as worker:
                pids = hanging(begun)
                for number in range(signals):
                    worker.signal(signal.SIGTERM)
                    wait_until(lambda: len(worker.logged("worker stopping")) > number)
                assert worker.wait() == 0, worker.log
                assert not any(map(is_alive, pids))
            shown = broker.show(job)
            assert shown["state"] == "waiting" and shown["attempts"] == 0, shown
            assert shown["events"][-1]["cause"] == "given back", shown
            broker.run("job", "cancel", job)
            os.unlink(begun)


@test
def a_broker_that_is_restarted_does_no_harm():
    with folder() as place:
        begun, go = os.path.join(place, "begun"), os.path.join(place, "go")
        script = f"echo $$ >>{begun}; while [ ! -e {go} ]; do echo on >&2; sleep 0.1; done; echo -n once"
        words = ("--data", os.path.join(place, "data"), "--listen")
        with Broker(*words, "127.0.0.1:0") as broker:
            job = broker.add("x")
            with Worker(broker, "--", "sh", "-c", script) as worker:
                wait_until(lambda: read(begun))
                broker.kill()
                with Broker(*words, broker.node) as broker:
                    wait_until(lambda: broker.show(job)["progress"] == "on", "a word of the worker")
                    open(go, "w").close()
                    shown = broker.await_state(job, "done")
                    assert shown["result"] == "once", shown
                    # A start is written within 5 ms and not waited for: a kill may come before that.
                    n_begun = len(read(begun).split())
                    assert n_begun <= 2 and n_begun - 1 <= shown["attempts"] <= n_begun, (shown, n_begun)
                    assert worker.terminate() == 0


@test
def a_result_is_kept_until_its_broker_is_back():
    with folder() as place:
        words = ("--data", os.path.join(place, "data"), "--listen")
        go = os.path.join(place, "go")
        with Broker(*words, "127.0.0.1:0") as broker:
            job = broker.add("x")
            with Worker(broker, "--", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done; echo -n kept") as worker:
                wait_until(lambda: worker.logged("job started"))
                broker.kill()
                open(go, "w").close()
                wait_until(lambda: len(worker.logged("job ends")) >= 2)  # said, and said again
                with Broker(*words, broker.node) as broker:
                    assert broker.await_state(job, "done")["result"] == "kept"


@test
def a_worker_without_a_broker_does_not_outlive_its_lease():
    with folder() as place, Broker() as broker:
        begun = os.path.join(place, "begun")
        with Worker(broker, "--lease", "3s", "--kill-after", "500ms", "--", "sh", "-c", HANG.format(begun)) as worker:
            broker.add("x")
            pids = hanging(begun)
            broker.signal(signal.SIGSTOP)
            wait_until(lambda: not any(map(is_alive, pids)), "the end of the command")
            assert worker.logged("its node was unreachable"), worker.log
            broker.signal(signal.SIGCONT)


@test
def one_worker_serves_several_nodes_with_its_slots():
    with folder() as place, Broker() as one, Broker() as two:
        most = os.path.join(place, "most")
        os.mkdir(most)
        script = f"touch {most}/$$; ls {most} | wc -l >&2; sleep 0.05; rm {most}/$$; cat"
        with Worker([one, two], "--slots", "2", "--", "sh", "-c", script) as worker:
            jobs = [(broker, broker.add(f"{number}", "--attempts", "1")) for number in range(10) for broker in (one, two)]
            for broker, job in jobs:
                shown = broker.await_state(job, "done")
                assert int(shown["reason"]) <= 2, shown
            two.kill()
            one.await_state(one.add("still served"), "done")
            wait_until(lambda: worker.logged("node unreachable"))


@test
def a_command_that_is_not_there_costs_no_attempt():
    with folder() as place, Broker() as broker:
        command = os.path.join(place, "command")
        shutil.copy("/bin/cat", command)
        with Worker(broker, "--", command) as worker:
            broker.await_state(broker.add("x", "--attempts", "1"), "done")
            os.unlink(command)
            job = broker.add("x", "--attempts", "1")
            wait_until(lambda: len(worker.logged("job not started")) >= 2)
            shown = broker.show(job)
            assert shown["state"] in ("waiting", "delayed", "running") and "cannot run" in str(shown["events"]), shown
            shutil.copy("/bin/cat", command)
            broker.await_state(job, "done")


@test
def a_command_that_was_never_there_is_refused():
    with folder() as place:
        plain, path = os.path.join(place, "plain"), f"{place}:{os.environ['PATH']}"
        open(plain, "w").close()
        for command, why in (("/nowhere/to/be/found", "No such file or directory"), ("no-such-command", "No such file or directory"),
                             ("", "No such file or directory"), (plain, "Permission denied"), ("plain", "Permission denied"),
                             (place, "Permission denied"), (os.path.join(plain, "x"), "Not a directory")):
            done = subprocess.run([ROTA, "work", "--node", "127.0.0.1:1", "--queue", "q", "--", command], capture_output=True,
                                  text=True, timeout=lib.TIMEOUT, env={**os.environ, "PATH": path})
            assert done.returncode == 2 and re.fullmatch(f"rota: cannot run .*: {why}\n", done.stderr), done


@test
def a_result_has_a_bound():
    with Broker() as broker, Worker(broker, "--kill-after", "100ms", "--", "sh", "-c",
                                    "yes 2>/dev/null"):
        shown = broker.await_state(broker.add("x", "--attempts", "1"), "dead")
        assert shown["reason"] == "its output exceeds the maximum size of a result", shown


@test
def hostile_words_are_refused():
    env = {name: value for name, value in os.environ.items() if name != "ROTA_NODE"}
    for words in (["--node", "", "--queue", "q", "true"], ["--node", "127.0.0.1:1", "true"], ["--node", "127.0.0.1:1", "--queue", "q"],
                  ["--node", "a,,b", "--queue", "q", "true"], ["--node", "127.0.0.1:1", "--queue", "q/", "true"],
                  ["--node", "127.0.0.1:1", "--queue", "q", "--can", "a b", "true"],
                  ["--node", "127.0.0.1:1", "--queue", "q", "--slots", "0", "true"],
                  ["--node", "127.0.0.1:1", "--queue", "q", "--name", "a b", "true"],
                  ["--node", "127.0.0.1:1", "--queue", "q", "--lease", "2s", "true"],
                  ["--node", "127.0.0.1:1", "--queue", "q", "--kill-after", "5001ms", "true"],  # the lease is 20 s
                  ["--node", "no address", "--queue", "q", "true"]):
        done = subprocess.run([ROTA, "work", *words], capture_output=True, text=True, timeout=lib.TIMEOUT)
        assert done.returncode == 2 and done.stderr.startswith("rota: "), (words, done)


lib.run_tests(TESTS)
