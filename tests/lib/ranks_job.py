"""A job of ranks with planted differences, recorded once for all tests that use it."""

import fcntl
import os
import re

import harness

JOB = harness.WORKLOADS / "ranks.py"
WORLD = int(os.environ.get("GPUMEM_RANKS_WORLD", "16"))
PLANTS = {3: "leak:6", 5: "layer", 7: "library:{runtime}", 9: "batch", 11: "outside", 12: "oom:7", 13: "kill:9"}
DIFFER = {rank for rank, what in PLANTS.items() if what.partition(":")[0] in ("leak", "layer", "batch", "outside")}


def line_of(script, text):
    """Where a line of the program's is, as tables name it."""
    [number] = [number for number, line in enumerate(script.read_text().splitlines(), 1) if text in line]
    return f"{script}:{number}"


def other_build(library, to):
    """A copy of a library that has another build id."""
    data = bytearray(library.read_bytes())
    [note] = re.finditer(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", data)
    data[note.end()] ^= 0xFF
    to.write_bytes(data)
    return to


def recorded(python, shared):
    """The captures' folder. Workers that share a folder of a session record them once."""
    folder = shared / "ranks"
    with open(shared / "ranks.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            harness.simulate(["true"])  # puts the simulator's libraries where they are preloaded from
            preloaded = harness.SIMULATOR_PRELOAD / "libcudart.so.13"
            (shared / "runtime").mkdir(exist_ok=True)
            runtime = other_build(preloaded, shared / "runtime" / "libcudart.so.13.9")
            folder.mkdir()
            planted = {rank: what.format(runtime=runtime) for rank, what in PLANTS.items()}
            plants = [word for rank, what in planted.items() for word in ("--plant", f"{rank}={what}")]
            command = [python, JOB, str(WORLD), *plants]
            harness.simulate(command, cwd=folder, preload=True, env={"GPUMEM_QUIET": "1"}, check=False, timeout=300)
    assert len(list(folder.glob("report.rank*.bin"))) == WORLD
    return folder
