"""Saves replays as captures: their names, and commands for them."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from .search import Recorded, Result
from .servers import Failed, Progress, Servers

SUFFIX = ".bin"


class Saving:
    """Where replays are saved: in a folder, or a single one in a file with the suffix `.bin`."""

    def __init__(self, to: Path, devices: Sequence[Recorded], asked: Sequence[str]):
        """`asked`: the settings of the command line; a file takes the replay of one."""
        self._to, self._asked = to, list(asked)
        self._is_file = to.suffix == SUFFIX and not to.is_dir()
        self._paths: Dict[Tuple[Recorded, str], Path] = {}
        if self._is_file and (len(devices) > 1 or len(self._asked) != 1):
            raise Failed(f"{to} is one file, which needs one --conf, one capture and one GPU: name a folder")
        if self._is_file and to.exists():
            raise Failed(f"{to} already exists")
        try:
            (to.parent if self._is_file else to).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failed(f"{to}: {error.strerror}") from None

    def save(self, servers: Servers, results: Sequence[Result], doubts: Sequence[str], progress: Progress) -> None:
        """Repeats the replays, each with a capture. `doubts`: why the replays may differ from runs."""
        for result in results:
            self._name(result, results)
        there = [path for path in self._paths.values() if path.exists()]
        if there:
            raise Failed(f"{there[0]} already exists")
        requests = [
            replace(result.replay.request, save=self.path(result), doubts=tuple(doubts)) for result in results if self.path(result)
        ]
        servers.all(requests, progress)

    def _name(self, result: Result, results: Sequence[Result]) -> None:
        recorded, settings = result.recorded, result.settings
        if self._is_file:
            if settings == self._asked[0]:
                self._paths[recorded, settings] = self._to
            return
        gpus = {other.recorded.device for other in results if other.recorded.capture == recorded.capture}
        name = recorded.capture.stem if recorded.capture.suffix == SUFFIX else recorded.capture.name
        gpu = f".gpu{recorded.device}" if len(gpus) > 1 else ""
        stem = f"{name}{gpu}.{slug(settings)}"
        path, number = self._to / (stem + SUFFIX), 1
        while path in self._paths.values():
            number += 1
            path = self._to / f"{stem}-{number}{SUFFIX}"
        self._paths[recorded, settings] = path

    def path(self, result: Result) -> Optional[Path]:
        """The path of a saved replay, if it is saved."""
        return self._paths.get((result.recorded, result.settings))

    def commands(self, best: Result) -> List[str]:
        """Commands that compare the best saved replay with the recorded run."""
        recorded, fits = best.recorded, best.fits
        path = self.path(best)
        if path is None or best.settings == recorded.settings:
            others = (key for key in self._paths if key[0] == recorded and key[1] != recorded.settings)
            other = next(others, None)
            path = self._paths[other] if other else path
        if path is None:
            return []
        replay, capture = shlex.quote(str(path)), shlex.quote(str(recorded.capture))
        return [
            *([] if fits else [f"gpumem-analyze oom {replay}"]),
            f"gpumem-analyze diff {capture} {replay}",
            f"gpumem-analyze ledger --pool {capture} {replay}",
            f"gpumem-analyze timeline {replay}",
            f"gpumem-analyze html {replay}",
        ]


def slug(settings: str) -> str:
    """Settings as part of a file's name: `max_split_size_mb-128`."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", settings).strip("-")[:100] or "default"
