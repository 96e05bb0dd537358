"""The experiment classes.

An experiment begins when it is made and ends by `finish()`, by `del`, or with its `with` block: names that were
defined meanwhile are deleted from the notebook (or from `__main__`), garbage is collected, the frameworks' caches
are emptied, and what that gave back is told."""

import gc
import sys
import time
import weakref
from types import ModuleType
from typing import Any, Dict, List, NamedTuple, Optional, Set

from ... import _devices, _pools, _meter, _nvml, _ram
from .._card import preload
from .._trace import b2mb
from .cell_logger import CellLogger

__all__ = ["IPyExperimentData", "IPyExperimentMemory", "IPyExperimentsCPU", "IPyExperimentsPytorch"]


class IPyExperimentMemory(NamedTuple):
    """Bytes: what the experiment consumed, what its end gave back, and what can be had now."""

    consumed: int
    reclaimed: int
    available: int


class IPyExperimentData(NamedTuple):
    """The process's RAM, and the card (zeros without one)."""

    cpu: IPyExperimentMemory
    gpu: IPyExperimentMemory


class _Level(NamedTuple):
    """One kind of memory at one moment, in bytes."""

    own: int  # what this process has
    used: int
    free: int
    total: int


_NOTHING = IPyExperimentMemory(0, 0, 0)


class IPyExperimentsCPU:
    """An experiment that looks at RAM alone.

    `exp_enable=False`: nothing is done, for turning it off in place; `cl_…`: the CellLogger in `.cl`, and
    whether there is one."""

    backend = "cpu"

    def __init__(self, exp_enable: bool = True, cl_enable: bool = True, cl_compact: bool = False,
                 cl_gc_collect: bool = True, cl_set_seed: int = 0) -> None:
        self.enable = exp_enable
        self.running = False
        self.cl: Optional[CellLogger] = None
        self._result: Optional[IPyExperimentData] = None
        self._keep: Set[str] = set()
        if not exp_enable:
            return
        self._prepare()
        self._names = set(self._namespace())
        gc.collect()
        _pools.empty_caches()
        self._before = self._levels()
        self._began = time.monotonic()
        self.running = True
        self._say_start()
        self.print_state()
        if cl_enable:
            self.cl = CellLogger(weakref.proxy(self), cl_compact, cl_gc_collect, cl_set_seed)
            self.cl.start()

    def _prepare(self) -> None:
        """What comes before anything is measured."""

    def _say_start(self) -> None:
        print("\n*** Experiment started with the CPU-only backend\n")

    @staticmethod
    def _namespace() -> Dict[str, Any]:
        get = getattr(sys.modules.get("IPython"), "get_ipython", None)
        shell = get() if get is not None else None
        return shell.user_ns if shell is not None else vars(sys.modules["__main__"])

    def _levels(self) -> Dict[str, _Level]:
        machine, own = _ram.machine(), _ram.used()
        return {"CPU": _Level(own, own, machine.available, machine.total)}

    def keep_var_names(self, *names: str) -> None:
        """Names that are not to be deleted at the end."""
        unknown = [name for name in names if name not in self._namespace()]
        if unknown:
            raise ValueError(f"no such variable: {', '.join(unknown)}")
        self._keep.update(names)

    def print_state(self) -> None:
        """Prints what is used and free now."""
        print("\n*** Current state:")
        print("RAM:    Used    Free   Total        Util")
        for name, level in self._levels().items():
            share = 100 * level.used / level.total if level.total else 0.0
            print(
                f"{name}: {b2mb(level.used):7,} {b2mb(level.free):7,} {b2mb(level.total):7,} MB {share:6.2f}% "
            )
        print("\n")

    @property
    def data(self) -> IPyExperimentData:
        """`(cpu, gpu)`, each `(consumed, reclaimed, available)` in bytes: so far, or as it ended."""
        if self._result is not None:
            return self._result
        if not self.enable:
            return IPyExperimentData(_NOTHING, _NOTHING)
        return self._measured(self._levels(), {})

    def _measured(self, now: Dict[str, _Level], after: Dict[str, _Level]) -> IPyExperimentData:
        def one(name: str) -> IPyExperimentMemory:
            if name not in now:
                return _NOTHING
            end = after.get(name, now[name])
            return IPyExperimentMemory(now[name].own - self._before[name].own, now[name].own - end.own, end.free)

        return IPyExperimentData(one("CPU"), one("GPU"))

    def finish(self) -> IPyExperimentData:
        """Ends the experiment and returns `data`. A second call only returns it."""
        if not self.running:
            return self.data
        self.running = False
        if self.cl is not None:
            self.cl.stop()
        _pools.empty_caches()
        now = self._levels()
        passed = time.strftime("%H:%M:%S", time.gmtime(time.monotonic() - self._began))
        print(f"\n{type(self).__name__}: Finishing\n")
        print(f"\n*** Experiment finished in {passed} (elapsed wallclock time)\n")
        deleted = self._delete_names()
        if deleted or self._keep:
            print("\n*** Newly defined local variables:")
            if self._keep:
                print(f"Kept:    {', '.join(sorted(self._keep))}")
            if deleted:
                print(f"Deleted: {', '.join(deleted)}")
            print()
        cleared = gc.collect()
        if cleared:
            print("\n*** Circular ref objects gc collected during the experiment:")
            print(f"cleared {cleared} objects (only temporary leakage)\n")
        _pools.empty_caches()
        self._result = self._measured(now, self._levels())
        self._say_memory(self._result)
        self.print_state()
        return self._result

    def _delete_names(self) -> List[str]:
        """Deletes what was defined since the start, but for modules, what is kept, and this object."""
        namespace = self._namespace()
        new = [
            name
            for name, value in namespace.items()
            if name not in self._names and name not in self._keep and not name.startswith("_")
            and not isinstance(value, ModuleType) and value is not self
        ]
        for name in new:
            del namespace[name]
        return sorted(new)

    def _say_memory(self, data: IPyExperimentData) -> None:
        print("\n*** Experiment memory:")
        print("RAM: Consumed       Reclaimed")
        for name, row in zip(self._before, data):
            share = 100 * row.reclaimed / row.consumed if row.consumed > 0 else 100.0
            print(f"{name}: {b2mb(row.consumed):8,} {b2mb(row.reclaimed):8,} MB ({share:6.2f}%)")
        print()

    def __enter__(self) -> "IPyExperimentsCPU":
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def __del__(self) -> None:
        if getattr(self, "running", False) and not sys.is_finalizing():
            self.finish()


class IPyExperimentsPytorch(IPyExperimentsCPU):
    """An experiment that looks at RAM and at the current card, whatever framework uses it. Without a card it is
    like IPyExperimentsCPU."""

    backend = "pytorch"

    def _prepare(self) -> None:
        self._device = _devices.find()
        if self._device is None:
            self.backend = "cpu"
        else:
            preload(self._device.ordinal)

    def _say_start(self) -> None:
        if self._device is None:
            super()._say_start()
            return
        nvml = _nvml.library()
        name = nvml.name(self._device.handle) if nvml is not None else None
        total = b2mb(_meter.card_memory(self._device.ordinal).total)
        print("\n*** Experiment started with the Pytorch backend")
        print(f"Device: ID {self._device.ordinal}, {name} ({total} RAM)\n")

    def _levels(self) -> Dict[str, _Level]:
        levels = super()._levels()
        if self._device is not None:
            memory = _meter.card_memory(self._device.ordinal)
            levels["GPU"] = _Level(_meter.used(self._device.ordinal), memory.used, memory.free, memory.total)
        return levels
