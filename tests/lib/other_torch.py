"""A PyTorch of any release for CUDA 12 or 13 on the simulator.

The simulator's runtime, cuBLAS and cuBLASLt have the names of CUDA 13. A PyTorch for CUDA 12 gets copies with the
older names, and `other_torch.c`, which defines the functions of CUDA 12 that CUDA 13 lacks. NVIDIA's other libraries
are used if they are installed. Each missing one is replaced by an empty library of the same name whose functions
return 0, so the wheel of PyTorch alone is enough."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Optional

import harness

SIMULATED = ("cudart", "cublas", "cublasLt")
# Functions that PyTorch takes from libraries whose symbols' versions do not name the library.
NVIDIAS = re.compile(r"(nccl|cuFile|cusparseLt|cudss|nvshmem|cupti|nvtx|magma_|cu(rand|solver|sparse|fft|dnn))\w*$")
VERDEF = 0x6FFFFFFD


def packages_of(python: Path) -> Path:
    """The folder of a Python's packages."""
    [folder] = (python.parent.parent / "lib").glob("python3.*/site-packages")
    return folder


def hash_of(name: bytes) -> int:
    """ELF's hash of a version's name."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def renamed(library: Path, old: bytes, new: bytes, out: Path) -> None:
    """A copy of a library whose name, and the version that is called after it, is `new`: of the same length."""
    assert len(old) == len(new)
    data = bytearray(library.read_bytes())
    [sections], [size, count] = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
    for section in range(sections, sections + size * count, size):
        kind, start, length = struct.unpack_from("<4xI16xQQ", data, section)
        if kind == VERDEF:
            for place in range(start, start + length, 4):
                if struct.unpack_from("<I", data, place)[0] == hash_of(old):
                    struct.pack_into("<I", data, place, hash_of(new))
    out.write_bytes(bytes(data).replace(old + b"\0", new + b"\0"))


def lines_of(*command) -> list[str]:
    return harness.run(command).stdout.splitlines()


def environment(python: Path, folder: Path) -> dict[str, Optional[str]]:
    """Makes in `folder` what the PyTorch of a Python needs; returns the environment in which it runs. LD_PRELOAD is
    not set there, but must begin with `OTHER_TORCH_PRELOAD`."""
    packages = packages_of(python)
    libraries = sorted((packages / "torch" / "lib").glob("*.so*"))
    installed = {path.name for path in [*libraries, *packages.glob("nvidia/**/lib/*.so*")]}
    needed, undefined = set(), set()
    for library in libraries:
        for line in lines_of("readelf", "-dW", library):
            needed.update(re.findall(r"\(NEEDED\).*\[(.*)\]", line))
        for line in lines_of("nm", "-D", "--undefined-only", library):
            undefined.add(line.split()[1])
    [major] = {name.rsplit(".", 1)[1] for name in needed if name.startswith("libcudart.so.")}

    preload, defined = [], set()
    for name in SIMULATED:
        soname = f"lib{name}.so.{major}"
        copy = folder / soname
        renamed(harness.BUILT / f"libsim{name.lower()}.so", f"lib{name}.so.13".encode(), soname.encode(), copy)
        preload.append(copy)
        defined.update(line.split()[-1].split("@")[0] for line in lines_of("nm", "-D", "--defined-only", copy))

    folders = [folder]
    for library in packages.glob("nvidia/**/lib/*.so*"):
        folders.append(library.parent)
        if library.name in needed:
            defined.update(line.split()[-1].split("@")[0] for line in lines_of("nm", "-D", "--defined-only", library))
    nvidias = {name for name in needed if re.match(r"lib(cu|nv|nccl)", name)}
    missing = {name for name in nvidias - installed if not name.startswith(tuple(f"lib{n}.so" for n in SIMULATED))}
    functions = set()
    for symbol in undefined:
        name, _, version = symbol.replace("@@", "@").partition("@")
        simulated = version.startswith(tuple(f"lib{n}.so" for n in SIMULATED))
        if name not in defined and (simulated or version in missing or NVIDIAS.match(name)):
            functions.add(name)
    source = harness.WORKLOADS / "other_torch.c"
    functions -= set(re.findall(r"^int (\w+)\(", source.read_text(), re.M))
    generated = folder / "functions.c"
    generated.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(functions)))
    rest = folder / "librest.so"
    flags = ["-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wno-builtin-declaration-mismatch"]
    harness.run(["cc", *flags, "-o", rest, source, generated, "-ldl"])
    # Each brings the functions along, for a process in which they are not preloaded.
    for name in missing - {"libcuda.so.1", "libnvidia-ml.so.1"}:
        harness.run(["cc", "-shared", "-o", folder / name, "-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed", rest])
    return {
        "OTHER_TORCH_PRELOAD": ":".join(map(str, [*preload, rest])),
        "LD_LIBRARY_PATH": ":".join(dict.fromkeys(map(str, folders))),
        # No library of CUDA 13's is preloaded.
        "GPUMEM_SIM_PROFILE": "cuda10",
        "GPUMEM_SIM_DRIVER_VERSION": f"{major}080",
        "GPUMEM_SIM_CC": "90",
    }
