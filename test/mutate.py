"""Plant random bugs and see whether a test notices: mutate.py [--seed N] [--count N] [PATH...].

  --seed N         choose the same mutants again; without it they are random, and the seed is printed
  --count N        how many mutants (20)
  --integration N  at most this many integration programs for each mutant (8; pure code: 0)
  --unit           run unit tests only, which is quick and misses what only the others notice
  --unreached      only list the lines that no test reaches
  --folder PATH    where the copy of the tree lives (build-mutate)
  PATH             source files or folders to mutate (src/core)

A mutant is one small change of one line of a .c file: another comparison, a constant, a condition
or a statement left out. The tree is copied first, with what is not committed yet; the working tree is
left alone. Unit tests run as they are, which is quick, and what they miss meets programs that are
built with AddressSanitizer.
Only programs that link the changed file are built and run, until one fails: unit tests, replays of
fuzz corpora, simulations (their fixed seeds for SIM_S seconds, and their scenarios), and integration
programs. Integration programs run for files that do I/O. Another build, with --coverage, tells which
lines each of them reaches, and how long it takes; all of them run for that once, and the result is
kept as `reached` in the folder (remove what is out of date). Only those that reach the line run,
several at a time since most of them wait: the quickest first, and those with a similar name. What
fails beside others has to fail alone, too. A program that hangs counts apart. A mutant that does not
compile, or compiles to the same code, is not counted. A test that also fails without the mutant is
ignored, and named.

Prints each mutant, the diff of each survivor, and a summary. Exits with 1 if one survived."""
import argparse
import concurrent.futures
import difflib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
# To compile takes most of the time of a mutant that is caught: sanitizers, -O2 and symbols make that ten times as long.
PLAIN_OPTIONS = ["-Db_lundef=false", "-Doptimization=1", "-Ddebug=false", "-Dwarning_level=0",
                 "-Ddefault_library=static"]
OPTIONS = ["-Db_sanitize=address", *PLAIN_OPTIONS]
COVERAGE_OPTIONS = ["-Db_coverage=true", *PLAIN_OPTIONS, "-Doptimization=0"]
# A test without a mutant takes at most a few seconds of one core; a hang takes for ever.
TIMEOUT_S = {"plain": 40, "unit": 60, "fuzz": 60, "sim": 300, "integration": 600}
LONG_S = 60  # an integration program that takes longer runs only where no other reaches the line
SIM_S = 5  # of processor time: the first seeds, without plants
STAGES = ("plain", "unit", "fuzz", "sim", "integration")  # plain: unit tests without a sanitizer
PURE = ("base", "core", "wire", "sim")  # unit tests and simulations reach all of it
SWAPS = {"&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"], "+=": ["-=", "="],
         "-=": ["+=", "="], "|=": ["=", "&="], "&=": ["=", "|="], "++": ["--"], "--": ["++"], "<<": [">>"],
         ">>": ["<<"], "true": ["false"], "false": ["true"], "!": [""], "break": ["continue"],
         "continue": ["break"], "min": ["max"], "max": ["min"],
         "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}
TOKEN = re.compile(r"""
    (?P<space>\s+) | (?P<comment>/\*.*?\*/|//.*$) | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+\.\d+|\d+[uUlL]*) | (?P<name>\w+)
  | (?P<operator><<=|>>=|->|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|\+=|-=|\*=|/=|\|=|&=|[-+*/%<>=!&|^~?:;,.(){}\[\]\#])
  | (?P<other>.)""", re.VERBOSE)
STATEMENT = re.compile(r"^\s*(?!return\b|break;|goto\b|case\b|default\b|else\b|typedef\b|struct\b|enum\b|union\b|static\b|const\b"
                       r"|assert\b|do\b|while\b|for\b|if\b|switch\b|extern\b|\}|\)|\(void\))"
                       r"(?:[\w>.\[\]*+-]+\s*(?:=|[-+|&*]=).*|[\w>.-]+\(.*\)|[\w>.\[\]-]+(?:\+\+|--)|(?:\+\+|--)[\w>.\[\]-]+);\s*$")
DECLARATION = re.compile(r"^\s*(?:\w+\s+)+\**\w+(?:\[\w*\])?\s*(?:=.*)?;")
CONDITION = re.compile(r"^(?P<before>\s*(?:\} else )?if )\((?P<what>.*)\)(?P<after>\s*\{?\s*)$")


