"""Writes the linker's map of the library: what the public headers declare is visible, with the
version of the interface, and nothing else is.

usage: symbols.py VERSION HEADER... >MAP

The headers are the one list of the interface, so that there is no second one to keep."""
import pathlib
import re
import sys


def declared(text):
    """The names that a header declares and does not define itself."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.MULTILINE)
    text = re.sub(r'extern\s+"C"\s*\{', " ", text)
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)(?=\s*;)", " ", text, flags=re.DOTALL)
    while "{" in text:  # what stands in braces, from the inside out
        text = re.sub(r"\{[^{}]*\}", ";", text)
    for statement in text.split(";"):
        if re.match(r"\s*(typedef|static)\b", statement):
            continue
        if variable := re.match(r"\s*extern\b[^()]*?\b(rota_\w+)\s*(?:\[[^]]*\])?\s*$", statement):
            yield variable[1]
        elif function := re.match(r"[\s\w*]*?\b(rota_\w+)\s*\(", statement):
            yield function[1]


def main():
    version, *headers = sys.argv[1:]
    names = {name for path in headers for name in declared(pathlib.Path(path).read_text())}
    if not names:
        sys.exit("symbols.py: the headers declare nothing")
    print(f"{version} {{\n  global:")
    for name in sorted(names):
        print(f"    {name};")
    print("  local:\n    *;\n};")


main()
