"""The card of scripts/gpu-check: whether it is the simulator's, its file, and a comparison of its facts with another
card's."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python"
# Names of facts that identify a card and are not compared.
IDENTITY = ("card.",)


def is_simulated() -> bool:
    """Whether the driver here is the simulator, with any card."""
    try:
        return hasattr(ctypes.CDLL("libcuda.so.1"), "gpumem_sim_books_json")
    except OSError:
        return False


def measure(python: str, environment: dict[str, str], path: Path) -> int:
    """Writes the card's file with `gpumem card measure` and this Python's PyTorch. Returns 0, or 1 without a file."""
    path.unlink(missing_ok=True)  # from an earlier check
    command = [python, "-m", "gpumem", "card", "measure", "-o", str(path)]
    env = {**environment, "PYTHONPATH": str(PACKAGE)}
    return 1 if subprocess.run(command, env=env, stdin=subprocess.DEVNULL).returncode else 0


def too_new(card: dict, simulator: dict) -> set[str]:
    """The versioned look-ups that one of the two drivers does not have."""
    newest = min(facts.get("card.driver_version", 1 << 31) for facts in (card, simulator))
    lookups = (name for name in card.keys() | simulator.keys() if name.startswith("lookup."))
    return {name for name in lookups if int(name.split(".")[2]) > newest}


def compare(card: dict, simulator: dict, first: str = "card", second: str = "simulator") -> list[str]:
    """The differences between the facts of two runs of the conformance program, one line each. Look-ups that are
    `too_new` are left out, and so is the number of look-ups in that case."""
    left_out = too_new(card, simulator)
    if left_out:
        left_out.add("lookups.equal_to_dlsym")
    lines = []
    for name in sorted((card.keys() | simulator.keys()) - left_out):
        if name.startswith(IDENTITY):
            continue
        left, right = card.get(name), simulator.get(name)
        if left != right:
            lines.append(f"{name}: {first} {json.dumps(left)}, {second} {json.dumps(right)}")
    return lines


def of_left_out(card: dict, simulator: dict) -> list[str]:
    """A line that says how many facts `compare` leaves out, if any."""
    count = len(too_new(card, simulator))
    return [f"{count} lookups of versions that one of the drivers does not have are left out"] if count else []
