"""Makes the reference tables that follow from the sources: metrics, limits, HTTP API, environment.

Each function returns Markdown. What cannot be read from the sources is an error, not a gap: a metric
whose help or labels are not found, a limit whose constant is gone."""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").glob("**/*.[ch]")) + sorted((ROOT / "include").glob("**/*.h"))
LITERAL = r'"(?:[^"\\\n]|\\.)*"'
TEXT = rf"{LITERAL}(?:\s*{LITERAL})*"  # neighbors are one string


def text_of(literals):
    return "".join(json.loads(part) for part in re.findall(LITERAL, literals))


def table(head, rows):
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in [head, *rows]]
    return lines[0] + "|---" * len(head) + "|\n" + "".join(lines[1:])


# --- metrics ---

# The files that make metrics, and what the reader calls their metrics.
MAKERS = {
    "api_metrics.c": "A node",
    "api.c": "A node",
    "metrics.c": "A node",
    "role_queue.c": "The broker of a node",
    "server.c": "A gRPC server",
    "space.c": "Spaces",
    "lease_serve.c": "Leases",
    "group_news.c": "Groups",
    "service_server.c": "The server of a service",
    "shards_metrics.c": "Calls to shards",
    "get_metrics.c": "Multi-gets, at the client",
    "get_server.c": "Multi-gets, at the server",
}
METRIC = re.compile(r'"(rota_[a-z0-9_]+)"')


def arguments_after(code, at):
    """The arguments of the call from `at` to its closing parenthesis, as texts."""
    depth, parts, part = 1, [], ""
    for char in code[at:]:
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            return [*parts, part.strip()]
        if char == "," and depth == 1:
            parts, part = [*parts, part.strip()], ""
        else:
            part += char
    sys.exit("reference.py: a call without an end")


def label_names(code, end, n):
    """The first `n` names in the labels that were declared last before `end`."""
    start = code.rindex("struct rota_label", 0, end)
    while code[start - 1] == "(":  # an assignment: its declaration is further up
        start = code.rindex("struct rota_label", 0, start)
    return re.findall(r'\{\s*"(\w+)",', code[start:end])[:n]


def labels_of(code, at, function, rest):
    """The labels of a metric, by the arguments `rest` after its help."""
    if function.startswith("rota_metrics_"):
        where, n = rest[-2:]
        return [] if where == "NULL" else label_names(code, at, int(n))
    helper = re.search(rf"^static [^;{{}}]*?\b{function}\((.*?)^\}}", code, re.MULTILINE | re.DOTALL)
    own = re.findall(r'\{\s*"(\w+)",', helper[1])
    if own and rest and rest[-1] == "NULL":
        own = own[:-1]  # the last is for those that give it
    return own + [json.loads(each) for each in rest[:1] if re.fullmatch(LITERAL, each)]


def opener(code, at):
    """Where the parenthesis or brace is opened that is still open at `at`."""
    depth = 0
    for place in range(at - 1, -1, -1):
        depth += (code[place] in ")]}") - (code[place] in "([{")
        if depth < 0:
            return place
    sys.exit("reference.py: a name of a metric outside of everything")


def in_call(code, found, at):
    """A name that is an argument: counter(metrics, "rota_x", "Help.", ...)."""
    spelled = re.compile(rf"\s*,\s*({TEXT})").match(code, found.end())
    return re.search(r"(\w+)\($", code[:at + 1])[1], spelled[1], spelled.end()


def in_variable(code, name):
    """A name that several series share: name[] = "rota_x", name_help[] = "Help."."""
    use = re.search(rf"(\w+)\(\w+, {name}, {name}_help", code)
    return use[1], re.search(rf"\b{name}_help\[\] = ({TEXT})", code)[1], use.end()


