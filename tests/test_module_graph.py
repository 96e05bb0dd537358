"""The files of a crate, or of the pages' programs, must not use each other in a circle, because the effects of a
change would be hard to follow. In the recorder no file uses one of a floor above it, and no observer another
(docs/architecture.md). State belongs to its session, except for the statics listed here."""

import ast
import re
import shutil

import harness
import module_graph
import pytest

SOURCES = sorted(
    source.relative_to(harness.ROOT).as_posix()
    for pattern in ("*/src", "analyzer/*/src", "simulator/*/src", "tests/*/src")
    for source in harness.ROOT.glob(pattern)
    if (source.parent / "Cargo.toml").is_file()
)


# The recorder's floors, from the top: the first part of each module's name.
FLOORS = [
    {"lib", "capi", "hooks", "nvtx"},
    {"open", "exit"},
    {"nearly_full", "oom", "sampler", "scopes"},
    {
        "allocator", "backward", "call", "call_timer", "contexts", "coords", "definitions", "evidence", "facts", "holders", "launcher", "names", "options", "output", "record", "session",
        "sideband", "stack", "stacks", "storage", "tensors", "tracked", "workspace",
    },
    {"card", "driver", "limit"},
    {"account", "call_counts", "call_times", "caller", "failed", "fault", "hook", "memory", "message", "process", "resolve", "stack_sample", "thread"},
]
OBSERVERS = 2
# `dlsym` answers another tool's question for NVTX's entry with our own.
UPWARDS = {("crate::resolve::dlsym", "crate::nvtx")}

# The recorder's state that no session owns, and why. A hook's entry in its section (`HOOK`) is not listed.
STATE = {
    "account::ACCOUNT": "notes what goes unseen before a capture is open, and what was said once",
    "allocator::found::SLOTS": "PyTorch's allocator is set up before a session",
    "call_counts::CALLS": "counts calls before a capture is open, and those in progress, at a fixed address",
    "card::state::CARD": "a limit reads the cards before a session, and NVML is opened once in a process",
    "driver::ask::QUESTION": "the address of a function of the driver, in place of each question",
    "fault::state::FAULT": "a signal handler reads it at any moment",
    "limit::LIMIT": "a limit holds before a session and without one",
    "nvtx::state::NVTX": "copies of NVTX set up their tables, and programs register texts, before a session",
    "process::PROCESS": "says whether there is a session, and where, and what waits for one",
    "resolve::real::REAL": "dlsym and dlopen run before everything else",
    "scopes::SCOPES": "scopes begin before a session and wait for it",
}
# The same in the crates below it: what a process has once, whatever captures it writes.
STATE_BELOW = {
    "python-frames": {"finalizing::UNKNOWN", "finding::SEARCH"},
    "stacks": {"scratch::ENDED"},
    "unwind": {"functions::FUNCTIONS", "modules::UNLOADS"},
}
# Statics that never change: functions for the loader, tables of constants, and the allocator.
CONSTANT = re.compile(r"(?:unsafe )?extern +fn\(\)|session::Open|&\[Row\]|Memory")


def state(text):
    """Statics of the recorder that hold state."""
    return {
        path
        for path, of_type in module_graph.statics(text).items()
        if not path.endswith("::HOOK") and not CONSTANT.fullmatch(of_type)
    }


def upward(graph):
    """Uses of a file on a higher floor, and uses between observers."""
    floor_of = {name: number for number, floor in enumerate(FLOORS) for name in floor}
    for module, used in graph.items():
        name, *others = [(of.split("::") + ["lib"])[1] for of in (module, *sorted(used))]
        for other, of in zip(others, sorted(used)):
            beside = floor_of[name] == floor_of[other] == OBSERVERS and name != other
            if floor_of[other] < floor_of[name] or beside:
                yield module, of


def test_all_crates_are_looked_at():
    assert {"interposer/src", "analyzer/src", "analyzer/cli/src", "analyzer/live/src", "analyzer/http/src", "analyzer/mcp/src", "capture/src", "tracker/src", "unwind/src", "simulator/driver/src"} <= set(SOURCES)


