"""`gpumem card`: the command line."""

from __future__ import annotations

import argparse
from typing import Sequence

from ..._machine.cards.card import NotACard
from ..._machine.cards.finding import Unknown, find, known
from ..._text.messages import Renamed, say, show
from . import measure, text
from .form import LIST, SHOW
from .measure import NO_RESULT

_DESCRIPTION = """\
Lists the cards that `gpumem plan` and the simulator know: the memory of each,
what a process takes before its first tensor, and the source of each figure."""

_EPILOG = """\
A card is named by its short name (h100), by what CUDA calls it ("NVIDIA H100
80GB HBM3"), or by a file (./mine.json).

  gpumem card list
  gpumem card show h100
  gpumem card show ./mine.json --format json
  gpumem card measure

Exit status: 0 done, 1 no result, 2 the command line is wrong.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumem card", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", metavar="list | show | measure", required=True)
    listing = commands.add_parser("list", help="list all cards, one per line", allow_abbrev=False)
    showing = commands.add_parser("show", help="show one card, with the source of each figure", allow_abbrev=False)
    showing.add_argument("card", metavar="CARD", help="the name of a card, or a card file")
    for each in (listing, showing):
        each.add_argument("--format", choices=("text", "json"), default="text", help="text, or JSON with integers")
    measuring = commands.add_parser(
        "measure", help="measure the card of this machine and write its file", allow_abbrev=False,
        description="Measures the card of this machine within two minutes and writes its file. No other program "
        "may use the card during this time. Each figure is measured in a separate process.",
    )  # fmt: skip
    measuring.add_argument(
        "-o", "--output", metavar="FILE", help="the file to write; `-`: standard output. Default: NAME.json in this folder"
    )
    measuring.add_argument("--device", metavar="N", type=int, default=0, help="the GPU with this ordinal (default: 0)")
    measuring.add_argument("--python", metavar="PATH", help="the Python whose PyTorch is measured. Default: this one")
    measuring.add_argument("--timeout", metavar="SECONDS", type=float, default=110.0, help="time limit in seconds (default: 110)")
    measuring.add_argument("--seconds", dest="timeout", type=float, action=Renamed, form="`--timeout`")
    measuring.add_argument("--busy", action="store_true", help="measure while other programs use the card, which is less exact")
    return parser


def main(words: Sequence[str]) -> int:
    """Runs `gpumem card` with these arguments. Returns the exit status."""
    options = _parser().parse_args(list(words))
    try:
        if options.command == "measure":
            return measure.main(options)
        said = _list(options.format) if options.command == "list" else _show(options.card, options.format)
        show(said)
        return 0
    except (Unknown, NotACard) as error:
        say(f"card: {error}")
        return NO_RESULT


def _list(form: str) -> str:
    cards = known()
    return LIST.json([card.data for card in cards]) if form == "json" else text.table(cards)


def _show(name: str, form: str) -> str:
    card = find(name)
    return SHOW.json(card.data) if form == "json" else text.page(card)
