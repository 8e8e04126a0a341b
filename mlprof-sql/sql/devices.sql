-- What do devices do from the first to the last step: compute, communicate, copy, idle?
--
-- As `mlprof analyze` says it. Communication is what is not hidden behind computing, memory what is hidden behind neither;
-- all parts together are the window, to the nanosecond. Without steps the window is the whole trace.
with trace_window as (
  select rank, cycle, min(ts) as begins, max(ts + dur) as ends from slices group by rank, cycle
),
step_window as (
  select rank, cycle, min(ts) as begins, max(ts + dur) as ends from steps group by rank, cycle
),
windows as (
  select w.rank, w.cycle, coalesce(s.begins, w.begins) as begins, coalesce(s.ends, w.ends) as ends
  from trace_window w left join step_window s on w.rank = s.rank and w.cycle = s.cycle
),
work as (
  select s.rank, s.cycle, coalesce(t.device, -1) as device, w.begins, w.ends, greatest(s.ts, w.begins) as ts,
    least(s.ts + s.dur, w.ends) as until, s.work as kind
  from slices s
  join tracks t on s.rank = t.rank and s.cycle = t.cycle and s.track_id = t.track_id
  join windows w on s.rank = w.rank and s.cycle = w.cycle
  where t.kind = 'stream' and s.work is not null
),
devices as (
  select rank, cycle, device, min(begins) as begins, min(ends) as ends from work group by rank, cycle, device
),
edges as (
  select rank, cycle, device, kind, ts, 1 as edge from work where ts < until
  union all
  select rank, cycle, device, kind, until as ts, -1 as edge from work where ts < until
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
    cast(sum(case when compute = 0 and communication = 0 and memory > 0 then dur else 0 end) as bigint) as exposed_memory_ns,
    cast(sum(case when compute = 0 and communication = 0 and memory = 0 then dur else 0 end) as bigint) as idle_between_ns
  from running
  group by rank, cycle, device
)
select d.rank, d.cycle, d.device, d.ends - d.begins as window_ns, coalesce(s.compute_ns, 0) as compute_ns,
  coalesce(s.exposed_communication_ns, 0) as exposed_communication_ns, coalesce(s.exposed_memory_ns, 0) as exposed_memory_ns,
  coalesce(s.first, d.ends) - d.begins as idle_before_ns, coalesce(s.idle_between_ns, 0) as idle_between_ns,
  d.ends - coalesce(s.last, d.ends) as idle_after_ns
from devices d left join sums s on d.rank = s.rank and d.cycle = s.cycle and d.device = s.device
order by d.rank, d.cycle, d.device
