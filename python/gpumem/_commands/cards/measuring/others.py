"""Other users of the card. If there are any, differences of readings are unreliable."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional

from ...._machine import nvml as _nvml
from ...._text import sizes

# An idle card has less than this in use, by the driver itself.
_IDLE = 64 << 20


class User(NamedTuple):
    """A process that uses the card."""

    pid: int
    name: Optional[str]
    bytes: Optional[int]


def users(nvml: _nvml.Nvml, device: Any) -> List[User]:
    """The processes that NVML lists."""
    listed = nvml.processes(device) or []
    return [User(process.pid, _program(nvml, process.pid), process.used) for process in listed]


def _program(nvml: _nvml.Nvml, pid: int) -> Optional[str]:
    """A program's name without its folder, which may contain a user's name."""
    path = nvml.process_name(pid)
    return path.rsplit("/", 1)[-1] if path else None


def unlisted(nvml: _nvml.Nvml, device: Any, known: List[User]) -> int:
    """Used bytes of no listed process; 0 if they are not more than on an idle card."""
    memory = nvml.memory(device)
    if memory is None or memory.reserved is None or any(user.bytes is None for user in known):
        return 0
    rest = memory.used - memory.reserved - sum(user.bytes or 0 for user in known)
    return rest if rest > _IDLE else 0


def named(known: List[User], rest: int) -> str:
    """The users of the card as text; an empty text without users."""
    words = []
    for user in known:
        name = f" ({user.name})" if user.name else ""
        has = "" if user.bytes is None else f" has {sizes.text(user.bytes)}"
        words.append(f"process {user.pid}{name}{has}")
    if rest:
        words.append(f"{sizes.text(rest)} are in use by processes that NVML does not list")
    return ", ".join(words)
