"""This rank's coordinates in each dimension of the job's parallelism: data, tensor, pipeline, context, expert.

Frameworks create their groups while the program runs. The program reports coordinates with `coords`, or they come
from PyTorch's DeviceMeshes and the groups of Megatron-LM and DeepSpeed. Those are searched for once, at the end of
the first step after the first one was created. No function of the frameworks is replaced."""

import gc
import operator
import os
import re
import sys
from typing import Any, Dict, Iterable, Optional

from . import groups, library, moments

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MOST = 16
_MESHES = "torch.distributed.device_mesh"

# Whether coordinates were given: those of meshes do not override them.
_given = False


def coords(mesh: Optional[Any] = None, /, **named: int) -> bool:
    """Records the position of this rank: `gpumem.coords(dp=1, tp=0)`, or `gpumem.coords(mesh)` with a DeviceMesh that
    has names. The newest call counts. You can call it before the first use of CUDA. Returns whether the position is
    recorded. Raises ValueError for other names and numbers, and if the mesh has no names or this rank is not in it."""
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
    return library.coords(",".join(f"{name}={number}" for name, number in numbers.items()))


def _of_mesh(mesh: Any) -> Dict[str, int]:
    return dict(zip(mesh.mesh_dim_names or (), mesh.get_coordinate() or ()))


def together(places: Iterable[Dict[str, int]]) -> Dict[str, int]:
    """This rank's coordinates in all of them. A name with contradicting numbers is left out."""
    found: Dict[str, int] = {}
    unclear = set()
    for place in places:
        for name, number in place.items():
            if found.setdefault(name, number) != number:
                unclear.add(name)
    return {name: number for name, number in found.items() if name not in unclear and _NAME.fullmatch(name)}


class _Places:
    def __init__(self) -> None:
        self._searched = False

    def look(self, _optimizer: Optional[Any] = None) -> None:
        distributed = sys.modules.get("torch.distributed")
        known = any(name in sys.modules for name in (_MESHES, *groups.MODULES))
        if self._searched or _given or not known or distributed is None or not distributed.is_initialized():
            return
        # All objects are searched, once.
        self._searched = True
        kind = getattr(sys.modules.get(_MESHES), "DeviceMesh", None)
        meshes = [thing for thing in gc.get_objects() if kind and type(thing) is kind]
        found = together([*map(_of_mesh, meshes), *groups.places(distributed)])
        if found:
            _record(found)


def watch() -> None:
    """Starts the search for meshes and groups."""
    if not os.environ.get("GPUMEM_COORDS"):
        moments.add(_Places().look)
