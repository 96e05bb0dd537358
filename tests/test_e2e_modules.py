"""The PyTorch module in which each allocation was made, on a real training: a transformer with a checkpointed block
and AdamW. The program's own hooks record the module of each allocation (tests/workloads/modules_oracle.py); a second
reader of the format sums what was live.

What breaks these tests: a stack that is the same for two modules, a module of an older frame or of one that has
returned, a backward charged to the module that ran last, a recomputation charged to its first forward, a name of
another object, a filter or a tree that counts twice."""

import functools
import json
import random
from collections import Counter, namedtuple

import harness
import pytest
import spec_reader

ALLOC, FREE, OUT_OF_MEMORY, TENSOR = 1, 2, 6, 0
NN_MODULE, NN_MODULE_NAME = 143, 144
SCRIPT = harness.WORKLOADS / "modules_oracle.py"
PACKAGE = {"PYTHONPATH": str(harness.ROOT / "python")}

Run = namedtuple("Run", "report told records objects")


def run(forks, folder, *wants):
    out = folder / "told.json"
    forks("torch215").run([SCRIPT, out, *wants], cwd=folder, env={**PACKAGE, "GPUMEM_QUIET": "1"})
    records = spec_reader.read(folder / "report.bin").order.records
    # By number: address and class of a module, and which one of its class it is.
    objects, classes = {}, Counter()
    for word, _, kind, *fields in records:
        if word == "definition" and kind == NN_MODULE:
            number, address, name = fields
            classes[name] += 1
            objects[number] = (address, name, classes[name])
    return Run(folder / "report.bin", json.loads(out.read_text()), records, objects)


@pytest.fixture(scope="module")
def runs(forks, tmp_path_factory):
    """runs("names"): with the package in the program, which has the names of modules; "plain": without; "compiled"."""
    wants = {"names": ["names"], "plain": [], "compiled": ["compile"]}
    return functools.lru_cache(lambda name: run(forks, tmp_path_factory.mktemp(name), *wants[name]))


def module_of_each_allocation(told):
    """By the number of the allocation, from 1: the address of the module that hooks had on their stack."""
    return {
        number: module for before, after, module in told["spans"] for number in range(before + 1, after + 1)
    }


def live_by_module(this, until):
    """Bytes by the address of a module (0: none) after the event `until`."""
    module_of = module_of_each_allocation(this.told)
    live, held, number = {}, Counter(), 0
    for word, seq, *fields in this.records:
        if word != "event" or seq > until:
            continue
        _, address, size, _, _, _, _, kind, level, *_ = fields
        if level != TENSOR:
            continue
        if kind == ALLOC:
            number += 1
            live[address] = (size, module_of.get(number, 0))
        elif kind == FREE:
            live.pop(address)
    for size, module in live.values():
        held[module] += size
    return +held


def name_of(this, name):
    """What a module is shown as, by its address."""
    if name == "names":
        return {int(address): path or kind for address, (kind, path) in this.told["modules"].items()}
    return {address: f"{kind}#{ordinal}" for address, kind, ordinal in this.objects.values()}


def shown(rows):
    held = Counter()
    for row in rows:
        held[row["module"]] += row["bytes"]
    return held


def moments(this):
    """The end, the failure, and 50 events of tensors."""
    events = [(seq, fields) for word, seq, *fields in this.records if word == "event"]
    tensors = [seq for seq, fields in events if fields[8] == TENSOR and fields[7] in (ALLOC, FREE)]
    failed = [seq for seq, fields in events if fields[7] == OUT_OF_MEMORY]
    assert failed, "the program ran out of memory"
    return [events[-1][0], failed[0], *random.Random(7).sample(tensors, 50)]


@pytest.mark.parametrize("name", ("names", "plain"))
def test_modules_own_what_was_allocated_in_them(runs, analyze_json, name):
    this = runs(name)
    names = {**name_of(this, name), 0: None}
    for moment in moments(this):
        expected = Counter()
        for module, held in live_by_module(this, moment).items():
            expected[names[module]] += held
        rows = analyze_json("lines", "--by", "module", "--at", str(moment), this.report)
        assert shown(rows) == expected, moment
    assert shown(analyze_json("lines", "--by", "module", "--at", "end", this.report)).total() == this.told["live"]


