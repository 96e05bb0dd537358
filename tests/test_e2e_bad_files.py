"""Files that are not captures, or only a part of one: one clear line each, and the documented exit code (1: no
result, 3: a partial one; 2 is for usage).

What breaks these tests: a panic or a stack on the terminal, an error without the file's name, a report of a file
that is not a capture, exit 0 for a part, or a wrong figure because of damage."""

import campaign
import header
import harness
import pytest

NO_RESULT, USAGE, PARTIAL = 1, 2, 3
VIEWS = (["check"], ["summary"], ["lines"], ["flamegraph"], [])


def one_line_about(done, path):
    assert done.stdout == "", harness.described(done)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, harness.described(done)
    assert str(path) in lines[0]
    assert "panicked" not in done.stderr
    return lines[0]


@pytest.fixture(scope="module")
def capture(python_env, tmp_path_factory):
    """A closed capture: it ends with its last page."""
    folder = tmp_path_factory.mktemp("ended")
    return harness.train("torch215", python_env("torch215"), folder, end="return").report.read_bytes()


@pytest.fixture
def file_of(tmp_path):
    def make(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return make


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: " ".join(view) or "report")
def test_missing(view, analyze, tmp_path):
    path = tmp_path / "absent.bin"
    done = analyze(*view, path, check=False)
    assert done.returncode == NO_RESULT
    assert "No such file" in one_line_about(done, path)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: " ".join(view) or "report")
def test_empty(view, analyze, file_of):
    path = file_of("empty.bin", b"")
    done = analyze(*view, path, check=False)
    assert done.returncode == NO_RESULT
    assert "empty" in one_line_about(done, path)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: " ".join(view) or "report")
@pytest.mark.parametrize("content", (b"#!/bin/sh\n" * 4000, b"\x7fELF" + bytes(100_000), b"x", bytes(70_000)))
def test_foreign(view, content, analyze, file_of):
    path = file_of("foreign.bin", content)
    done = analyze(*view, path, check=False)
    assert done.returncode == NO_RESULT
    assert "not a gpumem capture" in one_line_about(done, path)


def test_a_directory(analyze, tmp_path):
    done = analyze("summary", tmp_path, check=False)
    assert done.returncode == NO_RESULT
    one_line_about(done, tmp_path)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: " ".join(view) or "report")
def test_future_version(view, analyze, file_of, capture):
    path = file_of("future.bin", header.with_version(capture, 99))
    done = analyze(*view, path, check=False)
    assert done.returncode == NO_RESULT
    line = one_line_about(done, path)
    assert "99" in line and "version" in line


@pytest.mark.parametrize("length", (1, 8, 100, 511, 3000))
def test_cut_off_in_the_header(length, analyze, file_of, capture):
    path = file_of("short.bin", capture[:length])
    done = analyze("summary", path, check=False)
    assert done.returncode == NO_RESULT
    one_line_about(done, path)


@pytest.mark.parametrize("part", (0.2, 0.5, 0.8))
def test_cut_off_later(part, analyze, file_of, capture):
    """The intact part is reported with exit 3, and stderr lists what is missing. Without an intact part, exit 1 and
    one line; never 0."""
    path = file_of("part.bin", capture[: int(len(capture) * part)])
    done = analyze("check", path, check=False)
    assert done.returncode in (NO_RESULT, PARTIAL), harness.described(done)
    assert done.stderr.strip() or done.stdout.strip()
    assert "panicked" not in done.stderr


@pytest.mark.parametrize("missing", (1, 100, 1000))
def test_pages_cut_off_at_the_end(missing, analyze, analyze_json, file_of, capture):
    """The last page is torn: check exits with 3, and the summary does not mark itself as exact."""
    path = file_of("torn.bin", capture[:-missing])
    done = analyze("check", path, check=False)
    assert done.returncode == PARTIAL, harness.described(done)
    done = analyze("summary", "--format", "json", path, check=False)
    assert done.returncode == PARTIAL
    assert '"exact":true' not in done.stdout.replace(" ", "")


DAMAGED = ("torch-kill", "torch-return", "lost", "killed", "baked", "wrapped")


def test_random_damage_is_never_silent():
    """The damage campaign, 200 captures with 1 to 8 bytes changed and 50 cut off; docs/measured/damage.md has
    the whole of it."""
    folder = harness.ROOT / "tests" / "fixtures" / "captures" / "v1"
    files = [folder / f"{name}.bin" for name in DAMAGED]
    cases = list(campaign.run(files, changes=200, cuts=50, seed=1_000_000, workers=2))
    faults = [f"{name}: {view}: {what}" for name, found, _ in cases for view, what in found]
    assert not faults, "\n".join(faults)
    exits = [codes["summary"] for _, _, codes in cases]
    assert len(exits) == 250 and exits.count(PARTIAL) > 150, exits


def test_the_campaign_sees_what_it_looks_for(tmp_path):
    """A fault of each kind is reported, so the campaign's check can fail."""
    folder = harness.ROOT / "tests" / "fixtures" / "captures" / "v1"
    whole = campaign.truth(folder / "killed.bin")["summary"]
    code, output, _ = whole
    path = tmp_path / "x.bin"
    other = output.replace('"events": 19', '"events": 18')
    partial = output.replace('"missing": []', '"missing": ["something"]').replace('"exact": true', '"exact": false')
    assert code == campaign.COMPLETE and other != output and partial.count("false") > output.count("false")

    def judged(*found):
        return campaign.fault("summary", path, whole, found)

    assert judged(0, output, "") is None
    assert "other figures" in judged(0, other, "")
    assert "called complete" in judged(0, partial, "")
    assert judged(3, partial, "") is None
    assert "does not say" in judged(3, output, "")
    assert "called exact" in judged(3, partial.replace('"exact": false', '"exact": true'), "")
    assert "hangs" in judged(None, "", "")
    assert "crashes" in judged(101, "", "panicked at")
    assert "crashes" in judged(-6, "", "")
    assert "one line" in judged(1, "", "two\nlines")
    assert judged(1, "", f"gpumem-analyze: {path}: damaged\n") is None


def test_usage(analyze):
    for wrong in (["--no-such-option"], ["lines", "--at", "sometime", "x.bin"], ["nonsense", "x.bin", "y"]):
        done = analyze(*wrong, check=False)
        assert done.returncode == USAGE, harness.described(done)


def test_help_has_examples(analyze):
    assert "gpumem-analyze report.bin" in analyze("--help").stdout
