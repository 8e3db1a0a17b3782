"""What is installed, as those who install it find it: test_install.py BUILD_DIRECTORY VERSION.

Everything is installed below a temporary directory and used from there. Prints TAP."""
import contextlib
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from tap import test  # noqa: E402

BUILD, VERSION = pathlib.Path(sys.argv[1]), sys.argv[2]
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
WAIT = 120  # seconds, for a busy machine
PROGRAMS = ["rota", "rotad"]


def need(program):
    if not shutil.which(program):
        raise tap.Skip(f"{program} is not installed")


def run(*command, **options):
    """What a program prints; it must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, **options)
    assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


class Installed:
    """The files below `root`, wherever the prefix and the directories are."""

    def __init__(self, root, work):
        self.root, self.work = root, work
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root)
        self.pc = self.only("rota.pc")
        self.lib = self.pc.parent.parent
        self.include = self.only("rota/rota.h").parent.parent
        self.share = self.only("bash-completion").parent
        self.man = self.only("man1")

    def only(self, name):
        (found,) = self.root.rglob(name)
        return found

    def flags(self, *options):
        """What pkg-config answers."""
        need("pkg-config")
        return run("pkg-config", *options, "rota", env={
            **os.environ, "PKG_CONFIG_PATH": str(self.pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(self.root),
        }).split()

    def run_program(self, program):
        return run(program, env={**os.environ, "LD_LIBRARY_PATH": str(self.lib)})

    def tables(self, program="rota"):
        return json.loads(run(self.only("bin") / program, "help", "--json"))


installed = None


# --- the library ---

def plan_lists_the_moves(output):
    return output.count("\n") == 8 and "\tmoves\n" in output


@test
def a_c_program_is_built_with_pkg_config():
    program = installed.work / "where"
    run("cc", "-Wall", "-Wextra", "-Werror", installed.only("where.c"), "-o", program,
        *installed.flags("--cflags", "--libs"))
    assert "librota.so.0" in run("readelf", "-d", program)
    assert plan_lists_the_moves(installed.run_program(program))


@test
def a_c_program_is_linked_with_the_static_library():
    program = installed.work / "where_static"
    libraries = installed.flags("--static", "--libs")
    assert "-lrota" in libraries and "-luv" in libraries, libraries
    run("cc", *installed.flags("--cflags"), installed.only("where.c"), "-o", program,
        *[word.replace("-lrota", "-l:librota.a") for word in libraries])
    assert "librota" not in run("readelf", "-d", program)
    assert plan_lists_the_moves(run(program))


@test
def pkg_config_names_nothing_but_rota():
    assert installed.flags("--cflags") == [f"-I{installed.include}"], installed.flags("--cflags")
    assert [word for word in installed.flags("--libs") if word.startswith("-l")] == ["-lrota"]
    assert "Requires" not in installed.pc.read_text(), installed.pc.read_text()


@test
def pkg_config_and_cmake_know_no_path_of_the_build():
    for path in (installed.pc, *(installed.lib / "cmake" / "rota").iterdir()):
        text = path.read_text()
        assert str(SOURCE) not in text and str(BUILD) not in text and str(installed.root) not in text, text


@test
def a_cpp_program_is_built_with_pkg_config():
    need("c++")
    program = installed.work / "headers"
    run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", SOURCE / "test" / "headers" / "headers.cpp",
        "-o", program, *installed.flags("--cflags", "--libs"))
    installed.run_program(program)


@test
def a_c_program_is_built_with_cmake():
    need("cmake")
    directory = installed.work / "cmake"
    run("cmake", "-G", "Ninja", "-S", SOURCE / "test" / "package", "-B", directory,
        f"-DCMAKE_PREFIX_PATH={installed.pc.parents[3]}",
        f"-Drota_DIR={installed.lib / 'cmake' / 'rota'}", f"-DWHERE_C={installed.only('where.c')}")
    run("cmake", "--build", directory)
    assert plan_lists_the_moves(run(directory / "where"))


@test
def a_version_to_come_is_not_found_by_cmake():
    need("cmake")
    script = installed.work / "version.cmake"
    script.write_text(f'set(PACKAGE_FIND_VERSION "$' '{WANTED}")\n'
                      f'include("{installed.lib}/cmake/rota/rota-config-version.cmake")\n'
                      'message("is $' '{PACKAGE_VERSION_COMPATIBLE}")\n')
    for wanted, answer in (("0.0.9", "is TRUE"), (VERSION, "is TRUE"), ("99.0", "is FALSE")):
        done = subprocess.run(["cmake", f"-DWANTED={wanted}", "-P", script], capture_output=True, text=True)
        assert answer in done.stderr, (wanted, done.stderr)


@test
def every_public_header_is_installed_and_stands_alone():
    names = {path.relative_to(installed.include) for path in installed.include.glob("rota/**/*.h")}
    source = SOURCE / "include"
    assert names == {path.relative_to(source) for path in source.glob("rota/**/*.h")}, names
    for number, name in enumerate(names):
        (installed.work / f"alone_{number}.c").write_text(f"#include <{name}>\n")
    run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{installed.include}",
        *installed.work.glob("alone_*.c"))


def declared():
    """What the compiler finds declared in the public headers, by name."""
    source, prototypes = installed.work / "all.c", installed.work / "all.txt"
    source.write_text("#include <rota/experimental/rota.h>\n")
    done = subprocess.run(["gcc", "-fsyntax-only", f"-I{installed.include}", "-aux-info", prototypes, source])
    if done.returncode != 0:
        raise tap.Skip("gcc does not tell what is declared")
    lines = [line for line in prototypes.read_text().splitlines() if f"{installed.include}/rota/" in line]
    names = {re.search(r"\b(\w+) \(", line.split("*/", 1)[1])[1] for line in lines if "*/ extern" in line}
    # Variables, which it does not tell.
    for path in installed.include.glob("rota/**/*.h"):
        names |= set(re.findall(r"^extern [^(\n]*?\b(rota_\w+)(?:\[\])?;", path.read_text(), re.MULTILINE))
    return names


@test
def the_library_exports_only_what_the_headers_declare():
    need("gcc")
    library = installed.lib / "librota.so.0"
    lines = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    shown = {words[-1] for words in lines if words[1] != "A"}
    assert {name.partition("@@")[2] for name in shown} == {"ROTA_0"}, shown
    names, expected = {name.partition("@@")[0] for name in shown}, declared()
    assert len(expected) > 100, expected
    assert not names - expected, f"shown, but declared in no public header: {sorted(names - expected)}"
    assert not expected - names, f"declared, but not in the library: {sorted(expected - names)}"


@test
def programs_and_library_find_their_libraries_without_help():
    """No path of the build directory is left in them."""
    for path in (installed.lib / "librota.so.0", *installed.only("bin").iterdir()):
        dynamic = run("readelf", "-d", path)
        assert "RPATH" not in dynamic and "RUNPATH" not in dynamic, dynamic
    assert "[librota.so.0]" in run("readelf", "-d", installed.lib / "librota.so"), "soname"


@test
def the_programs_print_the_version_of_the_package():
    for program in PROGRAMS:
        assert run(installed.only("bin") / program, "--version") == f"{program} {VERSION}\n"
    assert installed.flags("--modversion") == [VERSION]


# --- man pages ---

@test
def every_command_has_a_man_page():
    pages = {path.name for path in installed.man.iterdir()}
    expected = set()
    for program in PROGRAMS:
        expected.add(f"{program}.1")
        for command in installed.tables(program)["commands"]:
            name = "-".join([program, *(command["name"] or "").split()])
            page = (installed.man / f"{name}.1").read_text()
            expected.add(f"{name}.1")
            for option in command["options"]:
                option_name = option["name"].replace("-", "\\-")
                assert f"\\fB\\-\\-{option_name}\\fR" in page, (name, option_name)
    assert pages == expected, pages ^ expected


@test
def a_program_without_commands_has_one_man_page():
    assert [path.name for path in installed.man.glob("rotad*")] == ["rotad.1"]
    assert "\\fBrotad\\fR [OPTION...]" in (installed.man / "rotad.1").read_text()


@test
def man_pages_are_well_formed():
    need("mandoc")
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *installed.man.iterdir()],
                          capture_output=True, text=True)
    # They have no date, on purpose.
    problems = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert not problems and not done.stderr, (problems, done.stderr)


@test
def man_shows_its_pages_without_a_warning():
    need("man")
    for page in installed.man.iterdir():
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0 and not done.stderr, (page, done.stderr)


# --- completions ---

class Terminal:
    """A shell that somebody types into."""

    def __init__(self, *command):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", HOME=str(installed.work), HISTFILE="/dev/null")
            os.chdir(installed.work)
            os.execvp(command[0], command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def type(self, text, until):
        """Type and wait until the terminal shows something."""
        self.seen = b""
        os.write(self.fd, text.encode())
        give_up_at = time.monotonic() + WAIT
        while until.encode() not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, give_up_at - time.monotonic()))
            assert ready, f"typed {text!r}, no {until!r} in {self.seen!r}"
            self.seen += os.read(self.fd, 65536).replace(b"\a", b"")


CASES = [  # what is typed before the tab key, and what it becomes
    ("rota jo", "rota job "),
    ("rota job ad", "rota job add "),
    ("rota help job ca", "rota help job cancel "),
    ("rota route --part", "rota route --partition"),  # there are two
    ("rota route --names", "rota route --namespace"),
    ("rota route --mode sl", "rota route --mode slots "),
    ("rota route --mode=sl", "rota route --mode=slots "),
    ("rota config check some_f", "rota config check some_file "),
    ("rota plan --then-hosts some_f", "rota plan --then-hosts some_file "),
    ("rotad --drain", "rotad --drain-limit"),
    ("rotad --config some_f", "rotad --config some_file "),
    ("rotad --data some_d", "rotad --data some_directory/"),
    ("rotad --durability jo", "rotad --durability journal "),
    ("rotad --durability=jo", "rotad --durability=journal "),
]


@contextlib.contextmanager
def live_cases():
    """Names that a node knows: what is set in the shell, what is typed, and what it becomes."""
    bin = installed.only("bin")
    with subprocess.Popen([bin / "rota", "up", "--no-load", "--nodes", "1", "--json"], text=True, stdout=subprocess.PIPE,
                          env={**os.environ, "ROTA_ROTAD": str(bin / "rotad")}) as up:
        try:
            node = json.loads(up.stdout.readline())["nodes"][0]["grpc"]
            run(bin / "rota", "job", "add", "--node", node, "--queue", "letters", "hello")
            here = {"PATH": f"{bin}:{os.environ['PATH']}", "ROTA_NODE": node}
            nowhere = {**here, "ROTA_NODE": "127.0.0.1:1"}
            yield [
                (here, "rota queue show let", "rota queue show letters "),
                (here, "rota wait queue let", "rota wait queue letters "),
                (here, "rota job list --queue let", "rota job list --queue letters "),
                (here, "rota space show sam", "rota space show sample-shards "),
                (here, "rota shard list sam", "rota shard list sample-shards "),
                (here, "rota group status --name sam", "rota group status --name sample "),
                (here, "rota node drain no", "rota node drain node-1 "),
                (here, "rota shard list x --owner node", "rota shard list x --owner node-1 "),
                (nowhere, f"rota queue show --node {node} let", f"rota queue show --node {node} letters "),
            ], nowhere
        finally:
            up.terminate()


def complete_in(command, setup):
    """Each case in a terminal of its own, for what one has typed stays."""
    (installed.work / "some_file").touch()
    (installed.work / "some_directory").mkdir(exist_ok=True)
    with live_cases() as (cases, nowhere):
        # Nothing is offered, and nothing said, if no node answers: what is typed after it comes at once.
        for env, typed, expected in [*cases, (nowhere, "rota queue show let", "rota queue show let")]:
            exports = " ".join(f"{name}='{value}'" for name, value in env.items())
            with Terminal(*command) as terminal:
                terminal.type(f"export {exports}; {setup}; echo rea''dy\n", "ready")
                terminal.type(f"{typed}\t", expected)
                terminal.type("\x15echo sti''ll\n", "still")
                assert b"UNAVAILABLE" not in terminal.seen, terminal.seen
    for typed, expected in CASES:
        with Terminal(*command) as terminal:
            terminal.type(f"{setup}; echo rea''dy\n", "ready")
            terminal.type(f"{typed}\t", expected)


@test
def bash_completes_behind_the_tab_key():
    need("bash")
    directory = installed.share / "bash-completion" / "completions"
    run("bash", "-n", directory / "rota")
    run("bash", "-n", directory / "rotad")
    complete_in(["bash", "--norc", "--noprofile", "-i"], f"source {directory}/rota; source {directory}/rotad")


@test
def zsh_completes_behind_the_tab_key():
    need("zsh")
    directory = installed.share / "zsh" / "site-functions"
    run("zsh", "-n", directory / "_rota")
    run("zsh", "-n", directory / "_rotad")
    complete_in(["zsh", "-f", "-i"], f"fpath=({directory} $fpath); autoload -U compinit; compinit -u -D")


@test
def fish_knows_the_completions():
    need("fish")
    directory = installed.share / "fish" / "vendor_completions.d"
    run("fish", "--no-execute", directory / "rota.fish")
    run("fish", "--no-execute", directory / "rotad.fish")
    (installed.work / "some_file").touch()
    (installed.work / "some_directory").mkdir(exist_ok=True)
    for typed, expected in CASES:
        script = directory / f"{typed.split()[0]}.fish"
        lines = run("fish", "--no-config", "-c", f"source {script}; complete -C '{typed}'", cwd=installed.work,
                    env={**os.environ, "HOME": str(installed.work)}).splitlines()
        word = expected.strip().split(" ")[-1]
        assert any(line.startswith(word) for line in lines), (typed, lines)
    with live_cases() as (cases, nowhere):
        def offered(env, typed):
            return run("fish", "--no-config", "-c", f"source {directory}/rota.fish; complete -C '{typed}'",
                       cwd=installed.work, env={**os.environ, **env, "HOME": str(installed.work)}).splitlines()

        for env, typed, expected in cases:
            assert [line.split("\t")[0] for line in offered(env, typed)] == [expected.split()[-1]], typed
        assert offered(nowhere, "rota queue show let") == []


@test
def every_option_is_completed_in_every_shell():
    share = installed.share
    for program in PROGRAMS:
        bash = (share / "bash-completion" / "completions" / program).read_text()
        zsh = (share / "zsh" / "site-functions" / f"_{program}").read_text()
        fish = (share / "fish" / "vendor_completions.d" / f"{program}.fish").read_text()
        for command in installed.tables(program)["commands"]:
            name = command["name"]
            in_bash = re.search(rf"^    '{name or ''}'\) options='(.*?)'", bash, re.MULTILINE)[1].split()
            in_zsh, in_fish = zsh, f"complete -c {program}"
            if name:
                in_zsh = re.search(rf"^    '{name}'\)\n(.*?);;", zsh, re.MULTILINE | re.DOTALL)[1]
                in_fish = rf"_in \"{name}\"'"
            for option in command["options"]:
                assert f"--{option['name']}" in in_bash, (name, option)
                assert re.search(rf"--{option['name']}=?\[", in_zsh), (name, option)
                assert re.search(rf"{in_fish}.* -l {option['name']} ", fish), (name, option)


# --- the node ---

@test
def the_dashboard_and_the_alerts_are_installed():
    for name, source in (("rota.json", "grafana"), ("rota.rules.yml", "prometheus")):
        assert installed.only(name).read_text() == (SOURCE / "contrib" / source / name).read_text()


@test
def the_sample_of_settings_names_each_with_its_default():
    rotad, sample = installed.only("bin") / "rotad", installed.only("rotad.toml")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ROTA_")}
    lines = sample.read_text().splitlines()
    assert all(line.startswith("#") or not line for line in lines), lines
    defaults = run(rotad, "--print-config", env=environment)
    assert run(rotad, "--config", sample, "--print-config", env=environment) == defaults
    # With the marks taken away from those that have a default it says the same, from the file.
    named = {line.removeprefix("# ").split()[0]: not line.startswith("# ") for line in defaults.splitlines()}
    settings = [line[1:] for line in lines if re.match(r"#[a-z]", line)]
    assert [line.split()[0] for line in settings] == list(named), settings
    full = installed.work / "full.toml"
    full.write_text("\n".join(line for line in settings if named[line.split()[0]]) + "\n")
    values = [re.sub(" #.*", "", line) for line in defaults.splitlines() if not line.startswith("#")]
    told = run(rotad, "--config", full, "--print-config", env=environment).splitlines()
    assert [re.sub(" #.*", "", line) for line in told if not line.startswith("#")] == values, told
    assert str(full) in told[0], told


@test
def the_unit_starts_the_installed_program():
    unit = installed.only("rotad.service").read_text()
    program = "/" + str((installed.only("bin") / "rotad").relative_to(installed.root))
    assert f"\nExecStart={program} --config /etc/rota/rotad.toml" in unit, unit
    need("systemd-analyze")
    # There is no such user and no such program at its place here.
    path = installed.work / "rotad.service"
    path.write_text(unit.replace(f"={program} ", "=/bin/true ").replace("User=rota", "User=root"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True)
    assert "rotad.service" not in done.stderr, done.stderr


@test
def the_unit_leaves_the_node_little_to_do_harm_with():
    """By systemd's own count, in tenths of 0 (nothing) to 10. Sockets are most of what is left."""
    need("systemd-analyze")
    run("systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager",
        installed.only("rotad.service"))


# --- all of it ---

@contextlib.contextmanager
def directories():
    with tempfile.TemporaryDirectory(prefix="rota_install_") as top:
        root, work = pathlib.Path(top, "root"), pathlib.Path(top, "work")
        root.mkdir()
        work.mkdir()
        yield root, work


def main():
    global installed
    os.environ.pop("LD_LIBRARY_PATH", None)  # the build directory's
    with directories() as (root, work):
        installed = Installed(root, work)
        return tap.run(names=sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
