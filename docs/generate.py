"""Writes the generated parts of docs/: what stands between the lines
`<!-- begin NAME -->` and `<!-- end NAME -->` is the output of a program, or comes from the sources
(reference.py), and the pages of docs/api/ come from the public headers (api.py).

usage: generate.py BUILD_DIRECTORY [--check]

With --check nothing is written; each part that is out of date is a failed test
(results as TAP)."""
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # beside the sources
import api
import reference

DOCS = pathlib.Path(__file__).resolve().parent
PARTS = [
    # file, name of the part, a function of the build directory, or a program there with arguments
    ("cli.md", "commands", ["src/cli/rota", "help", "--markdown"]),
    ("configuration.md", "settings", ["docs/table_node"]),
    ("environment.md", "commands", reference.command_variables),
    ("environment.md", "settings", reference.node_variables),
    ("environment.md", "exits", reference.exit_codes),
    ("http-api.md", "http", lambda build: reference.http_api()),
    ("limits.md", "limits", lambda build: reference.limits()),
    ("metrics.md", "metrics", lambda build: reference.metrics()),
    ("placement.md", "movement", ["bench/table_movement"]),
    ("store.md", "tables", ["docs/table_store", "tables"]),
    ("store.md", "mysql", ["docs/table_store", "mysql"]),
    ("store.md", "postgres", ["docs/table_store", "postgres"]),
    ("store.md", "upgrade", ["docs/table_store", "upgrade"]),
    ("store.md", "grants", ["docs/table_store", "grants"]),
]


def program_parts(build):
    """What each file with generated parts is called and has, and should have."""
    for file, name, source in PARTS:
        path = DOCS / file
        text = path.read_text()
        if callable(source):
            output = source(build)
        else:
            program, *arguments = source
            output = subprocess.run(
                [build / program, *arguments], check=True, capture_output=True, text=True
            ).stdout
        pattern = re.compile(
            rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->\n)", re.DOTALL
        )
        fresh, n_parts = pattern.subn(lambda m: m[1] + output + m[2], text)
        if n_parts != 1:
            sys.exit(f"generate.py: {file} has {n_parts} parts called {name}")
        yield path, f"docs/{file}: {name}", text, fresh


def api_pages():
    """The same for pages as a whole. One that should not be there has nothing to have."""
    fresh = api.pages(DOCS.parent / "include" / "rota")
    there = {path.name for path in (DOCS / "api").glob("*.md")}
    for name in sorted(fresh.keys() | there):
        path = DOCS / "api" / name
        yield path, f"docs/api/{name}", path.read_text() if name in there else None, fresh.get(name)


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


def main():
    build, check = pathlib.Path(sys.argv[1]), "--check" in sys.argv[2:]
    stale = number = 0
    for parts in (program_parts(build), api_pages()):
        for path, name, text, fresh in parts:
            number += 1
            stale += fresh != text
            if check:
                print(f"{'ok' if fresh == text else 'not ok'} {number} - {name} is up to date")
            elif fresh != text:
                write(path, fresh)
                print(f"{name} updated")
    if check:
        print(f"1..{number}")
    return 1 if check and stale else 0


sys.exit(main())
