"""PyTorch in child processes of every kind. A tensor of ones shows whether each process has the mode."""

import multiprocessing
import subprocess
import sys
import threading

import torch

CHECK = "import torch; print('child', torch.ones(3, device='cuda').sum().item())"


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return torch.ones(2) * at


def child(kind):
    print(kind, torch.ones(3, device="cuda").sum().item(), flush=True)


class Own(threading.Thread):
    def run(self):
        child("thread")


if __name__ == "__main__":
    print("first", sys.path[0].rsplit("/", 1)[-1], "sitecustomize" in sys.modules, any("_plan" in entry for entry in sys.path),
          any(type(finder).__name__ == "Armed" for finder in sys.meta_path), flush=True)
    process = multiprocessing.get_context("spawn").Process(target=child, args=("spawned",))
    process.start()
    process.join()
    loaded = [batch.sum().item() for batch in torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=1)]
    print("loaded", loaded, flush=True)
    child("main")
    thread = Own()
    thread.start()
    thread.join()
    subprocess.run([sys.executable, "-c", CHECK], check=True)
    print("isolated", subprocess.run([sys.executable, "-I", "-c", CHECK], stdout=subprocess.PIPE, text=True).stdout.split()[1], flush=True)
