-- Recorded cycles and missing data of each rank
--
-- world_size: number of ranks in the training. there: number of ranks with a recording.
with there as (
  select count(distinct rank) as there from ranks
),
counted as (
  select rank, cycle, count(distinct step) as steps from steps group by rank, cycle
)
select r.rank, r.cycle, r.host, r.stage, r.world_size, t.there, coalesce(c.steps, 0) as steps, r.dropped, r.not_understood, r.cut_short
from ranks r cross join there t left join counted c on r.rank = c.rank and r.cycle = c.cycle
order by r.rank, r.cycle
