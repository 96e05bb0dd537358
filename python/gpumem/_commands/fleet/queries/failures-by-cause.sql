-- Allocations that failed, by cause.
--
-- cause: text                The cause, as in `gpumem-analyze oom`.
-- raised: int                Failures that the program got.
-- retried: int               Failures after which PyTorch's allocator tried again.
-- runs: int                  Runs with such failures.
-- captures: int              Captures with such failures.
-- last_time: text            The time of the last one, ISO 8601 in UTC.
-- last_run: text             Its run.
-- last_rank: int?            Its rank.
-- line: text?                The line that requested most often.
-- most_wanted_bytes: int?    The largest request.
with
failed as (
  select r.run, r.rank, r.capture, f.time, coalesce(f.cause, 'unknown') as cause, f.raised, f.wanted_bytes, f.line_key
  from failures f join ranks r on f.run = r.run and f.capture = r.capture
),
sums as (
  select cause, count(case when raised then 1 end) as raised, count(case when not raised then 1 end) as retried,
    count(distinct run) as runs, count(distinct capture) as captures, max(wanted_bytes) as most_wanted_bytes
  from failed group by cause
),
newest as (
  select cause, time, run, rank, row_number() over (partition by cause order by time desc, run, rank, capture) as n from failed
),
asked as (
  select cause, line_key, count(*) as times from failed where line_key is not null group by cause, line_key
),
most_often as (
  select cause, line_key, row_number() over (partition by cause order by times desc, line_key) as n from asked
)
select s.cause, s.raised, s.retried, s.runs, s.captures, n.time as last_time, n.run as last_run, n.rank as last_rank, l.label as line,
  s.most_wanted_bytes
from sums s
join newest n on s.cause = n.cause and n.n = 1
left join most_often m on s.cause = m.cause and m.n = 1
left join lines l on m.line_key = l.line_key
order by s.raised desc, s.retried desc, s.cause
limit :top
