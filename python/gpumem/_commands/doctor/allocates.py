"""A script that runs on the simulated GPU with the library preloaded and makes one allocation with the driver, which is
recorded. The first argument is the folder of the package."""

import sys

if __name__ == "__main__":
    sys.path[0] = sys.argv[1]
    from gpumem._machine import driver

    driver.Allocation(1 << 20).free()
