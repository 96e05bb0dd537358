"""A card, read from its file and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from . import check

# The most characters of an error about a file.
_LONGEST = 300


class NotACard(ValueError):
    """A file that does not describe a card. The message has the file and the error."""


class Source(NamedTuple):
    """The source of a figure. `kind` is `measured`, `published` or `assumed`; `text` is the date, the place or
    the reason."""

    kind: str
    text: str


class Figure(NamedTuple):
    """Bytes with their uncertainty: lowest, most likely, highest."""

    low: int
    likely: int
    high: int
    source: Source


# Measured on an H100 with driver 580: at most 70 MiB for 128 streams.
_STREAM = Figure(0, 512 << 10, 552 << 10, Source("assumed", "as on an H100"))


class Card:
    """A card from its file. Figures that the file does not have are None."""

    def __init__(self, data: Dict[str, Any], path: Path) -> None:
        self.data, self.path = data, path
        self.name: str = data["name"]
        self.aliases: List[str] = data["aliases"]
        # The values of cudaDeviceProp.name on such cards; the simulator uses the first one.
        self.device_names: List[str] = data["device_names"]
        self.sms: int = data["sms"]["value"]
        self.threads_per_sm: int = data["threads_per_sm"]["value"]

    @property
    def compute_capability(self) -> Tuple[int, int]:
        major, minor = self.data["compute_capability"]["value"].split(".")
        return int(major), int(minor)

    @property
    def nvml_total(self) -> Optional[Figure]:
        """The total that NVML and nvidia-smi report."""
        return _figure(self.data["nvml_total"])

    @property
    def cuda_total(self) -> Figure:
        """The part of it that CUDA provides: cudaDeviceProp.totalGlobalMem."""
        total = _figure(self.data["cuda_total"])
        assert total is not None, "the check of the file holds this"
        return total

    @property
    def context(self) -> Figure:
        """The cost of a process with a context."""
        context = _figure(self.data["context"])
        assert context is not None, "the check of the file holds this"
        return context

    @property
    def stream(self) -> Figure:
        """The cost of each stream except a context's first one, in whole pages for all streams of a context."""
        return _figure(self.data.get("stream")) or _STREAM

    @property
    def modules(self) -> Dict[str, Figure]:
        """Memory of programs in addition to the context and outside of allocators, by library: mostly code."""
        return _figures(self.data.get("modules"))

    def __repr__(self) -> str:
        return f"<Card {self.name}>"


def source_of(data: Dict[str, Any]) -> Source:
    """A source in the file's format."""
    (kind, value), = data.items()
    if kind == "measured":
        return Source(kind, f"{value['date']}, driver {value['driver']}")
    return Source(kind, ", ".join(value) if isinstance(value, list) else value)


def _figure(data: Optional[Dict[str, Any]]) -> Optional[Figure]:
    if data is None:
        return None
    low, likely, high = data["bytes"]
    return Figure(low, likely, high, source_of(data["source"]))


def _figures(data: Optional[Dict[str, Any]]) -> Dict[str, Figure]:
    found = {name: _figure(figure) for name, figure in (data or {}).items()}
    return {name: figure for name, figure in found.items() if figure is not None}


def load(path: Union[str, Path]) -> Card:
    """The card that a file describes. The message of NotACard is one line."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise NotACard(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise NotACard(f"{path}: no JSON: {error}") from None
    except RecursionError:
        raise NotACard(f"{path}: no JSON: nested too deeply") from None
    wrong = check.fault(data)
    if wrong:
        raise NotACard(f"{path}: {_line(wrong)}")
    return Card(data, Path(path))


def _line(text: str) -> str:
    """Text with names of a file in it, as one line of moderate length."""
    clean = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return clean if len(clean) <= _LONGEST else clean[: _LONGEST - 1] + "…"