def in_table(code, found, at):
    """A name in a table of names and helps, or in one of two arrays, of names and of helps."""
    entry = list(re.finditer(r"(\w+)\[\w*\] = \{", code[:found.start()]))[-1]
    use = re.compile(rf"(\w+)\([\w>-]+, {entry[1]}\[(\w+)\](?:\.name)?, (\w+)\[\2\](?:\.help)?").search(code, at)
    if use[3] == entry[1]:
        return use[1], re.compile(rf"\s*,\s*({TEXT})").match(code, found.end())[1], use.end()
    arrays = [re.compile(rf"\b{each}\[\w*\] = \{{(.*?)\}};", re.DOTALL).search(code, entry.start())[1]
              for each in (entry[1], use[3])]
    helps = dict(zip(re.findall(r'NULL|"\w+"', arrays[0]), re.findall(rf"NULL|{TEXT}", arrays[1])))
    return use[1], helps[found[0]], use.end()


def metric(code, found):
    """(type, labels, help) of the metric whose name is found."""
    at = opener(code, found.start())
    variable = re.search(r"(\w+)\[\] = $", code[:found.start()])
    function, help_text, end = (in_variable(code, variable[1]) if variable else
                                in_call(code, found, at) if code[at] == "(" else in_table(code, found, at))
    kind = "summary" if "histogram" in function else "counter" if found[1].endswith("_total") else "gauge"
    return kind, labels_of(code, end, function, arguments_after(code, end)[1:]), text_of(help_text)


def metrics():
    codes = {path.name: path.read_text() for path in SOURCES if path.suffix == ".c"}
    makers = {name for name, code in codes.items() if "rota_metrics_counter(" in code}
    if makers != set(MAKERS):
        sys.exit(f"reference.py: these make metrics, or no longer do: {makers ^ set(MAKERS)}")
    groups = {}
    for name, group in MAKERS.items():
        for found in METRIC.finditer(codes[name]):
            kind, labels, help_text = metric(codes[name], found)
            rows = groups.setdefault(group, {})
            rows[found[1]] = [f"`{found[1]}`", kind, ", ".join(f"`{each}`" for each in labels), help_text]
    return "\n".join(f"### {group}\n\n" + table(["metric", "type", "labels", "meaning"],
                                                [rows[name] for name in sorted(rows)])
                     for group, rows in groups.items())


# --- limits ---

UNITS = {"ROTA_NSEC": 1, "ROTA_USEC": 10**3, "ROTA_MSEC": 10**6, "ROTA_SEC": 10**9, "ROTA_MIN": 60 * 10**9,
         "ROTA_HOUR": 3600 * 10**9, "ROTA_DAY": 86400 * 10**9}
BOUND = re.compile(r"^\s*(?:enum \{ )?(?:#define )?(ROTA_\w+)(?: *= *| +)([^,;}\n]+?)\s*(?:,|\}|/\*|$)", re.MULTILINE)


def constants():
    """The expressions of all constants by their names."""
    found = {}
    for path in SOURCES:
        for name, expression in BOUND.findall(path.read_text()):
            found.setdefault(name, expression)
    return found


def value_of(name, known):
    expression = re.sub(r"\(size_t\)|\(uint64_t\)|\(int\)|UINT64_C", "", known[name])
    expression = re.sub(r"\bINT64_MAX\b", str(2**63 - 1), expression).replace("/", "//")
    expression = re.sub(r"ROTA_\w+", lambda word: str(UNITS.get(word[0]) or value_of(word[0], known)), expression)
    if not re.fullmatch(r"[\d\s()*+<>/-]+", expression):
        sys.exit(f"reference.py: {name} is {expression}, which is not a number")
    return eval(expression)  # digits and operators only, see above


def show(value, unit):
    if unit == "time":
        for word, size in (("h", 3600), ("min", 60), ("s", 1)):
            if value % (size * 10**9) == 0:
                return f"{value // (size * 10**9)} {word}"
        return f"{value // 10**6} ms"
    if unit == "weight":
        return f"{value // 1000:,}"
    if unit == "bytes":
        for word, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if value >= size and value % size == 0:
                return f"{value // size:,} {word}"
        return f"{value:,} bytes"
    return f"{value:,}"


def limits():
    known = constants()
    out = []
    for group, rows in json.loads((ROOT / "docs" / "limits.json").read_text()).items():
        shown = []
        for name, unit, what, then in rows:
            if name not in known:
                sys.exit(f"reference.py: there is no constant {name}; docs/limits.json names it")
            shown.append([what, show(value_of(name, known), unit), then, f"`{name}`"])
        out.append(f"### {group}\n\n" + table(["what", "at most", "beyond", "constant"], shown))
    return "\n".join(out)


