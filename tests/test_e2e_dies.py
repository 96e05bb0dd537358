"""Ten programs that ran out of memory (tests/data/captures), each of a planted cause: the first three statements of the report name it.

What breaks these tests: growth that counts as fragmentation, the layers of one forward that count as growth, a loop
that is not recognized as one, the largest line instead of the holder of the rest, or outputs that disagree."""

import re

import harness
import pytest
from captures import capture, trained

PROGRAMS = harness.WORKLOADS / "dies"
PAGE = harness.ROOT / "docs" / "out-of-memory.md"
# Of each program: the kind of the cause and parts of the report's first two lines. {N} is the line with that text.
DIES = {
    "batch": ("activations", "batch.py:{torch.relu} Net.forward", "tensors that forwards keep for a backward: 440 MiB", "use a smaller batch"),
    "graphs": ("kept_graphs", "in backward of step", "kept by the graph of history[0…64], global of __main__", ".detach()"),
    "tensors": ("kept_tensors", "of step 214", "tensors of 213 earlier rounds are still live: 426 MiB", ".cpu()"),
    "growth": ("lengthened", "growth.py:{torch.cat}", "growth.py:{torch.cat} allocates becomes larger each time: 392 MiB", "limit its length"),
    "pieces": ("fragmentation", "150 MiB requested at pieces.py:{large = }", "fragmentation: 242 MiB is free", "allocate the largest tensors first"),
    "others": ("other_processes", "200 MiB requested at others.py:{batch = }", "other processes hold 800 MiB", "nvidia-smi"),
    "workspace": ("workspaces", "512 MiB requested at workspace.py:{x @ x} (cuBLAS workspace)", "a workspace of 512 MiB for cuBLAS", "CUBLAS_WORKSPACE_CONFIG"),
    "evaluation": ("no_backward", "evaluation.py:{outputs.append(} evaluate", "tensors of 75 earlier rounds are still live, and no backward has used them", "torch.no_grad()"),
    "optimizer": ("optimizer_state", "in optimizer of step 1", "optimizer state: 224 MiB", "less state"),
    "ranks": ("activations", "on GPU 1, rank 1 of 2", "tensors that forwards keep for a backward: 432 MiB", "use a smaller batch"),
}
# Those whose captures no page of docs shows.
OF_TESTS = ("evaluation", "ranks", "workspace")


def statements(text):
    """Joins a statement's continuation lines, which begin with 16 blanks."""
    return re.sub(r"\n {16}", " ", text).splitlines()


def numbered(name, text):
    """Each {part of a line} by that line's number in the program."""
    source = (PROGRAMS / f"{name}.py").read_text().splitlines()
    number = lambda found: str(next(n for n, line in enumerate(source, 1) if found[1] in line))  # noqa: E731
    return re.sub(r"\{(.*?)\}", number, text)


def died(name):
    """The capture of that program."""
    return capture(f"dies/{name}" if name in OF_TESTS else name)


@pytest.mark.parametrize("name", DIES)
def test_the_first_three_statements_name_what_was_planted(name):
    _, asked, cause, advice = DIES[name]
    text = harness.analyze(died(name)).stdout
    head = text.partition("\n\n")[0].splitlines()
    assert len(head) <= 16 and all(len(line) <= 88 for line in head)
    failed, why, held = statements(text)[:3]
    assert failed.startswith("OUT OF MEMORY   ") and numbered(name, asked) in failed
    assert why.startswith("cause           ") and numbered(name, cause) in why
    assert advice in why.split(" → ")[1]
    assert re.match(r"held then       [\d.]+ [KMG]iB " + name + r"\.py:\d+", held), held


@pytest.mark.parametrize("name", DIES)
def test_all_outputs_agree(name):
    report = died(name)
    why = statements(harness.analyze(report).stdout)[1].removeprefix("cause           ")
    found = harness.analyze_json("oom", report)["cause"]
    assert found["kind"] == DIES[name][0]
    certainty = "likely: " if found["certainty"] == "likely" else ""
    assert f"{certainty}{found['what']} → {found['advice']}" == why
    assert 1 <= len(found["owners"]) <= 3
    assert statements(harness.analyze("oom", report).stdout)[1] == f"cause           {why}"
    hint = harness.analyze_json("report", "--hints", report)[0]
    assert (hint["kind"], hint["what"], hint["advice"]) == ("out_of_memory", f"out of memory: {certainty}{found['what']}", found["advice"])
    page = report.with_suffix(".html")
    harness.analyze("html", "-o", page, report)
    assert found["advice"].replace("<", "\\u003c") in page.read_text()


