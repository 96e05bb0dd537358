"""first_report.py [WHEEL]: measures the time from a wheel to the first report, in a new virtual environment.

Creates the environment, installs the wheel (by default the one in dist/) and records a small training run on the
simulated GPU with `gpumem run`. PyTorch comes from the tests' environment (scripts/lib/environment torch215), as
if it were already installed. No compiler is on PATH. Prints the seconds of each step; fails if there is no report."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "workloads" / "train.py"


def timed(steps, label, command, **options):
    began = time.monotonic()
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    steps.append((label, time.monotonic() - began))
    if done.returncode:
        raise SystemExit(f"first_report: {label} failed ({done.returncode}):\n{done.stdout}")
    return done.stdout


def main(words):
    wheels = [Path(words[0])] if words else sorted((ROOT / "dist").glob("libgpumem-*.whl"))
    if len(wheels) != 1 or not wheels[0].is_file():
        raise SystemExit("first_report: name a wheel, or make one with scripts/wheel")
    wheel = wheels[0].resolve()
    found = subprocess.run([ROOT / "scripts" / "lib" / "environment", "torch215"], stdout=subprocess.PIPE, text=True, check=True)
    python = Path(found.stdout.strip())
    packages = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True).strip()
    steps = []
    with tempfile.TemporaryDirectory(prefix="first-report.") as name:
        folder = Path(name)
        env = {"PATH": f"{folder}/env/bin", "HOME": name, "LANG": "C.UTF-8"}
        timed(steps, "python -m venv", [python, "-m", "venv", folder / "env"])
        site = next((folder / "env" / "lib").glob("python3*")) / "site-packages"
        (site / "pytorch.pth").write_text(f"{packages}\n")
        bin_ = folder / "env" / "bin"
        timed(steps, "pip install", [bin_ / "pip", "install", "--no-index", "--disable-pip-version-check", wheel], env=env, cwd=name)
        said = timed(steps, "gpumem run", [bin_ / "gpumem", "run", "--simulate", PROGRAM, "--steps", "3"], env=env, cwd=name)
        if "Lines that own the peak" not in said or "train.py:" not in said:
            raise SystemExit(f"first_report: no report:\n{said}")
        if not (folder / "report.bin").is_file():
            raise SystemExit("first_report: no capture")
    total = sum(seconds for _, seconds in steps)
    print(f"{wheel.name}, {os.path.getsize(wheel):,} bytes; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for label, seconds in [*steps, ("total", total)]:
        print(f"{label:<16}{seconds:6.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
