"""The bounds of time in docs/ring.md, on disks that do not respond: the best of three runs, alone on the machine.

What breaks these tests: a call of the driver or an end of the program that waits for a disk."""

import time

import beside
import pytest
from test_hostile_disks import client, fuse  # noqa: F401  (fixtures are taken by name)

# Wall time, on a machine without other work. Nanoseconds that a call of the driver may take longer with the recorder,
# the same of the first calls, during which it opens, and seconds from the program's last line to the recorder's.
MORE, OPENING, ENDING = 10_000_000, 50_000_000, 2.0


@pytest.mark.slow
@pytest.mark.alone
def test_the_bounds_of_time_on_a_frozen_disk(client, fuse, tmp_path):  # noqa: F811
    """Each run beside one without the recorder."""
    found = []
    for number in range(3):
        report, place = fuse.folder / f"{number}.bin", tmp_path / f"run-{number}"
        with beside.started(client, tmp_path / f"without-{number}") as alone, beside.recorded(client, place, report) as run:
            run.goes_on()
            fuse.freeze("all")
            fuse.command("held all 1")
            run.goes_on(1000)
            run.end()
            began = time.monotonic()
            run.says("is incomplete")
            ending = time.monotonic() - began
            fuse.thaw()
            found.append((run.finish().longest - alone.finish().longest, ending))
    assert min(more for more, _ in found) <= MORE and min(ending for _, ending in found) <= ENDING, found


@pytest.mark.slow
@pytest.mark.alone
def test_the_bound_of_time_of_the_first_calls(client, fuse, tmp_path):  # noqa: F811
    fuse.freeze("create,open,lookup,truncate,fallocate")
    found = []
    for number in range(3):
        report, place = fuse.folder / f"{number}.bin", tmp_path / f"run-{number}"
        with beside.started(client, tmp_path / f"without-{number}") as alone, beside.recorded(client, place, report) as run:
            run.goes_on(1)
            fuse.thaw()
            found.append(run.finish().opening - alone.finish().opening)
            fuse.freeze("create,open,lookup,truncate,fallocate")
    assert min(found) <= OPENING, found
