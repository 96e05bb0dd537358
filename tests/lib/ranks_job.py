"""The captures of the job in tests/data/captures/ranks, and what is planted in its ranks.

    ranks_job.py RUNTIME COPY   writes another build of CUDA's runtime to COPY, which rank 7 uses, and prints the plants
                                for scripts/lib/docs-captures"""

import re
import sys
from pathlib import Path

import harness

JOB, WORLD = "ranks.py", 16
PLANTS = {3: "leak:2", 5: "layer", 7: "library:{runtime}", 9: "batch", 11: "outside", 12: "oom:7", 13: "kill:8"}
DIFFER = {rank for rank, what in PLANTS.items() if what.partition(":")[0] in ("leak", "layer", "batch", "outside")}


def line_of(script, text):
    """Where a line of a recorded program is, as tables name it."""
    lines = (harness.WORKLOADS / script).read_text().splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if text in line]
    return f"{script}:{number}"


def other_build(library, to):
    """A copy of a library that has another build id."""
    data = bytearray(library.read_bytes())
    [note] = re.finditer(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", data)
    data[note.end()] ^= 0xFF
    to.write_bytes(data)


if __name__ == "__main__":
    other_build(*map(Path, sys.argv[1:]))
    for rank, what in PLANTS.items():
        print(f"{rank}={what.format(runtime=sys.argv[2])}")
