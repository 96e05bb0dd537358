"""The pytest plugin: limits on a test's GPU memory and leaks, and the tests with the highest memory use.

    @pytest.mark.limit_gpu_memory("2 GiB")
    @pytest.mark.limit_gpu_leaks("1 MiB")
    def test_forward(): ...

A test without the first mark has the limit of its id in gpumem.toml, if there is one (_inside/budgets.py).

The figures come from the hooks, so pytest must be started with them: `gpumem run -m pytest`. When the package is
installed, pytest finds the plugin. Tests without a mark are measured only with `--gpumem`."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any, Dict, Generator, Iterator, List, NamedTuple, Optional, Tuple

import pytest

from ._inside import budgets as _budgets
from ._text import sizes

_PROPERTY = "gpumem"
_MARKS = {
    "limit_gpu_memory": "limit_gpu_memory(size, level=None, device=None): fail the test if GPU memory "
    "rises by more than this above the live memory at its start",
    "limit_gpu_leaks": "limit_gpu_leaks(size, level=None, device=None): fail the test if live memory "
    "grows by more than this between its start and its end",
}
_LEVELS = _budgets.LEVELS
_BUDGETS = "gpumem-budgets"
_RUN = "start pytest as `gpumem run -m pytest …`"


class _Limit(NamedTuple):
    """A parsed mark, or a budget."""

    mark: str
    size: int
    level: Optional[str]
    device: Optional[int]
    is_budget: bool = False

    @property
    def said(self) -> str:
        """Its name in messages."""
        return f"budget in {_budgets.NAME}" if self.is_budget else self.mark


class _Use(NamedTuple):
    """A test's effect on one device at one level, in bytes."""

    device: int
    level: str
    peak: int
    left: int


class _Misused(Exception):
    """A mark's arguments are invalid; the message describes the error."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpumem", "GPU memory")
    group.addoption(
        "--gpumem", action="store_true", help=f"print the tests that took the most GPU memory at the end; {_RUN}"
    )
    group.addoption("--gpumem-top", type=int, default=10, metavar="N", help="number of tests to print (default: 10)")
    group.addoption(
        "--gpumem-missing",
        choices=("error", "skip", "ignore"),
        help="how to handle tests with a limit if nothing is recorded: error (the default), skip, or "
        "ignore the limit",
    )
    parser.addini("gpumem_missing", "as --gpumem-missing", default="error")


def pytest_configure(config: pytest.Config) -> None:
    for text in _MARKS.values():
        config.addinivalue_line("markers", text)
    if config.getini("gpumem_missing") not in ("error", "skip", "ignore"):
        raise pytest.UsageError("gpumem_missing is error, skip or ignore")
    if config.option.gpumem and not _recorded():
        raise pytest.UsageError(f"--gpumem needs libgpumem.so in this process: {_RUN}")
    try:
        folder = getattr(config, "rootpath", None) or str(config.rootdir)  # pytest before 6.1
        budgets = _budgets.of_tests(Path(folder))
    except _budgets.Wrong as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(_Budgets(budgets), _BUDGETS)
    config.pluginmanager.register(_Summary(), "gpumem-summary")


class _Budgets:
    """Budgets of tests, kept with the session's plugins."""

    def __init__(self, by_test: Dict[str, _budgets.Budget]) -> None:
        self.by_test = by_test


def _recorded() -> bool:
    """Whether this process was started with the library. (Scopes report separately whether they have figures: in a
    child forked from a recorded process they have none.)"""
    import gpumem

    version = gpumem.api_version()
    return version is not None and version >= 4


def _limits(item: pytest.Item) -> List[_Limit]:
    """The test's marks, the nearest one of each kind. Its budget, if no mark limits its memory."""
    limits: List[_Limit] = []
    budgets = item.config.pluginmanager.get_plugin(_BUDGETS)
    budget = _budgets.of_test(budgets.by_test, item.nodeid) if budgets else None
    if budget is not None and item.get_closest_marker("limit_gpu_memory") is None:
        limits.append(_Limit("limit_gpu_memory", budget.peak, budget.level, None, True))
    for name in _MARKS:
        mark = item.get_closest_marker(name)
        if mark is not None:
            limits.append(_understood(name, *mark.args, **mark.kwargs))
    return limits


