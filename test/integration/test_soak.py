"""Whether simulations report the seeds that fail, and soak.py too: test_soak.py SIM_DOOMED. TAP."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import tap  # noqa: E402

DOOMED = os.path.abspath(sys.argv[1])
SOAK = pathlib.Path(__file__).resolve().parent.parent / "soak.py"


def run(*command, fresh_s="0"):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          env={**os.environ, "ROTA_SIM_FRESH_S": fresh_s}, text=True, check=False)
    return done.returncode, done.stdout


def soak(tests, *arguments):
    """soak.py on a build folder that has these tests."""
    with tempfile.TemporaryDirectory() as folder:
        info = pathlib.Path(folder) / "meson-info"
        info.mkdir()
        entries = [{"name": name, "suite": ["rota:" + suite], "cmd": [str(word) for word in command], "env": {},
                    "timeout": 60} for name, suite, *command in tests]
        (info / "intro-tests.json").write_text(json.dumps(entries), encoding="utf-8")
        return run(sys.executable, SOAK, folder, *arguments)


def replays(output):
    return [int(seed) for seed in re.findall(rf"replay: {re.escape(DOOMED)} --seed (\d+)", output)]


@tap.test
def kept_seeds_are_run():
    code, output = run(DOOMED)
    assert code == 1 and replays(output) == [13, 23], output
    assert "not ok 2 - 4 seeds that failed once" in output, output


@tap.test
def seeds_that_are_named_are_run_alone():
    code, output = run(DOOMED, "--first", 21, "--seeds", 2)
    assert code == 0 and "seeds that failed once" not in output and "fresh" not in output, output


@tap.test
def fresh_seeds_differ_from_run_to_run():
    firsts = [int(re.search(r"^# fresh seeds from (\d+)$", run(DOOMED, "--fresh-seeds", 1)[1], re.MULTILINE)[1])
              for _ in range(3)]
    assert len(set(firsts)) == 3, firsts


@tap.test
def run_without_arguments_ends_with_fresh_seeds():
    _, output = run(DOOMED, fresh_s="1")
    assert re.search(r"^# fresh seeds from \d+$", output, re.MULTILINE), output
    assert replays(output)[2:], output  # one of ten fails


@tap.test
def failing_fresh_seed_is_replayed_by_the_command_it_prints():
    code, output = run(DOOMED, "--first", 50, "--fresh-seeds", 5)
    assert code == 1 and "not ok 1 - 5 fresh seeds, 50 to 54, 1 failed" in output, output
    command = re.search(r"^# replay: (.*)$", output, re.MULTILINE)[1].split()
    code, output = run(*command)
    assert code == 1 and "the seed ends in 3: seed 53" in output, output


@tap.test
def crash_prints_the_command_that_replays_it():
    code, output = run(DOOMED, "--first", 54, "--fresh-seeds", 5)
    assert code == -signal.SIGABRT and replays(output) == [57], output


@tap.test
def hanging_seed_prints_the_command_that_replays_it():
    with subprocess.Popen([DOOMED, "--first", "40", "--fresh-seeds", "1"], stdout=subprocess.PIPE, text=True) as process:
        while process.stdout.readline() not in ("# hangs\n", ""):
            pass
        process.terminate()
        output = process.stdout.read()
    assert process.returncode == -signal.SIGTERM and replays(output) == [40], output


@tap.test
def soak_runs_every_seed_and_reports_those_that_fail():
    code, output = soak([("sim_doomed", "sim", DOOMED)], "sim_doomed=100-139")
    assert code == 1 and sorted(replays(output)) == [103, 107, 113, 117, 123, 127, 133, 137], output
    assert "sim_doomed: 40 seeds, 100 to 139, 8 failed" in output, output


@tap.test
def soak_counts_the_seeds_it_was_asked_for():
    code, output = soak([("sim_doomed", "sim", DOOMED), ("kills", "chaos", "false")], "--seeds", 30)
    assert code == 1 and re.search(r"^sim_doomed: 30 seeds, \d+ to \d+, 6 failed$", output, re.MULTILINE), output
    assert "kills: 0 times" not in output, output


@tap.test
def soak_reports_process_tests_with_their_seeds():
    script = "print('# seed 77'); print('not ok 1 - a job was lost')"
    code, output = soak([("kills", "chaos", sys.executable, "-c", script), ("passes", "chaos", "true"),
                         ("other", "unit", "false")], "0.01")
    assert code == 1 and "passes: " in output and "other" not in output, output
    assert "kills --test-args='--seed 77'" in output, output


@tap.test
def soak_runs_only_the_named_suites():
    _, output = soak([("sim_doomed", "sim", DOOMED), ("sim_other", "sim", DOOMED)], "sim_doomed=100-101")
    assert "sim_doomed: 2 seeds" in output and "sim_other" not in output, output


@tap.test
def soak_refuses_a_name_it_does_not_know():
    code, _ = soak([("sim_doomed", "sim", DOOMED)], "sim_dommed")
    assert code == 1


@tap.test
def scenarios_that_are_shortened_elsewhere_run_whole():
    script = "import os, sys; sys.exit([os.environ.get(f'ROTA_TEST_{it}') for it in ('QUIET_S', 'HANGS')] != ['120', '10'])"
    code, output = soak([("sim_doomed", "sim", DOOMED), ("kills", "chaos", sys.executable, "-c", script)],
                        "--seeds", 1, "kills")
    assert code == 0 and "kills: 1 times, 0 failed" in output, output


sys.exit(tap.run(names=sys.argv[2:]))
