"""No file of a crate may use one that uses it, by however many steps: what a change moves could not be seen.

Files that still do are listed in tests/module_circles.txt, which may only become shorter: a file that is in a circle and
not in the list fails, and so does one that is listed and in none. GPUMEM_BLESS=1 takes files off the list, and adds none."""

import os
import shutil

import harness
import module_graph
import pytest

LIST = harness.ROOT / "tests" / "module_circles.txt"
SOURCES = sorted(
    source.relative_to(harness.ROOT).as_posix()
    for pattern in ("*/src", "simulator/*/src", "tests/*/src")
    for source in harness.ROOT.glob(pattern)
    if (source.parent / "Cargo.toml").is_file()
)


def listed():
    return {line for line in LIST.read_text().splitlines() if line and not line.startswith("#")}


def in_circles(source):
    """The files of a crate that are in a circle, each as `folder: module`."""
    circles = module_graph.circles(module_graph.graph(harness.ROOT / source))
    return {f"{source}: {module}" for circle in circles for module in circle}


def test_all_crates_are_looked_at():
    assert {"interposer/src", "analyzer/src", "capture/src", "replay/src", "unwind/src", "simulator/driver/src"} <= set(SOURCES)
    assert {line.split(":")[0] for line in listed()} <= set(SOURCES)


@pytest.mark.parametrize("source", SOURCES)
def test_no_circle_but_those_that_are_listed(source):
    found, known = in_circles(source), {line for line in listed() if line.startswith(f"{source}: ")}
    if os.environ.get("GPUMEM_BLESS") == "1":
        lines = LIST.read_text().splitlines(keepends=True)
        LIST.write_text("".join(line for line in lines if line.strip() not in known - found))
        known &= found
    assert found - known == set(), "these files are in a circle"
    assert known - found == set(), "these files are in no circle any more: GPUMEM_BLESS=1 takes them off the list"


def test_no_folder_of_the_analyzer_uses_one_that_uses_it():
    """What draws knows the views and they do not know it; commands do not know the command line."""
    folders = {}
    for module, used in module_graph.graph(harness.ROOT / "analyzer" / "src").items():
        folder, *others = ["::".join(of.split("::")[:2]) for of in (module, *used)]
        folders.setdefault(folder, set()).update(other for other in others if other != folder)
    assert module_graph.circles(folders) == []


def test_a_planted_circle_is_found(tmp_path):
    """Through `use`, through a path in the code, and through a file that only re-exports."""
    source = tmp_path / "src"
    shutil.copytree(harness.ROOT / "cuda-abi" / "src", source)
    assert module_graph.circles(module_graph.graph(source)) == []
    for name, text in (
        ("low.rs", "pub struct Low;\nfn up() { crate::face::High::new() }\n"),
        ("face.rs", "pub use crate::high::High;\n"),
        ("high.rs", "use super::low::{Low, self};\npub struct High(Low);\n"),
    ):
        (source / name).write_text(text)
    assert module_graph.circles(module_graph.graph(source)) == [["crate::high", "crate::low"]]
    # What stands in comments, strings and unit tests is no use.
    (source / "low.rs").write_text(
        'pub struct Low; // crate::high::High\nconst A: &str = "crate::high::High";\n'
        "#[cfg(test)]\nmod tests {\n    use crate::high::High;\n}\n"
    )
    assert module_graph.circles(module_graph.graph(source)) == []


def test_what_a_use_names():
    assert module_graph.leaves("a::{b,c as d,e::{self,f}}") == [("a::b", "b"), ("a::c", "d"), ("a::e", "e"), ("a::e::f", "f")]
    assert module_graph.absolute("super::super::x::Y", "crate::a::b::c") == "crate::a::x::Y"
    assert module_graph.absolute("self::x", "crate::a") == "crate::a::x"
