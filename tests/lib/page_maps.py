"""What the maps of a page must show: from the JSON views, and for address space from the capture's own records
(capture/SPEC.md), which no view prints."""

import functools

import harness
import spec_reader

ALLOC, FREE, CANCEL, MAP, UNMAP, ADDRESS, ADDRESS_END = 1, 2, 3, 4, 5, 19, 20
DRIVER, HANDLE = 1, 16


@functools.lru_cache(maxsize=None)
def events(report):
    """Of a capture: seq, pointer, bytes, aux, kind, level, device, flags."""
    found = []
    for kind, *record in spec_reader.read(report).order.records:
        if kind == "event":
            seq, _, ptr, size, aux, _, _, _, what, level, device, _, flags, *_ = record
            found.append((seq, ptr, size, aux, what, level, device, flags))
    return found


class Space:
    """Address space, handles and mappings just after an event."""

    def __init__(self, report, until):
        self.handles, self.mappings, self.ranges, freed = {}, {}, {}, {}
        for seq, ptr, size, aux, kind, level, device, flags in events(report):
            if seq > until:
                break
            is_handle = level == DRIVER and flags & HANDLE
            if kind == ALLOC and is_handle:
                self.handles[ptr] = (device, size)
            elif kind == FREE and is_handle:
                freed[seq] = (ptr, self.handles.pop(ptr))
            elif kind == CANCEL and aux in freed:
                ptr, handle = freed.pop(aux)
                self.handles[ptr] = handle
            elif kind == MAP:
                self.mappings[ptr] = (size, aux)
            elif kind == UNMAP:
                self.mappings = {at: of for at, of in self.mappings.items() if not ptr <= at < ptr + size}
            elif kind == ADDRESS:
                self.ranges[ptr] = size
            elif kind == ADDRESS_END:
                self.ranges.pop(ptr)

    def figures(self, device):
        """As the map of a device names them."""
        own = {handle: size for handle, (of, size) in self.handles.items() if of == device}
        times = {handle: sum(of == handle for _, of in self.mappings.values()) for handle in own}
        inside = {start: [(at, *of) for at, of in self.mappings.items() if start <= at < start + size] for start, size in self.ranges.items()}
        shown = [start for start, of in inside.items() if not of or any(handle in own for _, _, handle in of)]
        reserved = sum(self.ranges[start] for start in shown)
        mapped = [of for start in shown for of in inside[start]]
        found = {
            "memory of handles": sum(own.values()),
            "mapped nowhere": sum(size for handle, size in own.items() if not times[handle]),
            "handles mapped more than once": sum(size for handle, size in own.items() if times[handle] > 1),
            "address space reserved": reserved,
            "of that unmapped": reserved - sum(size for _, size, _ in mapped),
        }
        others = sum(size for _, size, handle in mapped if handle not in own)
        return {**found, "mapped, of another process or GPU": others} if others else found


def driver_level(report, seq, device):
    """The bytes of the driver level, by `lines`."""
    rows = harness.analyze_json("lines", "--level", "driver", "--at", str(seq), "--device", str(device), report)
    return sum(row["bytes"] for row in rows)


@functools.lru_cache(maxsize=None)
def ledger(report, seq, device):
    """The ledger of a device; `None` before its first record."""
    found = harness.analyze_json("ledger", "--at", str(seq), "--device", str(device), report)
    return found[0] if found else None


@functools.lru_cache(maxsize=None)
def pool(report, seq, device):
    """PyTorch's pool by `fragmentation`."""
    found = harness.analyze_json("ledger", "--pool", "--at", str(seq), "--device", str(device), report)
    return found[0] if found else {"reserved_bytes": 0, "segments": []}


def beside_pool(of, has_pool):
    """The driver's memory in a ledger outside PyTorch's pool, by library; '' where the ledger has no library.
    Without a pool PyTorch requests each tensor from the driver."""
    found = {}
    for row in of["rows"]:
        if row["kind"] in ("library", "graph") or (row["kind"] == "tensors" and not has_pool):
            name = row["library"] if row["kind"] == "library" else ""
            found[name] = found.get(name, 0) + row["bytes"]
    if of["managed_bytes"]:
        found[""] = found.get("", 0) + of["managed_bytes"]
    return found


def unused(of, kind):
    """What a ledger's row of CUDA's pools or graphs has."""
    return sum(row["bytes"] for row in of["rows"] if row["kind"] == kind)
