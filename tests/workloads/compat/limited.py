"""A card that GPUMEM_LIMIT=2GiB makes smaller: leaving 100 MB free of it, and allocating 200."""

from checking import MB, equal

from gpumem._machine import driver
from gpumem.compat.ipyexperiments.utils import mem


def check_little_left():
    for _ in range(2):
        hold = mem.gpu_mem_leave_free_mbs(100)
        free, total = driver.free_and_total(0)
        equal((total, mem.gpu_mem_get_total_mbs()), (2048 * MB, 2048))
        assert abs(free / MB - 100) <= 2, free
        equal(mem.gpu_mem_allocate_mbs(200), None)
        try:
            mem.gpu_mem_allocate_mbs(200, fatal=True)
        except RuntimeError as error:
            assert "out of memory" in str(error), error
        else:
            raise AssertionError("there is less")
        x = mem.gpu_mem_allocate_mbs(60)
        assert x is not None
        del x
        try:
            mem.gpu_mem_leave_free_mbs(200)
        except AssertionError as error:
            equal(str(error), "already have less available mem than desired 200MBs")
        else:
            raise AssertionError("there is less")
        del hold
