"""gpumem-analyze as users run it: what only a process shows, and programs without Python.

What breaks these tests: colour in a pipe or none on a terminal, a line wider than the terminal, or a locale that is not
asked. analyzer/cli/tests/it has the rest, in one process."""

import re
import shutil

import harness
import narrow
import pytest

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(*arguments, columns=80, env=None):
    """What gpumem-analyze prints on a terminal of that width, and its exit code."""
    code, said = narrow.on_terminal([harness.ANALYZER, *map(str, arguments)], columns=columns, env=env)
    return said, code


@pytest.fixture
def report(tmp_path):
    return shutil.copy(harness.ROOT / "tests" / "data" / "captures" / "demo.bin", tmp_path)


def whole(rows):
    """The rows that are not part of the one above them."""
    return [row for row in rows if not row.startswith("    ")]


def test_colour_and_width_are_for_terminals(report, analyze):
    plain = analyze("lines", report).stdout
    assert "\x1b" not in plain
    for columns in (60, 80, 200):
        said, code = on_a_terminal("lines", report, columns=columns)
        assert code == 0 and ESCAPE.search(said)
        assert narrow.wider(said, columns) == []
        # Rows that would look alike have a second line, indented, with their difference. So have the parts of a line, where
        # they differ in a column that is shown.
        # A line that only terminals have: why no source is shown.
        rows = ESCAPE.sub("", said).partition("\nNo source lines:")[0].rstrip("\n").splitlines()
        assert len(whole(rows)) == len(whole(plain.splitlines())) > 9
    said, code = on_a_terminal("--help", columns=60)
    assert code == 0 and narrow.wider(said[: said.index("Examples:")], 60) == []


@pytest.mark.parametrize(
    "env, on_terminal, in_pipe",
    [({}, True, False), ({"NO_COLOR": "1"}, False, False), ({"TERM": "dumb"}, False, False), ({"FORCE_COLOR": "1"}, True, True)],
)
def test_the_environment_decides_on_colour(env, on_terminal, in_pipe, report):
    assert ("\x1b[" in on_a_terminal("report", "--all", report, env=env)[0]) == on_terminal
    assert ("\x1b[" in harness.run([harness.ANALYZER, "report", "--all", report], env=env).stdout) == in_pipe


@pytest.mark.parametrize(
    "locale, is_ascii",
    [({"LC_ALL": "C"}, True), ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "POSIX"}, True), ({"LC_ALL": "de_DE.UTF-8"}, False)],
)
def test_text_is_ascii_if_the_locale_is_not_utf_8(locale, is_ascii, report):
    said, code = on_a_terminal("lines", "--by", "size", report, env=locale)
    assert code == 0 and said.isascii() == is_ascii


def test_a_program_without_python(build_c, cudart102, simulate, tmp_path, analyze, analyze_json):
    """The program itself owns its memory, and the report and the picture are of the driver level."""
    client = build_c("cudart_client.c", cudart102 / "libcudart.so.10.2", f"-Wl,-rpath,{cudart102}")
    simulate([client, "leak"], preload=True)
    report = tmp_path / "report.bin"
    rows = analyze_json("lines", report)
    device = harness.device_of(analyze_json("report", "--all", report))
    assert sum(row["bytes"] for row in rows) == device["driver"]["peak_bytes"] > 0
    assert {(row["file"], row["library"]) for row in rows} == {(None, client.name)}
    printed = analyze(report).stdout
    assert f"(no Python: {client.name})" in printed and "driver level" in printed
    folded = analyze("flamegraph", "--format", "folded", report).stdout
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == device["driver"]["peak_bytes"]
    assert "main" in folded, "its symbols are found by its build id"
