"""The program of scripts/gpu-check: see there. Standard library only; any Python from 3.9 on."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import gpu_card
import gpu_guest
import gpu_plan
from gpu_runs import ANALYZER, BUILT, LIBRARY, body, environment, execute, last_line, recorded

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = BUILT / "conformance"
WITH_SIMULATOR = ROOT / "scripts" / "with-simulator"
PROGRAMS = ROOT / "tests" / "workloads" / "gpu"
NO_GPU = 77
MIB = 1 << 20


@dataclass
class Workload:
    """One program, run once with the recorder."""

    name: str
    script: str
    module: Optional[str] = None  # a Python package that it needs
    environment: dict[str, str] = field(default_factory=dict)
    # Whether the allocator reports each tensor, so that tensor peaks can be compared.
    tensors: bool = False


CONFIGURATIONS = [
    Workload("PyTorch, native", "torch_train.py", "torch", {}, True),
    Workload(
        "PyTorch, expandable segments", "torch_train.py", "torch",
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, True,
    ),
    Workload(
        "PyTorch, cudaMallocAsync", "torch_train.py", "torch",
        {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    ),
    Workload("PyTorch, CUDA graphs", "torch_graphs.py", "torch", {}, True),
    Workload("CuPy", "cupy_pool.py", "cupy"),
    Workload("JAX, default", "jax_steps.py", "jax", {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.20"}),
    Workload("JAX, cuda_async", "jax_steps.py", "jax", {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}),
    Workload("JAX, platform", "jax_steps.py", "jax", {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
    Workload("numba-cuda", "numba_kernels.py", "numba_cuda"),
    Workload("C++, static cudart", "static_cudart.cu"),
    Workload("conformance program", "conformance"),
]


@dataclass
class Row:
    """A line of the table."""

    name: str
    cells: list[str] = field(default_factory=list)
    skipped: str = ""
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    details: dict = field(default_factory=dict)


def say(text: str) -> None:
    """Prints a message about the current work."""
    print(f"== {text}", file=sys.stderr, flush=True)


class Check:
    """The run: options, folder and facts of the machine."""

    def __init__(self, options: argparse.Namespace, folder: Path, facts: dict):
        self.options = options
        self.folder = folder
        self.facts = facts
        self.simulated = gpu_card.is_simulated()
        self.ends = time.monotonic() + options.limit

    def wanted(self, name: str) -> bool:
        """Whether --only selects it."""
        return not self.options.only or any(word.lower() in name.lower() for word in self.options.only)

    def python(self, module: str) -> Optional[str]:
        """The first Python that finds the package, without importing it."""
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
        env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        for python in self.options.python:
            if subprocess.run([python, "-c", code], capture_output=True, env=env).returncode == 0:
                return python
        return None

    def command(self, workload: Workload) -> tuple[Optional[list[str]], str]:
        """The command, or the reason why it cannot run here."""
        if workload.script == "conformance":
            return [str(CONFORMANCE)], ""
        if workload.script.endswith(".cu"):
            return self.compiled(workload.script)
        python = self.python(workload.module)
        if python is None:
            return None, f"{workload.module} is not installed in {' or '.join(self.options.python)}"
        command = [python, str(PROGRAMS / workload.script)]
        return command, ""

    def compiled(self, source: str) -> tuple[Optional[list[str]], str]:
        """A CUDA program, built with nvcc if available."""
        if self.simulated:
            return None, "NVIDIA's static runtime refuses the simulated driver"
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.access(nvcc, os.X_OK):
            return None, "no nvcc on this machine"
        binary = self.folder / Path(source).stem
        built = subprocess.run(
            [nvcc, "-O1", "-cudart", "static", "-o", str(binary), str(PROGRAMS / source)],
            capture_output=True, text=True,
        )
        if built.returncode != 0:
            return None, f"nvcc could not build it: {last_line(built.stderr)}"
        return [str(binary)], ""

    def run(self, workload: Workload) -> Row:
        """Runs one workload and checks it."""
        row = Row(workload.name)
        left = self.ends - time.monotonic()
        command, reason = self.command(workload) if left > 5 else (None, "no time left (--limit)")
        if command is None:
            row.skipped = reason
            return row
        report = self.folder / f"{workload.name.replace(', ', '-').replace(' ', '_')}.bin"
        began = time.monotonic()
        ended, output, errors = execute(
            command, recorded(workload.environment, report, self.simulated),
            min(self.options.timeout, left),
        )
        row.seconds = time.monotonic() - began
        figures = None
        for line in output.splitlines():
            if line.startswith("FIGURES "):
                figures = json.loads(line[len("FIGURES ") :])
        if skipped := [line for line in (output + errors).splitlines() if line.startswith("SKIP ")]:
            row.skipped = skipped[0][len("SKIP ") :]
            return row
        if ended != 0:
            row.faults.append(f"the program ended with {ended}: {last_line(errors)}")
        if figures is None and workload.script != "conformance":
            row.faults.append(f"no figures: {last_line(errors)}")
        if not report.exists():
            row.faults.append("no capture was written")
            return row
        judge(row, workload, report, figures or {})
        return row


def analyze(*arguments: object) -> object:
    """The JSON of a subcommand of gpumem-analyze."""
    done = subprocess.run(
        [str(ANALYZER), *map(str, arguments)], capture_output=True, text=True,
        env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"},
    )
    if done.returncode not in (0, 1, 3) or not done.stdout.strip():
        raise ValueError(f"gpumem-analyze {arguments[0]}: {last_line(done.stderr)}")
    return body(done.stdout)


def mib(value: Optional[float]) -> str:
    """Bytes for the table."""
    return "–" if value is None else f"{value / MIB:.1f}"


def judge(row: Row, workload: Workload, report: Path, figures: dict) -> None:
    """Fills a row from the capture and the program's own figures."""
    try:
        summary = analyze("report", "--all", "--format", "json", report)
        ledger = analyze("ledger", "--format", "json", "--at", "end", report)
    except ValueError as error:
        row.faults.append(str(error))
        return
    device = next((d for d in summary["devices"] if d["ordinal"] == 0), None)
    if device is None:
        row.faults.append("the capture knows no device 0")
        return
    at_end = next((entry for entry in ledger if entry["device"] == 0), {})
    torch, nvml, counters = (figures.get(key) or {} for key in ("torch", "nvml", "counters"))
    physical = device.get("physical") or {}
    tensors = device["tensor"] if workload.tensors else {}
    reserved = device.get("reserved") or {} if workload.tensors else {}
    row.details = {"summary": summary, "ledger": at_end, "figures": figures}
    if not summary["exact"]:
        row.faults.append("not exact: " + "; ".join(summary["missing"][:3]))
    if summary["lost_events"]:
        row.faults.append(f"{summary['lost_events']} events lost")
    for what, figure, own in (("tensor", tensors, "max_allocated"), ("reserved", reserved, "max_reserved")):
        if torch and figure and figure["peak_bytes"] != torch[own]:
            row.faults.append(f"{what} peak {figure['peak_bytes']}, PyTorch says {torch[own]}")
    if counters and counters["driver"]["peak"] != device["driver"]["peak_bytes"]:
        row.faults.append("the driver level's peak in the capture is not the counters'")
    if "driver_live" in figures and figures["driver_live"] != device["driver"]["live_bytes"]:
        row.faults.append(
            f"driver level {device['driver']['live_bytes']}, the program holds {figures['driver_live']}"
        )
    process = nvml.get("process")
    ours = at_end.get("nvml_process_bytes")
    if process is not None and ours is not None and process != ours:
        row.faults.append(f"NVML gave the recorder {ours} for this process, and gave us {process}")
    if at_end.get("rows") and sum(r["bytes"] for r in at_end["rows"]) != at_end["bytes"]:
        row.faults.append("the ledger's rows do not sum to its figure")
    row.cells = [
        "yes" if summary["exact"] else "NO",
        str(summary["lost_events"]),
        mib(device["driver"]["peak_bytes"]),
        f"{mib(tensors.get('peak_bytes'))} / {mib(torch.get('max_allocated'))}",
        f"{mib(reserved.get('peak_bytes'))} / {mib(torch.get('max_reserved'))}",
        mib(physical.get("live_bytes")),
        mib(at_end.get("bytes")),
        mib(process),
        mib(nvml.get("card_used")),
        mib(figures.get("cuMemGetInfo")),
        mib(at_end.get("unexplained_bytes")),
        mib(at_end.get("other_processes_bytes")),
    ]


