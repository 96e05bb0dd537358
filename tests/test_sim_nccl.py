"""The simulated libnccl.so.2: its exports, its memory against an independent implementation of the formulas in
docs/nccl.md, its data, and torch.distributed of real PyTorch 2.15.0 on it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import harness
import pytest
from lanes import slow

from test_sim_libraries import table

M = 1 << 20
DATA = Path(__file__).parent / "data"
CLIENT = harness.WORKLOADS / "sim_nccl.py"
PYTORCH = harness.WORKLOADS / "sim_nccl_torch.py"
KERNELS = 240 * M
EIGHT = {"GPUMEM_SIM_NCCL_LOCAL": "8"}


def exports() -> set[str]:
    built = harness.BUILT / "libsimnccl.so"
    listing = harness.run(["nm", "-D", "--defined-only", built]).stdout.splitlines()
    return {name for _, kind, name in (line.split() for line in listing) if kind == "T"}


def test_exports_are_the_tables_and_have_no_versions():
    assert exports() == table("nccl")


def test_exports_have_what_pytorch_imports():
    imports = set((DATA / "torch215_nccl_imports.txt").read_text().split())
    assert len(imports) == 51 and imports <= exports()


def test_the_library_is_found_by_its_name_and_needs_no_driver_at_link_time():
    dynamic = harness.run(["readelf", "-d", harness.BUILT / "libsimnccl.so"]).stdout
    assert "soname: [libnccl.so.2]" in dynamic and "NEEDED)             Shared library: [libcuda" not in dynamic


@pytest.mark.parametrize(
    "check", ["one_rank", "many_ranks", "large_messages", "questions", "allocations", "in_capture"]
)
def test_c_interface(simulate, check):
    assert simulate([sys.executable, CLIENT, check]).stdout == f"{check} holds\n"


def test_all_communicators_of_one_process(simulate):
    done = simulate([sys.executable, CLIENT, "all_of_a_process"], devices=2)
    assert done.stdout == "all_of_a_process holds\n"


def test_a_card_without_room_for_it(simulate):
    done = simulate([sys.executable, CLIENT, "no_room"], memory="800MiB", env=EIGHT)
    assert done.stdout == "no_room holds\n"


def test_messages_are_delivered_up_to_the_size_that_is_set(simulate):
    env = {"GPUMEM_SIM_NCCL_COPY_BYTES": "8"}
    done = simulate([sys.executable, CLIENT, "many_ranks"], env=env, check=False)
    assert done.returncode == 1 and "target.read() == data * 3" in done.stderr


def grown(simulate, rank, world, *steps, memory="64GiB", **env):
    """What the client's steps have allocated, in turn."""
    command = [sys.executable, CLIENT, "memory", str(rank), str(world), *steps]
    done = simulate(command, memory=memory, env={**EIGHT, **env})
    live = list(json.loads(done.stdout).values())
    return [after - before for before, after in zip([0, *live], live)], done


def structures(channels, *, nvls=True, credits=True):
    """Three blocks of 2 MiB for each channel and three for the communicator, 16 for NVLS and its credits."""
    return plain(channels) + (32 * nvls + 2 * credits) * M


def plain(channels):
    """The same without NVLS."""
    return (6 * channels + 6) * M


def test_a_communicator_of_eight_h100(simulate):
    steps = "init all_reduce:4 all_reduce:4000000 broadcast:8 all_to_all suspend resume destroy".split()
    (init, small, large, broadcast, to_all, suspend, resume, end), _ = grown(simulate, 3, 8, *steps)
    assert init == KERNELS + structures(32)
    assert small == 24 * 12 * M, "a tree: both ways to a neighbour"
    assert large == 16 * 2 * M * 8, "NVLS"
    assert broadcast == 24 * 6 * M, "a ring has half of its connections from the tree"
    assert to_all == 7 * 32 * 12 * M
    assert -suspend == resume == small + large + broadcast + to_all
    assert end == -(init + resume) + KERNELS


