"""Runs (tests/data/captures) that fail in other ways than by an OutOfMemoryError of PyTorch's allocator, retries that are not failures,
and the holders of growing memory. The report, oom, hints, the timeline and the page agree.

What breaks these tests: an error of CUDA that no hook sees, one error reported twice, a retry that counts as a
failure, or a list of losses that is below the activations it keeps."""

import json
import re
import shutil

import harness
import pytest
from captures import capture, printed

PROGRAMS = harness.WORKLOADS / "dies"


def statements(text):
    """Joins a statement's continuation lines, which begin with 16 blanks."""
    return re.sub(r"\n {16}", " ", text).splitlines()


def line_of(name, part):
    source = (PROGRAMS / f"{name}.py").read_text().splitlines()
    return next(number for number, line in enumerate(source, 1) if part in line)


# Of each program: the exception, the requested memory, the requesting line, the kind of the cause, a part of the
# advice.
OTHERWISE = {
    "launch": ("torch.AcceleratorError: CUDA error: out of memory", "kernel code", "relu_", "largest", "allocate less"),
    "module": ("RuntimeError: cuModuleLoadData", "kernel code", "cuModuleLoadData(ctypes", "cached", "empty_cache()"),
    "streams": ("torch.AcceleratorError: CUDA error: out of memory", "memory of unknown size", "torch.cuda.Stream()", "largest", "free"),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_no_allocator_asked_for_is_a_failure(name):
    raised, asked, part, kind, advice = OTHERWISE[name]
    report, told = capture(f"dies/{name}"), printed(f"dies/{name}")
    assert raised in told and "OutOfMemoryError" not in told
    assert told.count("gpumem: out of memory") == 1, "one error is told once"
    text = harness.analyze(report).stdout
    failed, cause, held = statements(text)[:3]
    assert failed.startswith(f"OUT OF MEMORY   {asked}") and f"at {name}.py:{line_of(name, part)}" in failed
    assert cause.startswith("cause           ") and advice in cause.split(" → ")[1]
    assert held.startswith("held then       ") and f"{name}.py:{line_of(name, 'torch.empty(')}" in held
    found = harness.analyze_json("oom", report)
    assert (found["count"], found["failures"][0]["exception"], found["cause"]["kind"]) == (1, True, kind)
    assert harness.analyze_json("report", "--hints", report)[0]["kind"] == "out_of_memory"
    assert harness.analyze_json("timeline", report)["failure_count"] == 1


def told_in(text):
    """What the recorder printed of failures."""
    return re.findall(r"^gpumem: out of memory.*\n(?:  .*\n)*", text, re.M)


@pytest.mark.parametrize("name", OTHERWISE)
def test_the_recorder_tells_it_as_ever(name, forks, tmp_path):
    """Recorded again: the recorder prints what it printed of the capture's run, and the failure is in the new capture."""
    shutil.copy(PROGRAMS / f"{name}.py", tmp_path)
    env = {"GPUMEM_SIM_MODULE_BYTES": "64MiB"}
    done = forks("torch215").run([f"{name}.py"], cwd=tmp_path, memory="1GiB", env=env, check=False)
    assert done.returncode == 1 and OTHERWISE[name][0] in done.stderr, harness.described(done)
    [then] = told_in(printed(f"dies/{name}"))
    assert told_in(done.stderr) == [then.replace(f"dies/{name}.bin", "report.bin")]
    found, was = (harness.analyze_json("oom", report) for report in (tmp_path / "report.bin", capture(f"dies/{name}")))
    for key in ("requested_bytes", "line", "exception", "refusals"):
        assert [of[key] for of in found["failures"]] == [of[key] for of in was["failures"]], key
    assert found["cause"]["kind"] == was["cause"]["kind"]


def test_a_cache_that_grows_is_one_failure_and_one_line_of_retries():
    report = capture("dies/server")
    assert printed("dies/server").count("gpumem: out of memory") == 1
    found = harness.analyze_json("oom", report)
    line, retries = line_of("server", "torch.cat"), found["answered"]
    assert (found["count"], found["number"]) == (1, 1) and retries > 80
    cause = found["cause"]
    assert cause["kind"] == "lengthened" and f"server.py:{line} allocates becomes larger each time" in cause["what"]
    assert cause["bytes"] > 1320 << 20 and cause["bytes"] > cause["live_bytes"] * 0.98
    said = f"{retries} retries by PyTorch's allocator"
    text = harness.analyze(report).stdout
    assert text.count(" retries by ") == 1 and said in text
    assert statements(text)[1].startswith(f"cause           {cause['what']} → limit its length")
    told = harness.analyze("oom", report).stdout
    assert "Failure 1 of" not in told and told.count(" retries by ") == 1 and said in told


def test_retries_are_one_line_of_hints_timeline_and_page():
    report = capture("dies/server")
    retries = harness.analyze_json("oom", report)["answered"]
    said = f"{retries} retries by PyTorch's allocator"
    first, *others = harness.analyze_json("report", "--hints", report)
    assert first["kind"] == "out_of_memory" and "fragmentation" not in first["what"]
    [hint] = [hint for hint in others if hint["kind"] == "retries"]
    assert hint["what"].startswith(said) and not any(hint["kind"] == "cache_emptied" for hint in others)
    assert harness.analyze("report", "--hints", report).stdout.count(said) == 1
    timeline = harness.analyze_json("timeline", report)
    assert (timeline["failure_count"], timeline["retries"]) == (1, [{"device": 0, "count": retries}])
    chart = harness.analyze("timeline", "--format", "text", report).stdout
    assert chart.count("✕") == 1 and chart.count(said) == 1
    drawn = harness.analyze("timeline", "-o", "-", report).stdout
    assert drawn.count(said) == 1 and drawn.count("1 allocation failed: out of memory") == 1
    page = report.with_suffix(".html")
    harness.analyze("html", "-o", page, report)
    data = page_data(page)
    assert (data["failure_count"], len(data["failures"]), data["retries"]) == (1, 1, retries)


def page_data(page):
    return json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page.read_text(), re.S)[1])


