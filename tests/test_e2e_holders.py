"""Who keeps the memory of tensors when an allocation of PyTorch fails: on stderr and in the capture, and what is freed
without a holder. tests/workloads/holders_torch.py plants them."""

import functools
import json
import re

import harness
import pytest

SCRIPT = harness.WORKLOADS / "holders_torch.py"
MIB = 1 << 20
ALLOC, FREE = 1, 2
# How many holders the script plants in each of these modes.
PLANTED = {"containers": 6, "thousands": 2, "functions": 6, "variables": 4, "graphs": 1, "trainers": 4}


def printed(stderr):
    """The holders of each failure on stderr: their label, and the number of blocks."""
    found, inside = [], False
    for line in stderr.splitlines():
        row = re.fullmatch(r" {2,}(?:[\d.,]+ \S+) +(?:<1|>99|\d+) %  ( {0,8}[\d,]+)  (.+)", line)
        if line.endswith("  live tensors, by holder"):
            found.append({})
            inside = True
        elif inside and row:
            found[-1][row[2]] = int(row[1].replace(",", ""))
        else:
            inside = False
    return found


def holders_in(dump, report):
    """The holders of each failure in a capture: by text, kind, bytes, and those that are freed."""
    failures = []
    for line in harness.run([dump, report]).stdout.splitlines():
        record = json.loads(line)
        if str(record.get("process")).startswith("holders."):
            words = re.split("[\n\ufffd]", record["value"])
            failures.append(
                {text.removeprefix("text "): head.split()[1:] for head, text in zip(words, words[1:]) if head.startswith("holder ")}
            )
    return failures


def are_freed(done, count, failure):
    """Compares what a run of SCRIPT frees with the holders that were recorded."""
    freed = [line.split(" ", 2)[1:] for line in done.stdout.splitlines() if line.startswith("freed ")]
    assert len(freed) == count, harness.described(done)
    for size, text in freed:
        kind, _, _, _, frees = failure[text]
        assert kind == ("traceback" if "→ traceback →" in text else "object"), (text, failure)
        # "-": something that is not a Python object refers to it, too.
        assert frees == size or (size, frees) == ("0", "-"), (text, failure)
    return [text for _, text in freed]


@pytest.fixture
def recorded(dump):
    return functools.partial(holders_in, dump)


@pytest.fixture
def run(forks, dump, tmp_path):
    """run(mode) is a run of SCRIPT; all that it writes is in `tmp_path`. It is repeated if a search ran out of time, as on a
    busy machine."""

    def start(mode, **env):
        for _ in range(10):
            for report in tmp_path.glob("report*.bin"):
                report.unlink()
            done = forks("torch215").run([SCRIPT, mode], cwd=tmp_path, env={"GPUMEM_OUTPUT": None, **env}, memory="8GiB")
            reports = tmp_path.glob("report*.bin")
            if not any("walk time " in harness.run([dump, report]).stdout for report in reports):
                break
        return done

    return start


@pytest.mark.parametrize("mode, count", PLANTED.items())
def test_a_holder_that_is_released_frees_what_is_recorded(run, recorded, tmp_path, mode, count):
    """To the byte, by PyTorch's own count."""
    report = tmp_path / "report.bin"
    done = run(mode)
    [failure] = recorded(report)
    [lines] = printed(done.stderr)
    for text in are_freed(done, count, failure):
        assert [label for label in lines if label.startswith(f"{text}, ")], (text, lines)
    # Only C++ code has the reference from a view to its tensor.
    assert {frees for text, (*_, frees) in failure.items() if text.startswith("viewed")} <= {"-"}


def test_views_of_tensors_that_nothing_else_has(run, dump, tmp_path):
    run("views")
    [value] = [json.loads(line)["value"] for line in harness.run([dump, tmp_path / "report.bin"]).stdout.splitlines() if '"holders.' in line]
    words = re.split("[\n\ufffd]", value)
    texts = [word.removeprefix("text ") for word in words if word.startswith(("text ", "covers "))]
    at = texts.index("rows[0…2]")
    # Of float32.
    assert texts[at + 1] == f"covers {3 * 1024 * 4}"
    assert len([text for text in texts if text.startswith("covers ")]) == 1, texts


