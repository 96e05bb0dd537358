"""`%load_ext gpumem`: what a cell, or a line, of a notebook does to GPU memory.

    %%gpumem           the cell runs as ever; under its output each of its lines has its bytes
    %gpumem f(x)       what one statement adds and its peak
    %gpumem            what is live now

The figures are the hooks' own, so the kernel has to be started with them: `gpumem kernel` adds one to
Jupyter, `gpumem run jupyter lab` starts all kernels so."""

import itertools
import sys
from typing import Any, List

from IPython.core.magic import Magics, line_cell_magic, magics_class

from . import _cells, _sizes

_NUMBERS = itertools.count(1)
_SHOWN = "_gpumem_shown"
_HOW = (
    "gpumem: this kernel runs without libgpumem.so, so no memory is measured. Start it with the library: "
    "`gpumem kernel` adds such a kernel to Jupyter, `gpumem run jupyter lab` (or `gpumem run ipython`) starts it so."
)


@magics_class
class GpuMem(Magics):
    """The magics."""

    _told = False

    @line_cell_magic
    def gpumem(self, line: str, cell: "str | None" = None) -> None:
        """Measures a cell line by line, a statement, or says what is live now."""
        if cell is None and not line.strip():
            self._live()
        elif not self._measures():
            self._pass_on(self.shell.run_cell(line if cell is None else cell))
        elif cell is None:
            self._statement(line)
        else:
            self._cell(cell)

    def _measures(self) -> bool:
        """Whether there is a recorder; says once what to do if there is none."""
        import gpumem

        version = gpumem.api_version()
        if version is not None and version >= 4:
            return True
        if not self._told:
            self._told = True
            print(_HOW)
        return False

    def _cell(self, cell: str) -> None:
        import gpumem

        name = f"__gpumem_meter_{next(_NUMBERS)}__"
        meter = _cells.Meter()
        # Functions that the cell defines reach the meter as long as they live.
        self.shell.push({name: meter}, interactive=False)
        instrument = _cells.Instrument(name)
        transformers = self.shell.ast_transformers
        transformers.append(instrument)
        whole = gpumem.scope("cell").begin()
        try:
            result = self.shell.run_cell(cell)
        finally:
            transformers.remove(instrument)
            meter.close()
            whole.end()
        if result.error_before_exec is not None:
            pass  # It is not Python: nothing ran.
        elif whole.source != "hooks":
            print("gpumem: nothing is recorded in this kernel: it was forked from a process that is")
        else:
            print(_cells.table(cell, meter.lines) or "gpumem: the cell used no GPU memory")
            for text in _said(_cells.figures(whole)):
                print(f"the cell: {text}")
        self._pass_on(result)

    def _statement(self, line: str) -> None:
        import gpumem

        scope = gpumem.scope(line).begin()
        try:
            result = self.shell.run_cell(line)
        finally:
            scope.end()
        if result.error_before_exec is None:
            for text in _said(_cells.figures(scope)) or ["no GPU memory was used"]:
                print(f"gpumem: {text}")
        self._pass_on(result)

    def _live(self) -> None:
        import gpumem

        if not self._measures():
            return
        rows = []
        for device in range(63):
            at = gpumem.counters(device)
            if any(map(any, at)):
                rows.append(
                    f"GPU {device}: tensors {_sizes.text(at.tensor.live_bytes)} (peak "
                    f"{_sizes.text(at.tensor.peak_bytes)}), from CUDA {_sizes.text(at.driver.live_bytes)} (peak "
                    f"{_sizes.text(at.driver.peak_bytes)}), of the card {_sizes.text(at.physical.live_bytes)}"
                )
        print("\n".join(rows) or "gpumem: no GPU memory has been used yet")

    def _pass_on(self, result: Any) -> None:
        """Raises what the cell raised, so that a notebook stops there as it would without the magic."""
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            _hide_once(self.shell, error)
            raise error


def _hide_once(shell: Any, error: BaseException) -> None:
    """Has the shell not show an error that the inner cell has shown already. Any other error it shows as before."""
    # The error is marked and not kept: its frames hold tensors.
    setattr(error, _SHOWN, True)
    before = vars(shell).get("showtraceback")

    def showtraceback(exc_tuple: Any = None, *arguments: Any, **options: Any) -> None:
        if vars(shell).get("showtraceback") is showtraceback:
            if before is None:
                del shell.showtraceback
            else:
                shell.showtraceback = before
        if not getattr((exc_tuple or sys.exc_info())[1], _SHOWN, False):
            (before or type(shell).showtraceback.__get__(shell))(exc_tuple, *arguments, **options)

    shell.showtraceback = showtraceback


def _said(found: "dict[tuple[int, str], _cells.Figures]") -> List[str]:
    """A line for each GPU: tensors, and what CUDA gave."""
    said = []
    for device in sorted({device for device, _ in found}):
        parts = []
        for level, words in (("tensor", "tensors"), ("driver", "from CUDA")):
            at = found.get((device, level))
            if at is not None:
                change = f"{'+' if at.used >= 0 else ''}{_sizes.text(at.used)}"
                parts.append(f"{words} {change} (peak +{_sizes.text(at.peak)})")
        said.append(f"GPU {device}: {', '.join(parts)}")
    return said


def load(shell: Any) -> None:
    """What `%load_ext gpumem` does."""
    shell.register_magics(GpuMem)
