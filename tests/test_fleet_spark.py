"""Apache Spark over the dataset: the same answers as DuckDB's.

What breaks these tests: SQL that only one engine accepts or that the engines round differently, a file that one of
them reads differently, a capture that counts twice."""

import datetime
import json
import shutil
import subprocess
import sys

import fleet_data
import harness
import pytest
from fleet_data import MIB, Job, Plant

sys.path.insert(0, str(harness.ROOT / "python"))

from gpumem._commands.fleet import files, outliers, queries  # noqa: E402
from gpumem._commands.fleet.engine import Engine  # noqa: E402

CAPTURES = harness.ROOT / "tests" / "fixtures" / "captures" / "v1"
# What of files the two engines could read otherwise.
FACTS = {
    "keys": "select min(capture), max(capture), min(line_key), max(line_key), count(distinct line_key), sum(bytes % 1000003) from held",
    "times": "select min(time), max(time), count(distinct time) from series",
    "texts": "select label, file, line, function, text from lines order by line_key",
    "frames": "select stack_key, depth, function, file, line, library from frames order by stack_key, depth",
    "runs": "select run, node, count(*), min(started), max(ended), min(exact), max(missing) from ranks group by run, node order by run",
    "nulls": "select count(category), count(module), count(stack_key), count(*) from held",
    "nothing": "select count(*), max(time) from events",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Files that gpumem-analyze wrote, with bloom filters, beside files of DuckDB's; one run has a number for its name."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet_data.write(
        folder,
        Job("slurm-1", 16, plants={3: Plant("tensors", 64 * MIB, 5, 7), 11: Plant("outside", 96 * MIB), 5: Plant("cache", -100 * MIB)},
            labels=(("team", "vision"),), failures=((2, "fragmentation"), (6, "too_large"))),
        Job("slurm-2", 9, lines=22, version="b2", started="2026-11-24 09:00:00", labels=(("team", "speech"),)),
        Job("0047", 12, stages=3, version="c3", started="2026-11-24 23:30:00", plants={4: Plant("tensors", 32 * MIB, 2)}),
    )  # fmt: skip
    done = harness.analyze("fleet", "ingest", CAPTURES, folder, "--run", "real", "--label", "team=vision", check=False)
    assert done.returncode == 3 and "added 19 captures of 1 run, 1 unreadable" in done.stdout, harness.described(done)
    # Two machines have ingested slurm-2.
    for file in list(folder.glob("run=slurm-2/table=*/*/*.parquet")):
        shutil.copy(file, file.with_stem("zz"))
    return folder


def plain(value):
    """As spark_answers.py has it."""
    if isinstance(value, datetime.datetime):
        return round((value - datetime.datetime(1970, 1, 1)).total_seconds() * 1_000_000)
    return value.isoformat() if isinstance(value, datetime.date) else value


@pytest.mark.slow
def test_both_engines_give_the_same_answers(fleet, python_env, tmp_path):
    start = python_env("spark")
    engine = Engine()
    engine.view(files.of_tables(engine, fleet, [], list(queries.TABLES)))
    [held] = fleet.glob("run=real/table=held/*/*.parquet")
    known = engine.ask(f"select line_key from '{held}' limit 1").rows[0][0]
    asked = {query.name: (query.sql, queries.defaults(query, {"top": 20, "label": "team"})) for query in queries.known()}
    asked.update({name: (text, {}) for name, text in FACTS.items()})
    asked.update({f"key {key}": (f"select count(*), sum(bytes) from held where line_key = {key}", {}) for key in (known, 1)})
    done = subprocess.run(
        [start / "python", harness.ROOT / "tests" / "lib" / "spark_answers.py", fleet, tmp_path], input=json.dumps(asked), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.clean_environment(), timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, harness.described(done)
    answers = json.loads(done.stdout)
    for name, (text, parameters) in asked.items():
        found = engine.ask(queries.find(name).for_duckdb() if name in {query.name for query in queries.known()} else text, parameters)
        if name not in FACTS and not name.startswith("key"):
            assert answers[name]["columns"] == found.columns
        assert answers[name]["rows"] == [[plain(value) for value in row] for row in found.rows], name
        assert answers[name]["rows"], f"{name} compares nothing"
    # Signed keys and times keep their types, and what has a bloom filter is found by it.
    assert answers["keys"]["types"][:4] == ["bigint"] * 4 and answers["keys"]["rows"][0][0] < 0
    assert answers["times"]["types"][:2] == ["timestamp_ntz"] * 2
    assert answers[f"key {known}"]["rows"][0][0] > 0 and answers["key 1"]["rows"] == [[0, None]]
    of_file = f"select compression, bloom_filter_offset is not null from parquet_metadata('{held}') where path_in_schema = 'line_key'"
    assert set(engine.ask(of_file).rows) == {("ZSTD", True)}
    by_spark = harness.unwrapped(harness.analyze("fleet", "outliers", "--format", "json", tmp_path).stdout)
    selected = outliers.select(engine, str(fleet), [], outliers.ALL, tmp_path / "by_duckdb")
    assert harness.unwrapped(harness.analyze("fleet", "outliers", "--format", "json", selected).stdout) == by_spark
    assert [(of["run"], of["rank"]) for of in by_spark["ranks"]] == [("slurm-1", 5), ("slurm-1", 11), ("slurm-1", 3), ("0047", 4)]
