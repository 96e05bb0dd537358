"""Memory of every kind that the driver has, held at once beside PyTorch's pools, and some of it on each other GPU.
Prints `SEGMENTS [...]`, PyTorch's list of the first GPU's. Then a request fails, and part of it is freed."""

import ctypes
import json

import torch

import winds_up  # noqa: F401
from sim_cuda import *  # noqa: F403  (a small vocabulary, most of it used)
from sim_graphs import add_allocation, instantiate


def torchs():
    """The default pool on two streams, a graph's private pool, one of the program's own."""
    held = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1000, 5 * MIB, 30 * MIB + 7, 700)]
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        held.append(torch.empty(3 * MIB, dtype=torch.uint8, device="cuda"))
    held[1].record_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held.append(held[0] + 1)
        held.append(torch.empty(12 * MIB, dtype=torch.uint8, device="cuda"))
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        held.append(torch.empty(9 * MIB, dtype=torch.uint8, device="cuda"))
    held += [torch.empty(6 * gpu * MIB, dtype=torch.uint8, device=f"cuda:{gpu}") for gpu in range(1, torch.cuda.device_count())]
    torch.cuda.synchronize()
    return held, graph, pool


def drivers():
    """One allocation of each kind."""
    plain = out("cuMemAlloc_v2", 3 * MIB + 1)
    managed = out("cuMemAllocManaged", 5 * MIB, 1)
    shape = ArrayShape(512, 512, 0, 0x20, 1, 0)
    array = out("cuArray3DCreate_v2", byref(shape))
    host = out("cuMemAllocHost_v2", MIB + 3)
    brought = ctypes.create_string_buffer(64 * KIB)
    must("cuMemHostRegister_v2", brought, 64 * KIB, 0)
    return plain, managed, array, host, brought


def mapped():
    """Two handles with a hole between them, the second at two addresses, a third one nowhere; one of the other GPU."""
    base, far = out("cuMemAddressReserve", 64 * MIB, 0, 0, 0), out("cuMemAddressReserve", 16 * MIB, 0, 0, 0)
    first, second, nowhere, other = physical(2 * MIB), physical(4 * MIB), physical(6 * MIB), physical(8 * MIB, device=1)
    must("cuMemMap", base, 2 * MIB, 0, first, 0)
    must("cuMemMap", base + 4 * MIB, 4 * MIB, 0, second, 0)
    must("cuMemMap", far, 4 * MIB, 0, second, 0)
    must("cuMemMap", base + 40 * MIB, 8 * MIB, 0, other, 0)
    must("cuMemRelease", first)
    return base, far, first, second, nowhere, other


def pooled():
    """The default pool of cudaMallocAsync with a hole, one of the program's own, and a graph's node that was launched."""
    blocks = [out("cuMemAllocAsync", size, 0) for size in (7 * MIB, 1000, 2 * MIB)]
    must("cuMemFreeAsync", blocks[1], 0)
    own = out("cuMemPoolCreate", byref(PoolProperties(1, 0, Location(1, 0), None, 0)))
    blocks.append(out("cuMemAllocFromPoolAsync", 33 * MIB, own, 0))
    graph = out("cuGraphCreate", 0)
    _, pointer = add_allocation(graph, 5 * MIB)
    add_allocation(graph, 3 * MIB)
    must("cuGraphLaunch", instantiate(graph), 0)
    must("cuStreamSynchronize", 0)
    return blocks, pointer


def segments():
    """As PyTorch has them: pool, small or large, stream, bytes, bytes allocated."""
    of = [row for row in torch.cuda.memory._snapshot()["segments"] if row["device"] == 0]
    names = ("segment_pool_id", "segment_type", "stream", "total_size", "allocated_size")
    return [[row[name] for name in names] for row in of]


def main():
    held, graph, pool = torchs()
    held += [physical(gpu * 2 * MIB, device=gpu) for gpu in range(1, torch.cuda.device_count())]
    mine, space, (blocks, pointer) = drivers(), mapped(), pooled()
    print("SEGMENTS", json.dumps(segments()), flush=True)
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    base, far, _, second, nowhere, _ = space
    must("cuMemUnmap", far, 4 * MIB)
    must("cuMemRelease", nowhere)
    must("cuMemFreeAsync", blocks[0], 0)
    must("cuMemFree_v2", mine[0])
    must("cuMemFreeHost", mine[3])
    must("cuMemFreeAsync", pointer, 0)
    must("cuStreamSynchronize", 0)
    held[1] = held[2] = None
    torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
    assert graph and pool and base and second


if __name__ == "__main__":
    main()
