"""The environment of a program: the system, a container, WSL, MPS."""

import os
import platform
import re
from typing import Iterator, List, Optional

from .check import ERROR, OK, WARNING, Check, Machine

# The default of CUDA_MPS_PIPE_DIRECTORY in NVIDIA's documentation: a path on the user's machine.
_MPS = "/tmp/nvidia-mps"


def checks(machine: Machine) -> Iterator[Check]:
    yield system(machine)
    yield container(machine)
    yield wsl(machine)
    yield mps(machine)
    yield ptrace(machine)
    preloads = others_preloaded(machine)
    if preloads:
        yield preloads


def system(machine: Machine) -> Check:
    """Checks the kernel, the processor and the C library against those that the recorder supports."""
    name = os.uname()
    found = f"{name.sysname} {name.release}, {name.machine}, {_libc() or 'no glibc'}"
    if (name.sysname, name.machine) != ("Linux", "x86_64"):
        return Check("system", ERROR, found, "gpumem runs on Linux x86-64. A capture can be read on another machine of that kind.")
    version = _libc()
    if version is None:
        return Check("system", ERROR, found, "gpumem needs glibc; musl (Alpine) is not supported. Use an image with glibc.")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < (2, 17):
        return Check("system", ERROR, found, "gpumem needs glibc 2.17 or later.")
    return Check("system", OK, found)


def _libc() -> Optional[str]:
    library, version = platform.libc_ver()
    return f"{library} {version}" if library == "glibc" else None


def kind_of_container(machine: Machine) -> Optional[str]:
    """The kind of container of this process; None outside of one."""
    if machine.env.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    if machine.exists("/.dockerenv"):
        return "Docker"
    if machine.exists("/run/.containerenv"):
        return "Podman"
    if machine.env.get("APPTAINER_CONTAINER") or machine.env.get("SINGULARITY_CONTAINER"):
        return "Apptainer"
    named = machine.env.get("container")
    if named:
        return named
    cgroups = machine.read("/proc/1/cgroup")
    found = re.search(r"docker|kubepods|containerd|libpod|lxc", cgroups)
    return found[0] if found else None


def container(machine: Machine) -> Check:
    kind = kind_of_container(machine)
    if kind is None:
        return Check("container", OK, "not found")
    return Check(
        "container", OK,
        f"{kind}; NVML may not list this container's processes: contexts and code are then estimates (docs/ledgers.md)",
    )  # fmt: skip


def is_wsl(machine: Machine) -> bool:
    return "microsoft" in machine.read("/proc/version").lower()


def wsl(machine: Machine) -> Check:
    if not is_wsl(machine):
        return Check("WSL", OK, "not found")
    return Check("WSL", OK, "found; NVML does not list processes here: contexts and code are estimates (docs/ledgers.md)")


def mps(machine: Machine) -> Check:
    """NVIDIA's Multi-Process Service, by the folder of its pipes."""
    folder = machine.env.get("CUDA_MPS_PIPE_DIRECTORY") or _MPS
    if not machine.exists(os.path.join(folder, "control")):
        return Check("MPS", OK, "not found")
    return Check(
        "MPS", WARNING, f"its daemon runs ({folder}); gpumem has not been tried with MPS",
        "What NVML charges to the MPS server may appear as other processes or as unexplained. Tensors and the driver's "
        "allocations are recorded in the program itself.",
    )  # fmt: skip


def ptrace(machine: Machine) -> Check:
    scope = machine.read("/proc/sys/kernel/yama/ptrace_scope").strip()
    return Check("ptrace", OK, f"not needed{f' (kernel.yama.ptrace_scope is {scope})' if scope else ''}")


def others_preloaded(machine: Machine) -> Optional[Check]:
    """Other libraries in LD_PRELOAD."""
    names: List[str] = machine.env.get("LD_PRELOAD", "").replace(":", " ").split()
    # The recorder itself, and libraries of doctor --simulate.
    names = [os.path.basename(name) for name in names if "/simulator-preload/" not in name]
    names = [name for name in names if name != "libgpumem.so"]
    if not names:
        return None
    return Check("LD_PRELOAD", OK, f"{', '.join(names)}; the recorder is loaded before {'it' if len(names) == 1 else 'them'}")
