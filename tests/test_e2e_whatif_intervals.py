"""Replays of captures with missing information: intervals, from a replay for each possibility.

What breaks these tests: a wrong bound (a request that its block cannot have had, a block that is free before it can
be), a figure of one replay that is given as that of all, a verdict on which not all replays agree.
tests/lib/whatif_intervals.py is the campaign."""

import argparse
import subprocess
from pathlib import Path

import harness
import pytest
import schemas
import whatif
import whatif_intervals as intervals
from gpumem._whatif import search, text, unknown
from gpumem._whatif.servers import Replay, Request

RESERVED, REQUESTED = "reserved_bytes.all.peak", "requested_bytes.all.peak"
EXPANDABLE = "expandable_segments:True"


@pytest.fixture(scope="module")
def bench(python_env, tmp_path_factory, build_c):
    """Streams are late in what it records."""
    late = build_c("whatif/late.c", "-shared", "-fPIC", "-ldl")
    bench = whatif.Bench(python_env("torch215"), tmp_path_factory.mktemp("captures"), late=late)
    yield bench
    bench.close()


def span(result, name=RESERVED):
    return result.span(lambda replay: replay.figures[name])


@pytest.mark.parametrize("program, settings", [
    ("random:5", ""), *(pytest.param(program, EXPANDABLE, marks=pytest.mark.slow) for program in ("random:0", "random:2")),
])
def test_without_requests(program, settings, bench):
    """The block's size is the largest possible request; the smallest is not much less."""
    capture, _ = bench.record(program)
    truth = bench.replay(capture, settings, whatif.ROOMY).figures
    result = intervals.ways(bench, capture, settings, whatif.ROOMY, unknown.NO_REQUESTS)
    assert [replay.request.assumed - unknown.NO_REQUESTS for replay in result.replays] == [0, unknown.LEAST]
    for name in (RESERVED, REQUESTED):
        least, greatest = span(result, name)
        assert least <= truth[name] <= greatest, name
    least, greatest = span(result, REQUESTED)
    assert 0.9 * greatest < least < greatest


def test_without_the_ends_of_waits(bench):
    """At once is too early; when the memory was used again is too late."""
    capture, real = bench.record("random:17")
    assert bench.replay(capture, "", whatif.ROOMY).figures == real["figures"]
    result = intervals.ways(bench, capture, "", whatif.ROOMY, unknown.NO_RELEASES)
    early, late = (replay.figures[RESERVED] for replay in result.replays)
    assert early < real["figures"][RESERVED] < late
    # That is no later than possible: a block that waits permanently is not where the recorded run had it.
    assert late < 1.1 * real["figures"][RESERVED]


def test_both(bench):
    capture, real = bench.record("random:17")
    result = intervals.ways(bench, capture, "", whatif.ROOMY, unknown.NO_REQUESTS | unknown.NO_RELEASES)
    least, greatest = span(result)
    assert len({replay.request.assumed for replay in result.replays}) == 4
    assert least < real["figures"][RESERVED] < greatest


def gpumem(python, *words):
    return subprocess.run(
        [python, "-m", "gpumem", "whatif", *map(str, words)], capture_output=True, text=True, timeout=200,
        env=harness.clean_environment({"PYTHONPATH": str(harness.ROOT / "python")}),
    )  # fmt: skip


