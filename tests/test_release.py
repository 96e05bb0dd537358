"""scripts/release: its artifacts have the right names and contents, according to independent readers.

The wheel is one of this checkout's binaries (tests/lib/checkout_wheel.py), so nothing is compiled. What breaks these
tests: a file that is left out of an archive, a wrong checksum, a linked crate that is missing from the bill of
materials and the licences, a version that is not Cargo.toml's."""

import fcntl
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import checkout_wheel
import harness
import pytest
import schemas

sys.path.insert(0, str(harness.ROOT / "scripts" / "lib" / "release"))

import archives  # noqa: E402
import shipped  # noqa: E402
import third_party  # noqa: E402

RELEASE = harness.ROOT / "scripts" / "release"
VERSION = re.search(r'^version = "(.*)"$', (harness.ROOT / "Cargo.toml").read_text(), re.M)[1]
EPOCH = "1790000000"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory, worker_id):
    base = tmp_path_factory.getbasetemp()
    return checkout_wheel.make((base if worker_id == "master" else base.parent) / f"checkout-wheel-{worker_id}")


@pytest.fixture(scope="session")
def artifacts(wheel, python_env, tmp_path_factory, worker_id):
    """The folder that scripts/release fills, once for all workers."""
    python_env("release")
    base = tmp_path_factory.getbasetemp()
    out = (base if worker_id == "master" else base.parent) / "release"
    with open(out.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            command = [RELEASE, f"v{VERSION}", "--wheel", wheel, "--out", out]
            done = harness.run(command, env={"SOURCE_DATE_EPOCH": EPOCH}, timeout=1200, check=False)
            if done.returncode:
                shutil.rmtree(out, ignore_errors=True)
            assert done.returncode == 0, harness.described(done)
            assert "not made: a wheel for aarch64" in done.stderr
    return out


def archive_of(artifacts):
    return artifacts / f"gpumem-{VERSION}-x86_64-linux-gnu.tar.gz"


def deb_of(artifacts):
    return artifacts / f"gpumem_{VERSION}-1_amd64.deb"


def members(python_env, deb):
    """The parts of a Debian package, as arpy reads them."""
    code = "import arpy, json, sys; a = arpy.Archive(sys.argv[1]); a.read_all_headers(); print(json.dumps(" \
        "{k.decode(): a.archived_files[k].read().hex() for k in a.archived_files}))"
    said = json.loads(subprocess.check_output([python_env("release"), "-c", code, deb]))
    return {name: bytes.fromhex(data) for name, data in said.items()}


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_names_and_checksums(artifacts):
    names = {path.name for path in artifacts.iterdir()}
    assert names == {
        f"libgpumem-{VERSION}-py3-none-linux_x86_64.whl", f"gpumem-analyze-{VERSION}-x86_64-linux-gnu", archive_of(artifacts).name,
        deb_of(artifacts).name, f"gpumem-{VERSION}.cdx.json", f"gpumem-{VERSION}-THIRD-PARTY.txt", "SHA256SUMS",
    }  # fmt: skip
    sums = dict(reversed(line.split("  ")) for line in (artifacts / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((artifacts / name).read_bytes()).hexdigest() for name in names - {"SHA256SUMS"}}
    done = harness.run([artifacts / f"gpumem-analyze-{VERSION}-x86_64-linux-gnu", "--version"])
    assert done.stdout == f"gpumem-analyze {VERSION}\n"


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_archive(artifacts, tmp_path):
    """It works where it is unpacked: the program, and the recorder by LD_PRELOAD."""
    with tarfile.open(archive_of(artifacts)) as archive:
        items = archive.getmembers()
        archive.extractall(tmp_path, filter="data")
    assert {item.mtime for item in items} == {int(EPOCH)}
    assert {(item.uid, item.gid, item.uname) for item in items} == {(0, 0, "root")}
    [folder] = tmp_path.iterdir()
    assert folder.name == f"gpumem-{VERSION}-x86_64-linux-gnu"
    for name in ("bin/gpumem-analyze", "lib/libgpumem.so", "include/gpumem.h", "share/man/man1/gpumem-analyze.1", "LICENSE-MIT",
                 "LICENSE-APACHE", "NOTICE", "THIRD-PARTY.txt", "sbom.cdx.json", "README.md", "CHANGELOG.md",
                 "share/bash-completion/completions/gpumem-analyze", f"libgpumem-{VERSION}-py3-none-linux_x86_64.whl"):  # fmt: skip
        assert (folder / name).stat().st_size, name
    harness.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=folder)
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {"SHA256SUMS"}
    assert harness.run([folder / "bin" / "gpumem-analyze", "--version"]).stdout == f"gpumem-analyze {VERSION}\n"
    for path in (folder / "share" / "gpumem" / "schema").iterdir():
        assert json.loads(path.read_text()) == schemas.schema_of(path.stem)
    assert len(list((folder / "share" / "gpumem" / "schema").iterdir())) == len(schemas.NAMES)
    code = "import ctypes; print(ctypes.CDLL(None).gpumem_api_version())"
    done = harness.run([sys.executable, "-c", code], env={"LD_PRELOAD": str(folder / "lib" / "libgpumem.so")})
    assert int(done.stdout) >= 7


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_debian_package(artifacts, python_env, tmp_path):
    """Read with arpy and tarfile, independent of the writer; dpkg-deb agrees where it is installed."""
    parts = members(python_env, deb_of(artifacts))
    assert list(parts) == ["debian-binary", "control.tar.xz", "data.tar.xz"] and parts["debian-binary"] == b"2.0\n"
    with tarfile.open(fileobj=io.BytesIO(parts["control.tar.xz"])) as control:
        said = control.extractfile("./control").read().decode()
        sums = control.extractfile("./md5sums").read().decode()
    fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", said, re.M))
    assert (fields["Package"], fields["Version"], fields["Architecture"]) == ("gpumem", f"{VERSION}-1", "amd64")
    assert "python3 (>= 3.8)" in fields["Depends"] and all(len(line) <= 80 for line in said.splitlines() if line.startswith(" "))
    with tarfile.open(fileobj=io.BytesIO(parts["data.tar.xz"])) as data:
        files = {item.name: item for item in data.getmembers()}
        data.extractall(tmp_path, filter="data")
    assert all(name.startswith("./usr/") or name in ("./usr", ".", "./") for name in files)
    for command in ("gpumem", "libgpumem", "gpumem-analyze"):
        assert files[f"./usr/bin/{command}"].mode == 0o755
    for line in sums.splitlines():
        digest, name = line.split("  ")
        assert hashlib.md5((tmp_path / name).read_bytes()).hexdigest() == digest
    assert len(sums.splitlines()) == sum(path.is_file() for path in tmp_path.rglob("*"))
    shared = tmp_path / "usr" / "share"
    assert gzip.decompress((shared / "man" / "man1" / "gpumem-analyze.1.gz").read_bytes()).startswith(b".ie")
    assert (shared / "doc" / "gpumem" / "copyright").read_text().startswith("Format: https://www.debian.org/")
    assert b"inferno" in gzip.decompress((shared / "doc" / "gpumem" / "THIRD-PARTY.txt.gz").read_bytes())
    if shutil.which("dpkg-deb"):
        shown = harness.run(["dpkg-deb", "--field", deb_of(artifacts), "Package", "Version"]).stdout
        assert shown == f"Package: gpumem\nVersion: {VERSION}-1\n"
        listed = harness.run(["dpkg-deb", "--contents", deb_of(artifacts)]).stdout
        assert len(listed.splitlines()) == len(files)
    # What a Debian has: the package is found by the system's Python, with its own libraries and commands.
    env = {"PYTHONPATH": str(tmp_path / "usr" / "lib" / "python3" / "dist-packages"), "PATH": f"{tmp_path}/usr/bin:{os.environ['PATH']}"}
    command = [sys.executable, tmp_path / "usr" / "bin" / "libgpumem"]
    run = lambda *words: harness.run([*command, *words], env=env, cwd=tmp_path).stdout  # noqa: E731
    assert run("version") == f"gpumem {VERSION}\n"
    assert run("library").strip() == f"{env['PYTHONPATH']}/gpumem/libgpumem.so"
    assert run("analyze", "--version") == f"gpumem-analyze {VERSION}\n"


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_bill_of_materials(artifacts, python_env):
    """It follows CycloneDX's schema, and has what is linked and no more: crates, their C libraries, npm packages, the toolchain's."""
    path = artifacts / f"gpumem-{VERSION}.cdx.json"
    check = (
        "import sys; from cyclonedx.schema import SchemaVersion as V; from cyclonedx.validation.json import JsonStrictValidator as J\n"
        "print(J(V.V1_6).validate_str(open(sys.argv[1]).read()))"
    )
    validated = [python_env("release"), "-c", check]
    assert harness.run([*validated, path]).stdout == "None\n"
    broken = path.with_suffix(".broken")
    broken.write_text(path.read_text().replace('"type": "library"', '"type": "shelf"', 1))
    assert harness.run([*validated, broken]).stdout != "None\n"
    broken.unlink()
    said = json.loads(path.read_text())
    assert said["metadata"]["component"]["version"] == VERSION and said["metadata"]["timestamp"].startswith("2026-09-21T")
    parts = {part["bom-ref"]: part for part in said["components"]}
    for start in ("pkg:cargo/clap@", "pkg:cargo/inferno@", "pkg:generic/sqlite@3", "pkg:generic/zstd@1", "pkg:npm/d3-selection@",
                  "pkg:generic/rust-std@", "workspace/gpumem@", "workspace/gpumem-analyze@"):  # fmt: skip
        assert [name for name in parts if name.startswith(start)], start
    # Build scripts, macros of the compiler's and what tests need are in no binary.
    assert not [name for name in parts if re.match(r"pkg:cargo/(cc|proptest|clap_derive|bindgen|fuser|syn)@", name)]
    for name, part in parts.items():
        assert part.get("licenses"), name
        assert not name.startswith("pkg:cargo/") or part["hashes"][0]["alg"] == "SHA-256", name
    reached, waiting = set(), [f"gpumem@{VERSION}"]
    edges = {edge["ref"]: edge.get("dependsOn", []) for edge in said["dependencies"]}
    while waiting:
        name = waiting.pop()
        waiting += [use for use in edges[name] if use not in reached]
        reached.update(edges[name])
    assert reached == set(parts)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_licences_of_everything_that_is_linked(artifacts):
    text = (artifacts / f"gpumem-{VERSION}-THIRD-PARTY.txt").read_text()
    components = json.loads((artifacts / f"gpumem-{VERSION}.cdx.json").read_text())["components"]
    others = {f"{part['name']} {part['version']}" for part in components if not part["bom-ref"].startswith("workspace/")}
    listed = set(re.findall(r"^  (\S+ \S+)  \(", text, re.M))
    assert listed == others and len(others) > 200
    for words in ("COMMON DEVELOPMENT AND DISTRIBUTION LICENSE", "The author disclaims copyright to this source code", "Mike Bostock",
                  "Apache License", "Permission is hereby granted, free of charge"):  # fmt: skip
        assert words.lower() in text.lower(), words


def test_a_text_that_several_parts_share_stands_once():
    one = shipped.Part("cargo", "one", "1", "MIT", texts=("Copyright A\nPermission",))
    two = shipped.Part("cargo", "two", "2", "MIT", texts=("Copyright A\n  Permission.",))
    own = shipped.Part("cargo", "own", "3", "MIT", ours=True)
    bare = shipped.Part("cargo", "bare", "4", "ISC", authors="B")
    text = third_party.document([one, two, own, bare])
    assert text.count("Permission") == 1 and "one 1, two 2\n" in text and "own" not in text.split("\n\n", 2)[2]
    assert "  bare 4  (ISC)  B\n" in text


def test_archives_follow_from_their_content():
    """The same files in another order and at another time of the day are the same bytes."""
    files = {"b/two": archives.File(b"2" * 3), "a": archives.File(b"1", 0o755)}
    backwards = dict(reversed(list(files.items())))
    assert archives.tar_gz(files, 5, "x/") == archives.tar_gz(backwards, 5, "x/") != archives.tar_gz(files, 6, "x/")
    assert archives.deb(files, files, 5) == archives.deb(backwards, backwards, 5)
    with tarfile.open(fileobj=io.BytesIO(archives.tar_gz(files, 5, "x/"))) as archive:
        assert [(item.name, item.mode) for item in archive] == [("x", 0o755), ("x/a", 0o755), ("x/b", 0o755), ("x/b/two", 0o644)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("9.9.9",), f"9.9.9 is not the version of Cargo.toml, {VERSION}"),
        (("--wheel", "/no/such.whl"), "/no/such.whl: no such wheel"),
        (("--nothing",), "no such option: --nothing"),
        ((VERSION, VERSION), "more than one version"),
        (("--out", "FOLDER"), "has other files (mine): name an empty folder"),
    ],
)
def test_what_it_refuses(words, said, tmp_path):
    """In one line, before anything is built."""
    (tmp_path / "mine").write_text("kept")
    words = [str(tmp_path) if word == "FOLDER" else word for word in words]
    done = harness.run([RELEASE, *words], check=False)
    assert done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1, harness.described(done)
    assert (tmp_path / "mine").read_text() == "kept"


