"""The programs of tests/workloads/plan/programs: plans them, and runs them directly on the same card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

import harness

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._plan import cards, inside  # noqa: E402

FOLDER = harness.WORKLOADS / "plan" / "programs"
OWN_PEAKS = Path(__file__).parent / "own_peaks"
CARD = "16GiB"
# Ranks of those that torchrun starts. ZeRO-3 compares lists that rank 0 has sent, so that with others it fails on the simulator.
RANKS = {"ddp": 2, "fsdp1": 2, "fsdp2": 2, "deepspeed_zero2": 2, "deepspeed_zero3": 1}
# What these read back from the device decides how they go on: by themselves they take another way than on a card, or never end.
READ_VALUES = {
    "deepspeed_zero2": "whether gradients are finite: no step is taken",
    "detection_fasterrcnn": "counts of boxes: memory runs out",
    "detection_maskrcnn": "counts of boxes: memory runs out",
    "detection_retinanet": "counts of boxes: nms fails",
    "generate_greedy": "whether sequences have ended: they never do",
    "lstm_language_model": "probabilities: no word can be drawn",
    "trainer_bf16": "whether sequences are packed: each gets a mask",
    "trainer_checkpointing": "whether sequences are packed: each gets a mask",
    "trainer_fp16": "whether sequences are packed: each gets a mask",
    "trainer_lora": "whether sequences are packed: each gets a mask",
}
_RACE_AT_EXIT = "terminate called without an active exception"

Peaks = Tuple[int, int]


def names() -> List[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def program(name: str) -> Path:
    return FOLDER / f"{name}.py"


def environment(folder: Path) -> Dict[str, str]:
    """For libraries that look for something on a network or keep files in a home."""
    return {
        "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "TORCH_HOME": str(folder / "torch"), "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        "TRITON_CACHE_DIR": str(folder / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


class NotPlanned(Exception):
    """The message of gpumem plan without a plan."""


def planned(python: Path, name: str, folder: Path, timeout: float = 550) -> dict:
    """The case of `gpumem plan`, as its JSON has it."""
    words = ["--card", CARD, "--format", "json"]
    if name in RANKS:
        words += ["--world", str(RANKS[name]), "--devices", str(RANKS[name]), "--rank", "0"]
    done = subprocess.run(
        [str(python), "-m", "gpumem", "plan", *words, "--", str(program(name))], capture_output=True, text=True, timeout=timeout, cwd=folder,
        env=harness.clean_environment({"PYTHONPATH": str(harness.ROOT / "python"), **environment(folder)}),
    )  # fmt: skip
    if not done.stdout:
        raise NotPlanned(done.stderr)
    [case] = harness.unwrapped(done.stdout)["cases"]
    return case


def own(python: Path, name: str, folder: Path, settings: Optional[Mapping[str, str]] = None, values: bool = False, timeout: float = 300) -> Peaks:
    """PyTorch's own peaks of allocated and reserved bytes of the program's (first) GPU, without a plan; with the values that a plan gives if
    `values`. Raises AssertionError where it fails."""
    command = [str(python), str(program(name))]
    devices = RANKS.get(name, 1)
    if name in RANKS:
        command[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(devices)]
    with tempfile.TemporaryDirectory(dir=folder) as written:
        env = {**environment(folder), **(settings or {}), "OWN_PEAKS": written, "PYTHONPATH": str(OWN_PEAKS)}
        if values:
            env = {**env, **inside.environment(["values"], env)}
        done = harness.simulate(command, devices=devices, memory=CARD, env=env, cwd=folder, timeout=timeout, check=False)
        assert done.returncode == 0 or _RACE_AT_EXIT in done.stderr, harness.described(done)
        found = [json.loads((Path(written) / file).read_text()) for file in os.listdir(written)]
    used = [(device, tuple(peaks)) for process in found for device, peaks in process.items() if peaks[1]]
    [peaks] = [peaks for device, peaks in used if device == "0"]
    return peaks


class Compared:
    """A program's plan beside its own peaks."""

    def __init__(self, python: Path, name: str, folder: Path, both_ends: bool = True):
        # What a compiler tries out when its cache is empty takes memory, once.
        if "torch.compile" in program(name).read_text():
            own(python, name, folder)
        self.case = planned(python, name, folder)
        self.planned: List[Peaks] = list(zip(self.case["tensor_peak_bytes"], self.case["reserved_peak_bytes"]))
        card = cards.ends(CARD, RANKS.get(name, 1))
        settings = (card.better, card.worse)[: 2 if both_ends else 1]
        self.own: List[Peaks] = [own(python, name, folder, each, name in READ_VALUES) for each in settings]
