"""`gpumem fleet`: the command line."""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import math
import os
import textwrap
from typing import Any, List, Optional, Sequence

from ..._launch import launcher
from ..._machine import installed
from ..._text.messages import Renamed, say, show
from . import files, outliers, queries
from .engine import Answer, Engine
from .form import QUERY, SQL
from .headlines import shown
from .stores import Refused
from .text import table

WRONG, NO_RESULT = 2, 1

_USAGE = """\
Usage: gpumem fleet COMMAND …

  query NAME DATASET        answers a common question (without NAME: lists them)
  sql "select …" DATASET    runs SQL over the dataset's tables (docs/dataset.md)
  ingest, prune, rows       make and keep a dataset: gpumem-analyze fleet --help

DATASET is a folder, or s3://, gs:// or az://, which DuckDB's extensions read.
"""


def _parser(command: str) -> argparse.ArgumentParser:
    about = "Answers a question over a dataset of captures." if command == "query" else "Runs SQL over a dataset of captures."
    parser = argparse.ArgumentParser(prog=f"gpumem fleet {command}", description=about, allow_abbrev=False)
    if command == "query":
        parser.add_argument("--list", dest="question", action=Renamed, form="`fleet query` without a name", const="")
        parser.add_argument("question", metavar="NAME", nargs="?", help="the name of the question. Default: list the questions")
        parser.add_argument("--top", metavar="N", type=_positive, default=20, help="number of rows, or of outliers (default: 20)")
        parser.add_argument("--label", metavar="KEY", default="team", help="the label by which largest-holders groups (default: team)")
    else:
        parser.add_argument("question", metavar="SQL", help="the SQL text; tables: " + ", ".join(queries.TABLES))
    parser.add_argument("dataset", metavar="DATASET", nargs="?" if command == "query" else None, help="a folder or an object store")
    parser.add_argument("--run", metavar="RUN", action="append", default=[], help="only this run; can be repeated")
    parser.add_argument("--format", choices=("text", "json", "csv"), default="text", help="text, JSON with integers, or CSV")
    return parser


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def main(words: Sequence[str]) -> int:
    """Runs `gpumem fleet` with these arguments. Returns the exit status."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(_USAGE, end="")
        return 0 if words else WRONG
    command, rest = words[0], list(words[1:])
    if command == "spark-job":
        say("fleet spark-job was removed: ingest each capture on its own machine, then `aws s3 sync` (docs/fleet.md)")
        return WRONG
    if command not in ("query", "sql"):
        launcher.become([str(installed.analyzer()), "fleet", command, *rest], os.environ)
    parser = _parser(command)
    # A query may come before its options and the dataset after them.
    options = parser.parse_intermixed_args(rest)
    if command == "query" and not options.question and options.dataset is None:
        show("\n".join(_listed()))
        return 0
    if options.question is None or options.dataset is None:
        parser.error("the following arguments are required: NAME, DATASET")
    try:
        result = _query(options) if command == "query" else _sql(options)
        if result is not None:
            show(result)
        return 0
    except LookupError as error:
        say(f"fleet query: {error.args[0]}")
        return WRONG
    except (files.NoDataset, Refused) as error:
        say(f"fleet {command}: {error}")
        return NO_RESULT


def _listed() -> List[str]:
    """Each query and its description."""
    all_of_them = sorted([("outliers", outliers.ABOUT), *((query.name, query.about) for query in queries.known())])
    width = max(len(name) for name, _ in all_of_them)
    lines: List[str] = []
    for name, about in all_of_them:
        wrapped = textwrap.wrap(about, 79 - width - 2)
        lines += [f"{name if not place else '':{width}}  {line}" for place, line in enumerate(wrapped)]
    return lines


def _query(options: argparse.Namespace) -> Optional[str]:
    if options.question == "outliers":
        found = outliers.answer(options.dataset, options.run, options.top, options.format == "text")
        return _formatted(found, options.format, "outliers") if found else None
    query = queries.find(options.question)
    engine = _engine(options, queries.tables_in(query.sql))
    parameters = queries.defaults(query, {"top": options.top, "label": options.label})
    answer = engine.ask(query.for_duckdb(), parameters)
    if options.format == "text":
        [compared] = engine.ask("select count(*), count(distinct run) from ranks").rows
        return shown(query.name, answer, (compared[0], compared[1]))
    return _formatted(answer, options.format, query.name)


def _sql(options: argparse.Namespace) -> str:
    answer = _engine(options, queries.tables_in(options.question)).ask(options.question)
    return table(answer) if options.format == "text" else _formatted(answer, options.format, None)


def _engine(options: argparse.Namespace, tables: Sequence[str]) -> Engine:
    engine = Engine()
    engine.view(files.of_tables(engine, options.dataset, options.run, tables))
    return engine


def _formatted(answer: Answer, form: str, name: Optional[str]) -> str:
    rows = [[_plain(value) for value in row] for row in answer.rows]
    if form == "json":
        found = [dict(zip(answer.columns, map(_cell, row))) for row in rows]
        return QUERY.json({"query": name, "rows": found}) if name else SQL.json(found)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([answer.columns, *rows])
    return text.getvalue().rstrip("\n")


def _plain(value: Any) -> Any:
    """Times and days as ISO 8601 in UTC."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    return value.isoformat() + "Z" if isinstance(value, datetime.datetime) and value.tzinfo is None else value


def _cell(value: Any) -> Any:
    """A value as JSON has it; what JSON does not have is text."""
    if isinstance(value, (list, tuple)):
        return [_cell(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _cell(each) for key, each in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(_plain(value))
