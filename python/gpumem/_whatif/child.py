"""Replays in separate processes, because PyTorch reads settings once, when it sets up its allocator.

This process gets the path of libgpumem_whatif.so, imports PyTorch once and forks for each line of JSON on stdin:
{"capture", "device", "card", "settings", "assumed", "most_reserved", "save", "doubts"}. It runs on the simulated card
with that library preloaded first. The library makes PyTorch's own allocator perform the capture's allocations. Lines of
JSON on stdout are {"progress": 0.4}, and at the end of each request {"figures": …, "outcome": …} or {"error": …}."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

FIGURES = (
    "allocated_bytes.all.peak",
    "requested_bytes.all.peak",
    "active_bytes.all.peak",
    "inactive_split_bytes.all.peak",
    "reserved_bytes.all.peak",
    "reserved_bytes.all.current",
    "segment.all.peak",
    "segment.all.allocated",
    "num_alloc_retries",
    "num_ooms",
    "num_device_alloc",
    "num_device_free",
    "num_sync_all_streams",
)
# The functions whose calls are counted, as in whatif/src/calls.rs.
CALLED = (
    "cudaMalloc", "cudaFree", "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
    "cuMemRelease",
)  # fmt: skip
SET = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)
PROGRESS = ctypes.CFUNCTYPE(None, ctypes.c_double)
UNKNOWN = 2**64 - 1
# c10::DeviceType of CUDA.
CUDA = 1
STREAMS_OF_A_PRIORITY = 32
# The assumption about streams, as in unknown.py.
OTHER_STREAMS = 4


class Request(ctypes.Structure):
    _fields_ = [
        ("capture", ctypes.c_char_p),
        ("device", ctypes.c_uint64),
        ("survey", ctypes.c_void_p),
        ("streams", ctypes.c_void_p),
        ("stream_count", ctypes.c_uint64),
        ("own_bytes", ctypes.c_uint64),
        ("set", SET),
        ("progress", PROGRESS),
        ("save", ctypes.c_char_p),
        ("card_bytes", ctypes.c_uint64),
        ("facts", ctypes.c_void_p),
        ("fact_count", ctypes.c_uint64),
        ("assumed", ctypes.c_uint64),
        ("most_reserved", ctypes.c_uint64),
    ]


class Fact(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Outcome(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "allocations", "sizes_unknown", "placements_unknown", "recorded_failures", "saved", "failed_seq",
            "failed_bytes", "failed_foreign", "failed_time", "failed_step", "exact_until", "recorded_allocated",
            "recorded_reserved", "foreign_peak", "fractions", "last_seq", "stand_ins", "waits_unknown", "stopped_seq",
        )
    ] + [("calls", (ctypes.c_uint64 * 2) * len(CALLED))]


class Failed(Exception):
    """There is no result; the message is the reason."""


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def figures(torch: Any) -> dict[str, int]:
    stats = torch.cuda.memory_stats()
    return {name: stats.get(name, 0) for name in FIGURES}


def own_bytes(torch: Any) -> int:
    """The bytes of this process on the card without the allocator's memory."""
    free, total = torch.cuda.mem_get_info()
    return int(total - free - torch.cuda.memory_reserved())


class Library:
    """libgpumem_whatif.so, and its surveys of captures."""

    def __init__(self, path: str):
        self._library = ctypes.CDLL(path)
        self._library.gpumem_whatif_survey.restype = ctypes.c_void_p
        self._library.gpumem_whatif_streams.restype = ctypes.c_uint64
        self._library.gpumem_whatif_replay.restype = ctypes.c_int64
        self._surveys: dict[tuple[Any, ...], int] = {}

    def survey(self, capture: str, device: int) -> int:
        """The survey of a capture, which replays need. Made once, before the first fork for it."""
        try:
            file = os.stat(capture)
        except OSError as error:
            raise Failed(f"{capture}: {error.strerror}") from None
        key = (capture, device, file.st_ino, file.st_mtime_ns, file.st_size)
        if key not in self._surveys:
            message = ctypes.create_string_buffer(1024)
            made = self._library.gpumem_whatif_survey(capture.encode(), ctypes.c_uint64(device), message)
            if not made:
                raise Failed(message.value.decode("utf-8", "replace"))
            self._surveys[key] = made
        return self._surveys[key]

    def streams(self, survey: int) -> list[tuple[int, int]]:
        """Handles of the recorded streams, with PyTorch's numbers."""
        room = 0
        while True:
            pairs = (ctypes.c_uint64 * (2 * room))()
            count = self._library.gpumem_whatif_streams(ctypes.c_void_p(survey), pairs, ctypes.c_uint64(room))
            if count <= room:
                return [(pairs[2 * n], pairs[2 * n + 1]) for n in range(count)]
            room = count

    def replay(self, request: Request) -> Outcome:
        message, outcome = ctypes.create_string_buffer(1024), Outcome()
        if self._library.gpumem_whatif_replay(ctypes.byref(request), ctypes.byref(outcome), message):
            raise Failed(message.value.decode("utf-8", "replace"))
        return outcome


