"""The code that runs inside a planned program (python/gpumem/_plan/inside): values that the program reads back, and
the lines of the reads. The default lane has one program of each kind.

Comments in the programs of tests/workloads/plan state what each line reads. With PyTorch 2.15 on the simulator."""

import json
import re
import sys

import harness
import pytest

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._plan import inside  # noqa: E402

PROGRAMS = harness.WORKLOADS / "plan"
READ = re.compile(r"# read: (known|[a-z_ ]+)")


@pytest.fixture
def planned(python_env, simulate, tmp_path):
    """Runs a program of tests/workloads/plan with parts; its end, and its records of reads by line."""

    def start(program, *arguments, parts=("values", "lines"), env=None, **options):
        lines = tmp_path / "lines.json"
        lines.unlink(missing_ok=True)
        changes = {name: value for name, value in inside.environment(parts, {}).items()} if parts else {}
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
        changes.update({"GPUMEM_PLAN_LINES": str(lines), "PYTHONDONTWRITEBYTECODE": "1", **caches}, **(env or {}))
        command = [python_env("torch215"), PROGRAMS / program if str(program).endswith(".py") else program, *arguments]
        done = simulate(command, env=changes, **options)
        records = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        return done, records

    return start


def reads(records):
    """{(line, operation): record} of the reads of one program."""
    return {(record["line"], record["op"]): record for record in records if record["kind"] == "read"}


def promised(program):
    """{(line, operation)} that comments of a program say; and the lines whose values are known."""
    unknown, known = set(), set()
    for number, text in enumerate((PROGRAMS / program).read_text().splitlines(), 1):
        for found in READ.findall(text):
            (known if found == "known" else unknown).add(number if found == "known" else (number, found.strip()))
    return unknown, known


def unknown_of(records):
    return {key for key, record in reads(records).items() if record["unknown"]}


