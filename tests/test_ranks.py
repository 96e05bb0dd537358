"""`gpumem-analyze ranks`: the ranks of a job that differ from their peers, the lines that make the difference, and
the first step with a difference.

What breaks these tests: a rank that is compared with other stages of a pipeline, a median that the outlier moves, a
figure that counts one cause twice, and lines of another moment than the peak."""

import random
import re
import shutil
import sys

import captures
import harness
import pytest
from lanes import lanes
from ranks_job import DIFFER, JOB, PLANTS, WORLD, line_of
from test_analyzer import ESCAPE, on_a_terminal

MIB = 1 << 20
TORCHRUN = "ranks_torchrun.py"
RANKS = captures.job("ranks")


@pytest.fixture
def ranks():
    """ranks(*arguments) is the command's JSON output."""

    def run(*arguments, status=0):
        done = harness.run([harness.ANALYZER, "ranks", "--format", "json", *arguments], check=False)
        assert done.returncode == status, harness.described(done)
        return harness.unwrapped(done.stdout)

    return run


def copied(to, which):
    to.mkdir()
    for rank in which:
        shutil.copy(RANKS / f"report.rank{rank}.bin", to)
    return to


def test_each_plant_is_found_with_its_line_and_step(ranks):
    found = ranks(RANKS)
    assert {of["rank"] for of in found["outliers"]} == DIFFER
    first = {rank: next(of for of in found["outliers"] if of["rank"] == rank) for rank in DIFFER}
    names = {rank: [row["name"] for row in of["differences"]] for rank, of in first.items()}

    leak = first[3]
    assert (leak["metric"], leak["off_bytes"]) == ("tensors", 6 * 4 * MIB)
    # What is kept after a step's end is seen in the next one, and not after the last.
    assert leak["since"] == {"first_step": 3, "last_step": 3}
    assert names[3][0] == line_of(JOB, "kept.append(torch.zeros(1 << 20")
    assert (leak["differences"][0]["bytes"], leak["differences"][0]["median_bytes"]) == (24 * MIB, 0)

    assert first[5]["metric"] == first[9]["metric"] == "tensors"
    assert first[5]["since"] == first[9]["since"] == {"first_step": 1, "last_step": 1}
    forward = line_of(JOB, "return x + self.down(")
    assert names[5][0] == names[9][0] == forward
    assert {"activation", "optimizer state"} < set(names[5])
    assert "optimizer state" not in names[9]

    outside = first[11]
    assert (outside["metric"], outside["off_bytes"], outside["since"]) == ("outside", 64 * MIB, None)
    assert names[11] == [line_of(JOB, "assert ctypes.CDLL(")]


def test_another_build_of_a_library_is_said(ranks):
    found = ranks(RANKS)
    [runtime] = found["mixed"]
    assert runtime["what"] == "libcudart"
    (usual, most), (other, few) = runtime["values"]
    assert (few, len(most)) == ([7], WORLD - 1)
    assert re.fullmatch(r"libcudart\.so\.13 \(build [0-9a-f]{12}\)", usual)
    assert re.fullmatch(re.escape(usual) + r" and libcudart\.so\.13\.9 \(build [0-9a-f]{12}\)", other)
    said = harness.run([harness.ANALYZER, "ranks", RANKS]).stdout
    assert f"libcudart differs: rank 7 has {other}; the others {usual}.\n" in said


def test_who_died_first(ranks):
    found = ranks(RANKS)
    assert found["endings"]["out_of_memory"] == [12]
    assert found["endings"]["killed"] == [13]
    assert found["endings"]["clean"] == WORLD - 2
    [row] = [row for row in found["ranks"] if row["rank"] == 12]
    assert (row["ended"], row["wanted_bytes"]) == ("out_of_memory", 4 << 40)


