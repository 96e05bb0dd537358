"""The pictures of docs, and the script that makes those of gpumem.

What breaks these tests: a picture that a page names and that is missing, or that no page names; one that is too
large to be read over a network; a page whose parts have other names than in the script."""

import re
import sys

import browser
import harness
import pytest

IMAGES = harness.ROOT / "docs" / "images"
SCRIPT = harness.ROOT / "scripts" / "lib" / "compare"
MOST_OF_ALL = 1_500_000


def named():
    """The pictures that pages name, each once."""
    found = set()
    for page in [*harness.ROOT.glob("*.md"), *(harness.ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"!\[[^]]*\]\(([^)\s]+)|<img src=\"([^\"]+)", page.read_text()):
            found.add((page.parent / "".join(target)).resolve())
    return found


def test_pages_name_the_pictures_that_there_are():
    assert named() == {path.resolve() for path in IMAGES.rglob("*.*g")}


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in IMAGES.rglob("*.png")}
    assert len(sizes) >= 15
    assert {name: size for name, size in sizes.items() if size > 150_000} == {}
    assert sum(path.stat().st_size for path in (IMAGES / "compared").iterdir()) <= MOST_OF_ALL


@pytest.mark.slow
def test_the_script_makes_ours(trained, python_env, tmp_path, monkeypatch):
    """From captures made here: each picture of gpumem in docs has its width, and is not blank."""
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    if browser.find() is None:
        pytest.skip("no Chromium on this machine: scripts/lib/environment browser")
    monkeypatch.setattr(sys, "path", [str(SCRIPT), *sys.path])
    import pictured
    import ours

    (tmp_path / "demo.bin").symlink_to(trained("torch215").report)
    made = pictured.record(tmp_path, python_env("torch215"))
    (tmp_path / "images" / "compared").mkdir(parents=True)
    ours.pictures(made, tmp_path, tmp_path / "images")
    found = {str(path.relative_to(tmp_path / "images")) for path in (tmp_path / "images").rglob("*.png")}
    there = [path for path in named() if path.name.startswith(("gpumem-", "page", "flamegraph"))]
    assert found == {str(path.relative_to(IMAGES.resolve())) for path in there}
    for name in found:
        with image.open(tmp_path / "images" / name) as shown:
            assert shown.width == (390 if "phone" in name else 1280) and shown.height > 200, name
            assert len(shown.convert("RGB").getcolors(1 << 24)) > 100, name
