"""The output of `gpumem card`."""

from __future__ import annotations

import textwrap
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ..._machine.cards.card import Card, Figure, source_of
from ..._text import sizes
from ..._text.messages import aligned

HEADS = ("name", "CUDA gives", "known", "NVML says", "cc", "SMs", "context", "known")
_WIDTH = 118


def row(card: Card) -> List[str]:
    """The cells of a card under HEADS."""
    nvml = card.nvml_total
    return [
        card.name, figure(card.cuda_total), card.cuda_total.source.kind, mib(nvml.likely) if nvml else "unknown",
        "{}.{}".format(*card.compute_capability), str(card.sms), figure(card.context), card.context.source.kind,
    ]  # fmt: skip


def table(cards: Sequence[Card]) -> str:
    """A line for each card. Memory is in MiB; ranges are from lowest to highest."""
    lines = aligned([HEADS, *map(row, cards)], left=(0, 2, 7))
    return "\n".join([*lines, "(MiB; the most likely figure and how far it may be off: -less +more)"])


def mib(size: int) -> str:
    """Bytes in whole MiB."""
    return f"{round(size / (1 << 20)):,}"


def figure(value: Figure) -> str:
    """The likely figure and its range, in MiB: `81,089 -89 +33`."""
    less, more = value.likely - value.low, value.high - value.likely
    return " ".join([mib(value.likely), *([f"-{mib(less)} +{mib(more)}"] if less or more else [])])


def page(card: Card) -> str:
    """One card with the source of each figure."""
    return "\n".join(_page(card))


def _page(card: Card) -> Iterator[str]:
    data = card.data
    also = f", also {', '.join(card.aliases)}" if card.aliases else ""
    yield f"{card.name}{also}"
    yield f"in CUDA: {', '.join(card.device_names)}"
    yield f"file: {card.path}"
    driver = data["driver"]
    yield ""
    yield from _line("drivers", _versions(driver), driver["source"])
    yield from _line("ECC", data["ecc"]["value"], data["ecc"]["source"])
    for label, key in (
        ("compute capability", "compute_capability"), ("SMs", "sms"), ("threads per SM", "threads_per_sm"),
    ):  # fmt: skip
        yield from _line(label, f"{data[key]['value']}", data[key]["source"])
    for label, key in (
        ("NVML's total", "nvml_total"), ("CUDA's total", "cuda_total"), ("driver's reserve", "reserve"), ("context", "context"),
    ):  # fmt: skip
        yield from _sized(label, data[key])
    if "stream" in data:
        yield from _sized("each stream", data["stream"])
    for group, label in (("modules", "{}"), ("workspaces", "workspace of {}")):
        for name, value in data.get(group, {}).items():
            yield from _sized(label.format(name), value)
    for each in data.get("mig", ()):
        sms = f", {each['sms']} SMs" if each.get("sms") else ""
        yield from _sized(f"MIG {each['profile']}{sms}", each)
    for each in data.get("other_totals", ()):
        yield from _sized(f"CUDA's total, {each['when']}", each)
    if data.get("measurement"):
        yield from _measurement(data["measurement"])


def _versions(driver: Dict[str, Any]) -> str:
    first, last = driver["from"], driver["to"]
    if first and first == last:
        return str(first)
    if first is None and last is None:
        return "not known"
    return " ".join([*([f"from {first}"] if first else []), *([f"to {last}"] if last else [])])


def _sized(label: str, data: Optional[Dict[str, Any]]) -> Iterator[str]:
    if data is None:
        yield f"  {label:<28} unknown"
        return
    low, likely, high = data["bytes"]
    text = _size(likely) if low == high else f"{_size(likely)} ({_size(low)} to {_size(high)})"
    yield from _line(label, text, data["source"])


def _size(size: int) -> str:
    """In MiB if that is exact enough to compare with nvidia-smi."""
    return f"{size / (1 << 20):,.1f} MiB".replace(".0 MiB", " MiB") if size >= 1 << 20 else sizes.text(size)


def _line(label: str, value: str, source: Dict[str, Any]) -> Iterator[str]:
    found = source_of(source)
    lines = textwrap.wrap(f"{value}  [{found.kind}: {found.text}]", _WIDTH - 31, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        yield f"  {label if number == 0 else '':<28} {line}"


def _measurement(data: Dict[str, Any]) -> Iterator[str]:
    yield ""
    torch = f", PyTorch {data['torch']}" if data.get("torch") else ", no PyTorch"
    yield f"measured with gpumem {data['gpumem']}, CUDA {data['cuda']}{torch}"
    yield f"  {'context by the rule':<28} {_size(data['context_by_rule'])}"
    for name, size in data["driver_steps"].items():
        yield f"  {name.replace('_', ' ').replace('kib', 'KiB'):<28} {_size(size)}"
    for user in data["other_processes"]:
        has = "unknown" if user["bytes"] is None else _size(user["bytes"])
        yield f"  {'process ' + str(user['pid']):<28} {has}, {user['name'] or 'unknown'}"
    if data["torch_without"]:
        yield f"  {'torch':<28} without {', '.join(data['torch_without'])}"
    for step, why in data["without"].items():
        yield f"  {step:<28} not measured: {why}"
