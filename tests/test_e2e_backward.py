"""The lines to which allocations of PyTorch's backward are charged; phases, steps and NVTX ranges. Known functions
own known bytes, in real PyTorch on the simulator, read from the capture's records.

What breaks these tests: a node looked up under the wrong thread or number, a running node that an exception does not
end, frames older than a node's run that count as newer ones, a parameter's block that is not found, a hook that
changes a result, an event without its counterpart."""

import json
import re
from collections import Counter, namedtuple

import harness
import pytest
from test_interposer import ALLOC, FREE, QUIET, simulator  # noqa: F401

STEP = 13
RANGE_BEGIN, RANGE_END, PHASE_BEGIN, PHASE_END = 22, 23, 24, 25
BACKWARD, OPTIMIZER, ZERO_GRAD = 1, 2, 3
WORKSPACE = 8192
SQUARE = 128 * 128 * 4
TORCHES = ("torch215", "torch112")

# The owner of an allocation: a function of the user's, and the class of the node that ran (None: no node), or None for
# a lost forward line.
Owner = namedtuple("Owner", "function node")


def class_of(mangled):
    """The last part of a mangled name: a number before each part is its length."""
    place = re.search(r"\d", mangled)
    while place:
        length = re.match(r"\d+", mangled[place.start():])[0]
        start = place.start() + len(length)
        name, mangled = mangled[start: start + int(length)], mangled[start + int(length):]
        place = re.match(r"\d", mangled)
    return name


class Records:
    """A capture's records, with its stacks resolved to functions."""

    def __init__(self, dump, path):
        self.rows = [json.loads(line) for line in harness.run([dump, path]).stdout.splitlines()]
        self.codes = {row["code"]: row for row in self.rows if "code" in row}
        self.stacks = {row["python_stack"]: row["codes"] for row in self.rows if "python_stack" in row}
        self.backward = {row["backward"]: row for row in self.rows if "backward" in row}
        self.ranges = {row["range"]: row["name"] for row in self.rows if "range" in row}
        self.notes = [row["note"] for row in self.rows if "note" in row]
        assert self.rows[-1]["whole"] and self.rows[-1]["lost"] == 0

    def events(self, *kinds):
        return [row for row in self.rows if row.get("kind") in kinds]

    def users(self, codes):
        """The newest function of the user's among code objects."""
        for code in map(self.codes.get, codes):
            if "site-packages" not in code["file"] and not code["file"].startswith("<"):
                return code["name"].rsplit(".", 1)[-1]
        return None

    def owner(self, stack):
        """By the rule that `DefKind::BACKWARD` gives its readers."""
        if stack not in self.backward:
            return Owner(self.users(self.stacks.get(stack, [])), None)
        made = self.backward[stack]
        node = class_of(made["node"])
        own = self.users(self.stacks.get(made["own"], [])[: made["newer"]])
        if own is not None:
            return Owner(own, node)
        forward = None if made["lost"] else self.owner(made["forward"]).function
        return Owner(forward, node)

    def tensors(self, within=None):
        """Allocations and frees of tensors, each with whether a range of that name is open on any thread."""
        ranges = {}
        for event in self.events(ALLOC, FREE, RANGE_BEGIN, RANGE_END):
            if event["kind"] == RANGE_BEGIN:
                ranges.setdefault(event["thread"], []).append(self.ranges[event["aux"]])
            elif event["kind"] == RANGE_END:
                ranges[event["thread"]].pop()
            elif event["level"] == "tensor":
                yield event, within is None or any(within in names for names in ranges.values())

    def bytes_by_owner(self, within=None, workspaces=False):
        """Bytes that were allocated by each owner, within a range if one is named."""
        owners = Counter()
        for event, wanted in self.tensors(within):
            if wanted and event["kind"] == ALLOC and bool(event["flags"] & WORKSPACE) == workspaces:
                owners[self.owner(event["python"])] += event["bytes"]
        return owners


@pytest.fixture
def record(forks, dump, tmp_path):
    """Runs a workload of PyTorch's under the library and reads what it recorded."""

    def record(environment, script, *arguments, env=None):
        forks(environment).run([harness.WORKLOADS / script, *arguments], cwd=tmp_path, env={**QUIET, **(env or {})})
        return Records(dump, tmp_path / "report.bin")

    return record


def test_names_of_classes():
    assert class_of("N5torch8autograd9generated11MmBackward0E") == "MmBackward0"
    assert class_of("N5torch8autograd6PyNodeE") == "PyNode"
    assert class_of("27DifferentiableGraphBackward") == "DifferentiableGraphBackward"


