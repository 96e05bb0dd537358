"""Datasets in S3: no row is lost and none occurs twice, whatever fails or is killed (docs/dataset.md).

The store is moto's, behind a proxy that fails on request (tests/lib/fleet.py)."""

import shutil
from collections import Counter

import fleet
import pytest
from fleet import Fault, contents, fleet_json, nth
from test_fleet_store import fetches_what_a_folder_lacks, rows, undisturbed  # noqa: F401  (a fixture is found by name)
from waiting import WATCHDOG

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def s3(python_env):
    with fleet.s3_server(python_env("moto")) as server:
        yield server


@pytest.fixture(scope="module")
def long_capture(tmp_path_factory):
    """A capture whose table of events has more than one piece."""
    place = tmp_path_factory.mktemp("long") / "long.bin"
    fleet.harness.run([fleet.harness.EXAMPLES / "long_run", "record", place, "1000000"])
    return place


@pytest.fixture(scope="module")
def in_s3(s3, tmp_path_factory):
    """Two captures in S3, and the dataset that an ingest makes of them there."""
    captures = s3.place(fleet.captures(tmp_path_factory.mktemp("few"), 2))
    place = s3.place()
    fleet.fleet("ingest", captures, place, env=s3.environment())
    return captures, contents(s3.copy(place, tmp_path_factory.mktemp("s3")))


def test_a_store_has_the_same_bytes_as_a_folder(s3, in_s3, undisturbed, tmp_path):  # noqa: F811
    place = s3.place()
    said = fleet_json("ingest", undisturbed[0], place, env=s3.environment())
    assert said["taken"] == 6
    assert contents(s3.copy(place, tmp_path / "copy")) == contents(undisturbed[1])
    puts = len([1 for method, _ in s3.proxy.requests if method == "PUT"])
    said = fleet_json("ingest", undisturbed[0], place, env=s3.environment())
    assert (said["taken"], said["known"]) == (0, 6)
    assert len([1 for method, _ in s3.proxy.requests if method == "PUT"]) == puts


def test_a_kill_at_each_write_loses_and_duplicates_nothing(s3, in_s3, tmp_path):
    captures, wanted = in_s3
    # The writes of the first part, and some of the second: the list, each table, ranks.
    for number in range(1, 12):
        place = s3.place()
        fault = Fault(hold=True)
        s3.proxy.fault = nth("PUT", number, fault)
        process = fleet.started("ingest", captures, place, env=s3.environment())
        assert fault.reached.wait(WATCHDOG), number
        fleet.killed(process)
        fault.held.set()
        s3.proxy.fault = lambda method, path: None
        fleet.fleet("ingest", captures, place, env=s3.environment())
        assert contents(s3.copy(place, tmp_path / str(number))) == wanted, number


@pytest.mark.parametrize("fault", [
    Fault(status=503), Fault(status=500, code="InternalError"), Fault(cut_request=True), Fault(cut_answer=True),
], ids=["503", "500", "cut-request", "cut-answer"])
def test_what_passes_is_tried_again(s3, in_s3, tmp_path, fault):
    captures, wanted = in_s3
    place = s3.place()
    seen = {}

    def each_once(method, path):
        key = (method, path)
        seen[key] = seen.get(key, 0) + 1
        return fault if seen[key] == 1 else None

    s3.proxy.fault = each_once
    fleet.fleet("ingest", captures, place, env=s3.environment())
    assert contents(s3.copy(place, tmp_path / "d")) == wanted
    assert max(seen.values()) > 1


def test_a_slow_store_is_waited_for(s3, in_s3, tmp_path):
    captures, wanted = in_s3
    place = s3.place()
    s3.proxy.fault = lambda method, path: Fault(delay=0.1)
    fleet.fleet("ingest", captures, place, env=s3.environment())
    assert contents(s3.copy(place, tmp_path / "d")) == wanted


@pytest.mark.parametrize("method, of", [("GET", "report"), ("PUT", "table=held"), ("PUT", "_parts/")])
def test_a_request_without_an_answer_is_made_again(s3, in_s3, tmp_path, method, of):
    """The store has each request, and answers the first one never."""
    captures, wanted = in_s3
    place = s3.place()
    fault = Fault(hold=True)
    s3.proxy.fault = nth(method, 1, fault, of=of)
    fleet.fleet("ingest", "--request-timeout", "1", captures, place, env=s3.environment())
    assert fault.reached.is_set()
    fault.held.set()
    assert contents(s3.copy(place, tmp_path / "d")) == wanted


