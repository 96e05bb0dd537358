"""Text at every width of a terminal: no line is wider, and rows that differ are not shown alike.

What breaks these tests: a column that cannot shrink, a note that is cut where only it distinguishes two rows, a
character that is not ASCII in the C locale, a colour where colours are off."""

import re

import harness
import narrow
import pytest

WIDTHS = (60, 80, 120, 200)
VIEWS = (
    [],
    ["summary"],
    ["lines"],
    ["lines", "--at", "end"],
    ["lines", "--level", "driver"],
    ["lines", "--by", "category"],
    ["lines", "--by", "module"],
    ["lines", "--annotate"],
    ["ledger"],
    ["ledger", "--by", "owner"],
    ["ledger", "--segments"],
    ["leaks"],
    ["temporary"],
    ["fragmentation"],
    ["sizes"],
    ["threads"],
    ["scopes"],
    ["changes"],
    ["hints"],
    ["oom"],
    ["tree"],
    ["tree", "--native"],
    ["timeline", "--format", "text"],
    ["check"],
)


@pytest.fixture(scope="module")
def captures(trained, python_env, tmp_path_factory):
    """A training, one that ran out of memory, and one with two GPUs."""
    folder = tmp_path_factory.mktemp("widths")
    python = python_env("torch215")
    env = {"PYTHONPATH": str(harness.WORKLOADS)}
    died, two = folder / "died.bin", folder / "two.bin"
    for program, devices, report, code in (("dies/graphs.py", 1, died, 1), ("two_devices.py", 2, two, 0)):
        done = harness.simulate(
            [python, harness.WORKLOADS / program], preload=True, check=False, devices=devices, memory="1GiB",
            env={**env, "GPUMEM_OUTPUT": str(report)}, cwd=folder,
        )
        assert done.returncode == code, harness.described(done)
    return [trained("torch215").report, died, two]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: "_".join(view) or "report")
def test_no_line_is_wider_than_the_terminal(view, columns, captures):
    for capture in captures:
        code, text = narrow.on_terminal([harness.ANALYZER, *view, capture], columns=columns)
        assert code == 0, text
        assert text.strip() and narrow.wider(text, columns) == [], (view, columns)


@pytest.mark.parametrize("columns", WIDTHS)
def test_rows_that_differ_are_told_apart(columns, captures, analyze_json):
    """Each line of code is shown with all that makes it another than its neighbours."""
    for capture in captures:
        rows = analyze_json("lines", capture)
        _, text = narrow.on_terminal([harness.ANALYZER, "lines", capture], columns=columns)
        body = narrow.plain(text).splitlines()[1:]
        figures = re.compile(r"\s+\S+ (?:B|KiB|MiB|GiB)\s+\S+ %\s+[\d,]+(?:\s+GPU \d+)?$")
        shown, last = [], None
        for line in body:
            if figures.search(line):
                last = figures.sub("", line)
                shown.append(last)
            elif line.startswith("    ") and last is not None:
                shown[-1] += "\n" + line
        assert len(shown) == len(rows)
        kinds = {}
        for row, text_of in zip(rows, shown):
            said = tuple(row.get(key) for key in ("file", "line", "phase", "node", "workspace", "library"))
            kinds.setdefault(text_of, set()).add(said)
        assert [same for same in kinds.values() if len(same) > 1] == []


def test_addresses_and_line_numbers_are_whole_at_80_columns(captures):
    _, text = narrow.on_terminal([harness.ANALYZER, "fragmentation", captures[0]], columns=80)
    segments = re.findall(r"^  (0x\S+)", text, re.M)
    assert segments and all(re.fullmatch(r"0x[0-9a-f]{6,}", address) for address in segments)
    assert len(set(segments)) == len(segments)
    _, text = narrow.on_terminal([harness.ANALYZER, "lines", captures[0]], columns=80)
    assert not re.search(r"\.py:\d*…", text)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("view", ([], ["ledger"]), ids=("report", "ledger"))
def test_the_largest_block_is_whole_in_the_breakdown(view, columns, captures):
    _, text = narrow.on_terminal([harness.ANALYZER, *view, captures[0]], columns=columns)
    # At 60 columns, names are cut where an owner is long.
    row = re.search(r"^  (reserved .*)$", narrow.plain(text), re.M)[1]
    assert re.search(r"  largest block [\d.]+ [KMG]iB$", row), row
    if columns >= 80:
        assert row.startswith("reserved but unallocated  "), row


@pytest.mark.parametrize("locale", ({"LC_ALL": "C"}, {"LC_ALL": "", "LC_CTYPE": "", "LANG": "POSIX"}))
def test_text_is_ascii_where_the_locale_is_not_utf_8(locale, captures):
    for view in VIEWS:
        code, text = narrow.on_terminal([harness.ANALYZER, *view, captures[0]], columns=80, env=locale)
        assert code == 0 and text.isascii(), (view, [line for line in text.splitlines() if not line.isascii()][:3])
        assert narrow.wider(text, 80) == [], view
    _, text = narrow.on_terminal([harness.ANALYZER, "sizes", captures[0]], columns=80, env={"LC_ALL": "de_DE.UTF-8"})
    assert "█" in text


def test_colour_is_for_terminals_unless_it_is_asked_for(captures):
    def coloured(*options, env=None, terminal=True):
        command = [harness.ANALYZER, *options, "summary", captures[0]]
        if terminal:
            return "\x1b[" in narrow.on_terminal(command, env=env)[1]
        return "\x1b[" in harness.run(command, env=env).stdout

    assert coloured() and not coloured(terminal=False)
    assert not coloured(env={"NO_COLOR": "1"}) and not coloured(env={"TERM": "dumb"})
    assert coloured(terminal=False, env={"FORCE_COLOR": "1"}) and not coloured(env={"FORCE_COLOR": "0"})
    assert coloured("--color", "always", terminal=False, env={"NO_COLOR": "1"})
    assert not coloured("--color=never", env={"FORCE_COLOR": "1"})
    help_of = [harness.ANALYZER, "--color", "always", "--help"]
    assert "\x1b[" in harness.run(help_of).stdout


@pytest.mark.parametrize("columns", (60, 80, 120))
def test_help_fits(columns):
    code, text = narrow.on_terminal([harness.ANALYZER, "--help"], columns=columns)
    assert code == 0
    examples = text.index("Examples:")
    assert narrow.wider(text[:examples], columns) == []