# What backward must own, by function and node, in squares of 64 KiB. Two numbers: 2.15 and 1.12, which adds up
# a gradient's parts elsewhere.
MM, MUL, RELU = "MmBackward0", "MulBackward0", "ReluBackward0"
BACKWARDS = {
    "linear": {("product", MM): 2, ("rectified", RELU): 1},
    "custom": {("product", MM): 2, ("doubled_backward", "PyNode"): 1},
    "reentrant": {
        ("product", "PyNode"): 1, ("rectified", "PyNode"): 1, ("rectified", RELU): 1, ("product", MM): (2, 3),
    },
    "not_reentrant": {
        ("product", RELU): 1, ("rectified", RELU): 2, ("product", MM): (2, 3),
    },
    "nested_checkpoints": {
        ("product", RELU): 1, ("rectified", RELU): 2, ("product", MM): (2, 3),
    },
    "retained": {("product", MM): 4},
    "double_backward": {("cubed", MUL): (14, 19)},
    "exception": {("product", MM): 8},
    "tensor_hooks": {("product", MM): 3, ("hooked_gradient", MM): 1},
    "four_threads": {(f"product_{thread}", MM): (80, 100) for thread in range(4)},
    "dead_threads": {(f"product_{thread}", MM): (4, 5) for thread in range(4)},
    "saved_tensors_hooks": {("product", MM): 2, ("unpacked", MM): 1},
    "parameters": {("square", "AccumulateGrad"): 1},
    "lbfgs": {("product", MM): 8},
    "cpu_graph": {("product", MM): 2},
    "two_gpus": {("product", MM): 3, ("two_gpus", "ToCopyBackward0"): 1},
    "deep_graph": {("product", MM): 2},
    "forked": {("product", MM): 2},
}


OTHERS = ("convolution", "mixed_precision", "scripted")


@pytest.fixture(scope="session")
def all_cases(forks, dump, tmp_path_factory):
    """The records of a process that went through all cases; run once for each environment."""
    known = {}

    def all_cases(environment):
        if environment not in known:
            folder = tmp_path_factory.mktemp("backward")
            script = [harness.WORKLOADS / "backward_lines.py", *BACKWARDS, *OTHERS]
            forks(environment).run(script, cwd=folder, env=QUIET, devices=2)
            known[environment] = Records(dump, folder / "report.bin")
        return known[environment]

    return all_cases


@pytest.mark.parametrize("environment", TORCHES)
@pytest.mark.parametrize("case", BACKWARDS)
def test_backward_is_charged_to_the_forward(case, environment, all_cases):
    records = all_cases(environment)
    owners = records.bytes_by_owner(case)
    index = TORCHES.index(environment)
    promised = {
        owner: (squares if isinstance(squares, int) else squares[index]) * SQUARE
        for owner, squares in BACKWARDS[case].items()
    }
    found = {tuple(owner): size for owner, size in owners.items() if owner.node is not None}
    assert found == promised
    assert None not in {owner.function for owner in owners}, "all that was allocated has a line"
    assert records.notes == []


@pytest.mark.parametrize("environment", TORCHES)
def test_phases_are_left_by_exceptions_as_well(environment, all_cases):
    depths = Counter()
    for event in all_cases(environment).events(PHASE_BEGIN, PHASE_END):
        depths[event["thread"], event["aux"]] += 1 if event["kind"] == PHASE_BEGIN else -1
        assert depths[event["thread"], event["aux"]] in (0, 1)
    assert depths and set(depths.values()) == {0}


@pytest.mark.parametrize("environment", TORCHES)
def test_convolution_mixed_precision_and_scripted_code(environment, all_cases):
    owners = sum(map(all_cases(environment).bytes_by_owner, OTHERS), Counter())
    # How much of it goes to which node is the compiler's affair.
    scripted = {owner: size for owner, size in owners.items() if owner.node == "DifferentiableGraphBackward"}
    assert list(scripted) == [Owner("scripted", "DifferentiableGraphBackward")]
    assert sum(scripted.values()) >= 6 * SQUARE
    assert owners[Owner("convolved", "ConvolutionBackward0")] > 4 * 8 * 32 * 32 * 4
    # The weight's gradient in half precision, and again in single.
    assert owners[Owner("product", MM)] == 3 * SQUARE // 2
    assert owners[Owner("product", "ToCopyBackward0")] == 3 * SQUARE
    assert None not in {owner.function for owner in owners}


def test_compiled_code_is_its_functions(record):
    owners = record("torch215", "backward_lines.py", "compiled").bytes_by_owner()
    assert owners[Owner("product", "PyNode")] >= 2 * SQUARE
    assert None not in {owner.function for owner in owners}