@pytest.mark.slow
def test_a_card_between_both_is_too_close_to_say(python_env, tmp_path):
    """PyTorch 1.12 does not expose requested sizes."""
    python, capture = python_env("torch215"), tmp_path / "report.bin"
    recorded = whatif.Programs(python_env("torch112"), True)
    real = recorded.run("random:0", capture=str(capture))
    recorded.close()
    words = ["--smallest-card", "--format", "json", "--save", tmp_path / "saved"]
    done = gpumem(python, capture, "--conf", EXPANDABLE, *words)
    assert done.returncode == 3
    own, other = schemas.found("whatif", done.stdout)["devices"][0]["replays"]
    assert own["figures_least"][RESERVED] <= real["figures"][RESERVED] <= own["figures_greatest"][RESERVED]
    assert other["fits"] is True and other["failure"] is None
    # What is saved is the worse end.
    assert other["figures"][RESERVED] == other["figures_greatest"][RESERVED] > other["figures_least"][RESERVED]
    summary = harness.run([harness.ANALYZER, "report", "--all", "--format", "json", other["saved"]], check=False).stdout
    [saved] = harness.unwrapped(summary)["devices"]
    assert saved["reserved"]["peak_bytes"] == other["figures"][RESERVED]
    least, greatest = other["smallest_card_least_bytes"], other["smallest_card_bytes"]
    assert least < greatest
    card = (least + greatest) // 2
    for of, fits in ((least - whatif.PAGE, False), (card, None), (greatest, True)):
        done = gpumem(python, capture, "--conf", EXPANDABLE, "--card", of, "--format", "json")
        [_, other] = schemas.found("whatif", done.stdout)["devices"][0]["replays"]
        assert (other["fits"], other["failure"] is None) == (fits, fits is True)
    said = gpumem(python, capture, "--conf", EXPANDABLE, "--card", card).stdout
    [row] = [line for line in said.splitlines() if "too close to say" in line]
    assert row.startswith(" expandable_segments:True")


def result(settings, *replays):
    """Of (reserved bytes in MiB, the event of the failure or 0)."""
    made = []
    for assumed, (reserved, failed) in enumerate(replays):
        figures = dict.fromkeys(["num_alloc_retries", *search.CALLS, search.ALLOCATED], 0)
        outcome = dict.fromkeys(
            ["saved", "recorded_failures", "failed_bytes", "failed_foreign", "failed_time", "failed_step", "allocations", "stopped_seq"], 0
        )
        request = Request(Path("none.bin"), 0, 1 << 30, settings, assumed)
        made.append(Replay(request, {**figures, search.RESERVED: reserved << 20}, {**outcome, "failed_seq": failed}, {}, "2.15"))
    return search.Result(search.Recorded(Path("none.bin"), 0, 1 << 30, "", 0, 0), settings, tuple(made))


def report(*results):
    said = text.report([results[0].recorded], results, [], argparse.Namespace(smallest_card=False))
    return " ".join(said.split())


def test_the_worse_end_decides():
    own, narrow, wide = result("", (500, 0), (510, 0)), result("a", (450, 0), (460, 0)), result("b", (300, 0), (470, 0))
    assert sorted([own, wide, narrow], key=search.Result.rank) == [narrow, wide, own]
    said = report(own, narrow, wide)
    assert "between 500 and 510 MiB reserved at the peak" in said
    assert "a: between 450 and 460 MiB, which is 50.0 MiB less (10%)." in said
    assert "b 300 to 470 MiB -200 to -40.0 MiB" in said
    # Of each way the change is its own.
    assert "a 450 to 460 MiB -50.0 MiB" in said


def test_what_may_be_better_is_not_called_worse():
    own, other = result("", (500, 0), (510, 0)), result("a", (450, 0), (520, 0))
    assert "None of these settings would have been better for sure." in report(own, other)
    assert "None of these settings would have been better." in report(own, result("a", (520, 0), (530, 0)))


def test_only_what_fits_in_all_replays_fits():
    unclear, fails, fits = result("", (500, 0), (400, 7)), result("a", (400, 9), (400, 8)), result("b", (400, 0), (390, 0))
    assert [of.fits for of in (unclear, fails, fits)] == [False, False, True]
    assert [of.is_unclear for of in (unclear, fails, fits)] == [True, False, False]
    assert [of.json()["fits"] for of in (unclear, fails, fits)] == [None, False, True]
    said = report(unclear, fails, fits)
    assert "too close to say whether it fits a card of 1.00 GiB" in said and "fails at 8" in said
    assert "b would fit: between 390 and 400 MiB reserved at the peak." in said
    assert "None of these settings fits for sure." in report(unclear, fails)
