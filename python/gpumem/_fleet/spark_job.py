"""Ingests captures as a job of Apache Spark:

    spark-submit "$(gpumem fleet spark-job)" SOURCE DATASET [--label team=vision …]

Each task runs `gpumem-analyze fleet stage` on one capture: what it writes is the same each time, so tasks that are tried again or run
twice do no harm. Then one `gpumem-analyze fleet commit` makes parts of what was staged. SOURCE and DATASET are places that all
workers reach. Options that are not this program's own are those of `gpumem-analyze fleet stage`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, List, Sequence, Tuple

# The Python that Spark starts need not have the package of this file.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from gpumem import _files  # noqa: E402

PARTIAL = 3


def main(words: Sequence[str]) -> int:
    """Runs the job with these arguments. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="spark-submit spark_job.py", description=(__doc__ or "").split("\n\n")[2], allow_abbrev=False)
    parser.add_argument("source", metavar="SOURCE", help="a folder with captures, or s3://, gs:// or az://")
    parser.add_argument("dataset", metavar="DATASET", help="the dataset")
    parser.add_argument("--analyzer", metavar="PATH", help="gpumem-analyze on the workers. Default: the one of the package, or on PATH")
    options, of_stage = parser.parse_known_args(list(words))
    analyzer = options.analyzer or str(_files.analyzer())

    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("gpumem fleet").getOrCreate()
    try:
        captures = listed(spark, options.source)
        command = [analyzer, "fleet", "stage", *of_stage]
        told = spark.sparkContext.parallelize(captures, max(len(captures), 1)).map(stager(command, options.dataset)).collect()
    finally:
        spark.stop()
    not_staged = [said for status, said in told if status != 0]
    for said in not_staged:
        print(f"gpumem: {said}", file=sys.stderr)
    committed = subprocess.run([analyzer, "fleet", "commit", options.dataset], check=False).returncode
    return committed or (PARTIAL if not_staged else 0)


def stager(command: Sequence[str], dataset: str) -> Callable[[str], Tuple[int, str]]:
    """The function that a task runs for a capture. Workers may lack this package, so it contains everything that it
    needs."""

    def stage(capture: str) -> Tuple[int, str]:
        program = command[0] if os.path.exists(command[0]) else shutil.which(os.path.basename(command[0])) or command[0]
        done = subprocess.run([program, *command[1:], capture, dataset], capture_output=True, text=True, errors="replace", check=False)
        said = (done.stderr or done.stdout).strip().splitlines()
        return done.returncode, said[-1] if said else f"{capture}: gpumem-analyze ended with {done.returncode}"

    return stage


def listed(spark: Any, source: str) -> List[str]:
    """The files at a location whose names are those of captures."""
    if "://" not in source:
        found = [str(path) for path in Path(source).absolute().rglob("*.bin")]
        return sorted(found)
    # Spark's own connector uses a different scheme from other tools.
    scheme, _, rest = source.partition("://")
    base = f"{ {'s3': 's3a', 'az': 'abfs'}.get(scheme, scheme) }://{rest}"
    path = spark._jvm.org.apache.hadoop.fs.Path(base)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration()).listFiles(path, True)
    names = []
    while files.hasNext():
        name = files.next().getPath().toString()
        if name.endswith(".bin"):
            names.append(f"{scheme}://{name.partition('://')[2]}")
    return sorted(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
