#!/usr/bin/env python3
"""Finds phrases that a reader would stumble over, with their places: phrases.py [FILE...].

Without files it reads what people read: README.md and the other pages, every string literal of src/
(help, errors, log lines, metric help), the comments of src/, proto/ and include/rota/, the examples,
the texts of web/, the texts of packages and alerts, and the names of tests. Prints FILE:LINE: PHRASE;
what to write instead. Exits 1 if there is one. `./dev check` runs it."""
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
    r"\btold\b": "reported, notified, given",
    r"\bheard\b": "last heartbeat, received",
    r"\bunder way\b": "in progress, in flight",
    r"\b(is|are|be) there (already|twice)\b": "exists already; is a duplicate",
    r"(?<!there )\b(is|are|was) none\b": "is not one; there is none",
    r"\bbehind (it|them|that|the (comma|key|host|last|point|end|name))\b": "after",
    r"\b(lies|stands?|lie) (before|behind|in quotes)\b": "is before, is after",
    r"\b(on its|on their) way\b": "in handover, in flight, moving",
    r"\bpassed over\b": "skipped",
    r"\bturned away\b": "rejected",
    r"\b(taken|takes?) in\b": "accepted",
    r"\b(take|takes|taken) back\b": "undrain, reclaim, cancel",
    r"\bsigns? of life\b": "heartbeat",
    r"\bby way of\b": "through",
    r"\b(is|are|was|were|be) looked at\b": "is checked, is examined",
    r"\bonlookers?\b": "observer",
    r"\bspans? of time\b": "duration",
    r"\bless than nothing\b": "negative",
    r"\bbeyond doubt\b": "exactly one",
    r"\bfor want of\b": "for lack of",
    r"\bwho (owns|has|does) what\b": "ownership, the owners",
    r", for (it|that node|there|they|he|one)\b": "because",
    r"\bas it should be\b": "say what is expected",
    r"\b(draws?|draw a) breath\b": "yields a slot",
    r"\bit (comes|came)\b(?! (from|back)\b)": "name the subject",
    r"\bto begin with\b": "initial",
    r"\bcannot be had\b": "is unavailable",
    r"\bprocessor time\b": "CPU time",
    r"\bgives? (a node|it) nothing\b": "assigns no work to",
    r"\bgoes on\b": "continues, resumes",
    r"\bsound settings?\b|\bis sound\b": "is valid",
    r"\bthat cannot be$": "is invalid",
    r"\b(others|other people) can (read|change|write)\b": "other users can",
    r"\bstands? still\b": "stalls, is paused",
    r"\bis on \S+ since\b": "has been on X since",
    r"\bfor its owner's eyes\b": "readable only by its owner",
    r"\b(not|isn't) ours to\b": "belongs to another worker",
    r"\bas far as there (is|are)\b": "if there is",
    r"\b(is|are) looked for\b": "finds, searches",
    r"\bwhich is the bound\b|\babove the bound\b": "the limit",
    r"\bcannot be run\b": "cannot run X",
    r"\bthe time (since|until) which\b": "when, until when",
    r"\bno memory (for|to)\b": "not enough memory: rota_error_no_memory()",
    r"\bnode beat\b": "node heartbeat",
    r"\bis silent\b": "is unresponsive, does not answer",
    r"\bseat [%\d]": "entry of the node list",
    r"\bwhat is missing is\b": "missing things are",
    r"\bthat things happen to\b": "under chaos, with faults",
    r"\bhas to have been\b": "must be; verifies that",
    r"\bbear the loss\b": "absorb the loss",
    r"\bis our own, for\b": "we implement it ourselves, because",
    r"\bin a clone of it\b": "from a clone",
    r"\bevener\b": "more even",
    r"\bhold (an? \w+|\w+|it) for (dead|nobody)\b": "mark as dead",
    r"\bpretended\b": "simulated",
    r"\bof which one\b": "one that answers",
    r"\bask (other machines|by TLS)\b": "connect to; use TLS",
    r"\bbelieves? (these|those|the) (authorit|certificate)|\bauthorities that are believed\b": "trusts the CAs",
    r"\bwhom to\b": "which node, which worker: name the actor",
    r"\bit draws on\b": "top needs a terminal",
    r"\bkeeps the clock\b": "the clock is synchronized",
    r"\bwho has it\b": "the process that uses it",
    r"; that there is none\b": "a missing key, a missing value",
    r"\bsays the (store|node|server)\b": "the store did not answer, lists no ...",
    r"\bin no (useful |particular )?order\b": "unordered",
    r"\bnot begun\b": "not started",
    r"\blost in attempt\b": "attempt N lost: worker disconnected",
    r"\bthere should be at most\b|\bthan can be taken\b": "at most N allowed",
    r"\bhas too many entries\b": "N given, at most M allowed",
    r"\bthat needs nothing\b": "without required capabilities",
    r"\bseconds from now\b": "delay (seconds)",
    r"\b(is|are) like that\b": "matches",
    r"\bof one letter\b": "single-key",
    r"\balike for all\b": "shared by all",
    r"\bno way back to\b": "to downgrade, restore",
    r"\balso wants?\b": "also needs",
    r"\banswered with none\b": "returns an empty list",
    r"\b(?<!someone )(?<!people )(?<!users )(?<!those )(?<!one )(?<!anyone )who does(n't| not)\b": "name the actor",
    r"\bit is not, and why\b": "say what is reported",
    r"\bwhat became of\b": "the outcome of",
    r"\bit will never do\b": "it can never succeed",
    r"\bon an error no\b": "if this returns an error, ... is not called",
    r"\bbe had\b": "is available, was rejected",
    r"\bcan't\b": "cannot",
    r"\bwhich is the limit\b": "N are already in use, the maximum",
    r", at most \S+ (is|are) allowed\b": "X has N bytes; at most M are allowed",
}
# What a comment in src/ may say, because it means just that there.
IN_COMMENTS = re.compile(r"no memory|NOBODY|is NONE|, for one\b|\bcan't\b", re.IGNORECASE)
PATTERN = re.compile("|".join(f"(?P<p{i}>{p})" for i, p in enumerate(PHRASES)), re.IGNORECASE)
FIELDS = {'"told"', '"node beat"'}  # strings that are names: a JSON field, an old command
CODE = re.compile(r"`[^`\n]*`")
# A comment, or a string; each may contain what looks like the other.
TOKEN = re.compile(r'(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)', re.DOTALL)


