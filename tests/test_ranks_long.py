"""`gpumem-analyze ranks` on long runs, and on many captures that are made from one: the exact step from which a rank
differs.

What breaks these tests: a step that is rounded to the points that a reading keeps, peers that are not read again,
and inconsistent captures made for benchmarks."""


import harness
import pytest

JOB = harness.WORKLOADS / "ranks.py"
MAKE = harness.EXAMPLES / "make_ranks"
MIB = 1 << 20
STEPS, LEAK = 600, 411


def ranks(*arguments):
    return harness.unwrapped(harness.run([harness.ANALYZER, "ranks", "--format", "json", *arguments]).stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A job of 32 ranks, made from one of 12 steps."""
    folder = tmp_path_factory.mktemp("made")
    zeros = line_of('x = torch.zeros(512 if what == "batch" else 256')
    plants = [
        f"3:leak=1MiB:{zeros}@7", f"21:times=20:{zeros}@9", "9:library=libcublas.so.13:13.9", "30:fact=pytorch:2.14.0",
    ]
    words = [word for plant in plants for word in ("--plant", plant)]
    harness.run([MAKE, harness.CAPTURES / "job" / "report.rank0.bin", folder, "--world", "32", "--mesh", "pp=2,dp=16", *words])
    return folder


def line_of(text):
    [number] = [number for number, line in enumerate(JOB.read_text().splitlines(), 1) if text in line]
    return f"ranks.py:{number}"


@pytest.mark.slow
def test_the_step_of_a_long_run_is_exact(python_env, tmp_path):
    """Four ranks with enough steps that each point of a reading has several."""
    command = [python_env("torch215"), JOB, "4", "--plain", "--steps", STEPS, "--plant", f"2=leak:{LEAK}"]
    harness.simulate(command, cwd=tmp_path, preload=True, env={"GPUMEM_QUIET": "1"})
    [leak] = [of for of in ranks(tmp_path)["outliers"] if of["metric"] == "tensors"]
    assert (leak["rank"], leak["off_bytes"]) == (2, (STEPS - LEAK) * 4 * MIB)
    # What is kept after a step's end is seen in the next one.
    assert leak["since"] == {"first_step": LEAK + 1, "last_step": LEAK + 1}
    assert f", since step {LEAK + 1}, mostly from " in harness.run([harness.ANALYZER, "ranks", tmp_path]).stdout


def test_planted_ranks_of_a_job_that_was_made_are_found(made):
    found = ranks(made)
    assert len(found["ranks"]) == 32 and not found["missing_ranks"]
    assert [group["coordinates"] for group in found["groups"]] == [{"pp": 0}, {"pp": 1}]
    tensors = {of["rank"]: of for of in found["outliers"] if of["metric"] == "tensors"}
    assert {of["rank"] for of in found["outliers"]} == set(tensors) == {3, 21}
    assert [tensors[rank]["since"]["first_step"] for rank in (3, 21)] == [7, 9]
    assert all(of["since"]["first_step"] == of["since"]["last_step"] for of in tensors.values())
    assert tensors[3]["off_bytes"] == 6 * MIB
    assert {of["differences"][0]["name"].rpartition("/")[2] for of in tensors.values()} == {line_of("x = torch.zeros(")}
    mixed = {of["what"]: of["values"] for of in found["mixed"]}
    assert {what: values[1][1] for what, values in mixed.items()} == {"libcublas": [9], "PyTorch": [30]}
    assert mixed["libcublas"][1][0].startswith("libcublas.so.13.9 (build ")


@pytest.mark.parametrize("rank", [0, 3, 21])
def test_captures_that_were_made_agree_with_themselves(made, rank):
    capture = made / f"report.rank{rank}.bin"
    said = harness.run([harness.ANALYZER, "check", capture]).stdout
    assert "whole: " in said and "counters agree with the replay; agrees with NVML to the byte" in said
    row = next(row for row in ranks(made)["ranks"] if row["rank"] == rank)
    assert (row["host"], row["local_rank"]) == (f"node{rank // 8:04}", rank % 8)
    assert row["reserved_peak_bytes"] >= row["tensor_peak_bytes"]
    assert len({row["uuid"] for row in ranks(made)["ranks"]}) == 32