def tokens_of(line):
    """(kind, text, start) of a line outside of a comment that began before it."""
    return [(match.lastgroup, match[0], match.start()) for match in TOKEN.finditer(line)]


def has_balanced(text):
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def mutants_of_line(line):
    """Every line that one small change makes of this one."""
    found = []
    tokens = [token for token in tokens_of(line) if token[0] not in ("space", "comment")]
    if not tokens or tokens[0][1] == "#" or tokens[0][1] == "assert":
        return []
    for i, (kind, text, start) in enumerate(tokens):
        before = tokens[i - 1] if i else ("", "", 0)
        is_binary = before[0] in ("name", "number", "text") or before[1] in (")", "]")
        choices = SWAPS.get(text, []) if kind in ("operator", "name") else []
        if text in ("-", "*", "+", "/", "%") and (not is_binary or before[1] in ("return", "sizeof")):
            choices = []  # a sign, or a pointer
        if text == "*" and DECLARATION.match(line) and "=" not in line[:start]:
            choices = []
        is_size = text == "1" and i > 1 and tokens[i - 2][1] == "calloc"  # more memory than needed is no bug
        if kind == "number" and not is_size and "." not in text and not text.startswith("0x"):
            number = int(re.sub("[uUlL]", "", text), 8 if re.fullmatch("0[0-7]+[uUlL]*", text) else 10)
            choices = ["1"] if number == 0 else ["0", str(number + 1)] if number == 1 else [str(number + 1), str(number - 1)]
        found += [line[:start] + choice + line[start + len(text):] for choice in choices]
    condition = CONDITION.match(line)
    if condition and has_balanced(condition["what"]):
        found.append(f"{condition['before']}(!({condition['what']})){condition['after']}")
        found.append(f"{condition['before']}(0 && ({condition['what']})){condition['after']}")
    if STATEMENT.match(line) and not DECLARATION.match(line) and has_balanced(line):
        found.append(re.match(r"\s*", line)[0] + ";")
    return found


def mutants_of_file(path):
    """(line number, new lines) of each line of a file that has mutants."""
    found, in_comment = [], False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")):
        starts_in_comment = in_comment
        if in_comment:
            in_comment = "*/" not in line
        elif "/*" in line and "*/" not in line.split("/*")[-1]:
            in_comment = True
        mutants = mutants_of_line(line) if line.startswith(" ") and not starts_in_comment and not in_comment else []
        if mutants:
            found.append((number, mutants))
    return found


def words_of(name):
    return set(re.findall(r"[a-z0-9]+", name.lower())) - {"test", "fsm", "c", "py", "processes", "sim"}


def place_of(lines, number):
    """A line of code as it is written, and its function: the same after lines before it have changed."""
    heads = (re.match(r"(?!else\b|return\b)[A-Za-z_].*?(\w+)\(", line) for line in reversed(lines[:number + 1]))
    return next((head[1] for head in heads if head), "") + ": " + lines[number].strip()


class Test:
    def __init__(self, entry, built, build):
        self.name, self.command, self.environment = entry["name"], entry["cmd"], entry["env"]
        self.build = build  # where it runs
        suites = [suite.split(":")[-1] for suite in entry["suite"]]
        self.stage = next((stage for stage in STAGES if stage in suites), None)
        if self.stage == "unit" and build.name == "plain":
            self.stage = "plain"
        self.built = [path for target in entry["depends"] for path in built.get(target, [])]
        self.words = words_of(self.name)
        self.symbols = set()  # of its programs
        self.is_steady = None  # not known yet
        self.seconds = 0  # of its last run
        self.reached = None  # by source file: whether it runs a line, by place_of(); None: not known
        self.timeout_s = TIMEOUT_S.get(self.stage)
        self.process = None  # while it runs

    def likeness(self, path):
        """How much the names have in common."""
        exact = 4 if self.name == path.stem else 2 if path.stem.startswith(self.name) else 0
        return exact + 2 * len(words_of(path.stem) & self.words)


