"""Which bugs mutate.py plants: test_mutate.py. Results are TAP."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.dont_write_bytecode = True
import mutate  # noqa: E402
import tap  # noqa: E402


def mutants(line):
    return {each.strip() for each in mutate.mutants_of_line("    " + line)}


@tap.test
def comparison_moves_by_one_and_turns_round():
    assert mutants("return a < b;") == {"return a <= b;", "return a >= b;"}


@tap.test
def condition_is_negated_and_never_met():
    assert {"if (!(is_open))", "if (0 && (is_open))"} <= mutants("if (is_open)")


@tap.test
def statement_is_left_out():
    assert ";" in mutants("fsm->held = 0;") and ";" in mutants("rota_shard_map_drop(map);")
    assert ";" not in mutants("prefetch_nth(table, bucket, 1);")  # no test can notice


@tap.test
def declaration_and_return_are_not_left_out():
    for line in ("size_t n = 0;", "return n;", "const char *name = f(x);"):
        assert ";" not in mutants(line), line


@tap.test
def texts_comments_pointers_and_assertions_stay():
    for line in ('puts("1 < 2 && 3");', "struct rota_ring *ring;", "/* a < b */", "assert(n > 0);"):
        assert mutants(line) <= {";"}, (line, mutants(line))


@tap.test
def constants_change():
    assert mutants("return 0;") == {"return 1;"}
    assert mutants("return 8;") == {"return 7;", "return 9;"}
    assert mutants("x = calloc(1, sizeof *x);") == {";"}


@tap.test
def only_lines_of_code_are_changed():
    with tempfile.NamedTemporaryFile("w", suffix=".c", encoding="utf-8") as file:
        file.write("/* Is a\n   < b */\n#define N 3\nint f(int a)\n{\n    /* more\n     * than 1 */\n    return a + 1;\n}\n")
        file.flush()
        assert [number for number, _ in mutate.mutants_of_file(pathlib.Path(file.name))] == [7]


@tap.test
def line_is_known_by_its_function():
    text = ["int f(int a,", "      int b)", "{", "    return a;", "}", "int g(int a)", "{", "    return a;", "}"]
    assert mutate.name_of(text, 3) == "int f(int a,: return a;" != mutate.name_of(text, 7)
    assert mutate.name_of(["", *text], 4) == mutate.name_of(text, 3)


sys.exit(tap.run(names=sys.argv[1:]))
