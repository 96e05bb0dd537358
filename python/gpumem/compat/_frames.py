"""Clears the frames of exceptions, which otherwise keep their variables alive."""

import traceback
from typing import Optional

__all__ = ["clear"]


def clear(error: Optional[BaseException]) -> None:
    """Clears the frames of an exception and of its causes."""
    seen = set()
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        waiting += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
