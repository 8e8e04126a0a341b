-- Time of the phases of a step, by rank
--
-- The phases add up to the steps.
with sums as (
  select rank, ord, phase, count(*) as steps, cast(sum(dur) as bigint) as total_ns, max(dur) as longest_ns
  from phases
  group by rank, ord, phase
)
select rank, phase, steps, total_ns, longest_ns,
  case when sum(total_ns) over (partition by rank) > 0
    then total_ns / cast(sum(total_ns) over (partition by rank) as double) else 0e0 end as share
from sums
order by rank, ord
