"""Records random programs of known truth, and compares with it what the judge says of them.

    python score.py COUNT --torch PYTHON [--seed N] [--kind KIND] [--advice] [--folder FOLDER]

A program is measured first, so that its card lets it die in the round that it names, and so that a fix of its fault would help.
Otherwise, or if the fault has less than a quarter of the memory, it is planted wrongly, and left out. A verdict is

- right: the cause, the line and what keeps the memory are those of the program, and its advice names a fix of the fault
- partly: the direction is right, a detail is not
- silent: there is no cause
- misleading: the cause is another one, or nothing that the advice names helps

Precision is the share of right ones among the verdicts with a cause, recall among the programs with a fault.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Optional

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import calls  # noqa: E402, F401
import correct  # noqa: E402, F401
import forks  # noqa: E402
import graphs  # noqa: E402, F401
import harness  # noqa: E402
import keepers  # noqa: E402, F401
import second_order  # noqa: E402, F401
import sizes  # noqa: E402, F401
import tensors  # noqa: E402, F401
from program import KINDS, ROUND, Program, make  # noqa: E402

MIB, PAGE = 1 << 20, 2 << 20
ROOMY = 64 << 30
# What an advice names, in words.
ACTIONS = {
    "detach": r"\.detach\(\)(?!\.cpu)|\.item\(\)", "no_grad": r"no_grad", "backward": r"call backward\(\)",
    "drop": r"drop (the|each|it)|keep fewer|\bdel\b|free the|delete|emptying", "host": r"\.cpu\(\)|on the host", "clone": r"\.clone\(\)",
    "limit": r"limit its length", "batch": r"smaller batch|size of a batch|in parts|compute it in|allocate less", "dtype": r"smaller data type", "double": r"\.float\(\) needs half",
    "optimizer": r"less state", "foreach": r"foreach=False", "expandable": r"expandable_segments", "order": r"freed together", "cache_clear": r"cache_clear|maxsize",
    "except": r"except block|clear_frames|text of the exception", "cycle": r"break the cycle|gc\.collect|weakref",
    "fewer": r"fewer rounds", "calls": r"fewer of these calls", "queue": r"a maxsize, so",
    "grad": r"set \.grad to None", "replaced": r"make a new optimizer",
    "request": r"check the (requested )?(size|shape)", "others": r"another GPU", "fraction": r"memory_fraction", "autocast": r"autocast",
}  # fmt: skip
SCORES = ("right", "partly", "silent", "misleading")


class Unplanted(Exception):
    """The fault does not decide whether the program fits."""


@dataclass(frozen=True)
class Mark:
    """Peaks of what PyTorch reserved and allocated, and what else the process has of the card, in bytes."""

    reserved: int
    allocated: int
    besides: int


@dataclass(frozen=True)
class Judged:
    """A verdict and how right it is."""

    kind: str
    seed: int
    score: str
    reason: str
    verdict: str
    is_correct: bool
    folder: Path


class Judge:
    """A process that runs programs, each in a fork."""

    def __init__(self, python: Path):
        self.forks = forks.Forks(python)

    def run(self, folder: Path, text: str, card: int, env=None, marks: Optional[int] = None) -> harness.Done:
        """Runs a program; with `marks`, until that many rounds have begun."""
        file, capture = (folder / f"{'program' if marks is None else 'measured'}.{of}" for of in ("py", "bin"))
        if marks is not None:
            text = text.replace(ROUND, "__import__('marks').mark()")
        file.write_text(text)
        # The recorder never writes over a capture.
        capture.unlink(missing_ok=True)
        named = {
            "GPUMEM_OUTPUT": str(capture), "GPUMEM_QUIET": "1",
            "PYTHONPATH": str(harness.WORKLOADS / "planted"), "MARKS": str(marks),
            "GPUMEM_SIM_OTHER_BYTES": "0", "PYTHONDONTWRITEBYTECODE": "1", **(env or {}),
        }  # fmt: skip
        return self.forks.run([file], cwd=folder, env=named, memory=f"{card // PAGE * 2}MiB", check=False)

    def marks(self, folder: Path, text: str, last: int) -> list[Mark]:
        done = self.run(folder, text, ROOMY, marks=last)
        if done.returncode != 0:
            raise AssertionError(f"{folder}: {harness.described(done)}")
        return [Mark(*map(int, found)) for found in re.findall(r"^MARK (\d+) (\d+) (\d+)$", done.stdout, re.M)]

    def card(self, folder: Path, program: Program) -> int:
        """A card on which the program dies in its round, and on which it does not with its first fix."""
        marks = self.marks(folder, program.text(), program.rounds + 1)
        if len(marks) < program.rounds + 2:
            raise AssertionError(f"{folder}: {len(marks)} marks, {program.rounds} rounds")
        before, after = marks[program.rounds], marks[program.rounds + 1]
        first = next(iter(program.fixes))
        if first == "order":
            least, most = before.reserved, after.reserved
        else:
            least, most = before.reserved, after.allocated
        if program.fixes[first] and first not in ("fraction", "order") and not program.is_correct:
            fixed = self.marks(folder, program.text(first), program.rounds + 4)[-1]
            if after.allocated - fixed.allocated < after.allocated * program.share:
                raise Unplanted(f"only {(after.allocated - fixed.allocated) >> 20} of {after.allocated >> 20} MiB are of the fault")
            least = max(least, fixed.reserved)
            if least >= most:
                least = max(before.allocated, fixed.allocated)
        if least + 4 * MIB > most:
            raise Unplanted(f"{least >> 20} MiB are enough with the fix, {most >> 20} MiB without")
        pool = least + int((most - least) * program.part)
        # The share counts what PyTorch reserves.
        return marks[-1].besides + pool if program.fraction == 1 else int(pool / program.fraction)

    def judge(self, name: str, seed: int, folder: Path, advice: bool) -> Judged:
        """The score of one program."""
        program = make(name, seed)
        folder = folder / f"{name}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        card = self.card(folder, program)
        others = card * program.others
        other = {"GPUMEM_SIM_OTHER_BYTES": str(others)} if others else {}
        capture = folder / "program.bin"
        # On a busy machine, the search for holders may run out of time, or may not begin.
        for _ in range(3):
            done = self.run(folder, program.text(), card + others, other)
            if done.returncode == 0 or not capture.exists():
                raise Unplanted(f"does not run out of memory on {card >> 20} MiB")
            cause = cause_of(capture)
            if (cause.get("holders") or {"cut": "time"}).get("cut") != "time":
                break
        first = next(iter(program.fixes))
        if not program.is_correct and self.fixed(folder, program, first, card, others) != 0:
            raise Unplanted(f"does not fit with {first} on {card >> 20} MiB")
        score, reason, fix = scored(program, cause)
        of_advice = fix is not None and (program.is_correct or fix != first)
        if advice and of_advice and score != "misleading" and self.fixed(folder, program, fix, card, others) != 0:
            score, reason = "misleading", f"{fix} does not help"
        verdict = f"{cause['kind']} ({cause['certainty']}): {cause['what']} → {cause['advice']}"
        return Judged(name, seed, score, reason, verdict, program.is_correct, folder)

    def fixed(self, folder: Path, program: Program, fix: str, card: int, others: int) -> int:
        """The exit code of a program with a fix, on the same card."""
        env = {"GPUMEM_SIM_OTHER_BYTES": "0" if fix == "others" else str(others)}
        return self.run(folder, program.text(fix), card + others, env, marks=program.rounds + 4).returncode


def cause_of(report: Path) -> dict:
    """The judge's verdict of a capture."""
    return harness.analyze_json("oom", report)["cause"]


