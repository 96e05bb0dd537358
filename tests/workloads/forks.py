"""forks.py HOW: a PyTorch process with children. What the children do must not reach its capture."""

import multiprocessing
import os
import subprocess
import sys

import torch

import tell

how = sys.argv[1]


def squares(numbers):
    return [number * number for number in numbers]


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((100,), float(index))


def child_uses_the_card(units):
    kept = torch.empty(units * 512, dtype=torch.uint8, device="cuda")
    return torch.cuda.memory_allocated(), kept.numel()


def main():
    kept = [torch.empty(512 * size, device="cuda") for size in range(1, 6)]
    if how == "exit":
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    elif how == "return":
        child = os.fork()
        if child == 0:
            kept.clear()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    elif how == "exec":
        for command in (["true"], ["sh", "-c", "ls / > /dev/null"], [sys.executable, "-c", "pass"]):
            subprocess.run(command, check=True)
    elif how == "workers":
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2)
        for batch in loader:
            kept.append(batch.to("cuda"))
    elif how == "pinned workers":
        loader = torch.utils.data.DataLoader(
            Numbers(), batch_size=8, num_workers=2, persistent_workers=True, pin_memory=True
        )
        for _ in range(2):
            for batch in loader:
                assert batch.is_pinned()
                kept.append(batch.to("cuda", non_blocking=True))
        torch.cuda.synchronize()
    elif how == "pool":
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(sum(map(sum, pool.map(squares, [[1, 2], [3, 4], [5, 6]]))))
    elif how in ("spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(1) as pool:
            print(pool.map(child_uses_the_card, [8]))
    else:
        raise SystemExit(f"no such way: {how}")
    kept.append(torch.empty(512 * 100, device="cuda"))
    sys.stdout.flush()
    tell.end("hard")


if __name__ == "__main__":
    main()
