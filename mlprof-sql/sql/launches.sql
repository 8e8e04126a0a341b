-- Delay between the launch and the start of device work, by device
--
-- The rows include calls that began in the window, from the first to the last step without pauses,
-- as in `mlprof analyze`. The delay lasts from the end of a call to the start of its first work,
-- and is 0 if the work started earlier. A call counts once, even if it launches several pieces of
-- work. long_delays: number of delays above 100 µs.
with call as (
  select rank, cycle, correlation, ts, ts + dur as ends,
    row_number() over (partition by rank, cycle, correlation order by track_id, ts, id) as place
  from slices
  where category in ('cuda_runtime', 'cuda_driver') and correlation is not null
),
inside as (
  select c.rank, c.cycle, c.correlation, c.ends
  from call c join windows w on c.rank = w.rank and c.cycle = w.cycle and c.ts >= w.ts and c.ts <= w.ts + w.dur
  where c.place = 1
),
delays as (
  select k.rank, k.cycle, coalesce(t.device, -1) as device, greatest(min(k.ts) - max(c.ends), 0) as delay, count(*) as works
  from slices k
  join tracks t on k.rank = t.rank and k.cycle = t.cycle and k.track_id = t.track_id
  join inside c on k.rank = c.rank and k.cycle = c.cycle and k.correlation = c.correlation
  where t.kind = 'stream' and k.category in ('kernel', 'gpu_memcpy', 'gpu_memset')
  group by k.rank, k.cycle, coalesce(t.device, -1), k.correlation
),
placed as (
  select rank, cycle, device, delay, works, row_number() over (partition by rank, cycle, device order by delay) as place,
    count(*) over (partition by rank, cycle, device) as n
  from delays
)
select rank, cycle, device, max(n) as calls, cast(sum(works) as bigint) as launched,
  cast(floor(avg(case when 2 * place between n and n + 2 then delay end) + 0.5e0) as bigint) as delay_median_ns,
  max(delay) as delay_max_ns,
  cast(sum(case when delay > 100000 then 1 else 0 end) as bigint) as long_delays
from placed
group by rank, cycle, device
order by rank, cycle, device
