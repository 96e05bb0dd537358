"""Paths of the repository and its programs."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WORKLOADS = ROOT / "tests" / "workloads"
RELEASE = ROOT / "target" / "release"
LIBRARY = RELEASE / "libgpumem.so"
PROBE = RELEASE / "examples" / "libbench_probe.so"
ANALYZER = RELEASE / "gpumem-analyze"
WITH_SIMULATOR = ROOT / "scripts" / "with-simulator"
