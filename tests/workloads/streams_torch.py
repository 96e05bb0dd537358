"""Makes 32 MiB of zeros and, with an argument, a stream on which it makes more; then runs a first kernel and prints the
simulated driver's books."""

import ctypes
import sys

import torch

held = [torch.zeros(8 << 20, device="cuda")]
if len(sys.argv) > 1:
    side = torch.cuda.Stream()  # the streams' line
    with torch.cuda.stream(side):
        held.append(torch.zeros(8 << 20, device="cuda"))
held.append(held[0] + 1)
torch.cuda.synchronize()
current, peak = ctypes.c_uint64(), ctypes.c_uint64()
books = ctypes.CDLL("libcuda.so.1").gpumem_sim_books
for name in ("context", "module", "physical"):
    books(0, name.encode(), ctypes.byref(current), ctypes.byref(peak))
    print(name, current.value)
