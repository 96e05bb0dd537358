"""Pictures of memray's reports of the same training run. memray records host memory, not GPU memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pictured import ROOT, TRAINING, simulated
from shots import settle, take, window

REPORTS = {"flamegraph": ["flamegraph"], "temporal": ["flamegraph", "--temporal", "--leaks"], "table": ["table"]}


def packages(python: Path) -> str:
    """The folder of a Python's packages."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([python, "-c", where], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def record(folder: Path, python: Path, memray: Path) -> dict[str, Path]:
    """Records the training with memray, and makes its reports, without a network (`--no-web`)."""
    beside = packages(memray)
    capture = folder / "memray.bin"
    if not capture.exists():
        run = ["-m", "memray", "run", "-q", "-o", capture, TRAINING]
        simulated(python, run, "16GiB", ROOT, PYTHONPATH=beside)
    pages = {}
    for name, command in REPORTS.items():
        pages[name] = folder / f"memray-{name}.html"
        if not pages[name].exists():
            done = subprocess.run(
                [python, "-m", "memray", *command, "--no-web", "-f", "-o", pages[name], capture], text=True,
                env={**os.environ, "PYTHONPATH": beside}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            if done.returncode:
                sys.exit(f"memray {' '.join(command)}: {done.stdout}")
            # Pictures contain no folder of this machine.
            text = pages[name].read_text().replace(packages(python), "site-packages").replace(f"{ROOT}/", "").replace(beside, "site-packages")
            pages[name].write_text(text)
    return pages


def pictures(pages: dict[str, Path], out: Path) -> None:
    """Makes all pictures for docs/compared.md."""
    with window(1280, 1000) as shown:
        shown.open(pages["flamegraph"])
        shown.wait("document.querySelectorAll('.d3-flame-graph rect').length > 10", 60)
        x, y = shown.tell(
            "(() => { const b = [...document.querySelectorAll('.d3-flame-graph g.frame')].find(of => of.textContent.includes('pairs.pow'))"
            ".getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        shown.move(x, y)
        take(shown, out / "memray-flamegraph.png")
        shown.open(pages["temporal"])
        shown.wait("document.querySelectorAll('.d3-flame-graph rect').length > 10", 60)
        # A hint over the chart that disappears by itself, and a warning that a reader would close.
        shown.tell("document.querySelectorAll('.toast, .alert').forEach(of => of.remove())")
        shown.tell("globalThis.before = document.getElementById('chart').textContent; undefined")
        shown.tell(
            "(() => { const plot = document.getElementById('plot'), [from, to] = plot.layout.xaxis.range.map(of => new Date(of).getTime());"
            " const at = share => new Date(from + (to - from) * share).toISOString().replace('T', ' ').replace('Z', '');"
            " return Plotly.relayout(plot, {'xaxis.range': [at(0.94), at(0.975)]}).then(() => { globalThis.moved = 1; }); })(); undefined"
        )
        shown.wait("globalThis.moved === 1", 60)
        shown.wait("document.getElementById('chart').textContent !== globalThis.before", 60)
        shown.wait("getComputedStyle(document.getElementById('loading')).display === 'none'", 60)
        # Frames move to their positions before they have labels.
        shown.wait("(of => of.textContent.includes('root') && of.getBoundingClientRect().width > 1200)(document.querySelector('#chart g.frame'))", 60)
        settle(shown)
        take(shown, out / "memray-temporal.png")
        shown.open(pages["table"])
        shown.wait("document.querySelectorAll('table tbody tr').length > 3", 60)
        take(shown, out / "memray-table.png")
