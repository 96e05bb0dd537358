"""The contents of the shipped binaries: crates, C libraries that crates bundle, npm packages of the pages' programs,
and the toolchain's libraries."""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

ROOT = Path(__file__).resolve().parents[3]
TARGET = "x86_64-unknown-linux-gnu"
# Names of a crate's licence files.
_LICENCE = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.I)


class Part(NamedTuple):
    """A part that is linked into a binary, or embedded in it."""

    kind: str  # cargo, npm or generic: the type of its package URL
    name: str
    version: str
    licence: str
    authors: str = ""
    source: str = ""
    sha256: str = ""
    texts: tuple = ()
    # Names of the parts that it uses, for crates: `name version`.
    uses: tuple = ()
    ours: bool = False

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


def parts(packages: Iterable[str]) -> List[Part]:
    """All parts of the binaries of these packages of the workspace, by name."""
    crates = _crates(list(packages))
    found = [*crates, *_bundled(crates), *_pages(), *_toolchain()]
    return sorted(found, key=lambda part: (part.name.lower(), part.version))


def packages_of(files: Iterable[str]) -> List[str]:
    """The workspace packages of these files, by cargo's names."""
    names = set(files)
    found = []
    for package in _metadata()["packages"]:
        if package["source"] is None:
            for target in package["targets"]:
                made = {f"lib{target['name']}.so"} if "cdylib" in target["kind"] else {target["name"]} if "bin" in target["kind"] else set()
                if made & names:
                    found.append(package["name"])
    return sorted(set(found))


