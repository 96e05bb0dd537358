"""spark_answers.py DATASET ROWS <QUESTIONS: Spark's answers as JSON: columns, their types and rows. Questions are JSON: a
name with an SQL text and its parameters. Times are microseconds. Into the folder ROWS go the rows for `gpumem-analyze fleet
outliers`. Run by the Python of the environment `spark`."""

import json
import sys
from datetime import date, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))

from pyspark.sql import SparkSession  # noqa: E402

from gpumem import fleet  # noqa: E402


def session():
    made = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g").config("spark.ui.enabled", "false")
    # A zone in which a time without one would be another.
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "true",
                "spark.log.level": "ERROR", "spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false",
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.ui.showConsoleProgress": "false"}  # fmt: skip
    for name, value in settings.items():
        made = made.config(name, value)
    return made.getOrCreate()


def plain(value):
    # A day is no time, though a time is a day.
    if isinstance(value, datetime):
        return round((value - datetime(1970, 1, 1)).total_seconds() * 1_000_000)
    return value.isoformat() if isinstance(value, date) else value


def main(dataset, rows_of_outliers, questions):
    spark = session()
    fleet.views(spark, dataset)
    answers = {}
    for name, (text, arguments) in questions.items():
        frame = spark.sql(text, args=arguments)
        rows = [[plain(value) for value in row] for row in frame.collect()]
        answers[name] = {"columns": frame.columns, "types": [kind for _, kind in frame.dtypes], "rows": rows}
    for name, select in fleet.outliers().items():
        spark.sql(select).write.option("compression", "zstd").parquet(f"{rows_of_outliers}/{name}")
    json.dump(answers, sys.stdout)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.load(sys.stdin))
