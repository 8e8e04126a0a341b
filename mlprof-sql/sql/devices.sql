-- Device time between the first and the last step: computation, communication, copies and idle time
--
-- The definitions are those of `mlprof analyze`. Communication excludes the time hidden behind
-- computation, and memory excludes the time hidden behind either. The parts add up exactly to the
-- window. Without steps, the window is the whole trace. It excludes pauses of the recording.
with work as (
  select s.rank, s.cycle, coalesce(t.device, -1) as device, s.ts, s.ts + s.dur as until, s.work as kind
  from slices s
  join tracks t on s.rank = t.rank and s.cycle = t.cycle and s.track_id = t.track_id
  where t.kind = 'stream' and s.category in ('kernel', 'gpu_memcpy', 'gpu_memset')
),
inside as (
  select k.rank, k.cycle, k.device, k.kind, greatest(k.ts, w.ts) as ts, least(k.until, w.ts + w.dur) as until
  from work k
  join windows w on k.rank = w.rank and k.cycle = w.cycle and k.ts < w.ts + w.dur and k.until > w.ts
  where k.ts < k.until
),
edges as (
  select rank, cycle, device, kind, ts, 1 as edge from inside
  union all
  select rank, cycle, device, kind, until as ts, -1 as edge from inside
),
times as (
  select rank, cycle, device, ts, sum(case when kind = 'compute' then edge else 0 end) as compute,
    sum(case when kind = 'communication' then edge else 0 end) as communication,
    sum(case when kind = 'memory' then edge else 0 end) as memory
  from edges
  group by rank, cycle, device, ts
),
running as (
  select rank, cycle, device, ts, lead(ts) over (partition by rank, cycle, device order by ts) - ts as dur,
    sum(compute) over (partition by rank, cycle, device order by ts rows between unbounded preceding and current row) as compute,
    sum(communication) over (partition by rank, cycle, device order by ts rows between unbounded preceding and current row) as communication,
    sum(memory) over (partition by rank, cycle, device order by ts rows between unbounded preceding and current row) as memory
  from times
),
sums as (
  select rank, cycle, device, min(ts) as first, max(ts) as last,
    cast(sum(case when compute > 0 then dur else 0 end) as bigint) as compute_ns,
    cast(sum(case when compute = 0 and communication > 0 then dur else 0 end) as bigint) as exposed_communication_ns,
    cast(sum(case when compute = 0 and communication = 0 and memory > 0 then dur else 0 end) as bigint) as exposed_memory_ns
  from running
  group by rank, cycle, device
),
devices as (
  select distinct rank, cycle, device from work
),
-- A device without work in the window counts as idle before its work, not after it.
idle as (
  select d.rank, d.cycle, d.device, cast(sum(w.dur) as bigint) as window_ns,
    cast(sum(case
      when s.first is null or s.first >= w.ts + w.dur then w.dur
      when s.first > w.ts then s.first - w.ts
      else 0 end) as bigint) as idle_before_ns,
    cast(sum(case
      when s.last is null or s.last >= w.ts + w.dur then 0
      when s.last > w.ts then w.ts + w.dur - s.last
      else w.dur end) as bigint) as idle_after_ns
  from devices d
  join windows w on d.rank = w.rank and d.cycle = w.cycle
  left join sums s on d.rank = s.rank and d.cycle = s.cycle and d.device = s.device
  group by d.rank, d.cycle, d.device
)
select i.rank, i.cycle, i.device, i.window_ns, coalesce(s.compute_ns, 0) as compute_ns,
  coalesce(s.exposed_communication_ns, 0) as exposed_communication_ns, coalesce(s.exposed_memory_ns, 0) as exposed_memory_ns,
  i.idle_before_ns,
  i.window_ns - i.idle_before_ns - i.idle_after_ns - coalesce(s.compute_ns, 0) - coalesce(s.exposed_communication_ns, 0)
    - coalesce(s.exposed_memory_ns, 0) as idle_between_ns,
  i.idle_after_ns
from idle i left join sums s on i.rank = s.rank and i.cycle = s.cycle and i.device = s.device
order by i.rank, i.cycle, i.device
