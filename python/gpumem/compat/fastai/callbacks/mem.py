"""`fastai.callbacks.mem`: memory of each epoch as columns of the training's table."""

from typing import Any, Dict, List, Optional

from .... import _meter
from ... import _host
from ..._trace import b2mb

__all__ = ["PeakMemMetric"]


class PeakMemMetric:
    """Adds the columns `cpu used`, `peak`, `gpu used`, `peak`: what each epoch used and peaked, in MB.

    For any training loop: with fastai's learner (which has a `recorder`) as its callback; else call
    `on_epoch_begin` and `on_epoch_end`, whose result is the row."""

    _order = -20
    names = ["cpu used", "peak", "gpu used", "peak"]

    def __init__(self, learn: Optional[Any] = None) -> None:
        self.learn = learn
        self._gpu: Optional[_meter.Mark] = None
        self._cpu: Optional[_host.HostMark] = None

    def on_train_begin(self, **_: Any) -> None:
        recorder = getattr(self.learn, "recorder", None)
        if recorder is not None:
            recorder.add_metric_names(list(self.names))

    def on_epoch_begin(self, **_: Any) -> None:
        self._cpu = _host.HostMark()
        self._gpu = _meter.Mark(name="PeakMemMetric")

    def on_epoch_end(self, last_metrics: Optional[List[Any]] = None, **_: Any) -> Dict[str, List[Any]]:
        row = [0, 0, 0, 0]
        if self._cpu is not None and self._gpu is not None:
            figures = [self._cpu.read(), self._gpu.read(_meter.PHYSICAL)]
            row = []
            for start, live, peak in figures:
                used = live - start
                row += [b2mb(used), b2mb(max(peak - start - max(used, 0), 0))]
            self._cpu.end()
            self._gpu.end()
        return {"last_metrics": [*(last_metrics or []), *row]}

    def __getattr__(self, name: str) -> Any:
        """fastai calls back on everything; the rest is not of interest."""
        if name.startswith("on_"):
            return lambda **_: None
        raise AttributeError(name)

    def on_train_end(self, **_: Any) -> None:
        self._cpu = self._gpu = None
