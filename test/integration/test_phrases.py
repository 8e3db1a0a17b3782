"""Whether phrases.py notices a phrase wherever people read, and nowhere else: test_phrases.py. Results are TAP."""
import pathlib
import subprocess
import sys
import tempfile

PHRASES = pathlib.Path(__file__).resolve().parent.parent / "phrases.py"
BAD, GOOD = "the node is away", "the node is unreachable"


def lines_of(name, text):
    """The lines of a file with that text in which phrases.py finds something, and its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        run = subprocess.run([sys.executable, PHRASES, path], capture_output=True, text=True)
    found = [int(line.removeprefix(f"{path}:").split(":")[0]) for line in run.stdout.splitlines()]
    return found, run.returncode


CHECKS = {
    "page": (lines_of("page.md", f"# Nodes\n\nIf {BAD}, wait.\n"), ([3], 1)),
    "page_without_a_phrase": (lines_of("page.md", f"If {GOOD}, wait.\n"), ([], 0)),
    "code_in_a_page_is_not_read": (lines_of("page.md", f"`{BAD}`\n```\n{BAD}\n```\n"), ([], 0)),
    "string_of_a_program": (lines_of("a.c", f'int a;\nchar *text = "{BAD}";\n'), ([2], 1)),
    "string_with_a_url": (lines_of("a.c", f'"http://x: {BAD}";\n'), ([1], 1)),
    "string_in_a_header_of_src": (lines_of("src/a.h", f'"{BAD}"\n'), ([1], 1)),
    "comment_of_a_program_is_not_read": (lines_of("a.c", f'/* {BAD},\n"quoted" */ // {BAD}\n'), ([], 0)),
    "comment_of_a_public_header": (lines_of("rota/a.h", f"/* one\n * {BAD} */\nint a;\n"), ([2], 1)),
    "comment_of_a_protocol": (lines_of("a.proto", f"message A {{\n  int b = 1; // {BAD}\n}}\n"), ([2], 1)),
    "template_of_the_dashboard": (lines_of("a.js", f"show(`${{name}}: {BAD}`);\n"), ([1], 1)),
    "label_of_the_dashboard": (lines_of("a.html", f"<p>{BAD}</p>\n"), ([1], 1)),
    "description_of_the_api": (lines_of("a.json", f'{{\n  "description": "{BAD}",\n  "told": 1\n}}\n'), ([2], 1)),
    "name_of_a_field_is_not_read": (lines_of("a.c", 'key("told");\n'), ([], 0)),
    "name_of_a_test": (lines_of("test_a.c", "int a;\nstatic void node_is_away_for_ever(void **state)\n"), ([2, 2], 1)),
    "name_of_a_test_in_python": (lines_of("test_a.py", "def nobody_is_asked():\n"), ([1], 1)),
    "rest_of_a_test_is_not_read": (lines_of("test_a.c", f'/* {BAD} */\nstatic void ok(void **state)\n'), ([], 0)),
    "short_form": (lines_of("a.c", '"the file can\'t be read";\n'), ([1], 1)),
    "limit_without_a_verb": (lines_of("a.c", '"a key of %zu bytes, at most %d are allowed";\n'), ([1], 1)),
    "limit_in_a_sentence": (lines_of("a.c", '"a key has %zu bytes; at most %d are allowed";\n'), ([], 0)),
    "two_on_a_line": (lines_of("page.md", f"{BAD}, and nobody knows\n"), ([1, 1], 1)),
}

print(f"1..{len(CHECKS)}")
is_bad = False
for number, (name, (got, want)) in enumerate(CHECKS.items(), 1):
    is_right = got == want
    is_bad |= not is_right
    print(f"{'ok' if is_right else 'not ok'} {number} - {name}")
    if not is_right:
        print(f"# got {got}, not {want}")
sys.exit(is_bad)
