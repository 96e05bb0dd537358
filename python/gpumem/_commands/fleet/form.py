"""The JSON of `gpumem fleet query` and `gpumem fleet sql`. The columns of a question are those that its file below queries/ describes."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, NewType, Optional, TypedDict, Union

from ..._text.forms import Form
from . import queries

# A value of SQL: also a list, or an object with any keys. Times are ISO 8601 in UTC.
Cell = NewType("Cell", object)


class OutliersRow(TypedDict):
    """A rank that differs from its peers, with a line that makes the difference."""

    run: str  #: The run.
    rank: int  #: The rank.
    peers: Optional[str]  #: The coordinates that its peers share.
    metric: Literal["tensors", "cache", "outside", "unexplained"]  #: The figure that differs.
    bytes: int  #: The rank's figure.
    median_bytes: int  #: The median of its peers.
    off_bytes: int  #: The difference.
    peer_count: int  #: The number of peers.
    since_step: Optional[int]  #: The difference began at this step or later.
    until_step: Optional[int]  #: It began at this step or earlier.
    place: Optional[int]  #: The number of the line, from 1; `null`: no line makes the difference.
    line: Optional[str]  #: The line.
    line_bytes: Optional[int]  #: Bytes that the rank's line holds at the peak.
    line_median_bytes: Optional[int]  #: The median of the peers.
    line_off_bytes: Optional[int]  #: The difference.


class Outliers(TypedDict):
    """`outliers`."""

    query: Literal["outliers"]  #: The question.
    rows: List[OutliersRow]  #: The answer.


# Types that are made here, and not known to a checker of types.
_object: Any = TypedDict
_literal: Any = Literal
_list: Any = List
_union: Any = Union


def _answer(query: queries.Query) -> Any:
    """The type of a question's answer."""
    name = "".join(word.title() for word in query.name.split("-"))
    row: Any = _object(f"{name}Row", {column: kind for column, kind, _ in query.columns})
    row.__doc__, row.texts = query.about, {column: text for column, _, text in query.columns}
    answer = _object(name, {"query": _literal[query.name], "rows": _list[row]})
    answer.__doc__, answer.texts = f"`{query.name}`.", {"query": "The question.", "rows": "The answer."}
    return answer


QUERY = Form("fleet-query", _union[tuple([Outliers, *map(_answer, queries.known())])])
# Columns are those of the question.
SQL = Form("fleet-sql", List[Dict[str, Cell]])
