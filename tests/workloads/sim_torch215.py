"""Real PyTorch 2.15.0 on the simulated driver, runtime and cuBLAS: the checks
that the arguments name, in one process. PyTorch's own figures must agree with the
simulator's books. Kernels compute nothing, so only bytes are checked, not
results."""

import pickle
import sys

import torch
import torch.nn.functional as F
from sim_cuda import books
from torch import nn

import winds_up  # noqa: F401

MIB = 1 << 20


def driver_bytes(device=0):
    return books(device)["driver"]["current"]


def train(model, batch, steps=3):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = model(batch).float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    return optimizer


def start():
    assert torch.__version__.startswith("2.15.0") and torch.version.cuda.startswith("13.")
    assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
    properties = torch.cuda.get_device_properties(0)
    assert properties.total_memory == books()["total_bytes"] == 4 << 30
    assert properties.warp_size == 32 and properties.multi_processor_count > 0
    assert f"GPU-{properties.uuid}" == books()["uuid"]


def round_trips():
    for dtype in (torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.cfloat):
        data = torch.randn(513, 33).to(dtype)
        there = data.cuda()
        assert torch.equal(there.cpu(), data)
        assert torch.equal(there.clone().cpu(), data)
        assert torch.equal(there[7:300].cpu(), data[7:300])
        back = torch.empty_like(data)
        back.copy_(there)
        assert torch.equal(back, data)
    assert torch.equal(torch.zeros(100, device="cuda").cpu(), torch.zeros(100))
    assert torch.empty(0, device="cuda").cpu().numel() == 0


def layers():
    linear = nn.Linear(128, 256).cuda()
    linear(torch.randn(64, 128, device="cuda")).sum().backward()
    assert linear.weight.grad.shape == (256, 128)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        wide = nn.Linear(32, 64, device="cuda", dtype=dtype)
        wide(torch.randn(8, 32, device="cuda", dtype=dtype)).sum().backward()
    conv = nn.Conv2d(3, 8, 3, padding=1).cuda()
    image = torch.randn(2, 3, 32, 32, device="cuda", requires_grad=True)
    conv(image).sum().backward()
    assert image.grad.shape == image.shape and conv.weight.grad.shape == (8, 3, 3, 3)
    batched = torch.bmm(torch.randn(4, 8, 16, device="cuda"), torch.randn(4, 16, 8, device="cuda"))
    assert batched.shape == (4, 8, 8)
    assert torch.dot(torch.ones(4, device="cuda"), torch.ones(4, device="cuda")).item() == 0
    assert torch.isfinite(linear.weight.cpu()).all()


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for dtype in (torch.float32, torch.float16):
        query = torch.randn(2, 4, 64, 32, device="cuda", dtype=dtype, requires_grad=True)
        F.scaled_dot_product_attention(query, query, query).sum().backward()
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()
        assert query.grad.shape == query.shape


def training():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
    optimizer = train(model, torch.randn(8, 16, 64, device="cuda"))
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    moments = sum(
        value.numel() * value.element_size()
        for state in optimizer.state.values()
        for value in state.values()
        if torch.is_tensor(value) and value.is_cuda
    )
    assert moments >= 2 * parameters > 0
    assert torch.cuda.memory_allocated() >= 3 * parameters
    scaler = torch.amp.GradScaler("cuda")
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda"):
        loss = model(torch.randn(8, 16, 64, device="cuda")).float().mean()
    scaler.scale(loss).backward()
    scaler.step(sgd)
    scaler.update()


def figures():
    """PyTorch's cache, cuBLAS's workspace and the driver's books are one sum."""
    assert driver_bytes() == 0
    held = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == 10 * MIB
    assert driver_bytes() == torch.cuda.memory_reserved()
    before = driver_bytes()
    torch.cuda.current_blas_handle()
    assert driver_bytes() - before == 8 * MIB, "the workspace of a cuBLAS handle"
    train(nn.Linear(64, 64).cuda(), torch.randn(8, 64, device="cuda"))
    # The thread that runs the backward pass has a separate handle.
    assert driver_bytes() == torch.cuda.memory_reserved() + 16 * MIB
    peak, reserved_peak = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    assert peak > torch.cuda.memory_allocated() == 10 * MIB
    assert reserved_peak >= torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    assert reserved_peak < books()["driver"]["peak"] <= reserved_peak + 16 * MIB
    free, total = torch.cuda.mem_get_info()
    assert total == books()["total_bytes"]
    assert total - free == books()["physical"]["current"]
    del held
    reserved = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 10 * MIB
    assert driver_bytes() == torch.cuda.memory_reserved() + 16 * MIB