@pytest.mark.parametrize("source", SOURCES)
def test_no_file_is_in_a_circle(source):
    assert module_graph.circles(module_graph.graph(harness.ROOT / source)) == []


def test_no_file_of_the_recorder_uses_one_above_it():
    graph = module_graph.graph(harness.ROOT / "interposer" / "src")
    assert set(upward(graph)) == UPWARDS
    planted = {**graph, "crate::thread": graph["crate::thread"] | {"crate::record"}}
    assert set(upward(planted)) == UPWARDS | {("crate::thread", "crate::record")}
    planted = {**graph, "crate::sampler": graph["crate::sampler"] | {"crate::oom"}}
    assert set(upward(planted)) == UPWARDS | {("crate::sampler", "crate::oom")}


def test_state_belongs_to_the_session_or_is_listed_with_a_reason(tmp_path):
    text = module_graph.modules(harness.ROOT / "interposer" / "src")
    assert state(text) == set(STATE)
    assert len(STATE) <= 11
    for crate, expected in STATE_BELOW.items():
        assert state(module_graph.modules(harness.ROOT / crate / "src")) == expected
    for name, planted in (
        ("a", "fn f() {\n    static SAID: AtomicBool = AtomicBool::new(false);\n}\n"),
        ("b", "pub(crate) static ALL: &[&Cell] = &[];\nthread_local! {\n    static MINE: Cell<u8> = const { Cell::new(0) };\n}\n"),
        ("c", "macro_rules! m {\n    () => { pub static $name: Lock<Vec<u8>> = Lock::new(Vec::new()); }\n}\n"),
        ("d", 'static AT_LOAD: extern "C" fn() = at_load;\nextern "C" {\n    static FIRST: u8;\n}\nfn g(x: &\'static str) {}\n'),
        ("e", "static mut COUNT: u64 = 0;\nstatic HOOK: Hook = Hook::new();\nstatic PAIR: [(AtomicU8, AtomicU8); 2] =\n    [];\n"),
    ):
        (tmp_path / f"{name}.rs").write_text(planted)
    assert state(module_graph.modules(tmp_path)) == {"a::SAID", "b::ALL", "c::$name", "e::COUNT", "e::PAIR"}


@pytest.mark.parametrize("source", ["analyzer/src", "analyzer/cli/src", "analyzer/live/src", "analyzer/mcp/src"])
def test_no_folder_of_the_analyzer_uses_one_that_uses_it(source):
    """Drawing code uses the views, and the views do not use it; commands do not use the command line."""
    folders = {}
    for module, used in module_graph.graph(harness.ROOT / source).items():
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
    # Text in comments, strings and unit tests does not count as a use.
    (source / "low.rs").write_text(
        'pub struct Low; // crate::high::High\nconst A: &str = "crate::high::High";\n'
        "#[cfg(test)]\nmod tests {\n    use crate::high::High;\n}\n"
    )
    assert module_graph.circles(module_graph.graph(source)) == []


def imports(source):
    """Which file of the pages' programs imports which; one of a package of npm's is none of them."""
    graph = {}
    for path in source.glob("**/*.ts"):
        named = re.findall(r'^import [^;]*?"(\.[^"]+)";', path.read_text(), re.M)
        used = {(path.parent / name).resolve().relative_to(source.resolve()).as_posix() for name in named}
        graph[path.relative_to(source).with_suffix("").as_posix()] = used
    return graph