HEAD = [
    "workload", "exact", "lost", "driver peak", "tensor peak / torch's", "reserved peak / torch's", "physical",
    "ledger's sum", "NVML process", "NVML card", "cuMemGetInfo", "unexplained", "others", "verdict",
]


def table(rows: list[Row]) -> str:
    """The table as aligned text, with the errors of each row below it."""
    lines = [HEAD]
    for row in rows:
        if not row.skipped:
            cells = row.cells or ["–"] * (len(HEAD) - 2)
            lines.append([row.name, *cells, "DIFFERS" if row.faults else "agrees"])
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    text = []
    for line in lines:
        padded = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:]))]
        text.append("  ".join(padded).rstrip())
    text.append("(MiB; NVML and cuMemGetInfo as the program itself read them when it was done)")
    for row in rows:
        text += [f"{row.name}: {fault}" for fault in row.faults]
        if row.skipped:
            text.append(f"{row.name}: skipped: {row.skipped}")
    return "\n".join(text)


def conformance(prefix: list[str]) -> tuple[int, dict, str]:
    """Runs the conformance program: exit code, facts, its output on stderr."""
    env = environment({}, bool(prefix) or gpu_card.is_simulated())
    done = subprocess.run([*prefix, str(CONFORMANCE)], capture_output=True, text=True, env=env)
    facts = json.loads(done.stdout) if done.returncode == 0 else {}
    return done.returncode, facts, done.stderr.strip()


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="gpu-check",
        description="Compares gpumem's ledger with NVML, cudaMemGetInfo and PyTorch's own figures on a real "
        "GPU, and the card with the simulator. Exit codes: 0 all agrees, 1 something differs, 77 no GPU.",
    )
    parser.add_argument("--python", action="append", help="a Python with PyTorch (python3); may be repeated: the first that has a workload's package runs it")
    parser.add_argument("--output", type=Path, help="folder for captures and JSON (a temporary one)")
    parser.add_argument("--only", action="append", metavar="WORD", help="only workloads whose name holds the word; may be repeated")
    parser.add_argument("--timeout", type=float, default=90, help="seconds for each workload (90)")
    parser.add_argument("--limit", type=float, default=430, help="seconds for the card's file and all workloads together (430)")
    parser.add_argument("--card", action="store_true", help="write the card's file by `gpumem card measure` and end (2 minutes)")
    parser.add_argument("--plan", action="store_true", help="plan programs, run them, and print planned beside measured (--limit 1500)")
    parser.add_argument("--guest", action="store_true", help="run programs with and without the recorder, and print what differs (3 minutes)")
    parser.add_argument("--times", type=int, nargs="?", const=gpu_guest.ROUNDS, metavar="ROUNDS", help="what a training's step takes with the recorder, without, and with PyTorch's")
    parser.add_argument("--facts", action="store_true", help="print the conformance program's facts and end")
    parser.add_argument("--compare", nargs=2, metavar=("CARD", "SIMULATOR"), help="print the differences of two files of facts and end")
    options = parser.parse_args()
    options.python = options.python or ["python3"]
    return options


