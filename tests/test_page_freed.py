"""The page of a capture with GPUMEM_FREE_STACKS=on: the pinned block shows the line that freed it, and the map shows
the allocator's settings.

What breaks these tests: a free that is charged to another block or line, a free's stack that is counted as an
allocation's, and settings that a map does not show."""

import captures
import harness
import page_blocks
import pytest
from browser import page_data

SETTINGS = "max_split_size_mb:64"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("freed") / "report.html"
    harness.analyze("html", "-o", out, captures.capture("frees"))
    return out


def tensors(page):
    data = page_data(page)
    [history] = [of for of in data["devices"][0]["history"] if of["level"] == "tensor"]
    return data["stacks"], page_blocks.blocks(history)


def test_each_free_is_its_own_line(page):
    stacks, blocks = tensors(page)
    found = [block for block in blocks if block.size in (4 << 20, 4 << 10)]
    lines = [[stacks["owners"][stacks["stacks"][stack][1]]["line"] for stack in (block.stack, block.freed_by)] for block in found]
    assert lines == [["frees.py:7", "frees.py:9"], ["frees.py:8", "frees.py:11"]] and all(block.ended for block in found)


def pinned(window, page, number):
    """What the page shows of a block."""
    window.open(page)
    window.wait("gpumem.histories().length > 0")
    window.tell(f"gpumem.pin({number})")
    return window.tell("Object.fromEntries([...document.querySelectorAll('#pinned dt')].map(t => [t.textContent, t.nextElementSibling.textContent]))")


def test_the_pinned_block_has_the_line_that_freed_it(window, page):
    sizes = [block.size for block in tensors(page)[1]]
    rows = pinned(window, page, sizes.index(4 << 20))
    assert "frees.py:9 work" in rows["Freed by"] and "frees.py:7 work" in rows["Line"]
    calls = window.tell("[...document.querySelectorAll('#freed-by li')].map(l => l.textContent)")
    assert any("frees.py:9" in call for call in calls), calls
    assert window.errors() == []


def test_a_free_without_its_stack_says_how_to_record_it(window, tmp_path):
    out = tmp_path / "report.html"
    harness.analyze("html", "-o", out, harness.CAPTURES / "graphs.bin")
    blocks = tensors(out)[1]
    assert {block.freed_by for block in blocks} == {None}
    rows = pinned(window, out, next(number for number, block in enumerate(blocks) if block.ended))
    assert rows["Freed by"] == "not recorded; GPUMEM_FREE_STACKS=on records it"
    assert window.tell("document.getElementById('freed-by')") is None


def test_the_map_has_the_settings_of_the_allocator(window, page):
    window.open(page)
    window.wait("gpumem.histories().length > 0")
    assert page_data(page)["allocator"].endswith(f", settings {SETTINGS}")
    assert f"settings {SETTINGS}." in window.tell("document.getElementById('map-caption').textContent")
