"""check_wheel.py WHEEL: checks that the wheel runs on the platforms of its name (glibc 2.17, any CPython ABI), that
the simulated libraries have the names and versions that their clients look for, and that it is not too large. Run
by scripts/wheel in its own environment, which has pyelftools and packaging."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection, GNUVerSymSection
from packaging.utils import parse_wheel_filename

import unsymbolic

GLIBC = (2, 17)
# The libraries of manylinux2014 that we need (PEP 599).
SYSTEM = {
    "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1",
    "ld-linux-x86-64.so.2",
}  # fmt: skip
# The simulated libraries, and the names that their clients look for.
_NAMES = [sys.executable, "-I", "-S", Path(__file__).with_name("simulator_names.py")]
SIMULATED = dict(line.split() for line in subprocess.check_output(_NAMES, text=True).splitlines())
# NVIDIA's library has no symbol versions.
WITHOUT_VERSIONS = {"libsimnccl.so"}
# Calls within this library can be interposed. In the other simulated libraries they cannot, as in NVIDIA's.
NOT_SYMBOLIC = {"libsimnvml.so"}
BINARIES = {"libgpumem.so", "libgpumem_whatif.so", "gpumem-analyze", *SIMULATED}
MOST_BYTES = 20_000_000


def versions(elf):
    """The version of each symbol index, such as `GLIBC_2.17`."""
    names = {}
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, entries in section.iter_versions():
                for entry in entries:
                    names[entry["vna_other"]] = entry.name
    return names


def faults_of_a_simulated(name, elf):
    """The errors of a simulated library: names and versions that its clients would not find."""
    dynamic = next(section for section in elf.iter_sections() if isinstance(section, DynamicSection))
    sonames = [tag.soname for tag in dynamic.iter_tags("DT_SONAME")]
    if sonames != [SIMULATED[name]]:
        yield f"{name} calls itself {sonames}"
    defined = {
        entry["vd_ndx"]: next(names).name
        for section in elf.iter_sections() if isinstance(section, GNUVerDefSection)
        for entry, names in section.iter_versions()
    }  # fmt: skip
    indices = next((section for section in elf.iter_sections() if isinstance(section, GNUVerSymSection)), None)
    expected = None if name in WITHOUT_VERSIONS else SIMULATED[name]
    exports = 0
    for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL":
            index = indices.get_symbol(number)["ndx"] if indices else None
            exports += 1
            if defined.get(index) != expected:
                yield f"{name} has {symbol.name} of the version {defined.get(index)}"
    if not exports:
        yield f"{name} exports nothing"


def faults_of(name, data):
    """The errors of a binary."""
    elf = ELFFile(io.BytesIO(data))
    if elf["e_machine"] != "EM_X86_64":
        yield f"{name} is for {elf['e_machine']}"
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags("DT_NEEDED"):
                if tag.needed not in SYSTEM:
                    yield f"{name} needs {tag.needed}, which manylinux2014 does not have"
    if name in SIMULATED:
        yield from faults_of_a_simulated(name, elf)
    if bool(unsymbolic.symbolic(io.BytesIO(data))) != (name in SIMULATED.keys() - NOT_SYMBOLIC):
        yield f"{name} is{' not' if name in SIMULATED else ''} searched first in all that it looks up (DF_SYMBOLIC)"
    known = versions(elf)
    for version in set(known.values()):
        library, _, number = version.rpartition("_")
        if library == "GLIBC" and tuple(map(int, number.split("."))) > GLIBC:
            yield f"{name} needs {version}"
    # A function that the old glibc lacks was linked without a version. No version reports it; loading the library
    # there would fail.
    indices = next(section for section in elf.iter_sections() if isinstance(section, GNUVerSymSection))
    for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL":
            if indices.get_symbol(number)["ndx"] not in known:
                yield f"{name} needs {symbol.name}, which glibc 2.17 does not have"


def faults(path):
    """The errors of the wheel."""
    _, _, _, tags = parse_wheel_filename(PurePosixPath(path).name)
    for tag in tags:
        if (tag.interpreter, tag.abi) != ("py3", "none"):
            yield f"it is for {tag}, not for every CPython"
    if not {str(tag) for tag in tags} & {"py3-none-manylinux2014_x86_64", "py3-none-manylinux_2_17_x86_64"}:
        yield f"it is for {', '.join(map(str, tags))}, not for manylinux2014"
    size = os.path.getsize(path)
    if size > MOST_BYTES:
        yield f"it has {size:,} bytes, more than {MOST_BYTES:,}"
    found = set()
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.infolist():
            name = PurePosixPath(entry.filename).name
            data = wheel.read(entry)
            if data.startswith(b"\x7fELF"):
                found.add(name)
                yield from faults_of(name, data)
                if name == "gpumem-analyze" and not entry.external_attr >> 16 & 0o111:
                    yield f"{name} cannot be executed"
    if found != BINARIES:
        yield f"its binaries are {sorted(found)}, not {sorted(BINARIES)}"


if __name__ == "__main__":
    wrong = list(faults(sys.argv[1]))
    for fault in wrong:
        print(f"{sys.argv[1]}: {fault}", file=sys.stderr)
    sys.exit(1 if wrong else 0)
