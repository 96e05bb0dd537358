"""Datasets: no row is lost and none occurs twice, whatever is killed (docs/dataset.md).

What breaks these tests: a file that is seen before it is whole, files of a killed ingest that stay, two ingests that add
the same capture, a name that does not follow from the contents."""

import os
import shutil
import signal
import time

import duckdb
import fleet
import pytest
from fleet import contents, fleet_json


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
    assert done.returncode == 3 and "nowhere: No such file or directory (os error 2): record one with" in done.stdout


def test_a_kill_before_any_change_loses_and_duplicates_nothing(build_c, tmp_path):
    """Before every ninth of the calls that write a file, make it durable or give it its name. Rows that a killed ingest
    wrote do not count before they are written again: test_fleet_query."""
    captures = fleet.captures(tmp_path / "captures", 2)
    counts = {"LD_PRELOAD": str(build_c("kill_at_change.c", "-shared", "-fPIC", "-ldl"))}
    fleet.fleet("ingest", captures, tmp_path / "whole", env={**counts, "COUNT": str(tmp_path / "count")})
    calls = int((tmp_path / "count").read_text())
    assert calls > 90
    for number in range(1, calls, 9):
        place = tmp_path / f"d{number}"
        process = fleet.started("ingest", captures, place, env={**counts, "KILL_AT": str(number)})
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        fleet.fleet("ingest", captures, place)
        assert contents(place) == contents(tmp_path / "whole"), number


def test_ingests_at_the_same_time_add_each_capture_once(undisturbed, tmp_path):
    captures, dataset = undisturbed
    running = [fleet.started("ingest", "--format", "json", captures, tmp_path / "d") for _ in range(4)]
    said = [fleet.harness.unwrapped(process.communicate()[0]) for process in running]
    assert sum(of["taken"] for of in said) == 6 and [process.returncode for process in running] == [0] * 4
    assert {of["taken"] + of["known"] for of in said} == {6}
    assert contents(tmp_path / "d") == contents(dataset)


def test_datasets_of_several_machines_make_one(undisturbed, tmp_path):
    """As `aws s3 sync` copies them, in any order and again; one capture was ingested on two machines."""
    captures, dataset = undisturbed
    paths = sorted(captures.iterdir())
    for number, of in enumerate((paths[:4], paths[3:])):
        fleet.fleet("ingest", *of, tmp_path / f"d{number}")
        for _ in range(2):
            shutil.copytree(tmp_path / f"d{number}", tmp_path / "all", dirs_exist_ok=True)
    assert contents(tmp_path / "all") == contents(dataset)
    assert fleet_json("ingest", captures, tmp_path / "all")["known"] == 6


def test_prune_removes_files_and_a_later_ingest_adds_them_again(undisturbed, tmp_path):
    captures, dataset = undisturbed
    place = tmp_path / "d"
    shutil.copytree(dataset, place)
    before = contents(place)
    run = min(path.name[4:] for path in place.iterdir() if path.name.startswith("run="))
    said = fleet_json("prune", "--older-than", "1d", "--dry-run", place)
    assert said["parts"] == 6 and said["bytes"] > 0 and contents(place) == before
    assert fleet_json("prune", "--older-than", "99999d", place)["parts"] == 0
    fleet.fleet("prune", "--run", run, "--table", "held", "--table", "series", place)
    tables = {path.name for path in (place / f"run={run}").iterdir()}
    assert "table=ranks" in tables and not tables & {"table=held", "table=series"}
    assert fleet_json("ingest", captures, place)["taken"] == 0
    fleet.fleet("prune", "--run", run, place)
    assert not (place / f"run={run}").exists()
    assert fleet_json("ingest", captures, place)["taken"] == 1
    assert contents(place) == before
    # A prune that was killed after its first step: the others of the part are removed, and the capture is added again.
    next(place.glob(f"run={run}/table=ranks/*/*.parquet")).unlink()
    fleet.fleet("prune", "--older-than", "99999d", place)
    assert not list(place.glob(f"run={run}/**/*.parquet"))
    assert fleet_json("ingest", captures, place)["taken"] == 1
    assert contents(place) == before


@pytest.mark.parametrize("words, status, says", [
    (["stage", "--events", "a.bin", "d"], 1, "fleet stage was removed: ingest each machine's captures into a folder there, then `aws s3 sync`"),
    (["commit", "d"], 1, "fleet commit was removed: ingest each machine's captures"),
    (["fetch", "--run", "a", "s3://bucket/d", "d"], 1, "fleet fetch was removed: `gpumem fleet query` reads object stores"),
    (["ingest", "--retry-for", "9", "a.bin", "d"], 2, "removed: ingest reads and writes folders only"),
    (["ingest", "--request-timeout", "9", "a.bin", "d"], 2, "removed: ingest reads and writes folders only"),
    (["prune", "--run", "a", "--forget", "d"], 2, "removed: the next ingest adds pruned captures again"),
    (["ingest", "s3://bucket/captures", "d"], 2, "not a folder of this machine: copy captures here and the dataset there with `aws s3 sync`"),
    (["ingest", "a.bin", "gs://bucket/d"], 2, "not a folder of this machine"),
    (["prune", "--run", "a", "az://box/d"], 2, "not a folder of this machine"),
    (["prune", "--run", "a", "nowhere"], 1, "nowhere: no such folder"),
])  # fmt: skip
def test_what_was_removed_names_the_new_way(words, status, says, tmp_path):
    done = fleet.harness.run([fleet.harness.ANALYZER, "fleet", *words], check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "") and says in done.stderr, fleet.harness.described(done)
    assert list(tmp_path.iterdir()) == []


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

