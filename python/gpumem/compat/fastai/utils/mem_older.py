"""`fastai.utils.mem` as it was before reports had a context: nothing is printed at the end of `with`, and
`report(note)` says `△used: NMB, △peaked: NMB`. Everything else is `mem`'s."""

from typing import Optional

from . import mem as _mem
from .mem import *  # noqa: F401,F403

__all__ = [name for name in _mem.__all__ if name != "gpu_mem_trace"]


class GPUMemTrace(_mem.GPUMemTrace):  # type: ignore[no-redef]
    """Used and peaked MB of the current card since the start, printed and as numbers."""

    def __init__(self, silent: bool = False) -> None:
        super().__init__(silent=silent, on_exit_report=False)

    def __repr__(self) -> str:
        used, peaked = self.data()
        return f"△used: {used}MB, △peaked: {peaked}MB"

    def report(self, note: Optional[str] = None) -> None:  # type: ignore[override]
        """Prints used and peaked, and a note in brackets."""
        super().report(note)

    def report_n_reset(self, note: Optional[str] = None) -> None:  # type: ignore[override]
        """A report; then counts from zero."""
        self.report(note)
        self.reset()
