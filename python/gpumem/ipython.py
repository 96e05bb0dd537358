"""`%load_ext gpumem`: the effect of a cell or a line of a notebook on GPU memory.

    %%gpumem           the cell runs as usual, followed by the bytes of each of its lines
    %gpumem f(x)       the memory that one statement adds, and its peak
    %gpumem            live memory

The figures come from the hooks, so the kernel must be started with them: `gpumem kernel` adds such a kernel to
Jupyter, `gpumem run jupyter lab` starts all kernels with them."""

import itertools
import sys
from typing import Any, List

from IPython.core.magic import Magics, line_cell_magic, magics_class

from ._inside import cells
from ._inside.counters import counters
from ._inside.library import api_version
from ._inside.scopes import scope as scoped
from ._text import sizes

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
        """Measures a cell line by line, or a statement, or prints the live memory."""
        if cell is None and not line.strip():
            self._live()
        elif not self._measures():
            self._pass_on(self.shell.run_cell(line if cell is None else cell))
        elif cell is None:
            self._statement(line)
        else:
            self._cell(cell)

    def _measures(self) -> bool:
        """Whether there is a recorder. Prints advice once if there is not."""
        version = api_version()
        if version is not None and version >= 4:
            return True
        if not self._told:
            self._told = True
            print(_HOW)
        return False

    def _cell(self, cell: str) -> None:
        name = f"__gpumem_meter_{next(_NUMBERS)}__"
        meter = cells.Meter()
        # Functions that the cell defines use the meter as long as they live.
        self.shell.push({name: meter}, interactive=False)
        instrument = cells.Instrument(name)
        transformers = self.shell.ast_transformers
        transformers.append(instrument)
        whole = scoped("cell").begin()
        try:
            result = self.shell.run_cell(cell)
        finally:
            transformers.remove(instrument)
            meter.close()
            whole.end()
        if result.error_before_exec is not None:
            pass  # It is not Python, so nothing ran.
        elif whole.source != "hooks":
            print("gpumem: nothing is recorded in this kernel: it was forked from a process that is")
        else:
            print(cells.table(cell, meter.lines) or "gpumem: the cell used no GPU memory")
            for text in _said(cells.figures(whole)):
                print(f"the cell: {text}")
        self._pass_on(result)

    def _statement(self, line: str) -> None:
        scope = scoped(line).begin()
        try:
            result = self.shell.run_cell(line)
        finally:
            scope.end()
        if result.error_before_exec is None:
            for text in _said(cells.figures(scope)) or ["no GPU memory was used"]:
                print(f"gpumem: {text}")
        self._pass_on(result)

    def _live(self) -> None:
        if not self._measures():
            return
        rows = []
        for device in range(63):
            at = counters(device)
            if any(map(any, at)):
                rows.append(
                    f"GPU {device}: tensors {sizes.text(at.tensor.live_bytes)} (peak "
                    f"{sizes.text(at.tensor.peak_bytes)}), from CUDA {sizes.text(at.driver.live_bytes)} (peak "
                    f"{sizes.text(at.driver.peak_bytes)}), of the card {sizes.text(at.physical.live_bytes)}"
                )
        print("\n".join(rows) or "gpumem: no GPU memory has been used yet")

    def _pass_on(self, result: Any) -> None:
        """Raises the cell's exception, so that a notebook stops there as it would without the magic."""
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            _hide_once(self.shell, error)
            raise error


def _hide_once(shell: Any, error: BaseException) -> None:
    """Prevents the shell from showing an error that the inner cell has already shown. Other errors are shown."""
    # The error is marked, not kept, because its frames hold tensors.
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


def _said(found: "dict[tuple[int, str], cells.Figures]") -> List[str]:
    """A line for each GPU: tensors, and memory of the driver."""
    said = []
    for device in sorted({device for device, _ in found}):
        parts = []
        for level, words in (("tensor", "tensors"), ("driver", "from CUDA")):
            at = found.get((device, level))
            if at is not None:
                change = f"{'+' if at.used >= 0 else ''}{sizes.text(at.used)}"
                parts.append(f"{words} {change} (peak +{sizes.text(at.peak)})")
        said.append(f"GPU {device}: {', '.join(parts)}")
    return said


def load(shell: Any) -> None:
    """Called by `%load_ext gpumem`."""
    shell.register_magics(GpuMem)
