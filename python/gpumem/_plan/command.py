"""`gpumem plan`: the command line."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from .._launch import launcher
from .._machine import installed
from .._reading.analysis import Unreadable
from .._text.messages import Progress, say, show
from . import against, changes, inside, replayed, search, text, verdict as judge
from .cards import ROOMY, UnknownCard, ends, with_memory
from .dry_run import Failed, Run, Wanted, runs
from .form import FORM
from .verdict import DOES_NOT_FIT, FITS, TOO_CLOSE, Case, Ends, Verdict

NO_RESULT, WRONG = 1, 2
# Exit statuses other than 0 that a script can handle.
STATUS = {FITS: 0, DOES_NOT_FIT: 4, TOO_CLOSE: 5}

# Without weights: larger copies from the host are skipped.
_COPY_MOST = 64 << 20

_DESCRIPTION = """\
Shows whether a program fits a GPU that you do not have. The program runs
unchanged on a simulated card: PyTorch's allocator, its libraries and your
code are real, and kernels compute nothing."""

_EPILOG = """\
  gpumem plan --card h100 -- train.py --batch 16
  gpumem plan --card a100-40,l40s,h100 -- train.py
  gpumem plan --card h100 --search '--batch {}' 1..512 -- train.py
  gpumem plan --card 24GiB -- python -m mypackage.train

Exit status: 0 it fits, 4 it does not fit, 5 too close to say (the best of
several cards). 1 no result: the program failed for another reason. 2 the
command line is wrong. 127 the program was not found.
"""


def _ranks(text: str) -> List[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are not ranks: write numbers, as in 0,7") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumem plan", usage="gpumem plan [OPTIONS] --card CARD -- PROGRAM [ARGUMENT…]", description=_DESCRIPTION,
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument(
        "--card", metavar="CARD[,CARD…]", help="the GPU: a name (gpumem card list), a card file, or a size such as 24GiB"
    )
    parser.add_argument(
        "--smallest-card", action="store_true",
        help="find the least memory with which the program works, to 2 MiB, on a GPU otherwise like --card",
    )  # fmt: skip
    parser.add_argument("--devices", metavar="N", type=int, default=1, help="number of such GPUs in the machine (default: 1)")
    parser.add_argument(
        "--search", nargs=2, metavar=("WORDS", "LOW..HIGH"),
        help="find the largest number that fits: it replaces {} in WORDS, which are added to the program's arguments",
    )  # fmt: skip
    parser.add_argument(
        "--world", metavar="N", type=int,
        help="run the program as one rank of N, without the others: PyTorch's process groups behave as if they existed",
    )  # fmt: skip
    parser.add_argument("--rank", metavar="R[,R…]", type=_ranks, help="ranks of --world to plan, each in a separate run (default: 0)")
    parser.add_argument(
        "--no-values", dest="values", action="store_false",
        help="compute no values on the CPU: values that the program reads back from the card are undefined",
    )  # fmt: skip
    parser.add_argument(
        "--no-weights", dest="weights", action="store_false",
        help="use only the shapes of weights, without reading, downloading or initializing them: the model can be larger than this machine",
    )  # fmt: skip
    parser.add_argument(
        "--assume", metavar="FILE:LINE=VALUE", action="append", default=[],
        help="the value that a line reads back from the card; can be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--no-changes", dest="changes", action="store_false", help="do not try changes that would make the program fit"
    )
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="stop a run that takes longer")
    parser.add_argument("--jobs", metavar="N", type=int, help="number of parallel runs. Default: one for each processor")
    parser.add_argument("--against", metavar="CAPTURE", type=Path, help="also print the peaks of a real run's capture")
    parser.add_argument("--save", metavar="FOLDER", type=Path, help="keep the captures of the runs, and the program's output")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text, or JSON with integers")
    return parser


def split(words: Sequence[str]) -> Tuple[List[str], List[str]]:
    """gpumem's options, and the program with its arguments: everything after `--`."""
    if "--" not in words:
        return list(words), []
    place = list(words).index("--")
    return list(words[:place]), list(words[place + 1 :])


