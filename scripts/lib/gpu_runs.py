"""Runs the programs of scripts/gpu-check: their environment and time limits."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

# The folder of what is checked: a release build, if no other is named.
BUILT = Path(os.environ.get("GPUMEM_BUILT") or Path(__file__).resolve().parents[2] / "target" / "release")
LIBRARY, ANALYZER = BUILT / "libgpumem.so", BUILT / "gpumem-analyze"


def environment(changes: dict[str, str], simulated: bool) -> dict[str, str]:
    """This process's environment without variables for gpumem or PyTorch's allocator."""
    result = {
        name: value
        for name, value in os.environ.items()
        if name == "GPUMEM_BUILT"
        or not name.startswith(("GPUMEM_", "PYTORCH_CUDA_ALLOC", "XLA_"))
        or (simulated and name.startswith("GPUMEM_SIM_"))
    }
    return {**result, **changes}


def recorded(changes: dict[str, str], report: Path, simulated: bool) -> dict[str, str]:
    """The same with the recorder preloaded, before other preloaded libraries."""
    before = os.environ.get("LD_PRELOAD", "")
    return environment(
        {
            "LD_PRELOAD": f"{LIBRARY}:{before}" if before else str(LIBRARY),
            "GPUMEM_OUTPUT": str(report), "GPUMEM_QUIET": "1", **changes,
        },
        simulated,
    )


def execute(command: list[str], env: dict[str, str], timeout: float) -> tuple[object, str, str]:
    """Runs a command to its end or its time limit. Returns its exit status and output."""
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace",
    )
    try:
        output, errors = process.communicate(timeout=timeout)
        return process.returncode, output, errors
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        return f"its time limit of {timeout:.0f} s", output, errors


def body(answer: str):
    """The content of `gpumem-analyze … --format json` without its head: a list of rows, or an object."""
    said = json.loads(answer)
    return said["rows"] if "rows" in said else said["data"]


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return next((line.strip()[:160] for line in reversed(text.splitlines()) if line.strip()), "it said nothing")
