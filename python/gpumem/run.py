"""`gpumem run`: the command line of the launcher."""

import argparse
import os
import sys
import tempfile
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ._launch import launcher
from ._machine import installed
from ._plan import inside
from ._text import sizes
from ._text.messages import Renamed, say

_DESCRIPTION = """\
Runs a program with libgpumem.so preloaded. When the program ends, prints where
its GPU memory went. Its Python, standard streams and exit status are unchanged."""

_FORMS = """\
PROGRAM is a script (train.py), `-m MODULE`, or any command: torchrun,
accelerate launch, deepspeed, python -u train.py, a binary. Put options of gpumem
before it. The report goes to stderr. Each rank has its own capture
(report.rank0.bin, …).

Exit status: the program's own, 128 + N if signal N ended it; 125 if gpumem
itself cannot run it (options, library), 126 if the program cannot be executed,
127 if it is not found.

  gpumem run train.py --epochs 3
  gpumem run --output runs/%h-%p.bin -m mypackage.train
  gpumem run --limit 24GiB torchrun --nproc-per-node 2 train.py
"""


class _Wrong(Exception):
    """The command line is invalid."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise _Wrong(message)


def _size(text: str) -> str:
    """A size in the library's format: whole bytes."""
    try:
        return str(sizes.parse_of_card(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _distance(text: str) -> str:
    """A distance of sampled stacks in the library's format."""
    try:
        size = sizes.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 4 << 10 <= size <= 1 << 30:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 4KiB and 1GiB")
    return str(size)


def _stacks(text: str) -> Tuple[Optional[str], bool]:
    """The kind of stacks, if it is named, and whether frees have them."""
    words = text.split(",")
    kinds = [word for word in words if word != "frees"]
    if len(words) != len(set(words)) or len(kinds) > 1 or not {*kinds} <= {"mixed", "python", "native", "off"}:
        raise argparse.ArgumentTypeError(f"{text!r} is not mixed, python, native or off, or that and `,frees`")
    return (kinds[0] if kinds else None), len(words) > len(kinds)


def _limit(text: str) -> str:
    """A limit in the library's format: a size for every GPU, or for GPUs by number, `24GiB,1=16GiB`."""
    parts = []
    for part in text.split(","):
        device, equals, size = part.rpartition("=")
        if equals and not device.strip().isdecimal():
            raise argparse.ArgumentTypeError(f"{part!r} is not a limit: 24GiB, or of GPU 1 1=16GiB")
        parts.append(device.strip() + equals + _size(size))
    return ",".join(parts)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gpumem run",
        usage="gpumem run [OPTIONS] PROGRAM [ARGUMENT…]",
        description=_DESCRIPTION,
        epilog=_FORMS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help="path of the capture; %%p is the process id, %%r the rank, %%h the host (GPUMEM_OUTPUT)",
    )
    parser.add_argument(
        "--limit", metavar="SIZE", type=_limit,
        help="limit the memory of GPUs: 24GiB for all, or by ordinal 0=24GiB,1=16GiB; larger allocations fail (GPUMEM_LIMIT)",
    )
    parser.add_argument(
        "--bounded", metavar="SIZE", type=_size,
        help="fixed size of the capture, for runs of weeks: 64MiB (GPUMEM_BOUNDED)",
    )
    parser.add_argument(
        "--stacks", metavar="KIND[,frees]", type=_stacks,
        help="stacks that each event records: mixed, python, native or off (GPUMEM_STACKS); with `frees` also the line of "
        "each free (GPUMEM_FREE_STACKS)",
    )
    parser.add_argument(
        "--stack-sample", metavar="SIZE", type=_distance,
        help="record one stack per this many allocated bytes on average: 512KiB; totals stay exact, bytes by "
        "line are estimates (GPUMEM_STACK_SAMPLE)",
    )
    parser.add_argument("--free-stacks", action=Renamed, form="`--stacks KIND,frees`", const=True)
    parser.add_argument(
        "--simulate", action="store_true",
        help="run on a simulated GPU: memory is counted as on a card, kernels compute nothing",
    )
    parser.add_argument(
        "--card", metavar="CARD", help="the simulated GPU: h100, a card file, a size such as 24GiB, or 0=h100,1=t4 (gpumem card list)"
    )
    parser.add_argument(
        "--no-report", action="store_true",
        help="write the capture without a report; the program replaces this process",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="as --no-report, and without gpumem's messages on stderr"
    )
    return parser  # fmt: skip


def split(words: Sequence[str]) -> Tuple[List[str], List[str]]:
    """gpumem's options, and the program with its arguments."""
    takes_value = {"-o", "--output", "--limit", "--bounded", "--stacks", "--stack-sample", "--card"}
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            return list(words[:place]), list(words[place + 1 :])
        if word in ("-m", "-c") or not word.startswith("-") or word == "-":
            break
        place += 2 if word in takes_value else 1
    return list(words[:place]), list(words[place:])


def _changes(options: argparse.Namespace, reports: bool) -> Dict[str, str]:
    """The library's options as environment variables."""
    quiet, postmortem = ("1" if options.quiet else None), None
    if reports and "GPUMEM_QUIET" not in os.environ:
        # The line with the capture's name would only repeat the report's first line.
        quiet, postmortem = "1", os.environ.get("GPUMEM_POSTMORTEM", "on")
    kind, frees = options.stacks or (None, False)
    named = {
        "GPUMEM_OUTPUT": options.output,
        "GPUMEM_LIMIT": options.limit,
        "GPUMEM_BOUNDED": options.bounded,
        "GPUMEM_STACKS": kind,
        "GPUMEM_STACK_SAMPLE": options.stack_sample,
        "GPUMEM_FREE_STACKS": "on" if frees or hasattr(options, "free_stacks") else None,
        "GPUMEM_QUIET": quiet,
        "GPUMEM_POSTMORTEM": postmortem,
    }
    return {name: value for name, value in named.items() if value is not None}


def _with_names(command: Sequence[str], env: Mapping[str, str]) -> Mapping[str, str]:
    """`env`, with which a Python program names its modules as soon as it has imported PyTorch."""
    wanted = env.get("GPUMEM_MODULES", "on") != "off" and inside.PARTS not in env
    return inside.environment(("names",), env) if wanted and inside.cannot(command) is None else env


def _simulated(options: argparse.Namespace, command: Sequence[str], env: Mapping[str, str], reports: bool) -> int:
    """Runs the program on simulated cards, which its processes share."""
    from ._machine import cards, simulator

    settings = {name: value for name, value in os.environ.items() if name.startswith("GPUMEM_SIM_")}
    if options.card:
        try:
            settings.update(cards.simulated.environment_of(cards.simulated.parse(options.card)))
        except (ValueError, cards.Unknown) as error:
            raise _Wrong(str(error)) from None
    handle, shared = tempfile.mkstemp(prefix="gpumem-cards.")
    os.close(handle)
    try:
        env = simulator.environment(command[0], env, {**settings, "GPUMEM_SIM_CARD": shared})
        return launcher.run_and_report(command, env) if reports else launcher.run(command, env)
    except installed.Missing as missing:
        raise launcher.CannotRun(launcher.FAILED, str(missing)) from None
    finally:
        os.unlink(shared)


def main(words: Sequence[str]) -> int:
    """Runs `gpumem run` with these arguments. Returns the exit status."""
    own, program = split(words)
    try:
        options = _parser().parse_args(own)
        if not program:
            raise _Wrong("which program?")
        reports = not (options.no_report or options.quiet)
        command = launcher.command_of(program)
        env = _with_names(command, launcher.environment(_changes(options, reports), program=command[0]))
        if options.card and not options.simulate:
            raise _Wrong("--card goes with --simulate")
        if options.simulate:
            return _simulated(options, command, env, reports)
        if reports:
            return launcher.run_and_report(command, env)
        launcher.become(command, env)
    except _Wrong as wrong:
        say(f"run: {wrong} (gpumem run --help)")
        return launcher.FAILED
    except launcher.CannotRun as error:
        say(f"run: {error}")
        return error.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