def test_a_large_file_is_uploaded_in_pieces(s3, long_capture, tmp_path):
    """Also where a piece is refused at first; and one that is refused to the end leaves nothing, and is made again."""
    fleet.fleet("ingest", "--run", "long", "--events", long_capture, tmp_path / "folder")
    [large] = [path for path in (tmp_path / "folder").rglob("*.parquet") if path.parent.parent.name == "table=events"]
    assert large.stat().st_size > 8 << 20
    place = s3.place()
    s3.proxy.fault = lambda method, path: Fault(status=503) if "table=events" in path and method == "PUT" else None
    done = fleet.fleet("ingest", "--run", "long", "--events", "--retry-for", "1", long_capture, place, env=s3.environment(), check=False)
    assert done.returncode == 1 and "the store did not answer in time" in done.stderr
    assert b"<Upload>" not in s3.ask("GET", f"/{fleet.BUCKET}?uploads")
    s3.proxy.fault = nth("PUT", 2, Fault(status=503), of="table=events")
    said = fleet_json("ingest", "--run", "long", "--events", long_capture, place, env=s3.environment())
    assert said["taken"] == 1
    assert contents(s3.copy(place, tmp_path / "copy")) == contents(tmp_path / "folder")


@pytest.mark.parametrize("what", ["503", "credentials", "bucket", "permission"])
def test_a_refusal_is_one_line(s3, in_s3, what):
    captures, place, key = in_s3[0], s3.place(), fleet.KEY
    if what == "503":
        s3.proxy.fault = lambda method, path: Fault(status=503) if method == "PUT" else None
        wanted = "the store did not answer in time"
    elif what == "credentials":
        key, wanted = "AKIAOTHER", f"s3://{fleet.BUCKET}: the credentials are wrong: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    elif what == "bucket":
        place, wanted = "s3://nowhere/d", "s3://nowhere: there is no such bucket"
    else:
        s3.proxy.fault = lambda method, path: Fault(status=403, code="AccessDenied") if method == "PUT" else None
        wanted = "no permission: these credentials may not write it"
    done = fleet.fleet("ingest", "--retry-for", "2", captures, place, env=s3.environment(key), check=False)
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1 and wanted in done.stderr, done.stderr
    # Only what may pass is tried again.
    refused = [of for of in s3.proxy.requests if of[0] == "PUT" or what in ("credentials", "bucket")]
    assert (max(Counter(refused).values()) > 1) == (what == "503"), refused


def test_of_two_ingests_one_takes_a_capture_in(s3, undisturbed, tmp_path):  # noqa: F811
    """The second is held while it claims; the first takes half of its captures in meanwhile."""
    few = tmp_path / "few"
    few.mkdir()
    for number in range(3):
        shutil.copy(undisturbed[0] / f"report.rank{number}.bin", few)
    place = s3.place()
    fault = Fault(hold=True)
    s3.proxy.fault = nth("PUT", 1, fault, of="_parts/00000001.json")
    process = fleet.started("ingest", "--run", "all", "--format", "json", undisturbed[0], place, env=s3.environment())
    assert fault.reached.wait(WATCHDOG)
    s3.proxy.fault = lambda method, path: None
    said = fleet_json("ingest", "--run", "few", few, place, env=s3.environment())
    assert said["taken"] == 3
    fault.held.set()
    out, err = process.communicate(timeout=WATCHDOG)
    assert process.returncode == 0, err
    assert fleet.harness.unwrapped(out)["taken"] == 3
    copy = s3.copy(place, tmp_path / "copy")
    assert rows(copy, "ranks", "count(*), count(distinct capture)") == [(6, 6)]
    assert sorted(rows(copy, "ranks", "run")) == [("all",)] * 3 + [("few",)] * 3


