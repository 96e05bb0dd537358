"""`gpumem card measure`: measures this machine's card and writes its file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from ..._machine import devices, nvml as _nvml
from ..._machine.cards import check
from ..._machine.cards.card import Card, NotACard
from ..._text import sizes
from ..._text.messages import say
from . import text
from .measuring import others, parent, result

NO_RESULT = 1

_STEPS = {
    "context": "the card and a bare context", "context-again": "a bare context once more",
    "torch": "PyTorch: a small program", "torch-tensor": "PyTorch: its first tensor",
    "torch-matmul": "PyTorch: a multiplication (cuBLAS)", "torch-linear": "PyTorch: a linear layer (cublasLt)",
    "torch-conv": "PyTorch: a convolution (cuDNN)", "torch-sdpa": "PyTorch: attention",
    "torch-eager": "PyTorch: its first tensor with all code loaded at once",
    "cublas": "a cuBLAS handle", "cublaslt": "a cublasLt handle", "cudnn": "a cuDNN handle",
}  # fmt: skip


class _No(Exception):
    """No file is written; the message is the reason."""


def main(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status."""
    try:
        return _measure(options)
    except (_No, NotACard) as error:
        say(f"card measure: {error}")
        return NO_RESULT


def _measure(options: argparse.Namespace) -> int:
    nvml = _nvml.library()
    device = devices.find(options.device) if nvml is not None else None
    if nvml is None or device is None:
        raise _No(_no_card(nvml, options.device))
    named = options.output and options.output != "-"
    if named and (why := _unwritable(Path(options.output))):
        raise _No(why)
    users = others.users(nvml, device.handle)
    rest = others.unlisted(nvml, device.handle, users)
    who = others.named(users, rest)
    if who and not options.busy:
        raise _No(f"other programs use GPU {options.device}: {who}. Wait for them, or use --busy for a less exact measurement")
    before = nvml.memory(device.handle)
    driver = nvml.driver_version() or "unknown"
    say(f"measuring GPU {options.device} ({nvml.name(device.handle)}, driver {driver}); {options.timeout:.0f} s at most")
    run = parent.Run(device.uuid, options.python, options.timeout, lambda step: say(f"  {_STEPS[step]} …"))
    run.all()
    if not run.has_context():
        raise _No(f"no context could be made: {run.without.get('context', 'no reading')}")
    if rest:
        users = [*users, others.User(0, "not listed by NVML", rest)]
    data = result.card_data(
        run.answers, run.without, before, driver, time.strftime("%Y-%m-%d", time.gmtime()),
        users, not device.uuid.startswith("MIG-"),
    )  # fmt: skip
    wrong = check.fault(data)
    if wrong:
        raise _No(f"the readings do not agree: {wrong}. The card may have been in use meanwhile")
    _write(data, options.output)
    _left(nvml, device, before)
    return 0


def _no_card(nvml: Optional[_nvml.Nvml], ordinal: int) -> str:
    if nvml is None:
        return "there is no NVIDIA driver on this machine (libnvidia-ml.so.1 was not found, or does not start)"
    number = len(devices.visible())
    if not number:
        return "this machine has no GPU, or CUDA_VISIBLE_DEVICES hides it"
    return f"there is no GPU {ordinal}; " + ("GPU 0 is the only one" if number == 1 else f"there are 0 to {number - 1}")


def _write(data: Dict[str, Any], output: Optional[str]) -> None:
    content = _json(data)
    if output == "-":
        print(content)
        return
    path = Path(output or f"{data['name']}.json")
    why = _unwritable(path)
    if why:
        raise _No(f"{why}: name another file with -o")
    try:
        path.write_text(content + "\n", encoding="utf-8")
    except OSError as error:
        raise _No(f"{path}: {error.strerror}") from None
    print(text.page(Card(data, path)))
    print(f"\nwritten: {path}   (gpumem plan --card {path if path.is_absolute() else './' + str(path)})")
    print("To share it, attach the file to an issue of gpumem. It contains the figures above and the readings, and no more.")


def _json(data: Dict[str, Any]) -> str:
    """Puts objects of one level on one line each: people read and compare the file."""
    lines: List[str] = []
    for key, value in data.items():
        lines.append(f"  {json.dumps(key)}: {_value(key, value)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, dict) and key in ("modules", "workspaces", "measurement"):
        inner = [f"    {json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in value.items()]
        return "{\n" + ",\n".join(inner) + "\n  }" if inner else "{}"
    return json.dumps(value, ensure_ascii=False)


def _left(nvml: _nvml.Nvml, device: devices.Device, before: Optional[_nvml.Memory]) -> None:
    """Prints whether the card's use is the same as before."""
    after = nvml.memory(device.handle)
    if before is None or after is None:
        return
    if before.used == after.used:
        say("the card's use is the same as before")
    else:
        used = f"from {sizes.text(before.used)} to {sizes.text(after.used)}"
        say(f"the card's use changed {used} during the measurement, but not by gpumem")
    sys.stdout.flush()


def _unwritable(path: Path) -> Optional[str]:
    """Why a new file cannot be written there; None if it can."""
    if path.exists():
        return f"{path} already exists"
    if not path.parent.is_dir():
        return f"{path.parent}: no such folder"
    return None
