"""Looks at the dashboard in Chromium: run.py BUILD_DIRECTORY PROGRAM.js [ARGUMENT...].

What drives the browser is installed into the build directory at the first run. Where a tool or a
network is missing the tests are skipped, which `./dev test --ci` takes as a failure."""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import npm  # noqa: E402


def main():
    build, *words = sys.argv[1:]
    try:
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        if not browser:
            raise npm.Missing("there is no chromium")
        environment = npm.install(HERE, build)
    except npm.Missing as missing:
        print(f"1..0 # SKIP {missing}")
        return 0
    os.execvpe("node", ["node", *words], {**os.environ, **environment, "ROTA_CHROMIUM": browser})


sys.exit(main())
