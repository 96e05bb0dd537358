"""The object that a command prints with `--format json` (docs/json.md), and the types of what it contains.

Each command has its types in a module `form`. A `TypedDict` is an object, and the text beside a key describes it.
scripts/lib/typed_schema.py makes schemas of these types."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, NewType, Sequence, get_origin

# Objects that another schema defines. Of gpumem-analyze, by the names that its schemas use:
Capture = NewType("Capture", Dict[str, Any])
CategoryBytes = NewType("CategoryBytes", Dict[str, Any])
Cause = NewType("Cause", Dict[str, Any])
Failure = NewType("Failure", Dict[str, Any])
LedgerRow = NewType("LedgerRow", Dict[str, Any])
LineRow = NewType("LineRow", Dict[str, Any])
ModuleRow = NewType("ModuleRow", Dict[str, Any])
Phase = NewType("Phase", str)
# A card's file: _machine/cards/schema.json.
CardFile = NewType("CardFile", Dict[str, Any])


@dataclass(frozen=True)
class Form:
    """What a command prints."""

    # "plan" for `gpumem/plan/1`.
    name: str
    # The type of `rows`, if it is a list, or of `data`.
    body: Any
    # Whether `capture` is beside it, or `captures` if there are several.
    of_captures: bool = False

    @property
    def id(self) -> str:
        return f"gpumem/{self.name}/1"

    @property
    def key(self) -> str:
        return "rows" if get_origin(self.body) is list else "data"

    def json(self, body: Any, captures: Sequence[Capture] = ()) -> str:
        """The object as text that stdout can show."""
        said: Dict[str, Any] = {"schema": self.id}
        if self.of_captures:
            heads: List[Capture] = list(captures)
            said.update({"capture": heads[0]} if len(heads) == 1 else {"captures": heads})
        said[self.key] = body
        text = json.dumps(said, indent=2, ensure_ascii=False)
        try:
            text.encode(sys.stdout.encoding or "utf-8")
        except UnicodeEncodeError:
            return json.dumps(said, indent=2)
        return text
