"""Checks the data of a card: the rules of schema.json, without a library for them, and the consistency of
figures."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, Optional

FORMAT = 1

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_CAPABILITY = re.compile(r"\d+\.\d\Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")
_ECC = ("on", "off", "none", "unknown")

# Byte figures of every file, and whether they may be null, because they are not known for every card.
_BYTES = {"nvml_total": True, "cuda_total": False, "reserve": True, "context": False}
# The other required fields.
_VALUES: Dict[str, Callable[[Any], bool]] = {
    "ecc": lambda value: value in _ECC,
    "compute_capability": lambda value: isinstance(value, str) and bool(_CAPABILITY.match(value)),
    "sms": lambda value: _whole(value, 1),
    "threads_per_sm": lambda value: _whole(value, 1),
}
_KEYS = {
    "format", "name", "aliases", "device_names", "driver", "stream", "modules", "workspaces", "mig", "other_totals",
    "measurement", *_BYTES, *_VALUES,
}  # fmt: skip


def fault(data: Any) -> Optional[str]:
    """The first error in one line; None if the data describes a card."""
    if not isinstance(data, dict):
        return "not an object"
    if data.get("format") != FORMAT:
        return f"format {data.get('format')!r}, not {FORMAT}: a file of another version of gpumem, or not a card file"
    return next(_faults(data), None)


def _faults(data: Dict[str, Any]) -> Iterator[str]:
    if not isinstance(data.get("name"), str) or not _NAME.match(data["name"]):
        yield "name: small letters, digits and hyphens are needed"
    for key in ("aliases", "device_names"):
        names = data.get(key)
        if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
            yield f"{key}: a list of names is needed"
        elif any(mark in name for name in names for mark in ",=\n"):
            yield f"{key}: names have no commas and no equals signs"
    if not data.get("device_names"):
        yield "device_names: at least one is needed"
    driver = data.get("driver")
    if not isinstance(driver, dict) or not all(_text_or_null(driver.get(end, 0)) for end in ("from", "to")):
        yield "driver: `from` and `to` are needed, versions or null"
    else:
        yield from _source("driver", driver)
    for key, allowed in _VALUES.items():
        value = data.get(key)
        if not isinstance(value, dict) or not allowed(value.get("value")):
            yield f"{key}: a `value` is needed"
        else:
            yield from _source(key, value)
    for key, may_be_null in _BYTES.items():
        if key not in data or data[key] is None and not may_be_null:
            yield f"{key}: it is missing"
        elif data[key] is not None:
            yield from _bytes(key, data[key])
    if "stream" in data:
        yield from _bytes("stream", data["stream"])
    for key in ("modules", "workspaces"):
        group = data.get(key, {})
        if not isinstance(group, dict):
            yield f"{key}: an object is needed"
        else:
            for name, figure in group.items():
                yield from _bytes(f"{key}.{name}", figure)
    for key, named in (("mig", "profile"), ("other_totals", "when")):
        rows = data.get(key, [])
        if not isinstance(rows, list):
            yield f"{key}: a list is needed"
        else:
            for row in rows:
                if not isinstance(row, dict) or not isinstance(row.get(named), str):
                    yield f"{key}: each needs a `{named}`"
                else:
                    yield from _bytes(f"{key} {row[named]}", row)
    unknown = sorted(set(data) - _KEYS)
    if unknown:
        yield f"{unknown[0]}: no such figure"
    yield from _disagreement(data)


def _disagreement(data: Dict[str, Any]) -> Iterator[str]:
    """Totals that contradict each other."""
    nvml, cuda, reserve = data["nvml_total"], data["cuda_total"]["bytes"], data["reserve"]
    if nvml is not None and nvml["bytes"][2] < cuda[2]:
        yield "cuda_total: more than nvml_total"
    if nvml is not None and reserve is not None and nvml["bytes"][1] - cuda[1] != reserve["bytes"][1]:
        yield "reserve: not nvml_total less cuda_total"
    if data["context"]["bytes"][2] >= cuda[0]:
        yield "context: as large as the card"


def _bytes(key: str, figure: Any) -> Iterator[str]:
    bytes_ = figure.get("bytes") if isinstance(figure, dict) else None
    if not isinstance(bytes_, list) or len(bytes_) != 3 or not all(_whole(value, 0) for value in bytes_):
        yield f"{key}: `bytes` of three whole numbers is needed: the least, the most likely, the most"
    elif not bytes_[0] <= bytes_[1] <= bytes_[2]:
        yield f"{key}: {bytes_[1]} is not between {bytes_[0]} and {bytes_[2]}"
    else:
        yield from _source(key, figure)


def _source(key: str, figure: Dict[str, Any]) -> Iterator[str]:
    source = figure.get("source")
    if not isinstance(source, dict) or len(source) != 1:
        yield f"{key}: one source is needed: measured, published or assumed"
        return
    (kind, value), = source.items()
    if kind == "published":
        good = isinstance(value, list) and bool(value) and all(isinstance(each, str) and each for each in value)
    elif kind == "measured":
        good = isinstance(value, dict) and all(isinstance(value.get(each), str) for each in ("date", "driver"))
        good = good and bool(_DATE.match(value["date"]))
    else:
        good = kind == "assumed" and isinstance(value, str) and bool(value)
    if not good:
        yield f"{key}: its source is not valid"


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _text_or_null(value: Any) -> bool:
    return value is None or isinstance(value, str)
