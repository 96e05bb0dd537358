-- Memory that PyTorch's allocator had and no tensor used: reserved - allocated, by job and hour.
--
-- run: text                  The run.
-- job: text?                 The job.
-- day: text                  The day in UTC, ISO 8601.
-- hour: int                  The hour, 0 to 23.
-- ranks: int                 Captures with figures in that hour.
-- most_bytes: int            The most of one capture, in a stretch of that hour.
-- mean_bytes: int            The mean over captures and stretches.
-- wasted_gib_hours: float    Bytes × time over all captures, in GiB × hours. Bytes are the greatest of each stretch, so it is a measure to compare jobs by.
with
pairs as (
  select r.run, r.job, r.capture, s.device, s.time, s.width_us,
    max(case when s.level = 'reserved' then s.bytes end) as reserved,
    max(case when s.level = 'tensor' then s.bytes end) as tensors
  from series s join ranks r on s.run = r.run and s.capture = r.capture
  where s.level in ('reserved', 'tensor')
  group by r.run, r.job, r.capture, s.device, s.time, s.width_us
),
wasted as (
  select run, job, cast(time as date) as day, extract(hour from time) as hour, capture, width_us, greatest(reserved - coalesce(tensors, 0), 0) as bytes
  from pairs where reserved is not null
)
select run, job, day, hour, count(distinct capture) as ranks, max(bytes) as most_bytes,
  cast(floor(sum(bytes) / count(*)) as bigint) as mean_bytes,
  floor(sum(cast(floor(bytes / 1048576e0 * width_us / 1000e0) as bigint)) / 3686400e0) / 1000e0 as wasted_gib_hours
from wasted
group by run, job, day, hour
order by wasted_gib_hours desc, run, day, hour
limit :top
