"""The repository's rules for its structure.

Each check reads the tree or cargo's own metadata; adding a forbidden dependency, a machine's path or an over-long file
makes it fail.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def tracked(*patterns):
    out = subprocess.run(
        ["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in out.stdout.splitlines() if (ROOT / line).is_file()]


def metadata():
    out = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"],
        cwd=ROOT, capture_output=True, text=True,
    )
    if out.returncode:  # nothing fetched yet on a fresh machine
        out = subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--locked"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )
    return json.loads(out.stdout)


def dependencies(package):
    """Names of every crate that `package` links on any platform, without dev- and build-dependencies. With the
    features that it selects itself, without those that other members of the workspace select."""
    command = ["cargo", "tree", "--package", package, "--edges", "normal", "--target", "all", "--prefix", "none", "--format", "{p}", "--locked"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {line.split()[0] for line in out.splitlines() if line}
    assert package in names
    return names - {package}


TOP_LEVEL_FOLDERS = {
    ".cargo", ".ci", ".config", ".github", "analyzer", "capture", "cuda-abi", "dataset", "docs", "fuzz", "holders", "interposer", "packaging", "python", "python-frames",
    "replay", "scripts", "simulator", "stacks", "sys", "tests", "torch-abi", "tracker", "unwind", "web", "whatif",
}
TOP_LEVEL_FILES = {
    ".gitattributes", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Cargo.lock", "Cargo.toml",
    "LICENSE-APACHE", "LICENSE-MIT", "NOTICE", "README.md", "SECURITY.md", "deny.toml", "mkdocs.yml", "rustfmt.toml",
}


def test_top_level():
    paths = [path.relative_to(ROOT) for path in tracked()]
    folders = {path.parts[0] for path in paths if len(path.parts) > 1}
    files = {path.name for path in paths if len(path.parts) == 1}
    assert folders <= TOP_LEVEL_FOLDERS
    assert files <= TOP_LEVEL_FILES
    for name in ["Cargo.toml", "interposer", "analyzer", "scripts", "tests", "README.md"]:
        assert (ROOT / name).exists(), name


def test_scripts_are_sound():
    """Each can be executed, stops at the first error, and bash can read it."""
    scripts = [path for path in tracked("scripts", ".ci/run") if path.suffix not in (".py", ".sh", ".yml")]
    assert {"test", "demo", "bench", "run"} <= {path.name for path in scripts}
    for path in scripts:
        assert path.stat().st_mode & 0o111, path
        if "bash" in path.read_text().splitlines()[0]:
            assert "\nset -euo pipefail\n" in path.read_text(), path
            subprocess.run(["bash", "-n", path], check=True)
    assert "scripts/test" in (ROOT / ".ci/run").read_text()


def test_the_interposer_stays_small():
    linked = dependencies("gpumem")
    assert "gpumem-capture" in linked  # the check sees something
    assert not linked & {"clap", "serde", "serde_json", "blazesym", "inferno", "anyhow", "gpumem-analyzer"}
    # nvml-wrapper opens NVML on request and starts nothing. Its code in the library, without the compiler's macros,
    # stays within these crates.
    brought = dependencies("nvml-wrapper") - dependencies("wrapcenum-derive")
    assert "nvml-wrapper" in linked
    assert brought <= {
        "bitflags", "cfg-if", "libloading", "nvml-wrapper-sys", "static_assertions", "thiserror",
        "thiserror-impl", "windows-link", "wrapcenum-derive",
    }


def test_the_analyzer_knows_no_cuda():
    linked = dependencies("gpumem-analyze")
    assert "gpumem-capture" in linked
    assert not linked & {"gpumem-cuda-abi", "gpumem-unwind", "gpumem", "cudarc", "nvml-wrapper"}
    assert not dependencies("gpumem-analyzer") & {"clap", "indicatif", "rmcp"}
    assert not {name for name in dependencies("gpumem-http") if name.startswith("gpumem")}
    assert not dependencies("gpumem-live") & {"gpumem-analyze", "clap", "indicatif", "cudarc", "nvml-wrapper"}
    assert not dependencies("gpumem-mcp") & {"gpumem-analyze", "clap", "indicatif"}


def test_the_replay_knows_records_alone():
    linked = dependencies("gpumem-replay")
    assert "gpumem-capture" in linked
    assert not linked & {"gpumem-cuda-abi", "gpumem-unwind", "gpumem", "gpumem-analyzer", "serde", "clap", "inferno"}


def test_the_judge_knows_the_replay_alone():
    """The recorder may use it, too."""
    assert dependencies("gpumem-judge") - dependencies("gpumem-replay") == {"gpumem-replay"}


def test_the_capture_knows_neither():
    linked = dependencies("gpumem-capture")
    assert not linked & {"gpumem-cuda-abi", "gpumem-unwind", "clap", "inferno", "gpumem"}


def test_the_stacks_know_captures_alone():
    linked = dependencies("gpumem-stacks")
    assert {"gpumem-capture", "gpumem-unwind", "gpumem-python-frames"} <= linked
    assert not linked & {"gpumem-cuda-abi", "gpumem-replay", "gpumem", "nvml-wrapper", "serde", "clap"}


def test_the_tracker_calls_nothing():
    """It makes no query, does not wait or lock and reads no clock: its properties need no process."""
    assert not dependencies("gpumem-tracker") & {"gpumem", "gpumem-cuda-abi", "gpumem-stacks", "nvml-wrapper"}
    calls = re.compile(r"std::(fs|io|net|process|sync|thread|time|env)|libc|Instant|Mutex|Atomic|unsafe \{")
    for path in (ROOT / "tracker" / "src").glob("*.rs"):
        assert not calls.search(path.read_text()), path


def test_what_other_profilers_could_use_knows_libc_alone():
    assert dependencies("gpumem-sys") == {"libc"}
    assert dependencies("gpumem-python-frames") == {"gpumem-sys", "libc"}


def test_each_named_crate_has_a_use():
    declared = {}
    for package in metadata()["packages"]:
        if package["source"] is None:
            for dependency in package["dependencies"]:
                declared.setdefault(dependency["name"], []).append(package["name"])
    sources = "\n".join(p.read_text() for p in tracked("*.rs"))
    for name in ["libc", "cudarc", "nvml-wrapper", "dashmap", "backtrace", "serde", "inferno"]:
        assert name in declared, f"nobody depends on {name}"
        assert re.search(rf"\b{name.replace('-', '_')}::", sources), f"{name} is declared, not used"


def test_no_path_of_a_machine():
    bad = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(r"(?<![\w$.~-])/(root|work|farm|home/(?!(me|user)/)[a-z]+)/", line) and "test_structure" not in path.name:
                bad.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not bad, "\n".join(bad)


def test_no_file_has_two_jobs():
    long = [
        f"{path.relative_to(ROOT)}: {len(path.read_text().splitlines())} lines"
        for path in tracked("*.rs", "*.py", "scripts/*")
        if not path.relative_to(ROOT).parts[0] == "tests" and len(path.read_text().splitlines()) > 600
    ]
    assert not long, "\n".join(long)


# Programs that end by themselves or are ended, that compute on the processor alone, or that are as their users wrote them and whose
# status after the traceback or the plan is no part of a test.
ENDS_ANYHOW = {
    "winds_up.py", "cpu_training.py", "unwind_torch.py", "killed_in_backward.py", "zoo/killed_training.py", "whatif/trainings.py", "whatif/trees.py",
    "profiler_categories.py", "dies/batch.py",
}
AS_WRITTEN = {"causes", "plan", "gpu"}


def test_each_program_with_a_backward_awaits_its_threads():
    """Otherwise it is ended with 134 now and then, by PyTorch: winds_up.py."""
    folder = ROOT / "tests" / "workloads"
    wanted = {
        path.relative_to(folder) for path in tracked("tests/workloads/*.py") if re.search(r"backward\(|autograd\.grad\(", path.read_text())
    }
    waiting = {path for path in wanted if re.search(r"import .*winds_up|os\._exit\(0\)", (folder / path).read_text())}
    assert len(waiting) > 20
    assert {str(path) for path in wanted - waiting if path.parts[0] not in AS_WRITTEN} == ENDS_ANYHOW


def test_no_file_of_the_pages_is_long():
    """What esbuild makes is not written by hand, nor read."""
    paths = [path for path in tracked("web") if path.relative_to(ROOT).parts[:2] != ("web", "dist") and path.name != "package-lock.json"]
    assert {"main.ts", "page.css", "page.html", "build.js"} <= {path.name for path in paths}
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in paths}
    assert not {path: number for path, number in lines.items() if number > 400}


def test_each_unsafe_block_says_why():
    out = (ROOT / "Cargo.toml").read_text()
    assert 'undocumented_unsafe_blocks = "deny"' in out
    for manifest in tracked("*/Cargo.toml"):
        assert "[lints]\nworkspace = true" in manifest.read_text(), manifest


def permitted(expression, allowed):
    """Whether an SPDX expression (or the older form with slashes) leaves a choice of allowed licences."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR ").replace(" WITH ", "+WITH+"))
    names = {"(": "(", ")": ")", "OR": "or", "AND": "and"}
    read = [names.get(word) or str(word.replace("+WITH+", " WITH ") in allowed) for word in words]
    return eval(" ".join(read), {"__builtins__": {}})  # nothing but True, False, and, or and brackets


