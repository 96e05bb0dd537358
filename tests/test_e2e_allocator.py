"""A capture has what a replay of PyTorch's caching allocator needs: compared with PyTorch's own trace of the same
process, entry by entry and in order.

What breaks these tests: reading another field of the allocator's block, omitting a call, a release that counts as
complete before the streams that use it have finished, and a placement's number that is used before its definition."""

import json
import struct

import harness
import pytest
from lanes import slow
import spec_reader

SCRIPT = harness.WORKLOADS / "allocator_programs.py"
ALLOC, FREE, OUT_OF_MEMORY, ALLOCATOR = 1, 2, 6, 28
RANGE, PROCESS, PLACEMENT = 141, 136, 145
CALLS = (
    None, "RELEASED", "RECORD_STREAM", "EMPTY_CACHE", "FRACTION", "POOL_BEGIN", "POOL_END", "POOL_RELEASE", "POOL_RETAIN",
    "CAPTURE_BEGIN", "CAPTURE_END", "USE_ON_OOM", "NO_SPLIT", "SETTINGS", "CHECKPOINT",
    "CHECKPOINT_END", "STATE",
)
UNKNOWN = 0xFFFFFFFF
ALL_SEEN = "requested stream record_stream released pool calls settings"


class Recorded:
    """A capture's records of the allocator."""

    def __init__(self, report):
        self.facts, self.rows, self.calls, self.stream_ids, self.slacks = {}, [], [], {}, set()
        self.placements, self.texts, self.used, self.own, self.states, self.taken = {}, {}, {}, {}, {}, 0
        for word, _, *fields in spec_reader.read(report).order.records:
            if word == "definition":
                self.defined(*fields)
            elif word == "event" and fields[8] == 0:
                self.happened(fields)
        self.rows = [row for row in self.rows if row]

    def defined(self, kind, *fields):
        if kind == PLACEMENT:
            number, device, stream, stream_id, *pool = fields
            self.placements[device, number] = (stream, pool)
            self.stream_ids[stream] = stream_id
        elif kind == PROCESS:
            self.facts[fields[0]] = fields[1]
        elif kind == RANGE:
            self.texts[fields[0]] = fields[1]

    def happened(self, fields):
        _, ptr, size, aux, _, _, _, kind, _, device, _, _, placement, slack = fields
        stream, pool = (0, [0, 0]) if placement == 0 else self.placements.get((device, placement), (None, None))
        if kind == ALLOC:
            self.slacks.add(slack)
            self.own[ptr], self.used[ptr] = stream, False
            self.rows.append(["alloc", ptr, None if slack == UNKNOWN else size - slack, stream, pool])
        elif kind == FREE:
            self.rows.append(["free_requested", ptr])
            if not self.used[ptr]:
                self.rows.append(["free_completed", ptr])
        elif kind == OUT_OF_MEMORY:
            self.rows.append(["oom", size, stream, pool])
        elif kind == ALLOCATOR:
            self.called(CALLS[aux], ptr, size, stream, pool)

    def called(self, name, ptr, size, stream, pool):
        if name == "RELEASED":
            assert self.used[ptr], "released without having waited"
            self.rows.append(["free_completed", ptr])
            return
        extra = []
        if name == "RECORD_STREAM":
            self.used[ptr] |= stream != self.own[ptr]
            extra = [ptr, stream]
        elif name in ("POOL_BEGIN", "POOL_END"):
            extra = [pool]
        elif name == "FRACTION":
            extra = [struct.unpack("<d", struct.pack("<Q", size))[0]]
        elif name == "SETTINGS":
            extra = [self.texts[size]]
        elif name == "STATE":
            # The newest one of an address is the one that is there.
            self.states[ptr] = self.taken
            self.taken, extra = self.taken + 1, [self.taken, pool]
        elif name.startswith("CHECKPOINT"):
            extra = [self.states[ptr], *([size] if name.endswith("END") else [])]
        self.calls.append([name, *extra])


def traced(entries):
    for action, address, size, stream, pool in entries:
        if action == "alloc":
            yield [action, address, size, stream, pool]
        elif action == "oom":
            yield [action, size, stream, pool]
        else:
            yield [action, address]


def run(start, program, folder, env=None, **options):
    """What a program recorded, and what PyTorch says. `start` runs it."""
    start([SCRIPT, program, folder / "trace.json"], cwd=folder, env={"GPUMEM_QUIET": "1", **(env or {})}, **options)
    return Recorded(folder / "report.bin"), json.loads((folder / "trace.json").read_text())