def test_figures_are_those_of_the_captures(ranks, analyze_json):
    for row in ranks(RANKS)["ranks"][:4]:
        summary = analyze_json("report", "--all", row["file"])
        device = summary["devices"][0]
        assert row["tensor_peak_bytes"] == device["tensor"]["peak_bytes"]
        assert row["reserved_peak_bytes"] == device["reserved"]["peak_bytes"]
        assert row["device_peak_bytes"] == device["physical"]["peak_bytes"]
        assert (row["uuid"], row["pid"], row["steps"]) == (device["uuid"], summary["process"]["pid"], summary["steps"])


@pytest.mark.parametrize("draws", lanes((10, 200)))
def test_nothing_is_reported_of_ranks_that_are_alike(draws, ranks, tmp_path):
    """Any choice of ranks without a plant."""
    alike = [rank for rank in range(WORLD) if rank not in PLANTS]
    draw = random.Random(25)
    for number in range(draws):
        chosen = draw.sample(alike, draw.randint(2, len(alike)))
        found = ranks(*(RANKS / f"report.rank{rank}.bin" for rank in chosen), status=3)
        assert found["outliers"] == [], (number, chosen)
        assert found["missing_ranks"] == sorted(set(range(WORLD)) - set(chosen))


def test_text_answers_first_and_fits():
    done = harness.run([harness.ANALYZER, "ranks", RANKS])
    first, second, third, *_ = done.stdout.splitlines()
    assert first.startswith("Rank 11 holds 64.0 MiB more than its peers, mostly from ")
    assert first.endswith(" 3 other ranks also differ.")
    assert second.startswith(f"{WORLD} of {WORLD} ranks on 1 machine; their peaks are ")
    assert third.startswith("Rank 12 ran out of memory first; 1 rank was killed. ")
    kept = next(line for line in done.stdout.splitlines() if line.startswith("  +24.0 MiB  24.0 MiB "))
    assert kept.endswith(line_of(JOB, "kept.append(torch.zeros(1 << 20"))


ALLOCATES = """import os

from sim_cuda import must, out

must("cuInit", 0)
must("cuCtxSetCurrent", out("cuDevicePrimaryCtxRetain", 0))
size = 80 << 20 if os.environ["RANK"] == "1" else 16 << 20
kept = out("cuMemAlloc_v2", size)
"""


def test_rows_have_the_text_of_their_line(simulate, tmp_path):
    """Where the program's file is as it was."""
    (tmp_path / "allocates.py").write_text(ALLOCATES)
    for rank in range(3):
        env = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "3", "GPUMEM_QUIET": "1", "PYTHONPATH": str(harness.WORKLOADS)}
        simulate([sys.executable, "allocates.py"], preload=True, env=env)
    said = harness.run([harness.ANALYZER, "ranks", "--source-root", harness.WORKLOADS, tmp_path]).stdout
    [row] = [line for line in said.splitlines() if line.startswith("  +64.0 MiB  80.0 MiB ") and ".py:" in line]
    assert row.endswith(f"{harness.WORKLOADS}/{line_of('sim_cuda.py', 'return function(*words)')}  return function(*words)"), said


def test_rows_have_their_line_within_a_terminal():
    said, status = on_a_terminal("ranks", RANKS)
    lines = ESCAPE.sub("", said).splitlines()
    assert status == 0 and max(map(len, lines)) <= 80
    [kept] = [line for line in lines if line.startswith("  +24.0 MiB  24.0 MiB ") and ".py:" in line]
    assert kept.endswith("    " + line_of(JOB, "kept.append(torch.zeros(1 << 20").rpartition("/")[2])


