-- Forward and backward time of modules on threads and devices
--
-- self_ns is time of their own on threads, device_ns that of what they launched.
select m.module, cast(sum(m.n) as bigint) as calls, cast(sum(m.self) as bigint) as self_ns,
  cast(sum(m.device) as bigint) as device_ns, count(distinct m.rank) as ranks
from modules m
group by m.module
order by self_ns desc, m.module
