"""The locations of the recorder, the analyzer, the replayer and the simulated card's libraries: in the installed
package, in a checkout, or from the environment."""

import hashlib
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Iterator, Optional

_HERE = Path(__file__).resolve().parents[1]
# A checkout has the package in python/gpumem and cargo's results in target/release; tests build another profile.
_BUILT = Path(os.environ.get("GPUMEM_BUILT") or _HERE.parent.parent / "target" / "release")

LIBRARY = "libgpumem.so"
ANALYZER = "gpumem-analyze"
REPLAYER = "libgpumem_whatif.so"


class Missing(Exception):
    """A file of gpumem does not exist; the message has advice."""


def library() -> Path:
    """The recorder: from GPUMEM_LIBRARY, the package's own, or a checkout's."""
    named = os.environ.get("GPUMEM_LIBRARY")
    if named:
        if not os.path.isfile(named):
            raise Missing(f"GPUMEM_LIBRARY={named}: no such file")
        return Path(named).resolve()
    for path in (_HERE / LIBRARY, _BUILT / LIBRARY):
        if path.is_file():
            return path
    raise Missing(
        f"{LIBRARY} is neither in {_HERE} nor in {_BUILT}: install the wheel, build it with "
        "`cargo build --release`, or name it in GPUMEM_LIBRARY"
    )


def analyzer() -> Path:
    """The program that reads captures: from GPUMEM_ANALYZE, the one with the recorder, or the one on PATH."""
    named = os.environ.get("GPUMEM_ANALYZE")
    if named:
        return Path(named)
    for path in _analyzers():
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(ANALYZER)
    if found:
        return Path(found)
    raise Missing(f"{ANALYZER} is neither beside libgpumem.so nor installed with the package nor on PATH")


def replayer() -> Path:
    """The library that replays captures: the package's own, or a checkout's."""
    for path in (_HERE / REPLAYER, _BUILT / REPLAYER):
        if path.is_file():
            return path
    raise Missing(f"{REPLAYER} is neither in {_HERE} nor in {_BUILT}: install the wheel or build it with `cargo build --release`")


def installed_simulator() -> Optional[Path]:
    """The folder with the simulated card's libraries in an installed package."""
    path = _HERE / "simulator"
    return path if path.is_dir() else None


def built_simulator() -> Path:
    """The folder with the same libraries, built by cargo in a checkout."""
    driver = _BUILT / "libsimcuda.so"
    if driver.is_file():
        return _BUILT
    raise Missing(f"there is no {driver}, the simulated card: install the wheel or build it with `cargo build --release`")


def _analyzers() -> Iterator[Path]:
    named = os.environ.get("GPUMEM_LIBRARY")
    if named:
        yield Path(named).resolve().with_name(ANALYZER)
    installed = installed_command(ANALYZER)
    if installed:
        yield installed
    yield _BUILT / ANALYZER


def installed_command(name: str) -> Optional[Path]:
    """A command of the installed package, in the folder where pip has installed it (--user, --target, …)."""
    if not (_HERE / LIBRARY).is_file():
        return None  # a checkout: installed commands are of another version
    from importlib import metadata

    try:
        files = metadata.distribution("libgpumem").files or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == name and file.parent.name in ("bin", "scripts"):
            return Path(str(file.locate())).resolve()
    return None


def version() -> str:
    """The installed package's version; in a checkout, the one of Cargo.toml; otherwise `unknown`."""
    manifest = _HERE.parent.parent / "Cargo.toml"
    if not (_HERE / LIBRARY).is_file() and manifest.is_file():
        found = re.search(r'^version = "(.*)"$', manifest.read_text(encoding="utf-8"), re.M)
        return found[1] if found else "unknown"
    from importlib import metadata

    try:
        return metadata.version("libgpumem")
    except metadata.PackageNotFoundError:
        return "unknown"


def preloadable(path: Path) -> str:
    """The library's path in a form for LD_PRELOAD, in which spaces and colons are separators and `$` begins a variable.
    A path with one of them is replaced by a link in the user's cache."""
    if not _special(str(path)):
        return str(path)
    link = links_for(path) / path.name
    if _special(str(link)):
        raise Missing(f"LD_PRELOAD cannot name {path}, nor a link in {cache()}: both have a space, colon or `$`")
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() or os.readlink(link) != str(path):
            fresh = link.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
            os.symlink(path, fresh)
            os.replace(fresh, link)
    except OSError as error:
        raise Missing(f"LD_PRELOAD cannot name {path}, and a link to it cannot be made: {error}") from None
    return str(link)


def links_for(path: Path) -> Path:
    """A folder in the user's cache for links to this file, or to files in this folder."""
    return cache() / "gpumem" / "preload" / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def cache() -> Path:
    """The user's cache folder, whose files can be recreated."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _special(path: str) -> bool:
    return any(character in path for character in " :$\t\n")