def scored(program: Program, cause: dict) -> tuple[str, str, Optional[str]]:
    """The score of a verdict, why, and the fix that its advice names."""
    what, advice = cause["what"], cause["advice"] or ""
    named = [action for action, words in ACTIONS.items() if re.search(words, advice)]
    fix = next((action for action in program.fixes if action in named), None)
    if cause["kind"] == "unknown":
        return "silent", "no cause", None
    if cause["kind"] not in program.causes | program.near:
        return "misleading", "another cause", fix
    if fix is None and (advice or not program.is_correct):
        return "misleading", f"no fix among {named}", None
    if cause["kind"] not in program.causes:
        return "partly", "another kind", fix
    at = [int(line) for line in re.findall(r"\.py:(\d+)", what)]
    # The report's first statement has the line of the request.
    if program.lines and cause["kind"] != "too_large" and not program.lines & set(at):
        return "partly", f"not line {sorted(program.lines)}", fix
    missing = [keeper for keeper in program.keepers if not re.search(rf"\b{re.escape(keeper)}\b", what)]
    if missing:
        return "partly", f"not kept by {missing}", fix
    counted = re.search(r"(?:of|and) (?:the newest )?([\d,]+) (?:of [\d,]+ )?earlier rounds", what)
    if counted and program.rounds and int(counted[1].replace(",", "")) > program.rounds + 1:
        return "partly", f"there were {program.rounds} rounds", fix
    wrong = program.never & set(named)
    if wrong:
        return "partly", f"also advises {sorted(wrong)}", fix
    return "right", "", fix


