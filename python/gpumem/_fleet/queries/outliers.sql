-- Ranks that differ from their peers: by how much, since which step, and on which lines.
--
-- Peers are ranks of a run that differ in their data alone (ranks.peers). A rank differs if a figure is farther from its peers'
-- median than 5 x 1.4826 x the median of their distances from it, 1 % of the median of what holds such memory, and 2 MiB. It is the
-- rule of `gpumem-analyze ranks`. The median is the lower of the two middle ones.
--
-- run, rank, peers       the rank, and what its peers share
-- metric                 tensors, cache (of PyTorch's allocator), outside (of it) or unexplained (NVML saw it)
-- bytes, median_bytes, off_bytes, peer_count   the rank's figure, its peers' median, the difference, and how many they are
-- since_step, until_step the step in which it began to differ lies between these
-- place, line            a line that makes the difference, the first one first
-- line_bytes, line_median_bytes, line_off_bytes  what it holds at the peak, the median of the peers, the difference
-- Each part names few others: Spark puts a part's text wherever it is named, and parts of parts would multiply.
with
started_last as (
  select *, max(started) over (partition by run, rank) as newest from ranks where rank is not null
),
-- Of several captures of a rank the one with most tensors, among those that ran when the newest began.
numbered as (
  select *, row_number() over (
    partition by run, rank
    order by case when ended >= newest then 0 else 1 end, tensor_peak_bytes desc, process_peak_bytes desc, started desc, capture
  ) as n
  from started_last
),
metrics as (
  select 'tensors' as metric union all select 'cache' union all select 'outside' union all select 'unexplained'
),
figures as (
  select r.run, r.rank, r.peers, r.capture, r.device, m.metric,
    case m.metric
      when 'tensors' then r.tensor_peak_bytes
      when 'cache' then greatest(r.reserved_peak_bytes - r.tensor_peak_bytes, 0)
      when 'outside' then greatest(r.process_peak_bytes - r.reserved_peak_bytes, 0)
      else r.unexplained_bytes
    end as bytes,
    case m.metric when 'tensors' then r.tensor_peak_bytes when 'cache' then r.reserved_peak_bytes else r.process_peak_bytes end as whole
  from numbered r cross join metrics m
  where r.n = 1
),
-- Medians: the middle one of those in order.
in_order as (
  select *, count(*) over (partition by run, peers, metric) as members, count(bytes) over (partition by run, peers, metric) as peer_count,
    row_number() over (partition by run, peers, metric order by bytes nulls last) as n,
    row_number() over (partition by run, peers, metric order by whole) as whole_n
  from figures
),
middles as (
  select run, rank, peers, capture, device, metric, bytes, members, peer_count,
    max(case when n = floor((peer_count + 1) / 2) then bytes end) over (partition by run, peers, metric) as median_bytes,
    max(case when whole_n = floor((members + 1) / 2) then whole end) over (partition by run, peers, metric) as median_whole
  from in_order
),
distances as (
  select *, row_number() over (partition by run, peers, metric order by abs(bytes - median_bytes) nulls last) as n from middles
),
spreads as (
  select *, greatest(2097152, cast(floor(median_whole / 100) as bigint)) as least,
    max(case when n = floor((peer_count + 1) / 2) then abs(bytes - median_bytes) end) over (partition by run, peers, metric) as deviation
  from distances
),
judged as (
  select run, rank, peers, capture, device, metric, bytes, members, peer_count, median_bytes, least, bytes - median_bytes as off_bytes,
    coalesce(abs(bytes - median_bytes) > greatest(least, cast(ceil(5e0 * 1.4826e0 * deviation) as bigint)), false) as differs
  from spreads
),
placed as (
  select *, differs and row_number() over (
    order by case when differs then 0 else 1 end, abs(off_bytes) desc, run, rank, metric
  ) <= :top as is_off
  from judged
),
-- All figures of groups in which one is off.
compared as (
  select * from (
    select *, max(case when is_off then 1 else 0 end) over (partition by run, peers, metric) as has_off from placed
  ) g where has_off = 1
),
-- Steps, in stretches as wide as those of the peer that has the widest.
walks as (
  select c.run, c.peers, c.rank, s.first_step, s.steps, s.bytes, max(s.steps) over (partition by c.run, c.peers) as width
  from steps s join compared c on s.run = c.run and s.capture = c.capture and s.device = c.device
  where c.metric = 'tensors'
),
stretches as (
  select run, peers, rank, first_step - (first_step - 1) % width as first_step, width, max(bytes) as bytes
  from walks
  group by run, peers, rank, first_step - (first_step - 1) % width, width
  having sum(steps) = width
),
step_middles as (
  select run, peers, first_step, cast(percentile_disc(0.5) within group (order by bytes) as bigint) as median_bytes
  from stretches group by run, peers, first_step
),
step_spreads as (
  select m.run, m.peers, m.first_step, m.median_bytes,
    cast(percentile_disc(0.5) within group (order by abs(s.bytes - m.median_bytes)) as bigint) as deviation
  from stretches s join step_middles m on s.run = m.run and s.peers = m.peers and s.first_step = m.first_step
  group by m.run, m.peers, m.first_step, m.median_bytes
),
course as (
  select o.run, o.rank, s.first_step, s.width, abs(s.bytes - m.median_bytes) > o.least as is_far,
    (s.bytes - m.median_bytes) * sign(o.off_bytes) > cast(ceil(5e0 * 1.4826e0 * m.deviation) as bigint) as goes_off
  from compared o
  join stretches s on o.run = s.run and o.rank = s.rank
  join step_spreads m on s.run = m.run and s.peers = m.peers and s.first_step = m.first_step
  where o.is_off and o.metric = 'tensors'
),
far as (
  select *, min(case when goes_off and is_far then first_step end) over (partition by run, rank) as first_far from course
),
near as (
  select *, max(case when not goes_off and first_step < first_far then first_step else 0 end) over (partition by run, rank) as last_near
  from far
),
began as (
  select run, rank, min(first_step) as since_step, min(first_step) + max(width) - 1 as until_step
  from near where goes_off and first_far is not null and first_step > last_near
  group by run, rank
),
-- What those that are off and their peers hold. A line is looked at closely only if it can make a twentieth of a difference:
-- its peers' median lies between the sums of the least and of the greatest that any of them holds of its modules and categories.
levels as (
  select 'tensors' as metric, 'tensor' as level
  union all select 'cache', 'pool'
  union all select 'outside', 'driver'
  union all select 'outside', 'overhead'
),
holders as (
  select c.run, c.peers, c.rank, c.metric, c.is_off, c.off_bytes, c.members, c.capture, c.device, l.level
  from compared c join levels l on c.metric = l.metric
),
parts as (
  select p.run, p.peers, p.metric, p.level, h.line_key,
    case when count(*) < max(p.members) then 0 else min(h.bytes) end as least, max(h.bytes) as most
  from held h join holders p on h.run = p.run and h.capture = p.capture and h.device = p.device and h.level = p.level
  where h.moment = 'peak'
  group by p.run, p.peers, p.metric, p.level, h.line_key, h.category, h.module
),
ranges as (
  select run, peers, metric, level, line_key, cast(sum(least) as bigint) as least, cast(sum(most) as bigint) as most
  from parts group by run, peers, metric, level, line_key
),
own as (
  select p.run, p.rank, p.metric, p.level, h.line_key, cast(sum(h.bytes) as bigint) as bytes
  from held h join holders p on h.run = p.run and h.capture = p.capture and h.device = p.device and h.level = p.level
  where h.moment = 'peak' and p.is_off
  group by p.run, p.rank, p.metric, p.level, h.line_key
),
candidates as (
  select p.run, p.peers, p.rank, p.metric, p.off_bytes, p.members, r.level, r.line_key, coalesce(w.bytes, 0) as bytes
  from holders p
  join ranges r on p.run = r.run and p.peers = r.peers and p.metric = r.metric and p.level = r.level
  left join own w on p.run = w.run and p.rank = w.rank and p.metric = w.metric and r.level = w.level and r.line_key = w.line_key
  where p.is_off and greatest(coalesce(w.bytes, 0) - r.least, r.most - coalesce(w.bytes, 0)) > abs(p.off_bytes) / 20
),
closely as (
  select p.run, p.peers, p.metric, p.level, p.rank, h.line_key, cast(sum(h.bytes) as bigint) as bytes
  from held h join holders p on h.run = p.run and h.capture = p.capture and h.device = p.device and h.level = p.level
  where h.moment = 'peak' and h.line_key in (select line_key from candidates)
  group by p.run, p.peers, p.metric, p.level, p.rank, h.line_key
),
shares as (
  select c.run, c.rank, c.metric, c.off_bytes, c.members, c.level, c.line_key, c.bytes as own_bytes, h.bytes
  from candidates c
  join closely h on c.run = h.run and c.peers = h.peers and c.metric = h.metric and c.level = h.level and c.line_key = h.line_key
),
share_order as (
  select *, row_number() over (partition by run, rank, metric, level, line_key order by bytes) as n,
    count(*) over (partition by run, rank, metric, level, line_key) as having_it
  from shares
),
-- A peer without a line holds 0 bytes of it, so the middle one may be no row.
line_middles as (
  select run, rank, metric, off_bytes, level, line_key, own_bytes as bytes,
    max(case when n = floor((members + 1) / 2) - (members - having_it) then bytes else 0 end) as median_bytes
  from share_order
  group by run, rank, metric, off_bytes, level, line_key, own_bytes
),
differences as (
  select *, row_number() over (partition by run, rank, metric order by abs(bytes - median_bytes) desc, line_key) as place
  from line_middles
  where abs(bytes - median_bytes) > abs(off_bytes) / 20
)
select o.run, o.rank, o.peers, o.metric, o.bytes, o.median_bytes, o.off_bytes, o.peer_count, s.since_step, s.until_step,
  d.place, l.label as line, d.bytes as line_bytes, d.median_bytes as line_median_bytes, d.bytes - d.median_bytes as line_off_bytes
from compared o
left join began s on o.run = s.run and o.rank = s.rank and o.metric = 'tensors'
left join differences d on o.run = d.run and o.rank = d.rank and o.metric = d.metric and d.place <= 5
left join lines l on d.line_key = l.line_key
where o.is_off
order by abs(o.off_bytes) desc, o.run, o.rank, o.metric, d.place
