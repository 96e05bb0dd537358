"""One rank of many, alone: what asks for a process group gets PyTorch's fake one. Its collectives return at once, as though all
ranks had the same data. For each group that would be NCCL's, the simulated NCCL has a communicator, and so its memory.

Which rank of how many is in RANK and WORLD_SIZE, as launchers have it; the planner sets them."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any, Callable, Dict

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
    """In all modules that have the function under its name."""
    before = getattr(c10d, name)
    for module in (c10d, torch.distributed):
        if getattr(module, name, None) is before:
            setattr(module, name, function)


def _options(fake: Any) -> Any:
    """That results are as though all ranks had the same data, where a release has such an option."""
    # Older releases have those of all backends here.
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
        """What was asked for: programs choose by it."""
        said = real(*words, **options)
        return asked.get("backend", said) if said == FAKE else said

    return get_backend


def _barrier(torch: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    """NCCL's is a collective of one number of the group's own, which PyTorch's newer process group keeps."""
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
    """NCCL's memory for a group: a communicator, and a collective, with which it takes its buffers."""
    if world < 2:
        return
    try:
        nccl = ctypes.CDLL("libnccl.so.2")
    except OSError:
        sys.stderr.write("gpumem: the simulated NCCL is missing: its memory is not in the plan\n")
        return
    # The GPU that the program takes sooner or later.
    with torch.cuda.device(int(os.environ.get("LOCAL_RANK", "0"))):
        torch.cuda.current_stream().synchronize()  # its context is there
        _take_buffers(torch, nccl, world, rank)


def _take_buffers(torch: Any, nccl: Any, world: int, rank: int) -> None:
    ident, communicator, memory = _UniqueId(), ctypes.c_void_p(), ctypes.c_void_p()
    size, floats, add = ctypes.c_size_t(256), 7, 0
    steps = (
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


# What barriers of groups add up.
numbers: Dict[str, Any] = {}
# What the program asked for.
asked: "dict[str, str]" = {}
