"""Measures how often the figures of reruns lie in the intervals of replays, and how wide these are.

    PYTHON tests/lib/whatif_intervals.py --torch PYTHON [--seeds 34] [--first 0] WHICH…

WHICH: `requests`, `releases`, `both`: random programs with complete captures, replayed without that information;
`uses`: also without uses on other streams, for which no bound is known; `imported`: captures of PyTorch's own
snapshots; `old`: those of PyTorch 1.12 (--old PYTHON). Prints a line for each figure outside its interval, and the
sums of each."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import List

import harness
import whatif
from gpumem._whatif import unknown
from gpumem._whatif.search import RESERVED, Recorded, Result, all_ways
from gpumem._whatif.servers import Request

HIDDEN = {
    "requests": unknown.NO_REQUESTS, "releases": unknown.NO_RELEASES, "both": unknown.NO_REQUESTS | unknown.NO_RELEASES,
    "uses": unknown.NO_RELEASES | unknown.NO_USES,
}  # fmt: skip
SPLITS = "inactive_split_bytes.all.peak"
SETTINGS = [whatif.SETTINGS[n] for n in (0, 1, 3, 6)]
# Of those PyTorch 1.12 has no expandable segments.
OLD_SETTINGS = [whatif.SETTINGS[n] for n in (0, 2, 3, 6)]


def ways(bench, capture, settings, card, hidden=0) -> Result:
    """A capture under settings, in all ways in which what is unknown or hidden may have been."""
    [replays] = all_ways(bench.replays, [Request(Path(capture), 0, card, settings, hidden)])
    return Result(Recorded(capture, 0, card, settings, 0, 0), settings, replays)


@dataclass
class Sums:
    """Of comparisons."""

    name: str
    compared: int = 0
    inside: int = 0
    widths: List[float] = field(default_factory=list)
    misses: List[float] = field(default_factory=list)
    # Verdicts on whether it fits: all, unclear ones, and wrong ones.
    verdicts: int = 0
    unclear: int = 0
    wrong: int = 0

    def compare(self, what, truth, result, name=RESERVED):
        """`truth`: a figure of the rerun's, the reserved bytes at their peak."""
        least, greatest = result.span(lambda replay: replay.figures[name])
        self.compared += 1
        self.widths.append((greatest - least) / max(truth, 1))
        if least <= truth <= greatest:
            self.inside += 1
        else:
            self.misses.append(max(least - truth, truth - greatest) / max(truth, 1))
            print(f"{self.name}: {what}: {truth >> 20} MiB are not in {least >> 20} to {greatest >> 20} MiB", flush=True)

    def judge(self, what, fits, result):
        self.verdicts += 1
        self.unclear += result.is_unclear
        if not result.is_unclear and result.fits != fits:
            self.wrong += 1
            print(f"{self.name}: {what}: the rerun {'fits' if fits else 'fails'}, the replays do not say so", flush=True)

    def line(self):
        if not self.compared:
            return f"{self.name}: nothing to compare"
        shares = ", ".join(
            f"{name} {value:.1%}"
            for name, value in (
                ("width: median", statistics.median(self.widths)), ("mean", statistics.mean(self.widths)),
                ("greatest", max(self.widths)), ("farthest outside", max(self.misses, default=0.0)),
            )
        )  # fmt: skip
        verdicts = f"; {self.verdicts} verdicts, {self.unclear} too close to say, {self.wrong} wrong" if self.verdicts else ""
        return f"{self.name}: {self.inside} of {self.compared} inside; {shares}{verdicts}"


def withheld(bench, programs, names, all_sums):
    """Hides information of complete captures. A replay with all information is the reference, because streams are
    late and a rerun would be late at other moments. The recorded run's own figures confirm that reference."""
    for program in programs:
        capture, real = bench.record(program)
        for settings in SETTINGS:
            full = bench.replay(capture, settings, whatif.ROOMY)
            if settings == "":
                assert full.figures[RESERVED] == real["figures"][RESERVED], program
            if not full.fits:
                continue
            truth = full.figures[RESERVED]
            outcome = full.outcome
            tight = outcome["foreign_peak"] + truth
            for name in names:
                what, hidden = f"{program} under {settings or 'default'}", HIDDEN[name]
                result = ways(bench, capture, settings, whatif.ROOMY, hidden)
                if name != "requests" and not any(o.outcome["waits_unknown"] for o in result.replays) and name != "uses":
                    continue  # nothing waited
                all_sums[name].compare(what, truth, result)
                for card in (tight, tight - (tight // 50)):
                    fits = bench.replay(capture, settings, card).fits
                    on = f"{what} on {card >> 20} MiB"
                    all_sums[name].judge(on, fits, ways(bench, capture, settings, card, hidden))
        capture.unlink()


def against_reruns(bench, real_programs, capture_of, programs, settings_of, sums, other):
    """Reruns under settings are the truth. `other`: of another figure of theirs, or of the release that replays."""
    for program in programs:
        try:
            capture, real = capture_of(program)
        except AssertionError:
            print(f"{sums.name}: {program} does not run with this PyTorch", flush=True)
            continue
        for settings in settings_of:
            rerun = real_programs.run(program, settings, whatif.ROOMY)
            what = f"{program} under {settings or 'default'}"
            result = ways(bench, capture, settings, whatif.ROOMY)
            if result.fits and not rerun.get("failures"):
                sums.compare(what, rerun["figures"][RESERVED], result)
                if real_programs is bench.real:
                    other.compare(what, rerun["figures"][SPLITS], result, SPLITS)
                else:
                    other.compare(what, bench.real.run(program, settings, whatif.ROOMY)["figures"][RESERVED], result)
            if real_programs is bench.real:
                continue  # with a memory fraction a snapshot has no information for another card
            card = real["foreign"] + real["figures"][RESERVED]
            fits = not real_programs.run(program, settings, card, stop=True)["failures"]
            sums.judge(f"{what} on {card >> 20} MiB", fits, ways(bench, capture, settings, card))
        capture.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="+", choices=[*HIDDEN, "imported", "old"], metavar="WHICH")
    parser.add_argument("--torch", required=True, type=Path)
    parser.add_argument("--old", type=Path, help="the Python with PyTorch 1.12")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    sums = {name: Sums(name) for name in options.which}
    others = [Sums("imported, " + SPLITS), Sums("old, reruns with the release that replays")]
    programs = [f"random:{seed}" for seed in range(options.first, options.first + options.seeds)]
    with tempfile.TemporaryDirectory() as folder:
        late = Path(folder) / "late.so"
        harness.run(["cc", "-O1", "-shared", "-fPIC", "-o", late, harness.WORKLOADS / "whatif" / "late.c", "-ldl"])
        hidden = [name for name in options.which if name in HIDDEN]
        if hidden:
            bench = whatif.Bench(options.torch, folder, late=late)
            withheld(bench, programs, hidden, sums)
            bench.close()
        if "imported" in options.which:
            bench = whatif.Bench(options.torch, folder)
            against_reruns(bench, bench.real, bench.imported, programs, SETTINGS, sums["imported"], others[0])
            bench.close()
        if "old" in options.which:
            bench = whatif.Bench(options.torch, folder)
            bench.recorded.close()
            bench.recorded, real = whatif.Programs(options.old, True), whatif.Programs(options.old, False)
            against_reruns(bench, real, bench.record, programs, OLD_SETTINGS, sums["old"], others[1])
            real.close()
            bench.close()
    for of in [*sums.values(), *(of for of in others if of.compared)]:
        print(of.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
