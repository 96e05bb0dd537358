"""gpumem ci on real git repositories: a planted growth of 3 %, budgets, allowances, history and trend.

The programs run on the simulator and allocate from CUDA itself, so that each figure is known: 100 MiB, of which the
planted commit makes 103.

What breaks these tests: a figure that differs from run to run, a line that moved taken for a change, an allowance that
counts after its day, a commit that is twice in the history."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import harness
import pytest
from lanes import lanes

MIB = 1 << 20
GOLDEN = harness.ROOT / "tests" / "data" / "ci_comment.md"

PROGRAM = """\
import ctypes
import sys

CUDA = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
LIVE = []


def start():
    context = ctypes.c_void_p()
    assert CUDA.cuInit(0) == 0
    assert CUDA.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert CUDA.cuCtxSetCurrent(context) == 0


def weights():
    LIVE.append(ctypes.c_uint64())
    assert CUDA.cuMemAlloc_v2(ctypes.byref(LIVE[-1]), ctypes.c_size_t(60 * MIB)) == 0


def activations():
    LIVE.append(ctypes.c_uint64())
    assert CUDA.cuMemAlloc_v2(ctypes.byref(LIVE[-1]), ctypes.c_size_t(35 * MIB)) == 0


def cache():
    LIVE.append(ctypes.c_uint64())
    assert CUDA.cuMemAlloc_v2(ctypes.byref(LIVE[-1]), ctypes.c_size_t(5 * MIB)) == 0


start()
weights()
activations()
if sys.argv[1] == "train":
    cache()
while LIVE:
    assert CUDA.cuMemFree_v2(LIVE.pop()) == 0
"""
# All lines move; the cache grows by 3 MiB, 3 % of the whole.
PLANTED = PROGRAM.replace("MIB = 1 << 20", "# Bytes.\nMIB = 1 << 20").replace("(5 * MIB)", "(8 * MIB)")


def git(folder, *arguments, date=1_790_000_000):
    """Runs git without this machine's settings."""
    person = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (
        ("NAME", "Tester"), ("EMAIL", "tester@example.org"), ("DATE", f"{date} +0000"))}
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **person}
    return harness.run(["git", *arguments], cwd=folder, env=settings).stdout.strip()


def commit(repository, program, date):
    """A commit with this program."""
    (repository / "train.py").write_text(program)
    git(repository, "add", "train.py")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "a change", date=date)
    return git(repository, "rev-parse", "HEAD")


def record(repository, folder, revision="HEAD", workloads=("train", "eval")):
    """Captures of a commit's workloads, made in a separate checkout."""
    checkout = folder / "checkout"
    git(repository, "worktree", "add", "--quiet", "--detach", str(checkout), revision)
    for name in workloads:
        harness.simulate(
            [sys.executable, "train.py", name], preload=True, cwd=checkout,
            env={"GPUMEM_OUTPUT": str(folder / f"{name}.bin")},
        )
    git(repository, "worktree", "remove", str(checkout))
    return folder


def ci(folder, *arguments, check=None):
    """Runs it in a folder; `check` is the exit code that it must have."""
    done = harness.run([harness.ANALYZER, "ci", "--today", "2026-11-26", *arguments], cwd=folder, check=False)
    assert check is None or done.returncode == check, harness.described(done)
    return done


@pytest.fixture(scope="module")
def change(tmp_path_factory):
    """A repository with a base and a head that takes 3 % more, and the captures of both."""
    folder = tmp_path_factory.mktemp("change")
    repository = folder / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet", "--initial-branch=main")
    base = commit(repository, PROGRAM, 1_790_000_000)
    head = commit(repository, PLANTED, 1_790_000_600)
    for name, revision in (("base", base), ("head", head)):
        (folder / name).mkdir()
        record(repository, folder / name, revision)
    return folder


BOTH = ("--base", "base", "--head", "head")


def test_a_planted_growth_of_three_percent(change, tmp_path):
    comment = tmp_path / "comment.md"
    done = ci(change, *BOTH, "--fail-over", "2%", "-o", comment, check=4)
    text = comment.read_text()
    line = PLANTED.splitlines().index("    assert CUDA.cuMemAlloc_v2(ctypes.byref(LIVE[-1]), ctypes.c_size_t(8 * MIB)) == 0") + 1
    assert text.splitlines()[0] == f"### GPU memory: +3.0 % (+3.00 MiB) in 1 of 2 workloads, by `train.py:{line}`"
    assert done.stdout == f"{comment}: GPU memory: +3.0 % (+3.00 MiB) in 1 of 2 workloads, by train.py:{line}\n"
    if os.environ.get("GPUMEM_BLESS") == "1":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text(), "GPUMEM_BLESS=1 accepts it"
    ci(change, *BOTH, "--fail-over", "4%", check=0)
    ci(change, *BOTH, "--fail-over", "3MiB", check=0)
    ci(change, *BOTH, "--fail-over", str(3 * MIB - 1), check=4)
    ci(change, *BOTH, check=0)
    # A limit that nothing is compared for is no limit.
    assert "--base" in ci(change, "--head", "head", "--fail-over", "2%", check=2).stderr


