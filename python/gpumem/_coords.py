"""Where this rank stands in each dimension of the job's parallelism: data, tensor, pipeline, context, expert.

Frameworks make their groups while the program runs, so the program says it by `coords`, or PyTorch's DeviceMeshes do: they are
looked for once, at the end of the first step after the first of them was made. Nothing of PyTorch's is replaced."""

import gc
import operator
import os
import re
import sys
from typing import Any, Dict, List, Optional

from . import _framework_moments, _library

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MOST = 16
_MESHES = "torch.distributed.device_mesh"

# Whether coordinates were given: those of meshes do not take their place.
_given = False


def coords(mesh: Optional[Any] = None, /, **named: int) -> bool:
    """Records where this rank stands: `gpumem.coords(dp=1, tp=0)`, or of a DeviceMesh with names, `gpumem.coords(mesh)`. The
    newest call counts. Whether it is recorded; it may be called before the first use of CUDA."""
    global _given
    found: Dict[str, int] = {}
    if mesh is not None:
        names, place = mesh.mesh_dim_names, mesh.get_coordinate()
        if not names:
            raise ValueError("the mesh has no mesh_dim_names")
        if place is None:
            raise ValueError("this rank is not in the mesh")
        found.update(zip(names, place))
    found.update(named)
    if not found:
        raise ValueError("no coordinates: give names with numbers, or a DeviceMesh")
    recorded = _record(found)
    if recorded is None:
        raise ValueError(
            f"not coordinates: {found} (up to {_MOST} names of a-z, 0-9 and _, at most 32 long, with numbers from 0)"
        )
    _given = True
    return recorded


def _record(found: Dict[str, int]) -> Optional[bool]:
    numbers = {name: operator.index(number) for name, number in found.items()}
    fit = all(_NAME.fullmatch(name) and 0 <= number < 1 << 64 for name, number in numbers.items())
    if not fit or len(numbers) > _MOST:
        return None
    return _library.coords(",".join(f"{name}={number}" for name, number in numbers.items()))


def of_meshes(meshes: List[Any]) -> Dict[str, int]:
    """This rank's coordinates in all meshes that have names. A name that has another number in another mesh says nothing."""
    found: Dict[str, int] = {}
    unclear = set()
    for mesh in meshes:
        names, place = mesh.mesh_dim_names, mesh.get_coordinate()
        for name, number in zip(names or (), place or ()):
            if found.setdefault(name, number) != number:
                unclear.add(name)
    return {name: number for name, number in found.items() if name not in unclear and _NAME.fullmatch(name)}


class _Meshes:
    def __init__(self) -> None:
        self._searched = False

    def look(self, _optimizer: Optional[Any] = None) -> None:
        kind = getattr(sys.modules.get(_MESHES), "DeviceMesh", None)
        distributed = sys.modules.get("torch.distributed")
        if self._searched or _given or kind is None or distributed is None or not distributed.is_initialized():
            return
        # All objects are looked through, once.
        self._searched = True
        found = of_meshes([thing for thing in gc.get_objects() if type(thing) is kind])
        if found:
            _record(found)


def watch() -> None:
    """Has the meshes looked for."""
    if not os.environ.get("GPUMEM_COORDS"):
        _framework_moments.add(_Meshes().look)
