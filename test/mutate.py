"""Plant random bugs and see whether a test notices: mutate.py [--seed N] [--count N] [PATH...].

  --seed N         choose the same mutants again; without it they are random, and the seed is printed
  --count N        how many mutants (20)
  --integration N  at most this many integration programs for each mutant (6; pure code: 0)
  --jobs N         how many at a time (one for each processor)
  --unit           run unit tests without a sanitizer only, which is quick and misses what the others notice
  --in-process     no programs that start Rota's processes: they take long to measure, and notice more
  --folder PATH    where the copy of the tree lives (build-mutate)
  PATH             source files or folders to mutate (src/core)

A mutant is one small change of one line of a .c file: another comparison, a constant, a condition
or a statement left out. The tree is copied first, with what is not committed yet; the working tree is
left alone.

A build with --coverage tells which lines each test reaches, and how long it takes; a test runs for that
once, and again when its program changed, if it links a file that may be changed. Only tests that reach
the changed line run, until one fails: unit tests, unit tests and replays of fuzz corpora with
AddressSanitizer, simulations (their fixed seeds for SIM_S seconds, and their scenarios), integration
programs in C, and those that start Rota's processes, which are measured when the first mutant survives
all others. Their programs are linked with the changed object file alone, several mutants at a time. A
test that finds programs by itself runs in a tree that is built with the mutant, alone. A line without code
of its own, as in a table, meets every program that links the file.

Integration programs run for files that do I/O: first those with a similar name, or that run out of memory
near allocations, then those that reach most of the file in the least time. The file `reached/NAME.json`
in the folder keeps what a test reaches; remove that of an integration program to measure it again. One
that failed when it was measured, perhaps because the machine was busy, is measured again the next time.

A program that hangs counts apart. A mutant that does not compile, or compiles to the same code, is not
counted. A test that also fails without the mutant, or is skipped for want of a server, is ignored, and named.

Prints each mutant, the diff of each survivor, and a summary. Exits with 1 if one survived."""
import argparse
import collections
import concurrent.futures
import difflib
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
# To compile takes most of the time of a mutant that is caught: sanitizers, -O2 and symbols make that ten times as long.
PLAIN_OPTIONS = ["-Db_lundef=false", "-Doptimization=1", "-Ddebug=false", "-Dwarning_level=0",
                 "-Ddefault_library=static"]
OPTIONS = ["-Db_sanitize=address", *PLAIN_OPTIONS]
COVERAGE_OPTIONS = ["-Db_coverage=true", *PLAIN_OPTIONS, "-Doptimization=0"]
SIM_S = 5  # of CPU time: the first seeds, without plants
STAGES = ("plain", "unit", "fuzz", "sim", "integration", "process")  # plain: unit tests without a sanitizer
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
                       r"|assert\w*|(?:__builtin_)?prefetch\w*|do\b|while\b|for\b|if\b|switch\b|extern\b|\}|\)|\(void\))"
                       r"(?:[\w>.\[\]*+-]+\s*(?:=|[-+|&*]=).*|[\w>.-]+\(.*\)|[\w>.\[\]-]+(?:\+\+|--)|(?:\+\+|--)[\w>.\[\]-]+);\s*$")
DECLARATION = re.compile(r"^\s*(?:\w+\s+)+\**\w+(?:\[\w*\])?\s*(?:=.*)?;")
MEMORY = re.compile(r"alloc\(|str\w?dup\(|_reserve\(|_push\(|_put\(|_take\(|no_memory|NO_MEMORY|\bfailed\b")
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
        if kind == "number" and "." not in text and not text.startswith("0x") and not is_size:
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


def name_of(text, at):
    """A line and where its function begins: so it is known again when others have moved it."""
    start = at
    while start > 0 and not re.match(r"\w", text[start]):
        start -= 1
    return f"{text[start]}: {text[at].strip()}"


def words_of(name):
    return set(re.findall(r"[a-z0-9]+", name.lower())) - {"test", "fsm", "c", "py", "processes", "sim"}


