"""Run fresh seeds of the simulations, and the process tests that inject faults, for a long time.

usage: soak.py BUILD [--seeds N] [MINUTES] [NAME...]

  MINUTES    how long; 10 by default. What has started by then is finished.
  --seeds N  run exactly N fresh seeds of each simulation instead, and no process tests
             unless they are named
  NAME       run only these: sim_group, work_chaos, ... A simulation named with a range,
             sim_group=4000-4999, runs these seeds instead of fresh ones.

Every simulation gets the same time. Its seeds are consecutive from a random first one, and all
processors work on them. One process test at a time runs beside them, at a higher priority, with
the scenarios whole that are shortened elsewhere.
The end is a summary with the range of seeds of each simulation and, for each failure, the command
that replays it; what failed is also in BUILD/soak/. Exits with 1 if something failed. An
interrupt ends the run early, with the summary.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time

CHUNK_S = 10  # of one process
CHUNK_TIMEOUT_S = 600  # a seed that takes this long hangs
FIRST_MAX = 10 ** 12  # as in sim_main.h
WHOLE = {"ROTA_TEST_QUIET_S": "120", "ROTA_TEST_HANGS": "10"}  # scenarios that CI shortens
RAN = re.compile(r"^(?:not )?ok \d+ - (\d+) fresh seeds, \d+ to \d+, \d+ failed$", re.MULTILINE)
REPLAY = re.compile(r"^# replay: (.*) --trace$", re.MULTILINE)
SEED = re.compile(r" --seed (\d+)")
TEST_SEED = re.compile(r"^# seed (\d+)\b", re.MULTILINE)


class Simulation:
    """Seeds of one simulation: handed out in chunks, in order."""

    def __init__(self, name, program, seeds, n_max):
        self.name, self.program = name, program
        self.first = seeds[0] if seeds else random.SystemRandom().randrange(FIRST_MAX)
        self.left = seeds[1] - seeds[0] + 1 if seeds else n_max  # None: no end
        self.next = self.first
        self.rest = []  # (first, n) of chunks that ended early
        self.seconds, self.n_ran, self.n_chunk = 0.0, 0, 4
        self.failures = []

    def take(self):
        """The next chunk as (first, n); None when there is none."""
        if self.rest:
            return self.rest.pop()
        n = self.n_chunk if self.left is None else min(self.n_chunk, self.left)
        if n == 0:
            return None
        first, self.next = self.next, self.next + n
        if self.left is not None:
            self.left -= n
        return first, n

    def note(self, first, n, seconds, code, output):
        """What came of a chunk."""
        replays = REPLAY.findall(output)
        ran = RAN.search(output)
        if ran:
            done = int(ran[1])
        else:  # it crashed or hung: its last case is the one
            seed = SEED.search(replays[-1]) if replays else None
            done = int(seed[1]) - first + 1 if seed else n
        self.n_ran += done
        self.seconds += seconds
        if done < n:
            self.rest.append((first + done, n - done))
        if code:
            self.failures += replays or [f"{self.program} --first {first} --fresh-seeds {n}"]
        elif seconds < CHUNK_S / 2:
            self.n_chunk *= 2
        elif seconds > CHUNK_S * 2:
            self.n_chunk = max(1, self.n_chunk // 2)

    def summary(self):
        end = f", {self.first} to {self.next - 1}" if self.n_ran else ""
        return f"{self.name}: {self.n_ran} seeds{end}, {len(self.failures)} failed"


class ProcessTest:
    def __init__(self, entry):
        self.name, self.command = entry["name"], entry["cmd"]
        self.environment = {**WHOLE, **os.environ, **entry["env"]}
        self.folder = entry.get("workdir")
        self.timeout = entry["timeout"] * 3
        self.n_ran, self.n_skipped, self.failures = 0, 0, []

    def note(self, code, output, build):
        seed = TEST_SEED.search(output)
        self.n_ran += 1
        if code == 77 or "1..0 # SKIP" in output:
            self.n_skipped += 1
        elif code or re.search(r"^not ok", output, re.MULTILINE):
            again = f" --test-args='--seed {seed[1]}'" if seed else ""
            self.failures.append(f"meson test -C {build} {self.name}{again}")

    def summary(self):
        skipped = f", {self.n_skipped} skipped" if self.n_skipped else ""
        return f"{self.name}: {self.n_ran} times, {len(self.failures)} failed{skipped}"


class Soak:
    def __init__(self, build, simulations, tests, ends_at):
        self.build, self.simulations, self.tests, self.ends_at = build, simulations, tests, ends_at
        self.lock = threading.Lock()
        self.is_stopped = False
        self.folder = pathlib.Path(build) / "soak"
        self.folder.mkdir(exist_ok=True)

    def is_over(self):
        return self.is_stopped or (self.ends_at is not None and time.monotonic() >= self.ends_at)

    def keep(self, name, output):
        path = self.folder / f"{name}.{time.strftime('%H%M%S')}.log"
        path.write_text(output, encoding="utf-8")
        print(f"failed: {name}, see {path}", flush=True)

    def run_process(self, command, timeout, environment=None, folder=None):
        """Its exit code, what it printed, and how long it took."""
        began_at = time.monotonic()
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=environment, cwd=folder or self.build) as process:
            timer = threading.Timer(timeout, process.terminate)
            timer.start()
            output = process.stdout.read().decode(errors="replace")
            code = process.wait()
            timer.cancel()
        return code, output, time.monotonic() - began_at

    def run_seeds(self):
        while not self.is_over():
            with self.lock:
                open_ones = sorted(self.simulations, key=lambda each: each.seconds)
                chunk = None
                for simulation in open_ones:
                    chunk = simulation.take()
                    if chunk:
                        simulation.seconds += CHUNK_S  # a guess, so that others come next
                        break
            if not chunk:
                return
            code, output, seconds = self.run_process(
                ["nice", "-n", "10", simulation.program, "--first", str(chunk[0]),
                 "--fresh-seeds", str(chunk[1])], CHUNK_TIMEOUT_S)
            with self.lock:
                simulation.seconds -= CHUNK_S
                simulation.note(*chunk, seconds, code, output)
                if code:
                    self.keep(simulation.name, output)

    def run_tests(self):
        while self.tests and not self.is_over():
            for test in self.tests:
                if self.is_over():
                    return
                code, output, _ = self.run_process(test.command, test.timeout, test.environment,
                                                   test.folder)
                with self.lock:
                    n_failures = len(test.failures)
                    test.note(code, output, self.build)
                    if len(test.failures) > n_failures:
                        self.keep(test.name, output)
            if self.ends_at is None:
                return  # each of them once

    def run(self):
        workers = [threading.Thread(target=self.run_seeds) for _ in range(os.cpu_count() or 1)]
        workers.append(threading.Thread(target=self.run_tests))
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join()
        except KeyboardInterrupt:
            self.is_stopped = True
            for worker in workers:
                worker.join()
        return self.report()

    def report(self):
        n_failed = 0
        for each in [*self.simulations, *self.tests]:
            print(each.summary())
            n_failed += len(each.failures)
            for command in each.failures:
                print(f"  replay: {command}")
        return 1 if n_failed else 0


def parse_range(text):
    first, _, last = text.partition("-")
    return (int(first), int(last or first)) if first else None


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("rest", nargs="*")
    arguments = parser.parse_intermixed_args()
    rest = arguments.rest
    minutes = float(rest.pop(0)) if rest and re.fullmatch(r"[\d.]+", rest[0]) else 10
    chosen = {name: seeds for name, _, seeds in (text.partition("=") for text in rest)}

    info = pathlib.Path(arguments.build) / "meson-info" / "intro-tests.json"
    found = json.loads(info.read_text(encoding="utf-8"))
    simulations, tests, runs_all = [], [], not chosen
    for entry in found:
        name = entry["name"]
        if name in chosen or runs_all:
            if "rota:sim" in entry["suite"]:
                seeds = parse_range(chosen.pop(name, ""))
                simulations.append(Simulation(name, entry["cmd"][0], seeds, arguments.seeds))
            elif "rota:chaos" in entry["suite"]:
                if name in chosen or not arguments.seeds:
                    tests.append(ProcessTest(entry))
                chosen.pop(name, None)
    if chosen:
        sys.exit(f"soak: neither a simulation nor a process test with faults: {', '.join(chosen)}")
    has_end = arguments.seeds or (simulations and all(each.left is not None for each in simulations))
    ends_at = None if has_end else time.monotonic() + minutes * 60
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(Soak(arguments.build, simulations, tests, ends_at).run())


main()
