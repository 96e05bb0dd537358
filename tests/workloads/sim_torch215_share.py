"""Real PyTorch 2.15.0: a tensor on the device is shared with another process, which reads it."""

import torch
import torch.multiprocessing as multiprocessing
from sim_cuda import books


def child(tensors, answers):
    tensor = tensors.get()
    answers.put((tensor.cpu().tolist(), books()["driver"]["current"]))
    del tensor


def main():
    multiprocessing.set_start_method("spawn")
    tensors, answers = multiprocessing.Queue(), multiprocessing.Queue()
    process = multiprocessing.Process(target=child, args=(tensors, answers))
    process.start()
    tensors.put(torch.arange(5).cuda())
    numbers, owned = answers.get(timeout=100)
    process.join()
    assert process.exitcode == 0
    print("the child saw", numbers, "and owned", owned, "bytes")


if __name__ == "__main__":
    main()
