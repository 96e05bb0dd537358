"""The dataset of many captures on Apache Spark (docs/fleet.md).

    from gpumem import fleet

    fleet.views(spark, "s3a://bucket/gpumem")
    spark.sql(fleet.sql("waste"), args={"top": 20}).show()
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from ._commands.fleet import queries

__all__ = ["names", "outliers", "sql", "views"]

_TYPES = {"VARCHAR": "STRING"}


def names() -> List[str]:
    """The names of the queries of `gpumem fleet query`, without `outliers`."""
    return [query.name for query in queries.known()]


def sql(name: str) -> str:
    """The text of a query. Its parameters, such as `:top`, are those of `spark.sql(…, args={…})`. Raises LookupError if
    there is no such query."""
    return queries.find(name).sql


def outliers() -> Dict[str, str]:
    """The SQL texts of the rows that `gpumem-analyze fleet outliers` compares, by the names of their folders."""
    return {query.name: query.sql for query in queries.OUTLIERS}


def views(spark: Any, dataset: str, runs: Sequence[str] = ()) -> None:
    """Creates a temporary view of each table of a dataset, for these runs or for all. Times have the type
    TIMESTAMP_NTZ, in UTC."""
    for table, columns in queries.TABLES.items():
        kinds = {**columns, **queries.OF_PATH}
        schema = ", ".join(f"{name} {_TYPES.get(kind, kind)}" for name, kind in kinds.items())
        frame = _read(spark, dataset, table, runs, schema)
        cells = [
            f"timestampadd(MICROSECOND, unix_micros({name}), timestamp_ntz'1970-01-01') as {name}" if kind == "TIMESTAMP" else name
            for name, kind in kinds.items()
        ]
        rows = f"_rows_of_{table}"
        frame.selectExpr(*cells, queries.PART).createOrReplaceTempView(rows)
        # The first table is that of ranks.
        if table == "ranks":
            spark.sql(queries.COUNTED.format(rows=rows)).cache().createOrReplaceTempView(queries.CAPTURES)
        spark.sql(queries.view(table, rows)).createOrReplaceTempView(table)


def _read(spark: Any, dataset: str, table: str, runs: Sequence[str], schema: str) -> Any:
    """The table's files. The schema makes `run=4711` a string, and adds columns that older files lack."""
    base = dataset.rstrip("/")
    folder = f"{base}/{{run={',run='.join(runs)}}}" if runs else f"{base}/run=*"
    path = spark._jvm.org.apache.hadoop.fs.Path(f"{folder}/table={table}")
    there = path.getFileSystem(spark._jsc.hadoopConfiguration()).globStatus(path)
    if not there:
        return spark.createDataFrame([], f"{schema}, {queries.PART} STRING")
    files = spark.read.schema(schema).option("basePath", base).parquet(*[found.getPath().toString() for found in there])
    return files.selectExpr("*", f"_metadata.file_name as {queries.PART}")
