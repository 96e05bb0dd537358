"""Fixed sizes on known lines. A comment `bytes: PEAK END FUNCTION` is what the line must own at the peak and at the
end; test_e2e_lines.py reads the comments. All sizes are multiples of 512 bytes and under 1 MiB, where PyTorch's
caching allocator allocates exactly the requested size."""

import importlib.util
import os
import sys
import threading

import torch

KEPT = []


def block(units):
    """A tensor of 512-byte units, owned by this very line."""
    return torch.empty(units * 512, dtype=torch.uint8, device="cuda")  # bytes: 4608 4608 block


def nested():
    def middle():
        def inner():
            return torch.empty(3 * 512, dtype=torch.uint8, device="cuda")  # bytes: 1536 1536 inner

        kept = torch.empty(5 * 512, dtype=torch.uint8, device="cuda")  # bytes: 2560 2560 middle
        return [inner(), kept]

    return middle()


def generator(count):
    for units in range(1, count + 1):
        yield torch.empty(units * 512, dtype=torch.uint8, device="cuda")  # bytes: 5120 5120 generator


def in_thread():
    KEPT.append(torch.empty(7 * 512, dtype=torch.uint8, device="cuda"))  # bytes: 3584 3584 in_thread


def recursive(depth):
    held = torch.empty(512, dtype=torch.uint8, device="cuda")  # bytes: 6144 0 recursive
    if depth > 1:
        recursive(depth - 1)
    else:
        temporary()
    del held


def temporary():
    spike = [torch.empty(900 * 512, dtype=torch.uint8, device="cuda")]  # bytes: 460800 0 temporary
    spike.append(
        torch.empty(  # bytes: 5632 0 temporary
            11 * 512,
            dtype=torch.uint8,
            device="cuda",
        )
    )


class Holder:
    of_class = torch.empty(13 * 512, dtype=torch.uint8, device="cuda")  # bytes: 6656 6656 Holder

    def __init__(self):
        self.of_object = torch.empty(17 * 512, dtype=torch.uint8, device="cuda")  # bytes: 8704 8704 __init__

    @property
    def computed(self):
        return torch.empty(19 * 512, dtype=torch.uint8, device="cuda")  # bytes: 9728 9728 computed


async def coroutine():
    return torch.empty(23 * 512, dtype=torch.uint8, device="cuda")  # bytes: 11776 11776 coroutine


def run_coroutine(work):
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the coroutine did not finish")


def load(path):
    """Imports a module from a file whose name no encoding but UTF-8 can hold."""
    spec = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    KEPT.append(block(4))
    KEPT.append(block(5))
    KEPT.extend(nested())
    KEPT.extend(generator(4))
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    lambda_ = lambda units: torch.empty(units * 512, dtype=torch.uint8, device="cuda")  # noqa: E731 # bytes: 14848 14848 <lambda>
    KEPT.append(lambda_(29))
    KEPT.append(Holder())
    KEPT.append(KEPT[-1].computed)
    KEPT.append(run_coroutine(coroutine()))
    if len(sys.argv) > 1:
        KEPT.append(load(sys.argv[1]).allocate(torch))
    recursive(12)
    KEPT.append(torch.empty(31 * 512, dtype=torch.uint8, device="cuda"))  # bytes: 0 15872 main
    gone = torch.empty(37 * 512, dtype=torch.uint8, device="cuda")
    del gone


if __name__ == "__main__":
    main()
    torch.cuda.synchronize()
    os.write(1, b"%d %d\n" % (torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()))
    os._exit(0)
