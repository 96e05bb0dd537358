"""Compares the counters of libgpumem.so with PyTorch's own figures, while allocating and freeing."""

import torch

import gpumem
import simulator

assert not gpumem.recording() and gpumem.counters() == gpumem.counters(3)
kept = []
for step in range(50):
    kept.append(torch.empty((step + 1) * 512, dtype=torch.uint8, device="cuda"))
    if step % 4 == 3:
        kept.pop(0)
    own = gpumem.counters(torch.cuda.current_device()).tensor
    assert own.live_bytes == torch.cuda.memory_allocated(), (step, own)
    assert own.peak_bytes == torch.cuda.max_memory_allocated(), (step, own)
    assert (own.allocations, own.frees) == (step + 1, (step + 1) // 4), (step, own)
assert gpumem.recording()
driver = gpumem.counters(0).driver
assert driver.live_bytes == torch.cuda.memory_reserved(), driver
if simulator.simulated():
    (books,) = simulator.books()["devices"]
    assert gpumem.read_card()
    physical = gpumem.counters(0).physical
    assert physical.live_bytes == books["physical"]["current"], physical
    # Code that was loaded after the last reading before the peak is not in it.
    assert physical.live_bytes <= physical.peak_bytes <= books["physical"]["peak"], physical
print("same", gpumem.api_version())
