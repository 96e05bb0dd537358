-- Who holds most: the largest holders of GPU memory by a label, as the team that `--label team=NAME` gave at ingest.
--
-- owner: text?               The label's value; `null`: captures without the label.
-- runs: int                  Their runs.
-- captures: int              Their number.
-- most_bytes: int?           The greatest memory of one process.
-- reserved_bytes: int?       The sum of the peaks of reserved memory.
-- tensor_bytes: int?         The sum of the peaks of tensors.
-- line: text?                The line that holds most.
-- line_bytes: int?           The sum of what the line holds at the peaks.
with
owned as (
  select r.run, r.capture, l.value as owner, r.process_peak_bytes, r.reserved_peak_bytes, r.tensor_peak_bytes
  from ranks r left join labels l on r.run = l.run and r.capture = l.capture and l.key = :label
),
sums as (
  select owner, count(distinct run) as runs, count(*) as captures, max(process_peak_bytes) as most_bytes,
    cast(sum(reserved_peak_bytes) as bigint) as reserved_bytes, cast(sum(tensor_peak_bytes) as bigint) as tensor_bytes
  from owned group by owner
),
held_lines as (
  select o.owner, h.line_key, cast(sum(h.bytes) as bigint) as bytes
  from held h join owned o on h.run = o.run and h.capture = o.capture
  where h.moment = 'peak' and h.level = 'tensor'
  group by o.owner, h.line_key
),
largest as (
  select owner, line_key, bytes, row_number() over (partition by owner order by bytes desc, line_key) as n from held_lines
)
select s.owner, s.runs, s.captures, s.most_bytes, s.reserved_bytes, s.tensor_bytes, n.label as line, l.bytes as line_bytes
from sums s
left join largest l on coalesce(s.owner, '') = coalesce(l.owner, '') and l.n = 1
left join lines n on l.line_key = n.line_key
order by s.reserved_bytes desc, s.owner nulls last
limit :top
