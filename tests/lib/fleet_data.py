"""Datasets as docs/dataset.md describes them, made with DuckDB: 10,000 ranks in seconds.

Ranks hold about the same on each line, except planted ones."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import duckdb
import harness

TABLES = json.loads((harness.ROOT / "python" / "gpumem" / "_commands" / "fleet" / "tables.json").read_text())["tables"]
MIB = 1 << 20
CAPTURES_OF_A_PART = 1024
STEPS = 64


def key(kind: str, *parts: str) -> int:
    """A key, as docs/dataset.md has it."""
    hashed = hashlib.sha256()
    for part in (kind, *parts):
        hashed.update(len(part.encode()).to_bytes(8, "big") + part.encode())
    return int.from_bytes(hashed.digest()[:8], "big", signed=True)


@dataclass
class Plant:
    """By how much a rank differs, on which line, and from which step on (tensors only)."""

    metric: str
    bytes: int
    line: int = 0
    since: int = 1


@dataclass
class Job:
    """Ranks of one run. `lines` is how many lines hold tensors, `noise` by how much each rank's share of one may be more."""

    run: str
    ranks: int
    lines: int = 20
    stages: int = 1
    plants: Optional[dict[int, Plant]] = None
    noise: int = 1536
    seed: int = 0
    version: str = "a1"
    labels: tuple[tuple[str, str], ...] = ()
    started: str = "2026-11-23 10:30:00"
    # The capture that ran out of memory, and the cause.
    failures: tuple[tuple[int, str], ...] = ()
    points: int = 32


def label_of(line: int) -> str:
    return f"mod_{line % 37}.py:{100 + line}"


def _lines(job: Job) -> list[tuple]:
    rows = []
    for line in range(job.lines):
        file, function, text = f"mod_{line % 37}.py", f"forward_{line}", f"x = step_{line}(x)"
        rows.append((line, key("line", file, function, text), label_of(line), file, 100 + line, function, text, None, None))
    rows.append((-1, key("line", "pool"), "PyTorch's allocator", None, None, None, None, None, "libc10_cuda.so"))
    rows.append((-2, key("line", "libcublas"), "libcublas.so.13", None, None, None, None, None, "libcublas.so.13"))
    rows.append((-3, key("line", "overhead"), "(contexts, kernels and whole pages)", None, None, None, None, None, None))
    return rows


