"""`%mlrun`, in line and cell form: `%load_ext gpumem.compat.pytorch_memlab`, then `%mlrun -f work work(1)`."""

import argparse
import shlex
from typing import Any, Dict, Optional

from .line_profiler import DEFAULT_COLUMNS, LineProfiler

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ValueError(f"%mlrun: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%mlrun", description="Runs a statement, and shows memory by line of functions.")
    parser.add_argument("-f", "--function", action="append", default=[], help="function to profile; any number")
    parser.add_argument("-c", "--column", action="append", default=[], help="column to add; any number")
    parser.add_argument("-D", "--no_default_columns", action="store_true", help="only the columns of -c")
    parser.add_argument("-g", "--gpu", type=int, default=0, help="the card, by CUDA's ordinal (0)")
    parser.add_argument("-r", "--return-profiler", action="store_true", help="the profiler is the result")
    parser.add_argument("-q", "--quiet", action="store_true", help="show nothing")
    parser.add_argument("-T", "--dump-profile", metavar="FILE", help="write the tables to a file as well")
    parser.add_argument("statement", nargs=argparse.REMAINDER)
    return parser


def mlrun(line: str, cell: Optional[str], names: Dict[str, Any]) -> Optional[LineProfiler]:
    """The magic's work, in a notebook's names."""
    # The statement is kept as it was typed: only what stands before it is taken apart.
    words = shlex.split(line, posix=False)
    options = _parser().parse_args(words)
    statement = cell
    if cell is None:
        taken = len(words) - len(options.statement)
        rest = line
        for word in words[:taken]:
            rest = rest[rest.index(word) + len(word):]
        statement = rest.strip()
    functions = [eval(name, names) for name in options.function]  # noqa: S307: the user's own words
    profiler = LineProfiler(*functions, target_gpu=options.gpu)
    with profiler:
        exec(statement or "", names)  # noqa: S102
    columns = (() if options.no_default_columns else DEFAULT_COLUMNS) + tuple(options.column)
    shown = profiler.display(columns=columns)
    if options.dump_profile:
        with open(options.dump_profile, "w", encoding="utf-8") as file:
            file.write(f"{shown!r}\n")
    if not options.quiet:
        _show(shown)
    return profiler if options.return_profiler else None


def _show(shown: Any) -> None:
    try:
        from IPython.display import display
    except ImportError:
        print(shown)
    else:
        display(shown)


def load_ipython_extension(ipython: Any) -> None:
    """Called by `%load_ext`."""
    ipython.register_magic_function(
        lambda line, cell=None: mlrun(line, cell, ipython.user_ns), "line_cell", "mlrun"
    )


def unload_ipython_extension(ipython: Any) -> None:
    """Called by `%unload_ext`."""
    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop("mlrun", None)
