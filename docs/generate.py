"""Writes the generated parts of docs/: what stands between the lines
`<!-- begin NAME -->` and `<!-- end NAME -->` is the output of a program.

usage: generate.py BUILD_DIRECTORY [--check]

With --check nothing is written; each part that is out of date is a failed test
(results as TAP)."""
import pathlib
import re
import subprocess
import sys

PARTS = [
    # file, name of the part, program in the build directory and its arguments
    ("cli.md", "commands", ["src/cli/rota", "help", "--markdown"]),
    ("node.md", "settings", ["docs/table_node"]),
    ("placement.md", "movement", ["bench/table_movement"]),
    ("store.md", "tables", ["docs/table_store", "tables"]),
    ("store.md", "mysql", ["docs/table_store", "mysql"]),
    ("store.md", "postgres", ["docs/table_store", "postgres"]),
    ("store.md", "upgrade", ["docs/table_store", "upgrade"]),
]


def main():
    build, check = pathlib.Path(sys.argv[1]), "--check" in sys.argv[2:]
    docs = pathlib.Path(__file__).resolve().parent
    stale = 0
    for number, (file, name, (program, *arguments)) in enumerate(PARTS, 1):
        path = docs / file
        text = path.read_text()
        output = subprocess.run(
            [build / program, *arguments], check=True, capture_output=True, text=True
        ).stdout
        pattern = re.compile(
            rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->\n)", re.DOTALL
        )
        fresh, n_parts = pattern.subn(lambda m: m[1] + output + m[2], text)
        if n_parts != 1:
            sys.exit(f"generate.py: {file} has {n_parts} parts called {name}")
        is_stale = fresh != text
        stale += is_stale
        if check:
            print(f"{'not ok' if is_stale else 'ok'} {number} - docs/{file}: {name} is up to date")
        elif is_stale:
            path.write_text(fresh)
            print(f"docs/{file}: {name} written anew")
    if check:
        print(f"1..{len(PARTS)}")
    return 1 if check and stale else 0


sys.exit(main())
