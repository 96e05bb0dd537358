"""`ipyexperiments.ipyexperiments`: the experiment classes.

An experiment begins when it is created and ends with `finish()`, `del`, or its `with` block. Then the variables that
were defined meanwhile are deleted from the notebook (or from `__main__`), garbage is collected, the frameworks'
caches are emptied, and the freed memory is reported.

Your own backend is a subclass of IPyExperimentsGPU: it sets `gpu_current_device_id` in `backend_init`, overrides
`gpu_clear_cache` if it has a cache, and calls `backend_init()` and `start()` at the end of its `__init__`."""

import gc
import os
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..._inside import meter as _meter
from ..._machine import devices as _devices, driver as _driver, nvml as _nvml, ram as _ram
from .._card import preload
from . import _notebook, _report
from ._device import DeviceMemory
from ._report import b2mb
from .cell_logger import CellLogger

__all__ = ["IPyExperimentsCPU", "IPyExperimentsPytorch"]


class IPyExperimentMemory(NamedTuple):
    """Bytes: consumed by the experiment, reclaimed at its end, and available."""

    consumed: int
    reclaimed: int
    available: int


class IPyExperimentData(NamedTuple):
    """The process's RAM, and the card (zeros without one)."""

    cpu: IPyExperimentMemory
    gpu: IPyExperimentMemory


_NOTHING = IPyExperimentMemory(0, 0, 0)


class IPyExperiments:
    """The base of all experiments; use a subclass.

    `exp_enable=False`: only the cell logger runs. `cl_enable`: whether there is one, in `.cl`; `cl_compact`,
    `cl_gc_collect` and `cl_set_seed` are its options."""

    backend = "none"
    has_gpu = False
    gpu_current_device_id: Optional[int] = None

    def __init__(self, exp_enable: bool = True, cl_enable: bool = True, cl_compact: bool = False,
                 cl_gc_collect: bool = True, cl_set_seed: int = 0) -> None:
        self.running = False
        self.enable = exp_enable
        self.cl_enable = cl_enable
        self.cl_kwargs: Dict[str, Any] = {"compact": cl_compact, "gc_collect": cl_gc_collect, "set_seed": cl_set_seed}
        self.cl: Optional[CellLogger] = None
        self.reclaimed = False
        self.start_time = time.time()
        self.var_names_keep: List[str] = []
        self.var_names_start = self.get_var_names() if exp_enable else []
        self._start: Optional[Tuple[int, int]] = None
        self._result: Optional[IPyExperimentData] = None

    def backend_init(self) -> None:
        """Initialises the backend before anything is measured."""

    def start(self) -> None:
        """Reads the figures at which consumption starts, and starts the cell logger."""
        gc.collect()
        self.gpu_clear_cache()
        self.running = True
        if self.enable:
            self._start = self._levels()
            self.print_state()
            print("\n")
        if self.cl_enable:
            self.cl = CellLogger(self, **self.cl_kwargs)
            self.cl.start()

    def keep_var_names(self, *args: str) -> None:
        """Names of variables that are not deleted at the end; they need not exist yet."""
        if not all(isinstance(name, str) for name in args):
            raise ValueError("expecting variable names as strings")
        self.var_names_keep.extend(args)

    def get_var_names(self) -> List[str]:
        """Names of the notebook's variables."""
        return _notebook.names()

    def cpu_ram(self) -> Tuple[int, int, int]:
        """Total and available bytes of the machine's RAM, and this process's."""
        return 0, 0, 0

    def cpu_ram_total(self) -> int:
        return self.cpu_ram()[0]

    def cpu_ram_avail(self) -> int:
        return self.cpu_ram()[1]

    def cpu_ram_used(self) -> int:
        return self.cpu_ram()[2]

    def gpu_ram(self) -> Tuple[int, int, int]:
        """Total, free and used bytes of the card, with the caches empty."""
        return 0, 0, 0

    def gpu_ram_avail(self) -> int:
        return 0

    def gpu_ram_used(self) -> int:
        return 0

    def gpu_ram_used_fast(self, gpu_handle: Any) -> int:
        return 0

    def gpu_clear_cache(self) -> None:
        """Frees the unused memory of the backend's cache."""

    def _levels(self) -> Tuple[int, int]:
        """The figures for consumption, in bytes: RAM of this process, and memory of the card."""
        return self.cpu_ram_used(), self.gpu_ram_used()

    def print_state(self) -> None:
        """Prints used and free memory, with empty caches."""
        rows = [("CPU", self.cpu_ram())]
        if self.has_gpu:
            rows.append(("GPU", self.gpu_ram()))
        print(_report.state([(name, (used, free, total)) for name, (total, free, used) in rows]))

    @property
    def data(self) -> IPyExperimentData:
        """`(cpu, gpu)`, each `(consumed, reclaimed, available)` in bytes: until now, or until the end."""
        if self._result is not None:
            return self._result
        levels = self._levels()
        return self._measured(levels, levels)

    def _measured(self, before: Tuple[int, int], after: Tuple[int, int]) -> IPyExperimentData:
        """The figures of an experiment with `before` bytes before its end and `after` bytes after it."""
        if self._start is None:
            return IPyExperimentData(_NOTHING, _NOTHING)
        available = (self.cpu_ram_avail(), self.gpu_ram_avail())
        cpu, gpu = (
            IPyExperimentMemory(reached - begun, reached - end, free)
            for begun, reached, end, free in zip(self._start, before, after, available)
        )
        return IPyExperimentData(cpu, gpu if self.has_gpu else _NOTHING)

    def finish(self) -> Optional[IPyExperimentData]:
        """Ends the experiment, reports, and returns `data`; a second call only returns it. None if the experiment was
        turned off by `exp_enable`."""
        if self.cl is not None:
            self.cl.stop()
            self.cl = None
        was_running, self.running = self.running, False
        if not self.enable:
            return None
        if not was_running:
            return self.data
        elapsed = time.strftime("%H:%M:%S", time.gmtime(int(time.time() - self.start_time)))
        print(f"\n{type(self).__name__}: Finishing")
        print(f"\n*** Experiment finished in {elapsed} (elapsed wallclock time)")
        before = self._levels()
        self._delete_variables()
        self._collect_garbage()
        self.gpu_clear_cache()
        self.reclaimed = True
        self._result = self._measured(before, self._levels())
        rows = [("CPU", self._result.cpu[:2])] + ([("GPU", self._result.gpu[:2])] if self.has_gpu else [])
        print(_report.outcome(rows))
        self.print_state()
        print("\n")
        return self._result

    def _delete_variables(self) -> None:
        """Deletes the variables that were defined since the start, except those to keep and experiments of this type:
        if an experiment's name is assigned a new one, the new one already exists."""
        variables = _notebook.namespace()
        new = set(self.get_var_names()) - set(self.var_names_start) - set(self.var_names_keep)
        deleted = sorted(name for name in new if type(variables[name]) is not type(self))
        for name in deleted:
            _notebook.delete(name)
        if deleted or self.var_names_keep:
            print("\n*** Newly defined local variables:")
            if deleted:
                print(f"Deleted: {', '.join(deleted)}")
            if self.var_names_keep:
                print(f"Kept:    {', '.join(sorted(self.var_names_keep))}")

    @staticmethod
    def _collect_garbage() -> None:
        cleared = gc.collect()
        if cleared:
            print("\n*** Circular ref objects gc collected during the experiment:")
            print(f"cleared {cleared} objects (only temporary leakage)")
        if gc.garbage:
            print("\n*** Potential memory leaks during the experiment:")
            print(f"uncollected gc.garbage of {len(gc.garbage)} objects")

    def __enter__(self) -> "IPyExperiments":
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.finish()

    def __del__(self) -> None:
        if getattr(self, "running", False) and not sys.is_finalizing():
            self.finish()


