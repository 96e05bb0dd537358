"""Simulated cards that processes share, and memory that they take implicitly."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import harness
import pytest

WORKLOADS = Path(__file__).parent / "workloads"
CARDS = WORKLOADS / "sim_cards.py"
COSTS = WORKLOADS / "sim_costs.py"
NVML = WORKLOADS / "sim_nvml_cards.py"
SECOND_INSTANCE = "MIG-6770756d-656d-4000-8000-000200000001"


@pytest.mark.parametrize("check", ["modules", "limits", "variables", "kinds"])
def test_costs(simulate, check):
    simulate([sys.executable, COSTS, check], memory="4GiB")


@pytest.mark.parametrize("loading", ["LAZY", "EAGER"])
def test_libraries(simulate, loading):
    command = [sys.executable, COSTS, "libraries", loading]
    simulate(command, memory="4GiB", env={"CUDA_MODULE_LOADING": loading})


@pytest.mark.parametrize("check", ["neighbours", "crowd", "forked", "replaced"])
def test_processes_share_a_card(simulate, check):
    simulate([sys.executable, CARDS, check], memory="4GiB")


@pytest.mark.parametrize(
    ("check", "pids"), [("processes", ""), ("hidden", "hidden"), ("host", "host")]
)
def test_nvml_lists_processes(simulate, check, pids):
    settings = {
        "GPUMEM_SIM_OTHER_BYTES": "0=64MiB",
        "GPUMEM_SIM_RESERVED_BYTES": "300MiB",
        "GPUMEM_SIM_NVML_PIDS": pids,
    }
    simulate([sys.executable, NVML, check], devices=2, memory="4GiB", env=settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "120"),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "120"),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "012"),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, "01"),
        ({"CUDA_VISIBLE_DEVICES": "2,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "20"),
    ],
)
def test_order_of_devices(simulate, settings, expected):
    command = [sys.executable, NVML, "order", *expected]
    simulate(command, devices=3, env={"GPUMEM_SIM_CC": "90,0=80", **settings})


def test_fastest_first_prefers_more_memory(simulate):
    command = [sys.executable, NVML, "order", *"210"]
    simulate(command, devices=3, memory="1=8GiB,2=16GiB,0=32GiB", env={"GPUMEM_SIM_CC": "90,0=80"})


@pytest.mark.parametrize(("visible", "which"), [(None, 0), ("1", 0), (SECOND_INSTANCE, 1)])
def test_mig(simulate, visible, which):
    settings = {"GPUMEM_SIM_MIG": "1=2", "CUDA_VISIBLE_DEVICES": visible}
    simulate([sys.executable, NVML, "mig", str(which)], devices=2, memory="4GiB", env=settings)


def test_cards_without_mig(simulate):
    simulate([sys.executable, NVML, "no_mig"])


class TestTheFile:
    """Which processes share the cards."""

    def occupant(self, bytes_: int, card: Path) -> subprocess.Popen:
        command = harness.simulator_command([sys.executable, CARDS, "occupy", str(bytes_)])
        environment = harness.clean_environment({"GPUMEM_SIM_CARD": str(card)})
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def test_separate_runs_share_it_by_name(self, simulate, tmp_path):
        card = tmp_path / "card"
        with self.occupant(3 << 20, card) as first, self.occupant(5 << 20, card) as second:
            taken = sum(int(one.stdout.readline()) for one in (first, second))
            for env, others in (
                ({"GPUMEM_SIM_CARD": str(card)}, taken),
                ({"GPUMEM_SIM_CARD": ""}, 0),
                ({}, 0),
            ):
                simulate([sys.executable, CARDS, "alone", str(others)], env=env)
            first.kill()
            second.stdin.close()
        simulate([sys.executable, CARDS, "alone", "0"], env={"GPUMEM_SIM_CARD": str(card)})

    def test_a_run_has_its_own_and_takes_it_away(self, simulate):
        paths = [simulate(["sh", "-c", "echo $GPUMEM_SIM_CARD"]).stdout.strip() for _ in range(2)]
        assert paths[0] != paths[1] and all(paths)
        # Something else than the command takes it away, soon after it.
        while any(Path(path).exists() for path in paths):
            time.sleep(0.01)

    def test_the_command_is_alone_in_its_process_group_and_has_no_child(self, simulate):
        """What takes the file away is no business of the command's."""
        show = "import os; print(os.listdir('/proc/self/fd')[:-1], os.environ.get('LD_PRELOAD')); os.wait()"
        done = simulate([sys.executable, "-c", show], check=False)
        assert "ChildProcessError" in done.stderr
        plain = simulate([sys.executable, "-c", show], env={"GPUMEM_SIM_CARD": ""}, check=False)
        assert done.stdout == plain.stdout

    def test_one_that_cannot_be_used_is_named(self, simulate, tmp_path):
        other = tmp_path / "text"
        other.write_text("something else")
        env = {"GPUMEM_SIM_CARD": str(other)}
        done = simulate([sys.executable, CARDS, "alone", "0"], env=env)
        assert done.stderr.startswith(f"gpumem simulator: GPUMEM_SIM_CARD={other} cannot be used")
        assert other.read_text() == "something else"