@pytest.mark.parametrize("name", DIES)
def test_categories_and_modules_sum_to_what_was_live_at_the_failure(name):
    cause = harness.analyze_json("oom", died(name))["cause"]
    assert cause["level"] == "tensor"
    for by in ("category", "module"):
        rows = harness.analyze_json("lines", "--by", by, "--at", "oom", died(name))
        assert sum(row["bytes"] for row in rows if row["device"] == cause["device"]) == cause["live_bytes"], by
    for owner in cause["owners"]:
        assert sum(of["bytes"] for of in owner["categories"]) == owner["bytes"], owner


def test_the_owners_are_the_lines_of_that_moment():
    found = harness.analyze_json("oom", died("batch"))
    assert found["cause"]["live_bytes"] == sum(row["bytes"] for row in found["tensor"])
    largest = max(row["bytes"] for row in found["tensor"])
    assert found["cause"]["owners"][0]["bytes"] >= largest


@pytest.mark.parametrize("name", ["growth", "evaluation", "graphs", "tensors"])
def test_what_grows_is_never_called_fragmentation_by_the_recorder(name, forks, tmp_path):
    """The requests would have fitted into all free bytes, but tensors have nearly all of the card."""
    env = {"PYTHONPATH": str(harness.WORKLOADS)}
    done = forks("torch215").run([PROGRAMS / f"{name}.py"], cwd=tmp_path, memory="1GiB", env=env, check=False)
    assert done.returncode == 1 and "torch.OutOfMemoryError" in done.stderr, harness.described(done)
    told = harness.analyze_json("oom", tmp_path / "report.bin")["failures"][-1]["postmortem"]
    assert "fragmentation" not in told and "expandable_segments" not in told
    cause = "becomes larger each time" if name == "growth" else "earlier rounds are still live"
    [line] = [line for line in told.splitlines() if line.startswith("  cause    ")]
    assert cause in line, told


@pytest.mark.parametrize(
    "view",
    [
        ("lines",), ("tree",), ("flamegraph", "-o", "-"), ("ledger",), ("ledger", "--pool"), ("lines", "--by", "size"), ("leaks",),
        ("export", "speedscope", "-o", "-"), ("lines", "--annotate"),
    ],
    ids=" ".join,
)
def test_the_moment_of_the_failure_has_a_name(view):
    report = died("growth")
    event = harness.analyze_json("oom", report)["cause"]["event"]
    by_name = harness.analyze(*view, "--at", "oom", report).stdout
    by_number = harness.analyze(*view, "--at", str(event), report).stdout
    # A longer name makes a column wider, or the line longer.
    plain = lambda text: re.sub(r"\s+", " ", re.sub(r"at the failure|after event \d+", "then", text))  # noqa: E731
    assert by_name and plain(by_name) == plain(by_number)


def test_two_moments_of_a_run_that_died():
    report = died("growth")
    assert "at the failure" in harness.analyze("diff", "--at", "1000", "--to", "oom", report, report).stdout


def test_a_run_that_did_not_fail_has_no_such_moment():
    done = harness.analyze("lines", "--at", "oom", capture("steady"), check=False)
    assert done.returncode == 1 and "no allocation failed because memory ran out" in done.stderr


def free_in_pieces(cause):
    """A cause without its figure of fragmented free memory, and that figure in MiB."""
    found = re.search(r"; ([\d.]+) MiB is free, but in smaller blocks", cause)
    return (cause.replace(found[0], ""), float(found[1])) if found else (cause, 0)


def test_the_page_has_the_first_statements():
    rows = dict(re.findall(r"^\| `([a-z]+)\.py` \| ([^|]*) \|", PAGE.read_text(), re.M))
    assert set(rows) == set(DIES)
    for name, cause in rows.items():
        found = harness.analyze_json("oom", died(name))["cause"]
        # The fragmented free memory depends on which thread releases a graph, autograd's or the program's.
        (what, free), (told, free_then) = free_in_pieces(f"{'likely: ' * (found['certainty'] == 'likely')}{found['what']} → {found['advice']}"), free_in_pieces(cause)
        assert what == told and abs(free - free_then) <= 4, name


