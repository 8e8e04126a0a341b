-- Which modules of the model take the time, forward and backward?
--
-- self_ns is time of their own on threads. What crosses the slice around it has none: it would be counted again.
select s.module, count(*) as slices, cast(sum(s.self_dur) as bigint) as self_ns, count(distinct s.rank) as ranks
from slices s
join tracks t on s.rank = t.rank and s.cycle = t.cycle and s.track_id = t.track_id
where s.module is not null and t.kind = 'thread' and t.parent_id is null
group by s.module
order by self_ns desc, s.module
