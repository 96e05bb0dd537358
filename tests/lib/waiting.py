"""Waiting for what another process does."""

import time

# Ends a test that hangs, before pytest's own limit does so without a message. No slow machine reaches it.
WATCHDOG = 540


def until(condition, what):
    """Waits until `condition()` is true, and returns its value. A server that is not there yet counts as false."""
    end = time.monotonic() + WATCHDOG
    while True:
        try:
            value = condition()
        except ConnectionError:
            value = None
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"does not come: {what() if callable(what) else what}")
        time.sleep(0.002)