def test_three_lines_have_one_failure():
    report = capture("dies/three_lines")
    assert printed("dies/three_lines").count("gpumem: out of memory") == 1
    text = harness.analyze(report).stdout
    # The last line repeats the cause.
    assert text.count("OUT OF MEMORY") == 2 and text.splitlines()[-1].startswith("OUT OF MEMORY") and " retries by " not in text
    assert "the request alone is larger than the card" in statements(text)[1]
    assert harness.analyze_json("oom", report)["count"] == 1
    assert [hint["kind"] for hint in harness.analyze_json("report", "--hints", report)] == ["out_of_memory"]


def test_a_list_of_losses_comes_above_what_it_keeps():
    report = capture("dies/gan")
    line = line_of("gan", "loss = -score.mean()")
    held = "kept by the graph of losses[0…46], global of __main__"
    assert held in statements(harness.analyze(report).stdout)[1]
    leaks = harness.analyze_json("leaks", report)
    growing = [row for row in leaks["rows"] if row["class"] == "growing"]
    assert (growing[0]["line"], growing[0]["bytes_per_step"]) == (line, 512) and growing[0]["blocks"] >= 39
    assert leaks["holder"]["line"] == line
    assert leaks["holder"]["held_bytes"] == sum(row["bytes"] for row in growing[1:]) > 300 << 20
    rows = harness.analyze("leaks", report).stdout
    assert rows.index(f"gan.py:{line} ") < rows.index(f"gan.py:{line_of('gan', 'generator(')}")
    first, *others = harness.analyze_json("report", "--hints", report)
    assert held in first["what"] and not any(hint["kind"] in ("kept_graphs", "growing") for hint in others)


def test_outputs_of_an_evaluation_name_the_line_that_keeps_them():
    report = capture("dies/evaluation")
    cause = statements(harness.analyze(report).stdout)[1]
    assert f"MiB from evaluation.py:{line_of('evaluation', 'outputs.append')}" in cause
    assert "torch.no_grad()" in cause


def test_the_page_begins_with_the_moment_that_is_asked_for():
    report = capture("dies/gan")
    event = harness.analyze_json("oom", report)["cause"]["event"]
    page = report.with_name("moments.html")
    for at, seq in (("oom", event), (str(event), event), ("end", None), ("peak", None), ("step=3", None)):
        harness.analyze("html", "--at", at, "-o", page, report)
        data = page_data(page)
        moments = {then["seq"]: then for then in data["devices"][0]["moments"]}
        assert event in moments and (moments[event]["kind"] == "failure" or data["shown"] == event)
        if at == "peak":
            assert data["shown"] is None
            continue
        assert data["shown"] in moments and (seq is None or data["shown"] == seq)
    lines = harness.analyze_json("lines", "--at", "oom", report)
    tensors = moments[event]["levels"][0]
    assert tensors["bytes"] == sum(row["bytes"] for row in lines)


def test_a_page_without_a_failure_refuses_its_moment():
    done = harness.analyze("html", "--at", "oom", capture("steady"), check=False)
    assert done.returncode == 1 and "no allocation failed because memory ran out" in done.stderr


def test_what_code_had_just_taken_was_not_free():
    """It is found only after the failure. If it counted as free memory, the refusal would have no cause."""
    cause = harness.analyze_json("oom", capture("dies/kernels"))["cause"]
    assert (cause["kind"], cause["free_bytes"]) == ("largest", 0)
