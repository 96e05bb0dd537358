"""`modelsize_estimate` of Pytorch-Memory-Utils: the size of a model's parameters and intermediate results.

`modelsize(model, input)` prints the original's three lines, in decimal MB. It runs the unchanged model once, so
that nested models are right, too. `modelsize(model, input, measure=True)` also prints the memory that a forward
and a backward pass take on the card, module by module if they differ."""

import contextlib
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from .._inside import meter as _meter

__all__ = ["Measured", "ModelSize", "ModuleSize", "modelsize"]


class ModuleSize(NamedTuple):
    """One run of a module without children: bytes of its results, and bytes of tensors that became live in it
    (None if not measured)."""

    name: str
    kind: str
    estimated: int
    held: Optional[int]


class Measured(NamedTuple):
    """Bytes of tensors in addition to the model and its input."""

    held: int  # after the forward pass, for backward
    forward_peak: int
    backward_peak: int
    source: str  # hooks (exact), or sampled: PyTorch's own counters
    modules: List[ModuleSize]


class ModelSize(NamedTuple):
    """The result of `modelsize`, in bytes at `type_size` bytes per number, as in the original."""

    parameters: int
    parameter_bytes: int
    forward_bytes: int
    with_backward_bytes: int
    measured: Optional[Measured]


def modelsize(model: Any, input: Any, type_size: int = 4, measure: bool = False) -> ModelSize:
    """Prints and returns the sizes of a model for an input. The model does not change: no gradients, the same
    buffers and random numbers."""
    import torch

    name = model._get_name()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    with _undone(torch, model, input), torch.no_grad():
        modules = _run(model, input.clone(), None)[1]
    numbers = sum(module.estimated for module in modules)
    size = ModelSize(parameters, parameters * type_size, numbers * type_size, numbers * type_size * 2, None)
    print(f"Model {name} : params: {size.parameter_bytes / 1e6:4f}M")
    print(f"Model {name} : intermedite variables: {size.forward_bytes / 1e6:3f} M (without backward)")
    print(f"Model {name} : intermedite variables: {size.with_backward_bytes / 1e6:3f} M (with backward)")
    if not measure:
        return size
    if not getattr(input, "is_cuda", False):
        print(f"Model {name} : not measured, the input is not on a GPU")
        return size
    size = size._replace(measured=_measured(torch, model, input))
    _tell(name, size, type_size)
    return size


def _tell(name: str, size: ModelSize, type_size: int) -> None:
    measured = size.measured
    assert measured is not None
    how = "measured" if measured.source == "hooks" else "by PyTorch's own counters"
    print(f"Model {name} : {how}: {measured.held / 1e6:3f} M held after forward (peak {measured.forward_peak / 1e6:3f} M)")
    print(f"Model {name} : {how}: {measured.backward_peak / 1e6:3f} M at the peak of backward")
    for module in measured.modules:
        estimated, held = module.estimated * type_size, module.held or 0
        if estimated != held:
            print(
                f"  {module.name} ({module.kind}): estimated {estimated / 1e6:3f} M, held {held / 1e6:3f} M: "
                f"{_reason(module.kind, estimated, held)}"
            )


def _reason(kind: str, estimated: int, held: int) -> str:
    if held < estimated:
        return "its result is not kept, or is a view of its input"
    if held - estimated < 2 * 2**20:
        return "rounded up to the pool's blocks"
    if "MaxPool" in kind:
        return "backward needs its indices, 8 bytes each"
    return "it saves more than its result for backward, or keeps a workspace"


def _tensors(result: Any) -> Iterator[Any]:
    """The tensors of a module's result."""
    if hasattr(result, "numel"):
        yield result
    elif isinstance(result, dict):
        for value in result.values():
            yield from _tensors(value)
    elif isinstance(result, (list, tuple)):
        for value in result:
            yield from _tensors(value)


def _run(model: Any, input: Any, device: Optional[int]) -> Tuple[Any, List[ModuleSize]]:
    """Runs the model. For each module without children, returns the size of its results in numbers (not bytes),
    with the live memory after it on `device`. Results in place count as 0."""
    modules: List[ModuleSize] = []
    live = [0 if device is None else _meter.used(device, _meter.TENSOR)]

    def watch(name: str, module: Any) -> Any:
        def ran(_module: Any, _args: Any, result: Any) -> None:
            inplace = bool(getattr(module, "inplace", False))
            numbers = 0 if inplace else sum(tensor.numel() for tensor in _tensors(result))
            held = None
            if device is not None:
                now = _meter.used(device, _meter.TENSOR)
                held, live[0] = now - live[0], now
            modules.append(ModuleSize(name, type(module).__name__, numbers, held))

        return module.register_forward_hook(ran)

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    hooks = [watch(name or "model", module) for name, module in leaves]
    try:
        return model(input), modules
    finally:
        for hook in hooks:
            hook.remove()


def _measured(torch: Any, model: Any, input: Any) -> Measured:
    device = input.device.index
    with _undone(torch, model, input):
        mark = _meter.Mark(device, name="modelsize")
        with torch.enable_grad(), _on_this_thread(torch):
            result, modules = _run(model, input, device)
            forward = mark.read(_meter.TENSOR)
            wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
            total = sum(tensor.sum() for tensor in _tensors(result) if tensor.is_floating_point())
            gradients = torch.autograd.grad(total, wanted, allow_unused=True) if wanted else ()
        whole = mark.read(_meter.TENSOR)
        mark.end()
        del result, total, gradients
    return Measured(
        forward.live - forward.start, forward.peak - forward.start, whole.peak - whole.start, mark.source, modules
    )


def _on_this_thread(torch: Any) -> Any:
    """Runs backward on the calling thread: PyTorch's thread would free the gradients later."""
    choose = getattr(torch.autograd, "set_multithreading_enabled", None)
    return contextlib.nullcontext() if choose is None else choose(False)


@contextlib.contextmanager
def _undone(torch: Any, model: Any, input: Any) -> Iterator[None]:
    """Restores buffers (running means) and random numbers."""
    kept = [buffer.detach().clone() for buffer in model.buffers()]
    devices = [input.device.index] if getattr(input, "is_cuda", False) else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(model.buffers(), kept):
                    buffer.copy_(value)