def test_vmapped_gradients(record):
    owners = record("torch215", "backward_lines.py", "vmapped").bytes_by_owner()
    assert owners[Owner("product", MM)] > 4 * SQUARE
    assert None not in {owner.function for owner in owners}


@pytest.mark.slow
@pytest.mark.parametrize("environment", TORCHES)
def test_a_lost_line_is_said_to_be_lost(environment, record):
    records = record(environment, "backward_lines.py", "lost")
    owners = records.bytes_by_owner()
    backward = {owner: size for owner, size in owners.items() if owner.node is not None}
    assert backward == {Owner(None, MM): 2 * SQUARE}
    assert {made["lost"] for made in records.backward.values() if MM in made["node"]} == {True}


@pytest.mark.parametrize("environment", TORCHES)
def test_ended_threads_make_room_for_others(environment, record):
    owners = record(environment, "backward_lines.py", "short_threads").bytes_by_owner()
    backward = {owner: size for owner, size in owners.items() if owner.node is not None}
    squares = BACKWARDS["dead_threads"]["product_0", MM][TORCHES.index(environment)]
    assert backward == {Owner(None, MM): squares * SQUARE, Owner("product_1", MM): squares * SQUARE}


@pytest.mark.parametrize("environment", TORCHES)
def test_a_training_has_a_line_for_every_byte(environment, record):
    records = record(environment, "train.py", "--steps", "3", "--batch", "4")
    owners = records.bytes_by_owner()
    assert None not in {owner.function for owner in owners}
    in_backward = sum(size for owner, size in owners.items() if owner.node is not None)
    assert in_backward > sum(owners.values()) / 4
    assert {owner.node for owner in owners} >= {None, "ConvolutionBackward0", "NativeLayerNormBackward0"}


def test_workspaces_are_told_from_tensors(all_cases):
    workspaces = all_cases("torch215").bytes_by_owner("linear", workspaces=True)
    # One product forward, two backward, 32 MiB each.
    assert workspaces == {Owner("product", None): 32 << 20, Owner("product", MM): 64 << 20}


@pytest.mark.parametrize("how", ({"GPUMEM_BACKWARD": "off"}, {"GPUMEM_STACKS": "native"}, {"GPUMEM_STACKS": "off"}))
def test_it_can_be_left_out(how, record):
    records = record("torch215", "phases.py", "plain", env=how)
    assert records.backward == {}
    assert records.events(STEP, PHASE_BEGIN, PHASE_END) == []
    stacks = {event["python"] != 0 for event in records.events(ALLOC) if event["level"] == "tensor"}
    assert stacks == ({True, False} if "GPUMEM_BACKWARD" in how else {False})


@pytest.mark.parametrize("environment", TORCHES)
def test_results_are_the_same_to_the_bit(environment, forks, tmp_path):
    command = [harness.WORKLOADS / "cpu_training.py"]
    without, recorded = (forks(environment, preload).run(command, cwd=tmp_path, env=QUIET) for preload in (False, True))
    assert re.fullmatch(r"[0-9a-f]{64} \S+\n", without.stdout)
    assert (recorded.stdout, recorded.stderr) == (without.stdout, without.stderr)


@pytest.mark.slow
def test_a_program_without_python_has_labels(python_env, build_c, simulate, dump, tmp_path):
    [torch] = (python_env("torch215").parent.parent / "lib").glob("python3.*/site-packages/torch")
    program = build_c(
        "cpp_training.cpp", "-std=c++20", "-w", "-DAT_PER_OPERATOR_HEADERS", f"-I{torch}/include", f"-L{torch}/lib",
        "-Wl,--no-as-needed,--unresolved-symbols=ignore-in-shared-libs", f"-Wl,-rpath,{torch}/lib",
        "-ltorch", "-ltorch_cuda", "-ltorch_cpu", "-lc10_cuda", "-lc10",
    )
    done = simulate([program], preload=True, env=QUIET)
    assert (done.stdout, done.stderr) == (f"{128 * 128}\n", "")
    records = Records(dump, tmp_path / "report.bin")
    assert records.notes == []
    owners = records.bytes_by_owner()
    # Three steps: a product's two gradients, and for each of them the sum's, laid out.
    assert owners[Owner(None, MM)] == 3 * 4 * SQUARE
    assert {owner.function for owner in owners} == {None}
    rows = harness.analyze_json("lines", "--level", "tensor", "--at", "peak", tmp_path / "report.bin")
    assert {row["file"] for row in rows} == {None} and sum(row["bytes"] for row in rows) >= 4 * SQUARE


