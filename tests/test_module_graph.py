"""No file of a crate may use one that uses it, by however many steps: what a change moves could not be seen. In the
recorder no file uses one of a floor above its own, and no observer another (docs/architecture.md)."""

import shutil

import harness
import module_graph
import pytest

SOURCES = sorted(
    source.relative_to(harness.ROOT).as_posix()
    for pattern in ("*/src", "simulator/*/src", "tests/*/src")
    for source in harness.ROOT.glob(pattern)
    if (source.parent / "Cargo.toml").is_file()
)


# The recorder's floors, from the top: the first part of each module's name.
FLOORS = [
    {"lib", "capi", "hooks", "nvtx"},
    {"open", "exit"},
    {"sampler", "postmortem", "scopes"},
    {
        "autograd", "call", "contexts", "definitions", "evidence", "facts", "live", "names", "options", "output", "record", "session",
        "sideband", "stack", "stacks", "storage", "tensor", "tracked", "workspace",
    },
    {"card", "driver", "limit"},
    {"account", "call_counts", "caller", "failed", "fault", "hook", "message", "process", "resolve", "thread"},
]
OBSERVERS = 2
# `dlsym` answers another tool's question for NVTX's entry with our own.
UPWARDS = {("crate::resolve::dlsym", "crate::nvtx")}


def upward(graph):
    """Uses of a file that stands above, or beside among the observers."""
    floor_of = {name: number for number, floor in enumerate(FLOORS) for name in floor}
    for module, used in graph.items():
        name, *others = [(of.split("::") + ["lib"])[1] for of in (module, *sorted(used))]
        for other, of in zip(others, sorted(used)):
            beside = floor_of[name] == floor_of[other] == OBSERVERS and name != other
            if floor_of[other] < floor_of[name] or beside:
                yield module, of


def test_all_crates_are_looked_at():
    assert {"interposer/src", "analyzer/src", "capture/src", "tracker/src", "unwind/src", "simulator/driver/src"} <= set(SOURCES)


@pytest.mark.parametrize("source", SOURCES)
def test_no_file_is_in_a_circle(source):
    assert module_graph.circles(module_graph.graph(harness.ROOT / source)) == []


def test_no_file_of_the_recorder_uses_one_above_it():
    graph = module_graph.graph(harness.ROOT / "interposer" / "src")
    assert set(upward(graph)) == UPWARDS
    planted = {**graph, "crate::thread": graph["crate::thread"] | {"crate::record"}}
    assert set(upward(planted)) == UPWARDS | {("crate::thread", "crate::record")}
    planted = {**graph, "crate::sampler": graph["crate::sampler"] | {"crate::postmortem"}}
    assert set(upward(planted)) == UPWARDS | {("crate::sampler", "crate::postmortem")}


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
