-- Share of communication and copies that overlaps with computation, by device
--
-- The definitions and the window are those of the query `devices`. total_ns: time in which any
-- communication or copy ran. hidden_ns: the part of it in which the device also computed.
with work as (
  select s.rank, s.cycle, coalesce(t.device, -1) as device, s.work as kind, greatest(s.ts, w.ts) as ts,
    least(s.ts + s.dur, w.ts + w.dur) as until
  from slices s
  join tracks t on s.rank = t.rank and s.cycle = t.cycle and s.track_id = t.track_id
  join windows w on s.rank = w.rank and s.cycle = w.cycle and s.ts < w.ts + w.dur and s.ts + s.dur > w.ts
  where t.kind = 'stream' and s.category in ('kernel', 'gpu_memcpy', 'gpu_memset') and s.dur > 0
),
edges as (
  select rank, cycle, device, kind, ts, 1 as edge from work
  union all
  select rank, cycle, device, kind, until as ts, -1 as edge from work
),
times as (
  select rank, cycle, device, ts, sum(case when kind = 'compute' then edge else 0 end) as compute,
    sum(case when kind = 'communication' then edge else 0 end) as communication,
    sum(case when kind = 'memory' then edge else 0 end) as memory
  from edges
  group by rank, cycle, device, ts
),
running as (
  select rank, cycle, device, lead(ts) over (partition by rank, cycle, device order by ts) - ts as dur,
    sum(compute) over (partition by rank, cycle, device order by ts rows between unbounded preceding and current row) as compute,
    sum(communication) over (partition by rank, cycle, device order by ts rows between unbounded preceding and current row) as communication,
    sum(memory) over (partition by rank, cycle, device order by ts rows between unbounded preceding and current row) as memory
  from times
),
sums as (
  select rank, cycle, device, 'communication' as kind,
    cast(sum(case when communication > 0 then dur else 0 end) as bigint) as total_ns,
    cast(sum(case when communication > 0 and compute > 0 then dur else 0 end) as bigint) as hidden_ns
  from running
  group by rank, cycle, device
  union all
  select rank, cycle, device, 'memory' as kind,
    cast(sum(case when memory > 0 then dur else 0 end) as bigint) as total_ns,
    cast(sum(case when memory > 0 and compute > 0 then dur else 0 end) as bigint) as hidden_ns
  from running
  group by rank, cycle, device
)
select rank, cycle, device, kind, total_ns, hidden_ns, hidden_ns / cast(total_ns as double) as share
from sums
where total_ns > 0
order by rank, cycle, device, kind