def streams_here(torch: Any, recorded: list[tuple[int, int]], assumed: int) -> tuple[list[Any], list[int]]:
    """The same streams in this process, and for each the recorded handle, the handle here and PyTorch's number here.
    PyTorch's pool of streams gives a number the same stream in every process of a release. A stream without a number
    is replaced by any other, if possible by a different one for each."""
    if recorded:
        torch.cuda.Stream()  # creates the pool
    here = {handle: stream for handle, number in recorded if (stream := stream_of(torch, number))}
    taken = {stream.cuda_stream for stream in here.values()}
    others = (torch.cuda.Stream(priority=priority) for priority in (0, -1) for _ in range(STREAMS_OF_A_PRIORITY))
    for handle, _ in reversed(recorded) if assumed & OTHER_STREAMS else recorded:
        if handle not in here:
            free = (stream for stream in others if stream.cuda_stream not in taken)
            here[handle] = next(free, None) or torch.cuda.Stream()
            taken.add(here[handle].cuda_stream)
    words = [word for handle, stream in here.items() for word in (handle, stream.cuda_stream, stream.stream_id)]
    return list(here.values()), words


def stream_of(torch: Any, number: int) -> Any:
    """The stream with a number; None if there is no such stream."""
    if number == UNKNOWN:
        return None
    try:
        stream = torch.cuda.Stream(stream_id=number, device_index=0, device_type=CUDA)
        stream.synchronize()
    except RuntimeError:
        return None  # a number of another release
    return stream


def set_at_run_time(torch: Any, settings: str) -> int:
    """Applies settings as the recorded program did; 0 if PyTorch accepted them."""
    for name in ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"):
        function = getattr(torch._C, name, None)
        if function:
            try:
                function(settings)
            except (RuntimeError, ValueError):
                return 1
            return 0
    return 1


def facts(torch: Any, request: dict[str, Any]) -> Any:
    """The facts about a replay for its capture."""
    said = {
        "replayed_capture": request["capture"],
        "replayed_device": str(request["device"]),
        "replayed_settings": request["settings"],
        "replayed_card": str(request["card"]),
        "replayed_pytorch": torch.__version__,
        "replayed_doubts": "\n".join(request["doubts"]),
        "allocator_conf": request["settings"],
    }
    return (Fact * len(said))(*(Fact(key.encode(), value.encode()) for key, value in said.items()))


def replay(torch: Any, library: Library, survey: int, request: dict[str, Any]) -> dict[str, Any]:
    os.environ["GPUMEM_SIM_MEMORY"] = str(request["card"])
    # Newer releases read the first name, older ones the second.
    os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = request["settings"]
    torch.cuda.init()
    torch.cuda.synchronize()
    streams, words = streams_here(torch, library.streams(survey), request["assumed"])
    array = (ctypes.c_uint64 * len(words))(*words)
    torch.cuda.reset_peak_memory_stats()
    progress = PROGRESS(lambda of: say({"progress": round(of, 3)}))
    capture, handles = request["capture"].encode(), ctypes.cast(array, ctypes.c_void_p)
    setter = SET(lambda text: set_at_run_time(torch, text.decode()))
    said = facts(torch, request)
    # The file with its final name is always complete.
    part = f"{request['save']}.{os.getpid()}.part" if request.get("save") else None
    wanted = Request(
        capture, request["device"], survey, handles, len(streams), own_bytes(torch), setter, progress,
        part.encode() if part else None, request["card"], ctypes.cast(said, ctypes.c_void_p), len(said),
        request["assumed"], request["most_reserved"],
    )  # fmt: skip
    try:
        outcome = library.replay(wanted)
        if part:
            os.rename(part, request["save"])
    finally:
        if part and os.path.exists(part):
            os.unlink(part)
    numbers = {name: getattr(outcome, name) for name, *_ in Outcome._fields_ if name != "calls"}
    calls = {name: list(counts) for name, counts in zip(CALLED, outcome.calls)}
    return {"figures": figures(torch), "outcome": numbers, "calls": calls, "torch": torch.__version__}


def answer(torch: Any, library: Library, survey: int, request: dict[str, Any]) -> None:
    """Replays in this process, which then ends."""
    try:
        say(replay(torch, library, survey, request))
    except Failed as error:
        say({"error": str(error)})
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        say({"error": f"{type(error).__name__}: {first}"})


def main() -> int:
    try:
        import torch
    except ImportError as error:
        say({"error": f"{sys.executable} has no PyTorch: {error}"})
        return 1
    library = Library(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            survey = library.survey(request["capture"], request["device"])
        except Failed as error:
            say({"error": str(error)})
            continue
        child = os.fork()
        if child == 0:
            answer(torch, library, survey, request)
            # Without PyTorch's shutdown: the process has no more output.
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            say({"error": f"the replay was ended by signal {os.WTERMSIG(status)}"})
        elif os.WEXITSTATUS(status):
            say({"error": f"the replay ended with status {os.WEXITSTATUS(status)}"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
