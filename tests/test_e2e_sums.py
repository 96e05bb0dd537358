"""Every total that a view prints is the sum of its rows: in JSON to the byte, and in the text the same figures.

The rows and totals of each view are named in one table, and looked up in captures of real trainings, of one that
fails, and in fixtures of damaged captures.

What breaks these tests: a row left out of a table or of its total, a total taken from elsewhere than its rows, a
row of JSON that the text does not show or shows with another figure."""

import json
import re

import harness
import pytest
from browser import page_data

FIXTURES = harness.ROOT / "tests" / "fixtures" / "captures" / "v1"
CAPTURES = ("training", "failing", "fragmented", "torch-return", "lost", "wrapped")
# Exit codes of a result: whole, and partial.
RESULTS = (0, 3)


@pytest.fixture(scope="module")
def capture(trained, python_env, tmp_path_factory):
    """capture(name): the path of one."""
    made = {}

    def record(name, *script, **options):
        folder = tmp_path_factory.mktemp(name)
        harness.simulate([python_env("torch215"), *script], preload=True, cwd=folder, **options)
        return folder / "report.bin"

    def of(name):
        if name in made:
            return made[name]
        if name == "training":
            made[name] = trained("torch215").report
        elif name == "failing":
            made[name] = record(name, harness.WORKLOADS / "out_of_memory.py", "full", memory="1536MiB", check=False)
        elif name == "fragmented":
            made[name] = record(name, harness.WORKLOADS / "faults.py", "cached_unused", "faulty")
        else:
            made[name] = FIXTURES / f"{name}.bin"
        return made[name]

    return of


def human(size):
    """Bytes as people see them: three digits, steps of 1024."""
    if size < 0:
        return "-" + human(-size)
    if size < 1024:
        return f"{size} B"
    value = size / 1024
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        for decimals, limit in ((2, 10), (1, 100), (0, 1024)):
            if float(f"{value:.{decimals}f}") < limit:
                return f"{value:.{decimals}f} {unit}"
        value /= 1024
    raise AssertionError(size)


def total(rows, field="bytes"):
    return sum(row[field] for row in rows)


# Each view: its arguments, and from its JSON (what it is, the total, the rows' sum); and the figures in the text, one
# list of them for each line that has them, in order.


def lines(found, summary, level="tensor", moment="peak"):
    figures = [device[level][f"{moment}_bytes"] for device in summary["devices"]]
    yield f"the {level} level's own {moment}", sum(figures), total(found)


def ledger(found, summary):
    for one in found:
        yield f"GPU {one['device']}", one["bytes"], total(one["rows"])
        pool = one["pool"]
        if pool and pool["segments"]:
            for field, whole in (("bytes", "reserved_bytes"), ("live_bytes",) * 2, ("cached_bytes",) * 2):
                yield f"the pool's {whole}", pool[whole], total(pool["segments"], field)
            for segment in pool["segments"]:
                yield "a segment's lines", segment["live_bytes"], total(segment["lines"])
                yield "a segment's parts", segment["bytes"], segment["live_bytes"] + segment["cached_bytes"]
            if pool["lines"]:
                yield "the pool's lines", pool["live_bytes"], total(pool["lines"])


def tree(found, summary):
    figures = [device["tensor"]["peak_bytes"] for device in summary["devices"]]
    yield "all", sum(figures), found["bytes"]
    nodes = [found]
    while nodes:
        node = nodes.pop()
        for field in ("bytes", "blocks"):
            own = node["own_bytes"] if field == "bytes" else None
            parts = total(node["children"], field)
            if own is not None:
                yield node["frame"], node[field], parts + own
            else:
                assert parts <= node[field]
        nodes += node["children"]


def leaks(found, summary):
    yield "together", found["bytes"], total(found["rows"])


def temporary(found, summary):
    yield "bytes", found["bytes"], total(found["rows"])
    yield "blocks", found["blocks"], total(found["rows"], "blocks")


def sizes(found, summary):
    for one in found:
        for field in ("allocations", "allocated_bytes", "live_blocks", "live_bytes"):
            yield field, one[field], total(one["rows"], field)
        device = next(device for device in summary["devices"] if device["ordinal"] == one["device"])
        yield "the peak", device["tensor"]["peak_bytes"], one["live_bytes"]
        yield "allocations", device["tensor"]["allocations"], one["allocations"]


def threads(found, summary):
    for one in found:
        for field in ("allocations", "allocated_bytes", "frees", "freed_bytes", "live_blocks", "live_bytes"):
            yield field, one["sum"][field], total(one["rows"], field)
        device = next(device for device in summary["devices"] if device["ordinal"] == one["device"])
        yield "the peak", device["tensor"]["peak_bytes"], one["sum"]["live_bytes"]
        yield "frees", device["tensor"]["frees"], one["sum"]["frees"]


