-- Forward and backward time of modules on threads and devices
--
-- self_ns: time on threads without nested modules. device_ns: time of the device work that the
-- modules launched themselves.
select m.module, cast(sum(m.n) as bigint) as calls, cast(sum(m.self) as bigint) as self_ns,
  cast(sum(m.device) as bigint) as device_ns, count(distinct m.rank) as ranks
from modules m
group by m.module
order by self_ns desc, m.module
