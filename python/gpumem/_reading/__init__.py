"""Captures, read by gpumem-analyze: `gpumem.open`, rows, events, and the report at the end of `gpumem run`."""
