"""`fastai.callbacks.mem`: memory of each epoch as columns of the training's table."""

from typing import Any, Dict, List, Optional

from ..._card import preload
from ..._trace import Trace, b2mb
from ..utils import mem as _mem
from ._learner import LearnerCallback, PythonMemory


class PeakMemMetric(LearnerCallback):
    """Adds the columns `cpu used`, `peak`, `gpu used`, `peak` in MB: Python memory that the epoch used, and its
    peak; memory of the card that the epoch used with empty caches, and its peak above that.

    The constructor initialises CUDA, so that no epoch includes its cost."""

    names = ["cpu used", "peak", "gpu used", "peak"]

    def __init__(self, learn: Optional[Any] = None) -> None:
        super().__init__(learn)
        self._gpu: Optional[Trace] = None
        self._cpu = PythonMemory()
        preload()

    def on_epoch_begin(self, **_: Any) -> None:
        self._cpu.start()
        if self._gpu is None:
            self._gpu = Trace(name="PeakMemMetric")
        else:
            self._gpu.start()

    def on_epoch_end(self, last_metrics: Optional[List[Any]] = None, **_: Any) -> Dict[str, List[Any]]:
        figures = [0, 0, 0, 0]
        if self._gpu is not None:
            self._gpu.stop()
            figures = [*map(b2mb, self._cpu.read()), *self._gpu.data()]
            self._cpu.stop()
        return self.row(last_metrics, figures)

    def on_train_end(self, **_: Any) -> None:
        self._cpu.stop()
        self._gpu = None


def __getattr__(name: str) -> Any:
    """Adds the names of a star import of `fastai.utils.mem`."""
    if name == "__all__":
        return ["PeakMemMetric", *_mem.__all__]  # type: ignore[attr-defined]
    return getattr(_mem, name)
