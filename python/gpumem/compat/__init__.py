"""Drop-ins for existing tools, with exact figures.

    from gpumem.compat.fastai.utils.mem import GPUMemTrace     # was: from fastai.utils.mem import GPUMemTrace
    import gpumem.compat; gpumem.compat.install()               # or do not change the program

Nothing here imports a framework by itself (except a star import of fastai's modules, as in the original), and
everything imports without a GPU or a driver. If libgpumem.so is not preloaded, peaks are sampled or PyTorch's
own, and a warning is printed once."""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import List, Sequence

__all__ = ["NAMES", "install"]

# The original names, each in this package; parents first.
NAMES = (
    "fastai", "fastai.utils", "fastai.utils.mem", "fastai.utils.ipython", "fastai.utils.pynvml_gate",
    "fastai.callbacks", "fastai.callbacks.mem", "fastai.callbacks.cpu_mem",
    "ipyexperiments", "ipyexperiments.utils", "ipyexperiments.utils.mem", "ipyexperiments.cell_logger",
    "ipyexperiments.ipyexperiments", "ipyexperiments.version", "ipyexperiments.utils.ipython",
    "ipyexperiments.utils.pynvml_gate",
    "gpu_mem_track", "modelsize_estimate", "gpu_profile", "track_mem_use",
    "pytorch_memlab", "pytorch_memlab.courtesy", "pytorch_memlab.extension", "pytorch_memlab.line_profiler",
    "pytorch_memlab.line_profiler.extension", "pytorch_memlab.line_profiler.line_profiler",
    "pytorch_memlab.line_profiler.line_records", "pytorch_memlab.line_profiler.profile",
    "pytorch_memlab.mem_reporter", "pytorch_memlab.utils",
    "GPUtil", "GPUtil.GPUtil",
)
# Packages that are not replaced, even with `force`: only their modules are.
_NAMESPACES = ("fastai", "fastai.utils", "fastai.callbacks", "ipyexperiments", "ipyexperiments.utils")


def install(names: Sequence[str] = NAMES, force: bool = False, older_fastai: bool = False) -> List[str]:
    """Makes the drop-ins importable under their old names, and returns those names.

    An installed tool is not replaced unless `force` is given; even then a package's other modules are the
    tool's own. `older_fastai`: `fastai.utils.mem` is the one whose reports take a note."""
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
        if top in theirs and name in _NAMESPACES and _importable(name):
            continue
        source = f"{__name__}.{name}"
        if older_fastai and name == "fastai.utils.mem":
            source += "_older"
        module = importlib.import_module(source)
        sys.modules[name] = module
        parent, _, leaf = name.rpartition(".")
        if parent in sys.modules and not _is_function(sys.modules[parent], leaf):
            setattr(sys.modules[parent], leaf, module)
        done.append(name)
    return done


def _is_function(parent: ModuleType, name: str) -> bool:
    """Whether one of our packages has a function with a module's name (`profile`)."""
    there = getattr(parent, name, None) if parent.__name__.startswith(__name__) else None
    return there is not None and not isinstance(there, ModuleType)


def _is_theirs(top: str) -> bool:
    """Whether a name belongs to another package: a module that is imported or could be imported."""
    module = sys.modules.get(top)
    if isinstance(module, ModuleType):
        return not module.__name__.startswith(__name__)
    return _importable(top)


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