@pytest.mark.parametrize("name", ("names", "plain"))
def test_sums_are_the_level_s_figure(runs, analyze_json, name):
    this = runs(name)
    tensor = harness.device_of(analyze_json("report", "--all", this.report))["tensor"]
    for moment, figure in (("peak", tensor["peak_bytes"]), ("end", tensor["live_bytes"])):
        rows = analyze_json("lines", "--by", "module", "--at", moment, this.report)
        assert sum(row["bytes"] for row in rows) == figure
        tree = analyze_json("tree", "--by", "module", "--at", moment, this.report)
        assert tree["bytes"] == figure
        folded = harness.analyze("flamegraph", "--by", "module", "--format", "folded", "--at", moment, this.report).stdout
        assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == figure


def test_every_block_has_the_module_that_the_hooks_had(runs):
    """Block by block, from the records alone: forward stacks name their module themselves."""
    for this in (runs("names"), runs("plain")):
        stacks, backward = {}, set()
        for word, _, kind, *fields in this.records:
            if word == "definition" and kind == 130:
                stacks[fields[0]] = fields[3] if len(fields) > 3 else []
            elif word == "definition" and kind == 140:
                backward.add(fields[0])
        module_of = module_of_each_allocation(this.told)
        number = inside = outside = 0
        for word, _, *fields in this.records:
            if word != "event" or (fields[7], fields[8]) != (ALLOC, TENSOR):
                continue
            number += 1
            if fields[4] in backward:
                continue
            calls = stacks[fields[4]]
            got = this.objects[calls[0][1]][0] if calls else None
            assert got == module_of.get(number), number
            inside, outside = inside + (got is not None), outside + (got is None)
        assert inside > 200 and outside > 100


def test_a_tree_holds_what_its_parts_hold(runs, analyze_json):
    this = runs("names")
    flat = shown(analyze_json("lines", "--by", "module", this.report))

    def check(node, seen):
        children = sum(child["bytes"] for child in node["children"])
        assert node["bytes"] == node["own_bytes"] + children
        below = [name for name in flat if name and (name + ".").startswith(node["frame"] + ".")]
        if node["frame"] in flat or below:
            assert node["bytes"] == sum(flat[name] for name in below)
            seen.add(node["frame"])
        for child in node["children"]:
            check(child, seen)
        return seen

    assert {"blocks", "blocks.2", "blocks.2.attn"} <= check(analyze_json("tree", "--by", "module", this.report), set())


@pytest.mark.parametrize(
    "pattern, takes",
    [
        ("blocks.*.attn", lambda name: name.startswith("blocks.") and name.split(".")[2:3] == ["attn"]),
        ("blocks.2", lambda name: (name + ".").startswith("blocks.2.")),
        ("*norm", lambda name: name.endswith("norm")),
        ("head", lambda name: name == "head"),
        ("(no module)", lambda name: name == ""),
        ("nothing", lambda name: False),
    ],
)
def test_filter_takes_modules_and_their_parts(runs, analyze_json, pattern, takes):
    report = runs("names").report
    flat = shown(analyze_json("lines", "--by", "module", report))
    expected = Counter({name: held for name, held in flat.items() if takes(name or "")})
    assert shown(analyze_json("lines", "--by", "module", "--module", pattern, report)) == expected
    rows = analyze_json("lines", "--module", pattern, report)
    assert sum(row["bytes"] for row in rows) == expected.total()
    assert analyze_json("tree", "--module", pattern, report)["bytes"] == expected.total()


def test_names_are_told_by_the_package_alone(runs):
    def named(this):
        return {
            this.objects[fields[0]][0]: fields[1]
            for word, _, kind, *fields in this.records
            if word == "definition" and kind == NN_MODULE_NAME
        }

    assert named(runs("plain")) == {}
    told = {int(address): path or kind for address, (kind, path) in runs("names").told["modules"].items()}
    seen = {address for address, *_ in runs("names").objects.values()}
    assert named(runs("names")) == {address: told[address] for address in seen}


@pytest.mark.slow
def test_a_compiled_module_is_the_wrapper(runs):
    """Its parts run inside it without separate calls: their allocations belong to the wrapper."""
    this = runs("compiled")
    before, after, wrapper = this.told["spans"][-1]
    assert after > before
    assert "OptimizedModule" in {kind for address, kind, _ in this.objects.values() if address == wrapper}