def test_lines_that_moved_are_no_change(change):
    found = harness.unwrapped(ci(change, *BOTH, "--format", "json").stdout)
    rows = {workload["name"]: workload["devices"][0] for workload in found["workloads"]}
    assert (rows["train"]["base_bytes"], rows["train"]["head_bytes"]) == (100 * MIB, 103 * MIB)
    assert [(line["of"], line["change_bytes"]) for line in rows["train"]["lines"]] == [("cache", 3 * MIB)]
    assert rows["eval"]["lines"] == [] and rows["eval"]["change_bytes"] == 0


@pytest.mark.parametrize("runs", lanes((4, 20)))
def test_runs_of_a_commit_have_the_same_figures(runs, change, tmp_path):
    git(change / "repository", "worktree", "add", "--quiet", "--detach", str(tmp_path / "checkout"))
    figures = set()
    for number in range(runs):
        (tmp_path / str(number)).mkdir()
        capture = tmp_path / str(number) / "train.bin"
        harness.simulate([sys.executable, "train.py", "train"], preload=True, cwd=tmp_path / "checkout",
                         env={"GPUMEM_OUTPUT": str(capture)})
        done = ci(change, "--base", change / "head" / "train.bin", "--head", capture, "--fail-over", "0%", check=0)
        assert done.stdout.startswith("### GPU memory: unchanged in `train`\n"), done.stdout
        figures.add(json.dumps(harness.analyze_json("lines", capture)))
    git(change / "repository", "worktree", "remove", str(tmp_path / "checkout"))
    assert len(figures) == 1


def test_an_allowance_counts_until_its_day(change):
    def judged(until):
        (change / "allowed.toml").write_text(
            f'[[allow]]\nworkload = "train"\ngrow = "3%"\nuntil = {until}\nreason = "a larger cache, #123"\n')
        return ci(change, *BOTH, "--fail-over", "2%", "--budgets", "allowed.toml")

    done = judged("2026-11-26")
    assert done.returncode == 0 and "3 % until 2026-11-26: a larger cache" in done.stdout, harness.described(done)
    done = judged("2026-11-25")
    assert done.returncode == 4 and "- expired: `train` was allowed 3 % until 2026-11-25" in done.stdout


def test_budgets_are_found_above_the_folder(change, tmp_path):
    (tmp_path / "sub").mkdir()
    budgets = tmp_path / "gpumem.toml"
    heads = ("--head", change / "head")
    budgets.write_text('[budget."train"]\npeak = "103 MiB"\n')
    ci(tmp_path / "sub", *heads, check=0)
    budgets.write_text('[budget."train"]\npeak = "102.9 MiB"\n')
    done = ci(tmp_path / "sub", *heads, check=4)
    assert done.stdout.startswith("### GPU memory: `train` is 102 KiB above its budget of 103 MiB\n"), done.stdout
    assert "uses 103 MiB (108,003,328 bytes) from CUDA; its budget is 103 MiB (107,898,470 bytes)" in done.stdout
    budgets.write_text('[budget."train"]\npeak = "103 MiB"\n\nlimit = 5\n')
    done = ci(tmp_path / "sub", *heads, check=1)
    assert "gpumem.toml:4: unknown field `limit`" in done.stderr and done.stderr.count("\n") == 1


def test_a_partial_capture_is_not_judged(change, tmp_path):
    (tmp_path / "head").mkdir()
    for name in ("train", "eval"):
        whole = (change / "head" / f"{name}.bin").read_bytes()
        (tmp_path / "head" / f"{name}.bin").write_bytes(whole[:-100] if name == "eval" else whole)
    done = ci(tmp_path, "--base", change / "base", "--head", "head", "--fail-over", "5%", check=3)
    assert "1 of 2 workloads cannot be judged" in done.stdout.splitlines()[0], done.stdout
    assert "- not judged: `eval`, head:" in done.stdout


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """Five commits, each with 2 MiB more, recorded and kept one after the other as CI does."""
    folder = tmp_path_factory.mktemp("past")
    repository = folder / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet", "--initial-branch=main")
    commits = []
    for number in range(5):
        program = PROGRAM.replace("(5 * MIB)", f"({5 + 2 * number} * MIB)")
        commits.append(commit(repository, program, 1_790_000_000 + 86_400 * number))
        (folder / str(number)).mkdir()
        record(repository, folder / str(number))
        options = ("--history", folder / "history", "--trend", folder / "trend.svg")
        ci(repository, "--head", folder / str(number), *options, check=0)
    return folder, commits


