"""Takes a picture of a page of `gpumem-analyze html`, for scripts/docs-output. The picture
contains a hash of its page, so no browser is needed to check whether it is up to date."""

from __future__ import annotations

import hashlib
import importlib
import struct
import sys
import tempfile
import zlib
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2] / "tests" / "lib"
WIDTH, HEIGHT = 1280, 900
KEYWORD = b"gpumem-page\0"
# A PNG ends with this chunk.
END = struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))


def mark(page: bytes) -> bytes:
    """The hash of a page, as a part of its picture."""
    return KEYWORD + hashlib.sha256(page).hexdigest().encode()


def is_of(picture: Path, page: bytes) -> bool:
    return picture.exists() and mark(page) in picture.read_bytes()


def take(page: bytes, picture: Path) -> None:
    """Takes a picture of a page with the browser of tests/lib/browser.py."""
    sys.path.insert(0, str(LIBRARY))
    browser = importlib.import_module("browser")
    binary = browser.find()
    if binary is None:
        raise ValueError("no browser for a picture of a page: scripts/lib/environment browser")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_bytes(page)
        window = browser.Browser(binary, width=WIDTH, height=HEIGHT)
        try:
            window.resize(WIDTH, HEIGHT)
            window.open(path)
            window.wait("window.gpumem && gpumem.histories().length > 0")
            window.picture(picture, whole=False)
        finally:
            window.close()
    text = b"tEXt" + mark(page)
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    taken = picture.read_bytes()
    assert taken.endswith(END)
    picture.write_bytes(taken[: -len(END)] + chunk + END)
