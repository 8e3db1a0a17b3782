"""Makes the pages of docs/api/ from the public headers: a page per header, with its opening
comment, and what it declares in its order, each with the comment above it.

A part of a header is what stands between two empty lines: a comment and the declarations that it
is about. Of inline functions and of macros with a body only the first line is shown."""
import re

SKIP = re.compile(r'^(#ifdef __cplusplus\n(extern "C" \{|\})\n#endif|#pragma once|#include .*)\n', re.MULTILINE)
FORWARD = re.compile(r"struct \w+;(\s*/\*.*\*/)?")
NAMES = re.compile(  # of what a line begins to declare
    r"#define (\w+)"
    r"|(struct \w+|enum \w+)(?: \{|;)"
    r"|(enum) \{"
    r"|typedef .*?\b(\w+)(?:;|\()"
    r"|extern [^(]*?\b(\w+)(?:\[\])?;"
    r"|(?!typedef|#)\w[\w\s*]*?\b(rota_\w+)\("
)


def parts_of(lines):
    """The lines, cut where an empty one stands outside of braces and comments."""
    part, depth, in_comment = [], 0, False
    for line in lines:
        if not line and depth == 0 and not in_comment:
            if part:
                yield part
            part = []
            continue
        part.append(line)
        code = re.sub(r"/\*.*?\*/", "", line)
        if in_comment:
            in_comment = "*/" not in code
            continue
        in_comment = "/*" in code
        code = code.split("/*")[0]
        depth += code.count("{") - code.count("}")
    if part:
        yield part


def split_comment(part):
    """A comment's text at the start of a part, or None, and the lines behind it."""
    if not part[0].startswith("/*"):
        return None, part
    end = next(i for i, line in enumerate(part) if "*/" in line)
    text = "\n".join(part[: end + 1]).removeprefix("/*").rsplit("*/", 1)[0]
    return re.sub(r"^ \* ?", "", text, flags=re.MULTILINE).strip(), part[end + 1 :]


def declared(lines):
    """The code of a part without bodies of functions and macros."""
    lines, shown = iter(lines), []
    for line in lines:
        if line.startswith("#define") and line.endswith("\\"):
            shown.append(re.match(r"#define \w+(\([^)]*\))?", line)[0])
            while next(lines).endswith("\\"):
                pass
        elif line.startswith("static inline"):
            prototype = [line]
            for line in lines:
                if line == "{":
                    break
                prototype.append(line)
            shown += prototype[:-1] + [prototype[-1] + ";"]
            while next(lines) != "}":
                pass
        else:
            shown.append(line)
    return shown


def title_of(code):
    found = [match[match.lastindex] for match in map(NAMES.match, code) if match]
    return ", ".join("constants" if name == "enum" else name for name in dict.fromkeys(found))


def prose(text, names):
    """A comment as Markdown: what is indented in it stays code."""
    def word(found):
        if found["code"]:
            return found["code"]
        if found["header"]:
            name = found["header"]
            return f"[`<rota/{name}.h>`]({names[name]})" if name in names else f"`<rota/{name}.h>`"
        if found["page"]:
            return f"[{found['page']}](../{found['page'].removeprefix('docs/')})"
        return {"<": "&lt;", "*": "\\*"}[found[0]]

    pattern = re.compile(r"(?P<code>`[^`]*`)|<rota/(?P<header>[\w/]+)\.h>|(?P<page>docs/[\w-]+\.md)|[<*]")
    return "\n".join(line if line.startswith("    ") else pattern.sub(word, line)
                     for line in text.split("\n"))


def page(name, text, names):
    """The page about a header, and the first sentence of it."""
    opening, *rest = parts_of(SKIP.sub("", text).split("\n"))
    comment, _ = split_comment(opening)
    out, level = [f"# `<rota/{name}.h>`", prose(comment, names)], "##"
    for part in rest:
        if all(FORWARD.fullmatch(line) for line in part):
            continue
        about, code = split_comment(part)
        if about and (section := re.fullmatch(r"--- (.*) ---", about)):
            out.append(f"## {section[1][0].upper() + section[1][1:]}")
            about, level = None, "###"
        code = declared(code)
        if code:
            out.append(f"{level} {title_of(code)}")
        if about:
            out.append(prose(about, names))
        if code:
            out.append("```c\n" + "\n".join(code) + "\n```")
    first = re.split(r"(?<=\.)\s", comment)[0].replace("\n", " ")
    return "\n\n".join(out) + "\n", first


def pages(directory):
    """All pages by their file names, of the headers in `directory`."""
    headers = {str(path.relative_to(directory).with_suffix("")): path for path in sorted(directory.glob("**/*.h"))
               if path.stem != "rota"}
    names = {name: f"{path.stem}.md" for name, path in headers.items()}
    made, stable, experimental = {}, [], []
    for name, path in headers.items():
        made[names[name]], first = page(name, path.read_text(), names)
        rows = experimental if name.startswith("experimental/") else stable
        rows.append(f"| [`<rota/{name}.h>`]({names[name]}) | {prose(first, names)} |\n")
    table = "| header | what it is for |\n|---|---|\n"
    made["README.md"] = (
        "# The library\n\n"
        "The public headers, a page each, made from their comments. [install.md](../install.md) says how\n"
        "to build programs with the library, and `examples/` has some to start from.\n\n"
        "## Stable\n\n"
        "[compatibility.md](../compatibility.md#c-abi) says what these headers promise. `<rota/rota.h>`\n"
        "includes all of them.\n\n"
        + table + "".join(stable) + "\n"
        "## Experimental\n\n"
        "These headers may change with every release. `<rota/experimental/rota.h>` includes all of them,\n"
        "and the stable ones.\n\n"
        + table + "".join(experimental)
    )
    return made
