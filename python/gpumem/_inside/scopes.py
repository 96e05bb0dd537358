"""Scopes: the GPU memory that a part of the program added, and its peak.

    with gpumem.scope("forward") as s:
        out = model(batch)
    print(s.used, s.peak)

A scope covers the whole process, not one thread: allocations of all threads during the scope count. Any number can
be open at once, nested or not. With libgpumem.so preloaded the figures are exact. Without it they are samples of
PyTorch's counters; `source` shows this, and a warning is printed once."""

import functools
import inspect
from typing import Any, Callable, List, NamedTuple, Optional, TypeVar, Union, overload

from .._machine import devices as _devices
from .._machine.ordinals import DeviceLike, ordinal, ordinal_or_none
from .._text import sizes
from . import library, samples

F = TypeVar("F", bound=Callable[..., Any])


class Figures(NamedTuple):
    """A scope's figures of one device at one level, in bytes and calls."""

    start: int  #: Bytes live when it began.
    live: int  #: Bytes live now, or when it ended.
    highest: int  #: Peak of the live bytes between begin and end.
    allocations: int  #: Allocations between begin and end.
    frees: int  #: Frees between begin and end.

    @property
    def change(self) -> int:
        """Bytes added: live − start; negative if more was freed than allocated."""
        return self.live - self.start

    @property
    def used(self) -> int:
        """Bytes added; 0 if more was freed than allocated."""
        return max(self.change, 0)

    @property
    def peak(self) -> int:
        """Peak of the live bytes above the start."""
        return self.highest - self.start


class DeviceFigures(NamedTuple):
    """A scope's figures of one device, at each level: see `gpumem.DeviceCounters`."""

    tensor: Figures  #: Tensors in the framework's pool.
    driver: Figures  #: Memory that the process requested from CUDA.
    host: Figures  #: Pinned host memory.
    physical: Figures  #: Memory of the card.


_NONE = Figures(0, 0, 0, 0, 0)
# The number of devices with counters.
_DEVICES = 63
_READY, _OPEN, _ENDED = "not begun", "goes on", "ended"


class Scope:
    """A part of the program; made by `gpumem.scope`. Its figures `used`, `change` and `peak` are those of tensors on
    one device: `device`, or the device that was current when the scope began. `device(n)` has all levels of any
    device. The figures change until the scope ends, and then stay."""

    def __init__(self, name: str = "", *, device: Optional[DeviceLike] = None) -> None:
        self.name = name
        self._number = 0
        self._state = _READY
        self._asked = ordinal_or_none(device)
        self._current: Optional[int] = None
        self._sample: Optional[samples.Sample] = None
        self._source = "none"

    def begin(self) -> "Scope":
        """Begins the scope, or begins it again if it has ended. Raises RuntimeError if it runs."""
        if self._state is _OPEN:
            raise RuntimeError(f"scope {self.name!r} has begun: call end(), or reset() to begin again")
        self._start()
        return self

    def reset(self) -> None:
        """Begins the scope again, whether it has ended or not."""
        self._start()

    def end(self) -> None:
        """Ends the scope: its figures stay. No effect if it has ended."""
        if self._state is not _OPEN:
            return
        if self._number:
            self._source = "hooks" if library.scope_end(self._number) else "none"
        elif self._sample is not None:
            self._source = "sampled" if self._sample.end() else "none"
        self._current = self._device()
        self._state = _ENDED

    def _start(self) -> None:
        if not (self._number and library.scope_reset(self._number)):
            self._number = library.scope_begin(self.name)
        self._sample = None
        if not self._number:
            samples.warn_once()
            self._sample = samples.Sample()
        self._current = _devices.chosen()
        self._state = _OPEN

    def __enter__(self) -> "Scope":
        return self.begin()

    def __exit__(self, *_: object) -> None:
        self.end()

    def __del__(self) -> None:
        number = getattr(self, "_number", 0)
        if number and library is not None:  # None at the end of the interpreter
            library.scope_forget(number)

    def __call__(self, function: F) -> F:
        """Decorates a function, a coroutine function or a generator function: each call has a separate scope with
        this name. `function.scope` is the scope of the call that ended last. A generator's scope lasts from its
        first step to its end, including the time in which other code runs."""
        return _decorated(function, self.name, self._asked)

    @property
    def source(self) -> str:
        """The source of the figures: "hooks", exact; "sampled", samples of PyTorch's counters;
        "none": the figures are zeros."""
        if self._state is not _OPEN:
            return self._source
        if self._number:
            return "none" if library.scope_read(self._number, 0, 0) is None else "hooks"
        return "sampled" if self._sample is not None and self._sample.take() else "none"

    def _device(self) -> int:
        """The device of `used`, `change` and `peak`. Before CUDA is used, there is no current device."""
        if self._asked is not None:
            return self._asked
        if self._current is not None:
            return self._current
        return _devices.current()

    def _read(self, device: int, level: int) -> Figures:
        if self._number:
            row = library.scope_read(self._number, device, level)
            return _NONE if row is None else Figures(*row)
        if self._sample is not None and level == library.TENSOR:
            if self._state is _OPEN:
                self._sample.take()
            return Figures(*self._sample.figures(device))
        return _NONE

    def device(self, device: DeviceLike) -> DeviceFigures:
        """The scope's figures of a device, in bytes and calls. Raises ValueError if there is no such device."""
        of = ordinal(device)
        return DeviceFigures(*(self._read(of, level) for level in library.LEVELS))

    def devices(self) -> List[int]:
        """The devices for which the scope has figures: ordinals in this process."""
        return [device for device in range(_DEVICES) if any(map(any, self.device(device)))]

    @property
    def used(self) -> int:
        """Bytes of tensors that the scope has added; 0 if it freed more than it allocated."""
        return self._read(self._device(), library.TENSOR).used

    @property
    def change(self) -> int:
        """Bytes of tensors that the scope has added; negative if it freed more than it allocated."""
        return self._read(self._device(), library.TENSOR).change

    @property
    def peak(self) -> int:
        """Peak of the live bytes of tensors above the start."""
        return self._read(self._device(), library.TENSOR).peak

    def __repr__(self) -> str:
        what = f"<gpumem scope {self.name!r}"
        if self._state is _READY:
            return f"{what}: not begun>"
        device, source = self._device(), self.source
        figures = self._read(device, library.TENSOR)
        if source == "none":
            return f"{what}: nothing is recorded>"
        told = ", sampled" if source == "sampled" else ""
        ended = " so far" if self._state is _OPEN else ""
        return (
            f"{what}: tensors on GPU {device} {'+' * (figures.change >= 0)}{sizes.text(figures.change)}, "
            f"peak +{sizes.text(figures.peak)}{ended}{told}>"
        )


