"""The wheel: its contents run on any glibc from 2.17 on and any CPython, and work as installed.

scripts/wheel builds it once for all workers; cargo keeps what is already built and current. What breaks these tests:
a function of a newer glibc, a file that is left out of the wheel, a simulated library without the versions of its
symbols, a launcher that finds the checkout's library instead of the package's own."""

import fcntl
import json
import os
import re
import subprocess
import sys
import zipfile

import harness
import pytest
import test_zoo

PYTHONS = ("py38", "py39", "py310", "py311", "py312", "py313")


@pytest.fixture(scope="session")
def wheel(python_env, tmp_path_factory, worker_id):
    """The wheel of this tree, which the worker that comes first builds."""
    python_env("wheel")
    base = tmp_path_factory.getbasetemp()
    out = (base if worker_id == "master" else base.parent) / "wheel"
    with open(out.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(out.glob("*.whl")):
            done = subprocess.run(
                [harness.ROOT / "scripts" / "wheel", "--out", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
            assert done.stdout == f"{next(out.iterdir())}\n"
    (found,) = out.iterdir()
    return found


@pytest.fixture(scope="session")
def installed(wheel, python_env, tmp_path_factory):
    """installed("py312") is the folder of a clean virtual environment of that CPython with only the wheel in it. The
    wheel has no dependencies, so nothing is downloaded."""
    made = {}

    def make(name):
        python = python_env(name)
        if name not in made:
            # Installers write the path of the environment's Python into commands.
            folder = tmp_path_factory.mktemp(name) / "a venv"
            harness.run([python, "-m", "venv", "--without-pip", folder])
            # The pip that the tests' environment has installs for any interpreter.
            harness.run(
                [python_env("wheel"), "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-index",
                 "--no-deps", "--no-compile", "--quiet", "--disable-pip-version-check", wheel]
            )  # fmt: skip
            made[name] = folder
        return made[name]

    return make


def simulator_names():
    """By what cargo calls each library of the simulated card: the name that its clients look for."""
    told = harness.run([sys.executable, "-I", "-S", harness.ROOT / "scripts" / "lib" / "simulator_names.py"]).stdout
    return dict(line.split() for line in told.splitlines())


def tracked(folder):
    """The files of a folder that are part of the project."""
    return [harness.ROOT / name for name in harness.run(["git", "-C", harness.ROOT, "ls-files", folder]).stdout.splitlines()]


def exports(library):
    """Functions and data, each with its version. (bfd also has a symbol for each version.)"""
    lines = harness.run(["nm", "-D", "--defined-only", library]).stdout.splitlines()
    return {line.split()[-1] for line in lines if line.split()[-2] != "A"}


def soname(library):
    return re.findall(r"\(SONAME\).*\[(.*)\]", harness.run(["readelf", "--wide", "--dynamic", library]).stdout)


def ours_of(libraries):
    """Of these paths those of our libraries, and those of NVIDIA's in whose place ours are."""
    names = simulator_names()
    alike = {"libgpumem.so", *names, *names.values()}
    return {library for library in libraries if os.path.basename(library) in alike}


def test_simulated_libraries_are_what_their_clients_look_for():
    """By name, and by the version of every symbol; NVIDIA's NCCL has none."""
    for built, name in simulator_names().items():
        assert soname(harness.BUILT / built) == [name]
        versions = {export.partition("@@")[2] for export in exports(harness.BUILT / built)}
        assert versions == {"" if name == "libnccl.so.2" else name}, built


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_what_it_needs(wheel, python_env, tmp_path):
    """By its name and by its binaries: readelf confirms what scripts/wheel has checked, and auditwheel agrees."""
    assert re.fullmatch(r"libgpumem-\d+\.\d+\.\d+-py3-none-manylinux2014_x86_64\.manylinux_2_17_x86_64\.whl", wheel.name)
    version = re.search(r'^version = "(.*)"$', (harness.ROOT / "Cargo.toml").read_text(), re.M)[1]
    assert wheel.name.split("-")[1] == version
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        names = archive.namelist()
    for file in ("LICENSE-MIT", "LICENSE-APACHE", "NOTICE", "THIRD-PARTY.txt"):
        assert f"libgpumem-{version}.dist-info/licenses/{file}" in names
    assert "gpumem/py.typed" in names and not [name for name in names if "__pycache__" in name]
    sources = {str(path.relative_to(harness.ROOT / "python")) for path in tracked("python/gpumem") if path.suffix == ".py"}
    assert {name for name in names if name.startswith("gpumem/") and name.endswith(".py")} == sources
    fleet = {f"gpumem/_commands/fleet/{file.relative_to(harness.ROOT / 'python' / 'gpumem' / '_commands' / 'fleet')}" for file in tracked("python/gpumem/_commands/fleet")}
    assert "gpumem/_commands/fleet/queries/outliers/ranks.sql" in fleet and fleet <= set(names)
    assert wheel.stat().st_size <= 20_000_000
    package = tmp_path / "gpumem"
    program = tmp_path / f"libgpumem-{version}.data" / "scripts" / "gpumem-analyze"
    # In the checkout the same libraries are linked in another way.
    built = {package / "simulator" / library: harness.BUILT / library for library in simulator_names()}
    built.update({package / name: harness.BUILT / name for name in ("libgpumem.so", "libgpumem_whatif.so")})
    assert set(package.rglob("*.so*")) == set(built)
    for binary in (*built, program):
        needed = harness.run(["readelf", "--wide", "--version-info", binary]).stdout
        versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", needed)}
        assert versions and max(versions) <= (2, 17), sorted(versions)
        # A strong reference without a version is to what the glibc linked against does not have.
        symbols = harness.run(["readelf", "--wide", "--dyn-syms", binary]).stdout
        missed = [line for line in symbols.splitlines() if re.search(r"\bGLOBAL\b.*\bUND \w+$", line)]
        assert not missed
    for library, as_built in built.items():
        assert exports(library) and exports(library) == exports(as_built), library.name
        assert soname(library) == soname(as_built), library.name
    said = harness.run([python_env("wheel").parent / "auditwheel", "show", wheel]).stdout
    assert 'manylinux_2_17_x86_64' in said.replace("manylinux2014", "manylinux_2_17"), said


@pytest.mark.slow
def test_the_check_sees_what_is_wrong(python_env, tmp_path):
    """scripts/lib/check_wheel.py refuses this machine's own build, and a wheel with a part missing."""
    wheel = tmp_path / "libgpumem-0.1.0-py3-none-manylinux2014_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write("/bin/sh", "gpumem/libgpumem.so")
    check = [python_env("wheel"), harness.ROOT / "scripts" / "lib" / "check_wheel.py"]
    done = harness.run([*check, wheel], check=False)
    assert done.returncode == 1
    assert "its binaries are ['libgpumem.so'], not ['gpumem-analyze', 'libgpumem.so', 'libgpumem_whatif.so', 'libsimcublas.so'," in done.stderr
    assert re.search(r"libgpumem.so needs GLIBC_2\.\d+", done.stderr), "this machine's glibc is newer than 2.17"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(harness.BUILT / "libsimcudart.so", "gpumem/simulator/libsimcudart12.so")
        archive.write(harness.BUILT / "libsimnccl.so", "gpumem/simulator/libsimcufft.so")
        archive.writestr("padding", os.urandom(20_000_000))
    said = harness.run([*check, wheel], check=False).stderr
    assert "libsimcudart12.so calls itself ['libcudart.so.13']" in said
    assert "libsimcudart12.so has cudaMalloc of the version libcudart.so.13" in said
    assert "libsimcufft.so has ncclAllGather of the version None" in said
    assert re.search(r"it has \d\d,\d{3},\d{3} bytes, more than 20,000,000", said)
    other = wheel.with_name("libgpumem-0.1.0-cp312-cp312-linux_x86_64.whl")
    wheel.rename(other)
    assert "not for every CPython" in harness.run([*check, other], check=False).stderr


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", PYTHONS)
def test_it_installs(name, installed, tmp_path):
    """Into each CPython; its commands, the recorder and the analyzer are the wheel's own."""
    folder = installed(name)
    binaries = folder / "bin"
    path = {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert harness.run([binaries / "libgpumem", "version"]).stdout == harness.run([binaries / "gpumem", "version"]).stdout
    library = harness.run([binaries / "gpumem", "library"], env=cache, cwd=tmp_path).stdout.strip()
    # LD_PRELOAD cannot name a path with a space: it is a link to the wheel's own.
    assert " " not in library and os.path.realpath(library).startswith(str(folder)) and os.path.isfile(library)
    done = harness.run(
        [binaries / "gpumem", "run", "-q", "-c", "import gpumem, os; print(gpumem.api_version(), os.environ['LD_PRELOAD'])"],
        env=cache, cwd=tmp_path,
    )
    version, preloaded = done.stdout.split()
    assert int(version) >= 4 and preloaded == library
    build = re.search(r'^version = "(.*)"$', (harness.ROOT / "Cargo.toml").read_text(), re.M)[1]
    for command in ([binaries / "gpumem", "analyze"], [binaries / "gpumem-analyze"], ["gpumem-analyze"]):
        assert harness.run([*command, "--version"], env=path).stdout == f"gpumem-analyze {build}\n"
    assert harness.run([binaries / "python", "-m", "gpumem", "version"]).stdout == f"gpumem {build}\n"
    assert "\nh100 " in harness.run([binaries / "gpumem", "card", "list"]).stdout, "the cards' files are in it"


@pytest.fixture
def beside_torch(installed, python_env, tmp_path):
    """Runs a command of the installed wheel where PyTorch 2.15 is; of the checkout only the programs are used."""
    folder = installed("py312")
    torch = python_env("torch215").parent.parent / "lib" / "python3.12" / "site-packages"

    def run(command, *words, **options):
        assert not [path for path in os.environ["PATH"].split(os.pathsep) if path.startswith(str(harness.ROOT))]
        env = {"PYTHONPATH": str(torch), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return harness.run([folder / "bin" / command, *words], env=env, cwd=tmp_path, timeout=1000, **options)

    return run


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_pytorch_is_profiled_from_it(installed, beside_torch, tmp_path):
    """gpumem run --simulate of the installed wheel on a training in PyTorch 2.15: PyTorch's own figures, by the wheel's own
    recorder, analyzer and simulated card; and replays of it."""
    done = beside_torch(
        "gpumem", "run", "--simulate", harness.WORKLOADS / "tell.py", "--end", "hard", harness.WORKLOADS / "train.py", "--steps", "2",
        "--batch", "8",
    )  # fmt: skip
    own = harness.figures(done)["devices"][0]
    assert "Lines that own the peak" in done.stderr and "train.py:" in done.stderr, harness.described(done)
    summary = harness.unwrapped(beside_torch("gpumem-analyze", "report", "--all", "--format", "json", "report.bin").stdout)
    device = harness.device_of(summary)["tensor"]
    assert (device["live_bytes"], device["peak_bytes"]) == (own["allocated"], own["max_allocated"])
    assert summary["exact"], summary["missing"]
    assert (tmp_path / "report.svg").is_file()
    # Scopes and the live set, as a program requests them, and the owners of the libraries.
    done = beside_torch(
        "gpumem", "run", "--simulate", "-q", "-c",
        "import gpumem, torch\n"
        "with gpumem.scope('s') as s: kept = torch.empty(3 << 20, dtype=torch.uint8, device='cuda')\n"
        "print(s.used, s.peak, gpumem.snapshot().total())\n"
        "print(*{line[line.index('/'):].strip() for line in open('/proc/self/maps') if '.so' in line}, sep='\\n')",
    )  # fmt: skip
    figures, *libraries = done.stdout.splitlines()
    assert figures.split() == [str(3 << 20)] * 3, harness.described(done)
    package = f"{installed('py312')}/lib/python3.12/site-packages/gpumem"
    # Those of CUDA 13 and not of CUDA 12, and none of NVIDIA's libraries.
    simulated = {name for name in simulator_names() if not re.search(r"1[12]\.so$", name)}
    assert ours_of(libraries) == {f"{package}/libgpumem.so", *(f"{package}/simulator/{name}" for name in simulated)}
    done = beside_torch("gpumem", "whatif", "report.bin", "--smallest-card", "--conf", "max_split_size_mb:64", "--format", "json")
    [replayed] = harness.unwrapped(done.stdout)["devices"]
    assert replayed["allocated_peak_bytes"] == own["max_allocated"]
    assert [replay["figures"]["allocated_bytes.all.peak"] for replay in replayed["replays"]][0] == own["max_allocated"]
    assert all(own["max_allocated"] <= replay["smallest_card_bytes"] < 1 << 30 for replay in replayed["replays"]), done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_plan_needs_nothing_else(beside_torch, tmp_path):
    """gpumem plan of the installed wheel: the peaks are PyTorch's own."""
    program = harness.WORKLOADS / "plan" / "gpt.py"
    done = beside_torch(
        "gpumem", "plan", "--card", "t4", "--format", "json", "--", program, "--layers", "1", "--report", tmp_path / "stats.json"
    )
    [case] = harness.unwrapped(done.stdout)["cases"]
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert (case["card"], case["verdict"]) == ("t4", "fits"), done.stderr
    assert case["tensor_peak_bytes"] == [stats["allocated_bytes.all.peak"]] * 2
    assert case["reserved_peak_bytes"] == [stats["reserved_bytes.all.peak"]] * 2


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_pytest_finds_the_plugin(installed, python_env, tmp_path):
    """Installed beside pytest, it needs no option."""
    (tmp_path / "test_it.py").write_text("def test(pytestconfig): assert pytestconfig.pluginmanager.has_plugin('gpumem')\n")
    site = python_env("tests").parent.parent / "lib" / "python3.12" / "site-packages"
    folder = installed("py312")
    done = harness.run(
        [folder / "bin" / "python", "-m", "pytest", "-q", "test_it.py"], env={"PYTHONPATH": str(site)}, cwd=tmp_path,
        check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, harness.described(done)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("how", ("exception", "longjmp"))
def test_exceptions_cross_it(how, wheel, build_c, tmp_path, monkeypatch):
    """As they do a plain build: the library takes the system's unwinder, not one of Zig's."""
    with zipfile.ZipFile(wheel) as archive:
        library = tmp_path / archive.extract("gpumem/libgpumem.so", tmp_path)
    needed = harness.run(["readelf", "--wide", "--dynamic", library]).stdout
    assert "[libgcc_s.so.1]" in needed and "NODELETE" in needed
    monkeypatch.setattr(harness, "LIBRARY", library)
    test_zoo.test_calls_that_are_left(how, build_c, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_another_interposer_keeps_its_turn(wheel, build_c, simulate, tmp_path):
    """As a plain build's: what it looks up for the program is found in the order of LD_PRELOAD."""
    with zipfile.ZipFile(wheel) as archive:
        library = tmp_path / archive.extract("gpumem/libgpumem.so", tmp_path)
    assert "SYMBOLIC" not in harness.run(["readelf", "--dynamic", library]).stdout
    wrapper = build_c("hook_wrapper.c", "-shared", "-fPIC", "-ldl")
    client = build_c("hook_lookup.c", "-DLINKED", harness.SIMULATOR / "libcuda.so.1", "-ldl")
    done = simulate([client, "default"], env={"GPUMEM_QUIET": "1", "LD_PRELOAD": f"{wrapper}:{library}"})
    assert "the wrapper had 1 calls" in done.stdout
