"""`fastai.utils.mem` before reports had a context: nothing is printed at the end of `with`, and
`report(note)` prints `△used: NMB, △peaked: NMB: note`. All other names are those of `mem`."""

from typing import Any

from . import mem as _mem


def __getattr__(name: str) -> Any:
    """All other names, from `mem`."""
    if name == "__all__":
        return [other for other in _mem.__all__ if other != "gpu_mem_trace"]  # type: ignore[attr-defined]
    return getattr(_mem, name)


class GPUMemTrace(_mem.GPUMemTrace):
    """Used and peaked MB of the current card since the start, as output and as numbers."""

    def __init__(self, silent: bool = False) -> None:
        super().__init__(silent=silent, on_exit_report=False)

    def __repr__(self) -> str:
        used, peaked = self.data()
        return f"△used: {used}MB, △peaked: {peaked}MB"

    def report(self, note: str = "") -> None:  # type: ignore[override]
        """Prints used and peaked, and a note."""
        if not self.is_silent:
            print(f"{self}: {note}" if note else f"{self}")

    def report_n_reset(self, note: str = "") -> None:  # type: ignore[override]
        """Prints a report, then counts from zero."""
        self.report(note)
        self.reset()
