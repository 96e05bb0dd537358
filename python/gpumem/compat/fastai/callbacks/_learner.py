"""The base of callbacks for fastai's learner. They work without fastai, for any training loop that calls
`on_epoch_begin` and `on_epoch_end`."""

import tracemalloc
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

__all__ = ["LearnerCallback", "PythonMemory"]


class LearnerCallback:
    """A callback that adds columns to the table of the learner's `recorder`."""

    _order = -20  # before the recorder
    names: List[str] = []

    def __init__(self, learn: Optional[Any] = None) -> None:
        self._learn: Callable[[], Any] = _reference(learn)

    @property
    def learn(self) -> Optional[Any]:
        """The learner. This is a weak reference, because the learner holds the model and its callbacks."""
        return self._learn()

    def on_train_begin(self, **_: Any) -> None:
        recorder = getattr(self.learn, "recorder", None)
        if recorder is not None:
            recorder.add_metric_names(list(self.names))

    @staticmethod
    def row(last_metrics: Optional[List[Any]], figures: List[Any]) -> Dict[str, List[Any]]:
        """The result of `on_epoch_end`: the epoch's metrics followed by these figures."""
        return {"last_metrics": [*(last_metrics or []), *figures]}

    def __getattr__(self, name: str) -> Callable[..., None]:
        """The learner calls every callback method; the other ones do nothing."""
        if name.startswith("on_"):
            return lambda **_: None
        raise AttributeError(name)


def _reference(learn: Optional[Any]) -> Callable[[], Any]:
    try:
        return weakref.ref(learn)
    except TypeError:  # None, or an object that takes no weak references
        return lambda: learn


class PythonMemory:
    """Memory of Python's allocator since a mark, as `tracemalloc` counts it, from `start` to `stop`. If the program already traces, its
    tracing does not change."""

    def __init__(self) -> None:
        self._ours = False
        self._start = self._peak_before = 0

    def start(self) -> None:
        self.stop()
        if not tracemalloc.is_tracing():
            tracemalloc.start()
            self._ours = True
        self._start, self._peak_before = (0, 0) if self._ours else tracemalloc.get_traced_memory()

    def read(self) -> Tuple[int, int]:
        """Bytes used, and their peak."""
        live, peak = tracemalloc.get_traced_memory()
        used = live - self._start
        known = peak - self._start if peak > self._peak_before else 0
        return used, max(used, known, 0)

    def stop(self) -> None:
        if self._ours:
            tracemalloc.stop()
            self._ours = False