def test_history_has_each_commit_once(past):
    duckdb = pytest.importorskip("duckdb")
    folder, commits = past
    files = {path: path.read_bytes() for path in (folder / "history").iterdir()}
    assert len(files) == 5
    rows = duckdb.sql(
        f"select commit, peak_bytes, level, device, exact, epoch(date)::bigint from '{folder}/history/*.parquet' "
        "where workload = 'train' order by date"
    ).fetchall()
    assert rows == [
        (sha, (100 + 2 * number) * MIB, "driver", 0, True, 1_790_000_000 + 86_400 * number)
        for number, sha in enumerate(commits)
    ]
    # Again, for HEAD and for an older commit in git: nothing changes.
    repository = folder / "repository"
    ci(repository, "--head", folder / "4", "--history", folder / "history", check=0)
    done = ci(repository, "--head", folder / "4", "--history", folder / "history", "--commit", commits[0], check=0)
    assert f"the history keeps 100 MiB for train at {commits[0]}; the new measurement is 108 MiB" in done.stderr
    assert {path: path.read_bytes() for path in (folder / "history").iterdir()} == files


def test_history_without_git(past, tmp_path):
    folder, _ = past
    heads = ("--head", folder / "0", "--history", tmp_path / "history")
    done = ci(tmp_path, *heads, check=1)
    assert "git reports no commit for this folder: name the measured commit with --commit SHA" in done.stderr
    done = ci(tmp_path, *heads, "--commit", "0123abcd", check=1)
    assert "--date" in done.stderr
    ci(tmp_path, *heads, "--commit", "0123abcd", "--date", "2026-11-26T10:00:00+02:00", check=0)
    ci(tmp_path, *heads, "--commit", "--help", check=2)
    (tmp_path / "history" / "x.parquet").write_bytes(b"PAR1")
    done = ci(tmp_path, *heads, "--commit", "0123abcd", "--date", "2026-11-26", check=1)
    assert "x.parquet: not a history of peaks" in done.stderr and done.stderr.count("\n") == 1


def test_the_trend_has_a_point_for_each_commit(past):
    folder, commits = past
    root = ElementTree.parse(folder / "trend.svg").getroot()
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Peak GPU memory over 5 commits" in texts
    assert {"train 108 MiB (+8.0 %)", "eval 95.0 MiB", commits[0][:8], commits[4][:8]} <= set(texts), texts
    points = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert [point for point in points if point.startswith("train")] == [
        f"train, {sha[:8]}, 2026-09-{21 + number}: {100 + 2 * number} MiB ({(100 + 2 * number) * MIB:,} bytes)"
        for number, sha in enumerate(commits)
    ]


@pytest.fixture(scope="module")
def page(past):
    return past[0] / "trend.svg"


def test_the_trend_is_readable_in_the_light_and_in_the_dark(window, tmp_path):
    """Text and lines stand out from the page in both schemes."""
    colours = {}
    for scheme in ("light", "dark"):
        window.picture(tmp_path / f"{scheme}.png", scheme)
        style = "getComputedStyle(document.querySelector('%s')).%s"
        colours[scheme] = [window.tell(style % what) for what in (("rect.b", "fill"), ("text", "fill"), ("path.l0", "stroke"))]
    assert window.errors() == []
    for page_colour, *others in colours.values():
        assert all(contrast(page_colour, other) >= 3 for other in others), colours
    assert colours["light"][0] != colours["dark"][0]


def contrast(one, other):
    """WCAG's contrast of two colours, as `rgb(1, 2, 3)`."""
    def luminance(colour):
        parts = [int(part) / 255 for part in colour[4:-1].split(",")]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722)))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("text", ("2.5 GiB", "64MB", " 4096 ", "1.0 B", "1.5", "2 G", "64mib", "1e3", "1.0001 KiB", "kB", "3 kB", "9 TiB"))
def test_sizes_are_read_as_the_pytest_plugin_reads_them(change, text):
    """Both have the same file."""
    sys.path.insert(0, str(harness.ROOT / "python"))
    from gpumem._text import sizes

    done = ci(change, *BOTH, "--fail-over", text, "--format", "json")
    try:
        size = sizes.parse(text)
    except ValueError:
        assert done.returncode == 2, harness.described(done)
    else:
        assert harness.unwrapped(done.stdout)["rules"]["fail_over"] == {"bytes": size}


def test_gpumem_ci_is_the_analyzers(change):
    """The command of the package."""
    done = subprocess.run(
        [sys.executable, "-m", "gpumem", "ci", *BOTH, "--fail-over", "2%", "--today", "2026-11-26"], cwd=change,
        env=harness.clean_environment({"PYTHONPATH": str(harness.ROOT / "python")}), capture_output=True, text=True,
    )
    assert done.returncode == 4 and done.stdout == GOLDEN.read_text(), done.stderr
