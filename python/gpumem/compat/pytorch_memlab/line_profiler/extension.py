"""`%mlrun`, as line and cell magic: `%load_ext gpumem.compat.pytorch_memlab`, then `%mlrun -f work work(1)`."""

import argparse
import shlex
from typing import Any, Dict, List, Optional

from .line_profiler import DEFAULT_COLUMNS, LineProfiler

__all__ = ["UsageError", "load_ipython_extension", "unload_ipython_extension"]

Names = Dict[str, Any]


class UsageError(Exception):
    """The arguments of `%mlrun` are invalid."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UsageError(f"%mlrun: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%mlrun", description="Runs a statement, and shows memory by line of functions.")
    parser.add_argument("-f", "--function", action="append", default=[], help="function to profile; any number")
    parser.add_argument("-c", "--column", action="append", default=[], help="column to add; any number")
    parser.add_argument("-D", "--no_default_columns", action="store_true", help="only the columns of -c")
    parser.add_argument("-g", "--gpu", type=int, default=0, help="the card, by CUDA's ordinal (0)")
    parser.add_argument("-r", "--return-profiler", action="store_true", help="the result is the profiler")
    parser.add_argument("-q", "--quiet", action="store_true", help="there is no result, so nothing is shown")
    parser.add_argument("-T", "--dump-profile", metavar="FILE", help="write the tables to a file as well")
    parser.add_argument("statement", nargs=argparse.REMAINDER)
    return parser


def mlrun(line: str, cell: Optional[str], names: Names, local: Optional[Names] = None) -> Any:
    """Runs the magic. The result is an object that shows the figures, or the profiler. `names` are the notebook's
    variables, `local` those of the function that contains the magic."""
    # The statement is kept as typed; only the part before it is parsed.
    words = shlex.split(line, posix=False)
    options = _parser().parse_args(words)
    statement = _rest(line, words[:len(words) - len(options.statement)]) if cell is None else cell
    inner = names if local is None else local
    profiler = LineProfiler(*(_function(name, names, inner) for name in options.function), target_gpu=options.gpu)
    with profiler:
        exec(compile(statement, "<ipython>", "exec"), names, inner)  # noqa: S102
    columns = (() if options.no_default_columns else DEFAULT_COLUMNS) + tuple(options.column)
    shown = profiler.display(columns=columns)
    if options.dump_profile:
        with open(options.dump_profile, "w", encoding="utf-8") as file:
            file.write(str(shown))
    if options.return_profiler:
        return profiler
    return None if options.quiet else shown


def _rest(line: str, words: List[str]) -> str:
    """The rest of a line after these words."""
    for word in words:
        line = line[line.index(word) + len(word):]
    return line.strip()


def _function(name: str, names: Names, inner: Names) -> Any:
    try:
        return eval(name, names, inner)  # noqa: S307: the user's own code
    except NameError as error:
        raise UsageError(f"Could not find function {name!r}.\n{type(error).__name__}: {error}") from error


def load_ipython_extension(ipython: Any) -> None:
    """Called by `%load_ext`."""

    def magic(line: str, cell: Optional[str] = None, local_ns: Optional[Names] = None) -> Any:
        return mlrun(line, cell, ipython.user_ns, local_ns)

    magic.needs_local_scope = True  # type: ignore[attr-defined]
    magic.__doc__ = _parser().format_help()
    ipython.register_magic_function(magic, "line_cell", "mlrun")


def unload_ipython_extension(ipython: Any) -> None:
    """Called by `%unload_ext`."""
    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop("mlrun", None)
