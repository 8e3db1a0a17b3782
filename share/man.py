"""Writes the man pages of programs, one for each and one for each of their commands.

usage: man.py DIRECTORY TABLES.json...

TABLES.json is the output of `rota help --json`; if a program has a single command, the command has
no name."""
import json
import pathlib
import re
import shutil
import sys

ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}


def roff(text):
    """Text with everything that roff would interpret escaped."""
    text = "".join(ESCAPES.get(char, char) for char in text)
    return re.sub(r"^\.", r"\\&.", text, flags=re.MULTILINE)


def bold(text):
    return f"\\fB{roff(text)}\\fR"


def paragraphs(text):
    """Lines, with `.PP` between the paragraphs."""
    return "\n.PP\n".join(roff(part.replace("\n", " ")) for part in re.split(r"\n\n+", text.strip()))


def page_name(program, command):
    return "-".join([program, *(command or "").split()])


def title(program, name, version):
    # Without a date, because every build creates the page.
    return f'.TH {roff(name.upper())} 1 "" "{roff(program)} {roff(version)}" "Rota"'


def option(entry):
    names = bold(f"-{entry['letter']}") + ", " if entry["letter"] else ""
    names += bold("--" + entry["name"])
    if entry["value"]:
        names += f" \\fI{roff(entry['value'])}\\fR"
    notes = f" ({entry['notes']})" if entry["notes"] else ""
    return f".TP\n{names}\n{roff(entry['help'] + notes)}."


def exit_status(codes):
    return ".SH EXIT STATUS\n" + "\n".join(
        f".TP\n{number}\n{roff(code)}" for number, code in enumerate(codes)
    )


def see_also(names):
    return ".SH SEE ALSO\n" + ",\n".join(f".BR {roff(name)} (1)" for name in names)


def command_page(tables, command, programs):
    program, name = command["program"], page_name(command["program"], command["name"])
    words = " ".join(filter(None, [program, command["name"]]))
    arguments = f" {roff(command['arguments'])}" if command["arguments"] else ""
    summary = command["summary"][0].lower() + command["summary"][1:]
    parts = [
        title(program, name, tables["version"]),
        f".SH NAME\n{roff(name)} \\- {roff(summary)}",
        f".SH SYNOPSIS\n{bold(words)} [OPTION...]{arguments}",
        ".SH DESCRIPTION\n" + paragraphs(command["description"] or command["summary"] + "."),
        ".SH OPTIONS\n" + "\n".join(map(option, command["options"])),
    ]
    if command["examples"]:
        parts.append(f".SH EXAMPLES\n.nf\n{roff(command['examples'].rstrip())}\n.fi")
    parts.append(exit_status(tables["exit_codes"]))
    if name == program:
        parts.append(see_also(other for other in programs if other != program))
    else:
        others = [other["name"] for other in tables["commands"] if other is not command
                  and other["name"].split()[0] == command["name"].split()[0]]
        parts.append(see_also([program, *(page_name(program, other) for other in others)]))
    return "\n".join(parts) + "\n"


def program_page(tables, programs):
    program, commands = tables["program"], tables["commands"]
    listed = "\n".join(
        f".TP\n.BR {roff(page_name(program, command['name']))} (1)\n{roff(command['summary'])}."
        for command in commands
    )
    return "\n".join([
        title(program, program, tables["version"]),
        f".SH NAME\n{program} \\- the sharding layer for services",
        f".SH SYNOPSIS\n{bold(program)} COMMAND [OPTION...]\n.br\n{bold(program)} help COMMAND",
        ".SH DESCRIPTION\n" + paragraphs(tables["introduction"]) + "\n.PP\n" + paragraphs(tables["output"]),
        ".SH COMMANDS\n" + listed,
        f".SH OPTIONS\n.TP\n{bold('-h')}, {bold('--help')}\nshow the commands and exit.",
        f".TP\n{bold('--version')}\nshow the version and exit.",
        exit_status(tables["exit_codes"]),
        see_also(other for other in programs if other != program),
    ]) + "\n"


def pages_of(tables, programs):
    pages = {page_name(command["program"], command["name"]): command_page(tables, command, programs)
             for command in tables["commands"]}
    if tables["program"] not in pages:  # it has commands with names
        pages[tables["program"]] = program_page(tables, programs)
    return pages


def main():
    directory, *paths = map(pathlib.Path, sys.argv[1:])
    shutil.rmtree(directory, ignore_errors=True)  # also pages of commands that no longer exist
    directory.mkdir(parents=True)
    all_tables = [json.loads(path.read_text()) for path in paths]
    programs = [tables["program"] for tables in all_tables]
    for tables in all_tables:
        for name, page in pages_of(tables, programs).items():
            (directory / f"{name}.1").write_text(page)


main()
