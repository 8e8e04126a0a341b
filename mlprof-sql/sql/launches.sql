-- How long does what is launched wait until it begins, device by device?
--
-- delay: from the end of the call to the beginning of its first work; 0 where that came first. A call counts once, however
-- much it launches. long_delays: above 100 µs.
with call as (
  select rank, cycle, correlation, min(id) as id
  from slices
  where category in ('cuda_runtime', 'cuda_driver') and correlation is not null
  group by rank, cycle, correlation
),
delays as (
  select k.rank, k.cycle, coalesce(t.device, -1) as device, greatest(min(k.ts) - max(c.ts + c.dur), 0) as delay,
    count(*) as works
  from slices k
  join tracks t on k.rank = t.rank and k.cycle = t.cycle and k.track_id = t.track_id
  join call n on k.rank = n.rank and k.cycle = n.cycle and k.correlation = n.correlation
  join slices c on c.rank = n.rank and c.cycle = n.cycle and c.id = n.id
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
