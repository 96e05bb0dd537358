"""The notebook of experiments: IPython's shell, its events and its variables. Without a shell, `__main__` is
used as the notebook, and there are no events."""

import sys
from typing import Any, Callable, Dict, List, Optional

__all__ = ["delete", "names", "namespace", "register", "shell", "unregister"]


def shell() -> Optional[Any]:
    """IPython's shell, if the program runs in one."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get() if get is not None else None


def register(event: str, callback: Callable[..., Any]) -> None:
    """Registers `callback` for each `event` of IPython; no effect without a shell."""
    events = getattr(shell(), "events", None)
    if events is not None:
        events.register(event, callback)


def unregister(event: str, callback: Callable[..., Any]) -> None:
    """Undoes `register`, if it is still in effect."""
    events = getattr(shell(), "events", None)
    if events is not None and callback in events.callbacks.get(event, ()):
        events.unregister(event, callback)


def namespace() -> Dict[str, Any]:
    """The notebook's variables, by name."""
    running = shell()
    return running.user_ns if running is not None else vars(sys.modules["__main__"])


def names() -> List[str]:
    """Names of the variables that the user has defined (what `%who` lists), sorted."""
    hidden = getattr(shell(), "user_ns_hidden", {})
    missing = object()
    return sorted(
        name
        for name, value in namespace().items()
        if not name.startswith("_") and value is not hidden.get(name, missing)
    )


def delete(name: str) -> None:
    """Deletes a variable, and IPython's own references to its value: `Out`, `_`, `_12`. Other variables with
    the same value stay."""
    variables = namespace()
    value = variables.pop(name)
    running = shell()
    if running is None:
        return
    for holder in (variables, running.user_ns_hidden, getattr(running.history_manager, "output_hist", {})):
        for key in [key for key, held in holder.items() if held is value and _is_ipythons(key)]:
            del holder[key]
    for attribute in ("_", "__", "___"):
        if getattr(running.displayhook, attribute, None) is value:
            setattr(running.displayhook, attribute, None)
    last = running.last_execution_result
    if last is not None and last.result is value:
        running.last_execution_result = None


def _is_ipythons(key: Any) -> bool:
    """Whether a key is a number of `Out`, or a name that IPython gives to a shown value."""
    return not isinstance(key, str) or key.lstrip("_") == "" or (key[0] == "_" and key[1:].isdigit())