def test_what_a_job_lacks_is_said(tmp_path):
    folder = copied(tmp_path / "job", [0, 1, 2, 4, 6])
    earlier = folder / "earlier"
    earlier.mkdir()
    shutil.copy(RANKS / "report.rank1.bin", earlier / "again.bin")
    (folder / "notes.txt").write_text("no capture\n")
    allocate = "import ctypes; ctypes.CDLL('libcudart.so.13').cudaMalloc(ctypes.byref(ctypes.c_void_p()), 4096)"
    harness.simulate([sys.executable, "-c", allocate], preload=True, env={"GPUMEM_OUTPUT": str(folder / "tool.bin")})
    (folder / "weights.bin").write_bytes(bytes(10_000))
    whole = (RANKS / "report.rank7.bin").read_bytes()
    (folder / "report.rank7.bin").write_bytes(whole[:3000])
    done = harness.run([harness.ANALYZER, "ranks", folder], check=False)
    assert done.returncode == 3
    assert "Without a capture: ranks 3, 5, 7 to 15." in done.stdout
    assert "of rank 1 is ignored: " in done.stdout
    assert "report.rank7.bin" in done.stdout.partition("Not read: ")[2]
    assert f"\n1 capture is ignored, because no rank is known: {folder / 'tool.bin'}.\n" in done.stdout
    assert "weights.bin" not in done.stdout and "notes.txt" not in done.stdout


@pytest.mark.parametrize(
    "arguments, status, says",
    [
        (["nowhere"], 1, "nowhere: "),
        (["empty"], 1, "empty: no capture: name the folder with the ranks' report.rankN.bin"),
        (["--mesh", "pp=3", "job"], 1, "--mesh has 3 ranks, the job 16: name the sizes of all dimensions"),
        (["--mesh", "pp", "job"], 2, "expected dimensions and their sizes, such as pp=2,dp=4,tp=2"),
        ([], 2, "required"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(arguments, status, says, tmp_path):
    (tmp_path / "empty").mkdir()
    copied(tmp_path / "job", [0, 1])
    done = harness.run([harness.ANALYZER, "ranks", *arguments], cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr
    if status == 1:
        assert len(done.stderr.splitlines()) == 1


def test_fsdp_under_torchrun(ranks):
    found = ranks(captures.job("fsdp"))
    assert [row["device"] for row in found["ranks"]] == [0, 1]
    assert {of["rank"] for of in found["outliers"]} == {1}
    largest = found["outliers"][0]
    assert (largest["metric"], largest["since"]["first_step"]) == ("tensors", 1)
    assert largest["differences"][0]["name"] == line_of(TORCHRUN, "model(torch.zeros(batch")

    # NCCL's memory is that of the ledgers, and what one rank has more of it is one difference.
    for row in found["ranks"]:
        ledger = harness.analyze_json("ledger", "--at", "peak=driver", "--device", row["device"], row["file"])
        of = {part["library"]: part["bytes"] for part in ledger[0]["rows"] if part["kind"] == "library"}
        assert row["nccl_bytes"] == of["libnccl.so.2"] > 0
        assert row["symmetric_bytes"] == of.get("libtorch_cuda.so", 0)
    assert [of["metric"] for of in found["outliers"]] == ["tensors", "cache", "nccl"]
    nccl = found["outliers"][2]
    more = [found["ranks"][1][name] - found["ranks"][0][name] for name in ("nccl_bytes", "symmetric_bytes")]
    # A tensor of 24 MiB and a page for its signals.
    assert more[1] == 26 * MIB and nccl["off_bytes"] == sum(more)
    differ = {(row["of"], row["name"]) for row in nccl["differences"] if row["of"] in ("nccl", "symmetric")}
    assert ("nccl", line_of(TORCHRUN, "alone = dist.new_group")) in differ
    assert ("symmetric", line_of(TORCHRUN, "kept = symmetric.empty")) in differ
    head = next(line for line in harness.run([harness.ANALYZER, "ranks", captures.job("fsdp")]).stdout.splitlines() if "reserved" in line)
    assert "NCCL" in head


def test_stages_of_a_pipeline_are_no_peers(ranks):
    found = ranks(captures.job("pipeline"))
    assert found["outliers"] == []
    assert [group["coordinates"] for group in found["groups"]] == [{"pp": 0}, {"pp": 1}]
    assert [(row["local_rank"], row["coordinates"]) for row in found["ranks"]] == [(0, {"pp": 0}), (1, {"pp": 1})]
    # The command line has priority.
    alike = ranks("--mesh", "dp=2", captures.job("pipeline"))
    assert {of["rank"] for of in alike["outliers"]} >= {1}