def test_numbers_of_double_precision(python_env, simulate, dump, tmp_path):
    """By their type: not those of the same size, nor complex ones, of which .float() would lose a part."""
    program = tmp_path / "double.py"
    program.write_text(
        "import torch\n"
        "def kept(kind):\n    return torch.ones(1 << 20, dtype=kind).cuda()\n"
        "real, pairs, whole, single = map(kept, (torch.float64, torch.complex128, torch.int64, torch.float32))\n"
        "mixed = [kept(torch.float64), kept(torch.float32)]\n"
        "table = torch.zeros(1 << 25, dtype=torch.float64, device='cuda')\n"
        "table + 1\n"
    )
    done = simulate([python_env("torch215"), program], memory="1GiB", preload=True, cwd=tmp_path, check=False)
    assert "to try   table is float64: .float() needs half" in done.stderr, harness.described(done)
    [value] = [json.loads(line)["value"] for line in harness.run([dump, tmp_path / "report.bin"]).stdout.splitlines() if '"holders.' in line]
    double, text = {}, None
    for word in re.split("[\n\ufffd]", value):
        kind, _, rest = word.partition(" ")
        text = rest if kind == "text" else text
        if kind == "double":
            double[text] = int(rest)
    assert double == {"table": 256 * MIB, "real": 8 * MIB, "mixed[0…1]": 8 * MIB}


def test_modules_gradients_and_graphs_are_holders_of_their_own(run, recorded, tmp_path):
    [lines] = printed(run("graphs").stderr)
    assert {"model: parameters and buffers, global of __main__", "model: gradients, global of __main__"} <= set(lines)
    [failure] = recorded(tmp_path / "report.bin")
    kinds = {(text, kind) for text, (kind, *_) in failure.items()}
    assert ("model", "gradients") in kinds or ("model", "parameters") in kinds
    assert "graph of outputs[0], global of __main__" in lines


def test_a_failure_in_the_backward_of_a_function(run):
    """In the thread of PyTorch's backward, which runs the function's code; the variables of both threads are named."""
    done = run("in_backward")
    assert done.stdout == "raised in backward\n", harness.described(done)
    [lines] = printed(done.stderr)
    places = {re.sub(r" \(.*", "", label) for label in lines}
    where = "in_backward.Large.backward"
    assert {f"inside, local of {where}", f"ctx.kept[0], local of {where}", "outer, local of in_backward"} <= places, lines


def test_a_failure_in_a_backward_without_python(run):
    done = run("in_backward_without_code")
    assert done.stdout == "raised in backward\n", harness.described(done)
    [lines] = printed(done.stderr)
    [outer] = [label for label in lines if label.startswith("outer[0…1], local of in_backward_without_code (")]
    assert lines[outer] == 2


def test_a_failure_in_a_thread_that_outlives_the_main_one(simulate, python_env):
    done = simulate([python_env("torch215"), SCRIPT, "in_thread"], memory="8GiB", preload=True)
    assert done.stdout == "thread ends\n", harness.described(done)
    [lines] = printed(done.stderr)
    assert lines["history[0…2], global of __main__"] == 3
    assert any(label.startswith("own, local of in_thread.work (") for label in lines), lines


def test_children(run, recorded, tmp_path):
    """A child that uses the card for the first time is a process like any other. One of a process that has failed has
    no report, and its parent goes on."""
    done = run("in_child")
    assert done.stdout.startswith("child: Cannot re-initialize CUDA"), harness.described(done)
    # The parent's second failure is for the same reason, and not printed.
    assert printed(done.stderr) == [{"history[0], global of __main__": 1}] * 2
    both = [recorded(path) for path in tmp_path.glob("report*.bin")]
    assert sorted(len(failures) for failures in both) == [1, 2], both


def test_at_a_peak_above_a_size(run, dump, tmp_path, analyze_json, analyze):
    """Soon after the event with which the tensors first had more than that. Without a size, only failures count."""
    run("peaks", GPUMEM_HOLDERS="100MiB")
    records = [json.loads(line) for line in harness.run([dump, tmp_path / "report.bin"]).stdout.splitlines()]
    first, live = None, 0
    for record in records:
        if record.get("level") == "tensor" and record["kind"] in (ALLOC, FREE):
            live += record["bytes"] if record["kind"] == ALLOC else -record["bytes"]
        if live > 100 * MIB:
            first = record["seq"]
            break
    value = next(record["value"] for record in records if record.get("process") == "peak_holders.0")
    at, walk, *rest = re.split("[\n\ufffd]", value)
    assert at == f"at {first}" and walk.split()[:2] == ["walk", "whole"]
    assert "holder object own 104857600 10 104857600" in rest and "text history[0…9]" in rest
    [peak] = analyze_json(tmp_path / "report.bin")["peaks"]
    rows = {row["text"]: row["bytes"] for row in peak["holders"]["rows"]}
    assert rows["history[0…9]"] == 100 * MIB and peak["holders"]["event"] >= first
    assert sum(row["unused"] for row in peak["holders"]["rows"]) == rest.count("unused")
    assert "Who kept the tensors after event" in analyze(tmp_path / "report.bin").stdout
    (tmp_path / "report.bin").unlink()
    run("peaks")
    assert analyze_json(tmp_path / "report.bin")["peaks"][0]["holders"] is None


