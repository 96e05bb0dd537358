"""One card: its file, read and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from . import check

__all__ = ["Card", "Figure", "NotACard", "Slice", "Source", "load"]


class NotACard(ValueError):
    """A file that describes no card; says which, and what is wrong with it."""


class Source(NamedTuple):
    """Where a figure is from. `kind` is `measured`, `published` or `assumed`; `text` says when, where or why."""

    kind: str
    text: str


class Figure(NamedTuple):
    """Bytes as far as they are known: the least, the most likely, the most."""

    low: int
    likely: int
    high: int
    source: Source


# What an H100 of driver 580 took: 70 MiB for 128 streams at most.
_STREAM = Figure(0, 512 << 10, 552 << 10, Source("assumed", "as on an H100"))


class Slice(NamedTuple):
    """A MIG instance."""

    profile: str
    sms: Optional[int]
    bytes: Figure


class Card:
    """A card as its file describes it. Figures that the file does not have are None."""

    def __init__(self, data: Dict[str, Any], path: Path) -> None:
        self.data, self.path = data, path
        self.name: str = data["name"]
        self.aliases: List[str] = data["aliases"]
        # What cudaDeviceProp.name has on such cards; the first one stands for it on the simulator.
        self.device_names: List[str] = data["device_names"]
        self.sms: int = data["sms"]["value"]
        self.threads_per_sm: int = data["threads_per_sm"]["value"]

    @property
    def compute_capability(self) -> Tuple[int, int]:
        major, minor = self.data["compute_capability"]["value"].split(".")
        return int(major), int(minor)

    @property
    def nvml_total(self) -> Optional[Figure]:
        """What NVML and nvidia-smi say that the card has."""
        return _figure(self.data["nvml_total"])

    @property
    def cuda_total(self) -> Figure:
        """What CUDA gives out of it: cudaDeviceProp.totalGlobalMem."""
        total = _figure(self.data["cuda_total"])
        assert total is not None, "the check of the file holds this"
        return total

    @property
    def reserve(self) -> Optional[Figure]:
        """What the driver keeps for itself: NVML's total less CUDA's."""
        return _figure(self.data["reserve"])

    @property
    def context(self) -> Figure:
        """What a process costs as soon as it has a context."""
        context = _figure(self.data["context"])
        assert context is not None, "the check of the file holds this"
        return context

    @property
    def stream(self) -> Figure:
        """What each stream costs but a context's first, in whole pages for all of a context."""
        return _figure(self.data.get("stream")) or _STREAM

    @property
    def modules(self) -> Dict[str, Figure]:
        """What programs have beyond the context and outside of allocators, by library: code above all."""
        return _figures(self.data.get("modules"))

    @property
    def workspaces(self) -> Dict[str, Figure]:
        """What PyTorch's allocator is asked for on behalf of libraries."""
        return _figures(self.data.get("workspaces"))

    @property
    def slices(self) -> List[Slice]:
        """MIG instances, as far as their sizes are known."""
        slices = []
        for data in self.data.get("mig", ()):
            figure = _figure(data)
            assert figure is not None, "the check of the file holds this"
            slices.append(Slice(data["profile"], data.get("sms"), figure))
        return slices

    def source(self, key: str) -> Source:
        """Where the figure of this name in the file is from."""
        return source_of(self.data[key]["source"])

    def __repr__(self) -> str:
        return f"<Card {self.name}>"


def source_of(data: Dict[str, Any]) -> Source:
    """A source as the file has it."""
    (kind, value), = data.items()
    if kind == "measured":
        return Source(kind, f"{value['date']}, driver {value['driver']}")
    return Source(kind, ", ".join(value) if isinstance(value, list) else value)


def _figure(data: Optional[Dict[str, Any]]) -> Optional[Figure]:
    return None if data is None else Figure(*data["bytes"], source_of(data["source"]))


def _figures(data: Optional[Dict[str, Any]]) -> Dict[str, Figure]:
    found = {name: _figure(figure) for name, figure in (data or {}).items()}
    return {name: figure for name, figure in found.items() if figure is not None}


def load(path: Union[str, Path]) -> Card:
    """The card that a file describes. NotACard says in one line why it describes none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise NotACard(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise NotACard(f"{path}: no JSON: {error}") from None
    wrong = check.fault(data)
    if wrong:
        raise NotACard(f"{path}: {wrong}")
    return Card(data, Path(path))
