"""Drop-ins for the tools that people already use, with exact figures.

    from gpumem.compat.fastai.utils.mem import GPUMemTrace     # was: from fastai.utils.mem import GPUMemTrace
    import gpumem.compat; gpumem.compat.install()               # or leave the program as it is

Nothing here imports a framework by itself, and everything imports without a GPU and without a driver. Where
libgpumem.so is not preloaded, peaks are sampled or PyTorch's own, and a warning says so once."""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import List, Sequence

__all__ = ["NAMES", "install"]

# Old names, each below this package; parents first.
NAMES = (
    "fastai", "fastai.utils", "fastai.utils.mem", "fastai.utils.ipython", "fastai.callbacks", "fastai.callbacks.mem",
    "ipyexperiments", "ipyexperiments.utils", "ipyexperiments.utils.mem", "ipyexperiments.cell_logger",
    "ipyexperiments.ipyexperiments", "ipyexperiments.version", "ipyexperiments.utils.ipython",
    "ipyexperiments.utils.pynvml_gate",
    "gpu_mem_track", "modelsize_estimate", "gpu_profile", "pytorch_memlab", "GPUtil",
)


def install(names: Sequence[str] = NAMES, force: bool = False, older_fastai: bool = False) -> List[str]:
    """Makes the drop-ins importable under their old names, and returns those names.

    A tool that is installed is left alone unless `force` is given; even then a package's other modules stay its
    own. `older_fastai`: `fastai.utils.mem` is the one whose reports take a note."""
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise ValueError(f"no drop-in for {', '.join(unknown)}; there are {', '.join(NAMES)}")
    wanted = {name for name in NAMES for leaf in names if leaf == name or leaf.startswith(name + ".")}
    theirs = {top for top in {name.partition(".")[0] for name in wanted} if _is_theirs(top)}
    done = []
    for name in NAMES:
        top = name.partition(".")[0]
        if name not in wanted or (top in theirs and not force):
            continue
        if top in theirs and _is_package(name):
            if _importable(name):
                continue
        source = f"{__name__}.{name}"
        if older_fastai and name == "fastai.utils.mem":
            source += "_older"
        module = importlib.import_module(source)
        sys.modules[name] = module
        parent, _, leaf = name.rpartition(".")
        if parent and parent in sys.modules:
            setattr(sys.modules[parent], leaf, module)
        done.append(name)
    return done


def _is_package(name: str) -> bool:
    return any(other.startswith(name + ".") for other in NAMES)


def _is_theirs(top: str) -> bool:
    """Whether a name is somebody else's: a module that is there, or could be imported."""
    module = sys.modules.get(top)
    if isinstance(module, ModuleType):
        return not module.__name__.startswith(__name__)
    return _importable(top)


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
