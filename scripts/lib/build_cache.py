#!/usr/bin/env python3
"""build_cache.py restore|save: what cargo has compiled, kept in the cache, for a fresh clone.

`save` copies target/debug, and stores the time and the hash of each source that it was built from. `restore` copies
it back where there is no target/debug, and gives each source with the same contents its time of then: cargo compiles
the sources that differ, and what uses them. There is one copy for each compiler."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target" / "debug"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumem" / "build"
# The sources when cargo began.
BEGAN = ROOT / "target" / "sources.json"
# What cargo needs to see that a crate is built.
PARTS = (".fingerprint", "build", "deps", "examples")
# Copies that are kept, the newest ones, and the bytes of one: with more there are old crates in it.
KEPT = 2
MOST = 6 << 30
# What a compiler was given that names the folder of the sources.
PLACES = re.compile(r"^# env-dep:CARGO_(?:MANIFEST_DIR|MANIFEST_PATH|BIN_EXE_[^=]*)=", re.M)


def key():
    text = subprocess.run(["rustc", "-vV"], check=True, capture_output=True).stdout
    text += os.environ.get("RUSTC_WORKSPACE_WRAPPER", "").encode()
    return hashlib.sha256(text).hexdigest()[:16]


def sources():
    """name: [time in nanoseconds, hash] of each file that git knows."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout
    found = {}
    for name in map(os.fsdecode, filter(None, listed.split(b"\0"))):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            found[name] = [path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()]
    return found


@contextlib.contextmanager
def locked(how):
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as file:
        fcntl.flock(file, how)
        yield


def copy(origin, to):
    """With times and hard links; blocks are shared where the file system can."""
    to.mkdir(parents=True)
    parts = [origin / part for part in PARTS if (origin / part).exists()]
    subprocess.run(["cp", "-a", "--reflink=auto", *parts, to], check=True)


def forget_places():
    """Has cargo compile again what has the other clone's folder in it."""
    for listed in (BUILT / "deps").glob("*.d"):
        if PLACES.search(listed.read_text(errors="replace")):
            unit = listed.stem.rpartition("-")[2]
            for found in (BUILT / ".fingerprint").glob(f"*-{unit}"):
                shutil.rmtree(found)


def restore():
    now = sources()
    with locked(fcntl.LOCK_SH):
        saved = CACHE / key()
        if not BUILT.exists() and saved.exists():
            copy(saved, BUILT)
            then = json.loads((saved / "sources.json").read_text())
            for name, found in now.items():
                if name in then and then[name][1] == found[1]:
                    found[0] = then[name][0]
                    os.utime(ROOT / name, ns=(found[0], found[0]))
            if (saved / "root").read_text() != str(ROOT):
                forget_places()
    BEGAN.parent.mkdir(exist_ok=True)
    BEGAN.write_text(json.dumps(now))


def save():
    began = json.loads(BEGAN.read_text())
    # A source that changed while cargo ran may be newer than what was built of it.
    if sources() != began:
        return
    with locked(fcntl.LOCK_EX):
        saved = CACHE / key()
        if sum(path.lstat().st_size for part in PARTS for path in (BUILT / part).rglob("*")) > MOST:
            return
        if saved.exists():
            then = json.loads((saved / "sources.json").read_text())
            if {name: found[1] for name, found in then.items()} == {name: found[1] for name, found in began.items()}:
                return
            shutil.rmtree(saved)
        copies = sorted((path for path in CACHE.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
        for old in copies[: -(KEPT - 1)]:
            shutil.rmtree(old)
        part = CACHE / f"{saved.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        copy(BUILT, part)
        (part / "sources.json").write_text(json.dumps(began))
        (part / "root").write_text(str(ROOT))
        part.rename(saved)


if __name__ == "__main__":
    {"restore": restore, "save": save}[sys.argv[1]]()
