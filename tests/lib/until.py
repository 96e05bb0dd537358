"""Waits for a state of another program."""

import time

# Ends a test that hangs. No test fails by it because the machine is slow.
LIMIT = 300


def until(question, what):
    """Repeats a query until its answer is true; returns the answer. A query that finds no server is repeated, too."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            answer = question()
        except ConnectionError:
            answer = None
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {LIMIT} s: {what}"
        time.sleep(0.05)
