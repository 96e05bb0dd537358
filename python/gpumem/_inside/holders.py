"""Who keeps the memory of tensors: the Python objects, found by libgpumem.so."""

import operator
import textwrap
from typing import Any, List, NamedTuple, Optional

from .._machine.ordinals import DeviceLike, ordinal
from .._reading import results
from .._text import sizes
from . import library

_WIDTH = 79
_NEEDS = (
    "gpumem.holders() needs the recorder, and nothing is recorded in this process: start the program with `gpumem run` or "
    "with LD_PRELOAD, and use the GPU first"
)
_REFUSALS = {
    0: _NEEDS,
    -2: "gpumem.holders() cannot search for objects here: this is a subinterpreter, the interpreter is ending, or less than "
    "256 KiB of this thread's stack is left",
    -3: "gpumem.holders() cannot read this Python: see docs/python-stacks.md for the supported ones",
}
_CUTS = {
    "time": "it ran out of time",
    "size": "there are too many objects",
    "memory": "there was no memory for it",
}


class Holder(NamedTuple):
    """What keeps blocks of tensors. `kind` is "object", "parameters" (and buffers), "gradients", "graph" (kept for a backward),
    "traceback" (a frame that an exception keeps), "native" (native code, or a running call) or "cycle" (objects that
    gc.collect() frees)."""

    bytes: int  #: Bytes of the blocks.
    blocks: int  #: The number of the blocks.
    kind: str  #: What the holder is.
    text: str  #: The object as Python would write it: `metric.preds[0…213]`.
    place: str  #: Where that is: `local of main (train.py:31)`, `global of __main__`.
    frees: Optional[int]  #: Bytes that emptying it, or deleting its one reference, frees; None: not determined (small or other kinds).

    unused: bool = False  #: Whether the text begins with a variable that its functions do not read again, and that has the only reference.

    def __str__(self) -> str:
        if self.kind == "parameters":
            return f"{self.text}: parameters and buffers, {self.place}"
        if self.kind == "gradients":
            return f"{self.text}: gradients, {self.place}"
        if self.kind == "graph":
            return f"graph of {self.text}, {self.place}"
        if self.kind == "cycle":
            return f"{self.text}, in a reference cycle that gc.collect() frees"
        return f"{self.text}, {self.place}"


class Holders(List[Holder]):
    """A list of `Holder`, the largest first. `print` shows it as a table."""

    device: int = 0  #: The device's ordinal.
    live_bytes: int = 0  #: Bytes of all its live tensors.
    cut: Optional[str] = None  #: None, or why the search ended too early: "time", "size" (too many objects) or "memory".
    # The holders that are not in the list, and their bytes.
    _more: "tuple[int, int]" = (0, 0)

    def __repr__(self) -> str:
        return _table(self)

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame. Raises ImportError without pandas."""
        return results.frame("to_frame()", self, Holder._fields)


def holders(top: int = 10, device: Optional[DeviceLike] = None) -> Holders:
    """The Python objects that keep the most memory of tensors now, at most `top` (and at most 24): lists, attributes,
    variables of frames, exceptions, graphs. `device` is as in `counters`; the default is the current device. The search runs
    with the GIL and ends after a second of processor time. It runs no code of the program, and no garbage collection. Raises
    RuntimeError without the recorder, before anything is recorded, and in a Python that the recorder cannot read, and
    ValueError if `top` is less than 1 or there is no such device."""
    top = operator.index(top)
    if top < 1:
        raise ValueError(f"top is the number of holders, at least 1, and not {top}")
    of = ordinal("cuda" if device is None else device)
    answer = library.holders(of)
    if not isinstance(answer, str):
        raise RuntimeError(_REFUSALS.get(answer, _NEEDS))
    return _parsed(answer, of, top)


def _parsed(text: str, device: int, top: int) -> Holders:
    """The holders in a text of the form that capture/SPEC.md describes."""
    found = Holders()
    found.device = device
    lines = iter(text.splitlines())
    for line in lines:
        if line == "unused":
            found[-1] = found[-1]._replace(unused=True)
        word, _, rest = line.partition(" ")
        if word == "walk":
            cut, *numbers = rest.split(" ")
            found.cut = None if cut == "whole" else cut
            found.live_bytes = int(numbers[3])
        elif word == "holder":
            kind, _, size, blocks, frees = rest.split(" ")
            names = [next(lines).partition(" ")[2] for _ in ("text", "place")]
            found.append(Holder(int(size), int(blocks), kind, names[0], names[1], None if frees == "-" else int(frees)))
    found._more = (len(found[top:]), sum(row.bytes for row in found[top:]))
    del found[top:]
    return found


def _table(found: Holders) -> str:
    """The holders as lines of at most 79 columns."""
    rows: List[List[str]] = [
        [sizes.text(row.bytes), _share(row.bytes, found.live_bytes), f"{row.blocks:,}",
         "-" if row.frees is None else sizes.text(row.frees), str(row)]
        for row in found
    ]  # fmt: skip
    more, of_more = found._more
    if more:
        name = "1 more holder" if more == 1 else f"{more} more holders"
        rows.append([sizes.text(of_more), _share(of_more, found.live_bytes), "", "", name])
    rest = found.live_bytes - of_more - sum(row.bytes for row in found)
    if rest > 0 and found.cut is None:
        name = "no Python object, or smaller holders"
        rows.append([sizes.text(rest), _share(rest, found.live_bytes), "", "", name])
    head = f"tensors on GPU {found.device}: {sizes.text(found.live_bytes)}"
    lines = [head, *_columns([["bytes", "share", "blocks", "frees", "holder"], *rows])] if rows else [head]
    if found.cut is not None:
        lines.append(f"The search was not completed: {_CUTS.get(found.cut, found.cut)}")
    return "\n".join(lines)


def _columns(rows: List[List[str]]) -> List[str]:
    """The rows with columns of equal width. The last column is wrapped."""
    widths = [max(map(len, column)) for column in list(zip(*rows))[:-1]]
    indent = " " * sum(width + 2 for width in widths)
    lines = []
    for *figures, text in rows:
        head = "".join(figure.rjust(width) + "  " for figure, width in zip(figures, widths))
        lines += textwrap.wrap(
            text, _WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
        ) or [head.rstrip()]
    return lines


def _share(part: int, whole: int) -> str:
    """The share in percent, as gpumem-analyze writes it."""
    nearest = (part * 100 + whole // 2) // whole if whole else 0
    if nearest == 0 and part:
        return "<1 %"
    return ">99 %" if nearest == 100 and part < whole else f"{nearest} %"
