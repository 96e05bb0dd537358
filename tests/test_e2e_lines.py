"""Known lines own known bytes: the comments of tests/workloads/known_lines.py state what each line must own.
`gpumem-analyze lines` must show exactly these rows, at the peak and at the end.

What breaks these tests: charging a line's caller or callee, decoding a line table wrongly, charging a thread's
allocation to the main thread, mixing up instruction offset and line, or a decoder of file names without UTF-8."""

import re

import harness
import pytest

MARK = re.compile(r"# bytes: (\d+) (\d+) (\S+)")
UMLAUT = "größe_測定.py"
UMLAUT_SOURCE = '''\
"""Länge läuft."""


def allocate(torch):
    größe = 41 * 512
    return torch.empty(größe, dtype=torch.uint8, device="cuda")  # bytes: 20992 20992 allocate
'''


def marks(path, column):
    """{(line, function): bytes} that a source file's comments promise; lines of 0 bytes left out."""
    promised = {}
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = MARK.search(text)
        if found and int(found[column]):
            promised[(path.name, number, found[3])] = int(found[column])
    return promised


@pytest.mark.parametrize("environment", ("torch215", "torch112"))
def test_known_lines_own_known_bytes(environment, forks, tmp_path, analyze_json):
    module = tmp_path / UMLAUT
    module.write_text(UMLAUT_SOURCE, encoding="utf-8")
    script = harness.WORKLOADS / "known_lines.py"
    done = forks(environment).run([script, module], cwd=tmp_path)
    live, peak = map(int, done.stdout.split())
    report = tmp_path / "report.bin"
    for moment, column, figure in (("peak", 1, peak), ("end", 2, live)):
        rows = analyze_json("lines", "--at", moment, report)
        found = {
            (row["file"].rsplit("/", 1)[-1], row["line"], row["function"].rsplit(".", 1)[-1]): row["bytes"]
            for row in rows
        }
        promised = {**marks(script, column), **marks(module, column)}
        assert found == promised, moment
        assert sum(promised.values()) == figure, moment
        assert any(row["file"] == str(module) for row in rows), "the file's name came through whole"
        if moment == "peak":
            blocks = {row["function"].rsplit(".", 1)[-1]: row["blocks"] for row in rows}
            expected = {"generator": 4, "recursive": 12, "block": 2, "in_thread": 1}
            assert {name: blocks[name] for name in expected} == expected


FREES = """\
import torch

kept = torch.empty(1 << 20, device="cuda")
other = torch.empty(1 << 10, device="cuda")
waiting = sum(range(1000))
del kept
print(waiting)
del other
"""


@pytest.mark.parametrize("frees", ("on", "off"))
def test_releases_have_their_lines_if_asked(frees, forks, tmp_path, analyze_json):
    """With GPUMEM_FREE_STACKS each free is charged to the line that freed; otherwise to that of the last allocation."""
    script = tmp_path / "frees.py"
    script.write_text(FREES)
    forks("torch215").run([script], cwd=tmp_path, env={"GPUMEM_FREE_STACKS": frees})
    sections = analyze_json("changes", tmp_path / "report.bin")
    if isinstance(sections, dict):
        sections = sections["changes"]
    released = {(s["line"], g["bytes"]) for s in sections for g in s["removed"]}
    if frees == "on":
        assert released == {(6, 4 << 20), (8, 4 << 10)}
    else:
        assert {line for line, _ in released} <= {4, None}
