"""Waiting for what another process does."""

import time

# Ends a test that hangs, before pytest's own limit does so without a message. No slow machine reaches it.
WATCHDOG = 240


def until(condition, what):
    """Waits until `condition()` is true."""
    end = time.monotonic() + WATCHDOG
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"does not come: {what() if callable(what) else what}")
        time.sleep(0.002)