def fragmentation(found, summary):
    for one in found:
        for then in (one, one["at_reserved_peak"]):
            if not then or not then["segments"]:
                continue
            yield "reserved", then["reserved_bytes"], total(then["segments"])
            yield "live", then["live_bytes"], total(then["segments"], "live_bytes")
            yield "free", then["free_bytes"], total(then["segments"], "cached_bytes")
            yield "parts", then["reserved_bytes"], then["live_bytes"] + then["free_bytes"]
        for then in one["times"]:
            yield "over time", then["reserved_bytes"], then["live_bytes"] + then["free_bytes"]


def diff(found, summary):
    for side in ("before", "after", "change"):
        yield side, found[f"{side}_bytes"], total(found["rows"], f"{side}_bytes")
    for row in found["rows"]:
        yield row["owner"], row["change_bytes"], row["after_bytes"] - row["before_bytes"]
    figures = [device["tensor"]["live_bytes"] for device in summary["devices"]]
    yield "the end", sum(figures), found["after_bytes"]


def changes(found, summary):
    held = {}
    for change in found:
        groups = [(sign, group) for sign, name in ((1, "added"), (-1, "removed")) for group in change[name]]
        moved = sum(sign * group["bytes"] * group["blocks"] for sign, group in groups)
        yield f"event {change['seq']}", change["change_bytes"], moved
        before = held.get(change["device"], 0)
        yield f"event {change['seq']}: used", change["total_bytes"], before + moved
        held[change["device"]] = change["total_bytes"]
    for device in summary["devices"]:
        yield "the end", device["tensor"]["live_bytes"], held.get(device["ordinal"], 0)


def timeline(found, summary):
    for device in found["devices"]:
        if device["device"] is None or not device["peak"]:
            continue
        peak = device["peak"]
        assert len(peak["bytes"]) == len(device["bands"])
        whole = peak["physical_bytes"] or peak["driver_bytes"] or peak["tensor_bytes"]
        yield "the bands at the peak", whole, sum(peak["bytes"])


def hints(found, summary):
    for hint in found:
        if hint["lines"] and len(hint["lines"]) < 5:
            yield hint["kind"], hint["bytes"], total(hint["lines"])


def oom(found, summary):
    if not found.get("ledger"):
        return
    yield "failures", found["count"], len(found["failures"])
    one = found["ledger"]
    yield "the ledger", one["bytes"], total(one["rows"])
    tensors = next(row["bytes"] for row in one["rows"] if row["kind"] == "tensors")
    yield "tensors", tensors, total(found["tensor"])
    yield "driver", one["driver_bytes"], total(found["driver"])


VIEWS = {
    "lines": (lines, []),
    "lines at the end": (lambda f, s: lines(f, s, moment="live"), ["--at", "end"]),
    "lines of the driver": (lambda f, s: lines(f, s, "driver"), ["--level", "driver"]),
    "lines pinned": (lambda f, s: lines(f, s, "host"), ["--level", "host"]),
    "lines by module": (lines, ["--by", "module"]),
    "ledger": (ledger, []),
    "ledger by owner": (ledger, ["--by", "owner"]),
    "ledger by line": (ledger, ["--by", "line", "--at", "end"]),
    "tree": (tree, ["--level", "tensor"]),
    "tree by module": (tree, ["--level", "tensor", "--by", "module"]),
    "leaks": (leaks, []),
    "temporary": (temporary, ["--within", "4"]),
    "sizes": (sizes, ["--level", "tensor"]),
    "threads": (threads, ["--level", "tensor"]),
    "fragmentation": (fragmentation, []),
    "diff": (diff, ["--level", "tensor", "--at", "peak", "--to", "end"]),
    "changes": (changes, ["--level", "tensor"]),
    "timeline": (timeline, []),
    "hints": (hints, []),
    "oom": (oom, []),
}


def told(view, report, form):
    """What a view prints, at its exit code of a result."""
    command, arguments = view.split()[0], VIEWS[view][1]
    if command == "lines" and "--level" not in arguments:
        arguments = [*arguments, "--level", "tensor"]
    files = [report] * (2 if command == "diff" else 1)
    done = harness.analyze(command, *arguments, "--format", form, *files, check=False)
    assert done.returncode in RESULTS, harness.described(done)
    return done.stdout


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("view", VIEWS)
def test_totals_are_the_sums_of_their_rows(view, name, capture):
    report = capture(name)
    summary = harness.unwrapped(harness.analyze("summary", "--format", "json", report, check=False).stdout)
    found = harness.unwrapped(told(view, report, "json"))
    compared = list(VIEWS[view][0](found, summary))
    for what, whole, parts in compared:
        assert whole == parts, what
    if name == "training" and view not in ("hints", "oom"):
        assert compared, "nothing was looked at"
    if name == "failing" and view == "oom":
        assert len(compared) == 4


