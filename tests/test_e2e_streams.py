"""Memory of CUDA streams, against the simulator's books."""

import harness
import pytest

MIB = 1 << 20
COST = 512 * MIB  # of a context
CLIENT = harness.WORKLOADS / "streams_torch.py"
LINE = next(n for n, line in enumerate(CLIENT.read_text().splitlines(), 1) if "the streams' line" in line)


@pytest.fixture
def client(build_c):
    return build_c("implicit.c", "-ldl")


def of_kinds(ledger):
    kinds = {}
    for row in ledger["rows"]:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["bytes"]
    return kinds


def test_streams_take_pages_that_later_ones_use_again(client, simulate, analyze_json, tmp_path):
    """8 streams take 2 pages, 16 take 4; destroyed ones give nothing back, and the context's end gives all."""
    report = tmp_path / "report.bin"
    for steps, streams in (
        ("context streams", 4), ("context streams streams", 8), ("context streams streams destroy-streams", 8),
        ("context streams streams destroy-streams streams", 8), ("context streams no-stream", 4),
    ):
        report.unlink(missing_ok=True)
        simulate([client, *steps.split()], preload=True, env={"GPUMEM_QUIET": "1"})
        (ledger,) = analyze_json("ledger", report)
        kinds = of_kinds(ledger)
        assert (kinds["streams"], kinds["context"]) == (streams * MIB, COST), steps
        assert ledger["unexplained_bytes"] == 0


def test_streams_that_take_nothing_have_no_row(client, simulate, analyze_json, tmp_path):
    env = {"GPUMEM_QUIET": "1", "GPUMEM_SIM_STREAM_BYTES": "0"}
    simulate([client, "context", "streams", "block"], preload=True, env=env)
    (ledger,) = analyze_json("ledger", tmp_path / "report.bin")
    assert "streams" not in of_kinds(ledger)


def test_pytorchs_streams_are_no_code(python_env, simulate, analyze_json, tmp_path):
    """PyTorch creates 128 streams when a program first requests one. They are charged to that line; the code of
    kernels has the same size as without them."""
    found, report = {}, tmp_path / "report.bin"
    for streams in ((), ("streams",)):
        report.unlink(missing_ok=True)
        done = simulate([python_env("torch215"), CLIENT, *streams], preload=True, env={"GPUMEM_QUIET": "1"})
        said = {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}
        (ledger,) = analyze_json("ledger", report)
        kinds = of_kinds(ledger)
        assert ledger["unexplained_bytes"] == 0, ledger
        assert ledger["physical_bytes"] == said["physical"]
        assert kinds.get("streams", 0) + kinds["context"] == said["context"]
        assert kinds["module"] == said["module"] > 0
        found[streams] = ledger
    without, with_streams = found.values()
    assert "streams" not in of_kinds(without)
    (row,) = [row for row in with_streams["rows"] if row["kind"] == "streams"]
    assert (row["name"], row["bytes"]) == ("CUDA streams", 64 * MIB)
    assert (row["file"], row["line"]) == (str(CLIENT), LINE)
    code = [{row["name"]: row["bytes"] for row in ledger["rows"] if row["kind"] == "module"} for ledger in found.values()]
    assert code[0] == code[1]
