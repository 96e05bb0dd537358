"""`fastai.callbacks.cpu_mem`: Python's own memory of each epoch as columns of the training's table."""

from typing import Any, Dict, List, Optional

from ..utils import mem as _mem
from ._learner import LearnerCallback, PythonMemory


class CpuPeakMemMetric(LearnerCallback):
    """Adds the columns `cpu used` and `cpu_peak` in MB: Python memory that the epoch used, and its peak."""

    names = ["cpu used", "cpu_peak"]

    def __init__(self, learn: Optional[Any] = None) -> None:
        super().__init__(learn)
        self._cpu = PythonMemory()
        self._running = False

    def on_epoch_begin(self, **_: Any) -> None:
        self._cpu.start()
        self._running = True

    def on_epoch_end(self, last_metrics: Optional[List[Any]] = None, **_: Any) -> Dict[str, List[Any]]:
        figures = [size / 2**20 for size in self._cpu.read()] if self._running else [0.0, 0.0]
        self._cpu.stop()
        self._running = False
        return self.row(last_metrics, figures)


def __getattr__(name: str) -> Any:
    """Adds the names of a star import of `fastai.utils.mem`."""
    if name == "__all__":
        return ["CpuPeakMemMetric", *_mem.__all__]  # type: ignore[attr-defined]
    return getattr(_mem, name)