# A fake autograd with known layouts and an unknown one, without Python

LAYOUTS = {
    "intrusive": ("-DSEQUENCE=16", "-DTHREAD=40", "-DINTRUSIVE"),
    "shared": ("-DSEQUENCE=24", "-DTHREAD=48"),
    "unknown": ("-DSEQUENCE=32", "-DTHREAD=64"),
}
BLOCKS = ["N5torch8autograd4NodeE"] * 200 + ["N5torch8autograd8ThrowingE"] * 3 + ["N5torch8autograd14AccumulateGradE"] * 7


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, build_c, simulate, dump, tmp_path):
    folder = tmp_path / "torch"
    folder.mkdir()
    c10 = build_c("hook_c10.cpp", "-shared", "-fPIC", "-Wl,-soname,libc10.so")
    (folder / "libc10.so").symlink_to(c10)
    torch = build_c(
        "hook_autograd.cpp", "-std=c++17", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", *LAYOUTS[layout],
        folder / "libc10.so", f"-Wl,-rpath,{folder}",
    )
    command = [build_c("hook_loader.c", "-ldl"), torch, "x"]
    without = simulate(command, env=QUIET)
    assert "\n212 blocks, 6 exceptions\n" in without.stdout
    recorded = simulate(command, env=QUIET, preload=True)
    assert (recorded.stdout, recorded.stderr) == (without.stdout, "")
    records = Records(dump, tmp_path / "report.bin")
    stacks = [event["python"] for event in records.events(ALLOC) if event["level"] == "tensor"]
    assert len(stacks) == 212 and stacks[0] == stacks[-1] == 0
    nodes = [records.backward[stack]["node"] if stack else None for stack in stacks[1:-1]]
    assert all(made["lost"] and made["own"] == 0 for made in records.backward.values())
    phases = [event["kind"] for event in records.events(PHASE_BEGIN, PHASE_END)]
    assert phases == [PHASE_BEGIN, PHASE_END] * 4
    unknown = [note for note in records.notes if "autograd nodes have an unknown layout" in note]
    if layout != "unknown":
        assert nodes == BLOCKS and not unknown
    else:
        # The recorder stopped once this was clear, with one message.
        assert nodes[:33] == BLOCKS[:33] and set(nodes[64:]) == {None} and len(unknown) == 1


# Phases and steps

ZERO, BACK, OPT = ("zero", "back", "opt")
NAMES = {ZERO_GRAD: ZERO, BACKWARD: BACK, OPTIMIZER: OPT}
LOOPS = {
    "plain": f"({ZERO}) ({BACK}) ({OPT}) | " * 3,
    "gathered": f"({BACK}) ({BACK}) ({BACK}) ({BACK}) ({OPT}) | ({ZERO}) " * 3,
    "adversarial": f"({ZERO}) ({BACK}) ({OPT}) | ({ZERO}) ({BACK}) ({OPT}) " * 3,
    "skipped": f"({ZERO}) ({BACK}) ({OPT}) | ({ZERO}) ({BACK}) | ({ZERO}) ({BACK}) ({OPT}) | ",
    "by_hand": f"({BACK}) | " * 3,
    "annotated": f"({ZERO}) ({BACK}) ({OPT}) | " * 3,
}


def told(records):
    """Phases in parentheses as they are nested, and steps as bars."""
    text = ""
    for event in records.events(STEP, PHASE_BEGIN, PHASE_END):
        if event["kind"] == PHASE_BEGIN:
            text += f" ({NAMES[event['aux']]}"
        else:
            text += ")" if event["kind"] == PHASE_END else " |"
    return text.split()


@pytest.mark.parametrize("environment", TORCHES)
@pytest.mark.parametrize("loop", LOOPS)
def test_phases_and_steps(loop, environment, record):
    records = record(environment, "phases.py", loop)
    assert told(records) == LOOPS[loop].split()
    steps = records.events(STEP)
    assert [(event["aux"], event["bytes"]) for event in steps] == [(n + 1, 0) for n in range(3)]
    assert len({event["thread"] for event in records.events(STEP, PHASE_BEGIN, PHASE_END)}) == 1


@pytest.mark.parametrize("environment", TORCHES)
def test_closures_are_within_their_step(environment, record):
    words = told(record(environment, "phases.py", "closures"))
    depths, depth = [], 0
    for word in words:
        depth += word.count("(")
        depths.append(depth)
        depth -= word.count(")")
        assert word != "|" or depth == 0, words
    assert max(depths) == 2 and words.count("|") == 3 and words.count("(opt") == 3, words