def test_licences_are_those_that_deny_toml_allows():
    """cargo-deny checks this where it is installed; this test checks it everywhere."""
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    rules = tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]
    exceptions = {rule["crate"]: rule["allow"] for rule in rules["exceptions"]}
    allowed = set(rules["allow"])
    assert permitted("(MIT OR Apache-2.0) AND Unicode-3.0", allowed)
    assert permitted("LGPL-2.1-or-later/MIT", allowed)
    for wrong in ("LGPL-2.1-or-later", "MIT AND GPL-3.0", "Apache-2.0 WITH Classpath-exception-2.0"):
        assert not permitted(wrong, allowed), wrong
    packages = [package for package in metadata()["packages"] if package["source"]]
    assert {"rusqlite", "parquet", "inferno"} <= {package["name"] for package in packages}
    refused = [
        (package["name"], package["license"]) for package in packages
        if not package["license"] or not permitted(package["license"], {*allowed, *exceptions.get(package["name"], ())})
    ]
    assert refused == []


# What packages of npm may be licensed under: what a page may carry without more than its text.
NPM_LICENCES = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "CC-BY-4.0", "ISC", "MIT", "Python-2.0"}


def test_the_packages_of_the_pages_are_pinned_and_licensed():
    """Exact versions with their hashes, from whatever registry npm is set to."""
    manifest = json.loads((ROOT / "web" / "package.json").read_text())
    named = {**manifest["dependencies"], **manifest["devDependencies"]}
    assert {"typescript", "esbuild", "eslint", "d3-scale", "@types/d3-scale"} <= set(named)
    assert [name for name, version in named.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    assert named.items() == {name: packages[f"node_modules/{name}"]["version"] for name in named}.items()
    del packages[""]
    assert [path for path, of in packages.items() if "resolved" in of or not of["integrity"].startswith("sha512-")] == []
    # Tests run axe-core beside a page; no page has any of it.
    others = {("node_modules/axe-core", "MPL-2.0")}
    found = {(path, of["license"]) for path, of in packages.items() if of["license"] not in NPM_LICENCES}
    assert found == others and "axe-core" not in (ROOT / "web" / "dist" / "LICENCES.txt").read_text()


def test_the_pages_name_the_licences_of_what_they_have_from_elsewhere():
    """A package that a page's program imports is named, with its licence, at the head of the program and in a
    separate list. (`scripts/web --check` makes both again, also with packages that those packages need.)"""
    listed = (ROOT / "web" / "dist" / "LICENCES.txt").read_text()
    assert "web/dist/LICENCES.txt" in (ROOT / "NOTICE").read_text()
    imported = {}
    for path in tracked("web/src/*.ts"):
        page = path.relative_to(ROOT / "web" / "src").parts[0]
        for name in re.findall(r'^import (?!type )[^;]*?from "([^."][^"]*)";', path.read_text(), re.M):
            imported.setdefault(page, set()).add(name)
    for page in ("report", "ranks", "live", "folder"):
        head, found, _ = (ROOT / "web" / "dist" / f"{page}.js").read_text().partition('"use strict";')
        assert found and head.startswith("// Generated by scripts/web")
        for name in imported.get(page, ()):
            assert f"\n{name} " in head and f"\n{name} " in listed, name
