"""The simulated card: its libraries, and the environment of a program that is to run on it."""

from __future__ import annotations

import glob
import os
import re
import threading
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

from . import _files

# Names that programs look for. The driver and NVML are found by LD_LIBRARY_PATH; PyTorch finds the others in its own folders first, so
# they are preloaded. As scripts/with-simulator has it.
_FOUND = {"libsimcuda.so": "libcuda.so.1", "libsimnvml.so": "libnvidia-ml.so.1"}
_PRELOADED = (
    "libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcupti.so.13", "libcufft.so.12",
    "libcusolver.so.12", "libnccl.so.2",
)  # fmt: skip


def libraries() -> Tuple[Path, List[Path]]:
    """The folder with the driver and NVML, and what is to be preloaded, under the names that programs look for."""
    installed = _files.installed_simulator()
    if installed:
        return installed / "found", sorted((installed / "preloaded").iterdir())
    built = _files.built_simulator()
    found = _linked(built, built.parent / "simulator", _FOUND)
    preloaded = _linked(built, built.parent / "simulator-preload", {_as_built(name): name for name in _PRELOADED})
    return found, [preloaded / name for name in _PRELOADED]


def _as_built(name: str) -> str:
    """What cargo calls it: libsimcublaslt.so is libcublasLt.so.13."""
    return f"libsim{name[len('lib') : name.index('.')].lower()}.so"


def refusal(command: str) -> Optional[str]:
    """Why the PyTorch of a Python cannot run on the simulated card, in a line; None: nothing speaks against it. Told from the file
    beside it, without starting it."""
    for file in glob.glob(os.path.join(os.path.dirname(command), "..", "lib", "python3.*", "site-packages", "torch", "version.py")):
        with open(file, encoding="utf-8") as text:
            found = re.search(r"^cuda\b.*?'([0-9]+)\.([0-9]+)'", text.read(), re.M)
        if found and found[1] != "13":
            return (
                f"its PyTorch was built for CUDA {found[1]}.{found[2]}. The simulated card has the libraries of CUDA 13: "
                "take PyTorch 2.11 or later"
            )
    return None


def environment(base: Mapping[str, str], settings: Mapping[str, str]) -> Dict[str, str]:
    """`base` for a program on the simulated card. What is preloaded already comes first."""
    found, preloaded = libraries()
    result = {name: value for name, value in base.items() if not name.startswith("GPUMEM_SIM_")}
    result.update(settings)
    others = base.get("LD_LIBRARY_PATH")
    result["LD_LIBRARY_PATH"] = f"{found}:{others}" if others else str(found)
    words = [base["LD_PRELOAD"]] if base.get("LD_PRELOAD") else []
    result["LD_PRELOAD"] = ":".join([*words, *map(_files.preloadable, preloaded)])
    return result


def _linked(built: Path, folder: Path, names: Mapping[str, str]) -> Path:
    """A folder of links to what was built. Each is replaced in one step, for runs beside one another."""
    folder.mkdir(exist_ok=True)
    for library, name in names.items():
        link = folder / name
        if not (link.is_symlink() and os.readlink(link) == str(built / library)):
            fresh = folder / f"{name}.{threading.get_native_id()}"
            os.symlink(built / library, fresh)
            os.replace(fresh, link)
    return folder
