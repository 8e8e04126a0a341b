-- Which ranks wait for data, and how long?
with sums as (
  select rank, count(*) as steps, cast(sum(dur) as bigint) as steps_ns, cast(sum(waiting_for_data) as bigint) as waiting_ns,
    max(waiting_for_data) as longest_ns
  from steps
  group by rank
)
select rank, steps, steps_ns, waiting_ns, longest_ns,
  case when steps_ns > 0 then waiting_ns / cast(steps_ns as double) else 0e0 end as share
from sums
order by waiting_ns desc, rank
