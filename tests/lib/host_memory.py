"""Runs a command and prints the peak of the host memory of its process tree: the sum of the proportional shares (with
mapped files and shared memory) and page tables, sampled twice a second. Used for measurements.

    python3 tests/lib/host_memory.py COMMAND…"""

import subprocess
import sys
import time
from pathlib import Path

SHARES = ("Pss", "Pss_Anon", "Pss_File", "Pss_Shmem")


def tree(pid):
    """A process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += [each for child in (task / "children").read_text().split() for each in tree(int(child))]
        except OSError:
            continue  # it has ended
    return found


def shares(pid):
    """KiB of one process, by kind."""
    lines = []
    for name in ("smaps_rollup", "status"):
        try:
            lines += Path(f"/proc/{pid}/{name}").read_text().splitlines()
        except OSError:
            continue
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.split(":")[0] in (*SHARES, "VmPTE")}
    return {"all": sizes.get("Pss", 0) + sizes.get("VmPTE", 0), **sizes}


def main(command):
    began, most = time.monotonic(), {}
    process = subprocess.Popen(command)
    while process.poll() is None:
        together = {}
        for each in map(shares, tree(process.pid)):
            for kind, size in each.items():
                together[kind] = together.get(kind, 0) + size
        most = {kind: max(size, most.get(kind, 0)) for kind, size in together.items()}
        time.sleep(0.5)
    sizes = ", ".join(f"{kind} {size / (1 << 20):.2f}" for kind, size in most.items())
    print(f"{time.monotonic() - began:.0f} s, status {process.returncode}; at most, in GiB: {sizes}", file=sys.stderr)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
