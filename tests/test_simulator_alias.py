"""Memory of the simulated driver with a second address or owner: shared handles, pools, IPC, external memory,
multicast, mapped arrays. Also green contexts and the old forms, and the runtime's functions for them."""

from __future__ import annotations

import sys
from pathlib import Path

import harness
import pytest

WORKLOADS = Path(__file__).parent / "workloads"
WORKLOAD = WORKLOADS / "sim_alias.py"


@pytest.mark.parametrize("check", ["reservations", "handles", "pools", "ipc", "external"])
def test_one_device(simulate, check):
    simulate([sys.executable, WORKLOAD, check], memory="4GiB")


@pytest.mark.parametrize("check", ["sparse", "planes", "batches", "green", "old"])
def test_parts(simulate, check):
    simulate([sys.executable, WORKLOADS / "sim_parts.py", check], memory="4GiB")


@pytest.mark.parametrize("check", ["ordinals", "multicast", "multicast_shared"])
def test_two_devices(simulate, check):
    simulate([sys.executable, WORKLOAD, check], devices=2, memory="4GiB")


def test_older_devices(simulate):
    simulate([sys.executable, WORKLOAD, "no_multicast"], env={"GPUMEM_SIM_CC": "8.6"})


@pytest.mark.parametrize("check", ["pools", "external", "arrays", "green"])
def test_runtime(simulate, build_c, check):
    client = build_c("sim_alias.c", harness.BUILT / "libsimcudart.so", "-ldl")
    assert simulate([client, check], devices=2, memory="4GiB").stdout == f"{check} holds\n"
