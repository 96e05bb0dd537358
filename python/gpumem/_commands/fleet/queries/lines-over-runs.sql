-- The lines that hold most memory of tensors at the peak of a rank, over all runs.
--
-- line: text?                The line.
-- file: text?                Its file.
-- text: text?                Its source code.
-- runs: int                  Runs in which it holds memory.
-- captures: int              Captures in which it holds memory.
-- most_bytes: int            The most that it holds in a capture.
-- run: text                  The run of that capture.
-- rank: int?                 The rank of that capture.
-- median_bytes: int          The median of the captures in which it holds memory; the lower of the two middle ones.
with
held_lines as (
  select r.run, r.rank, r.capture, h.line_key, cast(sum(h.bytes) as bigint) as bytes
  from held h join ranks r on h.run = r.run and h.capture = r.capture
  where h.moment = 'peak' and h.level = 'tensor'
  group by r.run, r.rank, r.capture, h.line_key
),
sums as (
  select line_key, count(distinct run) as runs, count(*) as captures, max(bytes) as most_bytes,
    cast(percentile_disc(0.5) within group (order by bytes) as bigint) as median_bytes
  from held_lines group by line_key
),
largest as (
  select * from sums order by most_bytes desc, line_key limit :top
),
holders as (
  select l.line_key, h.run, h.rank, row_number() over (partition by l.line_key order by h.run, h.rank, h.capture) as n
  from largest l join held_lines h on l.line_key = h.line_key and l.most_bytes = h.bytes
)
select n.label as line, n.file, n.text, l.runs, l.captures, l.most_bytes, h.run, h.rank, l.median_bytes
from largest l
join holders h on l.line_key = h.line_key and h.n = 1
left join lines n on l.line_key = n.line_key
order by l.most_bytes desc, l.line_key
