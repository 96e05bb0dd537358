"""The output of `gpumem whatif`."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .._reading.analysis import Unreadable, analyzed
from .._text import sizes
from .._text.messages import wrapped
from .._text.sizes import between, less, to
from .form import ReplayRow, Whatif
from .saving import Saving
from .search import ALLOCATED, UNKNOWN_CARD, Recorded, Result, reserved, worst
from .settings import risks
from .table import Cards, enough, table, without_time

# What a capture must have recorded for an exact replay.
_NEEDED = {
    "stream": "the streams of blocks",
    "record_stream": "the use of blocks on other streams",
    "pool": "pools of CUDA graphs and MemPools",
    "calls": "calls of the allocator, such as empty_cache",
    "settings": "settings that the program set at run time",
}
# Unknown quantities that a replay counts, and that are replayed with both assumptions.
_BOTH_WAYS = {
    "sizes_unknown": "the requested size of {:,} allocations is not known: it is the block's size, or the least that gets such a block",
    "waits_unknown": "the time at which {:,} blocks used by other streams became free is not known: at once, or when their memory was used again",
    "stand_ins": "the streams that used blocks ({:,} times) are not known: other streams are assumed, in two orders (inactive_split_bytes)",
}


def doubts(
    summaries: Dict[Path, Dict[str, Any]], devices: Sequence[Recorded], results: Sequence[Result], card: Optional[int]
) -> List[str]:
    """Why the figures may differ from those of a rerun, one line each."""
    lines = []
    for capture, summary in summaries.items():
        pytorch = summary["process"].get("pytorch") or {}
        unknown = pytorch.get("allocator_unknown", ())
        # Unknown calls and settings are reported with `unknown`. If releases of blocks are recorded, `record_stream` is
        # not needed.
        seen = {*pytorch.get("allocator_seen", ()), *(["calls", "settings"] if unknown else [])}
        unseen = [why for word, why in _NEEDED.items() if word not in seen | ({"record_stream"} if "released" in seen else set())]
        if unseen:
            lines.append(f"{capture} does not say {'; '.join(unseen)}: the effect has no known bound")
        lines += [f"{capture} does not say {what}{'' if 'are assumed' in what else '; no bound is known'}" for what in unknown]
        version, here = pytorch.get("version"), results[0].replay.torch
        if version != here:
            lines.append(f"{capture} was recorded with PyTorch {version or 'of an unknown version'} and replayed with {here}")
        if not summary["exact"]:
            lines.append(f"{capture} is not exact: gpumem-analyze {capture} shows why")
        if card is None:
            lines += [line for of in summary["devices"] if (line := _card_taken(capture, of))]
    for device in devices:
        of = [result for result in results if result.recorded == device]
        same = next(result for result in of if result.settings == device.settings)
        least, greatest = same.span(reserved)
        if same.fits and card is None and not least <= device.reserved <= greatest:
            lines.append(
                f"{device.capture}, GPU {device.device}: under the recorded settings the replay reserves "
                f"{between((least, greatest))} at most, the run had {sizes.text(device.reserved)}"
            )
        saved = same.saved
        if card is None and saved:
            lines.append(
                f"{device.capture}, GPU {device.device}: {saved} allocations that failed in the run do not fail in the replay "
                "under the recorded settings"
            )
        words = (summaries[device.capture]["process"].get("pytorch") or {}).get("allocator_seen", ())
        lines += _uncertain(device, [replay.outcome for result in of for replay in result.replays], "pool" in words)
        until = min((r.replay.outcome["exact_until"] or 1 << 64 for r in of), default=1 << 64)
        if until != 1 << 64:
            lines.append(f"{device.capture}, GPU {device.device}: a call of the allocator at event {until} cannot be repeated")
    return lines


def _uncertain(device: Recorded, outcomes: Sequence[Dict[str, int]], has_pools: bool) -> List[str]:
    """The causes for ranges in a device's figures, and for unbounded uncertainty."""
    of, most = f"{device.capture}, GPU {device.device}", {name: max(o[name] for o in outcomes) for name in outcomes[0]}
    both = [how.format(most[what]) for what, how in _BOTH_WAYS.items() if most[what]]
    lines = [f"{of}: {how}" for how in both[:-1]]
    lines += [f"{of}: {how}. Replayed both ways; a run's figures may lie outside of the intervals" for how in both[-1:]]
    if most["placements_unknown"] and has_pools:
        count = f"{most['placements_unknown']:,} allocations"
        lines.append(f"{of}: the stream and the pool of {count} are not known: the default ones are assumed, without a known bound")
    return lines


def _card_taken(capture: Path, device: Dict[str, Any]) -> Optional[str]:
    """The assumed card for one with unknown memory."""
    if device.get("limit_bytes") or device["total_bytes"] or not device["tensor"]["allocations"]:
        return None
    room, which = device.get("allocator_room_bytes"), f"{capture} does not say how much memory GPU {device['ordinal']} has"
    if room:
        return f"{which}: {sizes.text(room)} are assumed, PyTorch's and the free memory at the failure (--card sets another size)"
    return f"{which}: {sizes.text(UNKNOWN_CARD)} are assumed (--card sets another size)"


def _replay(result: Result, saving: Optional[Saving]) -> ReplayRow:
    path = saving.path(result) if saving else None
    return result.json(str(path) if path else None)


def as_json(
    devices: Sequence[Recorded], results: Sequence[Result], doubts: Sequence[str], saving: Optional[Saving] = None
) -> Whatif:
    return {
        "exact": not doubts,
        "doubts": list(doubts),
        "pytorch": results[0].replay.torch,
        "devices": [
            {
                "capture": str(device.capture),
                "device": device.device,
                "card_bytes": device.card,
                "settings": device.settings,
                "reserved_peak_bytes": device.reserved,
                "allocated_peak_bytes": device.allocated,
                "replays": [_replay(result, saving) for result in results if result.recorded == device],
            }
            for device in devices
        ],
    }


