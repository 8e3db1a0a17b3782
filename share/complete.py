"""Writes a completion script for a shell: the program's commands, options and values.

usage: complete.py bash|zsh|fish TABLES.json >SCRIPT

TABLES.json is the output of `rota help --json`, or of `rotad help --json`, whose single command has
no name. Values and arguments called FILE or DIR are completed with files and directories, choices
with their choices, a queue, space, node or group with the names that the node knows
(`rota complete`), and others not at all."""
import json
import pathlib
import re
import sys

FILES, DIRECTORIES, NOTHING = "files", "directories", "nothing"


def kind_of(name):
    """What is completed for a value or an argument: "[FILE]" is one of the files."""
    words = re.findall(r"[A-Z]+", name or "")
    return FILES if "FILE" in words else DIRECTORIES if "DIR" in words else NOTHING


LIVE = {"GROUP": "group", "NODE": "node", "QUEUE": "queue", "SPACE": "space"}


def has_node(command):
    """Whether the command asks a node."""
    return any(option["name"] == "node" for option in command["options"])


def live_value(command, option):
    """What `rota complete` is asked for the value of an option; None: nothing."""
    if option["value"] == "GROUP":
        return "group"
    if not has_node(command):
        return None
    return option["name"] if option["name"] in ("node", "queue") else LIVE.get(option["value"])


def live_arguments(command):
    """The same for each argument."""
    if not has_node(command):
        return []
    words = (command["arguments"] or "").replace("[", "").replace("]", "").split()
    if "|" in words:  # "node | space NAME": a name of any of them, after the word
        return [None, " ".join(word for word in words if word in LIVE.values() and word != "node")]
    return ["node" if word == "ADDRESS" and (command["name"] or "").startswith("node ") else LIVE.get(word) for word in words]


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


class Tables:
    def __init__(self, data):
        self.program = data["program"]
        self.commands = data["commands"]
        self.groups = {}  # first word: the commands that begin with it and have another
        self.firsts = {}  # first word: what it is about
        self.only = self.commands[0] if self.commands[0]["name"] is None else None
        for command in [] if self.only else self.commands:
            first, *rest = command["name"].split()
            if rest:
                self.groups.setdefault(first, []).append(command)
            else:
                self.firsts[first] = command["summary"]
        for first, commands in self.groups.items():
            seconds = [second(command) for command in commands]
            self.firsts.setdefault(first, ", ".join(seconds))
        if not self.only:
            self.firsts["help"] = "Show the help of a command"


def second(command):
    return command["name"].split(maxsplit=1)[1]


def names_of(option):
    return [f"-{option['letter']}"] * bool(option["letter"]) + [f"--{option['name']}"]


# --- bash ---

BASH = r"""# Completion of `@` for bash, generated from its option tables.

_@_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word")
}

_@_paths() {
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen "$1" -- "$word")
}

# Words may have colons, at which bash breaks them.
_@_live() {
    local typed=${COMP_LINE:0:COMP_POINT} node=
    [[ $typed =~ \ --node[\ =]([^\ ]+)\  ]] && node=${BASH_REMATCH[1]}
    word=${typed##*[ =]}
    local noun names= i colon=
    for noun in $1; do
        names+=" $(@ complete "$noun" ${node:+--node "$node"} 2>/dev/null </dev/null)"
    done
    _@_words "$names"
    [[ $word == *:* ]] && colon=${word%%"${word##*:}"}
    for i in ${!COMPREPLY[*]}; do
        COMPREPLY[i]=${COMPREPLY[i]#"$colon"}
    done
}

_@() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local at=1 command= options= paths= live=
    COMPREPLY=()
    # --name=value is three words here.
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    # So is HOST:PORT.
    [[ ${COMP_LINE:0:COMP_POINT} =~ (--[a-z-]+)[\ =]+[^\ ]*:[^\ ]*$ ]] && before=${BASH_REMATCH[1]}
%(find)s    case "$command $before" in
%(values)s
    esac
    case $command in
%(commands)s
    esac
    if [[ $word == -* ]]; then
        _@_words "$options"
    elif [[ $paths ]]; then
        _@_paths "$paths"
    elif [[ $live ]]; then
        _@_live "$live"
    fi
}

complete -F _@ @
"""

