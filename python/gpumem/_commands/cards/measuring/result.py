"""Makes a card's file from the readings of the measuring processes."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from ...._machine import installed
from ...._machine.cards import check, finding, rule
from ...._machine.nvml import Memory
from .others import User

_ECC = {0: "off", 1: "on"}
# Names in the file for the figures of each step in addition to the context.
_MODULES = (
    "torch", "torch-tensor", "torch-matmul", "torch-linear", "torch-conv", "torch-sdpa", "torch-eager", "cublas",
    "cublaslt", "cudnn",
)  # fmt: skip


def card_data(
    answers: Dict[str, Dict[str, Any]], without: Dict[str, str], idle: Optional[Memory], driver: str, date: str,
    others: List[User], whole: bool,
) -> Dict[str, Any]:
    """The data of the file. `idle` is NVML's reading before the measurement; `whole` is false for a MIG instance."""
    source = {"measured": {"date": date, "driver": driver}}
    first = answers["context"]
    card = first["card"]
    known = finding.by_device_name(card["name"]) if whole else None
    total = card["total"]
    # A card that shares its memory with the host has no total in NVML, and a total below CUDA's is invalid.
    nvml_total = idle.total if idle is not None and idle.total >= total else None
    contexts = [answers[step] for step in ("context", "context-again") if step in answers]
    data: Dict[str, Any] = {
        "format": check.FORMAT,
        "name": known.name if known else _slug(card["name"]),
        "aliases": [],
        "device_names": [card["name"]],
        "driver": {"from": driver, "to": driver, "source": source},
        "ecc": {"value": _ECC.get(card["ecc"], "unknown"), "source": source},
        "compute_capability": {"value": "{}.{}".format(*card["compute_capability"]), "source": source},
        "sms": {"value": card["sms"], "source": source},
        "threads_per_sm": {"value": card["threads_per_sm"], "source": source},
        "nvml_total": _exact(nvml_total, source) if nvml_total is not None else None,
        "cuda_total": _exact(total, source),
        "reserve": _exact(nvml_total - total, source) if nvml_total is not None else None,
        "context": {"bytes": _context(contexts, bool(others)), "source": source},
        "modules": {}, "workspaces": {},
    }  # fmt: skip
    for name in _MODULES:
        taken = _between(answers.get(name), "before", "after", bool(others))
        if taken is not None:
            data["modules"][name] = {"bytes": taken, "source": source}
    for name, step in (("cublas", "torch-matmul"), ("cublaslt", "torch-linear")):
        after = _reading(answers.get(step), "after")
        if after is not None:
            data["workspaces"][name] = _exact(after["workspace"], source)
    if known:
        # Figures that were not measured keep the value and source of the file in the package.
        for group in ("modules", "workspaces"):
            data[group] = {**known.data.get(group, {}), **data[group]}
        data.update({key: known.data[key] for key in ("mig",) if key in known.data})
    data["measurement"] = {
        **_measurement(answers, without, others, card), "nvml_idle": dict(idle._asdict()) if idle is not None else None,
        "readings": {step: answer["readings"] for step, answer in answers.items()},
    }  # fmt: skip
    return data


def _exact(size: int, source: Dict[str, Any]) -> Dict[str, Any]:
    return {"bytes": [size, size, size], "source": source}


def _slug(name: str) -> str:
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join(word for word in words if word not in ("nvidia", "geforce", "tesla")) or "card"


def _reading(answer: Optional[Dict[str, Any]], at: str) -> Optional[Dict[str, Any]]:
    return next((reading for reading in (answer or {}).get("readings", ()) if reading["at"] == at), None)


def _context(answers: List[Dict[str, Any]], busy: bool) -> List[int]:
    """The cost of a context, from every process and every kind of reading."""
    best, all_of = [], []
    for answer in answers:
        before, after = _reading(answer, "nothing"), _reading(answer, "context")
        if before is None or after is None:
            continue
        ways = _ways(before, after, busy)
        # CUDA's figure includes other processes.
        if not busy and after["driver"] is not None:
            ways.append(after["driver"])
        best.append(ways[0])
        all_of += ways
    return [min(all_of), sorted(best)[len(best) // 2], max(all_of)]


def _ways(before: Dict[str, Any], after: Dict[str, Any], busy: bool) -> List[int]:
    """The difference of two readings, the best first: of the process, of the card. If other processes use the card,
    only the first, if available."""
    ways = []
    if before["process"] is not None and after["process"] is not None:
        ways.append(after["process"] - before["process"])
    if before["card"] is not None and after["card"] is not None and not (busy and ways):
        ways.append(after["card"] - before["card"])
    if not ways and before["driver"] is not None and after["driver"] is not None:
        ways.append(after["driver"] - before["driver"])
    # The difference is negative if other processes free memory in between.
    return [max(way, 0) for way in ways] or [0]


def _between(answer: Optional[Dict[str, Any]], first: str, last: str, busy: bool) -> Optional[List[int]]:
    """The memory added between two readings, without PyTorch's allocator."""
    before, after = _reading(answer, first), _reading(answer, last)
    if before is None or after is None:
        return None
    own = after.get("reserved", 0) - before.get("reserved", 0)
    ways = [max(way - own, 0) for way in _ways(before, after, busy)]
    return [min(ways), ways[0], max(ways)]


def _measurement(
    answers: Dict[str, Dict[str, Any]], without: Dict[str, str], others: List[User], card: Dict[str, Any]
) -> Dict[str, Any]:
    """How it was measured, and facts that have no figure in the card's file."""
    context = answers["context"]
    steps: Tuple[Tuple[str, str, str], ...] = (
        ("first_byte", "context", "byte"), ("small_module", "byte", "module"), ("first_launch", "module", "launch"),
        ("stack_per_kib", "launch", "stack"),
    )  # fmt: skip
    figures = {name: _between(context, first, last, bool(others)) for name, first, last in steps}
    return {
        "gpumem": installed.version(),
        "cuda": "{}.{}".format(card["cuda"] // 1000, card["cuda"] % 1000 // 10),
        "torch": next((answer["torch"] for answer in answers.values() if answer.get("torch")), None),
        "context_by_rule": rule.context_bytes(card["sms"], card["threads_per_sm"]),
        "driver_steps": {name: value[1] for name, value in figures.items() if value is not None},
        "other_processes": [{"pid": user.pid, "name": user.name, "bytes": user.bytes} for user in others],
        "without": without,
        # From the small program, which continues without steps that fail.
        "torch_without": answers["torch"].get("without", []) if "torch" in answers else [],
    }
