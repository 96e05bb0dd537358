"""`gpumem fleet query` and `sql`: queries of a dataset, answered by DuckDB.

What breaks these tests: a rank that is compared with other stages of a pipeline, a median in which peers without a
line do not count, rows of a capture that does not belong to the dataset yet, a capture that counts twice, a run whose
name is read as a number, a time in this machine's zone."""

import csv
import io
import resource
import shutil
import sys
import time
import types

import captures
import fleet_data
import harness
import pytest
import schemas
from fleet_data import MIB, Job, Plant

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._commands.fleet import files, outliers, queries, stores  # noqa: E402
from gpumem._commands.fleet.engine import Engine  # noqa: E402
from gpumem._commands.fleet.stores import Refused  # noqa: E402

PYTHON_PATH = {"PYTHONPATH": str(harness.ROOT / "python")}
# Patterns, quotes and what looks like a partition are parts of a path like any other.
FOLDER = "fleet [a]* of 'x=1"


def gpumem(*arguments, status=0, env=None, cwd=None):
    done = harness.run([sys.executable, "-m", "gpumem", "fleet", *arguments], env={**PYTHON_PATH, **(env or {})}, check=False, cwd=cwd)
    assert done.returncode == status, harness.described(done)
    return done


def rows(*arguments, **options):
    """The answer as JSON: of a question of gpumem's, or of one in SQL."""
    text = gpumem(*arguments, "--format", "json", **options).stdout
    return schemas.found("fleet-query", text)["rows"] if arguments[0] == "query" else schemas.found("fleet-sql", text)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Three runs, one of which has a name that is a number, and files of a capture that is no part of the dataset yet."""
    folder = tmp_path_factory.mktemp("fleet") / FOLDER
    fleet_data.write(
        folder,
        Job("slurm-1", 16, plants={3: Plant("tensors", 64 * MIB, 5, 7), 11: Plant("outside", 96 * MIB)}, labels=(("team", "vision"),),
            failures=((2, "fragmentation"), (5, "fragmentation"), (6, "too_large")), noise=0),
        Job("slurm-2", 8, lines=22, version="b2", started="2026-11-24 09:00:00", labels=(("team", "speech"), ("queue", "a")), noise=0),
        Job("4711", 9, stages=3, version="b2", started="2026-11-24 12:00:00", noise=0, plants={4: Plant("tensors", 32 * MIB, 2)}),
        Job("cut-off", 4, noise=0, plants={1: Plant("tensors", 512 * MIB, 3)}, labels=(("team", "vision"),), failures=((1, "leak"),)),
    )  # fmt: skip
    shutil.rmtree(folder / "run=cut-off" / "table=ranks")
    return folder


def test_ranks_that_differ_are_named_with_line_and_step(fleet):
    found = rows("query", "outliers", fleet)
    named = [(row["run"], row["rank"], row["peers"], row["metric"], row["since_step"], row["line"], row["line_off_bytes"]) for row in found]
    assert named == [
        ("slurm-1", 11, "", "outside", None, "libcublas.so.13", 96 * MIB),
        ("slurm-1", 3, "", "tensors", 7, fleet_data.label_of(5), 64 * MIB),
        ("4711", 4, "pp=1", "tensors", 1, fleet_data.label_of(2), 32 * MIB),
    ]
    assert [row["off_bytes"] for row in found] == [96 * MIB, 64 * MIB, 32 * MIB]
    assert [row["peer_count"] for row in found] == [16, 16, 3]
    assert rows("query", "outliers", "--top", "1", fleet) == found[:1]
    assert rows("query", "outliers", "--run", "4711", fleet) == found[2:]


@pytest.mark.parametrize("job", ["job", "ranks", "pipeline"])
def test_ranks_that_differ_are_those_of_the_captures(job, tmp_path):
    """The figures, steps and lines of `gpumem-analyze ranks` on the same captures."""
    harness.analyze("fleet", "ingest", "--run", job, captures.job(job), tmp_path / "fleet")
    wanted = harness.unwrapped(harness.analyze("ranks", "--format", "json", captures.job(job), check=False).stdout)
    kinds = {"tensors": "line", "cache": "pool", "outside": "outside", "unexplained": None}
    figures, lines = [], []
    for of in wanted["outliers"]:
        figure = (of["rank"], of["metric"])
        since = of["since"] or {}
        figures.append((*figure, of["bytes"], of["peers"]["median"], of["off_bytes"], of["peer_count"], since.get("first_step"), since.get("last_step")))
        lines += [(*figure, row["name"], row["bytes"], row["median_bytes"]) for row in of["differences"] if row["of"] == kinds[of["metric"]]]
    found = rows("query", "outliers", tmp_path / "fleet")
    names = ("rank", "metric", "bytes", "median_bytes", "off_bytes", "peer_count", "since_step", "until_step")
    assert list(dict.fromkeys(tuple(row[name] for name in names) for row in found)) == figures
    names = ("rank", "metric", "line", "line_bytes", "line_median_bytes")
    assert [tuple(row[name] for name in names) for row in found if row["place"]] == lines
    assert bool(lines) == (job != "pipeline")


def test_rows_of_ranks_that_are_not_in_the_order_of_runs_are_refused(fleet, tmp_path):
    """In files as Spark writes them; the rows of a run may be in several."""
    engine, folder = Engine(), tmp_path / "ranks"
    engine.view(files.of_tables(engine, fleet, ["slurm-1", "4711"], []))
    folder.mkdir()
    for part, which in enumerate(("rank < 7 and run = '4711'", "rank >= 7 and run = '4711'", "run <> '4711'")):
        engine.write(f"select * from ({queries.OUTLIERS[2].for_duckdb()}) where {which}", str(folder / f"part-{part}.parquet"))
    found = harness.unwrapped(harness.analyze("fleet", "outliers", "--format", "json", tmp_path).stdout)
    assert (found["runs"], found["captures"]) == (2, 25)
    assert [(of["run"], of["rank"]) for of in found["ranks"]] == [("slurm-1", 11), ("slurm-1", 3), ("4711", 4)]
    (folder / "part-0.parquet").rename(folder / "part-3.parquet")
    refused = harness.analyze("fleet", "outliers", tmp_path, check=False)
    assert (refused.returncode, refused.stderr) == (1, f"gpumem-analyze: {folder}/part-3.parquet: the rows of run 4711 do not follow each other\n")
    refused = harness.analyze("fleet", "outliers", fleet, check=False)
    assert (refused.returncode, refused.stderr) == (1, f"gpumem-analyze: {fleet}/ranks: No such file or directory (os error 2)\n")


def test_the_median_of_a_version_counts_captures_without_the_line():
    engine = Engine()
    engine.view({"lines": []})
    engine.ask("create table ranks as select i as capture, case when i < 5 then 'b' else 'a' end as version, 'r' as run, "
               "timestamp '2026-11-23' - to_days(i::int) as started from range(6) t(i)")  # fmt: skip
    engine.ask("create table held as select i as capture, 'r' as run, 'peak' as moment, 'tensor' as level, 1 as line_key, 10 * (i + 1) as bytes "
               "from range(3) t(i)")  # fmt: skip
    answer = engine.ask(queries.find("growth-by-version").for_duckdb(), {"top": 9})
    [row] = [dict(zip(answer.columns, row)) for row in answer.rows]
    assert (row["version"], row["previous_version"], row["bytes"], row["grown_bytes"]) == ("b", "a", 10, 10)


def test_text_begins_with_the_answer_and_is_80_columns_wide(fleet):
    said = gpumem("query", "outliers", fleet).stdout
    assert said.startswith("Rank 11 of slurm-1 holds 96.0 MiB more than its peers, mostly from libcublas.so.13. 2 other ranks also differ.\n\n")
    assert "Rank 4 of 4711 (pp=1): +32.0 MiB tensors, from the first step\n" in said
    assert "+64.0 MiB  69.0 MiB    5.00 MiB    mod_5.py:105" in said
    for query in queries.known():
        said = gpumem("query", query.name, fleet).stdout
        assert max(map(len, said.splitlines())) <= 80 and "\033" not in said, said
    assert gpumem("query", "outliers", "--run", "slurm-2", fleet).stdout == "No rank differs from its peers (8 captures of 1 run).\n"


def test_lines_over_runs(fleet):
    found = rows("query", "lines-over-runs", "--top", "3", fleet)
    assert found[0] == {
        "line": "mod_5.py:105", "file": "mod_5.py", "text": "x = step_5(x)", "runs": 3, "captures": 33, "most_bytes": 69 * MIB,
        "run": "slurm-1", "rank": 3, "median_bytes": 5 * MIB,
    }  # fmt: skip
    assert [row["most_bytes"] for row in found] == sorted((row["most_bytes"] for row in found), reverse=True)


def test_growth_by_version(fleet):
    """Lines 20 and 21 are those of run slurm-2 alone, so half of the version's captures or more have none of them; with --run they
    are new."""
    grown = rows("query", "growth-by-version", "--run", "slurm-1", "--run", "slurm-2", fleet)
    assert {row["line"] for row in grown} == {fleet_data.label_of(20), fleet_data.label_of(21)}
    for row in grown:
        assert (row["version"], row["previous_version"]) == ("b2", "a1") and row["grown_bytes"] == row["bytes"] > 0
        assert row["first_started"] == "2026-11-24T09:00:00Z"
    assert fleet_data.label_of(20) not in {row["line"] for row in rows("query", "growth-by-version", fleet)}


def test_waste_is_reserved_less_allocated_by_hour(fleet):
    """Figures of the generator: 32 stretches of 1,024 s, whose height goes round in quarters."""
    [held] = rows("sql", "select max(reserved_peak_bytes - tensor_peak_bytes) as most from ranks where run = '4711'", fleet)
    found = rows("query", "waste", "--run", "4711", fleet)
    assert max(row["most_bytes"] for row in found) == held["most"]
    assert {row["day"] for row in found} == {"2026-11-24"} and sorted(row["hour"] for row in found) == list(range(12, 21))
    [summed] = rows(
        "sql", "select sum(case level when 'reserved' then bytes when 'tensor' then -bytes else 0 end * width_us) / 3.6e9 / 1073741824 "
        "as hours from series where run = '4711'", fleet,
    )  # fmt: skip
    assert sum(row["wasted_gib_hours"] for row in found) == pytest.approx(summed["hours"], rel=0.01)


def test_failures_by_cause(fleet):
    found = rows("query", "failures-by-cause", fleet)
    assert [(row["cause"], row["raised"], row["captures"], row["last_rank"]) for row in found] == [("fragmentation", 2, 2, 5), ("too_large", 1, 1, 6)]
    assert found[0]["last_time"] == "2026-11-23T19:30:00.000005Z" and found[0]["line"] == fleet_data.label_of(0)


def test_largest_holders_by_label(fleet):
    found = rows("query", "largest-holders", fleet)
    assert [(row["owner"], row["captures"]) for row in found] == [("vision", 16), (None, 9), ("speech", 8)]
    [whole] = rows("sql", "select sum(reserved_peak_bytes) as bytes from ranks where run = 'slurm-1'", fleet)
    assert found[0]["reserved_bytes"] == whole["bytes"]
    assert {row["owner"] for row in rows("query", "largest-holders", "--label", "queue", fleet)} == {"a", None}


def test_the_views_have_all_columns_in_any_zone(fleet):
    """Also of tables without files, and of files that an older version wrote."""
    engine = Engine()
    engine.view(files.of_tables(engine, fleet, [], list(queries.TABLES)))
    for table, columns in queries.TABLES.items():
        shared = table in ("lines", "frames")
        answer = engine.ask(f"select * from {table} limit 1")
        assert answer.columns == [*columns, *([] if shared else ["run", "node"])] and len(answer.rows) == (table != "events")
    said = gpumem("sql", "select capture, seq from events", "--format", "csv", fleet).stdout
    assert list(csv.reader(io.StringIO(said))) == [["capture", "seq"]]
    asked = ("sql", "select min(started) as began, count(distinct run) as runs, min(run) as run from ranks", fleet)
    for zone in ("UTC", "Asia/Tokyo"):
        assert rows(*asked, env={"TZ": zone}) == [{"began": "2026-11-23T10:30:00Z", "runs": 3, "run": "4711"}]
    [lines] = rows("sql", "select count(*) as rows, count(distinct line_key) as keys from lines", fleet)
    assert lines["rows"] == lines["keys"] == 25


def test_files_of_an_older_version_lack_columns(fleet, tmp_path):
    shutil.copytree(fleet / "run=slurm-1", tmp_path / "run=slurm-1")
    engine = fleet_data.duckdb.connect()
    for file in tmp_path.glob("run=*/table=ranks/*/*.parquet"):
        engine.execute("create or replace table older as select * exclude (allocator, steps) from read_parquet(?)", [str(file)])
        engine.execute(f"copy older to '{file}' (format parquet)")
    assert rows("sql", "select distinct allocator, steps, pytorch from ranks", tmp_path) == [
        {"allocator": None, "steps": None, "pytorch": "2.15.0"}
    ]


def test_what_cannot_be_answered_is_one_line(fleet, tmp_path):
    assert gpumem("query", "nothing", fleet, status=2).stderr == (
        "gpumem: fleet query: no such query: nothing (queries: failures-by-cause, growth-by-version, largest-holders, "
        "lines-over-runs, outliers, waste)\n"
    )
    assert "is not a dataset: it has no folders run=" in gpumem("query", "waste", tmp_path, status=1).stderr
    assert "has no run slurm-9; it has 4711, cut-off, slurm-1, slurm-2" in gpumem("query", "waste", "--run", "slurm-9", fleet, status=1).stderr
    assert 'syntax error at or near "selec"' in gpumem("sql", "selec", fleet, status=1).stderr
    (tmp_path / "duckdb.py").write_text("raise ImportError")
    without = {"PYTHONPATH": f"{tmp_path}:{harness.ROOT / 'python'}"}
    assert gpumem("query", "waste", fleet, status=1, env=without).stderr == (
        "gpumem: fleet query: needs DuckDB: pip install 'libgpumem[fleet]'\n"
    )
    # It would be fetched.
    assert "spatial" in gpumem("sql", "load spatial", fleet, status=1).stderr


def test_each_query_says_what_it_answers_and_its_columns(fleet):
    listed = gpumem("query").stdout
    assert gpumem("query", "--list").stdout == listed
    for query in queries.known():
        assert query.name in listed and query.about
        engine = Engine()
        engine.view({table: [] for table in queries.tables_in(query.sql)})
        columns = engine.ask(query.for_duckdb(), queries.defaults(query, {"top": 1, "label": "team"})).columns
        assert columns == [name for name, _, _ in query.columns] and all(text for _, _, text in query.columns)


def test_a_capture_that_two_machines_ingested_counts_once(fleet, tmp_path):
    """The second part of slurm-1 has two of its captures, with other figures, in a file of another name; a third one has no ranks."""
    shutil.copytree(fleet / "run=slurm-1", tmp_path / "run=slurm-1")
    asked = [("query", "outliers"), *(("query", query.name) for query in queries.known())]
    asked += [("sql", f"select count(*) as rows from {table}") for table in queries.TABLES]
    wanted = [rows(*words, tmp_path) for words in asked]
    engine = fleet_data.duckdb.connect()
    [ranks] = tmp_path.glob("run=*/table=ranks/*/*.parquet")
    for name in ("zz", "zzz"):
        for file in [*tmp_path.glob(f"run=*/table=*/*/{ranks.name}")]:
            if "table=lines" in str(file) or "table=frames" in str(file) or (name == "zzz" and file == ranks):
                continue
            more = f"select * replace (bytes + 5 as bytes) from '{file}'" if "table=held" in str(file) else f"from '{file}'"
            of = f"semi join (select capture from '{ranks}' where rank < 2) using (capture)"
            engine.execute(f"copy ({more} {of}) to '{file.with_stem(name)}' (format parquet)")
    assert [rows(*words, tmp_path) for words in asked] == wanted
    of_file = f"select count(*) from read_parquet('{tmp_path}/run=*/table=held/*/*.parquet')"
    assert engine.execute(of_file).fetchall()[0][0] > next(found[0]["rows"] for words, found in zip(asked, wanted) if words[1].endswith("from held"))


@pytest.mark.parametrize("address, variables, secret", [
    ("s3://bucket/gpumem", {}, "create secret (type 's3', provider 'credential_chain')"),
    ("s3://bucket/gpumem", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000/"},
     "create secret (type 's3', provider 'credential_chain', endpoint '127.0.0.1:9000', url_style 'path', use_ssl 'false')"),
    ("gs://bucket", {}, "create secret (type 'gcs', provider 'credential_chain')"),
    ("az://box/it's", {"AZURE_STORAGE_ACCOUNT": "a'b"}, "create secret (type 'azure', provider 'credential_chain', account_name 'a''b')"),
    ("az://box", {"AZURE_STORAGE_CONNECTION_STRING": "x=y"}, "create secret (type 'azure', connection_string 'x=y')"),
])  # fmt: skip
def test_an_object_store_is_read_by_duckdb_s_extensions(monkeypatch, address, variables, secret):
    for name in ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    extensions = ["azure"] if address.startswith("az") else ["httpfs", "aws"]
    loads = [f"{word} {name}" for name in extensions for word in ("install", "load")]
    for stored, wanted in (([], [secret]), ([("mine",)], [])):
        said = []

        def run(sql, parameters=(), said=said, stored=stored):
            said.append(sql)
            return types.SimpleNamespace(fetchall=lambda: stored)

        stores.reach(run, address)
        assert said == [*loads, "select name from which_secret(?, ?)", *wanted]

    def refuse(sql, parameters=()):
        raise Refused("IO Error: no network\nhttps://…")

    with pytest.raises(Refused, match=f"^{address}: DuckDB's extension {extensions[0]} cannot be loaded: IO Error: no network: allow its download, or copy .*$"):
        stores.reach(refuse, address)


def test_files_of_an_address_are_those_of_a_folder(fleet, monkeypatch):
    """An address that DuckDB can list without an extension."""
    reached = []
    monkeypatch.setattr(stores, "reach", lambda run, dataset: reached.append(dataset))
    engine = Engine()
    found = files.of_tables(engine, f"file://{fleet}", ["4711"], ["held"])
    assert reached == [f"file://{fleet}"] and sorted(found) == ["held", "ranks"]
    engine.view(found)
    assert engine.ask("select distinct run, rank from held join ranks using (run, capture) order by rank").rows == [("4711", rank) for rank in range(9)]
    assert "ftp://x: name a folder, or s3://, gs:// or az://" in gpumem("query", "waste", "ftp://x", status=1).stderr


def test_other_commands_are_the_analyzers_and_a_removed_one_names_the_new_way(tmp_path):
    stub = tmp_path / "analyzer"
    stub.write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/words"\n')
    stub.chmod(0o755)
    gpumem("ingest", "captures", "fleet", env={"GPUMEM_ANALYZE": str(stub)})
    assert (tmp_path / "words").read_text() == "fleet ingest captures fleet\n"
    assert "fleet spark-job was removed: ingest each capture on its own machine, then `aws s3 sync`" in gpumem("spark-job", status=2).stderr


def planted(ranks):
    """Differences of single ranks; all but the last are large enough to be named."""
    plants = [
        Plant("tensors", 700 * MIB, 17, 40), Plant("tensors", 2048 * MIB, 30), Plant("cache", 300 * MIB), Plant("outside", 512 * MIB),
        Plant("unexplained", 900 * MIB), Plant("tensors", -16 * MIB, 39),
    ]  # fmt: skip
    return {ranks * (at + 1) // 7: plant for at, plant in enumerate(plants)}


def is_named(found, plants):
    """The plants are found with their lines and steps, and no other rank is."""
    *large, _ = plants
    by_rank = {row["rank"]: row for row in found}
    assert {rank: row["metric"] for rank, row in by_rank.items()} == {rank: plants[rank].metric for rank in large} and len(found) == len(large)
    steps = [(by_rank[rank]["line"], by_rank[rank]["since_step"]) for rank in large[:2]]
    assert steps == [(fleet_data.label_of(17), 40), (fleet_data.label_of(30), 1)]


@pytest.mark.slow
@pytest.mark.alone
def test_outliers_of_2000_ranks_cost_little_more_than_a_median_of_each_line(tmp_path):
    """In processor time, since the machine may be busy: what is measured of it is a median over the same files."""
    plants = planted(2000)
    fleet_data.write(tmp_path, Job("big", 2000, lines=400, stages=4, plants=plants, noise=65536))
    median = f"select line_key, moment, median(bytes) from '{tmp_path}/run=*/table=held/*/*.parquet' group by all"

    def used():
        both = (resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(of.ru_utime + of.ru_stime for of in both)

    def cost(ask):
        begun, answer = used(), ask()
        return used() - begun, answer

    units = [cost(lambda: Engine().ask(median))[0] for _ in range(3)]
    asked = [cost(lambda: outliers.answer(str(tmp_path), [], 20, False)) for _ in range(3)]
    answer = asked[0][1]
    is_named([dict(zip(answer.columns, row)) for row in answer.rows], plants)
    seconds = min(seconds for seconds, _ in asked)
    assert seconds <= 6 * min(units), (asked, units)


@pytest.mark.slow
@pytest.mark.alone
def test_10000_ranks(tmp_path):
    """The outliers within 2 s, of a dataset of at most 50 MB, and none but the planted ones."""
    plants = planted(10_000)
    fleet_data.write(tmp_path, Job("big", 10_000, lines=400, stages=4, plants=plants, noise=65536))
    size = sum(file.stat().st_size for file in tmp_path.rglob("*.parquet"))
    assert size <= 50_000_000
    seconds = []
    for _ in range(3):
        begun = time.monotonic()
        found = rows("query", "outliers", tmp_path)
        seconds.append(time.monotonic() - begun)
    is_named(found, plants)
    assert min(seconds) <= 2, seconds
    print(f"{size:,} bytes; {', '.join(f'{second:.2f}' for second in seconds)} s", file=sys.stderr)
