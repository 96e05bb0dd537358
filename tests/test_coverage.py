"""docs/coverage.tsv names every function of CUDA and states how the recorder handles it. It is compared with the
headers, with the functions that real runtimes request from the driver, and with the hooks that libgpumem.so exports.
The tables of docs/coverage.md are printed from it (GPUMEM_BLESS=1 rewrites them)."""

import os
import re
import subprocess
from dataclasses import dataclass

import harness

TABLE = harness.ROOT / "docs" / "coverage.tsv"
PAGE = harness.ROOT / "docs" / "coverage.md"
DATA = harness.ROOT / "tests" / "data"
MARK = "<!-- printed from coverage.tsv -->\n"

# How a function stands. The first seven are hooks.
HOOKED = ["recorded", "alias", "name", "path", "answered", "timed", "counted"]
STANDINGS = [*HOOKED, "outside", "none"]
TITLES = {
    "recorded": "recorded",
    "alias": "alias: recorded, never counted",
    "name": "name",
    "path": "way to the driver",
    "answered": "question",
    "timed": "timed, no effect",
    "counted": "counted, not recorded",
    "outside": "not recorded",
    "none": "no effect",
}


@dataclass(frozen=True)
class Row:
    name: str
    family: str
    standing: str
    what: str


def rows():
    lines = TABLE.read_text().splitlines()
    return [Row(*line.split("\t")) for line in lines]


def listed():
    return {row.name for row in rows()}


def functions(text):
    return set(re.findall(r"\bcu(?:da)?[A-Z]\w*", text))


def test_the_table_is_sound():
    table = rows()
    names = [row.name for row in table]
    assert len(names) == len(set(names)) > 1000
    assert {row.standing for row in table} == set(STANDINGS)
    for row in table:
        assert row.what or row.standing == "name", row
        assert re.fullmatch(r"cu(da)?[A-Z]\w*", row.name), row


def test_forms_of_a_function_stand_together():
    """Every older, newer or per-thread form of a recorded function is recorded in the same way, or the table marks
    it as not recorded."""
    base = lambda name: re.sub(r"(_v\d)?(_ptsz|_ptds)?$", "", name)  # noqa: E731
    standings = {}
    for row in rows():
        if row.standing not in ("outside", "counted"):
            standings.setdefault(base(row.name), set()).add(row.standing)
    assert {name: s for name, s in standings.items() if len(s) > 1} == {}


def test_what_runtimes_ask_for_is_in_the_table():
    for version in (12, 13):
        text = (DATA / f"cudart{version}_getprocaddress.txt").read_text()
        answers = {line.split(" -> ")[1] for line in text.splitlines()} - {"NOT_FOUND"}
        assert len(answers) > 350
        assert answers <= listed(), answers - listed()
    asked = functions((DATA / "cudart10_dlsym.txt").read_text())
    assert len(asked) > 200
    assert asked <= listed(), asked - listed()


def test_the_headers_of_13_5_are_in_the_table():
    declared = functions((DATA / "cuda135_names.txt").read_text())
    assert len(declared) > 800
    assert declared <= listed(), declared - listed()


# Names that sound like memory and yet neither take nor give any.
INNOCENT = (
    r"Get|Set|Texture|Semaphore|Surf|TexRef|TexObject|TensorMap|Event|StreamDestroy"
    r"|GraphCreate|UserObject|LogicalEndpoint|Export|Link|Channel"
    r"|Conditional|cudaGraphDestroyNode|MemPoolCreate"
)


def test_no_name_that_sounds_like_memory_is_without_effect():
    sounds = r"Alloc|Free|Map|Import|Create|Destroy|ModuleLoad|LibraryLoad|Unload|Reserve|Retain|Release"
    missed = [
        row.name
        for row in rows()
        if row.standing == "none" and re.search(sounds, row.name) and not re.search(INNOCENT, row.name)
    ]
    assert missed == []


def bindings(python):
    """Functions that the installed cuda-bindings declare: those of the headers they were made from."""
    (folder,) = python.parent.parent.glob("lib/python3.*/site-packages/cuda/bindings")
    driver = set(re.findall(r"CUresult _(cu\w+)\(", (folder / "_internal/driver.pxd").read_text()))
    runtime = set(re.findall(r"\b(cuda[A-Z]\w*)\(", (folder / "cyruntime.pxd").read_text()))
    assert {"cuMemAlloc_v2"} <= driver and {"cudaMalloc"} <= runtime
    return driver | runtime


def test_what_the_bindings_declare_is_in_the_table(python_env):
    declared = bindings(python_env("numba"))
    assert declared <= listed(), declared - listed()


def test_what_the_installed_headers_and_runtime_have_is_in_the_table(python_env):
    python = python_env("torch215")
    (folder,) = python.parent.parent.glob("lib/python3.*/site-packages/nvidia/cu13")
    typed = (folder / "include" / "generated_cuda_meta.h").read_text()
    declared = set(re.findall(r"\b(cu[A-Z]\w*?)_params(?:_st)?\b", typed))
    exported = functions(harness.run(["nm", "-D", "--defined-only", folder / "lib/libcudart.so.13"]).stdout)
    assert "cuMemAllocAsync_ptsz" in declared and "cudaMallocAsync_ptsz" in exported
    assert declared | exported <= listed(), (declared | exported) - listed()


def test_every_hook_is_in_the_table_and_the_other_way_round():
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(harness.LIBRARY)], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1] for line in symbols.splitlines()}
    hooks = {name for name in exported if re.match(r"cu(da)?[A-Z]", name)}
    promised = {row.name for row in rows() if row.standing in HOOKED}
    assert hooks - promised == set(), "hooks that the table does not name"
    assert promised - hooks == set(), "the table promises what is no hook"


def tables():
    """The page's tables: a family each, its functions grouped by what is done with them."""
    families = {}
    for row in rows():
        family = families.setdefault(row.family, {})
        family.setdefault((row.standing, row.what), []).append(row.name)
    out = []
    for family, groups in families.items():
        out += [f"## {family}", "", "| functions | standing | what |", "|---|---|---|"]
        for (standing, what), names in groups.items():
            out.append(f"| {' '.join(f'`{n}`' for n in names)} | {TITLES[standing]} | {what} |")
        out.append("")
    return "\n".join(out).rstrip() + "\n"


def test_the_page_says_what_the_table_says():
    page = PAGE.read_text()
    head, mark, _ = page.partition(MARK)
    assert mark, f"{PAGE.name} has lost its mark"
    wanted = head + MARK + "\n" + tables()
    if os.environ.get("GPUMEM_BLESS") == "1":
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted, "docs/coverage.md differs from the table: run with GPUMEM_BLESS=1"
