-- How fast is memory copied, rank by rank and direction by direction?
--
-- Bytes per nanosecond are gigabytes per second; copies that ran at the same time are each counted.
select s.rank, s.name, count(*) as copies, cast(sum(s.bytes) as bigint) as bytes, cast(sum(s.dur) as bigint) as total_ns,
  case when sum(s.dur) > 0 then sum(s.bytes) / cast(sum(s.dur) as double) else 0e0 end as gb_per_s
from slices s
where s.category in ('gpu_memcpy', 'gpu_memset') and s.bytes is not null
group by s.rank, s.name
order by bytes desc, s.rank, s.name
