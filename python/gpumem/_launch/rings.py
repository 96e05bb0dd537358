"""Holds the rings of recorded processes open, so that their contents survive a kill, wherever the rings are."""

import array
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from .._text.messages import say

# More than the longest path.
_MESSAGE = 8192
# The number of held rings at which those of ended processes are searched for.
_MANY = 64


class _Ring(NamedTuple):
    descriptor: int
    capture: Path


class Rings:
    """Receives the rings of recorded processes with this `environment`. A context manager; at its end, events that
    ended processes left in their rings are in their captures."""

    def __init__(self, analyzer: Optional[Path]) -> None:
        # Only this user can access its contents.
        self._folder = tempfile.mkdtemp(prefix="gpumem-rings.")
        self._address = os.path.join(self._folder, "socket")
        self.environment: Dict[str, str] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._analyzer = analyzer
        self._held: List[_Ring] = []
        self._most = _MANY
        self._thread = threading.Thread(target=self._run, name="gpumem-rings", daemon=True)

    def __enter__(self) -> "Rings":
        try:
            self._socket.bind(self._address)
        except OSError:
            # The folder's path may be too long for a socket. A ring that has a name is found without it.
            return self
        self.environment["GPUMEM_HOLDER"] = self._address
        # Signals must reach the thread that waits for them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(self, *_: object) -> None:
        if self.environment:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
                last.sendto(b"", self._address)
            self._thread.join()
        self._recover()
        for ring in self._held:
            os.close(ring.descriptor)
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        """Receives rings until an empty message arrives."""
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        while True:
            path, beside, _flags, _address = self._socket.recvmsg(_MESSAGE, room, socket.MSG_CMSG_CLOEXEC)
            if not path:
                return
            for level, kind, data in beside:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    descriptors = array.array("i", data[: array.array("i").itemsize])
                    self._held += [_Ring(descriptor, Path(os.fsdecode(path))) for descriptor in descriptors]
            if len(self._held) > self._most:
                self._recover()
                self._most = max(_MANY, 2 * len(self._held))

    def _recover(self) -> None:
        """Recovers the rings of ended processes, and closes them."""
        kept = []
        for ring in self._held:
            if self._analyzer and ring.capture.is_file() and not self._is_done(ring):
                kept.append(ring)
            else:
                os.close(ring.descriptor)
        self._held = kept

    def _is_done(self, ring: _Ring) -> bool:
        """Whether its process has ended. The contents of the ring are then in its capture, or an error was printed."""
        done = subprocess.run(
            [str(self._analyzer), "check", "--ring", f"/dev/fd/{ring.descriptor}", str(ring.capture)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
            errors="replace", pass_fds=[ring.descriptor],
        )  # fmt: skip
        if "its process is still running" in done.stderr:
            return False
        if done.returncode == 1:
            say(done.stderr.strip().split(": ", 1)[-1])
        return True