# --- the HTTP API ---

def schema_name(schema):
    """A schema in a word or two, with a link if it has a section."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    kinds = schema.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "array" in kinds and "items" in schema:
        return f"list of {schema_name(schema['items'])}"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(schema_name(each) for each in schema[key])
    return " or ".join(kinds)


def meaning_of(schema):
    parts = [schema["description"]] if "description" in schema else []
    if "enum" in schema:
        parts.append("One of " + ", ".join(f"`{each}`" for each in schema["enum"]) + ".")
    if "minimum" in schema and "maximum" in schema:
        parts.append(f"From {schema['minimum']} to {schema['maximum']}.")
    return " ".join(parts)


def content_of(part):
    content = part.get("content", {})
    return " or ".join(schema_name(each["schema"]) if kind == "application/json" else f"`{kind}`"
                       for kind, each in content.items())


def http_api():
    document = json.loads((ROOT / "web" / "openapi.json").read_text())
    rows, parameters = [], []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            request = f"`{method.upper()} {path}`"
            token = "token" if operation.get("security") else ""
            rows.append([request, token, content_of(operation.get("requestBody", {})),
                         content_of(operation["responses"]["200"]), operation["summary"]])
            parameters += [[request, f"`{each['name']}`", schema_name(each["schema"]),
                            " ".join(filter(None, [each.get("description", ""), meaning_of(each["schema"])]))]
                           for each in operation.get("parameters", []) if each["in"] == "query"]
    out = ["### Requests\n\n" + table(["request", "needs", "body", "reply", "what"], rows),
           "### Query parameters\n\n" + table(["request", "parameter", "type", "meaning"], parameters),
           "## Documents\n"]
    for name, schema in document["components"]["schemas"].items():
        required = schema.get("required", [])
        fields = [[f"`{field}`", schema_name(each), "always" if field in required else "", meaning_of(each)]
                  for field, each in schema.get("properties", {}).items()]
        about = [schema["description"] + "\n"] if "description" in schema else []
        about += [table(["field", "type", "there", "meaning"], fields)] if fields else []
        out.append(f"### {name}\n\n" + ("\n".join(about) or f"A JSON {schema_name(schema)}.\n"))
    return "\n".join(out)


# --- the environment ---

def node_variables(build):
    """A row for each setting of a node that the environment can have."""
    shown = subprocess.run([build / "docs" / "table_node"], check=True, capture_output=True, text=True).stdout
    settings = re.findall(r"^\| `([\w-]+)`(?: \S+)? \| ", shown.split("\n\n")[0], re.MULTILINE)
    return table(["variable", "setting"],
                 [[f"`ROTA_{name.upper().replace('-', '_')}`", f"[`{name}`](configuration.md)"] for name in settings])


def command_variables(build):
    """Which options of commands a variable stands for, by the help of the options."""
    shown = subprocess.run([build / "src" / "cli" / "rota", "help", "--markdown"], check=True, capture_output=True,
                           text=True).stdout
    uses = {}
    for section in re.split(r"^## ", shown, flags=re.MULTILINE)[1:]:
        command = section.split("\n", 1)[0]
        for option, meaning in re.findall(r"^\| `(--[\w-]+)[^`]*` \| (.*?) \|", section, re.MULTILINE):
            for name in re.findall(r"\bROTA_[A-Z_]+\b", meaning):
                uses.setdefault(name, {}).setdefault(option, []).append(command)
    rows = []
    for name in sorted(uses):
        for option, commands in uses[name].items():
            some = ", ".join(f"`{each}`" for each in commands[:4])
            rows.append([f"`{name}`", f"`{option}`", some + (f" and {len(commands) - 4} more" if len(commands) > 4 else "")])
    return table(["variable", "option", "commands"], rows)


def exit_codes(build):
    shown = subprocess.run([build / "src" / "cli" / "rota", "help", "--markdown"], check=True, capture_output=True,
                           text=True).stdout
    return re.search(r"^\| exit code .*?\n\n", shown, re.MULTILINE | re.DOTALL)[0].rstrip() + "\n"
