"""The program of a measuring process: `main(step)` prints one line of JSON as its last output."""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any, Dict

from ...._machine import driver
from . import code, torch_steps
from .libraries import LIBRARIES, NotHere
from .readings import Readings

_SMS, _THREADS_PER_SM, _ECC, _MAJOR, _MINOR, _INTEGRATED = 16, 39, 32, 75, 76, 18


def main(step: str) -> None:
    """Runs one step. Failures are in the result, too: the parent continues without them."""
    answer: Dict[str, Any] = {}
    try:
        readings = Readings()
        answer["readings"] = readings.taken
        _do(step, readings, answer)
    except NotHere as error:
        answer["not_here"] = str(error)
    except (driver.CudaError, RuntimeError, AttributeError, OSError) as error:
        answer["failed"] = (str(error).strip().splitlines() or [type(error).__name__])[0]
    print("\n" + json.dumps(answer), flush=True)


def _do(step: str, readings: Readings, answer: Dict[str, Any]) -> None:
    if step == "context":
        _context(readings, answer)
        return
    if not driver.initialise():
        raise NotHere("the driver finds no card")
    code.set_current()
    if step in LIBRARIES:
        LIBRARIES[step](readings)
    elif step in torch_steps.STEPS:
        torch_steps.one(step, readings)
    elif step == "torch":
        answer["without"] = torch_steps.everything(readings)
    elif step in ("torch-tensor", "torch-eager"):
        torch_steps.first_tensor(readings)
    else:
        raise ValueError(step)
    torch = sys.modules.get("torch")
    answer["torch"] = str(torch.__version__) if torch is not None else None


def _context(readings: Readings, answer: Dict[str, Any]) -> None:
    """The card itself, a bare context, and memory that the driver takes later by itself."""
    readings.take("nothing")
    if not driver.initialise():
        raise NotHere("the driver finds no card")
    readings.take("initialised")
    answer["card"] = {
        "name": driver.name(0),
        "total": driver.total_memory(0),
        "sms": driver.attribute(_SMS, 0),
        "threads_per_sm": driver.attribute(_THREADS_PER_SM, 0),
        "compute_capability": [driver.attribute(_MAJOR, 0), driver.attribute(_MINOR, 0)],
        "ecc": driver.attribute(_ECC, 0),
        "integrated": driver.attribute(_INTEGRATED, 0),
        "cuda": driver.version(),
    }
    code.set_current()
    readings.take("context")
    asked = driver.free_and_total(0)
    answer["card"]["total_in_context"] = asked[1] if asked else None
    pointer = ctypes.c_uint64()
    driver.must("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(1))
    readings.take("byte")
    kernel = code.EmptyKernel()
    readings.take("module")
    kernel.launch()
    readings.take("launch")
    code.raise_stack_limit(1024)
    kernel.launch()
    readings.take("stack")