@pytest.mark.parametrize("environment", TORCHES)
def test_the_program_says_its_steps(environment, record):
    package = {"PYTHONPATH": str(harness.ROOT / "python")}
    steps = record(environment, "phases.py", "said", env=package).events(STEP)
    assert [(event["aux"], event["bytes"]) for event in steps] == [(1, 0), (2, 0), (3, 1), (4, 1)]


# NVTX


def ranges(records):
    """Names of ranges as they begin; ")" where a pushed one ends, "end NAME" for others."""
    handles, words = {}, []
    for event in records.events(RANGE_BEGIN, RANGE_END):
        if event["kind"] == RANGE_BEGIN:
            words.append(records.ranges[event["aux"]])
            handles[event["ptr"]] = words[-1]
        else:
            words.append(")" if event["ptr"] == 0 else f"end {handles.pop(event['ptr'])}")
    return words


NVTX_SCRIPT = """
import os, torch
from torch.cuda import nvtx
torch.zeros(1, device="cuda")
nvtx.range_push("outer")
with nvtx.range("größe"):
    torch.zeros(1, device="cuda")
nvtx.range_pop()
with torch.autograd.profiler.emit_nvtx():
    torch.zeros(3)
os._exit(0)
"""


@pytest.mark.parametrize("environment", TORCHES)
def test_pytorchs_ranges(environment, forks, dump, tmp_path):
    forks(environment).run(["-c", NVTX_SCRIPT], cwd=tmp_path, env=QUIET)
    words = ranges(Records(dump, tmp_path / "report.bin"))
    assert words[:4] == ["outer", "größe", ")", ")"]
    assert any(word.startswith("aten::zeros") for word in words[4:])
    assert len([word for word in words if word == ")"]) * 2 == len(words)


@pytest.fixture
def nvtx(python_env):
    """Flags to compile with NVTX's headers and the simulated driver."""
    packages = python_env("torch215").parent.parent / "lib"
    [header] = packages.glob("python*/site-packages/nvidia/cu13/include/nvtx3/nvToolsExt.h")
    return [f"-I{header.parent.parent}", "-ldl"]


ALL_FORMS = [
    "narrow", "wide", "attributes", "größe", ")", "registered", "end registered", "end größe", ")", ")",
    "started", "registered", "end started", "end registered",
]


def test_every_form_of_a_range(nvtx, build_c, simulator, simulate, dump, tmp_path):  # noqa: F811
    client = build_c("nvtx_ranges.c", *nvtx, simulator / "libcuda.so.1")
    without = simulate([client], env=QUIET)
    assert without.stdout == "-2 -2 -2 -2 -2 -2 -2 -2 -2 -2\n -2\n"
    recorded = simulate([client], env=QUIET, preload=True)
    assert (recorded.stdout, recorded.stderr) == (without.stdout, "")
    assert ranges(Records(dump, tmp_path / "report.bin")) == ALL_FORMS


def test_another_tool_is_called_first(nvtx, build_c, simulator, simulate, dump, tmp_path):  # noqa: F811
    client = build_c("nvtx_ranges.c", *nvtx, simulator / "libcuda.so.1")
    tool = build_c("nvtx_tool.c", *nvtx, "-shared", "-fPIC")
    env = {**QUIET, "NVTX_INJECTION64_PATH": str(tool)}
    without = simulate([client], env=env)
    assert without.stdout.startswith("[tool: push narrow]0 -2 -2 -2[tool: pop]")
    assert "[tool: start started][tool: end 4711]" in without.stdout
    recorded = simulate([client], env=env, preload=True)
    assert (recorded.stdout, recorded.stderr) == (without.stdout, "")
    assert ranges(Records(dump, tmp_path / "report.bin")) == ALL_FORMS


def test_a_child_without_the_recorder_has_no_tool(nvtx, build_c, simulator, simulate):
    """It has inherited the variable, and is as without it."""
    client = build_c("nvtx_handles.c", *nvtx)
    without = simulate([client])
    assert without.stdout == "none none\n"
    inherited = simulate([client], env={"NVTX_INJECTION64_PATH": str(harness.LIBRARY)})
    assert (inherited.stdout, inherited.stderr) == (without.stdout, "")


def test_the_variable_is_set_only_for_preloaded_programs(tmp_path):
    def variable(**env):
        return harness.run(["printenv", "NVTX_INJECTION64_PATH"], env=env, check=False).stdout.strip()

    assert variable(LD_PRELOAD=str(harness.LIBRARY)) == str(harness.LIBRARY)
    assert variable(LD_PRELOAD=str(harness.LIBRARY), NVTX_INJECTION64_PATH="/x.so") == "/x.so"
    assert variable() == ""
