"""One line of the doctor: a status, the finding, and advice."""

import os
from typing import Mapping, NamedTuple, Optional

OK, WARNING, ERROR = "ok", "warning", "error"


class Check(NamedTuple):
    """A result. Recording is possible despite a warning, but not after an error."""

    name: str
    status: str
    found: str
    advice: str = ""


class Machine:
    """The files and variables that the checks read. Tests pass a different root folder."""

    def __init__(self, root: str = "/", env: Optional[Mapping[str, str]] = None) -> None:
        self._root = root
        self.env = os.environ if env is None else env

    def path(self, name: str) -> str:
        return os.path.join(self._root, name.lstrip("/"))

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def read(self, name: str) -> str:
        """The text of a file; empty if it cannot be read."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""
