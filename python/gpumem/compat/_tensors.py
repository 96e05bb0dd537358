"""The tensors on a card that Python can access, each memory once."""

import bisect
import gc
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

__all__ = ["Seen", "dtype_bytes", "six", "storage", "tensors", "unseen", "visible"]


class Seen(NamedTuple):
    """A memory that tensors share: the tensor that represents it, and the memory's bytes."""

    tensor: Any
    bytes: int


def _ignore(_error: Exception) -> None:
    pass


def tensors(device: int, trouble: Callable[[Exception], None] = _ignore) -> List[Any]:
    """Every tensor on a card that garbage collection can reach. `trouble` gets the errors of objects that cannot be
    inspected."""
    import torch

    found = []
    for thing in gc.get_objects():
        # isinstance would query proxies for their class, which can run any code.
        if not issubclass(type(thing), torch.Tensor):
            continue
        try:
            if thing.is_cuda and thing.device.index == device:
                found.append(thing)
        except Exception as error:  # a subclass of Tensor that is not one (fake, lazy, half made)
            trouble(error)
    return found


def visible(device: int, trouble: Callable[[Exception], None] = _ignore) -> List[Seen]:
    """The memories of the tensors that Python can access. Views count with their base, and hold all of it even if
    the base itself is gone."""
    by_memory: Dict[int, Seen] = {}
    for tensor in tensors(device, trouble):
        try:
            address, size = storage(tensor)
        except Exception:  # no memory (sparse, nested, meta)
            continue
        if size == 0:
            continue
        known = by_memory.get(address)
        if known is None or _stands_for(tensor) > _stands_for(known.tensor):
            by_memory[address] = Seen(tensor, size)
    return list(by_memory.values())


def _stands_for(tensor: Any) -> Tuple[Any, ...]:
    """The preferred tensor to represent a memory: a parameter, not a view, the larger one."""
    import torch

    return (isinstance(tensor, torch.nn.Parameter), tensor._base is None, tensor.numel())


def storage(tensor: Any) -> Tuple[Any, ...]:
    """Address and bytes of a tensor's memory."""
    if hasattr(tensor, "untyped_storage"):
        whole = tensor.untyped_storage()
        return whole.data_ptr(), whole.nbytes()
    typed = tensor.storage()
    return typed.data_ptr(), typed.nbytes()


def unseen(device: int, seen: List[Seen]) -> int:
    """Bytes of the allocated blocks of PyTorch's pool without a tensor that Python can access: tensors that autograd
    saved, and workspaces. 0 if the pool does not list its blocks."""
    import torch

    addresses = sorted(storage(one.tensor)[0] for one in seen)
    try:
        segments = torch.cuda.memory_snapshot() if torch.cuda.is_initialized() else []
    except RuntimeError:  # an allocator without blocks (cudaMallocAsync)
        return 0
    hidden = 0
    for segment in segments:
        if segment["device"] != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            end = address + block["size"]
            if block["state"] == "active_allocated":
                place = bisect.bisect_left(addresses, address)
                if place == len(addresses) or addresses[place] >= end:
                    hidden += block["size"]
            address = end
    return hidden


def six(value: float) -> str:
    """A figure in at most six characters, as in the original, but rounded instead of cut."""
    text = repr(float(value))
    if len(text) > 6 or "e" in text:
        decimals = 4
        text = f"{value:.{decimals}f}"
        while len(text) > 6 and decimals:
            decimals -= 1
            text = f"{value:.{decimals}f}"
    return text


def dtype_bytes() -> Dict[Any, float]:
    """Bytes of one number of each PyTorch type that a tensor can have here."""
    import torch

    found: Dict[Any, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that support of a type is experimental
        for dtype in {value for value in vars(torch).values() if isinstance(value, torch.dtype)}:
            try:
                found[dtype] = float(torch.empty(0, dtype=dtype).element_size())
            except Exception:  # a type that a plain tensor cannot have
                continue
    return found
