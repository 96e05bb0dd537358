"""The events of a capture as Arrow record batches, which `gpumem-analyze export arrow-stream` writes to a pipe."""

from __future__ import annotations

import fcntl
import subprocess
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Sequence

from . import analysis
from .results import needed

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

# The largest pipe without privileges (fcntl(2)); the default of 64 KiB causes many switches between the two processes.
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031


class PartialCapture(UserWarning):
    """A part of the capture is missing: the figures are of the existing part."""


class Child:
    """A gpumem-analyze that writes to a pipe, and the reading end of the pipe."""

    closed = False

    def __init__(self, analyzer: Path, capture: Path, options: Sequence[str]) -> None:
        import tempfile

        self._capture = capture
        self._said = tempfile.TemporaryFile()
        command = [str(analyzer), "export", "arrow-stream", "-o", "-", *options, analysis.named(capture)]
        try:
            self._process = subprocess.Popen(
                command, env=analysis.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._said, bufsize=0
            )
        except OSError as error:
            self._said.close()
            raise analysis.missing_analyzer(analyzer, error) from None
        stdout = self._process.stdout
        assert stdout is not None
        self._pipe = stdout
        try:
            fcntl.fcntl(self._pipe.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)
        except OSError:  # the user's pipes have reached their limit
            pass

    def readable(self) -> bool:
        """Called by pyarrow."""
        return True

    def seekable(self) -> bool:
        """Called by pyarrow."""
        return False

    def read(self, size: int) -> Any:
        """The next bytes, `size` of them unless the pipe ends before. The memory is Arrow's, so batches can use it
        directly."""
        import pyarrow

        if self.closed:
            raise ValueError(f"{self._capture}: the capture is closed")
        buffer = pyarrow.allocate_buffer(size)
        into, have = memoryview(buffer).cast("B"), 0
        while have < size:
            count = self._pipe.readinto(into[have:])  # type: ignore[attr-defined]
            if not count:
                return buffer.slice(0, have)
            have += count
        return buffer

    def finish(self) -> None:
        """Waits for the end of the process, and warns about missing parts.

        Raises `Unreadable` if the analyzer reports that there is no result."""
        status = self._process.wait()
        said = self._last_words()
        self.close()
        if status == analysis.PARTIAL:
            for line in analysis.partial(said):
                warnings.warn(f"{self._capture}: {line}", PartialCapture, stacklevel=4)
        elif status != 0:
            raise analysis.Unreadable(analysis.reason(said, status, self._capture))

    def close(self) -> None:
        """Stops the process if it still runs."""
        if self.closed:
            return
        self.closed = True
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._pipe.close()
        self._said.close()

    def __del__(self) -> None:
        if hasattr(self, "_pipe"):
            self.close()

    def _last_words(self) -> List[str]:
        self._said.seek(0)
        return analysis.lines_of(self._said.read())


class Events:
    """The events of a capture, in their order: an iterable of `pyarrow.RecordBatch`.

    Each iteration reads the capture again; you can end it early. The columns are those of `gpumem-analyze export
    parquet`. Any library that accepts an Arrow stream (`__arrow_c_stream__`) can read this object."""

    def __init__(self, start: Callable[[], Child]) -> None:
        self._start = start

    def __iter__(self) -> Iterator["pyarrow.RecordBatch"]:
        _pyarrow("events()")
        child = self._start()
        return _batches(child, _opened(child))

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def reader(self) -> "pyarrow.RecordBatchReader":
        """The batches with their schema, as pyarrow's functions expect them. Raises ImportError without pyarrow."""
        pyarrow = _pyarrow("reader()")
        child = self._start()
        stream = _opened(child)
        return pyarrow.RecordBatchReader.from_batches(stream.schema, _batches(child, stream))

    def to_arrow(self) -> "pyarrow.Table":
        """All events as a `pyarrow.Table`, in the memory that they were read into."""
        return self.reader().read_all()

    def to_frame(self) -> Any:
        """All events as a pandas DataFrame. Texts are categories; columns of numbers with missing values are floats,
        as usual in pandas. Raises ImportError without pandas."""
        needed("pandas", "to_frame()")
        return self.to_arrow().to_pandas(split_blocks=True, self_destruct=True)

    def to_polars(self) -> Any:
        """All events as a polars DataFrame. Texts are categories. Raises ImportError without polars."""
        polars = needed("polars", "to_polars()")
        return polars.from_arrow(self.to_arrow())


def _batches(child: Child, stream: Any) -> Iterator["pyarrow.RecordBatch"]:
    pyarrow = _pyarrow("events()")
    try:
        try:
            yield from stream
        except pyarrow.ArrowException:
            # The analyzer's message about a truncated stream is raised instead of pyarrow's.
            if not child.closed:
                child.finish()
            raise
        child.finish()
    finally:
        child.close()


def _opened(child: Child) -> Any:
    """pyarrow's reader of a stream. The analyzer's message about an empty stream is raised instead of pyarrow's."""
    pyarrow = _pyarrow("events()")
    try:
        return pyarrow.ipc.open_stream(child)
    except pyarrow.ArrowInvalid:
        child.finish()
        raise


def _pyarrow(what: str) -> Any:
    pyarrow = needed("pyarrow", what)
    needed("pyarrow.ipc", what)
    return pyarrow
