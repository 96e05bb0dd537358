"""Real PyTorch 1.12.1 with every NVIDIA library real, on the simulated driver: training with cuDNN
and cuBLAS, data round trips, out of memory and recovery. The caching allocator's figures must agree
with the simulator's books. Run on one device of 4 GiB."""


import torch
from sim_cuda import books

import winds_up  # noqa: F401

MIB = 1 << 20


def books_of(kind):
    return books()["kinds"][kind]


def main():
    assert torch.version.cuda == "10.2" and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (7, 0)
    numbers = torch.arange(10)
    assert torch.equal(numbers.cuda().cpu(), numbers)
    noise = torch.randn(300, 500)
    assert torch.equal(noise.cuda().cpu(), noise)
    assert torch.equal(noise.cuda().to("cuda", copy=True).cpu(), noise)
    pinned = noise.pin_memory()
    assert torch.equal(pinned.cuda(non_blocking=True).cpu(), noise)
    assert books()["host"]["current"] >= noise.numel() * 4

    assert torch.backends.cudnn.is_available() and torch.backends.cudnn.version() >= 7605
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 8, 3, stride=2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 15 * 15, 10),
    ).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(
            model(torch.randn(8, 3, 32, 32, device="cuda")),
            torch.zeros(8, dtype=torch.long, device="cuda"),
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    product = torch.randn(256, 256, device="cuda") @ torch.randn(256, 256, device="cuda")
    torch.cuda.synchronize()
    assert product.shape == (256, 256)

    # What PyTorch reserved are driver allocations, beside those of cuBLAS, cuDNN and cuda itself.
    driver = books_of("device")
    assert driver["current"] >= torch.cuda.memory_reserved() > torch.cuda.memory_allocated() > 0
    free, total = torch.cuda.mem_get_info()
    assert total - free == books()["physical"]["current"]

    # Out of memory, and on. Beside PyTorch's cache, only what the libraries took at the start.
    libraries = books_of("device")["current"] - torch.cuda.memory_reserved()
    held = []
    try:
        while True:
            held.append(torch.empty(256 * MIB, dtype=torch.uint8, device="cuda"))
    except RuntimeError as error:
        assert "out of memory" in str(error), error
    assert 10 <= len(held) <= 16
    before = books_of("device")["current"]
    assert before == libraries + torch.cuda.memory_reserved()
    count = len(held)
    held.clear()
    torch.cuda.empty_cache()
    after = books_of("device")["current"]
    assert before - after >= count * 256 * MIB, (before, after)
    assert after == libraries + torch.cuda.memory_reserved()
    # As many as fitted: whatever PyTorch has now, it had then.
    assert count == torch.cuda.mem_get_info()[0] // (256 * MIB)
    # Its hundreds of modules were loaded at the start, as before CUDA 11.7.
    modules = books()["module"]["current"]
    assert modules == books()["module"]["peak"] > 500 * 2 * MIB
    again = torch.full((64 * MIB,), 0, dtype=torch.uint8, device="cuda")
    assert again.numel() == 64 * MIB
    print("trained, ran out of memory and recovered")


main()
