"""Writes a file of settings that explains each of them, with its default, and sets none.

usage: sample.py rotad

The explanations come from `rotad help --json`, the values from `rotad --print-config`."""
import json
import os
import re
import subprocess
import sys
import textwrap

START = """\
# Settings of a Rota node. Each one below is commented out and shows its default. The environment
# (ROTA_DRAIN_LIMIT for drain-limit) overrides this file, and the command line overrides both.
#
#     rotad --config FILE --check-config    check this file
#     rotad --config FILE --print-config    print the settings in force and where each comes from
#     systemctl reload rotad                reload the settings that can change at run time
#
# Put text and durations ("30s") in quotes, but not numbers, true and false.
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
        # A setting without a default shows the kind of value.
        print(f"#{setting} =", f'"{option["value"]}"' if line.startswith("# ") else value)


main()