def exhaustion():
    torch.cuda.empty_cache()
    room = torch.cuda.mem_get_info()[0] // (256 * MIB)
    held = []
    try:
        while True:
            held.append(torch.empty(256 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        assert "Tried to allocate 256.00 MiB" in str(error), error
    assert len(held) == room, (len(held), room)
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        raise AssertionError("a TiB was given")
    except torch.OutOfMemoryError:
        pass
    peak = torch.cuda.max_memory_allocated()
    assert peak == room * 256 * MIB
    held.clear()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0 == books()["kinds"]["device"]["current"]
    again = torch.arange(64 * MIB, dtype=torch.uint8).cuda()
    assert again.numel() == 64 * MIB
    train(nn.Linear(64, 64).cuda(), torch.randn(8, 64, device="cuda"))


def snapshot():
    torch.cuda.memory._record_memory_history(max_entries=1000)
    first = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    second = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    del first
    taken = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    segments = taken["segments"]
    assert sum(s["total_size"] for s in segments) == torch.cuda.memory_reserved() == driver_bytes()
    assert sum(s["allocated_size"] for s in segments) == second.numel()
    actions = [entry["action"] for entry in taken["device_traces"][0]]
    assert actions.count("segment_alloc") == len(segments) == 2
    assert actions.count("alloc") == 2 and actions.count("free_completed") == 1
    frames = next(e for e in taken["device_traces"][0] if e["action"] == "alloc")["frames"]
    assert any(f["filename"].endswith("sim_torch215.py") for f in frames)
    assert pickle.loads(pickle.dumps(taken))["segments"]
    assert "Allocated memory" in torch.cuda.memory_summary()


def expandable():
    """Run with expandable_segments:True: all of PyTorch's memory is mapped by hand."""
    held = [torch.empty(30 * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
    segments = torch.cuda.memory._snapshot()["segments"]
    assert len(segments) == 1 and segments[0]["is_expandable"]
    now = books()
    assert now["kinds"]["vmm"]["current"] == torch.cuda.memory_reserved() >= 120 * MIB
    assert now["kinds"]["device"]["current"] == 0
    data = torch.arange(1000, dtype=torch.int32)
    assert torch.equal(data.cuda().cpu(), data)
    held.clear()
    torch.cuda.empty_cache()
    assert books()["kinds"]["vmm"]["current"] == torch.cuda.memory_reserved() < 120 * MIB
    train(nn.Linear(64, 64).cuda(), torch.randn(8, 64, device="cuda"))
    exhaust_expandable()


def exhaust_expandable():
    torch.cuda.empty_cache()
    room = torch.cuda.mem_get_info()[0] // (256 * MIB)
    held = []
    try:
        while True:
            held.append(torch.empty(256 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    assert len(held) == room, (len(held), room)
    held.clear()
    torch.cuda.empty_cache()
    assert torch.empty(256 * MIB, dtype=torch.uint8, device="cuda").numel() == 256 * MIB


def asynchronous():
    """Run with backend:cudaMallocAsync: each tensor is a driver allocation of its size."""
    assert torch.cuda.get_allocator_backend() == "cudaMallocAsync"
    before = books()["kinds"]["async"]["current"]
    held = torch.empty(10 * MIB + 3, dtype=torch.uint8, device="cuda")
    assert books()["kinds"]["async"]["current"] - before == 10 * MIB + 3
    assert torch.cuda.memory_allocated() >= 10 * MIB + 3
    del held
    torch.cuda.synchronize()
    assert books()["kinds"]["async"]["current"] == before
    train(nn.Linear(64, 64).cuda(), torch.randn(8, 64, device="cuda"))
    torch.cuda.empty_cache()
    room = torch.cuda.mem_get_info()[0] // (256 * MIB)
    exhausted = []
    try:
        while True:
            exhausted.append(torch.empty(256 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    assert len(exhausted) == room, (len(exhausted), room)
    exhausted.clear()
    torch.cuda.empty_cache()
    assert torch.empty(256 * MIB, dtype=torch.uint8, device="cuda").numel() == 256 * MIB


def pinned():
    assert books()["host"]["current"] == 0
    data = torch.randn(1000, 1000).pin_memory()
    assert data.is_pinned() and not torch.randn(10).is_pinned()
    assert books()["host"]["current"] >= data.numel() * 4
    there = data.to("cuda", non_blocking=True)
    back = torch.empty(1000, 1000, pin_memory=True)
    back.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, data)
    batches = torch.utils.data.DataLoader(torch.arange(64.0), batch_size=16, pin_memory=True)
    assert all(batch.is_pinned() for batch in batches)


def streams():
    side = torch.cuda.Stream(priority=-1)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    with torch.cuda.stream(side):
        data = torch.full((100,), 0, device="cuda")
        end.record()
    torch.cuda.current_stream().wait_stream(side)
    data.record_stream(torch.cuda.current_stream())
    end.synchronize()
    assert end.query() and side.query() and start.elapsed_time(end) >= 0
    assert not torch.cuda.is_current_stream_capturing()
    with torch.cuda.profiler.profile():
        torch.ones(10, device="cuda")


def two_devices():
    assert torch.cuda.device_count() == 2 and torch.cuda.current_device() == 0
    data = torch.randn(1000)
    first = data.to("cuda:0")
    second = first.to("cuda:1")
    assert second.device.index == 1 and torch.equal(second.cpu(), data)
    assert torch.equal(second.to("cuda:0").cpu(), data)
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        third = torch.empty(50 * MIB, dtype=torch.uint8, device="cuda")
        assert third.device.index == 1
    assert torch.cuda.current_device() == 0
    for device in (0, 1):
        assert driver_bytes(device) == torch.cuda.memory_reserved(device) > 0
        free, total = torch.cuda.mem_get_info(device)
        assert total - free == books(device)["physical"]["current"]
    assert torch.cuda.memory_allocated(1) > 50 * MIB > torch.cuda.memory_allocated(0)
    assert torch.cuda.can_device_access_peer(0, 1)
    torch.cuda.set_device(1)
    train(nn.Linear(64, 64).cuda(), torch.randn(8, 64, device="cuda"))
    assert torch.empty(1, device="cuda").device.index == 1
    assert books(0)["uuid"] != books(1)["uuid"]


def threads():
    import threading

    failed = []

    def work(number):
        try:
            for _ in range(20):
                data = torch.full((1000,), number)
                assert torch.equal(data.cuda().cpu(), data)
            train(nn.Linear(16, 16).cuda(), torch.randn(8, 16, device="cuda"), steps=2)
        except BaseException as error:  # reported by the main thread
            failed.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed, failed
    torch.cuda.empty_cache()
    assert books()["kinds"]["device"]["current"] >= torch.cuda.memory_reserved()


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).cuda()


def record(model, batch):
    """A forward and a backward pass as a graph, after the rounds that it needs first; its output."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(batch).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    model.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        output = model(batch)
        output.sum().backward()
        copied = batch.clone()
    return graph, output, copied


def graphs():
    """Graphs on PyTorch's own allocator: their memory is that of a private pool."""
    model, batch = mlp(), torch.zeros(16, 64, device="cuda")
    torch.cuda.empty_cache()
    before = driver_bytes()
    graph, output, copied = record(model, batch)
    held = driver_bytes()
    assert held > before and books()["kinds"]["graph"]["allocations"] == 0
    assert any(s["segment_pool_id"] != (0, 0) for s in torch.cuda.memory._snapshot()["segments"])
    data = torch.randn(16, 64)
    for number in range(3):
        batch.copy_(data + number)
        graph.replay()
        assert torch.equal(copied.cpu(), data + number), "copies are made by each replay"
    assert driver_bytes() == held and output.shape == (16, 64)
    assert model[0].weight.grad.shape == (128, 64)
    # What may not be done in a capture is an error, after which the next one works.
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            copied.cpu()
        raise AssertionError("a synchronisation was captured")
    except RuntimeError as error:
        assert "captur" in str(error), error
    shared = torch.cuda.CUDAGraph()
    with torch.cuda.graph(shared, pool=graph.pool()):
        model(batch)
    shared.replay()
    torch.cuda.synchronize()
    del graph, shared, output, copied
    model.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    assert driver_bytes() < held


def graphed_callables():
    sample = torch.randn(16, 64, device="cuda", requires_grad=True)
    first, second = torch.cuda.make_graphed_callables((mlp(), mlp()), ((sample,), (sample,)))
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = second(first(torch.randn(16, 64, device="cuda", requires_grad=True))).sum()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    assert first[0].weight.grad is not None


def graphs_asynchronous():
    """Run with backend:cudaMallocAsync: tensors that a graph makes are its memory nodes."""
    model, batch = mlp(), torch.zeros(16, 64, device="cuda")
    graph, output, copied = record(model, batch)
    row = books()["kinds"]["graph"]
    assert row["allocations"] == 0, "nothing is live before the first replay"
    graph.replay()
    first = books()["kinds"]["graph"]
    grads = [p.grad for p in model.parameters()]
    live = [output, copied, *grads]
    assert first["current"] == sum(t.numel() * t.element_size() for t in live)
    assert first["allocations"] - first["frees"] == len(live) and first["peak"] > first["current"]
    data = torch.randn(16, 64)
    batch.copy_(data)
    # PyTorch's graphs free by themselves what is live when they are replayed.
    graph.replay()
    second = books()["kinds"]["graph"]
    assert torch.equal(copied.cpu(), data)
    assert second["current"] == first["current"] and second["peak"] == first["peak"]
    assert second["allocations"] == 2 * first["allocations"]
    assert second["frees"] == 2 * first["frees"] + len(live)
    pool = torch.cuda.memory_reserved()
    assert pool >= second["current"]
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    assert total - free == books()["physical"]["current"]


if __name__ == "__main__":
    torch.cuda.init()
    for check in sys.argv[1:]:
        globals()[check]()
        print(check, "holds", flush=True)
