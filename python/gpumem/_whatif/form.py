"""The JSON of `gpumem whatif`."""

from __future__ import annotations

from typing import List, Literal, Optional, TypedDict

from .._text.forms import Form

Figures = TypedDict(
    "Figures",
    {
        "allocated_bytes.all.peak": int,
        "requested_bytes.all.peak": int,
        "active_bytes.all.peak": int,
        "inactive_split_bytes.all.peak": int,
        "reserved_bytes.all.peak": int,
        "reserved_bytes.all.current": int,
        "segment.all.peak": int,
        "segment.all.allocated": int,
        "num_alloc_retries": int,
        "num_ooms": int,
        "num_device_alloc": int,
        "num_device_free": int,
        "num_sync_all_streams": int,
    },
)
Figures.__doc__ = "Figures of PyTorch's allocator, with the names of `torch.cuda.memory_stats()`."


class Called(TypedDict):
    """Calls of a function by the allocator."""

    succeeded: int  #: Calls that succeeded.
    failed: int  #: Calls that failed.


class Calls(TypedDict):
    """Calls of CUDA by the allocator, by function."""

    cudaMalloc: Called  #: Allocates a segment.
    cudaFree: Called  #: Frees a segment.
    cuMemAddressReserve: Called  #: Reserves addresses of an expandable segment.
    cuMemAddressFree: Called  #: Frees addresses.
    cuMemCreate: Called  #: Allocates physical memory of an expandable segment.
    cuMemMap: Called  #: Maps it.
    cuMemSetAccess: Called  #: Makes a mapping accessible.
    cuMemUnmap: Called  #: Unmaps it.
    cuMemRelease: Called  #: Releases physical memory.


class FirstFailure(TypedDict):
    """The first allocation that fails in the replay. The replay ends with it."""

    event: int  #: The event of the capture at which it fails.
    bytes: int  #: Bytes that were requested.
    of: Literal["PyTorch", "another library"]  #: Who requested them.
    allocations_before: int  #: Allocations before it.
    time_ns: int  #: The event's time in ns since recording began.
    steps_before: int  #: Complete steps before it.


class ReplayRow(TypedDict):
    """A device's run under some settings."""

    settings: str  #: The settings, in the form of PYTORCH_CUDA_ALLOC_CONF; empty: PyTorch's defaults.
    card_bytes: int  #: Memory of the card in the replay.
    figures: Figures  #: The figures of the replay, or of the worst of several.
    figures_least: Figures  #: The least of each figure over all replays.
    figures_greatest: Figures  #: The greatest of each figure over all replays.
    fits: Optional[bool]  #: Whether no allocation fails; `null`: some replays fit, others do not.
    calls: Calls  #: The allocator's calls of CUDA.
    time_in_calls_ns: Optional[int]  #: The time of these calls, from the mean times in the capture; `null`: the capture has no time of one of them.
    calls_without_time: List[str]  #: Calls of which the capture has no time.
    failure: Optional[FirstFailure]  #: The first failure; `null`: every replay fits.
    recorded_failures: int  #: Allocations that failed in the run.
    recorded_failures_saved: int  #: How many of these do not fail in the replay.
    smallest_card_bytes: Optional[int]  #: The smallest card on which nothing fails; `null`: not requested, or it does not fit the card.
    smallest_card_least_bytes: Optional[int]  #: The lower end of that figure, if several replays were needed.
    replays: int  #: The number of replays: more than 1 if the capture leaves something open.
    stopped_at_event: Optional[int]  #: Where a replay was stopped, because it reserved more than the recorded settings do; `null`: complete.
    saved: Optional[str]  #: The capture of the replay (`--save`).


class Device(TypedDict):
    """A GPU of a capture."""

    capture: str  #: The capture's file.
    device: int  #: Ordinal.
    card_bytes: int  #: Memory of the recorded card.
    settings: str  #: The recorded settings.
    reserved_peak_bytes: int  #: The recorded peak of reserved memory.
    allocated_peak_bytes: int  #: The recorded peak of allocated memory.
    replays: List[ReplayRow]  #: One row for each of the settings, the recorded ones first.


class Whatif(TypedDict):
    """Replays of a run in PyTorch's allocator."""

    exact: bool  #: Whether the figures are those of a rerun. The exit code is 3 if not.
    doubts: List[str]  #: Why they may differ from a rerun's, one sentence each.
    pytorch: str  #: The version of the PyTorch that replays.
    devices: List[Device]  #: The GPUs of all captures.


FORM = Form("whatif", Whatif, of_captures=True)
