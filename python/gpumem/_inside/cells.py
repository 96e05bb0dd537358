"""The effect of each line of a notebook's cell on GPU memory.

The syntax tree of a cell is changed before it runs: each statement is put into a scope of the recorder, which is
exact. A line's figures include its calls. Lines of functions that the cell defines are measured, too, for all calls
while the cell runs."""

import ast
import threading
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from .._text import sizes
from . import scopes

# Statements without an effect on memory, or that cannot be wrapped.
_LEFT_ALONE = (ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TRY = tuple(getattr(ast, name) for name in ("Try", "TryStar") if hasattr(ast, name))
_LEFT_BY_EXCEPTIONS = (ast.With, ast.AsyncWith, *_TRY)
_MATCH = tuple(getattr(ast, name) for name in ("Match",) if hasattr(ast, name))


class Figures(NamedTuple):
    """Figures of a line on one device at one level, in bytes, over all its runs."""

    used: int  #: Added: what was live after it less what was live before.
    peak: int  #: Most that was live at once above what was live before it: of the run that took most.


class Line:
    """A line of the cell."""

    def __init__(self) -> None:
        self.runs = 0
        self.figures: Dict[Tuple[int, str], Figures] = {}

    def add(self, found: Dict[Tuple[int, str], Figures], runs: int) -> None:
        """Adds a run of the line, or a part of one."""
        self.runs += runs
        for place, new in found.items():
            old = self.figures.get(place, Figures(0, 0))
            self.figures[place] = Figures(old.used + new.used, max(old.peak, new.peak))


class Meter:
    """Measures lines while a changed cell runs and calls it. Only lines on the cell's thread are measured."""

    def __init__(self) -> None:
        self.lines: Dict[int, Line] = {}
        self._open: List[Tuple[int, Any, int]] = []
        self._thread: Optional[int] = threading.get_ident()

    def _here(self) -> bool:
        return self._thread == threading.get_ident()

    def begin(self, number: int, runs: int = 1) -> None:
        """Begins a line; with `runs=0`, a part of it."""
        if self._here():
            self._open.append((number, _scope(f"line {number}"), runs))

    def end(self) -> None:
        """Ends the line that began last."""
        if self._here() and self._open:
            number, scope, runs = self._open.pop()
            scope.end()
            self.lines.setdefault(number, Line()).add(figures(scope), runs)

    def line(self, number: int) -> "_Running":
        """A context manager for the line."""
        return _Running(self, number)

    def body(self) -> "_Running":
        """A context manager for a body that an exception may leave: it ends the lines that the exception leaves."""
        return _Running(self, None)

    def iterate(self, number: int, values: Iterable[Any]) -> Iterator[Any]:
        """The values. The memory for making each belongs to the line."""
        iterator = iter(values)
        while True:
            with _Running(self, number):
                try:
                    value = next(iterator)
                except StopIteration:
                    return
            yield value
            del value  # the loop holds it; the meter must not keep it alive

    def depth(self) -> int:
        """The number of lines in progress."""
        return len(self._open)

    def end_to(self, depth: int) -> None:
        """Ends lines that an exception has left open."""
        while self._here() and len(self._open) > depth:
            self.end()

    def close(self) -> None:
        """Ends the cell. Its functions may still run later, unmeasured."""
        self.end_to(0)
        self._thread = None


class _Running:
    def __init__(self, meter: Meter, number: Optional[int]) -> None:
        self._meter, self._number, self._depth = meter, number, 0

    def __enter__(self) -> None:
        self._depth = self._meter.depth()
        if self._number is not None:
            self._meter.begin(self._number)

    def __exit__(self, *_: object) -> None:
        self._meter.end_to(self._depth)


def _scope(name: str) -> Any:
    return scopes.scope(name).begin()


def figures(scope: Any) -> Dict[Tuple[int, str], Figures]:
    """A scope's figures of each device and level that it affected."""
    found = {}
    for device in scope.devices():
        at = scope.device(device)
        for level in ("tensor", "driver"):
            row = getattr(at, level)
            if row.allocations or row.frees:
                found[device, level] = Figures(row.change, row.peak)
    return found


class Instrument(ast.NodeTransformer):
    """Puts each statement of a cell into a scope of its first line; the meter is the cell's global with the given
    name. Statements that suspend (yield, await) are not changed, because other code runs in the meantime."""

    def __init__(self, meter: str) -> None:
        self._meter = meter

    def visit_Module(self, node: ast.Module) -> ast.Module:
        node.body = self._block(node.body, last_is_shown=True)
        return ast.fix_missing_locations(node)

    def _block(self, body: List[ast.stmt], last_is_shown: bool = False) -> List[ast.stmt]:
        return [
            self._statement(statement, place == 0, last_is_shown and place == len(body) - 1)
            for place, statement in enumerate(body)
        ]

    def _statement(self, node: Any, first: bool, shown: bool) -> Any:
        if isinstance(node, _LEFT_ALONE) or (first and _is_text(node)) or _is_future(node):
            return node
        if isinstance(node, _DEFINITIONS):
            node.body = self._block(node.body)
            return node
        if isinstance(node, (ast.For, ast.While, ast.If, ast.With, ast.AsyncFor, ast.AsyncWith, *_TRY, *_MATCH)):
            return self._compound(node)
        if _stops(node):
            return node
        if shown and isinstance(node, ast.Expr):
            # IPython shows the value of a cell's last expression, so it must remain an expression.
            node.value = self._measured(node.value)
            return node
        return self._within("line", [node], node.lineno)

    def _compound(self, node: Any) -> Any:
        """A statement with a body: its head is measured, and each statement of the body."""
        if isinstance(node, (ast.While, ast.If)):
            node.test = self._measured(node.test)
        elif isinstance(node, ast.For) and not _stops(node.iter):
            node.iter = self._call("iterate", node.iter.lineno, self._measured(node.iter, 0))
        elif isinstance(node, ast.With):
            for item in node.items:
                item.context_expr = self._measured(item.context_expr)
        for name in ("body", "orelse", "finalbody"):
            if getattr(node, name, None):
                setattr(node, name, self._block(getattr(node, name)))
        if isinstance(node, _LEFT_BY_EXCEPTIONS) and not any(map(_stops, node.body)):
            node.body = [self._within("body", node.body)]
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            part.body = self._block(part.body)
        return node

    def _measured(self, value: ast.expr, runs: int = 1) -> ast.expr:
        """`(begin, value, end)[1]`: names stay in this scope, which a function would change."""
        if _stops(value):
            return value
        parts = [self._call("begin", value.lineno, runs), value, self._call("end")]
        index: Any = ast.Constant(value=1)
        if not hasattr(ast, "unparse"):  # Python 3.8
            index = ast.Index(value=index)
        whole = ast.Subscript(value=ast.Tuple(elts=parts, ctx=ast.Load()), slice=index, ctx=ast.Load())
        return ast.copy_location(whole, value)

    def _within(self, method: str, body: List[ast.stmt], *arguments: Any) -> ast.stmt:
        item = ast.withitem(context_expr=self._call(method, *arguments), optional_vars=None)
        return ast.copy_location(ast.With(items=[item], body=body), body[0])

    def _call(self, method: str, *arguments: Any) -> ast.Call:
        """A call of a meter's method."""
        function = ast.Attribute(value=ast.Name(id=self._meter, ctx=ast.Load()), attr=method, ctx=ast.Load())
        values: List[Any] = [item if isinstance(item, ast.AST) else ast.Constant(value=item) for item in arguments]
        return ast.Call(func=function, args=values, keywords=[])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _stops(node: ast.AST) -> bool:
    """Whether the node contains a yield or await of this function, not of an inner function."""
    if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
        return True
    if isinstance(node, (*_DEFINITIONS, ast.Lambda)):
        return False
    return any(_stops(child) for child in ast.iter_child_nodes(node))


def table(source: str, lines: Dict[int, Line]) -> Optional[str]:
    """The cell's lines with their figures; None if they did not affect GPU memory. Figures are of tensors if there
    were any, else of the driver."""
    places = {place for line in lines.values() for place in line.figures}
    level = "tensor" if any(of == "tensor" for _, of in places) else "driver"
    devices = sorted(device for device, of in places if of == level)
    if not devices:
        return None
    named = "tensors" if level == "tensor" else "memory from CUDA"
    rows: List[str] = []
    for device in devices:
        on = f" on GPU {device}" if len(devices) > 1 or device else ""
        rows.append(f"{'used':>11} {'peak':>11} {'runs':>6}  line  {named}{on}")
        for number, text in enumerate(source.splitlines(), 1):
            line = lines.get(number)
            if line is None:
                rows.append(f"{'':>11} {'':>11} {'':>6}  {number:>4}  {text}".rstrip())
                continue
            used, peak = line.figures.get((device, level), Figures(0, 0))
            rows.append(f"{sizes.change(used):>11} {sizes.change(peak):>11} {line.runs:>6,}  {number:>4}  {text}".rstrip())
    return "\n".join(rows)