def write(folder: Path, *jobs: Job) -> None:
    """Writes the dataset."""
    engine = duckdb.connect(config={"threads": "2"})
    engine.execute("set timezone = 'UTC'")
    for job in jobs:
        _make(engine, job)
        for part in range(-(-job.ranks // CAPTURES_OF_A_PART)):
            _write_part(engine, folder, job, part)


def _make(engine: duckdb.DuckDBPyConnection, job: Job) -> None:
    """Tables of the run, with the part of each row."""
    of = {"run": job.run, "ranks": job.ranks, "stages": job.stages, "seed": job.seed, "noise": job.noise, "steps": STEPS,
          "points": job.points, "started": job.started, "version": job.version, "part": CAPTURES_OF_A_PART}  # fmt: skip

    def run(text: str) -> None:
        engine.execute(text, {name: value for name, value in of.items() if f"${name}" in text})

    run("create or replace temp table line (n bigint, line_key bigint, label text, file text, line bigint, function text, text text, "
        "node text, library text)")  # fmt: skip
    engine.executemany("insert into line values (?, ?, ?, ?, ?, ?, ?, ?, ?)", _lines(job))
    run("create or replace temp table plant (rank bigint, metric text, bytes bigint, line bigint, since bigint)")
    plants = [(rank, of.metric, of.bytes, of.line, of.since) for rank, of in (job.plants or {}).items()]
    if plants:
        engine.executemany("insert into plant values (?, ?, ?, ?, ?)", plants)
    # Hashes in place of random numbers: the same seed gives the same rows, however many threads there are.
    run("""create or replace temp table r as
        select i as rank, i // $part as part, (hash($run, i)::hugeint - 9223372036854775808)::bigint as capture,
          i % $stages as stage from range($ranks) t(i)""")
    run("""create or replace temp table h as
        select r.part, r.capture, r.rank, 0::bigint as device, moment, 'tensor' as level, n,
          ['parameter', 'activation', 'optimizer state', 'other'][1 + n % 4] as category, line_key,
          'layers.' || n % 12 || '.mlp' as module, line_key // 7 as stack_key,
          (1 << 20) * (1 + hash(n, stage, 1) % 40)::bigint + ((hash($seed, n, r.rank, $run) % ($noise // 512 + 1)) * 512)::bigint
            + (case when moment = 'peak' then coalesce(plant.bytes, 0) else 0 end) as bytes,
          (1 + n % 5)::bigint as blocks
        from r cross join line cross join (values ('peak'), ('end')) m(moment)
          left join plant on plant.rank = r.rank and plant.line = n and plant.metric = 'tensors'
        where n >= 0 and (moment = 'peak' or n % 4 in (0, 2))""")
    run("""create or replace temp table t as
        select r.*, s.tensors, (s.tensors - coalesce(l.bytes, 0)) * 5 // 4 // 2097152 * 2097152 + coalesce(c.bytes, 0) + coalesce(l.bytes, 0) as reserved,
          coalesce(o.bytes, 0) as beyond, coalesce(u.bytes, 0) as unexplained
        from r join (select capture, sum(bytes)::bigint as tensors from h where moment = 'peak' group by capture) s using (capture)
          left join plant l on l.rank = r.rank and l.metric = 'tensors'
          left join plant c on c.rank = r.rank and c.metric = 'cache'
          left join plant o on o.rank = r.rank and o.metric = 'outside'
          left join plant u on u.rank = r.rank and u.metric = 'unexplained'""")
    run("""insert into h
        select part, capture, rank, 0, 'peak', level, n, null, line_key, null, null,
          case n when -1 then reserved when -2 then 67108864 + beyond else 452984832 end, 1
        from t cross join line join (values (-1, 'pool'), (-2, 'driver'), (-3, 'overhead')) l(n, level) using (n)""")
    run("""create or replace temp table d as
        select *, reserved + 67108864 + beyond + 452984832 as process, cast($started as timestamp) + to_microseconds(rank) as began from t""")
    run("""create or replace temp table series as
        select part, capture, 0::bigint as device, level, (began + to_seconds(p * 1024))::timestamptz as time, 1073741824::bigint as width_us,
          ((case level when 'tensor' then tensors when 'reserved' then reserved else process end) * (1 + p % 4) // 4)::bigint as bytes
        from d cross join range($points) t(p) cross join (values ('tensor'), ('reserved'), ('process')) l(level)""")
    run("""create or replace temp table steps as
        select d.part, d.capture, 0::bigint as device, step as first_step, 1::bigint as steps,
          d.tensors - (1 << 20) * 64 - coalesce(plant.bytes, 0) + (hash($seed, step, d.rank) % 4 * 512)::bigint
            + case when step >= plant.since then plant.bytes else 0 end as bytes
        from d cross join range(1, $steps + 1) t(step) left join plant on plant.rank = d.rank and plant.metric = 'tensors'""")
    _failures(engine, job)
    run("""create or replace temp table ranks as
        select part, capture, 1 as schema, 'captures/report.rank' || rank || '.bin' as file, 'node-' || rank // 8 as host, 1000 + rank as pid,
          rank, $ranks as world_size, rank % 8 as local_rank, rank // 8 as node_rank, 0 as restarts, $run as job,
          case when $stages > 1 then 'dp=' || rank // $stages || ',pp=' || stage end as coordinates,
          case when $stages > 1 then 'pp=' || stage else '' end as peers, 'train.py' as program, $version as version, 0 as device,
          'GPU-' || rank as uuid, 'NVIDIA H100 80GB HBM3' as gpu, 85899345920 as card_bytes, began::timestamptz as started,
          (began + interval 10 hour)::timestamptz as ended, case when f.capture is null then 'clean' else 'out_of_memory' end as ending,
          f.wanted_bytes, tensors as tensor_peak_bytes, reserved as reserved_peak_bytes, process as process_peak_bytes,
          unexplained as unexplained_bytes, $steps as steps, 1000000 as events, true as exact, null as missing, '2.15.0' as pytorch,
          '3.12.1' as python, '13.0' as driver, '0.1.0' as recorder, 'native' as allocator, '' as allocator_settings
        from d left join (select distinct capture, wanted_bytes from failures) f using (capture)""")


def _failures(engine: duckdb.DuckDBPyConnection, job: Job) -> None:
    engine.execute("create or replace temp table failed (rank bigint, cause text)")
    if job.failures:
        engine.executemany("insert into failed values (?, ?)", job.failures)
    engine.execute("""create or replace temp table failures as
        select d.part, d.capture, 0::bigint as device, (began + interval 9 hour)::timestamptz as time, cause, true as raised,
          1073741824::bigint as wanted_bytes, 1048576::bigint as free_bytes, tensors as tensor_bytes, reserved as reserved_bytes,
          (select line_key from line where n = 0) as line_key, 40::bigint as step from failed join d using (rank)""")


def _write_part(engine: duckdb.DuckDBPyConnection, folder: Path, job: Job, part: int) -> None:
    name = hashlib.sha256(f"{job.run} {part}".encode()).hexdigest()[:32]
    labels = ", ".join("(?, ?)" for _ in job.labels)
    rows = {
        "ranks": "select * from ranks", "held": "select * from h", "series": "select * from series",
        "steps": "select * from steps", "failures": "select * from failures",
        "lines": f"select *, {part} as part from line",
        "frames": f"select line_key // 7 as stack_key, depth, case depth when 0 then 'main' else function end as function, file, line, "
                  f"library, {part} as part from line cross join range(2) t(depth) where n >= 0",
        "ledger": "select part, capture, 0 as device, 'peak' as moment, entry, null as owner, case entry when 'tensors' then tensors "
                  "else reserved - tensors end as bytes from d cross join (values ('tensors'), ('cached')) e(entry)",
    }  # fmt: skip
    if labels:
        rows["labels"] = f"select part, capture, key, value from d cross join (values {labels}) l(key, value)"
    for table, select in rows.items():
        columns = TABLES[table]["columns"]
        cast = {"TIMESTAMP": "TIMESTAMPTZ"}
        cells = ", ".join(f"cast({name} as {cast.get(kind, kind)}) as {name}" for name, kind in columns.items())
        values = [word for pair in job.labels for word in pair] if table == "labels" else []
        where = f"from ({select}) where part = {part}"
        if not engine.execute(f"select count(*) {where}", values).fetchall()[0][0]:
            continue
        path = folder / f"run={job.run}" / f"table={table}" / "node=several" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        target = str(path).replace("'", "''")
        order = ", ".join(TABLES[table]["sorted_by"])
        engine.execute(
            f"copy (select {cells} {where} order by {order}) to '{target}' (format parquet, compression zstd, row_group_size 122880)",
            values,
        )
