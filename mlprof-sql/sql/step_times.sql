-- Duration of each step on the median rank and on the slowest rank
--
-- The rows are in the order of the steps, so they show when the training became slower. Parts of an
-- interrupted step are added up.
with step_of_rank as (
  select coalesce(stage, '') as stage, cycle, step, rank, cast(sum(dur) as bigint) as dur
  from steps
  group by coalesce(stage, ''), cycle, step, rank
),
placed as (
  select stage, cycle, step, rank, dur, row_number() over (partition by stage, cycle, step order by dur, rank) as place,
    count(*) over (partition by stage, cycle, step) as n
  from step_of_rank
)
select stage, step, cycle, max(n) as ranks, min(dur) as shortest_ns,
  cast(floor(avg(case when 2 * place between n and n + 2 then dur end) + 0.5e0) as bigint) as median_ns, max(dur) as longest_ns,
  max(case when place = n then rank end) as slowest_rank
from placed
group by stage, step, cycle
order by stage, step, cycle