def blank(text):
    """The same lines, with nothing in them."""
    return "\n" * text.count("\n")


TEST = re.compile(r"(?:static void (\w+)\(void \*\*|def (\w+)\()")


def name_of_test(line):
    """The name of a test as a sentence, which is the rule that it shows."""
    found = TEST.match(line)
    return (found[1] or found[2]).replace("_", " ") if found else ""


def only(kind, text):
    """The comments or the strings, in their places; lines stay the lines they are."""
    out, at = [], 0
    for found in TOKEN.finditer(text):
        is_read = found[kind] and found[0] not in FIELDS
        out += [blank(text[at:found.start()]), " ", found[0] if is_read else blank(found[0])]
        at = found.end()
    return "".join([*out, blank(text[at:])])


def readable(path):
    """What people read of a file."""
    text = path.read_text()
    if path.name.startswith("test_"):
        return "\n".join(map(name_of_test, text.splitlines()))
    if path.suffix == ".md":
        return re.sub(r"```.*?```|`[^`\n]*`", lambda code: blank(code[0]), text, flags=re.DOTALL)
    if path.suffix == ".proto" or (path.suffix == ".h" and path.parent.name == "rota"):
        return CODE.sub("", only("comment", text))
    if "examples" in path.parts:
        return text  # to be read as a whole
    if path.suffix == ".json":
        return re.sub(r'^ *(?!"(?:summary|description)"|[ ]).*$', "", text, flags=re.MULTILINE)
    if path.suffix in (".c", ".h") and path.is_relative_to(ROOT / "src"):
        comments = IN_COMMENTS.sub("", CODE.sub("", only("comment", text))).splitlines()
        return "\n".join(map(" ".join, zip(only("string", text).splitlines(), comments)))
    if path.suffix in (".c", ".h", ".js", ".py"):
        return only("string", text)
    return text


def find(path):
    for number, line in enumerate(readable(path).splitlines(), 1):
        for found in PATTERN.finditer(line):
            instead = list(PHRASES.values())[int(found.lastgroup[1:])]
            yield f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{number}: {found[0]!r}; {instead}"


def pages():
    for pattern in ("*.md", "dev", "docs/**/*.md", "examples/**/*", "src/**/*.[ch]", "include/rota/**/*.h", "proto/**/*.proto",
                    "web/*.js", "web/*.html", "web/openapi.json", "share/*.py", "debian/control", "contrib/**/*.yml", "test/**/test_*.c",
                    "test/**/test_*.py"):
        yield from sorted(path for path in ROOT.glob(pattern) if path.is_file())


def main():
    found = [line for path in ([pathlib.Path(name).resolve() for name in sys.argv[1:]] or pages()) for line in find(path)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
