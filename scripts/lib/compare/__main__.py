"""Makes the pictures of docs/compared.md: ours, memray's and memory_viz's, for the same programs."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "lib")]

import browser  # noqa: E402  (lives in tests/lib)
import pictured  # noqa: E402
import heap  # noqa: E402
import measure  # noqa: E402

import ours  # noqa: E402
import viz  # noqa: E402

IMAGES = ROOT / "docs" / "images"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/compare-pictures")
    parser.add_argument("--python", type=Path, required=True, help="a Python with PyTorch")
    parser.add_argument("--memray", type=Path, help="a Python with memray")
    parser.add_argument("--viz", type=Path, help="a folder with MemoryViz.js, process_alloc_data.js and d3.min.js")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", choices=["ours", "memray", "memory_viz"])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--large", type=Path, action="append", default=[])
    parser.add_argument("--axe", type=Path, default=ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    if browser.find() is None:
        sys.exit("compare-pictures: no Chromium here: scripts/lib/environment browser")
    missing = [name for name in viz.FILES if given.viz and not (given.viz / name).is_file()]
    if missing:
        sys.exit(f"compare-pictures: {given.viz} has no {', '.join(missing)}: scripts/compare-pictures --help says where from")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        made = pictured.record(folder, given.python)
        pages = {}
        if given.memray and (given.measure or given.only in (None, "memray")):
            pages = heap.record(folder, given.python, given.memray)
        if given.measure:
            for line in measure.table(made, pages, given.viz, given.large, given.axe, folder):
                print(line, flush=True)
            return
        out = IMAGES / "compared"
        out.mkdir(parents=True, exist_ok=True)
        if given.only in (None, "ours"):
            ours.pictures(made, folder, IMAGES)
        if pages:
            heap.pictures(pages, out)
        if given.viz and given.only in (None, "memory_viz"):
            viz.pictures(made, given.viz, folder, out)


if __name__ == "__main__":
    main()