BASH_FIND = r"""    [[ ${COMP_WORDS[1]} == help ]] && ((COMP_CWORD > 1)) && at=2
    if ((COMP_CWORD == at)); then
        _@_words "%(firsts)s --help --version"
        return
    fi
    command=${COMP_WORDS[at]}
    case $command in
%(groups)s
    esac
    ((at == 2)) && return
"""

COMPGEN = {FILES: "-f", DIRECTORIES: "-d"}


def bash(tables):
    groups = "".join(
        f"    {group})\n"
        "        if ((COMP_CWORD == at + 1)); then\n"
        f'            _@_words "{" ".join(map(second, commands))}"\n'
        "            return\n"
        "        fi\n"
        "        command+=\" ${COMP_WORDS[at + 1]}\"\n"
        "        ;;\n"
        for group, commands in tables.groups.items()
    )
    actions = {}  # action: the words before it
    commands = ""
    for command in tables.commands:
        words = command["name"] or ""
        for option in filter(lambda option: option["value"], command["options"]):
            kind = kind_of(option["value"])
            live = live_value(command, option)
            if option["choices"]:
                action = f'_@_words "{" ".join(option["choices"])}"; return'
            elif live:
                action = f"_@_live {live}; return"
            else:
                action = "return" if kind == NOTHING else f"_@_paths {COMPGEN[kind]}; return"
            actions.setdefault(action, []).extend(
                f"'{words} {name}'" for name in names_of(option))
        paths = COMPGEN.get(kind_of(command["arguments"]))
        options = " ".join(name for option in command["options"] for name in names_of(option))
        commands += f"    {quote(words)}) options='{options}'"
        live = " ".join(dict.fromkeys(filter(None, live_arguments(command))))
        commands += f" paths={paths}" if paths else f" live='{live}'" if live else ""
        commands += " ;;\n"
    values = "".join(f"    {' | '.join(words)}) {action} ;;\n" for action, words in actions.items())
    find = BASH_FIND % {"firsts": " ".join(tables.firsts), "groups": groups.rstrip("\n")}
    return BASH % {
        "find": "" if tables.only else find,
        "values": values.rstrip("\n"),
        "commands": commands.rstrip("\n"),
    }


# --- zsh ---

ZSH = r"""#compdef @
# Completion of `@` for zsh, generated from its option tables.

_@_live() {
    local -a names node
    local -i at
    ((at = ${words[(I)--node]})) && node=(--node $words[at+1])
    ((at = ${words[(I)--node=*]})) && node=($words[at])
    local noun
    for noun; do
        names+=(${(f)"$(@ complete $noun $node 2>/dev/null </dev/null)"})
    done
    compadd -a names
}

_@() {
    local command is_help
    local -a commands
    if [[ $words[2] == help ]] && ((CURRENT > 2)); then
        is_help=1
        shift words
        ((CURRENT--))
    fi
    if ((CURRENT == 2)); then
        if [[ $PREFIX == -* ]]; then
            _arguments '--help[show the commands and exit]' '--version[show the version and exit]'
            return
        fi
        commands=(%(firsts)s)
        _describe command commands
        return
    fi
    command=$words[2]
    case $command in
%(groups)s
    esac
    [[ -n $is_help ]] && return
    shift words
    ((CURRENT--))
    case $command in
%(commands)s
    esac
}

_@ "$@"
"""

ZSH_ONLY = r"""#compdef @
# Completion of `@` for zsh, generated from its option tables.

_arguments -s \
    %s
"""

ZSH_ACTIONS = {FILES: "_files", DIRECTORIES: "_files -/", NOTHING: " "}


def zsh_live(noun):
    return f" _@_live {noun}"


def zsh_option(command, option):
    live = live_value(command, option)
    names = names_of(option)
    text = option["help"]
    for char in "\\[]":
        text = text.replace(char, "\\" + char)
    value = ""
    if option["value"]:
        name = option["value"].replace(":", "\\:")
        action = ZSH_ACTIONS[kind_of(option["value"])]
        if option["choices"]:
            action = f"({' '.join(option['choices'])})"
        elif live:
            action = zsh_live(live)
        value = f":{name}:{action}"
        names = [name + ("=" if name.startswith("--") else "+") for name in names]
    repeated = "*" if option["is_repeated"] else f"({' '.join(names_of(option))})"
    return [quote(f"{repeated}{name}[{text}]{value}") for name in names]


