-- What a line holds by version of the code: versions in the order in which they first ran, and by how much each has more than the
-- one before it. A version in which a line holds nothing has a row with 0 bytes.
--
-- line: text?                The line.
-- version: text?             The version.
-- first_started: text        When the version first ran, ISO 8601 in UTC.
-- runs: int                  Its runs.
-- bytes: int                 Bytes of the line's tensors at the peak: the median of the version's captures, with 0 for those without it.
-- previous_version: text?    The version before.
-- grown_bytes: int           The difference from the version before.
with
versions as (
  select version, min(started) as first_started, count(distinct run) as runs, count(*) as captures
  from ranks group by version
),
ordered_versions as (
  select version, first_started, runs, captures, row_number() over (order by first_started, version) as n from versions
),
held_lines as (
  select r.version, r.run, r.capture, h.line_key, cast(sum(h.bytes) as bigint) as bytes
  from held h join ranks r on h.run = r.run and h.capture = r.capture
  where h.moment = 'peak' and h.level = 'tensor'
  group by r.version, r.run, r.capture, h.line_key
),
ordered as (
  select version, line_key, bytes, row_number() over (partition by version, line_key order by bytes) as n,
    count(*) over (partition by version, line_key) as holders
  from held_lines
),
middles as (
  select o.version, o.line_key, o.bytes
  from ordered o join versions v on o.version = v.version
  where o.n = floor((v.captures + 1) / 2) - (v.captures - o.holders)
),
keys as (
  select distinct line_key from held_lines
),
by_version as (
  select k.line_key, v.version, v.first_started, v.runs, v.n, coalesce(m.bytes, 0) as bytes
  from keys k
  cross join ordered_versions v
  left join middles m on k.line_key = m.line_key and v.version = m.version
)
select l.label as line, b.version, b.first_started, b.runs, b.bytes, a.version as previous_version, b.bytes - a.bytes as grown_bytes
from by_version b
join by_version a on b.line_key = a.line_key and b.n = a.n + 1
left join lines l on b.line_key = l.line_key
where b.bytes <> a.bytes
order by abs(b.bytes - a.bytes) desc, b.n, b.line_key
limit :top
