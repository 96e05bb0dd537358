"""Steps of PyTorch: measures the memory on the card for each in addition to PyTorch's allocator."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, List, Optional

from .libraries import NotHere
from .readings import Readings

_SIDE = 512


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise NotHere("this Python has no PyTorch") from None
    if not torch.cuda.is_available():
        raise NotHere("this Python's PyTorch does not find the card")
    return torch


def _half(torch: Any) -> Any:
    """The data type of mixed-precision training on the card."""
    return torch.bfloat16 if torch.cuda.get_device_capability(0) >= (8, 0) else torch.float16


def _matmul(torch: Any) -> Callable[[], Any]:
    left = torch.ones(_SIDE, _SIDE, device="cuda")
    return lambda: left @ left


def _linear(torch: Any) -> Callable[[], Any]:
    """With a bias, so that it uses cublasLt."""
    of = {"device": "cuda", "dtype": _half(torch)}
    rows, weight, bias = (torch.ones(*shape, **of) for shape in ((_SIDE, _SIDE), (_SIDE, _SIDE), (_SIDE,)))
    return lambda: torch.nn.functional.linear(rows, weight, bias)


def _conv(torch: Any) -> Callable[[], Any]:
    if not torch.backends.cudnn.is_available():
        raise NotHere("this PyTorch has no cuDNN")
    of = {"device": "cuda", "dtype": _half(torch)}
    images, weight = torch.ones(2, 16, 32, 32, **of), torch.ones(16, 16, 3, 3, **of)
    return lambda: torch.nn.functional.conv2d(images, weight)


def _sdpa(torch: Any) -> Callable[[], Any]:
    heads = torch.ones(2, 4, 128, 64, device="cuda", dtype=_half(torch))
    return lambda: torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


# By the name in a card's file. Each function makes the arguments, and returns the function to measure.
STEPS: Dict[str, Callable[[Any], Callable[[], Any]]] = {
    "torch-matmul": _matmul,
    "torch-linear": _linear,
    "torch-conv": _conv,
    "torch-sdpa": _sdpa,
}


def _take(torch: Any, readings: Readings, name: str, **more: int) -> None:
    torch.cuda.synchronize()
    readings.take(name, reserved=torch.cuda.memory_reserved(0), **more)


def first_tensor(readings: Readings) -> Any:
    """PyTorch's first tensor: the memory of its runtime and its first kernel."""
    torch = _torch()
    readings.take("before", reserved=0)
    tensor = torch.ones(1, device="cuda")
    _take(torch, readings, "after")
    return tensor


def one(name: str, readings: Readings) -> None:
    """One step after the first tensor."""
    torch = _torch()
    tensor = torch.ones(1, device="cuda")
    run = STEPS[name](torch)
    allocated = torch.cuda.memory_allocated(0)
    torch.cuda.reset_peak_memory_stats(0)
    _take(torch, readings, "before")
    result = run()
    # The peak in addition to the result is the library's workspace.
    size = -(-result.numel() * result.element_size() // 512) * 512
    most = torch.cuda.max_memory_allocated(0) - allocated - size
    _take(torch, readings, "after", workspace=most)
    del tensor


def everything(readings: Readings) -> List[str]:
    """A first tensor and all steps, forward and backward, in one process. Returns the steps that failed."""
    torch = _torch()
    readings.take("before", reserved=0)
    tensor = torch.ones(1, device="cuda")
    failed = []
    for name, step in STEPS.items():
        if _fails(step, torch) is not None:
            failed.append(name)
    weight = torch.ones(_SIDE, _SIDE, device="cuda", requires_grad=True)
    (weight @ weight).sum().backward()
    _take(torch, readings, "after")
    del tensor
    return failed


def _fails(step: Callable[[Any], Callable[[], Any]], torch: Any) -> Optional[str]:
    try:
        step(torch)()
    except (RuntimeError, AttributeError, NotHere) as error:
        return str(error)
    return None
