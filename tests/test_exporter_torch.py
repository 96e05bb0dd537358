"""`gpumem-analyze live --metrics` and a real PyTorch: its figures are PyTorch's own, to the byte, while the program waits.

What breaks these tests: a figure that is rounded or late, and lines that are not those of `lines` at the same event."""

import harness
import pytest
from exporter import Exporter
from on_demand import TORCH, Program
from waiting import until

FIGURES = {
    "allocated": ("gpumem_process_memory_bytes", {"level": "tensor"}),
    "max_allocated": ("gpumem_process_memory_peak_bytes", {"level": "tensor"}),
    "reserved": ("gpumem_reserved_bytes", {}),
    "max_reserved": ("gpumem_reserved_peak_bytes", {}),
    "allocations": ("gpumem_allocations_total", {"level": "tensor"}),
    "frees": ("gpumem_frees_total", {"level": "tensor"}),
    "ooms": ("gpumem_out_of_memory_total", {}),
}


def lines_now(report):
    """Bytes by file, number and function, from `lines` for the newest event."""
    found = {}
    for row in harness.analyze_json("lines", "--at", "end", "--level", "tensor", report, check=False):
        key = (row["file"] or row["library"] or "(unknown)", str(row["line"] or 0), row["function"] or "")
        found[key] = found.get(key, 0) + row["bytes"]
    return found


def top_lines(exporter):
    """The lines that hold most, with their bytes, in order."""
    samples = exporter.samples()
    infos = [labels for name, labels, _ in samples if name == "gpumem_line_info"]
    named = {labels["line"]: (labels["file"], labels["number"], labels.get("function", "")) for labels in infos}
    return [(named[labels["line"]], value) for name, labels, value in samples if name == "gpumem_line_bytes"]


def is_of(top, lines, most):
    return all(lines.get(line) == value for line, value in top) and [value for _, value in top] == most


def shown(exporter):
    return {key: exporter.value(name, **labels) for key, (name, labels) in FIGURES.items()}


def is_newest(exporter, program):
    """Whether it has all events that there are: the program waits, but its last ones may not be written yet."""
    return exporter.value("gpumem_events_total") == harness.analyze_json("report", "--all", program.report, check=False)["events"]


@pytest.mark.slow
def test_figures_are_pytorch_s_own(tmp_path, python_env):
    with Program(tmp_path, python_env("torch215"), TORCH) as program:
        first = program.tell("hold 1")
        assert first["allocated"] >= 512
        with Exporter(program.report, options=("--top", "3")) as exporter:
            for command in ("train", "train", "hold 1000001", "hold 33554433", "train", "drop", "empty", "hold 7", "fail", "train"):
                own = program.tell(command)
                until(lambda: shown(exporter) == own and is_newest(exporter, program), f"{command}: {own}")
                free = exporter.value("gpumem_reserved_unallocated_bytes")
                assert free == own["reserved"] - own["allocated"], command
                lines = lines_now(program.report)
                assert sum(lines.values()) == own["allocated"], command
                most = sorted(lines.values(), reverse=True)[:3]
                # Lines may be half a second older than the other figures.
                until(lambda: is_of(top_lines(exporter), lines, most), f"{command}: {lines}")
            assert own["ooms"] == 1 and own["reserved"] > own["allocated"]
            summary = harness.analyze_json("report", "--all", program.report, check=False)
            assert exporter.value("gpumem_steps_total") == summary["steps"] > 0
