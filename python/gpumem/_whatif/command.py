"""`gpumem whatif`: the command line."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Sequence

from .._machine import installed
from .._reading.analysis import Unreadable, answered
from .._text import sizes
from .._text.messages import Progress, say, show
from . import text
from .captures import devices_of, python_for
from .form import FORM
from .saving import Saving
from .search import replays, search, smallest_cards
from .servers import Failed, Servers

WRONG, NO_RESULT, PARTIAL = 2, 1, 3

_DESCRIPTION = """\
Replays a recorded run in PyTorch's allocator itself, with other settings. It
needs the capture and a Python with the PyTorch of the run. It needs no GPU, no
model and no data."""

_EPILOG = """\
A replay is valid up to its first failure. No capture shows what the program
would have done after it.

  gpumem whatif report.bin
  gpumem whatif report.bin --conf expandable_segments:True \\
      --conf max_split_size_mb:256
  gpumem whatif report.bin --smallest-card
  gpumem whatif report.bin --card 24GiB
  gpumem whatif report.rank*.bin
  gpumem whatif report.bin --conf expandable_segments:True --save replays

Exit status: 0 complete, 1 no result, 2 the command line is wrong, 3 a result
that is not exact, with the reason.
"""


def _card(value: str) -> int:
    try:
        return sizes.parse_of_card(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumem whatif", usage="gpumem whatif [OPTIONS] CAPTURE…", description=_DESCRIPTION, epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("captures", nargs="+", metavar="CAPTURE", type=Path, help="a capture; of several ranks, the worst result counts")
    parser.add_argument(
        "--conf", action="append", metavar="SETTINGS",
        help="settings in the form of PYTORCH_CUDA_ALLOC_CONF; can be repeated. Default: settings that often help",
    )  # fmt: skip
    parser.add_argument("--card", metavar="SIZE", type=_card, help="size of the card, such as 24GiB. Default: the recorded card")
    parser.add_argument(
        "--smallest-card", action="store_true", help="find the smallest card on which no allocation fails, for each of the settings"
    )
    parser.add_argument(
        "--save", metavar="FOLDER", type=Path,
        help="write each replay as a capture to this folder; a name that ends in .bin is the file for the replay of one --conf",
    )  # fmt: skip
    parser.add_argument("--device", metavar="N", type=int, help="only the GPU with this ordinal")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text, or JSON with integers")
    parser.add_argument("--python", metavar="PATH", help="the Python whose PyTorch replays. Default: this one, or the recorded one")
    parser.add_argument("--jobs", metavar="N", type=int, help="number of parallel replays. Default: one for each processor")
    return parser


def main(words: Sequence[str]) -> int:
    """Runs `gpumem whatif` with these arguments. Returns the exit status."""
    options = _parser().parse_args(list(words))
    try:
        return _run(options)
    except (Failed, Unreadable, installed.Missing) as error:
        say(f"whatif: {error}")
        return NO_RESULT


def _run(options: argparse.Namespace) -> int:
    answers = {capture: answered(capture, "report", "--all") for capture in options.captures}
    summaries = {capture: answer.body for capture, answer in answers.items()}
    first = next(iter(summaries.values()))
    devices = [
        device for capture, summary in summaries.items() for device in devices_of(capture, summary, options.device)
    ]
    own = devices[0].settings
    saving = Saving(options.save, devices, options.conf or []) if options.save else None
    python = python_for(options.python, first)
    progress = Progress()
    with Servers(python, options.jobs or os.cpu_count() or 1) as servers:
        told = progress.told("replaying")
        if options.conf:
            results = replays(servers, devices, list(dict.fromkeys([own, *options.conf])), options.card, told)
        else:
            results = search(servers, devices, own, options.card, told, bool(options.smallest_card or options.save))
        if options.smallest_card:
            results = smallest_cards(servers, results, progress.told("searching for the smallest cards"))
        doubts = text.doubts(summaries, devices, results, options.card)
        if saving:
            saving.save(servers, results, doubts, progress.told("saving"))
    progress.end()
    if options.format == "json":
        heads = [answer.capture for answer in answers.values()]
        show(FORM.json(text.as_json(devices, results, doubts, saving), heads))
    else:
        show(text.report(devices, results, doubts, options, saving))
    return PARTIAL if doubts else 0
