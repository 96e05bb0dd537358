"""A second reader of report.bin, for tests. It is written from capture/SPEC.md alone and shares no code with the
Rust reader: if both agree, the specification is complete. It holds a whole file in memory.

    python -m spec_reader FILE…      one JSON object a line, as `capture/examples/tell.rs` prints them
"""

from .capture import Refused, read

__all__ = ["Refused", "read"]
