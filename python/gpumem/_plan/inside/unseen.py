"""Code that writes device memory without the dispatch mode: compiled regions, Triton's kernels, replays of CUDA graphs.

Their arguments become unknown. They are detected where PyTorch and Triton start them."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from .known import Known


def watch(torch: Any, known: Known, hide: Callable[[Any], None]) -> None:
    """Makes `known` forget what such code may write. `hide` excludes this code from the compiler."""

    def around(owner: Any, name: str, keys_of: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            # No tensor is kept: a list of arguments may be emptied to free them.
            keys = keys_of(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                known.forget(keys)

        hide(call)
        setattr(owner, name, call)

    def of_all(*args: Any, **kwargs: Any) -> Any:
        return known.keys(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))

    def of_list(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return of_all(*inputs)

    for each in (of_all, of_list, known.keys, known.forget, _everything):
        hide(each)
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is not None:
        around(graph, "replay", functools.partial(_everything, known))
    when_imported("torch._inductor.output_code", lambda module: around(module.CompiledFxGraph, "__call__", of_list))
    when_imported("triton.runtime.jit", lambda module: around(module.JITFunction, "run", of_all))


def _everything(known: Known, *_: Any) -> Any:
    """A graph does not show what it writes."""
    return known.device_keys()


def when_imported(name: str, act: Callable[[Any], None], without: str = "what its code writes is taken for known") -> None:
    """Calls `act` with a module once it has been imported; `without` is the consequence if the module lacks what
    `act` needs."""

    def attempt(module: Any) -> None:
        try:
            act(module)
        except AttributeError as error:
            sys.stderr.write(f"gpumem: {name}: {error}: {without}\n")

    if name in sys.modules:
        attempt(sys.modules[name])
        return

    class Waiting:
        def find_spec(self, wanted: str, path: Any = None, target: Any = None) -> Any:
            if wanted != name:
                return None
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(wanted, path, target) if finder is not self and find else None
                if spec is not None:
                    _after_its_body(spec.loader, self._loaded)
                    return spec
            return None

        def _loaded(self, module: Any) -> None:
            sys.meta_path.remove(self)
            attempt(module)

    sys.meta_path.insert(0, Waiting())


def _after_its_body(loader: Any, act: Callable[[Any], Any]) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module
        execute(module)
        act(module)

    loader.exec_module = exec_module
