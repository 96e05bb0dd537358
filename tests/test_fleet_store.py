"""Datasets: no row is lost and none occurs twice, whatever fails or is killed (docs/dataset.md)."""

import os
import random
import shutil
import subprocess
import time

import duckdb
import fleet
import pytest
from fleet import Fault, contents, fleet_json, nth


def rows(dataset, table, what="count(*)"):
    """What DuckDB reads of a table."""
    place = f"{dataset}/run=*/table={table}/node=*/*.parquet"
    return duckdb.sql(f"select {what} from read_parquet('{place}', hive_partitioning = true, union_by_name = true)").fetchall()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Six captures, and the dataset that an ingest makes of them in peace."""
    folder = tmp_path_factory.mktemp("fleet")
    captures = fleet.captures(folder / "captures", 6)
    said = fleet_json("ingest", captures, folder / "dataset")
    assert (said["taken"], said["parts"], len(said["runs"])) == (6, 6, 6)
    return captures, folder / "dataset"


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


def test_ingest_again_changes_nothing(undisturbed):
    captures, dataset = undisturbed
    before = [(path, path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(dataset.rglob("*"))]
    files = contents(dataset)
    said = fleet_json("ingest", captures, dataset)
    assert (said["taken"], said["known"], said["parts"]) == (0, 6, 0)
    assert [(path, path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(dataset.rglob("*"))] == before
    assert contents(dataset) == files
    assert rows(dataset, "ranks", "count(*), count(distinct capture)") == [(6, 6)]
    assert rows(dataset, "held") != [(0,)]


def test_files_are_as_other_readers_want_them(undisturbed, tmp_path):
    captures, _ = undisturbed
    fleet.fleet("ingest", "--run", "one", "--events", "--label", "team=vision", captures, tmp_path / "d")
    for table, key, order in (
        ("ranks", "capture", "rank, capture"),
        ("held", "line_key", "line_key, module, category, level, moment, capture"),
        ("events", "capture", "capture, seq"),
    ):
        file = str(next((tmp_path / "d").glob(f"run=one/table={table}/node=*/*.parquet")))
        columns = duckdb.sql(
            f"select path_in_schema, type, stats_min is not null, bloom_filter_offset is not null, compression, encodings "
            f"from parquet_metadata('{file}')"
        ).fetchall()
        assert {compression for *_, compression, _ in columns} == {"ZSTD"}
        kinds = {name: (kind, statistics, bloom) for name, kind, statistics, bloom, *_ in columns}
        assert kinds[key] == ("INT64", True, True)
        assert not any(bloom for name, (_, _, bloom) in kinds.items() if name not in ("capture", "line_key", "stack_key"))
        assert any("DICTIONARY" in encodings for *_, encodings in columns)
        types = dict(duckdb.sql(f"select column_name, column_type from (describe select * from read_parquet('{file}'))").fetchall())
        assert types[key] == "BIGINT"
        if table == "ranks":
            assert types["started"] == "TIMESTAMP WITH TIME ZONE"
        known = duckdb.sql(f"select decode(key), decode(value) from parquet_kv_metadata('{file}')").fetchall()
        assert ("gpumem.schema", "1") in known
        order = ", ".join(f"{name} nulls first" for name in order.split(", "))
        names = f"select row_number() over () n, row_number() over (order by {order}, file_row_number) wanted"
        assert duckdb.sql(f"{names} from read_parquet('{file}', file_row_number = true) qualify n != wanted").fetchall() == []
    assert rows(tmp_path / "d", "labels", "distinct key, value") == [("team", "vision")]
    held = rows(tmp_path / "d", "events", "count(*), count(distinct capture)")
    assert held == rows(tmp_path / "d", "ranks", "sum(events)::bigint, count(*)")


def test_what_is_left_or_unreadable_is_said(tmp_path):
    captures = fleet.captures(tmp_path / "captures", 1)
    young = fleet.capture(captures / "young.bin", 7, of=fleet.KILLED)
    old = fleet.capture(captures / "old.bin", 8, of=fleet.KILLED)
    os.utime(old, (time.time() - 3600,) * 2)
    (captures / "cut.bin").write_bytes(fleet.TRAINING.read_bytes()[:700])
    (captures / "notes.txt").write_text("no capture")
    shutil.copy(captures / "report.rank0.bin", captures / "copy.bin")
    done = fleet.fleet("ingest", captures, tmp_path / "d", check=False)
    assert done.returncode == 3
    first, *others = done.stdout.splitlines()
    assert first == "PARTIAL: added 2 captures of 2 runs, 1 skipped because their processes are running, 1 unreadable"
    assert others[0].startswith("unreadable: ") and "cut.bin" in others[0]
    assert others[1] == f"running: {young}"
    assert {file.rsplit("/", 1)[1] for file, in rows(tmp_path / "d", "ranks", "file")} == {"old.bin", "copy.bin"}
    done = fleet.fleet("ingest", captures / "nowhere", tmp_path / "d", check=False)
    assert done.returncode == 3 and "nowhere: no such file or folder" in done.stdout


def test_kills_at_any_time_lose_and_duplicate_nothing(undisturbed, tmp_path):
    captures = fleet.captures(tmp_path / "captures", 2)
    chance = random.Random(25)
    begun = time.monotonic()
    fleet.fleet("ingest", captures, tmp_path / "whole")
    takes = time.monotonic() - begun
    unfinished = 0
    for number in range(20):
        place = tmp_path / f"d{number}"
        process = fleet.started("ingest", captures, place)
        try:
            process.wait(timeout=chance.uniform(0, takes))
        except subprocess.TimeoutExpired:
            unfinished += 1
        fleet.killed(process)
        fleet.fleet("ingest", captures, place)
        assert contents(place) == contents(tmp_path / "whole"), number
    assert unfinished >= 5


def test_a_store_has_the_same_bytes_as_a_folder(s3, in_s3, undisturbed, tmp_path):
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
        assert fault.reached.wait(30), number
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
    begun = time.monotonic()
    fleet.fleet("ingest", captures, place, env=s3.environment())
    assert time.monotonic() - begun > 0.1 * len(s3.proxy.requests) / 2
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
    begun = time.monotonic()
    done = fleet.fleet("ingest", "--retry-for", "2", captures, place, env=s3.environment(key), check=False)
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1 and wanted in done.stderr, done.stderr
    assert time.monotonic() - begun < 20


def test_of_two_ingests_one_takes_a_capture_in(s3, undisturbed, tmp_path):
    """The second is held while it claims; the first takes half of its captures in meanwhile."""
    few = tmp_path / "few"
    few.mkdir()
    for number in range(3):
        shutil.copy(undisturbed[0] / f"report.rank{number}.bin", few)
    place = s3.place()
    fault = Fault(hold=True)
    s3.proxy.fault = nth("PUT", 1, fault, of="_parts/00000001.json")
    process = fleet.started("ingest", "--run", "all", "--format", "json", undisturbed[0], place, env=s3.environment())
    assert fault.reached.wait(30)
    s3.proxy.fault = lambda method, path: None
    said = fleet_json("ingest", "--run", "few", few, place, env=s3.environment())
    assert said["taken"] == 3
    fault.held.set()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert fleet.harness.unwrapped(out)["taken"] == 3
    copy = s3.copy(place, tmp_path / "copy")
    assert rows(copy, "ranks", "count(*), count(distinct capture)") == [(6, 6)]
    assert sorted(rows(copy, "ranks", "run")) == [("all",)] * 3 + [("few",)] * 3


def test_a_part_whose_captures_are_gone_is_given_up(s3, undisturbed, tmp_path):
    captures = tmp_path / "captures"
    shutil.copytree(undisturbed[0], captures)
    place = s3.place()
    fault = Fault(hold=True)
    s3.proxy.fault = nth("PUT", 1, fault, of="table=ranks")
    process = fleet.started("ingest", "--run", "one", captures, place, env=s3.environment())
    assert fault.reached.wait(30)
    fleet.killed(process)
    s3.proxy.fault = lambda method, path: None
    (captures / "report.rank5.bin").unlink()
    said = fleet_json("ingest", "--run", "one", captures, place, env=s3.environment())
    assert said["taken"] == 5
    assert len(said["begun"]) == 1 and "was discarded" in said["begun"][0] and "report.rank5.bin no longer exists" in said["begun"][0]
    copy = s3.copy(place, tmp_path / "copy")
    assert rows(copy, "ranks", "count(*), count(distinct capture)") == [(5, 5)]
    assert len(list(copy.rglob("*.parquet"))) == len({path.parent.parent.name for path in copy.rglob("*.parquet")})


def test_a_part_is_completed_with_the_options_that_it_was_begun_with(s3, undisturbed, tmp_path):
    place = s3.place()
    fault = Fault(hold=True)
    s3.proxy.fault = nth("PUT", 1, fault, of="table=ranks")
    process = fleet.started("ingest", "--run", "one", "--label", "team=vision", undisturbed[0], place, env=s3.environment())
    assert fault.reached.wait(30)
    fleet.killed(process)
    s3.proxy.fault = lambda method, path: None
    other = fleet.capture(tmp_path / "other" / "report.bin", 77)
    said = fleet_json("ingest", "--run", "two", "--label", "team=text", other, place, env=s3.environment())
    assert (said["taken"], said["runs"], said["begun"]) == (7, ["one", "two"], [])
    copy = s3.copy(place, tmp_path / "copy")
    assert sorted(rows(copy, "labels", "run, value, count(*) over (partition by run)")) == [("one", "vision", 6)] * 6 + [("two", "text", 1)]


def test_a_part_with_a_secret_is_completed_with_that_secret_only(s3, undisturbed, tmp_path):
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
        assert fault.reached.wait(30)
        fleet.killed(process)
        s3.proxy.fault = lambda method, path: None
        options[-1] = tmp_path / name
        said = fleet_json(*options, undisturbed[0], place, env=s3.environment())
        assert said["taken"] == 6
        assert len(said["begun"]) == len(told) and all(why in line for why, line in zip(told, said["begun"]))
        found = contents(s3.copy(place, tmp_path / f"{name}.copy"))
        tables = {path: digest for path, digest in found.items() if path.endswith(".parquet")}
        assert tables == {path: digest for path, digest in contents(tmp_path / f"{name}.whole").items() if path.endswith(".parquet")}


def test_staged_captures_make_the_same_parts(undisturbed, tmp_path):
    captures, dataset = undisturbed
    wanted = {path: digest for path, digest in contents(dataset).items() if path.endswith(".parquet")}
    place = tmp_path / "d"
    for path in sorted(captures.iterdir(), reverse=True):
        said = fleet_json("stage", path, place)
        assert said["outcome"] == "staged" and (place / said["file"]).is_file()
    before = contents(place)
    fleet.fleet("stage", path, place)
    assert contents(place) == before
    said = fleet_json("commit", "--part", "0/2", place)
    assert fleet_json("commit", "--part", "1/2", place)["taken"] + said["taken"] == 6
    assert {path: digest for path, digest in contents(place).items() if path.endswith(".parquet")} == wanted
    assert list(place.rglob("*.rows")) == []
    assert fleet_json("stage", path, place)["outcome"] == "known"
    assert fleet_json("commit", place)["taken"] == 0


def test_a_killed_commit_is_completed(s3, undisturbed, tmp_path):
    wanted = None
    # The list, tables, ranks; then the second deletion, which S3 takes as a POST; then a commit that is not killed.
    for method, number in (("PUT", 1), ("PUT", 3), ("PUT", 6), ("POST", 2), ("", 0)):
        place = s3.place()
        for path in sorted(undisturbed[0].iterdir())[:3]:
            fleet.fleet("stage", "--run", "one", "--events", path, place, env=s3.environment())
        s3.proxy.fault = nth(method, number, fault := Fault(hold=True))
        process = fleet.started("commit", place, env=s3.environment())
        if method:
            assert fault.reached.wait(30), (method, number)
        else:
            assert process.wait(60) == 0
        fleet.killed(process)
        s3.proxy.fault = lambda method, path: None
        fleet.fleet("commit", place, env=s3.environment())
        found = contents(s3.copy(place, tmp_path / f"{method}{number}"))
        wanted = wanted or found
        assert found == wanted and not any(path.endswith(".rows") for path in found)


def test_fetch_copies_what_a_folder_lacks(s3, undisturbed, tmp_path):
    place = s3.place(undisturbed[1])
    folder, env = tmp_path / "copy", s3.environment()
    parquet = {path: digest for path, digest in contents(undisturbed[1]).items() if path.endswith(".parquet")}
    said = fleet_json("fetch", "--table", "ranks", place, folder, env=env)
    assert (said["copied"], said["kept"], said["removed"]) == (6, 0, 0)
    said = fleet_json("fetch", place, folder, env=env)
    assert (said["copied"], said["kept"]) == (len(parquet) - 6, 6)
    assert contents(folder) == parquet
    run = sorted(path.name for path in undisturbed[1].iterdir() if path.name.startswith("run="))[0]
    fleet.fleet("prune", "--run", run[4:], place, env=env)
    said = fleet_json("fetch", place, folder, env=env)
    assert said["copied"] == 0 and said["removed"] == len([path for path in parquet if path.startswith(run)])
    assert contents(folder) == {path: digest for path, digest in parquet.items() if not path.startswith(run)}
    done = fleet.fleet("fetch", place, undisturbed[1], env=env, check=False)
    assert done.returncode == 1 and "this folder is a dataset itself: name another folder" in done.stderr


def test_prune_removes_and_what_it_removed_stays_away(undisturbed, tmp_path):
    captures, dataset = undisturbed
    place = tmp_path / "d"
    shutil.copytree(dataset, place)
    before = contents(place)
    run, other = sorted(path.name[4:] for path in place.iterdir() if path.name.startswith("run="))[:2]
    said = fleet_json("prune", "--older-than", "1d", "--dry-run", place)
    assert said["parts"] == 6 and said["bytes"] > 0 and contents(place) == before
    assert fleet_json("prune", "--older-than", "99999d", place)["parts"] == 0
    fleet.fleet("prune", "--run", run, "--table", "held", "--table", "series", place)
    tables = {path.name for path in (place / f"run={run}").iterdir()}
    assert "table=ranks" in tables and not tables & {"table=held", "table=series"}
    fleet.fleet("prune", "--run", run, place)
    assert not (place / f"run={run}").exists()
    assert fleet_json("ingest", captures, place)["taken"] == 0
    fleet.fleet("prune", "--run", run, "--forget", place)
    assert fleet_json("ingest", captures, place)["taken"] == 1
    tables = {path: digest for path, digest in before.items() if path.endswith(".parquet")}
    assert {path: digest for path, digest in contents(place).items() if path.endswith(".parquet")} == tables
    # A prune that was killed after its first step is finished by an ingest.
    number = next(path.stem for path in sorted((place / "_parts").glob("*.json")) if f'"run":"{other}"' in path.read_text())
    (place / "_parts" / f"{number}.pruned").touch()
    assert fleet_json("ingest", captures, place)["taken"] == 0
    assert not (place / f"run={other}").exists()


def test_a_file_of_a_later_version_is_read_beside_one_of_the_first(undisturbed, tmp_path):
    place = tmp_path / "d"
    shutil.copytree(undisturbed[1], place)
    first = fleet.harness.ROOT / "tests" / "fixtures" / "dataset" / "v1"
    shutil.copytree(first, place, dirs_exist_ok=True)
    file = next(undisturbed[1].glob("run=*/table=ranks/node=*/*.parquet"))
    later = place / "run=later" / "table=ranks" / "node=x" / "0.parquet"
    later.parent.mkdir(parents=True)
    duckdb.sql(f"copy (select *, 42 as added from read_parquet('{file}')) to '{later}' (format parquet)")
    found = rows(place, "ranks", "run, schema, added")
    assert len(found) == 8 and sum(added is None for _, _, added in found) == 7
    assert [row for row in found if row[0] == "later"] == [("later", 1, 42)]
    assert [row for row in found if row[0] == "first"] == [("first", 1, None)]
