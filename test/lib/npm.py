"""Packages from npm for tests, installed into the build directory as a lock file says."""
import fcntl
import os
import shutil
import subprocess


class Missing(Exception):
    """A tool that is needed is not there."""


def run_npm(source, directory):
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(source, name), directory)
    npm = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1",
         "--fetch-timeout=30000"], cwd=directory, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if npm.returncode != 0:
        raise Missing("npm could not install what is needed: " + " ".join(npm.stdout.split())[:300])


def install(source, build):
    """The environment in which node finds what the lock file in `source` names. It is installed
    below `build` when that has changed; other tests that need it may run beside this one."""
    directory = os.path.join(build, "node")
    with open(os.path.join(source, "package-lock.json"), encoding="utf-8") as file:
        wanted = file.read()
    stamp = os.path.join(directory, "installed")
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise Missing(f"there is no {tool}")
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(build, "node.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(stamp) or open(stamp, encoding="utf-8").read() != wanted:
            run_npm(source, directory)
            with open(stamp, "w", encoding="utf-8") as file:
                file.write(wanted)
    return {"NODE_PATH": os.path.join(directory, "node_modules"), "NODE_NO_WARNINGS": "1"}
