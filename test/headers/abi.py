"""Guards the interface of the library: compares what the public headers declare with librota.abi,
which was written when somebody last meant to change it. Prints TAP.

usage: abi.py [--update] [COMPILER...]

The file has the name of each declaration and a checksum of its text, as the compiler reads it. So a
function that is gone or takes other arguments is noticed, and so are a structure with other members and
an enum with other values. A structure also has its size and the offsets of its members, on x86-64: a
new option that takes reserved room changes the text, but neither size nor offsets."""
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.dont_write_bytecode = True  # beside the sources
import tap  # noqa: E402
from tap import test  # noqa: E402

INCLUDE = HERE.parent.parent / "include"
RECORD = HERE / "librota.abi"
LAYOUT = HERE / "librota.layout"
update = "--update" in sys.argv
compiler = [word for word in sys.argv[1:] if word != "--update"] or ["cc"]


def preprocessed():
    """The text of the public headers, without that of others which they include."""
    text = subprocess.run([*compiler, "-E", "-I", INCLUDE, "-x", "c", INCLUDE / "rota" / "experimental" / "rota.h"], check=True,
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


def members(text):
    """The names of a structure's members, with those of unions in it that have no name."""
    body, names = re.fullmatch(r"struct \w+ \{(.*)\};", text)[1], []
    body = re.sub(r"union \{([^{}]*)\} ?;", r"\1", body)
    for member in filter(str.strip, body.split(";")):
        if pointer := re.search(r"\(\*(\w+)\)\(", member):
            names.append(pointer[1])
        else:
            names += [re.search(r"(\w+)(?: ?\[[^]]*\])*$", part.strip())[1] for part in member.split(",")]
    return names


def layouts():
    """By structure: its size, and the offset of each member."""
    structures = {name: members(text) for name, text in declarations()
                  if name.startswith("struct ") and text.endswith("};")}
    lines = []
    for name, fields in structures.items():
        lines.append(f'printf("{name}\\t%zu", sizeof({name}));')
        lines += [f'printf(" {field}:%zu", offsetof({name}, {field}));' for field in fields]
        lines.append('puts("");')
    with tempfile.TemporaryDirectory() as directory:
        source, program = pathlib.Path(directory, "layout.c"), pathlib.Path(directory, "layout")
        source.write_text("#include <rota/experimental/rota.h>\n#include <stddef.h>\n#include <stdio.h>\n"
                          "int main(void)\n{\n" + "\n".join(lines) + "\n}\n")
        subprocess.run([*compiler, "-I", INCLUDE, "-o", program, source], check=True)
        text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(line.split("\t") for line in text.splitlines())


def recorded(path):
    return dict(line.split("\t") for line in path.read_text().splitlines())


def write(path, facts):
    path.write_text("".join(f"{name}\t{fact}\n" for name, fact in sorted(facts.items())))


@test
def each_declaration_has_a_name_of_its_own():
    names = [name for name, _ in declarations()]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)


@test
def the_interface_is_the_recorded_one():
    before, now = recorded(RECORD), current()
    changes = [f"{what}: {name}" for what, names in (
        ("gone", before.keys() - now.keys()),
        ("changed", {name for name in before.keys() & now.keys() if before[name] != now[name]}),
        ("new", now.keys() - before.keys()),
    ) for name in sorted(names)]
    assert not changes, "\n".join(["", *changes, "CONTRIBUTING.md says what to do if you mean this"])


@test
def structures_have_the_recorded_layout():
    if platform.machine() != "x86_64":
        raise tap.Skip("the layout was recorded on x86-64")
    before, now = recorded(LAYOUT), layouts()
    assert len(now) > 50, now
    changes = [f"{name}: {before.get(name, 'new')}\n  is now {now.get(name, 'gone')}"
               for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    assert not changes, "\n".join(["", *changes, "CONTRIBUTING.md says what to do if you mean this"])


@test
def a_stable_header_includes_no_experimental_one():
    for path in (INCLUDE / "rota").glob("*.h"):
        assert "#include <rota/experimental/" not in path.read_text(), path


@test
def options_have_room_to_grow():
    options = [text for _, text in declarations() if re.match(r"struct rota_\w+_options \{", text)]
    assert len(options) > 10, options
    for text in options:
        assert re.search(r"; void \*reserved\[\d\]; \};$", text), text


if update:
    write(RECORD, current())
    write(LAYOUT, layouts())
else:
    sys.exit(tap.run(names=[]))
