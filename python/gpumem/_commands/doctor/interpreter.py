"""A script that runs with the library preloaded: prints as JSON the interpreter, its PyTorch, and the loaded
libraries. It runs in any CPython from 3.6 on, without the package."""

import ctypes
import json
import os
import platform
import re
import sys
import sysconfig
from importlib.util import find_spec
from typing import Any, Dict, List, Optional


def torch() -> Optional[Dict[str, Any]]:
    """The contents of torch/version.py, without importing PyTorch; None if it is not installed."""
    try:
        spec = find_spec("torch")
        if spec is None or spec.origin is None:
            return None
        with open(os.path.join(os.path.dirname(spec.origin), "version.py"), encoding="utf-8") as opened:
            text = opened.read()
    except Exception:  # a broken package
        return None

    def value(name: str) -> Optional[str]:
        found = re.search(r"^%s\b[^=\n]*= *'([^']+)'" % name, text, re.M)
        return found.group(1) if found else None

    return {"version": value("__version__") or "of an unknown version", "cuda": value("cuda")}


def options(library: Any) -> List[str]:
    """Names of the library's options."""
    if not hasattr(library, "gpumem_help_env"):
        return []
    size = library.gpumem_help_env(None, 0)
    buffer = ctypes.create_string_buffer(size + 1)
    library.gpumem_help_env(buffer, size + 1)
    return re.findall("^GPUMEM_[A-Z_]+$", buffer.value.decode(), re.M)


def loaded() -> List[str]:
    """Files of the library in this process."""
    with open("/proc/self/maps", "rb") as file:
        return sorted({os.fsdecode(line.split(None, 5)[-1].strip()) for line in file if b"libgpumem.so" in line})


def main() -> None:
    # This file's folder contains other modules.
    del sys.path[0]
    library = ctypes.PyDLL(None)
    print(
        json.dumps(
            {
                "implementation": platform.python_implementation(), "version": platform.python_version(),
                "minor": sys.version_info[:2], "level": sys.version_info[3], "executable": sys.executable,
                "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")), "torch": torch(), "loaded": loaded(),
                "api": library.gpumem_api_version() if hasattr(library, "gpumem_api_version") else None, "options": options(library),
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
