"""checkout_wheel.py FOLDER: builds a wheel from this checkout's cargo outputs in a second, for tests and trial
installations.

It has the files of the real one (scripts/wheel), and its binaries need this machine's glibc."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("GPUMEM_BUILT") or ROOT / "target" / "release")


def simulated():
    names = subprocess.check_output([sys.executable, "-I", "-S", ROOT / "scripts" / "lib" / "simulator_names.py"], text=True)
    return sorted({line.split()[0] for line in names.splitlines()})


def stripped(path, folder):
    """Without debug information, as the real ones are."""
    out = Path(folder) / path.name
    subprocess.run(["strip", "-o", out, path], check=True)
    return out.read_bytes()


def contents(version):
    """(name, bytes, mode) of every file but RECORD."""
    names = subprocess.check_output(["git", "-C", ROOT, "ls-files", "python/gpumem"], text=True).splitlines()
    for name in names:
        if (ROOT / name).is_file():
            yield name.partition("/")[2], (ROOT / name).read_bytes(), 0o644
    with tempfile.TemporaryDirectory() as folder:
        for library in ("libgpumem.so", "libgpumem_whatif.so"):
            yield f"gpumem/{library}", stripped(BUILT / library, folder), 0o755
        for library in simulated():
            yield f"gpumem/simulator/{library}", stripped(BUILT / library, folder), 0o755
        yield f"libgpumem-{version}.data/scripts/gpumem-analyze", stripped(BUILT / "gpumem-analyze", folder), 0o755
    info = f"libgpumem-{version}.dist-info"
    project = (ROOT / "python" / "pyproject.toml").read_text()
    plugin = re.search(r'^gpumem = "gpumem.pytest_plugin"$', project, re.M)
    assert plugin, "the plugin's entry point is in pyproject.toml"
    yield f"{info}/entry_points.txt", b"[pytest11]\ngpumem=gpumem.pytest_plugin\n", 0o644
    yield f"{info}/METADATA", f"Metadata-Version: 2.4\nName: libgpumem\nVersion: {version}\nRequires-Python: >=3.8\n".encode(), 0o644
    yield f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: checkout_wheel\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n", 0o644
    for file in ("LICENSE-MIT", "LICENSE-APACHE", "NOTICE"):
        yield f"{info}/licenses/{file}", (ROOT / file).read_bytes(), 0o644
    yield f"{info}/licenses/THIRD-PARTY.txt", b"made by scripts/wheel\n", 0o644


def make(folder):
    """The wheel's path."""
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    path = Path(folder) / f"libgpumem-{version}-py3-none-linux_x86_64.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = f"libgpumem-{version}.dist-info/RECORD"
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data, mode in contents(version):
            item = zipfile.ZipInfo(name)
            item.external_attr, item.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(item, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}\n")
        archive.writestr(zipfile.ZipInfo(record), "".join([*rows, f"{record},,\n"]))
    subprocess.run([sys.executable, ROOT / "scripts" / "lib" / "console_script.py", path], check=True)
    return path


if __name__ == "__main__":
    print(make(sys.argv[1]))
