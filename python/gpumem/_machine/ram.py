"""The process's and the machine's RAM, from /proc."""

import os
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Machine(NamedTuple):
    """Bytes of the machine's RAM; `available` is the memory that programs can get without swapping."""

    total: int
    available: int


def used() -> int:
    """Resident bytes of this process."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def peak() -> int:
    """The peak of resident bytes of this process, as the kernel counts it."""
    return _field("/proc/self/status", "VmHWM:")


def machine() -> Machine:
    return Machine(_field("/proc/meminfo", "MemTotal:"), _field("/proc/meminfo", "MemAvailable:"))


def _field(path: str, name: str) -> int:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(name):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
