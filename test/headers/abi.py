"""Guards the interface of the library: compares what the public headers declare with librota.abi,
which was written when somebody last meant to change it. Prints TAP.

usage: abi.py [--update] [COMPILER...]

The file has the name of each declaration and a checksum of its text, as the compiler reads it. So a
function that is gone or takes other arguments is noticed, and so are a structure with other members and
an enum with other values."""
import pathlib
import re
import subprocess
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.dont_write_bytecode = True  # beside the sources
import tap  # noqa: E402
from tap import test  # noqa: E402

INCLUDE = HERE.parent.parent / "include"
RECORD = HERE / "librota.abi"
update = "--update" in sys.argv
compiler = [word for word in sys.argv[1:] if word != "--update"] or ["cc"]


def preprocessed():
    """The text of the public headers, without that of others which they include."""
    text = subprocess.run([*compiler, "-E", "-I", INCLUDE, "-x", "c", INCLUDE / "rota" / "rota.h"], check=True,
                          capture_output=True, text=True).stdout
    is_ours = False
    for line in text.splitlines():
        if marker := re.match(r'# \d+ "(.*?)"', line):
            is_ours = marker[1].startswith(str(INCLUDE))
        elif is_ours and not line.startswith("#"):
            yield line


def declarations():
    """Pairs of a name and a text. An enum without a name goes by its first constant."""
    text, depth, found = " ".join(preprocessed()), 0, ""
    for part in re.split(r"([{};])", text):
        depth += (part == "{") - (part == "}")
        found += part
        is_body = part == "}" and depth == 0 and "static inline" in found
        if (part == ";" and depth == 0) or is_body:
            found = " ".join(found.split())
            # A function in a header becomes part of the program, and a tag alone promises nothing.
            if not is_body and not re.fullmatch(r"(struct|union|enum) \w+;", found):
                tag = re.match(r"((?:struct|union|enum) \w+) \{", found)
                yield tag[1] if tag else re.search(r"\brota_\w+(?=\(|\[|;)|\bROTA_\w+", found)[0], found
            found = ""


def current():
    return {name: f"{zlib.crc32(text.encode()):08x}" for name, text in declarations()}


@test
def each_declaration_has_a_name_of_its_own():
    names = [name for name, _ in declarations()]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)


@test
def the_interface_is_the_recorded_one():
    recorded, now = dict(line.rsplit(maxsplit=1) for line in RECORD.read_text().splitlines()), current()
    changes = [f"{what}: {name}" for what, names in (
        ("gone", recorded.keys() - now.keys()),
        ("changed", {name for name in recorded.keys() & now.keys() if recorded[name] != now[name]}),
        ("new", now.keys() - recorded.keys()),
    ) for name in sorted(names)]
    assert not changes, "\n".join(["", *changes, "CONTRIBUTING.md says what to do if you mean this"])


@test
def options_have_room_to_grow():
    options = [text for _, text in declarations() if re.match(r"struct rota_\w+_options \{", text)]
    assert len(options) > 10, options
    for text in options:
        assert re.search(r"; void \*reserved\[\d\]; \};$", text), text


if update:
    RECORD.write_text("".join(f"{name} {sum}\n" for name, sum in sorted(current().items())))
else:
    sys.exit(tap.run(names=[]))
