"""The locations of the recorder, the analyzer, the replayer and the simulated card's libraries: in the installed
package, in a checkout, or from the environment."""

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Iterator, Optional

# The package, and the folder for PYTHONPATH that contains it.
PACKAGE = Path(__file__).resolve().parents[1]
FOLDER = str(PACKAGE.parent)
# A checkout has the package in python/gpumem and cargo's results in target/release; tests build another profile.
_BUILT = Path(os.environ.get("GPUMEM_BUILT") or PACKAGE.parent.parent / "target" / "release")

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
    return _packaged(LIBRARY, ", or name it in GPUMEM_LIBRARY")


def analyzer(recorder: Optional[Path] = None) -> Path:
    """The program that reads captures: from GPUMEM_ANALYZE, the one with the recorder, or the one on PATH."""
    named = os.environ.get("GPUMEM_ANALYZE")
    if named:
        return Path(named)
    for path in (*([recorder.with_name(ANALYZER)] if recorder else []), *_analyzers()):
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(ANALYZER)
    if found:
        return Path(found)
    raise Missing(f"{ANALYZER} is neither beside libgpumem.so nor installed with the package nor on PATH")


def analyzer_or_error(recorder: Optional[Path] = None) -> Path:
    """The same for functions that programs call: raises FileNotFoundError."""
    try:
        return analyzer(recorder)
    except Missing as missing:
        raise FileNotFoundError(f"{missing}: name it in GPUMEM_ANALYZE") from None


def replayer() -> Path:
    """The library that replays captures: the package's own, or a checkout's."""
    return _packaged(REPLAYER, "")


def _packaged(name: str, otherwise: str) -> Path:
    for path in (PACKAGE / name, _BUILT / name):
        if path.is_file():
            return path
    raise Missing(f"{name} is neither in {PACKAGE} nor in {_BUILT}: install the wheel or build it with `cargo build --release`{otherwise}")


def installed_simulator() -> Optional[Path]:
    """The folder with the simulated card's libraries in an installed package."""
    path = PACKAGE / "simulator"
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
    if not (PACKAGE / LIBRARY).is_file():
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
    manifest = PACKAGE.parent.parent / "Cargo.toml"
    if not (PACKAGE / LIBRARY).is_file() and manifest.is_file():
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
        link_to(path, link)
    except OSError as error:
        raise Missing(f"LD_PRELOAD cannot name {path}, and a link to it cannot be made: {error}") from None
    return str(link)


def link_to(path: Path, link: Path) -> None:
    """Makes a link to a file. It is replaced atomically, for concurrent runs."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if not (link.is_symlink() and os.readlink(link) == str(path)):
        fresh = link.with_name(f"{link.name}.{os.urandom(8).hex()}")
        os.symlink(path, fresh)
        os.replace(fresh, link)


def links_for(path: Path) -> Path:
    """A folder in the user's cache for links to this file, or to files in this folder."""
    return cache() / "gpumem" / "preload" / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def cache() -> Path:
    """The user's cache folder, whose files can be recreated."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _special(path: str) -> bool:
    return any(character in path for character in " :$\t\n")
