"""Detects the start and end of lines of chosen functions, together with other tools that do the same."""

import sys
from types import CodeType, FrameType
from typing import Any, Callable, Dict, Optional

__all__ = ["Watcher", "watcher"]

# The function that a watcher calls: the frame's key, its code, and the line that begins; None when the frame is left.
Seen = Callable[[int, CodeType, Optional[int]], None]


class Watcher:
    """Watches lines of the codes that were added, from `start` to `stop`."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._codes: Dict[CodeType, None] = {}
        self.running = False

    def add(self, code: CodeType) -> None:
        self._codes[code] = None

    def forget(self) -> None:
        """Stops watching all codes."""
        self._codes.clear()

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


class _Monitor(Watcher):
    """With sys.monitoring (PEP 669): only the watched codes have a cost."""

    _tool = -1

    def add(self, code: CodeType) -> None:
        super().add(code)
        if self.running:
            self._arm(code, True)

    def forget(self) -> None:
        if self.running:
            for code in self._codes:
                self._arm(code, False)
        super().forget()

    def _arm(self, code: CodeType, on: bool) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        events = monitoring.events
        wanted = events.PY_START | events.LINE | events.PY_RETURN | events.PY_YIELD | events.PY_RESUME
        monitoring.set_local_events(self._tool, code, wanted if on else 0)

    def start(self) -> None:
        if self.running:
            return
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        free = [tool for tool in (3, 4, 2, 1, 5, 0) if monitoring.get_tool(tool) is None]
        if not free:
            raise RuntimeError("every tool id of sys.monitoring is in use: stop another profiler first")
        self._tool = free[0]
        monitoring.use_tool_id(self._tool, "gpumem")
        events = monitoring.events
        begun = lambda code, _offset: self._tell(code, code.co_firstlineno)  # noqa: E731
        left = lambda code, _offset, _value: self._tell(code, None)  # noqa: E731
        for event, call in (
            (events.PY_START, begun), (events.PY_RESUME, begun), (events.LINE, self._tell),
            (events.PY_RETURN, left), (events.PY_YIELD, left), (events.PY_UNWIND, left),
        ):
            monitoring.register_callback(self._tool, event, call)
        monitoring.set_events(self._tool, events.PY_UNWIND)
        self.running = True
        for code in self._codes:
            self._arm(code, True)

    def _tell(self, code: CodeType, line: Optional[int]) -> None:
        if code not in self._codes:
            return
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        self._seen(id(frame), code, line)

    def stop(self) -> None:
        if not self.running:
            return
        self.running = False
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        for code in self._codes:
            self._arm(code, False)
        monitoring.set_events(self._tool, 0)
        monitoring.free_tool_id(self._tool)


class _Tracer(Watcher):
    """With sys.settrace, on this thread; an existing trace function is called as if it were alone."""

    _earlier: Optional[Callable[..., Any]] = None

    def add(self, code: CodeType) -> None:
        super().add(code)
        if self.running and sys.gettrace() is None:  # other code has removed the trace function
            self._earlier = None
            sys.settrace(self._trace)

    def start(self) -> None:
        if not self.running:
            self.running = True
            self._earlier = sys.gettrace()
            sys.settrace(self._trace)

    def stop(self) -> None:
        if self.running:
            self.running = False
            if sys.gettrace() == self._trace:
                sys.settrace(self._earlier)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Optional[Callable[..., Any]]:
        earlier = self._earlier(frame, event, arg) if self._earlier is not None else None
        if frame.f_code not in self._codes or not self.running:
            return earlier
        self._seen(id(frame), frame.f_code, frame.f_code.co_firstlineno)
        inner = [earlier]

        def local(frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
            if inner[0] is not None:
                inner[0] = inner[0](frame, event, arg)
            if self.running and event in ("line", "return"):
                self._seen(id(frame), frame.f_code, frame.f_lineno if event == "line" else None)
            return local

        return local


def watcher(seen: Seen) -> Watcher:
    """The least intrusive watcher that this Python has."""
    return _Monitor(seen) if hasattr(sys, "monitoring") else _Tracer(seen)
