-- How long did each step take, in the middle of the ranks and on the slowest one?
--
-- In the order of steps: what became slower, and when.
with placed as (
  select coalesce(stage, '') as stage, step, rank, dur,
    row_number() over (partition by coalesce(stage, ''), step order by dur, rank) as place,
    count(*) over (partition by coalesce(stage, ''), step) as n
  from steps
)
select stage, step, max(n) as ranks, min(dur) as shortest_ns,
  max(case when 2 * place = n or 2 * place = n + 1 then dur end) as median_ns, max(dur) as longest_ns,
  max(case when place = n then rank end) as slowest_rank
from placed
group by stage, step
order by stage, step