@pytest.mark.parametrize("name", [name for name in CAPTURES if name != "training"])
def test_changes_of_parts_sum_to_the_change(name, capture):
    """`gpumem ci` of two captures that have little in common."""
    base, head = capture("training"), capture(name)
    done = harness.analyze("ci", "--level", "tensor", "--base", base, "--head", head, "--format", "json", check=False)
    assert done.returncode in RESULTS, harness.described(done)
    (workload,) = harness.unwrapped(done.stdout)["workloads"]
    for side, report in (("base_bytes", base), ("head_bytes", head)):
        summary = harness.unwrapped(harness.analyze("summary", "--format", "json", report, check=False).stdout)
        peaks = {device["ordinal"]: device["tensor"]["peak_bytes"] for device in summary["devices"]}
        for device in workload["devices"]:
            assert device[side] == peaks.get(device["device"], 0)
    for device in workload["devices"]:
        for parts in ("lines", "categories", "modules"):
            # Where no module is known in either, there are no rows of modules.
            if device[parts] or parts != "modules":
                assert sum(part["change_bytes"] for part in device[parts]) == device["change_bytes"], parts


# Segments that the text has a row for; the others share one.
SEGMENTS = 40


def shown(segments):
    """Segments as the text has them."""
    rest = segments[SEGMENTS:]
    return [*segments[:SEGMENTS], *([{"bytes": total(rest)}] if rest else [])]


# What the text must show of the JSON: the figures of each row, in their order, and the total.
TEXTS = {
    "lines": lambda f: (f, "bytes", f"Together {human(total(f))}" if f else "No line owns memory"),
    "lines at the end": lambda f: (f, "bytes", f"Together {human(total(f))}" if f else "No line owns memory"),
    "lines by module": lambda f: (f, "bytes", f"Together {human(total(f))}" if f else "Nothing was live"),
    "leaks": lambda f: (f["rows"], "bytes", f"Together {human(f['bytes'])}" if f["rows"] else "No memory was live"),
    "temporary": lambda f: (f["rows"], "bytes", f"Together {human(f['bytes'])} in "),
    "sizes": lambda f: (f[0]["rows"], "allocated_bytes", human(f[0]["allocated_bytes"])),
    "threads": lambda f: (f[0]["rows"], "allocated_bytes", human(f[0]["sum"]["live_bytes"])),
    "ledger": lambda f: (f[0]["rows"], "bytes", f": {human(f[0]['bytes'])} of "),
    "ledger by owner": lambda f: (f[0]["rows"], "bytes", f": {human(f[0]['bytes'])} of "),
    "ledger by line": lambda f: (f[0]["rows"], "bytes", f": {human(f[0]['bytes'])} of "),
    "fragmentation": lambda f: (shown(f[0]["segments"]), "bytes", f"{human(f[0]['reserved_bytes'])} reserved"),
    "diff": lambda f: ([r for r in f["rows"] if r["change_bytes"]], "change_bytes", human(f["change_bytes"])),
    "timeline": lambda f: (
        [{"bytes": size} for size in f["devices"][0]["peak"]["bytes"]],
        "bytes", human(sum(f["devices"][0]["peak"]["bytes"])),
    ),
    "hints": lambda f: (f, "bytes", "" if f else "No hints"),
    "changes": lambda f: (
        [{"bytes": group["bytes"] * group["blocks"]} for c in f for group in (*c["added"], *c["removed"])],
        "bytes", f"{f[-1]['total_bytes'] / (1 << 20):.1f} MiB" if f else "No memory changed",
    ),
}
FIGURE = re.compile(r"(?<![\w.])[-+]?\d[\d.]* (?:B|KiB|MiB|GiB)(?!\w)")


@pytest.mark.parametrize("name", ("training", "failing", "fragmented"))
@pytest.mark.parametrize("view", TEXTS)
def test_the_text_has_the_rows_and_the_total(view, name, capture):
    report = capture(name)
    rows, field, whole = TEXTS[view](harness.unwrapped(told(view, report, "json")))
    text = told(view, report, "text")
    assert "\x1b" not in text, "a pipe gets plain text"
    assert whole in text, f"{whole!r} in:\n{text}"
    figures = iter(figure.lstrip("+") for figure in FIGURE.findall(text))
    for row in rows:
        wanted = human(row[field])
        assert wanted in figures, f"{wanted} of {row} in its place in:\n{text}"


@pytest.mark.parametrize("name", CAPTURES)
def test_widths_and_pages_sum_as_well(name, capture, tmp_path):
    report = capture(name)
    for arguments in ([], ["--at", "end"], ["--level", "driver"]):
        level = ["--level", "tensor"] if "--level" not in arguments else []
        folded = harness.analyze("flamegraph", "--folded", *level, *arguments, report, check=False)
        rows = harness.analyze_json("lines", *level, *arguments, report, check=False)
        widths = [int(line.rsplit(" ", 1)[1]) for line in folded.stdout.splitlines()]
        assert sum(widths) == total(rows)
    page = tmp_path / "page.html"
    assert harness.analyze("html", "-o", page, report, check=False).returncode in RESULTS
    for device in page_data(page)["devices"]:
        for then in device["moments"]:
            for level in then["levels"]:
                parts = sum(size for _, size, _ in level["stacks"]) + level["others"][1]
                assert parts == level["bytes"], (then["kind"], level["level"])