class Test:
    def __init__(self, entry, built, build, stage):
        self.name, self.command, self.environment = entry["name"], entry["cmd"], entry["env"]
        self.build, self.stage = build, stage  # where it runs, and when
        self.built = [path for target in entry["depends"] for path in built.get(target, [])]
        self.words = words_of(self.name)
        self.symbols = None  # of its programs; not read yet
        self.is_steady = None  # not known yet
        self.seconds = 60  # of its last run
        self.reached = {}  # by source file: the numbers of the lines that it runs; of an integration program, name_of() them

    def likeness(self, path, lines):
        """How much the names have in common; and only some programs run out of memory."""
        if self.name.startswith("no_memory") and any(MEMORY.search(line) for line in lines):
            return 9
        exact = 4 if self.name == path.stem else 2 if path.stem.startswith(self.name) else 0
        return exact + 2 * len(words_of(path.stem) & self.words)


class Bench:
    """A copy of the tree, built, with its tests."""

    def __init__(self, folder, n_integration, stages, n_jobs, paths):
        self.folder, self.tree, self.coverage = folder, folder / "tree", folder / "coverage"
        self.builds = {"plain": folder / "plain", "sim": folder / "plain"}
        self.n_integration, self.n_jobs = n_integration, n_jobs
        self.lock = threading.RLock()  # of ninja and of the tree
        self.local = threading.local()  # a folder for each thread
        self.objects = {}  # by build and source file: how it is compiled
        self.links = {}  # by program: how it is linked
        self.running = set()  # processes
        signal.signal(signal.SIGTERM, lambda *_: self.stop(1))
        self.copy()
        self.text = {path: path.read_text(encoding="utf-8").split("\n") for path in (self.tree / "src").rglob("*.c")}
        self.setup(folder / "plain", PLAIN_OPTIONS)
        if set(stages) - set(self.builds):
            self.setup(folder / "build", OPTIONS)
        self.tests = [test for stage in stages for test in self.tests_of(self.builds.get(stage, folder / "build"), stage)]
        self.setup(self.coverage, COVERAGE_OPTIONS)
        self.paths = [self.tree / path for path in paths]  # what may be changed
        self.measured = set()  # stages
        self.measure([stage for stage in stages if stage != "process"])

    def setup(self, build, options):
        if not (build / "build.ninja").exists():
            self.must("meson", "setup", build, self.tree, *options)
        self.must("ninja", "-C", build, "build.ninja")  # with tests that are new since the last time

    def tests_of(self, build, stage):
        info = build / "meson-info"
        targets = json.loads((info / "intro-targets.json").read_text(encoding="utf-8"))
        built = {target["id"]: target["filename"] for target in targets if target["type"] != "custom"}
        entries = json.loads((info / "intro-tests.json").read_text(encoding="utf-8"))
        suite = {"plain": "unit", "process": "integration"}.get(stage, stage)
        tests = [Test(entry, built, build, stage) for entry in entries
                 if suite in (name.split(":")[-1] for name in entry["suite"]) and not entry["name"].endswith("_plant")]
        tests = [test for test in tests if test.built]  # not tests of tools
        if suite != "integration":
            return tests
        return [test for test in tests if (stage == "process") != os.path.basename(test.built[0]).startswith("test_")]

    def is_linked(self, test):
        """Whether its programs are made of a file that may be changed."""
        names = [os.path.relpath(path, test.build) for path in test.built]
        out = subprocess.run(["ninja", "-C", test.build, "-t", "inputs", *names], check=True, stdout=subprocess.PIPE).stdout
        inputs = [(test.build / name).resolve() for name in out.decode().splitlines() if name.endswith(".c")]
        return any(path.is_relative_to(root) for path in inputs for root in self.paths)

    def measure(self, stages):
        """Let each test know which lines it reaches, by a run with --coverage if its program is new."""
        (self.folder / "reached").mkdir(exist_ok=True)
        self.measured |= set(stages)
        known = {}  # by name: once for both stages of a unit test
        tests = {test.name: test for stage in stages for test in self.tests_of(self.coverage, stage)}
        if stages != ["process"]:
            tests = {name: test for name, test in tests.items() if self.is_linked(test)}
            self.tests = [test for test in self.tests if test.stage == "process" or test.name in tests]
        if not self.compile((path for test in tests.values() for path in test.built), self.coverage):
            sys.exit("mutate: the tree does not build; see " + str(self.coverage))

        def reach(test):
            path = self.folder / "reached" / f"{test.name}.json"
            digest = "" if test.stage in ("integration", "process") else hashlib.sha256(pathlib.Path(test.built[0]).read_bytes()).hexdigest()
            kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            if kept.get("digest") != digest or not kept["is_steady"]:
                counters = self.folder / "counters" / test.name
                test.environment = {**test.environment, "GCOV_PREFIX": str(counters)}
                began_at = time.monotonic()
                result = self.run(test)
                is_steady, test.seconds = result == "passed", time.monotonic() - began_at
                print(f"{test.name} {result}, {test.seconds:.0f} s", flush=True)
                reached = self.reached_lines(counters, test.stage in ("integration", "process"))
                kept = {"digest": digest, "is_steady": is_steady, "seconds": test.seconds, "reached": reached}
                path.write_text(json.dumps(kept), encoding="utf-8")
                shutil.rmtree(counters, ignore_errors=True)
            known[test.name] = kept
        with concurrent.futures.ThreadPoolExecutor(self.n_jobs) as pool:
            list(pool.map(reach, tests.values()))
        for test in self.tests:
            if test.stage not in stages:
                continue
            kept = known[test.name]
            test.reached = {name: set(lines) for name, lines in kept["reached"].items()}
            test.seconds = kept["seconds"]
            test.is_steady = kept["is_steady"] and None  # which it may not be with sanitizers

    def reached_lines(self, counters, is_text):
        """By source file: the lines that ran according to the counters in this folder."""
        counted = sorted(path for path in counters.rglob("*.gcda") if "/src/" in str(path))
        for path in counted:
            notes = path.with_suffix(".gcno")
            notes.symlink_to("/" / notes.relative_to(counters))
        reached = {}
        for path, lines in self.gcov(counted):
            if path.suffix == ".c" and path.is_relative_to(self.tree / "src"):
                name, text = str(path.relative_to(self.tree)), self.text[path]
                ran = (line["line_number"] for line in lines if line["count"])
                reached.setdefault(name, set()).update(name_of(text, number - 1) if is_text else number for number in ran)
        return {name: sorted(found) for name, found in reached.items()}

    def gcov(self, paths):
        """(source file, its lines that have code) of files of counters, or of notes."""
        out = subprocess.run(["gcov", "--json-format", "--stdout", *paths], cwd=self.coverage, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=False).stdout.decode(errors="replace") if paths else ""
        return [((self.coverage / each["file"]).resolve(), each["lines"])
                for line in out.splitlines() if line for each in json.loads(line)["files"]]

    def lines_of(self, source):
        """The numbers of the lines of a source file that have code."""
        notes = (self.coverage / self.command_of(source, self.coverage)["output"]).with_suffix(".gcno")
        return {line["line_number"] for path, lines in self.gcov([notes]) if path == source for line in lines}

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

    def must(self, *command, folder=None):
        done = subprocess.run([str(word) for word in command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        if done.returncode:
            sys.exit(done.stdout.decode(errors="replace"))

    def compile(self, paths, build):
        names = sorted({os.path.relpath(path, build) for path in paths})
        with self.lock:
            return subprocess.run(["ninja", "-C", build, "-j", str(self.n_jobs), "--quiet", *names], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, check=False).returncode == 0

    def symbols_of(self, path):
        out = subprocess.run(["nm", "--defined-only", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             check=False).stdout.decode(errors="replace")
        return {words[-1] for words in map(str.split, out.splitlines()) if words and words[-1].startswith("rota_")}

    def command_of(self, source, build):
        """How a source file is compiled; None if it is not."""
        if build not in self.objects:
            entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
            self.objects[build] = {(build / entry["file"]).resolve(): entry for entry in entries}
        return self.objects[build].get(source)

    def object_of(self, source, text, build):
        """The object file of this text in place of a source file; None if it does not compile."""
        entry = self.command_of(source, build)
        if not entry:
            return None
        changed, target = self.own_folder() / source.name, self.own_folder() / f"{build.name}.o"
        changed.write_text(f'#line 1 "{source}"\n{text}', encoding="utf-8")
        words = {entry["file"]: str(changed), entry["output"]: str(target), f"{entry['output']}.d": os.devnull}
        command = [words.get(word, word) for word in shlex.split(entry["command"]) if word != "ccache"]
        done = subprocess.run([*command, "-iquote", source.parent], cwd=build, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False)
        return target if done.returncode == 0 else None

    def own_folder(self):
        if not hasattr(self.local, "folder"):
            self.local.folder = self.folder / "mutants" / f"{os.getpid()}-{threading.get_ident()}"
            self.local.folder.mkdir(parents=True, exist_ok=True)
        return self.local.folder

    def program_of(self, path, build, source, target):
        """A program with this object file in place of that of the source file."""
        name = os.path.relpath(path, build)
        with self.lock:
            if path not in self.links:
                commands = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", name], check=True,
                                          stdout=subprocess.PIPE).stdout.decode().splitlines()
                self.must("ninja", "-C", build, name)
                self.links[path] = shlex.split(commands[-1])
        program, output = str(self.own_folder() / os.path.basename(path)), self.objects[build][source]["output"]
        words = {name: program, output: str(target)}
        command = [words.get(word, word) for word in self.links[path]]
        if output not in self.links[path]:  # it comes before that in an archive
            command.insert(command.index(program) + 1, str(target))
        self.must(*command, folder=build)
        return program

    def programs_of(self, test, source, target):
        """By word of the command of a test: its programs with this object file; None if it finds one by itself."""
        words = {path: word for word in test.command for path in test.built if os.path.join(test.build, word) == path}
        if len(words) < len(test.built):
            return None
        return {word: self.program_of(path, test.build, source, target) for path, word in words.items()}

    def run(self, test, programs=None):
        """`passed`, `failed`, `hangs` or `skipped`."""
        command = [(programs or {}).get(word, word) for word in test.command]
        if test.stage != "sim":
            return self.run_command(test, command)
        for options in (["--first", "1", "--fresh", str(SIM_S)], ["--scenario", "all"]):
            result = self.run_command(test, [*command, *options])
            if result != "passed":
                break
        return result

    def run_command(self, test, command):
        """A hang takes forever; a busy machine takes long."""
        limit_s = int(5 + 2 * test.seconds)
        environment = {**os.environ, **test.environment, "ROTA_SIM_FRESH_S": "0", "ASAN_OPTIONS": "abort_on_error=0"}
        with subprocess.Popen(command, cwd=test.build, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
            self.running.add(process.pid)
            if test.stage not in ("integration", "process"):
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit_s, limit_s))
            try:
                output = process.communicate(timeout=60 + 3 * limit_s)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.communicate(timeout=20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                return "hangs"
            finally:
                self.running.discard(process.pid)
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "hangs"
        output = output.decode(errors="replace")
        if process.returncode or re.search(r"^not ok", output, re.MULTILINE):
            return "failed"
        return "skipped" if output.startswith("1..0 # SKIP") else "passed"

    def stop(self, status):
        """End what we run, and ourselves, with the mutants that were begun ahead."""
        sys.stdout.flush()
        for pid in set(self.running):
            os.killpg(pid, signal.SIGKILL)
        os._exit(status)

    def candidates(self, source, number, symbols):
        """The tests that can notice a change of this line of a file, the likeliest first."""
        path = source.relative_to(self.tree)
        text, with_code = self.text[source], self.lines_of(source)
        at = number  # a line without code of its own, as the second of a condition, belongs to one before it
        while at > 0 and at + 1 not in with_code and text[at].startswith(" "):
            at -= 1

        at_name = name_of(text, at)

        def rank(test):
            reached = test.reached.get(str(path), set())
            return not (at + 1 in reached or at_name in reached), -test.likeness(path, text[max(at - 2, 0):at + 2]), test.seconds / (len(reached) or 1)
        n = self.n_integration
        for stage in STAGES:
            with self.lock:
                if n > 0 and stage not in self.measured and any(test.stage == stage for test in self.tests):
                    self.measure([stage])
            for test in sorted((test for test in self.tests if test.stage == stage and test.is_steady is not False), key=rank):
                is_reached = not rank(test)[0]
                if at + 1 in with_code and not is_reached:
                    break
                if stage in ("integration", "process"):
                    n -= 1
                    if n < 0:
                        return
                if test.symbols is None:
                    self.compile(test.built, test.build)
                    test.symbols = set().union(*(self.symbols_of(path) for path in test.built))
                if is_reached or test.symbols & symbols:
                    yield test

    def judge(self, source, number, line):
        """(what, by): `caught` or `hangs` by a test, `survived`, or `void` if there is nothing to notice."""
        lines = self.text[source]
        mutated = "\n".join([*lines[:number], line, *lines[number + 1:]])
        plain = self.folder / "plain"
        whole = self.object_of(source, "\n".join(lines), plain)
        if not whole:
            return "void", "no object file"
        symbols, code = self.symbols_of(whole), whole.read_bytes()
        targets = {plain: self.object_of(source, mutated, plain)}
        if not targets[plain]:
            return "void", "does not compile"
        if targets[plain].read_bytes() == code:
            return "void", "same code"
        ran = []
        for test in self.candidates(source, number, symbols):
            ran += [test.name] if test.stage != "unit" else []
            if test.build not in targets:
                targets[test.build] = self.object_of(source, mutated, test.build)
            programs = self.programs_of(test, source, targets[test.build])
            if programs:
                result = self.run(test, programs)
                if result != "passed" and test.is_steady is None:
                    test.is_steady = self.run(test) == "passed"
            else:
                result = self.run_in_tree(test, source, mutated)
            if result != "passed" and test.is_steady:
                return ("caught" if result == "failed" else "hangs"), test.name
            if result != "passed":
                print(f"    {test.name} fails without a mutant, too", flush=True)
        return "survived", f"{len(ran)} programs: " + " ".join(ran)

    def run_in_tree(self, test, source, mutated):
        """The result of an integration program, and whether it passes without the mutant if it failed with it."""
        with self.lock:
            try:
                source.write_text(mutated, encoding="utf-8")
                result = self.run(test) if self.compile(test.built, test.build) else "passed"
            finally:
                source.write_text("\n".join(self.text[source]), encoding="utf-8")
            if result != "passed" and test.is_steady is None:
                test.is_steady = self.compile(test.built, test.build) and self.run(test) == "passed"
        return result


def judged(bench, mutants):
    """The verdicts of mutants, in order; a few are ahead."""
    def judge(mutant):
        began_at = time.monotonic()
        return *mutant, bench.judge(*mutant), time.monotonic() - began_at
    pool = concurrent.futures.ThreadPoolExecutor(bench.n_jobs)
    ahead = collections.deque()
    for mutant in mutants:
        ahead.append(pool.submit(judge, mutant))
        if len(ahead) > 2 * bench.n_jobs:
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--integration", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--unit", action="store_true")
    parser.add_argument("--in-process", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path, default=TOP / "build-mutate")
    parser.add_argument("paths", nargs="*", default=["src/core"])
    arguments = parser.parse_intermixed_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10 ** 6)
    chance = random.Random(seed)
    roots = [pathlib.Path(name).resolve() for name in arguments.paths or ["src/core"]]
    is_pure = all(root.relative_to(TOP / "src").parts[:1] and root.relative_to(TOP / "src").parts[0] in PURE for root in roots)
    n_integration = arguments.integration if arguments.integration is not None else 0 if is_pure else 6
    stages = STAGES[:1] if arguments.unit else STAGES if n_integration else STAGES[:4]
    stages = [stage for stage in stages if stage != "process" or not arguments.in_process]
    bench = Bench(arguments.folder.resolve(), n_integration, stages, arguments.jobs, [root.relative_to(TOP) for root in roots])

    files = []
    for root in roots:
        path = bench.tree / root.relative_to(TOP)
        files += sorted(path.rglob("*.c")) if path.is_dir() else [path]
    sites = [(path, *mutants) for path in files for mutants in mutants_of_file(path)]
    chance.shuffle(sites)
    print(f"seed {seed}: {arguments.count} mutants; {len(files)} files have {len(sites)} lines to change", flush=True)

    counts = {"caught": 0, "hangs": 0, "survived": 0, "void": 0}
    number = 0
    for source, at, line, (what, by), seconds in judged(bench, [(*site, chance.choice(mutants)) for *site, mutants in sites]):
        counts[what] += 1
        if what == "void":
            continue
        number += 1
        name = f"{source.relative_to(bench.tree)}:{at + 1}"
        print(f"{number} {what} by {by}, {seconds:.0f} s: {name}: {line.strip()}", flush=True)
        if what == "survived":
            whole = bench.text[source]
            changed = [*whole[:at], line, *whole[at + 1:]]
            print("\n".join(difflib.unified_diff(whole, changed, name, "mutant", lineterm="", n=3)), flush=True)
        if number == arguments.count:
            break
    print(f"seed {seed}: {number} mutants, {counts['caught']} caught, {counts['hangs']} caught by a hang, "
          f"{counts['survived']} survived; {counts['void']} more did not compile or changed nothing")
    bench.stop(1 if counts["survived"] else 0)


if __name__ == "__main__":
    main()
