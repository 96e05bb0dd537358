"""`gpumem plan`: the command line."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import _files, _launcher
from .._report import say
from . import search, text
from . import verdict as judge
from .cards import UnknownCard, ends
from .dry_run import Failed, Wanted, run, runs
from .progress import Progress
from .verdict import DOES_NOT_FIT, FITS, TOO_CLOSE, Ends, Verdict

NO_RESULT, WRONG = 1, 2
# Beside 0: what a script can go on with.
STATUS = {FITS: 0, DOES_NOT_FIT: 4, TOO_CLOSE: 5}

_DESCRIPTION = """\
Says whether a program fits a GPU that you do not have. The program runs unchanged, on a simulated card: PyTorch's allocator, its
libraries and the program's own code are real, kernels do nothing."""

_EPILOG = """\
  gpumem plan --card h100 -- train.py --batch 16
  gpumem plan --card a100-40,l40s,h100 -- train.py
  gpumem plan --card h100 --search '--batch {}' 1..512 -- train.py
  gpumem plan --card 24GiB -- python -m mypackage.train

Exit status: 0 it fits, 4 it does not, 5 too close to say (of several cards: the best one); 1 no result, since the program failed for
another reason; 2 the command line is wrong.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumem plan", usage="gpumem plan [OPTIONS] --card CARD -- PROGRAM [ARGUMENT…]", description=_DESCRIPTION,
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument(
        "--card", required=True, metavar="CARD[,CARD…]",
        help="the GPU: a name (gpumem card list), a card file, or a size such as 24GiB",
    )  # fmt: skip
    parser.add_argument("--devices", metavar="N", type=int, default=1, help="GPUs of that kind in the machine (1)")
    parser.add_argument(
        "--search", nargs=2, metavar=("WORDS", "LOW..HIGH"),
        help="the largest number that fits, put in the place of {} in WORDS, which are added to the program's own",
    )  # fmt: skip
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="end a run that takes longer")
    parser.add_argument("--jobs", metavar="N", type=int, help="runs beside one another; without it one for each processor")
    parser.add_argument("--save", metavar="FOLDER", type=Path, help="keep the captures of the runs, and what the program printed")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text, or JSON with integers")
    return parser


def split(words: Sequence[str]) -> Tuple[List[str], List[str]]:
    """The options of gpumem's, and the program with its own: what comes after `--`."""
    if "--" not in words:
        return list(words), []
    place = list(words).index("--")
    return list(words[:place]), list(words[place + 1 :])


def main(words: Sequence[str]) -> int:
    """Does what the words after `gpumem plan` say; the status to end with."""
    own, program = split(words)
    parser = _parser()
    options = parser.parse_args(own)
    if not program:
        parser.error("which program? It comes after --: gpumem plan --card h100 -- train.py")
    try:
        cards = [ends(name, options.devices) for name in options.card.split(",")]
        bounds = search.bounds(options.search[1]) if options.search else None
    except (UnknownCard, search.NotARange) as error:
        parser.error(str(error))
    try:
        with tempfile.TemporaryDirectory(prefix="gpumem-plan.") as folder:
            return _plan(options, cards, program, bounds, Path(folder))
    except (Failed, _files.Missing) as error:
        say(f"plan: {error}")
        return NO_RESULT
    except _launcher.CannotRun as error:
        say(f"plan: {error}")
        return error.status


def _plan(
    options: argparse.Namespace, cards: Sequence[Ends], program: List[str], bounds: Optional[Tuple[int, int]], folder: Path
) -> int:
    planner = Planner(folder, options)
    found: List[Dict[str, Any]] = []
    verdicts: List[Verdict] = []
    for card in cards:
        if bounds:
            number, verdict = planner.largest(card, program, options.search[0], bounds)
            found.append({"largest": number})
        else:
            verdict = planner.verdict(card, program)
            found.append({})
        verdicts.append(verdict)
    planner.progress.end()
    if options.save:
        for verdict in verdicts:
            planner.keep(verdict, options.save)
    if options.format == "json":
        print(json.dumps(text.as_json(verdicts, found), indent=2))
    else:
        print(text.report(verdicts, found, options.search))
    return min(STATUS[verdict.verdict] for verdict in verdicts)


class Planner:
    """Runs a program on cards, and judges the runs."""

    def __init__(self, folder: Path, options: argparse.Namespace):
        self._folder, self._options, self._count = folder, options, 0
        self.progress = Progress()

    def _wanted(self, command: Sequence[str], card: Dict[str, str]) -> Wanted:
        return Wanted(list(command), card, timeout=self._options.timeout)

    def _name(self) -> str:
        self._count += 1
        return f"run{self._count}"

    def verdict(self, card: Ends, program: Sequence[str]) -> Verdict:
        """What is said of a card."""
        wanted = [self._wanted(program, dict(card.worse)), self._wanted(program, dict(card.better))]
        jobs = self._options.jobs or os.cpu_count() or 1
        self.progress.say(f"running on {card.name}")
        worse, better = runs(wanted, self._folder, [self._name(), self._name()], jobs)
        return judge.judged(card, worse, better)

    def fits(self, card: Ends, program: Sequence[str]) -> bool:
        """Whether the program fits even if the card gives the least."""
        done = run(self._wanted(program, dict(card.worse)), self._folder, self._name())
        return judge.fitted(done)

    def largest(
        self, card: Ends, program: Sequence[str], template: str, bounds: Tuple[int, int]
    ) -> Tuple[Optional[int], Verdict]:
        """The largest number that fits, and what is said of it; of none, of the least one."""

        def fits(number: int) -> bool:
            self.progress.say(f"running with {template.replace(search.PLACE, str(number))} on {card.name}")
            return self.fits(card, search.filled(program, template, number))

        number = search.largest(bounds[0], bounds[1], fits)
        shown = bounds[0] if number is None else number
        return number, self.verdict(card, search.filled(program, template, shown))

    def keep(self, verdict: Verdict, folder: Path) -> None:
        """Moves the captures of a verdict into a folder."""
        for which, done in (("least", verdict.worse), ("most", verdict.better)):
            judge.keep(done, folder, f"{verdict.card.file_name}.{which}")