def main(words: Sequence[str]) -> int:
    """Runs `gpumem plan` with these arguments. Returns the exit status."""
    own, program = split(words)
    parser = _parser()
    options, rest = parser.parse_known_args(own)
    if rest and program:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if not program:
        parser.error("no program: name it after --, as in gpumem plan --card h100 -- train.py")
    if not (options.card or options.smallest_card):
        parser.error("no card: use --card h100, or --smallest-card")
    try:
        cards = [ends(name, options.devices) for name in (options.card or ROOMY).split(",")]
        bounds = search.bounds(options.search[1]) if options.search else None
    except (UnknownCard, search.NotARange) as error:
        parser.error(str(error))
    if options.rank and not options.world:
        parser.error("--rank needs --world")
    if options.world and not all(0 <= rank < options.world for rank in options.rank or [0]):
        parser.error(f"--rank: the ranks of --world {options.world} are 0 to {options.world - 1}")
    # Programs run in separate sessions, so a signal to this process must end them, as an interrupt does.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        with tempfile.TemporaryDirectory(prefix="gpumem-plan.") as folder:
            return _plan(options, cards, program, bounds, Path(folder))
    except (Failed, Unreadable, installed.Missing) as error:
        say(f"plan: {error}")
        return NO_RESULT
    except launcher.CannotRun as error:
        say(f"plan: {error}")
        return error.status


def _terminated(number: int, _frame: object) -> None:
    # Another one must not end the ending of the programs.
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _plan(
    options: argparse.Namespace, cards: Sequence[Ends], program: List[str], bounds: Optional[Tuple[int, int]], folder: Path
) -> int:
    planner = Planner(folder, options)
    ranks: List[Optional[int]] = list(options.rank or [0]) if options.world else [None]
    verdicts: List[Verdict] = []
    for card in cards:
        for rank in ranks:
            case = Case(card, rank)
            if options.smallest_card:
                verdicts.append(planner.smallest(case, program))
            elif bounds:
                verdicts.append(planner.largest(case, program, options.search[0], bounds))
            else:
                verdicts.append(planner.verdict(case, program))
    if options.changes and len(verdicts) == 1 and verdicts[0].verdict != FITS and not bounds:
        verdicts = [planner.changed(verdicts[0], program)]
    planner.progress.end()
    beside = against.compared(verdicts[0], options.against) if options.against else None
    if options.format == "json":
        show(FORM.json(text.as_json(verdicts, beside)))
    else:
        show(text.report(verdicts, options.search))
        if beside:
            show("\n" + "\n".join(against.text(beside["rows"], options.against)))
    if options.save:
        for verdict in verdicts:
            judge.keep(verdict, options.save)
    by_card = [verdicts[first : first + len(ranks)] for first in range(0, len(verdicts), len(ranks))]
    return min(max(STATUS[of.verdict] for of in some) for some in by_card)