# Rings, trees and the pool of the network: what a communicator has from its start where nothing waits.
AT_ONCE = 24 * 18 * M + 32 * 16 * (M // 2)


def named(value):
    return " ".join(f"{name}={setting}" for name, setting in value.items()) if isinstance(value, dict) else ""


@pytest.mark.parametrize(
    "env, init, large",
    [
        # Before 2.22 everything at once.
        ({"GPUMEM_SIM_NCCL_VERSION": "2.20.5"}, structures(32, credits=False) + AT_ONCE + 24 * 12 * M * 8, 0),
        ({"GPUMEM_SIM_NCCL_VERSION": "2.21.5"}, structures(32, credits=False) + AT_ONCE + 24 * 6 * M * 8, 0),
        ({"GPUMEM_SIM_NCCL_VERSION": "2.27.3"}, structures(32), 256 * M),
        ({"NCCL_RUNTIME_CONNECT": "0"}, structures(32) + AT_ONCE + 256 * M, 0),
        (
            {"NCCL_RUNTIME_CONNECT": "0", "NCCL_P2P_NVL_CHUNKSIZE": "65536", "NCCL_NVLS_ENABLE": "0"},
            plain(32) + 24 * 18 * M + 32 * M,
            0,
        ),
        ({"NCCL_NVLS_ENABLE": "0"}, plain(32), 24 * 12 * M),
        ({"NCCL_NVLS_CHUNKSIZE": "262144"}, structures(32), 512 * M),
        ({"GPUMEM_SIM_CC": "80"}, plain(32), 24 * 12 * M),
        ({"GPUMEM_SIM_CC": "100"}, structures(32), 24 * 2 * 8 * M),
        ({"GPUMEM_SIM_NCCL_CHANNELS": "8", "NCCL_NVLS_ENABLE": "0"}, plain(8), 8 * 12 * M),
        ({"NCCL_MAX_NCHANNELS": "4", "NCCL_NVLS_ENABLE": "0"}, plain(4), 4 * 12 * M),
        ({"NCCL_BUFFSIZE": "16777216", "NCCL_NVLS_ENABLE": "0"}, plain(32), 24 * 24 * M),
        ({"GPUMEM_SIM_CC": "89"}, plain(2), 2 * 12 * M),
        ({"GPUMEM_SIM_NCCL_NVSWITCH": "0"}, plain(2), 2 * 12 * M),
        ({"GPUMEM_SIM_NCCL_NVSWITCH": "0", "NCCL_P2P_DISABLE": "1"}, plain(2), 0),
        ({"GPUMEM_SIM_NCCL_MODEL": "none"}, -KERNELS, 0),
    ],
    ids=named,
)
def test_memory_by_settings(simulate, env, init, large):
    (first, second), _ = grown(simulate, 0, 8, "init", "all_reduce:4000000", **env)
    assert (first - KERNELS, second) == (init, large)


def test_memory_without_cumem_is_of_exact_bytes(simulate):
    """The multicast buffer of NVLS aside, which is memory of cuMemCreate always."""
    env = {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "GPUMEM_SIM_NCCL_KERNEL_BYTES": "0"}
    (init,), _ = grown(simulate, 0, 8, "init", **env)
    of_channels = 32 * (8 * 640 + (8 + 1 + 8) * 8 + 8 * 4)
    assert init == of_channels + 3 * 4096 + AT_ONCE
    (init,), _ = grown(simulate, 0, 1, "init", **env)
    assert init == 64 * (640 + 3 * 8 + 4) + 3 * 4096 + 536_870_912, "as nccl#2363 has it"


def test_memory_of_ranks_on_many_nodes(simulate):
    (init, small, to_all), _ = grown(simulate, 7, 1024, "init", "broadcast:8", "all_to_all")
    assert init == KERNELS + structures(16)
    assert small == 16 * 16 * M, "half of the channels go over the network"
    assert to_all == 7 * 12 * M + 2 * 16 * 16 * 131_072, "one channel for each peer of the node, and the pool"
    (init, ring), _ = grown(simulate, 0, 8, "init", "broadcast:8", GPUMEM_SIM_NCCL_LOCAL="1")
    assert (init, ring) == (KERNELS + plain(16), 16 * 20 * M)


def test_memory_of_a_rank_alone(simulate):
    (init, reduce), _ = grown(simulate, 0, 1, "init", "all_reduce:4")
    assert (init, reduce) == (KERNELS + plain(64), 0)


def test_memory_of_send_and_receive(simulate):
    (init, send, again, receive), _ = grown(simulate, 0, 8, "init:16", "send:1", "all_reduce:0", "recv:1")
    assert init == KERNELS + structures(16)
    assert (send, receive) == (16 * 2 * M, 16 * 10 * M)
    assert again == 16 * 12 * M


def test_low_likely_and_high_are_in_order(simulate):
    steps = ["init", "all_reduce:4000000", "all_reduce:4", "all_gather:8", "broadcast:8"]
    sums = []
    for level in ("low", "likely", "high"):
        parts, _ = grown(simulate, 0, 8, *steps, GPUMEM_SIM_NCCL_MODEL=level)
        sums.append(sum(parts))
    assert sums == sorted(set(sums))
    assert sums[0] == (200 + 6 * 16 + 4 + 34 + 16 * 12) * M


def test_a_split_says_what_it_takes_for_granted(simulate):
    (_, child), done = grown(simulate, 0, 8, "init", "split:0")
    assert child == structures(32)
    assert "ncclCommSplit cannot know how many ranks share a colour: taking all 8" in done.stderr
    (_, child), done = grown(simulate, 0, 8, "init", "split:0", GPUMEM_SIM_NCCL_SPLIT="2")
    assert child == plain(32) and not done.stderr
    (_, child), _ = grown(simulate, 0, 8, "init", "split:1")
    assert child == (32 * 4 + 6) * M, "a child that shares has the addresses and ranks alone"


def test_settings_that_cannot_be_read_are_named(simulate):
    _, done = grown(simulate, 0, 8, "init", GPUMEM_SIM_NCCL_VERSION="three", GPUMEM_SIM_NCCL_MODEL="much")
    said = sorted(line.split("=")[0] for line in done.stderr.splitlines())
    assert said == [f"gpumem simulator: GPUMEM_SIM_NCCL_{name}" for name in ("MODEL", "VERSION")]


def test_torch_distributed_of_one_process_and_the_ledger(simulate, python_env, tmp_path, analyze_json):
    """All collectives, DDP and FSDP2; the capture has NCCL's memory as the simulator's books have it."""
    report = tmp_path / "report.bin"
    command = [python_env("torch215"), harness.WORKLOADS / "tell.py", "--end", "hard", PYTORCH, "alone"]
    done = simulate(command, preload=True, env={"GPUMEM_OUTPUT": str(report)})
    assert "alone holds\n" in done.stdout
    books = harness.figures(done)["books"]["devices"][0]
    (ledger,) = analyze_json("ledger", "--at", "end", report)
    of_nccl = sum(row["bytes"] for row in ledger["rows"] if row["name"] == "libnccl.so.2")
    # PyTorch's own memory comes from cuMemAlloc here, and NCCL's from cuMemCreate, but for its code.
    assert of_nccl == books["kinds"]["vmm"]["current"] + KERNELS == plain(64) + KERNELS
    assert ledger["driver_bytes"] == books["driver"]["current"]
    assert ledger["physical_bytes"] == books["physical"]["current"] and ledger["unexplained_bytes"] == 0


@pytest.mark.parametrize("rank, world", [(3, 8), *slow((7, 1024))])
def test_torch_distributed_of_one_rank_of_many(simulate, python_env, rank, world):
    command = [python_env("torch215"), PYTORCH, "lone", str(rank), str(world)]
    assert simulate(command, env=EIGHT).stdout == f"rank {rank} of {world} holds\n"


def test_torch_distributed_of_two_processes(simulate, python_env):
    command = [python_env("torch215"), "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", PYTORCH, "ranks"]
    done = simulate(command, devices=2)
    told = [json.loads(line.split(" ", 1)[1]) for line in done.stdout.splitlines() if line.startswith("RANK ")]
    held = {row["rank"]: row["vmm"] for row in told if row["vmm"]}
    assert set(held) == {0, 1} and held[0] == held[1] > 2 * plain(32)
    assert [row["vmm"] for row in told].count(0) == 2, "destroy_process_group gives it all back"
