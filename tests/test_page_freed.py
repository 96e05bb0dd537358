"""The page of a capture with GPUMEM_FREE_STACKS=on: the pinned block shows the line that freed it, and the map shows
the allocator's settings.

What breaks these tests: a free that is charged to another block or line, a free's stack that is counted as an
allocation's, and settings that a map does not show."""

import harness
import page_blocks
import pytest
from browser import page_data

PROGRAM = """import torch

def work():
    kept = torch.ones(1 << 20, device="cuda")
    small = torch.ones(1 << 10, device="cuda")
    del kept
    torch.cuda.synchronize()
    del small

work()
"""
SETTINGS = "max_split_size_mb:64"


@pytest.fixture(scope="module", params=("on", "off"))
def report(request, python_env, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"freed-{request.param}")
    (folder / "frees.py").write_text(PROGRAM)
    env = {**harness.SIMULATED_CARD["torch215"], "GPUMEM_FREE_STACKS": request.param, "PYTORCH_CUDA_ALLOC_CONF": SETTINGS}
    harness.simulate([python_env("torch215"), "frees.py"], preload=True, cwd=folder, env=env)
    return folder / "report.bin", request.param


@pytest.fixture(scope="module")
def page(report):
    out = report[0].with_suffix(".html")
    harness.analyze("html", "-o", out, report[0])
    return out


def line_of(page, stack):
    stacks = page_data(page)["stacks"]
    return stacks["owners"][stacks["stacks"][stack][1]]["line"]


def test_each_free_is_its_own_line(page, report):
    [history] = [of for of in page_data(page)["devices"][0]["history"] if of["level"] == "tensor"]
    found = [block for block in page_blocks.blocks(history) if block.size in (4 << 20, 4 << 10)]
    assert len(found) == 2 and all(block.ended for block in found)
    assert [line_of(page, block.stack) for block in found] == ["frees.py:4", "frees.py:5"]
    freed = [None if block.freed_by is None else line_of(page, block.freed_by) for block in found]
    assert freed == (["frees.py:6", "frees.py:8"] if report[1] == "on" else [None, None])


def test_the_pinned_block_has_the_line_that_freed_it(window, page, report):
    window.open(page)
    window.wait("gpumem.histories().length > 0")
    large = window.tell(f"gpumem.history().bytes.indexOf({4 << 20})")
    window.tell(f"gpumem.pin({large})")
    rows = window.tell("Object.fromEntries([...document.querySelectorAll('#pinned dt')].map(t => [t.textContent, t.nextElementSibling.textContent]))")
    if report[1] == "off":
        assert rows["Freed by"] == "not recorded; GPUMEM_FREE_STACKS=on records it"
        assert window.tell("document.getElementById('freed-by')") is None
        return
    assert "frees.py:6 work" in rows["Freed by"] and "frees.py:4 work" in rows["Line"]
    calls = window.tell("[...document.querySelectorAll('#freed-by li')].map(l => l.textContent)")
    assert any("frees.py:6" in call and "del kept" in call for call in calls), calls
    assert window.errors() == []


def test_the_map_has_the_settings_of_the_allocator(window, page):
    window.open(page)
    window.wait("gpumem.histories().length > 0")
    assert page_data(page)["allocator"].endswith(f", settings {SETTINGS}")
    assert f"settings {SETTINGS}." in window.tell("document.getElementById('map-caption').textContent")
