"""gpumem-analyze as users run it: on a terminal, in a pipe, and on programs without Python.

What breaks these tests: colour in a pipe or none on a terminal, a line wider than the terminal, an error message
when `head` closes the pipe, parts that do not sum to the whole, or a change that is not charged to the line that
made it."""

import json
import os
import re

import harness
import narrow

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(*arguments, columns=80, env=None):
    """What gpumem-analyze prints on a terminal of that width, and its exit code."""
    code, said = narrow.on_terminal([harness.ANALYZER, *map(str, arguments)], columns=columns, env=env)
    return said, code


def test_colour_and_width_are_for_terminals(trained, analyze):
    report = trained("torch215").report
    plain = analyze("lines", report).stdout
    assert "\x1b" not in plain
    said, code = on_a_terminal("lines", report, columns=80)
    assert code == 0
    assert ESCAPE.search(said)
    rows = ESCAPE.sub("", said).splitlines()
    assert max(map(len, rows)) <= 80
    # Rows that would look alike have a second line, indented, with their difference.
    assert len([row for row in rows if not row.startswith("    ")]) == len(plain.splitlines())
    assert any("…" in row for row in rows)


def test_no_color_is_honoured(trained):
    report = trained("torch215").report
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        said, code = on_a_terminal("lines", report, env=env)
        assert code == 0 and "\x1b" not in said


def test_a_reader_that_has_seen_enough(trained):
    report = trained("torch215").report
    done = harness.run(
        ["bash", "-o", "pipefail", "-c", '"$0" changes "$1" | head -n 1', harness.ANALYZER, report]
    )
    assert done.stdout.startswith("At ") and done.stderr == ""


def test_the_ledger_sums(trained, analyze_json):
    for environment in ("torch215", "torch112"):
        run = trained(environment)
        ledger = analyze_json("ledger", run.report)[0]
        device = harness.device_of(analyze_json("summary", run.report))
        rows = {row["kind"]: row["bytes"] for row in ledger["rows"] if row["kind"] in ("tensors", "cached")}
        assert sum(row["bytes"] for row in ledger["rows"]) == ledger["bytes"]
        assert rows["tensors"] == device["tensor"]["peak_bytes"]
        assert rows["tensors"] + rows["cached"] <= device["reserved"]["peak_bytes"]
        assert ledger["driver_peak_bytes"] == device["driver"]["peak_bytes"]
        assert any(row["name"].startswith("libcublas.so") for row in ledger["rows"])


def test_lines_at_any_event_sum_to_the_changes_so_far(trained, analyze_json):
    """Three ways to the same figure: the total after a section, the lines at its last event, and all
    changes up to it."""
    report = trained("torch215").report
    changes = analyze_json("changes", report)
    assert len(changes) > 50
    so_far = 0
    checked = 0
    for index, (change, following) in enumerate(zip(changes, changes[1:])):
        so_far += change["change_bytes"]
        added = sum(group["bytes"] * group["blocks"] for group in change["added"])
        removed = sum(group["bytes"] * group["blocks"] for group in change["removed"])
        assert added - removed == change["change_bytes"]
        assert so_far == change["total_bytes"]
        if index % 40 == 0:
            rows = analyze_json("lines", "--at", str(following["seq"] - 1), report)
            assert sum(row["bytes"] for row in rows) == so_far
            checked += 1
    assert checked > 1


def test_changes_name_the_line_that_made_them(python_env, simulate, tmp_path, analyze):
    """gpu_mem_track's shape, on a flat script as its users write them."""
    script = tmp_path / "flat.py"
    script.write_text(
        "import torch\n"
        "a = torch.empty(3 << 20, dtype=torch.uint8, device='cuda')\n"
        "b = [torch.empty(2 << 20, dtype=torch.uint8, device='cuda') for _ in range(5)]\n"
        "del b[1:]\n"
        "c = torch.empty(1 << 20, dtype=torch.uint8, device='cuda')\n"
        "import os; os._exit(0)\n"
    )
    simulate([python_env("torch215"), script], preload=True)
    said = analyze("changes", tmp_path / "report.bin").stdout.splitlines()
    squeezed = [" ".join(line.split()) for line in said]
    assert squeezed[:4] == [
        "At flat.py <module>: line 2 +3.0 MiB Total Used Memory: 3.0 MiB",
        "+ | 1 * Size: 3.00 MiB | Memory: 3.00 MiB",
        # Frees carry no stack: the four of line 4 belong to the section that is not over until line 5.
        "At flat.py <module>: line 3 +2.0 MiB Total Used Memory: 5.0 MiB (up to 13.0 MiB in between)",
        "+ | 1 * Size: 2.00 MiB | Memory: 2.00 MiB",
    ]
    assert squeezed[4:] == [
        "At flat.py <module>: line 5 +1.0 MiB Total Used Memory: 6.0 MiB",
        "+ | 1 * Size: 1.00 MiB | Memory: 1.00 MiB",
    ]


def test_a_program_without_python(build_c, cudart102, simulate, tmp_path, analyze, analyze_json):
    """The program itself owns its memory, and the report and the picture are of the driver level."""
    client = build_c("cudart_client.c", cudart102 / "libcudart.so.10.2", f"-Wl,-rpath,{cudart102}")
    simulate([client, "leak"], preload=True)
    report = tmp_path / "report.bin"
    rows = analyze_json("lines", report)
    device = harness.device_of(analyze_json("summary", report))
    assert sum(row["bytes"] for row in rows) == device["driver"]["peak_bytes"] > 0
    assert {(row["file"], row["library"]) for row in rows} == {(None, client.name)}
    printed = analyze(report).stdout
    assert f"(no Python: {client.name})" in printed and "driver level" in printed
    folded = analyze("flamegraph", "--folded", report).stdout
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == device["driver"]["peak_bytes"]
    assert "main" in folded, "its symbols are found by its build id"


def test_json_of_every_view_is_one_document(trained, analyze):
    report = trained("torch215").report
    for view in ("summary", "lines", "ledger", "changes", "check"):
        json.loads(analyze(view, "--format", "json", report).stdout)