@pytest.mark.parametrize("env", [{"GPUMEM_HOLDERS": "off"}, {"GPUMEM_POSTMORTEM": "off"}])
def test_they_are_printed_or_not_as_the_options_require(run, recorded, tmp_path, env):
    """Without the report they are recorded nevertheless."""
    done = run("containers", **env)
    assert printed(done.stderr) == []
    assert len(recorded(tmp_path / "report.bin")) == (0 if "GPUMEM_HOLDERS" in env else 1)


def test_states_of_earlier_optimizers_need_no_smaller_one(python_env, simulate, tmp_path, analyze_json):
    """What keeps them is the cause, and no hint contradicts it."""
    program = tmp_path / "stages.py"
    program.write_text(
        "import torch\nnet = torch.nn.Linear(2048, 2048).cuda()\nplan = []\n"
        "for stage in range(100):\n    opt = torch.optim.Adam(net.parameters())\n"
        "    plan.append(torch.optim.lr_scheduler.StepLR(opt, 10))\n"
        "    net(torch.randn(8, 2048, device='cuda')).square().mean().backward()\n    opt.step()\n"
    )
    done = simulate([python_env("torch215"), program], memory="1GiB", preload=True, cwd=tmp_path, check=False)
    assert "drop the earlier optimizers, or what keeps them in plan" in done.stderr, harness.described(done)
    kinds = [hint["kind"] for hint in analyze_json("report", "--hints", tmp_path / "report.bin")]
    assert kinds[0] == "out_of_memory" and "optimizer_state" not in kinds


def test_the_graphs_of_gradients_and_of_two_lists_have_names(python_env, simulate, tmp_path):
    """What `backward(create_graph=True)` adds up; and two lists of which each keeps the graph of both."""
    program = tmp_path / "graphs.py"
    program.write_text(
        "import torch\nnet = torch.nn.Linear(256, 256).cuda()\nother = torch.nn.Linear(256, 256).cuda()\nfirst, second = [], []\n"
        "for step in range(1000):\n"
        "    net(torch.randn(4096, 256, device='cuda')).tanh().square().mean().backward(create_graph=True)\n"
        "    out = other(torch.randn(8192, 256, device='cuda')).tanh()\n"
        "    first.append(out.mean())\n    second.append(out.square().mean())\n    del out\n"
    )
    done = simulate([python_env("torch215"), program], memory="1GiB", preload=True, cwd=tmp_path, check=False)
    [lines] = printed(done.stderr)
    of_lists = [label for label in lines if label.startswith(("graph of first[0…", "graph of second[0…"))]
    assert "graph of gradients of net, global of __main__" in lines and len(of_lists) == 1, lines
    also = "second" if "first" in of_lists[0] else "first"
    assert f"; also by {also}, global of __main__" in re.sub(r"\s+", " ", done.stderr), harness.described(done)


def test_a_graph_keeps_the_gradients_of_its_leaves(python_env, simulate, tmp_path):
    """A sum of gradient penalties: a backward has consumed each graph, and its leaf stays, with its gradient."""
    program = tmp_path / "leaves.py"
    program.write_text(
        "import torch\n"
        "total = 0\n"
        "while True:\n"
        "    x = torch.randn(1 << 22, device='cuda', requires_grad=True)\n"
        "    penalty = x.square().mean()\n"
        "    penalty.backward()\n"
        "    total += penalty\n"
    )
    done = simulate([python_env("torch215"), program], memory="1GiB", preload=True, cwd=tmp_path, check=False)
    holders = re.search(r"([\d.]+) MiB +(\d+) % +\d+  graph of total, global of __main__", done.stderr)
    assert holders and int(holders[2]) >= 80, done.stderr
    assert "kept by the graph of total, global of __main__" in done.stderr
