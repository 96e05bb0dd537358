"""make.py --wheel WHEEL --schemas FOLDER --out FOLDER --version VERSION: makes the artifacts of a release, all from one
wheel, so that the tested files are released. Run by scripts/release in its own environment. SOURCE_DATE_EPOCH is the time of every
file."""

import argparse
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Dict, List

import debian
import sbom
import shipped
import third_party
from archives import File, tar_gz

TRIPLE = "x86_64-linux-gnu"
_SHELLS = {
    "bash": "bash-completion/completions/gpumem-analyze", "zsh": "zsh/vendor-completions/_gpumem-analyze",
    "fish": "fish/vendor_completions.d/gpumem-analyze.fish",
}  # fmt: skip


class Wheel:
    """The files of a wheel, by destination."""

    def __init__(self, path: Path, version: str) -> None:
        name = path.name.split("-")
        if name[:2] != ["libgpumem", version] or path.suffix != ".whl":
            raise SystemExit(f"release: {path} is not a wheel of libgpumem {version}")
        self.path = path
        self.package: Dict[str, File] = {}
        self.programs: Dict[str, File] = {}
        with zipfile.ZipFile(path) as archive:
            for item in archive.infolist():
                if item.is_dir():
                    continue
                file = File(archive.read(item), 0o755 if item.external_attr >> 16 & 0o111 else 0o644)
                if ".data/scripts/" in item.filename:
                    self.programs[PurePosixPath(item.filename).name] = File(file.data, 0o755)
                else:
                    # Libraries are not executable.
                    self.package[item.filename] = File(file.data)

    def binaries(self) -> List[str]:
        """Names of the files with machine code."""
        files = {**self.package, **self.programs}
        return [PurePosixPath(name).name for name, file in files.items() if file.data.startswith(b"\x7fELF")]


def make(wheel: Wheel, schemas: Path, out: Path, version: str, epoch: int) -> Dict[str, bytes]:
    """Each artifact by its name."""
    packages = shipped.packages_of(wheel.binaries())
    if not {"gpumem", "gpumem-analyze"} <= set(packages):
        raise SystemExit(f"release: {wheel.path} has no recorder or no gpumem-analyze: {packages}")
    parts = shipped.parts(packages)
    bom = sbom.document(version, epoch, parts).encode()
    licences = third_party.document(parts).encode()
    program = wheel.programs["gpumem-analyze"]
    manuals, completions = texts_of(program)
    root = {name: (shipped.ROOT / name).read_bytes() for name in ("LICENSE-MIT", "LICENSE-APACHE", "NOTICE", "CHANGELOG.md", "README.md")}
    root["THIRD-PARTY.txt"] = licences

    held = {f"bin/{name}": file for name, file in wheel.programs.items()}
    held["lib/libgpumem.so"] = wheel.package["gpumem/libgpumem.so"]
    held["include/gpumem.h"] = File((shipped.ROOT / "interposer" / "include" / "gpumem.h").read_bytes())
    held[wheel.path.name] = File(wheel.path.read_bytes())
    held["sbom.cdx.json"] = File(bom)
    held.update({f"share/man/man1/{name}": File(text) for name, text in manuals.items()})
    held.update({f"share/{name}": File(text) for name, text in completions.items()})
    held.update({f"share/gpumem/schema/{path.name}": File(path.read_bytes()) for path in sorted(schemas.glob("*.json"))})
    held.update({name: File(text) for name, text in root.items()})
    held["SHA256SUMS"] = File(sums({name: file.data for name, file in held.items()}))

    documents = {"changelog" if name == "CHANGELOG.md" else name: text for name, text in root.items() if name != "README.md"}
    folder = f"gpumem-{version}-{TRIPLE}"
    made = {
        wheel.path.name: wheel.path.read_bytes(),
        f"gpumem-analyze-{version}-{TRIPLE}": program.data,
        f"{folder}.tar.gz": tar_gz(held, epoch, f"{folder}/"),
        debian.name_of(version): debian.package(version, epoch, wheel.package, program, manuals, completions, documents),
        f"gpumem-{version}.cdx.json": bom,
        f"gpumem-{version}-THIRD-PARTY.txt": licences,
    }
    made["SHA256SUMS"] = sums(made)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    for name, data in made.items():
        (out / name).write_bytes(data)
    (out / f"gpumem-analyze-{version}-{TRIPLE}").chmod(0o755)
    return made


def sums(files: Dict[str, bytes]) -> bytes:
    """In the format of `sha256sum --check`."""
    return "".join(f"{shipped.digest(data)}  {name}\n" for name, data in sorted(files.items())).encode()


def texts_of(program: File) -> "tuple[Dict[str, bytes], Dict[str, bytes]]":
    """Manual pages and completions, which the program prints."""
    with tempfile.TemporaryDirectory(prefix="gpumem-release.") as folder:
        path = Path(folder) / "gpumem-analyze"
        path.write_bytes(program.data)
        path.chmod(0o755)
        completions = {name: subprocess.check_output([path, "--generate", f"complete-{shell}"]) for shell, name in _SHELLS.items()}
        pages = Path(folder) / "man"
        subprocess.run([path, "--generate", "man", "--output", pages], stdout=subprocess.DEVNULL, check=True)
        # `help` repeats the other pages.
        manuals = {page.name: page.read_bytes() for page in pages.glob("*.1") if "-help" not in page.name}
    return manuals, completions


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--schemas", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--version", required=True)
    options = parser.parse_args()
    wheel = Wheel(options.wheel, options.version)
    for name, data in make(wheel, options.schemas, options.out, options.version, int(os.environ["SOURCE_DATE_EPOCH"])).items():
        print(f"{len(data):>12,}  {options.out / name}")


if __name__ == "__main__":
    main()
