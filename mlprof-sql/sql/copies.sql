-- Speed of memory copies and fills, by rank and direction
--
-- The rows include copies that began in the window, from the first to the last step without pauses,
-- like the devices in `mlprof analyze`. busy_ns: time in which any copy of a device ran;
-- simultaneous copies count once. gb_per_s: bytes per nanosecond of the copies whose bytes and
-- duration are known. unknown: number of copies without a size.
with copied as (
  select s.rank, s.cycle, coalesce(t.device, -1) as device, s.name, s.id, s.ts, s.ts + s.dur as ends, s.bytes,
    case when s.bytes is not null and s.dur > 0 then 1 else 0 end as is_timed
  from slices s
  join tracks t on s.rank = t.rank and s.cycle = t.cycle and s.track_id = t.track_id
  join windows w on s.rank = w.rank and s.cycle = w.cycle and s.ts >= w.ts and s.ts <= w.ts + w.dur
  where t.kind = 'stream' and s.category in ('gpu_memcpy', 'gpu_memset')
),
busy as (
  select rank, name, bytes, is_timed, ts, ends,
    max(ends) over (
      partition by rank, cycle, device, name order by ts, id rows between unbounded preceding and 1 preceding
    ) as busy_until,
    max(case when is_timed = 1 then ends end) over (
      partition by rank, cycle, device, name order by ts, id rows between unbounded preceding and 1 preceding
    ) as timed_until
  from copied
),
added as (
  select rank, name, bytes, is_timed, ends - ts as dur,
    greatest(ends - greatest(ts, coalesce(busy_until, ts)), 0) as busy,
    case when is_timed = 1 then greatest(ends - greatest(ts, coalesce(timed_until, ts)), 0) else 0 end as timed
  from busy
),
sums as (
  select rank, name, count(*) as copies, count(*) - count(bytes) as unknown, cast(sum(bytes) as bigint) as bytes,
    cast(sum(dur) as bigint) as total_ns, cast(sum(busy) as bigint) as busy_ns,
    cast(sum(case when is_timed = 1 then bytes else 0 end) as bigint) as timed_bytes, cast(sum(timed) as bigint) as timed_ns
  from added
  group by rank, name
)
select rank, name, copies, unknown, bytes, total_ns, busy_ns,
  case when timed_ns > 0 then timed_bytes / cast(timed_ns as double) end as gb_per_s
from sums
order by busy_ns desc, rank, name
