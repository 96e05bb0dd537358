"""The output of commands in docs/ is the output of real runs. Commands that need PyTorch are checked by the slow
test."""

import contextlib
import re
import sqlite3
import subprocess

import captures
import harness
import pytest

SCRIPT = harness.ROOT / "scripts" / "docs-output"


def checked(*words):
    return subprocess.run([SCRIPT, *map(str, words)], env=harness.clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=250)


def test_blocks_are_fresh():
    done = checked("--check", "--quick")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_blocks_that_need_pytorch_are_fresh(python_env):
    python_env("torch215")
    done = checked("--check")
    assert done.returncode == 0, done.stdout


@pytest.fixture
def page(tmp_path):
    """page(words, command) writes a page with one block, runs the script on it and returns both."""

    def written(words, command, *options, text=None):
        path = tmp_path / "page.md"
        path.write_text(f"# A page\n\n<!-- output{words}: {command} -->\n" + (text or "") + "\nThe end.\n")
        return checked(*options, path), path.read_text()

    return written


def test_a_block_is_written_after_its_comment(page):
    done, text = page("", "gpumem-analyze check report.bin")
    assert done.returncode == 0, done.stdout
    assert "-->\n```console\n$ gpumem-analyze check report.bin\nreport.bin: whole: " in text
    assert text.endswith("\n```\n\nThe end.\n")


def test_check_finds_a_changed_figure_and_changes_nothing(page):
    _, text = page("(oom) from=cause item", "gpumem-analyze oom report.bin")
    block = text.split("-->\n")[1].split("\nThe end.")[0]
    assert block.count("\n") <= 13 and block.startswith("```console\n$ gpumem-analyze oom report.bin\n…\ncause ")
    stale = block.replace("cause ", "reason ", 1)
    done, text = page("(oom) from=cause item", "gpumem-analyze oom report.bin", "--check", text=stale)
    assert done.returncode == 1 and "not fresh" in done.stdout
    assert stale in text


def test_a_picture_that_is_not_fresh_is_found_and_drawn(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- picture: gpumem-analyze flamegraph report.bin -->\n![Stacks](stacks.svg)\n")
    stale = checked("--check", page)
    assert stale.returncode == 1 and "stacks.svg: not fresh" in stale.stdout and not (tmp_path / "stacks.svg").exists()
    assert checked(page).returncode == 0 and (tmp_path / "stacks.svg").read_text().startswith("<?xml")
    assert checked("--check", page).returncode == 0


def test_a_picture_of_another_page_is_not_fresh(tmp_path):
    """It carries the hash of its page; no browser is needed to see that."""
    page = tmp_path / "page.md"
    page.write_text("<!-- picture(oom): gpumem-analyze html report.bin -->\n![The page](demo-page.png)\n")
    (tmp_path / "demo-page.png").write_bytes((harness.ROOT / "docs" / "images" / "demo-page.png").read_bytes())
    done = checked("--check", page)
    assert done.returncode == 1 and "demo-page.png: not fresh" in done.stdout
    page.write_text(page.read_text().replace("(oom)", "(demo)"))
    assert checked("--check", page).returncode == 0


@pytest.mark.parametrize(
    ("words", "command", "expected"),
    [
        ("(nothing)", "true", "is neither a word"),
        ("", "gpumem-analyze lines nothing.bin", "ended with 1, not 0"),
        (" from=no_such_line", "gpumem-analyze check report.bin", "no line contains"),
    ],
)
def test_a_block_that_cannot_be_made_is_an_error(page, words, command, expected):
    done, _ = page(words, command)
    assert done.returncode == 1 and expected in done.stdout


@pytest.mark.parametrize("suffix", [".bin", pytest.param(".bin.gz", marks=pytest.mark.slow)])
def test_captures_name_no_path_of_a_machine(suffix, tmp_path):
    """They are recorded under paths that any machine could have: scripts/lib/docs-captures."""
    found = sorted(captures.FOLDER.rglob(f"*{suffix}"))
    assert found
    for number, capture in enumerate(found):
        path = tmp_path / f"{number}.sqlite"
        name = str(capture.relative_to(captures.FOLDER)).removesuffix(suffix)
        harness.run([harness.ANALYZER, "export", "sqlite", captures.capture(name), "-o", path])
        with contextlib.closing(sqlite3.connect(path)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            texts = {cell for table in tables for row in database.execute(f"SELECT * FROM {table}") for cell in row if isinstance(cell, str)}
        places = {text.split("/")[1] for text in texts if re.match(r"/\w", text)}
        assert "srv" in places and places <= {"srv", "opt", "lib", "usr"}, (capture, places)
