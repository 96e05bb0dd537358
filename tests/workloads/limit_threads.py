"""Two threads repeatedly request the rest of a card at the same time: prints how often one of them, both and none
succeeded, where only one fits, and where both do."""

import ctypes
import sys
import threading
from ctypes import byref, c_size_t, c_uint64, c_void_p

MIB = 1 << 20
ROUNDS = int(sys.argv[1])
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
context = c_void_p()
cuda.cuDevicePrimaryCtxRetain(byref(context), 0)
cuda.cuCtxSetCurrent(context)
free, total = c_size_t(), c_size_t()
cuda.cuMemGetInfo_v2(byref(free), byref(total))
left = free.value // MIB
begin, end = threading.Barrier(3), threading.Barrier(3)
wanted, got = [0], [None, None]


def work(number):
    cuda.cuCtxSetCurrent(context)
    while True:
        begin.wait()
        if wanted[0] == 0:
            return
        pointer = c_uint64()
        code = cuda.cuMemAlloc_v2(byref(pointer), c_size_t(wanted[0] * MIB))
        got[number] = (code, pointer)
        end.wait()


threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for name, size in [("one fits", left * 6 // 10), ("both fit", left // 2 - 2), ("none fits", left + 2)]:
    outcomes = {}
    for _ in range(ROUNDS):
        wanted[0] = size
        begin.wait()
        end.wait()
        codes = tuple(sorted(code for code, _ in got))
        outcomes[codes] = outcomes.get(codes, 0) + 1
        for code, pointer in got:
            if code == 0:
                cuda.cuMemFree_v2(pointer)
    print(name, outcomes)
wanted[0] = 0
begin.wait()
for thread in threads:
    thread.join()
