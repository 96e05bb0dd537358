"""The simulated card: its libraries, and the environment of a program that runs on it."""

from __future__ import annotations

import glob
import os
import re
import shutil
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import installed

# Names that programs look for, by cargo's names of the libraries. The driver and NVML are found through
# LD_LIBRARY_PATH. PyTorch finds the others in its own folders first, so they are preloaded if they exist for the
# program's CUDA release. The names are links: PyTorch also loads NVIDIA's libraries if a mapped file has the name
# libcudart.so.
FOUND = {"libsimcuda.so": "libcuda.so.1", "libsimnvml.so": "libnvidia-ml.so.1"}
PRELOADED: Dict[str, Dict[str, str]] = {
    "cuda13": {
        "libsimcudart.so": "libcudart.so.13", "libsimcublas.so": "libcublas.so.13", "libsimcublaslt.so": "libcublasLt.so.13",
        "libsimcudnn.so": "libcudnn.so.9", "libsimcupti.so": "libcupti.so.13", "libsimcufft.so": "libcufft.so.12",
        "libsimcusolver.so": "libcusolver.so.12", "libsimnccl.so": "libnccl.so.2",
    },
    "cuda12": {
        "libsimcudart12.so": "libcudart.so.12", "libsimcublas12.so": "libcublas.so.12", "libsimcublaslt12.so": "libcublasLt.so.12",
        "libsimcudnn.so": "libcudnn.so.9", "libsimcupti12.so": "libcupti.so.12", "libsimcufft11.so": "libcufft.so.11",
        "libsimcusolver11.so": "libcusolver.so.11", "libsimnccl.so": "libnccl.so.2",
    },
    "cuda10": {},
}  # fmt: skip
# PyTorch 2.6's Triton links its launchers against it.
_LINKED_AGAINST = {"libsimcuda.so": "libcuda.so"}
# Default properties of the driver for a program that was built for an older CUDA.
_OLDER: Dict[str, Dict[str, str]] = {
    "cuda13": {},
    "cuda12": {"GPUMEM_SIM_DRIVER_VERSION": "12080"},
    "cuda10": {"GPUMEM_SIM_DRIVER_VERSION": "10020", "GPUMEM_SIM_CC": "70"},
}
# The first release that was built with cuDNN 9.
_WITH_CUDNN_9 = (2, 4)


def libraries(profile: str) -> Tuple[Path, List[Path]]:
    """The folder with the driver and NVML, and the libraries to preload, under the names that programs look for."""
    names = PRELOADED[profile]
    packaged = installed.installed_simulator()
    if packaged:
        built, links = packaged, installed.links_for(packaged)
    else:
        built = installed.built_simulator()
        links = built
    found = _linked(built, links / "simulator", FOUND)
    _linked(built, found, _LINKED_AGAINST)
    preloaded = _linked(built, links / "simulator-preload", names)
    return found, [preloaded / name for name in names.values()]


class _Torch(NamedTuple):
    """The PyTorch of a Python: its release, and its CUDA release."""

    release: Tuple[int, int]
    cuda: Tuple[int, int]


def _torch(command: str) -> Optional[_Torch]:
    """From the file in a Python's folder, without starting it."""
    command = shutil.which(command) or command
    for file in glob.glob(os.path.join(os.path.dirname(command), "..", "lib", "python3.*", "site-packages", "torch", "version.py")):
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        release = re.search(r"^__version__\b.*?'([0-9]+)\.([0-9]+)", text, re.M)
        cuda = re.search(r"^cuda\b.*?'([0-9]+)\.([0-9]+)'", text, re.M)
        if release and cuda:
            return _Torch((int(release[1]), int(release[2])), (int(cuda[1]), int(cuda[2])))
    return None


def profile(command: str) -> str:
    """The simulated card's profile for a program, one of PRELOADED: by its PyTorch if it is a Python, else CUDA
    13."""
    torch = _torch(command)
    name = f"cuda{torch.cuda[0]}" if torch else "cuda13"
    return name if name in PRELOADED else "cuda13"


def refusal(command: str) -> Optional[str]:
    """Why a Python's PyTorch cannot run on the simulated card, in one line; None if it can."""
    torch = _torch(command)
    if torch and (torch.cuda[0] not in (12, 13) or torch.release < _WITH_CUDNN_9):
        return "its PyTorch {}.{} was built for CUDA {}.{}{}. ".format(
            *torch.release, *torch.cuda, " and cuDNN 8" if torch.cuda[0] == 12 else ""
        ) + "The simulated card has the libraries of CUDA 12 and 13 and cuDNN 9: take PyTorch 2.4 or later for one of them"
    return None


def environment(command: str, base: Mapping[str, str], settings: Mapping[str, str]) -> Dict[str, str]:
    """`base` for a program on the simulated card. Libraries that are already preloaded come first."""
    suits = profile(command)
    found, preloaded = libraries(suits)
    result = {name: value for name, value in base.items() if not name.startswith("GPUMEM_SIM_")}
    result.update(_OLDER[suits])
    result.update(settings)
    others = base.get("LD_LIBRARY_PATH")
    result["LD_LIBRARY_PATH"] = f"{found}:{others}" if others else str(found)
    words = [base["LD_PRELOAD"]] if base.get("LD_PRELOAD") else []
    words.extend(map(installed.preloadable, preloaded))
    if words:
        result["LD_PRELOAD"] = ":".join(words)
    return result


def _linked(built: Path, folder: Path, names: Mapping[str, str]) -> Path:
    """A folder of links to the built libraries."""
    try:
        for library, name in names.items():
            installed.link_to(built / library, folder / name)
    except OSError as error:
        raise installed.Missing(f"links to the simulated card cannot be made in {folder}: {error}") from None
    return folder
