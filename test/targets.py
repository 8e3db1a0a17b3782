"""What has to be built for tests: targets.py BUILD [SUITE], the files for ninja, one per line."""
import json
import os
import pathlib
import sys


def main():
    build, *suites = sys.argv[1:]
    info = pathlib.Path(build) / "meson-info"
    tests = json.loads((info / "intro-tests.json").read_text(encoding="utf-8"))
    files = {target["id"]: target["filename"]
             for target in json.loads((info / "intro-targets.json").read_text(encoding="utf-8"))}
    needed = {name for test in tests if not suites or {f"rota:{suite}" for suite in suites} & set(test["suite"])
              for target in test["depends"] for name in files.get(target, [])}
    for name in sorted(needed):
        print(os.path.relpath(name, build))


main()
