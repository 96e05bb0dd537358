"""`gpumem plan --no-weights`: weights that are not read, drawn or copied, and the same memory on the device.

What breaks these tests: an allocation of the device that a program makes only with its files or only without their
values; host memory for values that are never computed; an omitted value that is called known."""

import json
import os
import re
import subprocess
import sys

import harness
import pytest
import schemas

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._plan import inside  # noqa: E402

PROGRAM, LARGE = (harness.WORKLOADS / "plan" / name for name in ("weights.py", "large.py"))
PLAIN = ("drawn", "loaded", "mapped", "unsafe", "on-device", "old", "pickled", "half", "half-mapped", "transposed")
LIBRARIES = ("safetensors", "safetensors-device", "llama-one-auto", "llama-sharded-device", "llama-bin-full")
# The same programs where the weights are not there, or only a list of them.
WITHOUT_FILES = (*LIBRARIES[:2], "llama-config-auto", "llama-index-device", "llama-bin-full")
GIB = 1 << 30


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Makes the files that the programs load."""

    def make(python, *kinds):
        folder = tmp_path_factory.mktemp("weights")
        harness.run([python, PROGRAM, "make", folder, *kinds])
        return folder

    return make


@pytest.fixture
def planned(simulate, tmp_path):
    """Runs a program with the parts of a plan: its end, and the records of its lines."""

    def start(python, program, *words, weights, most="64MiB", parts=("values", "lines"), env=None):
        lines = tmp_path / "lines.json"
        lines.unlink(missing_ok=True)
        parts = (*parts, "weights") if weights else parts
        changes = {**inside.environment(parts, {}), "GPUMEM_PLAN_LINES": str(lines), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        if weights:
            changes["GPUMEM_SIM_COPY_MOST"] = str(most)
        done = simulate([python, program, *words], env=changes)
        return done, [json.loads(line) for line in lines.read_text().splitlines()]

    return start


def left_out(records):
    [found] = [record for record in records if record["kind"] == "weights"]
    return found


def told(done):
    """The program's lines for each training: properties of its weights, and the allocator's figures."""
    return [line for line in done.stdout.splitlines() if line.startswith(("WEIGHT", "FIGURES"))]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_programs_that_load_plain_files_take_the_same_memory(files, planned, python_env):
    python = python_env("torch215")
    folder = files(python)
    real, _ = planned(python, PROGRAM, "train", folder, *PLAIN, weights=False)
    done, records = planned(python, PROGRAM, "train", folder, *PLAIN, weights=True)
    assert len(told(real)) == 2 * len(PLAIN)
    assert told(done) == told(real)
    whole = sum(path.stat().st_size for path in folder.iterdir())
    assert left_out(records)["not_read"] > whole and left_out(records)["not_drawn"] > (folder / "half.pt").stat().st_size
    assert left_out(records)["not_there"] == 0
    # Without the mode's computing it is the same.
    done, _ = planned(python, PROGRAM, "train", folder, "mapped", weights=True, parts=("lines",))
    assert told(done) == told(real)[4:6]


@pytest.mark.slow
def test_programs_of_libraries_take_the_same_memory_even_without_files(files, planned, python_env):
    python = python_env("programs")
    folder = files(python, "transformers")
    cache = folder / "hub" / "models--someone--tiny"
    (cache / "snapshots" / "1").mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("1")
    (cache / "snapshots" / "1" / "config.json").write_bytes((folder / "config" / "config.json").read_bytes())
    real, _ = planned(python, PROGRAM, "train", folder, *LIBRARIES, "llama-one-half", weights=False)
    env = {"HF_HUB_CACHE": str(folder / "hub"), "HF_HUB_OFFLINE": "1"}
    done, records = planned(python, PROGRAM, "train", folder, *WITHOUT_FILES, "llama-someone/tiny-half", weights=True, env=env)
    assert told(done) == told(real)
    size = (folder / "one" / "model.safetensors").stat().st_size
    assert 3 * size > left_out(records)["not_there"] > 2.9 * size
    assert "the weights of LlamaForCausalLM are not on this machine" in done.stderr
    # What safetensors looks at is no value of the program's.
    assert not [record for record in records if record["kind"] == "read" and record["op"] == "item" and record["unknown"]]


def large(python, folder, words, segments):
    """A plan of nine billion parameters that are made on the host and sharded over 8 ranks: what it prints."""
    command = [python, "-m", "gpumem", "plan", "--card", "a100-80", "--world", "8", "--no-weights", "--jobs", "1", *words, "--",
               LARGE, "--layers", "8", "--steps", "1"]  # fmt: skip
    env = {"PYTHONPATH": str(harness.ROOT / "python"), "PYTORCH_ALLOC_CONF": f"expandable_segments:{segments}"}
    with open(folder / "said", "w+") as said:
        process = subprocess.Popen(list(map(str, command)), stdout=said, env=harness.clean_environment(env))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    assert process.returncode == 0, text
    # Of the plan and of all that it started, the greatest: memory that processes share is counted.
    assert usage.ru_maxrss * 1024 < 2 * GIB
    return text


@pytest.mark.slow
def test_a_large_training_takes_no_memory_of_the_host(python_env, tmp_path):
    [case] = schemas.found("plan", large(python_env("torch215"), tmp_path, ["--format", "json"], segments=False))["cases"]
    assert case["verdict"] == "fits" and case["tensor_peak_bytes"][0] > 10 * GIB
    assert case["weights"]["not_drawn_bytes"] > 16 * GIB and case["weights"]["not_read_bytes"] == 0


@pytest.mark.slow
def test_nor_does_it_in_segments_that_expand_and_the_plan_says_what_it_assumed(python_env, tmp_path):
    text = " ".join(large(python_env("torch215"), tmp_path, [], segments=True).split())
    assert text.startswith("fits: needs ")
    assert re.search(r"Planned without the values of (1[0-9]\.[0-9]) GiB of weights: \1 GiB not initialized\.", text)


def test_what_was_left_out_is_not_known(planned, python_env, tmp_path):
    script = tmp_path / "copies.py"
    script.write_text(
        "import torch\n"
        "small = torch.arange(1 << 17).cuda()\n"  # 1 MiB
        "large = torch.arange((1 << 17) + 1).cuda()\n"
        "made = torch.tensor([7] * ((1 << 17) + 1), device='cuda')\n"
        "drawn = torch.randn(2 << 20)\n"
        "print(small[5].item(), large[5].item(), made[5].item(), drawn.sum().item())\n"
        "put = torch.zeros((1 << 17) + 1, dtype=torch.int64, device='cuda')\n"
        "put.copy_(torch.arange((1 << 17) + 1, dtype=torch.int32))\n"
        "print(put[5].item(), torch.zeros(2 << 20).sum().item(), torch.rand(3).shape)\n"
        "half = torch.empty(2 << 20).fill_(3.0).zero_()\n"
        "print(half.any().item(), drawn.bfloat16().dtype, torch.stack([drawn, drawn]).shape, drawn.view(2, -1).t().contiguous().stride())\n"
        "print(torch.randperm(2 << 20).sum().item() == (1 << 20) * ((2 << 20) - 1), torch.randint(5, 6, (2 << 20,)).min().item())\n"
        "square = torch.randn(2048, 2048)\n"
        "print(square.t_().stride(), square.pin_memory().stride(), torch.rand_like(square, dtype=torch.float64).dtype)\n"
        "try:\n    drawn.copy_(torch.zeros(3))\nexcept RuntimeError as error:\n    print(str(error)[:30])\n"
    )
    done, records = planned(python_env("torch215"), script, weights=True, most=1 << 20)
    assert done.stdout.splitlines() == [
        "5 0 0 0.0", "0 0.0 torch.Size([3])", "False torch.bfloat16 torch.Size([2, 2097152]) (2, 1)", "True 5",
        "(1, 2048) (1, 2048) torch.float64", "The size of tensor a (2097152)",
    ]  # fmt: skip
    counts = {record["line"]: (record["known"], record["unknown"]) for record in records if record.get("op") == "item"}
    assert counts == {6: (1, 3), 9: (0, 1)}, "of what is on the host, only what nobody has drawn is a record"


@pytest.mark.slow
def test_sizes_and_values_that_are_read_on_the_host_are_named(planned, python_env, tmp_path):
    python, script = python_env("torch215"), harness.WORKLOADS / "plan" / "host_reads.py"
    harness.run([python, script, "make", tmp_path / "read.pt"])
    line = 1 + script.read_text().splitlines().index("print(tuple((large > 3).nonzero().shape))")
    done, records = planned(python, script, "read", tmp_path / "read.pt", weights=True, env={"GPUMEM_PLAN_ASSUME": f"host_reads.py:{line}=9"})
    assert done.stdout.splitlines() == [
        "0", "0", "[0, 0, 0]", "(0,)", "(9, 1)", "(0,)", "(1,)", "(1,)", "(0,)", "True", "(0, 1)", "(20000,)", "(5,) (3000000,)", "(300, 300)",
        "(96,) 4950 99",
    ]  # fmt: skip
    reads = [record for record in records if record["kind"] == "read"]
    assert {record["line"] - line: (record["op"], record["use"], record["unknown"], record["assumed"]) for record in reads} == {
        -4: ("item", "value", 1, 0), -3: ("numpy", "value", 1, 0), -2: ("tolist", "value", 1, 0), -1: ("boolean index", "size", 1, 0),
        0: ("nonzero", "size", 0, 1), 1: ("masked_select", "size", 1, 0), 2: ("unique", "size", 1, 0), 3: ("bincount", "size", 1, 0),
        4: ("repeat_interleave", "size", 1, 0), 5: ("equal", "value", 1, 0), 6: ("nonzero", "size", 1, 0), 7: ("_to_sparse", "size", 1, 0),
    }  # fmt: skip
