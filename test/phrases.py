#!/usr/bin/env python3
"""Finds phrases that a reader would stumble over, with their places: phrases.py [FILE...].

Without files it reads what people read: README.md and the other pages, what the programs print as
help (by their tables in src/), every string literal of src/, the comments of proto/ and
include/rota/, and the texts of web/. Prints FILE:LINE: PHRASE; what to write instead. Exits 1 if
there is one."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A phrase as a pattern, and what to write instead.
PHRASES = {
    r"\banew\b": "again",
    r"\bwhoever\b": "name the actor",
    r"\bnobody\b": "no node, no worker: name the actor",
    r"(?<!there )\b(is|are|was|were) no (?!such\b|longer\b|more\b|other\b|way\b)\w+": "is not a ...",
    r"\b(is|are|was|be|been) away\b": "unreachable, down",
    r"\bin good order\b": "cleanly, gracefully",
    r"\bfor good\b": "durably, permanently",
    r"\bholds? (still|for dead|for silent)\b": "pauses; marks as dead",
    r"\bheld for dead\b": "considered dead",
    r"\bthe least (?!recently|loaded)": "the minimum",
    r"\btold of\b": "notified of",
    r"\b(is|are) told\b": "is reported, is notified",
    r"\btells? (who|what|how|when|whether|why|where)\b": "says, shows, reports",
    r"\bheard of\b": "known, seen",
    r"\bto be had\b": "available",
    r"\bany more\b": "no longer",
    r"\bno more\b(?! (than|jobs|calls|of its|are allowed|replicas|lives))": "no longer",
    r"\bas hard as can be\b": "with kill -9",
    r"\bwho (only )?(looks?|asks?|waits?|comes?|says?)\b": "name the actor",
    r"\bsomebody\b": "another process, a user: name the actor",
    r"\b(a|the|each|this|that) moment\b": "time, timestamp",
    r"\bmoments\b": "times, timestamps",
    r"\bfor ever\b": "forever",
    r"\bfail-over\b": "failover",
    r"\bexit code 1 when\b": "exits 1 if",
    r"\bdata centres?\b": "data center",
}
PATTERN = re.compile("|".join(f"(?P<p{i}>{p})" for i, p in enumerate(PHRASES)), re.IGNORECASE)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def blank(text):
    """The same lines, with nothing in them."""
    return "\n" * text.count("\n")


def only(pattern, text):
    """What matches, in its place; lines stay the lines they are."""
    out, at = [], 0
    for found in pattern.finditer(text):
        out += [blank(text[at:found.start()]), " ", found[0]]
        at = found.end()
    return "".join([*out, blank(text[at:])])


def readable(path):
    text = path.read_text()
    if path.suffix == ".md":
        return re.sub(r"```.*?```|`[^`\n]*`", lambda code: blank(code[0]), text, flags=re.DOTALL)
    if path.suffix == ".c" or "src" in path.parts:
        return only(LITERAL, COMMENT.sub(lambda comment: blank(comment[0]), text))
    if path.suffix in (".h", ".proto"):
        return only(COMMENT, text)
    return only(LITERAL, COMMENT.sub(lambda comment: blank(comment[0]), text))


def find(path):
    for number, line in enumerate(readable(path).splitlines(), 1):
        for found in PATTERN.finditer(line):
            instead = list(PHRASES.values())[int(found.lastgroup[1:])]
            yield f"{path.relative_to(ROOT)}:{number}: {found[0]!r}; {instead}"


def pages():
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "src/**/*.[ch]", "include/rota/*.h", "proto/**/*.proto", "web/*.js"):
        yield from sorted(ROOT.glob(pattern))


def main():
    found = [line for path in ([pathlib.Path(name).resolve() for name in sys.argv[1:]] or pages()) for line in find(path)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
