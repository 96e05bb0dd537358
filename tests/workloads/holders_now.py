"""holders_now.py LIBRARY: who keeps the tensors, at several points of a program. Prints the results of gpumem.holders() as
JSON, with PyTorch's own figures. LIBRARY is holders_now.c."""

import ctypes
import gc
import json
import os
import sys
import threading

import torch

import gpumem

MIB = 1 << 20


def make(mib):
    return torch.zeros(mib * MIB, dtype=torch.uint8, device="cuda")


def refused(*arguments, **options):
    try:
        gpumem.holders(*arguments, **options)
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


class Keeper:
    pass


def freed(release):
    before = torch.cuda.memory_allocated()
    release()
    return before - torch.cuda.memory_allocated()


early = refused()
results = [make(3) for _ in range(4)]
keeper = Keeper()
keeper.last = make(8)
model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
history = []
history.append(model(torch.ones(2048, 1024, device="cuda")).exp().sum())
model(torch.ones(1, 1024, device="cuda")).sum().backward()


def fails():
    local = make(5)
    raise ValueError(local.shape)


try:
    fails()
except ValueError as error:
    saved = error


def inside(into):
    local = make(6)
    into += [gpumem.holders(), torch.cuda.memory_allocated()]
    del local


answers = {"early": early, "caller": [], "thread": []}
inside(answers["caller"])
thread = threading.Thread(target=inside, args=(answers["thread"],))
thread.start()
thread.join()

gc.disable()
two = gpumem.holders(top=2)
answers["two"] = [two, two.device, two.live_bytes, two.cut, str(two), two[0].__str__(), repr(two[0])]
answers["collector"] = [gc.isenabled()]
gc.enable()
answers["same"] = gpumem.holders(device="cuda:0") == gpumem.holders()
answers["collector"].append(gc.isenabled())
answers["others"] = [gpumem.holders(device=1), str(gpumem.holders(device=1)), refused(0), refused(device=-1)]

# The same from C, by a thread that has the lock, by one that does not, and by one that Python does not know.
answers["c"] = []
for library in (ctypes.PyDLL(None), ctypes.CDLL(None)):
    library.gpumem_holders.restype = ctypes.c_ssize_t
    buffer = ctypes.create_string_buffer(1 << 16)
    length = library.gpumem_holders(0, buffer, ctypes.c_size_t(len(buffer)))
    short = ctypes.create_string_buffer(b"x" * 12, 12)
    again = library.gpumem_holders(0, short, ctypes.c_size_t(8))
    answers["c"].append([buffer.value.decode(), length, again, short.raw.decode()])
foreign = ctypes.CDLL(sys.argv[1]).on_a_thread
foreign.restype = ctypes.c_ssize_t
answers["foreign"] = foreign()

answers["freed"] = {
    "results": freed(results.clear), "keeper": freed(lambda: keeper.__dict__.clear()), "saved": freed(lambda: setattr(saved, "__traceback__", None)),
}  # fmt: skip

reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, refused().encode())
    os._exit(0)
os.close(writer)
answers["child"] = open(reader, encoding="utf-8").read()
print(json.dumps(answers))
