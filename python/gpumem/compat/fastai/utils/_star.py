"""Names of `from fastai.utils.mem import *` other than fastai's own: modules and classes that notebooks then use
without importing them. Those that are not installed are left out, and nothing is imported before it is used."""

import importlib
import importlib.util
from typing import Any, Dict, List, Optional, Tuple

__all__ = ["attribute", "names"]

_MODULES = (
    "abc", "bz2", "collections", "csv", "functools", "gc", "gzip", "hashlib", "html", "importlib", "inspect", "io",
    "itertools", "json", "math", "mimetypes", "numbers", "operator", "os", "pathlib", "pickle", "platform", "random",
    "re", "shutil", "subprocess", "sys", "tarfile", "tempfile", "threading", "time", "typing", "warnings", "weakref",
)
_MEMBERS: Dict[str, Tuple[str, ...]] = {
    "collections": ("Counter", "OrderedDict", "defaultdict", "namedtuple"),
    "collections.abc": ("Iterable", "Sized"),
    "concurrent.futures": ("ProcessPoolExecutor", "ThreadPoolExecutor"),
    "contextlib": ("contextmanager",),
    "copy": ("copy", "deepcopy"),
    "dataclasses": ("InitVar", "dataclass", "field"),
    "enum": ("Enum", "IntEnum"),
    "functools": ("partial", "reduce"),
    "operator": ("attrgetter", "itemgetter"),
    "pathlib": ("Path",),
    "typing": ("Any", "Callable", "Collection", "Dict", "List", "Optional", "Tuple", "Union"),
    "warnings": ("warn",),
    "numpy": ("array", "cos", "exp", "log", "sin", "tan", "tanh"),
    "pandas": ("DataFrame", "Series"),
    "torch": (
        "ByteTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "LongTensor", "ShortTensor", "Tensor", "as_tensor",
    ),
    "torch.utils.data": ("BatchSampler", "DataLoader", "Dataset", "Sampler", "TensorDataset"),
    "torch.nn.utils": ("spectral_norm", "weight_norm"),
}
_AS = {
    "F": "torch.nn.functional", "nn": "torch.nn", "np": "numpy", "optim": "torch.optim", "pd": "pandas",
    "torch": "torch",
}


def _sources() -> Dict[str, Tuple[str, Optional[str]]]:
    """The source of each name: a module, and the name in it (None: the module itself)."""
    found: Dict[str, Tuple[str, Optional[str]]] = {name: (name, None) for name in _MODULES}
    found.update((member, (module, member)) for module, members in _MEMBERS.items() for member in members)
    found.update((name, (module, None)) for name, module in _AS.items())
    return found


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def names() -> List[str]:
    """The names that are available here."""
    there = {top: _installed(top) for top in ("numpy", "pandas", "torch")}
    return [name for name, (module, _) in _sources().items() if there.get(module.partition(".")[0], True)]


def attribute(name: str) -> Any:
    """The object of a name; AttributeError if the name is unknown or not installed."""
    module, member = _sources().get(name, (None, None))
    if module is None or not _installed(module):
        raise AttributeError(f"module 'fastai.utils.mem' has no attribute {name!r}")
    found = importlib.import_module(module)
    return found if member is None else getattr(found, member)
