"""Fixtures that all end-to-end tests share. Run by scripts/test; alone: see CONTRIBUTING.md."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "lib"))
pytest.register_assert_rewrite("kept")

import browser  # noqa: E402  (lives in tests/lib)
import forks as forks_of_torch  # noqa: E402
import harness  # noqa: E402


LANES = [line.split() for line in (Path(__file__).parent / "lanes.txt").read_text().splitlines() if line and line[0] != "#"]
SLICES = {name: int(lane) for lane, kind, name in LANES if kind == "tests"}


def pytest_addoption(parser):
    lanes = ["default", "all", *map(str, sorted(set(SLICES.values())))]
    parser.addoption("--lane", choices=lanes, default="all", help="default: no slow tests; 0 …: also that slice of them")
    parser.addoption("--alone", action="store_true", help="only the tests marked alone, which the others must not disturb")


def pytest_collection_modifyitems(config, items):
    lane = config.getoption("--lane")
    left_out = []
    for item in items:
        slow, alone = item.get_closest_marker("slow"), item.get_closest_marker("alone")
        if alone and not slow:
            raise pytest.UsageError(f"{item.nodeid} is marked alone, but not slow: the default lane would never run it")
        if slow and item.path.stem not in SLICES:
            raise pytest.UsageError(f"{item.nodeid} is marked slow, but tests/lanes.txt has no slice for {item.path.stem}")
        if slow and lane != "all" and lane != str(SLICES[item.path.stem]):
            left_out.append(item)
        elif bool(alone) != config.getoption("--alone"):
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]


# A shell ignores SIGINT in its background jobs, and programs would inherit that from this one.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _build():
    """Builds what the tests run, unless scripts/test has built it (GPUMEM_TESTS_BUILT=1), so that no test runs old
    binaries."""
    if os.environ.get("GPUMEM_TESTS_BUILT") != "1":
        subprocess.run([harness.ROOT / "scripts" / "test", "build"], check=True)


@pytest.fixture(scope="session")
def dump():
    """The example that prints a capture's records."""
    return harness.EXAMPLES / "dump"


@pytest.fixture
def simulate(tmp_path):
    """Runs a command on the simulator and returns its CompletedProcess (text). The working
    directory is the test's own folder unless `cwd` is given, so that reports land there."""

    @functools.wraps(harness.simulate)
    def start(command, **options):
        options.setdefault("cwd", tmp_path)
        return harness.simulate(command, **options)

    return start


@pytest.fixture
def rings():
    """A folder for rings (GPUMEM_RING) that no other test's programs look at: a recorded program takes over the rings
    of ended processes that are in its folder."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@functools.lru_cache(maxsize=None)
def _environment(name: str):
    if name.startswith("py"):
        version = f"{name[2]}.{name[3:]}"
        found = subprocess.run(
            ["bash", "-c", 'for part in common environment interpreters; do . scripts/lib/$part.sh; done; '
             'find_interpreter "$1"', "find-interpreter", version],
            cwd=harness.ROOT, stdout=subprocess.PIPE, text=True,
        )
        return found.stdout.strip() or None, f"no CPython {version} on this machine"
    found = subprocess.run(
        [harness.ENVIRONMENT, "--current", name], stdout=subprocess.PIPE, text=True
    )
    missing = f"environment {name} is not built or out of date: scripts/lib/environment {name}"
    return found.stdout.strip() or None, missing


@pytest.fixture(scope="session")
def python_env():
    """python_env("torch215") is the path of that environment's Python (also "torch112", "numba"), python_env("py38")
    … ("py315") that of a plain CPython ("py313t": without the GIL), the machine's own or one that
    scripts/lib/environment has made. Skips the test where it is missing."""

    def path_of(name: str) -> Path:
        path, missing = _environment(name)
        if path is None:
            pytest.skip(missing)
        return Path(path)

    return path_of


@pytest.fixture(scope="session")
def cudart102() -> Path:
    """Folder that holds NVIDIA's real libcudart.so.10.2 (its soname)."""
    found = subprocess.run(
        [harness.ENVIRONMENT, "cudart102"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if found.returncode != 0:
        pytest.skip(f"the real cudart 10.2 is not at hand: {found.stderr.strip()}")
    return Path(found.stdout.strip())


@pytest.fixture(scope="session")
def build_c(tmp_path_factory):
    """build_c("zoo.c", "-ldl") compiles a file of tests/workloads (or a path) and returns the
    binary; .cpp goes to the C++ compiler. Each source with its flags is built once a session."""
    folder = tmp_path_factory.mktemp("built")
    built: dict[tuple, Path] = {}

    def build(source, *flags) -> Path:
        source = harness.WORKLOADS / source
        key = (source, *map(str, flags))
        if key not in built:
            compiler = "c++" if source.suffix in (".cpp", ".cc") else "cc"
            binary = folder / f"{source.stem}-{len(built)}"
            harness.run(
                [compiler, "-O1", "-g", "-Wall", "-Wextra", "-o", binary, source, *flags]
            )
            built[key] = binary
        return built[key]

    return build


@pytest.fixture(scope="session")
def analyze():
    """analyze("check", path, check=False) runs the built gpumem-analyze."""
    return harness.analyze


@pytest.fixture(scope="session")
def analyze_json():
    """analyze_json("report", "--all", path) is the JSON that the subcommand prints."""
    return harness.analyze_json


@pytest.fixture(scope="session")
def trained(python_env, tmp_path_factory):
    """trained("torch215") is one recorded training of that environment, ended by os._exit so that
    what lived at the end still does; run once a session. See harness.Trained."""
    runs: dict[str, harness.Trained] = {}

    def run_of(name: str) -> harness.Trained:
        python = python_env(name)
        if name not in runs:
            runs[name] = harness.train(name, python, tmp_path_factory.mktemp(f"trained-{name}"))
        return runs[name]

    return run_of


@pytest.fixture(scope="session")
def forks(python_env):
    """forks("torch215").run([script, …], cwd=folder) runs a program in a fork of a process that has imported PyTorch, on
    the simulator and with libgpumem.so unless `preload` is False. See forks.Forks."""
    made: dict[tuple, forks_of_torch.Forks] = {}

    def of(name: str, preload: bool = True) -> forks_of_torch.Forks:
        if (name, preload) not in made:
            made[name, preload] = forks_of_torch.Forks(python_env(name), preload, harness.SIMULATED_CARD[name])
        return made[name, preload]

    yield of
    for each in made.values():
        each.close()


@pytest.fixture(scope="session")
def chromium():
    """A headless browser, one for all tests of a worker. Skips the test without one."""
    binary = browser.find()
    if binary is None:
        pytest.skip("no Chromium on this machine: scripts/lib/environment browser")
    opened = browser.Browser(binary)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def window(chromium, page):
    """The page that the test file's fixture `page` names, in the browser as it was at its start."""
    chromium.call("Emulation.clearDeviceMetricsOverride")
    chromium.call("Emulation.setEmulatedMedia", media="", features=[])
    chromium.open(page)
    return chromium