class Bench:
    """A copy of the tree, built, with its tests."""

    def __init__(self, folder, n_integration, stages, layers):
        self.tree, self.plain, self.build = folder / "tree", folder / "plain", folder / "build"
        self.n_integration, self.layers = n_integration, layers
        self.copy()
        self.tests = self.tests_of(self.plain, PLAIN_OPTIONS, stages[:1]) + self.tests_of(self.build, OPTIONS, stages[1:])
        if "integration" in stages:
            self.measure(folder)
        for test in self.tests:
            test.symbols = set().union(*(self.symbols_of(path) for path in test.built))

    def tests_of(self, build, options, stages):
        """The tests of these stages, built."""
        if not (build / "build.ninja").exists():
            self.must("meson", "setup", build, self.tree, *options)
        self.must("ninja", "-C", build, "build.ninja")  # with tests that are new since the last time
        info = build / "meson-info"
        targets = json.loads((info / "intro-targets.json").read_text(encoding="utf-8"))
        built = {target["id"]: target["filename"] for target in targets if target["type"] != "custom"}
        entries = json.loads((info / "intro-tests.json").read_text(encoding="utf-8"))
        tests = [test for test in (Test(entry, built, build) for entry in entries)
                 if test.stage in stages and test.name not in ("soak", "outcome", "mutate") and not test.name.endswith("_plant")]
        inputs = {path: subprocess.run(["ninja", "-C", build, "-t", "inputs", os.path.relpath(path, build)], check=True,
                                       stdout=subprocess.PIPE).stdout.decode() for path in {path for test in tests for path in test.built}}
        tests = [test for test in tests if any(f"/src/{layer}/" in inputs[path] for layer in self.layers for path in test.built)]
        if not self.compile((path for test in tests for path in test.built), build):
            sys.exit("mutate: the tree does not build; see " + str(build))
        return tests

    def measure(self, folder):
        """Let each test know which lines it reaches, by a run with --coverage if it had none yet."""
        kept = {test.name: folder / "reached" / f"{test.name}.json" for test in self.tests if test.stage != "sim"}
        missing = {name for name, path in kept.items() if not path.exists()}
        (folder / "reached").mkdir(exist_ok=True)
        tests = self.tests_of(folder / "coverage", COVERAGE_OPTIONS, ["unit", "fuzz", "integration"]) if missing else []

        def reach(test):
            counters = folder / "counters" / test.name
            test.environment = {**test.environment, "GCOV_PREFIX": str(counters)}
            is_steady = self.run(test) == "passed"
            print(f"{test.name} {'reaches' if is_steady else 'fails after'} {test.seconds:.0f} s", flush=True)
            kept[test.name].write_text(json.dumps({"is_steady": is_steady, "seconds": test.seconds,
                                                   "reached": self.reached_lines(test.build, counters)}), encoding="utf-8")
            shutil.rmtree(counters, ignore_errors=True)
        with concurrent.futures.ThreadPoolExecutor(2 * os.cpu_count()) as pool:  # they wait most of the time
            list(pool.map(reach, [test for test in tests if test.name in missing][::-1]))  # the short ones are last
        for test in self.tests:
            if test.name in kept:
                vars(test).update(json.loads(kept[test.name].read_text(encoding="utf-8")))
                test.is_steady = test.is_steady and None  # which it may not be with sanitizers
                if test.stage == "integration":
                    test.timeout_s = min(15 + 4 * test.seconds, 240)

    def reached_lines(self, build, counters):
        """By source file: whether a line ran according to the counters in this folder, by place_of()."""
        counted = sorted(counters.rglob("*.gcda"))
        for path in counted:
            notes = path.with_suffix(".gcno")
            notes.symlink_to("/" / notes.relative_to(counters))
        out = subprocess.run(["gcov", "--json-format", "--stdout", *counted], cwd=build, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=False).stdout.decode(errors="replace") if counted else ""
        reached = {}
        for each in (file for line in out.splitlines() if line for file in json.loads(line)["files"]):
            path = (build / each["file"]).resolve()
            if path.suffix == ".c" and any(path.is_relative_to(self.tree / "src" / layer) for layer in self.layers):
                text = path.read_text(encoding="utf-8").split("\n")
                lines = reached.setdefault(str(path.relative_to(self.tree)), {})
                for line in each["lines"]:
                    place = place_of(text, line["line_number"] - 1)
                    lines[place] = lines.get(place, False) or line["count"] > 0
        return reached

    def unreached(self, source):
        """(number, line) of each line with code that no test reaches."""
        path = str(source.relative_to(self.tree))
        text = source.read_text(encoding="utf-8").split("\n")
        known = [test.reached[path] for test in self.tests if test.reached and path in test.reached]
        places = [place_of(text, number) for number in range(len(text))]
        return [(number + 1, text[number]) for number, place in enumerate(places) if text[number].startswith(" ")
                and any(place in each for each in known) and not any(each.get(place) for each in known)]

    def copy(self):
        """Bring the copy up to date; what did not change keeps its time, so that little is compiled again."""
        names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP, check=True,
                               stdout=subprocess.PIPE).stdout.decode().split("\0")[:-1]
        wanted = set()
        for name in names:
            source, target = TOP / name, self.tree / name
            if not source.is_file():
                continue
            wanted.add(target)
            if target.exists() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        for path in self.tree.rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()

    def must(self, *command):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            sys.exit(done.stdout.decode(errors="replace"))

    def compile(self, paths, build):
        names = sorted({os.path.relpath(path, build) for path in paths})
        return not names or subprocess.run(["ninja", "-C", build, "--quiet", *names], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode == 0

    def symbols_of(self, path):
        out = subprocess.run(["nm", "--defined-only", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             check=False).stdout.decode(errors="replace")
        return {words[-1] for words in map(str.split, out.splitlines()) if words and words[-1].startswith("rota_")}

    def object_of(self, source):
        """The object file of a source file, and the build that it is of: the plain one if that has it."""
        room = "_".join(source.relative_to(self.tree / "src").parts[1:])
        layer = source.relative_to(self.tree / "src").parts[0]
        return next(((path, build) for build in (self.plain, self.build) for kind in ("*.a.p", "*.p")
                     for path in (build / "src" / layer).glob(f"{kind}/{room}.o")), (None, None))

    def run(self, test):
        """`passed`, `failed` or `hangs`."""
        if test.stage != "sim":
            return self.run_command(test, test.command)
        for options in (["--first", "1", "--fresh", str(SIM_S)], ["--scenario", "all"]):
            result = self.run_command(test, [*test.command, *options])
            if result != "passed":
                break
        return result

    def run_command(self, test, command):
        began_at = time.monotonic()
        result = self.result_of(test, command)
        test.seconds = time.monotonic() - began_at
        return result

    def result_of(self, test, command):
        environment = {**os.environ, **test.environment, "ROTA_SIM_FRESH_S": "0", "ASAN_OPTIONS": "abort_on_error=0"}
        with subprocess.Popen(command, cwd=test.build, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
            test.process = process
            try:
                output = process.communicate(timeout=test.timeout_s)[0].decode(errors="replace")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.communicate(timeout=20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                return "hangs"
            except SystemExit:  # else the end of this block waits for it
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return "failed" if process.returncode or re.search(r"^not ok", output, re.MULTILINE) else "passed"

    def candidates(self, source, symbols, lines):
        """The tests that can notice a change of the last of these lines of a file, the likeliest first; each stage in
        lists that grow, since one call of ninja for a few programs is cheaper than a call for each."""
        path = source.relative_to(self.tree)
        reached = {test.name: test.reached.get(str(path), {}) for test in self.tests if test.reached is not None}
        # A line without code of its own, as the second of a condition, belongs to one before it.
        places = (place_of(lines, number) for number in range(len(lines) - 1, -1, -1))
        place = next((place for place in places if any(place in each for each in reached.values())), None)

        is_reached = any(each.get(place) for each in reached.values())

        def rank(test):
            n = sum(reached.get(test.name, {}).values())
            return test.seconds / (1 + test.likeness(path)) if is_reached else -n, -test.likeness(path)
        for stage in STAGES:
            found = [test for test in self.tests if test.stage == stage and test.symbols & symbols and test.is_steady is not False
                     and (test.reached is None or reached[test.name].get(place) or not is_reached)]
            found.sort(key=rank)
            if stage == "integration":  # of a line that leaves no counters, as in a child of fork(), those that reach most around it
                found = found[:self.n_integration if is_reached else self.n_integration // 2]
                found = [test for test in found if test.seconds < LONG_S] or found[:1]
            size = 4 if stage == "integration" else 1
            while found:
                yield found[:size]
                found, size = found[size:], size * 2

    def run_together(self, tests):
        """The first of these tests that does not pass, and its result; the others are stopped."""
        with concurrent.futures.ThreadPoolExecutor(len(tests)) as pool:
            runs = {pool.submit(self.run, test): test for test in tests}
            for done in concurrent.futures.as_completed(runs):
                if done.result() != "passed":
                    for test in (test for run, test in runs.items() if not run.done() and test.process):
                        os.killpg(test.process.pid, signal.SIGTERM)
                    return runs[done], done.result()
        return None, "passed"

    def is_steady(self, test, source, whole, mutated):
        """Whether it passes without the mutant. Only asked when it failed with one."""
        if test.is_steady is None:
            source.write_text(whole, encoding="utf-8")
            test.is_steady = self.compile(test.built, test.build) and self.run(test) == "passed"
            source.write_text(mutated, encoding="utf-8")
            if not test.is_steady:
                print(f"    {test.name} fails without a mutant, too", flush=True)
        return test.is_steady

    def judge(self, source, number, line):
        """(what, by): `caught` or `hangs` by a test, `survived`, or `void` if there is nothing to notice."""
        whole = source.read_text(encoding="utf-8")
        lines = whole.split("\n")
        mutated = "\n".join([*lines[:number], line, *lines[number + 1:]])
        target, build = self.object_of(source)
        if not target or not self.compile([target], build):
            return "void", "no object file"
        symbols, code = self.symbols_of(target), self.code_of(target)
        ran = []
        try:
            source.write_text(mutated, encoding="utf-8")
            if not self.compile([target], build):
                return "void", "does not compile"
            if self.code_of(target) == code:
                return "void", "same code"
            for tests in self.candidates(source, symbols, lines[:number + 1]):
                ran += [test.name for test in tests if test.stage != "plain"]
                while tests:
                    if not self.compile((path for test in tests for path in test.built), tests[0].build):
                        return "void", "does not link"
                    test, result = self.run_together(tests)
                    if result == "passed":
                        break
                    if self.is_steady(test, source, whole, mutated):
                        if len(tests) > 1 and result == "failed":  # what fails beside others has to fail alone
                            self.compile(test.built, test.build)
                            result = self.run(test)
                        if result != "passed":
                            return ("caught" if result == "failed" else "hangs"), test.name
                    tests.remove(test)
        finally:
            source.write_text(whole, encoding="utf-8")
        return "survived", f"{len(ran)} programs: " + " ".join(ran) if ran else "no program: none reaches it"

    def code_of(self, path):
        """The machine code, without line numbers."""
        return subprocess.run(["objdump", "-d", "-r", "-s", "-j", ".text", "-j", ".rodata", path], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False).stdout


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--integration", type=int)
    parser.add_argument("--unit", action="store_true")
    parser.add_argument("--unreached", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path, default=TOP / "build-mutate")
    parser.add_argument("paths", nargs="*", default=["src/core"])
    arguments = parser.parse_intermixed_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10 ** 6)
    chance = random.Random(seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end what we run
    roots = [pathlib.Path(name).resolve() for name in arguments.paths or ["src/core"]]
    layers = {root.relative_to(TOP / "src").parts[0] for root in roots}
    n_integration = arguments.integration if arguments.integration is not None else 0 if layers <= set(PURE) else 8
    stages = STAGES[:2] if arguments.unit else STAGES if n_integration else STAGES[:-1]
    bench = Bench(arguments.folder.resolve(), n_integration, stages, layers)

    files = []
    for root in roots:
        path = bench.tree / root.relative_to(TOP)
        files += sorted(path.rglob("*.c")) if path.is_dir() else [path]
    if arguments.unreached:
        for path in files:
            lines = bench.unreached(path)
            print(f"{path.relative_to(bench.tree)}: {len(lines)} lines", *(f"{number:5} {line}" for number, line in lines), sep="\n")
        return 0
    sites = [(path, *mutants) for path in files for mutants in mutants_of_file(path)]
    chance.shuffle(sites)
    print(f"seed {seed}: {arguments.count} mutants; {len(files)} files have {len(sites)} lines to change", flush=True)

    counts = {"caught": 0, "hangs": 0, "survived": 0, "void": 0}
    number = 0
    survivors = []
    for source, at, mutants in sites:
        if number == arguments.count:
            break
        line = chance.choice(mutants)
        began_at = time.monotonic()
        what, by = bench.judge(source, at, line)
        counts[what] += 1
        if what == "void":
            continue
        number += 1
        name = f"{source.relative_to(bench.tree)}:{at + 1}"
        print(f"{number} {what} by {by}, {time.monotonic() - began_at:.0f} s: {name}: {line.strip()}", flush=True)
        if what == "survived":
            whole = source.read_text(encoding="utf-8").split("\n")
            changed = [*whole[:at], line, *whole[at + 1:]]
            diff = "\n".join(difflib.unified_diff(whole, changed, name, "mutant", lineterm="", n=3))
            survivors.append(diff)
            print(diff, flush=True)
    print(f"seed {seed}: {number} mutants, {counts['caught']} caught, {counts['hangs']} caught by a hang, "
          f"{counts['survived']} survived; {counts['void']} more did not compile or changed nothing")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