@pytest.mark.parametrize("kind", ("greedy", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sample", "beam"))))
def test_generation_ends_at_its_greatest_length(planned, kind):
    done, records = planned("generate.py", kind)
    assert done.stdout.split("\n")[0].startswith("STEPS 8 [")
    assert promised("generate.py")[0] <= unknown_of(records)
    (flag,) = [record for (line, _), record in reads(records).items() if (line, "item") in promised("generate.py")[0]]
    assert (flag["unknown"], flag["count"], flag["file"]) == (8, 8, str(PROGRAMS / "generate.py"))


@pytest.mark.slow
def test_boxes_are_suppressed_as_their_values_say(planned):
    done, records = planned("detection.py")
    assert "KNOWN [2, 0, 4]\n" in done.stdout
    kept, places, labels, spread = map(int, re.search(r"UNKNOWN (\d+) (\d+) (\d+) (\d+)", done.stdout).groups())
    assert kept == places <= 64 and labels <= 64 and spread == 64
    unknown, _ = promised("detection.py")
    assert unknown <= unknown_of(records)
    sizes = {op: record["first"] for (_, op), record in reads(records).items() if record["use"] == "size" and not record["first_known"]}
    assert sizes == {"boolean index": kept, "masked_select": kept, "nonzero": kept, "unique": labels, "repeat_interleave": 64}
    (loop,) = [record for record in reads(records).values() if record["op"] == "boolean index" and record["known"]]
    assert loop["known"] == 3, "the known boxes' loop is known"


def test_trainings_that_read_end_and_every_unknown_read_is_named(planned):
    done, records = planned("reading.py")
    steps, finite, scale = done.stdout.split()[1:]
    assert (finite, float(scale)) == ("True", 65536.0) and 4 < int(steps) < 50
    unknown, known = promised("reading.py")
    got = unknown_of(records)
    # Where the loss is not the best a second time, its line is not reached.
    assert unknown - got <= {(line, "item") for line, text in enumerate((PROGRAMS / "reading.py").read_text().splitlines(), 1)
                             if "best, waited" in text or "update()" in text}  # fmt: skip
    for line in known:
        assert reads(records)[line, "item"]["unknown"] == 0


def test_sizes_that_depend_on_unknown_values_are_named_even_through_arithmetic(planned):
    done, records = planned("sized.py")
    first, second, third, fourth = map(int, done.stdout.split()[1:])
    unknown, _ = promised("sized.py")
    assert unknown_of(records) == unknown
    by_line = reads(records)
    assert fourth == 45 and by_line[fourth_line(), "item"]["known"] == 1
    named = {text.split(" = ")[0]: number for number, text in enumerate((PROGRAMS / "sized.py").read_text().splitlines(), 1) if " = " in text}
    assert by_line[named["rows"], "item"]["first"] == first - 1
    # The planted one: 1000 + 3 * int(7 * unknown) has its size from the line that read, and from no other.
    assert int(by_line[named["other"], "item"]["first"]) * 3 + 1000 == second
    assert by_line[named["host"], "copy to host"]["first"] == (third - 1) // 2


def fourth_line():
    return next(n for n, text in enumerate((PROGRAMS / "sized.py").read_text().splitlines(), 1) if text.startswith("known = "))


@pytest.mark.slow
def test_assumptions_take_the_place_of_values_and_counts(planned):
    lines = (PROGRAMS / "sized.py").read_text().splitlines()
    at = {name: next(n for n, text in enumerate(lines, 1) if text.startswith(name)) for name in ("rows", "other")}
    assume = f"sized.py:{at['rows']}=1023,plan/sized.py:{at['other']}=8"
    done, records = planned("sized.py", env={"GPUMEM_PLAN_ASSUME": assume})
    assert done.stdout.split()[1:3] == ["1024", "1024"]
    assert (at["rows"], "item") not in unknown_of(records)
    assert reads(records)[at["rows"], "item"]["assumed"] == 1
    text = (PROGRAMS / "detection.py").read_text().splitlines()
    counted = {op: n for n, line in enumerate(text, 1) for op in READ.findall(line)}
    assume = ",".join(f"detection.py:{counted[op]}={size}" for op, size in (("masked_select", 7), ("nonzero", 100), ("unique", 2)))
    done, records = planned("detection.py", env={"GPUMEM_PLAN_ASSUME": assume})
    assert done.stdout.splitlines()[1].split()[2:4] == ["100", "2"]
    wrong, _ = planned("waiting.py", "known", env={"GPUMEM_PLAN_ASSUME": "waiting.py=3"})
    assert "GPUMEM_PLAN_ASSUME: waiting.py=3 is not FILE:LINE=NUMBER" in wrong.stderr


@pytest.mark.parametrize("kind, most, reading", (("still", 200, 201), pytest.param("changing", 20, 2001, marks=pytest.mark.slow)))
def test_a_loop_on_data_ends_by_a_bound_that_names_the_line(planned, kind, most, reading):
    done, records = planned("waiting.py", kind, env={"GPUMEM_PLAN_LOOP_MOST": str(most)}, check=False)
    line = next(n for n, text in enumerate((PROGRAMS / "waiting.py").read_text().splitlines(), 1) if f'"{kind}"' in text)
    line += 1 if kind == "still" else 2
    if kind == "changing":
        line = next(n for n, text in enumerate((PROGRAMS / "waiting.py").read_text().splitlines(), 1) if "error.item() <" in text)
    assert done.returncode == 1
    assert f"EndlessLoop: gpumem plan: waiting.py:{line} read a value that the simulator does not know" in done.stderr
    assert f"GPUMEM_PLAN_ASSUME=waiting.py:{line}=VALUE" in done.stderr
    assert reads(records)[line, "item"]["unknown"] == reading


@pytest.mark.slow
def test_a_loop_on_known_values_has_no_bound(planned):
    done, _ = planned("waiting.py", "known", env={"GPUMEM_PLAN_LOOP_MOST": "20"})
    assert done.stdout == "SEEN 1000\n"


def figures(done):
    """The allocator's figures of trainings.py, and what the host's generator gives after it."""
    return harness.figures(done)


TRAININGS = [
    ("mlp", "2", "graph"), ("mlp", "2", "compile"), ("gpt", "3"), ("gpt", "2", "bf16", "checkpoint"), ("gpt", "2", "foreach-off"),
    ("gpt", "2", "wide", "bf16"), ("lstm", "2"), ("convnet", "2"),
]  # fmt: skip


@pytest.mark.parametrize("training", [("mlp", "3"), *(pytest.param(each, marks=pytest.mark.slow) for each in TRAININGS)], ids="-".join)
def test_programs_that_need_no_values_take_the_same_memory(planned, training):
    """To the byte, at the peak and in all; and the host's random numbers stay as they were."""
    if "compile" in training:  # what the compiler tries out, it tries once
        planned("trainings.py", *training, parts=())
    without, _ = planned("trainings.py", *training, parts=())
    done, records = planned("trainings.py", *training)
    assert figures(done) == figures(without)
    assert [record["covered"] for record in records if record["kind"] == "process"] == [True]


@pytest.mark.slow
def test_peaks_of_mixed_precision_are_the_same(planned):
    """GradScaler reads values to decide whether a step is taken, which a plan cannot know; the peaks are those of
    steps that are taken."""
    without, _ = planned("trainings.py", "gpt", "3", "amp", "clip", parts=())
    done, _ = planned("trainings.py", "gpt", "3", "amp", "clip")
    peaks = [{name: value for name, value in figures(each).items() if "peak" in name} for each in (without, done)]
    assert peaks[0] == peaks[1]


@pytest.mark.slow
def test_every_process_and_thread_is_covered(planned):
    """Spawned, started and loading processes, threads; no trace of the folder, and none of it in an isolated Python."""
    done, records = planned("starts.py")
    out = done.stdout.splitlines()
    # A spawned process runs the program's file again under another name, and prints no separate output.
    assert out[0] == "first plan False False False"
    assert {"spawned 3.0", "main 3.0", "thread 3.0", "child 3.0", "loaded [2.0, 10.0]"} <= set(out)
    assert out[-1] != "isolated 3.0"
    processes = [record["pid"] for record in records if record["kind"] == "process"]
    assert len(processes) == len(set(processes)) == 3, "the program, what it spawned, its child"
    assert {record["pid"] for record in records if record["kind"] == "read"} == set(processes)


@pytest.mark.slow
def test_reads_are_on_disk_whatever_ends_the_process(planned, tmp_path):
    script = tmp_path / "killed.py"
    script.write_text("import os, signal, torch\nx = torch.rand(3, device='cuda')\n"
                      "for _ in range(5):\n    x.sum().item()\nos.kill(os.getpid(), signal.SIGKILL)\n")  # fmt: skip
    done, records = planned(script, check=False)
    assert done.returncode == -9
    assert reads(records)[4, "item"]["unknown"] == 5


def test_operations_agree_with_the_cpu(planned):
    """Views, strides, masks, in-place and out= variants, foreach, types, complex numbers, threads: as the CPU has them."""
    done, _ = planned("operations.py")
    assert done.stdout == "EQUAL 61\n"


@pytest.mark.slow
def test_factorizations_succeed_whatever_memory_held_before(planned):
    done, _ = planned("linear_algebra.py")
    assert done.stdout.startswith("DONE 108\n")


@pytest.mark.slow
def test_factorizations_take_the_same_memory(planned):
    without, _ = planned("linear_algebra.py", "zeros", parts=())
    done, _ = planned("linear_algebra.py", "zeros")
    assert done.stdout == without.stdout
    assert done.stdout.startswith("DONE 96\n")


@pytest.mark.slow
def test_larger_tensors_than_the_bound_are_unknown_zeros(planned, tmp_path):
    script = tmp_path / "bound.py"
    script.write_text("import torch\nfor size in (100, 101):\n    print(torch.ones(size, device='cuda').sum().item())\n")
    done, records = planned(script, env={"GPUMEM_PLAN_VALUES_MOST": "100"})
    assert done.stdout == "100.0\n0.0\n"
    assert (reads(records)[3, "item"]["known"], reads(records)[3, "item"]["unknown"]) == (1, 1)
    done, _ = planned(script, env={"GPUMEM_PLAN_VALUES_MOST": "many"})
    assert done.stdout == "100.0\n101.0\n"
    assert "GPUMEM_PLAN_VALUES_MOST=many is no number of elements; 1048576 is used" in done.stderr


@pytest.mark.slow
def test_workers_of_a_launcher_are_covered(planned, tmp_path):
    script = tmp_path / "rank.py"
    script.write_text("import os, torch\ntotal = torch.ones(3, device='cuda').sum().item()\nos.write(1, f'{os.environ[\"RANK\"]} {total}\\n'.encode())\n")
    done, records = planned("-m", "torch.distributed.run", "--nproc-per-node", "2", script)
    assert sorted(done.stdout.splitlines()) == ["0 3.0", "1 3.0"]
    assert [record["line"] for record in records if record["kind"] == "read"] == [2, 2]
    assert len({record["pid"] for record in records if record["kind"] == "read"}) == 2


@pytest.mark.slow
def test_without_values_only_what_was_copied_is_known(planned):
    done, records = planned("detection.py", parts=("lines",))
    assert "UNKNOWN 0 0" in done.stdout, "unknown memory is zeros"
    assert promised("detection.py")[0] - unknown_of(records) == set()


@pytest.mark.slow
def test_what_is_written_past_the_mode_is_no_longer_known(planned):
    _, records = planned("unseen.py")
    unknown, known = promised("unseen.py")
    assert unknown_of(records) == unknown
    assert all(reads(records)[line, "item"]["known"] == 1 for line in known)


@pytest.mark.slow
def test_a_capture_of_a_plan_has_the_programs_own_lines(planned, tmp_path, analyze_json):
    """The mode's frames are not lines, and what the recorder derives from frames (phases, categories, modules) is
    the same as without them."""
    views = (("lines",), ("lines", "--at", "end"), ("lines", "--by", "category"), ("lines", "--by", "module"), ("lines", "--level", "driver"))
    found = []
    for parts in ((), ("values", "lines")):
        report = tmp_path / f"{len(parts)}.bin"
        planned("trainings.py", "gpt", "3", parts=parts, preload=True, env={"GPUMEM_OUTPUT": str(report)})
        found.append([analyze_json(*view, report) for view in views])
    for view, without, done in zip(views, *found):
        assert done == without, view


@pytest.mark.slow
def test_what_a_library_puts_in_the_place_of_pytorchs_functions_is_not_called(planned):
    """Copies would lie in buffers of another size: the host's memory would be overwritten."""
    done, _ = planned("replaced.py")
    left = sum(row * 64 + column for row in range(64) for column in range(1, 64, 2))
    assert done.stdout.split() == ["True", "True", str(float(left)), "48"]


@pytest.mark.slow
def test_a_kernel_that_counts_within_has_the_count_of_the_values(planned):
    done, records = planned("kernel_counts.py")
    assert done.stdout == "True True\n"
    text = (PROGRAMS / "kernel_counts.py").read_text().splitlines()
    line = next(number for number, each in enumerate(text, 1) if "ops.torchvision.nms" in each)
    assert {op for at, op in reads(records) if at == line} == {"nms"}, "what the kernel reads is not read by the program"
    assert unknown_of(records) == set()


@pytest.mark.slow
def test_a_rank_of_many_has_the_memory_of_barriers(planned):
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    by_itself, _ = planned("barriers.py", parts=(), env={**rank, "GPUMEM_PLAN_LINES": ""})
    done, _ = planned("barriers.py", parts=("world",), env=rank)
    assert done.stdout == by_itself.stdout and "[0, 512, 512, 0]" in done.stdout