def test_no_file_of_the_pages_is_in_a_circle(tmp_path):
    graph = imports(harness.ROOT / "web" / "src")
    assert {"report/main", "ranks/main", "live/main", "folder/main", "lib/dom"} <= set(graph)
    assert set().union(*graph.values()) <= set(graph)
    assert module_graph.circles(graph) == []
    # What the pages share uses none of them, and no page another.
    for name, used in graph.items():
        assert {of.split("/")[0] for of in used} <= {"lib", name.split("/")[0]}, name
    planted = tmp_path / "src"
    shutil.copytree(harness.ROOT / "web" / "src", planted)
    with open(planted / "report" / "state.ts", "a") as state:
        state.write('import {\n  drawChart,\n} from "./chart";\n')
    assert any({"report/chart", "report/state"} <= set(circle) for circle in module_graph.circles(imports(planted)))


# The rooms of the Python package. A room uses only those before it; the public modules beside them may use any room.
ROOMS = ["_text", "_machine", "_reading", "_inside", "_launch", "_commands", "_whatif", "_plan"]
PUBLIC = {"__init__", "__main__", "compat", "fleet", "ipython", "pytest_plugin", "run"}
# The planned program imports the package as any program does, so that modules get their names.
OUT_OF_ROOMS = {("_plan.inside.names", "")}


def python_imports(package):
    """Which module of the package imports which, at any place of the file; the package itself is the empty name."""
    modules = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        modules[".".join(part for part in parts if part != "__init__")] = path
    graph = {}
    for name, path in modules.items():
        above = ["gpumem", *name.split(".")] if name else ["gpumem"]
        folder = above if path.name == "__init__.py" else above[:-1]
        used = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = ".".join([*folder[: len(folder) - node.level + 1], *([node.module] if node.module else [])] if node.level else [node.module])
                parts = {alias.name: f"{base}.{alias.name}" for alias in node.names}
                used |= {part if part[7:] in modules else base for part in parts.values()}
        graph[name] = {of[7:] for of in used if of == "gpumem" or of[7:] in modules and of.startswith("gpumem.")} - {name}
    return graph


def out_of_rooms(graph):
    """Uses of a later room, of a public module, of another command, and of the package by what a plan loads without it."""
    for module, used in graph.items():
        room = module.split(".")[0]
        if room not in ROOMS:
            continue
        for of in used:
            other = of.split(".")[0]
            command = "_commands" == room == other and module.split(".")[1:2] != of.split(".")[1:2]
            without = module.startswith("_plan.inside.") and not of.startswith("_plan.inside")
            if other not in ROOMS[: ROOMS.index(room) + 1] or command or without:
                yield module, of


def test_the_rooms_of_the_python_package(tmp_path):
    package = harness.ROOT / "python" / "gpumem"
    assert {path.stem for path in package.iterdir() if path.suffix in ("", ".py") and path.name != "__pycache__"} == PUBLIC | set(ROOMS)
    graph = python_imports(package)
    assert {"_text.sizes", "_machine.driver"} <= set(graph) and "_text.sizes" in graph["_inside.holders"]
    assert set(out_of_rooms(graph)) == OUT_OF_ROOMS
    circles = module_graph.circles(graph)
    assert circles == [], circles
    planted = tmp_path / "gpumem"
    shutil.copytree(package, planted)
    for file, line in (("_text/sizes.py", "from .._machine import driver"), ("_machine/ram.py", "    import gpumem.run"), ("_commands/kernel.py", "from .doctor.check import OK"), ("_plan/inside/reads.py", "from ..._text import sizes")):
        with open(planted / file, "a") as opened:
            opened.write(f"\n\ndef _late():\n    {line.strip()}\n")
    found = set(out_of_rooms(python_imports(planted))) - OUT_OF_ROOMS
    assert found == {("_text.sizes", "_machine.driver"), ("_machine.ram", "run"), ("_commands.kernel", "_commands.doctor.check"), ("_plan.inside.reads", "_text.sizes")}


def test_what_a_use_names():
    assert module_graph.leaves("a::{b,c as d,e::{self,f}}") == [("a::b", "b"), ("a::c", "d"), ("a::e", "e"), ("a::e::f", "f")]
    assert module_graph.absolute("super::super::x::Y", "crate::a::b::c") == "crate::a::x::Y"
    assert module_graph.absolute("self::x", "crate::a") == "crate::a::x"
