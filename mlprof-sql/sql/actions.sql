-- Time of the actions directly inside a step
--
-- The row without an action is the rest of the step.
with sums as (
  select action, count(*) as n, count(distinct rank) as ranks, cast(sum(dur) as bigint) as total_ns, max(dur) as longest_ns
  from stages
  group by action
)
select action, ranks, n, total_ns, longest_ns,
  case when sum(total_ns) over () > 0 then total_ns / cast(sum(total_ns) over () as double) else 0e0 end as share
from sums
order by total_ns desc, action