def missing() -> list[str]:
    """Missing built files."""
    return [path.name for path in (LIBRARY, ANALYZER, CONFORMANCE) if not path.exists()]


def run_workloads(check: Check) -> list[Row]:
    """Every selected workload, one after the other."""
    rows = []
    for workload in CONFIGURATIONS:
        if check.wanted(workload.name):
            say(workload.name)
            rows.append(check.run(workload))
    return rows


def run_plans(check: Check) -> int:
    """Compares `gpumem plan` with the card. Returns 0, or 1 if they differ."""
    python = check.python("torch") or check.options.python[0]
    card = check.folder / "card-file.json"
    if not card.exists() and gpu_card.measure(python, environment({}, check.simulated), card):
        return 1
    checker = gpu_plan.Checker(python, card, check.folder, check.simulated, check.options.timeout, check.ends)
    rows = []
    for program in gpu_plan.programs(check.wanted):
        say(program.stem)
        rows.append(checker.compare(program))
    (check.folder / "plans.json").write_text(json.dumps([vars(row) for row in rows], indent=1))
    print(gpu_plan.table(rows))
    print(f"captures and figures: {check.folder}")
    return 1 if any(row.faults for row in rows) else 0


def run_guests(check: Check) -> int:
    """Compares programs with and without the recorder. Returns 0, or 1 if they differ."""
    options = check.options
    guests = gpu_guest.Guests(check.python("torch") or options.python[0], check.folder, check.simulated, options.timeout)
    found = guests.all(check.wanted) if options.guest else {}
    print(gpu_guest.told(found))
    times = guests.times(options.times, check.ends) if options.times else {}
    if times:
        print(gpu_guest.times_told(times))
    (check.folder / "guests.json").write_text(json.dumps({"found": found, "step_us": times}, indent=1))
    return 1 if any(what and not what[0].startswith("skipped") for what in found.values()) else 0


