"""One rank of many, alone: process groups are PyTorch's fake ones. Their collectives return at once, as if all ranks
had the same data. For each group that would use NCCL, the simulated NCCL has a communicator with its memory.

RANK and WORLD_SIZE define the rank, as with launchers; the planner sets them."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any, Callable, Dict, Sequence

FAKE = "fake"


def install(torch: Any) -> None:
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    _replace(torch, c10d, "init_process_group", _first_group(torch, c10d.init_process_group))
    for name in ("new_group", "split_group"):
        if hasattr(c10d, name):
            _replace(torch, c10d, name, _another_group(torch, getattr(c10d, name)))
    _replace(torch, c10d, "get_backend", _backend(c10d.get_backend))
    _replace(torch, c10d, "barrier", _barrier(torch, c10d.barrier))
    _replace(torch, c10d, "destroy_process_group", _end(c10d.destroy_process_group))


def _replace(torch: Any, c10d: Any, name: str, function: Callable[..., Any]) -> None:
    """Replaces the function in all modules that have it under its name."""
    before = getattr(c10d, name)
    for module in (c10d, torch.distributed):
        if getattr(module, name, None) is before:
            setattr(module, name, function)


def _options(fake: Any) -> Any:
    """The option for results as if all ranks had the same data, in releases that have it."""
    # In older releases `Options` belongs to other backends.
    options = vars(fake).get("Options")
    if options is None:
        return None
    made = options()
    if not hasattr(made, "simulate_uniform_ranks"):
        return None
    made.simulate_uniform_ranks = True
    return made


def _first_group(torch: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def init_process_group(backend: Any = None, *_: Any, **options: Any) -> Any:
        from torch.testing._internal.distributed import fake_pg

        asked["backend"] = str(backend or "nccl")
        world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
        kept = {name: options[name] for name in ("timeout",) if options.get(name) is not None}
        made = _options(fake_pg.FakeProcessGroup)
        if made is not None:
            kept["pg_options"] = made
        real(FAKE, store=fake_pg.FakeStore(), world_size=world, rank=rank, **kept)
        if _is_nccl(asked["backend"]):
            _communicate(torch, world, rank)

    return init_process_group


def _another_group(torch: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def group(*words: Any, **options: Any) -> Any:
        backend = options.get("backend") or asked.get("backend", "")
        for name in ("backend", "pg_options", "device_id"):
            options.pop(name, None)
        # ranks, timeout, backend, …; parent, ranks, timeout, …
        made = real(*words[:2], **options)
        rank = torch.distributed.get_rank(made) if made is not None else -1
        if rank >= 0 and _is_nccl(str(backend)):
            _communicate(torch, torch.distributed.get_world_size(made), rank)
        return made

    return group


def _backend(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def get_backend(*words: Any, **options: Any) -> Any:
        """The backend that was requested: programs depend on it."""
        said = real(*words, **options)
        return asked.get("backend", said) if said == FAKE else said

    return get_backend


def _barrier(torch: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    """NCCL's barrier is a collective on one number of the group, which PyTorch's newer process group keeps."""
    keeps = hasattr(torch._C._distributed_c10d, "ProcessGroupNCCL2")
    empty = torch.empty

    @functools.wraps(real)
    def barrier(group: Any = None, *words: Any, **options: Any) -> Any:
        if _is_nccl(asked.get("backend", "")) and torch.distributed.get_rank(group) >= 0:
            name = getattr(group, "group_name", "")
            number = numbers[name] if name in numbers else empty(1, dtype=torch.float32, device="cuda")
            if keeps:
                numbers[name] = number
        return real(group, *words, **options)

    return barrier


def _end(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def destroy_process_group(group: Any = None) -> None:
        if group is None:
            numbers.clear()
        numbers.pop(getattr(group, "group_name", ""), None)
        real(group)

    return destroy_process_group


def _is_nccl(backend: str) -> bool:
    return "nccl" in backend


class _UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def _communicate(torch: Any, world: int, rank: int) -> None:
    """Allocates NCCL's memory for a group: a communicator, and a collective, which allocates its buffers."""
    if world < 2:
        return
    try:
        nccl = ctypes.CDLL("libnccl.so.2")
    except OSError:
        sys.stderr.write("gpumem: the simulated NCCL is missing: its memory is not in the plan\n")
        return
    # The GPU that the program will use.
    with torch.cuda.device(int(os.environ.get("LOCAL_RANK", "0"))):
        torch.cuda.current_stream().synchronize()  # its context now exists
        _take_buffers(torch, nccl, world, rank)


def _take_buffers(torch: Any, nccl: Any, world: int, rank: int) -> None:
    ident, communicator, memory = _UniqueId(), ctypes.c_void_p(), ctypes.c_void_p()
    size, floats, add = ctypes.c_size_t(256), 7, 0
    steps: Sequence[Callable[[], int]] = (
        lambda: nccl.ncclGetUniqueId(ctypes.byref(ident)),
        lambda: nccl.ncclCommInitRank(ctypes.byref(communicator), world, ident, rank),
        lambda: nccl.ncclMemAlloc(ctypes.byref(memory), size),
        lambda: nccl.ncclAllReduce(memory, memory, ctypes.c_size_t(64), floats, add, communicator, None),
        lambda: nccl.ncclMemFree(memory),
    )
    status = next((status for step in steps if (status := step())), 0)
    if status == 1 and torch.cuda.mem_get_info()[0] < 64 << 20:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory: NCCL's buffers")
    if status:
        sys.stderr.write(f"gpumem: the simulated NCCL ended with {status}: its memory is not in the plan\n")


# The numbers that barriers of groups add up.
numbers: Dict[str, Any] = {}
# The backend that the program requested.
asked: "dict[str, str]" = {}