class Planner:
    """Runs a program on cards, and evaluates the runs."""

    def __init__(self, folder: Path, options: argparse.Namespace):
        self._folder, self._options, self._count = folder, options, 0
        self.progress = Progress()

    def _wanted(
        self, case: Case, settings: Mapping[str, str], program: Sequence[str], change: Optional[changes.Change] = None
    ) -> Wanted:
        environment, parts = changes.environment_of(change) if change else ({}, [])
        if self._options.values:
            parts += ["values", "lines", "names"]
        if not self._options.weights:
            parts.append("weights")
            settings = {**settings, "GPUMEM_SIM_COPY_MOST": str(_COPY_MOST)}
        if self._options.assume:
            environment["GPUMEM_PLAN_ASSUME"] = ",".join(self._options.assume)
        if case.rank is not None:
            parts.append("world")
            environment.update(_rank(case.rank, self._options.world, self._options.devices))
        why = inside.cannot(launcher.command_of(program)) if parts else None
        if why:
            raise Failed(f"{why} (--no-values plans without)")
        return Wanted(list(program), settings, environment, parts, self._options.timeout)

    def _jobs(self) -> int:
        return self._options.jobs or os.cpu_count() or 1

    def _name(self) -> str:
        self._count += 1
        return f"run{self._count}"

    def verdict(self, case: Case, program: Sequence[str]) -> Verdict:
        """The verdict on a card."""
        self.progress.say(f"running on {case.name}")
        wanted = [self._wanted(case, settings, program) for settings in (case.card.worse, case.card.better)]
        worse, better = runs(wanted, self._folder, [self._name(), self._name()], self._jobs())
        return self._judged(case, worse, better)

    def _judged(self, case: Case, worse: Run, better: Run) -> Verdict:
        judged = judge.judged(case, worse, better)
        return judged if judged.verdict != FITS or self._holds(worse) else replace(judged, verdict=TOO_CLOSE, only_just=True)

    def _holds(self, done: Run) -> bool:
        """Whether a successful run would succeed in any case."""
        if not judge.retries(done):
            return True
        self.progress.say("replaying with a little less memory")
        return replayed.holds(done, self._jobs())

    def changed(self, of: Verdict, program: Sequence[str]) -> Verdict:
        """The same verdict with the changes that were tried to make the program fit: the settings that replays find
        best, each other change by itself, and the largest smaller batch that fits."""
        self.progress.say("replaying other settings")
        settings = replayed.settings_of(of.worse, self._jobs())
        tried = self._try(of.case, changes.others(program, settings))
        for change in changes.smaller_batches(program):
            [one] = self._try(of.case, [change])
            tried.append(one)
            if one.needed:
                break
        return replace(of, tried=tried)

    def _try(self, case: Case, which: Sequence[changes.Change]) -> List[judge.Tried]:
        self.progress.say(f"trying {which[0].text}" if len(which) == 1 else f"trying {len(which)} changes on {case.name}")
        wanted = [self._wanted(case, case.card.worse, change.command, change) for change in which]
        names = [self._name() for _ in which]
        for one, name in zip(wanted, names):
            one.changes["GPUMEM_PLAN_CHANGED"] = str(self._folder / f"{name}.changed")
        done = runs(wanted, self._folder, names, self._jobs())
        return [judge.tried(change, each) for change, each in zip(which, done)]

    def smallest(self, case: Case, program: Sequence[str]) -> Verdict:
        """The verdict on a similar card with room for everything, and the least memory that is enough, found by replays
        of that run."""
        roomy = replace(case, card=with_memory(case.card, ROOMY))
        verdict = self.verdict(roomy, program)
        self.progress.say("searching for the smallest card")
        return replace(verdict, smallest=replayed.card_of(verdict.worse, self._jobs()))

    def largest(self, case: Case, program: Sequence[str], template: str, bounds: Tuple[int, int]) -> Verdict:
        """The verdict on the largest number that fits; if no number fits, on the smallest one."""
        tried: Dict[int, Run] = {}

        def fits(number: int) -> bool:
            self.progress.say(f"running with {template.replace(search.PLACE, str(number))} on {case.name}")
            wanted = self._wanted(case, case.card.worse, search.filled(program, template, number))
            [tried[number]] = runs([wanted], self._folder, [self._name()], 1)
            return judge.fitted(tried[number]) and self._holds(tried[number])

        number = search.largest(bounds[0], bounds[1], fits)
        shown = bounds[0] if number is None else number
        wanted = self._wanted(case, case.card.better, search.filled(program, template, shown))
        [better] = runs([wanted], self._folder, [self._name()], 1)
        return replace(self._judged(case, tried[shown], better), largest=search.Found(number))


def _rank(rank: int, world: int, devices: int) -> Dict[str, str]:
    """The variables of launchers, for machines with this many GPUs each."""
    return {
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % devices),
        "LOCAL_WORLD_SIZE": str(min(devices, world)), "GROUP_RANK": str(rank // devices), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }  # fmt: skip