@pytest.mark.parametrize("program", ("train", "streams", "pools", "graphs", "checkpoints", *slow("full")))
def test_each_decision_is_as_in_pytorchs_own_trace(forks, tmp_path, program):
    memory = "64MiB" if program == "full" else "16GiB"
    small = {"GPUMEM_SIM_CONTEXT_BYTES": "0", "GPUMEM_SIM_MODULE_BYTES": "0", "GPUMEM_SIM_STREAM_BYTES": "0"}
    recorded, expected = run(forks("torch215").run, program, tmp_path, memory=memory, env=small)
    rows = list(traced(expected["trace"]))
    # What ends after the trace was taken is in the capture alone.
    assert len(rows) > 200 and recorded.rows[: len(rows)] == rows
    assert any(row[0] == "oom" for row in rows) == (program == "full")
    named = [call for call in recorded.calls if call[0] not in ("POOL_RELEASE", "POOL_RETAIN", "USE_ON_OOM")]
    assert named[: len(expected["calls"])] == expected["calls"]
    assert recorded.facts["allocator_sees"] == ALL_SEEN
    assert recorded.facts["allocator_backend"] == "native"
    assert recorded.facts["pytorch"].startswith("2.15")
    assert "allocator_conf" not in recorded.facts
    assert len(recorded.slacks) > 10
    if program == "streams":
        assert sorted(recorded.stream_ids.values()) == [3, 35]
        assert any(row[0] == "free_completed" for row in rows)
    if program == "checkpoints":
        assert sum(call[0] == "CHECKPOINT" for call in recorded.calls) > 10
        assert len(recorded.states) < recorded.taken, "no address was used again"


def test_before_2_0_streams_and_calls_are_recorded_and_requested_bytes_are_not(forks, tmp_path):
    recorded, expected = run(forks("torch112").run, "streams", tmp_path)
    allocations = [(row[1], row[2], row[3]) for row in recorded.rows if row[0] == "alloc"]
    assert allocations == [(address, None, stream) for _, address, _, stream in expected["trace"]]
    assert recorded.calls == expected["calls"]
    assert recorded.facts["allocator_sees"] == "stream record_stream calls"


def test_other_allocators_are_named_and_left_alone(python_env, tmp_path):
    code = "import torch; torch.empty(9, device='cuda'); torch.cuda.empty_cache(); print('well')"
    env = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "GPUMEM_OUTPUT": str(tmp_path / "report.bin")}
    done = harness.simulate([python_env("torch215"), "-c", code], preload=True, env=env, cwd=tmp_path)
    recorded = Recorded(tmp_path / "report.bin")
    assert done.stdout == "well\n" and recorded.calls == []
    assert recorded.facts["allocator_backend"] == "cudaMallocAsync"
    assert recorded.facts["allocator_conf"] == "backend:cudaMallocAsync"
    assert "allocator_sees" not in recorded.facts


@pytest.mark.parametrize("program", ("streams", pytest.param("pools", marks=pytest.mark.slow)))
def test_where_no_register_holds_the_block_the_trace_says_what_is_asked_for(python_env, build_c, tmp_path, program):
    wrapper = build_c("report_wrapper.c", "-shared", "-fPIC", "-O1")

    def start(command, env, **options):
        env = {**env, "LD_PRELOAD": f"{wrapper} {harness.LIBRARY}"}
        harness.simulate([python_env("torch215"), *command], env=env, **options)

    recorded, expected = run(start, program, tmp_path)
    rows = list(traced(expected["trace"]))
    first, *others = recorded.rows[: len(rows)]
    # The trace begins after the first report, whose lock is held.
    assert first == ["alloc", rows[0][1], None, None, None]
    assert others == rows[1:]
    assert recorded.facts["allocator_sees"] == ALL_SEEN


def test_the_table_of_functions_is_read_only_again(forks, tmp_path):
    code = (
        "import ctypes, torch\n"
        "torch.cuda.init()\n"
        "library = ctypes.CDLL(torch.__path__[0] + '/lib/libc10_cuda.so')\n"
        "symbol = '_ZN3c104cuda20CUDACachingAllocator9allocatorE'\n"
        "table = ctypes.c_uint64.from_address(ctypes.c_uint64.in_dll(library, symbol).value).value\n"
        "for line in open('/proc/self/maps'):\n"
        "    first, last = (int(part, 16) for part in line.split()[0].split('-'))\n"
        "    if first <= table < last: print(line.split()[1])\n"
    )
    assert forks("torch215").run(["-c", code], cwd=tmp_path).stdout == "r--p\n"
