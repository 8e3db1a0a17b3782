"""Checks that the tests exist that the docs name, that no row is without a test, that links between
pages lead somewhere, to a heading too, that options exist, and that docs/environment.md has every
variable.

usage: check_tests.py

A test program is named `unit/test_x`, or `test_x` for short; its tests follow it, as in
`test_x`: `one_rule`, `another`. Results are TAP."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "docs" / "hacking").glob("*.md")), ROOT / "examples" / "README.md"]

# The rows of the systems that Rota is compatible with, as docs/calls.md tells: a letter,
# and how many there are. L14 is bench_balance.
ROWS = {"c": 21, "e": 30, "k": 10, "l": 13, "p": 8, "r": 3}

# Options that are in no table: of Meson, of the benchmarks, of test/headers/abi.py, and of rota and rotad
# themselves.
OTHERS = {"--prefix", "--libdir", "--mandir", "--destdir", "--quick", "--version", "--print-config", "--update"}

PROGRAM = re.compile(r"`(?:(unit|sim|integration)/)?((?:test|sim)_\w+)(?:\.py)?`(:(?: `\w+`,?)+)?")


def find(where, name):
    """The text of a program's tests."""
    folder = ROOT / "test"
    paths = [path for end in ("c", "py") for path in folder.glob(f"{where or '*'}/{name}.{end}")]
    return "".join(path.read_text() for path in paths)


def check_page(page):
    for folder, name, tests in PROGRAM.findall(page.read_text()):
        text = find(folder, name)
        if not text:
            yield f"there is no {name}"
        for test in re.findall(r"`(\w+)`", tests):
            if not re.search(rf"(TEST|RULE|_test|SYNC_CHECK)\({test}\)|^def {test}\(", text, re.MULTILINE):
                yield f"{name} has no test {test}"


def prose_of(page):
    return re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)


def anchors_of(page):
    """The fragments of its headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", each)).lower().replace(" ", "-")
            for each in headings}


def check_links(page):
    for link, fragment in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose_of(page)):
        target = page.parent / link if link else page
        if "://" in link:
            continue
        if not target.exists():
            yield f"there is no {link}"
        elif fragment and fragment not in anchors_of(target):
            yield f"{link or page.name} has no heading for #{fragment}"


def check_environment():
    text = (ROOT / "docs" / "environment.md").read_text()
    for path in (ROOT / "src").glob("**/*.c"):
        names = re.findall(r'(?:getenv|from_environment|choose|read_number|variable)\([^()]*"([A-Z_]+)"', path.read_text())
        yield from (f"{path.relative_to(ROOT)} reads or sets {name}" for name in names if f"`{name}`" not in text)


def check_paths(page):
    """Files and folders that a page names exist."""
    for path in re.findall(r"`((?:src|include|test|proto|web|docs)/[\w./]+)`", page.read_text()):
        if not (ROOT / path).exists():
            yield f"there is no {path}"


def options_of_programs():
    """The options that the pages of commands and settings name, and those of ./dev."""
    text = "".join((ROOT / name).read_text() for name in ("docs/cli.md", "dev", "src/node/rotad.c"))
    settings = re.findall(r"^\| `([\w-]+)`", (ROOT / "docs" / "configuration.md").read_text(), re.MULTILINE)
    return {*re.findall(r"--[a-z][\w-]+", text), *(f"--{name}" for name in settings)}


def check_options(page):
    """Options that a page names, in its text or after `rota` in an example, exist."""
    known = options_of_programs() | OTHERS
    spans = re.findall(r"`([^`\n]+)`|^    (rotad? .*)$", prose_of(page), re.MULTILINE)
    for span in ("".join(each).split(" -- ")[0].split(" #")[0] for each in spans):
        if re.match(r"--|rotad? |\./dev ", span):
            yield from (f"there is no option {name}" for name in re.findall(r"(?<!\S)--[a-z][\w-]+", span)
                        if name not in known)


def check_rows():
    names = []
    for path in ROOT.glob("test/*/*.c"):
        names += re.findall(r"cmocka_unit_test\((\w+)\)", path.read_text())
    for letter, n in ROWS.items():
        for number in range(1, n + 1):
            if not any(f"_{letter}{number}_" in f"_{name}" for name in names):
                yield f"row {letter.upper()}{number} has no test"


def main():
    api = sorted((ROOT / "docs" / "api").glob("*.md"))
    checks = [(f"{page.relative_to(ROOT)}: tests exist", check_page(page)) for page in PAGES]
    checks += [(f"{page.relative_to(ROOT)}: files exist", check_paths(page)) for page in PAGES]
    checks += [(f"{page.relative_to(ROOT)}: options exist", check_options(page)) for page in PAGES
               if page.name != "CHANGELOG.md"]  # which names what is gone
    checks += [("rows have tests", check_rows()), ("docs/environment.md has every variable", check_environment())]
    checks += [(f"{page.relative_to(ROOT)}: links lead somewhere", check_links(page)) for page in PAGES + api]
    failed = 0
    print(f"1..{len(checks)}")
    for number, (name, problems) in enumerate(checks, 1):
        problems = list(problems)
        failed += bool(problems)
        print("not ok" if problems else "ok", number, "-", name)
        for problem in problems:
            print(f"# {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