def _cargo(*words: str) -> str:
    return subprocess.run(["cargo", *words], cwd=ROOT, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout


def _metadata() -> dict:
    return json.loads(_cargo("metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET))


def _crates(packages: List[str]) -> List[Part]:
    """The crates that are linked, without macros, build scripts and test dependencies."""
    chosen = [word for package in packages for word in ("--package", package)]
    tree = _cargo(
        "tree", *chosen, "--edges", "normal,no-proc-macro", "--target", TARGET, "--prefix", "none", "--format", "{p}", "--locked"
    )
    linked: Set[str] = set()
    for line in tree.splitlines():
        if line:
            name, version = line.split()[:2]
            linked.add(f"{name} {version.lstrip('v')}")
    metadata = _metadata()
    by_id = {package["id"]: package for package in metadata["packages"]}
    label = {key: f"{package['name']} {package['version']}" for key, package in by_id.items()}
    sums = _checksums()
    found = []
    for node in metadata["resolve"]["nodes"]:
        package, name = by_id[node["id"]], label[node["id"]]
        if name not in linked:
            continue
        uses = {label[use["pkg"]] for use in node["deps"] if any(kind["kind"] is None for kind in use["dep_kinds"])}
        folder = Path(package["manifest_path"]).parent
        ours = package["source"] is None
        found.append(
            Part(
                "cargo", package["name"], package["version"], (package["license"] or "").replace("/", " OR "),
                ", ".join(re.sub(r" *<[^>]*>", "", author) for author in package["authors"]), package["repository"] or "",
                sums.get(name, ""), () if ours else _texts(folder), tuple(sorted(uses & linked)), ours,
            )
        )  # fmt: skip
    missing = linked - {part.label for part in found}
    if missing:
        raise SystemExit(f"release: cargo metadata does not have {', '.join(sorted(missing))}")
    return found


def _checksums() -> Dict[str, str]:
    """SHA-256 of each crate's package, from Cargo.lock."""
    lock = (ROOT / "Cargo.lock").read_text()
    rows = re.findall(r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(\w+)"', lock)
    return {f"{name} {version}": checksum for name, version, checksum in rows}


def _texts(folder: Path) -> tuple:
    """Texts of the licence files of a package."""
    files = sorted(path for path in folder.iterdir() if _LICENCE.match(path.name))
    files = [file for path in files for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return tuple(read(path) for path in files if path.suffix not in (".rs", ".html") and path.is_file())


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").strip("\n")


def _bundled(crates: List[Part]) -> List[Part]:
    """C libraries whose source is in a crate and is compiled with it."""
    found = []
    for part in crates:
        if part.name == "zstd-sys":
            folder = _folder(part)
            version = part.version.partition("+zstd.")[2]
            texts = (read(folder / "zstd" / "LICENSE"),)
            source = "https://github.com/facebook/zstd"
            found.append(Part("generic", "zstd", version, "BSD-3-Clause", "Meta Platforms, Inc. and affiliates", source, texts=texts))
        if part.name == "libsqlite3-sys":
            head = (_folder(part) / "sqlite3" / "sqlite3.h").read_text(encoding="utf-8")
            version = re.search(r'#define SQLITE_VERSION +"(.*)"', head)[1]
            text = head[head.index("** The author disclaims") : head.index("***", head.index("** The author disclaims") + 3)]
            text = "\n".join(line.lstrip("* ") for line in text.splitlines()).strip()
            found.append(Part("generic", "sqlite", version, "blessing", "D. Richard Hipp and others", "https://sqlite.org", texts=(text,)))
        if part.name.endswith("jemalloc-sys"):
            text = read(_folder(part) / "jemalloc" / "COPYING")
            version = part.version.partition("+")[2].partition("-")[0]
            source = "https://jemalloc.net"
            found.append(Part("generic", "jemalloc", version, "BSD-2-Clause", "Jason Evans and others", source, texts=(text,)))
    return found


def _folder(part: Part) -> Path:
    for package in _metadata()["packages"]:
        if (package["name"], package["version"]) == (part.name, part.version):
            return Path(package["manifest_path"]).parent
    raise SystemExit(f"release: no source of {part.label}")


def _pages() -> List[Part]:
    """npm packages in the pages' programs: web/dist/LICENCES.txt lists them, with their texts."""
    text = (ROOT / "web" / "dist" / "LICENCES.txt").read_text(encoding="utf-8")
    _, _, listed = text.partition("\n\n")
    found = []
    for block in re.split(r"\n-{20,}\n", listed):
        heads, _, licence = block.strip().partition("\n\n")
        for line in heads.splitlines():
            named = re.fullmatch(r"(\S+) (\d\S*) \((.*)\)", line)
            if not named:
                raise SystemExit(f"release: web/dist/LICENCES.txt has no package in the line {line!r}")
            found.append(Part("npm", named[1], named[2], named[3], texts=(licence.strip(),)))
    return found


def _toolchain() -> List[Part]:
    """Libraries that the toolchain links into each binary."""
    version = re.search(r"^release: (.*)$", subprocess.check_output(["rustc", "--version", "--verbose"], universal_newlines=True), re.M)[1]
    licences = Path(subprocess.check_output(["rustc", "--print", "sysroot"], universal_newlines=True).strip()) / "share/doc/rust/licenses"
    apache, mit, exception = (_optional(licences / f"{name}.txt") for name in ("Apache-2.0", "MIT", "LLVM-exception"))
    return [
        Part(
            "generic", "rust-std", version, "MIT OR Apache-2.0", "The Rust Project contributors", "https://github.com/rust-lang/rust",
            texts=apache + mit,
        ),
        Part(
            "generic", "llvm-libunwind", _pinned("ziglang"), "Apache-2.0 WITH LLVM-exception", "The LLVM Project contributors",
            "https://llvm.org", texts=apache + exception,
        ),
    ]  # fmt: skip


def _optional(path: Path) -> tuple:
    return (read(path),) if path.is_file() else ()


def _pinned(name: str) -> str:
    """The version of a tool of the wheel's build: Zig's own LLVM."""
    text = (ROOT / "tests" / "env" / "wheel.txt").read_text()
    found: Optional["re.Match[str]"] = re.search(rf"^{name}==(.*)$", text, re.M)
    return f"zig-{found[1]}" if found else "unknown"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