def test_a_part_whose_captures_are_gone_is_given_up(s3, undisturbed, tmp_path):  # noqa: F811
    captures = tmp_path / "captures"
    shutil.copytree(undisturbed[0], captures)
    place = s3.place()
    fault = Fault(hold=True)
    s3.proxy.fault = nth("PUT", 1, fault, of="table=ranks")
    process = fleet.started("ingest", "--run", "one", captures, place, env=s3.environment())
    assert fault.reached.wait(WATCHDOG)
    fleet.killed(process)
    s3.proxy.fault = lambda method, path: None
    (captures / "report.rank5.bin").unlink()
    said = fleet_json("ingest", "--run", "one", captures, place, env=s3.environment())
    assert said["taken"] == 5
    assert len(said["begun"]) == 1 and "was discarded" in said["begun"][0] and "report.rank5.bin no longer exists" in said["begun"][0]
    copy = s3.copy(place, tmp_path / "copy")
    assert rows(copy, "ranks", "count(*), count(distinct capture)") == [(5, 5)]
    assert len(list(copy.rglob("*.parquet"))) == len({path.parent.parent.name for path in copy.rglob("*.parquet")})


def test_a_part_is_completed_with_the_options_that_it_was_begun_with(s3, undisturbed, tmp_path):  # noqa: F811
    place = s3.place()
    fault = Fault(hold=True)
    s3.proxy.fault = nth("PUT", 1, fault, of="table=ranks")
    process = fleet.started("ingest", "--run", "one", "--label", "team=vision", undisturbed[0], place, env=s3.environment())
    assert fault.reached.wait(WATCHDOG)
    fleet.killed(process)
    s3.proxy.fault = lambda method, path: None
    other = fleet.capture(tmp_path / "other" / "report.bin", 77)
    said = fleet_json("ingest", "--run", "two", "--label", "team=text", other, place, env=s3.environment())
    assert (said["taken"], said["runs"], said["begun"]) == (7, ["one", "two"], [])
    copy = s3.copy(place, tmp_path / "copy")
    assert sorted(rows(copy, "labels", "run, value, count(*) over (partition by run)")) == [("one", "vision", 6)] * 6 + [("two", "text", 1)]


def test_a_part_with_a_secret_is_completed_with_that_secret_only(s3, undisturbed, tmp_path):  # noqa: F811
    """With another secret its captures are ingested again, and no part of the first attempt stays."""
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"the {name} secret")
        options = ["ingest", "--run", "one", "--hash-paths", "--secret", tmp_path / name]
        fleet.fleet(*options, undisturbed[0], tmp_path / f"{name}.whole")
    for name, told in (("right", []), ("wrong", ["needs the --secret it was begun with"])):
        place = s3.place()
        fault = Fault(hold=True)
        s3.proxy.fault = nth("PUT", 1, fault, of="table=ranks")
        options[-1] = tmp_path / "right"
        process = fleet.started(*options, undisturbed[0], place, env=s3.environment())
        assert fault.reached.wait(WATCHDOG)
        fleet.killed(process)
        s3.proxy.fault = lambda method, path: None
        options[-1] = tmp_path / name
        said = fleet_json(*options, undisturbed[0], place, env=s3.environment())
        assert said["taken"] == 6
        assert len(said["begun"]) == len(told) and all(why in line for why, line in zip(told, said["begun"]))
        found = contents(s3.copy(place, tmp_path / f"{name}.copy"))
        tables = {path: digest for path, digest in found.items() if path.endswith(".parquet")}
        assert tables == {path: digest for path, digest in contents(tmp_path / f"{name}.whole").items() if path.endswith(".parquet")}


def test_a_killed_commit_is_completed(s3, undisturbed, tmp_path):  # noqa: F811
    wanted = None
    # The list, tables, ranks; then the second deletion, which S3 takes as a POST; then a commit that is not killed.
    for method, number in (("PUT", 1), ("PUT", 3), ("PUT", 6), ("POST", 2), ("", 0)):
        place = s3.place()
        for path in sorted(undisturbed[0].iterdir())[:3]:
            fleet.fleet("stage", "--run", "one", "--events", path, place, env=s3.environment())
        s3.proxy.fault = nth(method, number, fault := Fault(hold=True))
        process = fleet.started("commit", place, env=s3.environment())
        if method:
            assert fault.reached.wait(WATCHDOG), (method, number)
        else:
            assert process.wait(WATCHDOG) == 0
        fleet.killed(process)
        s3.proxy.fault = lambda method, path: None
        fleet.fleet("commit", place, env=s3.environment())
        found = contents(s3.copy(place, tmp_path / f"{method}{number}"))
        wanted = wanted or found
        assert found == wanted and not any(path.endswith(".rows") for path in found)


def test_fetch_copies_what_a_folder_lacks(s3, undisturbed, tmp_path):  # noqa: F811
    fetches_what_a_folder_lacks(s3.place(undisturbed[1]), undisturbed[1], tmp_path / "copy", s3.environment())
