"""Names of tensors. They last as long as the tensors, and keep none of them alive."""

import weakref
from typing import Any, Dict, Tuple

__all__ = ["Names"]


class Names:
    """Given names, and numbers for tensors without one: `Parameter0`, `Tensor1`. An address can be reused by another
    tensor, so a name is valid only while its tensor exists."""

    def __init__(self) -> None:
        self._known: Dict[int, Tuple["weakref.ref[Any]", str, int]] = {}
        self._given = 0
        self._numbered = 0

    def _find(self, tensor: Any) -> Any:
        known = self._known.get(id(tensor))
        return known if known is not None and known[0]() is tensor else None

    def give(self, tensor: Any, name: str) -> None:
        """Names a tensor, replacing an earlier name."""
        known = self._find(tensor)
        place = known[2] if known is not None else self._given
        self._given += known is None
        self._known[id(tensor)] = weakref.ref(tensor), name, place

    def of(self, tensor: Any) -> str:
        """A tensor's name; the next number if it has none."""
        known = self._find(tensor)
        if known is not None:
            return str(known[1])
        name = f"{type(tensor).__name__}{self._numbered}"
        self._numbered += 1
        self.give(tensor, name)
        return name

    def place(self, tensor: Any) -> int:
        """A tensor's position in a list: in the order of given names, followed by tensors without one."""
        known = self._find(tensor)
        return known[2] if known is not None else self._given

    def prune(self) -> None:
        """Drops the names of tensors that no longer exist."""
        self._known = {key: known for key, known in self._known.items() if known[0]() is not None}
