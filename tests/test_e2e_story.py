"""docs/out-of-memory.md shows output of the commands: each of its rows that names a line of the program is in the
output of the same commands for the same program
(tests/data/captures/story).

What breaks these tests: a page for another version, another line charged, other bytes, a diff of other moments, or a
fault that its fix does not remove."""

import re

import harness
import pytest
from captures import capture, printed

PAGE = harness.ROOT / "docs" / "out-of-memory.md"


@pytest.fixture(scope="module")
def outputs():
    """What the page's commands print, by the command's last word but options."""
    before, after = capture("story/before"), capture("story/after")
    return {
        "train.py": printed("story/before"),
        "report": harness.analyze(before).stdout,
        "tree": harness.analyze("tree", before).stdout,
        "diff": harness.analyze("diff", before, after).stdout,
    }


def blocks_of_the_page():
    """(command, rows) of each block that begins with a command."""
    for block in re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.S | re.M):
        head, *rows = block.splitlines()
        if head.startswith("$ "):
            word = re.search(r"gpumem-analyze (\w+)|(train\.py)$", head)
            yield word[1] or word[2], rows


def test_the_program_dies_and_its_cure_lets_it_end():
    assert "\ntorch.OutOfMemoryError: " in printed("story/before")
    assert [line for line in printed("story/after").splitlines() if "gpumem" not in line] == ["epoch 0", "epoch 1"]
    assert "out of memory" not in printed("story/after")


def test_the_page_shows_what_is_printed(outputs):
    compared = 0
    for command, rows in blocks_of_the_page():
        printed = outputs[command].splitlines()
        for row in rows:
            if ("train.py" in row and not row.startswith("OUT OF")) or row.startswith(("Together", "Lines that", "   bytes")):
                assert row in printed, f"{command}: {row!r}\n" + "\n".join(printed)
                compared += 1
    assert compared >= 11


def test_the_page_quotes_the_program():
    source = (harness.WORKLOADS / "evaluation.py").read_text().splitlines()
    quoted = re.findall(r"^(\d+) {4}( *[^ …].*)$", PAGE.read_text(), re.M)
    assert len(quoted) == 5
    for number, text in quoted:
        assert source[int(number) - 1].strip() == text.strip(), number
