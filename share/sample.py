"""Writes a file of settings in which each is explained, with its default, and none is made.

usage: sample.py rotad

What each means comes from `rotad help --json`, how it is written from `rotad --print-config`."""
import json
import os
import re
import subprocess
import sys
import textwrap

START = """\
# Settings of a Rota node. Each one below has its default and is commented out; what a program
# is told by its environment (ROTA_DRAIN_LIMIT for drain-limit) or on its command line counts
# more than what stands here.
#
#     rotad --config FILE --check-config    whether this file is sound
#     rotad --config FILE --print-config    what is in force, and where it came from
#     systemctl reload rotad                take in what can change while it runs
#
# Texts and spans ("30s") stand in quotes; numbers, true and false do not.
"""


def main():
    rotad = sys.argv[1]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ROTA_")}

    def ask(*words):
        return subprocess.run([rotad, *words], check=True, capture_output=True, text=True,
                              env=environment).stdout

    (command,) = json.loads(ask("help", "--json"))["commands"]
    told = {option["name"]: option for option in command["options"]}
    print(START, end="")
    for line in ask("--print-config").splitlines():
        setting, value = line.removeprefix("# ").partition(" #")[0].split(" = ", 1)
        option = told[setting]
        limits = re.sub(r"(; )?default .*", "", option["notes"])
        text = option["help"][0].upper() + option["help"][1:] + (f" ({limits})." if limits else ".")
        print()
        print("\n".join(textwrap.wrap(text, 94, initial_indent="# ", subsequent_indent="# ")))
        # What has no default shows what kind of thing is meant.
        print(f"#{setting} =", f'"{option["value"]}"' if line.startswith("# ") else value)


main()