@overload
def scope(name: F) -> F: ...
@overload
def scope(name: str = ..., *, device: Optional[DeviceLike] = ...) -> Scope: ...
def scope(name: Union[str, Callable[..., Any]] = "", *, device: Optional[DeviceLike] = None) -> Any:
    """Makes a scope for `with`, for `begin()` and `end()`, or as a decorator, also without parentheses. A function's
    scope then has its qualified name. The scope has not begun. `device` selects the device of `used`, `change` and `peak`;
    without it, that is the device which is current when the scope begins."""
    if callable(name):
        return _decorated(name, getattr(name, "__qualname__", ""), device)
    return Scope(name, device=device)


def _decorated(function: F, name: str, device: Optional[DeviceLike]) -> F:
    def ended(scope: Scope) -> None:
        wrapper.scope = scope

    wrapper: Any
    if inspect.isasyncgenfunction(function):
        wrapper = _async_generator(function, name, device, ended)
    elif inspect.iscoroutinefunction(function):

        async def run(*args: Any, **named: Any) -> Any:
            with _Call(name, device, ended):
                return await function(*args, **named)

        wrapper = run
    elif inspect.isgeneratorfunction(function):

        def steps(*args: Any, **named: Any) -> Any:
            with _Call(name, device, ended):
                return (yield from function(*args, **named))

        wrapper = steps
    else:

        def call(*args: Any, **named: Any) -> Any:
            with _Call(name, device, ended):
                return function(*args, **named)

        wrapper = call
    wrapper = functools.wraps(function)(wrapper)
    wrapper.scope = Scope(name, device=device)
    return wrapper  # type: ignore[no-any-return]


class _Call:
    """The scope of one call, which is passed to `ended` when it has ended."""

    def __init__(self, name: str, device: Optional[DeviceLike], ended: Callable[[Scope], None]) -> None:
        self._scope, self._ended = Scope(name, device=device), ended

    def __enter__(self) -> Scope:
        return self._scope.begin()

    def __exit__(self, *_: object) -> None:
        self._scope.end()
        self._ended(self._scope)


def _async_generator(
    function: Callable[..., Any], name: str, device: Optional[DeviceLike], ended: Callable[[Scope], None]
) -> Callable[..., Any]:
    async def steps(*args: Any, **named: Any) -> Any:
        with _Call(name, device, ended):
            inner = function(*args, **named)
            try:
                value = await inner.__anext__()
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        await inner.aclose()
                        raise
                    except BaseException as error:
                        value = await inner.athrow(error)
                    else:
                        value = await inner.asend(sent)
            except StopAsyncIteration:
                return

    return steps
