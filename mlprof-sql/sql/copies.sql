-- How fast is memory copied, rank by rank and direction by direction?
--
-- Bytes per nanosecond are gigabytes per second. busy_ns is the time in which any of the copies of a device ran: those that
-- ran at the same time count once. Copies without a duration have no speed and are left out.
with copied as (
  select s.rank, s.cycle, coalesce(t.device, -1) as device, s.name, s.ts, s.ts + s.dur as ends, s.bytes,
    max(s.ts + s.dur) over (
      partition by s.rank, s.cycle, coalesce(t.device, -1), s.name order by s.ts, s.id
      rows between unbounded preceding and 1 preceding
    ) as busy_until
  from slices s join tracks t on s.rank = t.rank and s.cycle = t.cycle and s.track_id = t.track_id
  where s.category in ('gpu_memcpy', 'gpu_memset') and s.bytes is not null and s.dur > 0
),
sums as (
  select rank, name, count(*) as copies, cast(sum(bytes) as bigint) as bytes, cast(sum(ends - ts) as bigint) as total_ns,
    cast(sum(
      case when ends > greatest(ts, coalesce(busy_until, ts)) then ends - greatest(ts, coalesce(busy_until, ts)) else 0 end
    ) as bigint) as busy_ns
  from copied
  group by rank, name
)
select rank, name, copies, bytes, total_ns, busy_ns, bytes / cast(busy_ns as double) as gb_per_s
from sums
order by bytes desc, rank, name