def zsh_described(pairs):
    return " ".join(quote(f"{word}:{text}") for word, text in pairs)


def zsh_specs(command):
    specs = [spec for option in command["options"] for spec in zsh_option(command, option)]
    for number, noun in enumerate(live_arguments(command), 1):
        if noun:
            specs.append(quote(f"{number}:{noun}:{zsh_live(noun)}"))
    if command["arguments"]:
        specs.append(quote(f"*:{command['arguments']}:{ZSH_ACTIONS[kind_of(command['arguments'])]}"))
    return specs


def zsh(tables):
    if tables.only:
        return ZSH_ONLY % " \\\n    ".join(zsh_specs(tables.only))
    groups = "".join(
        f"    {group})\n"
        "        if ((CURRENT == 3)); then\n"
        f"            commands=({zsh_described((second(command), command['summary']) for command in commands)})\n"
        f"            _describe command commands\n"
        "            return\n"
        "        fi\n"
        '        command+=" $words[3]"\n'
        "        shift words\n"
        "        ((CURRENT--))\n"
        "        ;;\n"
        for group, commands in tables.groups.items()
    )
    commands = ""
    for command in tables.commands:
        specs = " \\\n            ".join(zsh_specs(command))
        commands += f"    {quote(command['name'])})\n        _arguments -s \\\n            {specs}\n        ;;\n"
    return ZSH % {
        "firsts": zsh_described(tables.firsts.items()),
        "groups": groups.rstrip("\n"),
        "commands": commands.rstrip("\n"),
    }


# --- fish ---

FISH = r"""function __@_next --description 'Whether these are the words so far, perhaps after help'
    set -l words (commandline -opc)[2..]
    test "$words[1]" = help; and set -e words[1]
    test "$words" = "$argv[1]"
end

function __@_in --description 'Whether the words so far begin with these'
    set -l words (commandline -opc)[2..]
    string match -q -- "$argv[1] *" "$words "
end

function __@_live --description 'Names that the node knows'
    set -l node (string match -rg -- '--node[= ]([^ ]+)' (commandline -pc))
    test -n "$node"; and set node --node $node
    for noun in $argv
        @ complete $noun $node 2>/dev/null </dev/null
    end
end

complete -c @ -n '__@_next ""' -s h -l help -d 'show the commands and exit'
complete -c @ -n '__@_next ""' -l version -d 'show the version and exit'
"""

FISH_START = """# Completion of `@` for fish, generated from its option tables.

complete -c @ -f
"""

FISH_ACTIONS = {FILES: "-rF", DIRECTORIES: "-xa '(__fish_complete_directories)'", NOTHING: "-x"}


def fish_quote(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(tables):
    lines = [f"complete -c @ -n '__@_next \"\"' -a {first} -d {fish_quote(text)}"
             for first, text in tables.firsts.items()]
    for group, commands in tables.groups.items():
        lines += [f"complete -c @ -n '__@_next \"{group}\"' -a {second(command)} -d {fish_quote(command['summary'])}"
                  for command in commands]
    for command in tables.commands:
        start = "complete -c @" if tables.only else f"complete -c @ -n '__@_in \"{command['name']}\"'"
        for option in command["options"]:
            letter = f" -s {option['letter']}" if option["letter"] else ""
            value = ""
            if option["choices"]:
                value = f" -xa '{' '.join(option['choices'])}'"
            elif live_value(command, option):
                value = f" -xa '(__@_live {live_value(command, option)})'"
            elif option["value"]:
                value = " " + FISH_ACTIONS[kind_of(option["value"])]
            lines.append(f"{start}{letter} -l {option['name']}{value} -d {fish_quote(option['help'])}")
        kind = kind_of(command["arguments"])
        if kind != NOTHING:
            lines.append(f"{start} {'-F' if kind == FILES else FISH_ACTIONS[kind]}")
        live = " ".join(dict.fromkeys(filter(None, live_arguments(command))))
        if live:
            lines.append(f"{start} -a '(__@_live {live})'")
    return FISH_START + ("" if tables.only else FISH) + "\n".join(lines) + "\n"


def main():
    shell, path = sys.argv[1:]
    tables = Tables(json.loads(pathlib.Path(path).read_text()))
    script = {"bash": bash, "zsh": zsh, "fish": fish}[shell](tables)
    print(script.replace("@", tables.program), end="")


main()