@pytest.mark.slow
def test_another_projects_wheel_is_refused(python_env, tmp_path):
    path = tmp_path / "other-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", "y")
    done = harness.run([RELEASE, "--wheel", path, "--out", tmp_path / "out"], check=False)
    assert python_env("release") and done.returncode == 1 and f"is not a wheel of libgpumem {VERSION}" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_wheel_has_both_commands(wheel):
    """PyPI's project gpumem has a command of the first name."""
    with zipfile.ZipFile(wheel) as archive:
        points = archive.read(f"libgpumem-{VERSION}.dist-info/entry_points.txt").decode()
        record = archive.read(f"libgpumem-{VERSION}.dist-info/RECORD").decode()
    assert points.splitlines() == [
        "[pytest11]", "gpumem=gpumem.pytest_plugin", "", "[console_scripts]", "gpumem=gpumem.__main__:main",
        "libgpumem=gpumem.__main__:main",
    ]  # fmt: skip
    assert record.count("entry_points.txt") == 1


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(1500)
def test_the_first_report_from_a_wheel(wheel, python_env):
    """In a new environment without a compiler, within a minute (docs/measured/install.md)."""
    python_env("torch215")
    script = harness.ROOT / "scripts" / "lib" / "first_report.py"
    reports = [harness.run([sys.executable, script, wheel]).stdout for _ in range(3)]
    seconds = [float(re.search(r"^total +(\d+\.\d) s$", report, re.M)[1]) for report in reports]
    assert min(seconds) <= 60, reports
