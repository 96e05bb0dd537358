"""Reports the qualified names of the program's modules (`torch.nn.Module`), such as `blocks.3.attn.qkv`, to the
recorder.

The recorder sees on Python stacks which module objects run, and their classes. Their names are in the modules that
contain them, so they are reported at the end of a step in which modules ran for the first time. No hook is put on a
module, and none of its methods is replaced."""

import contextlib
import gc
import sys
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from . import library, moments

# Attributes under which wrappers store the wrapped module, and the packages whose wrappers name it just "module".
_WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_WRAPPERS = ("torch.nn.parallel", "torch.distributed", "torch.optim.swa_utils")


class _Modules:
    def __init__(self) -> None:
        # Modules that are part of no other module, and of which some part has run.
        self._tops: List["weakref.ref[Any]"] = []
        # By the addresses of a module and its class.
        self._told: Dict[Tuple[int, int], str] = {}
        self._count = 0
        # Addresses that were searched for among all objects, found or not.
        self._tried: Set[int] = set()
        self._moments = self._searches = self._next_search = 0

    def tops(self) -> List[Any]:
        """The known modules that are part of no other module."""
        return [top for top in (ref() for ref in self._tops) if top is not None]

    def step_ended(self, _optimizer: Optional[Any] = None) -> None:
        self._moments += 1
        self._tell(self._moments >= self._next_search)

    def program_ends(self, _optimizer: Optional[Any] = None) -> None:
        self._tell(True)

    def _tell(self, may_search: bool) -> None:
        count = library.module_count()
        if count == self._count or "torch.nn" not in sys.modules:
            return
        tops = self.tops()
        known = {id(part) for top in tops for part, _ in _parts(top)}
        missing = set(library.module_roots()) - known - self._tried
        if missing and may_search:
            # All objects are searched, less often each time.
            self._searches += 1
            self._next_search = self._moments + (1 << self._searches)
            self._tried |= missing
            tops += _tops_with(missing)
            self._tops = [weakref.ref(top) for top in tops]
        elif missing:
            count = self._count
        for module, name in _names(tops):
            key = (id(module), id(type(module)))
            if self._told.get(key) != name and library.name_module(id(module), name):
                self._told[key] = name
        self._count = count


def _children(module: Any) -> Iterator[Tuple[str, Any]]:
    return ((name, part) for name, part in module._modules.items() if part is not None)


def _parts(top: Any) -> Iterator[Tuple[Any, str]]:
    """A module and all its parts, each once, with their paths from it. Attributes of wrappers are left out of the
    paths."""
    seen, todo = set(), [(top, "")]
    while todo:
        module, path = todo.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module, path
        of_wrapper = type(module).__module__.startswith(_WRAPPERS)
        parts = []
        for name, part in _children(module):
            if name in _WRAPPED or (name == "module" and of_wrapper):
                parts.append((part, path))
            else:
                parts.append((part, f"{path}.{name}" if path else name))
        todo.extend(reversed(parts))


def _names(tops: List[Any]) -> Iterator[Tuple[Any, str]]:
    """Each module's name. A module that is part of no other, or only of wrappers, is named by its class. If several
    such modules have parts, the names of the parts begin with it."""
    prefixed = sum(any(_children(top)) for top in tops) > 1
    classes: Dict[str, int] = {}
    for top in tops:
        name = type(top).__name__
        classes[name] = classes.get(name, 0) + 1
        own = name if classes[name] == 1 else f"{name}#{classes[name]}"
        for module, path in _parts(top):
            if module is top:
                yield module, own
            elif not path:
                yield module, type(module).__name__
            else:
                yield module, f"{own}.{path}" if prefixed else path


def _tops_with(addresses: Set[int]) -> List[Any]:
    """The live modules that are part of no other module and contain, or are, a module at such an address. Another
    object may be at the address by now, so objects are searched and addresses are never dereferenced."""
    base = sys.modules["torch.nn"].Module
    modules = []
    for thing in gc.get_objects():
        # isinstance would query lazy objects for their class.
        with contextlib.suppress(Exception):
            if base in type(thing).__mro__:
                modules.append(thing)
    with_parts = [module for module in modules if isinstance(module.__dict__.get("_modules"), dict)]
    owned = {id(part) for module in with_parts for _, part in _children(module)}
    tops = (module for module in with_parts if id(module) not in owned)
    return [top for top in tops if any(id(part) in addresses for part, _ in _parts(top))]


def watch() -> Callable[[], List[Any]]:
    """Starts reporting names. Returns a function that lists the modules that are part of no other."""
    modules = _Modules()
    moments.add(modules.step_ended, modules.program_ends)
    return modules.tops
