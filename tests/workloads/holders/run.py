"""Runs the cases, or those that are named: `run.py LIBRARY [CASE …]` with the library of
holders/examples/find_holders.rs. Prints the number of cases and of those that failed."""

import gc
import sys
import traceback

import attributes
import containers
import exceptions
import frames
import functions
import others
from planted import CASES, Check, Memory, Probe

MODULES = (attributes, containers, exceptions, frames, functions, others)


def main(arguments):
    path, *names = arguments[1:]
    probe = Probe(path)
    count = failed = 0
    for function in CASES:
        if names and function.__name__ not in names:
            continue
        count += 1
        try:
            function(Check(probe))
        except Exception:
            failed += 1
            print("in", function.__name__, file=sys.stderr)
            traceback.print_exc()
        for module in MODULES:
            vars(module).update(holder=None, other=None)
        gc.collect()
        for number in list(Memory.live):
            print("left by", function.__name__, file=sys.stderr)
            Memory.live.pop(number)
    print("checked", count, "failed", failed)


if __name__ == "__main__":
    # No list is made for the call: a frame keeps the address of one in a place that it no longer uses, and the next
    # list may have that address.
    main(sys.argv)