CASES = re.findall(r"^### `([a-z]+)\.py`: .*?(?=^##)", PAGE.read_text(), re.M | re.S)


def case(name):
    """Of a case of the page: parts of its first line, its change as (before, after) or its setting, and the peak then."""
    text = re.search(rf"^### `{name}\.py`: .*?(?=^##)", PAGE.read_text(), re.M | re.S)[0]
    quoted = " ".join(re.findall(r"^> (.*)$", text, re.M)).replace("\\", "")
    change = re.search(r"```diff\n-(.*)\n\+(.*)\n```", text)
    setting = re.search(r"export PYTORCH_CUDA_ALLOC_CONF=(\S+)", text)
    return quoted, change and change.groups(), setting and setting[1], re.search(r"It ends, with ([\d.]+) MiB of tensors", text)[1]


@pytest.mark.parametrize("name", CASES)
def test_the_change_of_the_page_lets_it_end(name, forks, tmp_path):
    quoted, change, setting, peak = case(name)
    source = (PROGRAMS / f"{name}.py").read_text()
    if change:
        assert source.count(change[0]) == 1
        source = source.replace(*change)
    (tmp_path / f"{name}.py").write_text(source)
    env = {"PYTHONPATH": str(harness.WORKLOADS), "PYTORCH_CUDA_ALLOC_CONF": setting or ""}
    done = forks("torch215").run([tmp_path / f"{name}.py"], cwd=tmp_path, memory="1GiB", env=env, check=False)
    assert done.returncode == 0, harness.described(done)
    [device] = harness.analyze_json("report", "--all", tmp_path / "report.bin")["devices"]
    assert f"{device['tensor']['peak_bytes'] / (1 << 20):.3g}" == f"{float(peak):.3g}"
    found = harness.analyze_json("oom", died(name))["cause"]
    for part in quoted.split(" → ") if not setting else quoted.split(" → ")[:1]:
        assert part in f"{found['what']} → {found['advice']}", part


def test_six_cases_have_a_page():
    assert len(CASES) == 6 and set(CASES) < set(DIES)


def test_a_model_that_is_moved_is_set_up_and_no_forward():
    rows = harness.analyze_json("lines", "--at", "oom", died("evaluation"))
    made = int(numbered("evaluation", "{net = }"))
    phases = {row["line"]: row.get("phase") for row in rows if row["bytes"] >= 1 << 20}
    assert phases[made] == "set_up"
    assert phases[int(numbered("evaluation", "{outputs.append(}"))] == "forward"


def test_the_line_that_keeps_graphs_is_named_by_leaks_and_hints():
    report = died("graphs")
    leaks = harness.analyze_json("leaks", report)
    line = int(numbered("graphs", "{penalty = }"))
    assert (leaks["holder"]["line"], leaks["holder"]["blocks"]) == (line, 65)
    others = [row["bytes"] for row in leaks["rows"] if row["class"] == "growing" and row["line"] != line]
    assert leaks["holder"]["held_bytes"] == sum(others) > 300 << 20
    assert f"Probably kept by the tensor of graphs.py:{line} (65 blocks)" in harness.analyze("leaks", report).stdout
    first, *others = harness.analyze_json("report", "--hints", report)
    assert "kept by the graph of history[0…64], global of __main__" in first["what"]
    assert not any(hint["kind"] in ("kept_graphs", "growing") for hint in others)
    [state] = [row for row in leaks["rows"] if row["line"] == int(numbered("graphs", "{optimizer.step}"))]
    assert state["class"] == "warm-up"


def test_the_report_fits_a_screen_and_a_half():
    for name in DIES:
        text = harness.analyze(died(name)).stdout
        assert len(text.splitlines()) <= 55, name


def test_what_changed_is_a_few_lines_of_the_report():
    text = harness.analyze(trained("torch215").report).stdout
    changed = text.partition("Largest changes")[2].partition("\n\n")[0]
    assert 2 <= len(changed.splitlines()) <= 11 and "+0.0 MiB" not in changed, text
    assert len(text.splitlines()) <= 50, text