def corpus(python: Path, count: int, seed: int, folder: Path, advice: bool, kinds=None, jobs: int = 2, report=print) -> list[Judged]:
    """The scores of that many programs, of all kinds in turn."""
    kinds = kinds or sorted(KINDS)
    judges: SimpleQueue[Judge] = SimpleQueue()
    for _ in range(jobs):
        judges.put(Judge(python))

    def one(number: int) -> Optional[Judged]:
        name = kinds[number % len(kinds)]
        # A program that is planted wrongly is replaced by the kind's next one.
        for attempt in range(6):
            judge = judges.get()
            at = seed + number // len(kinds) + 1000 * attempt
            try:
                judged = judge.judge(name, at, folder, advice)
            except Unplanted as why:
                report(f"{name} {at}: left out: {why}")
                continue
            finally:
                judges.put(judge)
            if judged.score != "right":
                report(f"{name} {at}: {judged.score}: {judged.reason}\n    {judged.verdict}")
            return judged
        return None

    with ThreadPoolExecutor(jobs) as pool:
        all_of = list(pool.map(one, range(count)))
    while not judges.empty():
        judges.get().forks.close()
    return [judged for judged in all_of if judged]


def precision(all_of: list[Judged]) -> float:
    given = [judged for judged in all_of if judged.score != "silent"]
    return sum(judged.score == "right" for judged in given) / max(1, len(given))


def recall(all_of: list[Judged]) -> float:
    faults = [judged for judged in all_of if not judged.is_correct]
    return sum(judged.score == "right" for judged in faults) / max(1, len(faults))


def table(all_of: list[Judged]) -> str:
    """Programs by kind and score, in Markdown."""
    rows = ["| kind | programs | right | partly | silent | misleading |", "|---|---:|---:|---:|---:|---:|"]
    for name in [*sorted({judged.kind for judged in all_of}), "all"]:
        scores = Counter(judged.score for judged in all_of if name in (judged.kind, "all"))
        rows.append(f"| {name} | {sum(scores.values())} | " + " | ".join(str(scores[score]) for score in SCORES) + " |")
    rows += ["", f"Precision {precision(all_of):.1%}, recall {recall(all_of):.1%}."]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="how many programs")
    parser.add_argument("--torch", required=True, type=Path, help="the Python that has PyTorch")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only these kinds")
    parser.add_argument("--advice", action="store_true", help="apply the fix that the advice names, and run the program again")
    parser.add_argument("--folder", type=Path, help="where programs and captures are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        all_of = corpus(options.torch, options.count, options.seed, folder, options.advice, options.kind)
    print(table(all_of))
    return 0 if precision(all_of) >= 0.98 and recall(all_of) >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