def main() -> int:
    """Runs the command."""
    options = parse()
    if options.compare:
        card, simulator = (json.loads(Path(path).read_text()) for path in options.compare)
        lines = gpu_card.compare(card, simulator)
        print("\n".join([*(lines or ["no differences"]), *gpu_card.of_left_out(card, simulator)]))
        return 1 if lines else 0
    if lacking := missing():
        print(f"gpu-check: not built: {', '.join(lacking)} (cargo build --release --workspace)", file=sys.stderr)
        return 1
    code, facts, said = conformance([])
    if code == NO_GPU:
        print(f"gpu-check: nothing checked. {said.removeprefix('conformance: ')}", file=sys.stderr)
        return NO_GPU
    if code != 0:
        print(f"gpu-check: the conformance program ended with {code}: {said}", file=sys.stderr)
        return 1
    if options.facts:
        print(json.dumps(facts, indent=1))
        return 0
    folder = options.output or Path(tempfile.mkdtemp(prefix="gpu-check-"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "card.json").write_text(json.dumps(facts, indent=1))
    check = Check(options, folder, facts)
    print(f"{facts['card.name']}, driver {facts['card.driver_version']}, {facts['card.total_bytes'] / MIB:.0f} MiB")
    if options.plan:
        return run_plans(check)
    if options.guest or options.times:
        return run_guests(check)
    measured = 0
    if options.card or not options.only:
        python = check.python("torch") or options.python[0]
        measured = gpu_card.measure(python, environment({}, check.simulated), folder / "card-file.json")
    if options.card:
        return measured
    rows = run_workloads(check)
    print(table(rows))
    details = {row.name: {"seconds": row.seconds, "faults": row.faults, "skipped": row.skipped, **row.details} for row in rows}
    (folder / "rows.json").write_text(json.dumps(details, indent=1))
    if not check.simulated and (BUILT / "libsimcuda.so").exists():
        _, simulated, _ = conformance([str(WITH_SIMULATOR), "--"])
        (folder / "simulator.json").write_text(json.dumps(simulated, indent=1))
        lines = gpu_card.compare(facts, simulated)
        print(f"\nThe card and the simulator differ in {len(lines)} of {len(facts)} facts:")
        print("\n".join([*lines, *gpu_card.of_left_out(facts, simulated)]))
    print(f"captures and figures: {folder}")
    return 1 if measured or any(row.faults for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
