"""A second reader of report.bin, written from capture/SPEC.md alone: no line of it is taken from the Rust
reader, so that what both say is what the specification says. For tests; it holds a whole file in memory.

    python -m spec_reader FILE…      one JSON object a line, as capture/examples/tell.rs prints them
"""

from .capture import Refused, read

__all__ = ["Refused", "read"]
