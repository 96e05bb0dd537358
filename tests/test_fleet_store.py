"""Datasets in folders: no row is lost and none occurs twice, whatever is killed (docs/dataset.md). test_fleet_s3.py has
those in an object store."""

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
    assert done.returncode == 3 and "nowhere: no such file or folder" in done.stdout


class Kills:
    """Ingests that are killed before one of their calls that write a file, make it durable or give it its name."""

    def __init__(self, library, *words):
        self.preload, self.words = {"LD_PRELOAD": str(library)}, words

    def whole(self, place):
        """One that is not killed; the number of its calls."""
        count = place.with_suffix(".count")
        fleet.fleet("ingest", *self.words, place, env={**self.preload, "COUNT": str(count)})
        return int(count.read_text())

    def at(self, number, place):
        process = fleet.started("ingest", *self.words, place, env={**self.preload, "KILL_AT": str(number)})
        process.communicate()
        assert process.returncode == -signal.SIGKILL


@pytest.fixture
def kills(build_c):
    library = build_c("kill_at_change.c", "-shared", "-fPIC", "-ldl")
    return lambda *words: Kills(library, *words)


def test_a_kill_before_any_change_loses_and_duplicates_nothing(kills, tmp_path):
    """Before every ninth of the calls."""
    captures = fleet.captures(tmp_path / "captures", 2)
    ingest = kills(captures)
    calls = ingest.whole(tmp_path / "whole")
    assert calls > 90
    for number in range(1, calls, 9):
        place = tmp_path / f"d{number}"
        ingest.at(number, place)
        fleet.fleet("ingest", captures, place)
        assert contents(place) == contents(tmp_path / "whole"), number


def test_a_part_whose_captures_are_gone_is_given_up(kills, undisturbed, tmp_path):
    captures, place = tmp_path / "captures", tmp_path / "dataset"
    shutil.copytree(undisturbed[0], captures)
    ingest = kills("--run", "one", captures)
    ingest.at(ingest.whole(tmp_path / "whole") // 2, place)
    (captures / "report.rank5.bin").unlink()
    said = fleet_json("ingest", "--run", "one", captures, place)
    assert said["taken"] == 5
    assert len(said["begun"]) == 1 and "was discarded" in said["begun"][0] and "report.rank5.bin no longer exists" in said["begun"][0]
    assert rows(place, "ranks", "count(*), count(distinct capture)") == [(5, 5)]
    assert len(list(place.rglob("*.parquet"))) == len({path.parent.parent.name for path in place.rglob("*.parquet")})


def test_a_part_is_completed_with_the_options_that_it_was_begun_with(kills, undisturbed, tmp_path):
    place = tmp_path / "dataset"
    ingest = kills("--run", "one", "--label", "team=vision", undisturbed[0])
    ingest.at(ingest.whole(tmp_path / "whole") // 2, place)
    other = fleet.capture(tmp_path / "other" / "report.bin", 77)
    said = fleet_json("ingest", "--run", "two", "--label", "team=text", other, place)
    assert (said["taken"], said["runs"], said["begun"]) == (7, ["one", "two"], [])
    assert sorted(rows(place, "labels", "run, value, count(*) over (partition by run)")) == [("one", "vision", 6)] * 6 + [("two", "text", 1)]


@pytest.mark.parametrize("secret, told", [("right", []), ("wrong", ["needs the --secret it was begun with"])])
def test_a_part_with_a_secret_is_completed_with_that_secret_only(secret, told, kills, undisturbed, tmp_path):
    """With another secret its captures are ingested again, and no part of the first attempt stays."""
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"the {name} secret")
    place, whole = tmp_path / "dataset", tmp_path / "whole"
    options = ("--run", "one", "--hash-paths", "--secret")
    ingest = kills(*options, tmp_path / "right", undisturbed[0])
    ingest.at(ingest.whole(tmp_path / "of-the-right") // 2, place)
    said = fleet_json("ingest", *options, tmp_path / secret, undisturbed[0], place)
    assert said["taken"] == 6
    assert len(said["begun"]) == len(told) and all(why in line for why, line in zip(told, said["begun"]))
    fleet.fleet("ingest", *options, tmp_path / secret, undisturbed[0], whole)
    tables = [{path: of for path, of in contents(each).items() if path.endswith(".parquet")} for each in (place, whole)]
    assert tables[0] == tables[1]


def fetches_what_a_folder_lacks(place, dataset, folder, env=None):
    """`fetch` from `place`, which has the files of `dataset`."""
    parquet = {path: digest for path, digest in contents(dataset).items() if path.endswith(".parquet")}
    said = fleet_json("fetch", "--table", "ranks", place, folder, env=env)
    assert (said["copied"], said["kept"], said["removed"]) == (6, 0, 0)
    said = fleet_json("fetch", place, folder, env=env)
    assert (said["copied"], said["kept"]) == (len(parquet) - 6, 6)
    assert contents(folder) == parquet
    run = sorted(path.name for path in dataset.iterdir() if path.name.startswith("run="))[0]
    fleet.fleet("prune", "--run", run[4:], place, env=env)
    said = fleet_json("fetch", place, folder, env=env)
    assert said["copied"] == 0 and said["removed"] == len([path for path in parquet if path.startswith(run)])
    assert contents(folder) == {path: digest for path, digest in parquet.items() if not path.startswith(run)}
    done = fleet.fleet("fetch", place, dataset, env=env, check=False)
    assert done.returncode == 1 and "this folder is a dataset itself: name another folder" in done.stderr


def test_fetch_copies_what_a_folder_lacks(undisturbed, tmp_path):
    fetches_what_a_folder_lacks(shutil.copytree(undisturbed[1], tmp_path / "dataset"), undisturbed[1], tmp_path / "copy")


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
