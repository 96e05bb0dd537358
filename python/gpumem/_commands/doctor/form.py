"""The JSON of `gpumem doctor`."""

from __future__ import annotations

from typing import List, Literal, Optional, TypedDict

from ..._text.forms import Form


class CheckRow(TypedDict):
    """A check."""

    check: str  #: What was checked. Further checks may be added.
    status: Literal["ok", "warning", "error"]  #: After an error, recording does not work.
    found: str  #: The result, in words.
    advice: Optional[str]  #: What to do; `null` if there is nothing to do.


class Doctor(TypedDict):
    """Whether recording works on this machine."""

    works: bool  #: Whether recording works: no check is an error.
    rows: List[CheckRow]  #: All checks, in the order of the text.


FORM = Form("doctor", Doctor)
