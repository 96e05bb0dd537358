"""The output of `gpumem plan`."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .._text import sizes
from .._text.messages import aligned, wrapped
from .._text.sizes import to
from . import verdict as judge
from .form import Against, CaseRow, Peak, Plan, Read, Weights
from .replayed import LESS
from .verdict import DOES_NOT_FIT, FITS, Tried, Verdict

_WIDTH = 79
_ROWS = {
    "tensors": "tensors",
    "cached": "reserved but unallocated",
    "context": "CUDA context",
    "streams": "CUDA streams",
    "other_processes": "kernel code",
    "rounding": "rounded up to whole pages",
    "pool": "CUDA's pools, reserved but unused",
    "graph": "CUDA graphs, live",
    "graph_unused": "CUDA graphs, reserved but unused",
}


def report(verdicts: Sequence[Verdict], searched: Optional[Sequence[str]]) -> str:
    """For one case everything; for several, a line for each and then everything for each."""
    lines: List[str] = [*_table(verdicts), ""] if len(verdicts) > 1 else []
    for verdict in verdicts:
        if verdict.largest and searched:
            lines += wrapped([_largest(verdict, verdict.largest.number, searched)])
        lines += [*_whole(verdict), ""]
    return "\n".join(lines).rstrip("\n")


def _largest(of: Verdict, number: Optional[int], searched: Sequence[str]) -> str:
    template, bounds = searched
    if number is None:
        return f"{of.case.name}: no value of {bounds} fits. With the smallest:"
    return f"{of.case.name}: {template.replace('{}', str(number))} is the largest of {bounds} that fits. With it:"


def _table(verdicts: Sequence[Verdict]) -> List[str]:
    rows = [("card", "verdict", "needs", "has")]
    for of in verdicts:
        verdict: str = of.verdict
        if of.largest:
            verdict = "none fits" if of.largest.number is None else f"at most {of.largest.number}"
        needed = to(of.needed) if of.verdict == FITS else ""
        rows.append((of.case.name, verdict, needed, to(of.case.card.total)))
    return aligned(rows, left=range(4))


def _whole(of: Verdict) -> List[str]:
    lines = headline(of)
    failed = judge.failure(of.shown) if not of.shown.went_well else None
    if failed:
        lines += failure(failed)
    held = judge.moment(of.shown)
    retries = judge.retries(of.worse) if of.worse.went_well else 0
    if retries:
        lines.append(f"Near the limit: PyTorch emptied its cache to get memory, which takes time (retries: {retries}).")
    lines += wrapped([_held(held, of)])
    lines = wrapped(lines)
    if of.shown.reads:
        lines += ["", *_reads(of.shown.reads)]
    if any(of.shown.left_out.values()):
        lines += ["", *_left_out(of.shown.left_out)]
    if of.tried:
        lines += ["", *_tried(of.tried)]
    return [*lines, "", *breakdown(held, of), "", *by_line(held), *by_module(held)]


def _reads(records: Sequence[Read], most: int = 5) -> List[str]:
    """Reads after which the plan may differ from a run on a card."""
    lines = wrapped(["The program reads values back that only a real card has. They were assumed at:"])
    for record in records[:most]:
        place = f"{Path(record['file']).name}:{record['line']} {record['function']}"
        depends = ", and a size depends on it" if record["use"] == "size" else ""
        assumed = ", given by --assume" if record["assumed"] else ""
        lines += wrapped([f"  {place}: {record['op']}, {record['count']:,} times{depends}{assumed}"])
    if len(records) > most:
        lines.append(f"  and {len(records) - most} more lines")
    return lines


_WHY = {"not_read": "not read from files", "not_drawn": "not initialized", "not_there": "not on this machine"}


def _left_out(weights: Dict[str, int]) -> List[str]:
    """The weights that were left out."""
    parts = [f"{sizes.text(weights[why])} {words}" for why, words in _WHY.items() if weights[why]]
    return wrapped([f"Planned without the values of {sizes.text(sum(weights.values()))} of weights: {'; '.join(parts)}."])


def _tried(changes: Sequence[Tried]) -> List[str]:
    """Changes that make it fit, the smallest need first, then the others."""
    helps = sorted((each for each in changes if each.needed), key=lambda each: each.needed or 0)
    lines = ["It fits with one of these changes (each was run):" if helps else "None of these changes makes it fit:"]
    for each in helps:
        size = f"  {sizes.text(each.needed or 0):>8}  "
        lines += textwrap.wrap(each.text, _WIDTH, initial_indent=size, subsequent_indent=" " * len(size), break_on_hyphens=False)
    without = [each.text for each in changes if not each.needed and not each.failed]
    if without:
        lines += wrapped([f"{'Does not fit with' if helps else 'Tried'}: {'; '.join(without)}."])
    lines += wrapped([f"Could not be tried: {each.text}: {each.failed}" for each in changes if each.failed])
    return lines


def _held(held: Peak, of: Verdict) -> str:
    what = "It held the most memory" if of.shown.went_well else "It ran out of memory"
    line = next((each for each in held["lines"] if each.get("file")), None)
    place = f"; the largest line at that time: {_place(line)}" if line else ""
    return f"{what} {' '.join(_moment(held)) or 'before its first step'}{place}."


def _place(line: Mapping[str, Any]) -> str:
    return f"{Path(line['file']).name}:{line['line']}"


def headline(of: Verdict) -> List[str]:
    """The verdict."""
    total = of.case.card.total
    card = of.case.name if total[0] == total[1] else f"{of.case.name} ({to(total)})"
    if of.smallest:
        return _smallest(of.smallest, of.needed[1])
    if of.verdict == FITS:
        return [f"fits: needs {to(of.needed)} of {card}; {to(of.left)} is left."]
    if of.verdict == DOES_NOT_FIT:
        return [f"does not fit: memory runs out on {card}."]
    if of.only_just:
        return [
            f"too close to say: it works on {card}, but in replays not with each size up to {LESS >> 20} MiB "
            "smaller. The result depends on the places of blocks, and so on the order in which threads free them."
        ]
    return [
        f"too close to say: it fits {card} with the most memory that the card can have and the least that the program can "
        "need, but not the other way round."
    ]


def _smallest(least: int, without_retries: int) -> List[str]:
    """On a smaller card, on which PyTorch has to empty its cache, a program can work that fails on a larger one: its
    blocks have other addresses."""
    lines = [f"the smallest card on which it works has {sizes.text(least)} ({least >> 20:,} MiB)."]
    room = -(-without_retries >> 20)
    if room > least >> 20:
        lines.append(f"It works on every card of at least {room:,} MiB. On sizes between, PyTorch has to empty its cache, and can fail.")
    return lines


def failure(of: Dict[str, Any]) -> List[str]:
    """The failure and its cause, as in `gpumem-analyze oom`."""
    failed = next((each for each in of["failures"] if each["number"] == of["number"]), None)
    lines = [f"Memory runs out {_asked(failed)}."] if failed else []
    cause = of["cause"]
    if cause:
        advice = f" → {cause['advice']}" if cause.get("advice") else ""
        certainty = "likely: " if cause.get("certainty") == "likely" else ""
        lines.append(f"Cause: {certainty}{cause['what']}{advice}")
    return lines


def _asked(failed: Dict[str, Any]) -> str:
    size = f"for {sizes.text(failed['requested_bytes'])}" if failed["requested_bytes"] else ""
    line = f"at {failed['line']}" if failed.get("line") else ""
    return " ".join(word for word in (size, line) if word) or "outside of Python code"


def breakdown(held: Peak, of: Verdict) -> List[str]:
    """The memory at the peak of tensors, each row with its accuracy, and additional memory at other points in time."""
    rows = [row for row in held["rows"] if row["bytes"] and row["kind"] != judge.BESIDES]
    total = sum(row["bytes"] for row in rows)
    lines = [f"{'':34}{'bytes':>10}  known"]
    for row in rows:
        lines.append(f"{_name(row):34.34}{sizes.text(row['bytes']):>10}  {of.case.card.known(row['kind'])}")
        if row["kind"] == "tensors":
            parts = sorted(held["categories"], key=lambda part: -part["bytes"])
            lines += [f"  {part['category']:32.32}{sizes.text(part['bytes']):>10}" for part in parts if part["bytes"]]
    more = of.needed_at_worst - total
    if of.worse.went_well and more > 0:
        lines.append(f"{'more at other times':34}{sizes.text(more):>10}  exact")
        total += more
    return [*lines, f"{'in all':34}{sizes.text(total):>10}"]


def by_line(held: Peak, most: int = 5) -> List[str]:
    """The lines with the most tensor memory."""
    lines = [f"{'bytes':>10}  {'blocks':>7}  line"]
    for row in held["lines"][:most]:
        where = f"{_place(row)} {row['function']}" if row.get("file") else str(row.get("library") or "not known")
        kinds = ", ".join(each["category"] for each in (row.get("categories") or [])[:2])
        lines.append(f"{sizes.text(row['bytes']):>10}  {row['blocks']:>7,}  {where}{f' ({kinds})' if kinds else ''}"[:_WIDTH])
    return lines


def by_module(held: Peak, most: int = 5) -> List[str]:
    """The modules with the most tensor memory. Modules whose names differ only in numbers, as layers do, are one
    row."""
    rows: Dict[str, List[int]] = {}
    for row in held["modules"]:
        if row["module"]:
            name = re.sub(r"(?<![^.#])[0-9]+(?![^.])", "*", row["module"])
            size, blocks = rows.get(name, (0, 0))
            rows[name] = [size + row["bytes"], blocks + row["blocks"]]
    if not rows:
        return []
    largest = sorted(rows.items(), key=lambda row: -row[1][0])[:most]
    return ["", f"{'bytes':>10}  {'blocks':>7}  module"] + [
        f"{sizes.text(size):>10}  {blocks:>7,}  {name}"[:_WIDTH] for name, (size, blocks) in largest
    ]


def _name(row: Dict[str, Any]) -> str:
    return str(_ROWS.get(row["kind"]) or row.get("name") or row["kind"])


def _moment(held: Peak) -> List[str]:
    """The point in time."""
    words = [f"in {held['phase'].replace('_', '-')}"] if held["phase"] else []
    return [*words, f"of step {held['step']}"] if held["step"] is not None else words


def as_json(verdicts: Sequence[Verdict], against: Optional[Against]) -> Plan:
    return {"cases": [_json(verdict) for verdict in verdicts], "against": against}


def _json(of: Verdict) -> CaseRow:
    failed = None if of.shown.went_well else judge.failure(of.shown)
    return {
        "card": of.case.card.name,
        "rank": of.case.rank,
        "card_bytes": list(of.case.card.total),
        "verdict": of.verdict,
        "only_just": of.only_just,
        "smallest_card_bytes": of.smallest,
        "room_for_all_bytes": of.needed[1] if of.smallest else None,
        "largest": of.largest and of.largest.number,
        "needed_bytes": list(of.needed),
        "reserved_peak_bytes": [judge.peak(run, "reserved") for run in (of.better, of.worse)],
        "tensor_peak_bytes": [judge.peak(run, "tensor") for run in (of.better, of.worse)],
        "tried": [{"change": each.text, "needed_bytes": each.needed, "failed": each.failed} for each in of.tried],
        "reads": list(of.shown.reads),
        "retries": judge.retries(of.shown),
        "weights": _weights(of.shown.left_out),
        "failure": {"failures": failed["failures"], "cause": failed["cause"]} if failed else None,
        "at": judge.moment(of.shown),
    }


def _weights(of: Dict[str, int]) -> Optional[Weights]:
    if not of:
        return None
    return {"not_read_bytes": of["not_read"], "not_drawn_bytes": of["not_drawn"], "not_there_bytes": of["not_there"]}