def report(
    devices: Sequence[Recorded], results: Sequence[Result], doubts: Sequence[str], options: argparse.Namespace,
    saving: Optional[Saving] = None,
) -> str:
    lines = wrapped([f"NOT EXACT: {doubt}" for doubt in doubts])
    by_settings = worst(results)
    least: Cards = {}
    if options.smallest_card:
        for settings in by_settings:
            cards = [result.smallest_cards for result in results if result.settings == settings]
            least[settings] = None if None in cards else (max(of[0] for of in cards if of), max(of[1] for of in cards if of))
    own = by_settings[devices[0].settings]
    lines += [*wrapped(_headline(own, by_settings, least)), ""]
    lines += table(own, by_settings, least)
    lines += wrapped(without_time(by_settings))
    if not own.fits:
        lines += ["", _after_the_failure(own)]
    best = _best(by_settings, least)
    if best.settings != own.settings and best.fits:
        lines += ["", "In the shell:", f"  export PYTORCH_CUDA_ALLOC_CONF={_quoted(best.settings)}"]
        lines += [f"  {risk}" for risk in risks(best.settings)]
    if saving:
        lines += ["", "Saved. To look at a replay:", *(f"  {command}" for command in saving.commands(best))]
    return "\n".join(lines)


def _quoted(settings: str) -> str:
    return f"'{settings}'" if any(character in settings for character in "[]>*") else settings


def _best(by_settings: Dict[str, Result], least: Cards) -> Result:
    if any(least.values()):
        return min((r for r in by_settings.values() if least[r.settings]), key=lambda r: (enough(least, r), r.rank()))
    return min(by_settings.values(), key=Result.rank)


def _headline(own: Result, by_settings: Dict[str, Result], least: Cards) -> List[str]:
    best, recorded = _best(by_settings, least), own.recorded
    card = own.replay.request.card
    where = f"{recorded.capture}, GPU {recorded.device}"
    if own.fits:
        failed = own.replay.outcome["recorded_failures"]
        tensors = own.span(lambda replay: replay.figures[ALLOCATED])
        first = f"{where}: {between(own.span(reserved))} reserved at the peak, for {between(tensors)} of tensors"
        first += f"; {failed} allocations failed" if failed else ""
    elif own.is_unclear:
        first = f"{where}: too close to say whether it fits a card of {sizes.text(card)}. If not: {_failure(own)}."
    else:
        first = f"{where}: does not fit a card of {sizes.text(card)}. {_failure(own)}."
    none = "None of these settings fits" + (" for sure." if any(of.is_unclear for of in by_settings.values()) else ".")
    if best.settings == own.settings:
        may = any(of.span(reserved)[0] < own.reserved for of in by_settings.values() if of is not own)
        better = "None of these settings would have been better" + (" for sure." if may else ".")
        return [first, better if own.fits else none]
    had, has = least.get(own.settings), least.get(best.settings)
    # A difference that is not visible in rounded sizes is not advice.
    if had and has and to(has) != to(had):
        return [first, f"{best.settings}: a card of {to(has)} is enough, instead of {to(had)}."]
    if not own.fits:
        if best.fits:
            return [first, f"{best.settings} would fit: {between(best.span(reserved))} reserved at the peak."]
        return [first, f"{none} {best.settings} fails last. {_failure(best)}."]
    second = f"{best.settings}: {between(best.span(reserved))}, which is {less(best.against(own), own.reserved)}."
    if best.saved:
        second += f" {best.saved} of {best.replay.outcome['recorded_failures']} failed allocations would have been served."
    return [first, second]


def _failure(result: Result) -> str:
    """The failing request, its line and its time."""
    outcome, recorded = result.replay.outcome, result.recorded
    size, event = sizes.text(outcome["failed_bytes"]), outcome["failed_seq"]
    if outcome["failed_foreign"]:
        where = " of another library or a context"
    else:
        found = _line_at(recorded.capture, recorded.device, event)
        where = f" at {found}" if found else ""
    seconds = outcome["failed_time"] / 1e9
    step = f" in step {outcome['failed_step'] + 1}" if outcome["failed_step"] else ""
    # All other failures are requests for memory.
    is_restore = not outcome["failed_bytes"] and not outcome["failed_foreign"]
    what = "A CUDA graph's pool lost memory and cannot be restored" if is_restore else f"The request of {size} does not fit"
    return f"{what}{where}{step}, {seconds:.3f} s after the start (event {event})"


def _after_the_failure(result: Result) -> str:
    recorded, event = result.recorded, result.replay.outcome["failed_seq"] - 1
    return f"Lines that held memory then: gpumem-analyze lines --at {event} --device {recorded.device} {recorded.capture}"


def _line_at(capture: Path, device: int, event: int) -> Optional[str]:
    """The line that allocates a tensor's block at an event: its memory grows by the block. None: it is not known."""
    before = _held(capture, device, event - 1)
    for place, held in _held(capture, device, event).items():
        if held > before[place]:
            path, number = place
            return f"{_short(path)}:{number}"
    return None


def _held(capture: Path, device: int, event: int) -> Counter[Tuple[str, int]]:
    try:
        rows = analyzed(capture, "lines", "--level", "tensor", "--at", str(event), "--device", str(device))
    except Unreadable:
        rows = []
    held: Counter[Tuple[str, int]] = Counter()
    for row in rows:
        if row.get("file") and row.get("line"):
            held[row["file"], row["line"]] += row["blocks"]
    return held


def _short(path: str) -> str:
    """The path for a table: relative to the current folder, else its last three parts."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return "/".join(path.split("/")[-3:])