class IPyExperimentsCPU(IPyExperiments):
    """An experiment that measures only RAM."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.backend = "cpu"
        self.gpu_current_device_id = -1
        if type(self) is IPyExperimentsCPU:
            self.backend_init()
            self.start()

    def backend_init(self) -> None:
        super().backend_init()
        if type(self) is IPyExperimentsCPU:
            print("\n*** Experiment started with the CPU-only backend\n")

    def cpu_ram(self) -> Tuple[int, int, int]:
        machine = _ram.machine()
        return machine.total, machine.available, _ram.used()


class IPyExperimentsGPU(DeviceMemory, IPyExperimentsCPU):
    """An experiment that measures RAM and one card; the base of classes that select the card."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.backend = "gpu-generic"
        self.has_gpu = True

    @property
    def pynvml(self) -> Any:
        """The module `pynvml`, initialised; ImportError if it is not installed."""
        from .utils.pynvml_gate import load_pynvml_env

        return load_pynvml_env()

    def _levels(self) -> Tuple[int, int]:
        self.gpu_clear_cache()
        # With the hooks the card's figure covers only this process.
        return self.cpu_ram_used(), _meter.used(self.gpu_current_device_id) if self.has_gpu else 0


class IPyExperimentsPytorch(IPyExperimentsGPU):
    """An experiment that measures RAM and the current card, for any framework. Without a card it is like
    IPyExperimentsCPU."""

    torch: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.backend = "pytorch"
        if type(self) is IPyExperimentsPytorch:
            self.backend_init()
            self.start()

    def backend_init(self) -> None:
        super().backend_init()
        device = _devices.find()
        if device is None:
            self.backend, self.has_gpu = "cpu", False
            print("\n*** Experiment started with the CPU-only backend\n")
            return
        self.gpu_current_device_id = device.ordinal
        if not _driver.ready():
            # Otherwise the cell that first uses a kernel would include the memory for loading it.
            os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
        preload(device.ordinal)
        self.torch = sys.modules.get("torch")
        nvml = _nvml.library()
        name = nvml.name(device.handle) if nvml is not None else None
        total = b2mb(self.gpu_ram()[0])
        print("\n*** Experiment started with the Pytorch backend")
        print(f"Device: ID {device.ordinal}, {name} ({total} RAM)\n")
