"""A line has one figure at a point in time, on every surface: headline, report, `lines`, margin, tree, page, cause.

What breaks these tests: a surface that shows what a backward allocated for a line, or its workspaces, apart from the
line; parts that do not sum to their line; a second rule for the owner of memory.
"""

import re
from collections import Counter

import captures
import harness
import pytest
from browser import page_data

CAPTURES = [
    "demo", "oom", "leak", "optimizer", "graphs", "phases/all", "trained/old", "dies/workspace", "dies/evaluation", "dies/gan",
    "causes/kept_train3", "causes/lbfgs_chain", "faults/training", "expandable", "sampled/all",
]  # fmt: skip


@pytest.fixture(scope="module", params=CAPTURES)
def report(request):
    return captures.capture(request.param)


def place(row):
    return row["device"], row["file"], row["line"], row["function"], row.get("library")


def test_a_line_is_one_row_with_its_parts(report):
    for at in ("peak", "end"):
        rows = harness.analyze_json("lines", "--at", at, report)
        places = Counter(place(row) for row in rows if row["file"])
        assert not [of for of, times in places.items() if times > 1]
        for row in rows:
            parts = row.get("parts")
            if parts is not None:
                kinds = [(part.get("phase"), part.get("category"), part.get("node"), part.get("workspace")) for part in parts]
                assert len(parts) == len(set(kinds)) > 1
                assert [part["bytes"] for part in parts] == sorted((part["bytes"] for part in parts), reverse=True)
            for figure in ("bytes", "blocks"):
                assert sum(part[figure] for part in parts or [row]) == row[figure]
            for name in ("phase", "node", "workspace"):
                assert all(part.get(name) == row[name] for part in parts or () if name in row)


def test_the_report_has_the_figures_of_lines(report):
    said = harness.unwrapped(harness.analyze("--format", "json", report, check=False).stdout)
    plain = harness.analyze(report, check=False).stdout
    for peak in said["peaks"]:
        seq, device = peak["ledger"]["seq"], peak["ledger"]["device"]
        wanted = harness.analyze_json("lines", "--at", str(seq), "--level", peak["level"], "--device", str(device), report)
        assert peak["lines"] == wanted
    if said["peaks"] and (most := re.search(r"most at (\S.*?) \(([\d.]+ [KMGT]?i?B)\)", " ".join(plain.split()))):
        first = max(said["peaks"], key=lambda peak: peak["ledger"]["bytes"])["lines"][0]
        assert most[1].rsplit("/")[-1] == (f"{first['file']}:{first['line']}".rsplit("/")[-1] if first["file"] else most[1])
        row = re.search(rf"^  {re.escape(most[1])}\b.*? (?:± \S+ \S+ +)?{re.escape(most[2])} ", plain, re.M)
        assert row, (most[0], plain)


def test_margin_and_tree_have_the_figures_of_lines(report):
    rows = [row for row in harness.analyze_json("lines", report) if row["file"]]
    lines = Counter()
    for row in rows:
        lines[row["file"], row["line"]] += row["bytes"]
    margin = Counter()
    for of in harness.analyze_json("lines", "--annotate", report)["files"]:
        for line in of["lines"]:
            margin[of["file"], line["line"]] += line["live_bytes"]
    assert +margin == lines
    tree = harness.analyze_json("tree", report)

    def of_frame(node, end):
        return node["bytes"] if node["frame"].endswith(end) else sum(of_frame(child, end) for child in node["children"])

    for (file, line), size in lines.items():
        # A frame also has what it called: never less than what the line owns.
        assert of_frame(tree, f"{file.rsplit('/')[-1]}:{line})") >= size or file.startswith("<"), (file, line)


def test_the_cause_has_the_figures_of_lines(report):
    said = harness.analyze_json("oom", report, check=False)
    if not said["cause"]:
        pytest.skip("no allocation failed")
    cause = said["cause"]
    rows = [row for row in said[cause["level"]] if row["device"] in (cause["device"], None)]
    assert [of["bytes"] for of in cause["owners"]] == [row["bytes"] for row in rows[:3]]
    assert [of["function"] for of in cause["owners"]] == [row["function"] or "" for row in rows[:3]]


def test_the_page_has_the_figures_of_lines(report, tmp_path):
    harness.analyze("html", "-o", tmp_path / "report.html", report, check=False)
    data = page_data(tmp_path / "report.html")
    stacks = data["stacks"]
    owners = [(of["path"] or of["line"], of["function"]) for of in stacks["owners"]]
    assert len(owners) == len(set(owners))
    for of in data["devices"]:
        for then in of["moments"]:
            for level in then["levels"]:
                if level["others"][0] or of["device"] is None:
                    continue
                ours = Counter()
                for stack, size, _ in level["stacks"]:
                    ours[stacks["owners"][stacks["stacks"][stack][1]]["line"]] += size
                rows = harness.analyze_json(
                    "lines", "--at", str(then["seq"]), "--level", level["level"], "--device", str(of["device"]), report
                )
                assert sorted(ours.values()) == sorted(row["bytes"] for row in rows), then


def share(rows):
    return rows[0]["bytes"] / sum(row["bytes"] for row in rows) if rows and rows[0]["file"] else 0


def test_a_line_with_most_of_the_memory_is_split(report):
    said = harness.unwrapped(harness.analyze("--format", "json", report, check=False).stdout)
    plain = harness.analyze(report, check=False).stdout
    for peak in said["peaks"]:
        split = peak["split"]
        if share(peak["lines"]) <= 0.6:
            assert split is None
        elif split:
            assert split["bytes"] == peak["lines"][0]["bytes"] and split["live_bytes"] == sum(row["bytes"] for row in peak["lines"])
            for parts in (split["lines"], split["modules"]):
                assert sum(part["bytes"] for part in parts) <= split["bytes"]
                assert [part["bytes"] for part in parts] == sorted((part["bytes"] for part in parts), reverse=True)
            assert len(split["lines"]) != 1 or split["lines"][0]["line"] != split["line"], "it says nothing new"
            assert re.search(rf"^{re.escape(split['line'])} \(\d+ % of it\) by ", plain, re.M), plain


def rows_of(*options, **env):
    done = harness.run([harness.ANALYZER, "lines", "--format", "json", *options, harness.CAPTURES / "demo.bin"], env=env)
    return harness.unwrapped(done.stdout)


def test_named_packages_own_memory():
    """`--code`, then GPUMEM_CODE of the analyzer, say whose lines are the user's."""
    plain, named = rows_of(), rows_of("--code", "torch.nn")
    assert sum(row["bytes"] for row in plain) == sum(row["bytes"] for row in named)
    assert {"/torch/nn/" in row["file"] for row in plain if row["file"]} == {False}
    assert {"/torch/nn/" in row["file"] for row in named if row["file"]} == {False, True}
    assert rows_of(GPUMEM_CODE="torch.nn") == named == rows_of("--code", "timm", "--code", "torch.nn,numpy")
    assert rows_of("--code", "timm", GPUMEM_CODE="torch.nn") == plain == rows_of("--code", "", GPUMEM_CODE="torch.nn")


def test_what_is_no_package_is_refused():
    for options, env, said in (
        (("--code", "a/b"), {}, "--code a/b: expected names of packages"),
        ((), {"GPUMEM_CODE": "3d"}, "GPUMEM_CODE=3d: expected names of packages"),
    ):
        done = harness.run([harness.ANALYZER, "lines", *options, harness.CAPTURES / "demo.bin"], env=env, check=False)
        assert done.returncode == 2 and said in done.stderr, harness.described(done)
