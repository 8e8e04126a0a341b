-- Time waiting for data, by rank
with step_of_rank as (
  select rank, cycle, coalesce(stage, '') as stage, step, sum(dur) as dur, sum(waiting_for_data) as waiting
  from steps
  group by rank, cycle, coalesce(stage, ''), step
),
sums as (
  select rank, count(*) as steps, cast(sum(dur) as bigint) as steps_ns, cast(sum(waiting) as bigint) as waiting_ns,
    cast(max(waiting) as bigint) as longest_ns
  from step_of_rank
  group by rank
)
select rank, steps, steps_ns, waiting_ns, longest_ns,
  case when steps_ns > 0 then waiting_ns / cast(steps_ns as double) else 0e0 end as share
from sums
order by waiting_ns desc, rank