def _understood(name: str, *arguments: Any, **named: Any) -> _Limit:
    def parsed(size: Any, level: Optional[str] = None, device: Optional[int] = None) -> _Limit:
        if level is not None and level not in _LEVELS:
            raise ValueError(f"level {level!r} is none of {', '.join(_LEVELS)}")
        return _Limit(name, sizes.parse(size), level, device)

    try:
        return parsed(*arguments, **named)
    except (TypeError, ValueError) as error:
        raise _Misused(f"@pytest.mark.{name}: {str(error).replace('_understood.<locals>.parsed', name)}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    limits: List[_Limit] = []
    misused = ""
    try:
        limits = _limits(item)
    except _Misused as error:
        misused = str(error)
    if misused:
        # Not within the exception handler, because pytest would report both errors.
        pytest.fail(misused, pytrace=False)
    if not limits or _recorded():
        return
    what = f"{limits[0].said} needs libgpumem.so in this process: {_RUN}"
    wanted = item.config.option.gpumem_missing or item.config.getini("gpumem_missing")
    if wanted == "skip":
        pytest.skip(what)
    if wanted == "error":
        pytest.fail(f"{what}, or set gpumem_missing = skip", pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    limits = _limits(item)
    if not (limits or item.config.option.gpumem) or not _recorded():
        yield
        return
    import gpumem

    counts_leaks = any(limit.mark == "limit_gpu_leaks" for limit in limits)
    if counts_leaks:
        gc.collect()  # existing garbage does not belong to the test
    scope = gpumem.scope(item.nodeid)
    scope.begin()
    outcome = yield
    if counts_leaks:
        # Unreachable cycles are not leaks.
        gc.collect()
    scope.end()
    uses = list(_uses(scope))
    item.user_properties.append((_PROPERTY, [list(use) for use in uses]))
    if outcome.excinfo is not None:
        return
    if limits and scope.source != "hooks":
        _fail(outcome, f"{limits[0].said}: nothing is recorded in this process (was it forked by another?)")
        return
    broken = [text for limit in limits for text in _broken(limit, uses)]
    if broken:
        _fail(outcome, "\n".join(broken))


def _uses(scope: Any) -> Iterator[_Use]:
    """The scope's figures of each device and level that was used in it."""
    for device in scope.devices():
        figures = scope.device(device)
        for level in _LEVELS:
            at = getattr(figures, level)
            if at.allocations or at.frees or at.peak or at.change:
                yield _Use(device, level, at.peak, at.change)


def _counted(uses: List[_Use], level: Optional[str], device: Optional[int]) -> Iterator[_Use]:
    """The uses that a limit applies to. Without a level: tensors if the test had any on that GPU, else memory of the
    driver. (A framework's pool allocates from CUDA depending on its history; tensors depend only on the test.)"""
    with_tensors = {use.device for use in uses if use.level == "tensor"}
    for use in uses:
        wanted = level or ("tensor" if use.device in with_tensors else "driver")
        if use.level == wanted and device in (None, use.device):
            yield use


_WORDS = {
    "tensor": "of tensors", "driver": "from CUDA", "physical": "of the card's memory", "host": "of pinned memory",
}  # fmt: skip


def _broken(limit: _Limit, uses: List[_Use]) -> Iterator[str]:
    """A line for each GPU on which the test exceeded the limit."""
    for use in _counted(uses, limit.level, limit.device):
        found = use.peak if limit.mark == "limit_gpu_memory" else use.left
        if found > limit.size:
            verb = "took" if limit.mark == "limit_gpu_memory" else "left"
            yield (
                f"{limit.said}: the test {verb} {_exactly(found)} {_WORDS[use.level]} on GPU {use.device}; "
                f"its limit is {_exactly(limit.size)}"
            )


def _exactly(size: int) -> str:
    rounded = sizes.text(size)
    return rounded if size < 1024 else f"{rounded} ({size:,} bytes)"


def _fail(outcome: Any, text: str) -> None:
    """Fails the test in its call phase, so that xfail, -x and reruns treat it like any failure."""
    error = pytest.fail.Exception(text, pytrace=False)
    if hasattr(outcome, "force_exception"):
        outcome.force_exception(error)
    else:  # pluggy before 1.1
        outcome._excinfo = (type(error), error, None)


class _Summary:
    """Collects the memory of the tests from all processes that run them, and prints the tests with the highest use."""

    def __init__(self) -> None:
        self._tests: Dict[str, List[_Use]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    self._tests[report.nodeid] = [_Use(*use) for use in value]

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if not config.option.gpumem:
            return
        rows: List[Tuple[int, str, _Use]] = []
        for test, uses in self._tests.items():
            for use in _counted(uses, None, None):
                rows.append((use.peak, test, use))
        # By bytes; equal ones by name, so that the order is reproducible.
        rows.sort(key=lambda row: (-row[0], row[1]))
        terminalreporter.section("GPU memory: the largest tests")
        if not rows:
            terminalreporter.line("no test used a GPU")
            return
        terminalreporter.line(f"{'peak':>10}  {'left':>10}  GPU  level   test")
        for peak, test, use in rows[: config.option.gpumem_top]:
            terminalreporter.line(
                f"{sizes.text(peak):>10}  {sizes.text(use.left):>10}  {use.device:>3}  {use.level:<6}  {test}"
            )
        if len(rows) > config.option.gpumem_top:
            terminalreporter.line(f"… and {len(rows) - config.option.gpumem_top} more (--gpumem-top N)")
