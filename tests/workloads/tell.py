"""`tell.py` [--end return|exit|hard|kill] SCRIPT ARGUMENTS…: runs a PyTorch script as __main__, then prints `FIGURES
{json}` with PyTorch's own figures and the simulator's books, and ends as `--end` selects: by returning, by C's exit
or os._exit (live memory is not freed) or by SIGKILL."""

import ctypes
import json
import os
import runpy
import signal
import sys

import torch

import simulator


def figures():
    """PyTorch's own figures by device, and the simulator's books."""
    devices = []
    for device in range(torch.cuda.device_count()):
        statistics = torch.cuda.memory_stats(device)
        devices.append(
            {
                "allocated": torch.cuda.memory_allocated(device),
                "max_allocated": torch.cuda.max_memory_allocated(device),
                "reserved": torch.cuda.memory_reserved(device),
                "max_reserved": torch.cuda.max_memory_reserved(device),
                "allocations": statistics.get("allocation.all.allocated", 0),
                "frees": statistics.get("allocation.all.freed", 0),
                "ooms": statistics.get("num_ooms", 0),
            }
        )
    return {"devices": devices, "books": simulator.books() if simulator.simulated() else None}


def end(how):
    """Prints the figures and ends the process in the given way."""
    os.write(1, f"FIGURES {json.dumps(figures())}\n".encode())
    if how == "exit":
        ctypes.CDLL(None).exit(0)
    if how == "hard":
        os._exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    how = "return"
    if arguments[0] == "--end":
        how, arguments = arguments[1], arguments[2:]
    sys.argv = arguments
    namespace = runpy.run_path(arguments[0], run_name="__main__")  # keeps what lives alive
    sys.stdout.flush()
    end(how)
